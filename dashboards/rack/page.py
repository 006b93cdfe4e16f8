"""A rack's report: one HTML file without any script, the same facts as JSON, and the index of all reports in a folder.

The same report gives the same bytes. Files are written atomically; their names have the rack and the period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ... import __version__, files
from ...analysis.rack.period import RackLane
from ...analysis.rack.report import RackFigures
from ...units import format_count, format_duration, format_share
from ..common import page, words
from ..common.blocks import LinkCell, PageTable, Paragraph
from ..common.summaries import doubts, lacks, rack_stem, summaries, with_summary
from . import pictures, tables
from . import words as rack_words

STYLE = ("common/page.css", "common/paper.css")


def _tiles(report: RackFigures) -> list[tuple[str, str, str]]:
    """Returns the figures above the heatmap."""
    inbound = report.inbound
    n = sum(lane.bursts for lane in inbound)
    bursting = len({lane.receiver for lane in inbound if lane.bursts})
    tiles = [
        ("Bursts received", f"{n:,}", f"by {format_count(bursting, 'host')}"),
        (
            "Longest burst",
            format_duration(report.duration.largest or 0) if n else "–",
            f"median {format_duration(report.duration.p50 or 0)}" if n else "",
        ),
    ]
    if speeds := _with_speed(report):
        second = max(speeds, key=lambda lane: lane.busiest_second / (lane.link_bps or 1))
        busiest = words.rate(second.busiest_second, second.link_bps)
        tiles.append(("Busiest second, as monitoring shows it", busiest, second.receiver or ""))
    return tiles


def _more(report: RackFigures) -> list[tuple[str, str]]:
    """Returns further figures, below the heatmap."""
    found = [("Time in bursts", f"{format_share(rack_words.share(report.inbound))} of recorded time")]
    if speeds := _with_speed(report):
        fullest = max(speeds, key=lambda lane: lane.busiest_bin / (lane.link_bps or 1))
        busiest, width = words.rate(fullest.busiest_bin, fullest.link_bps), format_duration(fullest.busiest_bin_ns)
        why = f" ({words.above_line_rate(fullest.is_port)})" if fullest.busiest_bin > (fullest.link_bps or 0) else ""
        found.append(("Busiest bin of all", f"{busiest} in {width}, {fullest.receiver}{why}"))
    if report.contention:
        found.append(("In contention", f"{format_share(report.contention.share)} of bursts"))
    if report.queue_count:
        found.append(("Dropped by the switch", rack_words.drops(report)))
    return found


def _with_speed(report: RackFigures) -> list[RackLane]:
    return [lane for lane in report.inbound if lane.link_bps and lane.wire_bytes]


def _sections(report: RackFigures) -> list[tuple[str, list[Any]]]:
    """Returns the sections below the summary if something was recorded: headings, and parts that templates draw."""
    bursts = format_count(len(report.durations_ns) and report.duration.n, "burst")
    return [
        ("Over time", [pictures.heatmap(report)]),
        ("Hosts and interfaces", [tables.hosts(report)]),
        (
            f"Durations of {bursts}",
            [pictures.durations(report) if report.durations_ns else Paragraph("No burst was received.")],
        ),
        ("Senders in bursts", [tables.feeders(report)]),
        ("New hosts and senders", tables.new(report)),
        (
            "Change",
            [
                tables.change(report.previous, "The period before"),
                tables.change(report.weekday, "The same weekday a week before"),
            ],
        ),
        ("Contention between hosts", tables.contention(report)),
        ("Switch queues", tables.queues(report)),
        ("Latency in and out of bursts", tables.latency(report)),
        ("Largest bursts", [tables.worst(report)]),
    ]


def render(report: RackFigures) -> str:
    """Returns the complete page: it has no script, and its policy forbids all requests."""
    bins = {lane.bin_ns for lane in report.lanes}
    bin_ns = next(iter(bins)) if len(bins) == 1 else None
    statements = rack_words.statements(report)
    return page.render(
        "rack/page.html",
        policy=page.WITHOUT_SCRIPT,
        css=page.style(*STYLE),
        rack=report.rack,
        period=rack_words.period(report.since_ns, report.until_ns),
        verdict=rack_words.verdict(report),
        doubt=words.doubt(statements),
        statements=statements,
        tiles=_tiles(report) if report.recorded else [],
        more=_more(report) if report.recorded else [],
        sections=_sections(report) if report.recorded else [],
        definitions=words.definitions(report.definition, bin_ns),
    )


def facts(report: RackFigures) -> dict[str, Any]:
    """Returns the facts of the page."""
    found = {**asdict(report), "mburst": __version__, "kind": "rack"}
    found["damaged_files"] = [file.facts() for file in report.damaged]
    del found["damaged"]
    found["statements"] = [asdict(statement) for statement in rack_words.statements(report)]
    return found


def stem(report: RackFigures) -> str:
    """Returns the name of a report's files: rack and period."""
    return rack_stem(report.rack, report.since_ns, report.until_ns)


