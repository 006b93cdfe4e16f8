"""Replaces sealed files by others in one step, while readers and writers work.

A replacement is a file `replaced/WRITER.json`, named after the writer of the new files. While it is prepared, it hides
every file of that writer; from the commit on (one rename of this file) it hides the replaced files instead. A process
that lists files reads it before and after, so that either the old files count or the new ones. The next process takes
back or completes what a killed process left.

A process that reads files for longer than it lists them (such as a database) holds `replaced/readers` locked (flock,
shared) until it is done. After a commit that file is put aside under another name, and a new one takes its place.
Replaced files are removed once nobody holds a file that was put aside, or after PATIENCE_S. So a reader never waits,
and a new reader never delays a removal.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EEXIST, ENOTEMPTY
from pathlib import Path

from .. import files
from . import disk
from .disk import failing_as_one_line
from .format.filenames import REPLACED, SealedName, new_writer, unfinished_segment
from .verified import LEDGER

READERS = "readers"
PATIENCE_S = 24 * 3600.0  # how long to wait for readers
UNKNOWN = f"{READERS}.unknown"  # stands for readers that began before they could register
LOOK_S = 0.05  # between two checks for readers
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Hidden:
    """Sealed files that do not count now: those of WRITERS, and the paths in PATHS, relative to the store. Two `state`
    are equal if nothing was replaced in between."""

    writers: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    state: tuple[object, ...] = ()

    def has(self, folder: str, name: SealedName) -> bool:
        """Whether the sealed file called NAME in FOLDER, relative to the store, does not count."""
        return name.segment.writer in self.writers or f"{folder}/{name.name}" in self.paths


_NOTHING = Hidden()


def hidden(store: Path) -> Hidden:
    """Returns the files that do not count now in the store at STORE. Raises OSError."""
    found = [(path, _read(path)) for path in _replacements(store)]
    found = [(path, replacement) for path, replacement in found if replacement.state]
    if not found:
        return _NOTHING
    writers = frozenset(path.stem for path, replacement in found if replacement.paths is None)
    paths = frozenset[str]().union(*(replacement.paths or () for _, replacement in found))
    return Hidden(writers, paths, tuple((path.name, replacement.state) for path, replacement in found))


def _replacements(store: Path) -> list[Path]:
    try:
        names = os.listdir(store / REPLACED)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [store / REPLACED / name for name in sorted(names) if name.endswith(".json") and not name.startswith(".")]


@dataclass(frozen=True)
class _Noted:
    """The content of the file of a replacement. `paths` are those that it replaces, None before its commit. `aside` is
    whether the readers of that time were put aside. `state` differs between any two contents; () if the file no longer
    exists."""

    paths: frozenset[str] | None = frozenset()
    aside: bool = False
    state: tuple[int, ...] = ()


def _read(path: Path) -> _Noted:
    """Read the file of a replacement. Raises OSError."""
    try:
        stat = os.lstat(path)
        return _content(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    except FileNotFoundError:
        return _Noted()  # the replacement has ended: the replaced files are gone


@functools.lru_cache(maxsize=64)
def _content(path: Path, state: tuple[int, ...]) -> _Noted:
    """Returns the content of the file at PATH, or of a later one that the next look will find to have another STATE. A
    file that does not hold what was written was not committed: a commit is the rename of a complete file. Raises
    OSError."""
    file = disk.open_regular(path)
    try:
        found = json.loads(disk.read_from(file, 0)[:_MOST_BYTES])
        replaced, aside = found["replaced"], found["aside"]
        return _Noted(None if replaced is None else frozenset(replaced), bool(aside), state)
    except (ValueError, KeyError, TypeError, RecursionError):
        return _Noted(None, False, state)
    finally:
        os.close(file)


# --- readers --------------------------------------------------------------------------------------------------------


def begin_reading(store: Path) -> int | None:
    """Returns a descriptor; until it is closed, files that are listed from now on stay where they are. None if this
    user cannot register as a reader: then a file can disappear before it is read, and the reader fails."""
    path = store / REPLACED / READERS
    while True:
        try:
            file = disk.open_regular(path)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH)  # nobody else ever locks a file with this name
            if os.lstat(path).st_ino == os.fstat(file).st_ino:
                return file
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                os.close(file)
                return None
        os.close(file)


def prepare(store: Path, is_new: bool = False) -> None:
    """Let readers register. Unless the store IS_NEW, some readers that could not register may be active. Raises
    OSError."""
    folder = store / REPLACED
    disk.make_folder(folder, store)
    if not (folder / READERS).exists():
        for name in [READERS] if is_new else [UNKNOWN, READERS]:
            with suppress(FileExistsError):
                os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


# --- replacing ------------------------------------------------------------------------------------------------------


class Replacement:
    """New files of `writer` in place of others. The caller holds the lock of compaction (compact.py)."""

    def __init__(self, store: Path) -> None:
        """Raises MburstError."""
        self.writer = new_writer()
        self._store = store
        self._path = store / REPLACED / f"{self.writer}.json"
        with failing_as_one_line(self._path, "write"):
            prepare(store)
            _write(self._path, None)

    def files(self) -> list[Path]:
        """The new files that have been written so far."""
        return [path for path in _files_of(self._store, self.writer) if SealedName.parse(path.name)]

    def commit(self, replaced: Iterable[Path]) -> None:
        """From here on the new files count and REPLACED do not. Raises MburstError; then nothing has changed."""
        names = [path.relative_to(self._store).as_posix() for path in replaced]
        with failing_as_one_line(self._path, "write"):
            _write(self._path, names)

    def take_back(self) -> None:
        """Remove the new files: nothing is replaced. Raises MburstError."""
        with failing_as_one_line(self._store, "remove"):
            _write(self._path, None)  # also if the commit failed after the rename: files must not count as they go
            _remove(_files_of(self._store, self.writer))
            self._path.unlink(missing_ok=True)


def _write(path: Path, replaced: Iterable[str] | None, aside: bool = False) -> None:
    """Write the note of a replacement, durably and atomically. Raises OSError."""
    listed = None if replaced is None else sorted(replaced)
    disk.write_durably(path, json.dumps({"aside": aside, "replaced": listed}) + "\n")


def _files_of(store: Path, writer: str) -> Iterator[Path]:
    """All sealed files of a writer, including drafts."""
    for path in store.glob(f"*/date=*/rack=*/*-{writer}-*"):
        name = SealedName.parse(path.name)
        if (name and name.segment.writer == writer) or unfinished_segment(path.name):
            yield path


def _remove(paths: Iterable[Path]) -> None:
    """Remove files durably, and folders that are empty afterwards. Raises OSError."""
    folders = set()
    for path in paths:
        path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in folders:
        with suppress(FileNotFoundError):
            disk.sync(folder)
            _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Remove the folder of a rack, and that of its date, if they are empty."""
    try:
        folder.rmdir()
        if os.listdir(folder.parent) == [LEDGER]:  # it is useless without files
            (folder.parent / LEDGER).unlink()
        folder.parent.rmdir()
    except OSError as error:
        if error.errno not in (ENOTEMPTY, EEXIST):
            raise


