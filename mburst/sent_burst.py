"""A canary burst as its sender knows it: telemetry/canary/ sends it, and analysis/canary/ looks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SentBurst:
    """A burst that was sent. Times are Unix ns by a clock that was not set during the run; both ends are exact to
    error_ns. held_up: the burst or one of its packets was later than planned, or the burst was interrupted."""

    number: int
    size_bytes: int
    length_ns: int
    start_ns: int
    end_ns: int
    error_ns: int
    stamps: str
    packets: int
    bytes: int
    held_up: bool
