"""Evidence for one path: what speaks for and against the bursts of the recorded ports as the cause of its tail.

Two independent lines, and a verdict needs both: the ledger (ledger.py) asks of every late probe whether the link was
full exactly while it waited, and the permutation asks how often that would come about if bursts and latency had nothing
to do with each other. Shifting one series around the circle of recorded time keeps the rhythm of both, so two things
that merely share a period are told from two things that share their moments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import fifo, switch_word
from . import ledger as books
from .arrivals import Arrivals
from .exchange import exchange_p, lay
from .fifo import Fifo, waited_here
from .ledger import ACCOUNTS, BURSTS, HOST, Crossing, Ledger
from .port import Port, Wait
from .stats import (
    Estimate,
    Floats,
    Line,
    block_bootstrap,
    line_over_blocks,
    permutation_p,
    rank,
    relative_risk,
)
from .switch_word import Queue, Word, depth_at
from .tail import DEFAULT, MS, Latency, Probes, Rule, Tail, episodes, judge_tail, latency

SHIFTS = 1999  # of the permutation: the least p is 1 / 2000
ROUNDS = 1000  # of the bootstrap
SAMPLE = 2000  # late probes that are shifted; an evenly spaced choice of more
AS_WELL = 0.95  # of the unshifted fit: a shift that fits so well fits as well
TELLING = 0.005  # p at which an exchange would tell the queue that fits best from chance
LAG_RANGE = 1000 * MS  # how far the lag scan looks: five times the least TCP retransmission timeout
SECOND = 10**9


class Control(NamedTuple):
    """A comparison in which the bursts must show no effect if they are the cause of the tail and nothing else is."""

    name: str
    risk: Estimate
    spikes: int


class Scan(NamedTuple):
    """How full the link was while late probes waited, after shifts. lags: ns, latency after the burst.

    asymmetry: mean fit where bursts come first less that where latency does, over their sum: below 0 where bursts
    follow latency, as retries do; about 0 for what coincides.
    """

    lags: Floats
    fits: Floats
    asymmetry: float
    waits: int


@dataclass
class Evidence:
    """Everything that the verdict (verdict.py) rests on, for one path. None: not measured, and why is in `missing`."""

    path: str
    tail: Tail
    delays: Latency
    ledger: Ledger
    crossing: Crossing | None  # the port whose bursts explain most, or the first
    shares: dict[str, Estimate] = field(default_factory=dict)  # of ACCOUNTS
    stage_shares: dict[str, float] = field(default_factory=dict)
    episodes: int = 0
    burst_episodes: int = 0  # those with time in `bursts`
    bursts: int = 0  # in the recorded time that probes cover
    exposed: int = 0  # probes that met a burst
    exposed_late: int = 0  # those of them that were late
    relative_risk: Estimate | None = None
    p_value: float | None = None
    pairing_p: float | None = None  # how often waits fit exchanged bursts as well; None where that cannot tell
    fifo: Fifo | None = None  # whether the waits are those of a queue at that port
    q_value: float | None = None  # p_value with the false-discovery rate of all paths and ports judged controlled
    lag_ns: float | None = None
    lag_share: float | None = None  # explained at that lag; at lag 0 it is in `filled`
    lag_explained: Estimate | None = None  # at that lag: the part of the waiting that a queue at the port explains
    ceiling: float | None = None  # the most that the port ever carried in a time as long as a wait; as `filled`
    scan: Scan | None = None
    filled: float | None = None
    begun: float | None = None  # share of `elsewhere` that began in a burst though the link was not full throughout
    begun_p: float | None = None  # how often a shift puts as much there
    excess_share: Estimate | None = None
    dose: Line | None = None
    dose_kind: str = ""
    correlation_bin: Estimate | None = None
    correlation_second: Estimate | None = None
    correlation_queue: Estimate | None = None
    host_share: Estimate | None = None
    switch: Word | None = None  # what the port's queue windows say of the waits
    lost_elsewhere: int = 0  # probes that were lost, but not by the full port
    controls: list[Control] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    met: Floats | None = None  # when each probe would have come to that port had nothing else delayed it
    full_ns: Floats | None = None  # how long the port stayed full after that


@dataclass(frozen=True)
class Scene:
    """What was recorded of one path. bursts: (begin, end) arrays of each port in `crossings`, ns since the origin.

    others: other paths, which cross none of these ports. queues: windows of each port's queue, or None. arrivals: what
    recorded senders sent to each port, or None.
    """

    probes: Probes
    crossings: list[Crossing]
    bursts: list[tuple[Floats, Floats]]
    queues: list[Queue | None]
    others: list[Probes]
    rule: Rule = DEFAULT
    arrivals: list[Arrivals | None] = field(default_factory=list)

    def arrivals_at(self, crossing: Crossing) -> Arrivals | None:
        known = zip(self.crossings, self.arrivals, strict=False)
        return next((came for other, came in known if other is crossing), None)


def gather(scene: Scene, rng: np.random.Generator) -> Evidence:
    """All the evidence about one path. Deterministic given the generator's state."""
    probes = scene.probes
    delays = latency(probes)
    meets = [books.meeting_time(probes, delays, crossing) for crossing in scene.crossings]
    full = [crossing.port.busy_after(met) for crossing, met in zip(scene.crossings, meets, strict=True)]
    busy = np.zeros(len(probes), dtype=bool)
    for remaining in full:
        busy |= remaining > 0
    tail = judge_tail(probes, delays, scene.rule, busy)
    ledger = books.keep(probes, delays, tail, scene.crossings, busy)
    evidence = Evidence(probes.path, tail, delays, ledger, None)
    account(evidence, len(probes), rng)
    if scene.crossings:
        number = main_port(ledger, len(scene.crossings))
        evidence.crossing, evidence.met, evidence.full_ns = scene.crossings[number], meets[number], full[number]
        against_bursts(evidence, scene, number, meets[number], rng)
        against_rate(evidence, scene, number, meets[number], rng.spawn(1)[0])
        against_chance(evidence, scene, number, meets[number], rng)
        against_fifo(evidence, scene, number, rng.spawn(2))
        against_pairing(evidence, scene, number, rng)
        against_switch(evidence, scene, number)
        begun_in_bursts(evidence, scene, number, rng)
        against_controls(evidence, scene, number, meets[number], rng)
    return evidence


