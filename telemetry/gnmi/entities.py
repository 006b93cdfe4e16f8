"""Entities (queues, ports, chips), and the leaves that fill their rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..counters import Step, increase
from ..line_rate import most_bytes
from ..tables import (
    QUALITY_GAP,
    QUALITY_GNMI_DUPLICATES,
    QUALITY_GUESSED,
    QUALITY_IMPOSSIBLE,
    QUALITY_RESET,
    SET_BACK_NS,
)
from . import values
from .leaves import Leaf, PlainLeaf
from .limits import PATH_BYTES, LimitExceeded
from .path import Steps, as_text
from .vendor_words import COLUMNS
from .vendors import Meaning, VendorRule

if TYPE_CHECKING:
    from .decode import UpdateStream

LARGEST = 2**63 - 1
SPEED_LETTERS = 64  # of the text of a link speed
LEAST_FRAME = 64  # bytes: limits the number of packets that a link can carry
OLDER = "values of counters older than those before them (was the clock of the device set back?)"
_SPEED = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kKMGT])", re.ASCII)
_PREFIX = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_speed(value: Any) -> int | None:
    """Bits per second of "SPEED_100GB" (openconfig-if-ethernet), "100G" or a number; None if there is none, or one that
    no row can hold."""
    if not isinstance(value, str):
        speed = values.as_integer(value)
    else:
        match = _SPEED.search(value) if len(value) <= SPEED_LETTERS else None
        speed = int(float(match[1]) * _PREFIX[match[2].upper()]) if match else None
    return speed if speed is not None and 0 <= speed <= LARGEST else None


def short(value: Any) -> str:
    """The text of a value that is a name. Raises LimitExceeded."""
    text = values.as_text(value)
    if len(text) > PATH_BYTES:
        raise LimitExceeded(f"a name of more than {PATH_BYTES:,} letters")
    return text


class ColumnLeaf(Leaf):
    """A leaf that is a column of the rows of its entity."""

    __slots__ = ("column", "counter", "entity", "filled", "kind", "last", "last_ns", "newest", "value")

    def __init__(self, entity: Entity, steps: Steps, meaning: Meaning) -> None:
        super().__init__(steps)
        self.entity = entity
        self.kind = meaning.kind
        self.counter = meaning.kind == "counter"
        self.column = COLUMNS[entity.rule.table].index(meaning.column)
        self.value: Any = None
        self.filled = False
        self.last: int | None = None  # of a counter
        self.last_ns = 0
        # If several paths lead here: the time of the last value, when it came, and its path.
        self.newest: tuple[int, int, Leaf | None] = (0, 0, None)
        entity.slots += 1
        if self.counter:
            entity.add_counter(self)

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        entity = self.entity
        if entity.ts_ns != ts_ns or self.filled:
            if entity.filled:
                entity.emit()
            entity.ts_ns = ts_ns
        if not entity.filled:
            entity.receive_ns = receive_ns
            if not entity.waiting:
                entity.waiting = True
                entity.stream.open.append(entity)
        if duplicates:
            entity.stream.count_duplicates(duplicates)
            entity.quality |= QUALITY_GNMI_DUPLICATES
        self.value = value
        self.filled = True
        entity.filled.append(self)

    def number(self) -> int | None:
        """The value in the unit of the column; of a counter, the total."""
        value = self.value
        if type(value) is int and 0 <= value <= LARGEST:  # nearly all of them
            return value
        return parse_speed(value) if self.kind == "speed" else values.as_integer(value)

    def delete(self, ts_ns: int, receive_ns: int) -> None:
        self.entity.gone(self)

    @property
    def idle(self) -> bool:
        return not self.filled and not self.entity.remembers(self)

    def forget(self) -> None:
        self.entity.slots -= 1
        if self.counter and self.entity.counters.get(self.column) is self:
            del self.entity.counters[self.column]
        self.entity.stream.forget_column(self)


class MaskLeaf(Leaf):
    """A leaf with bits that show which columns of its entity's rows are not determined; also kept as a plain leaf."""

    __slots__ = ("entity", "masks", "plain")

    def __init__(self, entity: Entity, steps: Steps, meaning: Meaning) -> None:
        super().__init__(steps)
        self.entity = entity
        columns = COLUMNS[entity.rule.table]
        self.masks = [(columns.index(column), bits) for column, bits in meaning.masks]
        self.plain = PlainLeaf(entity.stream, steps)
        entity.slots += 1

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        entity = self.entity
        if entity.filled and entity.ts_ns != ts_ns:
            entity.emit()
        bits = values.as_integer(value)
        if bits is None:
            entity.stream.device.count(entity.stream.name, "not-understood", f"{as_text(self.steps)}: not a number")
        else:
            entity.undetermined = frozenset(column for column, mask in self.masks if bits & mask)
        self.plain.take(ts_ns, receive_ns, kind, value, duplicates)

    def delete(self, ts_ns: int, receive_ns: int) -> None:
        if self.entity.filled:
            self.entity.emit()
        self.entity.undetermined = frozenset()
        self.plain.delete(ts_ns, receive_ns)

    @property
    def idle(self) -> bool:
        return self.plain.idle

    def forget(self) -> None:
        self.entity.slots -= 1
        self.plain.forget()


