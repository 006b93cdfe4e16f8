"""Statistics of dependent data: pure functions over numpy arrays, no I/O, no clock, no global state.

Latency and bursts are both autocorrelated, so nothing here treats single probes as independent: intervals come from
blocks of time, and p-values from shifting one series against the other. Every random draw comes from the caller's
generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Whole = NDArray[np.integer[Any]]
Z_95 = 1.959964  # two-sided 95 % quantile of the standard normal distribution
Z_99 = 2.575829
MOST_BLOCKS = 500
BLOCKS = (5, 7, 10, 20, 40, 80, 160, 400)  # of time, into which events that come in trains are cut
UNSEEN = 0.15  # of the recorded amount: a train that was not recorded and differs from all others


class Estimate(NamedTuple):
    """A number with its 95 % interval and the number of observations behind it."""

    value: float
    low: float
    high: float
    n: int


def wilson(successes: float, trials: float, z: float = Z_95) -> tuple[float, float]:
    """Returns the interval of a proportion (Wilson 1927). It holds for few successes, unlike the normal one. (0, 1)
    without trials."""
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    centre = share + z * z / (2 * trials)
    half = z * float(np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)))
    scale = 1 + z * z / trials
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def poisson(count: float) -> tuple[float, float]:
    """Returns the interval of the expectation of a number of independent events: Byar's approximation of the exact
    interval, within 3 % from three events on, and wider below."""
    if count <= 0:
        return 0.0, -float(np.log(0.025))
    low, high = (n * (1 - 1 / (9 * n) + z / (3 * n**0.5)) ** 3 for n, z in ((count, -Z_95), (count + 1, Z_95)))
    return low, high


def quantiles(values: Floats, probabilities: Sequence[float]) -> list[float | None]:
    """Order statistics: the smallest value that at least the share p of the values does not exceed. None if empty.

    No interpolation: with few values a high quantile is the maximum, never a number that was not measured.
    """
    if len(values) == 0:
        return [None] * len(probabilities)
    ranks = [max(0, int(np.ceil(p * len(values) - 1e-9)) - 1) for p in probabilities]
    ordered = np.partition(values, sorted(set(ranks)))
    return [float(ordered[rank]) for rank in ranks]


def runs(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first index of each run of True, and the index one past its last."""
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    if len(mask) and mask[0]:
        edges = np.concatenate(([0], edges))
    if len(mask) and mask[-1]:
        edges = np.concatenate((edges, [len(mask)]))
    return edges[::2], edges[1::2]


def rank(edges: Floats, values: Floats) -> Whole:
    """Returns how many of the sorted edges are at or below each value, as np.searchsorted(edges, values, side="right")
    does, but ten times as fast if the values are sorted and many. NaN is above all edges."""
    if len(values) > 4 * len(edges) and (values[1:] >= values[:-1]).all():
        first = np.searchsorted(values, edges, side="left")
        return np.repeat(np.arange(len(edges) + 1), np.diff(first, prepend=0, append=len(values)))
    return np.searchsorted(edges, values, side="right")


def join_runs(
    starts: Floats, ends: Floats, gap: float, groups: NDArray[np.int64] | None = None
) -> tuple[Floats, Floats]:
    """Joins sorted, disjoint intervals that are at most `gap` apart; intervals of different `groups` are not joined."""
    if len(starts) == 0:
        return starts, ends
    apart = starts[1:] - ends[:-1] > gap
    if groups is not None:
        apart |= groups[1:] != groups[:-1]
    return starts[np.concatenate(([True], apart))], ends[np.concatenate((apart, [True]))]


