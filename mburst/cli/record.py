"""`mburst record`: a capture file or interface into the store."""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import privileges
from ..errors import MburstError, UsageError
from ..names import shown
from ..units import format_bytes, format_duration, format_rate, format_share, parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from ..recorder import Recorded
    from ..recording import Live, Progress, Recording, Row

NARROWEST_NS, WIDEST_NS = 10_000, 1_000_000_000


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "record",
        help="record capture files or an interface into a store",
        description="Count packets into bins, with who sent them, and keep them in a store. From capture files: pcap "
        "and pcapng, also as .gz, .zst or .xz; - is standard input; several are one capture, merged by time. Or from a "
        "network interface, until Ctrl-C.",
    )
    parser.add_argument("inputs", nargs="+", metavar="FILE|INTERFACE|FILTER",
                        help="files or an interface, then a pcap filter if any")
    parser.add_argument("-f", "--filter", default="", metavar="FILTER", help="a pcap filter, in one word for the shell")
    parser.add_argument("-o", "--store", required=True, metavar="STORE",
                        help="folder of the store; made where there is none")
    add_recording_options(parser)
    parser.add_argument("--json", action="store_true", help="print the rows of runs, one a line")
    add_live_options(parser)
    add_user_option(parser)
    parser.set_defaults(run=run)


def add_recording_options(parser: argparse.ArgumentParser) -> None:
    """What to count, and how."""
    parser.add_argument("--link", metavar="RATE", help="speed of the link in one direction, such as 1G")
    parser.add_argument("--bin", default="100us", metavar="WIDTH", help="10us to 1s (default: %(default)s)")
    parser.add_argument("--source-bin", default="1ms", metavar="WIDTH",
                        help="bin in which senders are counted (default: %(default)s)")
    parser.add_argument("--host", help="name of the host that received the packets (default: unknown; live: this one)")
    parser.add_argument("--rack", default="unknown", help="name of its rack")
    parser.add_argument("--interface", metavar="NAME",
                        help="name of the interface (default: what the capture says, or its file's name)")
    parser.add_argument("--direction", choices=["in", "out", "both"], default="both",
                        help="which direction to keep (default: %(default)s, apart from each other)")
    parser.add_argument("--local", action="append", default=[], metavar="ADDRESS|MAC",
                        help="an address of this host, which tells in from out; may be repeated")
    parser.add_argument("--max-sources", type=int, default=4096, metavar="N",
                        help="senders in a bin that are counted apart (default: %(default)s)")
    parser.add_argument("--window", default="2ms", metavar="TIME",
                        help="how far out of order packets may come (default: %(default)s)")
    parser.add_argument("--inner", action="store_true", help="senders are the innermost addresses of tunnels")
    parser.add_argument("--mtu", type=int, default=-1, metavar="BYTES",
                        help="larger IP packets are merged frames (default: inferred; 0: none are)")
    parser.add_argument("--spread", action="store_true",
                        help="lay merged frames back over the time that they took at line rate; needs --link")


def add_user_option(parser: argparse.ArgumentParser, default: str = "the store's owner") -> None:
    """Who to be once everything is open."""
    parser.add_argument("--user", metavar="NAME",
                        help=f"started as root, work as this user once sockets are open (default: {default})")


def add_live_options(parser: argparse.ArgumentParser) -> None:
    """What holds for interfaces only."""
    live = parser.add_argument_group("from an interface")
    live.add_argument("--duration", metavar="TIME", help="how long, such as 60s (default: until Ctrl-C)")
    live.add_argument("--backend", choices=["auto", "file", "afpacket", "libpcap", "pfring"], default="auto",
                      help="how to capture; `mburst doctor` says which can run here (default: %(default)s)")
    live.add_argument("--stamps", choices=["auto", "hw", "sw"], default="auto",
                      help="the interface's, the kernel's, or the better that serves (default: %(default)s)")
    live.add_argument("--threads", type=int, default=1, metavar="N",
                      help="rings that share the load, each with a thread of its own (default: %(default)s)")
    live.add_argument("--ring", metavar="SIZE", help="kernel buffer of each ring, such as 256MiB (default: 64MiB)")
    live.add_argument("--snaplen", type=int, default=0, metavar="BYTES",
                      help="of each frame that are looked at (default: 128)")
    live.add_argument("--no-promiscuous", action="store_true", help="only frames for this host")
    live.add_argument("--cluster", type=int, default=0, metavar="ID", help="PF_RING cluster to share the load in")
    live.add_argument("--force", action="store_true", help="record fine bins though the stamps are too coarse for them")


def split_inputs(inputs: list[str]) -> tuple[list[str], str]:
    """Files that exist, and what follows them as one filter expression."""
    files = []
    for name in inputs:
        if name != "-" and not _is_file(name):
            break
        files.append(name)
    rest = inputs[len(files) :]
    return (files, " ".join(rest)) if files else (rest[:1], " ".join(rest[1:]))