class Entity:
    """A queue, a port or a chip: its values of one time become a row."""

    slots = 0  # leaves that are its columns
    begun_ns = 0  # of a record: end of the previous window
    undetermined: frozenset[int] = frozenset()  # columns with values that the device reports as not determined

    def __init__(self, stream: UpdateStream, rule: VendorRule, names: dict[str, str]) -> None:
        self.stream, self.rule, self.names = stream, rule, names
        self.ts_ns = self.receive_ns = self.quality = 0
        self.filled: list[ColumnLeaf] = []
        self.waiting = False
        device = stream.device
        self.port = device.port(names.get("port", ""))
        self.table = device.rows.tables[rule.table]
        self.columns = len(COLUMNS[rule.table])
        self.counters: dict[int, ColumnLeaf] = {}  # column → its first counter
        # Of columns of packets that several counters add up to: end of the newest window; and what came too late for
        # it, with its quality.
        self.reached: dict[int, int] = {}
        self.owed: dict[int, tuple[int, int]] = {}
        # Leaves whose last value was SET_BACK_NS older than those before it: its time, when it came, and the value.
        self.behind: dict[ColumnLeaf, tuple[int, int, int | None]] = {}
        self.source = self.table.source(
            batch=stream.batch, device=device.name, semantics=rule.semantics, **{**names, **self._port_name()}
        )

    def _port_name(self) -> dict[str, str]:
        return {"port": self.port} if "port" in self.names else {}

    def add_counter(self, leaf: ColumnLeaf) -> None:
        """A counter is new. If another one counts packets in its column, too, the windows follow each other from now
        on."""
        first = self.counters.setdefault(leaf.column, leaf)
        is_bytes = COLUMNS[self.rule.table][leaf.column].endswith("bytes")  # more than a link carries is impossible
        if first is not leaf and not is_bytes and not self.rule.window_ns:
            self.reached.setdefault(leaf.column, first.last_ns)

    def _learn_port(self) -> None:
        """Learn the port's own name, which the device may report after its first values."""
        port = self.stream.device.port(self.names.get("port", ""))
        if port != self.port:
            self.port = port
            self.table.texts["port"][self.source] = port

    def emit(self) -> None:
        """Append rows of the existing values: one for each begin of a window."""
        filled, self.filled = self.filled, []
        if not filled:
            return
        if self.stream.device.aliases:
            self._learn_port()
        ts_ns, begin_ns, mixed = self.ts_ns, filled[0].last_ns, False
        for slot in filled:
            slot.filled = False  # of all of them, whatever happens to one
            if slot.last_ns != begin_ns:
                mixed = True
            if slot.last_ns > ts_ns:
                self._take_older(slot)
                mixed = True
        quality, self.quality = self.quality, 0
        if self.rule.window_ns or not (mixed or self.reached):
            self._emit_row(filled, begin_ns, quality)
        else:
            self._emit_by_begin(filled, quality)
        if self.behind:
            for slot in filled:
                if slot.last_ns == ts_ns:
                    self.behind.pop(slot, None)

    def _emit_by_begin(self, filled: list[ColumnLeaf], quality: int) -> None:
        """Append a row for each begin of a window; the first value of a column belongs to the latest. If a counter of a
        column to which several add up counted since before the end of its newest window, the row begins there."""
        begin_of = dict.fromkeys((slot.column for slot in filled), max(slot.last_ns for slot in filled))
        for slot in filled:
            begin_of[slot.column] = min(begin_of[slot.column], slot.last_ns or LARGEST)
        late = {column for column, ns in self.reached.items() if begin_of.get(column, ns) < ns < self.ts_ns}
        begin_of |= {column: self.reached[column] for column in late}
        for begin_ns in sorted(set(begin_of.values())):
            slots = [slot for slot in filled if begin_of[slot.column] == begin_ns]
            guessed = QUALITY_GUESSED if any(slot.column in late for slot in slots) else 0
            self._emit_row(slots, begin_ns, quality | guessed)

    def _emit_row(self, filled: list[ColumnLeaf], begin_ns: int, quality: int) -> None:
        """Append a row of values that were last there at BEGIN_NS."""
        ts_ns = self.ts_ns
        start_ns, guessed = self._window(begin_ns)
        quality |= guessed
        row: list[int | None] = [None] * self.columns
        for slot in filled:
            value, slot.value = slot.number(), None
            if value is None:
                self._not_understood(slot)
                continue
            if slot.column in self.undetermined:
                value = slot.last = None
            elif slot.counter:
                value, quality = self._increase(slot, value, quality)
            if ts_ns > slot.last_ns:
                slot.last_ns = ts_ns
            if value is not None:
                had = row[slot.column]
                row[slot.column] = value if had is None else had + value
        for column in self.reached:
            if row[column] is not None:
                quality |= self._follow(row, column, quality)
        # The first values of counters are not increases.
        if quality & QUALITY_IMPOSSIBLE or any(value is not None for value in row):
            self._append(row, start_ns, ts_ns, quality)

    def _follow(self, row: list[int | None], column: int, quality: int) -> int:
        """Keep the windows of a column that several counters add up to apart: what they counted up to a time that is in
        a row already is in the next one, if that ends soon, else in a row of that time. Returns the quality of what the
        row has of that. Windows that are SET_BACK_NS ahead are of a clock that was set back."""
        count, reached_ns = row[column] or 0, self.reached[column]
        if 0 <= reached_ns - self.ts_ns <= SET_BACK_NS:
            owed, of_owed = self.owed.get(column, (0, QUALITY_GUESSED))
            self.owed[column] = owed + count, of_owed | quality & ~QUALITY_IMPOSSIBLE
            row[column] = None
            return 0
        if self.ts_ns - reached_ns > SET_BACK_NS:
            self.pay(column)
        self.reached[column] = self.ts_ns
        owed, of_owed = self.owed.pop(column, (0, 0))
        row[column] = count + owed
        return of_owed

    def pay(self, *columns: int) -> None:
        """Append a row without a length for what came too late for the newest window of each of COLUMNS."""
        for column in columns:
            count, quality = self.owed.pop(column, (None, 0))
            if count is not None:
                row: list[int | None] = [None] * self.columns
                row[column] = count
                self._append(row, self.reached[column], self.reached[column], quality)

    def _take_older(self, slot: ColumnLeaf) -> None:
        """A value is older than the last one. If it and the one before it are so by SET_BACK_NS, and time passed
        between them as their times say, the clock of the device was set back, and the leaf goes on from that one.
        Values that are less late are ignored: the next one in time has what they counted."""
        if slot.last_ns - self.ts_ns > SET_BACK_NS:
            behind_ns, came_ns, value = self.behind.get(slot, (0, 0, None))
            if behind_ns and 0 < self.ts_ns - behind_ns <= 2 * (self.receive_ns - came_ns):
                slot.last, slot.last_ns = value, behind_ns
                return
            self.behind[slot] = self.ts_ns, self.receive_ns, slot.number()
        if slot.counter:
            self.stream.device.count(self.stream.name, "dropped", OLDER)

    def _window(self, begin_ns: int) -> tuple[int, int]:
        """The begin of a row's window, and QUALITY_GUESSED if the device did not report it: the previous values, unless
        the windows of the device have a length of their own."""
        rule, ts_ns = self.rule, self.ts_ns
        if rule.window_ns:
            return ts_ns - rule.window_ns, QUALITY_GUESSED if rule.semantics == "periodic-max" else 0
        if begin_ns:
            return min(begin_ns, ts_ns), 0
        if rule.semantics == "max-since-last":
            return ts_ns - self.stream.interval_ns, QUALITY_GUESSED
        return ts_ns, 0

    def _increase(self, slot: ColumnLeaf, value: int, quality: int) -> tuple[int | None, int]:
        """The increase of a counter since its previous value, and the quality with any bit that results."""
        device, before, last_ns = self.stream.device, slot.last, slot.last_ns
        if before is not None and self.ts_ns < last_ns:
            return None, quality  # an older value that came late is ignored
        slot.last = value
        if before is None:
            return None, quality
        known = self._is_known_reset(last_ns, value < before) if (device.boot_ns or device.cleared) else False
        if value >= before and not known:
            return value - before, quality
        count, step = increase(before, value, self._limit(slot, last_ns), known)
        if step is Step.RESET:
            device.resets += 1
            device.count(self.stream.name, "reset", f"{as_text(slot.steps)}: counter reset")
            quality |= QUALITY_RESET
        else:
            device.wraps += 1
        return count, quality

    def _is_known_reset(self, last_ns: int, is_smaller: bool) -> bool:
        """Whether the device reports a reset of a counter since a time. That the counters of a port were cleared does
        not mean that those of its queues were, unless they are smaller."""
        device = self.stream.device
        if self.rule.table == "ports" or is_smaller:
            return device.reset_since(self.port, last_ns)
        return device.boot_ns > last_ns

    def _limit(self, slot: ColumnLeaf, last_ns: int) -> int | None:
        """The most that a counter can have counted since a time, from the speed of the link."""
        speed = self.stream.device.speeds.get(self.port)
        if not speed:
            return None
        most = int(most_bytes(speed, self.ts_ns - last_ns))
        return most if COLUMNS[self.rule.table][slot.column].endswith("bytes") else most // LEAST_FRAME

    def _append(self, row: list[int | None], start_ns: int, ts_ns: int, quality: int) -> None:
        for column, value in enumerate(row):
            if value is not None and not 0 <= value <= LARGEST:  # no row can hold it, or it is negative
                row[column], quality = None, quality | QUALITY_IMPOSSIBLE
        quality |= self._implausible(row, ts_ns - start_ns)
        if start_ns <= self.stream.gap_ns < ts_ns:
            quality |= QUALITY_GAP
        self.table.rows.append((self.source, start_ns, ts_ns, self.receive_ns, *row, quality))

    def _implausible(self, row: list[int | None], window_ns: int) -> int:
        """QUALITY_IMPOSSIBLE if a value is more than the link can carry in the window or the buffer can hold."""
        table = self.rule.table
        device = self.stream.device
        if table == "ports":
            if row[6]:
                device.speeds[self.port] = row[6]
            carried = max(row[0] or 0, row[1] or 0)
        elif table == "queues":
            if row[0] is not None and row[1] is not None and row[1] > row[0]:
                return QUALITY_IMPOSSIBLE
            carried = row[2] or 0
        else:
            used, most, limit = row
            return QUALITY_IMPOSSIBLE if limit and max(used or 0, most or 0) > limit else 0
        if not carried:
            return 0
        speed = device.speeds.get(self.port)
        if speed and carried > most_bytes(speed, window_ns):
            return QUALITY_IMPOSSIBLE
        return 0

    def _not_understood(self, slot: ColumnLeaf) -> None:
        self.stream.device.count(self.stream.name, "not-understood", f"{as_text(slot.steps)}: not a number")

    def remembers(self, slot: ColumnLeaf) -> bool:
        """Whether a later row needs the state of a leaf."""
        return slot.last is not None or bool(slot.last_ns)

    def forget(self) -> None:
        """The entity is of no more use."""
        self.pay(*self.owed)
        self.table.release(self.source)

    def gone(self, slot: ColumnLeaf) -> None:
        """A leaf was deleted: if it comes back, it counts from the start."""
        if self.filled:
            self.emit()
        self.pay(slot.column)
        slot.last, slot.last_ns = None, 0
        self.behind.pop(slot, None)
