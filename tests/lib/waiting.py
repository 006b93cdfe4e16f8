"""Waiting for events elsewhere, and running work concurrently with a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT_S = 90.0  # no wait takes nearly as long


def wait_for(condition: Callable[[], object], what: str = "it", seconds: float = LIMIT_S) -> None:
    """Returns when CONDITION holds; fails if it does not within a bound that no test comes near. Checking takes a
    quarter of the time of one processor at most, because the awaited work needs it, too."""
    end = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        took = time.monotonic() - asked
        assert asked < end, f"{what}: not within {seconds} s"
        time.sleep(max(0.01, 3 * took))


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Runs WORK in its own thread. WORK receives the event that is set at the end, and must then return."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=[ended])
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
