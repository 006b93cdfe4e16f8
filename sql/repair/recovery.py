"""Cleans up what dead writers leave in a store. All of it may be interrupted and repeated, and may run in several
processes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...files import remove_draft
from .. import damage, disk, tables, views
from ..disk import failing_as_one_line
from ..format.filenames import HOT, Segment, unfinished_segment
from ..segments import FileSelection, TableSnapshot, list_hot, list_sealed, snapshot
from ..writer import seal_abandoned

if TYPE_CHECKING:
    import duckdb

OWNED = ("bins", "sources", "recordings")  # tables of one attempt; the rows that record its replacement come last


def clean(store: Path, failed: Callable[[MburstError], None]) -> None:
    """Seal the logs of dead writers, and remove the drafts that they left. Damaged files are left to `mburst repair`,
    and FAILED is called for them. Raises MburstError if a folder cannot be read."""
    for table in tables.ORDER:
        seal_abandoned(store, table, failed)
        with failing_as_one_line(store / table, "clean"):
            for path in list_hot(store, table).unfinished:
                remove_draft(path)
            for path in _sealed_drafts(store / table):
                segment = unfinished_segment(path.name)
                if not (store / HOT / table / f"{segment}.log").exists():  # otherwise its seal is under way, or to come
                    path.unlink(missing_ok=True)
    with failing_as_one_line(store, "clean"):
        for path in store.glob(".mburst.json.*"):
            remove_draft(path)


def _sealed_drafts(folder: Path) -> Iterator[Path]:
    """The drafts among the sealed files of a table. Drafts of compaction are left to it (sql/replacing.py)."""
    for path in folder.glob("date=*/rack=*/*.tmp"):
        name = unfinished_segment(path.name)
        segment = Segment.parse(name) if name else None
        if name and not (segment and segment.compacted):
            yield path


def remove_writers(store: Path, writers: set[str]) -> None:
    """Remove, durably, all that WRITERS wrote of a recording. Raises MburstError."""
    for table in OWNED:
        with failing_as_one_line(store / table, "remove"):
            paths = [path for path, segment in list_hot(store, table).logs.items() if segment.writer in writers]
            paths += [
                file.path
                for file in list_sealed(store, table, FileSelection()).files
                if file.name.segment.writer in writers
            ]
            for path in paths:
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths}:
                disk.sync(folder)


def make_durable(store: Path, writer: str) -> None:
    """Have what WRITER wrote and did not seal reach the disk. Raises MburstError."""
    for table in OWNED:
        for path, segment in list_hot(store, table).logs.items():
            if segment.writer == writer:
                with failing_as_one_line(path, "sync"), suppress(FileNotFoundError):
                    disk.sync(path)


def rows_of(store: Path, table: str, where: str = "true", values: Iterable[Any] = ()) -> list[dict[str, Any]]:
    """Returns the rows of recordings or gaps as they were written, including older rows of a recording and replaced
    ones. Raises MburstError."""
    with failing_as_one_line(store / table, "read"):
        found = snapshot(store, table, FileSelection())
    with _reading(table, found) as connection:
        answer = connection.execute(f"FROM defined.found WHERE {where}", list(values))
        columns = [column[0] for column in answer.description]
        return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


@dataclass(frozen=True)
class Totals:
    """Totals of the bins of one recording, from the start of the first bin to that of the last. Unix nanoseconds."""

    first_ns: int
    last_ns: int
    packets: int
    bytes: int
    wire_bytes: int
    quality: int


def totals(store: Path, writer: str, first: int) -> dict[str, Totals]:
    """Returns the totals of the segments of bins that WRITER wrote, from number FIRST on, by recording_id. Raises
    MburstError."""

    def mine(segment: Segment) -> bool:
        return segment.writer == writer and segment.number >= first

    with failing_as_one_line(store / "bins", "read"):
        found = snapshot(store, "bins", FileSelection(), mine)
    with _reading("bins", found) as connection:
        rows = connection.execute(
            "SELECT recording_id, min(ts_ns), max(ts_ns), sum(packets)::BIGINT, sum(bytes)::BIGINT, "
            "sum(wire_bytes)::BIGINT, bit_or(quality)::BIGINT FROM defined.found GROUP BY recording_id"
        ).fetchall()
    return {name: Totals(*numbers) for name, *numbers in rows}


@contextmanager
def _reading(table: str, found: TableSnapshot) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with a view defined.found of the rows of FOUND."""
    connection = views.reading(table, found)
    try:
        with damage.readable(connection):
            yield connection
    finally:
        connection.close()
