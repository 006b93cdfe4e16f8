"""`mburst extract`: the packets of a burst."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..api.options import NewestData, duration_ns, time_of
from ..errors import MburstError, UsageError
from ..messages import print_lines, print_message
from ..units import format_count, format_duration, format_time, whole
from . import bursts, definition, inputs, values

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..api.extracting import Extracted, PacketInput
    from ..packets.account import Missing
    from ..sql import StoreFolder

DESCRIPTION = """Write the packets of one burst, and those around it, as pcapng for Wireshark or tshark. They come from
the recorded capture, or from the ring of packets that `mburst record --keep-packets` keeps. Comments mark the first
and the last packet of the burst, the first packet of each sender with its share, and the first of the requests that
may have triggered the burst. Bursts have the numbers that `mburst bursts` prints with the same options. A profile for
Wireshark is in examples/wireshark."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("extract", help="write the packets of a burst as pcapng", description=DESCRIPTION)
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="STORE|RING|CAPTURE",
        help="a store, the folder of a ring (STORE/packets/HOST/INTERFACE), or capture files that are one capture",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--burst", metavar="N", help="number of the burst, or last")
    which.add_argument(
        "--at", type=values.moment, metavar="TIME", help="a time in the burst, such as 2026-11-20T14:03:05.25 (UTC)"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="output file, such as burst.pcapng")
    parser.add_argument(
        "--around",
        default="50ms",
        type=values.duration,
        metavar="TIME",
        help="also the packets of this time before and after the burst (default: %(default)s)",
    )
    parser.add_argument(
        "--store", metavar="STORE", help="take the burst from this store, and its packets from the capture or ring"
    )
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="ADDRESS|MAC",
        help="an address of this host, as for `mburst record` of the capture; may be repeated",
    )
    parser.add_argument("--inner-ip", action="store_true", help="senders are the innermost addresses of tunnels")
    definition.add_burst_options(parser)
    bursts.add_scope_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Choose a burst, write its packets, and print what was written."""
    from ..api import extracting

    wanted = definition.definition_of(arguments)
    around_ns = duration_ns(arguments.around)
    with ExitStack() as opened:
        store, given = _inputs(arguments, wanted, opened)
        at_ns = None if arguments.at is None else time_of(NewestData().of(store, None), arguments.at)
        scope = bursts.scope_of(store, arguments)
        chosen = extracting.choose(store, wanted, scope, _number(arguments.burst), at_ns, force=arguments.force)
        done = extracting.extract(store, chosen, given, wanted, around_ns, Path(arguments.output))
    _print(done, Path(arguments.output))
    return 1 if _is_partial(done) else 0


def _number(text: str | None) -> int | str | None:
    if text is None or text == "last":
        return text
    if (number := whole(text)) is None:
        raise UsageError(f"invalid number of a burst {text!r}", "examples: 12, last")
    return number


def _inputs(
    arguments: argparse.Namespace, wanted: BurstDefinition, opened: ExitStack
) -> tuple[StoreFolder, PacketInput]:
    """Returns the store with the burst, and the source of its packets. Raises MburstError."""
    from ..api.extracting import PacketInput, recorded_captures
    from ..packets import ring
    from ..sql import StoreFolder
    from ..sql.store import MARKER

    named = [Path(name) for name in arguments.inputs]
    if gone := [path for path in named if not inputs.is_file(str(path))]:
        raise inputs.no_such_file(str(gone[0]))
    folders = [path for path in named if path.is_dir()]
    if folders and len(named) > 1:
        raise UsageError(f"{folders[0]} is a folder, and more is named beside it", "name one, or capture files")
    how = {"local": arguments.local, "inner": arguments.inner_ip}
    if not folders:
        given = PacketInput(arguments.inputs, **how)
        if arguments.store:
            return StoreFolder.open(arguments.store), given
        return opened.enter_context(recorded_captures(arguments.inputs, wanted, given)), given
    [folder] = folders
    if (folder / MARKER).exists():
        return StoreFolder.open(folder), PacketInput(**how)
    found, place = ring.files_of(folder), ring.store_of(folder)
    kept_in = place if place and (place / MARKER).exists() else None
    if kept_in and not found:
        raise MburstError(f"{folder}: this ring has no packet yet", "a recorder keeps the next one that comes in it")
    if not found:
        raise MburstError(f"{folder}: neither a store nor a ring of packets", "a ring is STORE/packets/HOST/INTERFACE")
    given = PacketInput(ring=folder, **how)
    if store := arguments.store or kept_in:
        return StoreFolder.open(store), given
    return opened.enter_context(recorded_captures([str(file.path) for file in found], wanted, given)), given


def _is_partial(done: Extracted) -> bool:
    """Whether packets of the burst itself are missing."""
    return bool(done.written.of_burst != done.chosen.burst["packets"])


def _print(done: Extracted, output: Path) -> None:
    from ..api.extracting import described

    burst, written = done.chosen.burst, done.written
    print_lines(
        f"burst {done.chosen.number} of {burst['host']} {burst['interface']} {burst['direction']}: "
        f"{format_time(burst['start_ns'])} UTC, {described(burst)}",
        f"{output}: {format_count(written.packets, 'packet')}, {written.of_burst:,} of them of the burst, from "
        f"{format_time(written.first_ns or 0)} to {format_time(written.last_ns or 0)} UTC",
    )
    for one in done.source.source.missing:
        print_message(_missing(one))
    if _is_partial(done):
        print_message(
            f"the recording counted {format_count(burst['packets'], 'packet')} in the burst, and {written.of_burst:,} "
            "are in these files"
        )
    if "drops" in burst["quality"]:
        print_message("packets were dropped in the time of the burst, before they were captured")
    if done.source.others:
        print_message(f"packets of other interfaces were left out: {', '.join(sorted(done.source.others))}")
    for sentence in done.source.notices:
        print_message(sentence)


def _missing(one: Missing) -> str:
    span = f"from {format_time(one.since_ns)} to {format_time(one.until_ns)} UTC"
    if one.packets is not None:
        return f"{format_count(one.packets, 'packet was', 'packets were')} not kept {span}"
    return f"the ring has no packets {span} ({format_duration(one.until_ns - one.since_ns)})"
