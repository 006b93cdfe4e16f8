"""`mburst repair`: set damaged files of a store aside."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..messages import clear_progress, report_lines
from ..process import privileges
from ..units import format_count
from .check import progress
from .record import add_user_option

DESCRIPTION = """Check a store, and move each damaged file into the folder `damaged` in it, under the same path. The
readable rows of a damaged hot log are saved first. Nothing is deleted. For each file, the output lists what is lost:
table, host, rack and time. Answers over that time continue to name the file until a file of its name is back in the
store, or the one in `damaged` is removed. The log of a running recorder is left alone, and so is a file that this user
may not read. Started as root, it works as the owner of the store."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "repair", help="set damaged files of a store aside, and save their readable rows", description=DESCRIPTION
    )
    parser.add_argument("store", metavar="STORE", type=Path, help="folder that `mburst record` wrote")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")
    add_user_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Repair the store. Returns 1 if a damaged file had to be left."""
    from ..sql.repair.repair import repair

    privileges.lower(arguments.store, arguments.user)
    done = []
    for step in repair(arguments.store, arguments.dry_run, progress()):
        clear_progress()
        report_lines(f"{'would be done: ' if arguments.dry_run else ''}{step}")
        done.append(step)
    clear_progress()
    left = sum(not step.aside for step in done)
    would = "would be " if arguments.dry_run else ""
    print(
        f"{format_count(len(done) - left, 'file')} {would}set aside" + (f", {left:,} left alone" if left else "")
        if done
        else "nothing is damaged"
    )
    return 1 if left else 0
