"""Lines for whoever runs the agent; few, whatever strangers do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES, WINDOW_S = 20, 60.0  # at most so many in such a time; the others are counted


class Log:
    """Hands lines to SAY, within bounds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun, self._written, self._left_out = -WINDOW_S, 0, 0

    def say(self, line: str) -> None:
        now = time.monotonic()
        if now - self._begun >= WINDOW_S:
            self.flush()
            self._begun, self._written = now, 0
        if self._written >= LINES:
            self._left_out += 1
            return
        self._written += 1
        self._say(line if line.isprintable() else line.encode("unicode_escape").decode())

    def take_from(self, logger: str) -> None:
        """Report what a library logs, from warnings on, as a line each."""
        found = logging.getLogger(logger)
        found.handlers, found.propagate = [_Lines(self)], False

    def flush(self) -> None:
        """Say how many lines were left out."""
        if self._left_out:
            self._say(f"{self._left_out:,} more such lines were left out")
        self._left_out = 0


class _Lines(logging.Handler):
    """The first line of each record, without traceback."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log.say(f"{record.name.partition('.')[0]}: {record.getMessage().partition(chr(10))[0]}")
