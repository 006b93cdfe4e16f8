"""Whether the recorded port behaves as a FIFO queue that caused the waits. Three criteria, each with its error.

"Waiting implies busy" (port.py) does not hold backwards: one sender near line rate keeps a link full without a queue,
and anything that stalls at that time looks like a wait in front of it. A FIFO with a backlog has to meet more criteria:
- **never idle**: while packets wait the link carries what it can, no less;
- **nobody passes**: once a probe has met a queue, later probes meet it too, until the link has room: a backlog
  shrinks by no more than what the link carries, so it ends when the full stretch ends. The last probe with enough of
  the stretch left must have waited;
- **the wait is the queue**: a queue whose bytes arrive in the first part of a full stretch and drain until its end
  predicts each wait; at most what the buffer holds.

Each is an estimate over full stretches, with an interval from blocks of time; None if it cannot be tested. If probes
were dropped and repeated, there is a fourth: **the queue was at its longest**, because only a full buffer drops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....ethernet import FULL_FRAME_WIRE_BYTES
from ...model.stats import Estimate, Floats, share_interval, wilson
from ..ledger import PARTS, Crossing, WaitLedger, queue_stages
from ..port import Port, Wait
from ..tail import LatencyTail, ProbeLatency, Probes

LEAST = 5  # stretches, to test anything
LEAST_DROPS = 3  # stretches with a dropped probe: drops are rarer
ARRIVALS = np.concatenate((np.geomspace(0.01, 0.5, 18), np.linspace(0.55, 1.0, 10)))  # part in which a stretch arrives


class Fifo(NamedTuple):
    """How well the waits fit a FIFO queue at the port; None if untestable.

    carried: share of its capacity that the link carried while late probes waited. standing: of the full stretches that
    delayed a probe (or of all), the share in which the last probe with enough time left waited too. explained: of the
    waiting in the stretches that delayed a probe, the share that the queue predicts. overflowed: share of the dropped
    probes that met at least half of the longest queue that any probe waited in. error_ns: possible error of a wait,
    from its stamps and bins. predicted: the wait of each probe by that queue, ns; 0 outside of full stretches.
    """

    carried: Estimate | None
    standing: Estimate | None
    explained: Estimate | None
    overflowed: Estimate | None
    error_ns: float
    predicted: Floats


class StretchProbes(NamedTuple):
    """The probes that met a full stretch, in the order of meeting. Times in ns."""

    rows: NDArray[np.int64]
    stretch: NDArray[np.int64]
    begin: Floats  # of the stretch, in recorded time (Port.position)
    since: Floats  # since the begin of the stretch
    left: Floats  # until its end
    waited: Floats  # NaN if lost
    lost: NDArray[np.bool_]


def waited_here(delays: ProbeLatency, crossing: Crossing) -> Floats:
    """Returns how long each probe waited in the stages that include the port's queue, ns; NaN if unknown."""
    waited = np.zeros(len(delays.total))
    for stage in PARTS[delays.measured]:
        if stage in queue_stages(crossing):
            waited += np.nan_to_num(delays.excess(stage))
    waited[np.isnan(delays.total)] = np.nan
    return waited


def resolution(probes: Probes) -> float:
    """Returns the resolution of the stamps, ns: the smallest difference between two measured times."""
    for taken in (probes.rx - probes.tx, probes.remote_rx - probes.tx, probes.app_recv - probes.tx, probes.rtt):
        values = np.unique(taken[np.isfinite(taken)])
        if len(values) > 1:
            return float(np.diff(values).min())
    return 0.0


def examine(
    probes: Probes,
    delays: ProbeLatency,
    tail: LatencyTail,
    ledger: WaitLedger,
    here: tuple[int, Crossing],
    met: Floats,
    dropped: NDArray[np.bool_],
) -> Fifo:
    """Compares the waits of a path with the full stretches of one of its ports. here: the number of the port in the
    ledger, and its crossing. dropped: the probes that the port dropped."""
    number, crossing = here
    port = crossing.port
    waited = waited_here(delays, crossing)
    seen = probes_in_stretches(port, met, waited, dropped)
    error = error_of(probes, ledger, number, port, waited, seen)
    free = 1 - background(port)
    size = max(queue_size(seen, tail.threshold_ns - tail.median_ns), error)
    waits = seen.lost | (np.nan_to_num(seen.waited) > size)
    model = fitted(seen, waits, free)
    predicted = np.zeros(len(met))
    predicted[seen.rows] = model
    return Fifo(
        carried(ledger, number, port, error),
        standing(seen, waits, (size + error - port.bin_ns) / free),  # a stretch lasts longer than its full bins
        explained(seen, waits, model, error),
        overflowed(seen, waits, model),
        error,
        predicted,
    )


