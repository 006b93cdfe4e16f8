"""Segments: the files that hold the rows of a table, and how one passes from hot to sealed.

A segment has an id, and one of two forms:

- hot: `hot/TABLE/ID.arrows`, an Arrow IPC stream that one writer appends to. Its writer holds a lock (flock) on it as a
  sign of life; nobody ever waits for that lock.
- sealed: `TABLE/date=YYYY-MM-DD/rack=RACK/ID.N.parquet`, one or more files, each row group in the table's order.

While the hot form of an id exists, its sealed files do not count. So sealing writes the sealed files, makes them
durable, and removes the hot file: that one unlink is the commit, and a crash anywhere before it leaves a hot file that
is sealed again from the start. Readers list the hot files before the sealed ones and once more after them.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..errors import MburstError
from .damage import damaged
from .tables import ORDER

if TYPE_CHECKING:
    import pyarrow as pa

HOT = "hot"
NS_PER_DAY = 86_400 * 10**9
ROW_GROUP = 1 << 18  # rows: small enough for zone maps to help, large enough to compress

_HINTS = {
    ENOSPC: "free some space and try again",
    EDQUOT: "free some space and try again",
    EACCES: "may you write there?",
    EPERM: "may you write there?",
    EROFS: "it is mounted read-only",
}


@contextmanager
def failing_as_one_line(path: Path, doing: str) -> Iterator[None]:
    """Turns an OSError inside into MburstError "PATH: cannot DOING: …"."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise MburstError(f"{path}: cannot {doing}: {reason}", _HINTS.get(error.errno or 0, "")) from error


def new_id(host: str) -> str:
    """A file name that no other segment has: host, time, process, chance. Those of one host sort by time."""
    return f"{quote(host, safe='')[:100]}-{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}"


def hot_path(store: Path, table: str, segment: str) -> Path:
    """Where the hot form of a segment is."""
    return store / HOT / table / f"{segment}.arrows"


def date_of(day: int) -> str:
    """ "2026-11-20" for the number of days since 1970-01-01."""
    import datetime

    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()


def rack_folder(rack: str) -> str:
    """The name of a rack's folder. Reversible, and safe as a file name whatever the rack is called."""
    return f"rack={quote(rack, safe='')}"


# --- listing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Narrow:
    """Which folders of a store to list; None takes all. Days are inclusive, counted from 1970-01-01."""

    rack: str | None = None
    first_day: int | None = None
    last_day: int | None = None

    def takes_date(self, name: str) -> bool:
        """Whether a folder named date=YYYY-MM-DD is wanted. ISO dates compare as text."""
        return (
            name.startswith("date=")
            and (self.first_day is None or name >= f"date={date_of(self.first_day)}")
            and (self.last_day is None or name <= f"date={date_of(self.last_day)}")
        )

    def takes_rack(self, name: str) -> bool:
        """Whether a folder named rack=RACK is wanted."""
        return name.startswith("rack=") and (self.rack is None or name == rack_folder(self.rack))


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def hot_files(store: Path, table: str) -> list[Path]:
    """The hot logs of TABLE, sorted by name."""
    return [store / HOT / table / name for name in _entries(store / HOT / table) if name.endswith(".arrows")]


def sealed_files(store: Path, table: str, narrow: Narrow, suffix: str = ".parquet") -> list[Path]:
    """The sealed files of TABLE whether they count or not, sorted by date, rack and name."""
    return [
        store / table / date / rack / name
        for date in _entries(store / table)
        if narrow.takes_date(date)
        for rack in _entries(store / table / date)
        if narrow.takes_rack(rack)
        for name in _entries(store / table / date / rack)
        if name.endswith(suffix)
    ]


def segment_of(path: Path) -> str:
    """The segment's id in the name of a hot, sealed or temporary file."""
    return re.sub(r"(\.arrows|\.\d+\.parquet(\.tmp)?)$", "", path.name)


