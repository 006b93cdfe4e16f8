"""Leaves: each takes the values of one path. Those that fill rows of entities are in entities.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..tables import SET_BACK_NS
from . import values
from .limits import VALUE_BYTES, LimitExceeded
from .path import Steps, as_text

if TYPE_CHECKING:
    from .decode import UpdateStream
    from .entities import ColumnLeaf


class Leaf:
    """Takes the values of one path."""

    __slots__ = ("steps",)

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        """Take a value with its time by the device's clock and by ours."""
        raise NotImplementedError

    @property
    def itself(self) -> Leaf:
        """The leaf that takes the values: the same one for all paths to it."""
        return self

    def delete(self, ts_ns: int, receive_ns: int) -> None:
        """The device reports that the path is gone."""

    @property
    def idle(self) -> bool:
        """Whether nothing is lost if the leaf is forgotten until its path comes again."""
        return False

    def forget(self) -> None:
        """The leaf is of no more use: release what it holds."""


class IgnoredLeaf(Leaf):
    """A leaf that repeats what its path states."""

    __slots__ = ()

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        return

    @property
    def idle(self) -> bool:
        return True


class OverflowLeaf(Leaf):
    """Stands for all paths beyond the limit of a device."""

    __slots__ = ("stream",)

    def __init__(self, stream: UpdateStream) -> None:
        super().__init__(())
        self.stream = stream

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        self.stream.device.count(self.stream.name, "dropped", self.stream.device.full)


class FactLeaf(Leaf):
    """Something about the device that is needed to read other values; also kept as a plain leaf."""

    __slots__ = ("fact", "places", "plain", "stream")

    def __init__(self, stream: UpdateStream, steps: Steps, fact: str, places: dict[str, str]) -> None:
        super().__init__(steps)
        self.stream, self.fact, self.places = stream, fact, places
        self.plain = PlainLeaf(stream, steps)

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        if not self.stream.device.take_fact(self.fact, self.places, value):
            self.stream.device.count(self.stream.name, "not-understood", f"{as_text(self.steps)}: cannot be read")
        self.plain.take(ts_ns, receive_ns, kind, value, duplicates)

    def forget(self) -> None:
        self.plain.forget()


class PlainLeaf(Leaf):
    """A path that is in no table: its values are rows of `gnmi_values`."""

    __slots__ = ("present", "source", "stream", "table")

    def __init__(self, stream: UpdateStream, steps: Steps) -> None:
        super().__init__(steps)
        self.stream = stream
        self.table = table = stream.device.rows.tables["gnmi_values"]
        self.source = table.source(batch=stream.batch, device=stream.device.name, path=as_text(steps))
        self.present = False

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        self.present = True
        if duplicates:
            self.stream.count_duplicates(duplicates)
        text = values.as_text(value)
        if len(text) > VALUE_BYTES:
            raise LimitExceeded(f"a value of more than {VALUE_BYTES >> 10} kB")
        self.table.text_bytes += len(text)
        self.table.rows.append((self.source, ts_ns, receive_ns, text, kind, duplicates, False))

    def delete(self, ts_ns: int, receive_ns: int) -> None:
        if self.present:
            self.present = False
            self.table.rows.append((self.source, ts_ns, receive_ns, "", "none", 0, True))

    @property
    def idle(self) -> bool:
        return not self.present

    def forget(self) -> None:
        self.table.release(self.source)


class PathLeaf(Leaf):
    """One of several paths to a leaf, such as with and without the names of modules: a value that comes by more than
    one of them counts once."""

    __slots__ = ("leaf",)

    def __init__(self, steps: Steps, leaf: ColumnLeaf) -> None:
        super().__init__(steps)
        self.leaf = leaf

    def take(self, ts_ns: int, receive_ns: int, kind: str, value: Any, duplicates: int) -> None:
        newest_ns, came_ns, path = self.leaf.newest
        if path is not self and (newest_ns == ts_ns or (ts_ns < newest_ns and receive_ns - came_ns <= SET_BACK_NS)):
            return  # a path that is late; where the newest one is silent, this one takes over
        self.leaf.newest = ts_ns, receive_ns, self
        self.leaf.take(ts_ns, receive_ns, kind, value, duplicates)

    def delete(self, ts_ns: int, receive_ns: int) -> None:
        self.leaf.newest = 0, 0, None
        self.leaf.delete(ts_ns, receive_ns)

    @property
    def itself(self) -> Leaf:
        return self.leaf

    @property
    def idle(self) -> bool:
        return self.leaf.idle

    def forget(self) -> None:
        if self.steps == self.leaf.steps:  # once
            self.leaf.forget()
