"""Which late probes TCP repeated because a full port had dropped them, and which probes waited behind those.

A dropped segment is sent again when the sender's timer expires (RFC 6298), and each further time after twice as long.
Later data on the same connection is delivered only when the repeated segment has arrived, so all of it ends together.
None of that is the wait of a queue, but all of it is an effect of the full port on the probe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.stats import Estimate, Floats, permutation_p, wilson
from ..port import Port
from ..tail import HOST_STAGES, MS, LatencyTail, ProbeLatency, Probes, losses_follow

LEAST_TIMEOUTS = (200 * MS, 1000 * MS)  # Linux (TCP_RTO_MIN); RFC 6298, section 2.4
EARLY, LATER = 0.95, 1.25  # of the timeout: steps of stamps and timers; the smoothed round trip is added to the least
TIMES = 4  # repetitions of a segment: by the fifth, a prober has long given up
ARRIVES = 2 * MS  # between a repeated segment at the port and the end of its probe
SHIFTS = 999
LEAST = 5


class Repeats(NamedTuple):
    """One row per probe. dropped: at the full port, and answered after a timeout. behind: the number of the probe that
    each waited behind, or −1."""

    dropped: NDArray[np.bool_]
    behind: NDArray[np.int64]

    @property
    def held(self) -> NDArray[np.bool_]:
        return self.behind >= 0

    @property
    def either(self) -> NDArray[np.bool_]:
        return self.dropped | self.held


class RecordedRepeats(NamedTuple):
    """Repeated segments that the port recorded when repeated probes with others behind them ended: the share of these
    probes, and how often shifted ones would match as many."""

    share: Estimate
    p_value: float


def none_of(n: int) -> Repeats:
    return Repeats(np.zeros(n, dtype=bool), np.full(n, -1))


def find(probes: Probes, delays: ProbeLatency, tail: LatencyTail, full: NDArray[np.bool_]) -> Repeats:
    """Finds the repeated probes. full: a port of the path was full when the probe arrived there. None are found unless
    delays near a timeout are significantly more frequent among those (tail.losses_follow): other causes drop probes as
    well."""
    excess = delays.total - tail.median_ns
    like = tail.spikes & near_timeout(excess) & (in_hosts(delays, excess) < 0.5 * excess)
    if probes.protocol.lower() != "tcp" or not (like & full).any():
        return none_of(len(probes))
    end = ended(probes, delays)
    begin, lateness = end - delays.total, tail.threshold_ns - tail.median_ns
    first = np.isin(np.arange(len(probes)), first_of_each(np.flatnonzero(like), begin, end, lateness))
    if not losses_follow(first, full):
        return none_of(len(probes))
    dropped = np.flatnonzero(first & full)
    behind = np.full(len(probes), -1)
    late = np.flatnonzero(tail.spikes)
    late = late[~np.isin(late, dropped)]
    behind[late] = ended_by(late, dropped, begin, end, lateness)
    return Repeats(np.isin(np.arange(len(probes)), dropped), behind)


def ended(probes: Probes, delays: ProbeLatency) -> Floats:
    """Returns the end of each probe, on the sender's clock, ns."""
    end: Floats = (probes.app_send if delays.measured == "application" else probes.tx) + delays.total
    return end


def near_timeout(excess: Floats) -> NDArray[np.bool_]:
    """Returns whether each delay beyond the usual is about that of one or more timeouts in a row, each twice the
    previous one."""
    near = np.zeros(len(excess), dtype=bool)
    for least in LEAST_TIMEOUTS:
        for times in range(1, TIMES + 1):
            wait = (2**times - 1) * least
            near |= (excess >= EARLY * wait) & (excess <= LATER * wait)
    return near


def in_hosts(delays: ProbeLatency, excess: Floats) -> Floats:
    """Returns the part of a delay that was spent in hosts, ns; 0 if no stamp shows it."""
    spent = np.zeros(len(excess))
    for stage in HOST_STAGES:
        spent += np.nan_to_num(delays.excess(stage))
    return spent


def first_of_each(rows: NDArray[np.int64], begin: Floats, end: Floats, lateness: float) -> NDArray[np.int64]:
    """Returns the first-sent one of the probes that ended together: the others waited behind it."""
    rows = rows[np.argsort(end[rows], kind="stable")]
    group = np.cumsum(np.diff(end[rows], prepend=-np.inf) > lateness)
    order = np.lexsort((begin[rows], group))
    return np.sort(rows[order][np.diff(group[order], prepend=0) > 0])


def ended_by(
    late: NDArray[np.int64], dropped: NDArray[np.int64], begin: Floats, end: Floats, lateness: float
) -> NDArray[np.int64]:
    """Returns, for each late probe, the dropped one that was sent before it and ended with it, or −1."""
    dropped = dropped[np.argsort(end[dropped], kind="stable")]
    found = np.full(len(late), -1)
    after = np.searchsorted(end[dropped], end[late])
    for near in (after - 1, after):
        there = (near >= 0) & (near < len(dropped))
        one = dropped[np.clip(near, 0, len(dropped) - 1)]
        held = there & (np.abs(end[one] - end[late]) <= lateness) & (begin[one] < begin[late])
        found[held] = one[held]
    return found


def seen_again(port: Port, ends: Floats, rng: np.random.Generator) -> RecordedRepeats | None:
    """Returns whether the port recorded repeated segments when probes ended (ns). None if it recorded none at all, or
    if fewer than LEAST probes ended."""
    if port.repeated is None or not len(port.repeated):
        return None
    place = port.position(ends)
    place = place[np.isfinite(place)]
    if len(place) < LEAST:
        return None
    reach = ARRIVES / port.bin_ns + 1

    def met(shift: Floats) -> Floats:
        assert port.repeated is not None
        at = np.mod(place + shift, port.bins)
        share: Floats = (
            np.searchsorted(port.repeated, at + 1, side="right") > np.searchsorted(port.repeated, at - reach)
        ).mean(axis=-1)
        return share

    here = float(met(np.zeros((1, 1)))[0])
    share = Estimate(here, *wilson(here * len(place), len(place)), len(place))
    return RecordedRepeats(share, permutation_p(here, met(rng.uniform(0, port.bins, (SHIFTS, 1)))))
