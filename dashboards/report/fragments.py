"""Pieces of a report's HTML. Every string from the data passes `escape` on its way in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...analysis.answers.host import LaneReport
from ...analysis.model import distributions
from ...names import escape
from ...units import format_bytes, format_duration, format_rate, format_share
from ..common import words

if TYPE_CHECKING:
    from ...analysis.bursts.find import BurstDefinition

PATTERNS = {"single-source": "single source", "many-sources": "many sources", "unknown": "not known"}
SIGNS = {words.GOOD: "✓", words.NOTE: "i", words.WARNING: "!"}


@dataclass(frozen=True)
class Column:
    """A column of the bursts table: what a cell sorts by and what it reads."""

    head: str
    about: str
    key: Callable[[Mapping[str, Any]], float | str]
    text: Callable[[Mapping[str, Any]], str]
    numeric: bool = True


def _senders(burst: Mapping[str, Any]) -> str:
    return ", ".join(f"{sender['source']} {format_share(sender['share'])}" for sender in burst["top_sources"][:3])


def pattern(burst: Mapping[str, Any]) -> str:
    """How a burst was made; `canary` where mburst itself sent it."""
    return "canary" if "canary" in burst else str(burst["pattern"])


COLUMNS = [
    Column("Start, UTC", "when the first bin of the burst begins", lambda b: b["start_ns"],
           lambda b: words.exact_clock(b["start_ns"], b["bin_ns"])),
    Column("Duration", "from the first bin's start to the last bin's end", lambda b: b["duration_ns"],
           lambda b: format_duration(b["duration_ns"])),
    Column("Peak", "utilization of the busiest bin", lambda b: b["peak_utilization"],
           lambda b: format_share(b["peak_utilization"])),
    Column("Mean", "utilization over the whole burst", lambda b: b["mean_utilization"],
           lambda b: format_share(b["mean_utilization"])),
    Column("Bytes", "link-layer bytes in the burst", lambda b: b["bytes"], lambda b: format_bytes(b["bytes"])),
    Column("Packets", "packets in the burst", lambda b: b["packets"], lambda b: f"{b['packets']:,}"),
    Column("Fan-in", "senders of at least half an equal share, of all senders in the burst", lambda b: b["fan_in"],
           lambda b: f"{b['fan_in']:,} of {b['sources']:,}" if b["sources"] else "–"),
    Column("Onset", "between the first frames of the first and of the last of those senders",
           lambda b: -1 if b["onset_spread_ns"] is None else b["onset_spread_ns"],
           lambda b: "–" if b["onset_spread_ns"] is None else format_duration(b["onset_spread_ns"])),
    Column("Pattern", "single source, incast (together), many sources (not together), or sent by mburst canary",
           pattern, lambda b: PATTERNS.get(pattern(b), pattern(b)), False),
    Column("Top senders", "by bytes in the burst", _senders, _senders, False),
    Column("Quality", "what is known of the stamps, and loss", lambda b: ", ".join(b["quality"]),
           lambda b: ", ".join(b["quality"]), False),
]


def bursts_table(shown: Sequence[tuple[int, Mapping[str, Any]]], caption: str) -> str:
    """The table: heads that sort, and in each row a button that chooses its burst."""
    heads = "".join(
        f'<th scope="col"{_class(column)}{" aria-sort=descending" if column.head == "Bytes" else ""}>'
        f'<button type="button" title="{escape(column.about)}">{escape(column.head)}</button></th>'
        for column in [Column("#", "number of the burst in order of time", lambda b: 0, str), *COLUMNS]
    )
    rows = "".join(_row(number, burst) for number, burst in shown)
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Table of bursts"><table class="bursts">'
            f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>")


def _class(column: Column) -> str:
    return " class=n" if column.numeric else ""


def _row(number: int, burst: Mapping[str, Any]) -> str:
    cells = "".join(
        f'<td{_class(column)} data-key="{escape(str(column.key(burst)))}">{escape(column.text(burst))}</td>'
        for column in COLUMNS
    )
    label = f"Burst {number}: show who sent it"
    return (f'<tr data-burst="{number}"><td class="n" data-key="{number}"><button type="button" aria-label="{label}" '
            f'aria-pressed="false">{number}</button></td>{cells}</tr>')


def statements(found: Sequence[words.Statement]) -> str:
    """What to know before the figures are believed, as a list with signs that need no colour."""
    names = {words.GOOD: "Good", words.NOTE: "Note", words.WARNING: "Warning"}
    items = "".join(
        f'<li class="{s.level}"><span class="sign" role="img" aria-label="{names[s.level]}">{SIGNS[s.level]}</span>'
        f"<div><strong>{escape(s.head)}.</strong> {escape(s.text)}</div></li>" for s in found
    )
    return f'<p class="verdict">{escape(words.verdict(found))}</p><ul class="statements">{items}</ul>'


def facts(report: LaneReport) -> str:
    """Link, bin, clock, time: what a reader needs to place the figures."""
    lane = report.lane
    names = [re.sub(r"[^ ]*/", "", name) for name in lane.distinct("input")]  # whole paths are in the JSON
    rows = [
        ("Link", format_rate(lane.link_bps) if lane.link_bps else "speed not known"),
        ("Bin", format_duration(lane.bin_ns)),
        ("Clock", "; ".join(lane.distinct("clock")) or "not known"),
        ("Time", words.period(report.start_ns, report.end_ns) if report.bins else "no packet"),
        ("Recorded", f"{format_duration(report.recorded_ns)}, {words.count(report.packets, 'packet')}, "
                     f"{format_bytes(report.bytes)}"),
        ("From", "; ".join(names[:3]) + (" …" if len(names) > 3 else "")),
    ]
    return '<dl class="facts">' + "".join(
        f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in rows if value) + "</dl>"


def numbers(report: LaneReport, definition: BurstDefinition) -> str:
    """The headline: what monitoring shows against what happened, and how much of it is bursts."""
    first = "".join(
        f'<div class="tile {"average" if i == 0 else "real"}"><dt>{escape(name)}</dt><dd>{escape(value)}'
        f"<small>{escape(note)}</small></dd></div>"
        for i, (name, value, note) in enumerate(words.contrast(report, definition)))
    second = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>'
        for name, value, note in words.headline(report))
    return f'<dl class="tiles">{first}{second}</dl>'


def senders(report: LaneReport) -> str:
    """Who sent most in bursts, as a table whose bars show the share."""
    if not report.sources:
        return "<p>No sender is known.</p>"
    in_bursts = sum(source.burst_bytes for source in report.sources) > 0
    most = max(source.burst_bytes if in_bursts else source.bytes for source in report.sources) or 1
    rows = []
    for source in report.sources:
        number = source.burst_bytes if in_bursts else source.bytes
        name = source.source + (f" ({source.members:,} senders)" if source.members > 1 else "")
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th><td class="bar"><span style="width:{100 * number / most:.1f}%">'
            f'</span></td><td class="n">{format_bytes(source.burst_bytes)}</td>'
            f'<td class="n">{format_bytes(source.bytes)}</td>'
            f'<td class="n">{format_share(source.bytes / max(report.source_bytes, 1))}</td></tr>')
    left = report.source_count - len(report.sources)
    caption = f"{words.count(len(report.sources), 'sender')} of {report.source_count:,}" if left > 0 else \
        words.count(report.source_count, "sender")
    return (f'<div class="scroll"><table class="senders"><caption>{caption}, by bytes in bursts</caption><thead><tr>'
            '<th scope="col">Sender</th><th scope="col"><span class="quiet">Share</span></th>'
            '<th scope="col" class="n">In bursts</th><th scope="col" class="n">In all</th>'
            f'<th scope="col" class="n">Of all bytes</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>')


def distribution(report: LaneReport, name: str, title: str) -> str:
    """A figure's place, with n and quantiles in words beneath it."""
    summary = distributions.summarize(report.distributions[name])
    show: Callable[[float], str] = format_share if name == "peak" else format_duration
    if not summary.n:
        text = "No gap: a gap needs two bursts in one recording." if name == "gap" else "No burst, no distribution."
        return f'<figure class="dist"><h4>{title}</h4><p class="empty">{text}</p></figure>'
    told = [("n", f"{summary.n:,}"), ("min", show(summary.least or 0.0)), ("median", show(summary.p50 or 0.0))]
    told += [(label, show(value)) for label, value in (("p90", summary.p90), ("p99", summary.p99)) if value is not None]
    told.append(("max", show(summary.largest or 0.0)))
    items = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in told)
    words_of = ", ".join(f"{label} {value}" for label, value in told)
    return (f'<figure class="dist"><h4>{title}</h4><div class="plot" data-distribution="{name}" role="img" '
            f'aria-label="Empirical distribution: {words_of}"></div><figcaption><dl class="quantiles">{items}</dl>'
            "</figcaption></figure>")


