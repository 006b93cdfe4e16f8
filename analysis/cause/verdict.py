"""The verdict: the only place in which evidence becomes a cause. All of its input is in Evidence; nothing is measured
here.

The rules apply in this order, rule 8 right after rule 1. Each gives way to `undetermined`, with what is missing, rather
than claim more than the evidence shows.

1. `none` if the tail's percentile is significantly below the threshold, whatever the bursts did. It gives way if most
   probes are slow, if too many have no latency (lost), or if those outside of recorded time have a tail.
2. A cause needs significantly more than half of the tail's excess in its account of the ledger: the lower end of the
   interval (blocks of time) is above MAJORITY. Half, because then no other cause can be larger.
3. A cause needs EPISODES separate episodes of lateness: one or two events are anecdotes.
4. `bursts` needs more, because coincidence is likely. A criterion that cannot be tested is a doubt:
   a. a name or an address shows that the probes cross the port;
   b. COINCIDENCES episodes fall into bursts. If each were equally likely inside and outside, p would be 0.03 for five;
   c. the permutation: the waits match the full link better than after all but SIGNIFICANT of the shifts, with the
      false-discovery rate of all paths and ports controlled; UNLIKELY is enough if the queue of d is significantly most
      of the waiting;
   d. the waits are those of a FIFO queue at the port (fifo.py), each significantly: the link did not idle in that time
      (IDLE), later packets in a full stretch that delayed a probe waited as well (MAJORITY of the stretches, and not
      significantly fewer than STANDING), and the queue explains most of the waiting (MAJORITY, and significantly
      EXPLAINED);
   e. if bursts differ in length and an exchange could show it, waits fit their own burst better than an exchanged one
      (at the level of c): two things with one rhythm may keep one phase for hours, but their sizes are unrelated;
   f. the relative risk of a spike in a burst is significantly above 1;
   g. there is no lag at which the link fits the waits clearly better: a burst that follows the latency is its
      consequence;
   h. the negative controls show no effect;
   i. the switch's own queue windows, drop counters and counters of marked packets (ECN), if there are any, do not
      contradict: every probe that waited for longer than the threshold of its marks found one; and packets that arrived
      marked, in most of the stretches that delayed probes, were marked by it;
   j. counting the probes that were lost, but not by the full port, `bursts` still has more than half;
   k. if it has that only with probes that TCP repeated, the queue was long when they were sent (MAJORITY), and the port
      recorded repeated segments when they ended, if it recorded any;
   l. the recording is sound in the relevant places: the port carried no more than its link can, and the capture did not
      lose more than IDLE of the bytes in most of the full stretches that delayed probes.
5. `elsewhere` gives way if the port may be the cause all the same:
   a. most of its lateness is of probes that met a burst, or came while the port carried as much as it ever did, and
      more so than by chance: the bursts may act where the recording cannot see it (a slower hop before this port, a
      link slower than stated);
   b. with another offset of the clocks the delays would fit the full link, and a queue there would explain most of the
      waiting, as in 4d;
   c. the link was full most of that time, which is hardly chance (UNLIKELY), and the delays that fall into bursts fit
      their own burst better than others, and end with it (SIGNIFICANT).
6. Pause frames: a port that was asked to stop sending delays packets without any burst, and the delayed packets leave
   in a full stretch.
   a. The asker is the cause (the host that asked the switch: `host`; the switch that asked the host: `elsewhere`) if
      significantly more than half of the excess was spent at a port that was idle while all of its classes were asked
      to stop, in COINCIDENCES episodes, and all but SIGNIFICANT of shifted pauses meet the waits less well.
   b. Otherwise a cause must have significantly more than half without all that the pauses can account for, unless it is
      the account of the asker.
7. Bursts of several ports of the path are named, as those of one of them, without the ports that nothing shows to have
   queued: windows of the switch show the queue at the main port (or none at theirs), packets passed their queue or it
   does not explain the waits (4d), or these fit other bursts as well (UNLIKELY). A port that feeds the next one fills
   it, too. The main port is left out if its windows contradict and another one may have queued.
8. A cause gives way if most late or lost probes were sent while nothing was recorded, and significantly more than TWICE
   as often as in recorded time.
9. Unknown time could have any cause: if it could turn the majority, the answer is `undetermined`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...units import format_count, format_duration, format_share
from ..model.flow_control import class_words
from ..model.stats import Estimate
from .needed import (
    CLASS,
    CLOCKS,
    DROPS,
    HIGHER,
    LONGER,
    LONGER_MIXED,
    MISSING,
    MORE_PROBES,
    QUEUES,
    QUIET,
    RHYTHM,
    SPEED,
    UNANSWERED,
    reason_to_pause,
)
from .port import Port
from .scene import Control, Evidence, Paused, Unrecorded
from .tail import LatencyTail

MAJORITY = 0.5
EPISODES = 3
COINCIDENCES = 5
SIGNIFICANT = 0.005
UNLIKELY = 0.05
AT_CEILING = 0.8  # of the most that the port ever carried in an equally long time; edges of bins take some
IDLE = 0.05  # of what the link can carry: if more is missing while packets wait, they wait elsewhere
STANDING = 0.9  # of the full stretches: no packet passes a queue; the rest are errors of stamps and bins
EXPLAINED = 1 / 3  # of the waiting; the queue is one number for all bursts, and real ones come at many speeds
TWICE = 2.0  # as often: more than half of the lateness at that time has another reason than the lateness here
CONTROL_SPIKES = 5  # fewer are no effect
TOO_SHORT = "the switch's queue was too short for these delays"
Doubt = tuple[str, str]  # a reason that keeps a cause from being stated, and what would settle it


@dataclass(frozen=True)
class Verdict:
    """cause: bursts, host, elsewhere, none or undetermined. reasons: the rules that decided, a sentence each."""

    cause: str
    reasons: list[str]
    missing: list[str]
    paused: bool = False  # it is the cause because it sent pause frames
    ports: tuple[str, ...] = ()  # the names of those whose bursts are the cause: one of these


def decide(evidence: Evidence) -> Verdict:
    """Returns the verdict of the rules above on the evidence of one path."""
    tail = evidence.tail
    missing = gaps(evidence)
    if tail.n == 0:
        return Verdict(
            "undetermined", ["no probe was answered in the recorded time"], ["probes with answers", *missing]
        )
    if tail.present is False:
        if doubts := doubts_about_none(evidence):
            return Verdict("undetermined", [doubt for doubt, _ in doubts], [*(m for _, m in doubts), *missing])
        return Verdict("none", [f"p99 is below {format_duration(tail.threshold_ns)}"], [])
    if tail.present is None:
        return Verdict(
            "undetermined",
            [f"{format_count(tail.n, 'probe is', 'probes are')} too few to show a p99"],
            [f"more probes: at least {max(1000, 2 * tail.n):,} on this path (now {tail.n:,})"],
        )
    if doubt := doubt_about_gaps(evidence):
        return Verdict("undetermined", [doubt[0]], [doubt[1], *missing])
    if by_pauses := stopped_by(evidence, missing):
        return by_pauses
    leader = max(("bursts", "host", "elsewhere"), key=lambda name: evidence.shares[name].value)
    share = evidence.shares[leader]
    if share.low <= MAJORITY:
        return without_majority(evidence, missing)
    if evidence.episodes < EPISODES:
        reason = f"only {evidence.episodes} separate episodes of lateness"
        return Verdict("undetermined", [reason], ["a longer recording, with more episodes", *missing])
    if leader == "elsewhere" and (doubt := doubt_about_elsewhere(evidence)):
        return Verdict("undetermined", [doubt[0]], [doubt[1], *missing])
    if leader != "bursts" and (doubts := doubts_about_pauses(evidence, leader)):
        return Verdict("undetermined", [doubt for doubt, _ in doubts], [*(m for _, m in doubts), *missing])
    if leader != "bursts":
        return Verdict(leader, [f"{format_share(share.value)} of the excess", *stated(evidence)], missing)
    doubts = doubts_about_bursts(evidence)
    if doubts:
        return Verdict("undetermined", [doubt for doubt, _ in doubts], [*dict.fromkeys(m for _, m in doubts), *missing])
    reasons = [f"{format_share(share.value)} of the excess", *stated(evidence)]
    return Verdict("bursts", reasons, missing, ports=tuple(port.name for port in queueing_ports(evidence)))


def doubts_about_none(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether the measured probes show that there is no tail."""
    tail, outside, doubts = evidence.tail, evidence.unrecorded, []
    if tail.is_slow_throughout:
        doubts.append(doubt_about_median(tail))
    if tail.unanswered:
        part = format_share(tail.unanswered / (tail.unanswered + tail.n))
        lost = format_count(tail.unanswered, "probe was", "probes were")
        doubts.append((f"{lost} lost ({part}), and whether they would have been late is not known", UNANSWERED))
    if outside is not None and outside.is_tail and outside.episodes >= EPISODES:
        doubts.append((unrecorded_words(outside), MISSING["left out" if outside.left_out else "unrecorded"]))
    return doubts


