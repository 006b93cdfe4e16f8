"""Evidence against chance: how often bursts and latency would fit as well if they were unrelated.

Shifting one series around the circle of recorded time keeps the rhythm of both. This distinguishes two series that
merely share a period from two that share their times. Exchanging bursts (exchange.py) also distinguishes series that
keep one phase.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.stats import Floats, permutation_p
from .. import ledger as books
from ..port import Port, Wait
from ..scene import Evidence, LagScan, Scene
from ..tail import MS
from .exchange import exchange_p, lay

SHIFTS = 1999  # of the permutation: the smallest p is 1 / 2000
SAMPLE = 2000  # late probes that are shifted; an evenly spaced choice of more
AS_WELL = 0.95  # of the unshifted fit: a shift with this fit counts as an equal one
SEPARATING = 0.005  # p at which an exchange would separate the best-fitting queue from chance
LAG_RANGE = 1000 * MS  # reach of the lag scan: five times the least TCP retransmission timeout


def against_chance(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Measure how full the link was while late probes waited, against the same after shifts around the recorded
    time."""
    port = scene.crossings[number].port
    _, arrival, departure, weight = waits_here(evidence, number, met)
    if len(arrival) == 0:
        return
    evidence.filled = float(weight @ port.filling(arrival, departure)) / float(weight.sum())
    shifts = (np.arange(SHIFTS) + rng.uniform(0.5, 1.5, SHIFTS)) * port.bins / (SHIFTS + 1)  # one in each part of it
    null = shifted_apart(port, arrival, departure, weight, shifts)
    evidence.p_value = permutation_p(AS_WELL * evidence.filled, null)
    evidence.ceiling = port.ceiling(float(np.median(departure - arrival)))
    scan_lag(evidence, port, arrival, departure, weight)


def against_pairing(evidence: Evidence, scene: Scene, number: int, rng: np.random.Generator) -> None:
    """Test whether waits fit their own burst better than another one. The result stays open if even the waits of the
    queue that fits best would not."""
    port, model, met = scene.crossings[number].port, evidence.fifo, evidence.met
    begin, end = (port.position(side) for side in scene.bursts[number])
    if model is None or met is None:
        return
    waits = waits_here(evidence, number, met)
    predicted = waits.arrival + model.predicted[waits.rows] / port.bin_ns
    laid, expected = (lay((begin, end), waits.arrival, until, waits.weight) for until in (waits.departure, predicted))
    if laid is not None and expected is not None and exchange_p(port, expected, rng) <= SEPARATING:
        evidence.pairing_p = exchange_p(port, laid, rng)


def begun_in_bursts(evidence: Evidence, scene: Scene, number: int, rng: np.random.Generator) -> None:
    """Measure how much of the account `elsewhere`, in stages that include the port's queue, began during a burst; and
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
    """Waits in the stages that include a port's queue: the rows of their probes, the positions of begin and end,
    weights (ns)."""

    rows: NDArray[np.int64]
    arrival: Floats
    departure: Floats
    weight: Floats


def waits_here(evidence: Evidence, number: int, met: Floats) -> Waits:
    """Returns at most SAMPLE waits. A dropped probe counts as the bin after its arrival: a queue that overflows keeps
    the link full for at least that long."""
    ledger, entries = evidence.ledger, [entry for entry in evidence.ledger.entries if entry.crossing == number]
    assert evidence.crossing is not None
    port = evidence.crossing.port
    lost = np.flatnonzero(evidence.dropped[ledger.late])
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
    """Returns the mean filling of the waits at each shift (bins)."""
    means = [
        port.filling(arrival, departure, shifts[first : first + 100, None]) @ weight
        for first in range(0, len(shifts), 100)
    ]
    return np.concatenate(means) / float(weight.sum())


def shifted_apart(port: Port, arrival: Floats, departure: Floats, weight: Floats, shifts: Floats) -> Floats:
    """Returns shifted() of the larger one of the two parts into which a shift cuts the waits at the end of the circle:
    no rhythm continues across that end."""
    means = []
    for first in range(0, len(shifts), 100):
        shift = shifts[first : first + 100, None]
        fits = port.filling(arrival, departure, shift)
        beyond = np.mod(shift, port.bins) + arrival >= port.bins
        part = np.where((beyond @ weight > weight.sum() / 2)[:, None], beyond, ~beyond) * weight
        means.append((fits * part).sum(axis=1) / part.sum(axis=1))
    return np.concatenate(means)


def scan_lag(evidence: Evidence, port: Port, arrival: Floats, departure: Floats, weight: Floats) -> None:
    """Find the shift at which the waits fit the full link best, as latency after the burst. It is 0 unless another
    shift fits clearly (5 %) better, and then the nearest of those that fit about as well, since a rhythm fits at each
    of its periods."""
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
    # If the link `lag` later fits, the burst follows the latency: the latency comes `lag` before the burst.
    evidence.lag_ns, evidence.lag_share = float(-lags[at] * port.bin_ns), float(fits[at])


def scan_of(lags: Floats, fits: Floats, waits: int) -> LagScan:
    """Returns the scan by how long the latency comes after the burst. lags: sorted; how long the burst comes after the
    latency."""
    latency_first, bursts_first = float(fits[lags > 0].sum()), float(fits[lags < 0].sum())
    asymmetry = (bursts_first - latency_first) / max(bursts_first + latency_first, 1e-12)
    return LagScan(-lags[::-1], fits[::-1], asymmetry, waits)
