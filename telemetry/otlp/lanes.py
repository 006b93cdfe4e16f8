"""Running totals of bytes → bins: a bin is the time from one sample to the next, at the nearest multiple of the width.

A total says how much was carried between two samples, and not when. So nothing is spread: where a sample is missing,
what was carried meanwhile is in no bin, and the bins of that time say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...quality import SAMPLE_NEAR, Quality
from ..line_rate import FASTEST_BPS, most_bytes
from ..tables import QUALITY_GAP, QUALITY_IMPOSSIBLE, QUALITY_JITTER, QUALITY_RESET
from .points import Ints

TOLERANCE = 0.05  # of the width, beyond which an interval is jitter
MEANT = 0.015  # of the width, that samples may be off the multiple that is meant
WHOLE = 0.25  # of intervals, at least, have no missing sample in them
FEW = 8  # widths: of longer intervals, it is not known of how many they are
MARKED = 64  # bins of a time without samples that have a row
MISSING = int(Quality.DROPS) | QUALITY_GAP  # of bins that nobody knows the content of
NO_OWN_BIN = QUALITY_JITTER | QUALITY_GAP  # of bins of a sample too many or too few, by another clock
NOT_SAMPLED, RESET, NO_BIN = "not sampled", "counter reset", "sample without a bin"
BEYOND = "more than line rate"


@dataclass
class LaneBins:
    """Bins of one port and direction, in columns, by their number since 1970."""

    number: Ints
    bytes: Ints
    quality: NDArray[np.uint16]


@dataclass(frozen=True)
class Missed:
    """A time of which the bins are not known: how much was carried beyond what they hold; None: not known. After a
    reset a lower bound."""

    start_ns: int
    end_ns: int
    bytes: int | None
    reason: str = NOT_SAMPLED


def width_of(intervals: Ints) -> int:
    """The width of bins that samples at these intervals are meant to have: Cumulus samples at multiples of 50 µs, SONiC
    at whole µs. Jitter evens out over neighbours, and where a sample is missing are several widths."""
    near = intervals[intervals < 2 * SAMPLE_NEAR * np.quantile(intervals, WHOLE)].mean()
    few = intervals[intervals < FEW * near]
    found = float(few.sum() / np.maximum(np.rint(few / near), 1).sum())
    for step in (1_000_000, 50_000, 10_000) if found >= 100_000_000 else (50_000, 10_000):
        width = round(found / step) * step
        if abs(width - found) <= MEANT * found:
            return width
    return max(round(found / 1000) * 1000, 1000)


class SampledLane:
    """The bins of one running total whose first sample is at BEGIN_NS; none begins before NOT_BEFORE_NS."""

    def __init__(self, bin_ns: int, begin_ns: int, link_bps: int | None, not_before_ns: int = 0) -> None:
        self.bin_ns, self.link_bps = bin_ns, link_bps
        self.missed: list[Missed] = []
        self.too_long = self.too_short = 0  # intervals, the last ones, that are so for the width
        self._ts_ns = begin_ns  # the last sample
        self._edge = self._begin = (begin_ns + bin_ns // 2) // bin_ns  # it is at, in bins since 1970
        self._first = max(self._begin, -(-not_before_ns // bin_ns))  # bin
        self._phase_ns = begin_ns - self._edge * bin_ns  # from an edge of bins to the samples
        self._held_ns = 0  # of which time the bin before the edge has the bytes
        self._open: LaneBins | None = None  # the last bin, which may get more

    @property
    def begin_ns(self) -> int:
        """The start of the first bin."""
        return self._first * self.bin_ns

    @property
    def end_ns(self) -> int:
        """The end of the last bin."""
        return max(self._edge, self._first) * self.bin_ns

    def take(self, begin_ns: Ints, end_ns: Ints, amount: Ints, quality: NDArray[np.uint16]) -> LaneBins | None:
        """The bins that are closed by samples in the order of time, each of which begins where the one before ended."""
        assert begin_ns[0] == self._ts_ns and (begin_ns[1:] == end_ns[:-1]).all()
        self._ts_ns = int(end_ns[-1])
        interval = end_ns - begin_ns
        edge, is_extra = self._edges(end_ns, interval)
        before = np.concatenate([[self._edge], edge[:-1]])
        self._edge = int(edge[-1])
        quality = quality | self._doubts(interval, amount)
        sampled = (interval < 2 * SAMPLE_NEAR * self.bin_ns) & (quality & QUALITY_GAP == 0)
        possible = quality & QUALITY_IMPOSSIBLE == 0
        number = np.maximum(edge - 1, self._begin)
        is_extra |= sampled & (number < self._first)
        usable = sampled & possible & ~is_extra
        skipped = before[sampled & (edge - before == 2) & (before >= self._first)]
        self.too_long = at_end(~sampled, self.too_long)
        self.too_short = at_end(sampled & (2 * interval < self.bin_ns), self.too_short)
        parts = [
            LaneBins(number[usable], amount[usable], quality[usable]),
            LaneBins(skipped, np.zeros(len(skipped), np.int64), np.full(len(skipped), NO_OWN_BIN, np.uint16)),
        ]
        for k in np.flatnonzero(~usable | (quality & QUALITY_RESET != 0)).tolist():
            first, last = min(int(before[k]), int(number[k])), int(number[k]) + 1
            if usable[k]:
                self.missed.append(Missed((last - 1) * self.bin_ns, last * self.bin_ns, None, RESET))
            else:
                parts.append(self._miss(first, last, int(amount[k]), int(quality[k]), bool(is_extra[k])))
        return self._hold(parts if self._open is None else [self._open, *parts])

    def close(self) -> LaneBins | None:
        """The bin that is left."""
        last, self._open = self._open, None
        return _with_content(last)

    def _doubts(self, interval: Ints, amount: Ints) -> NDArray[np.uint16]:
        """`jitter` where a bin covers a longer or shorter time than its width, `impossible` where the link cannot carry
        as much. Its stamp may be off by what is no jitter, and a bin has the bytes of a width however early it was
        stamped."""
        away = np.abs(interval - self.bin_ns) > TOLERANCE * self.bin_ns
        beyond = amount > most_bytes(self.link_bps or FASTEST_BPS, np.maximum(interval, self.bin_ns) * (1 + TOLERANCE))
        doubts = np.where(away, QUALITY_JITTER, 0) | np.where(beyond, QUALITY_IMPOSSIBLE, 0)
        return doubts.astype(np.uint16)

    def _edges(self, end_ns: Ints, interval: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The edge of bins that each sample is at: the one after that of the sample before, where it is near enough.
        And which samples are one more than bins: the bin of their time has the bytes of a width."""
        next_edges, is_extra = self._edge + 1 + np.arange(len(end_ns)), np.zeros(len(end_ns), bool)
        most_ns = 2 * SAMPLE_NEAR * self.bin_ns
        if (np.abs(end_ns - self._phase_ns - next_edges * self.bin_ns) <= SAMPLE_NEAR * self.bin_ns).all():
            self._held_ns = int(interval[-1]) if interval[-1] < most_ns else 0
            return next_edges, is_extra
        edges, last, held = np.empty(len(end_ns), np.int64), self._edge, self._held_ns
        for k, (place, time) in enumerate(zip((end_ns - self._phase_ns).tolist(), interval.tolist(), strict=True)):
            away = place - (last + 1) * self.bin_ns
            if time >= most_ns:
                last, held = max(round(place / self.bin_ns), last + 1), 0
            elif away > SAMPLE_NEAR * self.bin_ns:
                last, held = last + 2, time
            elif away >= -SAMPLE_NEAR * self.bin_ns:
                last, held = last + 1, time
            elif held + time < most_ns:
                held += time
            else:
                is_extra[k] = True
            edges[k] = last
        self._held_ns = held
        return edges, is_extra

    def _miss(self, first: int, last: int, amount: int, quality: int, is_extra: bool) -> LaneBins:
        """The bins of a time of which nobody knows what was carried when, or that a sample too many is of: they hold
        nothing of it, and say so."""
        is_reset = bool(quality & QUALITY_RESET)
        is_beyond = bool(quality & QUALITY_IMPOSSIBLE)
        known = None if is_beyond or (is_reset and not amount) else amount
        reason = RESET if is_reset else BEYOND if is_beyond else NO_BIN if is_extra else NOT_SAMPLED
        self.missed.append(Missed(first * self.bin_ns, last * self.bin_ns, known, reason))
        first = max(first, self._first)
        number = np.arange(first, min(last, first + MARKED), dtype=np.int64)
        doubts = NO_OWN_BIN if reason == NO_BIN else MISSING
        marks = np.full(len(number), doubts | quality & QUALITY_RESET, np.uint16)
        return LaneBins(number, np.zeros(len(number), np.int64), marks)

    def _hold(self, parts: list[LaneBins]) -> LaneBins | None:
        """What is closed of these bins; the last one stays open."""
        if not any(len(part.number) for part in parts):
            return None
        merged = _joined(parts)
        last = len(merged.number) - 1
        self._open = LaneBins(*(column[last:] for column in vars(merged).values()))
        return _with_content(LaneBins(*(column[:last] for column in vars(merged).values())))


def at_end(found: NDArray[np.bool_], before: int) -> int:
    """How many are true at the end, one after the other, with those BEFORE."""
    at = np.flatnonzero(~found)
    return len(found) - 1 - int(at[-1]) if len(at) else before + len(found)


def _with_content(bins: LaneBins | None) -> LaneBins | None:
    """Those that have a row: with bytes, or of which they are not all known."""
    if bins is None:
        return None
    at = (bins.bytes > 0) | (bins.quality & (MISSING | QUALITY_RESET) != 0)
    return LaneBins(*(column[at] for column in vars(bins).values())) if at.any() else None


def _joined(parts: list[LaneBins]) -> LaneBins:
    """All parts, each bin once and in order."""
    number, amount, quality = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("number", "bytes", "quality")
    )
    order = np.argsort(number, kind="stable")
    number = number[order]
    begin = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return LaneBins(number[begin], np.add.reduceat(amount[order], begin), np.bitwise_or.reduceat(quality[order], begin))
