"""A rack's report in words: what happened, what changed, and what to know before trusting the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ...analysis.canary.sensitivity import curve_setting
from ...analysis.model.coarse import FINE_NS
from ...analysis.model.endings import late_text
from ...analysis.rack.change import RackChange, Rates
from ...analysis.rack.period import RackLane
from ...analysis.rack.report import RackFigures
from ...quality import COARSE_STAMPS, Quality
from ...units import NS_PER_DAY, format_count, format_number, format_share
from ..common.flow_control_words import UNKNOWN, about_words, head_words
from ..common.sensitivity_words import seen_words
from ..common.words import (
    DIRECTIONS,
    NOTE,
    WARNING,
    Statement,
    count_hosts,
    impossible_windows,
    long,
    missing_files,
    moment,
)

UNNAMED = "unnamed host"
WHOLE = 0.99  # share of the period from which no statement says that an interface was recorded for less
NOTHING, NO_SPEED, NO_INBOUND = "nothing recorded", "no link speed known", "no inbound recording"
_UNKNOWN = {
    NOTHING: "Nothing of this rack was recorded in this time.",
    NO_SPEED: "The link speed is not known of any recording of what hosts receive, so that no burst can be detected: "
    "record with --link.",
    NO_INBOUND: "Nothing that hosts receive was recorded, so that no burst that reaches a host can be detected.",
}
MOST_ASKED = 5  # directions with pause frames and congestion notifications that are named


def period(since_ns: int, until_ns: int) -> str:
    """ "2026-11-20, the whole day" or start and end, in UTC."""
    if since_ns % NS_PER_DAY == 0 and until_ns - since_ns == NS_PER_DAY:
        return f"{datetime.fromtimestamp(since_ns // 10**9, UTC):%A %Y-%m-%d}, UTC"
    return f"{moment(since_ns)} – {moment(until_ns)} UTC"


def lane_name(lane: RackLane | Any, alone: bool = False) -> str:
    """ "h03 eth0 outbound"; the usual direction is left out if there is no other."""
    direction = "" if alone and lane.direction == "in" else DIRECTIONS.get(lane.direction, lane.direction)
    return " ".join(part for part in (lane.host or UNNAMED, lane.interface, direction) if part)


def recorders(lanes: Iterable[RackLane]) -> tuple[set[str], set[str]]:
    """Returns the hosts of LANES, and separately the switches that were recorded only by their ports."""
    listed = list(lanes)
    hosts = {lane.host for lane in listed if not lane.is_port}
    return hosts, {lane.host for lane in listed} - hosts


def lacks(report: RackFigures) -> str:
    """Returns why it is not known whether a host of the rack received a burst; '' if it is known."""
    if not report.lanes:
        return NOTHING
    if any(lane.recorded_ns for lane in report.inbound):
        return ""
    return NO_INBOUND if any(lane.link_bps for lane in report.inbound or report.lanes) else NO_SPEED


def missing(report: RackFigures) -> str:
    """ "1 host recorded before and not now", or ''."""
    before = report.previous
    if before is None or not (before.missing or before.missing_switches):
        return ""
    return f"{count_hosts(len(before.missing), len(before.missing_switches), 'switch')} recorded before and not now"


def verdict(report: RackFigures) -> str:
    """Describes the rack's period in a few sentences."""
    if (lacking := lacks(report)) in _UNKNOWN:
        return _UNKNOWN[lacking]
    bursting = _bursting(report.inbound)
    hosts = {lane.receiver for lane in report.inbound if lane.recorded_ns}
    n = sum(lane.bursts for lane in report.inbound)
    if not n:
        parts = [f"No burst reached {'the host' if len(hosts) == 1 else f'any of the {len(hosts)} hosts'} recorded"]
    else:
        worst, most_ns = bursting[0]
        who = f"{len(bursting)} of {format_count(len(hosts), 'host')}" if len(hosts) > 1 else worst or UNNAMED
        parts = [
            f"{who} received {format_count(n, 'burst')}, "
            f"{format_share(share(report.inbound))} of the time that was recorded"
        ]
        if len(bursting) > 1 and most_ns:
            part = most_ns / sum(burst_ns for _, burst_ns in bursting)
            parts.append(f"{format_share(part)} of the time in bursts fell on {worst or UNNAMED}")
    parts += list(_changes(report))
    return ". ".join(parts) + "."


