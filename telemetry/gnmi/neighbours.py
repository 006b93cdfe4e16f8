"""Neighbours on ports: which host is attached where, as rows of `links`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import limits
from .entities import ColumnLeaf, Entity, short
from .vendors import VendorRule

if TYPE_CHECKING:
    from .decode import UpdateStream


class NeighbourEntity(Entity):
    """A neighbour on a port: adds a row of `links` whenever something about it changes."""

    def __init__(self, stream: UpdateStream, rule: VendorRule, names: dict[str, str]) -> None:
        self.stream, self.rule, self.names = stream, rule, names
        self.ts_ns = self.receive_ns = self.quality = 0
        self.filled: list[ColumnLeaf] = []
        self.waiting = False
        self.owed = {}
        self.known: dict[int, str] = {}
        self.written: tuple[str, str] | None = None

    def emit(self) -> None:
        filled, self.filled = self.filled, []
        for slot in filled:
            slot.filled = False
        for slot in filled:
            self.known[slot.column], slot.value = short(slot.value), None
        self.write()

    def write(self) -> None:
        """Add rows of what has changed since the last ones."""
        device = self.stream.device
        host, interface = self.known.get(0, ""), self.known.get(1, "")
        if not host or (host, interface) == self.written:
            return
        if not device.may_link:
            detail = f"more than {limits.LINKS:,} changes of neighbours: the last of each is reported later"
            device.count(self.stream.name, "dropped", detail)
            self.stream.unwritten.add(self)
            return
        if self.written:
            self._write(*self.written, present=False)
        self.written = (host, interface)
        self._write(host, interface, present=True)

    def _write(self, host: str, interface: str, present: bool) -> None:
        device = self.stream.device
        port = device.port(self.names["port"])
        device.link(
            ts_ns=self.receive_ns,
            host=host,
            interface=interface,
            link_bps=device.speeds.get(port),
            port=port,
            queue="",
            origin="lldp",
            present=present,
        )

    def remembers(self, slot: ColumnLeaf) -> bool:
        return slot.column in self.known

    def forget(self) -> None:
        return

    def gone(self, slot: ColumnLeaf) -> None:
        self.emit()
        self.known.pop(slot.column, None)
        if slot.column == 0:
            self.leave(self.receive_ns)

    def leave(self, now_ns: int) -> None:
        """The neighbour has gone."""
        self.receive_ns = now_ns
        if self.written:
            self._write(*self.written, present=False)
            self.written = None
