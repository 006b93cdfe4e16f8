"""`mburst status`: one screen on the problems of a store, or of all that a mburst.toml runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..messages import print_lines
from ..units import format_bytes, format_count, format_duration, format_time
from .output import write_json_value, write_table

if TYPE_CHECKING:
    from ..status.parts import PartsStatus
    from ..status.store import InterfaceState, StoreStatus
    from ..status.whole import Status

DESCRIPTION = """Report the status of a store: which interfaces are recorded, how old the newest data are, what
was not counted in the last day, how much of the disk the store takes, when rows were last sealed, and whether files
that have changed are damaged. For a mburst.toml, also report which parts run, whether reports are written and
delivered, and whether the recordings can be shipped. Exit code 0: no problem; 1: the lines at the end that begin with
`unwell` list the problems."""
COLUMNS = ("rack", "host", "interface", "direction", "state", "newest data", "gaps (24 h)", "missed packets")
HINT = "`mburst record … -o STORE` makes a store, `mburst run --init` writes a configuration"
_ASIDE = "bring them back from a backup, or remove them once it need not be known what is missing"
MOST = 20  # interfaces in the table, those without data for the longest time first


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("status", help="report the status of a store and its recorders", description=DESCRIPTION)
    parser.add_argument(
        "of",
        metavar="STORE|FILE",
        nargs="?",
        default="mburst.toml",
        help="a store, or the configuration of `mburst run` (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the status, and print it."""
    from ..status import whole

    path = Path(arguments.of)
    if not path.exists():
        raise MburstError(f"{path}: neither a store nor a configuration", HINT)
    found = whole.of_store(path) if path.is_dir() else whole.of_config(path)
    unwell = found.unwell()
    if arguments.json:
        write_json_value(found.to_dict())
    else:
        _print(found, unwell)
    return 1 if unwell else 0


# --- text -------------------------------------------------------------------------------------------------------------


def _print(found: Status, unwell: list[str]) -> None:
    if found.parts:
        print_lines(*_part_lines(found.parts), "")
    for store in found.stores:
        _print_store(store)
    for report in found.reports:
        until = format_time(report.until_ns)[:19]
        print_lines(f"report {report.name}: {format_count(len(report.written), 'rack')} until {until} UTC")
    print_lines(*(f"unwell: {sentence}" for sentence in unwell) if unwell else ["well"])


def _part_lines(parts: PartsStatus) -> Iterator[str]:
    for part in parts.parts:
        age = "" if part.age_ns is None else f" for {format_duration(part.age_ns)} (process {part.process})"
        yield f"{part.name}: {f'runs{age}' if age else 'does not run'}"


def _print_store(store: StoreStatus) -> None:
    disk = store.disk
    packets = f", and {format_bytes(disk.packets_bytes)} of packets" if disk.packets_bytes else ""
    print_lines(
        f"store {store.store}: {format_bytes(disk.store_bytes)} in {format_count(disk.files, 'file')}, "
        f"{format_bytes(disk.day_bytes)} of the last day{packets}; {_space(store)}"
    )
    if disk.aside_files:
        print_lines(
            f"set aside by `mburst repair`: {format_count(disk.aside_files, 'file')} in {store.store}/damaged, "
            f"{format_bytes(disk.aside_bytes)}: {_ASIDE}"
        )
    print_lines(f"last sealed: {_ago(store, disk.sealed_ns) if disk.sealed_ns else 'never'}")
    for table, newest_ns in sorted(store.newest.items()):
        print_lines(f"newest of {table}: {_ago(store, newest_ns)}")
    rows = sorted(store.interfaces, key=lambda one: one.newest_ns or 0)
    if rows:
        print_lines("")
        write_table(COLUMNS, [_row(one, store) for one in rows[:MOST]], sys.stdout)
        if len(rows) > MOST:
            print_lines(f"and {len(rows) - MOST:,} more, with newer data")
    print_lines("")


def _space(store: StoreStatus) -> str:
    from ..status.store import full_in

    disk = store.disk
    left = f"{format_bytes(disk.free_bytes)} of {format_bytes(disk.disk_bytes)} free"
    if store.size_limit is not None:
        left = f"at most {format_bytes(store.size_limit)}; {left}"
    return left if store.full_in_days is None else f"{left}, {full_in(store.full_in_days)}"


def _row(one: InterfaceState, store: StoreStatus) -> tuple[Any, ...]:
    newest = "none" if one.newest_ns is None else _ago(store, one.newest_ns)
    state = "–" if one.ended is None else one.ended or "recording"
    return one.rack, one.host, one.interface, one.direction, state, newest, one.gaps, _missed(one)


def _missed(one: InterfaceState) -> str:
    """Returns how many packets were missed, as far as that is known, such as "at least 7"."""
    if one.missed_packets is None:
        return "not known"
    return f"{'at least ' if one.unknown_gaps else ''}{one.missed_packets:,}"


def _ago(store: StoreStatus, then_ns: int) -> str:
    """Returns how long ago a time was. If the clock is ahead, data may be in the future."""
    behind = store.behind_ns(then_ns)
    return f"{format_duration(behind)} ago" if behind >= 0 else f"in {format_duration(-behind)}"
