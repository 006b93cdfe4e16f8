"""`mburst check`: verify that a store contains what was written into it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..messages import clear_progress, print_lines, print_progress
from ..units import format_bytes, format_count, format_duration
from .output import write_json_value

if TYPE_CHECKING:
    from ..sql.repair.checking import Findings

DESCRIPTION = """Read every file of a store again, also those verified before, and verify it against its checksums, its
name and its folder. Damaged files, and files that `mburst repair` set aside, are listed with the rows that are missing
without them: other verbs answer from the remaining files. Leftover and foreign files are named, too; they are
harmless. A file that a recorder is writing is not damaged. Exit code 0: no file is damaged and, with --deep, nothing
is missing; 1: otherwise."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("check", help="read a whole store again and list damaged files", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", type=Path, help="folder that `mburst record` wrote")
    parser.add_argument(
        "--deep",
        action="store_true",
        help="compare the sums of bins and senders with the totals of each recording, too; the exit "
        "code is then 1 if files were set aside",
    )
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, and print the findings."""
    from ..sql.damage import FOUND
    from ..sql.repair.checking import check
    from ..sql.repair.sums import compare_sums

    found = check(arguments.store, progress())
    clear_progress()
    listed = {file.path: file for file in [*found.damaged, *found.missing]}
    if arguments.deep:
        FOUND.files |= listed  # printed below: no warning is needed
        compare_sums(arguments.store, found)
    if arguments.json:
        write_json_value(found.to_dict())
    else:
        print_lines(*map(str, [*listed.values(), *found.mismatches, *found.remarks, summary(found)]))
    return 0 if found.is_sound and not (arguments.deep and found.missing) else 1


def progress() -> Callable[[Findings, int], None] | None:
    """Returns a function that shows progress, None if standard error is not a terminal."""
    return _show if sys.stderr.isatty() else None


def _show(found: Findings, total: int) -> None:
    print_progress(f"{format_count(found.files, 'file')}, {format_bytes(found.bytes)} of {format_bytes(total)}")


def summary(found: Findings) -> str:
    """Returns a summary such as "120 files, 3.4 GB in 12 s (283 MB/s): sound"."""
    speed = f" ({found.bytes / found.seconds / 1e6:,.0f} MB/s)" if found.seconds else ""
    text = f"{format_count(found.files, 'file')}, {format_bytes(found.bytes)} in {format_duration(found.seconds * 1e9)}"
    if found.recordings_compared:
        text += f"{speed}, sums of {format_count(found.recordings_compared, 'recording')} compared"
        speed = ""
    wrong = [format_count(len(found.damaged), "damaged file")] if found.damaged else []
    wrong += [format_count(len(found.mismatches), "mismatched sum", "mismatched sums")] if found.mismatches else []
    aside = [f"{format_count(len(found.missing), 'file')} set aside"] if found.missing else []
    return f"{text}{speed}: {' and '.join([*(wrong or ['sound']), *aside])}"
