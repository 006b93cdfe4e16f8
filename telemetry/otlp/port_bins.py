"""Bins of switch ports: the lanes of all ports, and their bins as rows."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..gnmi.rows import text_column
from .lanes import WIDEST_NS, LaneBins, Missed, SampledLane
from .series import MetricSeries
from .speeds import Speeds
from .steps import SeriesSteps

DIRECTIONS = {"in_bytes": "in", "out_bytes": "out"}
MOST_LANES = 8192


@dataclass(frozen=True)
class SwitchLane:
    """A port and a direction as the switch sees it."""

    device: str
    port: str
    direction: str

    @property
    def text(self) -> str:
        """The name as one text, which no other name has."""
        return json.dumps([self.device, self.port, self.direction])

    @classmethod
    def of(cls, text: str) -> SwitchLane:
        """The name that `text` gave."""
        return cls(*json.loads(text))


class PortBins:
    """The lanes of running totals of bytes."""

    def __init__(self, speeds: Speeds) -> None:
        self.lanes: dict[SwitchLane, SampledLane] = {}
        self._speeds = speeds
        self._lane_of: dict[int, SwitchLane] = {}  # by series

    def know(self, series: MetricSeries) -> bool:
        """Whether a series is a lane, which it is from now on."""
        meaning = series.meaning
        if meaning is None or meaning.table != "ports" or not series.is_total or meaning.column not in DIRECTIONS:
            return False
        name = SwitchLane(series.device, series.port, DIRECTIONS[meaning.column])
        if name not in self.lanes:
            if len(self.lanes) >= MOST_LANES:
                return False
            self.lanes[name] = SampledLane(self._speeds.of(series.device, series.port))
        self._lane_of[series.number] = name
        return True

    def take(self, steps: SeriesSteps) -> list[tuple[SwitchLane, LaneBins]]:
        """The bins that are closed. STEPS are sorted by series."""
        edges = [*np.flatnonzero(np.diff(steps.series, prepend=-1)).tolist(), len(steps)]
        taken = []
        for first, last in itertools.pairwise(edges):
            name, at = self._lane_of[int(steps.series[first])], slice(first, last)
            found = self.lanes[name].take(steps.begin_ns[at], steps.ts_ns[at], steps.amount[at], steps.quality[at])
            if found is not None:
                taken.append((name, found))
        return taken

    def close(self) -> list[tuple[SwitchLane, LaneBins]]:
        """The bins that are left, at the end."""
        return [(name, found) for name, lane in self.lanes.items() if (found := lane.close()) is not None]

    def sampled_seldom(self, steps: SeriesSteps) -> list[int]:
        """The series of lanes that are sampled too seldom for bins, which their first steps show. STEPS are sorted by
        series."""
        edges = [*np.flatnonzero(np.diff(steps.series, prepend=-1)).tolist(), len(steps)]
        return [
            int(steps.series[first])
            for first, last in itertools.pairwise(edges)
            if not self.lanes[self._lane_of[int(steps.series[first])]].begun
            and np.median(steps.ts_ns[first:last] - steps.begin_ns[first:last]) > WIDEST_NS
        ]

    def missed(self) -> list[tuple[SwitchLane, Missed]]:
        """Times without bins since the last call; those that touch are one."""
        found = []
        for name, lane in self.lanes.items():
            for one in _touching(lane.missed):
                found.append((name, one))
            lane.missed = []
        return found


def _touching(missed: list[Missed]) -> list[Missed]:
    joined: list[Missed] = []
    for one in missed:
        if joined and one.start_ns <= joined[-1].end_ns:
            last = joined.pop()
            one = Missed(last.start_ns, max(one.end_ns, last.end_ns), last.bytes + one.bytes)
        joined.append(one)
    return joined


def bin_rows(found: list[tuple[SwitchLane, LaneBins]], widths: dict[SwitchLane, int]) -> pa.RecordBatch:
    """Bins as rows: the columns of the store's table, but `lane` for those that name a recording."""
    lengths = [len(bins.number) for _, bins in found]
    place = np.repeat(np.arange(len(found)), lengths)
    number, amount, quality = (
        np.concatenate([getattr(bins, column) for _, bins in found]) for column in ("number", "bytes", "quality")
    )
    width = np.repeat([widths[name] for name, _ in found], lengths)
    nothing = pa.array(np.zeros(len(number), np.uint32))
    columns = {
        "lane": text_column([name.text for name, _ in found], place),
        "device": text_column([name.device for name, _ in found], place),
        "clock_epoch": pa.array(np.zeros(len(number), np.uint16)),
        "ts_ns": pa.array(number * width),
        "bytes": pa.array(amount),
        "wire_bytes": pa.array(amount),
        "packets": nothing,
        "ce_packets": nothing,
        "quality": pa.array(quality),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