def _bursting(inbound: Sequence[RackLane]) -> list[tuple[str, int]]:
    """Returns the hosts that received bursts, and their time in bursts over all of their interfaces, most first."""
    found: dict[str, tuple[int, int]] = {}
    for lane in inbound:
        if lane.bursts and lane.receiver is not None:
            burst_ns, bursts = found.get(lane.receiver, (0, 0))
            found[lane.receiver] = burst_ns + lane.burst_ns, bursts + lane.bursts
    ranked = sorted(found, key=lambda host: (-found[host][0], -found[host][1], host))
    return [(host, found[host][0]) for host in ranked]


def _changes(report: RackFigures) -> Iterator[str]:
    if report.previous and report.previous.comparable and (changed := change(report.previous)):
        yield f"Against the period before: {changed}"
    if report.dropping_queues:
        yield f"{format_count(report.dropping_queues, 'switch queue')} dropped {drops(report)}"
    if report.new and (report.new.lanes or report.new.senders):
        lanes, senders = report.new.lanes, report.new.senders
        receivers = {lane.receiver for lane in lanes if lane.receiver is not None}
        hosts, switches = recorders(lane for lane in lanes if lane.receiver is None)
        kinds = ((receivers | hosts, "host"), (switches, "switch"), (senders, "sender"))
        *others, last = (format_count(len(found), noun) for found, noun in kinds if found)
        yield f"New: {' and '.join(filter(None, (', '.join(others), last)))}"


def drops(report: RackFigures) -> str:
    """ "at least 3 packets": the drops of the switch, as far as its queues report them."""
    if report.queue_drops is None:
        return "not reported"
    return f"{'at least ' if report.uncounted_queues else ''}{format_count(report.queue_drops, 'packet')}"


def share(lanes: Sequence[RackLane]) -> float:
    """Returns the share of recorded time in bursts."""
    recorded = sum(lane.recorded_ns for lane in lanes if lane.link_bps)
    return sum(lane.burst_ns for lane in lanes) / recorded if recorded else 0.0


def change(found: RackChange) -> str:
    """ "12 % more bursts an hour", or '' if there were and are none."""
    now, then = found.now.per_hour or 0.0, found.then.per_hour or 0.0
    if not now and not then:
        return ""
    return f"{ratio(now, then)} bursts an hour"


def ratio(now: float, then: float) -> str:
    """Returns how a number changed: "12 % more", "3.4 times as many", "as many", "none then"."""
    if not then:
        return "for the first time" if now else "no"
    if not now:
        return "no more"
    if now >= 2 * then:
        return f"{format_number(now / then)} times as many"
    percent = 100 * (now / then - 1)
    if percent <= -99.5:  # not 100 % fewer: that is none
        return f"{format_number(then / now)} times fewer"
    if abs(percent) < 0.5:
        return "as many"
    return f"{format_number(abs(percent), 2)} % {'more' if percent > 0 else 'fewer'}"


def changed(now: Rates, then: Rates) -> str:
    """Returns `ratio` of the bursts an hour; "–" if nothing was recorded now, or then."""
    if now.per_hour is None or then.per_hour is None:
        return "–"
    return ratio(now.per_hour, then.per_hour)


def rates(found: Rates) -> str:
    """ "3.2 an hour, 0.12 % of the time" """
    if found.per_hour is None or found.share is None:
        return "not recorded"
    return f"{format_number(found.per_hour)} an hour, {format_share(found.share)} of the time"


def recorded_part(report: RackFigures) -> str:
    """ "967 ms to 50 min of 1 h": how long the interfaces were recorded; '' if all were for the whole time, or none."""
    times, span = [lane.recorded_ns for lane in report.lanes if lane.link_bps], report.until_ns - report.since_ns
    if not report.recorded or not times or min(times) >= WHOLE * span:
        return ""
    return f"{' to '.join(dict.fromkeys((long(min(times)), long(max(times)))))} of {long(span)}"


def statements(report: RackFigures) -> list[Statement]:
    """Returns what to know before trusting the figures."""
    found = [
        *missing_files(report.damaged),
        *_recording(report),
        *_loss(report),
        *_clocks(report),
        *_stamps(report),
        *_flow_control(report),
        *_baseline(report),
        *_canaries(report),
        *impossible_windows(report.impossible_windows),
    ]
    return sorted(found, key=lambda statement: (WARNING, NOTE).index(statement.level))


