"""An investigation as the JSON that programs rely on: keys are added and never removed. Times are in whole ns, null if
nothing was measured."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ... import __version__
from ...analysis.answers.investigate import Finding, InvestigationResult
from ...analysis.bursts.contention import Contention
from ...analysis.cause.conservation import Agreement
from ...analysis.cause.fanin import Group
from ...analysis.cause.scene import Evidence
from ...analysis.cause.tail import LatencyTail
from ...analysis.model.stats import Estimate
from ...analysis.whatif.replay import PredictedLatency
from ...analysis.whatif.tail_at_scale import delay_beyond, slow_requests
from ..common.sensitivity_words import answer_words
from .phrases import before_words
from .summary import summary
from .words import missing, not_assessed


def facts(answer: InvestigationResult) -> dict[str, Any]:
    """Returns the whole answer."""
    main = answer.findings[0] if answer.findings else None
    return {
        "cause": answer.cause,
        "summary": summary(answer),
        "start_ns": answer.span[0],
        "end_ns": answer.span[1],
        "tail": tail_facts(main.evidence.tail if main else None),
        "evidence": evidence_facts(main),
        "bursts": {
            "count": main.evidence.bursts if main and main.evidence.crossing else len(answer.bursts),
            "stored": len(answer.bursts),
            "canaries": answer.seen.canaries,
        },
        "fan_in": [group_facts(group) for group in answer.groups],
        "missing": missing(answer),
        "not_assessed": not_assessed(answer),
        "reasons": main.verdict.reasons if main else [],
        "notes": answer.notes,
        "damaged_files": [file.facts() for file in answer.damaged],
        "causes": Counter(finding.verdict.cause for finding in answer.findings),
        "paths": [path_facts(finding) for finding in answer.findings],
        "controls": [{"path": other.path, "tail": tail_facts(other.tail)} for other in answer.others],
        "contention": contention_facts(answer.contention),
        "queues": queue_facts(answer),
        "sources_agree": [agreement_facts(row) for row in answer.agreements],
        "what_if": what_if_facts(answer),
        "fan_out": fan_out_facts(main),
        "sensitivities": sensitivity_facts(main),
        "smallest_burst": answer_words(answer.seen, answer.span[1]),
        "mburst": __version__,
    }


def whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


def tail_facts(tail: LatencyTail | None) -> dict[str, Any]:
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    if tail is None:
        return {
            "n": 0,
            "lost": 0,
            **dict.fromkeys(names),
            "measure": None,
            "threshold_ns": None,
            "rule": None,
            "late": 0,
            "present": None,
        }
    return {
        "n": tail.n,
        "lost": tail.lost,
        **dict(zip(names, map(whole, tail.quantiles_ns), strict=True)),
        "measure": tail.measured,
        "threshold_ns": whole(tail.threshold_ns),
        "rule": {"factor": tail.rule.factor, "excess_ns": whole(tail.rule.excess)},
        "late": int(tail.spikes.sum() + tail.late_losses.sum()),
        "late_losses": int(tail.late_losses.sum()),
        "present": tail.present,
        "percentile": None if tail.level is None else 100 * tail.level,
    }


def estimate_facts(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None or not math.isfinite(estimate.value):
        return None
    low, high = (bound if math.isfinite(bound) else None for bound in (estimate.low, estimate.high))
    return {"value": estimate.value, "low": low, "high": high, "n": estimate.n}


def evidence_facts(finding: Finding | None) -> dict[str, Any]:
    """Returns the evidence on one path; every key is present, even if its value is null."""
    if finding is None:
        keys = ("relative_risk", "p_value", "lag_ns", "excess_share", "dose_response", "host_share")
        return {**dict.fromkeys(keys), "correlation": {"bin": None, "second": None, "queue": None}, "controls": []}
    evidence = finding.evidence
    return {
        "relative_risk": estimate_facts(evidence.relative_risk),
        "p_value": evidence.p_value,
        "q_value": evidence.q_value,
        "pairing_p": evidence.pairing_p,
        "lag_ns": whole(evidence.lag_ns),
        "lag": lag_facts(evidence),
        "excess_share": evidence.excess_share.value if evidence.excess_share else None,
        "excess_share_interval": estimate_facts(evidence.excess_share),
        "dose_response": dose_facts(evidence),
        **correlation_facts(evidence),
        "host_share": evidence.host_share.value if evidence.host_share else None,
        "host_share_interval": estimate_facts(evidence.host_share),
        "controls": [
            {"name": c.name, "relative_risk": estimate_facts(c.risk), "spikes": c.spikes} for c in evidence.controls
        ],
        "shares": {name: estimate_facts(share) for name, share in evidence.shares.items()},
        "stages": evidence.stage_shares,
        "episodes": evidence.episodes,
        "burst_episodes": evidence.burst_episodes,
        "exposed": evidence.exposed,
        "fifo": fifo_facts(evidence),
        "lost_elsewhere": evidence.lost_elsewhere,
        "repeated": repeated_facts(evidence),
        "marked": None
        if evidence.marked is None
        else {
            "share": estimate_facts(evidence.marked.stretches),
            "by_chance": evidence.marked.chance,
            "times_as_dense": evidence.marked.denser,
        },
        "switch_marked": None
        if evidence.switch_marks is None
        else {
            "packets": evidence.switch_marks.packets,
            "share": estimate_facts(evidence.switch_marks.stretches),
            "share_of_longer": estimate_facts(evidence.switch_marks.longer),
            "windows": evidence.switch_marks.usual,
        },
        **flow_control_facts(evidence),
        "capture": None
        if evidence.soundness is None
        else {
            "dropped": evidence.soundness.dropped,
            "dropped_is_least": evidence.soundness.is_least,
            "lossy_share": evidence.soundness.lossy,
            "above_line_rate": evidence.soundness.above or None,
            "above_ns": whole(evidence.soundness.above_ns) or None,
        },
        "place": before_words(evidence) or None,
        "queue_seen": evidence.switch.seen if evidence.switch else None,
        "queue_agreement": evidence.switch.agreement if evidence.switch else None,
        "port": evidence.crossing.port.name if evidence.crossing else None,
        "ports": list(finding.verdict.ports),
    }


def flow_control_facts(evidence: Evidence) -> dict[str, Any]:
    """Returns pause frames and congestion notifications of the path's ports; null if none were recorded, or counted."""
    paused, notified = evidence.paused, evidence.notified
    signals = paused.port.signals if paused else None
    return {
        "paused": None
        if paused is None or signals is None
        else {
            "port": paused.port.name,
            "asked_by": {"host": "host", "elsewhere": "switch"}.get(paused.asker),
            "classes": list(signals.asked_classes),
            "pause_frames": int(signals.pauses.sum()),
            "resume_frames": int(signals.resumes.sum()),
            "could": estimate_facts(paused.could),
            "stood": estimate_facts(paused.stood),
            "p_value": paused.p_value,
        },
        "notified": None
        if notified is None
        else {
            "port": notified.port.name,
            "cnp_packets": notified.packets,
            "in_bursts": notified.in_bursts,
            "time_in_bursts": notified.usual,
        },
    }


