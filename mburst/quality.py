"""The bits of `quality`. sql/schema/quality.sql documents each; a test compares these with it and with the engine."""

from __future__ import annotations

from enum import IntFlag


class Quality(IntFlag):
    """Flags of bins, queue windows, ports and bursts; any number of them may be combined."""

    HW = 1
    SW = 2
    RING = 4
    FILE_US = 8
    UNSYNCED = 16
    DROPS = 32
    GRO = 64
    TRUNCATED = 128
    STEPPED = 256
    RESET = 512
    IMPOSSIBLE = 1024
    GAP = 2048
    GUESSED = 4096
    GNMI_DUPLICATES = 8192
    INCOMPLETE = 16384
    JITTER = 32768


COARSE_STAMPS = Quality.RING | Quality.FILE_US  # some packets were stamped late, or with a resolution of µs

# The kinds of stamps, the most exact first: their names in tables, as in sql/schema/quality.sql, and words for users.
STAMP_NAMES = {Quality.HW: "hw", Quality.SW: "sw", Quality.RING: "ring", Quality.FILE_US: "file-µs"}
STAMP_WORDS = {Quality.HW: "hardware", Quality.SW: "kernel", Quality.RING: "ring", Quality.FILE_US: "coarse (µs)"}
STAMPERS = Quality.HW | Quality.SW | Quality.RING  # the kinds that show what stamped a packet

# Greatest distance of a sample of a running total from the edge of a bin, as a share of the bin's width, at which the
# bin still holds what lies between two samples (backend `otlp`).
SAMPLE_NEAR = 0.75
