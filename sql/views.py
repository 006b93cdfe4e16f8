"""The views that a query reads: each table of a store at one moment, without damaged or replaced files."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..process import interrupting
from ..units import NS_PER_DAY
from . import aside, damage, lockdown, openable, replacing, tables, verified
from .catalogue import Catalogue, bare, of_store, view_of_files
from .disk import failing_as_one_line
from .format.filenames import SealedName, Segment
from .parsed import run
from .segments import FileSelection, SealedFile, TableSnapshot, list_sealed, second_copies, segment_of, snapshot
from .tables import LISTING

if TYPE_CHECKING:
    import duckdb

TOTALS = ("packets", "bytes", "wire_bytes")  # totals of a recording that did not end normally: they come from its bins
_ATTEMPTS = 20  # to read a store in which recordings begin and end at the same time

# The files of recordings are read once; rows that do not count are then removed, if there are any.
_RECORDINGS = "INSERT INTO defined.newest_recordings FROM defined.all_recordings"
_WHAT_THEY_ARE = "SELECT recording_id, capture_id, writer_id, counted_segments FROM defined.newest_recordings"

# Of several attempts at recording the same files with the same settings, one counts: the complete one, or otherwise the
# last.
_REPLACED = """
INSERT INTO defined.replaced_writers SELECT writer_id FROM (
    SELECT capture_id, writer_id, bool_or(complete) AS done, min(written_ns) AS begun_ns
    FROM defined.newest_recordings GROUP BY ALL)
QUALIFY row_number() OVER (
    PARTITION BY capture_id ORDER BY done DESC, CASE WHEN done THEN begun_ns ELSE -begun_ns END, writer_id) > 1
"""

_NEWEST_RECORDINGS = """
DELETE FROM defined.newest_recordings WHERE rowid NOT IN (
    SELECT rowid FROM defined.newest_recordings
    WHERE writer_id NOT IN (SELECT writer_id FROM defined.replaced_writers)
    QUALIFY row_number() OVER (PARTITION BY recording_id ORDER BY complete DESC, written_ns DESC) = 1)
"""


def in_memory(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB over a store without rows, for rows that are in no store yet and are registered under the
    names of the tables. It opens no files."""
    connection = unlocked(of_store(), {} if threads is None else {"threads": str(threads)})
    lockdown.lock(connection)
    return connection


def reading(table: str, found: TableSnapshot) -> duckdb.DuckDBPyConnection:
    """A database with a view defined.found of the rows of FOUND, which are of TABLE. Raises MburstError."""
    connection = unlocked(bare(), {})
    note_files(connection, [found])
    create(connection, "defined.found", table, found)
    lockdown.lock(connection)
    return connection