def fifo_facts(evidence: Evidence) -> dict[str, Any] | None:
    """Returns whether the waits are those of a queue at the port: shares of full stretches, null if untestable."""
    model = evidence.fifo
    if model is None:
        return None
    names = ("carried", "standing", "explained")
    return {**{name: estimate_facts(getattr(model, name)) for name in names}, "error_ns": whole(model.error_ns)}


def repeated_facts(evidence: Evidence) -> dict[str, Any]:
    """Returns the probes that the full port dropped and TCP repeated, and those that waited behind them."""
    late = evidence.repeats.either[evidence.ledger.late]
    total = float(evidence.ledger.excess.sum())
    again = evidence.seen_again
    return {
        "dropped": int(evidence.repeats.dropped.sum()),
        "behind": int(evidence.repeats.held.sum()),
        "share": float(evidence.ledger.excess[late].sum()) / total if total else 0.0,
        "overflowed": estimate_facts(evidence.fifo.overflowed) if evidence.fifo else None,
        "seen_again": None if again is None else {"share": estimate_facts(again.share), "p_value": again.p_value},
    }


def lag_facts(evidence: Evidence) -> dict[str, Any] | None:
    """Returns the lag scan: the lag at which waits fit the full link best, its resolution, and the side on which it
    fits better."""
    scan = evidence.scan
    if scan is None or len(scan.lags) < 2:
        return None
    return {
        "resolution_ns": whole(float(scan.lags[1] - scan.lags[0])),
        "asymmetry": scan.asymmetry,
        "fit": evidence.lag_share,
        "fit_at_once": evidence.filled,
        "n": scan.waits,
    }


