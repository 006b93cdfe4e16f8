"""The failures that a user can cause or mend. The command line prints them as one line."""

from __future__ import annotations

import sys

MORE_FILES = "allow more open files (ulimit -n)"
MORE_MEMORY = "allow it more memory (ulimit -v)"


class MburstError(Exception):
    """Something that a user can act on. `hint` is what to do about it, in a sentence or empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(MburstError):
    """The call itself is wrong: an unknown unit, options that exclude each other."""

    exit_code = 2


class Interrupted(MburstError):
    """SIGINT, SIGTERM or SIGHUP ended what was asked before it was done."""

    exit_code = 130


def print_trouble(error: MburstError) -> None:
    """Say on standard error what went wrong, though work goes on."""
    print(f"mburst: {error}\n", end="", file=sys.stderr, flush=True)  # at once, among the lines of other threads
