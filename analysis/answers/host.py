"""Gathers the content of a report from the store: for each lane its facts, bursts and the data of its figures.

Everything large is aggregated in the database. `Limits` bounds the result, whatever the store holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality import Quality
from ...sql.damage import DamagedFile, damaged_files
from ..canary import sensitivity
from ..model import context, coverage, distributions, envelope, flow_control, losses
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


@dataclass(frozen=True)
class _LanePart:
    """A lane with its recordings of the period, or with all of them if `is_elsewhere`. The flags are those of
    LaneReport."""

    lane: ReportLane
    is_part: bool = False
    is_elsewhere: bool = False


@dataclass(frozen=True)
class _ReadOfAll:
    """What is read once, for all lanes of a report. `limits` are those of one lane."""

    con: duckdb.DuckDBPyConnection
    period: Interval
    limits: Limits
    by_epoch: Mapping[tuple[str, int], Sequence[Interval]]
    by_recording: Mapping[str, Sequence[Interval]]
    totals: Mapping[str, Mapping[str, Any]]  # by recording_id
    qualities: Sequence[Mapping[str, Any]]
    curves: list[sensitivity.DetectionCurve]
    damaged: Sequence[DamagedFile]
    behind: Mapping[str, Mapping[str, Any]]  # gaps, by recording_id
    flow_control: Mapping[str, Mapping[str, Any]]  # by recording_id
    losses: Mapping[str, losses.CaptureLoss]  # by capture_id


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
    parameters = {"ids": [id for lane in chosen for id in _recording_ids(lane)], "since": period[0], "until": period[1]}
    totals = {row["recording_id"]: row for row in read_bins.totals(con, parameters)}
    qualities = read_bins.qualities(con, parameters)
    busy = sum(any(id in totals for id in _recording_ids(lane)) for lane in chosen)
    recorded = coverage.by_epoch(con, since_ns, until_ns)
    is_limited = (since_ns, until_ns) != (None, None)
    parts = _in_period(chosen, bursts, recorded, period) if is_limited else [_LanePart(lane) for lane in chosen]
    links = {id: part.lane.link_bps for part in parts for id in _recording_ids(part.lane)}
    found = _ReadOfAll(
        con=con,
        period=period,
        limits=(limits or Limits()).share(busy),
        by_epoch=recorded,
        by_recording=coverage.by_recording(recorded),
        totals=totals,
        qualities=qualities,
        curves=sensitivity.curves(con),
        damaged=damaged_files(con),
        behind=gaps_behind(con),
        flow_control=flow_control.of_recordings(con, links, *period),
        losses=losses.by_capture(con),
    )
    owned = assign_bursts(bursts, [part.lane for part in parts])
    return [_lane_report(found, part, own) for part, own in zip(parts, owned, strict=True)]


def _in_period(
    chosen: Sequence[ReportLane],
    bursts: Sequence[Mapping[str, Any]],
    recorded: Mapping[tuple[str, int], Sequence[Interval]],
    period: Interval,
) -> list[_LanePart]:
    """Returns the lanes with their recordings of the period. BURSTS and RECORDED are those of the period, too."""
    spans: dict[str, dict[int, Sequence[Interval]]] = {}
    for (recording, epoch), times in recorded.items():
        spans.setdefault(recording, {})[epoch] = times
    found = {*spans, *(burst["recording_id"] for burst in bursts)}
    parts = []
    for lane in chosen:
        within = within_period(lane, found, period)
        is_part = any(is_beyond(recording, spans, period) for recording in within.recordings)
        parts.append(_LanePart(within if within.recordings else lane, is_part, is_elsewhere=not within.recordings))
    return parts


def _recording_ids(lane: ReportLane) -> list[str]:
    return [recording["recording_id"] for recording in lane.recordings]


def _spans(bursts: Sequence[Mapping[str, Any]]) -> list[Interval]:
    return [(int(burst["start_ns"]), int(burst["end_ns"])) for burst in bursts]


def _lane_report(found: _ReadOfAll, part: _LanePart, bursts: list[dict[str, Any]]) -> LaneReport:
    lane, limits, recordings = part.lane, found.limits, _recording_ids(part.lane)
    covered = coverage.covered(found.by_recording, recordings)
    start, end = (covered[0][0], covered[-1][1]) if covered else (0, 0)
    repeated_ns = sum(
        coverage.length(found.by_recording.get(recording, ())) for recording in recordings
    ) - coverage.length(covered)
    where = Slice(recordings, lane.bin_ns, start, end, repeated_ns > 0)
    totals = [found.totals[recording] for recording in recordings if recording in found.totals]
    latency, paths = context.read_latency(found.con, lane.host, start, end, limits.paths, limits.probes)
    queues, queue_count = context.read_queues(found.con, start, end, limits.queues, limits.windows)
    return LaneReport(
        lane=lane,
        start_ns=start,
        end_ns=end,
        coverage=covered,
        repeated_ns=repeated_ns,
        **_traffic(lane, totals),
        **_quality(found, where),
        **_utilization(found, where, sum(row["bins"] for row in totals), bursts),
        **_burst_times(found, bursts),
        **_senders(found, where, _whole_bins(found.period, lane.bin_ns) if covered else (0, 0)),
        latency=latency,
        paths=paths,
        queues=queues,
        queue_count=queue_count,
        damaged=[file for file in found.damaged if file.host in ("", lane.host) and file.rack in ("", lane.rack)],
        endings=[
            sentence
            for recording in lane.recordings
            if (sentence := ending(recording, found.behind.get(recording["recording_id"])))
        ],
        flow_control=flow_control.summed(
            found.flow_control[recording] for recording in recordings if recording in found.flow_control
        ),
        loss=losses.summed(found.losses, (recording["capture_id"] for recording in lane.recordings)),
        curves=found.curves,
        is_part=part.is_part,
        is_elsewhere=part.is_elsewhere,
    )


# --- the fields of a LaneReport, by what they are read from -----------------------------------------------------------


def _traffic(lane: ReportLane, totals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns what the TOTALS of its recordings are together."""
    peaks = (Peak(row["busiest_ts"], row["busiest"]) for row in totals)
    return {
        "packets": None if lane.is_port else sum(row["packets"] for row in totals),
        **{name: sum(row[name] for row in totals) for name in ("bytes", "wire_bytes", "bins")},
        "busiest_bin": max(peaks, key=lambda peak: (peak.wire_bytes, -peak.ts_ns), default=None),
        "largest_frame": max((row["largest_frame"] for row in totals if row["largest_frame"]), default=None),
    }


