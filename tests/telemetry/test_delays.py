"""Delays follow the distributions that their names promise, by independent formulas."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from mburst.errors import MburstError, UsageError
from mburst.telemetry.probe import delays

N = 40_000


def drawn(text: str) -> np.ndarray:
    source = delays.parse(text, seed=7)
    return np.array([source() for _ in range(N)], np.float64)


def agrees(values: np.ndarray, cdf) -> None:
    """Compares by Kolmogorov's distance, which at 1 of 10,000 is 2.23 / sqrt(n)."""
    ordered = np.sort(values)
    expected = np.array([cdf(value) for value in ordered])
    ranks = np.arange(1, N + 1) / N
    assert max(np.abs(ranks - expected).max(), np.abs(ranks - 1 / N - expected).max()) < 2.23 / math.sqrt(N) + 1e-4


def test_uniform():
    agrees(drawn("uniform:0:20us"), lambda x: min(1, (x + 0.5) / 20_000))


def test_normal_is_cut_at_0():
    values = drawn("normal:100us:20us")
    agrees(values, NormalDist(100_000, 20_000).cdf)
    near = drawn("normal:1us:10us")
    assert near.min() == 0 and (near == 0).mean() == pytest.approx(NormalDist(1, 10).cdf(0), abs=0.01)


def test_pareto():
    agrees(drawn("pareto:10us:1.5"), lambda x: 1 - (10_000 / max(x, 10_000)) ** 1.5)


def test_pareto_normal_has_its_mean_its_deviation_and_the_tail_of_pareto():
    values = drawn("pareto-normal:1ms:100us")
    assert values.mean() == pytest.approx(1e6, rel=0.01)
    assert values.std() == pytest.approx(1e5, rel=0.25)  # of index 3: a sample's deviation is unsteady
    pareto = np.random.default_rng(1).pareto(3, 400_000) + 1
    normal = np.random.default_rng(2).standard_normal(400_000)
    mixed = (normal / 4 + 3 / 4 * (pareto - 1.5) / math.sqrt(0.75)) / math.sqrt(10 / 16)
    for share in (0.1, 0.5, 0.9, 0.99):
        expected = 1e6 + 1e5 * np.quantile(mixed, share)
        assert np.quantile(values, share) == pytest.approx(expected, abs=0.05 * 1e5 if share < 0.99 else 0.2 * 1e5)


def test_constant():
    assert set(drawn("constant:1ms")) == {1e6}


def test_a_file_gives_its_distribution(tmp_path: Path):
    path = tmp_path / "cdf.csv"
    path.write_text("delay,share\n10us,0.25\n20000,0.25\n30us,0.75\n1ms,1\n")
    xs, shares = [10_000, 20_000, 30_000, 1_000_000], [0.25, 0.25, 0.75, 1]
    values = drawn(f"file:{path}")
    assert (values == 10_000).mean() == pytest.approx(0.25, abs=0.01)
    rest = np.sort(values[values > 10_000])
    ranks = 0.25 + 0.75 * np.arange(1, len(rest) + 1) / len(rest)
    assert np.abs(ranks - np.interp(rest, xs[1:], shares[1:])).max() < 0.015


def test_the_same_seed_gives_the_same_delays():
    first, second, other = (delays.parse("normal:1ms:100us", seed) for seed in (1, 1, 2))
    assert [first() for _ in range(9)] == [second() for _ in range(9)] != [other() for _ in range(9)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uniform",
        "uniform:1us",
        "uniform:2us:1us",
        "gamma:1us:2us",
        "normal:1:2",
        "pareto:1us:0",
        "pareto:1us:x",
        "constant:2m",
        "file:",
        "uniform:1us:2us:3us",
    ],
)
def test_an_invalid_delay_is_refused(text):
    with pytest.raises(UsageError):
        delays.parse(text)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "missing"),
        ("10us,0.5\n", "0.5"),
        ("10us,0.5\n5us,1\n", "line 2"),
        ("10us,0.5\n20us,0.4\n", "line 2"),
        ("10us,x\n", "line 1"),
        ("10us\n", "line 1"),
        ("10us,2\n", "line 1"),
        ("abc,def\n10us,1\nxx,1\n", "line 3"),
    ],
)
def test_an_invalid_file_of_a_distribution_is_reported_with_the_place(tmp_path: Path, text, message):
    path = tmp_path / "cdf.csv"
    path.write_text(text)
    with pytest.raises(MburstError, match=message):
        delays.parse(f"file:{path}")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(OSError, match="nowhere"):
        delays.parse(f"file:{tmp_path}/nowhere.csv")