def doubt_about_median(tail: LatencyTail) -> Doubt:
    """Returns why lateness beyond the median is not all of the lateness."""
    slow, quick = format_duration(tail.median_ns), format_duration(tail.quick_ns)
    return f"most probes are slow: the median is {slow}, but one in twenty takes {quick} or less", QUIET


def doubt_about_gaps(evidence: Evidence) -> Doubt | None:
    """Returns a doubt if most late probes were sent while nothing was recorded, in EPISODES, and surely more often
    (rule 8)."""
    outside = evidence.unrecorded
    if outside is None or outside.episodes < EPISODES or outside.late.low <= TWICE * outside.recorded.high:
        return None
    if outside.late_probes <= outside.recorded.value * outside.recorded.n:
        return None
    here = format_share(outside.recorded.value)
    needed = MISSING["left out" if outside.left_out else "unrecorded"]
    return f"{unrecorded_words(outside)}, but {here} of the others", needed


def unrecorded_words(outside: Unrecorded) -> str:
    """ "312 of 401 probes that were sent outside of the recordings in use were late or lost" """
    what = "late or lost" if outside.lost else "late"
    sent = f"{outside.late_probes:,} of {outside.late.n:,} probes that were sent outside of the recordings in use"
    return f"{sent} were {what}"


def stopped_by(evidence: Evidence, missing: list[str]) -> Verdict | None:
    """Returns the verdict of rule 6a, if it applies."""
    paused = evidence.paused
    if paused is None or paused.stood is None or paused.stood.low <= MAJORITY or paused.episodes < COINCIDENCES:
        return None
    if paused.p_value is None or paused.p_value > SIGNIFICANT:
        return None
    reason = f"{format_share(paused.stood.value)} of the excess was spent at an idle port while {asked_words(paused)}"
    return Verdict(paused.asker, [reason, *stated(evidence)], [reason_to_pause(paused), *missing], paused=True)


