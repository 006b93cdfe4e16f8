"""What can keep a rack from being built or from running."""

from __future__ import annotations

from ...errors import MburstError


class RackUnavailable(MburstError):
    """This machine cannot build a rack. The message says what is missing, the hint how to get it."""


class RackFailed(MburstError):
    """A rack that was built did not do its work: a host's program ended early, a recorder failed."""
