"""The verdict of an investigation in a few sentences, with the tails that it does not explain."""

from __future__ import annotations

from ...analysis.answers.investigate import Finding, InvestigationResult, rests_on
from ...analysis.cause.verdict import queueing_ports
from ...units import format_count
from ..common.sensitivity_words import answer_words, canary_words
from ..common.words import duration
from .phrases import (
    before_words,
    place_words,
    ports_words,
    risk_words,
    share_range,
    share_words,
    unknown_senders_words,
    who_words,
)

MOST_OTHERS = 3  # further paths named in the summary
WHERE = {"bursts": "while a recorded link was full", "host": "in the hosts", "elsewhere": "elsewhere in the network"}
OTHER_CAUSES = {
    "bursts": "bursts of another port",
    "host": "its hosts",
    "elsewhere": "the network, not at a recorded port",
    "undetermined": "the cause cannot be determined",
}


def summary(answer: InvestigationResult) -> str:
    """Returns the verdict in a few sentences that can be pasted into a ticket."""
    return " ".join([verdict_words(answer), *who_and_when(answer), *other_tails_words(answer), *sent_by_canary(answer)])


def verdict_words(answer: InvestigationResult) -> str:
    """Returns only the verdict, with the doubts about it."""
    if not answer.findings:
        return f"The cause cannot be determined. What is missing: {'; '.join(answer.missing)}."
    finding = answer.findings[0]
    kinds = {"none": no_tail, "undetermined": undetermined, "bursts": by_bursts}
    return kinds.get(finding.verdict.cause, not_by_bursts)(answer, finding)


def sent_by_canary(answer: InvestigationResult) -> list[str]:
    """Returns which of the bursts mburst itself sent: a sentence, or nothing."""
    known = answer.findings and answer.seen.canaries
    return [canary_words(answer.seen, len(answer.bursts))] if known else []


def headline(answer: InvestigationResult) -> list[tuple[str, str, str]]:
    """Returns the figures beside the verdict: name, value and note of each."""
    if not answer.findings:
        return []
    evidence, cause = answer.findings[0].evidence, answer.findings[0].verdict.cause
    tail = evidence.tail
    level, place = ("p99.9", 3) if tail.level == 0.999 else ("p99", 2)
    late = int(tail.spikes.sum() + tail.late_losses.sum())
    found = [
        (level, duration(tail.quantiles_ns[place]), f"median {duration(tail.quantiles_ns[0])}"),
        ("Late probes", f"{late:,}", f"of {tail.n + tail.lost:,}"),
    ]
    if share := evidence.shares.get(cause):
        between = f"{share_words(share.low)} to {share_words(share.high)}"
        return [*found, (f"Of their excess: {WHERE[cause]}", share_words(share.value), between)]
    return [*found, ("Bursts at the port", f"{evidence.bursts:,}" if evidence.crossing else "–", "")]


def measured_words(finding: Finding) -> str:
    """Returns the deciding percentile against the median."""
    tail = finding.evidence.tail
    p50, _, p99, p999, _ = tail.quantiles_ns
    level = f"p99 is {duration(p99)}" if tail.level != 0.999 else f"p99.9 is {duration(p999)}"
    return f"{level} against a median of {duration(p50)} ({tail.measured}, {format_count(tail.n, 'probe')})"


def no_tail(answer: InvestigationResult, finding: Finding) -> str:
    evidence = finding.evidence
    carried = format_count(evidence.bursts, "burst")
    count = f", although its port carried {carried} meanwhile" if evidence.bursts else ""
    seen = f" {answer_words(answer.seen, answer.span[1])}" if answer.seen.asked else ""
    return f"There is no latency tail on {evidence.path}: {measured_words(finding)}{count}.{seen}"


def undetermined(answer: InvestigationResult, finding: Finding) -> str:
    lacking = [*answer.missing, *finding.verdict.missing]
    return (
        f"What causes the latency of {finding.evidence.path} cannot be determined: {'; '.join(finding.verdict.reasons)}"
        + (f"; {measured_words(finding)}." if finding.evidence.tail.n else ".")
        + (f" Needed: {lacking[0]}." if lacking else "")
    )


def not_by_bursts(answer: InvestigationResult, finding: Finding) -> str:
    """Returns the verdict on a tail caused by the hosts, or by the network but not at the port."""
    evidence, cause, paused = finding.evidence, finding.verdict.cause, finding.evidence.paused
    if finding.verdict.paused and paused is not None and paused.stood is not None:
        who = paused.port.host if cause == "host" else "The switch"
        return f"{who} causes the latency tail of {evidence.path} by pause frames: {share_range(paused.stood)} of the late probes' excess was spent at an idle port that it had asked to stop; {measured_words(finding)}."  # noqa: E501
    share = share_range(evidence.shares[cause])
    if cause == "host":
        return f"The hosts, not the network, cause the latency tail of {evidence.path}: {share} of the late probes' excess lies {place_words(evidence, cause, WHERE[cause])}; {measured_words(finding)}."  # noqa: E501
    at, had = ("port", "that port") if len(finding.scene.crossings) == 1 else ("ports", "those ports")
    return f"The network causes the latency tail of {evidence.path}, but not at the recorded {at}: {share} of the late probes' excess lies {place_words(evidence, cause, 'in the network')} while {had} had room; {measured_words(finding)}."  # noqa: E501


def by_bursts(answer: InvestigationResult, finding: Finding) -> str:
    evidence = finding.evidence
    ports = queueing_ports(evidence)
    spent = f"was spent waiting while {'that link' if len(ports) == 1 else 'one of these links'} was full"
    if evidence.repeats.dropped.any():
        spent += ", or for what it dropped to be sent again"
    return f"Bursts {ports_words(ports)} cause the latency tail of {evidence.path}: {share_range(evidence.shares['bursts'])} of the late probes' excess {spent}; {measured_words(finding)}."  # noqa: E501


def who_and_when(answer: InvestigationResult) -> list[str]:
    """Returns, for bursts that cause the tail, how much more often probes are late in them, who sends them, and what
    comes before."""
    if not answer.findings or answer.findings[0].verdict.cause != "bursts":
        return []
    evidence = answer.findings[0].evidence
    risk, before = evidence.relative_risk, before_words(evidence)
    often = risk_words(risk) if risk else ""
    port, who = evidence.crossing.port if evidence.crossing else None, ""
    if answer.groups:
        who = who_words(answer.groups, port if len(answer.findings[0].verdict.ports) > 1 else None)
    elif port is not None and port.switch:
        who = unknown_senders_words(port)
    return [words for words in (often, who, before) if words]


def other_tails_words(answer: InvestigationResult) -> list[str]:
    """Returns the other paths with a tail that the first sentence does not explain: a sentence, or nothing."""
    if not answer.findings:
        return []
    main = answer.findings[0]
    rest = [
        (f.evidence.path, OTHER_CAUSES[f.verdict.cause])
        for f in answer.findings[1:]
        if f.evidence.tail.present and not (f.verdict.cause == main.verdict.cause and rests_on(f) & rests_on(main))
    ]
    rest += [(other.path, "it crosses no recorded port") for other in answer.others if other.tail.present]
    if not rest:
        return []
    named = "; ".join(f"{path} ({why})" for path, why in rest[:MOST_OTHERS])
    more = f"; and {len(rest) - MOST_OTHERS:,} more" if len(rest) > MOST_OTHERS else ""
    have = "a path has a tail" if len(rest) == 1 else f"{len(rest):,} paths have tails"
    return [f"This is not all: {have} that this does not explain: {named}{more}."]
