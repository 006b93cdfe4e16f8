"""One subscription of a client: what is sent, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from ..telemetry.gnmi import messages
from ..telemetry.gnmi.path import Steps
from .changes import DepthChanges
from .encoding import notification, notifications, path, typed
from .requests import SubscribedPath, SubscriptionList, parsed
from .schema import RequestRefused
from .tree import ServedLeaf, Tree, Value
from .writer import MessageWriter

MOST_LEAVES = 100_000  # in all subscriptions together; each costs about a kilobyte
LOOK_NS = 500_000_000  # interval at which slowly changing leaves, and the list of leaves, are checked
SETTLE_S = 0.002  # time for a first reading of every queue


class StreamedPath:
    """The leaves of a path that are streamed in one mode, with the maxima that were not sent yet and the values that
    the client has."""

    def __init__(
        self,
        tree: Tree,
        wanted: SubscribedPath,
        mode: str,
        takes: Callable[[ServedLeaf], bool],
        asked: SubscriptionList,
        writer: MessageWriter,
    ) -> None:
        self.tree, self.wanted, self.mode, self.takes = tree, wanted, mode, takes
        self.asked, self.writer = asked, writer
        self.windows = tree.watch(wanted.selected)
        self.known: dict[Steps, Value] = {}  # values that the client got, or does not need

    def close(self) -> None:
        self.tree.watermarks.forget(self.windows)

    def leaves(self) -> list[ServedLeaf]:
        return [leaf for leaf in self.tree.leaves(self.wanted.selected, self.windows) if self.takes(leaf)]

    def read(self, leaf: ServedLeaf) -> Value | None:
        """Returns a leaf's value. For a depth that is sent on change, it is the newest value, not the largest."""
        if leaf.queue and self.mode == "ON_CHANGE":
            return self.tree.watermarks.newest.get(leaf.queue)
        return leaf.read()

    async def send(self, leaves: list[ServedLeaf], *, changed_only: bool = False, quietly: bool = False) -> set[Steps]:
        """Send the values of leaves; with `changed_only`, only values that the client does not have. With `quietly`
        nothing is sent, but the client counts as having the values. Returns the leaves that have a value."""
        updates, here = [], set()
        for leaf in leaves:
            value = self.read(leaf)
            if value is None:
                continue
            here.add(leaf.steps)
            if changed_only and self.known.get(leaf.steps) == value:
                continue
            self.known[leaf.steps] = value
            if not quietly:
                updates.append(messages.Update(path=path(leaf.steps), val=typed(value, leaf.kind, self.asked.encoding)))
        for made in notifications(time.time_ns(), updates, self.asked.target):
            await self.writer.send(messages.SubscribeResponse(update=made))
        return here

    def forget_others(self, here: set[Steps]) -> list[Steps]:
        """Forget the client's values of leaves that are not HERE, and return these leaves."""
        gone = [steps for steps in self.known if steps not in here]
        for steps in gone:
            del self.known[steps]
        return gone

    # --- the tasks of a stream; each runs until it is cancelled -----------------------------------------------------

    def tasks(self) -> list[Any]:
        if self.mode == "SAMPLE":
            return [self.samples()]
        return [self.changes(), self.depths(), *([self.heartbeat()] if self.wanted.heartbeat_ns else [])]

    async def samples(self) -> None:
        """Send samples at multiples of the interval since the start. Samples that a slow client delays are left out. No
        maximum is lost, because the next sample covers the time since the last one."""
        wanted = self.wanted
        leaves = self.leaves()
        looked = beat = time.monotonic_ns()
        async for now in _multiples(wanted.interval_ns):
            if now - looked > LOOK_NS:
                leaves, looked = self.leaves(), now
                self.forget_others({leaf.steps for leaf in leaves})
            due = 0 < wanted.heartbeat_ns <= now - beat
            beat = now if due else beat
            await self.send(leaves, changed_only=wanted.suppress and not due)

    async def changes(self) -> None:
        """Send leaves that change, appear or disappear. Of depths it only sends that they disappear; `depths` sends the
        rest."""
        async for _ in _multiples(LOOK_NS):
            leaves = self.leaves()
            here = await self.send([leaf for leaf in leaves if not leaf.queue], changed_only=True)
            gone = self.forget_others(here | {leaf.steps for leaf in leaves if leaf.queue})
            if gone:
                made = notification(time.time_ns(), [], self.asked.target, gone)
                await self.writer.send(messages.SubscribeResponse(update=made))

    async def heartbeat(self) -> None:
        async for _ in _multiples(self.wanted.heartbeat_ns):
            await self.send(self.leaves())

    async def depths(self) -> None:
        """Send every reading of a queue's depth that differs from the previous one, with the time of the reading."""
        found = {leaf.queue: leaf for leaf in self.leaves() if leaf.queue}
        if not found:
            return
        changes = DepthChanges(found, asyncio.get_running_loop(), updates_only=self.asked.updates_only)
        self.tree.watermarks.listen(found, changes.add)
        try:
            while True:
                for queue, ts_ns, depth, left_out in await changes.take():
                    leaf = found[queue]
                    value = typed(depth, leaf.kind, self.asked.encoding)
                    update = messages.Update(path=path(leaf.steps), val=value, duplicates=left_out)
                    made = notification(ts_ns, [update], self.asked.target)
                    await self.writer.send(messages.SubscribeResponse(update=made))
        finally:
            self.tree.watermarks.unlisten(found, changes.add)


