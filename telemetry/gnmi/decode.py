"""Notifications → rows. One DeviceState for each target, one UpdateStream for each of its subscriptions.

Decoding is done once for each path: the serialized path under its serialized prefix leads to the object that takes the
values of that leaf. Values of one entity (a queue, a port) with the same time become one row, even if they come in
several notifications.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ...units import PLAUSIBLE_NS
from . import limits, values
from .deletes import Branches
from .entities import ColumnLeaf, Entity, MaskLeaf, short
from .leaves import FactLeaf, IgnoredLeaf, Leaf, OverflowLeaf, PathLeaf, PlainLeaf
from .neighbours import NeighbourEntity
from .path import NoPath, Steps, as_text, steps_in, without_modules
from .records import Record, RecordLeaf
from .rows import CollectedRows, CollectionEnded
from .vendors import LeafMatch, Meaning, Tables

SETTLED_NS = 250_000_000  # after this a row no longer waits for more values


class DeviceState:
    """The state of a target, over all its subscriptions and connections."""

    def __init__(
        self,
        name: str,
        rows: CollectedRows,
        batch: str,
        tables: Tables,
        rack: str = "",
        speeds: dict[str, int] | None = None,
        most_paths: int = limits.PATHS,
    ) -> None:
        self.name = name
        self.rows = rows
        self.batch = batch
        self.rack = rack
        self.tables = tables
        self.speeds = dict(speeds or {})  # port → bits per second
        self.boot_ns = 0  # 0: not reported
        self.cleared: dict[str, int] = {}  # port → when its counters were cleared
        self.aliases: dict[str, str] = {}  # qos interface-id → port
        self.facts: dict[str, int] = {}
        self.resets = self.wraps = self.values = self.messages = 0
        self.most_paths = most_paths
        self.paths = 0  # that are known, including entities that records name
        self.deleted = 0  # paths since the last check of the known ones
        self.streams: list[UpdateStream] = []
        self.overflowed = False  # a path was refused
        self._links = 0  # rows of neighbours since the last report
        self._counted: Counter[tuple[str, str, str]] = Counter()  # (subscription, event, detail)
        self.least_lag_ns: int | None = None
        self.largest_lag_ns = 0
        self.lag_ns = 0  # of the newest message
        self.lag_messages = 0
        self.rtt_ns: int | None = None

    def port(self, name: str) -> str:
        """The port's own name, if the device has reported it for an interface-id."""
        return self.aliases.get(name, name)

    @property
    def full(self) -> str:
        """The report about a path beyond the limit."""
        return f"more than {self.most_paths:,} paths"

    def take_fact(self, fact: str, places: dict[str, str], value: Any) -> bool:
        """Process a fact about the device. Returns False if it is not one. Raises LimitExceeded."""
        if fact == "alias":
            self.aliases[places["port"]] = short(value)
            return True
        number = values.as_time(value) if fact in ("boot", "clear") else values.as_integer(value)
        if number is None:
            return False
        if fact == "boot":
            self.boot_ns = number
        elif fact == "clear":
            self.cleared[places["port"]] = number
        else:
            self.facts[fact] = number
        return True

    def reset_since(self, port: str, since_ns: int) -> bool:
        """Whether the device reports that it started, or that the counters of the port were cleared, after a time."""
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
        """Add a row of `gnmi_events`."""
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
        """Add a row of `device_clocks` for the messages since the last one."""
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

    @property
    def may_link(self) -> bool:
        """Whether another row of a neighbour is allowed before the next report."""
        return self._links < limits.LINKS

    def link(self, **row: Any) -> None:
        """Add a row of `links`."""
        self._links += 1
        self.rows.add("links", batch=self.batch, device=self.name, rack=self.rack, **row)

    def report(self, now_ns: int) -> None:
        """Add rows of `gnmi_events` for what was counted since the last call."""
        self._links = 0
        for (subscription, event, detail), amount in list(self._counted.items()):
            self.event(subscription, event, now_ns, amount=amount, detail=detail)
        self._counted.clear()

    def count(self, subscription: str, event: str, detail: str = "", amount: int = 1) -> None:
        """Counts something that is reported at intervals and not each time. `detail` states the fault, without any text
        from the device: details beyond limits.DETAILS are counted together."""
        key = (subscription, event, detail)
        if key not in self._counted and len(self._counted) >= limits.DETAILS:
            key = (subscription, event, "others")
        self._counted[key] += amount

    def not_understood(self, subscription: str, error: Exception) -> None:
        """Counts something from the device that could not be processed, for whatever reason."""
        if isinstance(error, limits.LimitExceeded):
            self.count(subscription, "dropped", str(error))
        elif isinstance(error, values.NotUnderstood | NoPath):
            self.count(subscription, "not-understood", str(error))
        else:
            self.count(subscription, "not-understood", type(error).__name__)


