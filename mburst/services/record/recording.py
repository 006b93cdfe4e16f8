"""What to record and how, and the progress that is reported while it runs."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...errors import MburstError

if TYPE_CHECKING:
    import pyarrow as pa

    from ...capture import Facts, Lane

Direction = Literal["in", "out", "both"]
Stamps = Literal["auto", "hw", "sw"]
Hook = Literal["tc", "xdp"]
Row = dict[str, Any]


NO_MATTER = ("targets", "threads", "live")  # to the rows that a file's bytes become
NEWER = ("sources_above_ppb",)  # settings that stores of before know nothing of


@dataclass(frozen=True)
class RecordSettings:
    """What to record, and how. Times in nanoseconds, rates in bits a second.

    The names of the fields are part of the fingerprint: another name records every file of an existing store again.
    Those of NEWER are part of it where they are given, and those of NO_MATTER never."""

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
    threads: int = 1  # rings of an interface; beyond 1, files are read ahead of what is stored
    live: InterfaceSettings = field(default_factory=lambda: InterfaceSettings())


@dataclass(frozen=True)
class InterfaceSettings:
    """What holds for interfaces only."""

    duration_ns: int | None = None  # None: until somebody ends it
    snaplen: int = 0
    ring_bytes: int = 0
    stamps: Stamps = "auto"
    hook: Hook = "tc"
    pin: bool = False  # the kernel counts on when the recorder dies, for the next one
    promiscuous: bool = True
    cluster: int = 0
    force: bool = False  # record bins that the stamps are too coarse for
    keep_bytes: int = 0  # --keep-packets: of the ring of the last packets; 0: none is kept
    reserve_bytes: int | None = 0  # free bytes below which senders are summed up; None: by the size of the disk
    beside: int = 0  # other interfaces that are recorded by the same process


@dataclass
class RecordProgress:
    """Where a recording is: the packets that are in closed bins, and the newest stamp; what is new in the store."""

    recording: RecordSettings
    packets: int
    end_ns: int
    lanes: list[Lane]
    facts: Facts
    bins: pa.RecordBatch | None
    runs: list[Row]


def fingerprint(recording: RecordSettings) -> str:
    """An identity of capture files and settings, so that recording them again adds nothing.

    Of each file all bytes count: two captures may differ in one. What cannot be read twice (a pipe) gets a random
    identity. Raises MburstError.
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
    """Whether the same input can be recorded again: files, but no pipe and no interface."""
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


def own_addresses(recording: RecordSettings) -> list[str]:
    """--local, or else the address of the interface: PF_RING does not know the direction on each device."""
    from ...capture import device

    if recording.local or not is_live(recording):
        return recording.local
    found = device(recording.targets[0])
    return [found["mac"]] if found and found["mac"] else []