def finish(store: Path, wait_s: float = 0.0) -> int:
    """Take back what was never committed, and remove replaced files that nobody reads any more; waits up to WAIT_S for
    readers. Returns how many replaced files are still there. The caller holds the lock of compaction. Raises
    MburstError."""
    folder = store / REPLACED
    with failing_as_one_line(folder, "write"):
        done = _committed(store)
        if any(not noted.aside for noted in done.values()):
            _put_readers_aside(folder)
            for path, noted in done.items():
                _write(path, noted.paths, aside=True)
        deadline = time.monotonic() + wait_s
        while not (free := not done or _are_gone(folder)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        ended = [path for path in done if free or time.time() - path.stat().st_mtime > PATIENCE_S]
        for path in ended:
            _remove(store / name for name in done.pop(path).paths or ())
            path.unlink()
    return sum(len(noted.paths or ()) for noted in done.values())


def _committed(store: Path) -> dict[Path, _Noted]:
    """Returns the replacements that were committed; the others are taken back. Raises OSError."""
    done = {}
    for path in _replacements(store):
        noted = _read(path)
        if noted.paths is None:
            _remove(_files_of(store, path.stem))
            path.unlink(missing_ok=True)
        else:
            done[path] = noted
    return done


def _put_readers_aside(folder: Path) -> None:
    """Put the file of readers aside: readers that begin from now on do not hold what was listed before. Raises
    OSError."""
    os.link(folder / READERS, folder / f"{READERS}.{new_writer()}")
    disk.write_durably(folder / READERS, "", files.PUBLIC)


def _are_gone(folder: Path) -> bool:
    """Whether nobody holds a file of readers that was put aside; files that nobody holds are removed. Raises
    OSError."""
    gone = True
    for path in folder.glob(f"{READERS}.*"):
        if path.name == UNKNOWN and time.time() - path.stat().st_mtime < PATIENCE_S:
            gone = False
            continue
        try:
            file = disk.open_regular(path)
        except OSError as error:
            if error.errno == EACCES:
                gone = False
                continue
            raise
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            gone = False
        finally:
            os.close(file)
    return gone


@contextmanager
def exclusively(store: Path) -> Iterator[bool]:
    """Take the lock of compaction, which lasts for as long as its holder lives; yields whether it was free. Raises
    MburstError."""
    path = store / REPLACED / "compacting"
    with failing_as_one_line(path, "lock"):
        disk.make_folder(path.parent, store)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(file)
