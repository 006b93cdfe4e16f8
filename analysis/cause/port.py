"""A recorded port: the traffic of one interface in one direction, on the axis of recorded time.

The test is physical, not statistical. A work-conserving FIFO port never idles while a packet waits in it, so **waiting
implies busy**: a packet that waited from `a` to `d` in front of this link left behind at least 0.9 × (d − a) × link
rate of bytes in exactly that interval. If the link was idle in that time, the packet waited elsewhere. The reverse does
not hold: one sender at line rate keeps the link busy without any queue. The test needs only departures, which a
receiver sees (the bins of a receiver never show the depth of the queue).

Times are float64 nanoseconds since the investigation's origin; exact to 1 ns for 100 days.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...ethernet import FULL_FRAME_WIRE_BYTES
from ..model.stats import Floats, join_runs, rank, runs
from .signals import Signals

FULL = 0.9  # of line rate: allows for a rate slightly below nominal, and for stamps that jitter
CHUNK = 1 << 20  # bins that are processed together, so that temporary arrays stay small


class Wait(IntEnum):
    """The state of the link while a packet waited."""

    IDLE = 0  # it had room: the packet did not wait here
    BUSY = 1  # it was full from beginning to end
    COARSE = 2  # shorter than the bins can show
    LOSING = 3  # the capture lost packets in that time: the bins are lower bounds
    UNRECORDED = 4  # outside of the recording


@dataclass(frozen=True)
class Port:
    """Wire bytes of one direction of one interface, in bins, over one or more stretches of recorded time.

    starts: begin of each stretch, ns. offsets: index of its first bin, and one past the last bin of all. carried:
    cumulative wire bytes before each bin, one longer than the bins. lossy: cumulative number of bins that lost packets.
    """

    host: str
    interface: str
    direction: str
    link_bps: float
    bin_ns: int
    starts: Floats
    offsets: NDArray[np.int64]
    carried: NDArray[np.int64]
    lossy: NDArray[np.int32] | None = None
    rack: str = ""
    repeated: Floats | None = None  # sorted positions of the bins with repeated TCP segments
    marked: Floats | None = None  # sorted positions of the bins with packets that a queue before it marked (ECN CE)
    signals: Signals | None = None  # of the other direction; None: not recorded, or without signals
    dropped: int = 0  # packets that its captures lost at unknown times
    is_least: bool = False  # more may have been lost: a recorder did not end
    switch: tuple[str, str, str] | None = None  # lane as recorded by a switch; host and so on are the other end's
    _busy: list[tuple[Floats, Floats]] = field(default_factory=list, repr=False, compare=False)

    @property
    def lane(self) -> tuple[str, str, str]:
        """The port's lane in the store."""
        return self.switch or (self.host, self.interface, self.direction)

    @property
    def name(self) -> str:
        return " ".join(self.lane)

    @property
    def is_stand_in(self) -> bool:
        """Whether a switch recorded it for a host that was not recorded itself."""
        return self.switch is not None and self.switch[0] != self.host

    @property
    def edge_ns(self) -> float:
        """The possible error of a bin edge: samples of a switch are assigned to the nearest multiple of their width."""
        return self.bin_ns / 2 if self.switch else 0.0

    @property
    def bins(self) -> int:
        return len(self.carried) - 1

    @property
    def bin_bytes(self) -> float:
        """The bytes of a bin at line rate."""
        return self.link_bps / 8e9 * self.bin_ns

    def position(self, time: Floats) -> Floats:
        """Returns the bins (with fraction) of recorded time before `time`; NaN outside of the recording or for an
        unknown time."""
        if len(self.starts) == 1:
            place: Floats = (time - self.starts[0]) / self.bin_ns
            place[(place < 0) | (place > self.bins)] = np.nan
            return place
        stretch = np.searchsorted(self.starts, time, side="right") - 1
        safe = np.maximum(stretch, 0)
        inside = (time - self.starts[safe]) / self.bin_ns
        place = self.offsets[safe] + inside
        place[~((stretch >= 0) & (inside <= self.offsets[safe + 1] - self.offsets[safe]))] = np.nan
        return place

    def time(self, position: Floats) -> Floats:
        """Returns the inverse of position() for positions in the recording; an edge between stretches is the begin of
        the later one."""
        return self._time_in(self.stretch_of(position), position)

    def end_time(self, position: Floats) -> Floats:
        """Returns time() for the end of an interval: an edge between stretches is the end of the earlier one."""
        stretch = np.searchsorted(self.offsets, position, side="left") - 1
        return self._time_in(np.clip(stretch, 0, len(self.starts) - 1), position)

    def _time_in(self, stretch: NDArray[np.int64], position: Floats) -> Floats:
        times: Floats = self.starts[stretch] + (position - self.offsets[stretch]) * self.bin_ns
        return times

    def stretch_of(self, position: Floats) -> NDArray[np.int64]:
        """Returns the stretch of each position; an edge belongs to the later one."""
        stretch = np.searchsorted(self.offsets, position, side="right") - 1
        return np.clip(stretch, 0, len(self.starts) - 1).astype(np.int64)

    def carried_before(self, position: Floats) -> Floats:
        """Returns the wire bytes before a position, spread evenly inside a bin. Positions must be finite and in
        range."""
        whole = position.astype(np.int64)
        np.minimum(whole, self.bins - 1, out=whole)
        before = self.carried.take(whole)
        found: Floats = position - whole
        whole += 1
        found *= self.carried.take(whole) - before
        found += before
        return found

    def utilization(self, time: Floats, width_ns: int) -> Floats:
        """Returns the utilization of the bin of `width_ns` (a multiple of the recorded width) that contains each time,
        counted from the begin of its stretch; NaN outside."""
        ratio = max(1, round(width_ns / self.bin_ns))
        place = self.position(time)
        known = np.isfinite(place)
        place = np.where(known, place, 0)
        stretch = self.stretch_of(place)
        begin, end = self.offsets[stretch], self.offsets[stretch + 1]
        low = begin + (place.astype(np.int64) - begin) // ratio * ratio
        high = np.minimum(low + ratio, end)
        width = np.maximum(high - low, 1)
        return np.where(known, (self.carried[high] - self.carried[low]) / (width * self.bin_bytes), np.nan)

    def waits(self, arrival: Floats, departure: Floats, slack: float = 0.0) -> NDArray[np.int8]:
        """Returns the state of the link in each interval: a Wait for each. `slack`: the possible error of the ends, ns.

        The bins that are entirely inside the interval must be full; traffic before and after does not count. The bins
        that the interval touches must also have enough bytes. Without an entire bin inside, only bins that are full
        themselves, or too empty to make a packet wait, give an answer.
        """
        from_, to = self.position(arrival - slack), self.position(departure + slack)
        known = np.isfinite(from_) & np.isfinite(to)
        stretch = np.searchsorted(self.starts, (arrival, departure), side="right")
        known &= stretch[0] == stretch[1]
        low = np.floor(np.where(known, from_, 0)).astype(np.int64)
        high = np.minimum(np.ceil(np.where(known, to, 1)).astype(np.int64), self.bins)
        high = np.maximum(high, low + 1)
        margin = slack / self.bin_ns * 2
        inner = np.ceil(np.where(known, from_, 0) + margin - 1e-6).astype(np.int64)
        outer = np.floor(np.where(known, to, 1) - margin + 1e-6).astype(np.int64)
        whole = np.maximum(outer - inner, 0)
        inner, outer = np.clip(inner, 0, self.bins), np.clip(np.maximum(outer, inner), 0, self.bins)

        # No bin is more precise than one full frame.
        touched = self.carried[high] - self.carried[low] + FULL_FRAME_WIRE_BYTES
        possible = touched >= FULL * (departure - arrival) / self.bin_ns * self.bin_bytes
        filled = self.carried[outer] - self.carried[inner] + FULL_FRAME_WIRE_BYTES >= FULL * whole * self.bin_bytes
        solid = touched >= FULL * (high - low) * self.bin_bytes
        verdict = np.where(whole >= 1, np.where(filled, Wait.BUSY, Wait.IDLE), np.where(solid, Wait.BUSY, Wait.COARSE))
        verdict = np.where(possible, verdict, Wait.IDLE)
        if self.lossy is not None:
            verdict = np.where((verdict != Wait.BUSY) & (self.lossy[high] > self.lossy[low]), Wait.LOSING, verdict)
        return np.where(known, verdict, Wait.UNRECORDED).astype(np.int8)

    def filling(self, arrival: Floats, departure: Floats, shift: float | Floats = 0.0) -> Floats:
        """Returns the share of line rate over each interval, at most 1, with both ends moved by `shift` bins around the
        circle of all recorded time (positions, not times; shift may have one more leading axis, and is at most once
        around)."""
        low, span = arrival + shift, departure - arrival
        np.subtract(low, self.bins, out=low, where=low >= self.bins)
        np.add(low, self.bins, out=low, where=low < 0)
        found = self.carried_before(np.minimum(low + span, self.bins))
        found -= self.carried_before(low)
        found /= np.maximum(span, 1e-9) * self.bin_bytes
        return np.minimum(1.0, found, out=found)

    def busy_periods(self) -> tuple[Floats, Floats]:
        """Returns the begin and end, in positions, of the times in which the link was full. Gaps of up to two bins do
        not end one; the end of a stretch does.

        Bins are first merged until one holds at least eight full-size frames: finer bins count frames, not rate.
        """
        if not self._busy:
            ratio = max(1, int(np.ceil(8 * FULL_FRAME_WIRE_BYTES / self.bin_bytes)))
            found = [
                self._full_bins(low, min(low + CHUNK * ratio, end), ratio)
                for begin, end in pairwise(self.offsets.tolist())
                for low in range(begin, end, CHUNK * ratio)
            ]
            first, last = (np.concatenate([pair[side] for pair in found] or [np.zeros(0)]) for side in (0, 1))
            self._busy.append(self.joined(first, last, 2.0 * ratio))
        return self._busy[0]

    def joined(self, first: Floats, last: Floats, gap: float) -> tuple[Floats, Floats]:
        """Joins sorted intervals of positions, each in one stretch, if they are at most `gap` apart in the same
        stretch."""
        return join_runs(first, last, gap, self.stretch_of(first))

    def period_at(self, place: Floats) -> NDArray[np.int64]:
        """Returns the busy period that contains each position, or else the last one before it; -1: none, or an unknown
        position. A packet that opens a busy period comes up to a bin before the first full bin and belongs to that
        period."""
        starts, _ = self.busy_periods()
        safe = np.where(np.isfinite(place), place, -2.0)
        period = rank(starts, safe + 1.0).astype(np.int64) - 1
        if len(self.starts) == 1 or not len(starts):
            return period
        ahead = (period >= 0) & (self.stretch_of(starts[np.maximum(period, 0)]) > self.stretch_of(safe))
        return period - ahead

    def _full_bins(self, low: int, high: int, ratio: int) -> tuple[Floats, Floats]:
        """Returns runs of full bins between two positions, with `ratio` bins merged into one."""
        before, rest = self.carried[low : high + 1 : ratio], (high - low) % ratio
        full = np.diff(before) >= FULL * ratio * self.bin_bytes - FULL_FRAME_WIRE_BYTES
        if rest:
            full = np.append(
                full, self.carried[high] - before[-1] >= FULL * rest * self.bin_bytes - FULL_FRAME_WIRE_BYTES
            )
        first, last = runs(full)
        return (low + first * ratio).astype(float), np.minimum(low + last * ratio, high).astype(float)

    def busy_after(self, time: Floats) -> Floats:
        """Returns how long the link stayed full after each time, ns: the longest possible wait of a packet that arrives
        then.

        0 if it was not full; NaN outside of the recording.
        """
        return self.full_after(self.position(time)) * self.bin_ns

    def full_after(self, place: Floats) -> Floats:
        """Returns busy_after() in bins, for positions."""
        known = np.isfinite(place)
        _, ends = self.busy_periods()
        if len(ends) == 0:
            return np.where(known, 0.0, np.nan)
        period = self.period_at(place)
        left = np.where(period >= 0, ends[np.maximum(period, 0)] - np.where(known, place, 0), 0)
        return np.where(known, np.maximum(left, 0), np.nan)

    def ceiling(self, bins: float) -> float:
        """Returns the most that the port ever carried in any time of `bins` bins, as a share of line rate; the time is
        at most as long as the longest stretch."""
        width = max(1, min(round(bins), int(np.diff(self.offsets).max())))
        step, most = max(1, width // 4), 0
        for begin, end in pairwise(self.offsets.tolist()):
            for first in range(begin, end - width + 1, CHUNK * step):
                low = np.arange(first, min(first + CHUNK * step, end - width + 1), step)
                most = max(most, int((self.carried[low + width] - self.carried[low]).max(initial=0)))
        return most / (width * self.bin_bytes)


Chunk = tuple[Floats, NDArray[np.int64]]


def port_from_bins(
    name: tuple[str, str, str],
    link_bps: float,
    bin_ns: int,
    bins: Iterable[Chunk],
    recorded: list[tuple[float, float]],
    lossy: Sequence[Floats] = (),
    rack: str = "",
) -> Port:
    """Returns a Port from the non-empty bins of a recording.

    name: host, interface, direction. bins: chunks of their starts (ns since the origin, any order) and wire bytes.
    recorded: begin and end of the stretches in which a bin without a row was empty; widened to whole bins, and joined
    if they touch. lossy: chunks of starts of the bins in which packets were lost, read after the last of `bins`. Bins
    outside of every stretch are left out.
    """
    begins, ends = (np.array(side, dtype=float) for side in zip(*sorted(recorded), strict=True))
    begins, ends = np.floor(begins / bin_ns) * bin_ns, np.ceil(ends / bin_ns) * bin_ns
    begins, ends = join_runs(begins, np.maximum.accumulate(ends), 0.0)
    offsets = np.concatenate(([0], np.cumsum(((ends - begins) / bin_ns).astype(np.int64))))

    def places(times: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        if len(begins) == 1:
            place = ((times - (begins[0] - bin_ns / 2)) * (1 / bin_ns)).astype(np.int64)
            return place, (times >= begins[0]) & (place < offsets[1])
        stretch = np.clip(np.searchsorted(begins, times, side="right") - 1, 0, None)
        inside = np.round((times - begins[stretch]) / bin_ns).astype(np.int64)
        place = offsets[stretch] + inside
        return place, (inside >= 0) & (place < offsets[stretch + 1])

    carried = np.zeros(offsets[-1] + 1, dtype=np.int64)
    for times, wire_bytes in bins:
        place, valid = places(times)
        if not valid.all():
            place, wire_bytes = place[valid], wire_bytes[valid]
        if (place[1:] > place[:-1]).all():  # the order of a store, and ten times as fast
            carried[place + 1] += wire_bytes
        else:
            np.add.at(carried, place + 1, wire_bytes)
    np.cumsum(carried, out=carried)
    losses = None
    starts = np.concatenate([np.zeros(0), *lossy])
    if len(starts):
        losses = np.zeros(len(carried), dtype=np.int32)
        place, valid = places(starts)
        losses[place[valid] + 1] = 1
        np.cumsum(losses, out=losses)
    return Port(*name, float(link_bps), bin_ns, begins, offsets, carried, losses, rack)
