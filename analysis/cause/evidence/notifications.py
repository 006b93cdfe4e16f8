"""Congestion notifications (CNP) of RoCEv2: receivers asked the senders of a port's traffic to send slower, because a
queue on the way had marked it (ECN). Which queue, they do not show, so they are a fact beside the bursts, and neither
for nor against them."""

from __future__ import annotations

import numpy as np

from ..scene import Evidence, Notified, Scene
from .exposure import in_bursts


def against_notifications(evidence: Evidence, scene: Scene, number: int) -> None:
    """How many came while the port had a burst, and how much of its recorded time it had one."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    signals = port.signals
    if signals is None or not signals.notifications.any():
        return
    slack = float(max(port.bin_ns, signals.bin_ns))  # where in its bin one came is not known
    inside = in_bursts(signals.at + signals.bin_ns / 2, bursts, slack)
    bins = (np.arange(port.bins) + 0.5).astype(float)
    usual = float(in_bursts(port.time(bins), bursts, slack).mean()) if port.bins else 0.0
    packets = int(signals.notifications.sum())
    evidence.notified = Notified(port, packets, int(signals.notifications[inside].sum()), usual)
