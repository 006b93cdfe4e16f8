"""One subscription of a client: what it gets, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..telemetry.gnmi import messages
from ..telemetry.gnmi.path import PathName, Steps, as_message, as_text, steps_of
from ..units import NS_PER_S, format_duration
from .tree import DEPTH, Leaf, Tree, Value, is_known
from .watermarks import Queue, Watch

SHORTEST_NS = 10_000_000
TARGET_DEFINED_NS = NS_PER_S
LOOK_S = 0.5  # how often leaves that change seldom are looked at
BACKLOG = 20_000  # depths that may wait for a slow client
ENCODINGS = ("PROTO", "JSON_IETF", "JSON")


class Refused(Exception):
    """What the client asks for cannot be had; the message says why. It is INVALID_ARGUMENT."""


@dataclass(frozen=True)
class Wanted:
    """A Subscription of the client's list, checked."""

    steps: Steps
    mode: str
    interval_ns: int
    heartbeat_ns: int
    suppress: bool


def checked(request: Any) -> list[Wanted]:
    """The subscriptions of a SubscriptionList. Raises Refused."""
    if request.encoding >= len(messages.ENCODINGS) or messages.ENCODINGS[request.encoding] not in ENCODINGS:
        raise Refused(f"the encoding {request.encoding} is not supported: use {', '.join(ENCODINGS)}")
    if not request.subscription:
        raise Refused("there is no path to subscribe to")
    base = steps_of(request.prefix)
    return [_checked(base, part) for part in request.subscription]


def _checked(base: Steps, part: Any) -> Wanted:
    steps = base + steps_of(part.path)
    if part.path.origin not in ("", "openconfig") or not is_known(steps):
        raise Refused(f"the path {as_text(steps, part.path.origin)} is not supported")
    interval_ns = part.sample_interval
    mode = messages.STREAM_MODES[part.mode]
    if mode == "SAMPLE" and 0 < interval_ns < SHORTEST_NS:
        raise Refused(
            f"a sample interval of {format_duration(interval_ns)} is not supported: "
            f"{format_duration(SHORTEST_NS)} is the shortest"
        )
    if mode == "TARGET_DEFINED":
        interval_ns = TARGET_DEFINED_NS
    return Wanted(steps, mode, interval_ns or SHORTEST_NS, part.heartbeat_interval, part.suppress_redundant)


@cache
def _path(steps: Steps) -> Any:
    return as_message(PathName("", steps))


def typed(value: Value, encoding: str) -> Any:
    """A TypedValue; in JSON_IETF numbers of 64 bits are text (RFC 7951 section 6.1)."""
    if encoding == "PROTO":
        return messages.TypedValue(uint_val=value) if isinstance(value, int) else messages.TypedValue(string_val=value)
    import json

    if encoding == "JSON":
        return messages.TypedValue(json_val=json.dumps(value).encode())
    return messages.TypedValue(json_ietf_val=json.dumps(str(value)).encode())


