"""When probes are due."""

from __future__ import annotations

import random
from array import array
from heapq import heapify, heappop, heapreplace

from ...units import NS_PER_S


class Schedule:
    """The times of the probes of each target, `rate` per second, over the paths of the target in turn.

    `targets` has the paths of each target. Targets begin one after the other within the time of the first probe. Times
    are of CLOCK_MONOTONIC, from `begin_ns` on, before `end_ns` and up to `count` for each target, if these are given.
    """

    def __init__(
        self,
        targets: list[list[int]],
        rate: float,
        begin_ns: int,
        *,
        end_ns: int | None,
        count: int | None,
        poisson: bool,
        rng: random.Random,
    ) -> None:
        self._targets = targets
        self._rate = rate
        self._gap = NS_PER_S / rate
        self._end_ns = end_ns
        self._count = count
        self._poisson = poisson
        self._rng = rng
        first = [(begin_ns + self._gap * place / len(targets), place, 0) for place in range(len(targets))]
        self._next = [upcoming for upcoming in first if not self._is_beyond(upcoming)]
        heapify(self._next)

    @property
    def more(self) -> bool:
        """Whether there are probes after those that look_ahead has returned."""
        return bool(self._next)

    def look_ahead(self, until_ns: int, due: array[int]) -> None:
        """Append the probes that are due up to a time, in order: time and path of each."""
        upcoming, draw = self._next, self._rng.expovariate
        while upcoming and upcoming[0][0] <= until_ns:
            at, place, number = upcoming[0]
            paths = self._targets[place]
            due.extend((int(at), paths[number % len(paths)]))
            gap = draw(self._rate) * NS_PER_S if self._poisson else self._gap
            following = (at + gap, place, number + 1)
            if self._is_beyond(following):  # leaves at once: its next time may be an hour away
                heappop(upcoming)
            else:
                heapreplace(upcoming, following)

    def _is_beyond(self, upcoming: tuple[float, int, int]) -> bool:
        """Whether a probe, by its time, target and number, is not sent any more."""
        at, _, number = upcoming
        return (self._end_ns is not None and at >= self._end_ns) or number == self._count
