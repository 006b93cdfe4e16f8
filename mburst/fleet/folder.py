"""A target that is a folder: an archive disk, or a mounted file system."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from .. import files, temporary
from ..sql import disk
from .target import FleetTarget, NoSuchObject, StoredObject, TargetError, content_of

PIECE = 1 << 20
STALE_S = 86_400.0  # age from which a draft was left by a killed process
_DRAFT = "#"  # prefix of drafts; no key contains it, because racks and hosts are percent-encoded there
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderTarget(FleetTarget):
    """Objects are files. A draft gets its final name, durably, once it is complete (link(2), which replaces
    nothing)."""

    def __init__(self, folder: Path) -> None:
        super().__init__(os.fspath(folder))
        self.folder = folder.absolute()
        self._tidied: set[Path] = set()

    def folders(self) -> Sequence[Path]:
        with _failing(self.name, "make"):
            disk.make_folder(self.folder, self.folder.parent)
        return (self.folder,)

    def put_new(self, key: str, data: bytes | Path) -> bool:
        content, path = content_of(data), self._path(key)
        draft = path.parent / f"{_DRAFT}{secrets.token_hex(8)}"
        with _failing(self.place(key), "write"):
            disk.make_folder(path.parent, self.folder.parent)
            self._tidy(path.parent)
            if os.path.lexists(path):
                return False
            try:
                with _removed(draft):
                    _write(draft, content)
                    os.link(draft, path)
            except FileExistsError:
                return False
            disk.sync(path.parent)
        return True

    def replace(self, key: str, content: bytes) -> None:
        path = self._path(key)
        draft = path.parent / f"{_DRAFT}{secrets.token_hex(8)}"
        with _failing(self.place(key), "write"):
            disk.make_folder(path.parent, self.folder.parent)
            self._tidy(path.parent)
            with _removed(draft):
                _write(draft, content)
                os.replace(draft, path)
            disk.sync(path.parent)

    def get(self, key: str) -> bytes:
        return b"".join(self.pieces(key))

    def pieces(self, key: str) -> Iterator[bytes]:
        with _failing(self.place(key), "read"):
            file = disk.open_regular(self._path(key))
            with os.fdopen(file, "rb") as stream:
                while piece := stream.read(PIECE):
                    yield piece

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        with _failing(self.place(prefix), "read"):
            top = self._path(prefix) if prefix else self.folder
            for path in _files(top):
                yield StoredObject(path.relative_to(self.folder).as_posix(), path.lstat().st_size)

    def holds(self, key: str, content: bytes) -> bool | None:
        at = 0
        try:
            for piece in self.pieces(key):
                if content[at : at + len(piece)] != piece:
                    return False
                at += len(piece)
        except NoSuchObject:
            return None
        return at == len(content)

    def _tidy(self, folder: Path) -> None:
        """Remove the drafts that killed processes left in a folder; once for each folder."""
        if folder in self._tidied:
            return
        self._tidied.add(folder)
        for entry in os.scandir(folder):
            with suppress(OSError):
                if entry.name.startswith(_DRAFT) and time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_S:
                    os.unlink(entry.path)

    def _path(self, key: str) -> Path:
        """Returns the path of an object. Raises TargetError for a key that leads out of the folder."""
        parts = key.rstrip("/").split("/")
        if any(part in ("", ".", "..") or part.startswith(_DRAFT) or "\0" in part for part in parts):
            raise TargetError(f"{self.name}: invalid key {key!r}")
        return self.folder.joinpath(*parts)


@contextmanager
def _failing(place: str, doing: str) -> Iterator[None]:
    """Convert an OSError in the context to TargetError "PLACE: cannot DOING: …"."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and doing == "read":
            raise NoSuchObject(f"{place}: no such object") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        is_gone = isinstance(error, FileNotFoundError)  # what is above it: a store is not at fault
        hint = "make the folder above it, or mount its disk" if is_gone else disk.hint(error.errno)
        raise TargetError(f"{place}: cannot {doing}: {reason}", hint) from error


def _removed(draft: Path) -> AbstractContextManager[None]:
    """Removes DRAFT at the end of the context if it is still there."""

    def remove() -> None:
        with suppress(OSError):
            draft.unlink()

    return temporary.removed(remove)


def _write(draft: Path, content: bytes) -> None:
    """Write a new file durably. Raises OSError."""
    file = os.open(draft, _NEW, 0o640)
    try:
        files.append(file, content)
        os.fsync(file)
    finally:
        os.close(file)


def _files(folder: Path) -> Iterator[Path]:
    """Yields the files below FOLDER except drafts, sorted by their paths as text; none if the folder does not exist."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name + "/" * entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(_DRAFT):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
