"""Storing in the background: a thread that appends to the store, and the bounded queue before it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

Item = TypeVar("Item")


class BackgroundWriter(Generic[Item]):
    """Calls STORE in a separate thread with the items that were handed over, in order: at least one item, together with
    those that arrive within GATHER_S.

    MOST bounds the total weight of the waiting items; an item always fits into an empty queue. After STORE has failed,
    nothing more is stored, FAILED is called in that thread, and `close` raises the error.
    """

    def __init__(
        self,
        name: str,
        store: Callable[[list[Item]], None],
        most: int,
        failed: Callable[[], None] = lambda: None,
        gather_s: float = 0.0,
    ) -> None:
        self._queue: queue.SimpleQueue[tuple[Item, int] | None] = queue.SimpleQueue()
        self._store, self._failed = store, failed
        self._most, self._gather_s = most, gather_s
        self._lock = threading.Lock()
        self.waiting = 0  # total weight of the items that wait or are being stored
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def hand(self, item: Item, weight: int, always: bool = False) -> bool:
        """Queue an item, and return at once. Returns False if it does not fit and is dropped. With ALWAYS it always
        fits."""
        with self._lock:
            fits = always or not self.waiting or self.waiting + weight <= self._most
            if fits:
                self.waiting += weight
        if fits:
            self._queue.put((item, weight))
        return fits

    def close(self) -> None:
        """Store the waiting items. Raises the error that prevented it."""
        self._queue.put(None)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        ended = False
        while not ended:
            taken, ended = self._gather()
            if taken and self.failure is None:
                self._attempt([item for item, _ in taken])
            with self._lock:
                self.waiting -= sum(weight for _, weight in taken)

    def _attempt(self, items: list[Item]) -> None:
        try:
            self._store(items)
        except BaseException as failure:  # the queue must still be emptied
            self.failure = failure
            self._failed()

    def _gather(self) -> tuple[list[tuple[Item, int]], bool]:
        """Returns the items that arrived, and whether the end is reached."""
        taken = [self._queue.get()]
        until = time.monotonic() + self._gather_s
        with suppress(queue.Empty):
            while taken[-1] is not None and (left := until - time.monotonic()) > 0:
                taken.append(self._queue.get(timeout=left))
        return [one for one in taken if one is not None], taken[-1] is None
