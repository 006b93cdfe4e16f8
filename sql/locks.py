"""Locks that writers of a store hold by name: STORE/locks/NAME, locked (flock) as long as its holder lives. Those of
recorders are named by 12 hexadecimal digits.

The kernel releases a lock when its holder dies. The file then stays and shows which work was interrupted: the next
process that takes the lock finds the note in it, does the remaining work, and removes the file. The file is removed
only under the lock, so a lock is valid while its file has its name.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from typing import Any

from .. import files
from . import disk
from .disk import failing_as_one_line

FOLDER = "locks"
_REASON = 512  # bytes of the first line, which is overwritten in place: that needs no space on a full disk
_LONGEST = 1 << 20
_LOOK_S = 1.0  # a look at a lock takes µs: who looks for longer was stopped
_NAME = re.compile(r"[0-9a-f]{12}")


class Lock:
    """A lock that this process holds. `note` is the note that a former holder left, {} if it ended normally."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file
        self.note = _parse(disk.read_from(file, 0))
        self.is_begun = False  # whether the work of the lock has begun and is not yet done

    def begin(self, note: dict[str, Any]) -> None:
        """State durably which work has begun, in case it is interrupted. Raises MburstError."""
        lines = json.dumps({"pid": os.getpid(), "reason": ""}).ljust(_REASON - 1) + "\n" + json.dumps(note) + "\n"
        with failing_as_one_line(self.path, "write"):
            os.ftruncate(self._file, 0)
            files.append(self._file, lines.encode())
            os.fsync(self._file)
            disk.sync(self.path.parent)
        self.is_begun = True

    def give_reason(self, reason: str) -> None:
        """State the reason of an interruption. Raises OSError."""
        line = json.dumps({"pid": os.getpid(), "reason": reason[:60]}).ljust(_REASON - 1) + "\n"
        os.pwrite(self._file, line.encode(), 0)

    def end(self) -> None:
        """The work is done: remove the file and release the lock."""
        try:
            self.path.unlink(missing_ok=True)
        finally:
            os.close(self._file)

    def leave(self) -> None:
        """Release the lock and leave the file: another process has to finish the work."""
        os.close(self._file)


def acquire(store: Path, name: str, make: bool = True) -> Lock | None:
    """Take the lock called NAME. Returns None if another process, or another holder in this one, has it, or, unless
    MAKE, if it does not exist. Raises MburstError."""
    path = store / FOLDER / name
    with failing_as_one_line(path, "lock"):
        disk.make_folder(path.parent)
        try:
            return _acquire(path, os.O_CREAT if make else 0)
        except BaseException:  # such as KeyboardInterrupt
            with suppress(OSError):
                if make and (unused := _acquire(path, 0)):
                    (unused.leave if unused.note else unused.end)()
            raise


def _acquire(path: Path, flags: int) -> Lock | None:
    while True:
        try:
            file = _open(path, flags)
        except FileNotFoundError:
            return None
        try:
            is_taken = _take(file)
            if is_taken and os.stat(path, follow_symlinks=False).st_ino == os.fstat(file).st_ino:
                return Lock(path, file)
        except FileNotFoundError:
            is_taken = True  # its holder has just removed it
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        if not is_taken:
            return None


def names(store: Path) -> list[str]:
    """The locks of recorders that are held or were left."""
    try:
        return sorted(name for name in os.listdir(store / FOLDER) if _NAME.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def holder(store: Path, name: str) -> int | None:
    """The process that has the lock called NAME; None if that is not known."""
    try:
        file = disk.open_regular(store / FOLDER / name)
    except OSError:
        return None
    try:
        pid = _parse(disk.read_from(file, 0)).get("pid")
        return pid if type(pid) is int else None
    finally:
        os.close(file)


def held_notes(store: Path) -> Iterator[dict[str, Any]]:
    """Yields the notes with rows of recorders that live. A lock without such a note is not touched. `acquire` waits
    until a look has ended."""
    for name in names(store):
        with suppress(OSError):
            file = disk.open_regular(store / FOLDER / name)
            try:
                note = _parse(disk.read_from(file, 0))
                if note.get("rows") and not _can_share(file):
                    yield note
            finally:
                os.close(file)


def _take(file: int) -> bool:
    """Takes the lock of an open file, and returns whether it could. Those who only look share it for a moment, which
    says nothing of a holder: if it can be shared, it is free soon."""
    deadline = time.monotonic() + _LOOK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not _can_share(file) or time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        else:
            return True


def _can_share(file: int) -> bool:
    """Returns whether nobody holds the lock of an open file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def _open(path: Path, flags: int) -> int:
    """Returns a descriptor of the file at PATH. Raises OSError, with EINVAL if it is not a regular file."""
    file = os.open(path, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(EINVAL, "not a regular file", str(path))
    return file


def _parse(text: bytes) -> dict[str, Any]:
    """The content of the two lines; {} if they are not complete."""
    found: dict[str, Any] = {}
    try:
        for line in text[:_LONGEST].splitlines()[:2]:
            found |= json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found
