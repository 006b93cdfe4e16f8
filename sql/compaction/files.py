"""Which files of a store may be replaced: those of days that are over, which no writer will add to, and small ones of
the hours of the day that is not over.

Bins and senders of a writer may be replaced once no total has to be computed by the names of its files: its recordings
ended normally, or they are of an interface and the row of the recording already counts these segments. What shippers
have not shipped yet is left alone, and so is a day with damaged files. On the day that is not over, files of interfaces
are merged unchanged, those of an hour into one, once followers of the store have read them.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...units import NS_PER_DAY, NS_PER_HOUR
from .. import aside, verified
from ..damage import SECOND_COPY, DamagedFile
from ..format.filenames import ASIDE, MIXED, SHIPPED, SealedName, rack_of
from ..segments import (
    HELD_NS,
    FileSelection,
    SealedFile,
    damaged_file,
    list_hot,
    list_sealed,
    second_copies,
    with_copies,
)
from ..shipped import SHIPPED_TABLES, SHIPPED_TO, read_ledger
from ..tables import ORDER, RECORDED
from .rules import FOLLOWED_NS, SETTLED_NS, Detail

if TYPE_CHECKING:
    import duckdb

# Tables whose rows are kept whole, then not at all.
WHOLE_OR_GONE = ("kept", "queues", "ports", "buffers", "gnmi_values", "device_clocks", "probes", "clock")
SUMMED = ("steps", "latency_steps")  # made of such rows; their segments have the time of the newest of these
AGED = (*RECORDED, *WHOLE_OR_GONE, *SUMMED)
SPARE_DAYS = 7  # of rows about recordings, in case the needed one is damaged
SMALL_IN_HOUR = 16 << 20  # bytes: larger files are left until their day is over


@dataclass(frozen=True, order=True)
class DayName:
    """A day (days since 1970, UTC) of a rack; if the day is not over, one of its hours, 0 to 23."""

    day: int
    rack: str
    hour: int = -1

    @property
    def is_hour(self) -> bool:
        """Whether it is an hour of a day."""
        return self.hour >= 0

    @property
    def start_ns(self) -> int:
        """Its first nanosecond."""
        return self.day * NS_PER_DAY + max(0, self.hour) * NS_PER_HOUR

    @property
    def end_ns(self) -> int:
        """The first nanosecond after it."""
        return self.start_ns + (NS_PER_HOUR if self.is_hour else NS_PER_DAY)

    def is_over(self, now_ns: int) -> bool:
        """Whether all of its rows are sealed at NOW_NS; for an hour, whether recorders hold no rows of it back any
        more."""
        return self.end_ns + (HELD_NS if self.is_hour else SETTLED_NS) <= now_ns


class Target:
    """A target of shippers, as its ledger at `path` describes it: its name, and the files that have arrived, by key. If
    bursts are shipped, these are files that no day without shipped bursts needs any more."""

    def __init__(self, path: Path) -> None:
        ledger = read_ledger(path)
        self.path = path
        self.name = next(iter(ledger.get(SHIPPED_TO, ())), "a target")
        self._keys = set[str]().union(*ledger.values())
        self._tables = ledger.get(SHIPPED_TABLES)

    def has_arrived(self, table: str, file: SealedFile) -> bool:
        """Whether FILE of TABLE has arrived or is not shipped. Files that were compacted from such files have."""
        is_shipped = self._tables is None or table in self._tables
        return file.name.segment.compacted > 0 or not is_shipped or "/".join(file.path.parts[-4:]) in self._keys


@dataclass
class DayFiles:
    """The files of a day of a rack, or of an hour of it, that may be replaced, by table. `near` are the files of bins
    of the days before and after, into which bursts across midnight reach. `left` are writers whose bins and senders of
    that day stay as they are; `is_unfinished` means that some of these are of interfaces. `damaged` has a line for each
    damaged file, because of which those of all writers stay. `superseded` are tables with rows that later days have
    again. `unshipped` are targets that lack some of what is removed with age, and when the newest of it was begun.
    `missing` are files of bins and senders that were set aside: what is kept of the rest depends on their rows."""

    files: dict[str, list[SealedFile]] = field(default_factory=lambda: defaultdict(list))
    near: list[SealedFile] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    is_unfinished: bool = False
    damaged: list[str] = field(default_factory=list)
    superseded: frozenset[str] = frozenset()
    unshipped: dict[Target, int] = field(default_factory=dict)
    missing: list[DamagedFile] = field(default_factory=list)

    def leave(self, table: str, file: SealedFile, writer: Writer | None) -> None:
        """Keep FILE of TABLE, which WRITER wrote, as it is."""
        if table in RECORDED:
            self.left.add(file.name.segment.writer)
            self.is_unfinished |= writer is not None and writer.is_live

    def wait(self, table: str, file: SealedFile, lacking: Iterable[Target]) -> None:
        """Note that FILE of TABLE has not arrived at the targets LACKING."""
        for target in lacking if table in AGED else ():
            self.unshipped[target] = max(file.name.segment.start_ns, self.unshipped.get(target, 0))

    @property
    def is_merged(self) -> bool:
        """Whether hours of it were merged: then a file has rows of many writers."""
        return any(
            file.name.segment.compacted == Detail.ALL for table in RECORDED for file in self.files.get(table, ())
        )

    @property
    def is_whole(self) -> bool:
        """Whether it has bins or senders that were not thinned."""
        return any(
            file.name.segment.compacted < Detail.BURSTS for table in RECORDED for file in self.files.get(table, ())
        )

    @property
    def newest_ns(self) -> int:
        """When the newest segment of what is removed with age was begun: what is imported later than it was recorded is
        new."""
        files = [file for table in AGED for file in self.files.get(table, ())]
        return max((file.name.segment.start_ns for file in files), default=0)


def size_of(path: Path) -> int:
    """The size of a file; 0 if it is gone."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


