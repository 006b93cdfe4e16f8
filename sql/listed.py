"""A database over files that are listed one by one: a part of a store, or copies of it on another machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError, UsageError
from ..files import plain_name
from . import lockdown, verified, views
from .damage import SECOND_COPY, DamagedFile
from .format.filenames import STRANGER, SealedName, Segment
from .segments import SealedFile, TableSnapshot, damaged_file, outdated, second_copies, sound_rows, take_log
from .tables import LISTING

if TYPE_CHECKING:
    import duckdb

_THREADS = 4


def connect(
    files: Mapping[str, Iterable[Path]],
    *,
    threads: int | None = None,
    memory: str | None = None,
    scratch: Path | None = None,
) -> duckdb.DuckDBPyConnection:
    """Returns the same as Store.connect, over FILES alone: by table, sealed files and hot logs, in any folders, under
    the names that the store gave them. Nothing is written beside them. A missing or damaged file is left out and listed
    in the table damaged_files. THREADS and MEMORY ("1GB") limit DuckDB, which spills to a folder below SCRATCH (None:
    the current folder). Raises UsageError for files of no table, and MburstError for bins without a row of
    `recordings`, since none of their bursts would be found."""
    if unknown := sorted(set(files) - set(LISTING)):
        raise UsageError(f"unknown table {unknown[0]!r}", f"there are {', '.join(LISTING)}")
    found = {table: _contents(table, files.get(table, ())) for table in LISTING}
    settings = {
        "threads": None if threads is None else str(threads),
        "memory_limit": memory,
        "temp_directory": None if scratch is None else plain_name(scratch / lockdown.temporary()),
    }
    connection = views.over(
        found, lambda: found["bins"].files, {name: value for name, value in settings.items() if value is not None}
    )
    if not found["recordings"].damage:
        _check_recordings(connection)
    return connection


def _contents(table: str, paths: Iterable[Path]) -> TableSnapshot:
    """What can be read of the files of TABLE. Which of them count is decided as in a store (segments.py)."""
    found, logs, sealed = TableSnapshot(), [], []
    for path in dict.fromkeys(map(Path, paths)):
        segment = Segment.parse(path.stem) if path.suffix == ".log" else None
        name = SealedName.parse(path.name)
        if segment is not None:
            logs += _take_log(path, table, segment, found)
        elif name is not None:
            sealed.append(SealedFile(path, name))
        else:
            found.damage.append(DamagedFile(str(path), table, STRANGER))
    _take_sealed(sealed, logs, table, found)
    return found


def _take_log(path: Path, table: str, segment: Segment, found: TableSnapshot) -> list[str]:
    """Add a log to FOUND. Returns a list with the name of its segment, or an empty one if there is no such log."""
    try:
        take_log(path, table, segment, found)
        return [path.stem]
    except FileNotFoundError as error:
        found.damage.append(DamagedFile(str(path), table, str(error.strerror), "", segment.host, segment.start_ns))
        return []


def _take_sealed(files: list[SealedFile], logs: list[str], table: str, found: TableSnapshot) -> None:
    """Put those of FILES into FOUND that count beside the logs of the segments LOGS; remove the logs that do not
    count."""
    faults = _faults(table, files)
    named = {name: [file.path for file in files if file.name.segment.name == name] for name in logs}
    hidden = {*logs} - outdated(found.logs, {name: sound_rows(paths, faults) for name, paths in named.items()})
    found.logs = [log for log in found.logs if log.path.stem in hidden]
    counting = [file for file in files if file.name.segment.name not in hidden]
    copies = second_copies(counting, lambda _: faults)
    found.damage += [damaged_file(file, table, SECOND_COPY) for file in copies]
    for file in (file for file in counting if file not in copies):
        if file.path in faults:
            found.damage.append(damaged_file(file, table, faults[file.path]))
        else:
            found.files.append(file)


def _faults(table: str, files: list[SealedFile]) -> dict[Path, str]:
    """The files that do not hold what was written, with the reason."""
    with ThreadPoolExecutor(_THREADS) as pool:
        reasons = zip(files, pool.map(lambda file: verified.fault(file.path, table), files), strict=True)
        return {file.path: reason for file, reason in reasons if reason}


def _check_recordings(connection: duckdb.DuckDBPyConnection) -> None:
    """Raises MburstError for bins that have no row of `recordings`."""
    orphans = connection.execute(  # the text of the host is not read: that would take half of the time
        "SELECT recording_id FROM (SELECT DISTINCT recording_id FROM bins) "
        "WHERE recording_id NOT IN (SELECT recording_id FROM recordings) ORDER BY ALL"
    ).fetchall()
    if orphans:
        more = f" (and {len(orphans) - 1} more)" if len(orphans) > 1 else ""
        [(recording, host)] = connection.execute(
            "SELECT recording_id, min(host) FROM bins WHERE recording_id = $1 GROUP BY ALL", orphans[0]
        ).fetchall()
        raise MburstError(
            f"no row of `recordings` for the bins of recording {recording} of host {host}{more}",
            "name the files of table recordings that have it, of whatever date, too",
        )
