"""What the meter counts of each lane, path and switch queue."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...quality import Quality

if TYPE_CHECKING:
    from ...analysis.model.envelope import Interval

STAMPS = {flag.name.lower(): flag for flag in (Quality.HW, Quality.SW, Quality.RING, Quality.FILE_US) if flag.name}
DURATIONS_S = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0)
FAN_INS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class LaneName(NamedTuple):
    """The labels of a lane."""

    rack: str
    host: str
    interface: str
    direction: str


@dataclass
class Histogram:
    """Counts by bucket, each up to and with its bound, the last one without."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class LaneCounts:
    """What one lane did since the meter was made."""

    link_bps: int = 0
    newest_ns: int = 0
    wire_bytes: int = 0
    packets: int = 0
    bins_with_drops: int = 0
    stamped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAMPS, 0))
    bursts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    burst_ns: int = 0
    newest_bursts: list[Interval] = field(default_factory=list)  # disjoint, ascending
    durations: Histogram = field(default_factory=lambda: Histogram(DURATIONS_S))
    fan_ins: Histogram = field(default_factory=lambda: Histogram(tuple(map(float, FAN_INS))))


class PathCounts(NamedTuple):
    """Probes of a path since the meter was made, and the quantiles (seconds) of those since the scraper's last look,
    as far as there are enough. `measure` is by what they are measured, '' where nothing was; `known` is how many
    answers know each measure, and `measured` how many latencies were taken."""

    sent: int
    lost: int
    quantiles: tuple[float | None, ...]
    measure: str = ""
    known: tuple[int, ...] = ()
    measured: int = 0


class QueueCounts(NamedTuple):
    """Drops of a switch queue since the meter was made (None: its device reports none), and the fullest window since
    the scraper's last look (where there was none, the one before). `impossible` windows are not to be believed, and in
    neither."""

    dropped: int | None
    max_bytes: int | None
    impossible: int = 0
