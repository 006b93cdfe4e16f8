"""Figures of a fleet's report, which templates draw as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...analysis.fleet.answers import BurstAnswers
from ...analysis.fleet.report import FleetPeriod, SlotLine
from ...units import NS_PER_DAY, NS_PER_HOUR, NS_PER_MINUTE, format_count, format_duration, format_number
from ..common import curves, heatmap
from ..common.blocks import Paragraph
from ..common.words import long, moment
from .words import at_once_ns, class_name

LADDER, STEPS = (1, 3), 7  # bursts per hour from which a slot has its shade: 1, 3, 10, 30, …
X_TICKS = 10
Y_TICKS = 6
TIMES = (
    *(step * 10**power for power in range(11) for step in (1, 2, 5) if step * 10**power < NS_PER_MINUTE),
    *(step * NS_PER_MINUTE for step in (1, 2, 5, 10, 20, 30)),
    *(step * NS_PER_HOUR for step in (1, 2, 5, 10, 24)),
    *(step * 10**power * NS_PER_DAY for power in range(6) for step in (2, 5, 10)),
)


def over_time(
    lines: Sequence[SlotLine], period: FleetPeriod, who: str, links: Mapping[str, str], names: Mapping[str, str]
) -> heatmap.Heatmap:
    """Returns LINES of racks or hosts (WHO) by time: bursts per recorded hour. NAMES replace some of their names."""
    axis, steps = heatmap.SlotAxis(period.since_ns, period.slot_ns, period.slots), rates(lines)
    words = heatmap.HeatWords(
        f"Bursts an hour of {format_count(len(lines), who)} in {period.slots} slots of time; the tables have the sums.",
        f"Bursts by {who} and time",
        "Bursts received an hour, from",
    )
    return heatmap.heatmap(
        words,
        [*(f"{step:,g}" for step in steps[:-1]), "fewer"],
        axis,
        [_line(line, axis, names.get(line.name, line.name), links.get(line.name, ""), steps) for line in lines],
    )


def rates(lines: Sequence[SlotLine]) -> list[float]:
    """Returns the steps of shade in bursts per hour, the largest first. The last is 0; the first is at most the largest
    rate."""
    found = [
        bursts * NS_PER_HOUR / recorded_ns
        for line in lines
        for bursts, recorded_ns in zip(line.bursts, line.recorded_ns, strict=True)
        if bursts and recorded_ns
    ]
    ladder = [step * 10.0**power for power in range(-6, 16) for step in LADDER]
    below = [step for step in ladder if step <= max(found, default=1.0)]
    return [*reversed(below[-(STEPS - 1) :]), 0.0]


def _line(line: SlotLine, axis: heatmap.SlotAxis, name: str, href: str, steps: Sequence[float]) -> heatmap.HeatLine:
    shades = []
    for slot, (bursts, recorded_ns) in enumerate(zip(line.bursts, line.recorded_ns, strict=True)):
        where = f"{name}, {moment(axis.start_of(slot))}"
        if not recorded_ns:
            shades.append(heatmap.SlotShade(heatmap.UNSEEN, f"{where}: not recorded"))
        elif not bursts:
            shades.append(heatmap.SlotShade(None, ""))
        else:
            rate = bursts * NS_PER_HOUR / recorded_ns
            step = next(i for i, least in enumerate(steps) if rate >= least)
            text = f"{where}: {format_count(bursts, 'burst')} in {long(recorded_ns)}, {format_number(rate)} an hour"
            shades.append(heatmap.SlotShade(step, text))
    return heatmap.HeatLine(name, shades, href)


def durations(answers: BurstAnswers) -> curves.StepCurve | Paragraph:
    """Returns the curves of the classes with most bursts."""
    if not answers.curves:
        return Paragraph("No burst was received.")
    found = [
        curves.DurationShares(f"{class_name(curve.of_class)} ({curve.bursts:,})", curve.durations_ns, curve.shares)
        for curve in answers.curves
    ]
    return curves.of_durations("Share of bursts that last at most so long", found, _quantiles(answers))


def _quantiles(answers: BurstAnswers) -> list[tuple[str, str]]:
    """Returns the quantiles of the only class; if there are several, how many of them have a curve."""
    shown = len(answers.curves)
    if answers.received_classes > 1:
        return [
            ("classes", f"{shown:,} of {answers.received_classes:,}, with most bursts"),
            ("n", f"{answers.bursts:,}"),
        ]
    of_class = answers.curves[0].of_class
    rows = [row for row in answers.classes.rows if all(row[name] == value for name, value in of_class.items())]
    found = [(name, row[f"{name}_ns"]) for row in rows for name in ("p50", "p90", "p99", "longest")]
    return [("n", f"{answers.bursts:,}")] + [
        (name, format_duration(value)) for name, value in found if value is not None
    ]


def time_ticks(low_ns: float, high_ns: float) -> list[int]:
    """Returns round times from LOW_NS to HIGH_NS for a logarithmic axis."""
    found = [ns for ns in TIMES if low_ns <= ns <= high_ns]
    return found[:: max(1, math.ceil(len(found) / Y_TICKS))]


def at_once(answers: BurstAnswers) -> curves.StepCurve | Paragraph:
    """Returns, for each number of hosts, how long at least that many hosts of a rack were in a burst at once, on a
    logarithmic axis."""
    most = max((row["hosts_at_once"] for row in answers.at_once), default=0)
    if not answers.at_once:
        return Paragraph("It is not known when hosts of a rack were recorded together.")
    if not most:
        return Paragraph("No host was receiving a burst.")
    times = [at_once_ns(answers, hosts) for hosts in range(most + 1)]
    low, high = math.log10(min(times[-1] / 2, times[0] / 10)), math.log10(times[0])

    def x(hosts: float) -> float:
        return curves.LEFT + hosts / most * (curves.RIGHT - curves.LEFT)

    def y(ns: float) -> float:
        return curves.BOTTOM - (math.log10(ns) - low) / (high - low) * (curves.BOTTOM - curves.TOP)

    path = f"M{curves.LEFT},{y(times[1]):.1f}"
    path += "".join(f"V{y(ns):.1f}H{x(hosts):.1f}" for hosts, ns in enumerate(times) if hosts)
    every = max(1, math.ceil(most / X_TICKS))
    return curves.StepCurve(
        "For how long at least so many hosts of a rack were in a burst at once, on a logarithmic axis",
        [(y(ns), long(ns)) for ns in time_ticks(10**low, 10**high)],
        [(x(hosts - 0.5), f"≥ {hosts}") for hosts in range(1, most + 1, every)],
        [curves.CurveLine("line", path, "")],
        [
            ("recorded", long(times[0])),
            *((f"≥ {hosts}", long(times[hosts])) for hosts in (1, 2, 4, 8) if hosts <= most),
            ("most", format_count(most, "host")),
        ],
    )
