"""Reads every file of a store again, whatever is remembered of it. Reports damage, and anything else that is there."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import MburstError
from ...process import interrupting
from .. import aside, disk, replacing, verified
from ..damage import SECOND_COPY, DamagedFile
from ..disk import failing_as_one_line
from ..format.filenames import ASIDE, HOT, PACKETS, REPLACED, SHIPPED, Segment
from ..format.hotlog import LogReader, is_regular, read_log
from ..segments import (
    FileSelection,
    Listing,
    SealedFile,
    damage_of_log,
    damaged_file,
    list_hot,
    list_sealed,
    log_of_other_table,
    sealed_rows,
    second_copies,
)
from ..store import MARKER, format_of
from ..tables import ORDER, STORE_FORMAT

NO_ROWS = (ASIDE, PACKETS, REPLACED, SHIPPED, "locks")  # folders of a store that no rows are read from
_FRESH_S = 60.0  # a younger file without its name may be about to get it


@dataclass(frozen=True)
class Remark:
    """A file that nobody reads, and why: no row is missing because of it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} (harmless)"


@dataclass
class Findings:
    """What was found in a store. `mismatches` are sentences about sums that do not agree. `missing` is what was set
    aside before."""

    store: Path
    damaged: list[DamagedFile] = field(default_factory=list)
    missing: list[DamagedFile] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    recordings_compared: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether every existing file holds what was written, and all compared sums agree."""
        return not self.damaged and not self.mismatches

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst check --json` prints."""
        return {
            "store": str(self.store),
            "sound": self.is_sound,
            "damaged_files": [file.facts() for file in self.damaged],
            "missing": [file.facts() for file in self.missing],
            "mismatches": self.mismatches,
            "remarks": [asdict(remark) for remark in self.remarks],
            "files": self.files,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "recordings_compared": self.recordings_compared,
        }


@dataclass(frozen=True)
class _Task:
    """A file to read, and its size."""

    size: int
    read: Callable[[], DamagedFile | Remark | None]


def check(store: Path, progress: Callable[[Findings, int], None] | None = None) -> Findings:
    """Read all of the store at STORE. PROGRESS is called after each file with the findings so far and the total number
    of bytes. Raises MburstError if there is no store of this format, or folders cannot be listed."""
    started = time.monotonic()
    found = Findings(store)
    with failing_as_one_line(store, "read"):
        _check_marker(store, found)
        tasks = list(_tasks(store, found))
        found.missing = [file for of in aside.missing_files(store, lambda _: FileSelection()).values() for file in of]
        total = sum(task.size for task in tasks)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            running = {pool.submit(task.read): task for task in tasks}
            for done in interrupting.completed(running):
                _note(found, done.result())
                found.files += 1
                found.bytes += running[done].size
                found.seconds = time.monotonic() - started
                if progress:
                    progress(found, total)
    found.damaged.sort(key=lambda damage: damage.path)
    found.remarks.sort(key=lambda remark: remark.path)
    found.seconds = time.monotonic() - started
    return found


def _note(found: Findings, what: DamagedFile | Remark | None) -> None:
    if isinstance(what, DamagedFile):
        found.damaged.append(what)
    elif what is not None:
        found.remarks.append(what)


def _check_marker(store: Path, found: Findings) -> None:
    """Raises MburstError if STORE is not a store of this format. A damaged marker in a folder with files of a store is
    damage."""
    try:
        version = format_of(store)
    except MburstError as error:
        if not os.path.lexists(store / MARKER) or not looks_like_store(store):
            raise
        found.damaged.append(DamagedFile(str(store / MARKER), "all tables", str(error).split(": ", 1)[1]))
        return
    if version != STORE_FORMAT:
        from ..store import StoreFolder

        StoreFolder.open(store)  # its error says what to do


def looks_like_store(store: Path) -> bool:
    """Whether the folder has files of format 2, whatever its marker says."""
    return any(list_hot(store, table).logs or list_sealed(store, table, FileSelection()).files for table in ORDER)


def _tasks(store: Path, found: Findings) -> Iterator[_Task]:
    """The files to read, table by table. What names alone show goes into FOUND."""
    known = {store / MARKER, *(store / path for path in replacing.hidden(store).paths)}
    for table in ORDER:
        hot, sealed = list_hot(store, table), list_sealed(store, table, FileSelection())
        second = _doubled(sealed, hot)
        found.damaged += [*hot.damage, *sealed.damage, *(damaged_file(file, table, SECOND_COPY) for file in second)]
        for path in [*hot.unfinished, *sealed.unfinished]:
            _note(found, _leftover(path, hot))
        for path, segment in hot.logs.items():
            yield _Task(_size(path), _reader_of_log(path, table, segment))
        for file in (file for file in sealed.files if file not in second):
            yield _Task(_size(file.path), _reader_of_sealed(file, table, hot))
        known |= {*hot.logs, *hot.unfinished, *(Path(damage.path) for damage in [*hot.damage, *sealed.damage])}
        known |= {*(file.path for file in sealed.files), *sealed.unfinished}
    found.remarks += _foreign(store, known)


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


