"""Queries of results: selects the files that count, and opens a database over those of some days.

Every file is verified by the SHA-256 in its partition's record before it is read. A partition with a damaged or missing
file is left out and reported."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .. import temporary
from ..agent.schedule.reports import last_period
from ..errors import MburstError, UsageError
from ..sql import resulting
from ..units import NS_PER_DAY, format_count
from .inventory import HostOf
from .plan import date_of, day_of, start_of
from .receipts import shipped_until
from .results import (
    PORT_TABLES,
    TABLES,
    DamagedRecord,
    PartitionName,
    PartitionRecord,
    list_plans,
    list_records,
    read_record,
)
from .target import FleetTarget, NoSuchObject

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MOST_DAYS = 366  # most days of one query
BACK_DAYS = 7  # number of earlier days with which the queried days are compared
OTHER_CONTENT = "the content does not have the SHA-256 of its partition's record"
_THREADS = 16
_NAMED = 5  # most names in a line


class AskedDays(NamedTuple):
    """The whole days (UTC) of a query, in Unix ns."""

    since_ns: int
    until_ns: int

    @classmethod
    def until_day(cls, date: str, days: int) -> AskedDays:
        """Returns DAYS days, the last of which is DATE. Raises UsageError."""
        if not 1 <= days <= MOST_DAYS:
            raise UsageError(f"invalid number of days {days}", f"1 to {MOST_DAYS}")
        until = start_of(date) + NS_PER_DAY
        return cls(until - days * NS_PER_DAY, until)

    @property
    def dates(self) -> list[str]:
        """The queried dates."""
        return [date_of(at) for at in range(self.since_ns, self.until_ns, NS_PER_DAY)]

    @property
    def all_dates(self) -> list[str]:
        """The queried dates and the earlier ones with which they are compared."""
        return [date_of(at) for at in range(self.since_ns - BACK_DAYS * NS_PER_DAY, self.until_ns, NS_PER_DAY)]


class DamagedPartition(NamedTuple):
    """A partition that is left out, and a line with the reason."""

    name: PartitionName
    reason: str

    def __str__(self) -> str:
        return self.reason


class FleetDatabase(NamedTuple):
    """A database and its content. `records` are those of the partitions that are read, including those of earlier days.
    `dates` are queried days without any result; `undetected` are partitions of the other queried days without a result,
    also those of racks that had results on a day before; `damaged` are partitions that are left out. `sha256` is that
    of each file by its record."""

    con: duckdb.DuckDBPyConnection
    records: list[PartitionRecord]
    dates: list[str]
    undetected: list[PartitionName]
    damaged: list[DamagedPartition]
    sha256: dict[Path, str]

    def changed(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Returns those of PATHS that have changed since they were verified, with the reason."""
        return {path: OTHER_CONTENT for path in paths if not _has(path, self.sha256[path])}

    @property
    def lacks(self) -> list[str]:
        """A line for each part without a result."""
        return [*(f"{name}: not detected" for name in self.undetected), *(f"no results of {of}" for of in self.dates)]

    def incomplete(self, days: AskedDays) -> Iterator[str]:
        """Yields a line for each partition of DAYS of which not all had arrived when it was detected."""
        for record in self.records:
            if record.date in days.dates and not record.complete:
                late = [f"host {host}" for host in sorted(record.behind)]
                lacking = _some([*late, *record.missing]) or "not all"
                yield f"{record.name}: incomplete: when it was detected, not all had arrived: {lacking}"

    def lacks_near(self, tables: Iterable[str], days: AskedDays) -> Iterator[str]:
        """Yields a line for each of TABLES, some of NEAR_TABLES, that partitions of DAYS lack."""
        for table in tables:
            asked = [record for record in self.records if record.date in days.dates and _may_have(record, table)]
            lacking = [str(record.name) for record in asked if table not in record.sha256]
            if lacking:
                of = f"{len(lacking):,} of {format_count(len(asked), 'partition')}"
                yield f"{table}: missing in {of}: {_some(lacking)} (`mburst ship --level hot` ships them)"


