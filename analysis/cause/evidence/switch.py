"""What the port's own switch says of the waits: the strongest evidence there is, for and against.

The largest depth of a window bounds what anybody in it can have waited, however long the window is: a probe that waits
for w has w × line rate before it. What it counted of drops and marks: switch_counts.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...model.stats import Floats

FITTING = 0.5  # of the depth that the waits need, at least; and they need at least as much of the depth
ALLOWED = 0.8  # of the waiting, at least: of small frames a device may count a quarter less than they take on the wire


class PortQueue(NamedTuple):
    """Windows of the port's queue as its switch reported them, sorted by end. Times ns since the origin."""

    name: str
    start: Floats
    end: Floats
    max_bytes: Floats
    dropped: int | None = None  # packets, of all windows; None where the switch does not report it
    marked: int | None = None  # likewise, with ECN CE
    place: tuple[str, str] = ("", "")  # device and port


class CountedWindows(NamedTuple):
    """Packets that a switch port counted in windows, sorted and without overlap. Times ns since the origin."""

    name: str
    start: Floats
    end: Floats
    packets: Floats

    def joined(self) -> CountedWindows:
        """The same where windows overlap: one window each, with all that they counted."""
        order = np.argsort(self.start, kind="stable")
        start, end, packets = (side[order] for side in self[1:])
        if not len(start):
            return self
        until = np.maximum.accumulate(end)
        first = np.flatnonzero(np.concatenate(([True], start[1:] >= until[:-1])))
        return CountedWindows(self.name, start[first], np.maximum.reduceat(end, first), np.add.reduceat(packets, first))


class SwitchCounts(NamedTuple):
    """What a switch port counted in all of its queues: packets that it dropped, and that it marked with ECN CE. None
    where the switch does not report."""

    drops: CountedWindows | None
    marks: CountedWindows | None


class QueueAgreement(NamedTuple):
    """agreement: median of (largest depth / line rate) / wait over probes that waited. allowed: the part of their
    waiting that is no longer than that depth takes. seen: whether windows show as much depth as the longest wait in
    each needs, and not much more: then the queue that was waited in is this one."""

    agreement: float
    allowed: float
    seen: bool

    @property
    def fits(self) -> bool:
        """Whether the queue may have made the waits: most of them, and the long ones too."""
        return self.agreement >= FITTING and self.allowed >= ALLOWED


def depth_at(queue: PortQueue, time: Floats) -> Floats:
    """The largest depth of the window that each time lies in, bytes; NaN outside of every window."""
    return deepest(queue, time, time)


def deepest(queue: PortQueue, begin: Floats, end: Floats) -> Floats:
    """The largest depth of the windows that reach into each interval, bytes; NaN where none does."""
    first = np.searchsorted(queue.end, begin)
    last = np.searchsorted(queue.start, end, side="right")
    inside = np.isfinite(begin) & np.isfinite(end) & (last > first)
    found = np.full(len(begin), np.nan)
    if inside.any():
        edges = np.column_stack((first[inside], last[inside])).ravel()
        found[inside] = np.maximum.reduceat(np.append(queue.max_bytes, 0.0), edges)[::2]
    return found


def word(queue: PortQueue, link_bps: float, met: Floats, waited: Floats, error_ns: float) -> QueueAgreement | None:
    """What the windows say of waits that began at `met`. None where no window covers any."""
    drain = deepest(queue, met - error_ns, met + waited + error_ns) / link_bps * 8e9 + error_ns
    known = np.isfinite(drain)
    if not known.any():
        return None
    ratio = drain[known] / waited[known]
    window = np.searchsorted(queue.end, met[known])
    longest = np.zeros(int(window.max()) + 1)
    np.maximum.at(longest, window, waited[known])
    peak = np.zeros(len(longest))
    np.maximum.at(peak, window, drain[known])
    typical = float(np.median((longest / np.maximum(peak, 1e-9))[longest > 0]))
    allowed = float(np.minimum(drain, waited)[known].sum() / waited[known].sum())
    return QueueAgreement(float(np.median(ratio)), allowed, FITTING <= typical <= 1 / FITTING)
