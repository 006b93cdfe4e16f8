"""Writes the files that replace others, for one day and rack, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import lockdown, views
from ..catalogue import bare
from ..format.filenames import Segment
from ..sealing import ROW_GROUP, SealedParts
from ..segments import SealedFile, TableSnapshot
from ..writer import conform

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY = "320MB"
AHEAD = "32MB"  # read ahead while earlier rows are summed up
THREADS = 2
LEAST_GROUP = 1 << 15  # rows: fewer of one file are a row group with those of the next, as each costs every question
PART_ROWS = 1 << 25  # of a file


@contextmanager
def reading(files: Iterable[SealedFile]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that may read FILES, for `show`."""
    own = {"threads": str(THREADS), "memory_limit": MEMORY, "temp_directory": lockdown.temporary()}
    found = TableSnapshot(files=list(files))
    with views.unlocked(bare(), own) as connection:
        connection.execute(f"SET streaming_buffer_size = '{AHEAD}'")
        views.note_files(connection, [found])
        lockdown.lock(connection)
        yield connection


def show(connection: duckdb.DuckDBPyConnection, name: str, table: str, files: list[SealedFile]) -> None:
    """Make the view NAME of the rows of TABLE in FILES, in place of an existing view of that name."""
    views.create(connection, name, table, TableSnapshot(files=files))


class NewFiles:
    """The sealed files with which a replacement replaces others, for one day and rack: one per table, or several if
    there are many rows. SEGMENT is the first of them."""

    def __init__(self, store: Path, rack: str, segment: Segment) -> None:
        self._store = store
        self._rack = rack
        self._next = segment
        self._open: dict[str, tuple[SealedParts, int]] = {}  # and how many rows they have
        self._waiting: dict[str, list[pa.RecordBatch]] = {}  # rows that fill no row group yet

    def write(self, table: str, rows: duckdb.DuckDBPyRelation) -> None:
        """Write the rows of TABLE that a question answers, whose dates are one. Raises MburstError."""
        waiting = self._waiting.setdefault(table, [])
        held = sum(batch.num_rows for batch in waiting)
        for batch in rows.to_arrow_reader(ROW_GROUP):  # each of one file at most
            waiting.append(batch)
            held += batch.num_rows
            if held >= LEAST_GROUP:
                self._write_group(table)
                held = 0

    def _write_group(self, table: str) -> None:
        """Write what waits as a row group."""
        import pyarrow as pa

        waiting = self._waiting[table]
        if rows := sum(batch.num_rows for batch in waiting):
            parts, held = self._parts(table)
            parts.add(conform(pa.Table.from_batches(waiting), table, None))
            self._open[table] = parts, held + rows
        waiting.clear()

    def _parts(self, table: str) -> tuple[SealedParts, int]:
        if table in self._open and self._open[table][1] >= PART_ROWS:
            self._open.pop(table)[0].publish()
        if table not in self._open:
            self._open[table] = SealedParts(self._store, table, self._rack, self._next), 0
            self._next = replace(self._next, number=self._next.number + 1)
        return self._open[table]

    def publish(self) -> None:
        """Write what is left, and give the files their names. Raises MburstError."""
        for table in self._waiting:
            self._write_group(table)
        for parts, _ in self._open.values():
            parts.publish()
        self._open.clear()
