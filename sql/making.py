"""Makes a store for a command, and removes it again if the command fails before anything is stored.

A process that may make a store holds its marker locked (flock, shared) for as long as the command runs, so that nobody
removes a store that another process has begun to use. The store is removed under the exclusive lock: first its content,
which has no row, then the marker, then the folders that were made. A process that waited for the lock of a marker that
is gone creates the store again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from . import disk
from .format.filenames import REPLACED
from .replacing import READERS

_READERS = f"{REPLACED}/{READERS}"


def missing(folder: Path) -> list[Path]:
    """FOLDER and its parents that have to be made for it, the innermost first."""
    found = []
    for path in (folder, *folder.parents):
        if os.path.lexists(path):
            break
        found.append(path)
    return found


def use(marker: Path) -> int | None:
    """Returns a descriptor; until it is closed, the store with that MARKER is in use. None if the store was just
    removed. Raises OSError."""
    try:
        file = disk.open_regular(marker)
    except FileNotFoundError:
        return None
    try:
        with suppress(OSError):  # the file system has no locks: then nothing is removed
            fcntl.flock(file, fcntl.LOCK_SH)
        if _is_of(marker, file):
            return file
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def _is_of(marker: Path, file: int) -> bool:
    """Whether FILE is the open MARKER. Raises OSError."""
    return os.path.samestat(os.lstat(marker), os.fstat(file))


def remove(marker: Path, used: int | None, made: list[Path]) -> None:
    """Remove the store with that MARKER, and the folders MADE for it, unless it contains more than every store does, is
    in use by anyone other than the owner of the descriptor USED, or was replaced by another store. If USED is None, the
    store could not be made. Raises OSError."""
    store, text = marker.parent, ""
    if used is not None:
        try:
            fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not _is_of(marker, used):
            return
        found = list(_below(store))
        if {path.relative_to(store).as_posix() for path in found if not _is_folder(path)} - {marker.name, _READERS}:
            return
        for path in reversed(found):
            if path != marker:
                path.rmdir() if _is_folder(path) else path.unlink()
        text = marker.read_text()
        marker.unlink()
    for folder in made:
        try:
            folder.rmdir()
        except OSError:  # this process has no permission, or another has put something there
            if folder == store and text:
                disk.write_durably(marker, text)
            return


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _below(folder: Path) -> Iterator[Path]:
    """All that is in FOLDER, each folder before its content. Raises OSError."""
    for path in sorted(folder.iterdir()):
        yield path
        if _is_folder(path):
            yield from _below(path)
