"""Figures: from the data that analysis gathered to plotly's Figure, without I/O. The page draws them and refines them
at zoom.

The `meta` of a trace identifies it for the page. Its colours are those of `palette.LIGHT`, so that the page can
exchange them for another palette.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.answers.lane_report import LaneReport, worst_first
from ...analysis.model import distributions
from ...analysis.model.context import PathLatency, QueueWindows
from ...analysis.model.envelope import Interval, steps
from ...units import NS_PER_MINUTE, format_duration, format_number, format_rate
from .palette import LIGHT

if TYPE_CHECKING:
    import plotly.graph_objects as go

BUCKETS = 600  # of a figure's first view; the page draws one per pixel
FONT = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif'
)
MARGIN_TOP, MARGIN_BOTTOM, STRIP, SPACE = 8, 40, 16, 26  # pixels
UTILIZATION, LATENCY, QUEUE = 320, 150, 130
EMPTY = 0.02  # of its width: if a figure over all time draws less than this, nothing is visible in it
AROUND = 1.5  # factor by which a logarithmic axis reaches beyond its values


@dataclass(frozen=True)
class Axis:
    """The scale of a rate: bits per second times `factor`; `title` and `suffix` name the result."""

    factor: float
    title: str
    suffix: str


def rate_axis(report: LaneReport) -> Axis:
    """Returns the axis for a lane's rates."""
    busiest = report.busiest_bin.wire_bytes * 8e9 / report.lane.bin_ns if report.busiest_bin else 1.0
    return axis_for(report.lane.link_bps, busiest)


def axis_for(link_bps: int | None, busiest_bps: float) -> Axis:
    """Returns an axis in percent of the line rate; if the speed of the link is unknown, of the rate in the unit of the
    busiest bin."""
    if link_bps:
        return Axis(100 / link_bps, "Utilization, % of line rate", "%")
    unit = format_rate(busiest_bps).rsplit(" ", 1)[1]
    power = {"Tb/s": 1e12, "Gb/s": 1e9, "Mb/s": 1e6, "kb/s": 1e3}.get(unit, 1.0)
    return Axis(1 / power, f"Rate on the wire, {unit}", f" {unit}")


def origin(report: LaneReport) -> int:
    """Returns the zero of a lane's time axis: the whole minute before its start."""
    return report.start_ns // NS_PER_MINUTE * NS_PER_MINUTE


def opening(report: LaneReport) -> Interval:
    """Returns the first view of the figure over time: all, unless that would be nearly empty; then the recorded stretch
    of the largest burst, or the longest one."""
    whole = report.start_ns, report.end_ns
    step = (whole[1] - whole[0]) / BUCKETS
    if sum(max(end - start, step) for start, end in report.coverage) >= EMPTY * (whole[1] - whole[0]):
        return whole
    largest = worst_first(report.bursts)[:1]
    met = [(a, b) for a, b in report.coverage for burst in largest if a <= burst["start_ns"] < b]
    return max(met or report.coverage, key=lambda span: span[1] - span[0], default=whole)


def clip(intervals: Sequence[Interval], start_ns: int, end_ns: int) -> list[Interval]:
    """Returns the parts of intervals inside [start_ns, end_ns]."""
    return [(max(a, start_ns), min(b, end_ns)) for a, b in intervals if b >= start_ns and a <= end_ns]


def boxes(spans: Sequence[Interval], height: float, origin_ns: int) -> tuple[list[float | None], list[float | None]]:
    """Returns the points of one filled trace that draws a box from zero to `height` over each span."""
    x: list[float | None] = []
    y: list[float | None] = []
    for a, b in spans:
        left, right = (a - origin_ns) / 1e9, (b - origin_ns) / 1e9
        x += [left, left, right, right, None]
        y += [0, height, height, 0, None]
    return x, y


def line(role: str, x: Any, y: Any, colour: str, **more: Any) -> dict[str, Any]:
    """Returns a trace of lines in a colour of the palette; `role` names its content."""
    line = {"color": LIGHT[colour], "width": more.pop("width", 1.2), **more.pop("line", {})}
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": role,
        "x": x,
        "y": y,
        "line": line,
        "hoverinfo": "none",
        "showlegend": False,
        **more,
    }


