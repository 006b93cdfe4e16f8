"""Distributions against plain counting."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.model import distributions

values = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


@settings(deadline=None, max_examples=60)
@given(values)
def test_quantiles_are_values_that_occurred_by_nearest_rank(given_values):
    summary = distributions.summarize(given_values)
    ordered, n = sorted(given_values), len(given_values)
    assert (summary.n, summary.least, summary.largest) == (n, ordered[0], ordered[-1])
    assert summary.p50 == ordered[math.ceil(n / 2) - 1]
    assert summary.p90 == (ordered[math.ceil(n * 9 / 10) - 1] if n >= 10 else None)
    assert summary.p99 == (ordered[math.ceil(n * 99 / 100) - 1] if n >= 100 else None)


@settings(deadline=None, max_examples=60)
@given(values, st.integers(2, 50))
def test_an_ecdf_says_what_share_is_no_larger(given_values, points):
    x, y = distributions.ecdf(given_values, points)
    n = len(given_values)
    assert len(x) <= points and x[0] == min(given_values) and x[-1] == max(given_values) and y[-1] == 1
    for value, share in zip(x, y, strict=True):
        assert sum(v < value for v in given_values) < round(share * n) <= sum(v <= value for v in given_values)


def test_no_values_have_no_distribution():
    assert distributions.summarize([]) == distributions.Quantiles(0)
    assert [len(part) for part in distributions.ecdf([])] == [0, 0]


def of_run(run: str, epoch: int, *spans: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"recording_id": run, "clock_epoch": epoch, "start_ns": start, "end_ns": end} for start, end in spans]


def test_gaps_do_not_extend_over_time_that_was_not_recorded():
    bursts = of_run("a", 0, (95, 110), (130, 140), (150, 160), (1010, 1020))
    assert distributions.gaps(bursts, {("a", 0): [(100, 200), (1000, 1100)]}) == [20, 10]
    assert distributions.gaps([], {}) == []


def test_gaps_do_not_extend_over_time_that_another_recording_counted():
    bursts = of_run("a", 0, (90, 95), (210, 220)) + of_run("b", 0, (150, 160))
    whole = {("a", 0): [(0, 300)], ("b", 0): [(0, 300)]}
    assert distributions.gaps(bursts, whole) == [115]
    assert distributions.gaps(bursts, {**whole, ("a", 0): [(0, 100), (200, 300)]}) == []


def test_gaps_are_between_bursts_of_one_recording_and_clock_epoch():
    """Two recordings of the same time have each burst twice; a clock that was set back repeats a time."""
    twice = of_run("a", 0, (100, 110), (150, 160)) + of_run("b", 0, (101, 109), (150, 162), (190, 195))
    whole = {(run, epoch): [(0, 200)] for run in "ab" for epoch in (0, 1)}
    assert distributions.gaps(twice, whole) == [40, 41, 28]
    assert distributions.gaps(of_run("a", 0, (100, 110), (150, 160)) + of_run("a", 1, (120, 130)), whole) == [40]
