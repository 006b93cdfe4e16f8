"""A writer of one table: appends to a hot log, and writes the sealed form of the same rows behind it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import MburstError
from . import segments, tables

if TYPE_CHECKING:
    import pyarrow as pa

ROLL_ROWS = 16_000_000
ROLL_S = 900.0
BACKLOG = 8  # row groups that may wait for the sealing thread before `append` waits


class Writer:
    """Appends rows to a table of a store. Not for use by several threads at once.

    When `append` has returned, its rows are acknowledged: readers see them, and they survive the death of this process
    (kill -9). They survive that of the machine once they are sealed, which happens when the writer is closed, and after
    ROLL_ROWS rows or ROLL_S seconds. Sealed files are written by a thread behind the appends, so that `close` is short."""

    def __init__(self, store: Path, table: str, host: str = "", rack: str = "",
                 roll_rows: int = ROLL_ROWS, roll_s: float = ROLL_S) -> None:
        self._store = store
        self._table = table
        self._host = host
        self._rack = rack
        self._roll_rows = roll_rows
        self._roll_s = roll_s
        self._schema: pa.Schema | None = None
        self._log: segments.HotLog | None = None
        self._behind: _Behind | None = None
        self._closed = False

    def append(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; they are acknowledged when this returns. Columns are matched by name, text may be
        dictionary-encoded, a nullable column that is missing becomes NULL. Raises MburstError when it cannot be
        written (what was acknowledged before is kept) and ValueError when BATCH is not of this table."""
        if self._closed:
            raise ValueError("append to a closed writer")
        rows = conform(batch, self._table, self._schema)
        self._check_constants(rows)
        if rows.num_rows == 0:
            return
        if self._log is None:
            self._schema = rows.schema
            self._log = segments.HotLog(self._store, self._table, self._host, self._rack, rows.schema)
            self._behind = self._behind or _Behind()
            self._behind.begin(self._log, segments.Parts(self._store, self._table, self._rack, self._log.id))
        assert self._behind is not None
        try:
            self._log.append(rows.to_batches())
        except BaseException:
            self._closed = True  # the log's tail may be torn: it is sealed from the disk, later
            self._behind.abandon()
            raise
        self._behind.add(rows)
        if self._log.rows >= self._roll_rows or time.monotonic() - self._log.started >= self._roll_s:
            self._log = None
            self._behind.finish()

    def _check_constants(self, rows: pa.Table) -> None:
        """The rack names the folder, and readers trust it: rows of another rack would be lost to them."""
        for name, value in (("host", self._host), ("rack", self._rack)):
            if name in rows.column_names:
                seen = {text for chunk in rows.column(name).chunks
                        for text in (chunk.dictionary if hasattr(chunk, "dictionary") else chunk.unique()).to_pylist()}
                if seen - {value}:
                    raise ValueError(f"{self._table}: rows of {name} {min(seen - {value})!r}, writer of {value!r}")

    def close(self) -> None:
        """Seal what was appended, and what writers of this table that have died left behind. Raises MburstError when that
        fails; the rows are kept in the hot log even so."""
        if self._closed:
            return
        self._closed = True
        if self._behind is not None:
            if self._log is not None:
                self._behind.finish()
            self._behind.stop()
        seal_abandoned(self._store, self._table, lambda error: None)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except MburstError:
            if kind is None:
                raise


def conform(batch: pa.RecordBatch | pa.Table, table: str, earlier: pa.Schema | None) -> pa.Table:
    """BATCH with the table's columns in the table's order; text keeps its encoding, or takes that of EARLIER."""
    import pyarrow as pa

    unknown = set(batch.schema.names) - {column.name for column in tables.columns(table)}
    if unknown:
        raise ValueError(f"{table} has no column {min(unknown)!r}")
    arrays, fields = [], []
    for field in earlier or tables.arrow_schema(table):
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            if not field.nullable:
                raise ValueError(f"{table}: column {field.name!r} is missing")
            array = pa.nulls(batch.num_rows, field.type)
        else:
            array = batch.column(index)
            if not field.nullable and array.null_count:
                raise ValueError(f"{table}: NULL in column {field.name!r}")
            if earlier is None and pa.types.is_dictionary(array.type):
                field = pa.field(field.name, pa.dictionary(array.type.index_type, pa.string()), field.nullable)
            if array.type != field.type:
                array = array.cast(field.type)
        arrays.append(array)
        fields.append(field)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def seal_abandoned(store: Path, table: str, failed: Callable[[MburstError], None]) -> int:
    """Seal the logs that writers of TABLE left behind when they died; how many. A log that cannot be sealed is told to
    FAILED and does not keep the others from it."""
    sealed = 0
    for path in segments.hot_files(store, table):
        try:
            sealed += segments.seal(store, table, path)
        except MburstError as error:
            failed(error)
    return sealed


class _Behind:
    """The thread that writes the sealed form. Tasks run in order; after one fails the rest of its segment is skipped, its
    hot log stays, and the failure comes up in `stop`."""

    def __init__(self) -> None:
        self._tasks: queue.Queue[tuple[str, object]] = queue.Queue(BACKLOG)
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mburst-seal", daemon=True)
        self._thread.start()

    def begin(self, log: segments.HotLog, parts: segments.Parts) -> None:
        """A new segment: what is added from here on belongs to it."""
        self._tasks.put(("begin", (log, parts)))

    def add(self, rows: pa.Table) -> None:
        """More rows of the segment, written when they fill a row group."""
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= segments.ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._tasks.put(("add", self._pending))
            self._pending, self._pending_rows = [], 0

    def finish(self) -> None:
        """The segment is whole: seal it."""
        self._flush()
        self._tasks.put(("finish", None))

    def abandon(self) -> None:
        """Take the sealed form back, leave the hot log to others, and end."""
        self._tasks.put(("abandon", None))
        self._tasks.put(("stop", None))
        self._thread.join()

    def stop(self) -> None:
        """Wait for all that was asked. Raises what failed."""
        self._tasks.put(("stop", None))
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        log: segments.HotLog | None = None
        parts: segments.Parts | None = None
        while True:
            task, argument = self._tasks.get()
            if task == "stop":
                return
            try:
                if task == "begin":
                    log, parts = argument  # type: ignore[misc]
                elif parts is None or log is None:
                    continue
                elif task == "add":
                    import pyarrow as pa

                    parts.add(pa.concat_tables(argument))
                elif task == "finish":
                    parts.publish()
                    log.remove()
                    log = parts = None
                else:
                    raise _Abandoned
            except BaseException as error:
                if not isinstance(error, _Abandoned):
                    self._failure = self._failure or error
                if parts is not None:
                    parts.discard()
                if log is not None:
                    log.leave()
                log = parts = None


class _Abandoned(Exception):
    """The writer gave the segment up."""
