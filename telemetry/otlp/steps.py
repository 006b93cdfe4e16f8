"""From one point of a series to the next: what was counted in between, and in which time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...units import NS_PER_DAY
from ..counters import Step, increase
from ..line_rate import FASTEST_BPS, most_bytes
from ..tables import QUALITY_GAP, QUALITY_IMPOSSIBLE, QUALITY_RESET, SET_BACK_NS
from .feeds import FeedOfCells
from .meaning import CARRIED, MetricMeaning
from .points import Ints, Points
from .series import MetricSeries, SeriesFeed
from .speeds import Speeds

LONGEST_NS = NS_PER_DAY  # of a step: points further apart show nothing of the time in between
SET_BACK = "points more than a minute before what was taken (was the clock of the sender set back?)"
UNCOVERED = 0.1  # of the time of a count, that may lie between the previous one and it: a longer time was lost


@dataclass
class SeriesSteps:
    """Values with one time each, in columns; for a running total the increase since `begin_ns`. A value with the bit
    `impossible` is not known."""

    series: NDArray[np.int32]
    begin_ns: Ints  # the previous point; for the first point of a series its own time
    ts_ns: Ints
    receive_ns: Ints
    amount: Ints
    quality: NDArray[np.uint16]

    @classmethod
    def joined(cls, parts: Sequence[SeriesSteps]) -> SeriesSteps:
        """All PARTS, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def chosen(self, at: NDArray[np.bool_] | slice) -> SeriesSteps:
        """The steps at these places."""
        return SeriesSteps(*(getattr(self, name)[at] for name in self.__annotations__))

    @property
    def intervals(self) -> Ints:
        """The time from one point to the next, ns."""
        return self.ts_ns - self.begin_ns

    def __len__(self) -> int:
        return len(self.series)


