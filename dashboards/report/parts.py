"""Parts of a report's page as data, which templates/report/ draw."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.answers.lane_report import LaneReport
from ...analysis.model import distributions
from ...analysis.model.kept import kept_words
from ...names import shown
from ...senders import senders_text
from ...units import format_bytes, format_count, format_duration, format_rate, format_share
from ..common import words
from . import words as report_words


@dataclass(frozen=True)
class BurstColumn:
    """A column of the bursts table: the sort key and the text of a cell."""

    head: str
    about: str
    key: Callable[[Mapping[str, Any]], float | str]
    text: Callable[[Mapping[str, Any]], str]
    numeric: bool = True


def _senders(burst: Mapping[str, Any]) -> str:
    return senders_text(burst, 3)


COLUMNS = [
    BurstColumn(
        "Start, UTC",
        "when the first bin of the burst begins",
        lambda b: b["start_ns"],
        lambda b: words.dated(b["start_ns"], words.exact_clock(b["start_ns"], b["bin_ns"]), b["over_ns"]),
    ),
    BurstColumn(
        "Duration",
        "from the first bin's start to the last bin's end",
        lambda b: b["duration_ns"],
        lambda b: format_duration(b["duration_ns"]),
    ),
    BurstColumn(
        "Peak",
        "utilization of the busiest bin",
        lambda b: b["peak_utilization"],
        lambda b: format_share(b["peak_utilization"]),
    ),
    BurstColumn(
        "Mean",
        "utilization over the whole burst",
        lambda b: b["mean_utilization"],
        lambda b: format_share(b["mean_utilization"]),
    ),
    BurstColumn("Bytes", "link-layer bytes in the burst", lambda b: b["bytes"], lambda b: format_bytes(b["bytes"])),
    BurstColumn(
        "Packets",
        "packets in the burst",
        lambda b: b["packets"],
        lambda b: f"{b['packets']:,}" if b["packets"] else "–",
    ),
    BurstColumn(
        "Fan-in",
        "senders of at least half an equal share, of all senders in the burst",
        lambda b: b["fan_in"],
        lambda b: f"{b['fan_in']:,} of {b['sources']:,}" if b["sources"] else "–",
    ),
    BurstColumn(
        "Onset",
        "between the first frames of the first and of the last of those senders",
        lambda b: -1 if b["onset_spread_ns"] is None else b["onset_spread_ns"],
        lambda b: words.duration(b["onset_spread_ns"]),
    ),
    BurstColumn(
        "Pattern",
        "single source, incast (together), many sources (not together), or sent by mburst canary",
        lambda b: b["pattern"],
        lambda b: words.PATTERN_NAMES.get(b["pattern"], b["pattern"]),
        False,
    ),
    BurstColumn("Top senders", "by bytes in the burst", _senders, _senders, False),
    BurstColumn(
        "Quality",
        "what is known of the stamps, and loss",
        lambda b: ", ".join(b["quality"]),
        lambda b: ", ".join(b["quality"]),
        False,
    ),
]


def burst_row(burst: Mapping[str, Any], over_ns: int) -> list[tuple[float | str, str]]:
    """Returns the sort keys and texts of the cells of a burst, one for each of COLUMNS, in a report over OVER_NS."""
    shown = {**burst, "over_ns": over_ns}
    return [(column.key(shown), column.text(shown)) for column in COLUMNS]


def facts(report: LaneReport) -> list[tuple[str, str]]:
    """Returns link, bin, clock and time: the context of the figures."""
    lane = report.lane
    names = [re.sub(r"[^ ]*/", "", name) for name in lane.distinct("input")]  # whole paths are in the JSON
    seen = [] if report.packets is None else [format_count(report.packets, "packet")]
    rows = [
        ("Link", format_rate(lane.link_bps) if lane.link_bps else "speed not known"),
        ("Bin", format_duration(lane.bin_ns)),
        ("Clock", "; ".join(lane.distinct("clock")) or "not known"),
        ("Time", words.period(report.start_ns, report.end_ns) if report.bins else "nothing recorded"),
        ("Recorded", ", ".join([format_duration(report.recorded_ns), *seen, format_bytes(report.bytes)])),
        ("From", "; ".join(names[:3]) + (" …" if len(names) > 3 else "")),
    ]
    return [(name, value) for name, value in rows if value]


@dataclass(frozen=True)
class SenderRow:
    """A sender: the bar is PERCENT wide; its bytes in bursts, in total, and as a share of all bytes. ADDRESS: if NAME
    differs from it."""

    address: str
    name: str
    percent: float
    numbers: Sequence[str]


def senders(report: LaneReport) -> list[SenderRow]:
    """Returns the senders with most bytes in bursts, or with most bytes if there was no burst."""
    in_bursts = sum(source.burst_bytes for source in report.sources) > 0
    most = max((source.burst_bytes if in_bursts else source.bytes for source in report.sources), default=0) or 1
    return [
        SenderRow(
            source.source if source.name else "",
            shown(source.name or source.source) + (f" ({source.members:,} senders)" if source.members > 1 else ""),
            100 * (source.burst_bytes if in_bursts else source.bytes) / most,
            [
                format_bytes(source.burst_bytes),
                format_bytes(source.bytes),
                format_share(source.bytes / max(report.source_bytes, 1)),
            ],
        )
        for source in report.sources
    ]


def senders_caption(report: LaneReport) -> str:
    """Returns how many of the senders are shown."""
    number = words.senders_shown([source.source for source in report.sources], report.source_count, report.others)
    kept = "".join(f"; senders are {kept_words(above)}" for above in report.lane.distinct("sources_above_ppb"))
    return f"{number}, by bytes in bursts{kept}"


@dataclass(frozen=True)
class DistributionPart:
    """The place of a figure, with n and quantiles in words below it; EMPTY says why there is no figure."""

    name: str
    title: str
    quantiles: Sequence[tuple[str, str]]
    empty: str


def distribution(report: LaneReport, name: str, title: str) -> DistributionPart:
    """Returns the distribution NAME of a lane's bursts."""
    summary = distributions.summarize(report.distributions[name])
    show: Callable[[float], str] = format_share if name == "peak" else format_duration
    if not summary.n:
        empty = "No gap: a gap needs two bursts in one recording." if name == "gap" else "No burst, no distribution."
        return DistributionPart(name, title, [], empty)
    quantiles = [("n", f"{summary.n:,}"), ("min", show(summary.least or 0.0)), ("median", show(summary.p50 or 0.0))]
    quantiles += [
        (label, show(value)) for label, value in (("p90", summary.p90), ("p99", summary.p99)) if value is not None
    ]
    return DistributionPart(name, title, [*quantiles, ("max", show(summary.largest or 0.0))], "")


OVERVIEW = ("Interface", "Rack", "Link", "Bin", "Bursts", "Time in bursts", "Mean", "Busiest second", "Fullest")


@dataclass(frozen=True)
class OverviewRow:
    """A lane in the overview: `section` is the number of its section, if it has one; `cells` are (text, sort key) from
    `Link` on."""

    name: str
    rack: str
    section: int | None
    cells: Sequence[tuple[str, float]]


def overview(reports: Sequence[LaneReport], drawn: Sequence[LaneReport]) -> list[OverviewRow]:
    """Returns one line per lane; lanes with a section link to it."""
    sections = {id(report): number for number, report in enumerate(drawn, 1)}
    return [
        OverviewRow(
            words.lane_name(report.lane),
            report.lane.rack or "–",
            sections.get(id(report)),
            [
                (format_rate(report.lane.link_bps) if report.lane.link_bps else "not known", report.lane.link_bps or 0),
                (format_duration(report.lane.bin_ns), report.lane.bin_ns),
                *report_words.summary_rows(report).values(),
            ],
        )
        for report in reports
    ]
