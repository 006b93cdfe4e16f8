"""Notifications → rows. One Device for each target, one Stream for each of its subscriptions.

Decoding is done once for each path: the serialized path under its serialized prefix leads to the object that takes the
values of that leaf. Those of one entity (a queue, a port) that carry the same time become one row, also when they come
in several notifications.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from . import values
from .entities import Entity, FactLeaf, Ignored, Leaf, Neighbour, Plain, Record, RecordLeaf, Slot
from .path import Steps, as_text, covers, steps_in
from .rows import Rows
from .vendors import Found, Tables

PLAUSIBLE_NS = (946_684_800 * 10**9, 4_102_444_800 * 10**9)  # 2000 to 2100
SETTLED_NS = 250_000_000  # after this a row waits for no more of its values


class Device:
    """What is known of a target, over all its subscriptions and connections."""

    def __init__(
        self, name: str, rows: Rows, batch: str, tables: Tables, rack: str = "", speeds: dict[str, int] | None = None
    ) -> None:
        self.name = name
        self.rows = rows
        self.batch = batch
        self.rack = rack
        self.tables = tables
        self.speeds = dict(speeds or {})  # port → bits a second
        self.boot_ns = 0  # 0: not told
        self.cleared: dict[str, int] = {}  # port → when its counters were cleared
        self.aliases: dict[str, str] = {}  # qos interface-id → port
        self.facts: dict[str, int] = {}
        self.resets = self.wraps = self.values = self.messages = 0
        self._counted: Counter[tuple[str, str, str]] = Counter()  # (subscription, event, detail)
        self.least_lag_ns: int | None = None
        self.largest_lag_ns = 0
        self.lag_ns = 0  # of the newest message
        self.lag_messages = 0
        self.rtt_ns: int | None = None

    def port(self, name: str) -> str:
        """A port's own name where the device has told it for an interface-id."""
        return self.aliases.get(name, name)

    def take_fact(self, fact: str, places: dict[str, str], value: Any) -> None:
        """What the device says about itself."""
        if fact == "alias":
            self.aliases[places["port"]] = str(value)
            return
        number = values.as_time(value) if fact in ("boot", "clear") else values.as_integer(value)
        if number is None:
            return
        if fact == "boot":
            self.boot_ns = number
        elif fact == "clear":
            self.cleared[places["port"]] = number
        else:
            self.facts[fact] = number

    def reset_since(self, port: str, since_ns: int) -> bool:
        """Whether the device says that it started, or that somebody cleared the port's counters, after a time."""
        return self.boot_ns > since_ns or self.cleared.get(port, 0) > since_ns

    def event(
        self,
        subscription: str,
        event: str,
        ts_ns: int,
        until_ns: int | None = None,
        amount: int | None = None,
        detail: str = "",
    ) -> None:
        """A row of `gnmi_events`."""
        self.rows.add(
            "gnmi_events",
            batch=self.batch,
            device=self.name,
            subscription=subscription,
            ts_ns=ts_ns,
            until_ns=until_ns,
            event=event,
            amount=amount,
            detail=detail,
        )

    def estimate_clock(self, now_ns: int) -> None:
        """A row of `device_clocks` for the messages since the last one."""
        if self.least_lag_ns is None:
            return
        way = None if self.rtt_ns is None else self.rtt_ns // 2
        self.rows.add(
            "device_clocks",
            batch=self.batch,
            device=self.name,
            ts_ns=now_ns,
            messages=self.lag_messages,
            least_lag_ns=self.least_lag_ns,
            largest_lag_ns=self.largest_lag_ns,
            rtt_ns=self.rtt_ns,
            offset_ns=(way or 0) - self.least_lag_ns,
            uncertainty_ns=way,
        )
        self.least_lag_ns, self.largest_lag_ns, self.lag_messages = None, 0, 0

    def told(self, now_ns: int) -> None:
        """Rows of `gnmi_events` for what was counted since the last call."""
        for (subscription, event, detail), amount in list(self._counted.items()):
            self.event(subscription, event, now_ns, amount=amount, detail=detail)
        self._counted.clear()

    def count(self, subscription: str, event: str, detail: str = "", amount: int = 1) -> None:
        """Counts what is told once in a while rather than each time."""
        self._counted[subscription, event, detail] += amount


