"""Whether there is a tail, and in which stage of a probe's way it is.

A probe's way is cut at its stamps into stages: in the sender's host, towards the destination, in the destination's
host, back, and in the sender's host again. A stage in one host needs only one clock. The two directions need two, so
the offset between them is removed first; the rest is exact except for the asymmetry of the empty path, which is no
tail.

Times are float64 nanoseconds since the investigation's origin, NaN if a stamp was not taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Z_99, Floats, quantiles, wilson
from ..read.path_ends import path_name

MS = 1e6
LEVELS = (0.99, 0.999)  # the percentiles of "p99 or more", lowest first
STAGES = ("send", "forward", "turn", "back", "receive", "round_trip", "return")
HOST_STAGES = ("send", "turn", "receive")  # between application and network interface, or inside the reflector
QUICK = 0.05  # the share of the fastest probes: at least so many met no queue, unless almost all do
LOSSES = 2000  # lost probes that are shifted; an evenly spaced choice of more
LOSS_SHIFTS = 1000
LOSS_P = 0.05  # share of shifts that may have as many losses among the exposed
CLOCK_WINDOW = 1e9  # ns; crystals drift by up to 50 µs in it
MOST_SLEW = 1e-3  # of two clocks that NTP slews in opposite directions, by 500 ppm each
MOST_DRIFT = 2e-4  # of two clocks: each may be off by 100 ppm (IEEE 802.3, clock of a link)


@dataclass(frozen=True)
class Probes:
    """Exchanges on one path, sorted by `tx`. All arrays have one length; `tx` is always known."""

    src: str
    dst: str
    protocol: str
    app_send: Floats
    tx: Floats
    remote_rx: Floats
    remote_tx: Floats
    rx: Floats
    app_recv: Floats
    rtt: Floats  # if only a round trip was measured
    lost: NDArray[np.bool_]
    stamp_kind: str = ""
    measure: str = "application"  # the measure of the path's latency: the store's view `latency` chooses it

    def __len__(self) -> int:
        return len(self.tx)

    @property
    def path(self) -> str:
        return path_name(self.src, self.dst, self.protocol)

    def select(self, rows: NDArray[np.bool_]) -> Probes:
        arrays: dict[str, Any] = {
            name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **arrays)


MOST_EXCESS = MS  # at 1 Gb/s and less
LEAST_EXCESS = 0.1 * MS  # below it, hosts differ from packet to packet, and few applications notice (tail_at_scale.py)


class TailRule(NamedTuple):
    """A probe is in the tail if it exceeds both `factor` × the median and the median + `excess_ns`. None: the value
    that suits the path."""

    factor: float = 5.0
    excess_ns: float | None = None
    levels: tuple[float, ...] = LEVELS

    def threshold(self, median: float) -> float:
        return max(self.factor * median, median + self.excess)

    @property
    def excess(self) -> float:
        return MOST_EXCESS if self.excess_ns is None else self.excess_ns

    def on(self, links_bps: Iterable[float]) -> TailRule:
        """Returns the rule for a path across recorded links. Unless it states `excess_ns`, that limit falls with the
        square root of the slowest link's speed, like the time that buffers hold (buffers grow with the speed, but
        slower): 1 ms at 1 Gb/s, 0.2 ms at 25 Gb/s, 0.1 ms at 100 Gb/s."""
        slowest = min(links_bps, default=1e9)
        scaled = min(max(MOST_EXCESS * (1e9 / slowest) ** 0.5, LEAST_EXCESS), MOST_EXCESS)
        return self if self.excess_ns is not None else self._replace(excess_ns=scaled)


DEFAULT = TailRule()


@dataclass(frozen=True)
class ProbeLatency:
    """The latency of each probe, ns. `total` is the latency that defines the tail: `measured` names its measure.

    stages: time in each stage, NaN if it cannot be separated. The direction stages are corrected by the clocks' offset,
    `offset` (reflector's clock − sender's, ns): 0 if no stamps show it; one way, it includes the delay of the empty
    path. unsure: the part of each one-way delay that may be the clocks, ns.
    """

    measured: str
    total: Floats
    stages: dict[str, Floats]
    offset: Floats
    unsure: Floats

    @cached_property
    def medians(self) -> dict[str, float]:
        """The median time in each stage; 0 without stamps."""
        return {stage: median_of_known(time) for stage, time in self.stages.items()}

    def excess(self, stage: str, rows: slice | NDArray[np.int64] = slice(None)) -> Floats:
        """Returns how much longer than the median probes spent in a stage, at least 0; NaN if unknown."""
        beyond: Floats = np.maximum(self.stages[stage][rows] - self.medians[stage], 0)
        return beyond


def median_of_known(values: Floats) -> float:
    """Returns the median of the known values; 0 if there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known, overwrite_input=True)) if len(known) else 0.0


