"""The status of a store: what is recorded, how it grows, and whether the disk has space for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..units import NS_PER_DAY, NS_PER_HOUR, NS_PER_MINUTE, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    import duckdb

    from ..sql import StoreFolder

STALE_NS = NS_PER_MINUTE  # a running recording has newer data, or its recorder is dead or hangs
UNSEALED_NS = 2 * 900 * 10**9  # twice the time after which a writer seals (sql/writer.py): an older log is not sealed
LEAST_DAYS = 3.0  # least time until the disk is full
LEAST_FREE = 0.02  # share of the disk

_WITH_SILENT = """
CREATE TEMP TABLE recordings AS
FROM main.recordings UNION ALL BY NAME
FROM noted WHERE (writer_id, direction) NOT IN (SELECT (writer_id, direction) FROM main.recordings)
    AND (writer_id NOT IN (SELECT writer_id FROM main.recordings)
         OR (rack, host, interface, direction) IN (SELECT (rack, host, interface, direction) FROM main.recordings))
"""


class InterfaceState(NamedTuple):
    """The state of a direction of an interface: a row of sql/queries/interfaces.sql for the last day. An `ended` of
    None marks a row about losses of both directions. `missed_packets` is the sum over gaps that are not in
    `unknown_gaps`, None if all are."""

    rack: str
    host: str
    interface: str
    direction: str
    link_bps: int | None
    ended: str | None
    newest_ns: int | None
    gaps: int
    missed_packets: int | None
    unknown_gaps: int


class DiskUse(NamedTuple):
    """Of the store and its file system, in bytes. `day_bytes` is what came in the last day and is still there, whenever
    it was compacted; of a store that is younger, since `age_ns` ago. `sealed_ns`: when the newest sealed file was
    written. Rings of packets grow up to their size and are in no limit: what they take is in `packets_bytes` alone.
    `aside_files` and `aside_bytes`: those of the files that `mburst repair` set aside, which nothing removes."""

    files: int
    store_bytes: int
    day_bytes: int
    age_ns: int
    free_bytes: int
    disk_bytes: int
    sealed_ns: int | None
    packets_bytes: int
    aside_files: int
    aside_bytes: int

    @property
    def full_in_days(self) -> float | None:
        """The days until the disk is full at the rate of the last day, or of the store's lifetime; None if that is less
        than an hour."""
        span = min(self.age_ns, NS_PER_DAY)
        if span < NS_PER_HOUR or not self.day_bytes:
            return None
        return self.free_bytes / (self.day_bytes * NS_PER_DAY / span)


def full_in(days: float) -> str:
    """Returns "full in 2.5 days", "full in 3 h", "full within a minute" or "full now"."""
    if days >= 0.9995:  # format_duration writes it in days, too
        return f"full in {days:,.1f} days"
    if days * NS_PER_DAY < NS_PER_MINUTE:
        return "full within a minute" if days else "full now"
    return f"full in {format_duration(days * NS_PER_DAY)}"


@dataclass(frozen=True)
class StoreStatus:
    """The whole status of a store, read from `now_ns` to `read_ns`, which may take minutes. Times are Unix nanoseconds;
    `newest` is for probes and switch queues, if there are any."""

    store: str
    now_ns: int
    interfaces: list[InterfaceState]
    newest: dict[str, int]
    disk: DiskUse
    unsealed: dict[str, int]  # table: start of the oldest hot log that is still written after UNSEALED_NS
    damaged: list[str]
    size_limit: int | None = None  # most bytes of the store, if its configuration limits it
    read_ns: int = 0  # 0: at once

    def behind_ns(self, newest_ns: int) -> int:
        """Returns how far data were behind the clock here when they were read: 0 for those that came during the
        reading, negative for those ahead of the clock."""
        return min(max(self.now_ns, newest_ns), max(self.now_ns, self.read_ns)) - newest_ns

    @property
    def full_in_days(self) -> float | None:
        """In how many days the disk is full, as far as that is known. None also where `size` ends the growth before."""
        left = None if self.size_limit is None else self.size_limit - self.disk.store_bytes
        return None if left is not None and 0 <= left < self.disk.free_bytes else self.disk.full_in_days

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        return [*self._recordings(), *self._ahead(), *self._files(), *self._space()]

    def _recordings(self) -> Iterator[str]:
        for one in (one for one in self.interfaces if one.ended is not None):
            name = f"{one.host} {one.interface} {one.direction}"
            behind = self.behind_ns(one.newest_ns or 0)
            if not one.ended and one.newest_ns is not None and behind > STALE_NS:
                yield f"{name}: the recording has not ended, and has no data for {format_duration(behind)}"
            elif not one.ended and behind < -STALE_NS:
                yield f"{name}: the newest data is {format_duration(-behind)} ahead of the clock here"
            if one.ended in ("failed", "killed") and 0 <= behind < NS_PER_DAY:
                yield f"{name}: the recording broke off ({one.ended}) {format_duration(behind)} ago"

    def _ahead(self) -> Iterator[str]:
        for table, newest_ns in sorted(self.newest.items()):
            ahead = -self.behind_ns(newest_ns)
            if ahead > STALE_NS:  # only this: a prober or a switch may end without being a problem
                yield f"{table}: the newest row is {format_duration(ahead)} ahead of the clock here"

    def _files(self) -> Iterator[str]:
        for table, begun_ns in self.unsealed.items():
            yield f"{table}: rows are not sealed since {format_duration(self.now_ns - begun_ns)}"
        if self.damaged:
            yield f"{format_count(len(self.damaged), 'damaged file')}: `mburst check {self.store}` names them"

    def _space(self) -> Iterator[str]:
        disk = self.disk
        if self.size_limit is not None and disk.store_bytes > self.size_limit:
            may = format_bytes(self.size_limit)
            yield f"the store takes {format_bytes(disk.store_bytes)}, more than the {may} that [keep] gives it"
        if disk.free_bytes < LEAST_FREE * disk.disk_bytes:
            yield f"the disk has {format_bytes(disk.free_bytes)} of {format_bytes(disk.disk_bytes)} left"
        elif self.full_in_days is not None and self.full_in_days < LEAST_DAYS:
            yield f"the disk is {full_in(self.full_in_days)}, as the store grows"

    def facts(self) -> dict[str, Any]:
        """Returns the facts for JSON."""
        return {
            "store": self.store,
            "interfaces": [one._asdict() for one in self.interfaces],
            "newest_ns": self.newest,
            "disk": {**self.disk._asdict(), "full_in_days": self.full_in_days, "size_limit": self.size_limit},
            "unsealed_since_ns": self.unsealed,
            "damaged_files": self.damaged,
        }


def read(store: StoreFolder, now_ns: int | None = None, size_limit: int | None = None) -> StoreStatus:
    """Query the store's files of the last day, and check for damaged files as far as check_changed detects them.
    SIZE_LIMIT is the most bytes that the store may take. Raises MburstError."""
    from ..sql.damage import damaged_files
    from ..sql.named import prepare, set_variables
    from ..sql.repair.changed import check_changed

    now = time.time_ns() if now_ns is None else now_ns
    since = now - NS_PER_DAY
    with store.connect(since_ns=since) as con:
        live = _add_silent(con, store)
        opened = time.time_ns() if now_ns is None else now_ns
        set_variables(con, since_ns=since, now_ns=opened + STALE_NS, live_writers=live)
        rows = con.execute(prepare(con, "interfaces")).fetchall()
        newest = dict(con.execute("SELECT table_name, ts_ns FROM newest WHERE table_name <> 'bins'").fetchall())
        met = [file.path for file in damaged_files(con) if not file.is_set_aside]
    damaged = sorted({*met, *(file.path for file in check_changed(store.path))})
    disk = disk_use(store, now)
    interfaces = [InterfaceState(*row) for row in rows]
    unsealed = _unsealed(store)
    read_ns = time.time_ns() if now_ns is None else now_ns
    return StoreStatus(str(store.path), now, interfaces, newest, disk, unsealed, damaged, size_limit, read_ns)


def _add_silent(con: duckdb.DuckDBPyConnection, store: StoreFolder) -> list[str]:
    """Add recordings under way to `recordings` whose rows are only in their locks, since no packet came so far; of one
    with rows, the direction without a packet if it was recorded before. Returns the writers that hold their locks."""
    import pyarrow as pa

    from ..services.record.recovery import noted_rows
    from ..sql.locks import held_notes
    from ..sql.tables import arrow_schema

    noted = [row for note in held_notes(store.path) for rows in noted_rows(note).values() for row in rows]
    if noted:
        con.register("noted", pa.Table.from_pylist(noted, arrow_schema("recordings")))
        con.execute(_WITH_SILENT)
    return sorted({row["writer_id"] for row in noted})


def disk_use(store: StoreFolder, now_ns: int) -> DiskUse:
    """What the store takes, by a look at each of its files."""
    from ..sql.format.filenames import ASIDE
    from ..sql.store import files_of

    count = size = day = packets = aside_count = aside = 0
    first_ns, sealed_ns = now_ns, None
    for path, facts, is_packets in files_of(store.path):
        if is_packets:
            packets += facts.st_size
            continue
        count += 1
        size += facts.st_size
        first_ns = min(first_ns, facts.st_mtime_ns)
        if path.is_relative_to(store.path / ASIDE):
            aside_count, aside = aside_count + 1, aside + facts.st_size
        if facts.st_mtime_ns > now_ns - NS_PER_DAY and _came_ns(path, facts) > now_ns - NS_PER_DAY:
            day += facts.st_size
        if path.suffix == ".parquet":
            sealed_ns = max(sealed_ns or 0, facts.st_mtime_ns)
    return DiskUse(count, size, day, now_ns - first_ns, *_file_system(store), sealed_ns, packets, aside_count, aside)


def _came_ns(path: Path, facts: os.stat_result) -> int:
    """When what is in a file of a store came: what compaction wrote takes the place of what was there."""
    from ..sql.format.filenames import SealedName

    name = SealedName.parse(path.name)
    return name.segment.start_ns if name and name.segment.compacted else facts.st_mtime_ns


def _file_system(store: StoreFolder) -> tuple[int, int]:
    """Returns the bytes that this user may still write, and the size of the file system."""
    found = os.statvfs(store.path)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _unsealed(store: StoreFolder) -> dict[str, int]:
    """Returns tables with a hot log that has been written for longer than a writer keeps one."""
    found: dict[str, int] = {}
    for table, logs in store.hot_logs().items():
        for path, begun_ns in logs.items():
            with suppress(OSError):
                if path.stat().st_mtime_ns - begun_ns > UNSEALED_NS:
                    found[table] = min(begun_ns, found.get(table, begun_ns))
    return found
