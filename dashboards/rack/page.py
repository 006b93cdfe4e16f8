"""A rack's report: one HTML file without any script, the same facts as JSON, and the index of all reports in a folder.

The same report gives the same bytes. No file is ever half written, and its name says rack and period.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from ... import __version__, files
from ...analysis.rack.report import RackReport
from ...errors import MburstError
from ...names import escape, file_part
from ...units import format_duration, format_share
from ..common import palette, words
from ..report import fragments
from . import pictures as rack_pictures
from . import tables as rack_tables
from . import words as rack_words

_HERE = Path(__file__).parents[1]
SAYS = "the report", "name another folder with -o"  # where it cannot be written


def _text(folder: str, name: str) -> str:
    return (_HERE / folder / name).read_text(encoding="utf-8")


def css() -> str:
    """The style of rack reports and their index."""
    return palette.css() + _text("static", "common/page.css") + _text("static", "rack/page.css")


def _tiles(report: RackReport) -> str:
    inbound = report.inbound
    n = sum(lane.bursts for lane in inbound)
    bursting = len({lane.host for lane in inbound if lane.bursts})
    told = [("Bursts received", f"{n:,}", f"by {words.count(bursting, 'host')}"),
            ("Time in bursts", format_share(rack_words.share(inbound)), "of recorded time"),
            ("Longest burst", format_duration(report.duration.largest or 0) if n else "–",
             f"median {format_duration(report.duration.p50 or 0)}" if n else "")]
    speeds = [lane for lane in inbound if lane.link_bps and lane.packets]
    if speeds:
        second = max(speeds, key=lambda lane: lane.busiest_second / (lane.link_bps or 1))
        fullest = max(speeds, key=lambda lane: lane.busiest_bin / (lane.link_bps or 1))
        told.append(("Busiest second of all", words.rate(second.busiest_second, second.link_bps), second.host))
        told.append(("Busiest bin of all", words.rate(fullest.busiest_bin, fullest.link_bps),
                     f"{fullest.host}, {format_duration(fullest.bin_ns)}"))
    if report.contention:
        told.append(("In contention", format_share(report.contention.share), "of bursts"))
    drops = sum(queue.dropped for queue in report.queues)
    if report.queue_count:
        told.append(("Dropped by the switch", f"{drops:,}", "packets"))
    return '<dl class="tiles">' + "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>'
        for name, value, note in told) + "</dl>"


def _sections(report: RackReport) -> str:
    """What follows the summary where something was recorded."""
    told = words.count(len(report.durations_ns) and report.duration.n, "burst")
    quantiles = [("n", f"{report.duration.n:,}")] + [
        (name, format_duration(value)) for name, value in (
            ("min", report.duration.least), ("median", report.duration.p50), ("p90", report.duration.p90),
            ("p99", report.duration.p99), ("max", report.duration.largest)) if value is not None]
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in quantiles)
    durations = (f'{rack_pictures.distribution(report)}<dl class="quantiles">{listed}</dl>' if report.durations_ns else
                 "<p>No burst was received.</p>")
    parts: list[tuple[str, str]] = [
        ("When", rack_pictures.heat_legend() + '<div class="scroll" tabindex="0" role="region" '
         f'aria-label="Time in bursts by host and time">{rack_pictures.heatmap(report)}</div>'),
        ("Which hosts", rack_tables.hosts(report)),
        (f"How long: {told}", durations),
        ("Who feeds them", rack_tables.feeders(report) if report.feeders else "<p>No sender is known.</p>"),
        ("New", rack_tables.new(report)),
        ("Change", rack_tables.change(report.previous, "The period before")
         + rack_tables.change(report.weekday, "The same weekday a week before")),
        ("Contention between hosts", rack_tables.contention(report)),
        ("Switch queues", rack_tables.queues(report)),
        ("Latency in and out of bursts", rack_tables.latency(report)),
        ("Largest bursts", rack_tables.worst(report) if report.worst else "<p>None.</p>"),
    ]
    return "".join(f'<section aria-labelledby="s{i}"><h2 id="s{i}">{escape(head)}</h2>{body}</section>'
                   for i, (head, body) in enumerate(parts))


def _statements(report: RackReport) -> str:
    signs = {words.NOTE: ("i", "Note"), words.WARNING: ("!", "Warning")}
    return "".join(
        f'<li class="{s.level}"><span class="sign" role="img" aria-label="{signs[s.level][1]}">'
        f"{signs[s.level][0]}</span>"
        f"<div><strong>{escape(s.head)}.</strong> {escape(s.text)}</div></li>" for s in rack_words.statements(report))


def render(report: RackReport) -> str:
    """The page, complete in itself: it has no script, and its policy forbids that anything is fetched."""
    bins = {lane.bin_ns for lane in report.lanes}
    bin_ns = next(iter(bins)) if len(bins) == 1 else None
    return Template(_text("templates", "rack/page.html")).substitute(
        rack=escape(report.rack), css=css(), version=escape(__version__),
        period=escape(rack_words.period(report.since_ns, report.until_ns)),
        verdict=escape(rack_words.verdict(report)), statements=_statements(report),
        tiles=_tiles(report) if report.recorded else "", sections=_sections(report) if report.recorded else "",
        definitions=fragments.definitions(report.definition, bin_ns))


def facts(report: RackReport) -> dict[str, Any]:
    """The facts of the page."""
    told = {**asdict(report), "mburst": __version__, "kind": "rack"}
    told["damaged_files"] = [file.facts() for file in report.damaged]
    del told["damaged"]
    told["statements"] = [asdict(statement) for statement in rack_words.statements(report)]
    return told


def stem(report: RackReport) -> str:
    """The name of a report's files: rack and period."""
    return f"rack-{file_part(report.rack)}-{_stamp(report.since_ns)}-{_stamp(report.until_ns)}"