# --- hot logs -------------------------------------------------------------------------------------------------------


def _reader_of_log(path: Path, table: str, segment: Segment) -> Callable[[], DamagedFile | Remark | None]:
    return lambda: check_log(path, table, segment)


def check_log(path: Path, table: str, segment: Segment) -> DamagedFile | Remark | None:
    """Read a hot log to its end. Returns what is wrong with it; None also if it was sealed in the meantime."""
    try:
        reader = LogReader(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return DamagedFile(str(path), table, error.strerror or str(error), "", segment.host, segment.start_ns)
    try:
        log = reader.read()
        if reader.is_gone():
            return None
    except OSError as error:
        return DamagedFile(str(path), table, error.strerror or str(error), "", segment.host, segment.start_ns)
    finally:
        reader.close()
    for damage in damage_of_log(log, table):
        return damage
    if log.about and log.about.table != table:
        return log_of_other_table(log)
    if sealed_rows(path.parents[2], table, path.stem, log.rack) > log.count:
        return Remark(str(path), "an older copy of what is sealed")
    if log.scan.torn_bytes and not is_held(path):
        return Remark(str(path), f"the last {log.scan.torn_bytes:,} bytes are an incomplete batch of a killed writer")
    return None


def is_held(path: Path) -> bool:
    """Whether the writer of the hot log at PATH lives, or another process is sealing it."""
    try:
        descriptor = disk.open_regular(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _leftover(path: Path, hot: Listing) -> Remark | None:
    """A file that has not got its name yet: of a writer that lives, or that was killed."""
    age_s = time.time() - os.lstat(path).st_mtime if os.path.lexists(path) else 0.0
    writing = any(path.name.startswith(f"{log.stem}.") and is_held(log) for log in hot.logs)
    return None if writing or age_s < _FRESH_S else Remark(str(path), "left behind by a writer that was killed")


# --- sealed files ---------------------------------------------------------------------------------------------------


def _reader_of_sealed(file: SealedFile, table: str, hot: Listing) -> Callable[[], DamagedFile | Remark | None]:
    return lambda: _check_sealed(file, table, hot)


def _check_sealed(file: SealedFile, table: str, hot: Listing) -> DamagedFile | Remark | None:
    """Compare a sealed file with its name and its folders."""
    reason = verified.fault(file.path)
    if not reason or not os.path.lexists(file.path):
        return None
    if any(log.stem == file.name.segment.name and not _is_outdated(log, table) for log in hot.logs):
        return Remark(str(file.path), f"{reason}; its rows are still in the hot log")
    with suppress(OSError):  # known from now on to readers, although nobody has written to it
        verified.forget(file.path)
    return damaged_file(file, table, reason)


def _is_outdated(log: Path, table: str) -> bool:
    """Whether the hot log has fewer rows than are sealed of its segment, so that it does not count."""
    try:
        read = read_log(log)
    except OSError:
        return False
    return sealed_rows(log.parents[2], table, log.stem, read.rack) > read.count


def _doubled(sealed: Listing, hot: Listing) -> list[SealedFile]:
    """Second copies of sealed files that count, whatever is remembered of these."""
    hidden = {log.stem for log in hot.logs}
    return second_copies([file for file in sealed.files if file.name.segment.name not in hidden], _forgotten)


def _forgotten(paths: list[Path]) -> dict[Path, str]:
    """The files among PATHS that do not hold what was written. Readers know them from now on."""
    faults = verified.verify(paths)
    for path in faults:
        with suppress(OSError):
            verified.forget(path)
    return faults


# --- what else is there ---------------------------------------------------------------------------------------------


def _foreign(store: Path, known: set[Path]) -> Iterator[Remark]:
    """Files that mburst did not make, or did not finish, by their names."""
    folders = [store, store / HOT, *(store / HOT / table for table in ORDER)]
    for table in ORDER:
        dates = [path for path in _children(store / table) if _is_folder(path, "date=")]
        folders += [store / table, *dates]
        folders += [path for date in dates for path in _children(date) if _is_folder(path, "rack=")]
    expected = {*folders, *known, *(store / name for name in NO_ROWS)}
    for folder in folders:
        for path in _children(folder):
            if path in expected or (path.name == verified.LEDGER and is_regular(path)):
                continue
            draft = folder == store and path.name.startswith(f".{MARKER}.")
            yield Remark(str(path), "left behind by a writer that was killed" if draft else "not a file of mburst")


def _is_folder(path: Path, prefix: str) -> bool:
    return path.name.startswith(prefix) and path.is_dir() and not path.is_symlink()


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir()) if not folder.is_symlink() else []
    except (FileNotFoundError, NotADirectoryError):
        return []
