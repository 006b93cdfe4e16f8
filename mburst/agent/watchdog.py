"""Whether a part is alive: its own loop sends a sign each second (mburst/alive.py)."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

SILENT_S = 10.0  # after which a part that has given a sign before counts as hung
MOST_S = 1.5  # that count between two looks: a machine that slept, or paused us too, is no fault of a part


class Watchdog:
    """Listens to one process. `given` is the end of the connection that the process inherits."""

    def __init__(self) -> None:
        self._own, self.given = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._own.setblocking(False)
        self._begun = False
        self._silent_s = 0.0
        self._looked = time.monotonic()

    def is_hung(self) -> bool:
        """Whether the process is silent for too long since its first sign. To be called each second."""
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
