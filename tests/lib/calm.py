"""Measurements that other work, or a hypervisor's other guests, can spoil: taken again, and what spoiled them said.

Nothing here bears with a result that is wrong on a machine that was left alone.
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
_CALM = 0.05  # share of the time of one that may pass in gaps: timers alone are 2 %
_GAP_S = 50e-6  # a loop that reads the clock takes under a microsecond a round
_SPIN_S = 0.3
_PATIENCE_S = 30


@dataclass(frozen=True)
class Taken(Generic[T]):
    """A measurement, and what took processors away from it; "" where nothing did."""

    result: T
    trouble: str


def take(measure: Callable[[], T]) -> Taken[T]:
    """Measure, and watch the machine meanwhile."""
    stolen = StolenTime()
    result = measure()
    share, load, reasons = stolen.share(), os.getloadavg()[0], []
    if share > _SPOILS:
        reasons.append(f"a hypervisor took {share:.0%} of the processors' time")
    if load > 2 * (os.cpu_count() or 1):
        reasons.append(f"the load was {load:.1f}")
    return Taken(result, " and ".join(reasons))


class Attempts(Generic[T]):
    """A measurement, and up to six others that are taken where a test has no use for those before.

    Several tests may look at the same ones: each is taken once, and but for the first when the machine is calm.
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
        """The first result on which the check does not fail; where it fails on the last, as `hold` has it."""
        taken = self._held_before_the_last(check)
        if taken is None:
            taken = self[AGAIN]
            hold(check, taken)
        return taken.result

    def that_holds(self, check: Callable[[T], object]) -> Taken[T]:
        """The first on which the check does not fail, or the last: for several tests to `hold` one thing each to."""
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
    """Check; where that fails and something took the processors away, the test is skipped with both."""
    try:
        check(taken.result)
    except AssertionError as reason:
        if taken.trouble:
            pytest.skip(f"{LOAD}{taken.trouble}: {str(reason)[:200]}")
        raise


def _await_calm() -> None:
    """Return when a processor is ours without a gap for a while, or after so long that it may never be."""
    deadline = time.monotonic() + _PATIENCE_S
    while _lost_share() > _CALM and time.monotonic() < deadline:
        time.sleep(1)


def _lost_share() -> float:
    """Which share of a short while a loop on one processor could not run."""
    begin = last = time.perf_counter()
    lost = 0.0
    while last - begin < _SPIN_S:
        now = time.perf_counter()
        lost += now - last if now - last > _GAP_S else 0
        last = now
    return lost / (last - begin)


def beside_slow_disk(errors: str) -> str:
    """What a process said on standard error but for a slow disk, which is about this machine.
    tests/sql/test_syncing.py tests that it says so."""
    return "".join(line for line in errors.splitlines(keepends=True) if ": the disk is slow: " not in line)
