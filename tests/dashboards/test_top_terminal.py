"""The output of `mburst top` never blocks, whatever happens to the terminal."""

from __future__ import annotations

import os
import pty
import select
import threading
from collections.abc import Iterator

import pytest
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread

from mburst.dashboards.top import terminal
from mburst.dashboards.top.terminal import TerminalOutput, discard_output, is_closed

PATIENCE_S = 60
MANY = "x" * 4096, 10 * MAX_QUEUED_WRITES  # far more than textual and a pseudo-terminal keep


class _Pair:
    """A pseudo-terminal and textual's thread that writes to it."""

    def __init__(self) -> None:
        self.reader, self.terminal = pty.openpty()
        self.output = TerminalOutput(self.terminal)
        self.thread = WriterThread(self.output)
        self.thread.start()

    def read(self, most: int, end: bytes | None = None) -> bytes:
        """Returns what is written: MOST bytes, or up to END."""
        taken = b""
        while len(taken) < most and not (end and taken.endswith(end)):
            assert select.select([self.reader], [], [], PATIENCE_S)[0], len(taken)
            taken += os.read(self.reader, 1 << 16)
        return taken

    def write_much(self) -> threading.Thread:
        """Begins to write MANY and to stop the thread, as textual does at the end."""
        text, times = MANY

        def work() -> None:
            for _ in range(times):
                self.thread.write(text)
            self.thread.stop()

        writing = threading.Thread(target=work, daemon=True)
        writing.start()
        return writing


@pytest.fixture
def pair() -> Iterator[_Pair]:
    pair = _Pair()
    yield pair
    discard_output(pair.terminal)
    os.close(pair.terminal)


def ends(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


@pytest.mark.parametrize("blocking", [True, False])
def test_output_that_nobody_reads_waits(pair, blocking):
    os.set_blocking(pair.terminal, blocking)
    writing = pair.write_much()
    writing.join(1)
    assert writing.is_alive() and not is_closed(pair.terminal)
    text, times = MANY
    assert len(pair.read(len(text) * times)) == len(text) * times
    assert ends(writing)
    os.close(pair.reader)


def test_output_to_a_closed_terminal_is_left_out(pair):
    writing = pair.write_much()
    writing.join(0.5)
    os.close(pair.reader)
    assert ends(writing) and is_closed(pair.terminal)


@pytest.mark.parametrize("before", [True, False])
def test_output_that_nobody_reads_is_discarded_at_the_end(pair, before, monkeypatch):
    monkeypatch.setattr(terminal, "STALLED_S", 0.2)
    if before:
        pair.output.end()
    writing = pair.write_much()
    if not before:
        writing.join(0.5)
        pair.output.end()
    pair.output.end()
    assert ends(writing) and not is_closed(pair.terminal)
    pair.output.close()
    os.write(pair.terminal, b"the next lines")  # of the command's own end
    assert pair.read(1 << 20, b"the next lines").endswith(terminal.RESET + b"the next lines")
    os.close(pair.reader)


def test_the_end_of_output_that_is_read_is_whole(pair, monkeypatch):
    monkeypatch.setattr(terminal, "STALLED_S", 30)
    pair.output.end()
    writing = pair.write_much()
    text, times = MANY
    assert len(pair.read(len(text) * times)) == len(text) * times
    assert ends(writing)
    os.close(pair.reader)
