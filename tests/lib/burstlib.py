"""Bins of bursts with a known answer."""

from __future__ import annotations

from typing import Any

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s


def full_bins(*starts: int, **more: Any) -> list[dict[str, Any]]:
    """Returns full bins of 1 ms at 1 Gb/s."""
    return [{"ts_ns": T0 + at * MS, "wire_bytes": FULL, "bytes": FULL - 1000, "packets": 80, **more} for at in starts]


def starts(bursts: list[dict[str, Any]]) -> list[int]:
    return [(burst["start_ns"] - T0) // MS for burst in bursts]
