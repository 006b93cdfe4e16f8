"""The answers of an investigation as sentences and tables, in the order of an engineer's questions. All formats (HTML,
Markdown) and figures are made from these alone, so that they cannot disagree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ...analysis.answers.investigate import Finding, InvestigationResult
from ...analysis.cause.fanin import Group
from ...analysis.cause.scene import Evidence
from ...analysis.cause.trigger import Trigger
from ...analysis.whatif.replay import PredictedLatency, Replay
from ...analysis.whatif.tail_at_scale import SENSITIVITIES, delay_beyond, slow_requests
from ...senders import port_text
from ...units import format_bytes, format_count, format_duration, format_number, format_share, format_time
from ..common.sensitivity_words import answer_words, canary_words
from ..common.words import duration, missing_files
from .evidence_rows import evidence_rows
from .phrases import (
    STAGES,
    before_words,
    cause_words,
    contention_words,
    group_name,
    model_words,
    number_range,
    p99_range,
    p_words,
    pauses_words,
    queue_words,
    r_words,
    share_words,
    unknown_senders_words,
    unsure_words,
    wrong_words,
)

MOST_ROWS = 30  # of a table


@dataclass
class Section:
    """A question, its answer in sentences, and a table if there are many numbers."""

    question: str
    sentences: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def sections(answer: InvestigationResult) -> list[Section]:
    """Returns the page, in order."""
    found = [tail_section(answer)]
    if answer.findings:
        finding = answer.findings[0]
        if finding.evidence.ledger.late.size:
            found.append(stages_section(finding))
        found.append(bursts_section(finding))
    found.append(senders_section(answer))
    found.append(switch_section(answer))
    found.append(agreement_section(answer))
    if answer.replay is not None:
        found.append(remedy_section(answer, answer.replay))
    if answer.findings and answer.findings[0].evidence.tail.present:
        found.append(fanout_section(answer.findings[0].evidence))
    return [*found, missing_section(answer)]


def tail_section(answer: InvestigationResult) -> Section:
    """Returns the quantiles of every tested path."""
    section = Section(
        "Is there a tail?", head=["path", "verdict", "n", "lost", "p50", "p90", "p99", "p99.9", "largest", "late"]
    )
    tails = [(f.evidence.path, f.verdict.cause, f.evidence.tail) for f in answer.findings]
    tails += [(other.path, "(control)", other.tail) for other in answer.others]
    for path, verdict, tail in tails[:MOST_ROWS]:
        late = int(tail.spikes.sum() + tail.late_losses.sum())
        times = map(duration, tail.quantiles_ns)
        section.rows.append([path, verdict, f"{tail.n:,}", f"{tail.lost:,}", *times, f"{late:,}"])
    if not answer.findings:
        section.sentences.append("No probe was recorded, so this cannot be determined.")
        return section
    tail = answer.findings[0].evidence.tail
    answered = {True: "Yes", False: "No", None: "Too few probes to determine it"}[tail.present]
    section.sentences.append(
        f"{answered}. A probe is late beyond {format_duration(tail.threshold_ns)}, by {tail.measured} latency: more "
        f"than {format_number(tail.rule.factor)} × the median, and than the median + "
        f"{format_duration(tail.rule.excess)} (`--tail`); a tail is p99 or more beyond that."
    )
    total = answer.findings[0].evidence.delays.total
    if not np.isnan(total).all():
        sent_ns = answer.origin_ns + int(answer.findings[0].scene.probes.tx[np.nanargmax(total)])
        section.sentences.append(f"The slowest probe was sent at {format_time(sent_ns)} UTC.")
    if len(answer.findings) > 1:
        causes = Counter(finding.verdict.cause for finding in answer.findings)
        counts = ", ".join(f"{cause} {count:,}" for cause, count in causes.most_common())
        section.sentences.append(
            f"{format_count(len(answer.findings), 'path')} tested, false discoveries controlled over all: {counts}. "
            f"What follows is about {answer.findings[0].evidence.path}, the one with the most lateness."
        )
    if len(tails) > MOST_ROWS:
        section.sentences.append(f"The first {MOST_ROWS} of {len(tails):,} paths; `--json` has the others.")
    if tail.late_losses.any():
        lost = format_count(int(tail.late_losses.sum()), "lost probe counts", "lost probes count")
        section.sentences.append(
            f"{lost} as late: probes are lost more often while the port is full, so the full queue dropped them."
        )
    return section


def stages_section(finding: Finding) -> Section:
    evidence = finding.evidence
    rows = sorted(evidence.stage_shares.items(), key=lambda item: -item[1])
    section = Section("Where is the time spent?", head=["stage", "share of the late probes' excess"])
    section.rows = [[STAGES[stage], share_words(share)] for stage, share in rows]
    section.sentences.append(
        f"{format_count(len(evidence.ledger.late), 'late probe')} in "
        f"{format_count(evidence.episodes, 'separate episode')}; each nanosecond beyond the median is counted "
        "in the stage in which it was spent."
    )
    return section


def bursts_section(finding: Finding) -> Section:
    """Returns the evidence as a table: the question, the answer with its uncertainty, n."""
    section = Section("Do bursts explain it, and how much of it?", head=["evidence", "value", "n"])
    section.sentences = [f"{cause_words(finding.verdict)}: {'; '.join(finding.verdict.reasons)}."]
    evidence = finding.evidence
    if evidence.crossing is None:
        section.sentences.append("No port of this path was recorded in this time, so bursts cannot be tested.")
    section.rows = evidence_rows(evidence)
    if finding.verdict.cause == "bursts" and (where := before_words(evidence)):
        section.sentences.append(where)
    for control in evidence.controls:
        section.rows.append(
            [
                f"control, must show nothing: {control.name}",
                f"relative risk {number_range(control.risk)}",
                f"{control.spikes:,} late of {control.risk.n:,}",
            ]
        )
    return section


def senders_section(answer: InvestigationResult) -> Section:
    section = Section("Which senders?")
    late = ["of the lateness"] if any(group.share_of_lateness is not None for group in answer.groups) else []
    section.head = ["senders", "from port", "bursts", *late, "of burst bytes", "fan-in", "onset spread", "pattern"]
    for group in answer.groups[:10]:
        section.rows.append(
            [
                group_name(group),
                port_text(group.port) if group.port else "–",
                f"{len(group.bursts):,}",
                *([share_words(group.share_of_lateness or 0.0)] if late else []),
                share_words(group.share_of_bytes),
                f"{group.fan_in:,}" if group.fan_in else "–",
                duration(group.onset_spread_ns),
                group.pattern,
            ]
        )
    if not answer.groups:
        nothing = "There was no burst." if answer.ports else "No port was recorded, so this cannot be determined."
        section.sentences.append("No burst has a known sender." if answer.bursts else nothing)
        section.sentences += [unknown_senders_words(port) for port in answer.ports if answer.bursts and port.switch][:1]
        if not answer.bursts and answer.seen.asked:
            section.sentences.append(answer_words(answer.seen, answer.span[1]))
    else:
        section.sentences.extend(group_sentences(answer.groups[0]))
    if answer.seen.canaries:
        section.sentences.append(canary_words(answer.seen, len(answer.bursts)))
    if len(answer.groups) > 10:
        section.sentences.append(f"The first 10 of {len(answer.groups):,} groups; `--json` has the others.")
    if answer.contention:
        section.sentences.append(contention_words(answer.contention))
    return section


def group_sentences(group: Group) -> list[str]:
    """Returns the members of the main group, and what triggers it."""
    sentences = []
    if len(group.bursts) > 1:
        sentences.append(
            f"{group_name(group)} sent in {format_count(len(group.bursts), 'burst')}, "
            f"{share_words(group.member_share)} of their bytes."
        )
    if group.racks:
        sentences.append(f"Their {'rack is' if len(group.racks) == 1 else 'racks are'} {', '.join(group.racks)}.")
    if group.trigger is not None and group.trigger.is_frequent:
        sentences.append(trigger_words(group.trigger))
    return sentences


def trigger_words(trigger: Trigger) -> str:
    """Returns what came before the bursts, and how likely chance is."""
    where = f" to port {port_text(trigger.port)}" if trigger.port else ""
    begin = "Scatter and gather" if trigger.is_sure else "Perhaps scatter and gather, but this may be chance"
    return (
        f"{begin}: {share_words(trigger.share)} of {format_count(trigger.bursts, 'burst comes', 'bursts come')} "
        f"{format_duration(trigger.lead_ns)} (median) after this host fanned out {trigger.flows} requests{where}; "
        f"by chance {share_words(trigger.usual)} would ({p_words(trigger.p_value)})."
    )


def switch_section(answer: InvestigationResult) -> Section:
    """Returns the results of queue windows and of the senders' bins."""
    section = Section("What does the switch's buffer show?")
    evidence = answer.findings[0].evidence if answer.findings else None
    # Each queue once: before the host's own port if both the host and the switch were recorded.
    once = {queue.name: (port, queue) for port, queue in sorted(answer.windows, key=lambda row: row[0].switch is None)}
    section.sentences += [queue_words(*row) for row in list(once.values())[:MOST_ROWS]]
    if not answer.windows:
        section.sentences.append(
            "No queue windows of a recorded port are stored (`mburst import queues`, `mburst collect`). "
            "A receiver sees what leaves the queue, so its own bins cannot show the depth."
        )
    if evidence and evidence.correlation_queue:
        section.sentences.append(f"Delay follows the queue windows with {r_words(evidence.correlation_queue)}.")
    if evidence and evidence.switch is not None:
        section.sentences.append(
            f"Where probes waited, the queue at line rate would take {evidence.switch.agreement:.2f} "
            "times as long as they did (median; 1 is agreement)."
        )
    if answer.prediction:
        said = (
            f"The {answer.prediction.senders} recorded senders together predict a queue of up to "
            f"{format_bytes(answer.prediction.peak_bytes)}"
        )
        line = answer.prediction.against_switch
        section.sentences.append(
            f"{said}; against the switch's windows: slope {line.slope:.3f}, r = {line.r:.3f}, n = {line.n:,}."
            if line
            else f"{said}."
        )
    return section


