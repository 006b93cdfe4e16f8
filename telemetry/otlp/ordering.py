"""Delays points until earlier ones have come: a collector in between sends messages in parallel, and a running total is
useless without the previous one."""

from __future__ import annotations

import numpy as np

from . import limits
from .points import Points
from .series import MetricSeries

NEVER = np.iinfo(np.int64).min


class WaitingPoints:
    """Points that wait until the second `take` after they came. A `take` returns what a device sent up to the newest
    time known at the previous `take`, in the order of series and time."""

    def __init__(self) -> None:
        self._parts: list[Points] = []
        self._number = 0
        self._devices: dict[str, int] = {}
        self._device_of = np.zeros(0, np.int32)  # by series
        self._newest = np.zeros(0, np.int64)  # by device

    @property
    def full(self) -> bool:
        """Whether no more points should come."""
        return self._number >= limits.POINTS

    def add(self, points: Points) -> None:
        """Add points."""
        if len(points):
            self._parts.append(points)
            self._number += len(points)

    def take(self, series: list[MetricSeries], everything: bool = False) -> Points | None:
        """Returns the points that are due, sorted by series, then by time. SERIES are all known series."""
        if not self._parts:
            return None
        points = Points.joined(self._parts)
        self._know(series)
        device = self._device_of[points.series]
        due = np.ones(len(points), bool) if everything else points.ts_ns <= self._newest[device]
        np.maximum.at(self._newest, device, points.ts_ns)
        self._parts = [] if due.all() else [points.chosen(~due)]
        self._number = sum(map(len, self._parts))
        if not due.any():
            return None
        taken = points.chosen(due)
        return taken.chosen(np.lexsort((taken.ts_ns, taken.series)))

    def _know(self, series: list[MetricSeries]) -> None:
        new = [self._devices.setdefault(one.device, len(self._devices)) for one in series[len(self._device_of) :]]
        self._device_of = np.concatenate([self._device_of, np.array(new, np.int32)])
        missing = len(self._devices) - len(self._newest)
        self._newest = np.concatenate([self._newest, np.full(missing, NEVER)])
