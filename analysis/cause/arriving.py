"""The arrival times of the bytes that a port carried. A receiver sees only departures; probes see both ends of a wait.

At the time at which a probe leaves a full FIFO port, the port has carried exactly the bytes that arrived before that
probe. A probe that arrives at `t` and waits for `w` is therefore a point of the arrival curve: the bytes that arrived
until `t` have left at `t + w`. Between these points, the bytes of a full stretch are assumed to arrive evenly over its
first part, which is one number for each stretch. If the senders were recorded too, their outgoing bins give the points.

Amounts are times: how long the port takes to carry them, in ns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ethernet import FULL_FRAME_WIRE_BYTES
from ..model.stats import Floats
from .arrivals import Arrivals
from .port import Port

SHARES = np.concatenate((np.geomspace(0.01, 0.5, 40), np.linspace(0.52, 1.0, 25)))  # of a stretch: its first part


class FullStretches(NamedTuple):
    """Times in which a port was full, ns, sorted and disjoint. rate: bytes that it carries per ns of them. background:
    the share of the rate that it carries at other times, and is assumed to carry in the stretches too."""

    begin: Floats
    end: Floats
    rate: float
    background: float

    @property
    def length(self) -> Floats:
        return self.end - self.begin

    def holding(self, time: Floats) -> NDArray[np.int64]:
        """Returns the index of the stretch that each time lies in; −1: none."""
        place = np.searchsorted(self.begin, time, side="right") - 1
        inside = (place >= 0) & (time < np.append(self.end, -np.inf)[place])
        return np.where(inside, place, -1)


class ArrivalCurve(NamedTuple):
    """Bytes that arrived until `time` have left at `until`; linear in between. Both ascend. ns."""

    time: Floats
    until: Floats

    def leaving(self, time: Floats) -> Floats:
        """Returns the time at which bytes that arrive at a time of a stretch have left."""
        return np.interp(time, self.time, self.until)

    def coming(self, left: Floats) -> Floats:
        """Returns the time at which bytes that left at a time of a stretch had arrived."""
        _, first = np.unique(self.until, return_index=True)
        return np.interp(left, self.until[first], self.time[first])


def stretches_of(port: Port) -> FullStretches:
    """Returns the full stretches of the port. Their ends lie inside the bins before and after, in proportion to how
    full these bins are."""
    first, last = (side.astype(np.int64) for side in port.busy_periods())
    volume = float((port.carried[last] - port.carried[first]).sum())
    full = float((last - first).sum())
    quiet = port.bins - full
    background = (float(port.carried[-1]) - volume) / (quiet * port.bin_bytes) if quiet > 0 else 0.0
    background = min(background, 0.9)
    reach = max(1, int(np.ceil(8 * FULL_FRAME_WIRE_BYTES / port.bin_bytes)))
    stretch = port.stretch_of(first.astype(float))  # a full stretch stays within it
    low, high = np.maximum(first - reach, port.offsets[stretch]), np.minimum(last + reach, port.offsets[stretch + 1])

    def part(a: NDArray[np.int64], b: NDArray[np.int64]) -> Floats:
        """Returns how much time of the bins between A and B was full, ns."""
        filled = (port.carried[b] - port.carried[a]) / (reach * port.bin_bytes)
        return np.clip((filled - background) / (1 - background), 0, 1) * reach * port.bin_ns

    begin = port.time(first.astype(float)) - part(low, first)
    end = port.end_time(last.astype(float)) + part(last, high)
    carried = float((port.carried[high] - port.carried[low]).sum())
    length = float((end - begin).sum())
    beside = background * port.bin_bytes / port.bin_ns * (float((high - low).sum()) * port.bin_ns - length)
    rate = min((carried - beside) / length, port.link_bps / 8e9) if length > 0 else port.link_bps / 8e9
    return FullStretches(begin, end, rate, background)


def curve_of_probes(full: FullStretches, met: Floats, waited: Floats) -> tuple[ArrivalCurve, float]:
    """Returns the arrival curve from probes that met the port at `met` (sorted) and waited there, and the first part of
    a stretch in which most of them place its bytes."""
    place = full.holding(met)
    inside = (place >= 0) & np.isfinite(waited)
    met, waited, place = met[inside], waited[inside], place[inside]
    share, common = first_parts(full, met, waited, place)
    until = np.clip(met + waited, met, full.end[place])
    until = np.minimum.accumulate(until[::-1])[::-1]  # a delay elsewhere makes a probe late, never early
    points = joined(full, met, np.maximum(until, met))
    knee = full.begin + share * full.length
    before = np.clip(np.searchsorted(points.time, knee, side="right") - 1, 0, len(points.time) - 2)
    even = [evenly(full, share, points.time[before + k], np.arange(len(knee))) for k in (0, 1)]
    grown = (evenly(full, share, knee, np.arange(len(knee))) - even[0]) / np.maximum(even[1] - even[0], 1e-9)
    step = points.until[before + 1] - points.until[before]
    bend = points.until[before] + np.clip(grown, 0, 1) * step
    time, until = np.append(points.time, knee), np.append(points.until, bend)
    order = np.lexsort((until, time))
    return ArrivalCurve(time[order], np.maximum.accumulate(until[order])), common


def joined(full: FullStretches, time: Floats, until: Floats) -> ArrivalCurve:
    """Returns the points together with the ends of all stretches."""
    ends = np.concatenate((full.begin, full.end))
    times, untils = np.concatenate((ends, time)), np.concatenate((ends, until))
    order = np.lexsort((untils, times))
    return ArrivalCurve(times[order], untils[order])


def evenly(full: FullStretches, share: Floats, time: Floats, place: NDArray[np.int64]) -> Floats:
    """Returns when bytes that arrive until `time` have left, if the stretch's own bytes arrive evenly in its first part
    and the background arrives throughout."""
    since, length = time - full.begin[place], full.length[place]
    own = (1 - full.background) * length * np.minimum(1.0, since / np.maximum(share[place] * length, 1e-9))
    gone: Floats = full.begin[place] + own + full.background * since
    return gone


def first_parts(full: FullStretches, met: Floats, waited: Floats, place: NDArray[np.int64]) -> tuple[Floats, float]:
    """Returns the first part of each stretch in which its bytes arrive, by the smallest absolute error of its probes'
    waits, and that of all stretches together. Stretches that do not show it have that of all."""
    count = len(full.begin)
    error = np.zeros((len(SHARES), count))
    for k, share in enumerate(SHARES):
        model = evenly(full, np.full(count, share), met, place) - met
        error[k] = np.bincount(place, np.abs(np.maximum(model, 0) - waited), count)
    common = float(SHARES[int(error.sum(axis=1).argmin())])
    near = np.abs(np.log(SHARES / common))[:, None]
    return SHARES[(error + near).argmin(axis=0)], common


def curve_of_senders(port: Port, full: FullStretches, came: Arrivals) -> ArrivalCurve:
    """Returns the arrival curve from the outgoing bins of all senders."""
    first = np.floor(np.clip(port.position(full.begin), 0, port.bins - 1)).astype(np.int64)
    last = np.minimum(np.ceil(np.nan_to_num(port.position(full.end), nan=port.bins)).astype(np.int64), port.bins)
    counts = np.maximum(last - first, 1)
    place = np.repeat(np.arange(len(first)), counts)
    bin_ = np.minimum(
        first[place] + np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts), port.bins - 1
    )
    total = np.concatenate(([0.0], np.cumsum(came.bytes)))
    volume = np.maximum(total[last] - total[first], 1e-9)
    part = (total[bin_ + 1] - total[first[place]]) / volume[place]
    time = np.clip(port.time(bin_ + 1.0), full.begin[place], full.end[place])
    until = np.clip(full.begin[place] + part * full.length[place], time, full.end[place])
    return joined(full, time, until)
