"""Changes of the depths of queues, on their way from the reading thread to a subscription."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable

from .watermarks import Queue

BACKLOG = 4096  # depths that may wait for a slow client

Depth = tuple[Queue, int, int, int]  # queue, time, bytes, number of readings that were left out


class DepthChanges:
    """Readings of QUEUES that differ from the previous reading. At most BACKLOG of them wait; beyond that, the readings
    of a queue are merged into one with the largest depth and the number of readings left out. A change is preceded by
    the last reading before it, so that clients know how long the earlier depth lasted. With `updates_only` the initial
    depth of a queue is not sent."""

    def __init__(self, queues: Iterable[Queue], loop: asyncio.AbstractEventLoop, *, updates_only: bool) -> None:
        self._loop = loop
        self._ready = asyncio.Event()
        self._lock = threading.Lock()
        self._waiting: list[Depth] = []
        self._last: dict[Queue, tuple[int, int]] = {}  # queue → (time, depth) of the newest reading
        self._sent_ns: dict[Queue, int] = {}  # queue → time of the newest reading that was queued
        self._unsent = set(queues) if updates_only else set()  # queues of which no reading was sent yet

    def add(self, queue: Queue, now_ns: int, depth: int) -> None:
        """Add a reading. Called in the reading thread."""
        before = self._last.get(queue)
        self._last[queue] = (now_ns, depth)
        if before is None and queue in self._unsent:
            return
        if before is not None and before[1] == depth:
            return
        found = [(queue, now_ns, depth, 0)]
        if before is not None and self._sent_ns.get(queue) != before[0] and queue not in self._unsent:
            found.insert(0, (queue, *before, 0))
        self._unsent.discard(queue)
        self._sent_ns[queue] = now_ns
        self._put(found)

    def _put(self, found: list[Depth]) -> None:
        with self._lock:
            if len(self._waiting) + len(found) > BACKLOG:
                self._waiting = merged(self._waiting)
            was_empty = not self._waiting
            self._waiting += found
        if was_empty:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._ready.set)

    async def take(self) -> list[Depth]:
        """Wait for readings, and return them, oldest first."""
        await self._ready.wait()
        self._ready.clear()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting


def merged(depths: list[Depth]) -> list[Depth]:
    """Returns one reading for each queue: the largest depth with the newest time."""
    found: dict[Queue, Depth] = {}
    for queue, ts_ns, depth, left_out in depths:
        had = found.get(queue)
        found[queue] = (queue, ts_ns, max(depth, had[2]), had[3] + 1 + left_out) if had else (
            queue, ts_ns, depth, left_out)  # fmt: skip
    return list(found.values())