@dataclass(frozen=True)
class Writer:
    """A call of `mburst record`. `is_live` means that it recorded an interface. `counted` is the number of segments of
    bins that its rows count; None: all. `newest_ns` is the time at which its newest row was written."""

    is_live: bool
    is_complete: bool
    has_ended: bool
    counted: int | None
    newest_ns: int


def writers(connection: duckdb.DuckDBPyConnection) -> dict[str, Writer]:
    """Returns the writers whose recordings count in the store of CONNECTION, by writer id."""
    found = connection.execute(
        """SELECT writer_id, bool_and(boot_id IS NOT NULL), bool_and(complete), bool_and(ended <> ''),
                  min(counted_segments), max(written_ns)
           FROM recordings GROUP BY writer_id"""
    ).fetchall()
    return {name: Writer(*of) for name, *of in found}


def days_of_recordings(connection: duckdb.DuckDBPyConnection) -> set[DayName]:
    """Returns the days of racks with rows about recordings that the store of CONNECTION needs: the day of the newest
    row of each recording by each writer, and in case that row is damaged, the last day before it with a row, and
    SPARE_DAYS before each."""
    found = connection.execute(
        """SELECT DISTINCT rack, unnest(list_append(list_sort(list(DISTINCT written_ns // $day))[-2:],
                                           arg_max(written_ns, {complete: complete, ns: written_ns}) // $day))
           FROM defined.all_recordings GROUP BY rack, writer_id, recording_id""",
        {"day": NS_PER_DAY},
    ).fetchall()
    return {DayName(day - spare, rack) for rack, day in found for spare in range(SPARE_DAYS + 1)}


def compactable(store: Path, known: dict[str, Writer], needed: set[DayName], now_ns: int) -> dict[DayName, DayFiles]:
    """Returns the days of the store at STORE that were over SETTLED_NS before NOW_NS and have files that may be
    replaced, the oldest first, and hours of other days with files that may be merged. KNOWN is the result of `writers`,
    NEEDED of `days_of_recordings`. Raises OSError."""
    days: dict[DayName, DayFiles] = defaultdict(DayFiles)
    bins: dict[DayName, list[SealedFile]] = defaultdict(list)
    shipped = [Target(path) for path in sorted((store / SHIPPED).glob("*.json"))]
    for table in ORDER:
        listed = _Listed(store, table)
        for file in listed.files:
            name = _day_of(file)
            if table == "bins":
                bins[name].append(file)
            if not name.is_over(now_ns):
                name = _hour_of(file, name)
            if file.path in listed.doubled:
                days[name].damaged.append(f"{file.path}: {SECOND_COPY}")
            elif lacking := [of for of in shipped if not of.has_arrived(table, file)]:
                days[name].wait(table, file, lacking)
                days[name].leave(table, file, known.get(file.name.segment.writer))
            elif not listed.is_settled(file, known, name):
                days[name].leave(table, file, known.get(file.name.segment.writer))
            else:
                days[name].files[table].append(file)
    over = {name: days[name] for name in sorted(days) if name.is_over(now_ns)}
    missing = _set_aside(store)
    for name, day in over.items():
        if name.is_hour:
            day.files = _mergeable(day.files)
        else:
            day.superseded = frozenset() if name in needed else frozenset({"recordings"})
            near = FileSelection(None, name.start_ns, name.end_ns)
            day.missing = [of.file for of in missing if of.rack in ("", name.rack) and near.takes_times(*of.times)]
            beside = [file for day in (name.day - 1, name.day + 1) for file in bins[DayName(day, name.rack)]]
            second = second_copies(beside, verified.unverified)
            day.near = [file for file in beside if near.takes(file.name) and file not in second]
        _verify(day)
    return {name: day for name, day in over.items() if day.files or day.damaged or day.unshipped}