def dot(colour: str) -> dict[str, Any]:
    """Returns a marker for a line of latencies, for points that the page marks (static/common/points.js)."""
    return {"size": 4, "color": LIGHT[colour]}


def _rate_traces(report: LaneReport, axis: Axis, top: float, threshold: float | None) -> list[dict[str, Any]]:
    zero, start, end = origin(report), report.start_ns, report.end_ns
    view = report.base.view(start, end, BUCKETS)
    coverage = clip(report.coverage, start, end)
    seconds = report.seconds.view(start, end, BUCKETS)
    largest = steps(view, view.max_bps() * axis.factor, coverage, zero)
    mean = steps(view, view.mean_bps(coverage) * axis.factor, coverage, zero)
    average = steps(seconds, seconds.max_bps() * axis.factor, coverage, zero)
    box = boxes(report.burst_marks if len(report.burst_marks) <= 60 else [], top, zero)
    step = {"shape": "hv"}
    traces = [
        line("shade", *box, "burst-fill", width=0, fill="toself", fillcolor=LIGHT["burst-fill"]),
        line("chosen", [], [], "chosen-fill", width=0, fill="toself", fillcolor=LIGHT["chosen-fill"]),
        line("largest", *largest, "largest", width=1, line=step, fill="tozeroy", fillcolor=LIGHT["largest-fill"]),
        line("mean", *mean, "mean", width=1, line=step, fill="tozeroy", fillcolor=LIGHT["mean-fill"]),
        line("second", *average, "second", width=2.4, line=step),
    ]
    return traces


def _strip_traces(report: LaneReport) -> list[dict[str, Any]]:
    zero = origin(report)

    def ticks(spans: Sequence[Interval], level: float) -> tuple[list[float | None], list[float | None]]:
        x = [point for a, b in spans for point in ((a - zero) / 1e9, (b - zero) / 1e9, None)]
        return x, [level, level, None] * len(spans)

    marks = [line("marks", *ticks(report.burst_marks, 1), "burst", width=7, yaxis="y4")]
    if report.losing:
        marks.append(line("losing", *ticks(report.losing, 0), "loss", width=5, yaxis="y4"))
    return marks


def _latency_traces(report: LaneReport, latency: PathLatency) -> list[dict[str, Any]]:
    zero = origin(report)
    points = latency.view(report.start_ns, report.end_ns, BUCKETS)
    breaks, places = points.breaks(latency.pauses())
    x = (np.insert(points.at_ns, places, breaks) - zero) / 1e9
    largest, median = (np.insert(ns / 1e6, places, np.nan) for ns in (points.largest, points.median))
    ceiling = (latency.max_ns or 1_000_000) / 1e6 * 1.6
    return [
        line("latency-median", x, median, "latency-median", yaxis="y2", marker=dot("latency-median")),
        line("latency", x, largest, "latency", yaxis="y2", width=1.3, marker=dot("latency")),
        {
            "type": "scatter",
            "mode": "markers",
            "meta": "lost",
            "x": (points.lost_ns - zero) / 1e9,
            "y": [ceiling] * len(points.lost_ns),
            "yaxis": "y2",
            "hoverinfo": "none",
            "showlegend": False,
            "marker": {
                "symbol": "x-thin",
                "size": 7,
                "line": {"width": 1.6, "color": LIGHT["loss"]},
                "color": LIGHT["loss"],
            },
        },
    ]


def _queue_traces(report: LaneReport, queue: QueueWindows) -> list[dict[str, Any]]:
    zero = origin(report)
    x: list[float | None] = []
    y: list[float | None] = []
    for start, end, high in queue.view(report.start_ns, report.end_ns, BUCKETS):
        left, right = (start - zero) / 1e9, (end - zero) / 1e9
        x += [left, left, right, right, None]
        y += [0, high / 1e6, high / 1e6, 0, None]
    return [line("queue", x, y, "queue", yaxis="y3", fill="tozeroy", fillcolor=LIGHT["queue-fill"])]


