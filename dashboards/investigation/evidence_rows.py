"""The rows of the table of evidence: what was measured, its value with the interval, n. Every kind of evidence has a
function, and a place in `evidence_rows`."""

from __future__ import annotations

from ...analysis.cause.evidence.chance import SHIFTS
from ...analysis.cause.evidence.exchange import PAIRINGS
from ...analysis.cause.scene import Evidence
from ...analysis.model.flow_control import class_words
from ...units import format_count, format_number
from .phrases import lag_sample, lag_words, line_words, number_range, p_words, r_words, share_range, share_words


def evidence_rows(evidence: Evidence) -> list[list[str]]:
    """Returns the rows of all evidence that was measured, in the order in which it is shown."""
    return [
        *ledger_rows(evidence),
        *chance_rows(evidence),
        *queue_rows(evidence),
        *repeat_rows(evidence),
        *flow_control_rows(evidence),
        *rate_rows(evidence),
    ]


def ledger_rows(evidence: Evidence) -> list[list[str]]:
    """Returns where the late probes' time was spent, and the part in bursts."""
    accounts = {
        "bursts": "excess spent waiting while a recorded link was full",
        "host": "excess spent in hosts",
        "elsewhere": "excess spent in the network while the recorded links had room",
        "unknown": "excess that cannot be placed",
    }
    if evidence.crossing is None:  # these are accounts of a recorded port
        accounts = {name: accounts[name] for name in ("host", "unknown")}
    episodes = format_count(evidence.episodes, "episode")
    rows = [[words, share_range(evidence.shares[name]), episodes] for name, words in accounts.items()]
    rows = rows if evidence.ledger.late.size else []
    if evidence.excess_share:
        share = evidence.excess_share
        rows.append(
            ["all excess over the median that lies in bursts", share_range(share), format_count(share.n, "probe")]
        )
    if evidence.relative_risk:
        met = f"{format_count(evidence.exposed, 'probe')} in {format_count(evidence.bursts, 'burst')}"
        rows.append(["relative risk of being late in a burst", number_range(evidence.relative_risk), met])
    return rows


def chance_rows(evidence: Evidence) -> list[list[str]]:
    """Returns how likely chance is, and whether bursts or latency come first."""
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
        rows.append(["latency after the burst, best fit", lag_words(evidence), lag_sample(evidence)])
    return rows


def queue_rows(evidence: Evidence) -> list[list[str]]:
    """Returns whether the waits are those of a queue at the port."""
    model = evidence.fifo
    if model is None:
        return []
    rows = [
        ("what the link carried while probes waited, of what it can", model.carried),
        ("full stretches that delayed a probe in which later ones waited too", model.standing),
        ("waiting in the full stretches that a queue at the port explains", model.explained),
    ]
    return [
        [words, share_range(value), format_count(value.n, "full stretch", "full stretches")]
        for words, value in rows
        if value is not None
    ]


def repeat_rows(evidence: Evidence) -> list[list[str]]:
    """Returns what TCP repeated, which of it the port recorded, and what queues marked."""
    rows = []
    dropped, held = int(evidence.repeats.dropped.sum()), int(evidence.repeats.held.sum())
    if dropped:
        met = f"{format_count(dropped, 'probe')} dropped, {held:,} behind them"
        late = evidence.ledger.excess[evidence.repeats.either[evidence.ledger.late]].sum()
        part = share_words(float(late) / max(float(evidence.ledger.excess.sum()), 1.0))
        rows.append(["excess of what the full port dropped and TCP repeated, and of what waited behind it", part, met])
    if evidence.fifo is not None and dropped and evidence.fifo.overflowed is not None:
        full = evidence.fifo.overflowed
        rows.append(
            [
                "dropped probes that met a long queue",
                share_range(full),
                format_count(full.n, "full stretch", "full stretches"),
            ]
        )
    if evidence.seen_again is not None:
        share = evidence.seen_again.share
        rows.append(
            [
                "repeated segments recorded when repeated probes ended",
                f"{share_range(share)}; {p_words(evidence.seen_again.p_value)}",
                format_count(share.n, "probe"),
            ]
        )
    if evidence.marked is not None:
        share = evidence.marked.stretches
        rows.append(
            [
                "full stretches that delayed a probe with packets marked by a queue (ECN CE)",
                f"{share_range(share)}; {share_words(evidence.marked.chance)} by chance; "
                f"their bins {format_number(evidence.marked.denser)} times as often as all",
                format_count(share.n, "full stretch", "full stretches"),
            ]
        )
    if evidence.switch_marks is not None and evidence.switch_marks.stretches is not None:
        share, usual = evidence.switch_marks.stretches, evidence.switch_marks.usual
        rows.append(
            [
                "full stretches that delayed a probe in which the switch marked packets (ECN)",
                f"{share_range(share)}; {share_words(usual)} of all its windows",
                format_count(share.n, "full stretch", "full stretches"),
            ]
        )
    return rows


def flow_control_rows(evidence: Evidence) -> list[list[str]]:
    """Returns the lateness that pause frames can have caused, and when congestion notifications came."""
    rows, paused, notified = [], evidence.paused, evidence.notified
    if paused is not None and (signals := paused.port.signals) is not None:
        asked = class_words(signals.asked_classes)
        frames = format_count(int(signals.pauses.sum()), "pause frame")
        what = f"excess that pause frames can account for at most ({paused.port.name}, {asked})"
        rows.append([what, share_range(paused.could), frames])
        if paused.stood is not None and paused.p_value is not None:
            value = f"{share_range(paused.stood)}; {p_words(paused.p_value)}"
            rows.append(["excess spent at that port while it was idle and asked to stop", value, frames])
    if notified is not None:
        share = share_words(notified.in_bursts / notified.packets)
        rows.append(
            [
                f"congestion notifications (CNP) about what {notified.port.name} carried that came in its bursts",
                f"{share}; {share_words(notified.usual)} of the time is in bursts",
                format_count(notified.packets, "notification"),
            ]
        )
    return rows


def rate_rows(evidence: Evidence) -> list[list[str]]:
    """Returns dose and response, and the contrast of three correlations."""
    rows = []
    if evidence.dose:
        rows.append(
            [f"response to {evidence.dose_kind}", line_words(evidence.dose), format_count(evidence.dose.n, "probe")]
        )
    for words, value in (
        ("correlation with utilization in the bin", evidence.correlation_bin),
        ("the same with the 1 s average of a dashboard", evidence.correlation_second),
        ("the same with the switch's queue windows", evidence.correlation_queue),
    ):
        if value is not None:
            rows.append([words, r_words(value), format_count(value.n, "probe")])
    return rows