def agreement_section(answer: InvestigationResult) -> Section:
    """Returns what the switch reports of a port, compared with what the host behind it received."""
    section = Section("Do the sources agree?")
    section.head = ["compared", "windows that agree", "result"]
    for row in answer.agreements[:MOST_ROWS]:
        agreeing = f"{row.agreeing:,} of {row.windows:,}" if row.windows else "–"
        state = {"agree": "agree", "untested": "not tested"}.get(row.state) or f"disagree: {wrong_words(row)}"
        section.rows.append([f"{row.what} {row.source}, with {row.port}", agreeing, f"{state}. {row.said}"])
    tested = [row for row in answer.agreements if row.state != "untested"]
    wrong = [row for row in tested if row.state == "disagree"]
    if answer.agreements and not tested:
        section.sentences.append("Not tested: the table states why.")
    elif not tested:
        section.sentences.append(
            "Nothing to compare: no counters and no queue of the switch port before a recorded host are stored for "
            "this time (`mburst collect`)."
        )
    elif wrong:
        section.sentences.append(f"No: {format_count(len(wrong), 'comparison')} of {len(tested):,} disagree.")
    else:
        section.sentences.append(f"Yes, in {format_count(len(tested), 'comparison')}.")
    return section


def remedy_section(answer: InvestigationResult, replay: Replay) -> Section:
    """Returns predictions, the model's own error first."""
    section = Section("What would help?", head=["change", "p50", "p99", "p99.9", "late or dropped", "dropped"])
    section.sentences.append(model_words(replay))
    for said in (before_words, pauses_words) if answer.findings else ():
        section.sentences += [words for words in [said(answer.findings[0].evidence)] if words]
    section.sentences += unsure_words(answer.outcomes)
    for outcome in (replay.recorded, replay.modelled, *answer.outcomes):
        section.rows.append(outcome_row(outcome, replay))
    return section


