"""Replacing sealed files by others in one step, beside readers and writers.

A replacement is a file `replaced/WRITER.json`, named after the writer of the new files. While it is prepared, it hides
every file of that writer; from the commit on (one rename of this file) it hides the files that are replaced instead.
Who lists files reads it before and after, so that either the old files count or the new ones. What a killed process
left is taken back or ended by the next one.

Who reads files for longer than it lists them (a database does) holds `replaced/readers` locked (flock, shared) until it
is done. After a commit that file is put aside under another name, and a new one takes its place: replaced files are
removed once nobody holds one that was put aside, or after PATIENCE_S. So a reader never waits, and a new one never
delays a removal.
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

from . import disk
from .disk import failing_as_one_line
from .format.filenames import REPLACED, SealedName, new_writer, unfinished_segment

LEDGER = ".verified"  # of a date's folder (verified.py): it is of no use without files
READERS = "readers"
PATIENCE_S = 24 * 3600.0  # for readers
UNKNOWN = f"{READERS}.unknown"  # stands for those that began before they could say so
LOOK_S = 0.05  # between two looks for them
_MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Hidden:
    """Sealed files that do not count now: those of WRITERS, and the paths in PATHS, relative to the store. `state` is
    equal where nothing was replaced in between."""

    writers: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    state: tuple[object, ...] = ()

    def has(self, folder: str, name: SealedName) -> bool:
        """Whether the sealed file called NAME in FOLDER, relative to the store, does not count."""
        return name.segment.writer in self.writers or f"{folder}/{name.name}" in self.paths


_NOTHING = Hidden()


def hidden(store: Path) -> Hidden:
    """What does not count in the store at STORE now. Raises OSError."""
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
    """What the file of a replacement says. `paths` that it replaces: None before its commit. `aside`: whether the
    readers of that time were put aside. `state` differs between two contents; () where there is no file any more."""

    paths: frozenset[str] | None = frozenset()
    aside: bool = False
    state: tuple[int, ...] = ()


def _read(path: Path) -> _Noted:
    """Raises OSError."""
    try:
        stat = os.lstat(path)
        return _content(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    except FileNotFoundError:
        return _Noted()  # its end: the replaced files are gone


@functools.lru_cache(maxsize=64)
def _content(path: Path, state: tuple[int, ...]) -> _Noted:
    """Of the file at PATH, or of a later one, whose STATE the next look will find to be another. One that is not what
    was written was not committed: a commit is the rename of a whole file. Raises OSError."""
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
    """A descriptor; until it is closed, files that are listed from now on stay where they are. None where this user may
    not say that it reads: then a file can be gone when it is read, and the reader fails."""
    path = store / REPLACED / READERS
    while True:
        try:
            file = disk.open_regular(path)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH)  # nobody else ever locks one that has this name
            if os.lstat(path).st_ino == os.fstat(file).st_ino:
                return file
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                os.close(file)
                return None
        os.close(file)


def prepare(store: Path, is_new: bool = False) -> None:
    """Let readers say that they read. Unless the store IS_NEW, some that could not may be at it. Raises OSError."""
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
        """The new files that are written by now."""
        return [path for path in _files_of(self._store, self.writer) if SealedName.parse(path.name)]

    def commit(self, replaced: Iterable[Path]) -> None:
        """From here on the new files count and REPLACED do not. Raises MburstError; then nothing has changed."""
        names = [path.relative_to(self._store).as_posix() for path in replaced]
        with failing_as_one_line(self._path, "write"):
            _write(self._path, names)

    def take_back(self) -> None:
        """Remove the new files: nothing is replaced. Raises MburstError."""
        with failing_as_one_line(self._store, "remove"):
            _write(self._path, None)  # also where the commit was made before it failed: they must not count as they go
            _remove(_files_of(self._store, self.writer))
            self._path.unlink(missing_ok=True)


def _write(path: Path, replaced: Iterable[str] | None, aside: bool = False) -> None:
    """Note it, durably and at once. Raises OSError."""
    listed = None if replaced is None else sorted(replaced)
    disk.write_durably(path, json.dumps({"aside": aside, "replaced": listed}) + "\n")


def _files_of(store: Path, writer: str) -> Iterator[Path]:
    """All sealed files of a writer, with drafts."""
    for path in store.glob(f"*/date=*/rack=*/*-{writer}-*"):
        name = SealedName.parse(path.name)
        if (name and name.segment.writer == writer) or unfinished_segment(path.name):
            yield path


def _remove(paths: Iterable[Path]) -> None:
    """Remove files, durably, and folders that have none left. Raises OSError."""
    folders = set()
    for path in paths:
        path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in folders:
        with suppress(FileNotFoundError):
            disk.sync(folder)
            _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Remove the folder of a rack, and that of its date, where nothing is in it."""
    try:
        folder.rmdir()
        if os.listdir(folder.parent) == [LEDGER]:
            (folder.parent / LEDGER).unlink()
        folder.parent.rmdir()
    except OSError as error:
        if error.errno not in (ENOTEMPTY, EEXIST):
            raise


def finish(store: Path, wait_s: float = 0.0) -> int:
    """Take back what was never committed, and remove what was replaced and nobody reads any more; waits for readers
    for WAIT_S. How many replaced files are still there. The caller holds the lock of compaction. Raises MburstError."""
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
    """The replacements that were committed; the others are taken back. Raises OSError."""
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
    """Who begins to read from now on does not hold what was listed before. Raises OSError."""
    aside, new = folder / f"{READERS}.{new_writer()}", folder / f".{READERS}.{new_writer()}"
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    os.link(folder / READERS, aside)
    os.rename(new, folder / READERS)


def _are_gone(folder: Path) -> bool:
    """Whether nobody holds what was put aside; what nobody holds is removed. Raises OSError."""
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
    """The lock of compaction, which lasts as long as its holder lives; whether it was free. Raises MburstError."""
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
