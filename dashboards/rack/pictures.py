"""Pictures of a rack's report, which templates draw as SVG: no script, so that they print and can be mailed as they
are. Lengths are in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ...analysis.rack.report import RackFigures, SlotCounts
from ...units import format_duration, format_share
from ..common.figures import duration_ticks
from .words import lane_name, moment

WIDTH, LABELS, ROW, TOP = 1160, 200, 20, 22  # pixels
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
OPACITY = (1.0, 0.86, 0.72, 0.6, 0.48, 0.37, 0.27, 0.18, 0.1)  # of the cells from those shares of time on
MOST_LABELS = 12
SECOND_NS, HOUR_NS, DAY_NS = 10**9, 3600 * 10**9, 86_400 * 10**9


def step_of(cell: SlotCounts) -> int | None:
    """Which of STEPS a cell is in by its share of time in bursts; None without a burst."""
    if not cell.burst_ns:
        return None
    share = cell.burst_ns / max(cell.recorded_ns, cell.burst_ns)
    return next(i for i, (least, _) in enumerate(STEPS) if share >= least)


def slot_label(ts_ns: int, slot_ns: int) -> str:
    """How a slot's beginning is written on the axis."""
    form = "%m-%d" if slot_ns >= DAY_NS else "%H:%M" if slot_ns >= 60 * SECOND_NS else "%H:%M:%S"
    return datetime.fromtimestamp(ts_ns // SECOND_NS, UTC).strftime(form)


def label_every(slots: int, slot_ns: int) -> int:
    """How many slots from one label to the next."""
    steps = (1, 3, 6, 12, 24, 48) if slot_ns == HOUR_NS else (1, 2, 5, 10, 30, 60, 120)
    return next((step for step in steps if slots / step <= MOST_LABELS), slots)


@dataclass(frozen=True)
class HeatCell:
    """A slot of time of a host: KIND is its CSS class; OPACITY is None where there was no burst."""

    x: float
    kind: str
    opacity: float | None
    title: str


@dataclass(frozen=True)
class HeatRow:
    """A host."""

    top: int
    name: str
    cells: Sequence[HeatCell]


@dataclass(frozen=True)
class Heatmap:
    """Hosts against time: how much of each slot a host was receiving a burst. No row for no inbound lane."""

    height: int
    label: str
    labels: Sequence[tuple[float, str]]
    rows_of_cells: Sequence[HeatRow]
    cell_width: float
    template = "rack/heatmap.html"
    width = WIDTH
    names_x = LABELS - 8
    cell_height = ROW - 2
    steps = tuple((opacity, text) for opacity, (_, text) in zip(OPACITY, STEPS, strict=True))


def heatmap(report: RackFigures) -> Heatmap:
    """The inbound lanes of a report by time."""
    rows = [(lane, cells) for lane, cells in zip(report.lanes, report.cells, strict=True) if lane.direction != "out"]
    slots = len(rows[0][1]) if rows else 1
    width = (WIDTH - LABELS) / slots
    return Heatmap(
        TOP + ROW * len(rows) + 4,
        f"Time in bursts of {len(rows)} interfaces in {slots} slots of time; the table of hosts has the sums.",
        _hours(report, slots, width),
        [_row(i, lane_name(lane, alone=True), cells, report, width) for i, (lane, cells) in enumerate(rows)],
        max(width - 1, 0.6),
    )


def _hours(report: RackFigures, slots: int, width: float) -> list[tuple[float, str]]:
    every = label_every(slots, report.slot_ns)
    return [
        (LABELS + i * width, slot_label((report.first_slot + i) * report.slot_ns, report.slot_ns))
        for i in range(slots)
        if (report.first_slot + i) % every == 0 and LABELS + i * width < WIDTH - 50
    ]


def _row(index: int, name: str, cells: Sequence[SlotCounts], report: RackFigures, width: float) -> HeatRow:
    shown = name if len(name) <= 28 else name[:27] + "…"
    return HeatRow(
        TOP + index * ROW,
        shown,
        [
            _cell(cell, LABELS + i * width, f"{name}, {moment((report.first_slot + i) * report.slot_ns)}")
            for i, cell in enumerate(cells)
        ],
    )


def _cell(cell: SlotCounts, x: float, where: str) -> HeatCell:
    step = step_of(cell)
    if not cell.recorded_ns:
        return HeatCell(x, "unseen-cell", None, f"{where}: not recorded")
    if step is None:
        return HeatCell(x, "calm", None, "")
    share = cell.burst_ns / max(cell.recorded_ns, cell.burst_ns)
    return HeatCell(
        x,
        "hot",
        OPACITY[step],
        f"{where}: {cell.bursts:,} bursts, {format_duration(cell.burst_ns)}, {format_share(share)} of the time",
    )


@dataclass(frozen=True)
class DurationCurve:
    """The empirical distribution of the durations of inbound bursts: places of SHARES and TICKS, the LINE as an SVG
    path, and quantiles in words."""

    shares: Sequence[tuple[float, str]]
    ticks: Sequence[tuple[float, str]]
    line: str
    quantiles: Sequence[tuple[str, str]]
    template = "rack/durations.html"
    width, height, left, right, bottom = 560, 210, 44, 552, 184


def durations(report: RackFigures) -> DurationCurve:
    """The curve of a report with a burst."""
    low, high = math.log10(report.durations_ns[0] / 1.5), math.log10(report.durations_ns[-1] * 1.5)
    left, right, bottom = DurationCurve.left, DurationCurve.right, DurationCurve.bottom

    def x(value: float) -> float:
        return left + (math.log10(value) - low) / (high - low) * (right - left)

    def y(share: float) -> float:
        return 8 + (1 - share) * (bottom - 8)

    line = [f"M{left},{y(0):.1f}H{x(report.durations_ns[0]):.1f}"]
    line += [
        f"V{y(share):.1f}" + (f"H{x(after):.1f}" if after else f"H{right}")
        for share, after in zip(report.fractions, [*report.durations_ns[1:], 0.0], strict=True)
    ]
    return DurationCurve(
        [(y(share), format_share(share)) for share in (0.0, 0.5, 0.9, 1.0)],
        [(x(value), text) for value, text in duration_ticks(report.durations_ns) if low <= math.log10(value) <= high],
        "".join(line),
        _quantiles(report),
    )


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
