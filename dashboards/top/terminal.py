"""The terminal of `mburst top`, which may stall (Ctrl-S, ssh without a network) or be closed at any time. textual
writes to it in a thread, by a queue of limited length: a write that never ends would block the application for ever.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver

STALLED_S = 5.0  # at the end, output that waits for longer is discarded
EVERY_S = 0.1
# Ends kitty keys, the alternate screen, the hidden cursor, drawing at once, reports of mouse, focus, paste, size;
# lines wrap again.
RESET = b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?7h" + b"".join(
    b"\x1b[?%dl" % mode for mode in (2026, 1000, 1003, 1015, 1006, 1016, 1004, 2004, 2048)
)


class TerminalOutput:
    """The file that textual's thread writes to. What a closed terminal cannot take is left out."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._left_out = self._discarded = False
        self.ends = False  # whether the application is ending
        self._since: float | None = None  # begin of the current write

    def write(self, text: str) -> None:
        """Write TEXT at once."""
        data = text.encode(errors="replace")
        self._since = time.monotonic()
        try:
            while data and not self._left_out:
                data = data[self._write_some(data) :]
        except OSError:  # EIO: the terminal was closed
            self._left_out = True
        self._since = None

    def _write_some(self, data: bytes) -> int:
        """Write a part of DATA, and return its length. Raises OSError."""
        try:
            return os.write(self._terminal, data)
        except BlockingIOError:  # another program of the shell has made the terminal non-blocking
            select.select([], [self._terminal], [], EVERY_S)
            return 0

    def flush(self) -> None:
        """Do nothing: everything is written."""

    def fileno(self) -> int:
        """Returns the descriptor of the terminal."""
        return self._terminal

    def end(self) -> None:
        """From now on, if the terminal takes nothing for STALLED_S, discard that, and leave out what follows. Called in
        signal handlers and several times."""
        if not self.ends:
            self.ends = True
            threading.Thread(target=self._discard_stalled, name="mburst-terminal", daemon=True).start()

    def _discard_stalled(self) -> None:
        while (since := self._since) is None or time.monotonic() - since < STALLED_S:
            time.sleep(EVERY_S)
        self._left_out = self._discarded = True
        discard_output(self._terminal)

    def close(self) -> None:
        """Reset the terminal if the driver's own end was left out."""
        if self._discarded:
            discard_output(self._terminal)
            with suppress(OSError):  # the terminal was closed, or stalls again
                os.write(self._terminal, RESET)


def discard_output(terminal: int) -> None:
    """Discard what nobody has read from TERMINAL, and continue the write that waits for that. Flushing alone does not
    wake the writer (pseudo-terminals of Linux 6.18), continuing does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])  # sent to programs in the background
    with suppress(termios.error):  # the terminal was closed
        termios.tcflush(terminal, termios.TCOFLUSH)
        termios.tcflow(terminal, termios.TCOOFF)
        termios.tcflow(terminal, termios.TCOON)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_closed(terminal: int) -> bool:
    """Whether TERMINAL was closed, for programs that ignore SIGHUP."""
    poll = select.poll()
    poll.register(terminal, 0)
    return bool(poll.poll(0))


class TerminalDriver(LinuxDriver):
    """textual's driver, for a terminal that may stall or be closed. It draws on standard output, and begins and ends
    application mode in the event loop: a signal may interrupt a write, whose lock is not reentrant."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._file: Any = TerminalOutput((sys.__stdout__ or sys.stdout).fileno())
        self.output: TerminalOutput = self._file
        self._will_stop = False
        signal.signal(signal.SIGTSTP, lambda _number, _frame: self._stop_soon())
        signal.signal(signal.SIGCONT, lambda _number, _frame: self._soon(self._restart))

    def close(self) -> None:
        """End the thread that writes."""
        super().close()
        self.output.close()

    def _soon(self, work: Callable[[], object]) -> None:
        if self._app.is_running:
            self._loop.call_soon_threadsafe(work)

    def _stop_soon(self) -> None:
        if self._app.is_running and not self._will_stop:
            self._will_stop = True
            self._soon(self._stop)

    def _goes_on(self) -> bool:
        return self._app.is_running and not self.output.ends and not is_closed(self.fileno)

    def _stop(self) -> None:
        """Stop, for SIGTSTP. The kernel stops nothing that no shell could continue, as after the end of a session."""
        self._will_stop = False
        if self._goes_on():
            self.suspend_application_mode()  # waits for the terminal, which may be closed meanwhile, or a signal arrive
            if self._goes_on():
                ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTSTP)
                signal.signal(signal.SIGTSTP, ours)
            self._restart()

    def _restart(self) -> None:
        """Restart after SIGCONT. It also follows SIGSTOP, which does not end application mode: two threads would
        read. The kernel sends it when the terminal is closed, too."""
        if self._goes_on():
            if self._writer_thread is not None and self._writer_thread.is_alive():
                self.suspend_application_mode()
            self.resume_application_mode()
            self._app.refresh(layout=True)
