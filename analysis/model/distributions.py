"""Distributions of the durations, gaps and peaks of bursts, each with its n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Quantiles:
    """Quantiles by nearest rank: values that occurred. A quantile is None if n is too small to separate it from the
    maximum."""

    n: int
    least: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    largest: float | None = None
    mean: float | None = None


def quantile(ordered: NDArray[Any], share: float) -> float | None:
    """Returns the nearest-rank quantile of an ascending array; None beyond the median if the share above it is less
    than one value (known_quantile of sql/macros.sql)."""
    n = len(ordered)
    if n == 0 or (share > 0.5 and n * (1 - share) < 1 - 1e-9):
        return None
    return float(ordered[max(0, int(np.ceil(share * n - 1e-9)) - 1)])


def summarize(values: ArrayLike) -> Quantiles:
    """Returns the summary of any number of values."""
    ordered = np.sort(np.asarray(values))
    if not len(ordered):
        return Quantiles(0)
    median = float(ordered[(len(ordered) - 1) // 2])
    return Quantiles(
        len(ordered),
        float(ordered[0]),
        median,
        quantile(ordered, 0.9),
        quantile(ordered, 0.99),
        float(ordered[-1]),
        float(ordered.mean()),
    )


def ecdf(values: ArrayLike, points: int = 400) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Returns sorted values and, for each, the share of all values that are no larger, thinned to `points`; the
    smallest and the largest stay."""
    ordered = np.sort(np.asarray(values))
    n = len(ordered)
    picked = np.unique(np.linspace(0, n - 1, min(n, points)).round().astype(np.int64)) if n else np.zeros(0, np.int64)
    return ordered[picked], (picked + 1) / max(n, 1)


def nines(values: ArrayLike, points: int = 400) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Returns an empirical distribution that shows its tail: sorted known values, and -log10 of the share that is
    larger (1 for 90 %, 2 for 99 %), thinned evenly in both. The largest value, which no value exceeds, is placed at 1 -
    1/2n."""
    ordered = np.sort(np.asarray(values, np.float64))
    ordered = ordered[np.isfinite(ordered)]
    n = len(ordered)
    if not n:
        return ordered, np.zeros(0)
    even = np.linspace(0, n - 1, min(n, points // 2)).round()
    deep = n - 1 - (np.geomspace(1, n, min(n, points // 2)).round() - 1)
    picked = np.unique(np.concatenate([even, deep])).astype(np.int64)
    larger = np.maximum((n - 1 - picked) / n, 0.5 / n)
    return ordered[picked], -np.log10(larger)


def gaps(
    bursts: Sequence[Mapping[str, Any]], recorded: Mapping[tuple[str, int], Sequence[tuple[int, int]]]
) -> list[int]:
    """Returns the nanoseconds from each burst's end to the start of the next one of the same recording and clock epoch,
    in the order of time, if that recording counted all of the time between them according to RECORDED, a result of
    coverage.by_epoch."""
    begins = {of: np.array(sorted(begin for begin, _ in spans), np.int64) for of, spans in recorded.items()}
    nothing = np.zeros(0, np.int64)
    last: dict[tuple[Any, Any], tuple[int, int]] = {}  # the end of the last burst, and the interval that has it
    found = []
    for burst in sorted(bursts, key=lambda burst: (int(burst["start_ns"]), int(burst["end_ns"]))):
        start, end = int(burst["start_ns"]), int(burst["end_ns"])
        of = burst["recording_id"], burst["clock_epoch"]
        interval = int(np.searchsorted(begins.get(of, nothing), end - 1, "right"))
        if of in last and last[of][1] == interval:
            found.append(start - last[of][0])
        last[of] = end, interval
    return found
