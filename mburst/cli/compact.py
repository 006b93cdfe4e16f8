"""`mburst compact`: keep less of older days of a store."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

from ..errors import Interrupted, MburstError, UsageError
from ..messages import print_lines, print_message, report_lines
from ..process import privileges
from ..process.stopping import exit_code, until_stopped
from ..units import (
    NS_PER_DAY,
    NS_PER_MINUTE,
    NS_PER_S,
    format_bytes,
    format_count,
    format_share,
    parse_duration,
    parse_fraction,
    parse_size,
)
from . import record, values
from .output import write_json_value

if TYPE_CHECKING:
    from ..sql import StoreFolder
    from ..sql.compaction.compact import Compacted, DayCompacted
    from ..sql.compaction.rules import KeepRules

DESCRIPTION = """Make a store smaller as it gets older. Of a day (UTC) that has been over for longer than --everything,
bins and senders are kept only around anything that may be a burst (--threshold, 50 ms before and after), with
one-second sums of all bins; every definition with that threshold or a higher one still detects the same bursts. After
--bursts only the sums are kept, and after --steps only the rows about recordings. With --size, the oldest detail is
removed first until the store is small enough. Many small files become few, and the files of an hour become one before
its day is over. Recorders and readers can run at the same time; the verb can be interrupted and called again at any
time."""
LEAST_EVERY_NS = NS_PER_MINUTE


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("compact", help="keep less of older days of a store", description=DESCRIPTION)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` writes")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and write nothing")
    what = parser.add_argument_group("what is kept")
    for name, days, help in (
        ("everything", 1, "every row of a day that is over for less than this"),
        ("bursts", 90, "bins and senders around bursts, for this long"),
        ("steps", 730, "one-second sums, for this long"),
    ):
        what.add_argument(
            f"--{name}", type=values.duration, metavar="TIME", default=f"{days}d", help=f"{help} (default: %(default)s)"
        )
    what.add_argument(
        "--threshold",
        type=values.share,
        metavar="SHARE",
        default="25%",
        help="utilization from which on a bin may be a burst (default: 25%%)",
    )
    what.add_argument(
        "--size", type=values.size, metavar="SIZE", help="maximum size of the store, such as 20G (default: any size)"
    )
    parser.add_argument(
        "--every", type=values.duration, metavar="TIME", help="compact again each TIME, such as 1h, until Ctrl-C"
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    record.add_user_option(parser)
    parser.set_defaults(run=run, as_part=as_part)


def as_part(arguments: argparse.Namespace) -> None:
    """Check what a part of `mburst run` requires. Raises UsageError."""
    if not arguments.every:
        raise UsageError("no every: the part would compact once and end", 'write every = "1h"')
    rules_of(arguments)


def rules_of(arguments: argparse.Namespace) -> KeepRules:
    """Returns the rules from the command line. Raises UsageError."""
    from ..sql.compaction.rules import KeepRules

    ages = {name: parse_duration(getattr(arguments, name)) for name in ("everything", "bursts", "steps")}
    if ages["everything"] < NS_PER_DAY:
        raise UsageError(f"invalid --everything {arguments.everything!r}: less than a day", "write 1d or more")
    if not ages["everything"] <= ages["bursts"] <= ages["steps"]:
        raise UsageError("--everything, --bursts and --steps must not get shorter", "what is kept gets less with age")
    threshold = parse_fraction(arguments.threshold)
    if not 0 < threshold <= 1:
        raise UsageError(f"invalid --threshold {arguments.threshold!r}: not a share of line rate", "example: 25%")
    if arguments.every and (arguments.json or arguments.dry_run):
        raise UsageError("--json and --dry-run are of one call: they do not go with --every")
    if arguments.every and parse_duration(arguments.every) < LEAST_EVERY_NS:
        raise UsageError(f"invalid --every {arguments.every!r}: less than a minute")
    return KeepRules(
        everything_ns=ages["everything"],
        bursts_ns=ages["bursts"],
        steps_ns=ages["steps"],
        threshold=threshold,
        size=None if arguments.size is None else parse_size(arguments.size),
    )


def run(arguments: argparse.Namespace) -> int:
    """Compact once, or until a signal. Returns 1 if days were left unchanged."""
    from ..sql import StoreFolder

    rules = rules_of(arguments)
    privileges.lower(arguments.store, arguments.user)
    store = StoreFolder.open(arguments.store)
    privileges.confine([], [store.path])
    privileges.drop()
    if arguments.every:
        return keep(store, rules, parse_duration(arguments.every) / NS_PER_S)
    done = once(store, rules, arguments.dry_run)
    if arguments.json:
        write_json_value(done.to_dict())
    else:
        describe(done, rules, arguments.dry_run)
    return 1 if done.troubles else 0


def once(store: StoreFolder, rules: KeepRules, dry_run: bool) -> Compacted:
    """Compact once; a signal interrupts it at once. Raises MburstError and Interrupted."""
    from ..sql.compaction.compact import compact

    done: list[Compacted] = []
    if until_stopped(lambda stopped: done.append(compact(store, rules, dry_run=dry_run))):
        raise Interrupted("interrupted", "the days that are done stay; the same command does the rest")
    return done[0]


def keep(store: StoreFolder, rules: KeepRules, every_s: float) -> int:
    """Compact every EVERY_S until a signal."""
    from ..sql.compaction.compact import compact

    def work(stopped: threading.Event) -> None:
        named: set[str] = set()
        with store.place.watched(stopped.set):
            while not stopped.is_set():
                try:
                    done = compact(store, rules, report=lambda day: report_lines(line(day, rules)))
                    lines = {*done.troubles, *done.waits}
                    _name(sorted(lines - named))
                    named |= lines
                    _warn_of_size(done, rules)
                except MburstError as error:
                    store.place.check_after(error)
                    print_message(f"{error}" + (f" ({error.hint})" if error.hint else ""))
                stopped.wait(every_s)

    return exit_code(until_stopped(work))


# --- what was done ----------------------------------------------------------------------------------------------------


def describe(done: Compacted, rules: KeepRules, dry_run: bool) -> None:
    """Print what was done, and on standard error what was not done."""
    if done.is_busy:
        print_lines("another compaction of this store is running: nothing was done")
        return
    print_lines(*(line(day, rules) for day in done.days))
    _name([*done.troubles, *done.waits])
    _warn_of_size(done, rules)
    waiting = f"; {format_count(done.waiting, 'replaced file')} will be removed when no reader holds them"
    if dry_run and not done.days:
        print_lines("there is nothing to compact")
    if not dry_run:
        print_lines(f"the store takes {format_bytes(done.bytes)}" + (waiting if done.waiting else ""))


def line(day: DayCompacted, rules: KeepRules) -> str:
    """Returns "2026-11-21 rack r1: 288 files, 3.2 GB → 5 files, 41 MB: …"; for an hour "2026-11-21 14:00 rack r1:
    …"; for tables without a rack "2026-11-21 probes, queues: …"."""
    from ..sql.compaction.rules import Detail
    from ..sql.format.filenames import date_of

    kept = {
        Detail.ALL: "every row",
        Detail.BURSTS: f"bins and senders around bursts of {format_share(rules.threshold)} and more, one-second sums",
        Detail.STEPS: "one-second sums",
        Detail.NONE: "rows about recordings",
    }[day.detail]
    sizes = f"{format_count(day.files, 'file')}, {format_bytes(day.bytes)}"
    if day.after_files is not None:
        sizes += f" → {format_count(day.after_files, 'file')}, {format_bytes(day.after_bytes or 0)}"
    reason = " (the store is larger than --size)" if day.for_size else ""
    when = date_of(day.name.day) + (f" {day.name.hour:02}:00" if day.name.is_hour else "")
    what = f"rack {day.name.rack}" if day.name.rack else ", ".join(day.tables)
    return f"{when} {what}: {sizes}: {kept}{reason}"


def _name(troubles: list[str]) -> None:
    for trouble in troubles:
        print_message(trouble)


def _warn_of_size(done: Compacted, rules: KeepRules) -> None:
    if rules.size is not None and done.bytes > rules.size:
        print_message(
            f"the store takes {format_bytes(done.bytes)}, more than the {format_bytes(rules.size)} that it may: "
            "what is left is of today, or cannot be replaced yet"
        )