def unlocked(catalogue: Catalogue, settings: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with SETTINGS and the content of CATALOGUE. Lock it (lockdown.py) before it runs queries that
    others wrote."""
    import duckdb

    own = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": lockdown.temporary(),
    }
    connection = duckdb.connect(":memory:", config={**own, **settings})
    connection.execute("SET TimeZone = 'UTC'")  # in place of that of this process
    connection.execute("SET enable_progress_bar = false")  # it would go to standard output if Python runs no script
    for name, value in lockdown.limits().items():
        if name not in settings:  # set explicitly, since DuckDB 2.0 ignores its initial limit of the disk
            connection.execute(f"SET {name} = '{value}'")
    interrupting.watch(connection)
    catalogue.put(connection)
    return connection


def connect(store: Path, narrow: FileSelection) -> duckdb.DuckDBPyConnection:
    """See Store.connect."""
    reading = replacing.begin_reading(store)
    done = contextlib.ExitStack()
    if reading is not None:
        done.callback(os.close, reading)
    try:
        connection = over(contents(store, narrow), lambda: list_sealed(store, "bins", FileSelection()).files)
    except BaseException:
        done.close()
        raise
    weakref.finalize(connection, done.close)  # until then compaction removes none of these files
    return connection


def over(
    found: Mapping[str, TableSnapshot],
    every_bins_file: Callable[[], list[SealedFile]],
    settings: Mapping[str, str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A database over FOUND, by table: the views of LISTING and of sql/model. EVERY_BINS_FILE returns the sealed files
    of bins of any time, from which unfinished recordings are summed up. SETTINGS are those of DuckDB. Raises
    MburstError."""
    connection = unlocked(of_store(), settings or {})
    note_files(connection, [found["recordings"]])
    create(connection, view_of_files("recordings"), "recordings", found["recordings"])
    with damage.readable(connection):
        run(connection, _RECORDINGS)
    replaced, are_some_unfinished = _without_older(connection)
    counting = {
        table: found[table].without(replaced) for table in LISTING[:-1] if found[table].files or found[table].logs
    }
    note_files(connection, counting.values())
    for table, rows in counting.items():
        create(connection, view_of_files(table), table, rows)
    if are_some_unfinished:
        _sum_up_unfinished(connection, found["bins"], every_bins_file)
    every = [damaged for snap in found.values() for damaged in snap.damage]
    damage.fill_table(connection, every)
    _leave_out_missing(connection, every)
    for damaged in every:
        damage.FOUND.add(damaged)
    lockdown.lock(connection)
    return connection


def _without_older(connection: duckdb.DuckDBPyConnection) -> tuple[set[str], bool]:
    """Remove rows that do not count from the table of recordings. Returns the writers of replaced recordings, and
    whether some recordings may be unfinished. Python sets show faster that there is nothing to remove: a DISTINCT of
    DuckDB takes a millisecond to begin."""
    rows = connection.execute(_WHAT_THEY_ARE).fetchall()
    attempts = {(capture, writer) for _, capture, writer, _ in rows}
    replaced: set[str] = set()
    if len(attempts) > len({capture for capture, _ in attempts}):
        run(connection, _REPLACED)
        replaced = {writer for (writer,) in connection.execute("FROM defined.replaced_writers").fetchall()}
    if replaced or len(rows) > len({recording for recording, *_ in rows}):
        run(connection, _NEWEST_RECORDINGS)
    return replaced, any(counted is not None for *_, counted in rows)


def _leave_out_missing(connection: duckdb.DuckDBPyConnection, damaged: list[damage.DamagedFile]) -> None:
    """Have the view `recorded` leave out the times with bins in DAMAGED files, except copies and files that are not
    named after a writer."""
    rows = []
    for file in damaged:
        path = Path(file.path)
        name = SealedName.parse(path.name)
        segment = name.segment if name else Segment.parse(path.stem)
        if file.table not in ("bins", "steps") or segment is None or file.reason == damage.SECOND_COPY:
            continue
        if file.first_ns is not None and file.last_ns is not None:
            writer = "" if segment.compacted else segment.writer  # '': any writer
            rows.append([writer, file.rack, file.host, file.first_ns, file.last_ns])
    if rows:
        run(connection, tables.MISSING_BINS.read_text(encoding="utf-8"))
        connection.executemany("INSERT INTO defined.missing_bins VALUES (?, ?, ?, ?, ?)", rows)


def contents(store: Path, narrow: FileSelection) -> dict[str, TableSnapshot]:
    """Returns all tables at one moment: no recording began or ended, and nothing was compacted, while they were listed.
    Raises MburstError."""
    with failing_as_one_line(store, "read"):
        replaced = replacing.hidden(store).state
        recordings = snapshot(store, "recordings", FileSelection(narrow.rack))
        for _ in range(_ATTEMPTS):
            found = {table: snapshot(store, table, _narrow_for(table, narrow)) for table in LISTING[:-1]}
            after = snapshot(store, "recordings", FileSelection(narrow.rack))
            replaced_after = replacing.hidden(store).state
            if (after.signature(), replaced_after) == (recordings.signature(), replaced):
                break
            recordings, replaced = after, replaced_after
        found["recordings"] = recordings
        for table, missing in aside.missing_files(store, lambda table: _narrow_for(table, narrow)).items():
            found[table].damage += missing
        return found


def _narrow_for(table: str, narrow: FileSelection) -> FileSelection:
    """The files of a table to list: not by rack if rows have none, and never by time if rows stay valid."""
    if table in ("links", "names"):
        return FileSelection()
    if table in ("canary", "recordings"):
        return FileSelection(narrow.rack)
    if table in ("thinned", "kept") and narrow.since_ns is not None:  # rows that hold for up to a day from their time
        return FileSelection(narrow.rack, narrow.since_ns - NS_PER_DAY, narrow.until_ns)
    names = {column.name for column in tables.columns(table)}
    return narrow if "rack" in names else FileSelection(None, narrow.since_ns, narrow.until_ns)


def note_files(connection: duckdb.DuckDBPyConnection, found: Iterable[TableSnapshot]) -> None:
    """Add the files of FOUND to those that CONNECTION may read. Call it before `create`."""
    note_paths(connection, [str(file.path) for of in found for file in of.files])


def note_paths(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> None:
    """The same for the files at PATHS."""
    if paths:
        names = openable.names(connection, paths)
        connection.execute("INSERT INTO defined.files SELECT unnest($1), unnest($2)", [paths, names])


def create(connection: duckdb.DuckDBPyConnection, view: str, table: str, found: TableSnapshot) -> None:
    """Make VIEW over the FOUND files of TABLE, in place of an existing view of that name. Raises MburstError."""
    empty, branches = f"FROM defined.{table}", []
    by_columns: dict[int, list[str]] = {}
    for file in found.files:
        by_columns.setdefault(file.name.columns, []).append(str(file.path))
    for count, paths in by_columns.items():
        files = openable.listed(openable.names(connection, paths))
        known = {column.name for column in tables.columns(table)[:count]}
        branches.append(_select(table, known, f"read_parquet({files}, hive_partitioning = false)"))
    for index, log in enumerate(found.logs):
        name = f"hot_{view.replace('.', '_')}_{index}"
        rows = log.rows
        connection.register(name, rows)
        branches.append(_select(table, set(rows.column_names), name))
    with damage.readable(connection, ours=True):
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(branches or [empty])}")


def _select(table: str, known: Iterable[str], source: str) -> str:
    """The columns of TABLE from SOURCE, which has the KNOWN ones: SOURCE may lack newer columns."""
    columns = (
        column.name if column.name in known else f"CAST({column.default} AS {column.type}) AS {column.name}"
        for column in tables.columns(table)
    )
    return f"SELECT {', '.join(columns)} FROM {source}"


def _sum_up_unfinished(
    connection: duckdb.DuckDBPyConnection, bins: TableSnapshot, every_bins_file: Callable[[], list[SealedFile]]
) -> None:
    """Fill the table of the totals of bins beyond those in the rows of their recordings."""
    counted = dict(
        connection.execute(
            "SELECT writer_id, min(counted_segments) FROM defined.newest_recordings WHERE counted_segments IS NOT NULL "
            "GROUP BY ALL"
        ).fetchall()
    )
    if not counted:
        return
    uncounted = _uncounted(bins, every_bins_file, counted)
    note_files(connection, [uncounted])
    create(connection, "defined.uncounted_bins", "bins", uncounted)
    with damage.readable(connection):
        connection.execute(
            "INSERT INTO defined.recording_totals SELECT recording_id, min(ts_ns), max(ts_ns), sum(packets), "
            "sum(bytes), sum(wire_bytes), bit_or(quality) FROM defined.uncounted_bins GROUP BY recording_id"
        )


def _uncounted(
    bins: TableSnapshot, every_bins_file: Callable[[], list[SealedFile]], counted: dict[str, int]
) -> TableSnapshot:
    """The bins that are not in the totals yet: for each writer in COUNTED, its segments from that number on."""
    logs = [log for log in bins.logs if _is_uncounted(segment_of(log.path), counted)]
    hot = {segment_of(log.path) for log in logs}
    if {(segment.writer, segment.number) for segment in hot} >= set(counted.items()):
        return TableSnapshot(logs)  # what was not counted has just begun: it can have no sealed files
    files = [
        file
        for file in every_bins_file()  # BINS may be narrowed by time
        if _is_uncounted(file.name.segment, counted) and file.name.segment not in hot
    ]
    faults = verified.unverified([file.path for file in files])
    second = second_copies(files, lambda _: faults)
    return TableSnapshot(logs, [file for file in files if file.path not in faults and file not in second])


def _is_uncounted(segment: Segment, counted: dict[str, int]) -> bool:
    return segment.number >= counted.get(segment.writer, 2**63)
