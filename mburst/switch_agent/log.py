"""Lines for whoever runs the agent; few, whatever strangers do."""

from __future__ import annotations

import time
from collections.abc import Callable

LINES, WINDOW_S = 20, 60.0  # at most so many in such a time; the others are counted


class Log:
    """Hands lines to SAY, within bounds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun, self._said, self._left_out = -WINDOW_S, 0, 0

    def say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._begun >= WINDOW_S:
            self.flush()
            self._begun, self._said = now, 0
        if self._said >= LINES:
            self._left_out += 1
            return
        self._said += 1
        self._say(line if line.isprintable() else line.encode("unicode_escape").decode())

    def flush(self) -> None:
        """Say how many lines were left out."""
        if self._left_out:
            self._say(f"{self._left_out:,} more such lines were left out")
        self._left_out = 0