def doubts_about_pauses(evidence: Evidence, account: str) -> list[Doubt]:
    """Returns a doubt unless an account has more than half without what pause frames can have caused (rule 6b)."""
    paused = evidence.paused
    if paused is None or paused.askers == (account,) or paused.left[account].low > MAJORITY:
        return []
    part = format_share(paused.could.value)
    doubts = [(f"{asked_words(paused)}, which can account for up to {part} of the excess", reason_to_pause(paused))]
    if not paused.is_whole_link:
        doubts.append(("whether these classes are those of the probes is not known", CLASS))
    return doubts


def asked_words(paused: Paused) -> str:
    """Returns a phrase: which end asked which to stop which classes."""
    port, signals = paused.port, paused.port.signals
    who = {
        "host": f"{port.host} asked the switch to stop sending to {port.interface}",
        "elsewhere": f"the switch asked {port.host} to stop sending on {port.interface}",
    }.get(paused.asker, f"one end of the link of {port.name} asked the other to stop sending")
    return f"{who} (pause frames, {class_words(signals.asked_classes if signals else ())})"


def doubt_about_elsewhere(evidence: Evidence) -> tuple[str, str] | None:
    """Returns the doubt that keeps other parts of the network from being stated as the cause (rule 5), and what would
    settle it."""
    speed = "the true speed of the link (`--link`), and queue windows of the ports before it"
    if (evidence.begun or 0) > MAJORITY and (evidence.begun_p or 1) <= SIGNIFICANT:
        return "the delays begin in bursts, but the link was not full while they lasted", speed
    filled, ceiling = evidence.filled or 0, evidence.ceiling or np.inf
    if (evidence.p_value or 1) <= SIGNIFICANT and filled >= AT_CEILING * ceiling:
        reason = f"the port carried as much as it ever did, {format_share(filled)} of its rate, while probes waited"
        return reason, speed
    queue = evidence.lag_explained
    if evidence.lag_ns and (evidence.lag_share or 0) >= AT_CEILING and explains(queue):
        order = "before" if evidence.lag_ns < 0 else "after"
        apart = format_duration(abs(evidence.lag_ns))
        return f"the delays would fit the bursts exactly if they came {apart} {order} them", CLOCKS
    coincide = filled > MAJORITY and (evidence.p_value or 1) <= UNLIKELY
    if coincide and evidence.pairing_p is not None and evidence.pairing_p <= SIGNIFICANT:
        reason = f"the delays fit their own bursts better than others (p = {evidence.pairing_p:.3g})"
        return f"{reason}, though the link was not full all the while", CLOCKS
    return None


