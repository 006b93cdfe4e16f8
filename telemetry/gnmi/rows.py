"""Rows on their way to the store: collected as tuples, turned into Arrow in batches, in limited number.

Text columns are the same for all rows of one source (a queue, a port, a leaf), so a row contains the number of the
source, and the text is looked up when a batch is made. The number of a source that no longer exists is reused.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from .. import tables
from ..tables import FREQUENT, SOURCE_COLUMNS, text_column
from .limits import WAITING_BYTES, WAITING_ROWS

RARE = {"links": tables.LINKS, "gnmi_events": tables.GNMI_EVENTS, "device_clocks": tables.DEVICE_CLOCKS}


class FairLock:
    """A lock that its holder releases now and then, and that no thread takes twice while another waits: the thread that
    waits for it holds the gate, behind which all others wait."""

    def __init__(self) -> None:
        self._lock, self._gate = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._gate:
            self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def give_way(self) -> None:
        """Let another thread have the lock that this thread holds, if one waits for it."""
        if self._gate.locked():
            self._lock.release()
            self.__enter__()


class Table:
    """The rows of one table that are not yet Arrow. A row is the source, followed by the other columns in the order of
    the schema."""

    def __init__(self, name: str) -> None:
        self.schema = FREQUENT[name]
        self.texts: dict[str, list[str]] = {column: [] for column in SOURCE_COLUMNS[name]}  # by source
        self.values = [field.name for field in self.schema if field.name not in self.texts]
        self.rows: list[tuple[Any, ...]] = []
        self.text_bytes = 0  # of the texts in rows, roughly
        self.refused: Counter[str] = Counter()  # rows that no column could hold, by device
        self._free: list[int] = []
        self._released: list[int] = []  # numbers that rows may still have

    def source(self, **texts: str) -> int:
        """Returns the number of a new source."""
        if self._free:
            number = self._free.pop()
            for name, column in self.texts.items():
                column[number] = texts[name]
            return number
        for name, column in self.texts.items():
            column.append(texts[name])
        return len(self.texts["device"]) - 1

    def release(self, source: int) -> None:
        """No more rows of a source will be appended."""
        self._released.append(source)

    def take(self) -> pa.RecordBatch | None:
        """Returns all rows as Arrow, and removes them."""
        rows, self.rows[:], self.text_bytes = list(self.rows), [], 0
        batch, unfit = _converted(rows, self._batch)
        self.refused += Counter(self.texts["device"][row[0]] for row in unfit)
        self._free += self._released
        self._released.clear()
        return batch

    def _batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        source, *values = zip(*rows, strict=True)
        present, places = np.unique(np.array(source, np.int64), return_inverse=True)
        columns = {
            name: text_column([texts[number] for number in present], places) for name, texts in self.texts.items()
        }
        for name, column in zip(self.values, values, strict=True):
            columns[name] = pa.array(column, self.schema.field(name).type)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], self.schema.names)


_UNFIT = (OverflowError, ValueError, TypeError, pa.ArrowException)


def _converted(rows: list[Any], convert: Callable[[list[Any]], Any]) -> tuple[Any, list[Any]]:
    """Returns the rows as CONVERT makes them, or None, and the rows that it cannot convert. Code that makes rows
    ensures that there are none of these; this is for what was not foreseen."""
    try:
        return (convert(rows) if rows else None), []
    except _UNFIT:
        unfit = [row for row in rows if not _fits(row, convert)]
        kept = [row for row in rows if all(row is not other for other in unfit)]
        return (convert(kept) if kept else None), unfit


def _fits(row: Any, convert: Callable[[list[Any]], Any]) -> bool:
    try:
        convert([row])
        return True
    except _UNFIT:
        return False


LOOK_EVERY = 64  # breaths: the number of waiting rows is not checked each time


class CollectionEnded(Exception):
    """The collection ends: any code that processes input stops at once."""


class CollectedRows:
    """All rows of a collection that are not yet handed on. Each subscription is read by a thread of its own, so `lock`
    is held while a stream processes a message, and while rows are taken out."""

    def __init__(self) -> None:
        self.lock = FairLock()
        self.ending = False
        self.tables = {name: Table(name) for name in FREQUENT}
        self._rare: dict[str, list[dict[str, Any]]] = {name: [] for name in RARE}
        self._values = self.tables["gnmi_values"]
        self._breaths = 0
        self._taken = threading.Event()
        self._refused: Counter[str] = Counter()

    def add(self, table: str, **row: Any) -> None:
        """Add a row of one of the tables with few rows."""
        self._rare[table].append(row)

    @property
    def waiting(self) -> int:
        """Rows that are not yet Arrow."""
        return sum(len(table.rows) for table in self.tables.values()) + sum(len(rows) for rows in self._rare.values())

    @property
    def full(self) -> bool:
        """Whether so many rows wait that no more should be made."""
        return self._values.text_bytes > WAITING_BYTES or self.waiting > WAITING_ROWS

    def breathe(self) -> None:
        """Called now and then by a thread that holds the lock for long: other threads have their turn, and waiting rows
        are taken out before there are too many. Raises CollectionEnded."""
        if self.ending:
            raise CollectionEnded
        self.lock.give_way()
        self._breaths += 1
        if self._breaths % LOOK_EVERY and self._values.text_bytes <= WAITING_BYTES:
            return
        while self.full and not self.ending:
            self._taken.clear()
            self.lock.__exit__()
            self._taken.wait(0.1)
            self.lock.__enter__()

    def take(self) -> list[tuple[str, Any]]:
        """Returns (table, rows) of all collected rows."""
        taken = [(name, batch) for name, table in self.tables.items() if (batch := table.take()) is not None]
        for name, rows in self._rare.items():
            if rows:
                made, unfit = _converted(rows, partial(pa.Table.from_pylist, schema=RARE[name]))
                self._refused += Counter(row["device"] for row in unfit)
                taken += [] if made is None else [(name, made)]
                self._rare[name] = []
        self._taken.set()
        return taken

    def refused(self) -> Counter[str]:
        """Rows that no column could hold since the last call, by device."""
        found, self._refused = self._refused, Counter()
        for table in self.tables.values():
            found += table.refused
            table.refused.clear()
        return found


def devices_of(batch: Any) -> Counter[str]:
    """The number of rows of a batch by device."""
    counts = batch.column("device").value_counts()
    return Counter({entry["values"]: entry["counts"] for entry in counts.to_pylist()})
