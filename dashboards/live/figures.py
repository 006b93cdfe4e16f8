"""The live view's figures without data: the page fills them, ten times per second."""

from __future__ import annotations

from typing import Any

from ...units import format_duration
from ..common.figures import (
    LATENCY,
    MARGIN_BOTTOM,
    MARGIN_TOP,
    QUEUE,
    SPACE,
    STRIP,
    Axis,
    common,
    dot,
    line,
    reference_lines,
    y_axis,
)
from ..common.palette import LIGHT

UTILIZATION, HEAT = 300, 210  # pixels
HEAT_COLOURS = ((0.0, "wash"), (0.02, "largest"), (0.5, "mean"), (0.8, "second"), (1.0, "loss"))
DECADES_MS = [10.0**power for power in range(-4, 5)]  # of latency: 100 ns to 10 s


def timeline(axis: Axis, link_bps: int | None, threshold: float, latency: bool, queue: bool) -> dict[str, Any]:
    """Returns utilization, and below it the requested panels, on one axis of seconds."""
    panels = [name for name, wanted in (("latency", latency), ("queue", queue)) if wanted]
    below = {"latency": LATENCY, "queue": QUEUE}
    plot = STRIP + UTILIZATION + sum(SPACE + below[name] for name in panels)
    low = 1 - (STRIP + UTILIZATION) / plot
    layout: dict[str, Any] = {
        "yaxis": y_axis(
            (low, 1 - STRIP / plot),
            axis.title,
            range=[0, 109],
            nticks=6,
            ticksuffix=axis.suffix.strip() if link_bps else "",
        ),
        "yaxis4": {"domain": [1 - STRIP / plot, 1], "range": [-0.7, 1.7], "visible": False, "fixedrange": True},
    }
    for name in panels:
        domain = (max(0.0, low - (SPACE + below[name]) / plot), low - SPACE / plot)
        layout["yaxis2" if name == "latency" else "yaxis3"] = _beside_axis(name, domain)
        low -= (SPACE + below[name]) / plot
    layout.update(
        height=plot + MARGIN_TOP + MARGIN_BOTTOM,
        margin={"l": 64, "r": 10, "t": MARGIN_TOP, "b": MARGIN_BOTTOM},
        xaxis={
            "domain": [0, 1],
            "anchor": "free",
            "position": 0,
            "range": [0, 1],
            "gridcolor": LIGHT["rule"],
            "showgrid": False,
            "zeroline": False,
            "showticklabels": False,
            "ticks": "",
            "ticklen": 5,
            "tickfont": {"size": 11, "color": LIGHT["muted"]},
        },
        shapes=reference_lines(link_bps, threshold),
        hovermode=False,
        dragmode="zoom",
        **common(),
    )
    return {"data": _traces(latency, queue), "layout": layout}


def _beside_axis(name: str, domain: tuple[float, float]) -> dict[str, Any]:
    if name == "queue":
        return y_axis(domain, "Queue, MB", range=[0, 1], nticks=4)
    return y_axis(
        domain,
        "Latency",
        type="log",
        range=[-2, 2],
        tickvals=DECADES_MS,
        ticktext=[format_duration(value * 1e6) for value in DECADES_MS],
    )


def _traces(latency: bool, queue: bool) -> list[dict[str, Any]]:
    step = {"shape": "hv"}
    traces = [
        line("marks", [], [], "burst", width=7, yaxis="y4"),
        line("losing", [], [], "loss", width=5, yaxis="y4"),
        line("shade", [], [], "burst-fill", width=0, fill="toself", fillcolor=LIGHT["burst-fill"]),
        line("chosen", [], [], "chosen-fill", width=0, fill="toself", fillcolor=LIGHT["chosen-fill"]),
        line("largest", [], [], "largest", width=1, line=step, fill="tozeroy", fillcolor=LIGHT["largest-fill"]),
        line("mean", [], [], "mean", width=1, line=step, fill="tozeroy", fillcolor=LIGHT["mean-fill"]),
        line("second", [], [], "second", width=2.4, line=step),
    ]
    if latency:
        lost = {"symbol": "x-thin", "size": 7, "line": {"width": 1.6, "color": LIGHT["loss"]}, "color": LIGHT["loss"]}
        traces += [
            line("latency-median", [], [], "latency-median", yaxis="y2", marker=dot("latency-median")),
            line("latency", [], [], "latency", yaxis="y2", width=1.3, marker=dot("latency")),
            {
                "type": "scatter",
                "mode": "markers",
                "meta": "lost",
                "x": [],
                "y": [],
                "yaxis": "y2",
                "hoverinfo": "none",
                "showlegend": False,
                "marker": lost,
            },
        ]
    if queue:
        traces.append(line("queue", [], [], "queue", yaxis="y3", fill="tozeroy", fillcolor=LIGHT["queue-fill"]))
    return traces


def heatmap() -> dict[str, Any]:
    """Returns the heatmap: time across; the time within its second, or interfaces, upwards; the fullest bin as a share
    of line rate.

    The page draws the cells, in the colours of `scale`.
    """
    layout = {
        "height": HEAT,
        "margin": {"l": 64, "r": 10, "t": 4, "b": 34},
        "dragmode": False,
        "hovermode": "closest",
        "xaxis": {
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
            "ticks": "outside",
            "ticklen": 5,
            "tickcolor": LIGHT["rule"],
            "tickfont": {"size": 11, "color": LIGHT["muted"]},
            "tickangle": 0,
        },
        "yaxis": y_axis((0, 1), "", showgrid=False),
        **common(),
    }
    return {"scale": [[at, LIGHT[name]] for at, name in HEAT_COLOURS], "layout": layout}
