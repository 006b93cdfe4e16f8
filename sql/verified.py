"""Which sealed files are known to hold what was written.

A sealed file's name has the checksum of its content. Before a query reads a file, its content is held against the name,
once: the ledger `TABLE/date=…/.verified` remembers file number, size and times of what was verified, and a file that
differs from its line is verified again. A line has a checksum of its own; what is no whole line is passed over, and
costs no more than verifying again. The ledger is only appended to, by any number of readers and writers.

What changes on the disk without anybody writing to the file (rot) does not change its times: `mburst check` verifies
all.
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

LEDGER = ".verified"
MOST_LEDGER = 1 << 26  # bytes: of some 200,000 files a day
_CHUNK = 1 << 18
_MAGIC = b"PAR1"
_THREADS = 4


def digest(path: Path) -> str:
    """The checksum of a file, as its name has it. Raises OSError; also where PATH is no regular file."""
    descriptor = disk.open_regular(path)
    try:
        state, offset = xxhash.xxh3_64(), 0
        # One room for all, since new pages cost more than the checksum, and at the beginning of a page: to a few bytes
        # behind it, AMD's processors copy pages at a fourth of the speed.
        with mmap.mmap(-1, _CHUNK) as room, memoryview(room) as part:
            while size := os.preadv(descriptor, [part], offset):
                state.update(part[:size])
                offset += size
        return state.hexdigest()
    finally:
        os.close(descriptor)


def remember(path: Path) -> None:
    """Note that the file at PATH was verified as it is now. Where that cannot be written, it is verified again."""
    with suppress(OSError):
        _append(_ledger(path), [_line(path, os.lstat(path))])


def forget(path: Path) -> None:
    """Have the file at PATH verified again before it is next read, though nobody wrote to it. Raises OSError."""
    os.utime(path, follow_symlinks=False)


def unverified(paths: Iterable[Path]) -> dict[Path, str]:
    """Verify those of PATHS that have changed since they were verified last. The files that do not hold what was
    written, with the reason."""
    return _verify(_changed(paths))


def changed(paths: Iterable[Path]) -> list[Path]:
    """Those of PATHS that have changed since they were verified last."""
    return [path for path, _ in _changed(paths)]


def _changed(paths: Iterable[Path]) -> list[tuple[Path, bytes]]:
    """The same, each with the line that would be remembered of it; none for what cannot be looked at."""
    known: dict[Path, set[bytes]] = {}
    waiting: list[tuple[Path, bytes]] = []
    for path in paths:
        ledger = _ledger(path)
        if ledger not in known:
            known[ledger] = _read(ledger)
        with suppress(OSError):  # what cannot be looked at cannot be opened either: that is reported then
            line = _line(path, os.lstat(path))
            if line in known[ledger]:
                continue
            waiting.append((path, line))
            continue
        waiting.append((path, b""))
    return waiting


def has_ends(path: Path) -> bool:
    """Whether the file at PATH begins and ends as a Parquet file does, all that is read of it. Raises MburstError where
    this process cannot look."""
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
    """Verify all of PATHS, whatever is remembered: the files that do not hold what was written, with the reason."""
    waiting = []
    for path in paths:
        try:
            waiting.append((path, _line(path, os.lstat(path))))
        except OSError:
            waiting.append((path, b""))
    return _verify(waiting)


def _verify(waiting: list[tuple[Path, bytes]]) -> dict[Path, str]:
    """The damaged ones of (file, its line before it was read); those that are sound are remembered."""
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
        with suppress(OSError):  # a store that may only be read: its files are verified each time
            _append(ledger, lines)
    return damaged


def fault(path: Path, table: str | None = None) -> str:
    """Why the file at PATH does not hold what was written, or not what its name and folder say; '' where it does. Of a
    file of TABLE that lies in no store, its folder says nothing. Raises MburstError where this process cannot look."""
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
    except (pyarrow.ArrowException, ValueError) as error:  # sound bytes, but no rows of ours
        disk.refuse_shortage(error, path)
        return (str(error).splitlines() or ["not a Parquet file"])[0]


def _ledger(path: Path) -> Path:
    """The ledger of a sealed file: in the folder of its date."""
    return path.parent.parent / LEDGER


def _line(path: Path, stat: os.stat_result) -> bytes:
    """What is remembered of a file that was verified when it was so."""
    text = f"{path.parent.name}/{path.name}\t{stat.st_ino}\t{stat.st_size}\t{stat.st_mtime_ns}\t{stat.st_ctime_ns}"
    return f"{text}\t{xxhash.xxh3_64_hexdigest(text.encode())}".encode()


def _append(ledger: Path, lines: list[bytes]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(ledger, flags, 0o640)
    try:
        os.write(descriptor, b"".join(b"\n" + line for line in lines))  # whatever stands before: a line is a line
    finally:
        os.close(descriptor)


def _read(ledger: Path) -> set[bytes]:
    """The lines of a ledger. A line's own checksum needs no look: it is part of what a file's line must equal."""
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
    """Whether a ledger may spare this user a look at the files: it is this user's, root's, or, but for root, that of
    whose folder it is. Anybody can write that a file was verified."""
    user = os.geteuid()
    return ledger.st_uid in ({0} if user == 0 else {0, user, folder.st_uid}) and ledger.st_size <= MOST_LEDGER