def write(report: RackFigures, folder: Path) -> tuple[Path, Path]:
    """Write page and JSON into `folder`, which is created if it is missing. Returns their paths. The JSON's first line
    is its summary, for readers of many reports. Raises MburstError if the folder cannot be written."""
    found = with_summary(rack_words.summary(report), facts(report))
    return page.write_with_facts(folder / stem(report), render(report), found)


# --- the index --------------------------------------------------------------------------------------------------------


def write_index(folder: Path, troubles: list[str] | None = None, mode: int = files.GROUP) -> Path:
    """Write index.html over every report in the folder; `troubles` are lines about failed deliveries. A lock admits one
    process at a time, so that the last one has seen every report. Raises MburstError."""
    with files.locked(folder):
        page.write(folder / "index.html", render_index(summaries(folder), troubles or []), page.FOLDER, mode)
    return folder / "index.html"


_CELLS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("Hosts", lambda s: f"{s['bursting_hosts']} of {s['hosts']}"),
    ("Bursts", lambda s: f"{s['bursts']:,}"),
    ("Of the time", lambda s: format_share(s["share"])),
    ("Longest", lambda s: format_duration(s["longest_ns"]) if s["longest_ns"] else "–"),
    (
        "Bursts an hour, against before",
        lambda s: (
            "–"
            if s["previous_per_hour"] is None or s["per_hour"] is None
            else rack_words.ratio(s["per_hour"], s["previous_per_hour"])
        ),
    ),
    ("New", lambda s: "–" if s["new"] is None else f"{s['new']:,}"),
    ("Dropped by the switch", lambda s: "–" if s["queue_drops"] is None else f"{s['queue_drops']:,}"),
)


def render_index(entries: list[tuple[str, dict[str, Any]]], troubles: list[str]) -> str:
    """Returns the index of reports, grouped by period."""
    periods: dict[tuple[int, int], list[Sequence[str | LinkCell]]] = {}
    for name, summary in entries:
        periods.setdefault((summary["since_ns"], summary["until_ns"]), []).append(_index_row(name, summary))
    heads = ["Rack", "Worst host", *(head for head, _ in _CELLS)]
    listed = [
        (rack_words.period(*period), PageTable(format_count(len(rows), "rack"), heads, rows, 2))
        for period, rows in periods.items()
    ]
    return page.render(
        "rack/index.html",
        policy=page.WITHOUT_SCRIPT,
        css=page.style(*STYLE),
        troubles=troubles,
        count=format_count(len(entries), "report"),
        periods=listed,
    )


def _index_row(name: str, summary: Mapping[str, Any]) -> Sequence[str | LinkCell]:
    link = f"{quote(name)}.html"
    if lacking := lacks(summary):
        return [LinkCell(summary["rack"], link), lacking, *("–" for _ in _CELLS)]
    return [
        LinkCell(summary["rack"], link, "; ".join(doubts(summary))),
        summary["worst_host"] or "–",
        *(cell(summary) for _, cell in _CELLS),
    ]
