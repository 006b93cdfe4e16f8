"""Segments: which files of a store hold the rows of a table, and which of them count.

A segment is what one writer wrote of one table without a pause (its files are named by sql/format/filenames.py). It has
two forms:

- hot: a log that its writer appends to (sql/format/hotlog.py). Its writer holds a lock (flock) on it as a sign of life;
  nobody ever waits for that lock.
- sealed: one or more Parquet files, each row group in the table's order (sql/sealing.py).

While the hot form of a segment exists, its sealed files do not count. Sealing writes the sealed files, makes them
durable, and removes the hot file: that one unlink is the commit, and a crash anywhere before it leaves a hot file that
is sealed again from the start. Readers list the hot files before the sealed ones and once more after them. (A log with
fewer rows than its sealed files is an exception: it comes from a copy that was made while it was written.)

Sealed files are replaced by others as sql/replacing.py describes: either the old files are listed or the new ones.

Only regular files are opened; anything else in the place of a file is damage.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..files import plain_name
from ..units import NS_PER_DAY, NS_PER_HOUR, NS_PER_MINUTE
from . import disk, replacing, verified
from .damage import SECOND_COPY, DamagedFile
from .format.filenames import (
    HOT,
    MIXED,
    STRANGER,
    SealedName,
    Segment,
    date_folder,
    rack_folder,
    rack_of,
    times_of,
    unfinished_segment,
)
from .format.hotlog import LogContent, read_log
from .tables import ORDER

IRREGULAR = "not a regular file"
HELD_NS = NS_PER_MINUTE  # longest time by which rows in a recorder's memory may be older than its hot log
SLACK_NS = NS_PER_HOUR  # how far rows may lie beside the requested time and still be wanted


@dataclass(frozen=True)
class FileSelection:
    """Selects the files of a store to list; None takes all. Times are Unix nanoseconds, in [since_ns, until_ns)."""

    rack: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def takes_date(self, name: str) -> bool:
        """Whether a folder named date=YYYY-MM-DD is wanted. ISO dates compare as text."""
        if name == MIXED:
            return True
        return (
            name.startswith("date=")
            and (self.since_ns is None or name >= date_folder((self.since_ns - SLACK_NS) // NS_PER_DAY))
            and (self.until_ns is None or name <= date_folder((self.until_ns + SLACK_NS) // NS_PER_DAY))
        )

    def takes_rack(self, name: str) -> bool:
        """Whether a folder named rack=RACK is wanted."""
        return name.startswith("rack=") and (self.rack is None or name == rack_folder(self.rack))

    def takes(self, name: SealedName) -> bool:
        """Whether a file can hold rows that are wanted."""
        return self.takes_times(name.first_ns, name.last_ns)

    def takes_times(self, first_ns: int | None, last_ns: int | None) -> bool:
        """Whether rows in [first_ns, last_ns] (None: not known) can be wanted."""
        return (self.since_ns is None or last_ns is None or last_ns >= self.since_ns - SLACK_NS) and (
            self.until_ns is None or first_ns is None or first_ns < self.until_ns + SLACK_NS
        )


@dataclass(frozen=True)
class SealedFile:
    """A sealed file."""

    path: Path
    name: SealedName

    @property
    def rack(self) -> str:
        """The rack whose rows it has; '' if its folder does not belong to a store."""
        folder = self.path.parent.name
        return rack_of(folder) if folder.startswith("rack=") else ""

    @property
    def segment_part(self) -> tuple[str, int]:
        """Its segment, and which part of it: copies have the same."""
        return self.name.segment.name, self.name.part


@dataclass
class Listing:
    """What is in the places where files of a table are expected."""

    logs: dict[Path, Segment] = field(default_factory=dict)
    files: list[SealedFile] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    damage: list[DamagedFile] = field(default_factory=list)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_folder(path: Path, table: str, damage: list[DamagedFile]) -> bool:
    """Whether PATH is a folder and not a link to one; anything else there is damage."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        damage.append(DamagedFile(str(path), table, "not a folder"))
        return False
    return True


