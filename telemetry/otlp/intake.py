"""All points from senders of OTLP, on their way to rows: threads of the receiver read them, the collector takes the
rows out."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import limits
from .lanes import LaneBins, Missed
from .meaning import Meanings
from .measured import MeasuredTable
from .ordering import WaitingPoints
from .port_bins import PlacedSteps, PortBins, SwitchLane
from .reading import ReadMessage, read_message
from .series import SeriesIndex
from .speeds import Speeds
from .steps import SeriesSteps, StepsOfSeries


@dataclass
class Taken:
    """The results for points."""

    rows: list[tuple[str, Any]] = field(default_factory=list)  # (table, rows)
    bins: list[tuple[SwitchLane, LaneBins]] = field(default_factory=list)
    missed: list[tuple[SwitchLane, Missed]] = field(default_factory=list)


class Intake:
    """The state of all senders."""

    def __init__(self, meanings: Meanings, batch: str, speeds: Speeds, seen: Callable[..., None] | None = None) -> None:
        self.points = self.messages = self.refused = 0
        self.index = SeriesIndex(meanings, seen)
        self.ports = PortBins(speeds)
        self._tables = {name: MeasuredTable(name, batch, speeds) for name in ("queues", "ports")}
        self._waiting, self._steps = WaitingPoints(), StepsOfSeries(speeds)
        self._place = np.zeros(0, np.int8)  # by series: the number of its table, or LANE
        self._counted: Counter[tuple[str, str, str]] = Counter()  # (device, event, detail)
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether so many points wait that senders should wait, too."""
        return self._waiting.full

    @property
    def values(self) -> int:
        """The number of points that were taken."""
        return self.points - self.refused

    def read(self, message: bytes, sender: str) -> ReadMessage:
        """Read a message; may be called from any thread. Raises InvalidMessage."""
        with self._lock:
            reading = read_message(self.index, message, sender, time.time_ns())
            self._waiting.add(reading.points)
            self.messages += 1
            self.points += reading.number
            self.refused += reading.refused.total()
            for reason, number in reading.refused.items():
                self.count(sender, "not-understood", reason, number)
            for (device, metric), number in reading.unmapped.items():
                self.count(device, "not-mapped", metric, number)
            return reading

    def count(self, device: str, event: str, detail: str, number: int = 1) -> None:
        """Count something that is reported at intervals."""
        key = (device, event, detail)
        if key not in self._counted and len(self._counted) >= limits.DETAILS * (1 + len(self.index.devices)):
            key = ("", event, "others")
        self._counted[key] += number

    def counted(self) -> Counter[tuple[str, str, str]]:
        """The counts since the last call, by (device, event, detail)."""
        with self._lock:
            for (device, reason), number in self._steps.faults.items():
                self.count(device, "dropped", reason, number)
            for device, number in self._steps.resets.items():
                self.count(device, "reset", "counter reset", number)
            self._steps.faults.clear()
            self._steps.resets.clear()
            found, self._counted = self._counted, Counter()
            return found

    def take(self, everything: bool = False) -> Taken:
        """The rows of the points that are due; with EVERYTHING, at the end, of all points."""
        with self._lock:
            series, feeds = list(self.index.all), list(self.index.feeds)
            points = self._waiting.take(series, everything)
        taken = Taken()
        if points is not None:
            self._sort_in(series)
            self._share_out(self._steps.take(points, series, feeds), taken)
        if everything:
            self._add_last(self.ports.close(), taken)
        taken.missed = self.ports.missed()
        return taken

    def _sort_in(self, series: list[Any]) -> None:
        """Decide where each new series belongs: 0 for bins, otherwise the number of a table."""
        names = list(self._tables)
        places = []
        for one in series[len(self._place) :]:
            self._tables[one.meaning.table].know(one)
            places.append(0 if self.ports.know(one) else 1 + names.index(one.meaning.table))
        self._place = np.concatenate([self._place, np.array(places, np.int8)])

    def _share_out(self, steps: SeriesSteps, taken: Taken) -> None:
        place = self._place[steps.series]
        placed = self.ports.take(steps.chosen(place == 0))
        taken.bins += placed.bins
        for k, (name, table) in enumerate(self._tables.items(), 1):
            parts = [steps.chosen(place == k), *(placed.seldom if name == "ports" else ())]
            if any(len(part) for part in parts):
                taken.rows.append((name, table.rows(SeriesSteps.joined(parts))))

    def _add_last(self, placed: PlacedSteps, taken: Taken) -> None:
        """Add what is left of running totals of bytes."""
        taken.bins += placed.bins
        if placed.seldom:
            taken.rows.append(("ports", self._tables["ports"].rows(SeriesSteps.joined(placed.seldom))))
