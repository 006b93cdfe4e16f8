"""The queue that recorded senders predict, compared with the windows that its switch reported."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..model.lines import Fit, fit
from .arrivals import Arrivals
from .evidence.switch import PortQueue
from .port import Port


class Prediction(NamedTuple):
    """The queue that the senders' bins predict, compared with the windows that the switch reported (bytes on bytes)."""

    senders: int
    peak_bytes: float
    against_switch: Fit | None


def predicted(port: Port, came: Arrivals, windows: PortQueue | None) -> Prediction:
    """Returns the queue that the senders' bytes predict, compared with the switch's windows of it."""
    line = None
    if windows is not None and len(windows.end):
        edges = port.time(np.arange(port.bins, dtype=float))
        first, last = np.searchsorted(edges, windows.start), np.searchsorted(edges, windows.end)
        whole = last > first
        peaks = np.array([came.backlog[a:b].max() for a, b in zip(first[whole], last[whole], strict=True)])
        line = fit(peaks, windows.max_bytes[whole]) if len(peaks) else None
    return Prediction(came.senders, float(came.backlog.max(initial=0.0)), line)
