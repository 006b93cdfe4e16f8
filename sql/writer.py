"""A writer of one table: appends to a hot log, and writes the sealed form of the same rows behind it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import MburstError, print_trouble
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
# Tables that wait for their row group: as many are copied into one, since each takes 20 kB beside its rows.
TOGETHER = 256
BACKLOG = 8  # row groups that may wait for the sealing thread before `append` waits


class TableWriter:
    """Appends rows to a table of a store. Not for use by several threads at once.

    When `append` has returned, its rows are acknowledged: readers see them, and they survive the death of this
    process (kill -9). They survive that of the machine a second later at most. They are sealed when the writer is
    closed, by `roll`, and after ROLL_ROWS rows or ROLL_S seconds, by a thread behind the appends, so that `close` is
    short. A seal that fails is reported to ON_TROUBLE, and tried again every RETRY_S; the rows are in the hot log
    meanwhile."""

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
        self._on_trouble = on_trouble or print_trouble
        self._place = place or StorePlace(store)
        self.segments = 0
        self._schema: pa.Schema | None = None
        self._segment: _Segment | None = None
        self._behind: _SealingThread | None = None
        self._closed = False

    @property
    def hot_bytes(self) -> int:
        """What the log takes that is appended to."""
        return 0 if self._segment is None else self._segment.log.bytes

    def append(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows; they are acknowledged when this returns. Columns are matched by name, text may be
        dictionary-encoded, a nullable column that is missing becomes NULL. Raises MburstError when it cannot be
        written, or the store is lost (place.py): what was acknowledged before is kept, the writer is of no more use.
        Raises ValueError when BATCH is not of this table."""
        if self._closed:
            raise ValueError("append to a closed writer")
        self._place.check()
        rows = conform(batch, self._table, self._schema)
        self._check_constants(rows)
        if rows.num_rows == 0:
            return
        if self._segment is None:
            self._schema = rows.schema
            self._behind = self._behind or _SealingThread(self._retry, self._report)  # first: it may not start
            segment = filenames.new_segment(self._host, self._id, self.segments)
            log = HotLog(self._store, self._table, segment, self._rack, self._on_trouble)
            self.segments += 1
            self._segment = _Segment(log, sealing.SealedParts(self._store, self._table, self._rack, segment))
        current = self._segment
        try:
            current.log.append(rows)
        except BaseException:
            self._closed = True
            self._stop(current.give_up)  # the log may end in a torn batch: whoever seals it reads it from the disk
            raise
        assert self._behind is not None
        if (full := current.collect(rows)) is not None:
            self._behind.do(lambda: current.write(full))
        if current.log.rows >= self._roll_rows or time.monotonic() - current.log.started >= self._roll_s:
            self.roll()

    def roll(self) -> None:
        """Have what was appended sealed now, by the thread behind; the next rows begin another segment."""
        if self._segment is not None and self._behind is not None:
            current, self._segment = self._segment, None
            self._behind.do(current.finish)

    def _report(self, error: MburstError) -> None:
        """What could not be sealed; of a store that is not there any more who watches it says so."""
        if not self._place.is_lost():
            self._on_trouble(error)

    def _retry(self) -> None:
        """Seal what could not be sealed, if it can be now. Raises MburstError."""
        for path, segment in segments.list_hot(self._store, self._table).logs.items():
            if segment.writer == self._id:
                sealing.seal(self._store, self._table, path)

    def _check_constants(self, rows: pa.Table) -> None:
        """The rack names the folder, and readers trust it: rows of another rack would be lost to them."""
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
        """End the thread behind after LAST; what failed in it."""
        if self._behind is None:
            return []
        if last is not None:
            self._behind.do(last)
        return self._behind.stop()

    def close(self) -> None:
        """Seal what was appended, and what writers of this table that have died left behind. Raises MburstError when
        the former fails; the rows are kept in the hot log even so."""
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
    """Seal the logs that writers of TABLE left behind when they died; how many. A log that cannot be sealed is reported
    to FAILED and does not keep the others from it; the next writer that begins or ends tries again."""
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
    """FAILED, but for damaged logs: readers name them, and `mburst repair` mends them."""
    return lambda error: None if isinstance(error, DamagedLog) else failed(error)


class _Segment:
    """A segment in both its forms while its writer lives. `collect` belongs to the writer's thread, the rest to the one
    behind it; a failure there skips the rest of the sealed form, and the hot log stays for others to seal."""

    def __init__(self, log: HotLog, parts: sealing.SealedParts) -> None:
        self.log = log
        self._parts = parts
        self._pending: list[pa.Table] = []
        self._joined = 0  # of these, the first so many are each of TOGETHER ones
        self._pending_rows = 0
        self._failed: BaseException | None = None

    def collect(self, rows: pa.Table) -> pa.Table | None:
        """Keep ROWS, and give back what fills row groups of all that is kept."""
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
        """Copy what waits in many small tables into one."""
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
        """The segment is whole: seal it."""
        import pyarrow as pa

        self.log.begin_sync()  # the disk writes while the last rows are encoded
        try:
            self.write(pa.concat_tables(self._pending))
            if self._failed:
                raise self._failed
            self.log.sync()  # should the machine die before the removal is on the disk, the log counts again
            self._parts.publish()
            self.log.remove()
        except BaseException:
            self._parts.discard()
            raise
        finally:
            self.log.leave()

    def give_up(self) -> None:
        """Take the sealed form back and leave the hot log to others."""
        self._parts.discard()
        self.log.leave()


class _SealingThread:
    """A thread that does what it is asked, in order. What a user can mend is reported to ON_TROUBLE and tried
    again by RETRY, every RETRY_S, until it works; whether it did, `stop` says."""

    def __init__(self, retry: Callable[[], None], on_trouble: Callable[[MburstError], None]) -> None:
        self._tasks: queue.Queue[Callable[[], None] | None] = queue.Queue(BACKLOG)
        self._retry = retry
        self._on_trouble = on_trouble
        self._trouble: MburstError | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mburst-seal", daemon=True)
        self._thread.start()

    def do(self, task: Callable[[], None]) -> None:
        """Have TASK done. Waits while BACKLOG tasks are waiting."""
        self._tasks.put(task)

    def stop(self) -> list[MburstError]:
        """Wait for all that was asked; what could not be done that a user can mend. Raises any other failure."""
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
        except BaseException as error:  # not lost: stop() raises it in the writer's thread
            self._failure = self._failure or error
