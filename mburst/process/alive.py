"""Signs of life of a part of `mburst run`: the loop that does the work sends one each second to the supervisor."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

DESCRIPTOR = "MBURST_ALIVE"  # variable with the number of a datagram socket; the supervisor has the other end
EVERY_S = 1.0  # at most one sign in this time


class _Sign:
    """The state of this process; there is only one."""

    to: socket.socket | None = None
    due = 0.0


def begin() -> None:
    """Connect `beat` to the process that started this one."""
    if number := os.environ.pop(DESCRIPTOR, ""):
        _Sign.to = socket.socket(fileno=int(number))
        _Sign.to.setblocking(False)
        _Sign.to.set_inheritable(False)


def beat() -> None:
    """Send a sign of life. The loop that does the work calls it, at any rate, and not a separate thread."""
    if _Sign.to and (now := time.monotonic()) >= _Sign.due:
        _Sign.due = now + EVERY_S
        with suppress(OSError):  # the listener is slow, and then has enough signs, or it is gone
            _Sign.to.send(b"1")


class SeveralLoops:
    """Signs of several loops, each in a thread. A sign is sent once each loop has given one since the last, so that one
    hanging loop is noticed even if the others work."""

    def __init__(self, loops: Iterable[object]) -> None:
        self._lock = threading.Lock()
        self._running = set(loops)
        self._silent = set(self._running)  # loops without a sign since the last one sent

    def beat(self, loop: object) -> None:
        """Note that LOOP works."""
        with self._lock:
            self._silent.discard(loop)
            self._give()

    def end(self, loop: object) -> None:
        """Note that LOOP has ended, so that no sign of it is expected."""
        with self._lock:
            self._running.discard(loop)
            self._silent.discard(loop)
            self._give()

    def _give(self) -> None:
        if not self._silent:
            self._silent = set(self._running)
            beat()
