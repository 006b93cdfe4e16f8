"""The tables of a rack's report, as data."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.rack.change import RackChange
from ...analysis.rack.context import ProbeGroup, RackPath
from ...analysis.rack.period import RackLane
from ...analysis.rack.report import RackFigures
from ...analysis.read.path_ends import path_name
from ...senders import named_address, senders_text
from ...units import format_bytes, format_count, format_duration, format_rate, format_share
from ..common import words
from ..common.blocks import BarCell, PageTable, Paragraph
from ..common.words import PATTERN_NAMES, duration, long, moment
from .words import changed, drops, lane_name, rates

Blocks = list[PageTable | Paragraph]


def _rate(bps: float, lane: RackLane) -> str:
    return words.rate(bps, lane.link_bps)


def _peaks(lanes: Sequence[RackLane]) -> tuple[str, list[str]]:
    """Returns the heading of the column of peak bins, and a cell for each lane. The heading has the bin width if all
    are equal."""
    known = [
        (format_share(lane.peak_utilization), format_duration(lane.peak_bin_ns))
        if lane.peak_utilization is not None and lane.peak_bin_ns is not None
        else None
        for lane in lanes
    ]
    widths = {width for _, width in filter(None, known)}
    if len(widths) == 1:
        return f"Peak, {widths.pop()}", ["–" if peak is None else peak[0] for peak in known]
    return "Peak bin", ["–" if peak is None else f"{peak[0]}, {peak[1]}" for peak in known]


def _lost(lane: RackLane) -> str:
    """Returns how many packets were lost while LANE was recorded: "12 in both directions"."""
    if lane.loss.dropped and not lane.is_port:
        return lane.loss.count
    return "not known" if lane.losing_bins else "0"


def hosts(report: RackFigures) -> PageTable:
    """Returns each interface and direction: how often, how long and how hard it bursts."""
    rows = []
    lanes = sorted(report.lanes, key=lambda lane: (-lane.burst_ns, lane.name))
    peak_head, peaks = _peaks(lanes)
    for lane, peak in zip(lanes, peaks, strict=True):
        known = lane.link_bps and lane.recorded_ns
        pattern = max(lane.patterns.items(), key=lambda item: item[1])[0] if lane.bursts else ""
        rows.append(
            [
                lane_name(lane),
                PATTERN_NAMES.get(pattern, "–"),
                f"{lane.bursts:,}" if known else "not known",
                format_share(lane.burst_ns / lane.recorded_ns) if known else "–",
                duration(lane.p50_ns),
                duration(lane.p99_ns),
                duration(lane.longest_ns),
                peak,
                _rate(lane.busiest_second, lane) if lane.wire_bytes else "–",
                "–" if lane.fan_in is None else f"{lane.fan_in:,} / {lane.largest_fan_in:,}",
                format_rate(lane.link_bps) if lane.link_bps else "–",
                long(lane.recorded_ns),
                _lost(lane),
            ]
        )
    return PageTable(
        "Interfaces by time in bursts",
        [
            "Interface",
            "Mostly",
            "Bursts",
            "Of the time",
            "Median",
            "p99",
            "Longest",
            peak_head,
            "Busiest second",
            "Fan-in: median / most",
            "Link",
            "Recorded",
            "Lost",
        ],
        rows,
        2,
    )


def feeders(report: RackFigures) -> PageTable | Paragraph:
    """Returns the senders of the bytes in bursts."""
    if not report.feeders:
        return Paragraph("No sender is known.")
    most = max(feeder.bytes for feeder in report.feeders) or 1
    rows: list[list[str | BarCell]] = [
        [
            named_address(feeder.source, report.names.get(feeder.source))
            + (f" ({feeder.members:,} at once)" if feeder.members > 1 else ""),
            BarCell(100 * feeder.bytes / most),
            ", ".join(feeder.hosts[:3]) + (f" and {len(feeder.hosts) - 3} more" if len(feeder.hosts) > 3 else ""),
            format_bytes(feeder.bytes),
            format_share(feeder.bytes / max(report.fed_bytes, 1)),
            f"{feeder.bursts:,}",
            f"{feeder.led:,}",
        ]
        for feeder in report.feeders
    ]
    caption = words.senders_shown([feeder.source for feeder in report.feeders], report.feeder_count, report.others)
    return PageTable(
        f"{caption}, by bytes in bursts",
        ["Sender", "", "To", "In bursts", "Of all in bursts", "Bursts", "In their fan-in"],
        rows,
        3,
    )


def contention(report: RackFigures) -> Blocks:
    """Returns the hosts that burst together."""
    found = report.contention
    if found is None:
        return [Paragraph("Contention needs bursts of two hosts or more.")]
    text = (
        f"{format_share(found.share)} of {format_count(found.bursts, 'burst')} overlapped a burst of another host; "
        f"for {long(found.contended_ns)} two or more hosts were receiving bursts, at most {found.most} of "
        f"{found.hosts} at once (first at {moment(found.most_ns)})."
    )
    rows = [[*pair.hosts, format_duration(pair.shared_ns)] for pair in found.pairs]
    heads = ["Host", "Host", "Together"]
    pairs = [PageTable("Hosts in bursts together, of those most in contention", heads, rows, 2)] if rows else []
    return [Paragraph(text), *pairs]


def queues(report: RackFigures) -> Blocks:
    """Returns the switch queues that filled or dropped."""
    if not report.queue_count:
        return [Paragraph("No switch reported its queues in this time.")]
    number = format_count(report.queue_count, "queue")
    rows = [
        [
            f"{queue.device} {queue.port}",
            queue.queue,
            ", ".join(queue.hosts) or "–",
            "–" if queue.max_bytes is None else format_bytes(queue.max_bytes),
            "–" if queue.max_at_ns is None else moment(queue.max_at_ns),
            "–" if queue.p99_bytes is None else format_bytes(queue.p99_bytes),
            "–" if queue.dropped is None else f"{queue.dropped:,}",
            "–" if queue.dropping_windows is None else f"{queue.dropping_windows:,} of {queue.windows:,}",
            "–" if queue.ecn_marked is None else f"{queue.ecn_marked:,}",
        ]
        for queue in report.queues
    ]
    heads = [
        "Port",
        "Queue",
        "Host",
        "Fullest window",
        "At",
        "p99 of windows",
        "Dropped packets",
        "Windows with drops",
        "ECN marks",
    ]
    listed = (
        PageTable(f"{len(rows)} of {number}", heads, rows, 3)
        if rows
        else Paragraph(f"{number}: empty in every window. Dropped: {drops(report)}.")
    )
    note = (
        []
        if report.queues_known
        else [
            Paragraph(
                "The store does not know which ports belong to this rack: these are all that it holds.", quiet=True
            )
        ]
    )
    return [listed, *note]


def latency(report: RackFigures) -> Blocks:
    """Returns the probes that met a burst of an end of their path, and those that did not."""
    rows = [row for path in report.paths for row in (_side(path, path.met, True), _side(path, path.clear, False))]
    listed = (
        PageTable(
            "Latency, by one measure a path",
            ["Path", "Measure", "Probes", "Number", "Lost", "p50", "p99", "p99.9", "Longest"],
            rows,
            3,
        )
        if rows
        else Paragraph("No probe of this time names a host of this rack that was recorded then.")
    )
    if not report.unplaced_probes:
        return [listed]
    number = format_count(report.unplaced_probes, "probe")
    names = "names" if report.unplaced_probes == 1 else "name"
    text = f"{number} of this time {names} no host of this rack that was recorded then."
    return [listed, Paragraph(text, quiet=True)]


def _side(path: RackPath, side: ProbeGroup, met: bool) -> Sequence[str]:
    return [
        path_name(path.src, path.dst, path.protocol) if met else "",
        path.measure if met else "",
        "that met a burst" if met else "that met none",
        f"{side.sent:,}",
        f"{side.lost:,}",
        *(duration(value) for value in (side.p50_ns, side.p99_ns, side.p999_ns, side.max_ns)),
    ]


def change(found: RackChange | None, name: str) -> PageTable | Paragraph:
    """Returns a rack, and the hosts that changed most, against an earlier period."""
    if found is None:
        return Paragraph(f"{name}: nothing of this rack was recorded then.")
    ranked = sorted(
        found.lanes,
        key=lambda lane: (
            -abs((lane.now.share or 0) - (lane.then.share or 0)),
            lane.host,
            lane.interface,
            lane.direction,
        ),
    )
    rows = [["the whole rack", rates(found.now), rates(found.then), changed(found.now, found.then)]]
    rows += [
        [lane_name(lane), rates(lane.now), rates(lane.then), changed(lane.now, lane.then)]
        for lane in ranked[:10]
        if lane.now.bursts or lane.then.bursts
    ]
    return PageTable(
        f"{name}, {moment(found.since_ns)} – {moment(found.until_ns)}: bursts of recorded time",
        ["Interface", "Now", "Then", "Bursts an hour"],
        rows,
    )


def new(report: RackFigures) -> Blocks:
    """Returns the hosts and senders that burst for the first time."""
    found = report.new
    if found is None:
        return [Paragraph("New hosts and senders cannot be determined: nothing was recorded before.")]
    hosts_of = [[lane_name(lane), f"{lane.bursts:,}", format_duration(lane.burst_ns)] for lane in found.lanes]
    senders_of = [
        [named_address(source, report.names.get(source)), format_bytes(sent)] for source, sent in found.senders
    ]
    tables: Blocks = []
    if hosts_of:
        tables.append(
            PageTable(
                "Hosts that were recorded before and had no burst", ["Interface", "Bursts", "Time in bursts"], hosts_of
            )
        )
    if senders_of:
        tables.append(
            PageTable("Senders that were in no burst's fan-in before", ["Sender", "Bytes in bursts"], senders_of)
        )
    return tables or [Paragraph("None: every host that burst, and every sender that fed bursts, did so before.")]


def worst(report: RackFigures) -> PageTable | Paragraph:
    """Returns the largest bursts by bytes."""
    if not report.worst:
        return Paragraph("None.")
    rows = [
        [
            lane_name(_BurstLane(burst)),
            words.dated(
                burst["start_ns"],
                words.exact_clock(burst["start_ns"], burst["bin_ns"]),
                report.until_ns - report.since_ns,
            ),
            PATTERN_NAMES.get(burst["pattern"], burst["pattern"]),
            senders_text(burst, 2),
            format_duration(burst["duration_ns"]),
            format_bytes(burst["bytes"]),
            format_share(burst["mean_utilization"]),
            format_share(burst["peak_utilization"]),
            f"{burst['fan_in']:,}" if burst["fan_in"] else "–",
        ]
        for burst in report.worst
    ]
    return PageTable(
        f"The {len(rows)} largest of {format_count(report.bursts, 'burst')}",
        ["Interface", "Start, UTC", "Pattern", "Top senders", "Duration", "Bytes", "Mean", "Peak", "Fan-in"],
        rows,
        4,
    )


class _BurstLane:
    """The name of a burst's lane."""

    def __init__(self, burst: dict[str, str]) -> None:
        self.host, self.interface, self.direction = burst["host"], burst["interface"], burst["direction"]
