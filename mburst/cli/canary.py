"""`mburst canary`: send bursts of known size to a recorded host, and check which of them its recorder detects."""

from __future__ import annotations

import argparse
import os
import random
import socket
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import files
from ..errors import MburstError, UsageError
from ..messages import clear_progress, print_lines, print_message, print_progress
from ..process import privileges
from ..process.stopping import exit_code, stopping
from ..units import (
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_share,
    parse_duration,
    parse_fraction,
    parse_rate,
    parse_size,
)
from . import definition, output, record, values

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.canary.sensitivity import DetectionCurve
    from ..services.canary import CanaryRun
    from ..sql import StoreFolder
    from ..telemetry.canary.plan import BurstShape, CanaryPlan
    from ..telemetry.canary.sender import Sender

DESCRIPTION = """Send bursts of known size and length to a host that mburst records, by UDP to its discard port, and
determine which of them the recorder there detects. With -o STORE, the store into which it records, the detection curve
is printed and stored there. Without it, --sent FILE keeps a record of what was sent, for `mburst import canary FILE -o
STORE` on the machine of the recorder. The bursts take no more than a share of the link in any second; Ctrl-C ends the
verb at once. No other verb of mburst sends bursts."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("canary", help="measure how small a burst is detected", description=DESCRIPTION)
    parser.add_argument("target", metavar="HOST[:PORT]", help="the recorded host (port: 9, discard, unless given)")
    parser.add_argument("-o", "--store", metavar="STORE", help="folder of the store into which the host is recorded")
    parser.add_argument("--sent", metavar="FILE", help="write the record of what was sent to this file")
    parser.add_argument("--plan", action="store_true", help="print what would be sent, and send nothing")
    what = parser.add_argument_group("sent bursts")
    what.add_argument(
        "--size",
        metavar="SIZES",
        help="bytes of each burst, such as 15kB,60kB (default: what the link "
        "carries in 50, 100, 200 and 500 µs, 1 and 2 ms)",
    )
    what.add_argument(
        "--length",
        default="0,2ms",
        metavar="TIMES",
        help="time over which each burst is spread; 0: back to back (default: %(default)s)",
    )
    what.add_argument(
        "--count",
        type=int,
        default=75,
        metavar="N",
        help="bursts of each size and length (default: %(default)s; 59 are needed to show 95 %%)",
    )
    what.add_argument(
        "--gap",
        default="10ms",
        type=values.duration,
        metavar="TIME",
        help="minimum time between bursts (default: %(default)s)",
    )
    what.add_argument(
        "--share",
        default="5%",
        type=values.share,
        metavar="SHARE",
        help="largest share of the link in any second (default: 5%%, at most 25%%)",
    )
    what.add_argument(
        "-4", dest="family", action="store_const", const=socket.AF_INET, default=socket.AF_UNSPEC, help="IPv4 only"
    )
    what.add_argument("-6", dest="family", action="store_const", const=socket.AF_INET6, help="IPv6 only")
    add_reading_options(parser, "print the detection curve as JSON")
    definition.add_burst_options(parser)
    parser.add_argument(
        "--timeout",
        default="30s",
        type=values.duration,
        metavar="TIME",
        help="how long to wait for the recorder (default: %(default)s)",
    )
    record.add_user_option(parser)
    parser.set_defaults(run=run)


def add_reading_options(parser: argparse.ArgumentParser, json_help: str) -> None:
    """Add --json, and, for canary bursts, --host and --sender."""
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--host", help="for canary bursts: only recordings of this host, as it is named in the store")
    parser.add_argument(
        "--sender",
        metavar="ADDRESS",
        help="for canary bursts: the name of their sender in the recording, if that is not its own "
        "address (NAT, tunnels)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send, wait, read. Returns 130 if SIGINT ended it."""
    from ..services.canary import CanaryRun, new_batch

    wanted = definition.definition_of(arguments)
    timeout_s = parse_duration(arguments.timeout) / 1e9
    store = opened(arguments)
    batch, stop = new_batch(), threading.Event()
    with stopping(stop.set) as ended_by, closing(sender_to(arguments, batch)) as sender:
        link_bps, origin = link_of(arguments, sender, store)
        plan, left_out = planned(arguments, sender, link_bps)
        out = print_lines if arguments.plan or not arguments.json else print_message
        for line in plan_lines(plan, left_out, arguments.target, sender, origin):
            out(line)
        if arguments.plan:
            return 0
        confined(arguments)
        sent = send(sender, plan, stop)
        if sent:
            done = CanaryRun(batch, arguments.target, sender.target.address[1], sender.source, plan.link_bps, sent)
            found = finish(done, store, wanted, arguments, timeout_s, ended_by)
    if store and sent:
        print_curves(store, found, arguments)
    return exit_code(ended_by)