def y_axis(domain: tuple[float, float], title: str, **more: Any) -> dict[str, Any]:
    """Returns a vertical axis that does not zoom, over a part of the figure's height."""
    return {
        "domain": list(domain),
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": LIGHT["rule"],
        "gridwidth": 1,
        "tickangle": 0,
        "ticklabeloverflow": "allow",
        "tickfont": {"size": 11, "color": LIGHT["muted"]},
        "automargin": False,
        "anchor": "x",
        "title": {"text": title, "font": {"size": 12, "color": LIGHT["muted"]}, "standoff": 8},
        **more,
    }


def _log_ticks(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(-6, 8) if low / 10 <= 10.0**power <= high * 10]


def _latency_axis(latency: PathLatency, domain: tuple[float, float]) -> dict[str, Any]:
    answered = latency.median[latency.n > 0]
    low = max(float(answered.min()), 1.0) / 1e6 if len(answered) else 1e-3
    high = max((latency.max_ns or 1_000_000) / 1e6, low)  # if a clock was set back, all may be below 0
    ticks = _log_ticks(low, high)
    return y_axis(
        domain,
        "Latency",
        type="log",
        range=[math.log10(low / 1.5), math.log10(high * 2.2)],
        tickvals=ticks,
        ticktext=[format_duration(value * 1e6) for value in ticks],
    )


def reference_lines(link_bps: int | None, threshold: float | None) -> list[dict[str, Any]]:
    """Returns the line rate and the burst threshold on an axis in percent; the page's legend names them."""
    if not link_bps:
        return []
    return [
        {
            "type": "line",
            "xref": "paper",
            "yref": "y",
            "x0": 0,
            "x1": 1,
            "y0": value,
            "y1": value,
            "layer": "above",
            "line": {"color": LIGHT["ink"], "width": 1, "dash": dash},
        }
        for value, dash in ((100.0, "solid"), (100 * (threshold or 0), "dot"))
        if value
    ]


def timeline(report: LaneReport, threshold: float | None = None) -> go.Figure:
    """Returns utilization, latency and switch queue of a lane on one time axis, in seconds since `origin(report)`.

    Utilization: the largest bin and the mean of each step, with the 1 s average; rates if the speed of the link is
    unknown. `threshold` (share of line rate) is drawn if given. The page names every trace in its legend.
    """
    import plotly.graph_objects as go

    axis = rate_axis(report)
    link = report.lane.link_bps
    peak = report.busiest_bin.wire_bytes * 8e9 / report.lane.bin_ns * axis.factor if report.busiest_bin else 1.0
    top = max(peak, 100.0 if link else 0.0) * 1.09
    latency, queue = report.latency[:1], report.queues[:1]
    heights = [STRIP, UTILIZATION] + [SPACE + LATENCY] * len(latency) + [SPACE + QUEUE] * len(queue)
    plot = sum(heights)
    low = 1 - (STRIP + UTILIZATION) / plot
    layout: dict[str, Any] = {
        "yaxis": y_axis(
            (low, 1 - STRIP / plot),
            axis.title,
            range=[0, top],
            ticksuffix=axis.suffix.strip() if link else "",
            nticks=6,
        ),
        "yaxis4": {"domain": [1 - STRIP / plot, 1], "range": [-0.7, 1.7], "visible": False, "fixedrange": True},
    }
    data = _strip_traces(report) + _rate_traces(report, axis, top, threshold)
    if latency:
        data += _latency_traces(report, latency[0])
        layout["yaxis2"] = _latency_axis(latency[0], (low - (SPACE + LATENCY) / plot, low - SPACE / plot))
        low -= (SPACE + LATENCY) / plot
    if queue:
        data += _queue_traces(report, queue[0])
        high = max((entry.max_bytes or 0 for entry in report.queues), default=0) / 1e6
        layout["yaxis3"] = y_axis(
            (max(0.0, low - (SPACE + QUEUE) / plot), low - SPACE / plot),
            "Queue, MB",
            range=[0, max(high, 1e-3) * 1.12],
            nticks=4,
        )
    layout.update(
        height=plot + MARGIN_TOP + MARGIN_BOTTOM,
        margin={"l": 64, "r": 10, "t": MARGIN_TOP, "b": MARGIN_BOTTOM},
        xaxis=_time_axis(report),
        shapes=reference_lines(link, threshold),
        hovermode="x",
        dragmode="zoom",
        **common(),
    )
    return go.Figure(data=data, layout=layout)


