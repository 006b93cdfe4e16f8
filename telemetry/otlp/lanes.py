"""Running totals of bytes → bins: a bin is the time from one sample to the next, at the nearest multiple of the width.

A total says how much was carried between two samples, and not when. So nothing is spread: where a sample is missing,
what was carried meanwhile is in no bin, and the bins of that time say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...quality import Quality
from ..tables import QUALITY_GAP, QUALITY_IMPOSSIBLE, QUALITY_JITTER
from .series import Ints

LEARNED = 16  # intervals from which the width is taken
WIDEST_NS = 10**9  # what is sampled less often is no bins
TOLERANCE = 0.05  # of the width, beyond which an interval is jitter
NEAR = 0.75  # of the width: how far a sample may be from its edge
MARKED = 64  # bins of a time without samples that have a row
MISSING = int(Quality.DROPS) | QUALITY_GAP  # of bins that nobody knows the content of
SLACK, SLACK_BYTES = 1.02, 32_768  # of line rate: clocks, and frames at the edges of a bin


@dataclass
class LaneBins:
    """Bins of one port and direction, in columns, by their number since 1970."""

    number: Ints
    bytes: Ints
    quality: NDArray[np.uint16]


@dataclass(frozen=True)
class Missed:
    """A time of which the bins are not known: how much was carried in all."""

    start_ns: int
    end_ns: int
    bytes: int


def width_of(intervals: Ints) -> int:
    """The width of bins that samples at these intervals are meant to have: Cumulus samples at multiples of 50 µs, SONiC
    at whole µs."""
    median = int(np.median(intervals))
    step = 10_000 if median < 1_000_000 else 50_000 if median < 100_000_000 else 1_000_000
    width = max(round(median / step) * step, 10_000)
    return width if abs(width - median) <= TOLERANCE * width else max(round(median / 1000) * 1000, 1000)


class SampledLane:
    """The bins of one running total. `bin_ns` is 0 until it is known."""

    def __init__(self, link_bps: int | None) -> None:
        self.link_bps = link_bps
        self.bin_ns = 0
        self.missed: list[Missed] = []
        self._phase_ns = 0  # from an edge of bins to the samples
        self._edge = 0  # the last sample's, in bins since 1970
        self._early: list[tuple[Any, ...]] = []
        self._open: LaneBins | None = None  # the last bin, which may get more

    @property
    def begun(self) -> bool:
        """Whether steps were taken."""
        return bool(self.bin_ns or self._early)

    def take(self, begin_ns: Ints, end_ns: Ints, amount: Ints, quality: NDArray[np.uint16]) -> LaneBins | None:
        """The bins that are closed by samples in the order of time."""
        if not self.bin_ns:
            self._early.append((begin_ns, end_ns, amount, quality))
            if sum(len(part[0]) for part in self._early) < LEARNED:
                return None
            return self._learned()
        return self._place(begin_ns, end_ns, amount, quality)

    def close(self) -> LaneBins | None:
        """The bins that are left."""
        before = self._learned() if self._early else None
        last, self._open = self._open, None
        return _with_content(_joined([part for part in (before, last) if part is not None]))

    def _learned(self) -> LaneBins | None:
        begin_ns, end_ns, amount, quality = (np.concatenate(column) for column in zip(*self._early, strict=True))
        self._early = []
        self.bin_ns = width_of(end_ns - begin_ns)
        self._phase_ns = (int(begin_ns[0]) + self.bin_ns // 2) % self.bin_ns - self.bin_ns // 2
        self._edge = (int(begin_ns[0]) - self._phase_ns) // self.bin_ns
        return self._place(begin_ns, end_ns, amount, quality)

    def _place(self, begin_ns: Ints, end_ns: Ints, amount: Ints, quality: NDArray[np.uint16]) -> LaneBins | None:
        interval = end_ns - begin_ns
        edge = self._edges(end_ns, interval)
        before = np.concatenate([[self._edge], edge[:-1]])
        self._edge = int(edge[-1])
        quality = quality | self._doubts(interval, amount)
        possible, known = quality & QUALITY_IMPOSSIBLE == 0, interval < 2 * NEAR * self.bin_ns
        usable, skipped = known & possible, before[known & (edge - before == 2)]
        parts = [
            LaneBins(edge[usable] - 1, amount[usable], quality[usable]),
            LaneBins(skipped, np.zeros(len(skipped), np.int64), np.full(len(skipped), QUALITY_JITTER, np.uint16)),
        ]
        for k in np.flatnonzero(~usable).tolist():
            parts.append(self._miss(int(before[k]), int(edge[k]), int(amount[k]) if possible[k] else 0))
        return self._hold(parts if self._open is None else [self._open, *parts])

    def _doubts(self, interval: Ints, amount: Ints) -> NDArray[np.uint16]:
        """`jitter` where a bin is of another time than its width, `impossible` where the link cannot carry as much."""
        away = np.abs(interval - self.bin_ns) > TOLERANCE * self.bin_ns
        doubts = np.where(away, QUALITY_JITTER, 0)
        if self.link_bps:
            most = self.link_bps / 8e9 * interval * SLACK + SLACK_BYTES
            doubts |= np.where(amount > most, QUALITY_IMPOSSIBLE, 0)
        return doubts.astype(np.uint16)

    def _edges(self, end_ns: Ints, interval: Ints) -> Ints:
        """The edge of bins that each sample is at: the one after that of the sample before, where it is near enough."""
        next_edges = self._edge + 1 + np.arange(len(end_ns))
        if (np.abs(end_ns - self._phase_ns - next_edges * self.bin_ns) <= NEAR * self.bin_ns).all():
            return next_edges
        edges, last = np.empty(len(end_ns), np.int64), self._edge
        for k, (place, time) in enumerate(zip((end_ns - self._phase_ns).tolist(), interval.tolist(), strict=True)):
            away = place - (last + 1) * self.bin_ns
            if time >= 2 * NEAR * self.bin_ns:
                last = max(round(place / self.bin_ns), last + 1)
            elif away > NEAR * self.bin_ns:
                last += 2
            elif away >= -NEAR * self.bin_ns:
                last += 1
            edges[k] = last
        return edges

    def _miss(self, first: int, last: int, amount: int) -> LaneBins:
        """The bins of a time of which nobody knows what was carried when: they hold nothing, and say so."""
        last = max(last, first + 1)
        self.missed.append(Missed(first * self.bin_ns, last * self.bin_ns, amount))
        number = np.arange(first, min(last, first + MARKED), dtype=np.int64)
        return LaneBins(number, np.zeros(len(number), np.int64), np.full(len(number), MISSING, np.uint16))

    def _hold(self, parts: list[LaneBins]) -> LaneBins | None:
        """What is closed of these bins; the last one stays open."""
        merged = _joined(parts)
        if merged is None:
            return None
        last = len(merged.number) - 1
        self._open = LaneBins(*(column[last:] for column in vars(merged).values()))
        return _with_content(LaneBins(*(column[:last] for column in vars(merged).values())))


def _with_content(bins: LaneBins | None) -> LaneBins | None:
    """Those that have a row: with bytes, or of which it is not known."""
    if bins is None:
        return None
    at = (bins.bytes > 0) | (bins.quality & MISSING != 0)
    return LaneBins(*(column[at] for column in vars(bins).values())) if at.any() else None


def _joined(parts: list[LaneBins]) -> LaneBins | None:
    """All parts, each bin once and in order."""
    if not parts or not sum(len(part.number) for part in parts):
        return None
    number, amount, quality = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("number", "bytes", "quality")
    )
    order = np.argsort(number, kind="stable")
    number = number[order]
    begin = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return LaneBins(number[begin], np.add.reduceat(amount[order], begin), np.bitwise_or.reduceat(quality[order], begin))
