"""Bins of switch ports: the lanes of all ports, and rows of their bins."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..tables import text_column
from .lanes import LaneBins, Missed, SampledLane, at_end
from .points import Ints
from .series import MetricSeries
from .speeds import Speeds
from .steps import SeriesSteps
from .widths import LearnedWidth, width_of

DIRECTIONS = {"in_bytes": "in", "out_bytes": "out"}
MOST_LANES = 8192
LEARNED = 16  # intervals from which the width is determined; twice as many, and so on, while it is not sure
MOST_LEARNED = 128  # intervals after which it is determined in any case
WIDEST_NS = 10**9  # less frequent samples do not become bins
MOST_RUNS = 16  # after as many, a width that changes by less than half begins no other: lanes are limited
OTHERS = 64  # successive intervals that are all too long for a bin, or under half a width


@dataclass(frozen=True)
class SwitchLane:
    """A port and a direction as the switch sees it: one recording."""

    device: str
    port: str
    direction: str
    run: int = 0  # incremented after each time of days without samples, and when the width of samples changes

    @property
    def text(self) -> str:
        """The name as one text, which is unique."""
        return json.dumps([self.device, self.port, self.direction, self.run])

    @classmethod
    def of(cls, text: str) -> SwitchLane:
        """The name with the given `text`."""
        return cls(*json.loads(text))


@dataclass
class _PortTotal:
    """A running total of bytes: it has a lane, or its steps until the width is known, or neither if samples are too
    infrequent."""

    name: SwitchLane
    held: SeriesSteps | None = None
    lane: SampledLane | None = None
    end_ns: int = 0  # end of the last step
    not_before_ns: int = 0  # the end of the bins of the previous run
    often: int = 0  # the number of last intervals that are short enough for bins, although samples were too infrequent


@dataclass
class PlacedSteps:
    """Steps of running totals of bytes: bins, or rows of `ports` if they are too infrequent for bins."""

    bins: list[tuple[SwitchLane, LaneBins]] = field(default_factory=list)
    seldom: list[SeriesSteps] = field(default_factory=list)


class PortBins:
    """The lanes of running totals of bytes. `lanes` are those of known width, including those of ended runs."""

    def __init__(self, speeds: Speeds) -> None:
        self.lanes: dict[SwitchLane, SampledLane] = {}
        self._speeds = speeds
        self._totals: dict[int, _PortTotal] = {}  # by series
        self._seldom: dict[int, _PortTotal] = {}  # too infrequent for bins
        self._missed: list[tuple[SwitchLane, Missed]] = []

    def know(self, series: MetricSeries) -> bool:
        """Whether a series becomes bins, as far as this can be known before its first points."""
        meaning = series.meaning
        if meaning is None or meaning.table != "ports" or not series.is_total or meaning.column not in DIRECTIONS:
            return False
        if len(self._totals) >= MOST_LANES:
            return False
        self._totals[series.number] = _PortTotal(SwitchLane(series.device, series.port, DIRECTIONS[meaning.column]))
        return True

    def take(self, steps: SeriesSteps) -> PlacedSteps:
        """Distribute steps that are sorted by series and time."""
        placed = PlacedSteps()
        is_short = steps.intervals <= WIDEST_NS
        stay = np.zeros(len(steps), bool)  # too infrequent for bins; in one go, as there may be many of one point
        begins = np.ones(len(steps), bool)  # within a series, each step begins where the previous one ended
        begins[1:] = (steps.series[1:] != steps.series[:-1]) | (steps.begin_ns[1:] != steps.ts_ns[:-1])
        for first, last in itertools.pairwise([*np.flatnonzero(begins).tolist(), len(steps)]):
            if (number := int(steps.series[first])) in self._totals:
                self._go_on(self._totals[number], steps.chosen(slice(first, last)), placed)
            else:
                stay[first:last] = True
                if is_short[last - 1] and number in self._seldom:
                    self._may_be_bins(number, is_short[first:last], int(steps.ts_ns[last - 1]))
                elif number in self._seldom:
                    self._seldom[number].often = 0
        if stay.any():
            placed.seldom.append(steps.chosen(stay))
        return placed

    def _may_be_bins(self, number: int, is_short: NDArray[np.bool_], end_ns: int) -> None:
        """Decide whether the next steps of a total that was too infrequent for bins may become bins."""
        total = self._seldom[number]
        total.often = at_end(is_short, total.often)
        if total.often >= OTHERS and max(len(self._totals), len(self.lanes)) < MOST_LANES:
            total.often, total.end_ns = 0, end_ns
            self._totals[number] = self._seldom.pop(number)

    def _go_on(self, total: _PortTotal, part: SeriesSteps, placed: PlacedSteps) -> None:
        if total.end_ns not in (0, int(part.begin_ns[0])):  # days later
            self._end_run(total, placed)
            if int(part.series[0]) in self._seldom:  # because of the held steps
                placed.seldom.append(part)
                return
        total.end_ns = int(part.ts_ns[-1])
        if total.lane is None:
            held, total.held = total.held, part if total.held is None else SeriesSteps.joined([total.held, part])
            if (width := _learned(total.held.intervals, 0 if held is None else len(held))) is not None:
                self._begin_run(total, total.held, width, placed)
            return
        self._into_lane(total.lane, total.name, part, placed)
        is_other = max(total.lane.too_long, total.lane.too_short) >= OTHERS
        may_be_other = total.name.run < MOST_RUNS and total.lane.has_other_width()
        if is_other or may_be_other:  # the switch now samples at another width
            self._end_run(total, placed)

    def _begin_run(self, total: _PortTotal, steps: SeriesSteps, width: LearnedWidth, placed: PlacedSteps) -> None:
        """Make bins of the steps that were held, or rows if they are too infrequent."""
        total.held = None
        if width.ns > WIDEST_NS or len(self.lanes) >= MOST_LANES:
            number = int(steps.series[0])
            self._seldom[number] = self._totals.pop(number)
            placed.seldom.append(steps)
            return
        link_bps = self._speeds.of(total.name.device, total.name.port)
        total.lane = SampledLane(width, int(steps.begin_ns[0]), link_bps, total.not_before_ns)
        self.lanes[total.name] = total.lane
        self._into_lane(total.lane, total.name, steps, placed)

    def _into_lane(self, lane: SampledLane, name: SwitchLane, steps: SeriesSteps, placed: PlacedSteps) -> None:
        found = lane.take(steps.begin_ns, steps.ts_ns, steps.amount, steps.quality)
        if found is not None:
            placed.bins.append((name, found))
        self._missed += [(name, one) for one in _touching(lane.missed)]
        lane.missed = []

    def _end_run(self, total: _PortTotal, placed: PlacedSteps) -> None:
        """End a run: later steps belong to another recording of the port."""
        if total.held is not None:
            self._begin_run(total, total.held, width_of(total.held.intervals), placed)
        if total.lane is None:
            return
        if (last := total.lane.close()) is not None:
            placed.bins.append((total.name, last))
        total.not_before_ns, total.lane = total.lane.end_ns, None
        total.name = replace(total.name, run=total.name.run + 1)

    def close(self) -> PlacedSteps:
        """End all runs. Returns what is left."""
        placed = PlacedSteps()
        for total in list(self._totals.values()):
            self._end_run(total, placed)
        return placed

    def missed(self) -> list[tuple[SwitchLane, Missed]]:
        """Times without bins since the last call; adjacent ones are joined."""
        found, self._missed = self._missed, []
        return found


def _learned(intervals: Ints, before: int) -> LearnedWidth | None:
    """The width of the bins of a total that begins with these intervals; None if it needs more of them. BEFORE is the
    number of those that were not enough."""
    number = LEARNED
    while number <= len(intervals):
        if number > before and ((width := width_of(intervals[:number])).is_sure or number >= MOST_LEARNED):
            return width
        number *= 2
    is_too_long = (intervals > WIDEST_NS).sum() > LEARNED // 2 and (width := width_of(intervals)).ns > WIDEST_NS
    return width if is_too_long else None


def _touching(missed: list[Missed]) -> list[Missed]:
    joined: list[Missed] = []
    for one in missed:
        last = joined[-1] if joined else None
        if last and one.start_ns <= last.end_ns and one.reason == last.reason:
            if one.bytes is not None and last.bytes is not None:
                one = Missed(joined.pop().start_ns, max(one.end_ns, last.end_ns), last.bytes + one.bytes, one.reason)
            elif one.bytes is last.bytes:  # neither is known
                one = Missed(joined.pop().start_ns, max(one.end_ns, last.end_ns), None, one.reason)
        joined.append(one)
    return joined


def bin_rows(found: list[tuple[SwitchLane, LaneBins]], widths: dict[SwitchLane, int]) -> pa.RecordBatch:
    """Bins as rows: the columns of the store's table, with `lane` in place of those that identify a recording."""
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
