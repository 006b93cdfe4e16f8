"""Single phrases of an investigation: numbers with their uncertainty; senders, times and amounts in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

import numpy as np

from ...analysis.answers.investigate import Finding, InvestigationResult
from ...analysis.bursts.contention import Contention
from ...analysis.cause.conservation import Agreement
from ...analysis.cause.evidence.switch import PortQueue
from ...analysis.cause.fanin import Group
from ...analysis.cause.port import Port
from ...analysis.cause.scene import Evidence
from ...analysis.cause.trigger import LEAST_P
from ...analysis.cause.verdict import Verdict, queueing_ports
from ...analysis.model.lines import Line
from ...analysis.model.stats import Estimate
from ...analysis.whatif.replay import PredictedLatency, Replay
from ...senders import called, named_address, port_text, services_text
from ...units import format_bytes, format_count, format_duration, format_number, format_rate, format_share
from ..common.words import period

STAGES = {
    "send": "in the sender's host, application to interface",
    "forward": "in the network, towards the destination",
    "turn": "in the destination's host",
    "back": "in the network, on the way back",
    "receive": "in the sender's host, interface to application",
    "round_trip": "between the sender's stamps: network or far host",
    "return": "on the way back: network or host",
}
CAUSES = {
    "bursts": "Bursts cause the tail",
    "host": "The hosts cause the tail, not the network",
    "elsewhere": "The network causes the tail, but not the bursts of the recorded ports",
    "none": "There is no tail to explain",
    "undetermined": "The cause cannot be determined",
}


NEARLY_ALL = 0.9  # of the lateness: the other senders need no mention
ASKED = {  # if pause frames are the cause
    "host": "A host causes the tail: it asked the switch to stop sending to it",
    "elsewhere": "The network causes the tail: the switch asked the host to stop sending",
}


def cause_words(verdict: Verdict) -> str:
    """Returns the verdict as a heading."""
    return (ASKED if verdict.paused else CAUSES)[verdict.cause]


def of_what_words(finding: Finding) -> str:
    """Returns the path and port of a prediction."""
    crossing = finding.evidence.crossing
    return f"Path: {finding.evidence.path}" + (f", {port_words(crossing.port)}." if crossing else ".")


def examined_words(answer: InvestigationResult) -> str:
    """Returns the time of the answer."""
    return f"Examined: {period(*answer.span)}."


def title_words(answer: InvestigationResult) -> str:
    """Returns the verdict on the deciding path as a heading."""
    return cause_words(answer.findings[0].verdict) if answer.findings else CAUSES[answer.cause]


def share_words(share: float) -> str:
    """Returns a share, without meaningless digits if it is nearly 0."""
    return "under 0.01 %" if 0 < share < 1e-4 else format_share(share)


def share_range(estimate: Estimate) -> str:
    """ "99.8 % (99.6 % to 99.9 %)" """
    if np.isnan(estimate.low):
        return share_words(estimate.value)
    return f"{share_words(estimate.value)} ({share_words(estimate.low)} to {share_words(estimate.high)})"


def number_range(estimate: Estimate) -> str:
    """Returns an estimate with its interval."""
    if isinf(estimate.high):
        return f"{format_number(estimate.value)} ({format_number(estimate.low)} or more)"
    return f"{format_number(estimate.value)} ({format_number(estimate.low)} to {format_number(estimate.high)})"


def risk_words(risk: Estimate) -> str:
    """Returns how much more often probes are late in bursts."""
    if isinf(risk.high):
        return f"A probe in a burst is at least {format_number(risk.low)} times as likely to be late: no other one was."
    interval = f"({format_number(risk.low)} to {format_number(risk.high)})"
    return f"A probe in a burst is {format_number(risk.value)} times as likely to be late {interval}."


def who_words(groups: Sequence[Group], where: Port | None = None) -> str:
    """Returns who sends the bursts that cause most lateness, and what triggers them. WHERE: the port of these bursts,
    if that is not clear."""
    group, begin, rest = groups[0], f"Those {port_words(where)} come from" if where else "They come from", ""
    if (share := group.share_of_lateness) is not None and share < NEARLY_ALL:
        begin = f"Of the lateness in them, {share_words(share)} is in those from"
        rest = "; the rest is in other bursts"
    service = f" from port {port_text(group.port)}" if group.port else ""
    if group.pattern in ("single-source", "canary"):
        return f"{begin} {group_name(group)}{service}{rest}."
    asked = ""
    if group.trigger and group.trigger.is_sure:
        on = f" on port {port_text(group.trigger.port)}" if group.trigger.port else ""
        is_asked = len(group.services) == 1 and group.trigger.port == group.port is not None
        of = f" of {called(group.services[0]['service'])}" if is_asked and is_of_services(group) else ""
        lead = format_duration(group.trigger.lead_ns)
        asked = f", {lead} after this host asked {group.trigger.flows}{of} at once{on}"
    return f"{begin} {group_name(group)}: {group.fan_in} at once ({group.pattern}){service}{asked}{rest}."


def is_of_services(group: Group) -> bool:
    """Returns whether most of the group's members belong to its services."""
    return bool(services_text(group.services, len(group.members)))