class StepsOfSeries:
    """The state of each series: its last point. `faults` counts points that make no step, by (device, reason)."""

    def __init__(self, speeds: Speeds) -> None:
        self._speeds = speeds
        self.faults: Counter[tuple[str, str]] = Counter()
        self.resets: Counter[str] = Counter()  # by device
        self._feed_of_cells = FeedOfCells()
        self._is_total = np.zeros(0, bool)  # by series, like all but the next four
        self._is_count = np.zeros(0, bool)  # counts since the last point, which may state their begin
        self._scale = np.zeros(0, np.int64)  # by feed
        self._width: list[int] = []  # by feed: range of a counter that continues from 0; 0: it does not
        self._wraps_at = np.zeros(0)  # by feed: the same for a counter of bytes that a link limits; otherwise infinite
        self._link_bps = np.zeros(0)
        self._value = np.zeros(0, np.int64)
        self._ts_ns = np.zeros(0, np.int64)  # 0: none yet
        self._start_ns = np.zeros(0, np.int64)

    def take(self, points: Points, all_series: Sequence[MetricSeries], feeds: Sequence[SeriesFeed]) -> SeriesSteps:
        """Returns the steps of points that are sorted by series and time. The first point of a running total makes
        none."""
        self._know(all_series, feeds)
        points = replace(points, value=points.value * self._scale[points.feed])  # in the unit of the column
        taken, follows = self._feed_of_cells.take(points, all_series, feeds)
        self.faults += self._feed_of_cells.refused
        self._feed_of_cells.refused.clear()
        points, follows = points.chosen(taken), follows[taken]
        new = self._new(points, all_series)
        points, follows = points.chosen(new), follows[new]
        first = np.ones(len(points), bool)
        first[1:] = points.series[1:] != points.series[:-1]
        before = {
            name: np.where(first, state[points.series], np.roll(getattr(points, name), 1))
            for name, state in (("ts_ns", self._ts_ns), ("value", self._value), ("start_ns", self._start_ns))
        }
        last = np.roll(first, -1) if len(first) else first
        at = points.series[last]
        self._ts_ns[at], self._value[at] = points.ts_ns[last], points.value[last]
        self._start_ns[at] = points.start_ns[last]
        return self._steps(points, before, follows, all_series)

    def _steps(
        self, points: Points, before: dict[str, Ints], follows: Ints, all_series: Sequence[MetricSeries]
    ) -> SeriesSteps:
        is_total, is_first = self._is_total[points.series], before["ts_ns"] == 0
        is_first |= self._too_far(points, before["ts_ns"], is_first, all_series)
        is_first |= self._passed(points, before["ts_ns"], follows, all_series)
        amount = np.where(is_total, points.value - before["value"], points.value)
        quality = np.where(follows > 0, QUALITY_GAP, 0).astype(np.uint16)
        was_reset = (points.start_ns > before["start_ns"]) & (points.start_ns > before["ts_ns"])
        wraps_at = self._wraps_at[points.feed]
        most = most_bytes(self._link_bps[points.series], points.ts_ns - before["ts_ns"])
        unknown = is_total & ~is_first & (most >= wraps_at)
        self._count(points, unknown, "totals that may have wrapped more than once", all_series)
        for k in np.flatnonzero(is_total & ~is_first & (((amount < 0) & ~unknown) | was_reset)):
            width, limit = self._width[points.feed[k]], int(most[k]) if np.isfinite(wraps_at[k]) else None
            value, known = (int(before["value"][k]), int(points.value[k])), bool(was_reset[k])
            amount[k], step = increase(*value, limit, known, (width,) if width else ())
            if step is Step.RESET:
                amount[k] *= follows[k] == 0  # of another feed, which may not count from 0
                quality[k] |= QUALITY_RESET
                self.resets[all_series[points.series[k]].device] += 1
        amount[unknown], quality[unknown] = 0, quality[unknown] | QUALITY_IMPOSSIBLE
        # A count since the last point is of a time that its sender may state.
        begin_ns = np.where(is_first, points.ts_ns, before["ts_ns"])
        start_ns = np.where(self._is_count[points.series] & (points.start_ns < points.ts_ns), points.start_ns, 0)
        begin_ns = np.where(is_first & (start_ns > 0), start_ns, begin_ns)
        uncovered = ~is_first & (start_ns - begin_ns > UNCOVERED * (points.ts_ns - start_ns))
        begin_ns, quality[uncovered] = np.where(uncovered, start_ns, begin_ns), quality[uncovered] | QUALITY_GAP
        steps = SeriesSteps(points.series, begin_ns, points.ts_ns, points.receive_ns, amount, quality)
        return steps.chosen(~(is_total & is_first))

    def _too_far(self, points: Points, before_ns: Ints, is_first: Any, all_series: Sequence[MetricSeries]) -> Any:
        """The points that are too far from the previous ones: they are first points again; those of totals are
        counted."""
        far = ~is_first & (points.ts_ns - before_ns > LONGEST_NS)
        self._count(
            points, far & self._is_total[points.series], "points more than a day after those before", all_series
        )
        return far

    def _passed(self, points: Points, before_ns: Ints, follows: Ints, all_series: Sequence[MetricSeries]) -> Any:
        """The points that follow those of another series of their column (the total or the counts) that had the traffic
        until then: they are first points again, and those of totals are counted."""
        passed = (before_ns > 0) & (before_ns < follows)
        self._count(
            points, passed & self._is_total[points.series], "totals that restart after counts of them", all_series
        )
        return passed

    def _new(self, points: Points, all_series: Sequence[MetricSeries]) -> Any:
        """The points that are newer than the previous ones; others are counted."""
        repeated = points.ts_ns == self._ts_ns[points.series]
        repeated[1:] |= (points.ts_ns[1:] == points.ts_ns[:-1]) & (points.series[1:] == points.series[:-1])
        late = ~repeated & (points.ts_ns < self._ts_ns[points.series])
        set_back = late & (self._ts_ns[points.series] - points.ts_ns > SET_BACK_NS)
        self._count(points, repeated, "repeated points", all_series)
        self._count(points, late & ~set_back, "points that came too late", all_series)
        self._count(points, set_back, SET_BACK, all_series)
        return ~(repeated | late)

    def _count(self, points: Points, fault: Any, reason: str, all_series: Sequence[MetricSeries]) -> None:
        for series, number in zip(*np.unique(points.series[fault], return_counts=True), strict=True):
            self.faults[all_series[series].device, reason] += int(number)

    def _know(self, all_series: Sequence[MetricSeries], feeds: Sequence[SeriesFeed]) -> None:
        new, none = all_series[len(self._ts_ns) :], np.zeros(len(all_series) - len(self._ts_ns), np.int64)
        self._is_total = np.concatenate([self._is_total, np.array([one.is_total for one in new], bool)])
        counts = [one.meaning is not None and one.meaning.kind != "gauge" and not one.is_total for one in new]
        self._is_count = np.concatenate([self._is_count, np.array(counts, bool)])
        self._value, self._ts_ns, self._start_ns = (
            np.concatenate([state, none]) for state in (self._value, self._ts_ns, self._start_ns)
        )
        speeds = [self._speeds.of(one.device, one.port) or FASTEST_BPS for one in new]
        self._link_bps = np.concatenate([self._link_bps, np.array(speeds, float)])
        means = [feed.meaning for feed in feeds[len(self._width) :] if feed.meaning]
        self._scale = np.concatenate([self._scale, np.array([meaning.scale for meaning in means], np.int64)])
        self._width += [meaning.scale << meaning.bits if meaning.bits else 0 for meaning in means]
        wraps_at = [_wraps_at(meaning) for meaning in means]
        self._wraps_at = np.concatenate([self._wraps_at, np.array(wraps_at, float)])


def _wraps_at(meaning: MetricMeaning) -> float:
    """The number of bytes that a counter of what a link carries counts before it continues from 0; infinite for
    others."""
    is_bounded = meaning.bits and meaning.column in CARRIED[meaning.table]
    return meaning.scale << meaning.bits if is_bounded else float("inf")
