"""Signs of life that a part of `mburst run` gives it: the loop that does the work sends one each second."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

DESCRIPTOR = "MBURST_ALIVE"  # the variable with the number of a datagram socket, whose other end listens
EVERY_S = 1.0  # at most one sign in this time


class _Sign:
    """Of this process; there is one."""

    to: socket.socket | None = None
    due = 0.0


def begin() -> None:
    """From here on `beat` reaches the process that started this one."""
    if number := os.environ.pop(DESCRIPTOR, ""):
        _Sign.to = socket.socket(fileno=int(number))
        _Sign.to.setblocking(False)
        _Sign.to.set_inheritable(False)


def beat() -> None:
    """This process does its work. To be called by the loop that does it, not by a thread beside it, at any rate."""
    if _Sign.to and (now := time.monotonic()) >= _Sign.due:
        _Sign.due = now + EVERY_S
        with suppress(OSError):  # the listener is slow, which has signs enough then, or gone
            _Sign.to.send(b"1")


class SeveralLoops:
    """The signs of several loops, each in a thread: one is given once each loop has given its own since the last, so
    that one that hangs is noticed beside others that do not."""

    def __init__(self, loops: Iterable[object]) -> None:
        self._lock = threading.Lock()
        self._running = set(loops)
        self._silent = set(self._running)  # since the last sign

    def beat(self, loop: object) -> None:
        """LOOP does its work."""
        with self._lock:
            self._silent.discard(loop)
            self._give()

    def end(self, loop: object) -> None:
        """LOOP has ended: no sign of it is waited for."""
        with self._lock:
            self._running.discard(loop)
            self._silent.discard(loop)
            self._give()

    def _give(self) -> None:
        if not self._silent:
            self._silent = set(self._running)
            beat()