def without_majority(evidence: Evidence, missing: list[str]) -> Verdict:
    """Returns the verdict if no account has significantly more than half of the excess."""
    shares = evidence.shares
    if shares["unknown"].high > MAJORITY or shares["unknown"].value >= max(s.value for s in shares.values()):
        text = f"{format_share(shares['unknown'].value)} of the excess cannot be placed"
        return Verdict("undetermined", [text], missing or ["a longer recording"])
    parts = ", ".join(f"{name} {format_share(shares[name].value)}" for name in ("bursts", "host", "elsewhere"))
    mixed = ("no cause surely holds the majority of the excess: " + parts, LONGER_MIXED)
    leader = max(("bursts", "host", "elsewhere"), key=lambda name: shares[name].value)
    asked = evidence.paused is not None and evidence.paused.could.high > MAJORITY
    doubts = [mixed, *(doubts_about_pauses(evidence, leader) if asked else [])]
    return Verdict("undetermined", [doubt for doubt, _ in doubts], [*(m for _, m in doubts), *missing])


def doubts_about_bursts(evidence: Evidence) -> list[Doubt]:
    """Returns the doubts that keep a majority in `bursts` from being stated as the cause, each with what would settle
    it. If most probes are slow, that alone: the others are about waits beyond a median that is itself a wait."""
    doubts = [
        *doubts_about_port(evidence),
        *doubts_about_recording(evidence),
        *doubts_about_pauses(evidence, "bursts"),
        *doubts_about_chance(evidence),
        *doubts_about_queue(evidence),
        *doubts_about_losses(evidence),
        *doubts_about_repeats(evidence),
        *(
            (
                f"the bursts show an effect where they cannot act: {control.name}",
                "a recording of the ports on that path too",
            )
            for control in failed_controls(evidence)
        ),
    ]
    if doubts and evidence.tail.is_slow_throughout:
        return [doubt_about_median(evidence.tail), *doubts_about_port(evidence)]
    return doubts