def opened(arguments: argparse.Namespace) -> StoreFolder | None:
    """Open the store if one is named, and work as its owner from now on. Raises MburstError if no record of the sent
    bursts would remain."""
    from ..sql import StoreFolder

    if not (arguments.store or arguments.sent or arguments.plan):
        raise UsageError(
            "the record of what was sent would be lost", "name the recorder's store with -o, or a file with --sent"
        )
    if arguments.sent and Path(arguments.sent).exists():
        raise UsageError(f"{arguments.sent} exists", "name a new file with --sent")
    store = StoreFolder.open(arguments.store) if arguments.store else None
    if arguments.store or arguments.sent:
        folder = Path(arguments.sent or arguments.store).absolute().parent
        privileges.lower(arguments.store or folder, arguments.user)
        if arguments.sent and not os.access(folder, os.W_OK | os.X_OK):
            raise MburstError(
                f"{arguments.sent}: the record of what was sent cannot be written to this folder",
                "name another file with --sent",
            )
    return store


def confined(arguments: argparse.Namespace) -> None:
    """From now on, allow writing only to the requested files and folders."""
    folders = [Path(arguments.sent).absolute().parent] if arguments.sent else []
    privileges.confine([], [*folders, *([arguments.store] if arguments.store else [])])
    privileges.drop()


def sender_to(arguments: argparse.Namespace, batch: str) -> Sender:
    """Open a socket to the host. Raises MburstError."""
    from ..telemetry.canary.sender import PORT, Sender
    from ..telemetry.probe.targets import resolve

    target = resolve(arguments.target, PORT, socket.SOCK_DGRAM, arguments.family)
    return Sender(target, bytes.fromhex(batch.removeprefix("canary-")))


def planned(arguments: argparse.Namespace, sender: Sender, link_bps: int) -> tuple[CanaryPlan, list[BurstShape]]:
    """Returns the plan from the options, and the cells that exceed the link. Raises UsageError."""
    from ..telemetry.canary import plan

    version = 6 if sender.target.family == socket.AF_INET6 else 4
    sizes = [parse_size(text) for text in arguments.size.split(",")] if arguments.size else plan.default_sizes(link_bps)
    lengths = [0 if text.strip() == "0" else parse_duration(text) for text in arguments.length.split(",")]
    return plan.planned(
        sizes,
        lengths,
        arguments.count,
        link_bps,
        parse_fraction(arguments.share),
        parse_duration(arguments.gap),
        plan.Frames.of(sender.mtu, version),
    )


def link_of(arguments: argparse.Namespace, sender: Sender, store: StoreFolder | None) -> tuple[int, str]:
    """Returns the speed of the recorded link and its origin: the given speed, or the lowest that the store and this
    host's interface report. Raises MburstError if it is not known."""
    from ..capture import device
    from ..services.canary import interface_of, recorded_speeds

    if arguments.link:
        return parse_rate(arguments.link), ""
    found = device(interface_of(sender.source))
    known = [(speed, "") for speed in (recorded_speeds(store, arguments.host or arguments.target) if store else [])]
    if found and found["link_bps"] and found["driver"] != "veth":  # a veth always reports 10 Gb/s
        known.append(
            (found["link_bps"], f", the speed of {found['name']} here (--link gives that of the recorded one)")
        )
    if not known and store and store.is_empty("recordings"):
        raise MburstError(
            f"{store.path}: no packet was recorded yet, and the speed of the link comes with the first",
            "give it with --link, such as --link 10G",
        )
    if not known:
        raise UsageError(
            "the speed of the recorded link is not known: the share of the bursts cannot be computed",
            "give it with --link, such as --link 10G",
        )
    return min(known)


