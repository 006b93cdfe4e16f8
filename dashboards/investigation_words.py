"""The answers of an investigation as sentences and tables, in the order in which an engineer asks. Figures and formats
(HTML, Markdown) are made from these alone, so that they cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..analysis.cause import PAIRINGS, SHIFTS, Evidence
from ..analysis.fanin import Group
from ..analysis.fanout import SENSITIVITIES, delay_beyond, slow_requests
from ..analysis.investigate import Finding, Investigation
from ..analysis.queue import Outcome, Replay
from ..analysis.stats import Estimate, Fit
from ..units import format_bytes, format_duration, format_rate, format_share

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
    "undetermined": "The cause cannot be told",
}


@dataclass
class Section:
    """A question, its answer in sentences, and a table where numbers are many."""

    question: str
    sentences: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def time_or_none(ns: float | None) -> str:
    return "–" if ns is None else format_duration(ns)


def share_range(estimate: Estimate) -> str:
    """ "99.8 % (99.6 to 99.9 %)" """
    if np.isnan(estimate.low):
        return format_share(estimate.value)
    return f"{format_share(estimate.value)} ({format_share(estimate.low)} to {format_share(estimate.high)})"


def number_range(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def summary(answer: Investigation) -> str:
    """The verdict in a sentence or two that can be pasted into a ticket."""
    if not answer.findings:
        return "The cause cannot be told: " + "; ".join(answer.missing) + "."
    finding = answer.findings[0]
    evidence, tail = finding.evidence, finding.evidence.tail
    p50, _, p99, p999, _ = tail.quantiles_ns
    level = f"p99 is {time_or_none(p99)}" if tail.level != 0.999 else f"p99.9 is {time_or_none(p999)}"
    measured = f"{level} against a median of {time_or_none(p50)} ({tail.judged}, {tail.n:,} probes)"
    cause = finding.verdict.cause
    if cause == "none":
        count = f", although its port carried {evidence.bursts:,} bursts meanwhile" if evidence.bursts else ""
        return f"There is no latency tail on {evidence.path}: {measured}{count}."
    if cause == "undetermined":
        lacking = [*answer.missing, *finding.verdict.missing]
        return (
            f"What causes the latency of {evidence.path} cannot be told: {'; '.join(finding.verdict.reasons)}. "
            + (f"{measured[0].upper()}{measured[1:]}." if tail.n else "")
            + (f" Needed: {lacking[0]}." if lacking else "")
        )
    share = share_range(evidence.shares[cause])
    if cause == "host":
        return f"The hosts, not the network, make the latency tail of {evidence.path}: {share} of the late probes' excess lies {stage_words(evidence, ('send', 'turn', 'receive'))}; {measured}."  # noqa: E501
    if cause == "elsewhere":
        return f"The network makes the latency tail of {evidence.path}, but not at the recorded port: {share} of the late probes' excess lies {stage_words(evidence, ('forward', 'back'))} while that port had room; {measured}."  # noqa: E501
    port = evidence.crossing.port if evidence.crossing else None
    assert port is not None
    risk = evidence.relative_risk
    more = (
        f" A probe in a burst is {risk.value:.3g} times as likely to be late ({risk.low:.3g} to {risk.high:.3g})."
        if risk
        else ""
    )
    who = (
        f" They come from {answer.groups[0].name}: {answer.groups[0].fan_in} at once ({answer.groups[0].pattern})."
        if answer.groups
        else ""
    )
    return f"Bursts on {port.name} ({format_rate(port.link_bps)}) make the latency tail of {evidence.path}: {share} of the late probes' excess was spent waiting while that link was full; {measured}.{more}{who}"  # noqa: E501


def stage_words(evidence: Evidence, stages: tuple[str, ...]) -> str:
    """Where most of the excess lies, among some stages."""
    known = {stage: share for stage, share in evidence.stage_shares.items() if stage in stages}
    return STAGES[max(known, key=lambda stage: known[stage])] if known else "there"


def sections(answer: Investigation) -> list[Section]:
    """The page, in order."""
    found = [tail_section(answer)]
    if answer.findings:
        finding = answer.findings[0]
        if finding.evidence.ledger.late.size:
            found.append(where_section(finding))
        found.append(bursts_section(finding))
        found.append(switch_section(answer, finding))
    found.append(whose_section(answer))
    if answer.replay is not None:
        found.append(remedy_section(answer, answer.replay))
    if answer.findings and answer.findings[0].evidence.tail.present:
        found.append(fanout_section(answer.findings[0].evidence))
    return [*found, missing_section(answer)]


def tail_section(answer: Investigation) -> Section:
    """Quantiles of every judged path."""
    section = Section(
        "Is there a tail?", head=["path", "verdict", "n", "lost", "p50", "p90", "p99", "p99.9", "largest", "late"]
    )
    for finding in answer.findings:
        tail = finding.evidence.tail
        late = int(tail.spikes.sum() + tail.late_losses.sum())
        section.rows.append(
            [
                finding.evidence.path,
                finding.verdict.cause,
                f"{tail.n:,}",
                f"{tail.lost:,}",
                *map(time_or_none, tail.quantiles_ns),
                f"{late:,}",
            ]
        )
    if not answer.findings:
        section.sentences.append("No probe was recorded, so nobody knows.")
        return section
    tail = answer.findings[0].evidence.tail
    said = {True: "Yes", False: "No", None: "Too few probes to tell"}[tail.present]
    section.sentences.append(
        f"{said}. A probe is late beyond {format_duration(tail.threshold_ns)}, judged on {tail.judged} latency; "
        "a tail is p99 or more beyond that."
    )
    if tail.late_losses.any():
        section.sentences.append(
            f"{int(tail.late_losses.sum()):,} lost probes count as late: probes are lost more often "
            "while the port is full, so the full queue dropped them."
        )
    return section


def where_section(finding: Finding) -> Section:
    evidence = finding.evidence
    rows = sorted(evidence.stage_shares.items(), key=lambda item: -item[1])
    section = Section("Where does it sit?", head=["stage", "share of the late probes' excess"])
    section.rows = [[STAGES[stage], format_share(share)] for stage, share in rows]
    section.sentences.append(
        f"{len(evidence.ledger.late):,} late probes in {evidence.episodes:,} separate episodes; every nanosecond that "
        "they were later than the median, by the stage in which it was lost."
    )
    return section


def bursts_section(finding: Finding) -> Section:
    """The evidence card as a table: what was asked, the answer with its uncertainty, n."""
    section = Section("Do bursts explain it, and how much of it?", head=["evidence", "value", "n"])
    section.sentences = [f"{CAUSES[finding.verdict.cause]}: {'; '.join(finding.verdict.reasons)}."]
    evidence = finding.evidence
    section.rows = [*ledger_rows(evidence), *chance_rows(evidence), *rate_rows(evidence)]
    for control in evidence.controls:
        section.rows.append(
            [
                f"control, must show nothing: {control.name}",
                f"relative risk {number_range(control.risk)}",
                f"{control.spikes:,} late of {control.risk.n:,}",
            ]
        )
    return section


def ledger_rows(evidence: Evidence) -> list[list[str]]:
    """Where the late probes' time went, and what lies in bursts."""
    accounts = {
        "bursts": "excess spent waiting while the link was full",
        "host": "excess spent in hosts",
        "elsewhere": "excess spent in the network while the recorded port had room",
        "unknown": "excess that cannot be placed",
    }
    episodes = f"{evidence.episodes:,} episodes"
    rows = [[words, share_range(evidence.shares[name]), episodes] for name, words in accounts.items()]
    rows = rows if evidence.ledger.late.size else []
    if evidence.excess_share:
        share = evidence.excess_share
        rows.append(["all excess over the median that lies in bursts", share_range(share), f"{share.n:,} probes"])
    if evidence.relative_risk:
        met = f"{evidence.exposed:,} probes in {evidence.bursts:,} bursts"
        rows.append(["relative risk of being late in a burst", number_range(evidence.relative_risk), met])
    return rows


