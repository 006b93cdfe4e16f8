"""The part of a report on probed paths: their distributions, their delay over time, their minutes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.answers.minutes import PathMinute, by_minute, persistence
from ...analysis.answers.paths import LEVELS, Distribution, PathProbes, extremes
from ...analysis.model import distributions
from ...analysis.model.stats import Floats
from ...units import format_count, format_duration, format_share, format_time
from ..common.figures import common, duration_ticks, line, y_axis
from ..common.palette import LIGHT
from . import path_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_PATHS = 12  # with figures; the others are in the JSON
BUCKETS = 700  # of a delay over time
COLOURS = {
    "application": "second",
    "round_trip": "latency",
    "forward": "mean",
    "back": "largest",
    "host_here": "queue",
    "host_there": "burst",
}
_HEIGHT = 280
_NO_TIME = 1.0  # ns: the place of 0 on a logarithmic axis


def _drawn(values: Floats) -> Any:
    return np.maximum(values, _NO_TIME)


def distribution_figure(met: PathProbes) -> go.Figure:
    """Returns the share of the probes that took no longer, for each measure. The vertical axis is in nines, so that
    p99.9 is as visible as the median."""
    import plotly.graph_objects as go

    data, low, high, deepest = [], math.inf, 0.0, 1.0
    for name, measured in met.measured.items():
        if measured.n:
            values, depth = distributions.nines(met.values[name])
            data.append(line(name, _drawn(values), depth, COLOURS[name], width=1.8, hoverinfo="none"))
            low, high = min(low, float(values[0])), max(high, float(values[-1]))
            deepest = max(deepest, float(depth[-1]))
    ends = [max(low, _NO_TIME), max(high, _NO_TIME)]
    levels = [(-math.log10(1 - level), f"{100 * level:g} %") for level in LEVELS if -math.log10(1 - level) <= deepest]
    ticks = duration_ticks(ends)
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 64, "r": 12, "t": 8, "b": 46},
        "dragmode": False,
        "hovermode": False,
        "xaxis": {
            "type": "log",
            "range": [math.log10(ends[0] / 1.5), math.log10(ends[1] * 1.5)],
            "fixedrange": True,
            "tickvals": [value for value, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "tickangle": 0,
            "zeroline": False,
            "gridcolor": LIGHT["rule"],
            "tickfont": {"size": 11, "color": LIGHT["muted"]},
            "title": {"text": "Time", "font": {"size": 12, "color": LIGHT["muted"]}, "standoff": 8},
        },
        "yaxis": y_axis(
            (0, 1),
            "Probes that took no longer",
            range=[0, deepest * 1.03],
            tickvals=[0, *(depth for depth, _ in levels)],
            ticktext=["0", *(text for _, text in levels)],
        ),
        **common(),
    }
    return go.Figure(data=data, layout=layout)


def _time_figure(traces: list[dict[str, Any]], low: float, high: float, title: str) -> go.Figure:
    import plotly.graph_objects as go

    ends = [max(low, _NO_TIME), max(high, _NO_TIME)]
    ticks = duration_ticks(ends)
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 64, "r": 12, "t": 8, "b": 46},
        "dragmode": "zoom",
        "hovermode": False,
        "xaxis": {
            "zeroline": False,
            "gridcolor": LIGHT["rule"],
            "tickfont": {"size": 11, "color": LIGHT["muted"]},
            "title": {"text": title, "font": {"size": 12, "color": LIGHT["muted"]}, "standoff": 8},
        },
        "yaxis": y_axis(
            (0, 1),
            "",
            type="log",
            range=[math.log10(ends[0] / 1.5), math.log10(ends[1] * 1.8)],
            tickvals=[value for value, _ in ticks],
            ticktext=[text for _, text in ticks],
        ),
        **common(),
    }
    return go.Figure(data=traces, layout=layout)


def over_time_figure(met: PathProbes) -> go.Figure:
    """Returns the slowest and the median probe of each step of time, the longest time in the hosts, and the lost
    probes. The path must have a latency."""
    network = met.values["round_trip"] if met.measured["round_trip"].n else met.latency
    hosts = np.nansum([met.values[name] for name in ("host_here", "host_there")], axis=0)
    hosts = np.where(np.isnan(met.values["host_here"]), np.nan, hosts)
    steps = extremes(met.tx, network, BUCKETS)
    taken = extremes(met.tx, hosts, BUCKETS)
    marks: dict[str, Any] = {"mode": "lines+markers"} if len(steps.at_ns) == 1 else {}  # a single point draws no line
    traces = [
        line("latency-median", steps.at_ns / 1e9, _drawn(steps.median), "latency-median", **marks),
        line("latency", steps.at_ns / 1e9, _drawn(steps.largest), "latency", width=1.3, **marks),
    ]
    if len(taken.at_ns):
        traces.append(line("hosts", taken.at_ns / 1e9, _drawn(taken.largest), "queue", width=1, **marks))
    known = np.concatenate([steps.largest, steps.median, taken.largest])
    high = float(known.max())
    lost = met.tx[met.lost_at] / 1e9
    if len(lost):
        shown = lost[np.linspace(0, len(lost) - 1, min(len(lost), BUCKETS)).astype(np.int64)]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "meta": "lost",
                "x": shown,
                "y": [high * 1.4] * len(shown),
                "hoverinfo": "none",
                "showlegend": False,
                "marker": {
                    "symbol": "x-thin",
                    "size": 7,
                    "color": LIGHT["loss"],
                    "line": {"width": 1.6, "color": LIGHT["loss"]},
                },
            }
        )
    return _time_figure(traces, float(known.min()), high, f"seconds since {format_time(met.start_ns)[:19]}")


def minutes_figure(found: Sequence[PathMinute]) -> go.Figure:
    """Returns the minimum, the median and the p99 of each minute."""
    x = [(entry.start_ns - found[0].start_ns) / 60e9 for entry in found]
    series = {
        "least": [entry.least for entry in found],
        "p50": [entry.p50 for entry in found],
        "p99": [entry.p99 for entry in found],
    }
    colours = {"least": "largest", "p50": "latency-median", "p99": "latency"}
    traces = [
        line(
            name,
            x,
            [None if value is None else max(value, _NO_TIME) for value in values],
            colours[name],
            mode="lines+markers",
            marker={"size": 4, "color": LIGHT[colours[name]]},
        )
        for name, values in series.items()
    ]
    known = [value for values in series.values() for value in values if value is not None] or [_NO_TIME]
    return _time_figure(traces, min(known), max(known), f"minutes since {format_time(found[0].start_ns)[:16]}")


_DRAWN = {"distribution": distribution_figure, "time": over_time_figure}


def _drawn_of(met: PathProbes) -> list[str]:
    """Returns the names in _DRAWN that have something to draw: both, none, or without a latency only the time in the
    far host."""
    if met.has_latency:
        return [*_DRAWN]
    return ["distribution"] if any(one.n for one in met.measured.values()) else []


def payload(paths: Sequence[PathProbes]) -> list[dict[str, Any]]:
    """Returns the figures of each path, for the page's script."""
    drawn = []
    for met in paths[:MOST_PATHS]:
        figures = {name: _DRAWN[name](met) for name in _drawn_of(met)}
        found = by_minute(met)
        if len(found) > 1:
            figures["minutes"] = minutes_figure(found)
        drawn.append({name: json.loads(figure.to_json()) for name, figure in figures.items()})
    return drawn


