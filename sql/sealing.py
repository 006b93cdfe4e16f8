"""The sealed form of a segment: sorted Parquet files with their checksums in their names. Converts a log to that
form."""

from __future__ import annotations

import fcntl
import glob
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..errors import MburstError
from ..units import NS_PER_DAY
from . import disk, verified
from .disk import failing_as_one_line
from .format.filenames import SealedName, Segment, date_folder, rack_folder
from .format.hotlog import LogContent, LogReader
from .segments import damage_of_log, sealed_rows, segment_of
from .tables import ORDER

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_GROUP = 1 << 18  # rows: small enough for zone maps to help, large enough to compress
PAGE = ROW_GROUP * 8  # bytes: a column of a row group is one page, as readers read it completely
MOST_DAYS = 4  # that a row group is split into: with more days, its rows of all days are one file
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DamagedLog(MburstError):
    """A log that is not sealed because part of it cannot be read."""


class SealedPart:
    """A Parquet file that is being written by this writer only: an existing draft is an error."""

    def __init__(self, folder: Path, segment: Segment, number: int, table: str, schema: pa.Schema) -> None:
        self.folder = folder
        self.segment = segment
        self.number = number
        self.columns = len(schema.names)
        self.first_ns, self.last_ns = 2**63 - 1, -(2**63)
        self.draft = folder / f"{segment.name}.{number}.tmp"
        disk.make_folder(folder, folder.parents[2])  # the store: if it was moved, it is not created again
        self._file = open(os.open(self.draft, _NEW, 0o640), "wb")  # noqa: SIM115 (closed with the writer)
        try:
            self._writer: pq.ParquetWriter | None = _parquet_writer(self._file, schema, table)
        except BaseException:
            self._file.close()
            self.draft.unlink(missing_ok=True)
            raise

    def write(self, rows: pa.Table, times: str) -> None:
        """Add ROWS as a row group; their date is that of the column TIMES."""
        assert self._writer is not None
        self._writer.write_table(rows, row_group_size=ROW_GROUP)
        when = rows.column(times).to_numpy()
        self.first_ns, self.last_ns = min(self.first_ns, int(when.min())), max(self.last_ns, int(when.max()))

    def close(self) -> None:
        """Write the end of the Parquet file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._file:
                writer.close()

    def publish(self) -> Path:
        """Give the file its name; the caller makes the folder durable. Raises OSError."""
        disk.sync(self.draft)
        digest = verified.digest(self.draft)
        name = SealedName(self.segment, self.number, self.columns, self.first_ns, self.last_ns, digest)
        path = self.folder / name.name
        os.rename(self.draft, path)
        verified.remember(path)
        return path


def _parquet_writer(file: BinaryIO, schema: pa.Schema, table: str) -> pq.ParquetWriter:
    """A writer of rows of TABLE, with the encodings that the bench found best
    (docs/decisions/bursts-in-two-scans.md)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Counts and times of 64 bits change little from row to row; narrow numbers and text have few values.
    wide = [field.name for field in schema if field.type == pa.int64()]
    # Bounds of a text with many values cost as much as everything else of it, and no reader skips rows by them.
    texts = {field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)}
    return pq.ParquetWriter(
        file,
        schema.remove_metadata(),
        compression="zstd",
        compression_level=1,
        use_dictionary=[field.name for field in schema if field.name not in wide],
        column_encoding=dict.fromkeys(wide, "DELTA_BINARY_PACKED"),
        write_statistics=[name for name in schema.names if name not in texts or name in ORDER[table]],
        data_page_size=PAGE,
        store_schema=False,
    )


class SealedParts:
    """The sealed form of a segment while it is written, under temporary names until `publish`."""

    def __init__(self, store: Path, table: str, rack: str, segment: Segment) -> None:
        self.folder = store / table
        self.table = table
        self.rack = rack
        self.segment = segment
        self._parts: list[SealedPart] = []  # the last one may be open
        self._date = ""
        self._published: list[Path] = []

    def add(self, rows: pa.Table) -> None:
        """Write ROWS as a row group, or as one for each of their dates. Raises MburstError."""
        times = ORDER[self.table][-1]
        with failing_as_one_line(self.folder, "write"):
            for day, part in by_date(rows, ORDER[self.table]):
                self._part(date_folder(day), part.schema).write(part, times)

    def _part(self, date: str, schema: pa.Schema) -> SealedPart:
        """The file for a date. Only one is open at a time; returning to an earlier date starts another file."""
        if self._parts and date == self._date:
            return self._parts[-1]
        if self._parts:
            self._parts[-1].close()
        folder = self.folder / date / rack_folder(self.rack)
        self._parts.append(SealedPart(folder, self.segment, len(self._parts), self.table, schema))
        self._date = date
        return self._parts[-1]

    def publish(self) -> None:
        """Give the files their names, durably. They count once the hot log of the segment is removed. Raises
        MburstError."""
        with failing_as_one_line(self.folder, "write"):
            for part in self._parts:
                part.close()
            self._published = [part.publish() for part in self._parts]
            for folder in {part.folder for part in self._parts}:
                disk.sync(folder)

    def discard(self) -> None:
        """Remove everything that was written."""
        for part in self._parts:
            with suppress(OSError):
                part.close()
            part.draft.unlink(missing_ok=True)
        for path in self._published:
            path.unlink(missing_ok=True)


