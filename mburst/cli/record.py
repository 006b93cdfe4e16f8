"""`mburst record`: record capture files or interfaces into the store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from ..api import asked, recording
from ..errors import MburstError
from ..messages import clear_progress, print_message, print_progress
from ..names import shown
from ..process import privileges
from ..process.interrupting import INTERRUPTED
from ..services.record.backends import Backend, Direction, Hook, Sources, Stamps
from ..units import SIZES, format_bytes, format_count, format_duration, format_rate, format_share
from . import inputs, values

if TYPE_CHECKING:
    from ..services.record.recorder import RecordResult
    from ..services.record.recording import RecordProgress, RecordSettings, Row

DEFAULT_BIN = "100us"


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "record",
        help="record capture files or an interface into a store",
        description="Count packets into bins, with their senders, and keep the counts in a store. The packets "
        "come from capture files (pcap and pcapng, also as .gz, .zst or .xz; - is standard input; "
        "several files are one capture, merged by time), or from one or several network "
        "interfaces until Ctrl-C.",
    )
    inputs.add_options(parser)
    parser.add_argument(
        "-o", "--store", required=True, metavar="STORE", help="folder of the store; made if it does not exist"
    )
    add_recording_options(parser)
    parser.add_argument("--json", action="store_true", help="print the rows of `recordings`, one per line")
    add_live_options(parser)
    add_user_option(parser)
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    inputs.check_given(arguments)
    recording.check(**given(arguments))


def add_recording_options(parser: argparse.ArgumentParser, default_bin: str = DEFAULT_BIN) -> None:
    """Add the options for what is counted and how. DEFAULT_BIN is the default of --bin in the help."""
    add_bin_options(parser, default_bin)
    add_naming_options(parser)
    add_sender_options(parser)
    add_frame_options(parser)
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="from an interface: rings that share the load, each with its own thread (default: 1); "
        "from files: with 2 or more, one thread reads and counts while another stores (default: "
        "the number of cores)",
    )


def add_bin_options(parser: argparse.ArgumentParser, default_bin: str) -> None:
    """Add the options for the bins, and for the speed of the link that they are compared with."""
    parser.add_argument(
        "--link",
        type=values.rates,
        metavar="RATE",
        help="speed of the link in one direction, such as 1G; for several interfaces the speed of "
        "each, or eth0=1G,eth1=10G",
    )
    parser.add_argument(
        "--bin",
        default=DEFAULT_BIN,
        type=values.duration,
        metavar="WIDTH",
        help=f"bin width, 10us to 1s, above 10ms one that divides 1s (default: {default_bin})",
    )
    parser.add_argument(
        "--source-bin",
        default="1ms",
        type=values.duration,
        metavar="WIDTH",
        help="bin in which senders are counted (default: %(default)s)",
    )


def add_naming_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for what the rows are of: host, rack, interface and direction."""
    parser.add_argument("--host", help="name of the host that received the packets (default: unknown; live: this one)")
    parser.add_argument("--rack", default="unknown", help="name of the rack of the host")
    parser.add_argument(
        "--interface",
        metavar="NAME",
        help="name of the interface (default: its name in the capture, or the name of the file)",
    )
    parser.add_argument(
        "--direction",
        choices=get_args(Direction),
        default="both",
        help="direction to keep (default: %(default)s, recorded separately)",
    )
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="ADDRESS|MAC",
        help="an address of this host, which separates in from out; may be repeated",
    )


