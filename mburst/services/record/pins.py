"""The objects that `--pin` keeps in the kernel, so that it counts on without a recorder. There is a folder of bpffs for
each interface; capture/backend/ebpf/pins.c creates it and locks it while a recorder uses it."""

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
    """The pinned objects in the folder PATH. INTERFACE is the present name of the interface: None if it is in another
    network namespace, empty if it no longer exists. IS_READ is true if a recorder uses them."""

    path: str
    interface: str | None
    is_read: bool


def folders(recordings: Iterable[RecordSettings]) -> list[Path]:
    """Returns the folders, apart from its store, that a recorder must be able to write."""
    return [MOUNT] if any(one.live.pin for one in recordings) else []


def pinned() -> list[Pinned]:
    """Returns all pinned folders. Raises OSError if this process may not read them."""
    found = []
    for folder in sorted(_all()):
        with suppress(FileNotFoundError), _locked(folder) as is_free:  # the recorder of a folder may remove it
            if any(folder.iterdir()):
                found.append(Pinned(str(folder), _interface(folder), not is_free))
    return found


def describe_unread(recording: RecordSettings) -> list[str]:
    """Returns a sentence for each pinned folder that an earlier recorder left for the interface of RECORDING, if
    RECORDING does not use it (without --pin). Returns none if this process may not read the folders."""
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
    """Remove pinned objects of interfaces of this network namespace that no longer exist, as far as this process may.
    They only occupy memory."""
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
    """Yields whether no recorder uses FOLDER. If so, none can begin to until the context ends."""
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
