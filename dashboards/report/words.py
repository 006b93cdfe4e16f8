"""Facts of a lane in words: the limits of the data, its losses, and what they mean for the figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...analysis.answers.lane_report import LaneReport
from ...analysis.model.carried import NO_LINK, WHY, impossible_bursts
from ...analysis.model.endings import late_text
from ...ethernet import FULL_FRAME_WIRE_BYTES
from ...quality import STAMP_NAMES, STAMPERS, Quality
from ...units import format_bytes, format_count, format_duration, format_rate, format_share
from ..common.flow_control_words import UNKNOWN, about_words, head_words
from ..common.words import GOOD, NOTE, WARNING, Statement, above_line_rate, impossible_windows, missing_files, rate

OF_SAMPLES = Quality.RESET | Quality.IMPOSSIBLE | Quality.GAP | Quality.GUESSED | Quality.JITTER


def statements(report: LaneReport) -> list[Statement]:
    """Returns everything to know before trusting the figures of a lane, the most important first."""
    if report.is_elsewhere:
        text = "The recordings of this interface are of other times."
        if any(recording["ended"] == "" for recording in report.lane.recordings):
            text += " One of them has not ended: no bin of it is of this time so far."
        return [*missing_files(report.damaged), Statement(NOTE, "No recording of this time", text)]
    found = [
        *missing_files(report.damaged),
        *_completeness(report),
        *_overlap(report),
        *_link(report),
        *_clock(report),
        *(_samples(report) if report.lane.is_port else _packets(report)),
        *_recording(report),
        *impossible_windows(sum(queue.impossible for queue in report.queues)),
        *canaries(report),
    ]
    order = (WARNING, NOTE, GOOD)
    return sorted(found, key=lambda statement: order.index(statement.level))


def _packets(report: LaneReport) -> Iterator[Statement]:
    """Yields statements on packets and their timestamps; a switch's port has none."""
    yield from _loss(report)
    yield from _stamps(report)
    yield from _frames(report)
    yield from _senders(report)
    yield from _flow_control(report)


def canaries(report: LaneReport) -> Iterator[Statement]:
    """Yields a statement that canary bursts, sent to measure the detection limit, are not the host's own traffic."""
    if found := report.canaries:
        senders = ", ".join(sorted({burst["top_sources"][0]["source"] for burst in found})[:3])
        are = "is a canary burst" if len(found) == 1 else "are canary bursts"
        yield Statement(
            NOTE,
            f"{len(found):,} of {format_count(len(report.bursts), 'burst')} {are}",
            f"mburst canary sent them from {senders} to measure what is detected. The table calls them "
            "canary; times, sums and distributions count them like any other.",
        )


def _completeness(report: LaneReport) -> Iterator[Statement]:
    if report.endings:
        all_recordings = len(report.lane.recordings)
        which = (
            "The recording is" if all_recordings == 1 else f"{len(report.endings)} of {all_recordings} recordings are"
        )
        yield Statement(
            WARNING,
            f"{which} not complete",
            "What was stored until then is shown. "
            + "; ".join(f"{ending[0].upper()}{ending[1:]}" for ending in report.endings[:5])
            + ".",
        )
    pauses = len(report.coverage) - 1
    if pauses > 0:
        yield Statement(
            NOTE,
            f"{format_count(pauses, 'pause')} between recordings",
            f"{format_duration(report.recorded_ns)} were recorded of "
            f"{format_duration(report.end_ns - report.start_ns)}. Pauses are empty in the figure: "
            "traffic in them is not known.",
        )


def _overlap(report: LaneReport) -> Iterator[Statement]:
    if report.repeated_ns:
        yield Statement(
            WARNING,
            f"{format_duration(report.repeated_ns)} were recorded more than once",
            "Recordings of this interface overlap in time, or its clock was set back. Sums count such time once for "
            "each, and its bursts are listed for each. Means and the 1 s average count it once, by the fullest of "
            "simultaneous bins.",
        )


def _samples(report: LaneReport) -> Iterator[Statement]:
    """Yields a statement on missing samples of a switch's port."""
    if report.losing:
        yield Statement(
            WARNING,
            "Samples of the switch are missing",
            "What the port carried then is not known. Counts are lower bounds in the time marked in the figure, and "
            "bursts can have been missed there.",
        )
        return
    doubts = [quality for quality in report.qualities if quality.bit & OF_SAMPLES]
    if doubts:
        said = "; ".join(f"{doubt.meaning} ({format_count(doubt.bins, 'bin')})" for doubt in doubts)
        yield Statement(NOTE, "Not every bin has a sample of its own", f"{said[0].upper()}{said[1:]}.")
    elif all(recording["complete"] for recording in report.lane.recordings):
        yield Statement(GOOD, "No sample is missing", "The switch sampled this port in all of the recorded time.")


def of_recordings(report: LaneReport, text: str) -> str:
    """Returns what TEXT says of counts of recordings, and whether these reach beyond the period."""
    return f"{text} This is of whole recordings, which reach beyond this time." if report.is_part else text