@dataclass(frozen=True)
class LatencyTail:
    """The distribution and its tail. `present` is None if there are too few probes to determine it."""

    measured: str
    n: int
    lost: int
    quantiles_ns: tuple[float | None, ...]  # p50, p90, p99, p99.9, largest; of the answered probes
    median_ns: float
    threshold_ns: float
    spikes: NDArray[np.bool_]  # for each probe, whether it is beyond the threshold; False for lost ones
    rule: TailRule
    late_losses: NDArray[np.bool_]  # lost probes, if probes are lost because they would have been late
    level: float | None  # the lowest percentile beyond the threshold
    present: bool | None
    unanswered: int = 0  # lost probes whose latency is unknown, if with them the lowest level would surely be late
    quick_ns: float = 0.0  # the latency of the fastest probes: one in twenty is no slower

    @property
    def is_slow_throughout(self) -> bool:
        """Whether the median itself is late by the rule, against the fastest probes: then late probes are not those
        that are slower than most."""
        return self.median_ns > self.rule.threshold(self.quick_ns)


def latency(probes: Probes) -> ProbeLatency:
    """Cuts each probe's way at its stamps. The tail is measured by the path's measure; one way, by the varying part."""
    offset = clock_offset(probes)
    forward = probes.remote_rx - probes.tx - offset
    back = probes.rx - probes.remote_tx + offset
    unsure: Floats = np.zeros(len(probes))
    if not np.isfinite(back).any():  # one way, offset and empty path cannot be separated: only variation counts
        offset = floor(probes.tx, forward)
        forward = forward - offset
        unsure = slewed_at_most(probes.tx, forward)
    stages = {
        "send": probes.tx - probes.app_send,
        "forward": forward,
        "turn": probes.remote_tx - probes.remote_rx,
        "back": back,
        "receive": probes.app_recv - probes.rx,
        "return": np.broadcast_to(np.nan, len(probes)),
        "round_trip": np.broadcast_to(np.nan, len(probes)),
    }
    if (unstamped := np.isnan(probes.rx)).any():
        stages["return"] = np.where(unstamped, probes.app_recv - probes.remote_tx + offset, np.nan)
    if (whole := np.isnan(probes.remote_tx)).any():
        stages["round_trip"] = np.where(whole, probes.rx - probes.tx, np.nan)
        for other in (probes.app_recv - probes.tx, probes.rtt):
            gap = np.isnan(stages["round_trip"]) & whole
            stages["round_trip"][gap] = other[gap]
    total = forward if probes.measure == "one way" else latency_by(probes)
    return ProbeLatency(probes.measure, np.where(probes.lost, np.nan, total), stages, offset, unsure)


