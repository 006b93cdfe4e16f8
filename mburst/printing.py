"""What is printed: an error says that it is about standard output, which has no name of its own."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

NAME = "standard output"


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # nobody reads on: that is no failure
            raise
        except OSError as error:
            error.filename = NAME
            raise


def own_process() -> None:
    """Have standard output name itself in errors, and be there where the process was started without. For a process
    that is this package's alone."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: what is opened next would be taken for it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    given = sys.stdout
    if not isinstance(given, io.TextIOWrapper):
        return
    output = _Output(given.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        output if given.write_through else io.BufferedWriter(output),  # as Python's own is
        given.encoding,
        given.errors,
        line_buffering=given.line_buffering,
        write_through=given.write_through,
    )


def give_up() -> None:
    """Print no more: what was not printed yet is lost."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
