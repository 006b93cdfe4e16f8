"""Do waits fit their own burst better than another one? For what keeps one rhythm, which no shift separates.

A rhythm in common, even in one phase, brings latency and bursts together, but not the long delays to the long bursts,
and it does not end them together. Each burst's waits are laid on another burst at the same time after its onset.
Compared are only waits that begin while every compared burst goes on, since a wait that begins late in a long burst
fits no short one, whatever made it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.stats import Floats, permutation_p
from ..port import Port

PAIRINGS = 499  # in which waits and bursts are exchanged
AT_ONCE = 50  # of these
PAIRED = 10  # bursts at least, that
VARIED = 0.1  # differ in length by this (quartiles over median), for an exchange to matter
SHORTEST = 0.25  # of the bursts that delayed anybody are left out: the others last as long as the longest of these


class AlignedWaits(NamedTuple):
    """Waits on their bursts, in bins: of which burst (of `begin` and `length`), when after its onset, how long."""

    begin: Floats
    length: Floats
    of: NDArray[np.int64]
    since: Floats
    span: Floats
    weight: Floats


def lay(bursts: tuple[Floats, Floats], arrival: Floats, departure: Floats, weight: Floats) -> AlignedWaits | None:
    """The waits that begin in the common part of the bursts. Positions (port.position). None where too few bursts have
    any, or all are alike: then an exchange changes nothing, and one odd burst must not decide."""
    known = np.isfinite(bursts[0]) & np.isfinite(bursts[1])
    begin, length = bursts[0][known], (bursts[1] - bursts[0])[known]
    if len(begin) < PAIRED:
        return None
    own = np.searchsorted(begin - 1, arrival, side="right") - 1
    since = arrival - begin[np.maximum(own, 0)]
    inside = (own >= 0) & (since <= length[np.maximum(own, 0)] + 1)
    if not inside.any():
        return None
    common = float(np.quantile(length[np.unique(own[inside])], SHORTEST))
    inside &= (since <= common) & (length[np.maximum(own, 0)] >= common)
    met, of = np.unique(own[inside], return_inverse=True)
    if len(met) < PAIRED:
        return None
    low, middle, high = np.quantile(length[met], [0.25, 0.5, 0.75])
    if high - low < VARIED * middle:
        return None
    return AlignedWaits(begin[met], length[met], of, since[inside], (departure - arrival)[inside], weight[inside])


def exchange_p(port: Port, laid: AlignedWaits, rng: np.random.Generator) -> float:
    """How often waits fit exchanged bursts as well: the link is as full, and they are over as nearly when the burst
    is. The larger of the two."""

    def filled(orders: NDArray[np.int64]) -> Floats:
        start = laid.begin[orders][:, laid.of] + laid.since
        found: Floats = port.filling(start, start + laid.span) @ laid.weight / laid.weight.sum()
        return found

    over = np.zeros(len(laid.begin))  # when the last of a burst's waits was over, after its onset
    np.maximum.at(over, laid.of, laid.since + laid.span)

    def end_together(orders: NDArray[np.int64]) -> Floats:
        found: Floats = 1 / (1 + np.abs(over - laid.length[orders]).mean(axis=1))
        return found

    own = np.arange(len(laid.begin))
    orders = np.array([rng.permutation(own) for _ in range(PAIRINGS)])
    parts = [orders[first : first + AT_ONCE] for first in range(0, PAIRINGS, AT_ONCE)]
    return max(
        permutation_p(float(alike(own[None])[0]), np.concatenate([alike(part) for part in parts]))
        for alike in (filled, end_together)
    )