def account(evidence: Evidence, n: int, rng: np.random.Generator) -> None:
    """Shares of the tail's excess, with intervals from resampling whole latency episodes."""
    ledger, tail = evidence.ledger, evidence.tail
    late = np.zeros(n, dtype=bool)
    late[ledger.late] = True
    number = episodes(late, np.isfinite(evidence.delays.total) | late)[ledger.late]
    count = int(number.max()) + 1 if len(number) else 0
    sums = np.zeros((count, len(ACCOUNTS)))
    np.add.at(sums, number, ledger.accounts)
    evidence.episodes = count
    evidence.burst_episodes = int((sums[:, BURSTS] > sums.sum(axis=1) / 2).sum())
    total = float(sums.sum())
    for k, name in enumerate(ACCOUNTS):
        columns = np.column_stack((sums[:, k], sums.sum(axis=1)))
        low, high = block_bootstrap(columns, lambda rows: rows[:, 0] / rows[:, 1], ROUNDS, rng)
        evidence.shares[name] = Estimate(float(sums[:, k].sum()) / total if total else 0.0, low, high, count)
    evidence.stage_shares = {stage: float(part.sum()) / total for stage, part in ledger.stages.items()} if total else {}
    hosts_seen = any(np.isfinite(evidence.delays.stages[stage]).any() for stage in ("send", "turn", "receive"))
    if hosts_seen and total and tail.spikes.any():
        evidence.host_share = evidence.shares[ACCOUNTS[HOST]]


def main_port(ledger: Ledger, ports: int) -> int:
    """The port in front of which late probes waited most while it was full; the first of several that are equal."""
    explained = np.zeros(ports)
    for entry in ledger.entries:
        here = entry.rows[entry.answers == Wait.BUSY]
        explained[entry.crossing] += float(ledger.stages[entry.stage][here].sum())
    return int(np.argmax(explained))


def in_bursts(time: Floats, bursts: tuple[Floats, Floats], slack: float) -> NDArray[np.bool_]:
    """Whether each time lies in a burst, widened by `slack` (a bin: where in it the burst began is not known)."""
    starts, ends = bursts
    if len(starts) == 0:
        return np.zeros(len(time), dtype=bool)
    place = rank(starts - slack, time) - 1
    return (place >= 0) & (time <= ends[np.maximum(place, 0)] + slack)