def _recording(report: RackFigures) -> Iterator[Statement]:
    span = report.until_ns - report.since_ns
    examined = [lane for lane in report.lanes if lane.link_bps]
    part = [lane for lane in examined if lane.recorded_ns < WHOLE * span]
    if report.recorded and part:
        least = min(part, key=lambda lane: lane.recorded_ns)
        yield Statement(
            NOTE,
            f"Not all of the time was recorded: {len(part)} of {len(examined)} interfaces and directions",
            f"Least of {lane_name(least)}: {long(least.recorded_ns)} of {long(span)}. Shares are of what was recorded.",
        )
    if unknown := [lane for lane in report.lanes if not lane.link_bps]:
        yield Statement(
            WARNING,
            f"The link speed is not known of {', '.join(lane_name(lane) for lane in unknown[:3])}"
            + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""),
            "A burst is a share of line rate, so none can be detected there: record with --link.",
        )
    if report.overlaps:
        yield Statement(
            WARNING,
            f"{format_count(report.overlaps, 'pair')} of recordings cover the same interface and time",
            "Their bursts are counted for each; the time in bursts counts once.",
        )
    if report.previous and (head := missing(report)):
        names = [*report.previous.missing, *report.previous.missing_switches]
        yield Statement(WARNING, head, ", ".join(names[:10]) + (" …" if len(names) > 10 else ""))


def _canaries(report: RackFigures) -> Iterator[Statement]:
    """Yields statements on bursts that mburst itself sent; without any, on the smallest detectable burst."""
    if report.canaries:
        number, senders = len(report.canaries), sorted(set(report.canaries))
        are = "is a canary burst" if number == 1 else "are canary bursts"
        yield Statement(
            NOTE,
            f"{format_count(number, 'burst')} here {are}",
            f"mburst canary sent them from {', '.join(senders[:3])} to measure what is detected.",
        )
    if report.recorded and not report.bursts:
        asked = [
            curve_setting({"rack": report.rack, **vars(lane)}, report.definition, lane.quality)
            for lane in report.inbound
        ]
        text = seen_words(report.curves, [one for one in asked if one], report.until_ns)
        yield Statement(NOTE, "What no burst means", text)


def _loss(report: RackFigures) -> Iterator[Statement]:
    if losing := [lane for lane in report.lanes if (lane.loss.dropped or lane.losing_bins) and not lane.is_port]:
        hosts = sorted({lane.host or UNNAMED for lane in losing})
        bins = sum(lane.losing_bins for lane in losing)
        yield Statement(
            WARNING,
            f"Packets were lost while recording on {', '.join(hosts[:5])}" + (" and others" if len(hosts) > 5 else ""),
            f"{_most_lost(report)}, {format_count(bins, 'bin')} of this time. Counts are lower bounds there."
            if bins
            else f"{_most_lost(report)}, as far as is known in no bin of this time. Counts can be lower bounds.",
        )
    if lacking := [lane for lane in report.lanes if lane.losing_bins and lane.is_port]:
        yield Statement(
            WARNING,
            f"Samples are missing of {', '.join(lane_name(lane) for lane in lacking[:5])}"
            + (" and others" if len(lacking) > 5 else ""),
            f"{format_count(sum(lane.losing_bins for lane in lacking), 'bin')} of this time. What the ports carried "
            "then is not known: counts are lower bounds there.",
        )
    if late := [lane for lane in report.lanes if lane.late]:
        yield Statement(NOTE, late_text(sum(lane.late for lane in late)), "")


def _most_lost(report: RackFigures) -> str:
    """Returns the most packets that were dropped on an interface, as far as that is known."""
    if not report.drops:
        return "How many is not known"
    most = format_count(max(of.dropped for of in report.drops), "packet")
    unknown = any(lane.losing_bins and not lane.loss.dropped and not lane.is_port for lane in report.lanes)
    if unknown or any(of.is_least for of in report.drops):
        return f"At least {most} on an interface"
    return f"{most} at most on an interface"


