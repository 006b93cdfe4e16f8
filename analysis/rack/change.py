"""The changes of a rack against an earlier period, as rates, because the two may not be recorded alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...units import NS_PER_DAY, NS_PER_HOUR
from .period import Period, RackLane

WEEK_NS = 7 * NS_PER_DAY
COMPARABLE = 0.5  # of the longer recorded time, that the shorter one must have
LEAST_SHARE = 0.001  # of the bytes in bursts, for a sender to be listed
MOST = 10


@dataclass(frozen=True)
class Rates:
    """Bursts per hour of recorded time, and the share of time in bursts. None if nothing was recorded."""

    recorded_ns: int
    bursts: int
    burst_ns: int

    @property
    def per_hour(self) -> float | None:
        return self.bursts * NS_PER_HOUR / self.recorded_ns if self.recorded_ns else None

    @property
    def share(self) -> float | None:
        return self.burst_ns / self.recorded_ns if self.recorded_ns else None


@dataclass(frozen=True)
class LaneChange:
    """A lane now and then; one of the two may have recorded nothing."""

    host: str
    interface: str
    direction: str
    now: Rates
    then: Rates


@dataclass(frozen=True)
class RackChange:
    """A rack against an earlier period: `now` and `then` are of the traffic that its hosts received, `lanes` of each
    lane that was recorded. `missing`: hosts that were recorded then and are not now; `missing_switches`: switches with
    ports that were. Not `comparable` if one of the two recorded less than half as long as the other."""

    since_ns: int
    until_ns: int
    now: Rates
    then: Rates
    lanes: list[LaneChange]
    missing: list[str]
    missing_switches: list[str]

    @property
    def comparable(self) -> bool:
        least, most = sorted((self.now.recorded_ns, self.then.recorded_ns))
        return least >= COMPARABLE * most > 0


@dataclass(frozen=True)
class Newcomers:
    """Hosts and senders that did not burst before and do now. hosts: lanes that were recorded before and did not burst;
    senders: of bytes in bursts, counted in no burst before. Both are sorted by their amount, the worst first."""

    lanes: list[RackLane]
    senders: list[tuple[str, int]]


def rates(lanes: Sequence[RackLane]) -> Rates:
    """Returns sums over the lanes in which bursts could be detected."""
    known = [lane for lane in lanes if lane.link_bps]
    return Rates(
        sum(lane.recorded_ns for lane in known),
        sum(lane.bursts for lane in known),
        sum(lane.burst_ns for lane in known),
    )


def compare(
    before: Period,
    now: Sequence[RackLane],
    then: Sequence[RackLane],
    received: tuple[Sequence[RackLane], Sequence[RackLane]],
) -> RackChange:
    """Compares NOW with THEN, which was recorded in the period BEFORE. RECEIVED: of both, the traffic that hosts
    received."""
    current, earlier = ({lane.name: lane for lane in lanes} for lanes in (now, then))
    changes = [
        LaneChange(
            *name, rates([current[name]] if name in current else []), rates([earlier[name]] if name in earlier else [])
        )
        for name in sorted({*current, *earlier})
    ]
    gone = {lane.host for lane in then if lane.recorded_ns} - {lane.host for lane in now if lane.recorded_ns}
    hosts = {lane.host for lane in then if lane.recorded_ns and not lane.is_port} & gone
    return RackChange(
        before.since_ns,
        before.until_ns,
        rates(received[0]),
        rates(received[1]),
        changes,
        sorted(hosts),
        sorted(gone - hosts),
    )


def newcomers(
    now: Sequence[RackLane], changes: Sequence[RackChange], fed: dict[str, int], known: Sequence[set[str]]
) -> Newcomers:
    """Returns the hosts and senders that are new against all of CHANGES. FED has the bytes of each sender now, KNOWN
    the senders of the earlier periods."""
    before: dict[tuple[str, str, str], Rates] = {}
    for change in changes:
        for lane in change.lanes:
            name = (lane.host, lane.interface, lane.direction)
            past = before.get(name, Rates(0, 0, 0))
            before[name] = Rates(
                past.recorded_ns + lane.then.recorded_ns,
                past.bursts + lane.then.bursts,
                past.burst_ns + lane.then.burst_ns,
            )
    quiet = [
        lane
        for lane in now
        if lane.bursts and lane.name in before and before[lane.name].recorded_ns and not before[lane.name].bursts
    ]
    least = LEAST_SHARE * sum(fed.values())
    old = {"other"}.union(*known)
    senders = [(source, bytes_) for source, bytes_ in fed.items() if source not in old and bytes_ >= least]
    return Newcomers(
        sorted(quiet, key=lambda lane: (-lane.burst_ns, lane.name))[:MOST],
        sorted(senders, key=lambda sender: (-sender[1], sender[0]))[:MOST],
    )
