"""What came to a port, where those who sent it were recorded too: the sum of their outgoing bins.

A receiver sees departures only, so its own bins never show how deep the queue before it was. The senders' bins do: what
came less what could leave (Lindley's recursion), provided that they are all of the traffic and keep one clock.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats
from .port import Port

ALIKE_BYTES = 0.1  # senders' bytes may differ from the port's by this share: else others sent, or they sent elsewhere


class Arrivals(NamedTuple):
    """Of each bin of a receiver's port: bytes that came, and the backlog at its end. begins: the first bin of each
    stretch of recorded time, before which no backlog is known: it is taken for none."""

    senders: int
    bytes: Floats
    backlog: Floats
    begins: NDArray[np.int64]

    def backlog_at(self, position: Floats) -> Floats:
        """At positions (port.position) of the port, linear between the ends of bins; NaN outside of the recording."""
        bins = np.arange(len(self.backlog))
        edges, backlog = np.insert(bins + 1, self.begins, self.begins), np.insert(self.backlog, self.begins, 0.0)
        found: Floats = np.interp(position, edges, backlog)
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
    backlog = [backlog_of(sent[begin:end] - port.bin_bytes) for begin, end in pairwise(port.offsets.tolist())]
    return Arrivals(len(senders), sent, np.concatenate(backlog), port.offsets[:-1])


def backlog_of(surplus: Floats) -> Floats:
    """At the end of each bin, of what came in it beyond what the link carries; none before the first."""
    total = np.cumsum(surplus)
    found: Floats = total - np.minimum(0, np.minimum.accumulate(total))
    return found