def chance_rows(evidence: Evidence) -> list[list[str]]:
    """How likely chance is, and what comes first."""
    rows = []
    if evidence.p_value is not None:
        q = evidence.q_value if evidence.q_value is not None else evidence.p_value
        p = f"{evidence.p_value:.2g}; {q:.2g}"
        rows.append(["chance that shifted bursts fit as well (p; all paths considered)", p, f"{SHIFTS:,} shifts"])
    if evidence.pairing_p is not None:
        rows.append(
            ["chance that exchanged bursts fit as well (p)", f"{evidence.pairing_p:.2g}", f"{PAIRINGS} exchanges"]
        )
    if evidence.lag_ns is not None:
        lag = format_duration(evidence.lag_ns) if evidence.lag_ns else "at once"
        rows.append(["latency after the burst, best fit", lag, ""])
    return rows


def rate_rows(evidence: Evidence) -> list[list[str]]:
    """Dose and response, and the contrast of three correlations."""
    rows = []
    if evidence.dose:
        rows.append([f"response to {evidence.dose_kind}", fit_words(evidence.dose), f"{evidence.dose.n:,} probes"])
    for words, value in (
        ("correlation with utilization in the bin", evidence.correlation_bin),
        ("the same with the 1 s average of a dashboard", evidence.correlation_second),
        ("the same with the switch's queue windows", evidence.correlation_queue),
    ):
        if value is not None:
            rows.append([words, f"r = {value:.3f}", f"{evidence.tail.n:,} probes"])
    return rows


