"""Detects a part that hangs: its own loop sends a sign of life each second (mburst/process/alive.py)."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

SILENT_S = 10.0  # a part that has sent a sign before and is then silent for this long counts as hung
MOST_S = 1.5  # most that counts between two checks, in case the machine slept or paused this process, too


class Watchdog:
    """Listens to one process. `given` is the end of the connection that the process inherits."""

    def __init__(self) -> None:
        self._own, self.given = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._own.setblocking(False)
        self._begun = False
        self._silent_s = 0.0
        self._looked = time.monotonic()

    def is_hung(self) -> bool:
        """Whether the process has been silent for too long since its first sign. Called every second."""
        now = time.monotonic()
        self._silent_s += min(MOST_S, now - self._looked)
        self._looked = now
        with suppress(BlockingIOError):
            while self._own.recv(16):
                self._begun, self._silent_s = True, 0.0
        return self._begun and self._silent_s >= SILENT_S

    def close(self) -> None:
        self._own.close()
        self.given.close()
