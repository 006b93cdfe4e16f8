"""Running totals of bytes → bins. A bin is the time from one sample to the next, placed at the nearest multiple of the
width.

A total shows how many bytes were carried between two samples, but not when. So nothing is spread: if a sample is
missing, the bytes of that time are in no bin, and the bins of that time are marked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...quality import SAMPLE_NEAR, Quality
from ..line_rate import FASTEST_BPS, most_bytes
from ..tables import QUALITY_GAP, QUALITY_IMPOSSIBLE, QUALITY_JITTER, QUALITY_RESET
from .points import Ints
from .widths import LearnedWidth, width_of

TOLERANCE = 0.05  # of the width, beyond which an interval is jitter
LOOKED = 128  # intervals that show whether samples still have the width
SPREAD = 1 / 3  # of the range of the middle half of as many intervals: 4 standard errors of their median
EVEN = 0.25  # of the median: a wider middle half does not show the width of 128 intervals
MARKED = 64  # the most bins with a row in a time without samples
MISSING = int(Quality.DROPS) | QUALITY_GAP  # quality of bins of unknown content
NO_OWN_BIN = QUALITY_JITTER | QUALITY_GAP  # quality of bins with a sample too many or too few, because of another clock
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
    """A time whose bins are not known: how many bytes were carried in addition to those in the bins; None: not known.
    After a reset this is a lower bound."""

    start_ns: int
    end_ns: int
    bytes: int | None
    reason: str = NOT_SAMPLED


class SampledLane:
    """The bins of one running total with its first sample at BEGIN_NS; no bin begins before NOT_BEFORE_NS."""

    def __init__(self, width: LearnedWidth, begin_ns: int, link_bps: int | None, not_before_ns: int = 0) -> None:
        bin_ns, due_ns = width.ns, begin_ns - width.late_ns
        self.bin_ns, self.link_bps, self.is_sure = bin_ns, link_bps, width.is_sure
        self.missed: list[Missed] = []
        self.too_long = self.too_short = 0  # the number of last intervals that are too long or too short for the width
        self._ts_ns = begin_ns  # the last sample
        self._last = np.empty(0, np.int64)  # the last LOOKED intervals since `has_other_width` looked at them
        self._edge = self._begin = (due_ns + bin_ns // 2) // bin_ns  # its edge, in bins since 1970
        self._first = max(self._begin, -(-not_before_ns // bin_ns))  # the first bin
        self._phase_ns = due_ns - self._edge * bin_ns  # from an edge of bins to the samples
        self._held_ns = 0  # the length of time for which the bin before the edge has the bytes
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
        """Returns the bins that are closed by samples in order of time, each of which begins where the previous one
        ended."""
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
        self._last = np.concatenate([self._last, interval])[-LOOKED:]
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

    def has_other_width(self) -> bool:
        """Whether the last LOOKED samples have another width, so that each bin has the bytes of another time than its
        width: they are even, their median interval is jitter and further off than by chance, and their own width is
        sure."""
        if len(self._last) < LOOKED:
            return False
        last, self._last = self._last, self._last[:0]
        single = last[last < 2 * SAMPLE_NEAR * np.median(last)]  # no sample is missing in these
        low, median, high = np.quantile(single, (0.25, 0.5, 0.75))
        is_off = abs(median - self.bin_ns) > max(TOLERANCE * self.bin_ns, SPREAD * (high - low))
        if not is_off or high - low > EVEN * median:
            return False
        found = width_of(last)
        return found.is_sure and abs(found.ns - self.bin_ns) > TOLERANCE * self.bin_ns

    def close(self) -> LaneBins | None:
        """Returns the bin that is still open."""
        last, self._open = self._open, None
        return _with_content(last)

    def _doubts(self, interval: Ints, amount: Ints) -> NDArray[np.uint16]:
        """`jitter` if a bin covers a longer or shorter time than its width, `impossible` if the link cannot carry that
        much. The stamp of a sample may be off by less than jitter, and a bin has the bytes of a width even if it was
        stamped early."""
        away = np.abs(interval - self.bin_ns) > TOLERANCE * self.bin_ns
        beyond = amount > most_bytes(self.link_bps or FASTEST_BPS, np.maximum(interval, self.bin_ns) * (1 + TOLERANCE))
        doubts = np.where(away, QUALITY_JITTER, 0) | np.where(beyond, QUALITY_IMPOSSIBLE, 0)
        return doubts.astype(np.uint16)

    def _edges(self, end_ns: Ints, interval: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Returns the edge of bins of each sample: the one after that of the previous sample, if it is near enough.
        Also returns which samples are extra, because the bin of their time already has the bytes of a width."""
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
        """The bins of a time for which it is not known when the bytes were carried, or in which there is a sample too
        many: they have none of the bytes, and are marked."""
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
        """Returns the closed bins among these; the last one stays open."""
        if not any(len(part.number) for part in parts):
            return None
        merged = _joined(parts)
        last = len(merged.number) - 1
        self._open = LaneBins(*(column[last:] for column in vars(merged).values()))
        return _with_content(LaneBins(*(column[:last] for column in vars(merged).values())))


def at_end(found: NDArray[np.bool_], before: int) -> int:
    """The number of true values at the end, one after the other, plus BEFORE if all are true."""
    at = np.flatnonzero(~found)
    return len(found) - 1 - int(at[-1]) if len(at) else before + len(found)


def _with_content(bins: LaneBins | None) -> LaneBins | None:
    """The bins that have a row: those with bytes, or with bytes that are not all known."""
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
