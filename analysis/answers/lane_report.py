"""The values that a report shows of a lane (one direction of one interface)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...sql.damage import DamagedFile
from ..bursts.find import BurstDefinition
from ..canary import sensitivity
from ..model import context, coverage
from ..model.envelope import Envelope, Interval
from ..model.flow_control import FlowControl
from ..model.losses import CaptureLoss
from .lanes import ReportLane

WINDOW_NS = 1_000_000  # the shortest time that a headline states the utilization of


@dataclass(frozen=True)
class QualityCount:
    """The number of bins and packets of a lane that have a quality bit."""

    bit: int
    name: str
    meaning: str
    bins: int
    packets: int


@dataclass(frozen=True)
class Source:
    """The bytes that a sender sent in the period, and how many of them were in bursts."""

    source: str
    bytes: int
    packets: int
    members: int
    burst_bytes: int
    name: str | None = None  # at the end of the period; None: unknown
    service: str | None = None
    rack: str | None = None
    owner: str | None = None


def window_of(bin_ns: int) -> int:
    """Returns the length of the fewest bins that last at least WINDOW_NS."""
    return bin_ns * -(-WINDOW_NS // bin_ns)


@dataclass(frozen=True)
class Peak:
    """The busiest bin or second: when it began, and its wire bytes."""

    ts_ns: int
    wire_bytes: int


@dataclass(frozen=True)
class LaneReport:
    """All that a report shows of one lane. Times are Unix nanoseconds; a period is [start_ns, end_ns).

    busiest_window: the busiest window of window_ns. It is reliable even if narrower bins read more than line rate,
    because a frame counts entirely in the bin of its timestamp. largest_frame: lower bound for the wire bytes of the
    largest frame; None: unknown. burst_ns: the recorded time in bursts; overlapping bursts of overlapping recordings
    count once. repeated_ns: time that more than one recording of the lane covers, counted once for
    each recording beyond the first. is_part: recordings of the lane reach beyond the requested time, so that what
    `recordings` counts is not of it alone. is_elsewhere: none is of that time; the lane has those of other times, of
    which nothing else is here. source_count: senders, without those that are recorded together (`other`); others:
    the most that these are at once."""

    lane: ReportLane
    start_ns: int
    end_ns: int
    coverage: list[Interval]
    repeated_ns: int
    packets: int | None  # None: a port of a switch, which counts only bytes
    bytes: int
    wire_bytes: int
    bins: int
    busiest_bin: Peak | None
    busiest_second: Peak | None
    busiest_window: Peak | None  # over window_ns
    largest_frame: int | None
    qualities: list[QualityCount]
    losing: list[Interval]
    stepped: list[Interval]
    base: Envelope
    detail: Envelope | None
    detail_cells: list[int]
    seconds: Envelope
    bursts: list[dict[str, Any]]
    burst_ns: int
    burst_marks: list[Interval]
    distributions: dict[str, Sequence[float]]
    sources: list[Source]
    source_count: int
    others: int
    source_bytes: int
    latency: list[context.PathLatency] = field(default_factory=list)
    paths: int = 0
    queues: list[context.QueueWindows] = field(default_factory=list)
    queue_count: int = 0
    damaged: list[DamagedFile] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)  # of recordings that broke off or have not ended
    # Measured with canary bursts, in this lane and others.
    curves: list[sensitivity.DetectionCurve] = field(default_factory=list)
    flow_control: FlowControl = field(default_factory=FlowControl)
    loss: CaptureLoss = field(default_factory=CaptureLoss)  # of the whole captures of `recordings`
    is_part: bool = False
    is_elsewhere: bool = False

    @property
    def recorded_ns(self) -> int:
        """The recorded time, without the pauses between recordings."""
        return coverage.length(self.coverage)

    @property
    def window_ns(self) -> int:
        """The width of `busiest_window`."""
        return window_of(self.lane.bin_ns)

    @property
    def burst_bytes(self) -> int:
        return sum(int(burst["bytes"]) for burst in self.bursts)

    @property
    def canaries(self) -> list[dict[str, Any]]:
        """The bursts that `mburst canary` sent."""
        return [burst for burst in self.bursts if burst["pattern"] == "canary"]

    def asked(self, definition: BurstDefinition) -> list[sensitivity.CurveSetting]:
        """Returns the setting of this lane that the canary bursts have to match: one, or none if the link speed is
        unknown."""
        bits = 0
        for recording in self.lane.recordings:
            bits |= int(recording["quality"])
        one = sensitivity.curve_setting({**self.lane.recordings[0], "link_bps": self.lane.link_bps}, definition, bits)
        return [one] if one else []


def worst_first(bursts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts bursts by bytes, the largest first: the bytes of a burst are what fills a queue."""
    return sorted(bursts, key=lambda burst: (-burst["bytes"], burst["start_ns"]))
