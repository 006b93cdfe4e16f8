"""The figure at the top of an investigation: utilization, bursts, latency and the switch's queue on one time axis, in
the worst part of the recording."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...analysis.answers.investigate import Finding
from ...analysis.cause.evidence.switch import PortQueue
from ...analysis.cause.port import Port
from ...analysis.cause.scene import Evidence
from ...analysis.model.stats import Floats
from ...units import format_time
from ..common.palette import LIGHT
from .figures import POINTS, Figure, layout, line, numbers

SLICE_NS = 2e9  # of time that is shown
STEPS = 2000  # in which utilization is drawn, or its bins if they are wider
TOP = 110.0  # percent of line rate: marks of bursts are above what a link carries
SPACE = 0.07  # between panels, of the total height


def over_time(finding: Finding, origin_ns: int) -> Figure | None:
    """Returns the figure; None if no port or no probe of it is known. origin_ns: the Unix time that times count
    from."""
    evidence = finding.evidence
    if evidence.crossing is None or evidence.met is None or not len(evidence.met):
        return None
    number = finding.scene.number_of(evidence.crossing)
    span = worst_slice(evidence, evidence.met)
    traces = _link(evidence.crossing.port, finding.scene.bursts[number], span)
    traces.append(_latency(evidence, evidence.met, span))
    panels = [("yaxis", 0.5, "% of line rate"), ("yaxis3", 0.3, "latency, ms")]
    if drawn := _queue(finding.scene.queues[number], span):
        traces.append(drawn)
        panels.append(("yaxis4", 0.2, "queue, MB"))
    axes = {
        "xaxis": {"title": {"text": "ms"}, "anchor": "free", "position": 0, "range": [0, SLICE_NS / 1e6]},
        **_axes(panels),
    }
    begin = format_time(origin_ns + int(span[0]))
    return Figure(
        "Do bursts explain it, and how much of it?",
        f"Latency of each probe over utilization, in the two worst seconds, from {begin} UTC",
        {"data": traces, "layout": layout(460, **axes)},
    )


def worst_slice(evidence: Evidence, met: Floats) -> tuple[float, float]:
    """Returns the SLICE_NS with the most lateness, wherever they begin. The late probes are in their middle."""
    order = np.argsort(met, kind="stable")
    at = met[order]
    beyond = np.nan_to_num(np.maximum(evidence.delays.total - evidence.tail.median_ns, 0))[order]
    sums = np.concatenate(([0.0], np.cumsum(beyond)))
    ends = np.searchsorted(at, at + SLICE_NS)
    first = int(np.argmax(sums[ends] - sums[: len(at)]))
    late = np.flatnonzero(beyond[first : ends[first]])
    span = at[first + late[[0, -1]]] if len(late) else at[[first, first]]
    start = max(float(at[0]), float(span.mean()) - SLICE_NS / 2)
    return start, start + SLICE_NS


def _axes(panels: list[tuple[str, float, str]]) -> dict[str, Any]:
    """Returns vertical axes above each other, each with its share of the height."""
    whole, top, found = sum(share for _, share, _ in panels), 1.0, {}
    for name, share, title in panels:
        height = (1 - SPACE * (len(panels) - 1)) * share / whole
        domain = [max(0.0, top - height), top]
        found[name] = {"title": {"text": title}, "rangemode": "tozero", "domain": domain, "nticks": 5}
        top -= height + SPACE
    return found


def _link(port: Port, bursts: tuple[Floats, Floats], span: tuple[float, float]) -> list[dict[str, Any]]:
    """Returns the utilization of the port, its 1 s average, and the times of its bursts."""
    start, end = span
    width = max(port.bin_ns, int((end - start) / STEPS))
    times = np.arange(start, end, max(width, 1))
    x = numbers((times - start) / 1e6)
    rate, slow_rate = port.utilization(times, width), port.utilization(times, 10**9)
    seen = (bursts[1] > start) & (bursts[0] < end)
    edges = np.column_stack((np.maximum(bursts[0][seen], start), np.minimum(bursts[1][seen], end)))
    marks = [edge for pair in (edges - start) / 1e6 for edge in (*numbers(pair), None)]
    return [
        line("utilization, %", x, numbers(100 * rate), "mean"),
        line("its 1 s average, %", x, numbers(100 * slow_rate), "second"),
        line("burst", marks, [TOP, TOP, None] * len(edges), "burst", width=7),
    ]


def _latency(evidence: Evidence, met: Floats, span: tuple[float, float]) -> dict[str, Any]:
    """Returns every probe, or the slowest and a sample of the others if there are many."""
    total = evidence.delays.total
    inside = np.flatnonzero((met >= span[0]) & (met < span[1]) & np.isfinite(total))
    if len(inside) > POINTS:
        worst = inside[np.argsort(-total[inside])[: POINTS // 2]]
        inside = np.unique(np.concatenate((worst, inside[:: max(1, len(inside) // (POINTS // 2))])))
    x, y = numbers((met[inside] - span[0]) / 1e6), numbers(total[inside] / 1e6)
    marker = {"color": LIGHT["latency"], "size": 4}
    return line("latency, ms", x, y, "latency", mode="markers", yaxis="y3", marker=marker)


def _queue(queue: PortQueue | None, span: tuple[float, float]) -> dict[str, Any] | None:
    """Returns the largest depth of each window of the port's queue; None without a window in that time."""
    if queue is None:
        return None
    seen = (queue.end > span[0]) & (queue.start < span[1]) & np.isfinite(queue.max_bytes)
    if not seen.any():
        return None
    at = np.clip((queue.end[seen] - span[0]) / 1e6, 0, (span[1] - span[0]) / 1e6)
    return line("switch queue, MB", numbers(at), numbers(queue.max_bytes[seen] / 1e6), "queue", yaxis="y4")