def risk_of(
    hit: NDArray[np.bool_], exposed: NDArray[np.bool_], time: Floats, block_ns: float, rng: np.random.Generator
) -> Estimate:
    """Relative risk of a hit among the exposed against the rest, its interval from resampling blocks of time."""
    block = np.floor((time - time.min(initial=np.inf)) / block_ns).astype(np.int64)
    count = int(block.max(initial=0)) + 1
    columns = (hit & exposed, exposed, hit & ~exposed, ~exposed)
    sums = np.column_stack([np.bincount(block[rows], minlength=count) for rows in columns]).astype(float)
    sums = sums[sums[:, 1] + sums[:, 3] > 0]
    value = float(relative_risk(*sums.sum(axis=0)))
    low, high = block_bootstrap(sums, lambda rows: relative_risk(*rows.T), ROUNDS, rng)
    return Estimate(value, low, high, int(exposed.sum()))


def block_length(time: Floats, bursts: tuple[Floats, Floats]) -> float:
    """Blocks of the bootstrap, ns: long against bursts and the gaps between them, yet at least ten of them.

    Ten is what leaves an interval at all; recordings of less than a hundred gaps pay with wider, less certain
    intervals.
    """
    span = max(float(time.max(initial=0) - time.min(initial=0)), 1.0)
    if len(bursts[0]) < 2:
        return span / 10
    period = float(np.median(np.diff(bursts[0])) + np.median(bursts[1] - bursts[0]))
    return min(max(5 * period, span / 200), span / 10)


