"""Rows on their way to the store: gathered as tuples, turned into Arrow in batches, bounded.

Text columns are the same for all rows of one source (a queue, a port, a leaf), so a row carries the source's number,
and the text is looked up when a batch is made.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from .. import tables

MEASURED = {"queues": tables.QUEUES, "ports": tables.PORTS, "buffers": tables.BUFFERS,
            "gnmi_values": tables.GNMI_VALUES}
RARE = {"links": tables.LINKS, "gnmi_events": tables.GNMI_EVENTS, "device_clocks": tables.DEVICE_CLOCKS}
SOURCE_COLUMNS = {
    "queues": ("batch", "device", "port", "queue", "semantics"),
    "ports": ("batch", "device", "port"),
    "buffers": ("batch", "device", "component", "resource", "semantics"),
    "gnmi_values": ("batch", "device", "path"),
}


class Column:
    """A text column of all sources of a table: each text once, and which one each source has."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_source: list[int] = []
        self._dictionary: pa.Array = pa.array([], pa.string())

    def add(self, text: str) -> None:
        """The text of the next source."""
        self._of_source.append(self._numbers.setdefault(text, len(self._numbers)))

    def change(self, source: int, text: str) -> None:
        """Another text for a source."""
        self._of_source[source] = self._numbers.setdefault(text, len(self._numbers))

    def take(self, sources: np.ndarray[Any, Any]) -> pa.DictionaryArray:
        """The column of rows that have these sources."""
        if len(self._dictionary) != len(self._numbers):
            self._dictionary = pa.array(list(self._numbers), pa.string())
        numbers = np.asarray(self._of_source, np.int32)[sources]
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self._dictionary)


class Table:
    """The rows of one table that are not yet Arrow. A row is (source, then the other columns in the schema's order)."""

    def __init__(self, name: str) -> None:
        self.schema = MEASURED[name]
        self.sources = {column: Column() for column in SOURCE_COLUMNS[name]}
        self.values = [field.name for field in self.schema if field.name not in self.sources]
        self.count = 0  # of sources
        self.rows: list[tuple[Any, ...]] = []

    def source(self, **texts: str) -> int:
        """The number of a new source."""
        for name, column in self.sources.items():
            column.add(texts[name])
        self.count += 1
        return self.count - 1

    def take(self) -> pa.RecordBatch | None:
        """All rows as Arrow, and begin anew."""
        if not self.rows:
            return None
        rows, self.rows[:] = list(self.rows), []
        source, *values = zip(*rows, strict=True)
        numbers = np.array(source, np.int64)
        columns = {name: column.take(numbers) for name, column in self.sources.items()}
        for name, column in zip(self.values, values, strict=True):
            columns[name] = pa.array(column, self.schema.field(name).type)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], self.schema.names)


class Rows:
    """All rows of a collection that are not yet handed on. Each subscription is read by a thread of its own, so `lock`
    is held while a stream takes something in, and while rows are taken out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tables = {name: Table(name) for name in MEASURED}
        self._rare: dict[str, list[dict[str, Any]]] = {name: [] for name in RARE}

    def add(self, table: str, **row: Any) -> None:
        """A row of one of the tables that have few."""
        self._rare[table].append(row)

    @property
    def waiting(self) -> int:
        """Rows that are not yet Arrow."""
        return sum(len(table.rows) for table in self.tables.values())

    def take(self) -> list[tuple[str, Any]]:
        """(table, rows) of all that was gathered."""
        taken = [(name, batch) for name, table in self.tables.items() if (batch := table.take()) is not None]
        for name, rows in self._rare.items():
            if rows:
                taken.append((name, pa.Table.from_pylist(rows, RARE[name])))
                self._rare[name] = []
        return taken


def devices_of(batch: Any) -> Counter[str]:
    """How many rows of a batch are of which device."""
    counts = batch.column("device").value_counts()
    return Counter({entry["values"]: entry["counts"] for entry in counts.to_pylist()})