def explained_at(
    delays: ProbeLatency, tail: LatencyTail, crossing: Crossing, met: Floats, error: float, dropped: NDArray[np.bool_]
) -> Estimate | None:
    """Returns Fifo.explained for the case that the probes met the port at other times: with another clock offset."""
    seen = probes_in_stretches(crossing.port, met, waited_here(delays, crossing), dropped)
    waits = seen.lost | (np.nan_to_num(seen.waited) > max(tail.threshold_ns - tail.median_ns, error))
    return explained(seen, waits, fitted(seen, waits, 1 - background(crossing.port)), error)


def probes_in_stretches(port: Port, met: Floats, waited: Floats, lost: NDArray[np.bool_]) -> StretchProbes:
    """Returns the probes with a known outcome."""
    starts, ends = port.busy_periods()
    place = port.position(met)
    known = np.flatnonzero(np.isfinite(place) & (np.isfinite(waited) | lost))
    known = known[np.argsort(met[known], kind="stable")]
    if not len(starts) or not len(known):
        none = np.zeros(0)
        return StretchProbes(known[:0], known[:0], none, none, none, none, none.astype(bool))
    stretch = port.period_at(place[known])
    inside = (stretch >= 0) & (place[known] < ends[np.maximum(stretch, 0)])
    rows, stretch = known[inside], stretch[inside]
    since = np.maximum(place[rows] - starts[stretch], 0) * port.bin_ns
    left = (ends[stretch] - place[rows]) * port.bin_ns
    return StretchProbes(rows, stretch, starts[stretch], since, left, waited[rows], lost[rows])


def error_of(probes: Probes, ledger: WaitLedger, number: int, port: Port, waited: Floats, seen: StretchProbes) -> float:
    """Returns by how much a wait may differ from the full stretch, ns: a bin, the resolution of the stamps, the jitter
    of the probes that met no full port (nine in ten), and the uncertainty of the turning point of a round trip."""
    quiet = np.isfinite(waited)
    quiet[seen.rows] = False
    jitter = float(np.quantile(waited[quiet], 0.9)) if quiet.any() else 0.0
    slack = max((entry.slack for entry in ledger.entries if entry.crossing == number), default=0.0)
    return port.bin_ns + resolution(probes) + jitter + slack


def background(port: Port) -> float:
    """Returns the share of line rate that the port carries outside of its full stretches."""
    first, last = port.busy_periods()
    full = float((last - first).sum())
    volume = float((port.carried_before(last) - port.carried_before(first)).sum()) if len(first) else 0.0
    quiet = port.bins - full
    return min((float(port.carried[-1]) - volume) / (quiet * port.bin_bytes), 0.9) if quiet > 0 else 0.0


def share(part: Floats, whole: Floats, begin: Floats, least: int = LEAST) -> Estimate | None:
    """Returns the sum of `part` divided by that of `whole`, over stretches, which BEGIN identifies (several rows may be
    of one stretch); None if fewer than `least` stretches have any."""
    stretch, of = np.unique(begin, return_inverse=True)
    sums = np.column_stack((np.bincount(of, part), np.bincount(of, whole), stretch))
    part, whole, stretch = sums[sums[:, 1] > 0].T
    if len(stretch) < least:
        return None
    return Estimate(float(part.sum() / whole.sum()), *share_interval(part, whole, stretch), len(stretch))


def share_of_cases(cases: NDArray[np.bool_], begin: Floats, least: int = LEAST) -> Estimate | None:
    """Returns the share of true cases, each of the stretch that begins there. If all cases are alike, the interval from
    blocks of time is too narrow: it is no narrower than that of as many independent stretches (Wilson)."""
    found = share(cases.astype(float), np.ones(len(cases)), begin, least)
    if found is None:
        return None
    low, high = wilson(found.value * found.n, found.n)
    return found._replace(low=min(found.low, low), high=max(found.high, high))


