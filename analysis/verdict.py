"""The verdict: the one place in which evidence becomes a cause. Everything it weighs is in Evidence; nothing is
measured here.

Rules, in this order. Each gives way to `undetermined`, with what is missing, rather than say more than the evidence.

1. `none` when the tail's percentile is surely below the threshold, whatever the bursts did.
2. A cause needs more than half of the tail's excess in its account of the ledger, surely: the lower end of the
   bootstrap interval is above MAJORITY. Half, because then no other cause can be larger.
3. A cause needs EPISODES separate episodes of lateness: one or two events are anecdotes.
4. `bursts` needs more, because coincidence is cheap:
   a. COINCIDENCES episodes that fall into bursts. Were each as likely in as out, five in a row have p = 0.03;
   b. the permutation: the waits match the full link better than after all but SIGNIFICANT of the shifts, with the
      false-discovery rate of all paths and ports controlled;
   c. where bursts differ in length, waits fit their own burst better than an exchanged one (SIGNIFICANT): two things
      of one rhythm may keep one phase for hours, but their sizes have nothing to do with each other;
   d. the relative risk of a spike in a burst is surely above 1;
   e. no lag at which the link fits the waits clearly better: a burst that follows the latency is its consequence;
   f. negative controls without effect;
   g. the switch's own queue windows, where there are any, do not contradict.
5. `elsewhere` gives way where the port may be to blame all the same:
   a. most of its lateness befell probes that met a burst, or came while the port carried as much as it ever did, and
      more so than chance would have it: the bursts may act where the recording cannot see it (a slower hop before this
      port, a link slower than it was said to be);
   b. with another offset of the clocks the delays would fit the full link, each as long as the link stayed full;
   c. the link was full most of the time meanwhile, which is hardly chance (UNLIKELY), and the delays that fall into
      bursts fit their own burst better than others, and are over with it (SIGNIFICANT).
6. Whatever is unknown could have been anything: if it could turn the majority, the answer is `undetermined`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..units import format_duration, format_share
from .cause import Control, Evidence

MAJORITY = 0.5
EPISODES = 3
COINCIDENCES = 5
SIGNIFICANT = 0.005
UNLIKELY = 0.05
AT_CEILING = 0.8  # of the most that the port ever carried in as long a time; edges of bins take some
ALIKE = 0.7  # correlation at which delays are as long as the port stayed full; what follows them reaches 0.6
CONTRADICTED = 0.5  # the switch saw less than half of the queue that the waits would need
CONTROL_SPIKES = 5  # fewer make no effect

CLOCKS = "synchronized clocks (PTP) of prober and recorded host: with another offset the delays would fit bursts"
MISSING = {
    "unstamped": "kernel stamps at both ends of the probes (`mburst reflect` at the far end): without them host and "
    "network, and the two directions, cannot be told apart",
    "coarse": "finer bins: the recorded ones are longer than the delays (`mburst record --bin 100us`)",
    "losing": "a capture without drops: packets were lost while probes waited, so the bins are lower bounds",
    "unrecorded": "a recording of the port while the probes ran (`mburst record`)",
}


@dataclass(frozen=True)
class Verdict:
    """cause: bursts, host, elsewhere, none or undetermined. reasons: the rules that decided, a sentence each."""

    cause: str
    reasons: list[str]
    missing: list[str]


def decide(evidence: Evidence) -> Verdict:
    """Apply the rules above to the evidence of one path."""
    tail = evidence.tail
    missing = gaps(evidence)
    if tail.n == 0:
        return Verdict(
            "undetermined", ["no probe was answered in the recorded time"], ["probes with answers", *missing]
        )
    if tail.present is False:
        return Verdict("none", [f"p99 is below {format_duration(tail.threshold_ns)}"], [])
    if tail.present is None:
        return Verdict(
            "undetermined",
            [f"{tail.n} probes are too few to tell a p99"],
            [f"more probes: at least 1,000 on this path (now {tail.n})"],
        )
    leader = max(("bursts", "host", "elsewhere"), key=lambda name: evidence.shares[name].value)
    share = evidence.shares[leader]
    if share.low <= MAJORITY:
        return without_majority(evidence, missing)
    if evidence.episodes < EPISODES:
        reason = f"only {evidence.episodes} separate episodes of lateness"
        return Verdict("undetermined", [reason], ["a longer recording, with more episodes", *missing])
    if leader == "elsewhere" and (doubt := doubt_about_elsewhere(evidence)):
        return Verdict("undetermined", [doubt[0]], [doubt[1], *missing])
    if leader != "bursts":
        return Verdict(leader, [f"{format_share(share.value)} of the excess"], missing)
    doubts = doubts_about_bursts(evidence)
    if doubts:
        return Verdict("undetermined", [doubt for doubt, _ in doubts], [*dict.fromkeys(m for _, m in doubts), *missing])
    return Verdict("bursts", [f"{format_share(share.value)} of the excess"], missing)


def doubt_about_elsewhere(evidence: Evidence) -> tuple[str, str] | None:
    """What keeps the network's other parts from being blamed (rule 5): the doubt, and what would settle it."""
    speed = "the true speed of the link (`--link`), and queue windows of the ports before it"
    if (evidence.begun or 0) > MAJORITY and (evidence.begun_p or 1) <= SIGNIFICANT:
        return "the delays begin in bursts, but the link was not full while they lasted", speed
    filled, ceiling = evidence.filled or 0, evidence.ceiling or np.inf
    if (evidence.p_value or 1) <= SIGNIFICANT and filled >= AT_CEILING * ceiling:
        said = f"the port carried as much as it ever did, {format_share(filled)} of its rate, while probes waited"
        return said, speed
    if evidence.lag_ns and (evidence.lag_share or 0) >= AT_CEILING and (evidence.lag_dose or 0) >= ALIKE:
        order = "before" if evidence.lag_ns < 0 else "after"
        apart = format_duration(abs(evidence.lag_ns))
        return f"the delays would fit the bursts exactly if they came {apart} {order} them", CLOCKS
    coincide = filled > MAJORITY and (evidence.p_value or 1) <= UNLIKELY
    if coincide and evidence.pairing_p is not None and evidence.pairing_p <= SIGNIFICANT:
        said = f"the delays fit their own bursts better than others (p = {evidence.pairing_p:.3g})"
        return f"{said}, though the link was not full all the while", CLOCKS
    return None


