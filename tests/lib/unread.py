"""Outputs whose reader does not read."""

from __future__ import annotations

import os
import pty
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from waiting import LIMIT_S

FILL = b"\0"


class UnreadOutput:
    """An output of a command to which nothing can be written until `read` is called. `descriptor` is for the
    command."""

    def __init__(self, kind: str) -> None:
        self._is_terminal = kind == "terminal"
        if self._is_terminal:
            self._reading, self.descriptor = pty.openpty()
            termios.tcflow(self.descriptor, termios.TCOOFF)  # as Ctrl-S does
        else:
            self._reading, self.descriptor = os.pipe()
            os.set_blocking(self.descriptor, False)
            with suppress(BlockingIOError):
                while True:
                    os.write(self.descriptor, FILL * 4096)
            os.set_blocking(self.descriptor, True)
        self._is_open = True
        self._pause_at: bytes | None = None
        self._paused, self._may_read = threading.Event(), threading.Event()
        self._taken = b""
        self._thread = threading.Thread(target=self._take)

    def read(self) -> None:
        """Begin to read."""
        if self._is_terminal:
            termios.tcflow(self.descriptor, termios.TCOON)
        self._thread.start()

    def pause_at(self, text: str) -> None:
        """Read nothing more once TEXT was read, until `go_on` is called."""
        self._pause_at = text.encode()

    def wait_for_pause(self) -> None:
        """Return once it reads nothing more."""
        assert self._paused.wait(LIMIT_S), self.text()[-1000:]

    def go_on(self) -> None:
        """Read again."""
        self._may_read.set()

    def text(self) -> str:
        """Returns what was written so far, with a newline as "\\n"."""
        return self._taken.replace(FILL, b"").replace(b"\r\n", b"\n").decode()

    def all_text(self) -> str:
        """Returns what was written, once no process has the output open."""
        self.close_here()
        if self._thread.ident is None:
            self._take()
        else:
            self._thread.join()
        return self.text()

    def close_here(self) -> None:
        """Close the end of the command in this process."""
        if self._is_open:
            self._is_open = False
            os.close(self.descriptor)

    def end_reading(self) -> None:
        """Close the end of the reader, which never reads."""
        os.close(self._reading)
        self._reading = -1

    def close(self) -> None:
        self.close_here()
        self.go_on()
        if self._thread.ident is not None:
            self._thread.join()
        if self._reading >= 0:
            os.close(self._reading)

    def _take(self) -> None:
        with suppress(OSError):  # EIO: no process has the terminal open
            while data := os.read(self._reading, 1 << 16):
                self._taken += data
                if self._pause_at and self._pause_at in self._taken:
                    self._pause_at = None
                    self._paused.set()
                    self._may_read.wait()


@contextmanager
def unread(kind: str) -> Iterator[UnreadOutput]:
    """Yields an output of KIND, "terminal" or "pipe". Commands that have it must have ended at the end."""
    output = UnreadOutput(kind)
    try:
        yield output
    finally:
        output.close()
