"""What is printed: an error says that it is about standard output, which has no name of its own, and what runs until a
signal outlives who reads it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from errno import EIO
from typing import Any, TextIO

NAME = "standard output"


class _Reader:
    """Of what this process prints; there is one."""

    outlived = False


class _Output(io.FileIO):
    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = os.isatty(descriptor)  # asked now: one that was closed says no

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            is_unread = isinstance(error, BrokenPipeError) or (error.errno == EIO and self._is_terminal)
            if is_unread and _Reader.outlived:
                return len(data)
            if not isinstance(error, BrokenPipeError):  # nobody reads on: that is no failure
                error.filename = NAME
            raise


class _ErrorOutput(io.FileIO):
    """What cannot be written here is lost: nothing could say so, and the exit code says that something failed."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def own_process() -> None:
    """Have standard output name itself in errors, and be there where the process was started without; nothing fails
    for lack of standard error. For a process that is this package's alone."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: what is opened next would be taken for it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    sys.stdout = _through(_Output, sys.stdout)
    sys.stderr = _through(lambda descriptor: _ErrorOutput(descriptor, "w", closefd=False), sys.stderr)


def _through(make: Callable[[int], io.FileIO], given: TextIO) -> TextIO:
    """GIVEN by way of what MAKE makes of its descriptor."""
    if not isinstance(given, io.TextIOWrapper):
        return given
    output = make(given.fileno())
    return io.TextIOWrapper(
        output if given.write_through else io.BufferedWriter(output),  # as Python's own is
        given.encoding,
        given.errors,
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )


def outlive_reader() -> None:
    """From here on, what is printed and nobody reads (a pipe whose reader has ended, a terminal that was closed) is
    lost, and nothing fails for it: this process works on, and its exit code is that of its work."""
    _Reader.outlived = True


def give_up() -> None:
    """Print no more: what was not printed yet is lost."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