def _stamp(ts_ns: int) -> str:
    return f"{words.date(ts_ns)}T{words.clock(ts_ns, 0)}Z".replace("-", "").replace(":", "")


def write(report: RackReport, folder: Path) -> tuple[Path, Path]:
    """Write page and JSON into `folder`, which is made where it is missing; their paths. The JSON's first line is its
    summary, for who reads many. Raises MburstError where the folder cannot be written."""
    page, told = (folder / f"{stem(report)}{suffix}" for suffix in (".html", ".json"))
    rest = json.dumps(facts(report), ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    summary = json.dumps(rack_words.summary(report), ensure_ascii=False, sort_keys=True, allow_nan=False)
    files.write(told, f'{{"summary": {summary},{rest[1:]}\n', *SAYS)
    files.write(page, render(report), *SAYS)
    return page, told


# --- the index --------------------------------------------------------------------------------------------------------


def summaries(folder: Path, period: tuple[int, int] | None = None,
              own: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """(name, summary) of every rack report in a folder, or of those of one period: the newest first, then by rack. Of
    OWN ones, page and facts are this user's regular files, as what is sent and copied has to be."""
    wanted = f"rack-*-{_stamp(period[0])}-{_stamp(period[1])}" if period else "rack-*"
    found = []
    for path in sorted(folder.glob(f"{wanted}.json")):
        if own and not (files.is_own(path) and files.is_own(path.with_suffix(".html"))):
            continue
        if (summary := _summary(path)) is not None:
            found.append((path.stem, summary))
    return sorted(found, key=lambda entry: (-entry[1]["until_ns"], -entry[1]["since_ns"], entry[1]["rack"]))


def _summary(path: Path) -> dict[str, Any] | None:
    """The summary in the first line of a report's JSON; None for what is somebody else's file."""
    try:
        first = files.first_line(path).strip()
        said = json.loads(first.removeprefix('{"summary": ').removesuffix(","))
        summary = {name: _checked(said[name], kind) for name, kind in rack_words.SUMMARY.items()}
        return summary if 0 <= summary["since_ns"] < summary["until_ns"] < 2**62 else None
    except (MburstError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _checked(value: Any, kinds: tuple[type, ...]) -> Any:
    if type(value) not in kinds or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        raise TypeError(type(value))
    return value


def write_index(folder: Path, troubles: list[str] | None = None, mode: int = files.GROUP) -> Path:
    """Write index.html over every report in the folder; `troubles` are lines about what could not be delivered.
    Only one process at a time does, so that the last one has seen every report. Raises MburstError."""
    with files.locked(folder):
        files.write(folder / "index.html", render_index(summaries(folder), troubles or []), *SAYS, mode)
    return folder / "index.html"


_CELLS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("Hosts", lambda s: f"{s['bursting_hosts']} of {s['hosts']}"),
    ("Bursts", lambda s: f"{s['bursts']:,}"),
    ("Of the time", lambda s: format_share(s["share"])),
    ("Longest", lambda s: format_duration(s["longest_ns"]) if s["longest_ns"] else "–"),
    ("Bursts an hour, against before", lambda s: "–" if s["previous_per_hour"] is None else rack_words.ratio(
        s["per_hour"] or 0, s["previous_per_hour"])),
    ("New", lambda s: "–" if s["new"] is None else f"{s['new']:,}"),
    ("Dropped by the switch", lambda s: f"{s['queue_drops']:,}"),
)


def render_index(entries: list[tuple[str, dict[str, Any]]], troubles: list[str]) -> str:
    """The index of reports, grouped by period."""
    periods: dict[tuple[int, int], list[tuple[str, dict[str, Any]]]] = {}
    for name, summary in entries:
        periods.setdefault((summary["since_ns"], summary["until_ns"]), []).append((name, summary))
    heads = ["Rack", "Worst host", *(head for head, _ in _CELLS)]
    sections = []
    for (since, until), group in periods.items():
        rows = []
        for name, summary in group:
            link = f'<a href="{quote(name)}.html">{escape(summary["rack"])}</a>'
            if summary["recorded"]:
                warned = f' <span class="sign warning" title="{escape("; ".join(summary["warnings"]))}">!</span>'
                rows.append([link + (warned if summary["warnings"] else ""), escape(summary["worst_host"] or "–"),
                             *(escape(cell(summary)) for _, cell in _CELLS)])
            else:
                rows.append([link, "nothing recorded", *("–" for _ in _CELLS)])
        title = rack_words.period(since, until)
        listed = rack_tables.table(words.count(len(rows), "rack"), heads, rows, 2)
        sections.append(f"<section><h2>{escape(title)}</h2>{listed}</section>")
    told = "".join(f'<p class="notice">{escape(line)}</p>' for line in troubles)
    return Template(_text("templates", "rack/index.html")).substitute(
        css=css(), version=escape(__version__), troubles=told,
        count=escape(words.count(len(entries), "report")),
        sections="".join(sections) or "<p>No report yet.</p>")