def _loss(report: LaneReport) -> Iterator[Statement]:
    lane = report.lane
    late, recorded = lane.total("late"), lane.total("packets")
    marked = sum("drops" in burst["quality"] for burst in report.bursts)
    if report.loss.dropped:
        head = report.loss.sentence_with("before they were seen")
        text = (
            f"{f'That is {report.loss.share}. ' if report.loss.share else ''}Counts, utilization and senders are lower "
            "bounds where packets were lost, and bursts can have been missed there."
        )
        if marked:
            were = "was" if marked == 1 else "were"
            text += f" {format_count(marked, 'burst')} in the table {were} measured under loss."
        yield Statement(WARNING, f"{head[0].upper()}{head[1:]}", of_recordings(report, text))
    elif report.losing:
        yield Statement(
            WARNING,
            "Packets were lost while this was recorded",
            "How many is not known. Counts are lower bounds in the time marked in the figure.",
        )
    elif "file" in lane.distinct("backend"):
        yield Statement(
            NOTE,
            "The capture file names no dropped packet",
            "Few recorders write down what they missed, so loss cannot be ruled out.",
        )
    elif all(recording["complete"] for recording in lane.recordings):
        yield Statement(GOOD, "No packet was dropped", "The recorder saw every packet that the interface gave it.")
    if late:
        yield Statement(
            WARNING,
            late_text(late),
            of_recordings(
                report,
                f"{format_share(late / (late + recorded))} of all, {format_bytes(lane.total('late_bytes'))}: they are "
                "missing from the figures.",
            ),
        )


def _link(report: LaneReport) -> Iterator[Statement]:
    link, width = report.lane.link_bps, report.lane.bin_ns
    if not link:
        yield Statement(
            WARNING,
            "The link's speed is not known",
            "Rates are shown instead of utilization, and no burst can be detected, because a burst is a "
            f"share of line rate. {'Give it' if report.lane.is_port else 'Record again'} with --link, for example "
            "--link 10G.",
        )
        return
    frame = max(FULL_FRAME_WIRE_BYTES, report.largest_frame or 0)
    frame_ns = frame * 8e9 / link
    if width < frame_ns:
        yield Statement(
            NOTE,
            "The bins are shorter than a frame",
            f"A frame of {frame:,} bytes on the wire takes {format_duration(frame_ns)} at "
            f"{format_rate(link)} and counts whole in the bin of its stamp: a bin of {format_duration(width)} "
            f"reads 0 or {format_share(frame_ns / width)}. Look at utilization over several bins.",
        )
    second = report.busiest_second.wire_bytes * 8 / link if report.busiest_second else 0.0
    if second > 1.02:
        yield Statement(
            WARNING,
            f"A whole second reads {format_share(second)} of line rate",
            f"No link carries that: it is faster than {format_rate(link)}, both directions were recorded "
            "as one, or the same traffic was recorded twice.",
        )
    elif found := impossible_bursts(report.bursts):
        yield Statement(
            WARNING,
            found.words,
            f"{NO_LINK[0].upper()}{NO_LINK[1:]}: it may be faster than {format_rate(link)}, {WHY}.",
        )
    elif report.busiest_bin:
        most = report.busiest_bin.wire_bytes * 8e9 / width / link
        if width >= frame_ns and most > 1 + frame_ns / width + 0.02:
            yield Statement(
                NOTE,
                f"Single bins read up to {format_share(most)} of line rate",
                f"{_excess(report, frame, 1 + frame_ns / width)} Edges and peaks are less sure than the bins of "
                f"{format_duration(width)} suggest.",
            )


def _excess(report: LaneReport, frame: int, explained: float) -> str:
    """Returns why bins read more than line rate and a frame of FRAME wire bytes; the frame explains EXPLAINED, a share
    of line rate."""
    if report.lane.is_port:
        return f"The link cannot carry that: {above_line_rate(True)}."
    return (
        f"A frame counts whole in the bin of its stamp: that explains up to {format_share(explained)}, with frames of "
        f"{frame:,} bytes on the wire. Beyond that, frames were larger, were stamped closer together than they "
        f"arrived, or the link is faster than {format_rate(report.lane.link_bps or 0)}."
    )


def _clock(report: LaneReport) -> Iterator[Statement]:
    steps = sum(int(recording["clock_epochs"]) - 1 for recording in report.lane.recordings)
    if steps > 0:
        yield Statement(
            WARNING,
            f"The clock stepped {'once' if steps == 1 else f'{steps} times'}",
            of_recordings(
                report,
                "No bin spans a step, but times before and after it do not fit together, and gaps across it mean "
                "nothing.",
            ),
        )


