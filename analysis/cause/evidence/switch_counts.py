"""Counters of the port's own switch, window by window: packets that it dropped, and packets that it marked (ECN CE).

The port can only have dropped a probe if the switch counts a drop, one drop for each probe. A queue marks every packet
that meets more than a threshold; after a mark, the link stays full until the bytes before the marked packet have left.
So the full stretches in marked windows bound the threshold, and a probe that waited for longer must find a mark as
well. This needs packets that can be marked, so that it can contradict, but never accuse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.stats import Estimate, Floats, Whole
from ..port import Port
from ..scene import Evidence, Scene, SwitchMarks
from .fifo import share_of_cases, waited_here
from .switch import CountedWindows

Truths = NDArray[np.bool_]


def against_counts(evidence: Evidence, scene: Scene, number: int) -> None:
    """Compare the lost and the late probes with what the switch counted at the port."""
    crossing, met, model = scene.crossings[number], evidence.met, evidence.fifo
    evidence.lost_elsewhere = evidence.tail.lost - int(evidence.tail.late_losses.sum())
    counted = scene.counted_at(number)
    if met is None or model is None or counted is None:
        return
    if counted.drops is not None:
        lost = met[evidence.dropped]
        evidence.lost_elsewhere += not_dropped(counted.drops, lost - model.error_ns, lost + model.error_ns)
    if counted.marks is not None:
        waited = waited_here(evidence.queued, crossing)
        late = np.flatnonzero(waited > evidence.tail.threshold_ns - evidence.tail.median_ns)
        evidence.switch_marks = marks_met(counted.marks, crossing.port, met[late], waited[late], model.error_ns)


def reaching(counts: CountedWindows, begin: Floats, end: Floats) -> tuple[Whole, Whole]:
    """Returns the first window, and one past the last, that overlap each interval; (0, 0) if the windows do not cover
    all of it."""
    first, last = np.searchsorted(counts.end, begin), np.searchsorted(counts.start, end, side="right")
    known = np.isfinite(begin) & np.isfinite(end) & (last > first)
    low, high = np.where(known, first, 0), np.where(known, last - 1, 0)
    if len(counts.end):
        holes = np.concatenate(([0], np.cumsum(counts.start[1:] > counts.end[:-1] + 1)))  # a ns of rounding
        known &= (counts.start[low] <= begin) & (counts.end[high] >= end) & (holes[low] == holes[high])
    return np.where(known, first, 0), np.where(known, last, 0)


def not_dropped(drops: CountedWindows, begin: Floats, end: Floats) -> int:
    """Returns how many of the probes that were lost somewhere in these intervals the port cannot have dropped, because
    all drops in overlapping windows are taken by other probes. As many probes as possible get a drop (matching by
    earliest end first)."""
    first, last = reaching(drops, begin, end)
    left, none = drops.packets.copy(), 0
    for row in np.argsort(last, kind="stable"):
        if last[row] == 0:
            continue
        some = np.flatnonzero(left[first[row] : last[row]] >= 1)
        if len(some):
            left[first[row] + some[0]] -= 1
        else:
            none += 1
    return none


def marks_met(marks: CountedWindows, port: Port, met: Floats, waited: Floats, error_ns: float) -> SwitchMarks | None:
    """Returns how many of the full stretches that delayed probes have a mark of the switch, and how many of those in
    which a probe waited for longer than its threshold. None if no window covers any."""
    starts, ends = port.busy_periods()
    stretch = port.period_at(port.position(met))
    found = stretch >= 0
    met, waited, stretch = met[found], waited[found], stretch[found]
    begin = np.minimum(port.time(starts[stretch]), met) - error_ns
    first, last = reaching(marks, begin, met + waited + error_ns)
    covered = last > first
    if not covered.any():
        return None
    sums = np.concatenate(([0.0], np.cumsum(marks.packets)))
    marked = (sums[last] > sums[first])[covered]
    threshold = threshold_of(marks, port.time(starts), (ends - starts) * port.bin_ns, error_ns)
    stretch, waited = stretch[covered], waited[covered]
    every = of_stretches(stretch, marked)
    longer = waited > threshold + error_ns
    return SwitchMarks(int(marks.packets.sum()), every, of_stretches(stretch[longer], marked[longer]),
                       float((marks.packets > 0).mean()))  # fmt: skip


def of_stretches(stretch: Whole, marked: Truths) -> Estimate | None:
    """Returns the share of the full stretches with a marked probe; None if there are too few."""
    numbers, of = np.unique(stretch, return_inverse=True)
    having = np.bincount(of, marked) > 0 if len(numbers) else np.zeros(0, dtype=bool)
    return share_of_cases(having, numbers.astype(float))


def threshold_of(marks: CountedWindows, begin: Floats, length: Floats, error_ns: float) -> float:
    """Returns an upper bound for the time that the switch's threshold takes to drain, ns: the longest full stretch in
    the median one of the marked windows. Infinite if it marked nothing."""
    here = np.flatnonzero(marks.packets > 0)
    if not len(here):
        return np.inf
    first = np.searchsorted(begin + length, marks.start[here] - error_ns)
    last = np.searchsorted(begin, marks.end[here] + error_ns, side="right")
    longest = np.zeros(len(here))
    some = last > first
    if some.any():
        edges = np.column_stack((first[some], last[some])).ravel()
        longest[some] = np.maximum.reduceat(np.append(length, 0.0), edges)[::2]
    return float(np.median(longest))
