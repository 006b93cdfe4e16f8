"""The top of a host's report: the answer in one sentence, three figures, and what they leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.answers.lane_report import LaneReport, Peak
from ...units import (
    NS_PER_MINUTE,
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_rate,
    format_share,
)
from ..common.words import above_line_rate, clock, dated, exact_clock, rate

if TYPE_CHECKING:
    from ...analysis.bursts.find import BurstDefinition

Figure = tuple[str, str, str]  # its name, its value, and a note


def answer(report: LaneReport, definition: BurstDefinition) -> str:
    """Returns what happened on this link, in one sentence."""
    if report.busiest_window is None or report.busiest_second is None:
        return "No packet was recorded in this time."
    lane, recorded = report.lane, format_duration(report.recorded_ns)
    fullest, second = _share(report, report.busiest_window, report.window_ns), _share(report, report.busiest_second)
    window = f"busiest {format_duration(report.window_ns)}"
    if not lane.link_bps:
        return (
            f"The link's speed is not known, so no burst can be detected: its {window} in {recorded} carried "
            f"{fullest}, its busiest second {second}."
        )
    link = format_rate(lane.link_bps)
    if not report.bursts:
        return (
            f"No burst in {recorded}, by {format_share(definition.threshold)} of line rate: the {window} reads "
            f"{fullest} of {link}, the busiest second {second}{_probed(report)}."
        )
    longest_ns = max(burst["duration_ns"] for burst in report.bursts)
    most = "up to " if len(report.bursts) > 1 else ""
    many = f"{format_count(len(report.bursts), 'burst')} of {most}{format_duration(longest_ns)}"
    if longest_ns < report.window_ns:
        return (
            f"In {recorded}, {many} filled {format_share(definition.threshold)} or more of {link}, while the {window} "
            f"reads {fullest} and the busiest second {second}{_probed(report)}."
        )
    return (
        f"In {recorded}, {many} took the link to {fullest} of {link} ({window}), while the busiest second reads "
        f"{second}{_probed(report)}."
    )


def _share(report: LaneReport, peak: Peak, width_ns: int = 10**9) -> str:
    return rate(peak.wire_bytes * 8e9 / width_ns, report.lane.link_bps)


def _probed(report: LaneReport) -> str:
    """Returns the latency of this host's probes in that time; probes of others may not cross this link."""
    path = next((path for path in report.latency if report.lane.host in path.hosts), None)
    if path is None or path.max_ns is None or path.p50_ns is None:
        return ""
    return f"; the slowest probe took {format_duration(path.max_ns)}, the median one {format_duration(path.p50_ns)}"


def contrast(report: LaneReport, over_ns: int) -> list[Figure]:
    """Returns what a monitoring system shows against what happened; empty without a packet. over_ns: the length of the
    page's period."""
    if report.busiest_window is None or report.busiest_second is None:
        return []
    second, window = report.busiest_second, report.busiest_window
    return [
        (
            "Busiest second, as monitoring shows it",
            _share(report, second),
            f"at {dated(second.ts_ns, clock(second.ts_ns, 0), over_ns)}",
        ),
        (
            f"Busiest {format_duration(report.window_ns)}",
            _share(report, window, report.window_ns),
            f"at {dated(window.ts_ns, exact_clock(window.ts_ns), over_ns)}",
        ),
    ]


def headline(report: LaneReport) -> list[Figure]:
    """Returns the number of bursts, if they can be detected."""
    if not report.lane.link_bps:
        return []
    per_minute = len(report.bursts) / (report.recorded_ns / NS_PER_MINUTE) if report.recorded_ns >= 10**9 else 0.0
    notes = [f"{format_number(per_minute)} a minute"] if per_minute else []
    notes += [f"{format_share(_burst_share(report))} of the time"] if report.bursts else []
    notes += [f"{len(report.canaries):,} of them canary bursts"] if report.canaries else []
    return [("Bursts", f"{len(report.bursts):,}", ", ".join(notes))]


def _burst_share(report: LaneReport) -> float:
    return report.burst_ns / report.recorded_ns if report.recorded_ns else 0.0


def in_bursts(report: LaneReport) -> list[tuple[str, str]]:
    """Returns the share of time and bytes in bursts; empty without a burst."""
    if not report.bursts:
        return []
    part = report.burst_bytes / report.bytes if report.bytes else 0.0
    recorded = format_duration(report.recorded_ns)
    return [
        ("Time in bursts", f"{format_share(_burst_share(report))}: {format_duration(report.burst_ns)} of {recorded}"),
        (
            "Bytes in bursts",
            f"{format_share(part)}: {format_bytes(report.burst_bytes)} of {format_bytes(report.bytes)}",
        ),
    ]


def finer(report: LaneReport, over_ns: int) -> str:
    """Returns why single bins read more than the link carries, if they do; shown next to the figure with these bins."""
    lane, peak = report.lane, report.busiest_bin
    if not lane.link_bps or peak is None or peak.wire_bytes * 8e9 <= lane.link_bps * lane.bin_ns:
        return ""
    at = dated(peak.ts_ns, exact_clock(peak.ts_ns), over_ns)
    return (
        f"Single bins read up to {_share(report, peak, lane.bin_ns)} (at {at}), which no link carries: "
        f"{above_line_rate(lane.is_port)}."
    )