def group_name(group: Group) -> str:
    """ "198.19.0.0/26 (40 senders)", "40 of db-shard (rack r7), 198.19.0.0/26 (40 senders)", "db-7 (198.19.0.7)" """
    if len(group.members) == 1:
        return member_name(group, group.members[0])
    text = services_text(group.services, len(group.members))
    return f"{text}, {group.name}" if text else group.name


def member_name(group: Group, address: str) -> str:
    """Returns a member by its name and address."""
    of = group.called.get(address)
    return named_address(address, of.name if of else None)


def port_words(port: Port) -> str:
    """ "into cache (eth0, 1 Gb/s)", "into cache (switch port tor1 Ethernet0, 1 Gb/s)" """
    way = {"in": "into", "out": "out of"}.get(port.direction, "seen at")
    interface = f"{port.interface}, " if port.interface != port.host else ""
    if port.switch:
        interface = f"switch port {' '.join(port.switch[:2])}, "
    return f"{way} {port.host} ({interface}{format_rate(port.link_bps)})"


def ports_words(ports: Sequence[Port]) -> str:
    """ "into cache (eth0, 1 Gb/s)", "out of api (eth0, 1 Gb/s) or into cache (eth0, 1 Gb/s)" """
    return " or ".join(map(port_words, ports))


def unknown_senders_words(port: Port) -> str:
    """Returns why the senders of a switch's port are unknown, and what would show them."""
    behind = f"{port.host} ({port.interface})" if port.is_stand_in else "the host behind it"
    return (
        f"Who sends them is not known, since a switch's port counts bytes alone: `mburst record` on {behind} shows it."
    )


def p_words(p: float) -> str:
    """ "p = 0.012", "p < 1e-300" """
    return f"p = {p:.2g}" if p > LEAST_P else f"p < {LEAST_P:.0g}"


def before_words(evidence: Evidence) -> str:
    """Returns a sentence on what only a switch's queue windows can show; '' if they did, or if the queue is in the
    recorded host."""
    port, ports = evidence.crossing.port if evidence.crossing else None, queueing_ports(evidence)
    if port is None or (evidence.switch is not None and evidence.switch.seen):
        return ""
    if len(ports) > 1:
        names = " or at ".join(of.name for of in ports)
        behind = " and ".join(of.name for of in ports if of.direction != "out")  # the others queue in their hosts
        shown = f"the switch's queue windows of {behind} would" if behind else "what they carried does not"
        where = " (`mburst collect`, `mburst import queues`)" if behind else ""
        return f"The queue was at {names}, which were full at the same times: {shown} show which{where}."
    if port.direction == "out":
        return ""
    return (
        f"The queue was at {port.name} or at a port of its speed before it: the switch's queue windows would show "
        "(`mburst collect`, `mburst import queues`)."
    )


def pauses_words(evidence: Evidence) -> str:
    """Returns a sentence on what predictions leave out if a port of the path was asked to stop; else ''."""
    if evidence.paused is None:
        return ""
    could = share_range(evidence.paused.could)
    return f"The model has no pause frames, which can account for up to {could} of the late probes' excess."


def place_words(evidence: Evidence, account: str, group: str) -> str:
    """Returns where an account's share of the excess was spent: its stage, or GROUP with the share of each stage."""
    places = sorted(evidence.places[account].items(), key=lambda place: -place[1])
    if len(places) == 1:
        return STAGES[places[0][0]]
    each = "; ".join(f"{share_words(share)} {STAGES[stage]}" for stage, share in places)
    return f"{group} ({each})"