def list_hot(store: Path, table: str) -> Listing:
    """The hot logs of TABLE, sorted by name."""
    listing = Listing()
    if not all(_is_folder(folder, table, listing.damage) for folder in (store / HOT, store / HOT / table)):
        return listing
    for entry in _entries(store / HOT / table):
        path = store / HOT / table / entry.name
        segment = Segment.parse(path.stem) if path.suffix == ".log" else None
        if unfinished_segment(entry.name):
            listing.unfinished.append(path)
        elif path.suffix == ".log" and (segment is None or not entry.is_file(follow_symlinks=False)):
            listing.damage.append(_misplaced_log(path, table, segment))
        elif segment is not None:
            listing.logs[path] = segment
    return listing


def list_sealed(store: Path, table: str, narrow: FileSelection) -> Listing:
    """Returns the sealed files of TABLE, sorted by date, rack and name, including those that a hot log hides, without
    those that compaction replaced."""
    while True:
        hidden = replacing.hidden(store)
        listing = _list_sealed(store, table, narrow, hidden)
        if replacing.hidden(store).state == hidden.state:
            return listing


def _list_sealed(store: Path, table: str, narrow: FileSelection, hidden: replacing.Hidden) -> Listing:
    listing = Listing()
    if not _is_folder(store / table, table, listing.damage):
        return listing
    for folder in _folders(store / table, table, narrow, listing.damage):
        place = folder.relative_to(store).as_posix()
        for entry in _entries(folder):
            path = folder / entry.name
            name = SealedName.parse(entry.name)
            if unfinished_segment(entry.name):
                listing.unfinished.append(path)
            elif path.suffix == ".parquet" and (name is None or not entry.is_file(follow_symlinks=False)):
                listing.damage.append(_misplaced_sealed(path, table, name))
            elif name is not None and narrow.takes(name) and not hidden.has(place, name):
                listing.files.append(SealedFile(path, name))
    return listing


def newest_sealed_ns(store: Path, table: str, rack: str | None = None) -> int | None:
    """Returns the time of the newest sealed row of TABLE, for RACK or for all racks, from the names of files; None if
    nothing is sealed. Damaged and replaced files are included. Raises OSError."""
    narrow, found = FileSelection(rack), list[int]()
    for date in reversed(_entries(store / table)):
        racks = _entries(Path(date)) if narrow.takes_date(date.name) else []
        entries = [entry for of in racks if narrow.takes_rack(of.name) for entry in _entries(Path(of))]
        names = [SealedName.parse(entry.name) for entry in entries]
        of_date = [name.last_ns for name in names if name is not None]
        found += of_date
        if of_date and date.name != MIXED:
            break
    return max(found, default=None)


def _folders(top: Path, table: str, narrow: FileSelection, damage: list[DamagedFile]) -> Iterator[Path]:
    """The wanted folders, down to the racks."""
    for date in _entries(top):
        if narrow.takes_date(date.name) and _is_folder(top / date.name, table, damage):
            for rack in _entries(top / date.name):
                if narrow.takes_rack(rack.name) and _is_folder(top / date.name / rack.name, table, damage):
                    yield top / date.name / rack.name


def _misplaced_log(path: Path, table: str, segment: Segment | None) -> DamagedFile:
    if segment is None:
        return DamagedFile(str(path), table, STRANGER)
    return DamagedFile(str(path), table, IRREGULAR, "", segment.host, segment.start_ns)


def _misplaced_sealed(path: Path, table: str, name: SealedName | None) -> DamagedFile:
    if name is not None:
        return damaged_file(SealedFile(path, name), table, IRREGULAR)
    times = times_of(path.parent.parent.name) or (None, None)
    return DamagedFile(str(path), table, STRANGER, rack_of(path.parent.name), "", *times)


@dataclass
class TableSnapshot:
    """What a reader reads of a table: the logs, the sealed files that count and are sound, and the damage that it has
    to do without."""

    logs: list[LogContent] = field(default_factory=list)
    files: list[SealedFile] = field(default_factory=list)
    damage: list[DamagedFile] = field(default_factory=list)

    def signature(self) -> tuple[object, ...]:
        """Equal for two snapshots with the same rows."""
        return ([(log.path, log.scan.end) for log in self.logs], [file.path for file in self.files])

    def without(self, writers: set[str]) -> TableSnapshot:
        """The same snapshot without what WRITERS wrote."""
        return TableSnapshot(
            [log for log in self.logs if segment_of(log.path).writer not in writers],
            [file for file in self.files if file.name.segment.writer not in writers],
            self.damage,
        )


