"""How what runs until it is told to end is told: by SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[list[signal.Signals]]:
    """The first SIGINT or SIGTERM calls `stop` while this lasts, and nothing under way is broken off; the list says
    which came. In another thread than the main one, where Python cannot handle signals, they are left as they are."""
    ended_by: list[signal.Signals] = []

    def end(number: int, _frame: Any) -> None:
        is_first = not ended_by
        ended_by.append(signal.Signals(number))
        if is_first:  # a second one may come inside of `stop`, which would wait for its own locks
            stop()

    if threading.current_thread() is not threading.main_thread():
        yield ended_by
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended_by
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
