"""The bits of `quality`. sql/schema/quality.sql says what each means; a test holds these to it and to the engine."""

from __future__ import annotations

from enum import IntFlag


class Quality(IntFlag):
    """Of bins, queue windows, ports and bursts: any number of them together."""

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


COARSE_STAMPS = Quality.RING | Quality.FILE_US  # some packets were stamped late, or in µs

# Of its width: how far from the edge of a bin a sample of a running total may be, for the bin to hold what lies between
# two samples (backend `otlp`).
SAMPLE_NEAR = 0.75
