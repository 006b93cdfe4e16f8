"""Events that contain the names of their subject, as in LANZ: the names of a queue are among their leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...units import PLAUSIBLE_NS
from ..tables import QUALITY_GNMI_DUPLICATES
from . import values
from .entities import short
from .leaves import Leaf, PlainLeaf
from .path import Steps
from .vendor_words import COLUMNS
from .vendors import VendorRule

if TYPE_CHECKING:
    from .decode import UpdateStream


class RecordLeaf(Leaf):
    """A leaf of a record."""

    __slots__ = ("name", "record")

    def __init__(self, record: Record, steps: Steps, name: str) -> None:
        super().__init__(steps)
        self.record, self.name = record, name

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        self.record.take(self, ts_ns, receive_ns, kind, value, duplicates)


class Record:
    """An event that contains the names of its subject (LANZ): leaves of one time, among them the keys of its row."""

    def __init__(self, stream: UpdateStream, rule: VendorRule, names: dict[str, str]) -> None:
        self.stream, self.rule = stream, rule
        self.ts_ns = self.receive_ns = self.quality = 0
        self.leaves: dict[str, tuple[RecordLeaf, str, Any]] = {}
        self.waiting = False
        self.plain: dict[str, PlainLeaf] = {}
        self.ignored = {leaf for leaf, meaning in rule.leaves.items() if meaning.kind == "ignore"}

    def take(self, leaf: RecordLeaf, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        """Take a leaf of the record at a time; a leaf that is already there begins the next record."""
        if self.leaves and (self.ts_ns != ts_ns or leaf.name in self.leaves):
            self.emit()
        self.ts_ns, self.receive_ns = ts_ns, receive_ns
        self.leaves[leaf.name] = (leaf, kind, value)
        if duplicates:
            self.stream.count_duplicates(duplicates)
            self.quality |= QUALITY_GNMI_DUPLICATES
        if not self.waiting:
            self.waiting = True
            self.stream.open.append(self)

    def emit(self) -> None:
        """Append a row of the queue that the record names, and plain rows of the rest."""
        leaves, self.leaves = self.leaves, {}
        if not leaves:
            return
        found = {name: value for name, (_, _, value) in leaves.items()}
        rule = self.rule
        used: set[str] = set()
        if all(found.get(leaf) not in (None, "") for leaf in rule.key_leaves.values()):
            used = self._row(found)
        for name, (leaf, kind, value) in leaves.items():
            if name not in used and name not in self.ignored:
                plain = self.plain.get(name)
                if plain is None:
                    plain = self.plain[name] = PlainLeaf(self.stream, leaf.steps)
                plain.take(self.ts_ns, self.receive_ns, kind, value, 0)

    def forget(self) -> None:
        """The record is of no more use."""
        for plain in self.plain.values():
            plain.forget()

    def _time(self, found: dict[str, Any], used: set[str]) -> int:
        """The time at which the event happened according to the record, otherwise the time at which it was sent."""
        leaf, unit_ns = self.rule.time or ("", 1)
        ts_ns = (values.as_integer(found.get(leaf)) or 0) * unit_ns
        if PLAUSIBLE_NS[0] <= ts_ns < PLAUSIBLE_NS[1]:
            used.add(leaf)
            return ts_ns
        return self.ts_ns

    def _row(self, found: dict[str, Any]) -> set[str]:
        """Append the row. Returns the leaves that are in it. Raises LimitExceeded."""
        rule = self.rule
        names = {key: short(found[leaf]) for key, leaf in rule.key_leaves.items()}
        entity = self.stream.entity_of_record(self, names)
        used = set(rule.key_leaves.values())
        if entity is None:
            self.stream.device.count(self.stream.name, "dropped", self.stream.device.full)
            return used
        ts_ns = self._time(found, used)
        row: list[int | None] = [None] * entity.columns
        for leaf, meaning in rule.leaves.items():
            number = values.as_integer(found.get(leaf))
            factor = self.stream.device.facts.get(rule.times[leaf]) if leaf in rule.times else 1
            if meaning.column and number is not None and factor is not None:
                row[COLUMNS[rule.table].index(meaning.column)] = number * factor
                used.add(leaf)
        entity.ts_ns, entity.receive_ns = ts_ns, self.receive_ns
        begins = not rule.event or found.get(rule.event[0]) in rule.event[1]
        start_ns = ts_ns if begins else min(entity.begun_ns or ts_ns, ts_ns)
        entity.begun_ns = ts_ns
        quality, self.quality, entity.quality = self.quality | entity.quality, 0, 0
        entity._append(row, start_ns, ts_ns, quality)
        return used
