"""One self-contained HTML file for each report, and the same facts as JSON next to it. The same input gives the same
bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...analysis.answers.lane_report import LaneReport, worst_first
from ...analysis.answers.paths import PathProbes
from ...analysis.model import context, distributions
from ...names import file_part
from ...units import format_count, format_share
from ..common import page, sensitivity_words, words
from ..common.packing import Pack
from . import answer, parts, paths
from . import words as report_words
from .path_words import name_of
from .payload import lane_payload

if TYPE_CHECKING:
    from ...analysis.bursts.find import BurstDefinition
    from ...sql.damage import DamagedFile

LANES = 24  # with a section and figures of their own; the others are only in the overview and in the JSON
ROWS = 500  # of tables of bursts, over all lanes

_SCRIPTS = (
    "common/format.js",
    "common/unpack.js",
    "common/envelope.js",
    "report/table.js",
    "common/senders.js",
    "common/fit.js",
    "common/touches.js",
    "common/recolour.js",
    "common/points.js",
    "common/timeline.js",
    "report/paths.js",
    "report/page.js",
)
_DISTRIBUTIONS = (("duration", "Duration"), ("gap", "Gap"), ("peak", "Peak"))


def drawn_lanes(reports: Sequence[LaneReport]) -> list[LaneReport]:
    """Returns the lanes that get a section, by most bursts and then most bytes; the page opens with the first one."""
    ranked = sorted(range(len(reports)), key=lambda i: (-len(reports[i].bursts), -reports[i].bytes, i))
    return [reports[i] for i in ranked[:LANES]]


def numbered(report: LaneReport, rows: int) -> list[tuple[int, dict[str, Any]]]:
    """Returns the `rows` largest bursts of a lane, largest first, each with its number in order of time."""
    numbers = {id(burst): i for i, burst in enumerate(report.bursts, 1)}
    return [(numbers[id(burst)], burst) for burst in worst_first(report.bursts)[:rows]]


def _lane_part(
    number: int,
    report: LaneReport,
    shown: Sequence[tuple[int, Mapping[str, Any]]],
    definition: BurstDefinition,
    over_ns: int,
) -> dict[str, Any]:
    """Returns the values that templates/report/lane.html needs for a lane with a section, on a page with a period of
    OVER_NS."""
    total = len(report.bursts)
    caption = (
        format_count(total, "burst")
        if len(shown) == total
        else f"The {len(shown):,} largest of {format_count(total, 'burst')}; all of them are in this page's JSON file"
    )
    found = report_words.statements(report)
    return {
        "id": f"lane-{number}",
        "number": number - 1,
        "name": words.lane_name(report.lane),
        "rack": report.lane.rack,
        "facts": parts.facts(report),
        "verdict": words.verdict(found),
        "doubt": words.doubt(found),
        "statements": found,
        "answer": answer.answer(report, definition),
        "contrast": answer.contrast(report, over_ns),
        "headline": answer.headline(report),
        "in_bursts": answer.in_bursts(report),
        "drawn": bool(report.bins),
        "summary": f"Utilization over time with {format_count(total, 'burst')}. {answer.answer(report, definition)}",
        "resolution": report_words.resolution(report) if report.bins else "",
        "legend": _legend(report, definition.threshold),
        "notes": f"{answer.finer(report, over_ns)} {_notes(report)}".strip(),
        "no_bursts": _no_bursts(report, definition),
        "seen": _seen(report, definition) if shown else "",
        "caption": caption,
        "bursts": [(number, parts.burst_row(burst, over_ns)) for number, burst in shown],
        "senders": parts.senders(report),
        "senders_caption": parts.senders_caption(report),
        "distributions": [parts.distribution(report, *of) for of in _DISTRIBUTIONS] if shown else [],
    }


def _no_bursts(report: LaneReport, definition: BurstDefinition) -> str:
    if not report.lane.link_bps:
        return "Bursts cannot be detected: a burst is a share of line rate, and the link's speed is not known."
    if not report.bins:
        return "None: no packet was recorded in this time."
    return f"None by this definition. {_seen(report, definition) or sensitivity_words.UNMEASURED}"


def _seen(report: LaneReport, definition: BurstDefinition) -> str:
    """Returns the smallest burst that is detected here, if canary bursts have shown it."""
    text = sensitivity_words.seen_words(report.curves, report.asked(definition), report.end_ns)
    return "" if text == sensitivity_words.UNMEASURED else text


def _notes(report: LaneReport) -> str:
    notes = []
    if report.latency and not any(report.lane.host in path.hosts for path in report.latency):
        notes.append("No probed path names this host: those shown may not cross this link.")
    if report.queues:
        notes.append("The store does not know which switch queue feeds this interface.")
    if report.paths > len(report.latency):
        notes.append(f"{len(report.latency)} of {report.paths} probed paths can be chosen, those of this host first.")
    if report.queue_count > len(report.queues):
        notes.append(f"The {len(report.queues)} fullest of {report.queue_count} switch queues can be chosen.")
    if any(latency.width_ns for latency in report.latency):
        notes.append(
            "Many probes are held in cells: their maximum is exact, their median is that of the cells' medians."
        )
    return " ".join(notes)


def _legend(report: LaneReport, threshold: float) -> list[tuple[str, str]]:
    entries = [("largest", "largest bin of a step"), ("mean", "mean of a step"), ("second", "1 s average")]
    if report.lane.link_bps:
        entries += [("rate", "line rate"), ("threshold", f"burst threshold, {format_share(threshold)}")]
    if report.bursts:
        entries.append(("burst", "burst"))
    if report.losing:
        entries.append(("loss", words.lacking(report.lane.is_port)))
    if report.latency:
        kind = _shared({path.measure or "not measured" for path in report.latency}, "by the measure of its path")
        entries += [("latency", f"slowest probe, {kind}"), ("latency-median", "median probe")]
        if any(latency.lost_probes for latency in report.latency):
            entries.append(("lost", "lost probe"))
    if report.queues:
        kind = _shared({queue.semantics or "kind not stated" for queue in report.queues}, "kinds differ")
        entries.append(("queue", f"switch queue, most in a window ({kind})"))
    return entries


def _shared(values: set[str], otherwise: str) -> str:
    """Returns the one value that all have; `otherwise` if they differ."""
    return next(iter(values)) if len(values) == 1 else otherwise


def title_of(reports: Sequence[LaneReport], probed: Sequence[PathProbes] = ()) -> str:
    """Returns the subject of a report, in one line."""
    if not reports and probed:
        return name_of(probed[0]) if len(probed) == 1 else f"{len(probed)} probed paths"
    if len(reports) == 1:
        return words.lane_name(reports[0].lane)
    hosts = {(report.lane.rack, report.lane.host) for report in reports}
    racks = {rack for rack, _ in hosts}
    if len(hosts) == 1:
        return f"{reports[0].lane.host or 'unnamed host'}, {len(reports)} interfaces and directions"
    where = f"rack {next(iter(racks))}, " if len(racks) == 1 and next(iter(racks)) else ""
    recorders = {(report.lane.rack, report.lane.host) for report in reports if not report.lane.is_port}
    return where + words.count_hosts(len(recorders), len(hosts - recorders), "switch")


def _kicker(reports: Sequence[LaneReport]) -> str:
    racks = {report.lane.rack for report in reports}
    rack = next(iter(racks)) if len(racks) == 1 else ""
    return "Microburst report" + (f" · rack {rack}" if rack else "")


def spans_of(reports: Sequence[LaneReport], probed: Sequence[PathProbes]) -> tuple[int, int] | None:
    """Returns the start and end of the report: of the recordings, else of the probes; None without either."""
    spans = [(one.start_ns, one.end_ns) for one in reports if one.bins]
    spans = spans or [(one.start_ns, one.end_ns) for one in probed]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def render(
    reports: Sequence[LaneReport],
    definition: BurstDefinition,
    probed: Sequence[PathProbes] = (),
    damaged: Sequence[DamagedFile] = (),
) -> str:
    """Returns the complete page: it fetches nothing, and its policy forbids all requests."""
    drawn = drawn_lanes(reports)
    rows = max(10, ROWS // max(len(drawn), 1))
    shown = [numbered(report, rows) for report in drawn]
    pack = Pack()
    span = spans_of(reports, probed)
    over_ns = span[1] - span[0] if span else 0
    lanes = [
        lane_payload(report, definition.threshold, table, pack, over_ns)
        for report, table in zip(drawn, shown, strict=True)
    ]
    bins = {report.lane.bin_ns for report in reports}
    bin_ns = next(iter(bins)) if len(bins) == 1 else None
    return page.render(
        "report/page.html",
        **page.figures(_SCRIPTS, {"lanes": lanes, "paths": paths.payload(probed)}, pack.joined()),
        css=page.style("common/page.css", "report/paths.css"),
        title=title_of(reports, probed),
        kicker=_kicker(reports),
        damaged=list(words.missing_files(damaged)),
        period=words.period(*span) if span else "no packet was recorded",
        columns=parts.COLUMNS,
        heads=parts.OVERVIEW,
        overview=parts.overview(reports, drawn) if len(reports) > 1 else [],
        lanes=[
            _lane_part(i, report, table, definition, over_ns)
            for i, (report, table) in enumerate(zip(drawn, shown, strict=True), 1)
        ],
        left_out=len(reports) - len(drawn),
        paths=paths.parts(probed),
        path_heads=paths.HEADS,
        more_paths=max(0, len(probed) - paths.MOST_PATHS),
        definitions=words.definitions(definition, bin_ns),
    )


def facts_json(
    reports: Sequence[LaneReport],
    definition: BurstDefinition,
    probed: Sequence[PathProbes] = (),
    damaged: Sequence[DamagedFile] = (),
) -> dict[str, Any]:
    """Returns the facts of the page, with every burst."""
    return {
        "mburst": __version__,
        "damaged_files": [file.facts() for file in damaged],
        "definition": asdict(definition),
        "lanes": [_lane_json(r, definition) for r in reports],
        "paths": paths.facts(probed),
    }


def _lane_json(report: LaneReport, definition: BurstDefinition) -> dict[str, Any]:
    lane = report.lane
    return {
        "rack": lane.rack,
        "host": lane.host,
        "interface": lane.interface,
        "direction": lane.direction,
        "link_bps": lane.link_bps,
        "bin_ns": lane.bin_ns,
        "start_ns": report.start_ns,
        "end_ns": report.end_ns,
        "recorded_ns": report.recorded_ns,
        "packets": report.packets,
        "bytes": report.bytes,
        "wire_bytes": report.wire_bytes,
        "bins": report.bins,
        "busiest_bin": asdict(report.busiest_bin) if report.busiest_bin else None,
        "busiest_second": asdict(report.busiest_second) if report.busiest_second else None,
        "busiest_window": {**asdict(report.busiest_window), "width_ns": report.window_ns}
        if report.busiest_window
        else None,
        "burst_ns": report.burst_ns,
        "burst_bytes": report.burst_bytes,
        "flow_control": asdict(report.flow_control),
        "quality": [asdict(quality) for quality in report.qualities],
        "statements": [asdict(statement) for statement in report_words.statements(report)],
        "distributions": {
            name: asdict(distributions.summarize(values)) for name, values in report.distributions.items()
        },
        "sources": {
            "n": report.source_count,
            "others": report.others,
            "bytes": report.source_bytes,
            "top": [asdict(source) for source in report.sources],
        },
        "probes": [_probes_json(path) for path in report.latency],
        "queues": [_queue_json(queue) for queue in report.queues],
        "recordings": [dict(recording) for recording in lane.recordings],
        "bursts": report.bursts,
        "sensitivity": _seen(report, definition) or sensitivity_words.UNMEASURED,
    }


def _probes_json(path: context.PathLatency) -> dict[str, Any]:
    return {
        "src": path.src,
        "dst": path.dst,
        "protocol": path.protocol,
        "n": path.probes,
        "lost": path.lost_probes,
        "measure": path.measure,
        "measured": path.measured,
        "p50_ns": path.p50_ns,
        "p99_ns": path.p99_ns,
        "p999_ns": path.p999_ns,
        "max_ns": path.max_ns,
    }


def _queue_json(queue: context.QueueWindows) -> dict[str, Any]:
    return {
        "device": queue.device,
        "port": queue.port,
        "queue": queue.queue,
        "semantics": queue.semantics,
        "n": queue.windows,
        "impossible": queue.impossible,
        "max_bytes": queue.max_bytes,
        "dropped_packets": queue.dropped_packets,
    }


def stem(reports: Sequence[LaneReport], probed: Sequence[PathProbes] = ()) -> str:
    """Returns the name of a report's files: rack, host and period, each if it is known and a single one."""
    racks, hosts = ({getattr(report.lane, name) for report in reports} for name in ("rack", "host"))
    parts = ["mburst"]
    if len(racks) == 1 or len(hosts) == 1:  # with a place for the rack, so that the host is not mistaken for it
        parts.append(file_part(next(iter(racks)), also="") if len(racks) == 1 else "")
    parts += [file_part(host) for host in hosts if len(hosts) == 1]
    span = spans_of(reports, probed)
    if span:
        for moment in span:
            parts.append(f"{words.date(moment)}T{words.clock(moment, 0)}Z".replace("-", "").replace(":", ""))
    return "-".join(parts)


def write(
    reports: Sequence[LaneReport],
    definition: BurstDefinition,
    folder: Path,
    probed: Sequence[PathProbes] = (),
    damaged: Sequence[DamagedFile] = (),
) -> tuple[Path, Path]:
    """Write the page and its JSON into `folder`, which is created if it is missing. Returns their paths. DAMAGED are
    the files that could not be read; both lack their rows.

    Files are written atomically. Raises MburstError if the folder cannot be written.
    """
    facts = json.dumps(
        facts_json(reports, definition, probed, damaged), ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False
    )
    return page.write_with_facts(
        folder / stem(reports, probed), render(reports, definition, probed, damaged), facts + "\n"
    )
