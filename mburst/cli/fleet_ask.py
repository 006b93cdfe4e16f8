"""`mburst fleet ask`: queries of the results of a fleet."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..messages import print_message
from . import output
from .fleet import add_inventory
from .sql import write_answer

if TYPE_CHECKING:
    from ..fleet.asking import AskedDays

DESCRIPTION = """Query the results of `mburst fleet detect`: by the name or number of a question, or by SQL (of DuckDB)
that only reads. Without a question, list the questions. Each file is verified by its SHA-256 before it is read;
damaged files are named and left out, and missing or undetected data are stated, as are days of which not all had
arrived. Exit code 0: nothing is damaged or undetected; 1: something is."""


def add_parser(questions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = questions.add_parser(
        "ask", help="ask questions about results, such as the worst hosts", description=DESCRIPTION
    )
    parser.add_argument("results", metavar="RESULTS", help="bucket or folder that `mburst fleet detect` wrote")
    parser.add_argument("query", metavar="QUESTION|SQL", nargs="?", help="name or number of a question, or SQL")
    add_days(parser)
    output.add_format(parser)
    parser.set_defaults(run=run)


def add_days(parser: argparse.ArgumentParser) -> None:
    """Add the options for the days of results and the inventory."""
    parser.add_argument("--day", metavar="DAY", help="last (the last whole day, default) or 2026-11-20")
    parser.add_argument("--days", type=int, metavar="N", help="number of days, of which DAY is the last (default: 1)")
    parser.add_argument(
        "--last",
        metavar="SPAN",
        help="in place of --day and --days: day, week (from Monday), or a number of days such as 7d: "
        "the last whole ones, in UTC",
    )
    add_inventory(parser)
    parser.add_argument(
        "--scratch",
        metavar="FOLDER",
        help="folder for copies of files of a bucket (default: the folder for temporary files)",
    )


def days_of(arguments: argparse.Namespace) -> AskedDays:
    """Returns the days that the options select. Raises UsageError."""
    from ..fleet.asking import AskedDays, last_days
    from ..fleet.plan import day_of

    if arguments.last is not None:
        if arguments.day is not None or arguments.days is not None:
            raise UsageError("--last excludes --day and --days", "leave them out")
        return last_days(arguments.last, time.time_ns())
    days = 1 if arguments.days is None else arguments.days
    day = "last" if arguments.day is None else arguments.day
    return AskedDays.until_day(day_of(day, time.time_ns()), days)


def run(arguments: argparse.Namespace) -> int:
    """Run a query, or list the named ones."""
    from ..fleet.asking import opened
    from ..fleet.inventory import read_inventory
    from ..fleet.target import open_target
    from ..sql import questions
    from ..sql.damage import readable
    from ..sql.lockdown import check
    from ..sql.resulting import near_tables

    if arguments.query is None:
        output.write(
            arguments.format, ["question", "answers"], [(name, questions.about(name)) for name in questions.names()]
        )
        return 0
    is_name = arguments.query.replace("_", "").isalnum()
    query = questions.text(arguments.query) if is_name else arguments.query
    days = days_of(arguments)
    inventory = read_inventory(arguments.inventory)
    near = [] if is_name else near_tables(query)
    results = open_target(arguments.results)
    database = opened(results, days, inventory, arguments.scratch, near)
    with database as found, readable(found.con, changed=found.changed):
        for line in [*map(str, found.damaged), *found.lacks, *found.incomplete(days), *found.lacks_near(near, days)]:
            print_message(line)
        statements = check(found.con, query)
        if len(statements) != 1:
            raise UsageError("not one statement of SQL", "`mburst fleet ask RESULTS` lists the questions")
        write_answer(found.con, statements[0], arguments.format)
    return 1 if found.damaged or found.undetected else 0
