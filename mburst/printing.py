"""Standard output and standard error: errors about standard output name it, and long-running commands survive the loss
of its reader."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from errno import EIO
from typing import Any, TextIO

NAME = "standard output"


class _Reader:
    """The state of this process; there is only one."""

    outlived = False


class _Output(io.FileIO):
    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = os.isatty(descriptor)  # determined now, because a closed terminal is none

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            is_unread = isinstance(error, BrokenPipeError) or (error.errno == EIO and self._is_terminal)
            if is_unread and _Reader.outlived:
                return len(data)
            if not isinstance(error, BrokenPipeError):  # a pipe without a reader is no failure
                error.filename = NAME
            raise


class _ErrorOutput(io.FileIO):
    """Discards what cannot be written: nothing could report that, and the exit code reports the failure."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def own_process() -> None:
    """Make standard output name itself in errors, and exist even if the process was started without it. Failures of
    standard error are ignored. Only for mburst's own process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: the next opened file would take its place
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    sys.stdout = _through(_Output, sys.stdout)
    sys.stderr = _through(lambda descriptor: _ErrorOutput(descriptor, "w", closefd=False), sys.stderr)


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


def outlive_reader() -> None:
    """From now on, discard output that nobody reads (a pipe without a reader, a closed terminal) without an error: the
    process continues, and its exit code is that of its work."""
    _Reader.outlived = True


def give_up() -> None:
    """Print nothing more; unwritten output is lost."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