def latency_by(probes: Probes) -> Floats:
    """Returns the latency of each probe by its path's measure: latency_by of sql/macros.sql, for arrays."""
    turn = probes.remote_tx - probes.remote_rx
    measures: dict[str, Floats] = {
        "application": probes.app_recv - probes.app_send,
        "network round trip": probes.rx - probes.tx - turn,
        "round trip": probes.rx - probes.tx,
        "reported round trip": probes.rtt,
        "round trip to the application": probes.app_recv - probes.tx,
    }
    return measures.get(probes.measure, np.full(len(probes), np.nan))


def clock_offset(probes: Probes) -> Floats:
    """Returns the reflector's clock minus the sender's at each probe: (forward − back) / 2 of the fastest exchange of
    each second, interpolated (RFC 5905, section 8: the less a round trip waited, the better its offset). If one of the
    clocks was set in between, the offset steps there instead. 0 if no exchange shows it."""
    network = probes.remote_rx - probes.tx + (probes.rx - probes.remote_tx)
    known = np.flatnonzero(np.isfinite(network))
    if len(known) == 0:
        return np.zeros(len(probes))
    fastest = known[smallest_in_windows(probes.tx[known], network[known])]
    usual = float(np.median(network[fastest]))
    unqueued = network[fastest] <= max(2 * usual, usual + MS)  # a second without a quiet moment is ignored
    fastest = fastest[unqueued]
    forward = probes.remote_rx[fastest] - probes.tx[fastest]
    back = probes.rx[fastest] - probes.remote_tx[fastest]
    estimate = (forward - back) / 2
    offset = np.interp(probes.tx, probes.tx[fastest], estimate)
    for k, at in clock_steps(probes, fastest, estimate):
        offset[fastest[k] : at] = estimate[k]
        offset[at : fastest[k + 1] + 1] = estimate[k + 1]
    return offset


def clock_steps(probes: Probes, fastest: NDArray[np.int64], estimate: Floats) -> list[tuple[int, int]]:
    """Returns where one of the two clocks was set, as pairs: the index of the last one of the FASTEST exchanges before
    it, and the first exchange with the offset of the next one. ESTIMATE is the offset at each of the FASTEST."""
    forward, network = probes.remote_rx - probes.tx, probes.remote_rx - probes.tx + (probes.rx - probes.remote_tx)
    middle, apart = (network[fastest][:-1] + network[fastest][1:]) / 2, np.diff(probes.tx[fastest])
    ahead = np.abs(np.diff(estimate))
    unsure, slewed = middle + MOST_DRIFT * apart, ahead <= middle + MOST_SLEW * apart
    steps = []
    for k in np.flatnonzero(ahead > unsure):
        between = slice(fastest[k], fastest[k + 1] + 1)
        sliding = np.interp(probes.tx[between], probes.tx[fastest[k : k + 2]], estimate[k : k + 2])
        at = _set_at(forward[between], network[between], sliding, unsure[k], bool(slewed[k]))
        if at is not None:
            steps.append((int(k), int(fastest[k]) + at))
    return steps


