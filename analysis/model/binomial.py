"""Exact intervals of a probability from k of n (Clopper and Pearson 1934)."""

from __future__ import annotations

import math
from collections.abc import Callable

TAIL = 0.025  # one side of a two-sided 95 % interval
_STEPS = 60  # of the bisection: to 1e-18


def at_most(k: int, n: int, p: float) -> float:
    """Returns the probability of K or fewer of N, each with probability P."""
    if p <= 0 or k >= n:
        return 1.0
    if p >= 1:
        return 0.0
    logs = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))


def lower(k: int, n: int, tail: float = TAIL) -> float:
    """Returns the lower end of the interval: the smallest probability for which K or more of N is not rarer than TAIL;
    0 if K is 0."""
    return 0.0 if k == 0 else _solved(lambda p: 1 - at_most(k - 1, n, p) < tail)


def upper(k: int, n: int, tail: float = TAIL) -> float:
    """Returns the upper end of the interval: the largest probability for which K or fewer of N is not rarer than TAIL;
    1 if K is N, also if both are 0."""
    return 1 - lower(n - k, n, tail)


def _solved(below: Callable[[float], bool]) -> float:
    """Returns the probability at which BELOW changes from true to false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2
