"""The folder in which a recorder keeps its last packets: `STORE/packets/HOST/INTERFACE`, a ring of pcapng files
(capture/keep/packet_files.h). A second recorder of the same interface uses `INTERFACE~2`, and so on."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError, UsageError
from ..names import file_part
from ..sql.format.filenames import PACKETS

LEAST_BYTES = 16 * 10**6  # so that a sixteenth has room for a chunk of the engine
MOST_RINGS = 64  # of one interface
_MODE = 0o700
_OPENING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = re.compile(r"(\d{10,20})-(\d{19,20})\.pcapng", re.ASCII)


@dataclass(frozen=True)
class RingFile:
    """A file of a ring: its number in the ring, and the timestamp of its first packet."""

    path: Path
    number: int
    first_ns: int


class RemovedFile(MburstError):
    """The recorder has removed a file of its ring, to make room, since the ring was listed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(f"{os.fspath(path)}: its recorder has just removed it", "try again")


def _names(interface: str) -> Iterator[str]:
    """Yields the folder names of an interface's rings. file_part never produces a name with "~"."""
    for number in range(1, MOST_RINGS + 1):
        yield file_part(interface) + (f"~{number}" if number > 1 else "")


@contextmanager
def taken(store: Path, host: str, interface: str) -> Iterator[tuple[int, Path]]:
    """Yields the descriptor and the path of a ring's folder that only this process uses, and creates it if necessary.
    The folder is released when the context or the process ends, in whatever way. Raises MburstError."""
    opened: list[int] = []
    try:
        folder = Path(store)
        opened.append(os.open(store, _OPENING & ~os.O_NOFOLLOW))
        for name in (PACKETS, file_part(host)):
            opened.append(_enter(opened[-1], name))
            folder /= name
        free = next((name for name in _names(interface) if _take(opened, name)), None)
        if free is None:
            raise MburstError(f"{folder}: {MOST_RINGS} recorders keep packets of {interface}", "end some of them")
        yield opened[-1], folder / free
    except OSError as error:
        raise MburstError(
            f"{folder}: the folder for packets cannot be used: {error.strerror}", "record without --keep-packets"
        ) from error
    finally:
        for number in reversed(opened):
            os.close(number)


def _enter(folder: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, _MODE, dir_fd=folder)
    return os.open(name, _OPENING, dir_fd=folder)


def _take(opened: list[int], name: str) -> bool:
    """Open and lock a folder in the last of OPENED, and append it to OPENED. Returns False if another process uses
    it."""
    opened.append(_enter(opened[-1], name))
    try:
        fcntl.flock(opened[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened.pop())
        return False
    return True


def check_size(size: int) -> None:
    """Raises UsageError if a ring is too small."""
    if size < LEAST_BYTES:
        raise UsageError("--keep-packets is less than 16 MB", "a useful size is some gigabytes, such as 2G")


def rings_of(store: Path, host: str, interface: str) -> list[Path]:
    """Returns the folders of an interface's rings that contain files."""
    found = (store / PACKETS / file_part(host) / name for name in _names(interface))
    return [folder for folder in found if folder.is_dir() and files_of(folder)]


def store_of(folder: Path) -> Path | None:
    """Returns the store of the ring in FOLDER, derived from the path alone; None if the path is not that of a ring."""
    parents = folder.absolute().parents
    return parents[2] if len(parents) > 2 and parents[1].name == PACKETS else None


def files_of(folder: Path) -> list[RingFile]:
    """Returns the files of a ring, oldest first. Raises MburstError if the folder cannot be read."""
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise MburstError(f"{folder}: cannot read: {error.strerror}") from error
    matches = ((entry, _FILE.fullmatch(entry.name)) for entry in entries if entry.is_file(follow_symlinks=False))
    found = (RingFile(folder / entry.name, int(match[1]), int(match[2])) for entry, match in matches if match)
    return sorted(found, key=lambda file: file.number)