def dose_facts(evidence: Evidence) -> dict[str, Any] | None:
    line = evidence.dose
    if line is None:
        return None
    return {
        "slope": line.slope.value,
        "r": line.r.value,
        "n": line.n,
        "dose": evidence.dose_kind,
        "slope_interval": estimate_facts(line.slope),
        "r_interval": estimate_facts(line.r),
    }


def correlation_facts(evidence: Evidence) -> dict[str, Any]:
    found = {
        "bin": evidence.correlation_bin,
        "second": evidence.correlation_second,
        "queue": evidence.correlation_queue,
    }
    return {
        "correlation": {name: r.value if r else None for name, r in found.items()},
        "correlation_interval": {name: estimate_facts(r) for name, r in found.items()},
    }


def group_facts(group: Group) -> dict[str, Any]:
    trigger = group.trigger
    return {
        "group": group.name,
        "fan_in": group.fan_in,
        "port": group.port,
        "bursts": len(group.bursts),
        "share": group.share_of_bytes,
        "member_share": group.member_share,
        "share_of_lateness": group.share_of_lateness,
        "senders": group.members,
        "names": {address: of.name for address, of in group.called.items() if of.name},
        "services": group.services,
        "racks": group.racks,
        "onset_spread_ns": whole(group.onset_spread_ns),
        "pattern": group.pattern,
        "trigger": None
        if trigger is None
        else {
            "flows": trigger.flows,
            "port": trigger.port,
            "lead_ns": whole(trigger.lead_ns),
            "share": trigger.share,
            "by_chance": trigger.usual,
            "p_value": trigger.p_value,
            "is_sure": trigger.is_sure,
            "n": trigger.bursts,
        },
    }


