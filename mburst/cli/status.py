"""`mburst status`: one screen that says whether a store, or all that a mburst.toml runs, is well."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..names import print_lines
from ..units import format_bytes, format_count, format_duration, format_time
from .output import write_json_value, write_table

if TYPE_CHECKING:
    from ..status.parts import PartsStatus
    from ..status.reports import ReportStatus
    from ..status.store import StoreStatus

DESCRIPTION = """Say whether a store is well: which interfaces are recorded, how old the newest data is, what was not
counted in the last day, what the store takes of the disk, and when rows were last sealed. Of a mburst.toml, also
which parts run, and whether reports are written and delivered. Exit code 0: well; 1: what is not is listed at the
end."""
COLUMNS = ("rack", "host", "interface", "direction", "state", "newest data", "gaps (24 h)", "missed packets")
MOST = 20  # interfaces in the table: the longest without data first


@dataclass
class _Found:
    """What was looked at."""

    stores: list[StoreStatus] = field(default_factory=list)
    parts: PartsStatus | None = None
    reports: list[ReportStatus] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def unwell(self) -> list[str]:
        """What is not well, in sentences."""
        looked: list[Any] = [*([self.parts] if self.parts else []), *self.stores, *self.reports]
        return [*self.errors, *(sentence for one in looked for sentence in one.unwell())]


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("status", help="say whether a store and its recorders are well", description=DESCRIPTION)
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
    """Look, and print."""
    path = Path(arguments.of)
    found = _of_store(path) if path.is_dir() else _of_config(path)
    unwell = found.unwell()
    if arguments.json:
        write_json_value(_facts(found, unwell))
    else:
        _print(found, unwell)
    return 1 if unwell else 0


def _of_store(path: Path) -> _Found:
    from ..sql import StoreFolder
    from ..status import store

    return _Found([store.read(StoreFolder.open(path))])


def _of_config(path: Path) -> _Found:
    """All that the file names. A store that cannot be read is not well, and the rest is looked at."""
    from ..agent.config import load
    from ..sql import StoreFolder
    from ..status import parts, reports, store

    config = load(path, fill=False)
    found = _Found(parts=parts.read(config), reports=reports.read(config))
    sizes = config.store_sizes
    for name in config.stores:
        try:
            found.stores.append(store.read(StoreFolder.open(name), size_limit=sizes.get(name)))
        except MburstError as error:
            found.errors.append(str(error))
    return found


def _facts(found: _Found, unwell: list[str]) -> dict[str, Any]:
    return {
        "well": not unwell,
        "unwell": unwell,
        "run": found.parts and found.parts.facts(),
        "stores": [store.facts() for store in found.stores],
        "reports": [vars(report) for report in found.reports],
    }


# --- for people -------------------------------------------------------------------------------------------------------


def _print(found: _Found, unwell: list[str]) -> None:
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
    disk, now = store.disk, store.now_ns
    print_lines(
        f"store {store.store}: {format_bytes(disk.store_bytes)} in {format_count(disk.files, 'file')}, "
        f"{format_bytes(disk.day_bytes)} of the last day; {_space(store)}"
    )
    print_lines(f"last sealed: {_ago(now, disk.sealed_ns) if disk.sealed_ns else 'never'}")
    for table, newest_ns in sorted(store.newest.items()):
        print_lines(f"newest of {table}: {_ago(now, newest_ns)}")
    rows = sorted(store.interfaces, key=lambda one: one.newest_ns or 0)
    if rows:
        print_lines("")
        write_table(COLUMNS, [_row(one, now) for one in rows[:MOST]], sys.stdout)
        if len(rows) > MOST:
            print_lines(f"and {len(rows) - MOST:,} more, with newer data")
    print_lines("")


def _space(store: StoreStatus) -> str:
    disk = store.disk
    left = f"{format_bytes(disk.free_bytes)} of {format_bytes(disk.disk_bytes)} free"
    if store.size_limit is not None:
        left = f"at most {format_bytes(store.size_limit)}; {left}"
    return left if disk.full_in_days is None else f"{left}, full in {disk.full_in_days:,.1f} days"


def _row(one: Any, now_ns: int) -> tuple[Any, ...]:
    newest = "none" if one.newest_ns is None else _ago(now_ns, one.newest_ns)
    state = one.ended or "recording"
    return one.rack, one.host, one.interface, one.direction, state, newest, one.gaps, one.missed_packets


def _ago(now_ns: int, then_ns: int) -> str:
    """How long ago; data of a clock that is ahead is in the future."""
    behind = now_ns - then_ns
    return f"{format_duration(behind)} ago" if behind >= 0 else f"in {format_duration(-behind)}"
