"""Gathers the content of a report from the store: for each lane (one direction of one interface) its facts, bursts and
the data of its figures.

Everything large is aggregated in the database. `Limits` bounds the result, whatever the store holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality import Quality
from ...sql.damage import DamagedFile, damaged_files
from ..bursts.find import BurstDefinition, find_bursts
from ..canary import sensitivity
from ..model import context, coverage, distributions, envelope, flow_control
from ..model.endings import ending, gaps_behind
from ..model.envelope import Envelope, Interval, Slice
from ..model.flow_control import FlowControl
from ..model.ports import of_port
from ..read import bins as read_bins
from ..read import sources as read_sources
from ..read.names import NAMELESS, named

if TYPE_CHECKING:
    import duckdb


WINDOW_NS = 1_000_000  # the shortest time that a headline states the utilization of


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
class ReportLane:
    """One direction of one interface, recorded at one bin width and link speed; `runs` are its rows of `recordings`."""

    rack: str
    host: str
    interface: str
    direction: str
    bin_ns: int
    link_bps: int | None
    runs: Sequence[Mapping[str, Any]]

    @property
    def is_port(self) -> bool:
        """Whether the lane is a port of a switch; `host` is then the switch."""
        return of_port(self.runs)

    def total(self, column: str) -> int:
        """Returns the sum of a column of `recordings` over the lane's recordings that counted it."""
        return sum(int(run[column] or 0) for run in self.runs)

    def distinct(self, column: str) -> list[Any]:
        """Returns the distinct values of a column of `recordings`, in the order of the recordings, without empty
        ones."""
        return list(dict.fromkeys(run[column] for run in self.runs if run[column] not in ("", None)))


@dataclass(frozen=True)
class QualityCount:
    """The number of bins and packets of a lane that have a quality bit."""

    bit: int
    name: str
    meaning: str
    bins: int
    packets: int


@dataclass(frozen=True)
class Source:
    """The bytes that a sender sent in the period, and how many of them were in bursts."""

    source: str
    bytes: int
    packets: int
    members: int
    burst_bytes: int
    name: str | None = None  # at the end of the period; None: unknown
    service: str | None = None
    rack: str | None = None
    owner: str | None = None


def window_of(bin_ns: int) -> int:
    """Returns the length of the fewest bins that last at least WINDOW_NS."""
    return bin_ns * -(-WINDOW_NS // bin_ns)


@dataclass(frozen=True)
class Peak:
    """The busiest bin or second: when it began, and its wire bytes."""

    ts_ns: int
    wire_bytes: int


@dataclass(frozen=True)
class LaneReport:
    """All that a report shows of one lane. Times are Unix nanoseconds; a period is [start_ns, end_ns).

    busiest_window: the busiest window of window_ns. It is reliable even if narrower bins read more than line rate,
    because a frame counts entirely in the bin of its timestamp. largest_frame: lower bound for the wire bytes of the
    largest frame; None: unknown. burst_ns: the recorded time in bursts; overlapping bursts of overlapping recordings
    count once. repeated_ns: time that more than one recording of the lane covers, counted once for
    each recording beyond the first."""

    lane: ReportLane
    start_ns: int
    end_ns: int
    coverage: list[Interval]
    repeated_ns: int
    packets: int | None  # None: a port of a switch, which counts only bytes
    bytes: int
    wire_bytes: int
    bins: int
    busiest_bin: Peak | None
    busiest_second: Peak | None
    busiest_window: Peak | None  # over window_ns
    largest_frame: int | None
    qualities: list[QualityCount]
    losing: list[Interval]
    stepped: list[Interval]
    base: Envelope
    detail: Envelope | None
    detail_cells: list[int]
    seconds: Envelope
    bursts: list[dict[str, Any]]
    burst_ns: int
    burst_marks: list[Interval]
    distributions: dict[str, Sequence[float]]
    sources: list[Source]
    source_count: int
    source_bytes: int
    latency: list[context.PathLatency] = field(default_factory=list)
    paths: int = 0
    queues: list[context.QueueWindows] = field(default_factory=list)
    queue_count: int = 0
    damaged: list[DamagedFile] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)  # of recordings that broke off or have not ended
    # Measured with canary bursts, in this lane and others.
    curves: list[sensitivity.DetectionCurve] = field(default_factory=list)
    flow_control: FlowControl = field(default_factory=FlowControl)

    @property
    def recorded_ns(self) -> int:
        """The recorded time, without the pauses between recordings."""
        return coverage.length(self.coverage)

    @property
    def window_ns(self) -> int:
        """The width of `busiest_window`."""
        return window_of(self.lane.bin_ns)

    @property
    def burst_bytes(self) -> int:
        return sum(int(burst["bytes"]) for burst in self.bursts)

    @property
    def canaries(self) -> list[dict[str, Any]]:
        """The bursts that `mburst canary` sent."""
        return [burst for burst in self.bursts if burst["pattern"] == "canary"]

    def asked(self, definition: BurstDefinition) -> list[sensitivity.CurveSetting]:
        """Returns the setting of this lane that the canary bursts have to match: one, or none if the link speed is
        unknown."""
        bits = 0
        for run in self.lane.runs:
            bits |= int(run["quality"])
        one = sensitivity.curve_setting({**self.lane.runs[0], "link_bps": self.lane.link_bps}, definition, bits)
        return [one] if one else []