def contention_facts(seen: Contention | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    rivals = [{"hosts": list(pair.hosts), "shared_ns": pair.shared_ns} for pair in seen.pairs]
    return {
        "hosts": seen.hosts,
        "bursts": seen.bursts,
        "share": seen.share,
        "by_chance": seen.usual,
        "most": seen.most,
        "most_ns": seen.most_ns,
        "contended_ns": seen.contended_ns,
        "rivals": rivals,
    }


def queue_facts(answer: InvestigationResult) -> dict[str, Any]:
    """Returns the switch's windows, and how recorded senders predict them."""
    predicted = answer.prediction
    line = predicted.against_switch if predicted else None
    return {
        "windows": [
            {
                "queue": queue.name,
                "port": port.name,
                "n": len(queue.end),
                "max_bytes": whole(float(queue.max_bytes.max(initial=0.0))),
                "dropped_packets": queue.dropped,
                "ecn_marked_packets": queue.marked,
            }
            for port, queue in answer.windows
        ],
        "from_senders": None
        if predicted is None
        else {
            "senders": predicted.senders,
            "max_bytes": whole(predicted.peak_bytes),
            "against_windows": None if line is None else {"slope": line.slope, "r": line.r, "n": line.n},
        },
    }


def agreement_facts(row: Agreement) -> dict[str, Any]:
    """Returns one comparison of a switch and the recorded host on a port."""
    return {
        "what": row.what,
        "source": row.source,
        "port": row.port,
        "state": row.state,
        "windows": row.windows,
        "agreeing": row.agreeing,
        "ratio": row.ratio,
        "framing": row.framing or None,
        "lag_ns": whole(row.lag_ns),
        "blamed": row.blamed or None,
        "said": row.said,
    }


def path_facts(finding: Finding) -> dict[str, Any]:
    probes = finding.scene.probes
    return {
        "src": probes.src,
        "dst": probes.dst,
        "protocol": probes.protocol,
        "cause": finding.verdict.cause,
        "reasons": finding.verdict.reasons,
        "missing": finding.verdict.missing,
        "tail": tail_facts(finding.evidence.tail),
        "evidence": evidence_facts(finding),
    }


def outcome_facts(outcome: PredictedLatency) -> dict[str, Any]:
    p50, p99, p999 = map(whole, outcome.quantiles_ns)
    return {
        "change": outcome.change.name,
        "p50_ns": p50,
        "p99_ns": p99,
        "p999_ns": p999,
        **range_facts(outcome),
        "dropped": outcome.dropped,
        "late": outcome.slow,
    }


def range_facts(outcome: PredictedLatency) -> dict[str, Any]:
    """Returns the range that the recording leaves open for p99, and why it is too wide for a prediction; null if it is
    not."""
    low, high = outcome.p99_range or (None, None)
    return {"p99_low_ns": whole(low), "p99_high_ns": whole(high), "unsure": outcome.unsure or None}


def of_what_facts(answer: InvestigationResult) -> dict[str, Any]:
    """Returns the path, the port and the time of a prediction."""
    finding = answer.findings[0]
    probes, crossing = finding.scene.probes, finding.evidence.crossing
    return {
        "path": {"src": probes.src, "dst": probes.dst, "protocol": probes.protocol},
        "port": crossing.port.name if crossing else None,
        "start_ns": answer.span[0],
        "end_ns": answer.span[1],
    }


def what_if_facts(answer: InvestigationResult) -> dict[str, Any] | None:
    replay, paused = answer.replay, answer.findings[0].evidence.paused if answer.findings else None
    if replay is None:
        return None
    return {
        "pauses": estimate_facts(paused.could) if paused else None,
        "model": {
            "error_ns": whole(replay.error_ns),
            "error_p90_ns": whole(replay.error_high_ns),
            "relative_error": replay.relative_error,
            "r": replay.r,
            "n": replay.n,
            "arrivals": "senders" if replay.arrival_share is None else "fitted",
            "arrival_share": replay.arrival_share,
            "senders": replay.fan_in,
            "known_senders": replay.known,
            "dropped": replay.lost_bytes or None,
        },
        "recorded": outcome_facts(replay.recorded),
        "modelled": outcome_facts(replay.modelled),
        "changes": [outcome_facts(outcome) for outcome in answer.outcomes],
    }


def fan_out_facts(finding: Finding | None) -> list[dict[str, Any]]:
    if finding is None or not finding.evidence.tail.n:
        return []
    tail = finding.evidence.tail
    p = float(tail.spikes.sum() + tail.late_losses.sum()) / tail.n
    return [{"answers": slow.width, "slow": slow.share} for slow in slow_requests(p)]


def sensitivity_facts(finding: Finding | None) -> list[dict[str, Any]]:
    """Returns published sensitivities with the measured distribution."""
    if finding is None or not finding.evidence.tail.n:
        return []
    met = delay_beyond(finding.evidence.delays.total, finding.evidence.tail.median_ns)
    return [
        {
            "application": entry.application,
            "delay_ns": whole(entry.delay_ns),
            "effect": entry.effect,
            "beyond": share,
            "source": entry.source,
        }
        for entry, share in met
    ]
