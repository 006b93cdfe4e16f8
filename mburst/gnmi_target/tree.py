"""Maps OpenConfig's paths to values of this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import MburstError
from ..telemetry.gnmi.path import Step, Steps
from . import netlink, schema
from .schema import LeafModel, is_above, matched
from .watermarks import DepthWindows, Queue, Watermarks

Value = int | str
Found = TypeVar("Found")
_FRESH_S = 0.004  # counters that are read within this time count as simultaneous
_NEIGHBOURS_FRESH_S = 0.25
MOST_NEIGHBOURS = 4096  # most neighbours that are served, so that made-up addresses cannot flood the tree
_LARGEST_MTU = 65535  # largest value in the model


@dataclass(frozen=True)
class ServedLeaf:
    """A path that exists on this machine now. `read` returns its value, or None if it has none."""

    steps: Steps
    kind: LeafModel
    read: Callable[[], Value | None]
    queue: Queue | None = None  # the queue of a depth, which comes from windows


@dataclass(frozen=True)
class LeafSelection:
    """The leaves that a path of a request selects. `models` restricts them to these modules; () selects all."""

    steps: Steps
    models: tuple[str, ...] = field(default=())

    def takes(self, steps: Steps) -> bool:
        return matched(self.steps, steps) is not None and (not self.models or schema.modules(steps)[-1] in self.models)


def read_ethers(path: Path) -> dict[str, str]:
    """Returns the name of each MAC address in a file in the format of ethers(5); an absent file is empty. Raises
    MburstError for an invalid line."""
    names = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        parts = words[0].split(":")
        if len(words) != 2 or len(parts) != 6 or not all(0 < len(part) <= 2 for part in parts):
            raise MburstError(f"{path} line {number}: not a MAC address and a name")
        names[":".join(part.zfill(2).lower() for part in parts)] = words[1]
    return names


class Tree:
    """The leaves of this machine's ports."""

    def __init__(self, ports: list[str], watermarks: Watermarks, names: dict[str, str], link_bps: int | None) -> None:
        self.ports = ports
        self.watermarks = watermarks
        self.names = names  # MAC → host
        self.link_bps = link_bps
        self.boot_ns = boot_time_ns()
        self.followed = 0  # number of leaves that subscriptions follow
        self._interfaces = _CachedReading(lambda: {found.name: found for found in netlink.interfaces()}, _FRESH_S)
        self._neighbours = _CachedReading(self._seen, _NEIGHBOURS_FRESH_S)
        self._parts = {schema.STATE: self._state, schema.COUNTERS: self._counters, schema.ETHERNET: self._ethernet,
                       schema.REFERENCE: self._references, schema.NEIGHBOUR: self._near,
                       schema.SYSTEM: self._system}  # fmt: skip

    def interface(self, port: str) -> netlink.Interface | None:
        """Returns a port's counters, at most _FRESH_S old."""
        return self._interfaces.get().get(port)

    def watch(self, selected: LeafSelection) -> DepthWindows:
        """Begin windows of the queues with depths that a path selects."""
        queues = self.watermarks.queues
        return self.watermarks.watch(
            queue for queue in queues
            if any(selected.takes((*_queue_path(queue), (name, ()))) for name in (schema.DEPTH, schema.MEAN_DEPTH))
        )  # fmt: skip

    def leaves(self, selected: LeafSelection, windows: DepthWindows) -> list[ServedLeaf]:
        """Returns the present leaves at and below a path; depths come from WINDOWS."""
        return [leaf for leaf in self._all(selected.steps, windows) if selected.takes(leaf.steps)]

    def _all(self, asked: Steps, windows: DepthWindows) -> Iterator[ServedLeaf]:
        for base, part in self._parts.items():
            if is_above(asked, base):
                yield from part()
        if is_above(asked, schema.QUEUE):
            for queue in self.watermarks.queues:
                yield from self._queue(queue, windows)

    def _present(self) -> list[str]:
        return [port for port in self.ports if self.interface(port)]

    def _state(self) -> Iterator[ServedLeaf]:
        for port in self._present():
            yield from self._fields(schema.STATE, port)

    def _counters(self) -> Iterator[ServedLeaf]:
        for port in self._present():
            yield from self._fields(schema.COUNTERS, port)

    def _fields(self, base: Steps, port: str) -> Iterator[ServedLeaf]:
        """Yields the leaves that are named like fields of netlink.Interface."""
        for name, kind in schema.SCHEMA[base].items():
            yield ServedLeaf(_at(base, port, name), kind, partial(self._field, port, name))

    def _field(self, port: str, name: str) -> Value | None:
        found = self.interface(port)
        if found is None:
            return None
        value: Value | None = getattr(found, {"ifindex": "index"}.get(name, name.replace("-", "_")))
        return None if name == "mtu" and found.mtu > _LARGEST_MTU else value

    def _ethernet(self) -> Iterator[ServedLeaf]:
        for port in self._present():
            yield ServedLeaf(_at(schema.ETHERNET, port, "port-speed"), schema.APPLIED, partial(self._speed, port))

    def _speed(self, port: str) -> str | None:
        speed = self.link_bps or netlink.link_speed(port)
        if not speed:
            return None
        return f"SPEED_{speed // 10**9}GB" if speed % 10**9 == 0 else f"SPEED_{speed // 10**6}MB"

    def _references(self) -> Iterator[ServedLeaf]:
        for port in dict.fromkeys(port for port, _ in self.watermarks.queues):
            yield ServedLeaf(_at(schema.REFERENCE, port, "interface"), schema.APPLIED, partial(str, port))

    def _queue(self, queue: Queue, windows: DepthWindows) -> Iterator[ServedLeaf]:
        kinds = schema.SCHEMA[schema.QUEUE]
        base = _queue_path(queue)
        taken: list[int] = []  # the last window from which the largest depth was read

        def largest() -> int | None:
            taken[:] = windows.take(queue) or ()
            return taken[0] if taken else None

        def mean() -> int | None:
            window = tuple(taken) or windows.take(queue)
            taken.clear()
            return window[1] if window else None

        reads: dict[str, Callable[[], Value | None]] = {
            "name": lambda: queue[1], schema.DEPTH: largest, schema.MEAN_DEPTH: mean,
            "transmit-octets": partial(self._counted, queue, "sent_bytes"),
            "transmit-pkts": partial(self._counted, queue, "sent_packets"),
            "dropped-pkts": partial(self._counted, queue, "dropped_packets"),
        }  # fmt: skip
        for name, kind in kinds.items():
            yield ServedLeaf((*base, (name, ())), kind, reads[name], queue if name == schema.DEPTH else None)

    def _counted(self, queue: Queue, field: str) -> int | None:
        found = self.watermarks.statistics(queue)
        return None if found is None else int(getattr(found, field))

    def _seen(self) -> list[tuple[str, str]]:
        """Returns (port, MAC) of the neighbours behind the ports."""
        indexes = {found.index: name for name, found in self._interfaces.get().items() if name in self.ports}
        found = [(indexes[one.port], one.mac) for one in netlink.neighbours() if one.port in indexes]
        return found[:MOST_NEIGHBOURS]

    def _near(self) -> Iterator[ServedLeaf]:
        for port, mac in self._neighbours.get():
            base = (*schema.NEIGHBOUR[:2], ("interface", (("name", port),)), schema.NEIGHBOUR[3],
                    ("neighbor", (("id", mac),)), schema.NEIGHBOUR[5])  # fmt: skip
            values = {"id": mac, "chassis-id": mac, "port-id": mac, "system-name": self.names.get(mac, mac)}
            for name, kind in schema.SCHEMA[schema.NEIGHBOUR].items():
                yield ServedLeaf((*base, (name, ())), kind, partial(str, values[name]))

    def _system(self) -> Iterator[ServedLeaf]:
        reads: dict[str, Callable[[], Value]] = {"hostname": socket.gethostname, "boot-time": lambda: self.boot_ns}
        for name, kind in schema.SCHEMA[schema.SYSTEM].items():
            yield ServedLeaf((*schema.SYSTEM, (name, ())), kind, reads[name])


class _CachedReading(Generic[Found]):
    """Caches the result of READ for as long as it is fresh."""

    def __init__(self, read: Callable[[], Found], fresh_s: float) -> None:
        self._read, self._fresh_s = read, fresh_s
        self._at = -fresh_s
        self._found: Found | None = None

    def get(self) -> Found:
        now = time.monotonic()
        if self._found is None or now - self._at > self._fresh_s:
            self._found, self._at = self._read(), now
        return self._found


def _at(base: Steps, port: str, name: str) -> Steps:
    """Returns the path of a leaf in a container of the schema with one key, the port."""
    return (*((step, tuple((key, port) for key, _ in keys)) for step, keys in base), (name, ()))


def _queue_path(queue: Queue) -> Steps:
    port, name = queue
    interface: Step = ("interface", (("interface-id", port),))
    return (*schema.QUEUE[:2], interface, *schema.QUEUE[3:5], ("queue", (("name", name),)), schema.QUEUE[6])


def boot_time_ns() -> int:
    """Returns when this machine started, in Unix nanoseconds."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