def fit_words(line: Fit) -> str:
    return f"{line.slope:.3f} ns for each ns, r = {line.r:.3f}"


def whose_section(answer: Investigation) -> Section:
    section = Section(
        "Whose bursts?", head=["senders", "bursts", "of burst bytes", "fan-in", "onset spread", "pattern"]
    )
    for group in answer.groups[:10]:
        section.rows.append(
            [
                group.name,
                f"{len(group.bursts):,}",
                format_share(group.share_of_bytes),
                str(group.fan_in),
                time_or_none(group.onset_spread_ns),
                group.pattern,
            ]
        )
    if not answer.groups:
        section.sentences.append("No burst has a known sender." if answer.bursts else "There was no burst.")
    else:
        section.sentences.extend(group_sentences(answer.groups[0]))
    if answer.contention and answer.contention.share > 0:
        section.sentences.append(
            f"{format_share(answer.contention.share)} of the bursts overlap one of another host of their rack; at most "
            f"{answer.contention.most} hosts burst at once."
        )
    return section


def group_sentences(group: Group) -> list[str]:
    """Who the main group is and what sets it off."""
    said = []
    if len(group.bursts) > 1:
        said.append(
            f"{group.name} sent in {len(group.bursts):,} bursts, {format_share(group.member_share)} of their bytes."
        )
    if group.racks:
        said.append(f"They stand in {', '.join(group.racks)}.")
    trigger = group.trigger
    if trigger is None:
        said.append("What sets them off is not recorded: the host's outgoing direction would tell.")
    elif trigger.share > 0.5 and trigger.share > 2 * trigger.usual:
        said.append(
            f"The host asks for them: {format_share(trigger.share)} of the bursts come "
            f"{format_duration(trigger.lead_ns)} after it fanned out {trigger.flows} requests (by chance "
            f"{format_share(trigger.usual)} would): scatter and gather."
        )
    else:
        said.append("No fan-out of requests by this host precedes them.")
    return said