def _stamps(report: LaneReport) -> Iterator[Statement]:
    lane = report.lane
    qualities = {quality.name: quality for quality in report.qualities}
    stamped = [
        f"{quality.meaning} ({format_share(quality.bins / report.bins)} of bins)"
        for name, quality in qualities.items()
        if name in {STAMP_NAMES[bit] for bit in STAMPERS}
    ]
    clocks = "; ".join(lane.distinct("clock"))
    if stamped:
        yield Statement(
            GOOD if "ring" not in qualities else NOTE,
            "Packets were " + ", ".join(stamped),
            f"Clock: {clocks}." if clocks else "",
        )
    elif report.bins:
        yield Statement(NOTE, "What stamped the packets is not known", f"Clock: {clocks}." if clocks else "")
    if "file-µs" in qualities:
        fine = lane.bin_ns <= 10_000
        yield Statement(
            WARNING if fine else NOTE,
            "The file's stamps resolve 1 µs or less finely",
            f"For bins of {format_duration(lane.bin_ns)} that "
            + ("is coarse: edges of bursts are not sure." if fine else "does."),
        )
    if "unsynced" in qualities:
        yield Statement(
            NOTE,
            "The clock was not synchronized",
            "Durations hold; times cannot be compared with those of other hosts or of a switch.",
        )


def _frames(report: LaneReport) -> Iterator[Statement]:
    qualities = {quality.name: quality for quality in report.qualities}
    merged = qualities.get("gro")
    if merged:
        offloads = " ".join(report.lane.distinct("offloads"))
        yield Statement(
            WARNING,
            f"{format_share(merged.bins / report.bins)} of bins hold merged frames (GRO or TSO)",
            "The host merged packets before they were captured. Wire bytes are estimated from segments, "
            "and up to 64 KiB count at one instant: single bins read too high, and their neighbours too "
            "low. " + offloads,
        )
    elif report.lane.distinct("offloads"):
        yield Statement(NOTE, "Merged frames", " ".join(report.lane.distinct("offloads")))


def _senders(report: LaneReport) -> Iterator[Statement]:
    lane = report.lane
    unparsed, unknown = lane.total("unparsed"), lane.total("unattributed_packets")
    if unparsed:
        yield Statement(
            NOTE,
            f"{format_count(unparsed, 'packet')} counted by length alone",
            of_recordings(report, "Their headers were not understood. Utilization has them in full."),
        )
    if unknown:
        share = lane.total("unattributed_bytes") / max(lane.total("bytes"), 1)
        yield Statement(
            NOTE,
            f"{format_count(unknown, 'packet')} without a sender",
            of_recordings(
                report, f"{format_share(share)} of all bytes are in the figures, but not assigned to a sender."
            ),
        )
    if any(quality.name == "truncated" for quality in report.qualities):
        lengths = ", ".join(f"{length:,}" for length in lane.distinct("snaplen") if length)
        yield Statement(
            NOTE,
            "The snap length cut headers",
            f"At {lengths or 'that many'} bytes a packet, some senders or marks are not known; bytes are exact.",
        )


def _flow_control(report: LaneReport) -> Iterator[Statement]:
    found = report.flow_control
    if found.seen:
        yield Statement(NOTE, head_words(found), about_words(found, report.lane.direction))
    if found.unknown:
        yield Statement(NOTE, *UNKNOWN)


def _recording(report: LaneReport) -> Iterator[Statement]:
    lane = report.lane
    if lane.distinct("filter"):
        yield Statement(
            NOTE,
            "Only part of the traffic was recorded",
            f"Filter: {'; '.join(lane.distinct('filter'))}. Utilization is that of the matching packets.",
        )
    notes = list(
        dict.fromkeys(
            line.strip() for recording in lane.recordings for line in recording["notes"].splitlines() if line.strip()
        )
    )
    for note in notes[:6]:
        yield Statement(NOTE, "The recorder noted", note)
    if len(notes) > 6:
        yield Statement(
            NOTE, "The recorder noted more", f"{format_count(len(notes) - 6, 'further note')} in this page's JSON file."
        )


def resolution(report: LaneReport) -> str:
    """Returns the resolution of the bins in the page."""
    width = format_duration(report.lane.bin_ns)
    if report.base.width_ns == report.lane.bin_ns:
        return f"This page holds every recorded bin of {width}, {report.bins:,} of them."
    text = (
        f"{report.bins:,} bins of {width} were recorded, more than a page can hold. Here are their maximum and "
        f"mean in cells of {format_duration(report.base.width_ns)}"
    )
    if report.detail is not None and len(report.detail):
        text += f", and every bin of {width} around the largest bursts: zoom in on one of them to see it"
    return text + "."


def summary_rows(report: LaneReport) -> dict[str, Any]:
    """Returns the line of a lane in the overview: texts, with their sort keys."""
    lane = report.lane
    once = int(report.seconds.total.sum())  # wire bytes: not those of each recording of the same time
    mean = once * 8e9 / report.recorded_ns if report.recorded_ns else 0.0
    second = report.busiest_second.wire_bytes * 8.0 if report.busiest_second else 0.0
    top = report.busiest_window.wire_bytes * 8e9 / report.window_ns if report.busiest_window else 0.0
    return {
        "bursts": (f"{len(report.bursts):,}" if lane.link_bps else "–", len(report.bursts)),
        "share": (
            format_share(report.burst_ns / report.recorded_ns) if lane.link_bps and report.recorded_ns else "–",
            report.burst_ns / (report.recorded_ns or 1),
        ),
        "mean": (rate(mean, lane.link_bps), mean),
        "second": (rate(second, lane.link_bps), second),
        "window": (f"{rate(top, lane.link_bps)} in {format_duration(report.window_ns)}", top),
    }
