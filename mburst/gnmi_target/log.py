"""Log lines for the operator of the agent: few, whatever clients do."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES, WINDOW_S = 20, 60.0  # most lines in this time; further ones are only counted


class Log:
    """Passes lines to SAY, within limits."""

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
        """Report each record of a library's logger, from warnings on, as one line."""
        found = logging.getLogger(logger)
        found.handlers, found.propagate = [_Lines(self)], False

    def flush(self) -> None:
        """Report the number of lines that were left out."""
        if self._left_out:
            self._say(f"{self._left_out:,} more such lines were left out")
        self._left_out = 0


class _Lines(logging.Handler):
    """Takes the first line of each record, without a traceback."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        self.log.say(f"{record.name.partition('.')[0]}: {record.getMessage().partition(chr(10))[0]}")
