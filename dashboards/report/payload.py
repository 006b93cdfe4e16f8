"""What the page's script needs of a lane: the figures, and arrays from which it refines them at zoom."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...analysis.answers.host import LaneReport
from ...analysis.model.context import Latency, Queue
from ...analysis.model.envelope import Envelope, Interval
from ..common import figures
from ..common.packing import Pack
from ..common.words import exact_clock
from . import fragments


def lane_payload(report: LaneReport, threshold: float | None, shown: Sequence[tuple[int, Mapping[str, Any]]],
                 pack: Pack) -> dict[str, Any]:
    """A lane as the script reads it. Times are nanoseconds since `originS`, which is Unix seconds; `shown` are the
    bursts of the table with their numbers."""
    zero, axis = figures.origin(report), figures.rate_axis(report)
    return {
        "originS": zero // 1_000_000_000, "start": report.start_ns - zero, "end": report.end_ns - zero,
        "factor": axis.factor, "suffix": axis.suffix, "link": report.lane.link_bps or 0, "bin": report.lane.bin_ns,
        "coverage": spans_of(pack, report.coverage, zero), "marks": spans_of(pack, report.burst_marks, zero),
        "losing": spans_of(pack, report.losing, zero), "base": envelope_of(pack, report.base, zero),
        "detail": envelope_of(pack, report.detail, zero) if report.detail is not None else None,
        "detailCells": pack.add_ascending(report.detail_cells), "seconds": envelope_of(pack, report.seconds, zero),
        "latency": [latency_of(pack, latency, zero) for latency in report.latency],
        "queues": [queue_of(pack, queue, zero) for queue in report.queues],
        "bursts": [burst_of(number, burst, zero) for number, burst in shown],
        "figure": json.loads(figures.timeline(report, threshold).to_json()),
        "distributions": {name: json.loads(figure.to_json()) for name, figure in distributions(report).items()},
    }


def distributions(report: LaneReport) -> dict[str, Any]:
    """The figures of duration, gap and peak; those without a value are left out."""
    durations, gaps, peaks = (report.distributions[name] for name in ("duration", "gap", "peak"))
    drawn = {
        "duration": (durations, "Duration of a burst", "burst", figures.duration_ticks(durations), True),
        "gap": (gaps, "Gap to the next burst", "mean", figures.duration_ticks(gaps), True),
        "peak": (peaks, "Peak utilization of a burst", "second", figures.share_ticks(peaks), False),
    }
    return {name: figures.distribution(*arguments) for name, arguments in drawn.items() if len(arguments[0])}


def spans_of(pack: Pack, spans: Sequence[Interval], zero: int) -> dict[str, Any]:
    return {"start": pack.add_ascending([a - zero for a, _ in spans]),
            "end": pack.add_ascending([b - zero for _, b in spans])}


def envelope_of(pack: Pack, envelope: Envelope, zero: int) -> dict[str, Any]:
    """`first` is the cell that `cells` count from, and `start` when it begins."""
    first = int(envelope.cells[0]) if len(envelope) else 0
    same = bool(np.array_equal(envelope.largest, envelope.total))
    return {
        "width": envelope.width_ns, "bin": envelope.bin_ns, "first": first, "start": first * envelope.width_ns - zero,
        "cells": pack.add_ascending(envelope.cells - first), "largest": pack.add(envelope.largest),
        "total": None if same else pack.add(envelope.total),
    }


def latency_of(pack: Pack, latency: Latency, zero: int) -> dict[str, Any]:
    return {"name": latency.name, "at": pack.add_ascending(latency.at_ns - zero),
            "largest": pack.add(np.maximum(latency.largest, 0)), "median": pack.add(np.maximum(latency.median, 0)),
            "n": pack.add(latency.n), "lost": pack.add(latency.lost)}


def queue_of(pack: Pack, queue: Queue, zero: int) -> dict[str, Any]:
    known = queue.largest >= 0
    return {"name": queue.name, "start": pack.add_ascending(queue.start_ns[known] - zero),
            "end": pack.add(queue.end_ns[known] - queue.start_ns[known]), "largest": pack.add(queue.largest[known])}


def burst_of(number: int, burst: Mapping[str, Any], zero: int) -> dict[str, Any]:
    return {
        "number": number, "start": burst["start_ns"] - zero, "end": burst["end_ns"] - zero,
        "clock": exact_clock(burst["start_ns"], burst["bin_ns"]), "bytes": burst["bytes"], "sources": burst["sources"],
        "fanIn": burst["fan_in"], "pattern": fragments.pattern(burst), "spread": burst["onset_spread_ns"],
        "effective": burst["effective_sources"],
        "top": [[sender["source"], sender["bytes"], sender["share"]] for sender in burst["top_sources"]],
    }
