"""The arrivals at a port with recorded senders: the sum of their outgoing bins.

A receiver sees only departures, so its own bins never show the depth of the queue before it. The senders' bins do: the
queue is what arrived less what could leave (Lindley's recursion), provided that these senders sent all of the traffic
and share one clock.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats
from .port import Port

ALIKE_BYTES = 0.1  # share by which bytes may differ; beyond it, others sent too, or senders sent elsewhere


class Arrivals(NamedTuple):
    """For each bin of a receiver's port, the bytes that arrived, and the backlog at its end. begins: the first bin of
    each stretch of recorded time; the backlog before it is unknown and taken as zero."""

    senders: int
    bytes: Floats
    backlog: Floats
    begins: NDArray[np.int64]

    def backlog_at(self, position: Floats) -> Floats:
        """Returns the backlog at positions (port.position) of the port, linear between the ends of bins; NaN outside of
        the recording."""
        bins = np.arange(len(self.backlog))
        edges, backlog = np.insert(bins + 1, self.begins, self.begins), np.insert(self.backlog, self.begins, 0.0)
        found: Floats = np.interp(position, edges, backlog)
        return np.where(np.isfinite(position), found, np.nan)


def arrivals_of(port: Port, ports: list[Port]) -> Arrivals | None:
    """Returns the traffic of the recorded senders to a receiver's port; None unless it matches the port's own bytes
    within ALIKE_BYTES."""
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
    """Returns the backlog at the end of each bin. SURPLUS is the bytes of each bin that exceed what the link can carry;
    there is no backlog before the first bin."""
    total = np.cumsum(surplus)
    found: Floats = total - np.minimum(0, np.minimum.accumulate(total))
    return found
