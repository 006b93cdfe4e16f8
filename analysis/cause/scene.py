"""What a verdict rests on: the scene that was recorded of one path, and what is measured of it. Only data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.lines import Line
from ..model.stats import Estimate, Floats
from .arrivals import Arrivals
from .evidence.fifo import Fifo
from .evidence.repeats import RecordedRepeats, Repeats, none_of
from .evidence.switch import PortQueue, QueueAgreement, SwitchCounts
from .ledger import Crossing, WaitLedger
from .port import Port
from .tail import DEFAULT, LatencyTail, ProbeLatency, Probes, TailRule


class Control(NamedTuple):
    """A comparison in which the bursts must show no effect if they are the cause of the tail and nothing else is."""

    name: str
    risk: Estimate
    spikes: int


class LagScan(NamedTuple):
    """How full the link was while late probes waited, after shifts. lags: ns, latency after the burst.

    asymmetry: mean fit where bursts come first less that where latency does, over their sum: below 0 where bursts
    follow latency, as retries do; about 0 for what coincides.
    """

    lags: Floats
    fits: Floats
    asymmetry: float
    waits: int


class RecordedMarks(NamedTuple):
    """Bins with packets that a queue marked (ECN CE). stretches: share of the full stretches that delayed probes which
    have some. chance: share of shifted ones that would. denser: how many times as many of their bins are marked as of
    all."""

    stretches: Estimate
    chance: float
    denser: float


class SwitchMarks(NamedTuple):
    """Packets that the port's switch marked (ECN CE), by its own counter. stretches: share of the full stretches that
    delayed probes with a mark in the windows that reach into them; longer: likewise, where a probe waited for longer
    than the threshold of the marks. None: too few. usual: share of all windows that hold a mark."""

    packets: int
    stretches: Estimate | None
    longer: Estimate | None
    usual: float


class Paused(NamedTuple):
    """What ports of the path were asked to stop by pause frames. Shares are of the excess of late probes.

    port: the one whose pauses can account for most. asker: `host` where its recorded host asked the switch to stop,
    `elsewhere` where the switch asked the host, '' where a mirror does not show it; askers: those of all ports.
    could: the most that the pauses can account for; left: what they cannot, of each account. stood: what was spent at
    the idle port while all of its classes were asked to stop, None where that cannot be known; episodes: those that
    are mostly that; p_value: how often shifted pauses meet the waits as well.
    """

    port: Port
    asker: str
    askers: tuple[str, ...]
    could: Estimate
    left: dict[str, Estimate]
    stood: Estimate | None
    episodes: int
    p_value: float | None


class Notified(NamedTuple):
    """Congestion notifications about a port's traffic: how many, of these in bursts of that port, and the share of
    recorded time that is as near to bursts."""

    port: Port
    packets: int
    in_bursts: int
    usual: float


class Soundness(NamedTuple):
    """What the recording of the port is worth. dropped: packets that its captures lost. lossy: share of the full
    stretches that delayed probes in which it lost some, or may have. missing: at most so much of the bytes there.
    above: what it carried, of line rate, in `above_ns`, where that is more than the link can; else 0."""

    dropped: int
    lossy: float
    missing: float
    above: float
    above_ns: float


@dataclass
class Evidence:
    """Everything that the verdict (verdict.py) rests on, for one path. None: not measured, and why is in `missing`."""

    path: str
    tail: LatencyTail
    delays: ProbeLatency
    ledger: WaitLedger
    crossing: Crossing | None  # the port whose bursts explain most, or the first
    shares: dict[str, Estimate] = field(default_factory=dict)  # of ACCOUNTS
    stage_shares: dict[str, float] = field(default_factory=dict)
    episodes: int = 0
    burst_episodes: int = 0  # those with time in `bursts`
    bursts: int = 0  # in the recorded time that probes cover
    exposed: int = 0  # probes that met a burst
    unexposed: int = 0  # those that met none
    exposed_late: int = 0  # those of them that were late
    relative_risk: Estimate | None = None
    p_value: float | None = None
    pairing_p: float | None = None  # how often waits fit exchanged bursts as well; None where that can show nothing
    fifo: Fifo | None = None  # whether the waits are those of a queue at that port
    q_value: float | None = None  # p_value with the false-discovery rate of all tested paths and ports controlled
    lag_ns: float | None = None
    lag_share: float | None = None  # explained at that lag; at lag 0 it is in `filled`
    lag_explained: Estimate | None = None  # at that lag: the part of the waiting that a queue at the port explains
    ceiling: float | None = None  # the most that the port ever carried in a time as long as a wait; as `filled`
    scan: LagScan | None = None
    filled: float | None = None
    begun: float | None = None  # share of `elsewhere` that began in a burst though the link was not full throughout
    begun_p: float | None = None  # how often a shift puts as much there
    excess_share: Estimate | None = None
    dose: Line | None = None
    dose_kind: str = ""
    correlation_bin: Estimate | None = None
    correlation_second: Estimate | None = None
    correlation_queue: Estimate | None = None
    host_share: Estimate | None = None
    switch: QueueAgreement | None = None  # what the port's queue windows say of the waits
    switch_marks: SwitchMarks | None = None  # what the port's switch counts of marked packets
    lost_elsewhere: int = 0  # probes that were lost, but not by the full port
    controls: list[Control] = field(default_factory=list)
    repeats: Repeats = field(default_factory=lambda: none_of(0))  # probes that TCP repeated, and what waited behind
    seen_again: RecordedRepeats | None = None  # repeated segments that the port recorded when repeated probes ended
    soundness: Soundness | None = None
    marked: RecordedMarks | None = None  # packets that a queue before the port marked
    paused: Paused | None = None  # what pause frames can have made of the lateness
    notified: Notified | None = None
    notes: list[str] = field(default_factory=list)
    met: Floats | None = None  # when each probe would have come to that port had nothing else delayed it
    full_ns: Floats | None = None  # how long the port stayed full after that

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """The probes that the full port dropped, as far as that can be determined: lost, or answered after a
        timeout."""
        return self.tail.late_losses | self.repeats.dropped

    @property
    def queued(self) -> ProbeLatency:
        """The delays without those of probes that waited for a timeout: only queues and stalls made what is left."""
        if not self.repeats.either.any():
            return self.delays
        other = self.repeats.either
        stages = {stage: np.where(other, np.nan, time) for stage, time in self.delays.stages.items()}
        return replace(self.delays, total=np.where(other, np.nan, self.delays.total), stages=stages)


@dataclass(frozen=True)
class Scene:
    """What was recorded of one path. bursts: (begin, end) arrays of each port in `crossings`, ns since the origin.

    others: other paths, which cross none of these ports. queues: windows of each port's queue, or None. arrivals: what
    recorded senders sent to each port, or None. counted: what each port's switch counted, or None.
    """

    probes: Probes
    crossings: list[Crossing]
    bursts: list[tuple[Floats, Floats]]
    queues: list[PortQueue | None]
    others: list[Probes]
    rule: TailRule = DEFAULT
    arrivals: list[Arrivals | None] = field(default_factory=list)
    counted: list[SwitchCounts | None] = field(default_factory=list)

    def arrivals_at(self, crossing: Crossing) -> Arrivals | None:
        known = zip(self.crossings, self.arrivals, strict=False)
        return next((came for other, came in known if other is crossing), None)

    def number_of(self, crossing: Crossing) -> int:
        """The place of that very crossing among `crossings`."""
        return [other is crossing for other in self.crossings].index(True)

    def counted_at(self, number: int) -> SwitchCounts | None:
        """What the switch of the crossing of that number counted."""
        return self.counted[number] if number < len(self.counted) else None
