"""The basis of a verdict: the recorded scene of one path, and the measurements on it. Only data."""

from __future__ import annotations

from collections.abc import Sequence
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

    asymmetry: mean fit for shifts with the burst first less that for shifts with the latency first, divided by their
    sum. Below 0 if bursts follow latency, as retries do; about 0 for coincidence.
    """

    lags: Floats
    fits: Floats
    asymmetry: float
    waits: int


class RecordedMarks(NamedTuple):
    """Bins with packets that a queue marked (ECN CE). stretches: share of the full stretches that delayed probes with
    such bins. chance: share of shifted stretches that would have some. denser: density of marked bins in these
    stretches, divided by that in all bins."""

    stretches: Estimate
    chance: float
    denser: float


class SwitchMarks(NamedTuple):
    """Packets that the port's switch marked (ECN CE), by its own counter. stretches: share of the full stretches that
    delayed probes with a mark in the overlapping windows; longer: the same for stretches in which a probe waited for
    longer than the threshold of the marks. None: too few. usual: share of all windows with a mark."""

    packets: int
    stretches: Estimate | None
    longer: Estimate | None
    usual: float


class Paused(NamedTuple):
    """Effects of the pause frames that asked ports of the path to stop. Shares are of the excess of late probes.

    port: the one with pauses that can account for most. asker: `host` if its recorded host asked the switch to stop,
    `elsewhere` if the switch asked the host, '' if a mirror does not show it; askers: those of all ports. could: upper
    bound for what the pauses can account for; left: the rest of each account. stood: time spent at the idle port while
    all of its classes were asked to stop, None if unknown; episodes: those that consist mostly of it; p_value: how
    often shifted pauses meet the waits as well.
    """

    port: Port
    asker: str
    askers: tuple[str, ...]
    could: Estimate
    left: dict[str, Estimate]
    stood: Estimate | None
    episodes: int
    p_value: float | None

    @property
    def is_whole_link(self) -> bool:
        """Whether all classes of the link were asked to stop."""
        return self.port.signals is not None and self.port.signals.is_whole_link


class Notified(NamedTuple):
    """Congestion notifications about a port's traffic: their number, how many were in bursts of that port, and the
    share of recorded time that is as close to bursts."""

    port: Port
    packets: int
    in_bursts: int
    usual: float


class Unrecorded(NamedTuple):
    """Probes of the path that were sent while none of its ports was recorded. late: share of late or lost ones;
    recorded: the same of the probes in recorded time; is_tail: whether there surely is a tail, counting both; episodes:
    the number of separate times outside in which probes are late or lost; lost: the number of lost ones; left_out:
    whether most late or lost ones were sent during recordings that are not in use."""

    late: Estimate
    recorded: Estimate
    is_tail: bool
    episodes: int
    lost: int
    left_out: bool

    @property
    def late_probes(self) -> int:
        """The number of late or lost probes outside of recorded time."""
        return round(self.late.value * self.late.n)


class Soundness(NamedTuple):
    """The quality of the recording of the port. dropped: packets that its captures lost; is_least: or more. lossy:
    share of the full stretches that delayed probes in which it lost packets, or may have. missing: upper bound for the
    share of lost bytes there; infinite if bins lost packets, and more than the known number may be lost. above: traffic
    in `above_ns`, as a share of line rate, if it is more than the link can carry; else 0."""

    dropped: int
    is_least: bool
    lossy: float
    missing: float
    above: float
    above_ns: float


@dataclass
class Evidence:
    """All measurements that the verdict (verdict.py) rests on, for one path. None: not measured; `missing` has the
    reason."""

    path: str
    tail: LatencyTail
    delays: ProbeLatency
    ledger: WaitLedger
    crossing: Crossing | None  # the port with bursts that explain most, or the first
    shares: dict[str, Estimate] = field(default_factory=dict)  # of ACCOUNTS
    stage_shares: dict[str, float] = field(default_factory=dict)
    places: dict[str, dict[str, float]] = field(default_factory=dict)  # of `shares`: account → stage → share of all
    episodes: int = 0
    burst_episodes: int = 0  # episodes with time in `bursts`
    bursts: int = 0  # in the recorded time that probes cover
    exposed: int = 0  # probes that met a burst
    unexposed: int = 0  # probes that met none
    exposed_late: int = 0  # exposed probes that were late
    relative_risk: Estimate | None = None
    p_value: float | None = None
    pairing_p: float | None = None  # how often waits fit exchanged bursts as well; None if that cannot show anything
    fifo: Fifo | None = None  # whether the waits are those of a queue at that port
    q_value: float | None = None  # p_value with the false-discovery rate controlled over all tested paths and ports
    lag_ns: float | None = None
    lag_share: float | None = None  # share explained at that lag; at lag 0 it is in `filled`
    lag_explained: Estimate | None = None  # at that lag: the part of the waiting that a queue at the port explains
    ceiling: float | None = None  # the most that the port ever carried in a time as long as a wait, like `filled`
    scan: LagScan | None = None
    filled: float | None = None
    begun: float | None = None  # share of `elsewhere` that began in a burst though the link was not full throughout
    begun_p: float | None = None  # how often a shift gives as much
    excess_share: Estimate | None = None
    dose: Line | None = None
    dose_kind: str = ""
    correlation_bin: Estimate | None = None
    correlation_second: Estimate | None = None
    correlation_queue: Estimate | None = None
    host_share: Estimate | None = None
    switch: QueueAgreement | None = None  # how the port's queue windows agree with the waits
    switch_marks: SwitchMarks | None = None  # counts of marked packets by the port's switch
    lost_elsewhere: int = 0  # probes that were lost, but not by the full port
    controls: list[Control] = field(default_factory=list)
    repeats: Repeats = field(default_factory=lambda: none_of(0))  # probes that TCP repeated, and those behind them
    seen_again: RecordedRepeats | None = None  # repeated segments that the port recorded when repeated probes ended
    soundness: Soundness | None = None
    marked: RecordedMarks | None = None  # packets that a queue before the port marked
    unrecorded: Unrecorded | None = None  # None: every probe was sent in recorded time
    paused: Paused | None = None  # the lateness that pause frames can have caused
    notified: Notified | None = None
    other_ports: list[Evidence] = field(default_factory=list)  # of the path that were full in these waits, too
    notes: list[str] = field(default_factory=list)
    met: Floats | None = None  # when each probe would have met that port if nothing else had delayed it
    full_ns: Floats | None = None  # how long the port stayed full after that

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """The probes that the full port dropped, as far as that can be determined: lost, or answered after a
        timeout."""
        return self.tail.late_losses | self.repeats.dropped

    @property
    def queued(self) -> ProbeLatency:
        """The delays without those of probes that waited for a timeout: only queues and stalls caused the rest."""
        if not self.repeats.either.any():
            return self.delays
        other = self.repeats.either
        stages = {stage: np.where(other, np.nan, time) for stage, time in self.delays.stages.items()}
        return replace(self.delays, total=np.where(other, np.nan, self.delays.total), stages=stages)


@dataclass(frozen=True)
class Scene:
    """The recorded data of one path. bursts: (begin, end) arrays of each port in `crossings`, ns since the origin.

    others: other paths, which cross none of these ports. unrecorded: the probes that were sent while none of these
    ports was recorded. left_out: times of recordings of these ports that are not in use. queues: windows of each port's
    queue, or None. arrivals: traffic of recorded senders to each port, or None. counted: counts of each port's switch,
    or None.
    """

    probes: Probes
    crossings: list[Crossing]
    bursts: list[tuple[Floats, Floats]]
    queues: list[PortQueue | None]
    others: list[Probes]
    rule: TailRule = DEFAULT
    arrivals: list[Arrivals | None] = field(default_factory=list)
    counted: list[SwitchCounts | None] = field(default_factory=list)
    unrecorded: Probes | None = None
    left_out: list[tuple[float, float]] = field(default_factory=list)

    def arrivals_at(self, crossing: Crossing) -> Arrivals | None:
        known = zip(self.crossings, self.arrivals, strict=False)
        return next((came for other, came in known if other is crossing), None)

    def without_ports(self, ports: Sequence[Port]) -> Scene:
        """Returns the scene without these of its ports."""
        kept = [
            number for number, crossing in enumerate(self.crossings) if all(crossing.port is not port for port in ports)
        ]
        return replace(
            self,
            crossings=[self.crossings[number] for number in kept],
            bursts=[self.bursts[number] for number in kept],
            queues=[self.queues[number] for number in kept],
            arrivals=[self.arrivals[number] for number in kept if self.arrivals],
            counted=[self.counted[number] for number in kept if self.counted],
        )

    def number_of(self, crossing: Crossing) -> int:
        """Returns the index of that very crossing in `crossings`."""
        return [other is crossing for other in self.crossings].index(True)

    def counted_at(self, number: int) -> SwitchCounts | None:
        """Returns the counts of the switch of the crossing with that index."""
        return self.counted[number] if number < len(self.counted) else None