def _clocks(report: RackFigures) -> Iterator[Statement]:
    for bit, level, head, text in (
        (
            Quality.UNSYNCED,
            NOTE,
            "clocks were not synchronized",
            "Durations hold; contention between hosts, and latency or "
            "queues in bursts, may be assigned to the wrong time.",
        ),
        (Quality.STEPPED, NOTE, "clocks stepped", "No burst spans a step."),
        (
            Quality.GRO,
            NOTE,
            "bins hold merged frames (GRO or TSO)",
            "Single bins read too high, and their neighbours too low.",
        ),
    ):
        hosts, switches = recorders(lane for lane in report.lanes if lane.quality & bit)
        if hosts or switches:
            yield Statement(level, f"On {count_hosts(len(hosts), len(switches), 'switch')}, {head}", text)


def _stamps(report: RackFigures) -> Iterator[Statement]:
    hosts, switches = recorders(
        lane
        for lane in report.lanes
        if (report.definition.bin_ns or lane.bin_ns) < FINE_NS and lane.quality & COARSE_STAMPS
    )
    if names := sorted(hosts | switches):
        yield Statement(
            WARNING,
            f"On {count_hosts(len(hosts), len(switches), 'switch')}, stamps are too coarse for these bins",
            f"{', '.join(names[:5])}: some packets were stamped late or in µs (ring, file-µs). Frames "
            "that were stamped together make bursts of their own: use bins of 100 µs or more.",
        )


def _flow_control(report: RackFigures) -> Iterator[Statement]:
    """Yields statements on the directions with pause frames or congestion notifications, most pause frames first."""
    found = [lane for lane in report.lanes if lane.flow_control.seen]
    found.sort(key=lambda lane: (-(lane.flow_control.pause_frames or 0), -(lane.flow_control.cnp_packets or 0)))
    for lane in found[:MOST_ASKED]:
        asked = lane.flow_control
        yield Statement(NOTE, f"On {lane_name(lane)}, {head_words(asked)}", about_words(asked, lane.direction))
    if len(found) > MOST_ASKED:
        rest = f"{len(found) - MOST_ASKED:,} more interfaces and directions"
        yield Statement(NOTE, f"Pause frames or congestion notifications on {rest}", "This page's JSON file has them.")
    if unknown := sum(lane.flow_control.unknown for lane in report.lanes):
        head, text = UNKNOWN
        yield Statement(NOTE, f"{head} on {format_count(unknown, 'port direction')}", text)


def _baseline(report: RackFigures) -> Iterator[Statement]:
    if report.recorded and report.previous is None:
        yield Statement(
            NOTE,
            "Nothing was recorded in the period before",
            "What is new, and what changed since then, cannot be determined.",
        )
    for found, name in ((report.previous, "the period before"), (report.weekday, "the week before")):
        if found and not found.comparable:
            yield Statement(
                NOTE,
                f"Compare with {name} with care",
                f"{long(found.then.recorded_ns)} were recorded then, {long(found.now.recorded_ns)} now, "
                "summed over interfaces.",
            )


def summary(report: RackFigures) -> dict[str, Any]:
    """Returns this report's entry for an index of reports, a mail or an alert."""
    inbound = report.inbound
    bursting = _bursting(inbound)
    return {
        "rack": report.rack,
        "since_ns": report.since_ns,
        "until_ns": report.until_ns,
        "recorded": bool(report.lanes),
        "verdict": verdict(report),
        "hosts": len({lane.receiver for lane in inbound if lane.recorded_ns}),
        "bursting_hosts": len(bursting),
        "bursts": sum(lane.bursts for lane in inbound),
        "burst_ns": sum(lane.burst_ns for lane in inbound),
        "share": share(inbound),
        "longest_ns": max((lane.longest_ns or 0 for lane in inbound if lane.bursts), default=0),
        "worst_host": bursting[0][0] if bursting else "",
        "queue_drops": report.queue_drops,
        "dropped": sum(of.dropped for of in report.drops),
        "previous_per_hour": report.previous.then.per_hour if report.previous else None,
        "per_hour": report.previous.now.per_hour if report.previous else None,
        "new": len(report.new.lanes) + len(report.new.senders) if report.new else None,
        "warnings": [statement.head for statement in statements(report) if statement.level == WARNING],
        "recorded_part": recorded_part(report),
        "lacks": lacks(report),
        "missing": missing(report),
    }