def doubts_about_port(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether the probes cross the port, and whether its switch agrees."""
    doubts = []
    if evidence.crossing is not None and evidence.crossing.assumed:
        known = "which end of the probes is the recorded host (`--alias NAME`)"
        if evidence.crossing.port.switch:
            known = "which host is behind the switch's port (`links` of `mburst collect`, or `--alias NAME`)"
        doubts.append(("nothing says that these probes cross the recorded port", known))
    if evidence.switch is not None and not evidence.switch.fits:
        doubts.append((TOO_SHORT, QUEUES))
    if said := doubt_about_marks(evidence):
        doubts.append((said, QUEUES))
    return doubts


def doubt_about_marks(evidence: Evidence) -> str:
    """Returns how the switch's counter of marked packets contradicts a queue at the port, unless its depths show
    one."""
    marks, arrived = evidence.switch_marks, evidence.marked
    if marks is None or (evidence.switch is not None and evidence.switch.fits and evidence.switch.seen):
        return ""
    if marks.longer is not None and marks.longer.high < MAJORITY:
        part = format_share(marks.longer.value)
        return f"the switch marks packets in shorter queues (ECN), but did in only {part} of those that delayed probes"
    here = marks.stretches
    if here is None or here.high >= MAJORITY or arrived is None:
        return ""
    by_chance = arrived.chance > MAJORITY * arrived.stretches.value and MAJORITY * arrived.denser < 1
    if arrived.stretches.low <= MAJORITY or by_chance:
        return ""
    return "packets that came with the delays were marked (ECN CE) by a queue before this port: its switch marked none"


def doubts_about_recording(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether the full stretches that delayed probes were recorded correctly."""
    sound = evidence.soundness
    if sound is None:
        return []
    doubts = []
    if sound.above:
        reason = f"the port carried {format_share(sound.above)} of its rate for {format_duration(sound.above_ns)}"
        doubts.append((f"{reason}: it is faster than stated, or frames were counted twice", SPEED))
    if sound.lossy > MAJORITY and sound.missing > IDLE:
        reason = f"the capture lost packets in {format_share(sound.lossy)} of the full stretches that delayed probes"
        doubts.append((f"{reason}: the host itself may have been late", MISSING["losing"]))
    return doubts


def queueing_ports(evidence: Evidence) -> list[Port]:
    """Returns the ports of which one queued if bursts are the cause, the one that explains most first (rule 7)."""
    idle = {id(port) for port, _ in ports_without_queue(evidence)}
    full = {id(of.crossing.port): of.crossing.port for of in (evidence, *evidence.other_ports) if of.crossing}
    return [port for number, port in full.items() if number not in idle]


def ports_without_queue(evidence: Evidence) -> list[tuple[Port, str]]:
    """Returns the full ports of the path that nothing shows to have queued, each with the reason (rule 7)."""
    if evidence.crossing is None:
        return []
    main, switch, others = evidence.crossing.port, evidence.switch, evidence.other_ports
    found = [(of.crossing.port, why_not(of)) for of in others if of.crossing and of.crossing.port is not main]
    if switch is not None and switch.seen:
        return [(port, why or f"the switch's windows show the queue at {main.name}") for port, why in found]
    idle = [(port, why) for port, why in found if why]
    is_contradicted = switch is not None and not switch.fits and len(idle) < len(found)
    return [(main, TOO_SHORT), *idle] if is_contradicted else idle


def why_not(other: Evidence) -> str:
    """Returns why another full port of the path did not queue, as far as the evidence shows; '' if it may have."""
    model = other.fifo
    if model is not None and model.standing is not None and model.standing.high < STANDING:
        return "packets passed its queue"
    if model is not None and model.explained is not None and not explains(model.explained):
        return "a queue at it does not explain most of the waiting"
    if other.pairing_p is not None and other.pairing_p > UNLIKELY:
        return "the waits fit its other bursts as well"
    return "" if other.switch is None or other.switch.fits else TOO_SHORT


def stated(evidence: Evidence) -> list[str]:
    """Returns statements that go with any verdict that rests on a lossy capture."""
    sound = evidence.soundness
    if sound is None or not (sound.dropped or (sound.is_least and sound.lossy)):
        return []
    port = evidence.crossing.port.name if evidence.crossing else "the port"
    packets = f"{'at least ' if sound.is_least else ''}{format_count(sound.dropped, 'packet')}"
    if not sound.dropped:
        packets = "packets, not known how many"
    return [f"the capture of {port} lost {packets}: what it counted is a lower bound"]


def doubts_about_chance(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether bursts and latency merely coincide."""
    doubts = []
    q = evidence.q_value if evidence.q_value is not None else evidence.p_value
    risk = evidence.relative_risk
    if evidence.burst_episodes < COINCIDENCES:
        doubts.append((f"only {evidence.burst_episodes} episodes of lateness fall into bursts", LONGER))
    surely = UNLIKELY if queue_is_clear(evidence) else SIGNIFICANT
    if q is None or q > surely:
        chance = "not testable" if q is None else f"p = {q:.3g}"
        doubts.append((f"the coincidence with bursts could be chance ({chance})", RHYTHM))
    if evidence.pairing_p is not None and evidence.pairing_p > surely:
        doubts.append((f"delays fit other bursts as well as their own (p = {evidence.pairing_p:.3g})", LONGER))
    if evidence.exposed and not evidence.unexposed:
        doubts.append(("every probe met a burst: none is left to compare with", HIGHER))
    elif risk is None or risk.low <= 1:
        advice = HIGHER if evidence.exposed > evidence.unexposed else LONGER
        doubts.append(("a probe in a burst is not surely more at risk than one outside", advice))
    if evidence.lag_ns:
        order = "before" if evidence.lag_ns < 0 else "after"
        lag = format_duration(abs(evidence.lag_ns))
        doubts.append((f"latency fits bursts {lag} {order} it happens better", CLOCKS))
    return doubts


def explains(queue: Estimate | None) -> bool:
    """Returns whether a queue explains most of the waiting, and significantly more than EXPLAINED of it."""
    return queue is not None and queue.value > MAJORITY and queue.low > EXPLAINED


def queue_is_clear(evidence: Evidence) -> bool:
    """Returns whether a queue at the port explains most of the waiting, stretch by stretch: something that merely has
    the same rhythm does not also end with each full stretch."""
    model = evidence.fifo
    if model is None or model.standing is None or model.explained is None:
        return False
    return min(model.standing.low, model.explained.low) > MAJORITY


def doubts_about_queue(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether the waits are those of a queue at the port. A full link alone has no queue: one
    sender can fill it."""
    model = evidence.fifo
    if model is None:
        return [("whether a queue at the port made the waits cannot be tested", MORE_PROBES)]
    doubts = []
    delayed = evidence.tail.spikes.sum() > evidence.tail.late_losses.sum()
    if model.carried is None and delayed:
        doubts.append(("whether the link idled while probes waited cannot be tested", MISSING["coarse"]))
    elif model.carried is not None and model.carried.high < 1 - IDLE:
        idle = format_share(1 - model.carried.value)
        doubts.append((f"the link idled {idle} of the time in which probes waited, which a queue never does", QUEUES))
    if model.standing is None:
        doubts.append(("whether all that met the full port waited cannot be tested", MORE_PROBES))
    elif model.standing.low <= MAJORITY or model.standing.high < STANDING:
        passed = format_share(1 - model.standing.value)
        reason = f"in {passed} of the full stretches that delayed a probe, a later one did not wait as in a queue"
        doubts.append((reason, QUEUES))
    if model.explained is None:
        doubts.append(("whether a queue at the port predicts the waits cannot be tested", MORE_PROBES))
    elif not explains(model.explained):
        part = format_share(max(model.explained.value, 0.0))
        doubts.append((f"a queue at the port explains {part} of the waiting while it was full", QUEUES))
    return doubts


def doubts_about_losses(evidence: Evidence) -> list[Doubt]:
    """Returns a doubt unless the lateness caused by bursts is still the majority when probes lost elsewhere count as
    late too. A lost probe weighs as much as the median late one."""
    ledger, lost = evidence.ledger, evidence.lost_elsewhere
    total = float(ledger.excess.sum())
    elsewhere = lost * float(np.median(ledger.excess)) if len(ledger.excess) else 0.0
    if evidence.shares["bursts"].low * total > MAJORITY * (total + elsewhere):
        return []
    missing = format_count(lost, "probe was", "probes were")
    return [(f"{missing} lost, but not by the full port, beside {len(ledger.late):,} late", DROPS)]


def doubts_about_repeats(evidence: Evidence) -> list[Doubt]:
    """Returns doubts about whether delays near a timeout are those of segments that the port dropped, if `bursts` would
    not have more than half without them: something else may stall for as long."""
    ledger, model = evidence.ledger, evidence.fifo
    repeated = float(ledger.excess[evidence.repeats.either[ledger.late]].sum())
    total = float(ledger.excess.sum())
    if not repeated or evidence.shares["bursts"].low * total - repeated > MAJORITY * total:
        return []
    doubts = []
    if model is None or model.overflowed is None or model.overflowed.low <= MAJORITY:
        reason = "the queue was not surely long when those probes were sent that were answered after a timeout"
        doubts.append((reason, DROPS))
    again = evidence.seen_again
    if again is not None and again.share.high < MAJORITY:
        doubts.append(("the port recorded repeated segments, but not when the repeated probes were answered", DROPS))
    return doubts


def failed_controls(evidence: Evidence) -> list[Control]:
    """Returns the controls that are significantly more at risk in bursts, and at least half as often late in them as
    the tested path: a weaker effect cannot cause the tail. Rates are compared, not relative risks, which depend on the
    few late probes outside."""
    own = evidence.exposed_late / max(evidence.exposed, 1)
    return [
        control
        for control in evidence.controls
        if control.spikes >= CONTROL_SPIKES
        and control.risk.low > 1
        and control.spikes / max(control.risk.n, 1) > own / 2
    ]


def gaps(evidence: Evidence) -> list[str]:
    """Returns what the recording lacks, most costly first, from the reasons in the ledger and the stamps."""
    reasons = evidence.ledger.reasons
    total = float(evidence.ledger.excess.sum())
    worth = [name for name in sorted(reasons, key=lambda name: -reasons[name]) if reasons[name] > 0.05 * total]
    lacking = [MISSING[name] for name in worth]
    if "unstamped" in worth and evidence.lag_ns and (evidence.lag_share or 0) > 2 * MAJORITY * (evidence.filled or 0):
        lacking.insert(0, CLOCKS)
    return lacking + evidence.notes
