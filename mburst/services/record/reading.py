"""Reads the rows of a capture with the facts known at that point: on demand, or ahead of demand in a thread."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...capture import Capture, Facts, Lane, Rows

AHEAD = 4  # turns that may wait to be stored, of some 5 MB each; also what is read while a command begins


@dataclass(frozen=True)
class Turn:
    """The result of one read from the engine. Its lanes and facts belong to these rows, not to later ones."""

    bins: Rows
    sources: Rows
    lanes: list[Lane]
    facts: Facts


class Reader:
    """Reads on demand."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.begun: Facts = capture.facts

    def read(self) -> Turn | None:
        """Returns the next rows, or None at the end. Raises what Capture.read raises."""
        rows = self.capture.read()
        return None if rows is None else Turn(*rows, self.capture.lanes, self.capture.facts)

    def close(self) -> None:
        """Close the capture. Closing it again does nothing."""
        self.capture.close()


class AheadReader(Reader):
    """Reads in a separate thread, up to AHEAD turns ahead of demand. Until `read` has returned the end or raised an
    error, no other thread may use the capture, except to stop it."""

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture)
        self._waiting: queue.Queue[Turn | BaseException | None] = queue.Queue(AHEAD)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mburst-read", daemon=True)
        self._thread.start()

    def read(self) -> Turn | None:
        turn = self._waiting.get()
        if isinstance(turn, Turn):
            return turn
        self._thread.join()
        if turn is not None:
            raise turn
        return None

    def close(self) -> None:
        self._over.set()
        self.capture.stop()
        with suppress(queue.Empty):  # the thread adds at most two more items, which now fit
            while True:
                self._waiting.get_nowait()
        self._thread.join()
        super().close()

    def _run(self) -> None:
        turn: Turn | BaseException | None
        while True:
            try:
                turn = super().read()
            except BaseException as error:  # not lost: `read` raises it
                turn = error
            self._waiting.put(turn)
            if self._over.is_set() or not isinstance(turn, Turn):
                return
