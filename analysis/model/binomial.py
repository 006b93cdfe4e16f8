"""What k of n say of a probability: exact intervals (Clopper and Pearson 1934)."""

from __future__ import annotations

import math
from collections.abc import Callable

TAIL = 0.025  # of a two-sided 95 % interval
_STEPS = 60  # of bisection: to 1e-18


def at_most(k: int, n: int, p: float) -> float:
    """The probability of K or fewer of N, each with probability P."""
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
    """The least probability with which K or more of N are not rarer than TAIL; 0 for none."""
    return 0.0 if k == 0 else _solved(lambda p: 1 - at_most(k - 1, n, p) < tail)


def upper(k: int, n: int, tail: float = TAIL) -> float:
    """The largest probability with which K or fewer of N are not rarer than TAIL; 1 for all, and for none of none."""
    return 1 - lower(n - k, n, tail)


def _solved(below: Callable[[float], bool]) -> float:
    """Where BELOW, a function of a probability, changes from true to false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2