def against_bursts(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Relative risk of a spike in a burst, and the share of all excess over the median that lies in bursts."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    exposed = in_bursts(met, bursts, port.bin_ns)
    known = np.isfinite(port.position(met)) & (np.isfinite(evidence.delays.total) | evidence.tail.late_losses)
    if not known.any():
        return
    evidence.bursts = int(((bursts[1] >= met.min()) & (bursts[0] <= met.max())).sum()) if len(bursts[0]) else 0
    evidence.exposed = int((exposed & known).sum())
    hit = evidence.tail.spikes | evidence.tail.late_losses
    evidence.exposed_late = int((hit & exposed & known).sum())
    length = block_length(met[known], bursts)
    if evidence.exposed:
        evidence.relative_risk = risk_of(hit[known], exposed[known], met[known], length, rng)
    beyond = np.nan_to_num(np.maximum(evidence.delays.total - evidence.tail.median_ns, 0))[known]
    block = np.floor((met[known] - met[known].min()) / length).astype(np.int64)
    sums = np.column_stack((np.bincount(block, beyond * exposed[known]), np.bincount(block, beyond))).astype(float)
    if sums[:, 1].sum() > 0:
        low, high = block_bootstrap(sums, lambda rows: rows[:, 0] / np.maximum(rows[:, 1], 1e-9), ROUNDS, rng)
        evidence.excess_share = Estimate(float(sums[:, 0].sum() / sums[:, 1].sum()), low, high, int(known.sum()))


def against_rate(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Delay against utilization as three dashboards would show it, and the response to the dose."""
    crossing, queue = scene.crossings[number], scene.queues[number]
    port, delays = crossing.port, evidence.delays
    total = delays.total
    known = np.isfinite(met)
    block = np.zeros(len(met), dtype=np.int64)
    block[known] = (met[known] - met[known].min(initial=np.inf)) / block_length(met[known], scene.bursts[number])

    def line(dose: Floats, response: Floats) -> Line | None:
        return line_over_blocks(dose, response, block, ROUNDS // 2, rng)

    def with_rate(width: int) -> Estimate | None:
        found = line(port.utilization(met, width), total)
        return found and found.r

    evidence.correlation_bin = with_rate(max(port.bin_ns, int(MS)))
    evidence.correlation_second = with_rate(SECOND)
    waited = waited_here(delays, crossing)
    full = evidence.full_ns if evidence.full_ns is not None else port.busy_after(met)
    doses = {"time that the port stayed full after the probe came": full}
    if queue is not None:
        depth = depth_at(queue, met)
        found = line(depth, total)
        evidence.correlation_queue = found and found.r
        if float(np.median(queue.end - queue.start)) <= 10 * MS and np.isfinite(depth).any():
            drain = depth / port.link_bps * 8e9
            doses = {"the switch's largest queue of the window, at line rate": drain, **doses}
    came = scene.arrivals_at(crossing)
    if came is not None:
        drain = came.backlog_at(port.position(met)) / port.link_bps * 8e9
        doses = {"the queue that the recorded senders' bytes make, at line rate": drain, **doses}
    for kind, dose in doses.items():
        evidence.dose, evidence.dose_kind = line(np.where(dose > 0, dose, np.nan), waited), kind
        if evidence.dose is not None:
            return


def against_chance(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """How full the link was while late probes waited, against the same after shifts around the recorded time."""
    port = scene.crossings[number].port
    _, arrival, departure, weight = waits_here(evidence, number, met)
    if len(arrival) == 0:
        return
    evidence.filled = float(weight @ port.filling(arrival, departure)) / float(weight.sum())
    shifts = rng.uniform(0, port.bins, SHIFTS)
    null = shifted_apart(port, arrival, departure, weight, shifts)
    evidence.p_value = permutation_p(AS_WELL * evidence.filled, null)
    evidence.ceiling = port.ceiling(float(np.median(departure - arrival)))
    scan_lag(evidence, port, arrival, departure, weight)


def against_fifo(evidence: Evidence, scene: Scene, number: int, rngs: list[np.random.Generator]) -> None:
    """Whether the waits are those of a queue at the port: as they are, and at the lag that fits the full link best."""
    crossing, met, delays, tail = scene.crossings[number], evidence.met, evidence.delays, evidence.tail
    if met is None:
        return
    model = fifo.examine(scene.probes, delays, tail, evidence.ledger, (number, crossing), met, rngs[0])
    evidence.fifo = model
    if evidence.lag_ns and evidence.scan is not None:
        step = float(evidence.scan.lags[1] - evidence.scan.lags[0])
        there = met - evidence.lag_ns
        evidence.lag_explained = fifo.explained_at(delays, tail, crossing, there, model.error_ns + step, rngs[1])


def against_pairing(evidence: Evidence, scene: Scene, number: int, rng: np.random.Generator) -> None:
    """Whether waits fit their own burst better than another one; left open where even those of the queue that fits best
    would not."""
    port, model, met = scene.crossings[number].port, evidence.fifo, evidence.met
    begin, end = (port.position(side) for side in scene.bursts[number])
    if model is None or met is None:
        return
    waits = waits_here(evidence, number, met)
    predicted = waits.arrival + model.predicted[waits.rows] / port.bin_ns
    laid, expected = (
        lay((begin, end), waits.arrival, until, waits.weight) for until in (waits.departure, predicted)
    )
    if laid is not None and expected is not None and exchange_p(port, expected, rng) <= TELLING:
        evidence.pairing_p = exchange_p(port, laid, rng)


def against_switch(evidence: Evidence, scene: Scene, number: int) -> None:
    """What the port's switch says of the waits and of the lost probes."""
    crossing, queue, tail = scene.crossings[number], scene.queues[number], evidence.tail
    met, model = evidence.met, evidence.fifo
    evidence.lost_elsewhere = tail.lost - int(tail.late_losses.sum())
    if met is None or model is None:
        return
    evidence.lost_elsewhere += switch_word.lost_elsewhere(queue, met[tail.late_losses])
    waited = waited_here(evidence.delays, crossing)
    late = np.flatnonzero(waited > tail.threshold_ns - tail.median_ns)
    if queue is not None and len(late):
        evidence.switch = switch_word.word(queue, crossing.port.link_bps, met[late], waited[late], model.error_ns)


def begun_in_bursts(evidence: Evidence, scene: Scene, number: int, rng: np.random.Generator) -> None:
    """How much of what lies elsewhere, in a stage in which the port's queue lies too, began while a burst went on; and
    how much does after shifts."""
    port, (starts, ends) = scene.crossings[number].port, scene.bursts[number]
    places: list[Floats] = [np.zeros(0)]
    weights: list[Floats] = [np.zeros(0)]
    for entry in evidence.ledger.entries:
        if entry.crossing == number and entry.stage in ("forward", "back"):
            idle = entry.answers == Wait.IDLE
            places.append(port.position(entry.arrival[idle]))
            weights.append(evidence.ledger.stages[entry.stage][entry.rows[idle]])
    place, lateness = np.concatenate(places), np.concatenate(weights)
    rows = np.flatnonzero(np.isfinite(place))
    elsewhere = float(evidence.ledger.accounts[:, books.ELSEWHERE].sum())
    begin, end = port.position(starts), port.position(ends)
    known = np.isfinite(begin) & np.isfinite(end)
    if len(rows) == 0 or elsewhere <= 0 or not known.any():
        return
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(np.int64)]
    begin, end, weight = begin[known] - 1, end[known] + 1, lateness[rows]

    def share(shifts: Floats) -> Floats:
        moved = np.mod(place[rows] + shifts[:, None], port.bins)
        burst = np.searchsorted(begin, moved, side="right") - 1
        inside: Floats = ((burst >= 0) & (moved <= end[np.maximum(burst, 0)])) @ weight / weight.sum()
        return inside

    here = float(share(np.zeros(1))[0])
    evidence.begun = here * float(lateness[np.isfinite(place)].sum()) / elsewhere
    shifts = rng.uniform(0, port.bins, SHIFTS)
    null = np.concatenate([share(shifts[first : first + 100]) for first in range(0, SHIFTS, 100)])
    evidence.begun_p = permutation_p(here, null)


class Waits(NamedTuple):
    """Waits in the stages in which a port's queue lies: of which probes, positions of begin and end, weights (ns)."""

    rows: NDArray[np.int64]
    arrival: Floats
    departure: Floats
    weight: Floats


def waits_here(evidence: Evidence, number: int, met: Floats) -> Waits:
    """At most SAMPLE of them. A lost probe stands for the bin after it came: a queue that overflows keeps the link full
    at least so long."""
    ledger, entries = evidence.ledger, [entry for entry in evidence.ledger.entries if entry.crossing == number]
    assert evidence.crossing is not None
    port = evidence.crossing.port
    lost = np.flatnonzero(evidence.tail.late_losses[ledger.late])
    begin = [entry.arrival for entry in entries] + [met[ledger.late[lost]]]
    end = [entry.departure for entry in entries] + [met[ledger.late[lost]] + port.bin_ns]
    weights = [ledger.stages[entry.stage][entry.rows] for entry in entries] + [ledger.excess[lost]]
    rows = np.concatenate([ledger.late[entry.rows] for entry in entries] + [ledger.late[lost]])
    arrival, departure = port.position(np.concatenate(begin)), port.position(np.concatenate(end))
    known = np.flatnonzero(np.isfinite(arrival) & np.isfinite(departure) & (departure > arrival))
    if len(known) > SAMPLE:
        known = known[np.linspace(0, len(known) - 1, SAMPLE).astype(np.int64)]
    return Waits(rows[known], arrival[known], departure[known], np.concatenate(weights)[known])


def shifted(port: Port, arrival: Floats, departure: Floats, weight: Floats, shifts: Floats) -> Floats:
    """Mean filling of the waits at each shift (bins)."""
    means = [
        port.filling(arrival, departure, shifts[first : first + 100, None]) @ weight
        for first in range(0, len(shifts), 100)
    ]
    return np.concatenate(means) / float(weight.sum())


def shifted_apart(port: Port, arrival: Floats, departure: Floats, weight: Floats, shifts: Floats) -> Floats:
    """As shifted(), but of the larger of the two parts that a shift cuts the waits into where the circle ends: across
    that end no rhythm goes on."""
    means = []
    for first in range(0, len(shifts), 100):
        shift = shifts[first : first + 100, None]
        fits = port.filling(arrival, departure, shift)
        beyond = np.mod(shift, port.bins) + arrival >= port.bins
        part = np.where((beyond @ weight > weight.sum() / 2)[:, None], beyond, ~beyond) * weight
        means.append((fits * part).sum(axis=1) / part.sum(axis=1))
    return np.concatenate(means)


def scan_lag(evidence: Evidence, port: Port, arrival: Floats, departure: Floats, weight: Floats) -> None:
    """The shift at which the waits fit the full link best, as latency after the burst; 0 unless another fits clearly
    (5 %) better, and then the nearest of those that fit about as well, since a rhythm fits at each of its periods."""
    reach = min(LAG_RANGE / port.bin_ns, port.bins / 4)
    step = max(1.0, float(np.median(departure - arrival)) / 4)
    lags = np.arange(-np.floor(reach / step), np.floor(reach / step) + 1) * step
    few = np.linspace(0, len(arrival) - 1, min(len(arrival), 400)).astype(np.int64)
    fits = shifted(port, arrival[few], departure[few], weight[few], lags)
    evidence.scan = scan_of(lags * port.bin_ns, fits, len(few))
    zero = float(fits[len(lags) // 2])
    best = float(fits.max())
    if zero >= 0.95 * best:
        evidence.lag_ns, evidence.lag_share = 0.0, zero
        return
    near = np.flatnonzero(fits >= 0.95 * best)
    at = near[np.argmin(np.abs(lags[near]))]
    # What the link did `lag` later fits: the burst follows the latency, so the latency comes `lag` before it.
    evidence.lag_ns, evidence.lag_share = float(-lags[at] * port.bin_ns), float(fits[at])


def scan_of(lags: Floats, fits: Floats, waits: int) -> Scan:
    """The scan by how long the latency comes after the burst. lags: sorted, by how long the burst comes after it."""
    latency_first, bursts_first = float(fits[lags > 0].sum()), float(fits[lags < 0].sum())
    asymmetry = (bursts_first - latency_first) / max(bursts_first + latency_first, 1e-12)
    return Scan(-lags[::-1], fits[::-1], asymmetry, waits)


def against_controls(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Negative controls: time before the bursts, the other direction of the same probes, and other paths."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    if len(bursts[0]) == 0 or len(met) == 0:
        return
    slack, length = float(port.bin_ns), block_length(met, bursts)
    known = np.isfinite(evidence.delays.total) & np.isfinite(port.position(met))
    exposed = in_bursts(met, bursts, slack)
    # As long as the burst, but not into the one before.
    begin = np.maximum(2 * bursts[0] - bursts[1] - slack, np.concatenate(([-np.inf], bursts[1][:-1])))
    before = in_bursts(met, (begin, bursts[0] - 2 * slack), 0.0) & ~exposed
    rows = known & ~exposed
    if before[rows].any():
        spikes = evidence.tail.spikes
        risk = risk_of(spikes[rows], before[rows], met[rows], length, rng)
        evidence.controls.append(Control("before the bursts", risk, int((spikes & before & rows).sum())))
    opposite = "back" if "forward" in books.queue_stages(scene.crossings[number]) else "forward"
    other_way = evidence.delays.excess(opposite)
    if port.direction != "mirror" and exposed.any():
        rows = np.isfinite(other_way) & np.isfinite(port.position(met))
        spikes = other_way > scene.rule.excess_ns
        risk = risk_of(spikes[rows], exposed[rows], met[rows], length, rng)
        evidence.controls.append(Control("the other direction", risk, int((spikes & exposed).sum())))
    for other in scene.others:
        sent = other.tx
        if other.src == scene.probes.src and scene.crossings[number].end == "dst":  # the same clock, as far off
            sent = sent + np.interp(sent, scene.probes.tx, evidence.delays.offset)
        control = other_path(other, sent, scene, port, bursts, rng)
        if control is not None:
            evidence.controls.append(control)


def other_path(
    other: Probes, sent: Floats, scene: Scene, port: Port, bursts: tuple[Floats, Floats], rng: np.random.Generator
) -> Control | None:
    """The same bursts against probes that do not cross the port; None where they were not sent meanwhile. `sent`: when,
    on the port's clock."""
    delays = latency(other)
    tail = judge_tail(other, delays, scene.rule, np.zeros(len(other), dtype=bool))
    exposed = in_bursts(sent, bursts, port.bin_ns)
    rows = np.isfinite(delays.total) & np.isfinite(port.position(sent))
    if not (exposed & rows).any():
        return None
    length = block_length(sent[rows], bursts)
    risk = risk_of(tail.spikes[rows], exposed[rows], sent[rows], length, rng)
    return Control(f"path {other.path}", risk, int((tail.spikes & exposed & rows).sum()))
