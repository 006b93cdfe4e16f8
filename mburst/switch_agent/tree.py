"""OpenConfig's paths → values of this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..errors import MburstError
from ..telemetry.gnmi.path import Step, Steps, covers
from . import netlink
from .watermarks import Queue, Watch, Watermarks

Value = int | str
DEPTH = "max-queue-len"
_FRESH_S = 0.004  # counters that are read within this are of one moment

# The schema: what can be subscribed to. `*` stands for any key.
QUEUE = (("qos", ()), ("interfaces", ()), ("interface", (("interface-id", "*"),)), ("output", ()), ("queues", ()),
         ("queue", (("name", "*"),)), ("state", ()))  # fmt: skip
INTERFACE = (("interfaces", ()), ("interface", (("name", "*"),)))
NEIGHBOUR = (("lldp", ()), ("interfaces", ()), ("interface", (("name", "*"),)), ("neighbors", ()),
             ("neighbor", (("id", "*"),)), ("state", ()))  # fmt: skip
SYSTEM = (("system", ()), ("state", ()))
SCHEMA: dict[Steps, tuple[str, ...]] = {
    QUEUE: ("name", DEPTH, "avg-queue-len", "transmit-octets", "transmit-pkts", "dropped-pkts"),
    (*QUEUE[:3], ("interface-ref", ()), ("state", ())): ("interface",),
    (*INTERFACE, ("state", ()), ("counters", ())): ("in-octets", "out-octets", "in-discards", "out-discards"),
    (*INTERFACE, ("ethernet", ()), ("state", ())): ("port-speed",),
    NEIGHBOUR: ("id", "chassis-id", "port-id", "system-name"),
    SYSTEM: ("hostname", "boot-time"),
}
STEADY = ("interface", "port-speed", "id", "name", "chassis-id", "port-id", "system-name", "hostname", "boot-time")


@dataclass(frozen=True)
class Leaf:
    """A path that this machine has now. `read` gives its value, or None where it has gone."""

    steps: Steps
    read: Callable[[], Value | None]
    queue: Queue | None = None  # whose depth it is, which comes from a watch

    @property
    def name(self) -> str:
        return self.steps[-1][0]

    @property
    def is_depth(self) -> bool:
        return self.queue is not None

    @property
    def is_steady(self) -> bool:
        """Whether it changes seldom, so that TARGET_DEFINED streams it when it changes."""
        return self.name in STEADY


def is_known(steps: Steps) -> bool:
    """Whether the schema has something at or under a path, which may have wildcards."""
    return any(_may_meet(steps, (*base, (leaf, ()))) for base, leaves in SCHEMA.items() for leaf in leaves)


def _may_meet(asked: Steps, schema: Steps) -> bool:
    if len(asked) > len(schema):
        return False
    for (name, keys), (known, known_keys) in zip(asked, schema, strict=False):
        if name not in (known, "*") or not {key for key, _ in keys} <= {key for key, _ in known_keys}:
            return False
    return True


def read_ethers(path: Path) -> dict[str, str]:
    """{MAC: name} of a file as ethers(5) has it; an absent one is empty. Raises MburstError for a line that is none."""
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
            raise MburstError(f"{path} line {number}: no MAC address and name")
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
        self._read_at = 0.0
        self._interfaces: dict[str, netlink.Interface] = {}

    def interface(self, port: str) -> netlink.Interface | None:
        """A port's counters, at most _FRESH_S old."""
        now = time.monotonic()
        if now - self._read_at > _FRESH_S:
            self._interfaces = {found.name: found for found in netlink.interfaces()}
            self._read_at = now
        return self._interfaces.get(port)

    def leaves(self, asked: Steps, watch: Watch) -> list[Leaf]:
        """The leaves at and under a path, as they are now; depths come from WATCH."""
        return [leaf for leaf in self._all(watch) if covers(asked, leaf.steps)]

    def _all(self, watch: Watch) -> Iterator[Leaf]:
        for port in self.ports:
            yield from self._counters(port)
        for port in dict.fromkeys(port for port, _ in self.watermarks.queues):
            reference = (*QUEUE[:2], ("interface", (("interface-id", port),)), ("interface-ref", ()), ("state", ()))
            yield Leaf((*reference, ("interface", ())), partial(str, port))
        for queue in self.watermarks.queues:
            yield from self._queue(queue, watch)
        yield from self._neighbours()
        yield Leaf((*SYSTEM, ("hostname", ())), socket.gethostname)
        yield Leaf((*SYSTEM, ("boot-time", ())), lambda: self.boot_ns)

    def _counters(self, port: str) -> Iterator[Leaf]:
        base = (INTERFACE[0], ("interface", (("name", port),)))
        for name in SCHEMA[(*INTERFACE, ("state", ()), ("counters", ()))]:
            field = name.replace("-", "_")

            def read(field: str = field) -> int | None:
                found = self.interface(port)
                return getattr(found, field) if found else None

            yield Leaf((*base, ("state", ()), ("counters", ()), (name, ())), read)
        yield Leaf((*base, ("ethernet", ()), ("state", ()), ("port-speed", ())), lambda: self._speed(port))

    def _speed(self, port: str) -> str | None:
        speed = self.link_bps or netlink.link_speed(port)
        if not speed:
            return None
        return f"SPEED_{speed // 10**9}GB" if speed % 10**9 == 0 else f"SPEED_{speed // 10**6}MB"

    def _queue(self, queue: Queue, watch: Watch) -> Iterator[Leaf]:
        port, name = queue
        top: Step = ("interface", (("interface-id", port),))
        base = (*QUEUE[:2], top, *QUEUE[3:5], ("queue", (("name", name),)), ("state", ()))
        yield Leaf((*base, ("name", ())), lambda: name)
        depths: list[int] = []

        def largest() -> int:
            depths[:] = watch.take(queue)
            return depths[0]

        yield Leaf((*base, (DEPTH, ())), largest, queue)
        yield Leaf((*base, ("avg-queue-len", ())), lambda: depths[1] if depths else watch.take(queue)[1])
        for leaf, field in (("transmit-octets", "sent_bytes"), ("transmit-pkts", "sent_packets"),
                            ("dropped-pkts", "dropped_packets")):  # fmt: skip

            def read(field: str = field) -> int | None:
                try:
                    return getattr(self.watermarks.statistics(queue), field)  # type: ignore[no-any-return]
                except (OSError, KeyError):
                    return None

            yield Leaf((*base, (leaf, ())), read)

    def _neighbours(self) -> Iterator[Leaf]:
        indexes = {found.index: found.name for found in netlink.interfaces() if found.name in self.ports}
        for neighbour in netlink.neighbours():
            port, mac = indexes.get(neighbour.port), neighbour.mac
            if port is None:
                continue
            base = (
                *NEIGHBOUR[:2],
                ("interface", (("name", port),)),
                NEIGHBOUR[3],
                ("neighbor", (("id", mac),)),
                NEIGHBOUR[5],
            )
            said = {"id": mac, "chassis-id": mac, "port-id": mac, "system-name": self.names.get(mac, mac)}
            for name, value in said.items():
                yield Leaf((*base, (name, ())), partial(str, value))


def boot_time_ns() -> int:
    """When this machine started, Unix nanoseconds."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
