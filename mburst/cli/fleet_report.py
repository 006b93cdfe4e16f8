"""`mburst fleet report`: a page for a fleet, and one for each of its racks."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from ..messages import print_lines, print_message
from .fleet_ask import add_days, days_of

DESCRIPTION = """Write a report of the results of `mburst fleet detect`: one HTML page for the fleet (which hosts
receive bursts, when, how long, which at once, and what is lost), one for each rack, and the same facts as JSON. Each
file is verified by its SHA-256 before it is read; damaged files are named and left out, and missing or undetected data
are stated. The same results give the same files. Exit code 0: nothing is damaged or undetected; 1: something is."""
EVERY = 100  # racks between two progress lines


def add_parser(questions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = questions.add_parser("report", help="write pages for the fleet and for each rack", description=DESCRIPTION)
    parser.add_argument("results", metavar="RESULTS", help="bucket or folder that `mburst fleet detect` wrote")
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder of the report; made if it does not exist"
    )
    parser.add_argument(
        "--names",
        metavar="PLACE",
        help="name senders by the names of this store (`mburst names`), or of a file that `mburst names` takes",
    )
    add_days(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compute, draw and write the pages, and print the names of the files."""
    from ..api.naming import known_names
    from ..fleet.asking import opened
    from ..fleet.inventory import read_inventory
    from ..fleet.reporting import write_report
    from ..fleet.target import open_target

    days = days_of(arguments)
    inventory = read_inventory(arguments.inventory)
    results, folder = open_target(arguments.results), Path(arguments.output)
    with ExitStack() as at_end:
        names = at_end.enter_context(known_names(Path(arguments.names))) if arguments.names else None
        found = at_end.enter_context(opened(results, days, inventory, arguments.scratch))
        for partition in found.damaged:
            print_message(str(partition))
        written = write_report(results, days, found, folder, _progress, names)
        for line in written.lacks:
            print_message(line)
        print_lines(
            f"report: {written.page}", f"facts: {written.facts}", f"racks: {written.racks:,} in {_folder(written.page)}"
        )
    return 1 if found.damaged or found.undetected else 0


def _folder(page: Path) -> Path:
    """Returns the folder for the pages of racks."""
    return page.with_suffix("")


def _progress(done: int, total: int) -> None:
    if done % EVERY == 0 and done < total:
        print_message(f"{done:,} of {total:,} racks")