def snapshot(store: Path, table: str, narrow: Narrow) -> tuple[list[pa.Table], list[Path]]:
    """What a reader reads: the rows of the hot logs, and the sealed files that count. Raises MburstError."""
    while True:
        hot = hot_files(store, table)
        files = sealed_files(store, table, narrow)
        after = hot_files(store, table)
        try:
            logs = [read_log(path) for path in hot]
        except FileNotFoundError:
            continue  # sealed since it was listed: its rows are in files that the list has not
        hidden = {segment_of(path) for path in hot} | {segment_of(path) for path in after}
        return [log for log in logs if log.num_rows], [path for path in files if segment_of(path) not in hidden]


# --- the hot form ---------------------------------------------------------------------------------------------------


class HotLog:
    """The hot form of a segment while its writer lives. Rows are safe from the writer's death (not from that of the
    machine: nothing is fsynced before the segment is sealed) once `append` has returned."""

    def __init__(self, store: Path, table: str, host: str, rack: str, schema: pa.Schema) -> None:
        """Make the file. It gets its name when it is locked and has its header, so no one ever sees it otherwise."""
        import pyarrow as pa

        self.id = new_id(host)
        self.path = hot_path(store, table, self.id)
        self.schema = schema.with_metadata({"rack": rack})
        self.rows = 0
        self.started = time.monotonic()
        with failing_as_one_line(self.path, "write"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            hidden = self.path.with_suffix(".new")
            self._lock = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = pa.OSFile(str(hidden), "wb")
                self._stream = pa.ipc.new_stream(self._file, self.schema)
                nothing = [pa.array([], field.type) for field in self.schema]
                self._stream.write_batch(pa.record_batch(nothing, self.schema))  # only a batch brings the header out
                hidden.rename(self.path)
            except BaseException:
                os.close(self._lock)
                hidden.unlink(missing_ok=True)
                raise

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write and hand to the kernel. After a failure the log must not be appended to again. Raises MburstError."""
        with failing_as_one_line(self.path, "write"):
            for batch in batches:
                self._stream.write_batch(batch)
                self.rows += batch.num_rows

    def leave(self) -> None:
        """Close the file and give up the lock; the file stays and anybody may seal it."""
        with suppress(OSError):  # every append has written through: nothing is left that closing could lose
            self._file.close()
        os.close(self._lock)

    def remove(self) -> None:
        """The commit of a seal: from here on the sealed files count."""
        with failing_as_one_line(self.path, "remove"):
            self.path.unlink()


def read_log(path: Path) -> pa.Table:
    """The whole batches of a hot log, mapped. A last batch that is not whole (its writer was killed, or is just writing
    it) was never acknowledged and is left out. Raises FileNotFoundError, and MburstError when the file is damaged."""
    import pyarrow as pa

    batches = []
    with failing_on_damage(path), pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_stream(source)
        try:
            for batch in reader:
                batches.append(batch)
        except (pa.ArrowInvalid, OSError):
            if source.tell() < source.size():
                raise
        return pa.Table.from_batches(batches, reader.schema)


@contextmanager
def failing_on_damage(path: Path) -> Iterator[None]:
    """Turns Arrow's errors inside into MburstError "PATH: damaged: …"; a missing file stays FileNotFoundError."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error


# --- the sealed form ------------------------------------------------------------------------------------------------


class Parts:
    """The sealed form of a segment while it is written: under temporary names until `publish`."""

    def __init__(self, store: Path, table: str, rack: str, segment: str) -> None:
        self.folder = store / table
        self.table = table
        self.rack = rack
        self.segment = segment
        self._paths: list[Path] = []  # as published; the last one is open while _writer is
        self._day: int | None = None
        self._writer: object | None = None

    def add(self, rows: pa.Table) -> None:
        """Write ROWS as a row group, or as one for each date that they have."""
        rows, days = in_order(rows, ORDER[self.table])
        with failing_as_one_line(self.folder, "write"):
            for day, start, stop in days:
                self._open(day, rows.schema).write_table(rows.slice(start, stop - start), row_group_size=ROW_GROUP)

    def _open(self, day: int, schema: pa.Schema):  # type: ignore[no-untyped-def]
        """The Parquet writer for a day. One is open at a time; coming back to an earlier day starts another file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is not None and day == self._day:
            return self._writer
        self._close()
        path = (
            self.folder / f"date={date_of(day)}" / rack_folder(self.rack) / f"{self.segment}.{len(self._paths)}.parquet"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._paths.append(path)
        self._day = day
        # Counts and times of 64 bits differ little from row to row; narrow numbers and text have few values.
        wide = [field.name for field in schema if field.type == pa.int64()]
        self._writer = pq.ParquetWriter(
            f"{path}.tmp",
            schema.remove_metadata(),
            compression="zstd",
            compression_level=1,
            use_dictionary=[field.name for field in schema if field.name not in wide],
            column_encoding=dict.fromkeys(wide, "DELTA_BINARY_PACKED"),
            store_schema=False,
        )
        return self._writer

    def _close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()  # type: ignore[attr-defined]

    def publish(self) -> None:
        """Give the files their names, durably. They count once the hot log of the segment is removed."""
        with failing_as_one_line(self.folder, "write"):
            self._close()
            for path in self._paths:
                _sync(Path(f"{path}.tmp"))
                os.rename(f"{path}.tmp", path)
            for folder in {folder for path in self._paths for folder in list(path.parents)[:4]}:
                _sync(folder)

    def discard(self) -> None:
        """Take back whatever was written."""
        with suppress(OSError):
            self._close()
        for path in self._paths:
            for name in (path, Path(f"{path}.tmp")):
                name.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """fsync of a file or folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_order(rows: pa.Table, order: tuple[str, ...]) -> tuple[pa.Table, list[tuple[int, int, int]]]:
    """ROWS sorted by date and then by ORDER, and (day, start, stop) for each date in them."""
    import numpy as np

    rows = rows.unify_dictionaries().combine_chunks()
    times = rows.column(order[-1]).to_numpy()
    days = times // NS_PER_DAY
    one_day = len(days) == 0 or int(days.min()) == int(days.max())
    keys = [ranks for name in order[:-1] if (ranks := _ranks(rows.column(name))) is not None]
    if keys or not one_day or (times[1:] < times[:-1]).any():
        keys = [*([] if one_day else [days]), *keys, times]
        rows = rows.take(np.lexsort(keys[::-1]))
        days = np.sort(days)
    starts = [0] if one_day else [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]
    return rows, [
        (int(days[start]), start, stop)
        for start, stop in zip(starts, [*starts[1:], len(days)], strict=True)
        if stop > start
    ]


def _ranks(column: pa.ChunkedArray):  # type: ignore[no-untyped-def]
    """An integer for each text that compares as the text does; None where all are equal."""
    import numpy as np

    if column.num_chunks == 0:
        return None
    array = column.chunk(0) if hasattr(column.chunk(0), "dictionary") else column.chunk(0).dictionary_encode()
    if len(array.dictionary) < 2:
        return None
    rank_of_code = np.argsort(np.argsort(np.array(array.dictionary.to_pylist(), dtype=object), kind="stable"))
    return rank_of_code.astype(np.int32)[array.indices.to_numpy(zero_copy_only=False)]


# --- from hot to sealed ---------------------------------------------------------------------------------------------


def seal(store: Path, table: str, path: Path) -> bool:
    """Seal the log at PATH unless its writer lives or somebody else is at it. Returns whether it was sealed.
    Raises MburstError."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(lock).st_ino:
                    _seal_locked(store, table, path)
                    return True
        return False
    finally:
        os.close(lock)


def _seal_locked(store: Path, table: str, path: Path) -> None:
    log = read_log(path)
    segment = segment_of(path)
    rack = (log.schema.metadata or {}).get(b"rack", b"").decode()
    for suffix in (".parquet", ".parquet.tmp"):  # of a seal that was cut short; they may differ from what we write now
        for leftover in sealed_files(store, table, Narrow(rack), suffix):
            if segment_of(leftover) == segment:
                leftover.unlink()
    parts = Parts(store, table, rack, segment)
    try:
        for start in range(0, log.num_rows, ROW_GROUP):
            parts.add(log.slice(start, ROW_GROUP))
        parts.publish()
    except BaseException:
        parts.discard()
        raise
    with failing_as_one_line(path, "remove"):
        path.unlink()
