"""From one point of a series to the next: what was counted in between, and in which time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..gnmi.counters import Step, increase
from ..tables import QUALITY_RESET
from .series import Ints, MetricSeries, Points

LARGEST = 2**63 - 1


@dataclass
class SeriesSteps:
    """Values of one time each, in columns: of a running total its increase since `begin_ns`."""

    series: NDArray[np.int32]
    begin_ns: Ints  # the point before; of the first of a series its own time
    ts_ns: Ints
    receive_ns: Ints
    amount: Ints
    quality: NDArray[np.uint16]

    def chosen(self, at: NDArray[np.bool_]) -> SeriesSteps:
        """Those at these places."""
        return SeriesSteps(*(getattr(self, name)[at] for name in self.__annotations__))

    def __len__(self) -> int:
        return len(self.series)


class StepsOfSeries:
    """What is known of each series: its last point. `faults` counts points that are no step, by (device, reason)."""

    def __init__(self) -> None:
        self.faults: Counter[tuple[str, str]] = Counter()
        self.resets: Counter[str] = Counter()  # by device
        self._is_total = np.zeros(0, bool)
        self._scale = np.zeros(0, np.int64)
        self._value = np.zeros(0, np.int64)
        self._ts_ns = np.zeros(0, np.int64)  # 0: none yet
        self._start_ns = np.zeros(0, np.int64)

    def take(self, points: Points, all_series: list[MetricSeries]) -> SeriesSteps:
        """The steps of points that are sorted by series and time. The first point of a running total makes none."""
        self._know(all_series)
        points = self._usable(points, all_series)
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
        return self._steps(points, before, all_series)

    def _steps(self, points: Points, before: dict[str, Ints], all_series: list[MetricSeries]) -> SeriesSteps:
        is_total, is_first = self._is_total[points.series], before["ts_ns"] == 0
        amount = np.where(is_total, points.value - before["value"], points.value)
        quality = np.zeros(len(points), np.uint16)
        began_anew = (points.start_ns > before["start_ns"]) & (points.start_ns > before["ts_ns"])
        for k in np.flatnonzero(is_total & ~is_first & ((amount < 0) | began_anew)):
            value, known = (int(before["value"][k]), int(points.value[k])), bool(began_anew[k])
            amount[k], step = increase(*value, None, known)
            if step is Step.RESET:
                quality[k] = QUALITY_RESET
                self.resets[all_series[points.series[k]].device] += 1
        amount = amount * self._scale[points.series]
        # What was counted since the last is of a time that its sender may say.
        begin_ns = np.where(is_first, points.ts_ns, before["ts_ns"])
        begin_ns = np.where(is_first & ~is_total & (points.start_ns > 0), points.start_ns, begin_ns)
        steps = SeriesSteps(points.series, begin_ns, points.ts_ns, points.receive_ns, amount, quality)
        return steps.chosen(~(is_total & is_first))

    def _usable(self, points: Points, all_series: list[MetricSeries]) -> Points:
        """The points that are newer than those before and that a row can hold; others are counted."""
        repeated = points.ts_ns == self._ts_ns[points.series]
        repeated[1:] |= (points.ts_ns[1:] == points.ts_ns[:-1]) & (points.series[1:] == points.series[:-1])
        late = points.ts_ns < self._ts_ns[points.series]
        unfit = (points.value < 0) | (points.value > LARGEST // self._scale[points.series])
        for fault, reason in ((repeated, "repeated points"), (late, "points that came too late"),
                              (unfit & ~repeated & ~late, "values out of range of their columns")):  # fmt: skip
            for series, number in zip(*np.unique(points.series[fault], return_counts=True), strict=True):
                self.faults[all_series[series].device, reason] += int(number)
        return points.chosen(~(repeated | late | unfit))

    def _know(self, all_series: list[MetricSeries]) -> None:
        new = all_series[len(self._scale) :]
        if not new:
            return
        none = np.zeros(len(new), np.int64)
        self._is_total = np.concatenate([self._is_total, [one.is_total for one in new]])
        scales = [one.meaning.scale for one in new if one.meaning]
        self._scale = np.concatenate([self._scale, np.array(scales, np.int64)])
        self._value, self._ts_ns, self._start_ns = (
            np.concatenate([state, none]) for state in (self._value, self._ts_ns, self._start_ns)
        )
