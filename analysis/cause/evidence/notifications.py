"""Congestion notifications (CNP) of RoCEv2: receivers asked the senders of a port's traffic to send slower, because a
queue on the way had marked it (ECN). They do not identify the queue, so they are reported with the bursts, but are no
evidence for or against them."""

from __future__ import annotations

import numpy as np

from ..scene import Evidence, Notified, Scene
from .exposure import in_bursts


def against_notifications(evidence: Evidence, scene: Scene, number: int) -> None:
    """Count the notifications that came while the port had a burst, and measure the share of its recorded time in
    bursts."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    signals = port.signals
    if signals is None or not signals.notifications.any():
        return
    slack = float(max(port.bin_ns, signals.bin_ns))  # its time within its bin is unknown
    inside = in_bursts(signals.at + signals.bin_ns / 2, bursts, slack)
    bins = (np.arange(port.bins) + 0.5).astype(float)
    usual = float(in_bursts(port.time(bins), bursts, slack).mean()) if port.bins else 0.0
    packets = int(signals.notifications.sum())
    evidence.notified = Notified(port, packets, int(signals.notifications[inside].sum()), usual)