def plan_lines(plan: CanaryPlan, left_out: list[BurstShape], target: str, sender: Sender, origin: str) -> list[str]:
    """Returns a description of what will be sent."""
    sizes = ", ".join(dict.fromkeys(format_bytes(cell.size_bytes) for cell in plan.cells))
    lengths = " and ".join(dict.fromkeys(length_words(cell) for cell in plan.cells))
    address, port = sender.target.address[:2]
    whom = target if target == address else f"{target} ({address})"
    lines = [
        f"{format_count(plan.bursts, 'burst')} from {sender.source} to {whom}, UDP port {port}: {sizes}, each "
        f"{lengths}, {format_count(plan.count, 'time')}; {format_bytes(plan.wire_bytes)} in about "
        f"{format_duration(plan.about_ns())}, at most {format_share(plan.share)} of "
        f"{format_rate(plan.link_bps)} in any second{origin}"
    ]
    if left_out:
        lines.append(
            "left out, as the link carries no more: "
            + ", ".join(f"{format_bytes(cell.size_bytes)} {length_words(cell)}" for cell in left_out)
        )
    return lines


def length_words(cell: BurstShape) -> str:
    return f"over {format_duration(cell.length_ns)}" if cell.length_ns else "back to back"


def send(sender: Sender, plan: CanaryPlan, stop: threading.Event) -> list[Any]:
    """Send the bursts, with a progress line on a terminal. Raises MburstError."""
    from ..telemetry.canary.sender import bursts

    def show_progress(done: int, of: int) -> None:
        print_progress(f"canary: {done:,} of {of:,} bursts")

    live = sys.stderr.isatty()
    sent = list(bursts(sender, plan, random.Random(), stop, *([show_progress] if live else [])))
    clear_progress()
    return sent


def finish(
    done: CanaryRun,
    store: StoreFolder | None,
    wanted: BurstDefinition,
    arguments: argparse.Namespace,
    timeout_s: float,
    ended_by: list[Any],
) -> list[DetectionCurve]:
    """Store what was sent, and return what was recorded of it. Raises MburstError."""
    from ..services.canary import wait_for

    if arguments.sent:
        files.write(Path(arguments.sent), done.text(), "the record of what was sent", "name another file with --sent")
    held = sum(burst.held_up for burst in done.bursts)
    if held:
        of = format_count(len(done.bursts), "burst")
        print_message(f"this host was delayed in {held:,} of {of}, which do not count")
    if not store:
        print_message(
            f"sent {format_count(len(done.bursts), 'burst')}; now, where they were recorded: mburst import canary "
            f"{arguments.sent} -o STORE"
        )
        return []
    lost = threading.Event()
    with store.place.watched(lost.set):
        if not ended_by:
            wait_for(store, done, timeout_s, lambda: ended_by or lost.is_set())
        return curves_of(store, done, wanted, arguments)


def import_run(arguments: argparse.Namespace) -> int:
    """Read what a store has of bursts that were sent elsewhere: `mburst import canary`. Raises MburstError."""
    from ..services.canary import load
    from ..sql import StoreFolder

    wanted = definition.definition_of(arguments)
    done = load(Path(arguments.file))
    store = StoreFolder.open(arguments.store)
    privileges.lower(arguments.store, arguments.user)
    privileges.confine([], [arguments.store])
    privileges.drop()
    print_curves(store, curves_of(store, done, wanted, arguments), arguments)
    return 0


def curves_of(
    store: StoreFolder, done: CanaryRun, wanted: BurstDefinition, arguments: argparse.Namespace
) -> list[DetectionCurve]:
    """Read and store the results, and return the detection curve of each interface and direction that received the
    run. Raises MburstError."""
    from ..analysis.canary.sensitivity import curves
    from ..services.canary import read

    lanes = read(store, done, wanted, arguments.host, arguments.sender)
    with store.connect() as con:
        return [curve for curve in curves(con) if any(curve.is_of(done.batch, lane.rows[0]) for lane in lanes)]


def print_curves(store: StoreFolder, found: list[DetectionCurve], arguments: argparse.Namespace) -> None:
    """Print detection curves."""
    if arguments.json:
        from ..api.sensing import Sensitivity

        output.write_json_value(Sensitivity(found).to_dict())
        return
    for curve in found:
        print_curve(curve)
    print_lines("", f"kept in {store.path}")


def print_curve(curve: DetectionCurve) -> None:
    """Print a detection curve and its meaning."""
    from ..dashboards.common import sensitivity_words as words

    print_lines("", words.heading(curve))
    output.write("table", words.HEAD, (words.row(point) for point in curve.points))
    print_lines(words.limit_words(curve), words.confidence())
    print_lines(*filter(None, [words.excluded_words(curve), words.clock_words(curve)]))
