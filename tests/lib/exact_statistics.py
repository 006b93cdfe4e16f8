"""Ranks and intervals, worked out exactly: what known_quantile, Wilson's intervals and the relative risk of sql/ are
compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

Z = Decimal("1.959964")


def rank(values: Iterable[Any], share: Fraction) -> Any:
    """Returns the nearest rank; None if there are no values."""
    found = sorted(values)
    return found[math.ceil(share * len(found)) - 1] if found else None


def known_rank(values: Iterable[Any], share: Fraction) -> Any:
    """Returns the same if there are enough values to distinguish it from the largest: known_quantile of
    sql/macros.sql."""
    found = list(values)
    return rank(found, share) if 2 * share <= 1 or len(found) * (1 - share) >= 1 else None


def wilson_exact(hits: int, trials: int) -> tuple[Decimal, Decimal]:
    """Returns the shares p from which HITS / TRIALS is 1.959964 standard errors away: (share - p)² = z² p (1 - p) /
    TRIALS."""
    share, part = Decimal(hits) / trials, Z * Z / trials
    root = ((2 * share + part) ** 2 - 4 * (1 + part) * share * share).sqrt()
    return (2 * share + part - root) / (2 + 2 * part), (2 * share + part + root) / (2 + 2 * part)


def risk_interval(hits: int, exposed: int, hits_outside: int, outside: int) -> tuple[float | None, float | None]:
    """Returns the interval of the ratio of two shares, after Donner and Zou (2012); None: no bound."""
    if not exposed or not outside:
        return None, None
    with localcontext(prec=60):
        p, q = Decimal(hits) / exposed, Decimal(hits_outside) / outside
        (least, most), (least_outside, most_outside) = wilson_exact(hits, exposed), wilson_exact(hits_outside, outside)

        def bound(x: Decimal, y: Decimal, sign: int) -> float:
            root = ((p * q) ** 2 - x * y * (2 * p - x) * (2 * q - y)).sqrt()
            return float((p * q + sign * root) / (y * (2 * q - y)))

        low = bound(least, most_outside, -1) if hits else 0.0
        return low, bound(most, least_outside, 1) if hits_outside else None


def wilson(k: int, n: int) -> tuple[float, float]:
    """Returns the shares p at which (k/n - p)² = z² p (1 - p) / n: roots of a quadratic."""
    z = 1.959963985
    a, b, c = 1 + z * z / n, -(2 * k / n + z * z / n), (k / n) ** 2
    root = math.sqrt(max(b * b - 4 * a * c, 0))
    return max((-b - root) / (2 * a), 0.0), min((-b + root) / (2 * a), 1.0)
