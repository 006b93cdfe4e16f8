"""Files and folders: durable writes, safe opening, and their errors in one line."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, EINVAL, EMFILE, ENAMETOOLONG, ENOENT, ENOSPC, EPERM, EROFS
from pathlib import Path

from .. import files
from ..errors import MORE_FILES, MburstError
from ..process import shortage

SYNC_S = 1.0  # how much of a hot log the death of the machine may cost
EVERY_S = SYNC_S / 4  # a sync may take half of SYNC_S before more is at risk
SPELL_S = 60.0

_HINTS = {
    ENOSPC: "free some space and try again",
    EDQUOT: "free some space and try again",
    EACCES: "check the permissions",
    EPERM: "check the permissions",
    EROFS: "the file system is mounted read-only",
    ENOENT: "the store may have been moved or removed",
    EMFILE: MORE_FILES,
    ENAMETOOLONG: "choose a shorter name for host or rack",
}


def hint(number: int | None) -> str:
    """The remedy for a failure with that errno; '' if none is known."""
    return _HINTS.get(number or 0, "")


def refuse_shortage(error: BaseException, path: Path) -> None:
    """Raises MburstError if the file at PATH is not the cause of ERROR: it is neither damaged nor gone."""
    shortage.refuse(error, f"{path}: cannot read")


@contextmanager
def failing_as_one_line(path: Path, doing: str) -> Iterator[None]:
    """Turns an OSError inside into MburstError "PATH: cannot DOING: …"."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise MburstError(f"{path}: cannot {doing}: {reason}", hint(error.errno)) from error


def sync(path: Path) -> None:
    """fsync of a file or folder. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, inside: Path | None = None) -> None:
    """Make FOLDER and its missing parents durably. INSIDE, one of its parents, is not made. Raises OSError."""
    if folder.is_dir():
        return
    if folder == inside:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(folder))
    make_folder(folder.parent, inside)
    try:
        folder.mkdir(mode=0o750)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    sync(folder.parent)


def write_durably(path: Path, text: str, mode: int = files.GROUP) -> None:
    """Make or replace the file at PATH, so that it is complete or absent whatever happens. Raises OSError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.put(folder, path.name, text.encode(), mode)
    finally:
        os.close(folder)


def open_regular(path: Path) -> int:
    """Returns a descriptor for reading the file at PATH. Never waits for a fifo, and follows no link at the end of
    PATH. Raises OSError, with EINVAL if it is not a regular file, and MburstError if this process cannot open more
    files, which is no fault of this one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        refuse_shortage(error, path)
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, "not a regular file", str(path))
    return descriptor


def read_from(descriptor: int, offset: int) -> bytes:
    """Returns the content of the file from OFFSET on. Raises OSError."""
    parts = []
    while part := os.pread(descriptor, 1 << 26, offset):
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Syncing:
    """A file that a thread of its own syncs to disk, so that it waits for no other file. A write that was reported with
    `dirty` is on the disk within SYNC_S, or the delay is reported."""

    def __init__(self, descriptor: int, syncer: Syncer, on_late: Callable[[float], None]) -> None:
        self._descriptor = descriptor
        self._syncer = syncer
        self._on_late = on_late
        self._dirty_since: float | None = None  # monotonic time of the oldest write that no sync has begun to write
        self._writing_since: float | None = None  # monotonic time of the oldest write that a sync is writing
        self._failure: OSError | None = None
        self._lock = threading.Lock()  # the descriptor is not closed while it is synced
        self._due = threading.Event()
        self._stopped = False
        threading.Thread(target=self._run, name="mburst-sync", daemon=True).start()

    def dirty(self, since: float) -> None:
        """Something was written, from SINCE on (monotonic seconds)."""
        if self._dirty_since is None:
            self._dirty_since = since

    def raise_failure(self) -> None:
        """Raises the OSError with which an earlier sync failed: rows may be missing after the machine's death."""
        if self._failure:
            raise self._failure

    def at_risk_s(self) -> float:
        """For how long the oldest write has been at risk of not being on the disk."""
        since = [at for at in (self._writing_since, self._dirty_since) if at is not None]
        return time.monotonic() - min(since) if since else 0.0

    def sync(self) -> None:
        """Write to disk what is dirty. A failure is kept."""
        with self._lock:
            if self._dirty_since is None or self._failure:
                return
            self._writing_since, self._dirty_since = self._dirty_since, None
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self._failure = error
            late_s = time.monotonic() - self._writing_since
            self._writing_since = None
        self._syncer.wrote(self, late_s)

    def report(self, late_s: float) -> None:
        """Report that rows were at risk for LATE_S."""
        self._on_late(late_s)

    def begin(self) -> None:
        """Have the thread write what is dirty, unless it is already writing."""
        if self._dirty_since is not None:
            self._due.set()

    def _run(self) -> None:
        while not self._stopped:
            self._due.wait()
            self._due.clear()
            self.sync()

    def stop(self) -> None:
        """End the syncing: the descriptor may be closed once this has returned."""
        self._syncer.forget(self)
        with self._lock:
            self._dirty_since = None
            self._stopped = True
        self._due.set()


class Syncer:
    """A thread that has dirty files synced every EVERY_S, and reports when rows are at risk for longer than SYNC_S: at
    once, again when the time has doubled, and in the end with the total time. Files that are late at the same time
    belong to one spell, which ends when nothing was late for SPELL_S."""

    _shared: Syncer | None = None
    _shared_lock = threading.Lock()

    def __init__(self) -> None:
        self._watched: list[Syncing] = []
        self._process = os.getpid()
        self._reported_s = self._late_at = 0.0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="mburst-sync", daemon=True).start()

    @classmethod
    def shared(cls) -> Syncer:
        """The syncer of this process."""
        with cls._shared_lock:
            if cls._shared is None or cls._shared._process != os.getpid():
                cls._shared = cls()
            return cls._shared

    def watch(self, descriptor: int, on_late: Callable[[float], None]) -> Syncing:
        """Have the file synced from now on. ON_LATE is called in another thread with the number of seconds for which
        rows were at risk, if that is more than SYNC_S."""
        syncing = Syncing(descriptor, self, on_late)
        self._watched.append(syncing)
        return syncing

    def forget(self, syncing: Syncing) -> None:
        """Stop syncing the file."""
        if syncing in self._watched:
            self._watched.remove(syncing)

    def wrote(self, syncing: Syncing, late_s: float) -> None:
        """Note that rows that are now on the disk were at risk for LATE_S."""
        if late_s > SYNC_S:
            self._say(syncing, late_s, late_s)

    def _say(self, syncing: Syncing, late_s: float, least_s: float) -> None:
        """Report LATE_S if LEAST_S is more than was reported in this spell."""
        with self._lock:
            now = time.monotonic()
            if now - self._late_at > SPELL_S:
                self._reported_s = 0.0
            self._late_at = now
            if least_s <= self._reported_s:
                return
            self._reported_s = late_s
        syncing.report(late_s)

    def _run(self) -> None:
        while True:
            time.sleep(EVERY_S)
            for syncing in list(self._watched):
                syncing.begin()
                late_s = syncing.at_risk_s()
                if late_s > SYNC_S:
                    self._say(syncing, late_s, late_s / 2)