def _time_axis(report: LaneReport) -> dict[str, Any]:
    return {
        "domain": [0, 1],
        "anchor": "free",
        "position": 0,
        "showgrid": True,
        "gridcolor": LIGHT["rule"],
        "zeroline": False,
        "range": [(report.start_ns - origin(report)) / 1e9, (report.end_ns - origin(report)) / 1e9],
        "tickfont": {"size": 11, "color": LIGHT["muted"]},
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": LIGHT["rule"],
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "cursor",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": LIGHT["muted"],
        "title": {"text": "seconds", "font": {"size": 11, "color": LIGHT["muted"]}},
    }


def common() -> dict[str, Any]:
    """Returns the layout options of all figures."""
    return {
        "template": {},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "font": {"family": FONT, "size": 12, "color": LIGHT["ink"]},
    }


def _linear_span(low: float, high: float) -> tuple[float, float]:
    around = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return low - around, high + around


def distribution(
    values: Sequence[float], title: str, colour: str, ticks: Sequence[tuple[float, str]], logarithmic: bool
) -> go.Figure:
    """Returns the empirical distribution of `values`: the share of them that is no larger. `title` names the axis."""
    import plotly.graph_objects as go

    x, y = distributions.ecdf(values)
    low, high = (float(x[0]), float(x[-1])) if len(x) else (1.0, 1.0)
    span = (
        [math.log10(max(low, 1) / AROUND), math.log10(max(high, 1) * AROUND)]
        if logarithmic
        else list(_linear_span(low, high))
    )
    middle = distributions.summarize(values).p50
    data = [line("ecdf", [*x[:1], *x], [0.0, *y], colour, width=2, line={"shape": "hv"}, hoverinfo="x+y")]
    data[0]["hovertemplate"] = "%{y:.0%} are no larger<extra></extra>"
    if middle is not None:
        data.append(line("median", [middle, middle], [0, 0.5], "muted", width=1, line={"dash": "dot"}))
    layout = {
        "height": 220,
        "margin": {"l": 44, "r": 12, "t": 8, "b": 46},
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {
            "type": "log" if logarithmic else "linear",
            "range": span,
            "fixedrange": True,
            "zeroline": False,
            "tickvals": [value for value, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "tickangle": 0,
            "gridcolor": LIGHT["rule"],
            "tickfont": {"size": 11, "color": LIGHT["muted"]},
            "title": {"text": title, "font": {"size": 12, "color": LIGHT["muted"]}, "standoff": 8},
        },
        "yaxis": y_axis(
            (0, 1), "", range=[0, 1.03], tickvals=[0, 0.5, 0.9, 1], ticktext=["0", "50 %", "90 %", "100 %"]
        ),
        **common(),
    }
    return go.Figure(data=data, layout=layout)


def _even(low: float, high: float) -> list[float]:
    """Returns about four round numbers at even steps in [low, high]."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def duration_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Returns the ticks of a logarithmic axis of nanoseconds: decades and intermediate values that fit; even steps
    within one decade."""
    if not len(values):
        return []
    low, high = max(min(values), 1) / AROUND, max(max(values), 1) * AROUND
    if high / low < 8:
        found = _even(low, high)
    else:
        between = (1,) if high / low > 3000 else (1, 3) if high / low > 60 else (1, 2, 5)
        found = [step * 10.0**power for power in range(19) for step in between if low <= step * 10.0**power <= high]
    return [(value, format_duration(value)) for value in found]


def share_ticks(values: Sequence[float]) -> list[tuple[float, str]]:
    """Returns the ticks of a linear axis of shares, in percent."""
    if not len(values):
        return []
    low, high = _linear_span(float(min(values)), float(max(values)))
    return [(value / 100, f"{format_number(value, 4)} %") for value in _even(100 * low, 100 * high)]
