"""Gathers the content of a report from the store: for each lane its facts, bursts and the data of its figures.

Everything large is aggregated in the database. `Limits` bounds the result, whatever the store holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality import Quality
from ...sql.damage import damaged_files
from ..canary import sensitivity
from ..model import context, coverage, distributions, envelope, flow_control
from ..model.endings import ending, gaps_behind
from ..model.envelope import Envelope, Interval, Slice
from ..read import bins as read_bins
from ..read import sources as read_sources
from ..read.names import NAMELESS, named
from .lane_report import LaneReport, Peak, QualityCount, Source, window_of, worst_first
from .lanes import ReportLane, assign_bursts, is_beyond, within_period

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Limits:
    """The largest amount of each kind of data in one page, over all its lanes."""

    whole_bins: int = 300_000  # bins, if all of them fit
    cells: int = 120_000  # otherwise, cells of the base envelope …
    detail_bins: int = 120_000  # … and bins around the worst bursts
    seconds: int = 20_000
    probes: int = 60_000
    paths: int = 8
    windows: int = 30_000
    queues: int = 8
    intervals: int = 20_000
    sources: int = 20

    def share(self, lanes: int) -> Limits:
        """Returns the limits of one of `lanes` lanes."""
        least = {
            "whole_bins": 2000,
            "cells": 1000,
            "detail_bins": 1000,
            "seconds": 1000,
            "probes": 1000,
            "windows": 1000,
            "intervals": 1000,
        }
        shared = {name: max(floor, getattr(self, name) // max(lanes, 1)) for name, floor in least.items()}
        return Limits(**shared, paths=self.paths, queues=self.queues, sources=self.sources)


def gather(
    con: duckdb.DuckDBPyConnection,
    chosen: Sequence[ReportLane],
    bursts: Sequence[Mapping[str, Any]],
    since_ns: int | None = None,
    until_ns: int | None = None,
    limits: Limits | None = None,
) -> list[LaneReport]:
    """Returns the report of each lane in [since_ns, until_ns), from the bursts that `detect` found in that time. Its
    lane has the recordings of that time, or all if there are none."""
    period = (since_ns if since_ns is not None else 0, until_ns if until_ns is not None else 2**63 - 1)
    runs = [run["recording_id"] for lane in chosen for run in lane.runs]
    parameters = {"ids": runs, "since": period[0], "until": period[1]}
    facts = {row["recording_id"]: row for row in read_bins.totals(con, parameters)}
    qualities = read_bins.qualities(con, parameters)
    busy = sum(any(run["recording_id"] in facts for run in lane.runs) for lane in chosen)
    share = (limits or Limits()).share(busy)
    recorded = coverage.by_epoch(con, since_ns, until_ns)
    parts = [False] * len(chosen)
    within = chosen
    if (since_ns, until_ns) != (None, None):
        spans: dict[str, dict[int, Sequence[Interval]]] = {}
        for (recording, epoch), times in recorded.items():
            spans.setdefault(recording, {})[epoch] = times
        found = {*spans, *(burst["recording_id"] for burst in bursts)}
        within = [within_period(lane, found, period) for lane in chosen]
        parts = [any(is_beyond(run, spans, period) for run in lane.runs) for lane in within]
        chosen = [of if of.runs else lane for lane, of in zip(chosen, within, strict=True)]
    owned = assign_bursts(bursts, chosen)
    known = sensitivity.curves(con)
    damaged, behind = damaged_files(con), gaps_behind(con)
    links = {run["recording_id"]: lane.link_bps for lane in chosen for run in lane.runs}
    asked = flow_control.of_recordings(con, links, *period)
    return [
        replace(
            _lane_report(con, lane, period, recorded, facts, qualities, own, share),
            damaged=[file for file in damaged if file.host in ("", lane.host) and file.rack in ("", lane.rack)],
            endings=[sentence for run in lane.runs if (sentence := ending(run, behind.get(run["recording_id"])))],
            flow_control=flow_control.summed(
                asked[run["recording_id"]] for run in lane.runs if run["recording_id"] in asked
            ),
            curves=known,
            is_part=is_part,
            is_elsewhere=not of.runs,
        )
        for lane, of, own, is_part in zip(chosen, within, owned, parts, strict=True)
    ]


def _spans(bursts: Sequence[Mapping[str, Any]]) -> list[Interval]:
    return [(int(burst["start_ns"]), int(burst["end_ns"])) for burst in bursts]


def _lane_report(
    con: duckdb.DuckDBPyConnection,
    lane: ReportLane,
    period: Interval,
    by_epoch: Mapping[tuple[str, int], Sequence[Interval]],
    facts: Mapping[str, Mapping[str, Any]],
    qualities: Sequence[Mapping[str, Any]],
    bursts: list[dict[str, Any]],
    limits: Limits,
) -> LaneReport:
    seen = [facts[run["recording_id"]] for run in lane.runs if run["recording_id"] in facts]
    runs = [run["recording_id"] for run in lane.runs]
    recorded = coverage.by_recording(by_epoch)
    covered = coverage.covered(recorded, runs)
    start, end = (covered[0][0], covered[-1][1]) if covered else (0, 0)
    repeated_ns = sum(coverage.length(recorded.get(run, ())) for run in runs) - coverage.length(covered)
    where = Slice(runs, lane.bin_ns, start, end, repeated_ns > 0)
    own_qualities = _qualities(lane, qualities)
    bits = {quality.bit for quality in own_qualities}
    base = envelope.finest(con, where, sum(row["bins"] for row in seen), limits.whole_bins)
    seconds = envelope.read_seconds(con, where, base)
    detail, cells = None, []
    if base.width_ns > lane.bin_ns:
        base = base.at_most(limits.cells)
        wanted = [(max(start, a - (b - a)), b + (b - a)) for a, b in _spans(worst_first(bursts))]
        detail, picked = envelope.read_detail(con, where, base, wanted, limits.detail_bins)
        cells = picked.tolist()
    latency, paths = context.read_latency(con, lane.host, start, end, limits.paths, limits.probes)
    queues, queue_count = context.read_queues(con, start, end, limits.queues, limits.windows)
    asked = _whole_bins(period, lane.bin_ns) if covered else (0, 0)
    sources, source_count, others, source_bytes = _sources(con, runs, asked, end, limits.sources)
    return LaneReport(
        lane=lane,
        start_ns=start,
        end_ns=end,
        coverage=covered,
        repeated_ns=repeated_ns,
        packets=None if lane.is_port else sum(row["packets"] for row in seen),
        bytes=sum(row["bytes"] for row in seen),
        wire_bytes=sum(row["wire_bytes"] for row in seen),
        bins=sum(row["bins"] for row in seen),
        busiest_bin=max(
            (Peak(row["busiest_ts"], row["busiest"]) for row in seen),
            key=lambda peak: (peak.wire_bytes, -peak.ts_ns),
            default=None,
        ),
        busiest_second=_busiest(seconds),
        busiest_window=_busiest_window(con, where),
        largest_frame=max((row["largest_frame"] for row in seen if row["largest_frame"]), default=None),
        qualities=own_qualities,
        losing=marked(con, where, Quality.DROPS, limits.intervals) if Quality.DROPS in bits else [],
        stepped=marked(con, where, Quality.STEPPED, limits.intervals) if Quality.STEPPED in bits else [],
        base=base,
        detail=detail,
        detail_cells=cells,
        seconds=seconds.at_most(limits.seconds),
        bursts=bursts,
        burst_ns=coverage.length(envelope.merge_intervals([*chain(*coverage.in_bursts(bursts, by_epoch).values())])),
        burst_marks=envelope.merge_intervals(_spans(bursts), limits.intervals),
        distributions={
            "duration": [burst["duration_ns"] for burst in bursts],
            "gap": distributions.gaps(bursts, by_epoch),
            "peak": [burst["peak_utilization"] for burst in bursts],
        },
        sources=sources,
        source_count=source_count,
        others=others,
        source_bytes=source_bytes,
        latency=latency,
        paths=paths,
        queues=queues,
        queue_count=queue_count,
    )


def _whole_bins(period: Interval, bin_ns: int) -> Interval:
    """Returns the time of the bins that begin in a period. A bin of senders can be wider, and begin before it."""
    since, until = (min(-(-at // bin_ns) * bin_ns, coverage.LATEST) for at in period)
    return since, until


def _busiest(seconds: Envelope) -> Peak | None:
    if not len(seconds):
        return None
    i = int(np.argmax(seconds.total))
    return Peak(int(seconds.cells[i]) * seconds.width_ns, int(seconds.total[i]))


def _busiest_window(con: duckdb.DuckDBPyConnection, where: Slice) -> Peak | None:
    width = window_of(where.bin_ns)
    found = read_bins.fullest(con, where.parameters(), where.repeated, where.bin_ns, width)
    return Peak(*found) if found else None


def _qualities(lane: ReportLane, rows: Sequence[Mapping[str, Any]]) -> list[QualityCount]:
    runs = {run["recording_id"] for run in lane.runs}
    summed: dict[int, QualityCount] = {}
    for row in rows:
        if row["recording_id"] in runs:
            before = summed.get(row["bit"], QualityCount(row["bit"], row["name"], row["meaning"], 0, 0))
            summed[row["bit"]] = QualityCount(
                row["bit"], row["name"], row["meaning"], before.bins + row["bins"], before.packets + row["packets"]
            )
    return [summed[bit] for bit in sorted(summed)]


def marked(con: duckdb.DuckDBPyConnection, where: Slice, bit: int, limit: int) -> list[Interval]:
    """Returns the times of the bins with a quality bit, as at most `limit` intervals (in wider cells if the period is
    long)."""
    span = max(1, (where.until_ns - where.since_ns) // where.bin_ns)
    width = where.bin_ns * max(1, -(-span // 1_000_000))
    cells = read_bins.marked_cells(con, where.parameters(), width, bit)
    return envelope.merge_intervals([(cell * width, (cell + 1) * width) for cell in cells], limit)


def _sources(
    con: duckdb.DuckDBPyConnection, runs: list[str], period: Interval, end_ns: int, limit: int
) -> tuple[list[Source], int, int, int]:
    """Returns the senders of the period with the most bytes in bursts, by their names at END_NS; the number of senders,
    the most that `other` stands for at once, and the bytes of all."""
    rows = read_sources.most_in_bursts(con, {"ids": runs, "since": period[0], "until": period[1]}, limit)
    called = named(con, [row["source"] for row in rows], end_ns - 1)
    found = [
        Source(
            row["source"],
            row["bytes"],
            row["packets"],
            row["members"],
            row["burst_bytes"],
            *called.get(row["source"], NAMELESS),
        )
        for row in rows
    ]
    senders, others, all_bytes = (rows[0][name] if rows else 0 for name in ("senders", "others", "all_bytes"))
    return found, senders, others, all_bytes