def _utilization(found: _ReadOfAll, where: Slice, bins: int, bursts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the envelopes of utilization, with more detail around BURSTS if its BINS are too many."""
    limits, detail, cells = found.limits, None, []
    base = envelope.finest(found.con, where, bins, limits.whole_bins)
    seconds = envelope.read_seconds(found.con, where, base)
    if base.width_ns > where.bin_ns:
        base = base.at_most(limits.cells)
        wanted = [(max(where.since_ns, a - (b - a)), b + (b - a)) for a, b in _spans(worst_first(bursts))]
        detail, picked = envelope.read_detail(found.con, where, base, wanted, limits.detail_bins)
        cells = picked.tolist()
    return {
        "base": base,
        "detail": detail,
        "detail_cells": cells,
        "seconds": seconds.at_most(limits.seconds),
        "busiest_second": _busiest(seconds),
        "busiest_window": _busiest_window(found.con, where),
    }


def _burst_times(found: _ReadOfAll, bursts: list[dict[str, Any]]) -> dict[str, Any]:
    in_bursts = chain(*coverage.in_bursts(bursts, found.by_epoch).values())
    return {
        "bursts": bursts,
        "burst_ns": coverage.length(envelope.merge_intervals([*in_bursts])),
        "burst_marks": envelope.merge_intervals(_spans(bursts), found.limits.intervals),
        "distributions": {
            "duration": [burst["duration_ns"] for burst in bursts],
            "gap": distributions.gaps(bursts, found.by_epoch),
            "peak": [burst["peak_utilization"] for burst in bursts],
        },
    }


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


def _quality(found: _ReadOfAll, where: Slice) -> dict[str, Any]:
    """Returns how many bins have which quality bits, and when packets were lost or the clock was set."""
    recordings = set(where.recordings)
    summed: dict[int, QualityCount] = {}
    for row in found.qualities:
        if row["recording_id"] in recordings:
            before = summed.get(row["bit"], QualityCount(row["bit"], row["name"], row["meaning"], 0, 0))
            summed[row["bit"]] = QualityCount(
                row["bit"], row["name"], row["meaning"], before.bins + row["bins"], before.packets + row["packets"]
            )
    losing, stepped = (
        marked(found.con, where, bit, found.limits.intervals) if bit in summed else []
        for bit in (Quality.DROPS, Quality.STEPPED)
    )
    return {"qualities": [summed[bit] for bit in sorted(summed)], "losing": losing, "stepped": stepped}


def marked(con: duckdb.DuckDBPyConnection, where: Slice, bit: int, limit: int) -> list[Interval]:
    """Returns the times of the bins with a quality bit, as at most `limit` intervals (in wider cells if the period is
    long)."""
    span = max(1, (where.until_ns - where.since_ns) // where.bin_ns)
    width = where.bin_ns * max(1, -(-span // 1_000_000))
    cells = read_bins.marked_cells(con, where.parameters(), width, bit)
    return envelope.merge_intervals([(cell * width, (cell + 1) * width) for cell in cells], limit)


def _senders(found: _ReadOfAll, where: Slice, period: Interval) -> dict[str, Any]:
    """Returns the senders of a period with the most bytes in bursts, by their names at the end of WHERE; the number of
    all senders, the most that `other` stands for at once, and the bytes of all."""
    asked = {"ids": where.recordings, "since": period[0], "until": period[1]}
    rows = read_sources.most_in_bursts(found.con, asked, found.limits.sources)
    called = named(found.con, [row["source"] for row in rows], where.until_ns - 1)
    sources = [
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
    return {"sources": sources, "source_count": senders, "others": others, "source_bytes": all_bytes}
