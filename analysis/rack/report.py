"""A rack over a period: which hosts burst, when, how long, how hard, from which senders, and what suffered at the same
time.

Everything is summed in the database. The result is bounded by the number of hosts, slots of time and the limits below,
however many bins and bursts there are. The same store and period give the same report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...sql.damage import DamagedFile, damaged_files, readable
from ...units import NS_PER_DAY, NS_PER_HOUR, NS_PER_MINUTE
from ..bursts.contention import Contention, contention
from ..bursts.find import BurstDefinition
from ..canary.sensitivity import DetectionCurve, curves
from ..model.distributions import Quantiles
from ..read.canary import bursts_of_canaries
from ..read.names import named
from .change import WEEK_NS, Newcomers, RackChange, compare, newcomers
from .context import RackPath, RackQueue, read_paths, read_queues
from .period import (
    BurstSender,
    InterfaceDrops,
    Period,
    RackLane,
    cells,
    detected,
    drops,
    durations,
    feeders,
    feeding,
    lanes,
    overlapping,
    received,
    worst,
)

if TYPE_CHECKING:
    from ...sql import StoreFolder

FEEDERS, WORST, PATHS, QUEUES, PAIRS = 20, 20, 20, 20, 10
# Beyond this length, slots of that.
SLOTS = ((9 * NS_PER_DAY, NS_PER_DAY), (2 * NS_PER_HOUR, NS_PER_HOUR), (2 * NS_PER_MINUTE, NS_PER_MINUTE))


@dataclass(frozen=True)
class SlotCounts:
    """A lane in a slot of time: bursts that began in it, time in bursts, and recorded time, in ns."""

    bursts: int
    burst_ns: int
    recorded_ns: int


@dataclass(frozen=True)
class RackFigures:
    """All that a report shows of a rack in [since_ns, until_ns), Unix ns.

    `inbound` are the lanes that fill queues of the switch: traffic that hosts received. A switch port stands in for the
    host behind it while that was not recorded itself. `cells` has a row for each of these lanes and a column for each
    slot; slot i begins at (first_slot + i) * slot_ns. `durations_ns` and `fractions` are points of the distribution of
    the durations of inbound bursts. `previous` and `weekday` are None if nothing of the rack was recorded then.
    `queues_known` says whether the store knows which switch queues belong to the rack; if it does not, `queues` are all
    queues of the store. `feeder_count` is without the senders that are recorded together (`other`), and `others` the
    most that these are at once. `queue_drops` is of all except the `uncounted_queues`, which do not report drops; None
    if none does. `dropping_queues` are all with drops, and `impossible_windows` those of all queues.
    """

    rack: str
    since_ns: int
    until_ns: int
    definition: BurstDefinition
    lanes: Sequence[RackLane]
    inbound: Sequence[RackLane]
    drops: Sequence[InterfaceDrops]
    slot_ns: int
    first_slot: int
    cells: Sequence[Sequence[SlotCounts]]
    duration: Quantiles
    durations_ns: Sequence[float]
    fractions: Sequence[float]
    feeders: Sequence[BurstSender]
    names: dict[str, str]  # of addresses in bursts at the end of the period, if known
    feeder_count: int
    others: int
    fed_bytes: int
    contention: Contention | None
    paths: Sequence[RackPath]
    unplaced_probes: int
    queues: Sequence[RackQueue]
    queue_count: int
    queue_drops: int | None
    dropping_queues: int
    uncounted_queues: int
    impossible_windows: int
    queues_known: bool
    previous: RackChange | None
    weekday: RackChange | None
    new: Newcomers | None
    worst: Sequence[dict[str, Any]]
    overlaps: int
    damaged: Sequence[DamagedFile]
    curves: Sequence[DetectionCurve] = ()
    canaries: Sequence[str] = ()  # the sender of each burst that `mburst canary` sent

    @property
    def recorded(self) -> bool:
        """Whether anything of the rack was recorded in the period."""
        return any(lane.recorded_ns for lane in self.lanes)

    @property
    def bursts(self) -> int:
        return sum(lane.bursts for lane in self.lanes)


def slot_width(span_ns: int) -> int:
    """Returns the length of the slots of time of a period."""
    return next((width for beyond, width in SLOTS if span_ns > beyond), 10**9)


def gather(store: StoreFolder, rack: str, period: Period, definition: BurstDefinition) -> RackFigures:
    """Returns the report of a rack; a rack without any recording has no lanes. Raises the errors of find_bursts."""
    with detected(store, rack, period, definition) as con, readable(con):
        found = lanes(con, period)
        inbound = received(con, found)
        slot_ns = slot_width(period.span_ns)
        first_slot, slots = period.since_ns // slot_ns, -(-period.until_ns // slot_ns)
        duration, points, fractions = durations(con)
        top, feeder_count, others, fed_bytes = feeders(con, FEEDERS)
        fed = feeding(con)
        called = named(con, {*fed, *(feeder.source for feeder in top)}, period.until_ns - 1)
        paths, unplaced = read_paths(con, period, PATHS)
        queues = read_queues(con, rack, period, QUEUES)
        report = RackFigures(
            rack=rack,
            since_ns=period.since_ns,
            until_ns=period.until_ns,
            definition=definition,
            lanes=found,
            inbound=inbound,
            drops=drops(con),
            slot_ns=slot_ns,
            first_slot=first_slot,
            cells=_grid(con, inbound, slot_ns, first_slot, slots),
            duration=duration,
            durations_ns=points,
            fractions=fractions,
            feeders=top,
            names={address: of.name for address, of in called.items() if of.name},
            feeder_count=feeder_count,
            others=others,
            fed_bytes=fed_bytes,
            contention=contention(con, PAIRS),
            paths=paths,
            unplaced_probes=unplaced,
            queues=queues.listed,
            queue_count=queues.number,
            queue_drops=queues.drops,
            dropping_queues=queues.dropping,
            uncounted_queues=queues.uncounted,
            impossible_windows=queues.impossible,
            queues_known=queues.is_known,
            previous=None,
            weekday=None,
            new=None,
            worst=worst(con, WORST),
            overlaps=overlapping(con),
            damaged=damaged_files(con),
            curves=curves(con),
            canaries=list(bursts_of_canaries(con).values()),
        )
    return _compared(store, report, period, fed)


def _grid(con: Any, found: Sequence[RackLane], slot_ns: int, first: int, beyond: int) -> list[list[SlotCounts]]:
    """Returns the cells of each lane: bursts from the database, recorded time from the lane's coverage."""
    burst = cells(con, slot_ns)
    grid = []
    for lane in found:
        row = []
        for slot in range(first, beyond):
            begin, end = slot * slot_ns, (slot + 1) * slot_ns
            recorded = sum(max(0, min(b, end) - max(a, begin)) for a, b in lane.coverage)
            bursts, burst_ns = burst.get((lane.host, lane.interface, lane.direction, slot), (0, 0))
            row.append(SlotCounts(bursts, burst_ns, recorded))
        grid.append(row)
    return grid


def _compared(store: StoreFolder, report: RackFigures, period: Period, fed: dict[str, int]) -> RackFigures:
    """Returns the report with its changes against the period before it and the same time a week before."""
    earlier = {"previous": period.shifted(period.span_ns)}
    if period.span_ns < WEEK_NS:
        earlier["weekday"] = period.shifted(WEEK_NS)
    changes: dict[str, RackChange] = {}
    known: list[set[str]] = []
    damaged = set(report.damaged)
    for name, before in earlier.items():
        with detected(store, report.rack, before, report.definition) as con, readable(con):
            then = lanes(con, before)
            damaged |= set(damaged_files(con))
            if any(lane.recorded_ns for lane in then):
                changes[name] = compare(before, report.lanes, then, (report.inbound, received(con, then)))
                known.append(set(feeding(con)))
    new = newcomers(report.lanes, list(changes.values()), fed, known) if changes and report.recorded else None
    return replace(
        report,
        previous=changes.get("previous"),
        weekday=changes.get("weekday"),
        new=new,
        damaged=sorted(damaged, key=lambda file: file.path),
    )