_LANE = ("rack", "host", "interface", "direction", "bin_ns", "link_bps")
_RUNS = """
SELECT * FROM recordings WHERE ($rack IS NULL OR rack = $rack) AND ($host IS NULL OR host = $host)
ORDER BY rack, host, interface, direction, bin_ns, link_bps NULLS LAST, start_ns NULLS LAST, recording_id
"""


def lanes(
    con: duckdb.DuckDBPyConnection, rack: str | None = None, host: str | None = None, link_bps: int | None = None
) -> list[ReportLane]:
    """Returns the lanes of a store, ordered by rack, host, interface and direction. `link_bps` replaces the recorded
    link speed."""
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in context.dicts(con, _RUNS, {"rack": rack, "host": host}):
        run["link_bps"] = link_bps or run["link_bps"]
        grouped.setdefault(tuple(run[name] for name in _LANE), []).append(run)
    return [ReportLane(**dict(zip(_LANE, key, strict=True)), runs=runs) for key, runs in grouped.items()]


def detect(
    con: duckdb.DuckDBPyConnection,
    chosen: Sequence[ReportLane],
    definition: BurstDefinition,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> list[dict[str, Any]]:
    """Returns the bursts of the lanes with a known link speed, as `analysis.bursts` detects them.

    Leaves the TEMP TABLE report_senders in CON: the bytes of each sender in the bursts of each recording. Raises the
    errors of find_bursts.
    """
    con.execute("CREATE OR REPLACE TEMP TABLE report_senders (recording_id VARCHAR, source VARCHAR, bytes DOUBLE)")
    known = [run["recording_id"] for lane in chosen if lane.link_bps for run in lane.runs]
    whole = con.execute("SELECT count(*) FROM recordings").fetchall()[0][0] == len(known)
    bursts: list[dict[str, Any]] = []
    for run in [None] if whole else known:  # one query for all, unless some have to be left out
        bursts += find_bursts(con, definition, recording=run, since_ns=since_ns, until_ns=until_ns)
        con.execute(
            "INSERT INTO report_senders SELECT recording_id, source, sum(s.bytes) FROM burst_sources s "
            "JOIN bursts USING (burst) GROUP BY recording_id, source"
        )
    return bursts


def gather(
    con: duckdb.DuckDBPyConnection,
    chosen: Sequence[ReportLane],
    bursts: Sequence[Mapping[str, Any]],
    since_ns: int | None = None,
    until_ns: int | None = None,
    limits: Limits | None = None,
) -> list[LaneReport]:
    """Returns the report of each lane in [since_ns, until_ns), from the bursts that `detect` found in that time."""
    period = (since_ns if since_ns is not None else 0, until_ns if until_ns is not None else 2**63 - 1)
    runs = [run["recording_id"] for lane in chosen for run in lane.runs]
    parameters = {"ids": runs, "since": period[0], "until": period[1]}
    facts = {row["recording_id"]: row for row in read_bins.totals(con, parameters)}
    qualities = read_bins.qualities(con, parameters)
    busy = sum(any(run["recording_id"] in facts for run in lane.runs) for lane in chosen)
    share = (limits or Limits()).share(busy)
    recorded = coverage.by_epoch(con, since_ns, until_ns)
    owned = _assign(bursts, chosen)
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
        )
        for lane, own in zip(chosen, owned, strict=True)
    ]


def _assign(bursts: Sequence[Mapping[str, Any]], chosen: Sequence[ReportLane]) -> list[list[dict[str, Any]]]:
    """Returns the bursts of each lane; a burst belongs to the lane of its recording."""
    place = {run["recording_id"]: i for i, lane in enumerate(chosen) for run in lane.runs}
    owned: list[list[dict[str, Any]]] = [[] for _ in chosen]
    for burst in bursts:
        if burst["recording_id"] in place:
            owned[place[burst["recording_id"]]].append(dict(burst))
    return [sorted(own, key=lambda burst: (burst["start_ns"], burst["end_ns"], burst["recording_id"])) for own in owned]


def _spans(bursts: Sequence[Mapping[str, Any]]) -> list[Interval]:
    return [(int(burst["start_ns"]), int(burst["end_ns"])) for burst in bursts]


def worst_first(bursts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts bursts by bytes, the largest first: the bytes of a burst are what fills a queue."""
    return sorted(bursts, key=lambda burst: (-burst["bytes"], burst["start_ns"]))


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
    # A bin of senders can be wider than the others, and then begins before the first of them.
    sources, source_count, source_bytes = _sources(con, runs, period if covered else (0, 0), end, limits.sources)
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
        source_bytes=source_bytes,
        latency=latency,
        paths=paths,
        queues=queues,
        queue_count=queue_count,
    )


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
) -> tuple[list[Source], int, int]:
    """Returns the senders of the period with the most bytes in bursts, by their names at END_NS, the number of senders,
    and the bytes of all of them."""
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
    return found, rows[0]["senders"] if rows else 0, rows[0]["all_bytes"] if rows else 0