def followed(
    tree: Tree, wanted: SubscribedPath, asked: SubscriptionList, writer: MessageWriter
) -> Iterator[StreamedPath]:
    """Yields a path for each mode in which its leaves are streamed. If the target chooses, slowly changing leaves are
    sent on change, and all others are sampled."""
    if asked.mode == "STREAM" and wanted.mode == "TARGET_DEFINED":
        yield StreamedPath(tree, wanted, "SAMPLE", lambda leaf: not leaf.kind.steady, asked, writer)
        yield StreamedPath(tree, wanted, "ON_CHANGE", lambda leaf: leaf.kind.steady, asked, writer)
    else:
        yield StreamedPath(tree, wanted, wanted.mode, lambda leaf: True, asked, writer)


class SubscribeStream:
    """Answers one Subscribe. Raises RequestRefused if all subscriptions together would follow too many leaves."""

    def __init__(self, tree: Tree, asked: SubscriptionList, writer: MessageWriter) -> None:
        self.tree, self.asked, self.writer = tree, asked, writer
        self.followed = [one for wanted in asked.wanted for one in followed(tree, wanted, asked, writer)]
        self.leaves = 0
        try:
            self._count()
        except BaseException:
            self.close()
            raise

    def _count(self) -> None:
        self.leaves = sum(len(one.leaves()) for one in self.followed)
        self.tree.followed += self.leaves
        if self.tree.followed > MOST_LEAVES:
            raise RequestRefused(
                f"all subscriptions together have more than {MOST_LEAVES:,} leaves", "RESOURCE_EXHAUSTED"
            )

    def close(self) -> None:
        self.tree.followed -= self.leaves
        for one in self.followed:
            one.close()

    async def run(self, requests: AsyncIterator[bytes]) -> None:
        """Run until the client has what it asked for, or the call is cancelled. REQUESTS are the client's messages
        after its SubscriptionList. The first failure of a part ends all parts and is raised."""
        await asyncio.sleep(SETTLE_S)
        await self.everything(quietly=self.asked.updates_only)
        if self.asked.mode == "POLL":
            async for request in requests:
                if parsed(messages.SubscribeRequest, request).WhichOneof("value") != "poll":
                    raise RequestRefused("after POLL only polls may follow")
                await self.everything()
        elif self.asked.mode == "STREAM":
            await _together([task for one in self.followed for task in one.tasks()] + [_nothing_more(requests)])

    async def everything(self, *, quietly: bool = False) -> None:
        """Send all leaves once, and the sync."""
        for one in self.followed:
            await one.send(one.leaves(), quietly=quietly)
        await self.writer.send(messages.SubscribeResponse(sync_response=True))


async def _together(parts: list[Coroutine[Any, Any, None]]) -> None:
    """Run PARTS until one fails, or until this is cancelled. (A TaskGroup would not distinguish the two: gRPC treats a
    cancelled call as one whose client is gone, and sends no status.)"""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing_more(requests: AsyncIterator[bytes]) -> None:
    async for _ in requests:
        raise RequestRefused("a STREAM subscription takes no further request: begin another Subscribe")


async def _multiples(interval_ns: int) -> AsyncIterator[int]:
    """Yields the monotonic time at each multiple of an interval from now on, except multiples that pass while the
    consumer is busy."""
    begun, count = time.monotonic_ns(), 0
    while True:
        count = max(count, (time.monotonic_ns() - begun) // interval_ns) + 1
        await asyncio.sleep(max(0, begun + count * interval_ns - time.monotonic_ns()) / 1e9)
        yield time.monotonic_ns()
