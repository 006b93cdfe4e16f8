"""The data of a lane for the page's script: the figures, and the arrays with which it refines them at zoom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...analysis.answers.lane_report import LaneReport
from ..common import figures
from ..common.packing import Pack
from ..common.payload import burst_of, envelope_of, latency_of, queue_of, spans_of


def lane_payload(
    report: LaneReport,
    threshold: float | None,
    shown: Sequence[tuple[int, Mapping[str, Any]]],
    pack: Pack,
    over_ns: int,
) -> dict[str, Any]:
    """Returns a lane for the script. Times are nanoseconds since `originS`, in Unix seconds; `shown` are the bursts of
    the table with their numbers; `over_ns` is the length of the page's period."""
    zero, axis = figures.origin(report), figures.rate_axis(report)
    return {
        "originS": zero // 1_000_000_000,
        "start": report.start_ns - zero,
        "end": report.end_ns - zero,
        "opening": [ns - zero for ns in figures.opening(report)],
        "factor": axis.factor,
        "suffix": axis.suffix,
        "link": report.lane.link_bps or 0,
        "bin": report.lane.bin_ns,
        "coverage": spans_of(pack, report.coverage, zero),
        "marks": spans_of(pack, report.burst_marks, zero),
        "losing": spans_of(pack, report.losing, zero),
        "base": envelope_of(pack, report.base, zero),
        "detail": envelope_of(pack, report.detail, zero) if report.detail is not None else None,
        "detailCells": pack.add_ascending(report.detail_cells),
        "seconds": envelope_of(pack, report.seconds, zero),
        "latency": [latency_of(pack, latency, zero) for latency in report.latency],
        "queues": [queue_of(pack, queue, zero) for queue in report.queues],
        "bursts": [burst_of(number, burst, zero, over_ns) for number, burst in shown],
        "figure": json.loads(figures.timeline(report, threshold).to_json()),
        "distributions": {name: json.loads(figure.to_json()) for name, figure in distributions(report).items()},
    }


def distributions(report: LaneReport) -> dict[str, Any]:
    """Returns the figures of duration, gap and peak; those without a value are left out."""
    durations, gaps, peaks = (report.distributions[name] for name in ("duration", "gap", "peak"))
    drawn = {
        "duration": (durations, "Duration of a burst", "burst", figures.duration_ticks(durations), True),
        "gap": (gaps, "Gap to the next burst", "mean", figures.duration_ticks(gaps), True),
        "peak": (peaks, "Peak utilization of a burst", "second", figures.share_ticks(peaks), False),
    }
    return {name: figures.distribution(*arguments) for name, arguments in drawn.items() if len(arguments[0])}
