"""`mburst migrate`: convert a store of an older format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..messages import clear_progress, print_message, print_progress
from ..process import privileges
from ..units import format_count
from .record import add_user_option

if TYPE_CHECKING:
    from ..sql.repair.migration import MigrationResult

DESCRIPTION = """Write the content of a store of format 1 into a new store of the present format. The old store is only
read, and nothing may record into it at the same time. The new store is read again, and its sums are compared with
those of the old one. To continue an interrupted migration, run the same command again. A file that cannot be read is
named and left out, and the exit code is 1. Started as root, it works as the owner of the new store, who has to be able
to read the old one."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "migrate", help="convert a store of an older format to this format", description=DESCRIPTION
    )
    parser.add_argument("old", metavar="OLD", type=Path, help="store of format 1")
    parser.add_argument("new", metavar="NEW", type=Path, help="folder of the new store; made by this")
    add_user_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Migrate, and print what was done."""
    from ..sql.repair.migration import migrate

    privileges.lower(arguments.new, arguments.user)
    watched = sys.stderr.isatty()
    outcome = migrate(arguments.old, arguments.new, _show if watched else None)
    clear_progress()
    for line in described(outcome):
        print(line)
    for damaged in outcome.damaged:
        print_message(str(damaged))
    print(
        f"{format_count(outcome.files, 'file')} migrated into {arguments.new}"
        + (f", but for {len(outcome.damaged):,} that cannot be read" if outcome.damaged else "")
    )
    return 1 if outcome.damaged else 0


def _show(done: int, total: int) -> None:
    print_progress(f"{done:,} of {total:,} files")


def described(outcome: MigrationResult) -> list[str]:
    """Returns the content of the new store, one line for each table, and what differs there."""
    lines = []
    for table, sums in sorted(outcome.tables.items()):
        size = f", {sums.columns['bytes']:,} bytes" if "bytes" in sums.columns else ""
        lines.append(f"{table}: {format_count(sums.rows, 'row')}{size}, the same before and after")
    if outcome.killed:
        killed = format_count(outcome.killed, "row is of a recording", "rows are of recordings")
        lines.append(f"note: {killed} that did not end: totals come from bins")
    lines += [f"note: the column {name} is left out: not in this format" for name in sorted(outcome.left_out)]
    return lines
