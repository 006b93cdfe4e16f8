"""A writer of one table: appends to a hot log, and writes the sealed form of the same rows in a thread behind it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import MburstError
from ..messages import print_error
from . import sealing, segments, tables
from .format import filenames
from .format.hotlog import HotLog
from .place import StorePlace
from .sealing import DamagedLog

if TYPE_CHECKING:
    import pyarrow as pa

ROLL_ROWS = 16_000_000
ROLL_S = 900.0
RETRY_S = 5.0
# Tables that wait for their row group: this many are copied into one, since each takes 20 kB in addition to its rows.
TOGETHER = 256
BACKLOG = 8  # row groups that may wait for the sealing thread before `append` waits


class TableWriter:
    """Appends rows to a table of a store. Not for use by several threads at once.

    When `append` has returned, its rows are acknowledged: readers see them, and they survive the death of this process
    (kill -9), and at most a second later also the death of the machine. They are sealed when the writer is closed, by
    `roll`, and after ROLL_ROWS rows or ROLL_S seconds, by a thread behind the appends, so that `close` is short. A seal
    that fails is reported to ON_TROUBLE and tried again every RETRY_S; until then the rows are in the hot log."""

    def __init__(
        self,
        store: Path,
        table: str,
        host: str = "",
        rack: str = "",
        writer_id: str | None = None,
        on_trouble: Callable[[MburstError], None] | None = None,
        roll_rows: int = ROLL_ROWS,
        roll_s: float = ROLL_S,
        *,
        place: StorePlace | None = None,
    ) -> None:
        filenames.check_rack(rack)
        self._store = store
        self._table = table
        self._host = host
        self._rack = rack
        self._roll_rows = roll_rows
        self._roll_s = roll_s
        self._id = writer_id or filenames.new_writer()
        self._on_trouble = on_trouble or print_error
        self._place = place or StorePlace(store)
        self.segments = 0
        self._schema: pa.Schema | None = None
        self._segment: _Segment | None = None
        self._behind: _SealingThread | None = None
        self._closed = False

    @property
    def hot_bytes(self) -> int:
        """The size of the log that is appended to."""
        return 0 if self._segment is None else self._segment.log.bytes

    def append(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; they are acknowledged when this returns. Columns are matched by name, text may be
        dictionary-encoded, a missing nullable column becomes NULL. Raises MburstError if the rows cannot be written, or
        the store is lost (place.py): rows that were acknowledged before are kept, and the writer cannot be used any
        more. Raises ValueError if BATCH is not of this table."""
        if self._closed:
            raise ValueError("append to a closed writer")
        self._place.check()
        rows = conform(batch, self._table, self._schema)
        self._check_constants(rows)
        if rows.num_rows == 0:
            return
        if self._segment is None:
            self._schema = rows.schema
            self._behind = self._behind or _SealingThread(self._retry, self._report)  # first: it may fail to start
            segment = filenames.new_segment(self._host, self._id, self.segments)
            log = HotLog(self._store, self._table, segment, self._rack, self._on_trouble)
            self.segments += 1
            self._segment = _Segment(log, sealing.SealedParts(self._store, self._table, self._rack, segment))
        current = self._segment
        try:
            current.log.append(rows)
        except BaseException:
            self._closed = True
            self._stop(current.give_up)  # the log may end in a torn batch: the sealer reads it from the disk
            raise
        assert self._behind is not None
        if (full := current.collect(rows)) is not None:
            self._behind.do(lambda: current.write(full))
        if current.log.rows >= self._roll_rows or time.monotonic() - current.log.started >= self._roll_s:
            self.roll()

    def roll(self) -> None:
        """Have the thread seal what was appended so far; the next rows begin another segment."""
        if self._segment is not None and self._behind is not None:
            current, self._segment = self._segment, None
            self._behind.do(current.finish)

    def _report(self, error: MburstError) -> None:
        """Report what could not be sealed. If the store is lost, whoever watches it reports that."""
        if not self._place.explains(error):
            self._on_trouble(error)

    def _retry(self) -> None:
        """Seal what could not be sealed before, if it can be now. Raises MburstError."""
        for path, segment in segments.list_hot(self._store, self._table).logs.items():
            if segment.writer == self._id:
                sealing.seal(self._store, self._table, path)

    def _check_constants(self, rows: pa.Table) -> None:
        """Check the rack: it names the folder, and readers trust it, so they would not find rows of another rack."""
        for name, value in (("host", self._host), ("rack", self._rack)):
            if name in rows.column_names and (value or name == "rack"):
                seen = {
                    text
                    for chunk in rows.column(name).chunks
                    for text in (chunk.dictionary if hasattr(chunk, "dictionary") else chunk).to_pylist()
                }
                if seen - {value}:
                    raise ValueError(f"{self._table}: rows of {name} {min(seen - {value})!r}, writer of {value!r}")

    def _stop(self, last: Callable[[], None] | None) -> list[MburstError]:
        """End the sealing thread after LAST. Returns its failures."""
        if self._behind is None:
            return []
        if last is not None:
            self._behind.do(last)
        return self._behind.stop()

    def close(self) -> None:
        """Seal what was appended, and what dead writers of this table left behind. Raises MburstError if the former
        fails; the rows are then kept in the hot log."""
        if self._closed:
            return
        self._closed = True
        failures = self._stop(self._segment.finish if self._segment is not None else None)
        if failures:
            raise failures[0]
        seal_abandoned(self._store, self._table, unless_damaged(self._on_trouble))

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MburstError:
            if kind is None:
                raise