def overview(reports: Sequence[LaneReport], drawn: Sequence[LaneReport]) -> str:
    """One line a lane; those that have a section link to it."""
    rows = []
    for report in reports:
        cells = words.summary_rows(report)
        name = escape(words.lane_name(report.lane))
        place = next((i for i, other in enumerate(drawn, 1) if other is report), None)
        link = f'<a href="#lane-{place}">{name}</a>' if place else name
        numbers_of = "".join(f'<td class="n" data-key="{key}">{escape(text)}</td>' for text, key in cells.values())
        rack = escape(report.lane.rack or "–")
        speed = format_rate(report.lane.link_bps) if report.lane.link_bps else "not known"
        rows.append(f'<tr><td data-key="{name}">{link}</td><td data-key="{rack}">{rack}</td><td class="n" data-key="'
                    f'{report.lane.link_bps or 0}">{speed}</td><td class="n" data-key="{report.lane.bin_ns}">'
                    f"{format_duration(report.lane.bin_ns)}</td>{numbers_of}</tr>")
    heads = ["Interface", "Rack", "Link", "Bin", "Bursts", "Time in bursts", "Mean", "Busiest second", "Busiest bin"]
    head = "".join(f'<th scope="col"{"" if i < 2 else " class=n"}><button type="button">{text}</button></th>'
                   for i, text in enumerate(heads))
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="Table of interfaces"><table class="lanes">'
            f"<caption>{len(reports):,} interfaces and directions</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>")


def definitions(definition: BurstDefinition, bin_ns: int | None) -> str:
    """What the words of the page mean."""
    entries = [
        ("Utilization", "wire bytes × 8 / (bin × line rate), one direction. Wire bytes of an Ethernet frame: "
                        "max(length without FCS, 60) + 24."),
        ("Burst", words.definition_words(definition, bin_ns)),
        ("Fan-in", "the senders of at least half an equal share of the burst's bytes (bytes / senders / 2), so that "
                   "background and probes do not count."),
        ("Effective senders", "1 / Σ share²: as many equal senders would be as concentrated."),
        ("Onset spread", "from the first frame in the burst of the first of those senders to that of the last."),
        ("1 s average", "wire bytes of each whole second of the clock: what a counter read once a second shows. A "
                        "second that was recorded in part counts as a whole one."),
        ("Largest and mean", "of the bins in each step of the figure. The largest bin of a step is never averaged "
                             "away, so no burst disappears at any zoom."),
        ("Quantiles", "nearest rank: values that occurred. p90 and p99 are left out where n cannot hold them."),
    ]
    return '<dl class="definitions">' + "".join(
        f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in entries) + "</dl>"
