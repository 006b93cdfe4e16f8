"""Evidence of risk: whether probes that are sent into bursts are late more often than others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.stats import (
    Estimate,
    Floats,
    Whole,
    block_bootstrap,
    interval_with_unseen,
    rank,
    relative_risk,
    risk_bounds,
)
from ..ledger import BURSTS
from ..scene import Evidence, Scene

ROUNDS = 1000  # of the bootstrap


def in_bursts(time: Floats, bursts: tuple[Floats, Floats], slack: float) -> NDArray[np.bool_]:
    """Returns whether a packet that crossed the port at each time met a burst, as in met_bursts()."""
    return met_bursts(time, bursts, slack) >= 0


def met_bursts(time: Floats, bursts: tuple[Floats, Floats], slack: float) -> Whole:
    """Returns the number of the burst that a packet met if it crossed the port within `slack` of each time; -1 for
    none. The slack is a bin, because it is unknown where in a bin a burst began: met_burst of sql/macros.sql. Bursts
    are sorted and do not overlap."""
    starts, ends = bursts
    if len(starts) == 0:
        return np.full(len(time), -1)
    place = rank(starts - slack, time) - 1
    met: Whole = np.where((place >= 0) & (time < ends[np.maximum(place, 0)] + slack), place, -1)
    return met


def risk_of(
    hit: NDArray[np.bool_], exposed: NDArray[np.bool_], time: Floats, block_ns: float, rng: np.random.Generator
) -> Estimate | None:
    """Returns the relative risk of a hit among the exposed against the rest; None without either of them. The interval
    is the wider one of resampling blocks of time and of independent observations. Resampling alone is too narrow if all
    blocks are alike, for example if in each of them all exposed probes are hit and no others."""
    if exposed.all() or not exposed.any():
        return None
    block = np.floor((time - time.min()) / block_ns).astype(np.int64)
    count = int(block.max()) + 1
    columns = (hit & exposed, exposed, hit & ~exposed, ~exposed)
    sums = np.column_stack([np.bincount(block[rows], minlength=count) for rows in columns]).astype(float)
    sums = sums[sums[:, 1] + sums[:, 3] > 0]
    totals = sums.sum(axis=0)
    least, most = risk_bounds(*totals.tolist())
    low, high = block_bootstrap(sums, lambda rows: relative_risk(*rows.T), ROUNDS, rng)
    return Estimate(float(relative_risk(*totals)), min(least, low), max(most, high), int(exposed.sum()))


def block_length(time: Floats, bursts: tuple[Floats, Floats]) -> float:
    """Returns the length of the blocks of the bootstrap, ns: long compared to bursts and the gaps between them, yet at
    least ten blocks.

    Ten is the minimum for an interval; recordings of less than a hundred gaps get wider, less certain intervals.
    """
    span = max(float(time.max(initial=0) - time.min(initial=0)), 1.0)
    if len(bursts[0]) < 2:
        return span / 10
    period = float(np.median(np.diff(bursts[0])) + np.median(bursts[1] - bursts[0]))
    return min(max(5 * period, span / 200), span / 10)


def against_bursts(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Measure the relative risk of a spike in a burst, and the share of all excess over the median that lies in bursts.
    The interval of that share is the wider one of resampling blocks of time and of the accounts (shares.py), for the
    same reason as in risk_of()."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    exposed = in_bursts(met, bursts, port.bin_ns)
    known = np.isfinite(port.position(met)) & (np.isfinite(evidence.delays.total) | evidence.tail.late_losses)
    known &= ~evidence.repeats.held  # they share the outcome of the probe before them
    if not known.any():
        return
    evidence.bursts = int(((bursts[1] >= met.min()) & (bursts[0] <= met.max())).sum()) if len(bursts[0]) else 0
    evidence.exposed = int((exposed & known).sum())
    evidence.unexposed = int((~exposed & known).sum())
    hit = evidence.tail.spikes | evidence.tail.late_losses
    evidence.exposed_late = int((hit & exposed & known).sum())
    length = block_length(met[known], bursts)
    if evidence.exposed:
        evidence.relative_risk = risk_of(hit[known], exposed[known], met[known], length, rng)
    beyond = np.nan_to_num(np.maximum(evidence.delays.total - evidence.tail.median_ns, 0))[known]
    block = np.floor((met[known] - met[known].min()) / length).astype(np.int64)
    inside = beyond * exposed[known]
    sums = np.column_stack((np.bincount(block, inside), np.bincount(block, beyond))).astype(float)
    if sums[:, 1].sum() > 0:
        share = float(sums[:, 0].sum() / sums[:, 1].sum())
        least, most = interval_with_unseen(inside, beyond, met[known])
        low, high = block_bootstrap(sums, lambda rows: rows[:, 0] / np.maximum(rows[:, 1], 1e-9), ROUNDS, rng)
        evidence.excess_share = Estimate(share, min(least, low), max(most, high), int(known.sum()))


def lateness_by_burst(evidence: Evidence, bursts: tuple[Floats, Floats]) -> Floats:
    """Returns for each burst of the evidence's port how much of the account `bursts` is of late probes that met it,
    ns."""
    late, crossing, found = evidence.ledger.late, evidence.crossing, np.zeros(len(bursts[0]))
    if crossing is not None and evidence.met is not None:
        burst = met_bursts(evidence.met[late], bursts, crossing.port.bin_ns)
        np.add.at(found, burst[burst >= 0], evidence.ledger.accounts[burst >= 0, BURSTS])
    return found
