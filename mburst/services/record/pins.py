"""What `--pin` has the kernel count when no recorder is there: a folder of bpffs for each interface, which
capture/backend/ebpf/pins.c makes and locks while a recorder has it."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recording import RecordSettings

MOUNT = Path("/sys/fs/bpf")
FOLDER = MOUNT / "mburst"
UNREAD = "no recorder reads what the kernel counts; the next one with --pin reads on, and this ends it: rm -r"


@dataclass(frozen=True)
class Pinned:
    """What is pinned in the folder PATH. INTERFACE is its name now. None: it is of another network namespace. Empty:
    there is no such interface any more. IS_READ: a recorder has it."""

    path: str
    interface: str | None
    is_read: bool


def folders(recordings: Iterable[RecordSettings]) -> list[Path]:
    """What a recorder has to write in, beside its store."""
    return [MOUNT] if any(one.live.pin for one in recordings) else []


def pinned() -> list[Pinned]:
    """All that there is. Raises OSError where this process may not look."""
    found = []
    for folder in sorted(_all()):
        with suppress(FileNotFoundError), _locked(folder) as is_free:  # its recorder may remove it
            if any(folder.iterdir()):
                found.append(Pinned(str(folder), _interface(folder), not is_free))
    return found


def describe_unread(recording: RecordSettings) -> list[str]:
    """A sentence where RECORDING is of an interface at which an earlier recorder has left what this one does not take.
    None where this process may not look."""
    if recording.live.pin:
        return []
    with suppress(OSError):
        return [
            "an earlier recorder has left its program pinned here (--pin), and this one leaves it alone: "
            f"{UNREAD} {one.path}"
            for one in pinned()
            if one.interface == recording.targets[0] and not one.is_read
        ]
    return []


def remove_stale() -> None:
    """Remove what is pinned of interfaces of this network namespace that are gone, as far as this process may: it only
    takes memory."""
    with suppress(OSError):
        for folder in _all():
            if _interface(folder) == "":
                _remove(folder)


def _remove(folder: Path) -> None:
    with _locked(folder) as is_free:
        for pin in folder.iterdir() if is_free else ():
            pin.unlink()
        if is_free:
            folder.rmdir()


def _all() -> list[Path]:
    return [path for path in FOLDER.iterdir() if path.is_dir()] if FOLDER.is_dir() else []


def _interface(folder: Path) -> str | None:
    namespace, _, index = folder.name.partition("-")
    if namespace != str(os.stat("/proc/thread-self/ns/net").st_ino) or not index.isdecimal():
        return None
    try:
        return socket.if_indextoname(int(index))
    except OSError:
        return ""


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether no recorder has FOLDER; none can meanwhile."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)
