"""The errors that a user can cause or fix. The command line prints each as one line."""

from __future__ import annotations

MORE_FILES = "allow more open files (ulimit -n)"
MORE_MEMORY = "allow it more memory (ulimit -v)"


class MburstError(Exception):
    """An error on which a user can act. `hint` is the remedy, as one sentence or empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(MburstError):
    """The call itself is wrong: an unknown unit, options that exclude each other."""

    exit_code = 2


class UnresolvedName(MburstError):
    """The name of a host has no address, perhaps only now."""


class Interrupted(MburstError):
    """SIGINT, SIGTERM or SIGHUP ended the command before it was done."""

    exit_code = 130