def facts(paths: Sequence[PathProbes]) -> list[dict[str, Any]]:
    """Returns every path for programs, with its distributions and its minutes. Times in ns."""
    return [
        {
            "src": met.src,
            "dst": met.dst,
            "protocol": met.protocol,
            "stamps": met.stamps,
            "n": met.sent - met.lost,
            "measure": met.measure,
            "distribution": _distribution(met.by_measure),
            "sent": met.sent,
            "lost": met.lost,
            "every": met.every,
            "start_ns": met.start_ns,
            "end_ns": met.end_ns,
            "clocks": asdict(met.clocks) if met.clocks else None,
            "measures": {name: _distribution(measured) for name, measured in met.measured.items()},
            "minutes": [asdict(entry) for entry in by_minute(met)],
        }
        for met in paths
    ]


def _distribution(of: Distribution) -> dict[str, Any]:
    return {"n": of.n, "min_ns": of.least, "max_ns": of.largest, **of.named_levels}


@dataclass(frozen=True)
class PathFigure:
    """The place of a figure: its legend as (colour, text), and a NOTE below it."""

    name: str
    title: str
    legend: Sequence[tuple[str, str]]
    note: str = ""


@dataclass(frozen=True)
class PathPart:
    """The values that templates/report/paths.html draws for a path: `rows` of percentiles are (name, meaning,
    cells)."""

    name: str
    intro: str
    rows: Sequence[tuple[str, str, Sequence[str]]]
    figures: Sequence[PathFigure]
    minutes: PathFigure | None


HEADS = ("n", *path_words.HEADS)


def parts(paths: Sequence[PathProbes]) -> list[PathPart]:
    """Returns the paths with figures."""
    return [_path(met) for met in paths[:MOST_PATHS]]


def _path(met: PathProbes) -> PathPart:
    by = path_words.stamped_by(met)
    lost = f"{met.lost:,} lost ({format_share(met.lost / met.sent)})" if met.lost else "none lost"
    intro = (
        f"{format_count(met.sent, 'probe')} in {format_duration(met.end_ns - met.start_ns)} from "
        f"{format_time(met.start_ns)[:19]} UTC, {lost}" + (f"; stamps by {by}" if by else "") + "."
    )
    notes = [path_words.unknown_note(met), path_words.clock_note(met.clocks), path_words.sample_note(met)]
    names = [name for name, measured in met.measured.items() if measured.n]
    rows = [
        (row[0].strip(), path_words.meaning(name, met), row[1:])
        for name, row in zip(names, path_words.table(met), strict=True)
    ]
    found = by_minute(met)
    minutes = PathFigure("minutes", "By the minute", _MINUTES, _persistence(found)) if len(found) > 1 else None
    return PathPart(
        path_words.name_of(met), " ".join(filter(None, [intro, *notes])), rows, _figures(met, names), minutes
    )


_MINUTES = (("largest", "least"), ("latency-median", "median"), ("latency", "p99"))


def _figures(met: PathProbes, measures: Sequence[str]) -> list[PathFigure]:
    kinds = [(COLOURS[name], path_words.NAMES[name].strip()) for name in measures]
    over_time = [
        ("latency", f"slowest in a step, {met.round_trip or met.measure}"),
        ("latency-median", "median of a step"),
        ("queue", "longest time in the hosts"),
        ("loss", "lost"),
    ]
    places = [PathFigure("distribution", "How long they took", kinds), PathFigure("time", "Over time", over_time)]
    return [place for place in places if place.name in _drawn_of(met)]


def _persistence(found: Sequence[PathMinute]) -> str:
    related = persistence(found)
    if related is None:
        return "Too few minutes to say whether a slow one is followed by another."
    said = (
        "A slow minute is often followed by another"
        if related > 0.5
        else "A slow minute is somewhat more often followed by another"
        if related > 0.2
        else "A slow minute does not predict the next"
    )
    return f"{said}: rank correlation of p99 with that of the next minute {related:.2f}."
