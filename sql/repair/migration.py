"""Makes a store of this format from one of format 1. The old store is only read; the new one gets its marker last."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...files import plain_name
from ...process import shortage
from .. import disk, tables, verified
from ..damage import DamagedFile
from ..disk import failing_as_one_line
from ..format.filenames import Segment
from ..sealing import SealedParts
from ..segments import FileSelection, list_sealed
from ..store import MARKER, format_of
from ..tables import COMPLETE, ORDER, STORE_FORMAT
from ..writer import conform
from . import format1
from .format1 import OldFile, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

UNFINISHED = "migrating.json"  # the marker until the migration is done
TOTALS = ("packets", "bytes", "wire_bytes")  # totals of a recording that was killed: they now come from its bins


@dataclass
class Sums:
    """Rows, and the sum (modulo 2⁶⁴) of every column of integers and of the lengths of every column of text."""

    rows: int = 0
    columns: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, rows: pa.Table) -> None:
        """Count ROWS too."""
        self.rows += rows.num_rows
        for name in rows.column_names:
            self.columns[name] = (self.columns[name] + _sum(rows.column(name))) % 2**64

    def agrees_with(self, other: Sums) -> bool:
        """Whether both are of the same rows, as far as sums show; a column that one lacks counts as 0."""
        names = {*self.columns, *other.columns}
        return self.rows == other.rows and all(self.columns.get(n, 0) == other.columns.get(n, 0) for n in names)


@dataclass
class MigrationResult:
    """The result of a migration: for each table what was read and written, the files that could not be read, and
    columns that no table has any more."""

    tables: dict[str, Sums] = field(default_factory=dict)
    damaged: list[DamagedFile] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    files: int = 0
    killed: int = 0


def migrate(old: Path, new: Path, progress: Callable[[int, int], None] | None = None) -> MigrationResult:
    """Write the content of the store OLD of format 1 into a new store at NEW. PROGRESS is called with the number of
    files that are done and of all files. An interrupted migration begins again. Raises MburstError, also if what was
    written is not what was read."""
    _check_old(old)
    with failing_as_one_line(old, "read"):
        files = format1.files(old)
    for file in files:
        if file.is_hot:
            with failing_as_one_line(file.path, "read"):
                format1.check_no_writer(file)
    with failing_as_one_line(new, "write"):
        lock = _begin(new)
    try:
        outcome = _convert(files, new, progress)
        _verify(new, outcome)
        with failing_as_one_line(old, "read"):
            if format1.files(old) != files:
                raise MburstError(f"{old}: changed during the migration", "end the recorders of it, and try again")
        with failing_as_one_line(new, "write"):
            os.rename(new / UNFINISHED, new / MARKER)
            disk.sync(new)
        return outcome
    finally:
        os.close(lock)


def _check_old(old: Path) -> None:
    version = format_of(old)
    if version != format1.FORMAT:
        raise MburstError(
            f"{old}: a store of format {version}; only one of format {format1.FORMAT} is migrated",
            "it can be used as it is" if version == STORE_FORMAT else "use the mburst that wrote it",
        )


def _begin(new: Path) -> int:
    """Make the folder, or empty that of an interrupted migration. Returns a lock on it. Raises MburstError, OSError."""
    disk.make_folder(new)
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MburstError(f"{new}: another migration writes there", "wait for its end") from None
        if (new / UNFINISHED).exists():
            for table in ORDER:
                if (new / table).exists():
                    shutil.rmtree(new / table)
        elif any(not name.startswith(f".{UNFINISHED}.") for name in os.listdir(new)):
            raise MburstError(f"{new}: not empty", "name a new folder")
        disk.write_durably(new / UNFINISHED, json.dumps({"format": STORE_FORMAT}) + "\n")
        return lock
    except BaseException:
        os.close(lock)
        raise


def _convert(files: list[OldFile], new: Path, progress: Callable[[int, int], None] | None) -> MigrationResult:
    """Convert each old file to a segment of its own."""
    outcome = MigrationResult()
    attempts = Attempts()
    numbers: dict[tuple[str, str], int] = defaultdict(int)
    for file in sorted(files, key=lambda file: file.table != "recordings"):  # which show what belongs together
        try:
            if file.table not in ORDER:
                raise Unreadable(f"unknown table {file.table}")
            if file.table == "recordings":
                attempts.learn(file)
            _convert_file(file, new, attempts, numbers, outcome)
        except Unreadable as error:
            outcome.damaged.append(
                DamagedFile(str(file.path), file.table, str(error), file.rack, file.host, file.start_ns or None)
            )
        outcome.files += 1
        if progress:
            progress(outcome.files, len(files))
    return outcome


def _convert_file(
    file: OldFile, new: Path, attempts: Attempts, numbers: dict[tuple[str, str], int], outcome: MigrationResult
) -> None:
    """Write the rows of one file as sealed files. Raises Unreadable, without keeping anything of the file, and
    MburstError."""
    rack, parts, sums, schema = format1.rack_in(file), None, Sums(), None
    killed, unknown = 0, set()
    try:
        for rows in format1.batches(file):
            writer = attempts.writer_of(file, rows)
            if file.table == "recordings":
                rows, more = attempts.complete(file, rows)
                killed += more
            sums.add(rows)
            unknown |= set(rows.column_names) - {column.name for column in tables.columns(file.table)}
            rows = fitting(rows, file.table, schema)
            schema = rows.schema
            if parts is None:
                number = numbers[writer, file.table]
                numbers[writer, file.table] += 1
                parts = SealedParts(new, file.table, rack, Segment(file.host, file.start_ns, writer, number))
            parts.add(rows)
        if parts is not None:
            parts.publish()
    except BaseException:
        if parts is not None:
            parts.discard()
        raise
    total = outcome.tables.setdefault(file.table, Sums())
    total.rows += sums.rows
    for name, value in sums.columns.items():
        if name not in unknown:
            total.columns[name] = (total.columns[name] + value) % 2**64
    outcome.killed += killed
    outcome.left_out |= {f"{file.table}.{name}" for name in unknown}


def fitting(rows: pa.Table, table: str, earlier: pa.Schema | None) -> pa.Table:
    """Returns ROWS with the present columns of TABLE. A missing column is NULL, or what its definition says. Raises
    Unreadable if neither is possible."""
    import pyarrow as pa

    names = [column.name for column in tables.columns(table)]
    kept = rows.select([name for name in names if name in rows.column_names])
    for column in tables.columns(table):
        if column.name not in rows.column_names and column.default != "NULL":
            kind = tables.arrow_schema(table).field(column.name).type
            value = pa.scalar(json.loads(column.default.replace("'", '"').lower()), kind)
            kept = kept.append_column(column.name, pa.repeat(value, rows.num_rows))
    try:
        return conform(kept, table, earlier)
    except (ValueError, pa.ArrowException) as error:
        shortage.refuse(error, f"cannot convert rows of {table}")
        raise Unreadable(str(error).splitlines()[0]) from error


# --- which calls of `mburst record` wrote what ----------------------------------------------------------------------


class Attempts:
    """Assigns to old files the writers after which this format names files. Format 1 does not record which bins and
    which row of `runs` were written by the same call of `mburst record`. They have the process in common, and the bins
    were begun later."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)  # (start, writer) in order
        self._started: dict[tuple[str, int], set[str]] = defaultdict(set)  # recordings that the last call began

    def learn(self, file: OldFile) -> None:
        """Note the calls whose rows are in a file of `recordings`; earlier files come first. Raises Unreadable."""
        for rows in format1.batches(file):
            for row in _few(rows, ("capture_id", "recording_id", "complete")):
                call = row["capture_id"], file.process
                again = not row["complete"] and row["recording_id"] in self._started[call]
                if again or not self._begun[call]:
                    self._begun[call].append((file.start_ns, _digest(*map(str, call), file.segment)))
                    self._started[call] = set()
                if not row["complete"]:
                    self._started[call].add(row["recording_id"])

    def writer_of(self, file: OldFile, rows: pa.Table) -> str:
        """The writer after which the new file of ROWS is named."""
        if "recording_id" not in rows.column_names or rows.num_rows == 0:
            return _digest(str(file.path.name))
        recording = str(rows.column("recording_id")[0].as_py())
        return self._writer(recording.rpartition("-")[0], file) or _digest(file.segment)

    def _writer(self, capture: str, file: OldFile) -> str | None:
        calls = self._begun.get((capture, file.process), [])
        return next((writer for start, writer in reversed(calls) if start <= file.start_ns), None)

    def complete(self, file: OldFile, rows: pa.Table) -> tuple[pa.Table, int]:
        """Returns rows of `recordings` with the columns that format 1 lacks, and how many are of recordings that did
        not end. The counts in such a row were not kept up to date, so its totals come from its bins. Format 1 calls all
        other recordings complete; their notes show which of them were interrupted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        done = rows.column("complete")
        ended = [_ended(row) for row in _few(rows, ("complete", "notes", "backend"))]
        for name in TOTALS:
            index = rows.column_names.index(name)
            rows = rows.set_column(index, name, pc.if_else(done, rows.column(name), pa.scalar(0, pa.int64())))
        captures = rows.column("capture_id").to_pylist()
        writers = [self._writer(str(capture), file) or _digest(file.segment) for capture in captures]
        counted = pc.if_else(done, pa.scalar(None, pa.int64()), pa.scalar(0, pa.int64()))
        rows = rows.append_column("writer_id", pa.array(writers, pa.string()))
        rows = rows.append_column("counted_segments", counted)
        rows = rows.append_column("begun_ns", rows.column("written_ns"))  # the closest time that format 1 has
        rows = rows.append_column("ended", pa.array(ended, pa.string()))
        rows = rows.set_column(
            rows.column_names.index("complete"), "complete", pa.array([text in COMPLETE for text in ended])
        )
        return rows, rows.num_rows - (pc.sum(done).as_py() or 0)


def _ended(row: dict[str, Any]) -> str:
    """How the recording of a row of format 1 ended: the present value of `ended`."""
    notes = row["notes"].splitlines()
    if not row["complete"]:
        return "killed"
    if any(note.startswith("the input ended early: ") for note in notes):
        return "failed"
    if "the recording was interrupted" in notes:
        return "interrupted"
    return "finished" if row["backend"] == "file" else "stopped"


def _few(rows: pa.Table, names: Iterable[str]) -> list[dict[str, Any]]:
    """Some columns as dicts. Raises Unreadable if one is missing."""
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise Unreadable(f"missing column {missing[0]}")
    return list(rows.select(list(names)).to_pylist())


def _digest(*texts: str) -> str:
    """Twelve hexadecimal digits that are the same for each migration of a store."""
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=6).hexdigest()


# --- what was written is what was read ------------------------------------------------------------------------------


def _verify(new: Path, outcome: MigrationResult) -> None:
    """Read all that was written. Raises MburstError if it is not what was read."""
    for table, read in outcome.tables.items():
        written = Sums()
        for rows in _written(new, table):
            written.add(rows)
        if not written.agrees_with(read):
            raise MburstError(
                f"{new}: {table}: {written.rows:,} rows were written of {read.rows:,}, or others",
                "please report this: the new store must not be used",
            )


def _written(new: Path, table: str) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in list_sealed(new, table, FileSelection()).files:
        if reason := verified.fault(file.path):
            raise MburstError(f"{file.path}: damaged: {reason}", "check the disk, and try again")
        texts = [field.name for field in tables.arrow_schema(table) if pa.types.is_string(field.type)]
        with pq.ParquetFile(plain_name(file.path), read_dictionary=texts) as content:
            for batch in content.iter_batches(format1.BATCH):
                yield pa.Table.from_batches([batch])


def _sum(column: pa.ChunkedArray) -> int:
    """The sum of integers, of booleans, or of the lengths of texts, modulo 2⁶⁴; NULL is 0."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            chunk = pc.binary_length(chunk.dictionary).take(chunk.indices)
        elif pa.types.is_string(chunk.type):
            chunk = pc.binary_length(chunk)
        numbers = pc.fill_null(chunk.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        total += int(numbers.view(np.uint64).sum(dtype=np.uint64))
    return total % 2**64
