"""Which sealed files are known to hold what was written.

The name of a sealed file contains the checksum of its content. Before a query reads a file, its content is compared
with the name, once: the ledger `TABLE/date=…/.verified` remembers file number, size and times of each verified file,
and a file that differs from its line is verified again. Each line has a checksum of its own; an incomplete line is
ignored, which costs no more than verifying again. The ledger is only appended to, by any number of readers and writers,
and begins again once it is larger than readers take.

Content that changes on the disk without a write to the file (rot) does not change the times of the file: `mburst check`
verifies all files.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import xxhash

from ..files import plain_name
from . import disk
from .format import placing
from .format.filenames import STRANGER, SealedName

LEDGER = ".verified"  # in the folder of a date
MOST_LEDGER = 1 << 26  # bytes: enough for some 200,000 files a day
_CHUNK = 1 << 18
_MAGIC = b"PAR1"
_THREADS = 4


def digest(path: Path) -> str:
    """The checksum of a file, as its name states it. Raises OSError, also if PATH is not a regular file."""
    descriptor = disk.open_regular(path)
    try:
        state, offset = xxhash.xxh3_64(), 0
        # One buffer for all, since new pages cost more than the checksum. It starts at the beginning of a page: a few
        # bytes after it, AMD's processors copy pages at a fourth of the speed.
        with mmap.mmap(-1, _CHUNK) as room, memoryview(room) as part:
            while size := os.preadv(descriptor, [part], offset):
                state.update(part[:size])
                offset += size
        return state.hexdigest()
    finally:
        os.close(descriptor)


def remember(path: Path) -> None:
    """Note that the file at PATH was verified in its present state. If that cannot be written, it is verified again."""
    with suppress(OSError):
        _append(_ledger(path), [_line(path, os.lstat(path))])


def forget(path: Path) -> None:
    """Have the file at PATH verified again before it is next read, although nobody wrote to it. Raises OSError."""
    os.utime(path, follow_symlinks=False)


def unverified(paths: Iterable[Path]) -> dict[Path, str]:
    """Verify those of PATHS that have changed since they were last verified. Returns the files that do not hold what
    was written, with the reason."""
    return _verify(_changed(paths))


def changed(paths: Iterable[Path]) -> list[Path]:
    """Those of PATHS that have changed since they were last verified."""
    return [path for path, _ in _changed(paths)]


def _changed(paths: Iterable[Path]) -> list[tuple[Path, bytes]]:
    """The same, each with the line to remember for it; without files that cannot be examined."""
    known: dict[Path, set[bytes]] = {}
    waiting: list[tuple[Path, bytes]] = []
    for path in paths:
        ledger = _ledger(path)
        if ledger not in known:
            known[ledger] = _read(ledger)
        with suppress(OSError):  # a file that cannot be examined cannot be opened either: that is reported then
            line = _line(path, os.lstat(path))
            if line in known[ledger]:
                continue
            waiting.append((path, line))
            continue
        waiting.append((path, b""))
    return waiting


def has_ends(path: Path) -> bool:
    """Whether the file at PATH begins and ends like a Parquet file; nothing else of it is read. Raises MburstError if
    this process cannot read it."""
    try:
        descriptor = disk.open_regular(path)
        try:
            end = max(0, os.fstat(descriptor).st_size - len(_MAGIC))
            return all(os.pread(descriptor, len(_MAGIC), at) == _MAGIC for at in (0, end))
        finally:
            os.close(descriptor)
    except OSError as error:
        disk.refuse_shortage(error, path)
        return False


def verify(paths: Iterable[Path]) -> dict[Path, str]:
    """Verify all of PATHS, whatever is remembered. Returns the files that do not hold what was written, with the
    reason."""
    waiting = []
    for path in paths:
        try:
            waiting.append((path, _line(path, os.lstat(path))))
        except OSError:
            waiting.append((path, b""))
    return _verify(waiting)


def _verify(waiting: list[tuple[Path, bytes]]) -> dict[Path, str]:
    """Returns the damaged files of WAITING (each with its line before it was read); sound ones are remembered."""
    from concurrent.futures import ThreadPoolExecutor

    damaged: dict[Path, str] = {}
    sound: dict[Path, list[bytes]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for (path, line), reason in zip(waiting, pool.map(fault, [path for path, _ in waiting]), strict=True):
            if reason:
                damaged[path] = reason
            elif line:
                sound.setdefault(_ledger(path), []).append(line)
    for ledger, lines in sound.items():
        with suppress(OSError):  # a store that is read-only: its files are verified each time
            _append(ledger, lines)
    return damaged


def fault(path: Path, table: str | None = None) -> str:
    """Why the file at PATH does not hold what was written, or not what its name and folder say; '' if it does. If TABLE
    is given, the file is of that table and in no store, and its folder is ignored. Raises MburstError if this process
    cannot read it."""
    import pyarrow
    import pyarrow.parquet as pq

    name = SealedName.parse(path.name)
    if name is None:
        return STRANGER
    try:
        if digest(path) != name.digest:
            return "the content does not match its checksum"
        if table is None:
            return placing.misplaced(path, name)
        with pq.ParquetFile(plain_name(path), pre_buffer=False) as content:
            return placing.misnamed(content, name, table)
    except OSError as error:
        disk.refuse_shortage(error, path)
        return error.strerror or str(error)
    except (pyarrow.ArrowException, ValueError) as error:  # sound bytes, but not rows of mburst
        disk.refuse_shortage(error, path)
        return (str(error).splitlines() or ["not a Parquet file"])[0]


def _ledger(path: Path) -> Path:
    """The ledger of a sealed file: in the folder of its date."""
    return path.parent.parent / LEDGER


def _line(path: Path, stat: os.stat_result) -> bytes:
    """The line that is remembered for a file that was verified in this state."""
    text = f"{path.parent.name}/{path.name}\t{stat.st_ino}\t{stat.st_size}\t{stat.st_mtime_ns}\t{stat.st_ctime_ns}"
    return f"{text}\t{xxhash.xxh3_64_hexdigest(text.encode())}".encode()


def _append(ledger: Path, lines: list[bytes]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if os.geteuid() or not os.stat(ledger.parent).st_uid:  # the owner of the folder could not write to root's ledger
        flags |= os.O_CREAT
    descriptor = os.open(ledger, flags, 0o640)
    try:
        if os.fstat(descriptor).st_size > MOST_LEDGER:  # nobody reads it any more
            os.ftruncate(descriptor, 0)
        os.write(descriptor, b"".join(b"\n" + line for line in lines))  # whatever is before it: a line is a line
    finally:
        os.close(descriptor)


def _read(ledger: Path) -> set[bytes]:
    """The lines of a ledger. The checksum of a line needs no check: it is part of what a line must equal."""
    try:
        descriptor = disk.open_regular(ledger)
    except OSError:
        return set()
    try:
        if not _is_trusted(os.fstat(descriptor), os.stat(ledger.parent)):
            return set()
        return set(disk.read_from(descriptor, 0).split(b"\n"))
    except OSError:
        return set()
    finally:
        os.close(descriptor)


def _is_trusted(ledger: os.stat_result, folder: os.stat_result) -> bool:
    """Whether this user may rely on a ledger instead of reading the files. Anybody can write that a file was verified,
    so the ledger must belong to root or, if this user is not root, to this user or the owner of the folder."""
    user = os.geteuid()
    return ledger.st_uid in ({0} if user == 0 else {0, user, folder.st_uid}) and ledger.st_size <= MOST_LEDGER