class Stream:
    """Sends what one SubscriptionList asks for. `send` writes one SubscribeResponse, and waits for the client."""

    def __init__(self, tree: Tree, request: Any, send: Callable[[Any], Any]) -> None:
        self.tree, self.send = tree, send
        self.wanted = checked(request)
        self.encoding = messages.ENCODINGS[request.encoding]
        self.updates_only = request.updates_only
        self.watches: list[Watch] = []
        self.told: dict[Steps, Value] = {}  # what the client knows of leaves that are sent when they change

    def watch(self) -> Watch:
        """A watch of the queues that ends with the stream."""
        self.watches.append(self.tree.watermarks.watch())
        return self.watches[-1]

    def close(self) -> None:
        for watch in self.watches:
            self.tree.watermarks.forget(watch)
        self.watches.clear()

    async def everything(self, watch: Watch) -> None:
        """All leaves once, and the sync."""
        if not self.updates_only:
            for wanted in self.wanted:
                await self._notify(self.tree.leaves(wanted.steps, watch))
        await self.send(messages.SubscribeResponse(sync_response=True))

    async def run(self) -> None:
        """Stream until cancelled."""
        await self.everything(self.watch())
        tasks = [asyncio.create_task(task) for wanted in self.wanted for task in self._tasks(wanted)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self, wanted: Wanted) -> list[Any]:
        """What a path needs: samples, changes of depths as they are read, changes of the rest, a heartbeat."""
        if wanted.mode == "SAMPLE":
            return [self._sample(wanted, lambda leaf: True)]
        if wanted.mode == "TARGET_DEFINED":
            return [
                self._sample(wanted, lambda leaf: not leaf.is_steady),
                self._changes(wanted, lambda leaf: leaf.is_steady),
            ]
        tasks = [self._changes(wanted, lambda leaf: not leaf.is_depth), self._depths(wanted)]
        return [*tasks, self._heartbeat(wanted)] if wanted.heartbeat_ns else tasks

    async def _notify(self, leaves: list[Leaf], changed_only: bool = False) -> None:
        """One Notification of the leaves' values; with `changed_only`, of those that the client does not know."""
        found = []
        for leaf in leaves:
            value = leaf.read()
            if value is None or (changed_only and self.told.get(leaf.steps) == value):
                continue
            self.told[leaf.steps] = value
            found.append(messages.Update(path=_path(leaf.steps), val=typed(value, self.encoding)))
        if found:
            await self._send(time.time_ns(), found)

    async def _send(self, ts_ns: int, updates: list[Any], deletes: tuple[Any, ...] = ()) -> None:
        notification = messages.Notification(timestamp=ts_ns, update=updates, delete=deletes)
        await self.send(messages.SubscribeResponse(update=notification))

    async def _sample(self, wanted: Wanted, takes: Callable[[Leaf], bool]) -> None:
        """Samples at multiples of the interval since the start. Those that a slow client makes late are left out; no
        maximum is lost by that, since the next sample's is of the time since the last."""
        watch = self.watch()
        leaves, looked = [leaf for leaf in self.tree.leaves(wanted.steps, watch) if takes(leaf)], time.monotonic()
        begun, count, beat = time.monotonic(), 0, time.monotonic()
        while True:
            missed = max(0, int((time.monotonic() - begun) * NS_PER_S // wanted.interval_ns) - count)
            count += missed + 1
            await asyncio.sleep(max(0.0, begun + count * wanted.interval_ns / NS_PER_S - time.monotonic()))
            now = time.monotonic()
            if now - looked > LOOK_S:
                leaves, looked = [leaf for leaf in self.tree.leaves(wanted.steps, watch) if takes(leaf)], now
            due = wanted.heartbeat_ns and now - beat >= wanted.heartbeat_ns / NS_PER_S
            beat = now if due else beat
            await self._notify(leaves, changed_only=wanted.suppress and not due)

    async def _changes(self, wanted: Wanted, takes: Callable[[Leaf], bool]) -> None:
        """Leaves that change, appear or go."""
        watch = self.watch()
        while True:
            leaves = [leaf for leaf in self.tree.leaves(wanted.steps, watch) if takes(leaf)]
            await self._notify(leaves, changed_only=True)
            here = {leaf.steps for leaf in leaves}
            every = {steps for steps in self.told if _under(steps, wanted) and steps not in here}
            gone = [steps for steps in every if takes(Leaf(steps, lambda: None, _depth_of(steps)))]
            for steps in gone:
                del self.told[steps]
            if gone:
                await self._send(time.time_ns(), [], tuple(_path(steps) for steps in gone))
            await asyncio.sleep(LOOK_S)

    async def _heartbeat(self, wanted: Wanted) -> None:
        watch = self.watch()
        while True:
            await asyncio.sleep(wanted.heartbeat_ns / NS_PER_S)
            await self._notify(self.tree.leaves(wanted.steps, watch))

    async def _depths(self, wanted: Wanted) -> None:
        """Every reading of a queue's depth that differs from the one before, with the time of the reading; before it
        the last that did not, so that the client knows how long that one held."""
        paths = {leaf.queue: leaf.steps for leaf in self.tree.leaves(wanted.steps, self.watch()) if leaf.queue}
        if not paths:
            return
        changes = Changes(set(paths), asyncio.get_running_loop())
        self.tree.watermarks.listen(changes.add)
        try:
            while True:
                for queue, ts_ns, depth, duplicates in await changes.take():
                    update = messages.Update(
                        path=_path(paths[queue]), val=typed(depth, self.encoding), duplicates=duplicates
                    )
                    await self._send(ts_ns, [update])
        finally:
            self.tree.watermarks.unlisten(changes.add)


def _depth_of(steps: Steps) -> Queue | None:
    """The queue whose depth a path is."""
    return (steps[2][1][0][1], steps[5][1][0][1]) if steps[-1][0] == DEPTH else None


def _under(steps: Steps, wanted: Wanted) -> bool:
    from ..telemetry.gnmi.path import covers

    return covers(wanted.steps, steps)


class Changes:
    """Depths on their way from the reading thread to the event loop, at most BACKLOG of them: beyond, the readings of a
    queue become one with the largest depth, which says how many were left out."""

    def __init__(self, queues: set[Queue], loop: asyncio.AbstractEventLoop) -> None:
        self._queues, self._loop = queues, loop
        self._ready = asyncio.Event()
        self._waiting: list[tuple[Queue, int, int, int]] = []
        self._last: dict[Queue, tuple[int, int]] = {}  # queue → (time, depth) of the newest reading
        self._said: dict[Queue, int] = {}  # queue → time of the newest reading that was queued

    def add(self, queue: Queue, now_ns: int, depth: int) -> None:
        """A reading, in the reading thread."""
        if queue not in self._queues:
            return
        before = self._last.get(queue)
        self._last[queue] = (now_ns, depth)
        if before is not None and before[1] == depth:
            return
        found = [(queue, now_ns, depth, 0)]
        if before is not None and self._said.get(queue) != before[0]:
            found.insert(0, (queue, *before, 0))
        self._said[queue] = now_ns
        self._loop.call_soon_threadsafe(self._queue, found)

    def _queue(self, found: list[tuple[Queue, int, int, int]]) -> None:
        if len(self._waiting) + len(found) > BACKLOG:
            merged: dict[Queue, tuple[Queue, int, int, int]] = {}
            for queue, ts_ns, depth, duplicates in self._waiting:
                had = merged.get(queue)
                merged[queue] = (
                    (queue, ts_ns, max(depth, had[2]), had[3] + 1 + duplicates)
                    if had
                    else (queue, ts_ns, depth, duplicates)
                )
            self._waiting = list(merged.values())
        self._waiting += found
        self._ready.set()

    async def take(self) -> list[tuple[Queue, int, int, int]]:
        """(queue, time, depth, how many were left out) of what waits."""
        await self._ready.wait()
        self._ready.clear()
        waiting, self._waiting = self._waiting, []
        return waiting
