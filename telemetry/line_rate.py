"""How much a link can carry in a time: what is more is not to be believed."""

from __future__ import annotations

from typing import Any

SLACK = 1.02  # clocks and their rounding
SLACK_BYTES = 32_768  # frames that were counted at one edge of a time and sent at the other
FASTEST_BPS = 10 * 10**12  # of links whose speed is not known: above all there are


def most_bytes(link_bps: Any, time_ns: Any) -> Any:
    """The most bytes of a time at a speed. Numbers, or arrays of them."""
    return link_bps / 8e9 * time_ns * SLACK + SLACK_BYTES
