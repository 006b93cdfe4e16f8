"""Standard output and standard error: errors about standard output name it, and commands survive the loss of its
reader; long-running ones do not wait for it."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from typing import Any, ClassVar, TextIO, TypeVar

from ..messages import print_message
from . import interrupting, unread

NAME = "standard output"
Row = TypeVar("Row")


class _Reader:
    """The state of this process; there is only one."""

    outlived = False
    outputs: ClassVar[list[_StandardStream]] = []  # all that a thread may write


class _StandardStream(io.FileIO):
    """One of the two, which a thread writes from the first `without_waiting` on, or once a signal has arrived. Until
    then a signal interrupts the writing."""

    is_result = False  # whether it has the results of the command

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = os.isatty(descriptor)  # determined now, because a closed terminal is none
        self.thread: unread.OutputThread | None = None
        self.was_unread = False  # when a signal ended the work
        _Reader.outputs.append(self)

    def write(self, data: Any, /) -> int:
        if self.thread is None and (_Reader.outlived or interrupting.arrived):
            with suppress(RuntimeError):  # no thread can be started: as before
                self.thread = unread.OutputThread(self.write_now, self.report, lambda: self.was_unread, self.is_result)
        if self.thread is None:
            return self.write_now(data)
        self.thread.put(bytes(data))
        return len(data)

    def write_now(self, data: Any) -> int:
        """Write DATA, and return the number of bytes that are written. Raises OSError."""
        while (count := super().write(data)) is None:  # another process has made the file non-blocking
            select.select([], [self.fileno()], [])
        return count

    def note_reader(self) -> None:
        """Note whether nothing can be written now."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        self.was_unread = self.was_unread or not poll.poll(0)

    def report(self, lines: int) -> bytes:
        """Report that LINES were left out, or return the bytes that do."""
        raise NotImplementedError


class _Output(_StandardStream):
    is_result = True
    has_left = False  # whether the reader of the pipe or socket is gone

    def write_now(self, data: Any) -> int:
        try:
            return super().write_now(data)
        except OSError as error:
            if isinstance(error, BrokenPipeError | ConnectionResetError):  # no failure: the exit code is the work's
                self.has_left = True
                return len(data)
            if error.errno == EIO and self._is_terminal and _Reader.outlived:
                return len(data)
            error.filename = NAME
            raise

    def report(self, lines: int) -> bytes:
        print_message(_left_out(NAME, lines))
        return b""


class _ErrorOutput(_StandardStream):
    """Discards what cannot be written: nothing could report that, and the exit code reports the failure."""

    def write_now(self, data: Any) -> int:
        try:
            return super().write_now(data)
        except OSError:
            return len(data)

    def report(self, lines: int) -> bytes:
        return f"mburst: {_left_out('standard error', lines)}\n".encode()


def _left_out(name: str, lines: int) -> str:
    return f"{name} was not read: {lines:,} line{'s' * (lines != 1)} left out"


def own_process() -> None:
    """Make standard output name itself in errors, and exist even if the process was started without it. Failures of
    standard error are ignored. Only for mburst's own process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next opened file would take its place
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    sys.stdout = _through(_Output, sys.stdout)
    sys.stderr = _through(_ErrorOutput, sys.stderr)


def _through(make: Callable[[int], io.FileIO], given: TextIO) -> TextIO:
    """Returns GIVEN with the raw file that MAKE creates from its descriptor."""
    if not isinstance(given, io.TextIOWrapper):
        return given
    output = make(given.fileno())
    return io.TextIOWrapper(
        output if given.write_through else io.BufferedWriter(output),  # like Python's own
        given.encoding,
        given.errors,
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )


def read_rows(rows: Iterable[Row], out: TextIO) -> Iterator[Row]:
    """Yields ROWS, which are written to OUT. If OUT is standard output, they end once its reader is gone: a verb with
    many rows then ends early, with the exit code of its work up to there. Other streams get all."""
    buffer = getattr(out, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    for row in rows:
        if isinstance(raw, _Output) and raw.has_left:
            return
        yield row


@contextmanager
def without_waiting() -> Iterator[None]:
    """In this context, output does not wait for its reader (mburst/process/unread.py). From now on, also after it,
    discard output to a closed terminal without an error, as always to a pipe without a reader: the process continues,
    and its exit code is that of its work."""
    _Reader.outlived = True
    with unread.without_waiting():
        yield


def note_readers() -> None:
    """Note which outputs nobody reads, as a signal ends the work: the end waits no longer than unread.PATIENCE_S for
    these, and without a limit for others, even if somebody stops the terminal to read results."""
    for output in _Reader.outputs:
        output.note_reader()


def write_all() -> None:
    """Write what is not written yet. Raises OSError."""
    sys.stdout.flush()
    for output in _Reader.outputs:
        if output.thread:
            output.thread.finish()


def finish() -> bool:
    """Write what was printed after `write_all`, at the end of the process. Returns whether all results were written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the verb's output is already written: this is what followed
            stream.flush()
    threads = [output.thread for output in _Reader.outputs if output.thread]
    for thread in threads:
        with suppress(OSError):
            thread.finish()
    return not any(thread.lacks_results for thread in threads)


def give_up() -> None:
    """Print nothing more; unwritten output is lost."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
