"""Waiting for what happens elsewhere, and making it happen beside a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT_S = 90.0  # that no wait comes near


def wait_for(condition: Callable[[], object], what: str = "it", seconds: float = LIMIT_S) -> None:
    """Return when CONDITION holds; fails when it does not within a bound that no test comes near. To ask takes a
    quarter of the time of one processor at most: what is waited for needs it, too."""
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
    """WORK runs in a thread of its own. It is given the event that is set at the end, and then has to return."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=[ended])
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
