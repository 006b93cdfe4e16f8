"""What came to a port, where those who sent it were recorded too: the sum of their outgoing bins.

A receiver sees departures only, so its own bins never show how deep the queue before it was. The senders' bins do: what
came less what could leave (Lindley's recursion), provided that they are all of the traffic and keep one clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..model.stats import Floats
from .port import Port

ALIKE_BYTES = 0.1  # senders' bytes may differ from the port's by this share: else others sent, or they sent elsewhere


class Arrivals(NamedTuple):
    """Of each bin of a receiver's port: bytes that came, and the backlog at its end."""

    senders: int
    bytes: Floats
    backlog: Floats

    def backlog_at(self, position: Floats) -> Floats:
        """At positions (port.position) of the port, linear between the ends of bins; NaN outside of the recording."""
        found: Floats = np.interp(position, np.arange(1, len(self.backlog) + 1), self.backlog, left=0.0)
        return np.where(np.isfinite(position), found, np.nan)


def arrivals_of(port: Port, ports: list[Port]) -> Arrivals | None:
    """What the recorded senders sent to a receiver's port; None unless they sent what it carried, within
    ALIKE_BYTES."""
    senders = [other for other in ports if other.direction == "out" and other.host != port.host]
    if port.direction != "in" or len(senders) < 2:
        return None
    edges = port.time(np.arange(port.bins, dtype=float))
    sent = np.zeros(port.bins)
    for sender in senders:
        low, high = sender.position(edges), sender.position(edges + float(port.bin_ns))
        known = np.isfinite(low) & np.isfinite(high)
        sent[known] += sender.carried_before(high[known]) - sender.carried_before(low[known])
    if abs(sent.sum() - port.carried[-1]) > ALIKE_BYTES * port.carried[-1]:
        return None
    total = np.cumsum(sent - port.bin_bytes)
    return Arrivals(len(senders), sent, total - np.minimum(0, np.minimum.accumulate(total)))