def block_bootstrap(
    blocks: Floats, statistic: Callable[[Floats], Floats], rounds: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Returns the 95 % percentile interval of a statistic of sums, resampling whole blocks with replacement.

    blocks: one row per block, one column per sum over its observations. statistic: maps rows of column totals to one
    number each. Blocks must be long compared to the correlation of their observations (Carlstein 1986: blocks that do
    not overlap). More than MOST_BLOCKS are first joined with their neighbours, which only makes them longer.
    """
    if len(blocks) == 0:
        return float("nan"), float("nan")
    if len(blocks) > MOST_BLOCKS:
        blocks = np.add.reduceat(
            blocks, np.linspace(0, len(blocks), MOST_BLOCKS, endpoint=False).astype(np.int64), axis=0
        )
    count = len(blocks)
    equal = np.full(count, 1 / count)
    values = [
        statistic(rng.multinomial(count, equal, size=min(100, rounds - done)) @ blocks)
        for done in range(0, rounds, 100)
    ]
    found = np.concatenate(values)
    found = found[~np.isnan(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def t_quantile(freedom: float) -> float:
    """Returns the two-sided 95 % quantile of Student's t distribution, within 4 % from 2 degrees of freedom on
    (Cornish-Fisher expansion, Abramowitz and Stegun 26.7.5)."""
    z, n = Z_95, max(freedom, 1.0)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + sum(term / n**power for power, term in enumerate(terms, 1))


def share_interval(part: Floats, whole: Floats, time: Floats) -> tuple[float, float]:
    """Returns the 95 % interval of sum(part) / sum(whole), 0 to 1, of events that come in trains of any length.

    The time is cut into blocks, from few to many. Each cutting gives the standard error of a ratio between blocks
    (Cochran 1977, section 2.11), on the logit scale, with the effective number of blocks as degrees of freedom. The
    widest interval counts: blocks shorter than the trains understate the error, longer ones do not.
    """
    total = float(whole.sum())
    if total <= 0:
        return float("nan"), float("nan")
    share = float(part.sum()) / total
    rest, place = part - share * whole, (time - time.min()) / max(float(np.ptp(time)), 1.0)
    if not 0 < share < 1 or np.abs(rest).max() <= 1e-9 * total:
        return share, share
    half = max(half_width(rest, whole, np.minimum(place * count, count - 1).astype(np.int64)) for count in BLOCKS)
    odds, factor = share / (1 - share), float(np.exp(min(half / (share * (1 - share)), 700.0)))
    return odds / (odds + factor), odds / (odds + 1 / factor)


def interval_with_unseen(part: Floats, whole: Floats, time: Floats) -> tuple[float, float]:
    """Returns share_interval() widened for trains that a short recording may have missed because they are rare: as if
    one more train of UNSEEN had come, with nothing of `part` for the lower end and nothing else for the upper one."""
    low, high = share_interval(part, whole, time)
    return low / (1 + UNSEEN), (high + UNSEEN) / (1 + UNSEEN)


def half_width(rest: Floats, whole: Floats, block: Whole) -> float:
    """Returns half of the 95 % interval of a ratio between blocks. rest: what each event has beyond its part at that
    ratio."""
    sums = np.bincount(block, whole)
    blocks = np.count_nonzero(sums)
    if blocks < 2:
        return 0.0
    error = float(np.sqrt(blocks / (blocks - 1) * np.square(np.bincount(block, rest)).sum()) / sums.sum())
    return t_quantile(float(sums.sum() ** 2 / np.square(sums).sum()) - 1) * error


def permutation_p(observed: float, shifted: Floats) -> float:
    """Returns the share of the null distribution at or above the observed value, which is itself counted as one of it.

    Never zero (Phipson and Smyth 2010). Ties count against the effect.
    """
    return float((1 + np.count_nonzero(shifted >= observed * (1 - 1e-9))) / (1 + len(shifted)))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Returns adjusted p-values that bound the false-discovery rate (Benjamini and Hochberg 1995), in the order
    given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.minimum.accumulate(scaled[::-1])[::-1])
    return [float(value) for value in adjusted]


def relative_risk(hit: Floats, exposed: Floats, hit_outside: Floats, outside: Floats) -> Floats:
    """Returns the risk among the exposed divided by the risk outside, with one additional case that is shared between
    both in proportion to their size.

    The additional case keeps the result finite if no case is outside, draws it towards 1 if cases are few, and makes it
    1 without any. NaN if nobody is outside.
    """
    size = np.maximum(exposed + outside, 1)
    inside_risk = (hit + exposed / size) / np.maximum(exposed, 1e-9)
    outside_risk = (hit_outside + outside / size) / np.maximum(outside, 1e-9)
    return np.where(outside > 0, inside_risk / np.maximum(outside_risk, 1e-12), np.nan)


def risk_bounds(hit: float, exposed: float, hit_outside: float, outside: float) -> tuple[float, float]:
    """Returns the 95 % interval of the relative risk of independent observations: of the ratio of two proportions, from
    Wilson's interval of each (Donner and Zou 2012, MOVER). There is no upper bound if no case is outside."""
    inverse = _risk_at_least(hit_outside, outside, hit, exposed)
    return _risk_at_least(hit, exposed, hit_outside, outside), 1 / inverse if inverse else float("inf")


def _risk_at_least(hit: float, exposed: float, hit_outside: float, outside: float) -> float:
    """Returns the quotient of the paper with its root in the denominator, which avoids cancellation."""
    if not hit:
        return 0.0
    inside, beyond = hit / exposed, hit_outside / outside
    low, high = wilson(hit, exposed)[0], wilson(hit_outside, outside)[1]
    product, part = inside * beyond, low * (2 * inside - low)
    root = float(np.sqrt(max(product**2 - part * high * (2 * beyond - high), 0.0)))
    return part / (product + root)