def segment_of(path: Path) -> Segment:
    """The segment of a hot log that was listed."""
    segment = Segment.parse(path.stem)
    assert segment is not None
    return segment


def snapshot(
    store: Path, table: str, narrow: FileSelection, wanted: Callable[[Segment], bool] = lambda _: True
) -> TableSnapshot:
    """Returns what can be read of TABLE now, for the segments that are WANTED. Raises OSError if folders cannot be
    listed."""
    while True:
        hot = list_hot(store, table)
        sealed = list_sealed(store, table, narrow)
        after = list_hot(store, table)
        found = TableSnapshot(damage=[*hot.damage, *sealed.damage])
        try:
            for path, segment in hot.logs.items():
                if wanted(segment):
                    take_log(path, table, segment, found)
        except FileNotFoundError:
            continue  # sealed since it was listed: its rows are in files that the list does not have
        hidden = {segment.name for listing in (hot, after) for segment in listing.logs.values()}
        outdated = _outdated(store, table, found, [file for file in sealed.files if file.name.segment.name in hidden])
        found.logs = [log for log in found.logs if log.path.stem not in outdated]
        files = [
            file
            for file in sealed.files
            if file.name.segment.name not in hidden - outdated and wanted(file.name.segment)
        ]
        second = second_copies(files, verified.unverified)
        found.damage += [damaged_file(file, table, SECOND_COPY) for file in second]
        files = [file for file in files if file not in second]
        faults = verified.unverified([file.path for file in files])
        if any(not path.exists() for path in [*faults, *(file.path for file in second)]):
            continue  # replaced since it was listed
        found.files = [file for file in files if file.path not in faults]
        found.damage += [damaged_file(file, table, faults[file.path]) for file in files if file.path in faults]
        return found


def _outdated(store: Path, table: str, found: TableSnapshot, hidden: list[SealedFile]) -> set[str]:
    """The segments, among those with files that logs hide, whose log does not count."""
    racks = {file.name.segment.name: file.rack for file in hidden}
    return outdated(found.logs, {name: sealed_rows(store, table, name, rack) for name, rack in racks.items()})


def outdated(logs: list[LogContent], sealed: Mapping[str, int]) -> set[str]:
    """The segments whose readable log has fewer rows than their sealed files (sound_rows)."""
    rows = {log.path.stem: log.count for log in logs}
    return {name for name, count in sealed.items() if count > rows.get(name, 0)}


def sealed_rows(store: Path, table: str, segment: str, rack: str | None) -> int:
    """Returns the number of rows of the sealed files of a segment, of RACK (None: any); 0 unless all of them are
    sound."""
    try:
        paths = sealed_paths(store, table, segment, rack)
        return sound_rows(paths, verified.unverified(paths))
    except OSError as error:  # they are just being replaced
        disk.refuse_shortage(error, store)
        return 0


def sound_rows(paths: Collection[Path], faults: Collection[Path]) -> int:
    """Returns the number of rows of the sealed files of a segment, without copies; 0 if a part of it has no sound file
    (FAULTS are not), or cannot be read."""
    files = [SealedFile(path, name) for path in paths if (name := SealedName.parse(path.name)) is not None]
    rows = {file.path: _rows(file.path) for file in files}
    counting = [file.path for file in _kept(files, faults, rows).values()]
    return 0 if any(path in faults or rows[path] < 0 for path in counting) else sum(rows[path] for path in counting)


def sealed_paths(store: Path, table: str, segment: str, rack: str | None) -> list[Path]:
    """The sealed files of a segment, whether they count or not."""
    folder = "rack=*" if rack is None else glob.escape(rack_folder(rack))
    return [
        path
        for path in (store / table).glob(f"date=*/{folder}/{glob.escape(segment)}.*.parquet")
        if SealedName.parse(path.name)
    ]


def second_copies(files: list[SealedFile], faults_of: Callable[[list[Path]], Collection[Path]]) -> list[SealedFile]:
    """Of several files with the same part of a segment, those of which every row is in the one that counts; they would
    be counted twice. FAULTS_OF returns which of some files are not sound. A damaged file that had more rows, or whose
    number of rows cannot be read, is no second copy, unless it had the same content: rows may be missing."""
    several = with_copies(files)
    faults = faults_of([file.path for file in several]) if several else ()
    rows = {file.path: _rows(file.path) for file in several}
    kept = _kept(several, faults, rows)
    return [
        file
        for file in several
        if file is not (counting := kept[file.segment_part])
        and (
            file.path not in faults
            or file.name.digest == counting.name.digest
            or 0 <= rows[file.path] <= rows[counting.path]
        )
    ]