def _mergeable(tables: Mapping[str, list[SealedFile]]) -> dict[str, list[SealedFile]]:
    """The files of an hour to be merged: small ones that came some time ago, if there are several. All of a writer or
    none, so that its rows stay in order of time."""
    came_until = time.time_ns() - FOLLOWED_NS
    small: dict[str, list[SealedFile]] = {}
    for table, files in tables.items():
        waiting = {file.name.segment.writer for file in files if not _is_small(file, came_until)}
        small[table] = [file for file in files if file.name.segment.writer not in waiting]
    return {table: files for table, files in small.items() if len(files) > 1}


def _is_small(file: SealedFile, came_until_ns: int) -> bool:
    try:
        state = file.path.lstat()
    except OSError:  # the file is gone
        return False
    return state.st_size < SMALL_IN_HOUR and max(state.st_ctime_ns, state.st_mtime_ns) <= came_until_ns


class _Listed:
    """The sealed files of a table, and what its hot logs show about them."""

    def __init__(self, store: Path, table: str) -> None:
        before, sealed = list_hot(store, table).logs, list_sealed(store, table, FileSelection())
        after = list_hot(store, table).logs
        self._table = table
        self._hidden = {segment.name for segment in (before | after).values()}
        self._begun: dict[str, list[int]] = defaultdict(list)  # start of each log, by writer
        for segment in (before | after).values():
            self._begun[segment.writer].append(segment.start_ns)
        self.files = [file for file in sealed.files if file.path.parent.parent.name != MIXED]
        self.doubled = {file.path for file in with_copies(sealed.files)}

    def is_settled(self, file: SealedFile, known: dict[str, Writer], name: DayName) -> bool:
        """Whether FILE, of the day NAME, counts, nobody looks for it by the name of its writer, and that writer will
        add nothing to the day."""
        segment = file.name.segment
        if segment.name in self._hidden or (segment.compacted > 0 and name.is_hour):
            return False
        if segment.compacted > 0 or self._table not in (*RECORDED, "recordings"):
            return True
        writer = known.get(segment.writer)
        if writer is None or not (writer.is_live or (writer.is_complete and not name.is_hour)):
            return False  # it was replaced, or will be
        if self._table == "recordings":
            return writer.has_ended or file.name.last_ns < writer.newest_ns
        if self._table == "bins" and writer.counted is not None and segment.number >= writer.counted:
            return False
        return all(writer.is_live and at_ns > name.end_ns + HELD_NS for at_ns in self._begun[segment.writer])


def _day_of(file: SealedFile) -> DayName:
    import datetime

    date = datetime.date.fromisoformat(file.path.parent.parent.name.removeprefix("date="))
    return DayName((date - datetime.date(1970, 1, 1)).days, rack_of(file.path.parent.name))


class _SetAside(NamedTuple):
    """A file of bins or senders that was set aside, and the first and last time of its rows."""

    file: DamagedFile
    rack: str
    times: tuple[int, int | None]


def _set_aside(store: Path) -> list[_SetAside]:
    """Returns the files of bins and senders that were set aside. Of a log, only the time at which it begins counts: it
    is short, and its end may not be known. A file without any time is left out, or every day would wait for it. Raises
    OSError."""
    if not os.path.lexists(store / ASIDE):
        return []
    found = [file for table in RECORDED for file in aside.missing(store, table, FileSelection())]
    return [
        _SetAside(
            file, file.rack, (file.first_ns, file.last_ns if SealedName.parse(Path(file.path).name) else file.first_ns)
        )
        for file in found
        if file.first_ns is not None
    ]


def in_time(files: Iterable[SealedFile]) -> list[SealedFile]:
    """FILES of a table ordered by the hour in which their rows begin; within an hour, merged files and then others in
    the order of writing. So the rows of each recording are nearly in order of time."""
    return sorted(files, key=lambda file: (file.name.first_ns // NS_PER_HOUR, file.path.name))


def _hour_of(file: SealedFile, name: DayName) -> DayName:
    """The hour in which the rows of a file of the day NAME begin."""
    return replace(name, hour=min(max(0, (file.name.first_ns - name.start_ns) // NS_PER_HOUR), 23))


def _verify(day: DayFiles) -> None:
    """Leave out damaged files, and the bins and senders of writers that keep some of them: they belong together. A
    damaged file of a day before or after is missing there."""
    beside = verified.unverified([file.path for file in day.near])
    day.missing += [damaged_file(file, "bins", beside[file.path]) for file in day.near if file.path in beside]
    day.near = [file for file in day.near if file.path not in beside]
    faults = verified.unverified([file.path for files in day.files.values() for file in files])
    day.damaged += [f"{path}: {reason}" for path, reason in faults.items()]
    for table, files in list(day.files.items()):
        day.files[table] = [
            file
            for file in files
            if file.path not in faults
            and not (table in RECORDED and (day.damaged or file.name.segment.writer in day.left))
        ]
    day.files = {table: files for table, files in day.files.items() if files}
