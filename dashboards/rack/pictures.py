"""Figures of a rack's report, which templates draw as SVG: without a script, so that they print and can be mailed
unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.rack.period import RackLane
from ...analysis.rack.report import RackFigures, SlotCounts
from ...units import format_count, format_duration, format_share
from ..common import curves
from ..common.heatmap import UNSEEN, HeatLine, Heatmap, HeatWords, SlotAxis, SlotShade
from ..common.heatmap import heatmap as drawn
from ..common.words import moment
from .words import lane_name

STEPS = (
    (0.1, "10 %"),
    (0.03, "3 %"),
    (0.01, "1 %"),
    (0.003, "0.3 %"),
    (0.001, "0.1 %"),
    (0.0003, "0.03 %"),
    (0.0001, "0.01 %"),
    (0.00003, "0.003 %"),
    (0.0, "less"),
)


def step_of(cell: SlotCounts) -> int | None:
    """Returns the index in STEPS of a cell's share of time in bursts; None without a burst."""
    if not cell.burst_ns:
        return None
    share = cell.burst_ns / max(cell.recorded_ns, cell.burst_ns)
    return next(i for i, (least, _) in enumerate(STEPS) if share >= least)


def heatmap(report: RackFigures) -> Heatmap:
    """Returns the inbound lanes of a report by time: the share of each slot in which a host received a burst. A switch
    port before a recorded host has no row if it has less than a slot of time and no burst, such as the slot in which
    the recorder was started."""
    recorded = {lane.receiver for lane in report.inbound if not lane.is_port}
    rows = [
        (lane, cells)
        for lane, cells in zip(report.inbound, report.cells, strict=True)
        if not lane.is_port or lane.receiver not in recorded or lane.bursts or lane.recorded_ns >= report.slot_ns
    ]
    axis = SlotAxis(report.first_slot * report.slot_ns, report.slot_ns, len(rows[0][1]) if rows else 1)
    words = HeatWords(
        f"Time in bursts of {format_count(len(rows), 'interface')} in {format_count(axis.slots, 'slot')} of time; "
        "the table of hosts has the sums.",
        "Time in bursts by host and time",
        "Share of time in bursts, from",
    )
    lines = [_line(lane, cells, axis, lane.is_port and lane.receiver in recorded) for lane, cells in rows]
    return drawn(words, [text for _, text in STEPS], axis, lines)


def _line(lane: RackLane, cells: Sequence[SlotCounts], axis: SlotAxis, stands_in: bool) -> HeatLine:
    name = lane_name(lane, alone=True)
    unseen = f"not recorded, or counted at {lane.receiver}" if stands_in else "not recorded"
    return HeatLine(name, [_shade(cell, f"{name}, {moment(axis.start_of(i))}", unseen) for i, cell in enumerate(cells)])


def _shade(cell: SlotCounts, where: str, unseen: str) -> SlotShade:
    step = step_of(cell)
    if not cell.recorded_ns:
        return SlotShade(UNSEEN, f"{where}: {unseen}")
    if step is None:
        return SlotShade(None, "")
    share = cell.burst_ns / max(cell.recorded_ns, cell.burst_ns)
    bursts, lasting = format_count(cell.bursts, "burst"), format_duration(cell.burst_ns)
    return SlotShade(step, f"{where}: {bursts}, {lasting}, {format_share(share)} of the time")


def durations(report: RackFigures) -> curves.StepCurve:
    """Returns the empirical distribution of the durations of inbound bursts, for a report with a burst."""
    found = curves.DurationShares("", report.durations_ns, report.fractions)
    return curves.of_durations("Distribution of the durations of bursts", [found], _quantiles(report))


def _quantiles(report: RackFigures) -> list[tuple[str, str]]:
    known = report.duration
    return [("n", f"{known.n:,}")] + [
        (name, format_duration(value))
        for name, value in (
            ("min", known.least),
            ("median", known.p50),
            ("p90", known.p90),
            ("p99", known.p99),
            ("max", known.largest),
        )
        if value is not None
    ]
