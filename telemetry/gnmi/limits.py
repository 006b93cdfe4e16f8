"""Limits for the memory and time that a device may use on this host. What exceeds them is not kept, and counted."""

from __future__ import annotations

MESSAGE_BYTES = 16 << 20  # of one message, unless the configuration states another limit
PATHS = 50_000  # that are known of one device, unless the configuration states another limit
LONG_PATH = 256  # letters: a path counts once more for each of this many
PATH_BYTES = 2048  # of one path
CACHE_BYTES = 32 << 20  # of serialized paths, by which one subscription finds leaves
STEPS = 64  # of one path
VALUE_BYTES = 256 << 10  # of one value that is kept as text
UPDATES = 1_000_000  # of one message, deletes included
JSON_PARTS = 500_000  # of one JSON document
LIST_PARTS = 10_000  # of one list of values
DELETE_SHAPES = 64  # in one message: see deletes.py
DETAILS = 32  # of counts that are distinguished between two reports
LINKS = 10_000  # rows of neighbours from one report to the next
MODELS = 10_000  # that a device reports to have
ERRORS_REPORTED = 10  # of the errors that a device reports over one connection
WAITING_ROWS = 262_144  # that are not yet Arrow, of all devices; then reading waits for them
WAITING_BYTES = 64 << 20  # the same of their texts
AT_ONCE = 512  # updates that are processed before another thread may have the lock


class LimitExceeded(ValueError):
    """Something that exceeds a limit; the message names it, without any text from the device."""