def add_sender_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for which senders are kept."""
    parser.add_argument(
        "--max-sources",
        type=int,
        default=4096,
        metavar="N",
        help="maximum of senders that are counted separately in a bin (default: %(default)s)",
    )
    parser.add_argument(
        "--sources",
        choices=get_args(Sources),
        help="busy: keep senders only near busy bins, and sum up all others as `other`; all: keep all "
        "senders (default: busy for interfaces, all for files)",
    )
    parser.add_argument(
        "--sources-above",
        type=values.share,
        metavar="SHARE",
        help="share of line rate from which on a bin is busy, such as 10%% (default: 10%%)",
    )


def add_frame_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for how frames are read: their order, tunnels, and merged frames."""
    parser.add_argument(
        "--reorder-window",
        default="2ms",
        type=values.duration,
        metavar="TIME",
        help="how far out of order packets may be; others are in no bin (default: %(default)s)",
    )
    parser.add_argument("--inner-ip", action="store_true", help="senders are the innermost addresses of tunnels")
    parser.add_argument(
        "--mtu",
        type=int,
        default=-1,
        metavar="BYTES",
        help="IP packets larger than this count as merged frames (GRO, GSO; default: the MTU of the "
        "interface, inferred for files; 0: none do)",
    )
    parser.add_argument(
        "--split-merged",
        action="store_true",
        help="spread merged frames over their transmission time at line rate; needs --link",
    )


def add_user_option(parser: argparse.ArgumentParser, default: str = "the store's owner") -> None:
    """Add the option for the user once everything is open."""
    parser.add_argument(
        "--user",
        metavar="NAME",
        help=f"if started as root, work as this user once sockets are open (default: {default})",
    )


def add_live_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that apply to interfaces only."""
    live = parser.add_argument_group("from an interface")
    live.add_argument(
        "--duration", type=values.duration, metavar="TIME", help="duration, such as 60s (default: until Ctrl-C)"
    )
    live.add_argument(
        "--backend",
        choices=get_args(Backend),
        default="auto",
        help="how to capture; auto counts in the kernel (ebpf) if that can run and no option needs "
        "frames, and otherwise uses packet sockets; `mburst doctor` shows which can run here "
        "(default: %(default)s)",
    )
    live.add_argument(
        "--stamps",
        choices=get_args(Stamps),
        default="auto",
        help="source of timestamps: interface, kernel, or the better of both (default: %(default)s)",
    )
    live.add_argument(
        "--hook",
        choices=get_args(Hook),
        default="tc",
        help="with --backend ebpf, where arriving frames are counted: after the driver and GRO (tc), "
        "or in the driver (xdp) (default: %(default)s)",
    )
    live.add_argument(
        "--pin",
        action="store_true",
        help="with --backend ebpf, let the kernel keep counting when the recorder is killed or ended "
        "by SIGTERM; the next recorder with --pin continues from there; Ctrl-C and --duration end "
        "the counting",
    )
    live.add_argument(
        "--ring", type=values.size, metavar="SIZE", help=f"kernel buffer of each ring, such as {SIZES}; default: 64MiB"
    )
    live.add_argument(
        "--snaplen", type=int, default=0, metavar="BYTES", help="captured bytes of each frame (default: 128)"
    )
    live.add_argument("--no-promiscuous", action="store_true", help="only frames for this host")
    live.add_argument("--cluster", type=int, default=0, metavar="ID", help="PF_RING cluster id for sharing the load")
    live.add_argument(
        "--keep-packets",
        type=values.size,
        metavar="SIZE",
        help="keep the captured bytes of the last packets on the disk, in a ring of files of this size "
        "in all, such as 2G, for `mburst extract` (default: keep none)",
    )
    live.add_argument(
        "--reserve",
        type=values.size,
        metavar="BYTES",
        help="free bytes of the disk below which senders are summed up as `other`, so that bins go on; "
        "below one and a half times this value, no packets are kept (default: 1G, or 5%% of the "
        "disk if that is less)",
    )
    live.add_argument(
        "--force",
        action="store_true",
        help="record fine bins even if the timestamps are too coarse for them; with --hook xdp, count behind a driver "
        "that has no XDP",
    )


def recordings_of(arguments: argparse.Namespace) -> list[RecordSettings]:
    """Returns the recordings that the options ask for: one of all files, or one of each interface. The default of
    --host is this host for interfaces. Raises UsageError."""
    files, expression = inputs.inputs_of(arguments)
    return recording.recordings_of(files, expression, **given(arguments))


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of a recording by their names in Python."""
    named = {name: value for name, value in vars(arguments).items() if name in asked.RecordOptions.__optional_keys__}
    return {**named, "promiscuous": not arguments.no_promiscuous}


