"""The source of a burst's packets: the ring of its recorder, or the capture that was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..capture import CapturedFrames
from ..errors import MburstError
from ..services.record.rows import named_interface
from ..units import format_time
from . import account, ring
from .account import Missing

if TYPE_CHECKING:
    from ..capture import CapturedInterface, Frame


@dataclass(frozen=True)
class PacketSource:
    """The files from which packets are taken, merged by time, and the packets known to be missing. INTERFACE selects
    one; None if there is only one. FILTER, LOCAL and INNER are those of the recording."""

    files: Sequence[str]
    interface: str | None
    missing: Sequence[Missing] = ()
    filter: str = ""
    local: Sequence[str] = ()
    inner: bool = False
    is_ring: bool = False


@dataclass
class OpenSource:
    """The packets of a PacketSource. The interface is known from the first packet on."""

    source: PacketSource
    _opened: CapturedFrames
    interface: CapturedInterface | None = None
    notices: list[str] = field(default_factory=list)
    others: set[str] = field(default_factory=set)  # names of interfaces that were left out
    _chosen: int | None = None

    def frames(self) -> Iterator[Frame]:
        """Yields the packets of the interface. Raises MburstError, possibly after some packets, if a file cannot be
        read."""
        opened = self._opened
        try:
            while (some := opened.read()) is not None:
                yield from (frame for frame in some if self._is_chosen(frame[0], opened))
            self.notices = (opened.notice or "").splitlines()
        finally:
            opened.close()

    def _is_chosen(self, index: int, opened: CapturedFrames) -> bool:
        if index == self._chosen:
            return True
        found = opened.interfaces[index]
        name = named_interface(found["name"], self.source.files[0], index)
        if self._chosen is not None or self.source.interface not in (None, name):
            self.others.add(name)
            return False
        self._chosen, self.interface = index, found
        return True


def open_source(choose: Callable[[], PacketSource], since_ns: int, until_ns: int) -> OpenSource:
    """Opens the files of the source that CHOOSE returns, for its packets in [since_ns, until_ns). If a recorder removes
    a file of a ring before all are open, CHOOSE is called again. Raises MburstError."""
    while True:
        try:
            source = choose()
            return OpenSource(source, _open(source, since_ns, until_ns))
        except ring.RemovedFile:
            continue


def _open(source: PacketSource, since_ns: int, until_ns: int) -> CapturedFrames:
    try:
        return CapturedFrames(
            list(source.files),
            since_ns,
            until_ns,
            local=list(source.local),
            inner=source.inner,
            filter=source.filter or None,
            backend="file",
        )
    except MburstError as error:
        gone = [name for name in source.files if source.is_ring and not Path(name).exists()]
        if gone:
            raise ring.RemovedFile(gone[0]) from error
        raise


def of_ring(folders: Sequence[Path], since_ns: int, until_ns: int) -> PacketSource:
    """Returns the ring in FOLDERS that lacks the least of the time. Raises MburstError if none has any of it,
    and RemovedFile."""
    best: PacketSource | None = None
    for folder in folders:
        files = account.near(ring.files_of(folder), since_ns, until_ns)
        if not files:
            continue
        lacks = account.missing(files, since_ns, until_ns)
        found = PacketSource([str(file.path) for file in files], None, lacks, is_ring=True)
        if best is None or _length(lacks) < _length(best.missing):
            best = found
    if best is None or _length(best.missing) >= until_ns - since_ns:
        raise MburstError(
            f"{folders[0]}: the ring has no packets of {format_time(since_ns)} to {format_time(until_ns)} UTC: "
            f"{_coverage(folders)}",
            "keep more: --keep-packets",
        )
    return best


def _length(lacks: Sequence[Missing]) -> int:
    return sum(one.until_ns - one.since_ns for one in lacks if one.packets is None)


def _coverage(folders: Sequence[Path]) -> str:
    rings = [files for folder in folders if (files := ring.files_of(folder))]
    if not rings:
        return "it is empty"
    first_ns = min(file.first_ns for files in rings for file in files)
    until_ns = max(account.account_of(files[-1].path).until_ns for files in rings)
    return f"it begins at {format_time(first_ns)} and ends at {format_time(until_ns)}"


def of_recording(store: Path, recording: Mapping[str, Any], since_ns: int, until_ns: int) -> PacketSource:
    """Returns the source of a RECORDING (a row of the table) in STORE. Raises MburstError if its packets are not
    available."""
    if recording["backend"] == "file":
        return PacketSource(_files_of(recording["input"]), recording["interface"])
    folders = ring.rings_of(store, recording["host"], recording["interface"])
    if not folders:
        hint = "record with --keep-packets, or name a capture of that time: mburst extract CAPTURE --store STORE"
        raise MburstError(
            f"{store}: no packets were kept of {recording['host']} {recording['interface']}"
            + (" (--backend ebpf has none)" if recording["backend"] == "ebpf" else ""),
            hint,
        )
    return of_ring(folders, since_ns, until_ns)


def _files_of(recorded: str) -> list[str]:
    """Returns the files in the column `input`. Raises MburstError if one no longer exists."""
    names = [recorded] if Path(recorded).is_file() else recorded.split(" ")
    if gone := [name for name in names if not Path(name).is_file()]:
        raise MburstError(
            f"{gone[0]}: the recorded capture is not there", "name it: mburst extract CAPTURE --store STORE"
        )
    return names
