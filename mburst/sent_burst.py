"""A canary burst as its sender knows it: what telemetry/canary/ sends, and analysis/canary/ looks for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SentBurst:
    """A burst that was sent. Times are Unix ns, as if this host's clock had not been set during the run; both ends are
    known within error_ns. held_up: it, or a packet of it, was later than asked, or it was broken off."""

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