def lag_words(evidence: Evidence) -> str:
    """ "at once (± 0.3 ms; asymmetry 0.01)" """
    lag = evidence.lag_ns or 0.0
    text = "at once" if not lag else f"{format_duration(abs(lag))} {'after' if lag > 0 else 'before'} it"
    scan = evidence.scan
    if scan is None or len(scan.lags) < 2:
        return text
    step = float(scan.lags[1] - scan.lags[0])
    return f"{text} (± {format_duration(step)}; asymmetry {round(scan.asymmetry, 2) + 0.0:+.2f})"


def lag_sample(evidence: Evidence) -> str:
    return format_count(evidence.scan.waits, "wait") if evidence.scan else ""


def r_words(r: Estimate) -> str:
    return f"r = {between(r)}"


def between(estimate: Estimate) -> str:
    """ "0.852 (0.847 to 0.857)" """
    if not np.isfinite((estimate.low, estimate.high)).all():
        return f"{estimate.value:.3f} (no bound is known)"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def line_words(line: Line) -> str:
    return f"{between(line.slope)} ns for each ns, {r_words(line.r)}"


def contention_words(seen: Contention) -> str:
    """Returns whether hosts of a rack burst together."""
    if not seen.pairs:
        return f"None of the {format_count(seen.bursts, 'burst')} overlaps one of another recorded host of its rack."
    (first, second), shared_ns = seen.pairs[0].hosts, seen.pairs[0].shared_ns
    return (
        f"Contention: {share_words(seen.share)} of {format_count(seen.bursts, 'burst')} overlap one of another host of "
        f"their rack ({share_words(seen.usual)} would by chance), longest {first} and {second} "
        f"({format_duration(shared_ns)}); at "
        f"most {seen.most} hosts of a rack burst at once."
    )


def queue_words(port: Port, queue: PortQueue) -> str:
    """Returns the fullest window of a queue, and its drops."""
    peak = float(queue.max_bytes.max(initial=0.0))
    width = float(np.median(queue.end - queue.start))
    lost = "" if queue.dropped is None else f", {format_count(queue.dropped, 'packet')} dropped"
    marked = "" if queue.marked is None else f", {format_count(queue.marked, 'packet')} marked with ECN"
    return (
        f"{queue.name}, {'of' if port.switch else 'before'} {port.name}: up to {format_bytes(peak)} in one of "
        f"{format_count(len(queue.end), 'window')} of {format_duration(width)}, which take "
        f"{format_duration(peak / port.link_bps * 8e9)} at line rate{lost}{marked}."
    )


def model_words(replay: Replay) -> str:
    """Returns how well the model reproduces the measurements."""
    fit_of = f"; r = {replay.r:.3f} against the measured waits" if replay.r is not None else ""
    came = (
        "as the recorded senders' bins show"
        if replay.arrival_share is None
        else f"as the probes in it show, mostly in the first {format_share(replay.arrival_share)} of it"
    )
    return (
        f"The model repeats the recorded situation with a median error of {format_duration(replay.error_ns)} "
        f"({format_share(replay.relative_error)}; nine in ten within {format_duration(replay.error_high_ns)}) in the "
        f"wait of {format_count(replay.n, 'late probe')} that it was not made from{fit_of}. It takes the bytes of each "
        "busy period to arrive "
        f"{came}, and each sender to send what it sent, when it did."
    )


def p99_range(outcome: PredictedLatency) -> str:
    """ "1.2 ms to 3.4 ms" """
    low, high = outcome.p99_range or (0.0, np.inf)
    if not np.isfinite(high):
        return f"{format_duration(low)} or more"
    return f"{format_duration(low)} to {format_duration(high)}"


def unsure_words(outcomes: list[PredictedLatency]) -> list[str]:
    """Returns why the p99 of some changes cannot be predicted, and its range: a sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.unsure:
            reasons.setdefault(outcome.unsure, []).append(f"{p99_range(outcome)} with {outcome.change.name}")
    return [f"Cannot be predicted, since {why}: p99 is {'; '.join(ranges)}." for why, ranges in reasons.items()]


def wrong_words(row: Agreement) -> str:
    """Returns who is wrong if sources disagree."""
    return {
        "host": "the recording is wrong",
        "switch": "the switch's counter is wrong",
        "link": "the link is wrong",
    }.get(row.blamed, "who is wrong cannot be determined")
