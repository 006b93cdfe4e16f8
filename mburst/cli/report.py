"""`mburst report`: one HTML page that shows when links were full, who filled them, and what else happened then."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import definition


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "report", help="write a report as one HTML page",
        description="Write one self-contained HTML page, and the same facts as JSON beside it. The same data and "
        "options give the same files, byte for byte.")
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for it; made where missing")
    where = parser.add_argument_group("where and when")
    where.add_argument("--rack", help="only this rack's recordings")
    where.add_argument("--host", help="only this host's recordings")
    definition.add_time_options(where)
    definition.add_burst_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Gather, draw, write, and name the files."""
    from ..analysis.paths import Selection, read_met
    from ..analysis.report_data import gather, judge, lanes
    from ..dashboards.report import write
    from ..sql import Store

    wanted = definition.definition_of(arguments)
    store = Store.open(arguments.store)
    since, until = definition.span_of(store, arguments)
    con = store.connect(arguments.rack, since, until)
    chosen = lanes(con, arguments.rack, arguments.host, wanted.link_bps)
    probed = read_met(con, Selection(since_ns=since, until_ns=until))
    if not chosen and (not probed or arguments.rack or arguments.host):
        raise definition.no_recording(arguments, rack=arguments.rack, host=arguments.host)
    reports = gather(con, chosen, judge(con, chosen, wanted, since, until), since, until)
    page, facts = write(reports, wanted, Path(arguments.output), probed)
    print(f"report: {page}")
    print(f"facts: {facts}")
    return 0
