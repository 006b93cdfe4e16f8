"""What each database of mburst contains before it reads any file: tables, macros and views, always the same.

DuckDB takes several times as long to create them from SQL as to copy them from a database that has them, so such a
database is kept (kept.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..kept import KeptFile
from ..process import shortage
from . import damage, tables
from .parsed import run
from .tables import LISTING

if TYPE_CHECKING:
    import duckdb

MACROS = Path(__file__).parent / "macros.sql"
_DESCRIPTORS = 16  # DuckDB opens three, and other threads of this process may open files at the same time

# Of several attempts at recording the same files, those that do not count; the newest row of each recording; and the
# totals of its bins beyond those in that row. These are tables, since nearly every query reads recordings.
_OF_RECORDINGS = """
CREATE TABLE defined.replaced_writers (writer_id VARCHAR);
CREATE TABLE defined.newest_recordings AS FROM defined.recordings;
CREATE TABLE defined.recording_totals (
    recording_id VARCHAR, first_ns BIGINT, last_ns BIGINT, packets BIGINT, bytes BIGINT, wire_bytes BIGINT,
    quality BIGINT)
"""

# The newest row of each recording, with those totals.
_RECORDINGS = """
CREATE VIEW recordings AS
SELECT r.* REPLACE (
    coalesce(r.start_ns, t.first_ns) AS start_ns,
    greatest(r.end_ns, t.last_ns + r.bin_ns) AS end_ns,
    r.packets + coalesce(t.packets, 0) AS packets,
    r.bytes + coalesce(t.bytes, 0) AS bytes,
    r.wire_bytes + coalesce(t.wire_bytes, 0) AS wire_bytes,
    r.quality | coalesce(t.quality, 0) AS quality)
FROM defined.newest_recordings r LEFT JOIN defined.recording_totals t USING (recording_id)
"""


# The gap after a recording has a row when it is found, and another when it is known to be over. Gaps of other reasons
# lie within a recording, and each row is a gap of its own.
_GAPS = """
CREATE VIEW gaps AS FROM defined.all_gaps
QUALIFY row_number() OVER (
    PARTITION BY recording_id, direction, CASE WHEN NOT is_behind_recording(reason) THEN (start_ns, reason) END
    ORDER BY end_ns NULLS LAST, start_ns) = 1
"""


# A run of canary bursts may be read again; for each recording and definition, the newest reading counts.
_CANARY = """
CREATE VIEW canary AS FROM defined.all_canary
QUALIFY rank() OVER (
    PARTITION BY batch, recording_id, bin_ns, link_bps, threshold_ppb, release_ppb, join_ns, min_duration_ns
    ORDER BY read_ns DESC) = 1
"""

# A day may be thinned again; the newest row states what is left of it.
_THINNED = """
CREATE VIEW thinned AS FROM defined.all_thinned
QUALIFY row_number() OVER (PARTITION BY recording_id, start_ns ORDER BY threshold_ppb NULLS FIRST, written_ns DESC) = 1
"""

# A CSV file states when its rows hold, so a newer import of it replaces it. Other sources know only the present: the
# names of an import hold until the next import of that source, and those of the first import also before it.
_NAMES = """
CREATE VIEW names AS
WITH imports AS (
    SELECT origin, batch, max(imported_ns) AS imported_ns FROM defined.all_names GROUP BY origin, batch
), spans AS (
    SELECT origin, batch, CASE WHEN row_number() OVER following > 1 THEN imported_ns END AS first_ns,
           lead(imported_ns) OVER following AS next_ns
    FROM imports WINDOW following AS (PARTITION BY origin ORDER BY imported_ns, batch)
)
SELECT n.* REPLACE (CASE WHEN kind = 'csv' THEN from_ns ELSE first_ns END AS from_ns,
                    CASE WHEN kind = 'csv' THEN until_ns ELSE next_ns END AS until_ns)
FROM defined.all_names n JOIN spans USING (origin, batch)
WHERE prefix <> '' AND (kind <> 'csv' OR next_ns IS NULL)
"""
# Tables of which not every row counts: `defined.all_…` has all rows of their files.
_COUNTING = {"gaps": _GAPS, "canary": _CANARY, "thinned": _THINNED, "names": _NAMES, "recordings": _RECORDINGS}


def view_of_files(table: str) -> str:
    """The name of the view of all rows of TABLE in the files of a store."""
    return f"defined.all_{table}" if table in _COUNTING else table


class Catalogue:
    """The tables, macros and views that TEXTS of SQL create, under a NAME. Only the table `quality` has rows."""

    def __init__(self, name: str, texts: Iterable[str]) -> None:
        self.name = name
        self.texts = tuple(texts)

    def put(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Copy the catalogue into the database of CONNECTION, which is empty and may still read files."""
        import duckdb

        try:
            self._copy(connection)
        except duckdb.Error as error:  # not kept yet, or damaged
            shortage.refuse(error, "cannot define the views of a store")
            self._make(connection)
            self.keep()

    def _copy(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"ATTACH {_quoted(self.kept.path)} AS kept (READ_ONLY)")
        try:
            with _transaction(connection):
                connection.execute("COPY FROM DATABASE kept TO memory (SCHEMA)")
                connection.execute("INSERT INTO quality FROM kept.quality")
        finally:
            connection.execute("DETACH kept")

    def _make(self, connection: duckdb.DuckDBPyConnection) -> None:
        for text in self.texts:
            run(connection, text)

    def keep(self) -> None:
        """Keep a database with the catalogue, if possible."""
        self.kept.replace(self._write)

    def _write(self, path: Path) -> None:
        import duckdb

        _check_descriptors()
        try:
            with duckdb.connect(path) as connection:
                self._make(connection)
        except duckdb.Error as error:
            raise OSError(str(error)) from error

    @cached_property
    def kept(self) -> KeptFile:
        """The file of a database that has the catalogue."""
        import duckdb

        return KeptFile(__file__, f"{self.name}.duckdb-{duckdb.__version__}", "\0".join(self.texts).encode())


def _check_descriptors() -> None:
    """Raises OSError if this process cannot open as many files as DuckDB opens for a database, with some to spare:
    DuckDB 2.0.0 ends the process if it cannot open one of them."""
    held: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


@cache
def bare() -> Catalogue:
    """The tables quality and damaged_files and the macros; and in the schema `defined`, the tables of a store, empty,
    and `files`: the files that a database may read, with the names by which it opens them (openable.py)."""
    return Catalogue(
        "bare",
        [
            tables.schema_sql("quality"),
            damage.TABLE,
            "CREATE SCHEMA defined; USE defined; CREATE TABLE files (path VARCHAR, name VARCHAR)",
            *(tables.schema_sql(table) for table in LISTING),
            "USE main",
            MACROS.read_text(encoding="utf-8"),
        ],
    )


@cache
def of_store() -> Catalogue:
    """The same, with everything that a store without rows has: a view for each table of LISTING, over `view_of_files`
    of it, and the views of sql/model."""
    return Catalogue(
        "store",
        [
            *bare().texts,
            _OF_RECORDINGS,
            *(f"CREATE VIEW {view_of_files(table)} AS FROM defined.{table}" for table in LISTING),
            *_COUNTING.values(),
            *map(tables.model_sql, tables.MODEL),
        ],
    )
