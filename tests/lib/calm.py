"""Measurements that other work, or other guests of a hypervisor, can disturb: they are repeated, and the disturbance is
reported.

Nothing here tolerates a result that is wrong on an undisturbed machine.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
from skips import LOAD

from mburst.lab.rack.machine import StolenTime

T = TypeVar("T")

AGAIN = 6
_SPOILS = 0.02  # share of the time of all processors that a hypervisor took
_CALM = 0.05  # share of the time of one processor that may be lost in gaps: timers alone take 2 %
_GAP_S = 50e-6  # one iteration of a loop that reads the clock takes less than a microsecond
_SPIN_S = 0.3
_PATIENCE_S = 30


@dataclass(frozen=True)
class Taken(Generic[T]):
    """A measurement, and what took processors away during it; "" if nothing did."""

    result: T
    trouble: str


def take(measure: Callable[[], T]) -> Taken[T]:
    """Measures, and observes the machine at the same time."""
    stolen = StolenTime()
    result = measure()
    share, load, reasons = stolen.share(), os.getloadavg()[0], []
    if share > _SPOILS:
        reasons.append(f"a hypervisor took {share:.0%} of the processors' time")
    if load > 2 * (os.cpu_count() or 1):
        reasons.append(f"the load was {load:.1f}")
    return Taken(result, " and ".join(reasons))


class Attempts(Generic[T]):
    """A measurement, and up to six repetitions, taken if the earlier ones are of no use to a test.

    Several tests may use the same ones: each is taken once; all except the first are taken when the machine is calm.
    """

    def __init__(self, first: Callable[[], T], again: Callable[[], T]) -> None:
        self._measures = [first] + AGAIN * [again]
        self._taken: list[Taken[T]] = []

    def __getitem__(self, number: int) -> Taken[T]:
        while number >= len(self._taken):
            measure = self._measures[len(self._taken)]
            if self._taken:
                _await_calm()
            self._taken.append(take(measure))
        return self._taken[number]

    def held(self, check: Callable[[T], object]) -> T:
        """Returns the first result for which the check does not fail; if it fails for the last one, as `hold` does."""
        taken = self._held_before_the_last(check)
        if taken is None:
            taken = self[AGAIN]
            hold(check, taken)
        return taken.result

    def that_holds(self, check: Callable[[T], object]) -> Taken[T]:
        """Returns the first measurement for which the check does not fail, or the last one: for several tests that each
        `hold` one property."""
        return self._held_before_the_last(check) or self[AGAIN]

    def _held_before_the_last(self, check: Callable[[T], object]) -> Taken[T] | None:
        for number in range(AGAIN):
            try:
                check(self[number].result)
                return self[number]
            except AssertionError as reason:
                warnings.warn(f"measured again: {str(reason)[:300]}", stacklevel=3)
        return None


def hold(check: Callable[[T], object], taken: Taken[T]) -> None:
    """Checks a result; if the check fails and something took processors away, the test is skipped with both reasons."""
    try:
        check(taken.result)
    except AssertionError as reason:
        if taken.trouble:
            pytest.skip(f"{LOAD}{taken.trouble}: {str(reason)[:200]}")
        raise


def _await_calm() -> None:
    """Returns when a processor has been available without a gap for a while, or after a limit."""
    deadline = time.monotonic() + _PATIENCE_S
    while _lost_share() > _CALM and time.monotonic() < deadline:
        time.sleep(1)


def _lost_share() -> float:
    """Returns the share of a short while for which a loop on one processor could not run."""
    begin = last = time.perf_counter()
    lost = 0.0
    while last - begin < _SPIN_S:
        now = time.perf_counter()
        lost += now - last if now - last > _GAP_S else 0
        last = now
    return lost / (last - begin)


def beside_slow_disk(errors: str) -> str:
    """Returns the standard error of a process without messages about a slow disk, which depend on this machine.
    tests/sql/test_syncing.py verifies those messages."""
    return "".join(line for line in errors.splitlines(keepends=True) if ": the disk is slow, or " not in line)
