"""`mburst fleet detect`: the bursts of a day at all hosts that have shipped to a target."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..fleet import SPLITS, UNFIT, UNFIT_HINT
from ..messages import print_message
from ..units import format_count, format_duration
from . import definition as options
from .fleet import add_inventory
from .fleet_status import nobody_ships
from .output import write_json_value, write_table

if TYPE_CHECKING:
    from ..fleet.detect import DayDetected, Engine
    from ..fleet.task import PartitionOutcome

DESCRIPTION = """Detect the bursts of a day (UTC) of all hosts that have shipped to TARGET, rack by rack, and write
them to RESULTS as Parquet files: bursts, their senders, sums of each hour, contention, coverage, drops of switch
queues, why probes were late (--verdicts), and, in separate tables, the bursts of switch ports that `mburst collect`
recorded. Each file is verified by its SHA-256 before it is read. A second call detects only what is new; a partition
that fails, for example because of a damaged file, is named, and the others are detected. Exit code 0: all partitions
are done; 1: some failed."""
COLUMNS = ("rack", "host", "bursts", "of ports", "files", "MB", "CPU s", "result")


def add_parser(questions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = questions.add_parser("detect", help="detect the bursts of a day of all hosts", description=DESCRIPTION)
    parser.add_argument("target", metavar="TARGET", help="bucket or folder, as for `mburst ship`")
    parser.add_argument("--day", default="last", metavar="DAY", help="last (the last whole day, default) or 2026-11-20")
    parser.add_argument("-o", "--output", required=True, metavar="RESULTS", help="bucket or folder of the results")
    parser.add_argument("--rack", help="only this rack")
    parser.add_argument(
        "--split",
        choices=SPLITS,
        default="auto",
        help="partitions: rack: whole racks; host: single hosts; auto: hosts if a day of the rack is "
        "larger than 2 GB (default)",
    )
    add_inventory(parser)
    parser.add_argument(
        "--verdicts",
        action="store_true",
        help="also investigate why probes were late, host by host, as `mburst investigate` does: "
        "seconds of CPU for each host, and minutes if there are many probes",
    )
    where = parser.add_argument_group("where it runs")
    where.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes on this machine (default: its processors)"
    )
    where.add_argument(
        "--master", metavar="URL", help="run on Spark: local[*], spark://host:7077, yarn, k8s://…, sc://host:15002"
    )
    where.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated"
    )
    where.add_argument(
        "--scratch", metavar="FOLDER", help="folder for copies of files (default: the folder for temporary files)"
    )
    options.add_burst_options(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Plan, detect, and list the partitions."""
    from ..fleet.detect import detect_day
    from ..fleet.inventory import read_inventory
    from ..fleet.plan import day_of
    from ..fleet.planning import plan
    from ..fleet.receipts import DamagedReceipt, list_receipts
    from ..fleet.results import open_results
    from ..fleet.target import open_target

    date, definition = day_of(arguments.day, time.time_ns()), options.definition_of(arguments)
    engine = _engine(arguments)
    inventory = read_inventory(arguments.inventory)
    target, results = open_target(arguments.target), open_target(arguments.output)
    damaged: list[DamagedReceipt] = []
    settings: dict[str, Any] = {"split": arguments.split, "rack": arguments.rack, "inventory": inventory}
    settings["with_verdicts"] = arguments.verdicts
    plans = list(plan(target, results, date, definition, damaged=damaged.append, doubted=print_message, **settings))
    for error in damaged:
        print_message(f"{error} ({error.hint})")
    if not plans:
        if not any(list_receipts(target, arguments.rack)):
            raise nobody_ships(arguments.target, arguments.rack)
        print_message(
            f"{date}: nothing to detect: all hosts ship their bursts of this day to {arguments.output} themselves, "
            "or are not expected on it"
        )
    open_results(results, definition)
    found = detect_day(target, results, iter(plans), engine, _Progress(len(plans)) if not arguments.json else _silent)
    for name in found.kept:
        print_message(f"{name}: stays as it was detected: receipts of files that it was made of are damaged or removed")
    if arguments.json:
        write_json_value(found.to_dict(date))
    else:
        _print(date, found)
    return 1 if damaged or any(outcome.error for outcome in found.outcomes) else 0


def _engine(arguments: argparse.Namespace) -> Engine:
    """Returns the engine that detects the partitions. Raises UsageError, and MburstError."""
    from ..fleet.detect import local

    if arguments.master is None:
        if arguments.conf:
            raise UsageError("--conf is a setting of Spark", "give --master, too")
        if arguments.jobs is not None and arguments.jobs < 1:
            raise UsageError(f"invalid number of processes {arguments.jobs}", "at least 1")
        return local(arguments.jobs, arguments.scratch)
    if arguments.jobs is not None:
        raise UsageError("--jobs is of this machine, --master of Spark", "leave one of them out")
    pairs = [setting.partition("=") for setting in arguments.conf]
    if wrong := [name for name, equals, _ in pairs if not (name and equals)]:
        raise UsageError(f"invalid setting {wrong[0]!r}", "example: --conf spark.executor.instances=20")
    from ..fleet.spark import on_spark

    return on_spark(arguments.master, {name: value for name, _, value in pairs}, arguments.scratch)


class _Progress:
    """Prints a line for each partition when it ends."""

    def __init__(self, of: int) -> None:
        self._ended, self._of = 0, of

    def __call__(self, outcome: PartitionOutcome) -> None:
        self._ended += 1
        host = f" host {outcome.host}" if outcome.host else ""
        of_ports = f"{outcome.port_bursts:,} of switch ports, " if outcome.switch_ports else ""
        cpu = format_duration(round(outcome.cpu_s * 1e9))
        what = outcome.error or f"{format_count(outcome.bursts, 'burst')}, {of_ports}{cpu} of CPU"
        print_message(f"{outcome.date} rack {outcome.rack}{host}: {what} ({self._ended} of {self._of})")


def _silent(outcome: PartitionOutcome) -> None:
    pass


def _print(date: str, found: DayDetected) -> None:
    if found.outcomes:
        write_table(COLUMNS, map(_row, sorted(found.outcomes)), sys.stdout)
    failed = sum(bool(outcome.error) for outcome in found.outcomes)
    detected, lacking = format_count(len(found.outcomes) - failed, "partition"), len(found.incomplete)
    print(
        f"{date}: {detected} detected, {failed} failed, {len(found.done)} done before"
        + (f"; {format_count(lacking, 'is', 'are')} incomplete, since not all has arrived" if lacking else "")
    )
    _print_ports(found.outcomes)


def _print_ports(outcomes: list[PartitionOutcome]) -> None:
    """Print the results for recordings of switch ports, if there are any."""
    names = ("switch_ports", "port_bursts", "unfit_ports")
    ports, bursts, unfit = (sum(getattr(outcome, name) for outcome in outcomes) for name in names)
    if ports:
        print(f"{format_count(ports, 'recording')} of switch ports, {format_count(bursts, 'burst')} in them")
    if unfit:
        print(f"{UNFIT.format(format_count(unfit, 'recording'))} ({UNFIT_HINT})")


def _row(outcome: PartitionOutcome) -> tuple[Any, ...]:
    result = "failed" if outcome.error else "complete" if outcome.complete else "incomplete"
    cpu, size = f"{outcome.cpu_s:.1f}", f"{outcome.size / 1e6:.1f}"
    of_ports = f"{outcome.port_bursts:,}" if outcome.switch_ports else "–"
    return (outcome.rack, outcome.host or "all", f"{outcome.bursts:,}", of_ports, outcome.files, size, cpu, result)