def switch_section(answer: Investigation, finding: Finding) -> Section:
    """What queue windows and senders' bins say."""
    section = Section("What does the switch's buffer say?")
    evidence = finding.evidence
    if evidence.correlation_queue is None:
        section.sentences.append(
            "No queue windows of this port are stored (`mburst import queues`, `mburst collect`). "
            "A receiver sees what leaves the queue, so its own bins cannot tell the depth."
        )
    else:
        section.sentences.append(f"Delay follows the queue windows with r = {evidence.correlation_queue:.3f}.")
    if evidence.queue_agreement is not None:
        section.sentences.append(
            f"Where probes waited, the queue at line rate would take {evidence.queue_agreement:.2f} "
            "times as long as they did (median; 1 is agreement)."
        )
    if answer.prediction:
        said = f"The {answer.prediction.senders} recorded senders together predict a queue of up to {format_bytes(answer.prediction.peak_bytes)}"  # noqa: E501
        line = answer.prediction.against_switch
        section.sentences.append(
            f"{said}; against the switch's windows: slope {line.slope:.3f}, r = {line.r:.3f}, n = {line.n:,}."
            if line
            else f"{said}."
        )
    return section


def remedy_section(answer: Investigation, replay: Replay) -> Section:
    """Predictions, the model's own error first."""
    section = Section("What would help?", head=["change", "p50", "p99", "p99.9", "late or dropped", "dropped"])
    section.sentences.append(model_words(replay))
    for outcome in (replay.recorded, replay.modelled, *answer.outcomes):
        section.rows.append(outcome_row(outcome, replay))
    return section


def model_words(replay: Replay) -> str:
    """How well the model repeats what was measured."""
    fit_of = f", r = {replay.r:.3f}" if replay.r is not None else ""
    return (
        f"The model repeats the recorded situation with a median error of {format_duration(replay.error_ns)} "
        f"({format_share(replay.relative_error)}) in the wait of late probes{fit_of}, n = {replay.n:,}. It takes the "
        f"bytes of each busy period to arrive in the first {format_share(replay.arrival_share)} of it, and everybody "
        "to send what they sent, when they did."
    )


def outcome_row(outcome: Outcome, replay: Replay) -> list[str]:
    name = outcome.change.name
    name = {id(replay.recorded): "as measured", id(replay.modelled): "as modelled"}.get(id(outcome), name)
    return [name, *map(time_or_none, outcome.quantiles_ns), format_share(outcome.slow), format_share(outcome.dropped)]


def fanout_section(evidence: Evidence) -> Section:
    tail = evidence.tail
    p = float(tail.spikes.sum() + tail.late_losses.sum()) / max(tail.n, 1)
    slow = {entry.width: format_share(entry.share) for entry in slow_requests(p)}
    section = Section(
        "What does it do to requests and applications?", head=["application", "feels", "effect", "probes beyond"]
    )
    section.sentences = [
        f"{format_share(p)} of single answers are late. A request that needs n answers waits for a late one with "
        "1 − (1 − p)^n: "
        + ", ".join(f"n = {width}: {share}" for width, share in slow.items() if width in (10, 50, 100))
        + ".",
        f"Published sensitivities to added delay ({SENSITIVITIES[0].source}):",
    ]
    for entry, share in delay_beyond(evidence.delays.total, tail.median_ns):
        section.rows.append([entry.application, format_duration(entry.delay_ns), entry.effect, format_share(share)])
    return section


def missing_section(answer: Investigation) -> Section:
    section = Section("What could not be judged?")
    lacking = missing(answer)
    section.sentences = [f"Missing: {item}." for item in lacking] + [f"Note: {note}." for note in answer.notes]
    if not section.sentences:
        section.sentences = ["Nothing that would change the answer."]
    return section


def missing(answer: Investigation) -> list[str]:
    """Everything that is missing, of the deciding path and of the recording as a whole."""
    own = answer.findings[0].verdict.missing if answer.findings else []
    return list(dict.fromkeys([*answer.missing, *own]))
