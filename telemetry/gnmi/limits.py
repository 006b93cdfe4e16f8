"""What a device may take of this host's memory and time. What is beyond is not kept, and counted."""

from __future__ import annotations

MESSAGE_BYTES = 16 << 20  # of one message, unless the configuration says otherwise
PATHS = 50_000  # that are known of one device, unless the configuration says otherwise
LONG_PATH = 256  # letters: a path counts once more for each so many
PATH_BYTES = 2048  # of one path
CACHE_BYTES = 32 << 20  # of paths as they came, by which one subscription finds them
STEPS = 64  # of one path
VALUE_BYTES = 256 << 10  # of one value that is kept as text
UPDATES = 1_000_000  # of one message, deletes included
JSON_PARTS = 500_000  # of one JSON document
LIST_PARTS = 10_000  # of one list of values
DELETE_SHAPES = 64  # in one message: see deletes.py
DETAILS = 32  # that are distinguished between two reports of what was counted
LINKS = 10_000  # rows of neighbours from one telling to the next
MODELS = 10_000  # that a device says it has
ERRORS_REPORTED = 10  # of the errors that a device reports over one connection
WAITING_ROWS = 262_144  # that are not yet Arrow, of all devices; then reading waits for them
WAITING_BYTES = 64 << 20  # the same of their texts
AT_ONCE = 512  # updates that are taken in before another may have the lock


class LimitExceeded(ValueError):
    """Something that is beyond a limit; the message says what, without what the device said."""
