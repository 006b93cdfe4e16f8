"""Messages that several browsers of the live view share, made once and outside of the event loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...process.workers import Workers
from .view import LiveView, Message, Position
from .wishes import ViewRequest

KEPT = 64  # messages


class SharedMessages:
    """The messages of a view. A browser that asks for a message that is being made waits for it."""

    def __init__(self, view: LiveView, workers: Workers) -> None:
        self.view = view
        self.workers = workers
        self._made: OrderedDict[tuple[Any, ...], asyncio.Task[Message]] = OrderedDict()

    async def start(self, wish: ViewRequest) -> Message:
        """Returns the view's message of the same name. Raises MburstError, Busy."""
        return await self._once(("start", wish, self.view.tick), self.view.start, wish)

    async def change(self, wish: ViewRequest, position: Position) -> Message:
        """Returns the view's message of the same name. Raises MburstError, Busy."""
        return await self._once(("change", wish, position, self.view.tick), self.view.change, wish, position)

    async def _once(self, key: tuple[Any, ...], make: Callable[..., Message], *arguments: Any) -> Message:
        task = self._made.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._made[key] = asyncio.create_task(self.workers.run(make, *arguments))
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        return await asyncio.shield(task)