def outcome_row(outcome: PredictedLatency, replay: Replay) -> list[str]:
    name = outcome.change.name
    name = {id(replay.recorded): "as measured", id(replay.modelled): "as modelled"}.get(id(outcome), name)
    times = list(map(duration, outcome.quantiles_ns))
    if outcome.unsure:
        return [name, times[0], p99_range(outcome), "–", "–", "–"]
    return [name, *times, format_share(outcome.slow), format_share(outcome.dropped)]


def fanout_section(evidence: Evidence) -> Section:
    tail = evidence.tail
    p = float(tail.spikes.sum() + tail.late_losses.sum()) / max(tail.n, 1)
    slow = {entry.width: format_share(entry.share) for entry in slow_requests(p)}
    section = Section(
        "What does it do to requests and applications?", head=["application", "feels", "effect", "probes beyond"]
    )
    section.sentences = [
        f"{format_share(p)} of single answers are late. A request that needs n answers waits for a late one with "
        "1 − (1 − p)ⁿ: " + ", ".join(f"of {width} answers {slow[width]}" for width in (10, 50, 100)) + ".",
        f"Published sensitivities to added delay ({SENSITIVITIES[0].source}):",
    ]
    for entry, share in delay_beyond(evidence.delays.total, tail.median_ns):
        section.rows.append([entry.application, format_duration(entry.delay_ns), entry.effect, format_share(share)])
    return section