class Stream:
    """The decoding of one subscription of a device. `interval_ns`: what was asked for; 0 where nothing was."""

    def __init__(self, device: Device, name: str, interval_ns: int = 0) -> None:
        self.device = device
        self.name = name
        self.interval_ns = interval_ns
        self.gap_ns = 0  # device's time of the last that was heard before a gap
        self._newest_ns = self._resumed_ns = 0
        self._prefixes: dict[bytes, tuple[Steps, dict[bytes, Leaf]]] = {b"": ((), {})}
        self._leaves: dict[Steps, Leaf] = {}
        self._entities: dict[tuple[str, ...], Entity | Record | Neighbour] = {}
        self.open: list[Entity | Record | Neighbour] = []  # those that hold values which are in no row yet

    def resume(self, now_ns: int) -> None:
        """The connection is back after a gap: the windows of the next rows have it in them."""
        self.flush()
        self._resumed_ns, self.gap_ns = now_ns, self._newest_ns

    def sync(self) -> None:
        """The device has sent all that there is: neighbours that it named before a gap, but not since, have gone."""
        self.flush()
        for entity in self._entities.values():
            if isinstance(entity, Neighbour) and entity.receive_ns < self._resumed_ns:
                entity.leave(self._resumed_ns)

    def feed(self, notification: Any, receive_ns: int) -> None:
        """Take a ReadNotification in. Never raises for what a device sends; what cannot be understood is counted."""
        device = self.device
        ts_ns = notification.timestamp
        if PLAUSIBLE_NS[0] <= ts_ns < PLAUSIBLE_NS[1]:
            lag = device.lag_ns = receive_ns - ts_ns
            if device.least_lag_ns is None or lag < device.least_lag_ns:
                device.least_lag_ns = lag
            if lag > device.largest_lag_ns:
                device.largest_lag_ns = lag
            device.lag_messages += 1
            if ts_ns > self._newest_ns:
                self._newest_ns = ts_ns
        else:
            device.count(
                self.name, "not-understood", f"the time {ts_ns} is no Unix time in nanoseconds: taken as of receipt"
            )
            ts_ns = receive_ns
        prefix = notification.prefix
        known = self._prefixes.get(prefix)
        if known is None:
            known = self._prefixes[prefix] = (steps_in(prefix), {})
        base, cache = known
        if notification.delete:
            self._delete([base + steps_in(path) for path in notification.delete], ts_ns, receive_ns, set())
        seen: set[Leaf] | None = set() if notification.atomic else None
        updates = notification.update
        for update in updates:
            leaf = cache.get(update.path)
            if leaf is None:
                leaf = cache[update.path] = self._leaf(base + steps_in(update.path))
            val = update.val
            if seen is None and val.WhichOneof("value") == "uint_val":  # nearly all of them
                leaf.take(ts_ns, receive_ns, "uint", val.uint_val, update.duplicates)
            else:
                self._take(leaf, update, ts_ns, receive_ns, seen)
        if seen is not None:
            self._delete([base], ts_ns, receive_ns, seen)
        device.messages += 1
        device.values += len(updates)

    def _take(self, leaf: Leaf, update: Any, ts_ns: int, receive_ns: int, seen: set[Leaf] | None) -> None:
        try:
            kind, value = values.read(update)
        except values.NotUnderstood as error:
            self.device.count(self.name, "not-understood", f"{as_text(leaf.steps)}: {error}")
            return
        if kind == "json":
            for steps, part in values.leaves(value, leaf.steps, self.device.tables.list_keys):
                below = self._leaf(steps)
                below.take(ts_ns, receive_ns, values.kind_of(part), part, update.duplicates)
                if seen is not None:
                    seen.add(below)
            return
        if seen is not None:
            seen.add(leaf)
        leaf.take(ts_ns, receive_ns, kind, value, update.duplicates)

    def _leaf(self, steps: Steps) -> Leaf:
        leaf = self._leaves.get(steps)
        if leaf is None:
            leaf = self._leaves[steps] = self._resolved(steps)
        return leaf

    def _resolved(self, steps: Steps) -> Leaf:
        """What takes the values of a path that is seen for the first time."""
        if (fact := self.device.tables.fact(steps)) is not None:
            return FactLeaf(self, steps, *fact)
        found = self.device.tables.rule(steps)
        if found is None:
            return Plain(self, steps)
        if found.rule.is_record:
            record = self._entity(found, ("record", as_text(steps[:-1])), Record)
            return RecordLeaf(record, steps, found.leaf)
        meaning = found.meaning
        if meaning is None or meaning.kind == "plain":
            return Plain(self, steps)
        if meaning.kind == "ignore":
            return Ignored(steps)
        names = {key: text.format(**found.places) for key, text in found.rule.names.items()}
        kind = Neighbour if found.rule.table == "links" else Entity
        key = (found.rule.table, *names.values(), found.rule.semantics, str(found.rule.window_ns))
        entity = self._entity(found, key, kind, names)
        return Slot(entity, steps, meaning)

    def _entity(self, found: Found, key: tuple[str, ...], kind: Any, names: dict[str, str] | None = None) -> Any:
        entity = self._entities.get(key)
        if entity is None:
            entity = self._entities[key] = kind(self, found.rule, names or {})
        return entity

    def count_duplicates(self, amount: int) -> None:
        """The device left values out."""
        self.device.count(self.name, "duplicates", amount=amount)

    def entity_of_record(self, record: Record, names: dict[str, str]) -> Entity:
        """The entity that a record says it is about."""
        key = (record.rule.table, *names.values(), record.rule.semantics, "record")
        found = self._entities.get(key)
        if not isinstance(found, Entity):
            found = self._entities[key] = Entity(self, record.rule, names)
        return found

    def _delete(self, paths: list[Steps], ts_ns: int, receive_ns: int, kept: set[Leaf]) -> None:
        """The leaves under PATHS are gone but for those in KEPT."""
        for steps, leaf in self._leaves.items():
            if leaf not in kept and any(covers(path, steps) for path in paths):
                leaf.delete(ts_ns, receive_ns)

    def flush(self, settled_before_ns: int | None = None) -> None:
        """Make rows of the values that are in none yet; with a time, only of those received before it."""
        waiting, self.open = self.open, []
        for entity in waiting:
            if settled_before_ns is None or entity.receive_ns < settled_before_ns:
                entity.waiting = False
                entity.emit()
            else:
                self.open.append(entity)

    def settle(self) -> None:
        """Make rows of the values that wait for no others."""
        self.flush(time.time_ns() - SETTLED_NS)
