"""The tracks of a trace: those of each lane, of each probed path, and of each switch queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...analysis.answers.lane_report import LaneReport
from ...analysis.answers.trace import TraceData
from ...analysis.model.context import PathLatency, QueueWindows
from ...analysis.model.envelope import levels, with_detail
from ...files import writing
from ...senders import burst_services_text, sender_name
from ...units import NS_PER_S, format_count, format_duration, format_rate, format_share
from ..common.words import lacking, lane_name
from .tracks import TraceSlice, TraceTracks

SENDERS = 5  # senders of a burst that are drawn as slices
OF_BURST = (
    "bytes",
    "packets",
    "mean_utilization",
    "peak_utilization",
    "sources",
    "fan_in",
    "pattern",
    "top_sources",
    "services",
    "quality",
    "recording_id",
    "clock_epoch",
    "bin_ns",
)
IN_GAPS = "0 where nothing was recorded, too: see `not recorded`"


def write(data: TraceData, path: Path) -> None:
    """Write the trace to PATH. Raises MburstError."""
    with writing(path, "the trace", "choose another file with -o") as stream:
        tracks = TraceTracks(stream, data.start_ns)
        for lane in data.lanes:
            _write_lane(tracks, data, lane)
        if data.paths:
            parent = tracks.track(_some("probes", len(data.paths), data.paths_found, "path"))
            for path_latency in data.paths:
                _write_path(tracks, parent, path_latency, data.late_from_ns(path_latency))
        if data.queues:
            parent = tracks.track(_some("switch queues", len(data.queues), data.queues_found, "queue"))
            for queue in data.queues:
                _write_queue(tracks, parent, queue)


def _some(what: str, shown: int, found: int, one: str) -> str:
    return what if shown == found else f"{what} ({shown} of {format_count(found, one)})"


def _write_lane(tracks: TraceTracks, data: TraceData, lane: LaneReport) -> None:
    link = lane.lane.link_bps
    rate = format_rate(link) if link else "line rate not known: no bursts"
    rack = f"rack {lane.lane.rack}, " if lane.lane.rack else ""
    parent = tracks.track(
        f"{lane_name(lane.lane)} ({rack}{rate})", about="Times are Unix time (CLOCK_REALTIME) as it was recorded."
    )
    tracks.slices("bursts", parent, map(_burst, lane.bursts))
    tracks.slices(
        "senders of bursts",
        parent,
        _senders(lane.bursts),
        f"The {SENDERS} senders of most bytes of each burst, over the time of the burst.",
    )
    scale, unit = (100 / link, "%") if link else (1.0, "bit/s")
    starts, ends, largest = with_detail(lane.base, lane.detail, lane.detail_cells)
    fine, width = format_duration(lane.lane.bin_ns), format_duration(lane.base.width_ns)
    cells = f"by bins of {fine}" if fine == width else f"fullest bin of {fine} in each {width}, bursts bin by bin"
    tracks.counter(
        f"utilization, {cells}", parent, unit, _known(levels(starts, ends, largest * scale, lane.coverage)), IN_GAPS
    )
    begin = lane.seconds.cells * lane.seconds.width_ns
    every = format_duration(lane.seconds.width_ns)
    tracks.counter(
        f"utilization by {every}: what monitoring shows" if lane.seconds.width_ns == NS_PER_S
        else f"utilization, fullest second in each {every}",
        parent,
        unit,
        _known(levels(begin, begin + lane.seconds.width_ns, lane.seconds.max_bps() * scale, lane.coverage)),
        IN_GAPS,
    )  # fmt: skip
    tracks.slices("not recorded", parent, (TraceSlice(a, b, "not recorded", {}) for a, b in data.unrecorded(lane)))
    tracks.slices("gaps of the recorder", parent, _gaps(data, lane))
    tracks.slices(
        lacking(lane.lane.is_port), parent, (TraceSlice(a, b, "counts are lower bounds", {}) for a, b in lane.losing)
    )


def _burst(burst: dict[str, Any]) -> TraceSlice:
    senders = burst_services_text(burst) or format_count(burst["sources"], "sender")
    name = f"{burst['pattern']}: {senders}, peak {format_share(burst['peak_utilization'])}"
    return TraceSlice(burst["start_ns"], burst["end_ns"], name, {key: burst[key] for key in OF_BURST})


def _senders(bursts: list[dict[str, Any]]) -> Iterator[TraceSlice]:
    for burst in bursts:
        for sender in burst["top_sources"][:SENDERS]:
            name = f"{sender_name(sender)} {format_share(round(sender['share'], 3))}"
            facts = {key: value for key, value in sender.items() if value is not None}
            yield TraceSlice(burst["start_ns"], burst["end_ns"], name, facts)


def _known(points: Iterator[tuple[int, float | None]]) -> Iterator[tuple[int, float]]:
    """Yields the changes of a value. A counter has no value for unknown; a slice shows that."""
    last = None
    for at_ns, value in points:
        if (value or 0.0) != last:
            last = value or 0.0
            yield at_ns, last


def _gaps(data: TraceData, lane: LaneReport) -> Iterator[TraceSlice]:
    for gap in data.gaps_of(lane.lane):
        end_ns = data.end_ns if gap["end_ns"] is None else gap["end_ns"]
        if end_ns > gap["start_ns"]:
            facts = {"packets": gap["packets"], "detail": gap["detail"], "recording_id": gap["recording_id"]}
            yield TraceSlice(gap["start_ns"], end_ns, gap["reason"], facts)


def _write_path(tracks: TraceTracks, parent: int, path: PathLatency, late_from_ns: float | None) -> None:
    own = tracks.track(path.name, parent, f"Measured by {path.measure or 'nothing'}; stamps: {path.stamps or 'none'}.")
    cells = f", slowest in each {format_duration(path.width_ns)}" if path.width_ns else ""
    measured = path.largest >= 0
    points = zip(path.at_ns[measured].tolist(), path.largest[measured].tolist(), strict=True)
    tracks.counter(f"latency{cells}", own, "ns", points)
    late = format_duration(late_from_ns) if late_from_ns is not None else "not known"
    tracks.instants("late and lost probes", own, _remarkable(path, late_from_ns), f"Late: {late} or more.")


def _remarkable(path: PathLatency, late_from_ns: float | None) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields the late and the lost probes."""
    rows = zip(path.at_ns.tolist(), path.largest.tolist(), path.lost.tolist(), strict=True)
    for at_ns, largest, lost in rows:
        if late_from_ns is not None and largest > late_from_ns:
            yield at_ns, "late", {"latency_ns": largest}
        if lost:
            yield at_ns, "lost" if lost == 1 else f"{lost} lost", {"lost": lost}


def _write_queue(tracks: TraceTracks, parent: int, queue: QueueWindows) -> None:
    cells = f", fullest in each {format_duration(queue.width_ns)}" if queue.width_ns else ""
    own = tracks.track(f"{queue.name} ({queue.semantics})", parent)
    depths = zip(queue.start_ns.tolist(), queue.largest.tolist(), strict=True)
    tracks.counter(f"depth{cells}", own, "bytes", ((at, depth) for at, depth in depths if depth >= 0))
    drops = zip(queue.start_ns.tolist(), queue.end_ns.tolist(), queue.dropped.tolist(), strict=True)
    tracks.slices(
        "dropped packets",
        own,
        (TraceSlice(a, max(a, b), format_count(n, "packet"), {"packets": n}) for a, b, n in drops if n > 0),
    )
    tracks.slices("not reported", own, _unreported(queue))


def _unreported(queue: QueueWindows) -> Iterator[TraceSlice]:
    """Returns the times between windows, in which `depth` still has the value of the previous one."""
    spans = zip(queue.end_ns[:-1].tolist(), queue.start_ns[1:].tolist(), strict=True)
    return (TraceSlice(end, start, "not reported", {}) for end, start in spans if start > end)