def _kept(
    files: list[SealedFile], faults: Collection[Path], rows: Mapping[Path, int]
) -> dict[tuple[str, int], SealedFile]:
    """The file that counts of each part of a segment: a sound one, if there is one, with the most rows, since a segment
    only grows; of several such files the newest."""
    return {
        file.segment_part: file
        for file in sorted(
            files, key=lambda file: (file.path not in faults, rows[file.path], _modified_ns(file.path), str(file.path))
        )
    }


def _rows(path: Path) -> int:
    """The number of rows of a sealed file; -1 if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(plain_name(path)).num_rows)
    except (OSError, pa.ArrowException) as error:
        disk.refuse_shortage(error, path)
        return -1


def with_copies(files: list[SealedFile]) -> list[SealedFile]:
    """The files beside which there is another one with the same part of a segment."""
    times = Counter(file.segment_part for file in files)
    return [file for file in files if times[file.segment_part] > 1]


def _modified_ns(path: Path) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def take_log(path: Path, table: str, segment: Segment, found: TableSnapshot) -> None:
    """Read a hot log into FOUND, with its damage. Raises FileNotFoundError."""
    try:
        log = read_log(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        found.damage.append(DamagedFile(str(path), table, reason, "", segment.host, segment.start_ns))
        return
    found.damage += damage_of_log(log, table)
    if log.about and log.about.table != table:
        found.damage.append(log_of_other_table(log))
    elif log.batches:
        found.logs.append(log)


def damage_of_log(log: LogContent, table: str) -> list[DamagedFile]:
    """What cannot be read of a log: at most one entry, with the amount."""
    if log.is_sound:
        return []
    rack = log.about.rack if log.about else ""
    reason = "; ".join(f"at byte {damage.start:,}: {damage.reason}" for damage in log.scan.damage[:3])
    return [DamagedFile(str(log.path), table, reason, rack, segment_of(log.path).host, *_times_of_damage(log))]


def _times_of_damage(log: LogContent) -> tuple[int | None, int | None]:
    """The earliest and the latest time that rows of damaged batches of a log can have: those of the sound batches
    beside them. If there are none, the times at which the log was begun and last written to, unless its rows are of
    another time."""
    import pyarrow.compute as pc

    begun_ns, changed_ns = segment_of(log.path).start_ns, os.lstat(log.path).st_mtime_ns if log.path.exists() else None
    first, last = min(damage.start for damage in log.scan.damage), max(damage.end for damage in log.scan.damage)
    places = [log.scan.places[number][0] for number in sorted(log.scan.payloads.keys() - {0})]
    column = ORDER[log.about.table if log.about else log.path.parent.name][-1]
    rows = [(place, batch) for place, batch in zip(places, log.batches, strict=True) if batch.num_rows]
    times = [pc.min_max(batch.column(column)).as_py() for _, batch in rows]
    before = [time for (place, _), time in zip(rows, times, strict=True) if place < first]
    behind = [time for (place, _), time in zip(rows, times, strict=True) if place >= last]
    since_ns = before[-1]["min"] if before else begun_ns
    until_ns = behind[0]["max"] if behind else changed_ns
    is_live = all(time["max"] >= begun_ns - SLACK_NS for time in times)
    return since_ns if before or is_live else None, until_ns if behind or is_live else None


def log_of_other_table(log: LogContent) -> DamagedFile:
    """The damage of a log in the folder of a table to which it does not belong."""
    assert log.about is not None
    segment = segment_of(log.path)
    return DamagedFile(
        str(log.path),
        log.about.table,
        f"is a log of table {log.about.table}",
        log.about.rack,
        segment.host,
        segment.start_ns,
    )


def damaged_file(file: SealedFile, table: str, reason: str) -> DamagedFile:
    """The damage of a sealed file that cannot be read."""
    return DamagedFile(
        str(file.path), table, reason, file.rack, file.name.segment.host, file.name.first_ns, file.name.last_ns
    )
