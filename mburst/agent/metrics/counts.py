"""The counts that the meter keeps of each lane, path and switch queue."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...analysis.bursts.find import PATTERNS
from ...quality import STAMP_NAMES

if TYPE_CHECKING:
    from ...analysis.model.envelope import Interval

# A burst counts when it has ended, before the store has the record that `mburst canary` sent it.
COUNTED_PATTERNS = tuple(pattern for pattern in PATTERNS if pattern != "canary")
STAMPS = {bit.name.lower(): bit for bit in STAMP_NAMES if bit.name}  # by label: `file_us` for `file-µs`
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
    """Counts by bucket. A bucket includes its upper bound; the last one has none."""

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
    """Counts of one lane since the meter was created. Bursts are detected in its recordings with a known line rate."""

    newest_recording: tuple[int, str] = (0, "")  # begun_ns and recording_id
    link_bps: int | None = None  # line rate of its newest recording
    is_examined: bool = False  # whether it has a recording in which bursts are detected
    newest_ns: int = 0
    wire_bytes: int = 0
    packets: int = 0
    bins_with_drops: int = 0
    stamped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAMPS, 0))
    bursts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED_PATTERNS, 0))
    burst_ns: int = 0
    newest_bursts: list[Interval] = field(default_factory=list)  # disjoint, in ascending order
    durations: Histogram = field(default_factory=lambda: Histogram(DURATIONS_S))
    fan_ins: Histogram = field(default_factory=lambda: Histogram(tuple(map(float, FAN_INS))))


class PathCounts(NamedTuple):
    """Probes of a path since the meter was created, and quantiles (in seconds) of the probes since the scraper's last
    call, if there are enough. `measure` is the measure of the path, '' if there is none. `known` counts, for each
    measure, the answers that have it, and `measured` counts the latencies."""

    sent: int
    lost: int
    quantiles: tuple[float | None, ...]
    measure: str = ""
    known: tuple[int, ...] = ()
    measured: int = 0


class QueueCounts(NamedTuple):
    """Drops of a switch queue since the meter was created (None if its device reports none), and the fullest window
    since the scraper's last call (or, without a new window, the previous value). `impossible` windows have impossible
    values and count in neither."""

    dropped: int | None
    max_bytes: int | None
    impossible: int = 0
