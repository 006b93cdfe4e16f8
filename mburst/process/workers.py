"""Worker threads for slow work of an event loop.

Unlike the loop's own threads, they end with the process in any case, and the queue of work is limited.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ..errors import MburstError

PATIENCE_S, EVERY_S = 10.0, 0.02
T = TypeVar("T")
Work = tuple["Future[Any]", Callable[[], Any]]


class Busy(MburstError):
    """Too much work is waiting already."""


class Workers:
    """Runs work in THREADS threads. At most MOST pieces of work may wait."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        self._waiting: queue.Queue[Work | None] = queue.Queue(most)
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run FUNCTION, and return or raise its result. Raises Busy. Work is skipped if its waiter was cancelled before
        it began."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        future: Future[T] = Future()

        def wake(_: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(done.set)

        future.add_done_callback(wake)
        try:
            self._waiting.put_nowait((future, lambda: function(*arguments)))
        except queue.Full:
            raise Busy("too many queries at once", "try again in a few seconds") from None
        try:
            await done.wait()
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            future, function = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            del work, future, function  # keep nothing alive while waiting for the next work

    def close(self, interrupt: Callable[[], object] = lambda: None) -> None:
        """Begin no more work, and make running work end: INTERRUPT is called until it has. A thread that remained in
        the database's code would crash the process at its end."""
        with suppress(queue.Empty):
            while True:
                if (work := self._waiting.get_nowait()) is not None:
                    work[0].cancel()
        for _ in self._threads:
            with suppress(queue.Full):
                self._waiting.put_nowait(None)
        until = time.monotonic() + PATIENCE_S
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < until:
            interrupt()
            for thread in self._threads:
                thread.join(EVERY_S)