def missing_section(answer: InvestigationResult) -> Section:
    section = Section("What could not be assessed?")
    section.sentences = [f"Missing: {item}." for item in missing(answer)]
    section.sentences += [f"Not assessed: {item}." for item in not_assessed(answer)]
    section.sentences += [f"Note: {note}." for note in answer.notes]
    section.sentences += [f"{said.head}. {said.text}" for said in missing_files(answer.damaged)]
    if not section.sentences:
        section.sentences = ["Nothing that would change the answer."]
    return section


def not_assessed(answer: InvestigationResult) -> list[str]:
    """Returns questions that stay open whatever the cause is, and what to record to answer them."""
    found = []
    incoming = {(p.host, p.interface) for p in answer.ports if p.direction == "in" and not p.switch}
    outgoing = {(p.host, p.interface) for p in answer.ports if p.direction == "out"}
    if answer.bursts and (behind := [p.host for p in answer.ports if p.is_stand_in and p.direction == "in"]):
        found.append(
            f"who sends the bursts, and what sets them off: record the host itself, {behind[0]} (`mburst record`)"
        )
    if answer.bursts and incoming - outgoing:
        found.append(
            "what sets the bursts off: record the host's outgoing direction too (`mburst record --direction both`)"
        )
    if answer.bursts and not answer.windows and answer.prediction is None:
        found.append(
            "how deep the queue was: queue windows of the switch (`mburst import queues`, `mburst collect`), or the "
            "outgoing direction of all senders"
        )
    if answer.bursts and answer.contention is None:
        found.append("whether other hosts burst at the same times: record other hosts of the rack")
    if answer.findings:
        stages = answer.findings[0].evidence.stage_shares
        delays = answer.findings[0].evidence.delays.stages
        if stages and not any(np.isfinite(delays[stage]).any() for stage in ("send", "receive")):
            found.append("the hosts' own share: application and kernel stamps of the probes (`mburst probe`)")
    return found


def missing(answer: InvestigationResult) -> list[str]:
    """Returns everything that is missing, for the deciding path and for the recording as a whole."""
    own = answer.findings[0].verdict.missing if answer.findings else []
    return list(dict.fromkeys([*answer.missing, *own]))