def _may_have(record: PartitionRecord, table: str) -> bool:
    """Whether the rows near bursts of a partition can have TABLE."""
    return record.switch_ports > 0 if table == "port_bins" else True


def _some(names: Sequence[str]) -> str:
    """Returns the first NAMES, and the number of others."""
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def last_days(span: str, now_ns: int) -> AskedDays:
    """Returns the last whole days (UTC): `day`, `week` (from Monday), or a number of days such as `7d`. Raises
    UsageError."""
    if span in ("day", "week"):
        period = last_period(span, now_ns)
        return AskedDays(period.since_ns, period.until_ns)
    if not (span.endswith("d") and span[:-1].isascii() and span[:-1].isdigit() and len(span) < 5):
        raise UsageError(f"invalid --last {span!r}", "examples: day, week, 7d")
    return AskedDays.until_day(day_of("last", now_ns), int(span[:-1]))


@contextmanager
def opened(
    results: FleetTarget,
    days: AskedDays,
    inventory: Iterable[HostOf] = (),
    scratch: str | None = None,
    near: Sequence[str] = (),
) -> Iterator[FleetDatabase]:
    """Yields the results of DAYS and of the BACK_DAYS before them, with the tables NEAR of NEAR_TABLES. Results in a
    bucket are copied for this time to a folder below SCRATCH (None: the folder of temporary files). Raises MburstError
    if there are no results of DAYS."""
    listed = list(inventory)
    records, undetected, unread = _records(results, days)
    there = {*undetected, *(of.name for of in records), *(of.name for of in unread)}
    dates, absent = _absent(results, days, there, listed)
    undetected = sorted([*undetected, *absent], key=lambda name: (name.date, name.rack, name.host or ""))
    with temporary.folder("mburst-fleet-", scratch) as folder, ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda record: _files(results, record, Path(folder), near), records))
        sound = [(record, files) for record, files in zip(records, found, strict=True) if not isinstance(files, str)]
        if not {record.date for record, _ in sound} & {*days.dates}:
            asked = " to ".join(dict.fromkeys((days.dates[0], days.dates[-1])))
            raise MburstError(
                f"{results.name}: no results of {asked}"
                + "".join(f"; {of}" for of in [*unread, *found] if isinstance(of, str | DamagedPartition)),
                "`mburst fleet detect TARGET --day DATE -o RESULTS` makes them",
            )
        tables = {
            table: [
                resulting.ResultFile(files[table], record.date, record.rack)
                for record, files in sound
                if table in files
            ]
            for table in (*TABLES, *PORT_TABLES, *near)
        }
        divided = {(record.date, record.rack) for record, _ in sound if record.host is not None}
        con = resulting.connect(tables, (days.since_ns, days.until_ns), _table(listed), divided)
        with con:
            damaged = unread + [
                DamagedPartition(record.name, of)
                for record, of in zip(records, found, strict=True)
                if isinstance(of, str)
            ]
            sha256 = {path: record.sha256[of] for record, files in sound for of, path in files.items()}
            yield FleetDatabase(con, [record for record, _ in sound], dates, undetected, damaged, sha256)


def _records(
    results: FleetTarget, days: AskedDays
) -> tuple[list[PartitionRecord], list[PartitionName], list[DamagedPartition]]:
    """Returns the records of all dates, the partitions of DAYS without a record, and those with a damaged record."""
    names = [name for date in days.all_dates for name in list_records(results, date)]
    planned = {name for date in days.dates for name in list_plans(results, date)}

    def read(name: PartitionName) -> PartitionRecord | DamagedPartition | None:
        try:
            return read_record(results, name)
        except DamagedRecord as error:
            return DamagedPartition(name, f"{error} ({error.hint})")

    with ThreadPoolExecutor(_THREADS) as pool:
        found = [of for of in pool.map(read, names) if of]
    whole = {of.name[:2] for of in found if isinstance(of, PartitionRecord) and of.host is None}
    found = [_once(of, whole) if isinstance(of, PartitionRecord) else of for of in found]
    undetected = planned - {of.name for of in found}
    return (
        [of for of in found if isinstance(of, PartitionRecord)],
        list(undetected),
        [of for of in found if isinstance(of, DamagedPartition)],
    )