def without_majority(evidence: Evidence, missing: list[str]) -> Verdict:
    """No account surely holds more than half of the excess."""
    shares = evidence.shares
    if shares["unknown"].high > MAJORITY or shares["unknown"].value >= max(s.value for s in shares.values()):
        text = f"{format_share(shares['unknown'].value)} of the excess cannot be placed"
        return Verdict("undetermined", [text], missing or ["a longer recording"])
    parts = ", ".join(f"{name} {format_share(shares[name].value)}" for name in ("bursts", "host", "elsewhere"))
    return Verdict(
        "undetermined",
        [f"no cause surely holds the majority of the excess: {parts}"],
        ["a longer recording: the shares are uncertain or causes are mixed", *missing],
    )


def doubts_about_bursts(evidence: Evidence) -> list[tuple[str, str]]:
    """What keeps a majority in `bursts` from being called the cause: the doubt, and what would settle it."""
    doubts = []
    longer = "a longer recording, with more bursts"
    q = evidence.q_value if evidence.q_value is not None else evidence.p_value
    risk = evidence.relative_risk
    if evidence.burst_episodes < COINCIDENCES:
        doubts.append((f"only {evidence.burst_episodes} episodes of lateness fall into bursts", longer))
    if q is None or q > SIGNIFICANT:
        chance = "not testable" if q is None else f"p = {q:.3g}"
        doubts.append(
            (
                f"the coincidence with bursts could be chance ({chance})",
                "a recording in which bursts and latency do not keep one rhythm, or longer",
            )
        )
    if evidence.pairing_p is not None and evidence.pairing_p > SIGNIFICANT:
        doubts.append((f"delays fit other bursts as well as their own (p = {evidence.pairing_p:.3g})", longer))
    if risk is None or risk.low <= 1:
        doubts.append(("a probe in a burst is not surely more at risk than one outside", longer))
    if evidence.lag_ns:
        order = "before" if evidence.lag_ns < 0 else "after"
        doubts.append(
            (f"latency fits bursts {format_duration(abs(evidence.lag_ns))} {order} it happens better", CLOCKS)
        )
    for control in failed_controls(evidence):
        doubts.append(
            (
                f"the bursts show an effect where they cannot act: {control.name}",
                "a recording of the ports on that path too",
            )
        )
    agreement = evidence.queue_agreement
    if agreement is not None and agreement < CONTRADICTED:
        doubts.append(("the switch's queue was too short for these delays", "the queue windows of this very port"))
    return doubts


def failed_controls(evidence: Evidence) -> list[Control]:
    """Controls that are surely more at risk in bursts, and at least half as often late in them as the judged path: a
    weaker effect cannot make the tail. Rates are compared, not relative risks, which hang on the few late probes
    outside."""
    own = evidence.exposed_late / max(evidence.exposed, 1)
    return [
        control
        for control in evidence.controls
        if control.spikes >= CONTROL_SPIKES
        and control.risk.low > 1
        and control.spikes / max(control.risk.n, 1) > own / 2
    ]


def gaps(evidence: Evidence) -> list[str]:
    """What the recording lacks, most costly first, from the reasons in the ledger and the stamps."""
    reasons = evidence.ledger.reasons
    total = float(evidence.ledger.excess.sum())
    worth = [name for name in sorted(reasons, key=lambda name: -reasons[name]) if reasons[name] > 0.05 * total]
    lacking = [MISSING[name] for name in worth]
    if "unstamped" in worth and evidence.lag_ns and (evidence.lag_share or 0) > 2 * MAJORITY * (evidence.filled or 0):
        lacking.insert(0, CLOCKS)
    return lacking + evidence.notes
