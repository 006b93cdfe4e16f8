"""What a store keeps for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ...units import NS_PER_DAY, NS_PER_HOUR

SETTLED_NS = 2 * NS_PER_HOUR  # after the end of a day, when all of its rows are sealed
FOLLOWED_NS = 900 * 10**9  # after which followers of a store have read a file that came (sql/follow.py)
LOOSEST = 0.25  # share of line rate: the loosest definition of a burst that queries may use


class Detail(IntEnum):
    """How much is kept of a day, from most to least."""

    ALL = 1  # every row, in few files
    BURSTS = 2  # bins and senders around what may be a burst, and one-second sums
    STEPS = 3  # one-second sums, and rows about recordings, links and events
    NONE = 4  # rows about recordings and links


@dataclass(frozen=True)
class KeepRules:
    """Ages of a day, counted from its end (UTC), in ns, from which on less of it is kept. `threshold` is the share of
    line rate from which on bins are kept, with `around_ns` before and after; `size` is the size limit of the store in
    bytes, None for no limit."""

    everything_ns: int = NS_PER_DAY
    bursts_ns: int = 90 * NS_PER_DAY
    steps_ns: int = 730 * NS_PER_DAY
    threshold: float = LOOSEST
    around_ns: int = 50_000_000
    size: int | None = None

    @property
    def threshold_ppb(self) -> int:
        """The threshold in 10^-9, as `thinned` has it."""
        return round(self.threshold * 1e9)

    def detail(self, day_end_ns: int, now_ns: int) -> Detail:
        """How much is now kept of a day that was complete at DAY_END_NS."""
        age_ns = now_ns - day_end_ns - SETTLED_NS
        limits = (0, self.everything_ns, self.bursts_ns, self.steps_ns)
        return Detail(max(1, sum(age_ns >= limit for limit in limits)))
