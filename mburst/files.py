"""Safe files in folders that others may write to: names cannot be guessed, links are not followed, and files are always
complete.

A user who may write to a folder can put a link, a pipe or another file in the place of mburst's own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from . import temporary
from .errors import MburstError, UsageError

PRIVATE, GROUP, PUBLIC = 0o600, 0o640, 0o644  # modes of new files; the umask restricts them, except PUBLIC
LOCK_S, EVERY_S = 30.0, 0.05
GRACE_S = 60.0  # during which a draft without a lock may be of a writer that is about to lock it
_ADDRESS = re.compile(r"[^/]*://|[A-Za-z][A-Za-z0-9+.-]+:/")  # also with one slash, because pathlib removes the second
_DRAFT = re.compile(r"\..+\.[0-9a-f]{16}\.mburst", re.DOTALL)
_tidied: set[tuple[int, int]] = set()  # folders in which this process has removed what killed ones left
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Whether PATH is valid text. File names may be other bytes, which no database and no page can hold."""
    try:
        return os.fspath(path).encode() is not None
    except UnicodeEncodeError:
        return False


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether PATH looks like an address, such as s3://bucket. As a path it would be in a folder `s3:`, and libraries
    would take it for the address."""
    return bool(_ADDRESS.match(os.fspath(path)))


def plain_name(path: str | os.PathLike[str]) -> str:
    """Returns PATH in a form that libraries do not take for an address (`file:…`) or a home folder (`~…`)."""
    return os.path.join(os.curdir, path)


def check_local(path: str | os.PathLike[str]) -> None:
    """Raise UsageError if PATH is empty, which would be the current folder, or looks like an address."""
    if not os.fspath(path):
        raise UsageError("an empty name of a file or folder", "the current folder is `.`")
    if is_address(path):
        raise UsageError(
            f"{os.fspath(path)}: an address in place of a file or folder",
            "only what hosts ship, and the results of a fleet, can be in a bucket",
        )


def write(path: Path, text: str, what: str, hint: str, mode: int = GROUP) -> None:
    """Write a file completely or not at all, and create its folder if necessary. A link at PATH is replaced, not
    followed. Raises MburstError, which says that WHAT cannot be written, with HINT."""
    check_local(path)
    write_together(path.parent, {path.name: text}, what, hint, mode)


def write_together(path: Path, texts: Mapping[str, str], what: str, hint: str, mode: int = GROUP) -> None:
    """The same for several files in the folder PATH, by name: none appears before there is room for all of them. They
    appear in their order."""
    check_local(path)
    try:
        make_folder(path, mode)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            put_together(folder, {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}, mode)
        finally:
            os.close(folder)
    except OSError as error:
        raise MburstError(f"{path}: {what} cannot be written: {error.strerror}", hint) from error


def real(path: Path) -> Path:
    """Returns PATH without links; in a loop of links, which Path.resolve refuses, with those that remain."""
    return Path(os.path.realpath(path))


def make_folder(path: Path, mode: int = GROUP) -> None:
    """Create the folder PATH, and those above it that are missing, for files of MODE: with PUBLIC, everybody can read
    them, whatever the umask is. A folder that exists stays as it is. Raises OSError."""
    if mode != PUBLIC:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        return
    for missing in reversed([one for one in (path, *path.parents) if not one.exists()]):
        with suppress(FileExistsError):
            missing.mkdir(mode=0o700)
            made = os.open(missing, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                found = stat.S_IMODE(os.fstat(made).st_mode)
                if found & 0o755 != 0o755:  # else it is where modes are fixed, as on vfat, and cannot be set
                    os.fchmod(made, found & stat.S_ISGID | 0o755)
            finally:
                os.close(made)


def put(folder: int, name: str, content: bytes, mode: int) -> None:
    """Create or replace NAME in the open FOLDER, completely or not at all. Raises OSError."""
    put_together(folder, {name: content}, mode)


def put_together(folder: int, contents: Mapping[str, bytes], mode: int) -> None:
    """The same for several files: each is written before the first gets its name. Raises OSError."""
    with ExitStack() as drafts:
        for name, content in reversed(list(contents.items())):  # the last draft is the first to get its name
            stream = drafts.enter_context(_draft(folder, name, mode))
            stream.write(content)
            stream.flush()


@contextmanager
def writing(path: Path, what: str, hint: str, mode: int = GROUP) -> Iterator[BinaryIO]:
    """Yields a stream for a file that is too large for memory. The file appears at PATH only once all of it is written;
    a link there is replaced, not followed. Raises MburstError, which says that WHAT cannot be written, with HINT."""
    check_local(path)
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _draft(folder, path.name, mode) as stream:
                yield stream
        finally:
            os.close(folder)
    except OSError as error:
        raise MburstError(f"{path}: {what} cannot be written: {error.strerror}", hint) from error


@contextmanager
def _draft(folder: int, name: str, mode: int) -> Iterator[BinaryIO]:
    """Yields a stream whose content becomes NAME in the open FOLDER. It is written to a file with a random name first,
    so that NAME is always complete or absent. Raises OSError."""
    _refuse_special(folder, name)
    _tidy(folder)
    draft = f".{name[:100]}.{secrets.token_hex(8)}.mburst"
    kind = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = [os.dup(folder)]

    def remove() -> None:
        for again in opened:
            with suppress(OSError):
                os.unlink(draft, dir_fd=again)
        while opened:
            os.close(opened.pop())

    with temporary.removed(remove):
        file = os.open(draft, kind, mode, dir_fd=folder)
        with os.fdopen(file, "wb") as stream:
            if mode == PUBLIC:
                os.fchmod(file, mode)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def append(file: int, *pieces: bytes | memoryview) -> int:
    """Add all PIECES at the end of the open FILE, or, if that fails, nothing. Returns their size. Nobody else may write
    to the file meanwhile. Raises OSError."""
    size, before = sum(map(len, pieces)), os.lseek(file, 0, os.SEEK_END)
    try:
        written = os.writev(file, pieces)
        if written < size:  # the disk is full, or a limit was reached: the next write shows which
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                rest = rest[os.write(file, rest) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, before)
        raise
    return size


def _tidy(folder: int) -> None:
    """Remove the drafts that killed processes left in the open FOLDER; once for each folder."""
    facts = os.fstat(folder)
    if (place := (facts.st_dev, facts.st_ino)) in _tidied:
        return
    _tidied.add(place)
    with suppress(OSError):  # this user may not list it
        for name in filter(_DRAFT.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                remove_draft(name, folder)


def remove_draft(path: str | Path, folder: int | None = None) -> None:
    """Remove the draft at PATH, relative to an open FOLDER, unless its writer holds its lock. A young draft is not even
    locked here: its writer may be about to lock it, and does not wait. Raises OSError."""
    with suppress(FileNotFoundError):
        draft = os.open(path, _READING, dir_fd=folder)
        try:
            facts = os.fstat(draft)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            if time.time() - facts.st_mtime > GRACE_S:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path, dir_fd=folder)
        except BlockingIOError:
            return
        finally:
            os.close(draft)


def _refuse_special(folder: int, name: str) -> None:
    """Raise OSError if NAME in the open FOLDER is something that a file must not replace, such as /dev/null, or a link
    to that, such as /dev/stdout. Links to regular files and to nothing may be replaced."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            if os.readlink(name, dir_fd=folder).startswith("/proc/"):  # of a process: it may be a regular file just now
                raise OSError(errno.EEXIST, "what is there is a link to a file of a process")
            try:
                mode = os.stat(name, dir_fd=folder).st_mode
            except OSError:  # a link to itself, or to where this user may not look: to nothing here
                return
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(errno.EEXIST, "what is there is not a regular file")