def carried(ledger: WaitLedger, number: int, port: Port, error: float) -> Estimate | None:
    """Returns the traffic of the link in the bins that are entirely inside of waits that found it full, as a share of
    the most that it carries in the same time."""
    entries = [entry for entry in ledger.entries if entry.crossing == number]
    busy = [entry.answers == Wait.BUSY for entry in entries]
    begin = np.concatenate([np.zeros(0), *(e.arrival[b] for e, b in zip(entries, busy, strict=True))])
    end = np.concatenate([np.zeros(0), *(e.departure[b] for e, b in zip(entries, busy, strict=True))])
    margin = error - port.bin_ns
    low = np.ceil(port.position(begin + margin) - 1e-6)
    high = np.floor(port.position(end - margin) + 1e-6)
    whole = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))
    low, high = low[whole].astype(np.int64), high[whole].astype(np.int64)
    if not len(low):
        return None
    most = min(1.0, port.ceiling(float(np.median(high - low))))
    starts = port.busy_periods()[0]
    begin = starts[np.maximum(port.period_at(low.astype(float)), 0)] if len(starts) else low.astype(float)
    here = np.minimum(
        port.carried[high] - port.carried[low] + FULL_FRAME_WIRE_BYTES, (high - low) * port.bin_bytes * most
    )
    could = (high - low) * port.bin_bytes * most
    return share(here, could, begin)


def standing(seen: StretchProbes, waits: NDArray[np.bool_], least: float) -> Estimate | None:
    """Returns the share of the stretches with a waiting probe in which the last later probe with at least `least` ns
    left waited too; of all stretches if too few have such a pair."""
    long = np.flatnonzero(seen.left > least)
    if not len(long):
        return None
    last = long[np.concatenate((np.diff(seen.stretch[long]) > 0, [True]))]
    first = np.full(int(seen.stretch.max()) + 1, len(seen.rows))
    np.minimum.at(first, seen.stretch[waits], np.flatnonzero(waits))
    paired = last[first[seen.stretch[last]] < last]
    for chosen in (paired, last):
        found = share_of_cases(waits[chosen], seen.begin[chosen])
        if found is not None:
            return found
    return None


def queue_size(seen: StretchProbes, excess: float) -> float:
    """Returns the wait that shows a queue, ns: the excess that makes a probe late. If more probes are lost than late,
    it is half of the median wait of the others in the stretches with losses, because a buffer that drops may be
    shallow."""
    if seen.lost.sum() <= np.count_nonzero(np.nan_to_num(seen.waited) > excess):
        return excess
    beside = np.isin(seen.stretch, seen.stretch[seen.lost]) & ~seen.lost
    return min(excess, float(np.median(seen.waited[beside])) / 2) if beside.any() else excess


def fitted(seen: StretchProbes, waits: NDArray[np.bool_], free: float) -> Floats:
    """Returns the wait of each probe by the queue that fits best those in stretches that delayed one.

    The bytes of a stretch arrive evenly in its first part (one number for all), wait in at most the buffer (the longest
    wait seen), and drain at line rate, or at the rest that the background leaves.
    """
    known = np.flatnonzero(np.isin(seen.stretch, seen.stretch[waits]) & ~seen.lost)
    if not len(known):
        return np.zeros(len(seen.rows))
    buffer = float(seen.waited[known].max())

    def queue(part: float, slope: float) -> Floats:
        grown: Floats = np.minimum(slope * np.minimum((1 / part - 1) * seen.since, seen.left), buffer)
        return grown

    models = [queue(part, slope) for part in ARRIVALS for slope in {free, 1.0}]
    return min(models, key=lambda model: float(np.abs(model - seen.waited)[known].sum()))


def explained(seen: StretchProbes, waits: NDArray[np.bool_], model: Floats, error: float) -> Estimate | None:
    """Returns the share that a queue predicts of the waiting in the stretches that delayed a probe. Waits below the
    error are left out on both sides."""
    known = np.flatnonzero(np.isin(seen.stretch, seen.stretch[waits]) & ~seen.lost)
    off = np.maximum(np.abs(seen.waited - model)[known] - error, 0)
    total = np.maximum(seen.waited[known] - error, 0)
    return share(total - off, total, seen.begin[known])


def overflowed(seen: StretchProbes, waits: NDArray[np.bool_], model: Floats) -> Estimate | None:
    """Returns the share of the dropped probes that met at least half of the longest queue of the stretches that delayed
    a probe."""
    known = np.isin(seen.stretch, seen.stretch[waits]) & ~seen.lost
    longest = float(model[known].max(initial=0.0))
    if not longest:
        return None
    return share_of_cases(model[seen.lost] >= longest / 2, seen.begin[seen.lost], LEAST_DROPS)