def conform(batch: pa.RecordBatch | pa.Table, table: str, earlier: pa.Schema | None) -> pa.Table:
    """BATCH with the columns of the table in its order; text keeps its encoding, or takes that of EARLIER."""
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
    """Seal the logs that dead writers of TABLE left behind. Returns how many. A log that cannot be sealed is reported
    to FAILED and does not keep the others from being sealed; the next writer that begins or ends tries again."""
    sealed = 0
    for path in segments.list_hot(store, table).logs:
        try:
            sealed += sealing.seal(store, table, path)
        except DamagedLog as error:
            failed(error)
        except MburstError as error:
            failed(MburstError(f"not sealed yet: {error}", error.hint))
    return sealed


def unless_damaged(failed: Callable[[MburstError], None]) -> Callable[[MburstError], None]:
    """FAILED, except for damaged logs: readers report them, and `mburst repair` repairs them."""
    return lambda error: None if isinstance(error, DamagedLog) else failed(error)


class _Segment:
    """A segment in both its forms while its writer lives. `collect` belongs to the thread of the writer, the rest to
    the sealing thread. After a failure there, the rest of the sealed form is skipped, and the hot log stays for others
    to seal."""

    def __init__(self, log: HotLog, parts: sealing.SealedParts) -> None:
        self.log = log
        self._parts = parts
        self._pending: list[pa.Table] = []
        self._joined = 0  # how many of these are joined from TOGETHER ones
        self._pending_rows = 0
        self._failed: BaseException | None = None

    def collect(self, rows: pa.Table) -> pa.Table | None:
        """Keep ROWS. Returns those of the kept rows that fill row groups."""
        import pyarrow as pa

        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows < sealing.ROW_GROUP:
            self._join()
            return None
        kept, self._pending_rows = pa.concat_tables(self._pending), self._pending_rows % sealing.ROW_GROUP
        full = kept.num_rows - self._pending_rows
        self._pending, self._joined = [kept.slice(full)], 0
        return kept.slice(0, full)

    def _join(self) -> None:
        """Copy many small waiting tables into one."""
        import pyarrow as pa

        if len(self._pending) - self._joined >= TOGETHER:
            joined = pa.concat_tables(self._pending[self._joined :]).unify_dictionaries().combine_chunks()
            self._pending[self._joined :] = [joined]
            self._joined += 1

    def write(self, rows: pa.Table) -> None:
        """Write row groups of the sealed form."""
        if rows.num_rows and not self._failed:
            try:
                self._parts.add(rows)
            except BaseException as error:
                self._failed = error
                self._parts.discard()
                raise

    def finish(self) -> None:
        """The segment is complete: seal it."""
        import pyarrow as pa

        self.log.begin_sync()  # the disk writes while the last rows are encoded
        try:
            self.write(pa.concat_tables(self._pending))
            if self._failed:
                raise self._failed
            self.log.sync()  # if the machine dies before the removal is on the disk, the log counts again
            self._parts.publish()
            self.log.remove()
        except BaseException:
            self._parts.discard()
            raise
        finally:
            self.log.leave()

    def give_up(self) -> None:
        """Remove the sealed form and leave the hot log to others."""
        self._parts.discard()
        self.log.leave()


class _SealingThread:
    """A thread that runs tasks in order. A failure that a user can correct is reported to ON_TROUBLE and tried again
    with RETRY, every RETRY_S, until it works. `stop` returns whether it did."""

    def __init__(self, retry: Callable[[], None], on_trouble: Callable[[MburstError], None]) -> None:
        self._tasks: queue.Queue[Callable[[], None] | None] = queue.Queue(BACKLOG)
        self._retry = retry
        self._on_trouble = on_trouble
        self._trouble: MburstError | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mburst-seal", daemon=True)
        self._thread.start()

    def do(self, task: Callable[[], None]) -> None:
        """Have TASK run. Waits while BACKLOG tasks are waiting."""
        self._tasks.put(task)

    def stop(self) -> list[MburstError]:
        """Wait for all tasks. Returns the remaining failures that a user can correct. Raises any other failure."""
        self._tasks.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return [self._trouble] if self._trouble is not None else []

    def _run(self) -> None:
        while True:
            try:
                task = self._tasks.get(timeout=RETRY_S if self._trouble else None)
            except queue.Empty:
                self._attempt(self._retry)
                continue
            if task is None:
                break
            failed_before = self._trouble
            self._attempt(task)
            self._trouble = self._trouble or failed_before
        if self._trouble:
            self._attempt(self._retry)

    def _attempt(self, task: Callable[[], None]) -> None:
        known, self._trouble = self._trouble, None
        try:
            task()
        except MburstError as error:
            self._trouble = error
            if str(error) != str(known):
                self._on_trouble(MburstError(f"not sealed yet, trying again: {error}", error.hint))
        except BaseException as error:  # not lost: stop() raises it in the thread of the writer
            self._failure = self._failure or error
