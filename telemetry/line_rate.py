"""How much a link can carry in a time. Larger amounts are not plausible."""

from __future__ import annotations

from typing import Any

SLACK = 1.02  # for clocks and their rounding
SLACK_BYTES = 32_768  # for frames that were counted at one edge of a time and sent at the other
FASTEST_BPS = 10 * 10**12  # for links of unknown speed: faster than any existing link


def most_bytes(link_bps: Any, time_ns: Any) -> Any:
    """The most bytes that a link of that speed carries in that time. Accepts numbers, or arrays of them."""
    return link_bps / 8e9 * time_ns * SLACK + SLACK_BYTES