def run(arguments: argparse.Namespace) -> int:
    from ..services.record import pins
    from ..services.record.recording import is_live, opens_files
    from ..sql import StoreFolder

    inputs.check_given(arguments)
    wanted = recordings_of(arguments)
    reporter = _reporter(wanted, is_live(wanted[0]))
    privileges.lower(arguments.store, arguments.user)
    with StoreFolder.created(arguments.store) as store:
        if not opens_files(wanted[0]):
            privileges.confine(wanted[0].targets, [store.path, *pins.folders(wanted)], made_in=store.made_in)
        try:
            recorded = recording.into(store, wanted, reporter)
        except MburstError as error:
            raise inputs.explained(error, wanted[0].filter) from error
    clear_progress()
    if arguments.json:
        print_json(recorded)
    else:
        stored = [f"recorded into {arguments.store}"] if recorded.new and recorded.rows else []
        print(describe_recordings(recorded.rows, [recorded.remark] * bool(recorded.remark) + stored))
    return exit_code(recorded)


def exit_code(recorded: RecordResult) -> int:
    """Returns the exit code of a command that has recorded."""
    if recorded.failures:
        return 1
    return INTERRUPTED if any("ended by SIGINT" in row["notes"].splitlines() for row in recorded.rows) else 0


def print_json(recorded: RecordResult) -> None:
    """Print the rows as JSON, one per line; remarks go to standard error."""
    for row in recorded.rows:
        print(json.dumps(row))
    if recorded.remark:
        print_message(recorded.remark)


def _reporter(wanted: list[RecordSettings], live: bool) -> Callable[[RecordProgress], None] | None:
    """Returns a function that shows progress, None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None
    if not live:
        return _show
    from ..services.record.live_line import LiveLine

    return LiveLine(wanted).show


def _show(progress: RecordProgress) -> None:
    print_progress(format_count(progress.packets, "packet"))


def describe_recordings(rows: list[Row], done: list[str]) -> str:
    """Returns what was recorded, and the lines DONE, as text."""
    lines = [_describe_run(row) for row in rows] or ["no packets: nothing is recorded"]
    return "\n".join(map(shown, [*lines, *(f"  note: {note}" for note in _notes(rows)), *done]))


def _notes(rows: list[Row]) -> list[str]:
    """Returns the notes of the rows without repetition. If there are several captures, a note that does not apply to
    all of them is preceded by its interfaces."""
    captures = {row["capture_id"] for row in rows}
    interfaces: dict[str, dict[str, str]] = {}  # by note and capture
    for row in rows:
        for note in filter(None, [*row["notes"].splitlines(), row["offloads"]]):
            interfaces.setdefault(note, {})[row["capture_id"]] = row["interface"]
    return [
        note if len(of) == len(captures) or note.startswith(f"{next(iter(of.values()))}: ") else
        f"{', '.join(of.values())}: {note}"
        for note, of in interfaces.items()
    ]  # fmt: skip


def _describe_run(row: Row) -> str:
    from ..services.record.rows import seconds

    length = seconds(row)
    packets = format_count(row["packets"], "packet")
    text = f"{row['interface']} {row['direction']}: {packets}, {format_bytes(row['bytes'])}"
    if row["clock_epochs"] > 1:
        return f"{text} in {row['clock_epochs']} clock epochs, bins of {format_duration(row['bin_ns'])}"
    if not length:
        return text
    text += f" in {format_duration(length * 1e9)}, bins of {format_duration(row['bin_ns'])}"
    if row["link_bps"]:
        share = row["wire_bytes"] * 8 / length / row["link_bps"]
        return f"{text}, {format_share(share)} of {format_rate(row['link_bps'])} on average"
    return f"{text}, {format_rate(row['wire_bytes'] * 8 / length)} on average (no link speed: bursts need --link)"
