"""Probes are due at their rate until the end, or up to the count, and a target without another probe is no longer
waited for."""

from __future__ import annotations

import random
from array import array
from itertools import pairwise

import pytest

from mburst.telemetry.probe.schedule import Schedule

S = 10**9


def due_of(
    rate: float, end_ns: int | None, count: int | None, targets: int, poisson: bool, step_ns: int = S // 10
) -> tuple[list[tuple[int, int]], int]:
    """Returns time and target of each probe, and when none was left, looking ahead in steps."""
    schedule = Schedule(
        [[target] for target in range(targets)],
        rate,
        0,
        end_ns=end_ns,
        count=count,
        poisson=poisson,
        rng=random.Random(7),
    )
    due, now = array("q"), 0
    while schedule.more:
        schedule.look_ahead(now, due)
        now += step_ns
    return list(zip(due[::2], due[1::2], strict=True)), now


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize(
    ("rate", "end_s", "count"), [(1 / 60, 2, 1), (1 / 3600, 60, None), (1 / 3600, None, 1), (1 / 60, 2, None)]
)
def test_a_slow_rate_does_not_delay_the_end(rate: float, end_s: int | None, count: int | None, poisson: bool) -> None:
    found, ended = due_of(rate, None if end_s is None else end_s * S, count, 1, poisson)
    assert [at for at, _ in found] == [0] and ended < S


def test_targets_that_begin_after_the_end_have_no_probe() -> None:
    found, ended = due_of(1 / 60, 2 * S, None, 60, False)
    assert [target for _, target in found] == [0, 1] and ended < 2 * S


@pytest.mark.parametrize("poisson", [False, True])
def test_each_target_has_its_rate_and_its_count(poisson: bool) -> None:
    found, _ = due_of(100, None, 50, 3, poisson)
    assert sorted(found) == found and len(found) == 150
    for target in range(3):
        times = [at for at, of in found if of == target]
        assert len(times) == 50 and (poisson or {b - a for a, b in pairwise(times)} <= {S // 100, S // 100 + 1})
    assert all(at < S for at, _ in due_of(100, S, None, 3, poisson)[0])
