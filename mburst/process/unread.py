"""Output that a thread writes, so that work does not wait for a reader that has stopped reading: a stopped terminal
(Ctrl-S), a terminal whose connection is lost, a full pipe."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..messages import PROGRESS
from . import interrupting

MOMENT_S = 0.05  # longest wait for the reader during work; keeps the order of standard output and standard error
PATIENCE_S = 5.0  # longest wait for a reader that reads nothing, and did not when a signal arrived
MOST_BYTES = 1 << 16  # most output that waits for the reader during work
_PIECE_BYTES = 1 << 12
_MOST_AT_ONCE = 1 << 16  # of a long line, so that a slow reader is seen to read
_LOOK_S = 0.1  # a signal may arrive while something waits
_PROGRESS = PROGRESS.encode()


class _Phase:
    """The state of this process; there is only one."""

    works = 0  # number of contexts `without_waiting`


@contextmanager
def without_waiting() -> Iterator[None]:
    """In this context, output waits for its reader no longer than MOMENT_S, and what does not fit into MOST_BYTES is
    left out."""
    _Phase.works += 1
    try:
        yield
    finally:
        _Phase.works -= 1


class _Piece(NamedTuple):
    data: bytes
    is_result: bool  # printed after the work


class OutputThread:
    """Writes output in order. WRITE writes bytes and returns their number. REPORT is called with the number of lines
    that were left out, once nothing waits or at the end, and returns what shall be written in their place. WAS_UNREAD
    returns whether nobody read when a signal ended the work. HAS_RESULTS: what is printed after the work is a result.

    lacks_results: whether a result was left out."""

    def __init__(
        self,
        write: Callable[[bytes | memoryview], int],
        report: Callable[[int], bytes],
        was_unread: Callable[[], bool],
        has_results: bool,
    ) -> None:
        self._write, self._report, self._was_unread, self._has_results = write, report, was_unread, has_results
        self._changed = threading.Condition()
        self._waiting: deque[_Piece] = deque()  # the first is being written
        self._bytes = 0  # in `_waiting`
        self._written = 0  # number of writes
        self._lines = 0  # that were left out, and not yet reported
        self.lacks_results = False
        self._is_behind = self._is_full = self._is_over = False
        self._error: OSError | None = None
        threading.Thread(target=self._run, name="mburst-output", daemon=True).start()

    def put(self, data: bytes) -> None:
        """Write DATA. Returns once it is written, except if its reader does not read: then as in `without_waiting`
        during work, after PATIENCE_S if the reader did not read when a signal ended the work or the command was
        interrupted, and else never. Raises what WRITE raises, also for earlier data."""
        with self._changed:
            self._raise()
            if not self._has_room(data):
                self._leave_out(self._piece(data))
                self._wait()
                return
        report = self._report_lines()
        with self._changed:
            self._add(report)
            self._add(data)
            self._wait()

    def finish(self) -> None:
        """Wait for what `put` has not waited for, and report what was left out. Raises what WRITE raised."""
        with self._changed:
            self._wait()
        report = self._report_lines()
        with self._changed:
            self._add(report)
            self._wait()

    def _report_lines(self) -> bytes:
        with self._changed:
            lines, self._lines = self._lines, 0
        return self._report(lines) if lines else b""

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error:
            raise error

    def _has_room(self, data: bytes) -> bool:
        """Whether DATA fits. Once something did not fit during work, nothing does until all that waits is written."""
        is_full = self._is_full or (bool(self._waiting) and self._bytes + len(data) > MOST_BYTES)
        return not self._is_over and not (_Phase.works and is_full)

    def _add(self, data: bytes) -> None:
        if len(self._waiting) > 1 and data.startswith(_PROGRESS) and _is_progress(self._waiting[-1].data):
            self._bytes -= len(self._waiting.pop().data)
        if not self._has_room(data):
            self._leave_out(self._piece(data))
        elif data:
            self._waiting.extend(map(self._piece, _parts(data)))
            self._bytes += len(data)
            self._changed.notify_all()

    def _piece(self, data: bytes) -> _Piece:
        return _Piece(data, self._has_results and not _Phase.works)

    def _leave_out(self, piece: _Piece) -> None:
        self._is_full = bool(self._waiting)
        self._lines += piece.data.count(b"\n")
        self.lacks_results = self.lacks_results or (piece.is_result and piece.data != b"")

    def _leave_out_all(self) -> None:
        """Leave out everything that waits, and all that follows."""
        self._is_over = True
        for piece in self._waiting:
            self._leave_out(piece)
        self._waiting.clear()
        self._bytes = 0

    def _patience_s(self) -> float | None:
        """Returns how long to wait for a reader that reads nothing; None without a limit."""
        if _Phase.works or self._is_over:
            return MOMENT_S
        return PATIENCE_S if interrupting.was_raised() or self._was_unread() else None

    def _wait(self) -> None:
        written, since = self._written, time.monotonic()
        while self._waiting and not (self._is_behind and _Phase.works):
            if written != self._written and not _Phase.works:
                written, since = self._written, time.monotonic()
            limit_s = self._patience_s()
            if limit_s is None or time.monotonic() - since < limit_s:
                self._changed.wait(min(_LOOK_S, limit_s or _LOOK_S))
            elif _Phase.works:
                self._is_behind = True
            else:
                self._leave_out_all()
        self._raise()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                piece = self._waiting[0]
            error = self._write_all(piece.data)
            with self._changed:
                self._error = error or self._error
                if self._waiting and self._waiting[0] is piece:
                    self._bytes -= len(self._waiting.popleft().data)
                if not self._waiting:
                    self._is_behind = self._is_full = False
                self._changed.notify_all()

    def _write_all(self, data: bytes) -> OSError | None:
        """Write DATA, and return the error that prevented it."""
        rest = memoryview(data)
        try:
            while rest and not self._is_over:
                rest = rest[self._write(rest[:_MOST_AT_ONCE]) :]
                self._written += 1
        except OSError as error:
            return error
        return None


def _parts(data: bytes) -> Iterator[bytes]:
    """Divides DATA into parts that are written one by one, of whole lines: others may write to the same file."""
    first = 0
    while first < len(data):
        end = data.rfind(b"\n", first, first + _PIECE_BYTES) + 1 or data.find(b"\n", first) + 1 or len(data)
        yield data[first:end]
        first = end


def _is_progress(data: bytes) -> bool:
    return data.startswith(_PROGRESS) and b"\n" not in data