def _set_at(forward: Floats, network: Floats, sliding: Floats, unsure: float, slewed: bool) -> int | None:
    """Returns the first exchange between two estimates of the offset at which the second one is valid: the one that
    leaves the fewest one-way delays that are negative by more than UNSURE, or longer than the round trip. None if the
    clock was slewed, with the offsets SLIDING: if these leave fewer, or equally many and NTP may slew by as much
    (SLEWED)."""

    def impossible(offset: Floats) -> NDArray[np.bool_]:
        return np.asarray((forward - offset < -unsure) | (forward - offset > network + unsure))

    before, after = impossible(sliding[:1]), impossible(sliding[-1:])
    wrong = np.concatenate(([0], np.cumsum(before))) + after.sum() - np.concatenate(([0], np.cumsum(after)))
    least = np.flatnonzero(wrong == wrong.min())
    of_slewing = impossible(sliding).sum()
    if of_slewing < wrong.min() or (slewed and of_slewing == wrong.min()):
        return None
    return int(least[len(least) // 2])


def floor(time: Floats, delay: Floats) -> Floats:
    """Returns the slowly moving minimum of the delay: the minimum of each second, then the median of eleven, so that no
    congested second raises it; with fewer seconds, the line below all of them with the median of their slopes (Theil
    and Sen)."""
    known = np.flatnonzero(np.isfinite(delay))
    if len(known) == 0:
        return np.zeros(len(time))
    least = known[smallest_in_windows(time[known], delay[known])]
    values = delay[least]
    if len(values) >= 11:
        padded = np.pad(values, 5, mode="reflect", reflect_type="odd")
        values = np.median(np.lib.stride_tricks.sliding_window_view(padded, 11), axis=1)
    else:
        slope = middle_slope(time[least], values)
        line: Floats = slope * time + float((values - slope * time[least]).min())
        return line
    return np.interp(time, time[least], values)


def slewed_at_most(time: Floats, delay: Floats) -> Floats:
    """Returns the most of each delay that clocks can have slewed to, from a prompt probe or from the smaller delay of
    another one: at MOST_SLEW of the time between both. 0 where no delay is known. TIME: sorted."""
    least = np.where(np.isfinite(delay), np.maximum(delay, 0.0), np.inf)
    ramp = MOST_SLEW * (time - time[:1])
    before = np.minimum.accumulate(least - ramp) + ramp
    after = np.minimum.accumulate((least + ramp)[::-1])[::-1] - ramp
    return np.where(np.isfinite(delay), np.minimum(before, after), 0.0)


def middle_slope(time: Floats, values: Floats) -> float:
    """Returns the median slope between any two points, at most MOST_DRIFT; 0 with fewer than three points."""
    if len(time) < 3:
        return 0.0
    one, other = np.triu_indices(len(time), 1)
    slope = float(np.median((values[other] - values[one]) / np.maximum(time[other] - time[one], 1.0)))
    return min(max(slope, -MOST_DRIFT), MOST_DRIFT)


def smallest_in_windows(time: Floats, values: Floats) -> NDArray[np.int64]:
    """Returns the index of the smallest value in each CLOCK_WINDOW of sorted times."""
    window = np.floor((time - time[0]) / CLOCK_WINDOW).astype(np.int64)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    least = np.minimum.reduceat(values, first)
    at_least = np.flatnonzero(values == np.repeat(least, np.diff(first, append=len(values))))
    return at_least[np.concatenate(([True], np.diff(window[at_least]) > 0))]


def find_tail(probes: Probes, delays: ProbeLatency, rule: TailRule, exposed: NDArray[np.bool_]) -> LatencyTail:
    """Returns whether p99, or a higher percentile, is beyond the rule's threshold. `exposed`: sent while a port was
    busy.

    A percentile is established if the share beyond is significantly (99 %, Wilson) above 1 − level; at the lowest level
    the plain share is enough, which is the meaning of "p99 exceeds". A tail is ruled out if the share is below 1 − the
    lowest level (95 %). A lost probe has no latency. It counts as late only if probes are lost significantly more often
    while a port is busy than otherwise: then the queue that delays others dropped it, and without it the survivors
    would look faster than the traffic was.
    """
    answered = np.isfinite(delays.total)
    values = delays.total[answered]
    median = quantiles(values, (0.5,))[0] or 0.0
    threshold = rule.threshold(median)
    spikes = np.zeros(len(probes), dtype=bool)
    spikes[answered] = values > threshold
    late_losses = probes.lost & exposed if losses_follow(probes.lost, exposed) else np.zeros(len(probes), dtype=bool)
    known = answered | late_losses
    n, beyond = int(known.sum()), int(spikes.sum() + late_losses.sum())
    level = established(beyond, n, rule.levels)
    _, high = wilson(beyond, n)
    present = True if level is not None else (False if high < 1 - rule.levels[0] else None)
    unanswered = int((probes.lost & ~late_losses)[_between_answers(answered)].sum())
    hidden = surely_beyond(beyond + unanswered, n + unanswered, rule)
    return LatencyTail(
        delays.measured,
        n,
        int(probes.lost.sum()),
        known_levels(values),
        median,
        threshold,
        spikes,
        rule,
        late_losses,
        level,
        present,
        unanswered if hidden else 0,
        quantiles(values, (QUICK,))[0] or 0.0,
    )


def _between_answers(answered: NDArray[np.bool_]) -> slice:
    """Returns the probes from the first to the last answered one: before and after it nobody may have been there to
    answer."""
    at = np.flatnonzero(answered)
    return slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, 0)


def surely_beyond(beyond: int, n: int, rule: TailRule) -> bool:
    """Returns whether surely (99 %) more probes than the lowest level of a tail allows are beyond its threshold."""
    return wilson(beyond, n, Z_99)[0] > 1 - rule.levels[0]


def known_levels(values: Floats) -> tuple[float | None, ...]:
    """Returns p50, p90, p99, p99.9 and the largest, as far as there are enough values (known_quantile of
    sql/macros.sql)."""
    found = quantiles(values, (0.5, 0.9, 0.99, 0.999))
    enough = [share <= 0.5 or len(values) * (1 - share) >= 1 - 1e-9 for share in (0.5, 0.9, 0.99, 0.999)]
    largest = float(values.max()) if len(values) else None
    return *(value if known else None for value, known in zip(found, enough, strict=True)), largest


def established(beyond: int, n: int, levels: tuple[float, ...]) -> float | None:
    """Returns the lowest percentile that is significantly beyond the threshold, if any. Fewer than 3 / (1 − level)
    probes cannot show a percentile (the rule of three)."""
    low, _ = wilson(beyond, n, Z_99)
    for level in levels:
        enough = n >= 3 / (1 - level)
        if enough and (beyond > n * (1 - level) if level == levels[0] else low > 1 - level):
            return level
    return None


def losses_follow(lost: NDArray[np.bool_], exposed: NDArray[np.bool_]) -> bool:
    """Returns whether most of the exposed probes that are lost are lost because they are exposed (with significance).

    Losses cluster whatever causes them, so clusters are counted, not single losses. They must be significantly (99 %)
    more than twice as frequent among the exposed as elsewhere, so that more than half of them would not have occurred
    otherwise. Shifted around the probes, they must meet the exposed as often more rarely than LOSS_P, because two
    things with one rhythm meet every time or never.
    """
    row = episodes(lost, np.ones(len(lost), dtype=bool))[lost]
    if not exposed.any() or not len(row):
        return False
    inside = 2 * np.bincount(row, exposed[lost]) > np.bincount(row)
    least, usual = wilson(int(inside.sum()), len(inside), Z_99)[0], float(exposed.mean())
    if least * (1 - usual) <= 2 * (1 - least) * usual:
        return False
    at = np.flatnonzero(lost)
    at = at[np.linspace(0, len(at) - 1, min(len(at), LOSSES)).astype(np.int64)]
    here = np.count_nonzero(exposed[at])
    shifts = np.arange(1, LOSS_SHIFTS) * len(lost) // LOSS_SHIFTS
    shifted = np.array([np.count_nonzero(exposed[(at + shift) % len(lost)]) for shift in shifts])
    return float((shifted >= here).mean()) <= LOSS_P


def episodes(late: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the number of the episode (0, 1, …) of each late probe, −1 for the rest. Probes are in the order of
    sending.

    Two late probes belong to one episode unless at least two measured probes between them were on time, which means
    that the delay had ended in between. Episodes, not probes, coincide independently or not.
    """
    number = np.full(len(late), -1, dtype=np.int64)
    at = np.flatnonzero(late)
    if len(at):
        on_time = np.cumsum(known & ~late)
        number[at] = np.concatenate(([0], np.cumsum(np.diff(on_time[at]) >= 2)))
    return number
