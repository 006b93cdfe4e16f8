"""The minutes of a path: whether another slow minute follows a slow one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...units import NS_PER_MINUTE
from ..model.distributions import quantile
from .paths import PathProbes


@dataclass(frozen=True)
class PathMinute:
    """A minute of a path: when it began (Unix ns), and the percentiles of its round trips, ns; None if all were
    lost."""

    start_ns: int
    n: int
    lost: int
    least: float | None
    p50: float | None
    p99: float | None


def by_minute(probes: PathProbes) -> list[PathMinute]:
    """Returns the path's round trips by minutes of the clock (Popescu et al. call them rounds; a slow minute often
    follows another). The first and the last minute may be incomplete."""
    begin = probes.start_ns // NS_PER_MINUTE * NS_PER_MINUTE
    number = ((probes.tx + (probes.start_ns - begin)) // NS_PER_MINUTE).astype(np.int64)
    latency = probes.latency
    found = []
    for which in np.unique(number):
        values = np.sort(latency[number == which])
        answered = values[np.isfinite(values)]
        found.append(
            PathMinute(
                begin + int(which) * NS_PER_MINUTE,
                len(answered),
                len(values) - len(answered),
                float(answered[0]) if len(answered) else None,
                quantile(answered, 0.5),
                quantile(answered, 0.99),
            )
        )
    return found


def persistence(found: Sequence[PathMinute]) -> float | None:
    """Returns the correlation of the p99 of a minute with that of the next. Near 1, slow minutes follow each other;
    near 0, a minute does not predict the next. None with fewer than eight pairs of consecutive minutes."""
    pairs = [
        (a.p99, b.p99)
        for a, b in pairwise(found)
        if a.p99 is not None and b.p99 is not None and b.start_ns - a.start_ns == NS_PER_MINUTE
    ]
    if len(pairs) < 8:
        return None
    first, second = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0).T.astype(np.float64)
    return float(np.corrcoef(first, second)[0, 1]) if first.std() and second.std() else None
