"""The settings of a recording, and its progress."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from .backends import OPEN_FILES, Direction, Hook, Stamps

if TYPE_CHECKING:
    import pyarrow as pa

    from ...capture import Facts, Lane

Row = dict[str, Any]


NO_MATTER = ("targets", "threads", "live")  # settings that do not affect the rows of a file
NEWER = ("sources_above_ppb",)  # settings that older stores do not know
MOST_NOTES = 20  # of one kind, since a recording may run for months


@dataclass(frozen=True)
class RecordSettings:
    """What to record, and how. Times are in nanoseconds, rates in bits per second.

    The names of the fields are part of the fingerprint: renaming one would record every file of an existing store
    again. Fields in NEWER are part of it only if they are given, those in NO_MATTER never."""

    targets: list[str]
    link_bps: int | None = None
    bin_ns: int = 100_000
    source_bin_ns: int = 1_000_000
    window_ns: int = 2_000_000  # --reorder-window
    host: str = "unknown"
    rack: str = "unknown"
    interface: str | None = None
    direction: Direction = "both"
    local: list[str] = field(default_factory=list)
    max_sources: int = 4096
    sources_above_ppb: int | None = None  # --sources-above; None: --sources all
    inner: bool = False  # --inner-ip
    mtu: int = -1
    spread: bool = False  # --split-merged
    backend: str = "auto"
    filter: str = ""
    threads: int = 1  # rings of an interface; for files, 2 or more read ahead of storing
    live: InterfaceSettings = field(default_factory=lambda: InterfaceSettings())


@dataclass(frozen=True)
class InterfaceSettings:
    """Settings that apply to interfaces only."""

    duration_ns: int | None = None  # None: until a signal ends it
    snaplen: int = 0
    ring_bytes: int = 0
    stamps: Stamps = "auto"
    hook: Hook = "tc"
    pin: bool = False  # the kernel counts on if the recorder dies, for the next one
    promiscuous: bool = True
    cluster: int = 0
    force: bool = False  # record bins even if the timestamps are too coarse for them
    keep_bytes: int = 0  # --keep-packets: size of the ring of the last packets; 0: packets are not kept
    reserve_bytes: int | None = 0  # free bytes below which senders are summed up; None: by the size of the disk
    beside: int = 0  # other interfaces that are recorded by the same process


class Notes:
    """What happened while a recording ran, each sentence once: the first MOST_NOTES, and then that there was MORE."""

    def __init__(self, more: str) -> None:
        self._more = more
        self._sentences: list[str] = []

    def add(self, sentence: str) -> None:
        if sentence not in self._sentences and len(self._sentences) <= MOST_NOTES:
            self._sentences.append(sentence if len(self._sentences) < MOST_NOTES else self._more)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sentences)


@dataclass
class RecordProgress:
    """The progress of a recording: the packets in closed bins, the newest timestamp, and the new rows in the store."""

    recording: RecordSettings
    packets: int
    end_ns: int
    lanes: list[Lane]
    facts: Facts
    bins: pa.RecordBatch | None
    recordings: list[Row]


def fingerprint(recording: RecordSettings) -> str:
    """Returns an identity of capture files and settings, so that recording them again adds nothing.

    All bytes of each file are part of it, because two captures may differ in only one. A source that cannot be read
    twice (a pipe) gets a random identity. Raises MburstError.
    """
    from ...sql import verified

    digest = hashlib.blake2b(digest_size=6)
    for name in recording.targets:
        path = Path(name)
        if not path.is_file():
            return secrets.token_hex(6)
        try:
            digest.update(verified.digest(path.resolve()).encode())
        except OSError as error:
            raise MburstError(f"{path}: cannot read: {error.strerror}") from error
    settings = {
        name: value
        for name, value in vars(recording).items()
        if name not in NO_MATTER and (name not in NEWER or value is not None)
    }
    digest.update(repr(sorted(settings.items())).encode())
    return digest.hexdigest()


def is_repeatable(recording: RecordSettings) -> bool:
    """Whether the same input can be recorded again: it has files, and no pipe or interface."""
    return all(Path(name).is_file() for name in recording.targets)


def is_live(recording: RecordSettings) -> bool:
    """Whether the target is an interface rather than a file."""
    from ...capture import device

    [name, *more] = recording.targets
    return (
        not more
        and recording.backend != "file"
        and (recording.backend != "auto" or name == "any" or (device(name) is not None and not Path(name).exists()))
    )


def opens_files(recording: RecordSettings) -> bool:
    """Whether the backend opens files of its choice, so that the process cannot be confined to its inputs and its
    store."""
    return recording.backend in OPEN_FILES


def own_addresses(recording: RecordSettings) -> list[str]:
    """Returns --local, or else the address of the interface: PF_RING does not report the direction on every device."""
    from ...capture import device

    if recording.local or not is_live(recording):
        return recording.local
    found = device(recording.targets[0])
    return [found["mac"]] if found and found["mac"] else []