def _absent(
    results: FleetTarget, days: AskedDays, there: Iterable[PartitionName], inventory: Iterable[HostOf]
) -> tuple[list[str], list[PartitionName]]:
    """Returns the dates of DAYS of which none of the partitions THERE is, and what has none on another of these dates,
    and had one before: racks, and hosts of racks that are divided by host. Hosts of INVENTORY count while they are
    expected, and those that ship their bursts to RESULTS until they have shipped what comes after the day: then nothing
    was recorded."""
    of_date: dict[str, set[tuple[str, str | None]]] = {date: set() for date in days.all_dates}
    for name in there:
        of_date[name.date].add((name.rack, name.host))
    listed = {(of.rack, of.host): of for of in inventory}
    until = functools.cache(lambda rack, host: shipped_until(results, rack, host, time.time_ns()))

    def is_expected(rack: str, host: str | None, since_ns: int) -> bool:
        of = listed.get((rack, host or ""))
        if of is not None and not of.is_expected(since_ns, since_ns + NS_PER_DAY):
            return False
        return host is None or until(rack, host) < since_ns + NS_PER_DAY

    before, absent = set[tuple[str, str | None]](), set[PartitionName]()
    for date, found in of_date.items():
        racks, whole = {rack for rack, _ in found}, {rack for rack, host in found if host is None}
        for rack, host in before - found if found and date in days.dates else ():
            hosts: list[str | None] = [host]
            if host is None:
                hosts = [of.host for of in listed.values() if of.rack == rack] or [None]
            is_there = rack in whole or (host is None and rack in racks)
            if not is_there and any(is_expected(rack, of, start_of(date)) for of in hosts):
                absent.add(PartitionName(date, rack, host if rack in racks else None))
        before |= found
    return [date for date in days.dates if not of_date[date]], list(absent)


def _once(record: PartitionRecord, whole: Collection[tuple[str, str]]) -> PartitionRecord | DamagedPartition:
    """Returns a record, or why it is left out: its date and rack are among those that were detected as a WHOLE."""
    name = record.name
    if record.host is None or name[:2] not in whole:
        return record
    other = name._replace(host=None)
    why = "its rack was detected as a whole, too, so rows would count twice: left out"
    return DamagedPartition(name, f"{name}: {why} (remove {other.record_key} and {other.plan_key}, and detect again)")


def _files(results: FleetTarget, record: PartitionRecord, folder: Path, near: Sequence[str]) -> dict[str, Path] | str:
    """Returns the files of a partition by table, those of NEAR only if it has them, verified by the SHA-256 in RECORD,
    or the reason why one cannot be used."""
    found = {}
    remedy = f"(remove {record.name.record_key}, and detect again)"
    for table in (*record.tables, *(of for of in near if of in record.sha256)):
        key = record.name.key(table)
        try:
            path = _local(results, key, folder)
            if _sha256(path) != record.sha256[table]:
                return f"{results.place(key)}: damaged: {OTHER_CONTENT} {remedy}"
        except NoSuchObject as error:
            return f"{error} {remedy}"
        except OSError as error:
            return f"{results.place(key)}: cannot read: {error.strerror} {remedy}"
        except KeyError:
            return f"{record.name}: of an older mburst, without the table {table}: detect it again"
        found[table] = path
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has(path: Path, sha256: str) -> bool:
    """Whether the file at PATH can be read and has that SHA-256."""
    try:
        return _sha256(path) == sha256
    except OSError:
        return False


def _local(results: FleetTarget, key: str, folder: Path) -> Path:
    """Returns the file of an object: the object itself in a folder, or a copy below FOLDER. Raises NoSuchObject."""
    for there in results.folders():
        return there / key
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    results.fetch(key, path)
    return path


def _table(inventory: Iterable[HostOf]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([(name, pa.int64() if name.endswith("_ns") else pa.string()) for name in HostOf._fields])
    return pa.Table.from_pylist([of._asdict() for of in sorted(inventory, key=lambda of: of[:2])], schema)
