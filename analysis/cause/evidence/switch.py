"""The port's own switch on the waits: the strongest evidence, for and against.

The largest depth of a window bounds the wait of any packet in it, however long the window is: a probe that waits for w
has w × line rate before it. Counted drops and marks: switch_counts.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...model.stats import Floats, Whole

FITTING = 0.5  # of the depth that the waits need, at least; and they need at least as much of the depth
ALLOWED = 0.8  # of the waiting, at least: a device may count a quarter less of small frames than they take on the wire


class PortQueue(NamedTuple):
    """Windows of the port's queue as its switch reported them, sorted by end. Times are ns since the origin."""

    name: str
    start: Floats
    end: Floats
    max_bytes: Floats
    dropped: int | None = None  # packets, of all windows; None if the switch does not report it
    marked: int | None = None  # packets with ECN CE, of all windows; None if the switch does not report it
    place: tuple[str, str] = ("", "")  # device and port


class CountedWindows(NamedTuple):
    """Packets that a switch port counted in windows, sorted and without overlap. Times are ns since the origin."""

    name: str
    start: Floats
    end: Floats
    packets: Floats

    def joined(self) -> CountedWindows:
        """Returns the windows with overlapping ones merged into one that has all of their packets."""
        order = np.argsort(self.start, kind="stable")
        start, end, packets = (side[order] for side in self[1:])
        if not len(start):
            return self
        until = np.maximum.accumulate(end)
        first = np.flatnonzero(np.concatenate(([True], start[1:] >= until[:-1])))
        return CountedWindows(self.name, start[first], np.maximum.reduceat(end, first), np.add.reduceat(packets, first))


class SwitchCounts(NamedTuple):
    """Packets that a switch port dropped, and that it marked with ECN CE, in all of its queues. None if the switch does
    not report them."""

    drops: CountedWindows | None
    marks: CountedWindows | None


class QueueAgreement(NamedTuple):
    """agreement: median of (largest depth / line rate) / wait over probes that waited. allowed: the part of their
    waiting that is no longer than that depth takes. seen: whether windows show as much depth as the longest wait in
    each needs, and not much more; then the probes waited in this queue."""

    agreement: float
    allowed: float
    seen: bool

    @property
    def fits(self) -> bool:
        """Whether the queue may have caused the waits: most of them, and the long ones too."""
        return self.agreement >= FITTING and self.allowed >= ALLOWED


def depth_at(queue: PortQueue, time: Floats) -> Floats:
    """Returns the largest depth of the window that each time lies in, bytes; NaN outside of every window."""
    return deepest(queue, time, time)


def deepest(queue: PortQueue, begin: Floats, end: Floats) -> Floats:
    """Returns the largest depth of the windows that overlap each interval, bytes; NaN if none does. Windows may overlap
    each other, as those of several collections."""
    asked = np.flatnonzero(np.isfinite(begin) & np.isfinite(end))
    asked = asked[np.argsort(end[asked], kind="stable")]
    first, last = np.searchsorted(queue.end, begin[asked]), np.searchsorted(queue.end, end[asked])
    depth = np.full(len(asked), -np.inf)
    if (ending := last > first).any():  # windows that end in the interval
        edges = np.column_stack((first[ending], last[ending])).ravel()
        depth[ending] = np.maximum.reduceat(np.append(queue.max_bytes, 0.0), edges)[::2]
    opens, closes = np.searchsorted(end[asked], queue.start), np.searchsorted(end[asked], queue.end, side="right")
    depth = np.maximum(depth, _over_ranges(len(asked), opens, closes, queue.max_bytes))  # those that contain its end
    found = np.full(len(begin), np.nan)
    found[asked] = np.where(np.isfinite(depth), depth, np.nan)
    return found


def _over_ranges(places: int, first: Whole, last: Whole, value: Floats) -> Floats:
    """Returns, for each of PLACES, the largest value of the ranges [first, last) that contain it; -inf if none does.
    Each range is two that overlap, of a power of two; from the longest on, each is divided into halves."""
    power = np.frexp(np.maximum(last - first, 0))[1] - 1  # -1: an empty range
    found = np.full(places, -np.inf)
    for k in range(int(power.max(initial=0)), -1, -1):
        at = np.flatnonzero(power == k)
        np.maximum.at(found, first[at], value[at])
        np.maximum.at(found, last[at] - (1 << k), value[at])
        if k:
            half = 1 << (k - 1)
            found[half:] = np.maximum(found[half:], found[:-half].copy())
    return found


def word(queue: PortQueue, link_bps: float, met: Floats, waited: Floats, error_ns: float) -> QueueAgreement | None:
    """Returns how the windows agree with waits that began at `met`. None if no window covers any."""
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
