"""Whether waits fit their own burst better than another one: a test for series with one rhythm, which shifts cannot
separate.

A common rhythm, even in one phase, brings latency and bursts together. But it does not match long delays to long
bursts, and it does not make them end together. The waits of each burst are placed on another burst at the same time
after its onset. Only waits that begin during the common part of all compared bursts count, since a wait that begins
late in a long burst fits no short burst, whatever its cause.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...model.stats import Floats, permutation_p
from ..port import Port

PAIRINGS = 499  # in which waits and bursts are exchanged
AT_ONCE = 50  # pairings that are computed at once
PAIRED = 10  # least number of bursts
VARIED = 0.1  # least spread of their lengths (quartiles over median) for an exchange to matter
SHORTEST = 0.25  # share of the bursts with waits that is left out; the others last at least as long as these


class AlignedWaits(NamedTuple):
    """Waits on their bursts, in bins: the index of the burst (in `begin` and `length`), the time after its onset, and
    the length."""

    begin: Floats
    length: Floats
    of: NDArray[np.int64]
    since: Floats
    span: Floats
    weight: Floats


def lay(bursts: tuple[Floats, Floats], arrival: Floats, departure: Floats, weight: Floats) -> AlignedWaits | None:
    """Returns the waits that begin in the common part of the bursts. Positions (port.position). None if too few bursts
    have waits, or if all bursts are alike: then an exchange changes nothing, and one odd burst must not decide."""
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
    """Returns how often waits fit exchanged bursts as well by two criteria: the link is as full, and the waits end as
    close to the end of the burst. The larger of the two p-values."""

    def filled(orders: NDArray[np.int64]) -> Floats:
        start = laid.begin[orders][:, laid.of] + laid.since
        found: Floats = port.filling(start, start + laid.span) @ laid.weight / laid.weight.sum()
        return found

    over = np.zeros(len(laid.begin))  # time after the onset at which the last wait of a burst ended
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