def _is_file(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a filter may be longer than any name
        return False


def filter_of(arguments: argparse.Namespace, words: str) -> str:
    """The filter of --filter, which `mburst record` has, or WORDS behind the files. Raises UsageError for both."""
    named = str(getattr(arguments, "filter", "") or "")
    if named and words:
        raise UsageError(f"two filters: {named!r} and {words!r}", "join them with `and`")
    return named or words


def _explained(error: MburstError, expression: str) -> MburstError:
    """The same, or what is more likely where a word of the filter looks like the name of a file."""
    names = [word for word in expression.split() if re.search(r"\.[A-Za-z]\w*$", word) and not _is_file(word)]
    if not names or not str(error).startswith(f"filter '{expression}'"):
        return error
    return MburstError(f"{names[0]}: there is no such file, and as a filter it cannot be compiled",
                       "files come first, a filter behind them or with --filter")


def _live(arguments: argparse.Namespace) -> Live:
    from ..recording import Live

    if arguments.snaplen < 0 or arguments.threads < 1 or arguments.cluster < 0:
        raise UsageError("--snaplen, --threads and --cluster cannot be negative, and there is at least one thread")
    return Live(
        duration_ns=parse_duration(arguments.duration) if arguments.duration else None,
        snaplen=arguments.snaplen,
        threads=arguments.threads,
        ring_bytes=parse_size(arguments.ring) if arguments.ring else 0,
        stamps=arguments.stamps,
        promiscuous=not arguments.no_promiscuous,
        cluster=arguments.cluster,
        force=arguments.force,
    )


def _width(text: str, what: str) -> int:
    width = parse_duration(text)
    if not NARROWEST_NS <= width <= WIDEST_NS:
        raise UsageError(f"{what} of {text} is not between 10us and 1s")
    return width


def recording_of(arguments: argparse.Namespace) -> Recording:
    """What the options ask for. A live recording without --host is of this host. Raises UsageError."""
    from ..recording import Recording, is_live

    files, words = split_inputs(arguments.inputs)
    link_bps = parse_rate(arguments.link) if arguments.link else None
    if arguments.spread and not link_bps:
        raise UsageError("--spread needs the speed of the link", "give --link")
    if arguments.max_sources < 1:
        raise UsageError("--max-sources must be at least 1")
    recording = Recording(
        targets=files,
        link_bps=link_bps,
        bin_ns=_width(arguments.bin, "--bin"),
        source_bin_ns=_width(arguments.source_bin, "--source-bin"),
        window_ns=parse_duration(arguments.window),
        host=arguments.host or "unknown",
        rack=arguments.rack,
        interface=arguments.interface,
        direction=arguments.direction,
        local=arguments.local,
        max_sources=arguments.max_sources,
        inner=arguments.inner,
        mtu=arguments.mtu,
        spread=arguments.spread,
        filter=filter_of(arguments, words),
        backend=arguments.backend,
        live=_live(arguments),
    )
    live = is_live(recording)
    if not live and arguments.duration:
        raise UsageError(f"--duration is for interfaces, and {files[0]} is none")
    return replace(recording, host=socket.gethostname()) if live and not arguments.host else recording


def run(arguments: argparse.Namespace) -> int:
    from ..recorder import record
    from ..recording import is_live
    from ..sql import Store

    recording = recording_of(arguments)
    reporter = _reporter(recording, is_live(recording))
    privileges.lower(arguments.store, arguments.user)
    store = Store.create(arguments.store)
    if recording.backend != "pfring":  # libraries of network cards open what they like
        privileges.confine(recording.targets, [store.path])

    try:
        recorded = record(store, recording, reporter)
    except MburstError as error:
        raise _explained(error, recording.filter) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if arguments.json:
        print_json(recorded)
    else:
        done = [recorded.remark] * bool(recorded.remark) + [f"recorded into {arguments.store}"] * recorded.new
        print(describe_runs(recorded.rows, done))
    return 130 if any("ended by SIGINT" in row["notes"].splitlines() for row in recorded.rows) else 0


def print_json(recorded: Recorded) -> None:
    """The rows, one a line; what else was done goes to standard error."""
    for row in recorded.rows:
        print(json.dumps(row))
    if recorded.remark:
        print(f"mburst: {recorded.remark}", file=sys.stderr)


def _reporter(recording: Recording, live: bool) -> Callable[[Progress], None] | None:
    """What shows progress: nothing unless somebody watches."""
    if not sys.stderr.isatty():
        return None
    if not live:
        return _show
    from ..live_line import LiveLine

    return LiveLine(recording).show


def _show(progress: Progress) -> None:
    print(f"\r\033[K{progress.packets:,} packets", end="", file=sys.stderr, flush=True)


def describe_runs(rows: list[Row], done: list[str]) -> str:
    """What was recorded, and what was DONE, a line each, for people."""
    lines = [_describe_run(row) for row in rows] or ["no packets"]
    notes = dict.fromkeys(note for row in rows for note in [*row["notes"].splitlines(), row["offloads"]] if note)
    return "\n".join(map(shown, [*lines, *(f"  note: {note}" for note in notes), *done]))


def _describe_run(row: Row) -> str:
    from ..recording_rows import seconds

    length = seconds(row)
    text = f"{row['interface']} {row['direction']}: {row['packets']:,} packets, {format_bytes(row['bytes'])}"
    if not length:
        return text
    text += f" in {format_duration(length * 1e9)}, bins of {format_duration(row['bin_ns'])}"
    if row["link_bps"]:
        share = row["wire_bytes"] * 8 / length / row["link_bps"]
        return f"{text}, {format_share(share)} of {format_rate(row['link_bps'])} on average"
    return f"{text}, {format_rate(row['wire_bytes'] * 8 / length)} on average (no link speed: bursts need --link)"
