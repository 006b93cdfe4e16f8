"""`mburst report`: pages on when links were full, which senders filled them, and what else happened at that time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ..api import asked
from ..api.reporting import period_of, report_of
from ..errors import MburstError, UsageError
from ..messages import print_lines
from . import definition

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

DESCRIPTION = """Write a report as HTML, and the same facts as JSON beside it. Without a rack and a time: one page with
figures that zoom, over everything that is stored, or over one --rack or --host. With --rack or --all-racks and a time
(--since, --until or --last): for each rack a page with the bursts of each host (when, how long, how full), their
senders, and what changed, and an index of all reports in the folder. The same data and options give the same files,
byte for byte."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("report", help="write a report as HTML and JSON", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder of the report; made if it does not exist"
    )
    where = parser.add_argument_group("where and when")
    where.add_argument("--rack", help="only recordings of this rack")
    where.add_argument("--all-racks", action="store_true", help="a report for each rack in the store")
    where.add_argument("--host", help="only recordings of this host")
    definition.add_time_options(where)
    where.add_argument(
        "--last",
        choices=get_args(asked.Period),
        help="the last whole period by the clock of this machine, in UTC; weeks begin on Monday",
    )
    definition.add_burst_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compute, draw and write the pages, and print the names of the files."""
    from ..sql import StoreFolder

    timed = bool(arguments.since or arguments.until or arguments.last)
    if arguments.last and (arguments.since or arguments.until):
        raise UsageError("--last excludes --since and --until", "leave them out")
    if arguments.all_racks and (arguments.rack or arguments.host or not timed):
        raise UsageError("--all-racks goes with --since, --until or --last, and without --rack and --host")
    wanted = definition.definition_of(arguments)
    store = StoreFolder.open(arguments.store)
    if arguments.all_racks or (arguments.rack and timed and not arguments.host):
        return _racks(store, wanted, arguments)
    if arguments.last:
        raise UsageError("--last is for reports of racks", "give --rack or --all-racks")
    return _lanes(store, wanted, arguments)


def _lanes(store: StoreFolder, wanted: BurstDefinition, arguments: argparse.Namespace) -> int:
    """Write one page with a section and figures for each interface and direction."""
    span = definition.span_of(store, arguments)
    report = report_of(store, wanted, arguments.rack, arguments.host, *span)
    written = report.write(arguments.output)
    print_lines(f"report: {written.page}", f"facts: {written.facts}")
    if not report.has_data and span != (None, None):
        print_lines("  note: nothing was recorded in that time; the report states this")
    return 0


def _racks(store: StoreFolder, wanted: BurstDefinition, arguments: argparse.Namespace) -> int:
    """Write a page for each rack, and the index."""
    from ..agent.schedule.reports import known_racks, write_racks

    racks = known_racks(store) if arguments.all_racks else [arguments.rack]
    if not racks:
        raise MburstError(f"{arguments.store}: no recording", "`mburst record … --rack R` makes one")
    period = period_of(
        store, definition.span_of(store, arguments), arguments.last, None if arguments.all_racks else arguments.rack
    )
    for written in write_racks(store, racks, period, wanted, Path(arguments.output)):
        print_lines(f"report: {written.page}")
        print_lines(
            f"facts: {written.facts}"
            if written.recorded
            else f"  note: nothing of rack {written.rack} was recorded in that time; the report states this"
        )
    print_lines(f"index: {Path(arguments.output) / 'index.html'}")
    return 0