def read_own(path: Path) -> bytes:
    """Returns the content of a regular file that this user owns and that is no link and has no other name. Raises
    MburstError."""
    return _read(path, _is_own, "not a regular file of this user")


def first_line(path: Path, most: int = 1 << 20) -> str:
    """Returns the first line of a regular file, up to MOST bytes. A link is refused. Raises MburstError."""
    return _read(path, lambda facts: True, "", most).partition(b"\n")[0].decode(errors="replace")


def read_text(path: Path, most: int = 1 << 20) -> tuple[str, os.stat_result]:
    """Returns the text in UTF-8 of a file that the user named, and its stat result. Links are followed. Anything but a
    regular file of at most MOST bytes is refused, without waiting for it. Raises OSError and UnicodeDecodeError."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as stream:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
    return content.decode("utf-8"), facts


def is_own(path: Path) -> bool:
    """Whether `read_own` would accept the file."""
    with suppress(OSError):
        return _is_own(path.lstat())
    return False


def _is_own(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_nlink == 1


def _read(path: Path, good: Callable[[os.stat_result], bool], why: str, most: int = -1) -> bytes:
    try:
        file = os.open(path, _READING)
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from error
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or not good(facts):
        os.close(file)
        raise MburstError(f"{path}: cannot read: {why or 'not a regular file'}")
    with os.fdopen(file, "rb") as stream:
        try:
            return stream.read(most)
        except OSError as error:
            raise MburstError(f"{path}: cannot read: {error.strerror}") from error


def open_private(path: Path, flags: int = 0) -> int:
    """Open a regular file of mode 0600 for reading and writing, create it if necessary, and return its descriptor.
    Raises MburstError."""
    kind = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        file = os.open(path, kind, PRIVATE)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
                raise MburstError(f"{path}: cannot open: not a regular file")
            if stat.S_IMODE(facts.st_mode) != PRIVATE and facts.st_uid == os.geteuid():
                os.fchmod(file, PRIVATE)
        except BaseException:
            os.close(file)
            raise
    except OSError as error:
        raise MburstError(f"{path}: cannot open: {error.strerror}") from error
    return file


def open_locked(path: Path, timeout_s: float = LOCK_S, flags: int = 0) -> int:
    """`open_private`, and lock the file, for one process at a time. If another process replaces or removes it
    meanwhile, the file that is then at PATH is opened. Raises MburstError, also if the lock is still held after
    TIMEOUT_S."""
    while True:
        file = open_private(path, flags)
        try:
            _lock(file, path, timeout_s)
            if _is_at(path, file):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(file: int, path: Path, timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise MburstError(
                    f"{path}: another process has held its lock for {timeout_s:g} s",
                    "end that process, or try again later",
                ) from None
        time.sleep(EVERY_S)


@contextmanager
def locked(folder: Path, timeout_s: float = LOCK_S) -> Iterator[None]:
    """Hold a lock on FOLDER, for one process at a time. The lock is a file `.lock` that only this user and root can
    open, and that exists only for this time. Raises MburstError."""
    path = folder / ".lock"
    file = open_locked(path, timeout_s)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.lstat(), os.fstat(file))
    return False