def by_date(rows: pa.Table, order: tuple[str, ...]) -> list[tuple[int | None, pa.Table]]:
    """Returns ROWS sorted by ORDER and split by day (days since 1970-01-01) of the last column of ORDER; if there are
    more than MOST_DAYS days, they stay together as day None."""
    import numpy as np

    rows = rows.unify_dictionaries().combine_chunks()
    times = rows.column(order[-1]).to_numpy()
    first, last = (int(time // NS_PER_DAY) for time in (times.min(), times.max()))
    if first == last:  # true nearly always: np.unique costs a tenth of a seal, and a large import
        return [(first, in_order(rows, order))]
    days = times // NS_PER_DAY
    every = np.unique(days)
    if len(every) > MOST_DAYS:
        return [(None, in_order(rows, order))]
    return [(int(day), in_order(rows.filter(days == day), order)) for day in every]


def in_order(rows: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """ROWS of one chunk sorted by ORDER."""
    import numpy as np

    times = rows.column(order[-1]).to_numpy()
    keys = [ranks for name in order[:-1] if (ranks := _ranks(rows.column(name))) is not None]
    if not keys and not (times[1:] < times[:-1]).any():
        return rows
    return rows.take(np.lexsort([*keys, times][::-1]))


def _ranks(column: pa.ChunkedArray):  # type: ignore[no-untyped-def]
    """Returns an integer for each text that compares as the text does; None if all are equal."""
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
    """Seal the log at PATH unless its writer lives or another process is sealing it. Returns whether it was sealed.
    Raises MburstError for a damaged log, which is never sealed, and if the sealed form cannot be written."""
    with failing_as_one_line(path, "read"):
        try:
            lock = disk.open_regular(path)
        except FileNotFoundError:
            return False
        try:
            if not _is_abandoned(lock, path):
                return False
            _seal_locked(store, table, path, lock)
            return True
        finally:
            os.close(lock)


def _is_abandoned(lock: int, path: Path) -> bool:
    """Lock the log, unless it is locked. Returns whether it is locked now and still the file with this name."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.lstat(path).st_ino == os.fstat(lock).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _seal_locked(store: Path, table: str, path: Path, lock: int) -> None:
    log = LogReader(path, lock).read()
    for damage in damage_of_log(log, table):
        raise DamagedLog(str(damage), "`mburst repair STORE` saves what can be read of it")
    if sealed_rows(store, table, path.stem, log.rack) <= log.count:  # otherwise it is an older copy
        publish_log(store, table, log)
    with failing_as_one_line(path, "remove"):
        path.unlink()
        disk.sync(path.parent)


def publish_log(store: Path, table: str, log: LogContent) -> None:
    """Write the sealed form of the batches that were read from LOG; it counts once the log is gone. Raises
    MburstError."""
    segment, rack = segment_of(log.path), log.about.rack if log.about else ""
    remove_parts(store, table, rack, segment)
    parts = SealedParts(store, table, rack, segment)
    try:
        for rows in row_groups(log.batches):
            parts.add(rows)
        parts.publish()
    except BaseException:
        parts.discard()
        raise


def remove_parts(store: Path, table: str, rack: str, segment: Segment) -> None:
    """Remove what an interrupted seal has left: it may differ from what will be written now."""
    with failing_as_one_line(store / table, "write"):
        for path in (store / table).glob(f"date=*/{glob.escape(rack_folder(rack))}/{glob.escape(segment.name)}.*"):
            path.unlink(missing_ok=True)


def row_groups(batches: Iterable[pa.Table]) -> Iterable[pa.Table]:
    """BATCHES regrouped into tables of ROW_GROUP rows."""
    import pyarrow as pa

    every = list(batches)
    rows = pa.concat_tables(every) if every else None
    for start in range(0, rows.num_rows if rows is not None else 0, ROW_GROUP):
        assert rows is not None
        yield rows.slice(start, ROW_GROUP)
