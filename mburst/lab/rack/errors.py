"""Errors of building and running a rack."""

from __future__ import annotations

from ...errors import MburstError


class RackUnavailable(MburstError):
    """This machine cannot build a rack. The message says what is missing, the hint how to install it."""


class RackFailed(MburstError):
    """A rack did not work: the program of a host ended early, or a recorder failed."""
