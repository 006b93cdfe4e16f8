"""Running totals of bytes → bins: a bin is the time from one sample to the next, at the nearest multiple of the width.

A total says how much was carried between two samples, and not when. So nothing is spread: where a sample is missing, what
was carried meanwhile is in no bin, and the bins of that time say so.
"""

from __future__ import annotations

from dataclasses import dataclass

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
SLACK = 1.02  # of line rate, by which a total may be ahead


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


class Lane:
    """The bins of one running total. `bin_ns` is 0 until it is known; beyond WIDEST_NS there are none."""

    def __init__(self, link_bps: int | None) -> None:
        self.link_bps = link_bps
        self.bin_ns = 0
        self.missed: list[Missed] = []
        self._phase_ns = 0  # from an edge of bins to the samples
        self._edge = 0  # the last sample's, in bins since 1970
        self._early: list[tuple[Ints, ...]] = []
        self._open: LaneBins | None = None  # the last bin, which may get more

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
        return _joined([part for part in (before, last) if part is not None])

    def _learned(self) -> LaneBins | None:
        begin_ns, end_ns, amount, quality = (np.concatenate(column) for column in zip(*self._early, strict=True))
        self._early = []
        self.bin_ns = width_of(end_ns - begin_ns)
        self._phase_ns = (int(begin_ns[0]) + self.bin_ns // 2) % self.bin_ns - self.bin_ns // 2
        self._edge = (int(begin_ns[0]) - self._phase_ns) // self.bin_ns
        return self._place(begin_ns, end_ns, amount, quality) if self.bin_ns <= WIDEST_NS else None

    def _place(self, begin_ns: Ints, end_ns: Ints, amount: Ints, quality: NDArray[np.uint16]) -> LaneBins | None:
        interval, width = end_ns - begin_ns, self.bin_ns
        quality = quality | np.where(np.abs(interval - width) > TOLERANCE * width, QUALITY_JITTER, 0).astype(np.uint16)
        edge = self._edges(end_ns, interval)
        before = np.concatenate([[self._edge], edge[:-1]])
        self._edge = int(edge[-1])
        known = interval < 2 * NEAR * width
        skipped = LaneBins(before[known & (edge - before == 2)], *_nothing(known & (edge - before == 2), QUALITY_JITTER))
        missing = [self._miss(*step) for step in zip(*(side[~known].tolist() for side in (before, edge, amount)), strict=True)]  # fmt: skip
        if self.link_bps:
            most = self.link_bps / 8e9 * interval * SLACK + 32_768
            quality = quality | np.where(amount > most, QUALITY_IMPOSSIBLE, 0).astype(np.uint16)
        usable = known & (quality & QUALITY_IMPOSSIBLE == 0)
        placed = LaneBins(edge[usable] - 1, amount[usable], quality[usable])
        self._refuse(before, edge, amount, known & ~usable)
        return self._hold([part for part in (self._open, placed, skipped, *missing) if part is not None])

    def _refuse(self, before: Ints, edge: Ints, amount: Ints, at: NDArray[np.bool_]) -> None:
        """More than the link can carry is no bin."""
        for first, last in zip(before[at].tolist(), edge[at].tolist(), strict=True):
            self.missed.append(Missed(first * self.bin_ns, max(last, first + 1) * self.bin_ns, 0))

    def _edges(self, end_ns: Ints, interval: Ints) -> Ints:
        """The edge of bins that each sample is at: the one after that of the sample before, where it is near enough."""
        next_edges = self._edge + 1 + np.arange(len(end_ns))
        if (np.abs((end_ns - self._phase_ns - next_edges * self.bin_ns)) <= NEAR * self.bin_ns).all():
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
        """The bins of a time in which samples are missing: they hold nothing, and say that it is not known."""
        self.missed.append(Missed(first * self.bin_ns, last * self.bin_ns, amount))
        number = np.arange(first, min(last, first + MARKED), dtype=np.int64)
        return LaneBins(number, *_nothing(np.ones(len(number), bool), MISSING))

    def _hold(self, parts: list[LaneBins]) -> LaneBins | None:
        """What is closed of these bins; the last one stays open."""
        merged = _joined(parts)
        if merged is None:
            return None
        last = len(merged.number) - 1
        self._open = LaneBins(*(column[last:] for column in vars(merged).values()))
        return LaneBins(*(column[:last] for column in vars(merged).values())) if last else None


def _nothing(at: NDArray[np.bool_], quality: int) -> tuple[Ints, NDArray[np.uint16]]:
    """No bytes, of a quality, as often as AT is true."""
    number = int(at.sum())
    return np.zeros(number, np.int64), np.full(number, quality, np.uint16)


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
    return LaneBins(
        number[begin], np.add.reduceat(amount[order], begin), np.bitwise_or.reduceat(quality[order], begin)
    )
