"""Pictures of a rack's report as SVG in the page: no script, so that they print and can be mailed as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from ...analysis.rack.report import Cell, RackReport
from ...names import escape
from ...units import format_duration, format_share
from ..common.figures import duration_ticks
from .words import lane_name, moment

WIDTH, LABELS, ROW, TOP = 1160, 200, 20, 22  # pixels
STEPS = ((0.1, "10 %"), (0.03, "3 %"), (0.01, "1 %"), (0.003, "0.3 %"), (0.001, "0.1 %"), (0.0003, "0.03 %"),
         (0.0001, "0.01 %"), (0.00003, "0.003 %"), (0.0, "less"))
OPACITY = (1.0, 0.86, 0.72, 0.6, 0.48, 0.37, 0.27, 0.18, 0.1)  # of the cells from those shares of time on
MOST_LABELS = 12
SECOND_NS, HOUR_NS, DAY_NS = 10**9, 3600 * 10**9, 86_400 * 10**9


def step_of(cell: Cell) -> int | None:
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


def heatmap(report: RackReport) -> str:
    """Hosts against time: how much of each slot a host was receiving a burst. Empty for no inbound lane."""
    rows = [(lane, cells) for lane, cells in zip(report.lanes, report.cells, strict=True) if lane.direction != "out"]
    if not rows:
        return ""
    slots = len(rows[0][1])
    width = (WIDTH - LABELS) / slots
    drawn = [_row(i, lane_name(lane, alone=True), cells, report, width) for i, (lane, cells) in enumerate(rows)]
    height = TOP + ROW * len(rows) + 4
    told = f"Time in bursts of {len(rows)} interfaces in {slots} slots of time; the table of hosts has the sums."
    return (f'<svg class="heat" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(told)}">'
            f"{_hours(report, slots, width)}{''.join(drawn)}</svg>")



def _hours(report: RackReport, slots: int, width: float) -> str:
    every = label_every(slots, report.slot_ns)
    labels = []
    for i in range(slots):
        number = report.first_slot + i
        if number % every == 0 and LABELS + i * width < WIDTH - 50:
            text = slot_label(number * report.slot_ns, report.slot_ns)
            labels.append(f'<text x="{LABELS + i * width:.1f}" y="14" class="axis">{text}</text>')
    return "".join(labels)


def _row(index: int, name: str, cells: Sequence[Cell], report: RackReport, width: float) -> str:
    top = TOP + index * ROW
    shown = name if len(name) <= 28 else name[:27] + "…"
    parts = [f'<text x="{LABELS - 8}" y="{top + 14}" class="name">{escape(shown)}</text>']
    for i, cell in enumerate(cells):
        at = f'x="{LABELS + i * width:.2f}" y="{top + 1}" width="{max(width - 1, 0.6):.2f}" height="{ROW - 2}"'
        start = (report.first_slot + i) * report.slot_ns
        step = step_of(cell)
        if not cell.recorded_ns:
            parts.append(f'<rect {at} class="unseen-cell"><title>{escape(name)}, {moment(start)}: not recorded</title>'
                         "</rect>")
        elif step is None:
            parts.append(f'<rect {at} class="calm"/>')
        else:
            told = (f"{name}, {moment(start)}: {cell.bursts:,} bursts, {format_duration(cell.burst_ns)}, "
                    f"{format_share(cell.burst_ns / max(cell.recorded_ns, cell.burst_ns))} of the time")
            parts.append(f'<rect {at} class="hot" fill-opacity="{OPACITY[step]}"><title>{escape(told)}</title></rect>')
    return "".join(parts)


def heat_legend() -> str:
    """What the cells mean."""
    keys = [f'<li><svg class="swatch" viewBox="0 0 18 10" aria-hidden="true"><rect width="18" height="10" class="hot" '
            f'fill-opacity="{opacity}"/></svg>{text}</li>' for opacity, (_, text) in zip(OPACITY, STEPS, strict=True)]
    plain = [f'<li><svg class="swatch" viewBox="0 0 18 10" aria-hidden="true"><rect width="18" height="10" '
             f'class="{name}"/></svg>{text}</li>' for name, text in (("calm", "no burst"),
                                                                   ("unseen-cell", "not recorded"))]
    return f'<ul class="legend"><li>Share of time in bursts, from</li>{"".join(keys + plain)}</ul>'


def distribution(report: RackReport) -> str:
    """The empirical distribution of the durations of inbound bursts, on a logarithmic axis. Empty without a burst."""
    if not report.durations_ns:
        return ""
    width, height, left, bottom = 560, 210, 44, 26
    low, high = math.log10(report.durations_ns[0] / 1.5), math.log10(report.durations_ns[-1] * 1.5)

    def x(value: float) -> float:
        return left + (math.log10(value) - low) / (high - low) * (width - left - 8)

    def y(share: float) -> float:
        return 8 + (1 - share) * (height - bottom - 8)

    path = [f"M{left},{y(0):.1f}H{x(report.durations_ns[0]):.1f}"]
    path += [f"V{y(share):.1f}" + (f"H{x(after):.1f}" if after else f"H{width - 8}") for share, after in
             zip(report.fractions, [*report.durations_ns[1:], 0.0], strict=True)]
    grid = "".join(f'<path class="grid" d="M{left},{y(share):.1f}H{width - 8}"/><text class="axis" x="{left - 6}" '
                   f'y="{y(share) + 4:.1f}" text-anchor="end">{format_share(share)}</text>'
                   for share in (0.0, 0.5, 0.9, 1.0))
    ticks = "".join(f'<path class="grid" d="M{x(value):.1f},8V{height - bottom}"/><text class="axis" '
                    f'x="{x(value):.1f}" y="{height - 8}" text-anchor="middle">{escape(text)}</text>'
                    for value, text in duration_ticks(report.durations_ns) if low <= math.log10(value) <= high)
    return (f'<svg class="ecdf" viewBox="0 0 {width} {height}" role="img" aria-label="Distribution of the durations of '
            f'bursts">{grid}{ticks}<path class="line" d="{"".join(path)}"/></svg>')
