"""Lines and their intervals against slow, plain oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.model import lines


@settings(deadline=None, max_examples=50)
@given(st.floats(-5, 5), st.floats(-100, 100), st.integers(3, 40), st.integers(0, 10**6))
def test_fit_finds_a_line(slope: float, offset: float, n: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=n)
    x = np.append(x, np.nan)
    found = lines.fit(x, slope * x + offset)
    if abs(slope) < 1e-6:
        return
    assert found is not None and found.n == n
    assert found.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert abs(found.r) == pytest.approx(1, abs=1e-6)


def test_fit_needs_spread() -> None:
    assert lines.fit(np.ones(5), np.arange(5.0)) is None
    assert lines.correlation(np.arange(2.0), np.arange(2.0)) is None


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 60), st.integers(0, 2**32))
def test_a_line_over_blocks_is_the_line_of_its_points(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dose = rng.normal(5, 2, n)
    response = 3 * dose + rng.normal(0, 1, n)
    response[0] = np.nan
    found = lines.line_over_blocks(dose, response, np.arange(n) // 5, 200, rng)
    if n < 4:
        assert found is None
        return
    slope, _ = np.polyfit(dose[1:], response[1:], 1)
    assert found is not None and found.n == n - 1
    assert found.slope.value == pytest.approx(slope) and found.r.value == pytest.approx(
        np.corrcoef(dose[1:], response[1:])[0, 1]
    )
    if n >= 10:  # two blocks at least
        assert -1 <= found.r.low <= found.r.high <= 1 and found.slope.low <= found.slope.high


@pytest.mark.parametrize("blocks, each", [(2, 5), (2, 30), (3, 1), (3, 5), (3, 30), (5, 1), (5, 5), (12, 5), (12, 30)])
def test_intervals_of_a_line_contain_the_truth_with_few_blocks(blocks: int, each: int) -> None:
    rng = np.random.default_rng(100 * blocks + each)
    of, true = np.repeat(np.arange(blocks), each), (0.7, 0.7 / np.hypot(0.7, 1))
    held = np.zeros(2)
    for _ in range(100):
        dose, noise = (
            np.sqrt(0.5) * rng.normal(size=blocks)[of] + np.sqrt(0.5) * rng.normal(size=len(of)) for _ in range(2)
        )
        found = lines.line_over_blocks(dose, 0.7 * dose + noise, of, 100, rng)
        assert found is not None
        held += [one.low <= value <= one.high for one, value in zip(found, true, strict=True)]
    assert (held >= 82).all(), held  # of 100; with two blocks, resampling alone reaches about 60


def test_one_block_or_three_points_give_no_bound_of_r() -> None:
    rng = np.random.default_rng(1)
    dose = np.arange(9.0)
    alone = lines.line_over_blocks(dose, dose + rng.normal(size=9), np.zeros(9, int), 100, rng)
    assert alone is not None and (alone.r.low, alone.r.high) == (-1, 1)
    assert (alone.slope.low, alone.slope.high) == (-np.inf, np.inf)
    few = lines.line_over_blocks(dose[:3], np.array([0.0, 2.0, 1.0]), np.arange(3), 100, rng)
    assert few is not None and (few.r.low, few.r.high) == (-1, 1)