class UpdateStream:
    """The decoding of one subscription of a device. `interval_ns` is the requested interval, 0 if there is none."""

    def __init__(self, device: DeviceState, name: str, interval_ns: int = 0) -> None:
        self.device = device
        self.name = name
        self.batch = f"{device.batch}-{name}"  # two subscriptions to one counter count the same packets
        self.interval_ns = interval_ns
        self.values = 0  # received so far
        self.gap_ns = 0  # the device's time of the last message before a gap
        self._newest_ns = self._resumed_ns = 0
        self._feeding = False
        self._prefixes: dict[bytes, tuple[Steps, dict[bytes, Leaf]]] = {}
        self._prefix = b""  # the newest
        self._cached_bytes = 0  # of paths in `_prefixes`
        self._leaves: dict[Steps, Leaf] = {}
        self._columns: dict[Steps, ColumnLeaf] = {}  # by their steps without modules
        self._refused = OverflowLeaf(self)
        self._entities: dict[tuple[str, ...], Entity | Record | NeighbourEntity] = {}
        self.open: list[Entity | Record | NeighbourEntity] = []  # those with values that are in no row yet
        self.unwritten: set[NeighbourEntity] = set()  # those that changed when no more rows of them were allowed
        device.streams.append(self)

    def ports(self) -> set[str]:
        """The names of the ports that the device has reported values of."""
        return {str(port) for entity in self._entities.values() if (port := getattr(entity, "port", ""))}

    def resume(self, now_ns: int) -> None:
        """The connection is back after a gap: mark it in the windows of the next rows."""
        self.flush()
        self._resumed_ns, self.gap_ns = now_ns, self._newest_ns

    def poll(self, now_ns: int) -> None:
        """The device is asked again for everything."""
        self._resumed_ns = now_ns

    def sync(self) -> None:
        """The device has sent everything: neighbours that it reported before a gap or poll, but not since, are gone."""
        self.flush()
        if not self._resumed_ns:
            return
        for entity in self._entities.values():
            if isinstance(entity, NeighbourEntity) and entity.receive_ns < self._resumed_ns:
                entity.leave(self._resumed_ns)
        self._resumed_ns = 0

    def feed(self, notification: Any, receive_ns: int) -> None:
        """Process a ReadNotification of any content: anything that is not understood is counted. The lock of the rows
        is held, and released now and then. Raises CollectionEnded."""
        self._feeding = True
        try:
            self._feed(notification, receive_ns)
        except CollectionEnded:
            raise
        except Exception as error:
            self.device.not_understood(self.name, error)
        finally:
            self._feeding = False

    def _feed(self, notification: Any, receive_ns: int) -> None:
        device = self.device
        ts_ns = self._time(notification.timestamp, receive_ns)
        updates, deletes = notification.update, notification.delete
        if len(updates) + len(deletes) > limits.UPDATES:
            raise limits.LimitExceeded(f"a message of more than {limits.UPDATES:,} updates")
        base, cache = self._known(notification.prefix)
        device.messages += 1
        if deletes:
            self._delete(self._paths(deletes, base), ts_ns, receive_ns, set())
        seen: set[Leaf] | None = set() if notification.atomic else None
        self._take_all(updates, base, cache, ts_ns, receive_ns, seen)
        if seen is not None:
            self._delete([base], ts_ns, receive_ns, seen)

    def _take_all(
        self, updates: Any, base: Steps, cache: dict[bytes, Leaf], ts_ns: int, receive_ns: int, seen: set[Leaf] | None
    ) -> None:
        """Process updates, and count them, even if the collection ends in between, since they have rows. Raises
        CollectionEnded."""
        device, number = self.device, 0
        try:
            for number, update in enumerate(updates, 1):
                try:
                    leaf = cache.get(update.path) or self._cache(cache, base, update.path)
                    val = update.val
                    if seen is None and val.WhichOneof("value") == "uint_val":  # nearly all of them
                        leaf.take(ts_ns, receive_ns, "uint", val.uint_val, update.duplicates)
                    else:
                        self._take(leaf, update, ts_ns, receive_ns, seen)
                except CollectionEnded:
                    raise
                except Exception as error:
                    device.not_understood(self.name, error)
                if not number % limits.AT_ONCE:
                    device.rows.breathe()
        finally:
            device.values += number
            self.values += number

    def _time(self, ts_ns: int, receive_ns: int) -> int:
        """The time of a notification, and its evidence about the clock of the device."""
        device = self.device
        if not PLAUSIBLE_NS[0] <= ts_ns < PLAUSIBLE_NS[1]:
            device.count(self.name, "not-understood", "invalid timestamp: the time of receipt is used")
            return receive_ns
        lag = device.lag_ns = receive_ns - ts_ns
        if device.least_lag_ns is None or lag < device.least_lag_ns:
            device.least_lag_ns = lag
        if lag > device.largest_lag_ns:
            device.largest_lag_ns = lag
        device.lag_messages += 1
        if ts_ns > self._newest_ns:
            self._newest_ns = ts_ns
        return ts_ns

    def _known(self, prefix: bytes) -> tuple[Steps, dict[bytes, Leaf]]:
        """The steps of a prefix, and the leaves under it by the bytes of their paths. Raises NoPath, LimitExceeded."""
        known = self._prefixes.get(prefix)
        if known is None:
            steps = steps_in(prefix)
            self._count_bytes(prefix)
            known = self._prefixes[prefix] = (steps, {})
        self._prefix = prefix
        return known

    def _cache(self, cache: dict[bytes, Leaf], base: Steps, path: bytes) -> Leaf:
        """The leaf of a path with bytes that were not seen before. Raises NoPath, LimitExceeded."""
        leaf = self._leaf(base + steps_in(path))
        if leaf is not self._refused:
            self._count_bytes(path)
            cache[path] = leaf
        return leaf

    def _count_bytes(self, path: bytes) -> None:
        self._cached_bytes += len(path) + limits.LONG_PATH
        if self._cached_bytes > limits.CACHE_BYTES:
            self._forget_bytes()

    def _forget_bytes(self) -> None:
        """From now on, find leaves by their steps again. The cache that is in use stays."""
        for _, cache in self._prefixes.values():
            cache.clear()
        self._prefixes = {prefix: known for prefix, known in self._prefixes.items() if prefix == self._prefix}
        self._cached_bytes = 0

    def _take(self, leaf: Leaf, update: Any, ts_ns: int, receive_ns: int, seen: set[Leaf] | None) -> None:
        kind, value = values.read(update)
        if kind == "json":
            parts = values.leaves(value, leaf.steps, self.device.tables.list_keys)
            for number, (steps, part) in enumerate(parts, 1):
                below = self._leaf(steps)
                below.take(ts_ns, receive_ns, values.kind_of(part), part, update.duplicates)
                if seen is not None:
                    seen.add(below.itself)
                if not number % limits.AT_ONCE:
                    self.device.rows.breathe()
            return
        if seen is not None:
            seen.add(leaf.itself)
        leaf.take(ts_ns, receive_ns, kind, value, update.duplicates)

    def _leaf(self, steps: Steps) -> Leaf:
        """The leaf of a path; if it is beyond the limit, the leaf of all such paths. Raises LimitExceeded."""
        leaf = self._leaves.get(steps)
        if leaf is None:
            weight = _weight(steps)
            if not self._room(weight):
                return self._refused
            leaf = self._leaves[steps] = self._resolved(steps)
            self.device.paths += weight
        return leaf

    def _resolved(self, steps: Steps) -> Leaf:
        """The object that takes the values of a path that is seen for the first time."""
        if (fact := self.device.tables.fact(steps)) is not None:
            return FactLeaf(self, steps, *fact)
        found = self.device.tables.rule(steps)
        if found is None:
            return PlainLeaf(self, steps)
        if found.rule.is_record:
            record = self._entity(found, ("record", as_text(steps[:-1])), Record)
            return RecordLeaf(record, steps, found.leaf)
        meaning = found.meaning
        if meaning is None or meaning.kind == "plain":
            return PlainLeaf(self, steps)
        if meaning.kind == "ignore":
            return IgnoredLeaf(steps)
        names = {key: text.format(**found.places) for key, text in found.rule.names.items()}
        kind = NeighbourEntity if found.rule.table == "links" else Entity
        key = (found.rule.vendor, found.rule.table, *names.values(), found.rule.semantics, str(found.rule.window_ns))
        entity = self._entity(found, key, kind, names)
        if meaning.kind == "mask":
            return MaskLeaf(entity, steps, meaning)
        return self._column(entity, steps, meaning)

    def _column(self, entity: Any, steps: Steps, meaning: Meaning) -> Leaf:
        """The leaf of a column; if another path leads to it, both paths lead to one leaf from now on."""
        plain = without_modules(steps)
        leaf = self._columns.get(plain)
        if leaf is None or leaf.entity is not entity:
            self._columns[plain] = made = ColumnLeaf(entity, steps, meaning)
            return made
        if self._leaves.get(leaf.steps) is leaf:
            self._leaves[leaf.steps] = first = PathLeaf(leaf.steps, leaf)
            leaf.newest = leaf.entity.ts_ns if leaf.filled else leaf.last_ns, leaf.entity.receive_ns, first
            self._forget_bytes()
        return PathLeaf(steps, leaf)

    def forget_column(self, leaf: ColumnLeaf) -> None:
        """A leaf of a column is of no more use."""
        plain = without_modules(leaf.steps)
        if self._columns.get(plain) is leaf:
            del self._columns[plain]

    def _entity(self, found: LeafMatch, key: tuple[str, ...], kind: Any, names: dict[str, str] | None = None) -> Any:
        entity = self._entities.get(key)
        if entity is None:
            entity = self._entities[key] = kind(self, found.rule, names or {})
        return entity

    def count_duplicates(self, amount: int) -> None:
        """Count values that the device left out."""
        self.device.count(self.name, "duplicates", amount=amount)

    def entity_of_record(self, record: Record, names: dict[str, str]) -> Entity | None:
        """The entity that a record is about; None if it is beyond the limit."""
        key = (record.rule.table, *names.values(), record.rule.semantics, "record")
        found = self._entities.get(key)
        if not isinstance(found, Entity):
            if not self._room(1):
                return None
            self.device.paths += 1
            found = self._entities[key] = Entity(self, record.rule, names)
        return found

    # --- what is gone -----------------------------------------------------------------------------------------------

    def _paths(self, deletes: Any, base: Steps) -> Iterator[Steps]:
        """The paths of deletes. Raises CollectionEnded."""
        for number, path in enumerate(deletes, 1):
            try:
                yield base + steps_in(path)
            except ValueError as error:
                self.device.not_understood(self.name, error)
            if not number % limits.AT_ONCE:
                self.device.rows.breathe()

    def _delete(self, paths: Iterable[Steps], ts_ns: int, receive_ns: int, kept: set[Leaf]) -> None:
        """Delete the leaves under PATHS, except those in KEPT. Raises CollectionEnded."""
        branches = Branches(paths)
        if branches.refused:
            detail = f"deletes of more than {limits.DELETE_SHAPES} shapes in one message"
            self.device.count(self.name, "dropped", detail, branches.refused)
        for number, (steps, leaf) in enumerate(self._leaves.items(), 1):
            if not leaf.idle and leaf.itself not in kept and branches.cover(steps):
                leaf.delete(ts_ns, receive_ns)
                self.device.deleted += leaf.idle
            if not number % limits.AT_ONCE:
                self.device.rows.breathe()

    def _room(self, weight: int) -> bool:
        """Whether the device may have another path; paths that it has deleted make room."""
        device = self.device
        if device.paths + weight > device.most_paths and device.deleted * 16 > device.most_paths:
            device.deleted = 0
            for stream in device.streams:
                if stream is self or not stream._feeding:
                    stream._sweep()
        if device.paths + weight <= device.most_paths:
            return True
        device.overflowed = True
        return False

    def _sweep(self) -> None:
        """Forget the leaves that the device has deleted, and the entities without any leaf."""
        self._forget_bytes()
        for steps in [steps for steps, leaf in self._leaves.items() if leaf.idle]:
            self._leaves.pop(steps).forget()
            self.device.paths -= _weight(steps)
        for key, entity in list(self._entities.items()):
            if isinstance(entity, Entity) and not entity.slots and not entity.waiting:
                self.device.paths -= key[-1] == "record"
                del self._entities[key]
                entity.forget()

    def close(self) -> None:
        """Another stream replaces this one: make rows of waiting values, and release everything it holds."""
        self.flush()
        self.device.streams.remove(self)
        self.device.paths -= sum(_weight(steps) for steps in self._leaves)
        self.device.paths -= sum(key[-1] == "record" for key in self._entities)
        for part in (*self._leaves.values(), *self._entities.values()):
            part.forget()

    # --- rows -------------------------------------------------------------------------------------------------------

    def flush(self, settled_before_ns: int | None = None) -> None:
        """Make rows of the values that are in none yet; with a time, only of those received before it, and not of those
        that the next row of their column may have."""
        waiting, self.open = self.open, []
        for entity in waiting:
            if settled_before_ns is not None and entity.receive_ns >= settled_before_ns:
                self.open.append(entity)
                continue
            entity.waiting = False
            try:
                entity.emit()
            except Exception as error:
                self.device.not_understood(self.name, error)
        if settled_before_ns is None:
            for entity in self._entities.values():
                if isinstance(entity, Entity):
                    entity.pay(*entity.owed)

    def settle(self) -> None:
        """Make rows of the values that wait for no others; none while a notification is being processed."""
        if self._feeding:
            return
        self.flush(time.time_ns() - SETTLED_NS)
        while self.unwritten and self.device.may_link:
            self.unwritten.pop().write()


def _weight(steps: Steps) -> int:
    """How many paths a path counts as. Raises LimitExceeded."""
    letters = sum(len(name) + sum(len(key) + len(value) + 3 for key, value in keys) + 1 for name, keys in steps)
    if letters > limits.PATH_BYTES:
        raise limits.LimitExceeded(f"a path of more than {limits.PATH_BYTES:,} letters")
    return 1 + letters // limits.LONG_PATH
