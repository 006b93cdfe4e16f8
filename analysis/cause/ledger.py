"""The ledger of the tail: for every late probe, the stage of its excess, and the state of the link in front of it.

Each nanosecond of a late probe beyond the median goes to one account:

- `bursts`: spent in front of a recorded port while that port was full (port.py: waiting implies busy);
- `host`: spent between application and network interface of either end, or inside the reflector, while the host's own
  outgoing link had room;
- `elsewhere`: spent in the network while the recorded ports of this path had room;
- `unknown`: cannot be determined, with the reason: no stamps, bins too coarse, capture lossy, no recording of that
  time, or clocks that may have moved (one way).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats
from .evidence.repeats import Repeats
from .port import Port, Wait
from .tail import HOST_STAGES, LatencyTail, ProbeLatency, Probes

ACCOUNTS = ("bursts", "host", "elsewhere", "unknown")
BURSTS, HOST, ELSEWHERE, UNKNOWN = range(4)
SMALL = 0.1  # of a probe's excess: smaller parts are the jitter of the other stages

# The stages that add up to each measure of a tail.
PARTS = {
    "application": ("send", "forward", "turn", "back", "receive", "round_trip", "return"),
    "network round trip": ("forward", "back"),
    "round trip": ("forward", "turn", "back", "round_trip"),
    "reported round trip": ("round_trip",),
    "round trip to the application": ("forward", "turn", "back", "receive", "round_trip", "return"),
    "one way": ("forward",),
    "": (),  # nothing was measured
}
# The stages that include a port's queue: (end of the path, direction of the port) → stages. A receiver's queue is in
# the switch, before its stamp; a sender's own queue is between application and stamp (qdisc) or behind the stamp
# (interface).
QUEUES = {
    ("dst", "in"): ("forward", "round_trip"),
    ("dst", "out"): ("turn", "back", "return", "round_trip"),
    ("src", "in"): ("back", "return", "round_trip"),
    ("src", "out"): ("send", "forward", "round_trip"),
}


class Crossing(NamedTuple):
    """A recorded port that the path crosses. `assumed`: no name identifies it."""

    port: Port
    end: str  # src or dst
    assumed: bool


class PortWaits(NamedTuple):
    """The waits of late probes that one port can explain, one row per probe."""

    crossing: int
    stage: str
    rows: NDArray[np.int64]  # indexes into the late probes
    arrival: Floats
    departure: Floats
    slack: float
    answers: NDArray[np.int8]  # Wait


@dataclass(frozen=True)
class WaitLedger:
    """accounts: late probes × ACCOUNTS, ns. stages: stage → ns of each late probe. booked: stage → what went from it to
    each of ACCOUNTS, ns. reasons: for `unknown`, ns."""

    late: NDArray[np.int64]  # indices of the late probes
    excess: Floats
    accounts: Floats
    stages: dict[str, Floats]
    booked: dict[str, Floats]
    entries: list[PortWaits]
    reasons: dict[str, float]

    def shares(self) -> dict[str, float]:
        total = float(self.accounts.sum())
        return {name: float(self.accounts[:, k].sum()) / total if total else 0.0 for k, name in enumerate(ACCOUNTS)}


def meeting_time(probes: Probes, delays: ProbeLatency, crossing: Crossing) -> Floats:
    """Returns when each probe would have met the port if nothing else had delayed it, on the port's clock, ns.

    This does not depend on the delay in front of the port. A late probe therefore has no longer time to meet a burst
    than any other, and a lost one meets it too.
    """

    usual = delays.medians
    stamped = np.isfinite(delays.stages["forward"]).any()
    there = probes.tx + delays.offset + (usual["forward"] if stamped else usual["round_trip"] / 2)
    if crossing.end == "dst":
        if crossing.port.direction == "out":
            return np.where(np.isfinite(probes.remote_rx), probes.remote_rx, there)
        return there
    if crossing.port.direction == "out":
        return np.where(np.isfinite(probes.app_send), probes.app_send, probes.tx)
    replied = probes.remote_tx - delays.offset + usual["back"]
    return np.where(np.isfinite(replied), replied, probes.tx + usual["round_trip"] + usual["forward"] + usual["turn"])


def wait_interval(
    probes: Probes, delays: ProbeLatency, crossing: Crossing, stage: str, rows: NDArray[np.int64]
) -> tuple[Floats, Floats, float]:
    """Returns the begin and end of each probe's wait in a stage on the port's clock, and their possible error, ns."""
    waited = delays.excess(stage, rows)
    slack = crossing.port.edge_ns
    departure: Floats
    if stage == "round_trip":  # the wait may lie before or after the unknown turning point
        base = delays.stages[stage][rows] - waited
        slack += float(np.nanmedian(base)) / 2 if len(base) else 0.0
        departure = probes.tx[rows] + base / 2 + waited
    elif crossing.port.direction == "out" and stage in ("forward", "back", "return"):
        departure = (probes.tx if stage == "forward" else probes.remote_tx)[rows] + waited
    elif stage == "forward":
        departure = probes.remote_rx[rows]
    elif stage == "turn":
        departure = probes.remote_tx[rows]
    elif stage == "send":
        departure = probes.tx[rows]
    else:
        departure = np.where(np.isfinite(probes.rx[rows]), probes.rx[rows], probes.app_recv[rows])
    return departure - waited, departure, slack


def keep(
    probes: Probes, delays: ProbeLatency, tail: LatencyTail, crossings: list[Crossing], repeats: Repeats
) -> WaitLedger:
    """Returns the ledger with the excess of every late probe."""
    late = np.flatnonzero(tail.spikes | tail.late_losses)
    excess = delays.total[late] - tail.median_ns
    seen = excess[np.isfinite(excess)]
    lost, repeated = np.isnan(excess), repeats.either[late]
    # A lost probe has no delay: it weighs as much as the median of the probes that were merely late.
    excess[lost] = np.median(seen) if len(seen) else tail.threshold_ns - tail.median_ns
    stages = split(delays, PARTS[delays.measured], late, excess)
    accounts = np.zeros((len(late), len(ACCOUNTS)))
    booked: dict[str, Floats] = {}
    reasons: dict[str, float] = {}
    entries: list[PortWaits] = []
    dropped = lost | repeated  # late because a full port dropped them (tail.find_tail, repeats.find)
    for stage, taken in stages.items():
        part = np.where(repeated, 0.0, taken)
        answers = np.full(len(late), -1, dtype=np.int8)
        for number, crossing in enumerate(crossings):
            if stage not in queue_stages(crossing):
                continue
            rows = np.flatnonzero(part > 0)
            arrival, departure, slack = wait_interval(probes, delays, crossing, stage, late[rows])
            found = crossing.port.waits(arrival, departure, slack)
            entries.append(PortWaits(number, stage, rows, arrival, departure, slack, found))
            answers[rows] = np.where((answers[rows] == Wait.BUSY) | (answers[rows] > found), answers[rows], found)
            answers[rows[found == Wait.BUSY]] = Wait.BUSY
        spent = np.zeros_like(accounts)
        book(spent, reasons, stage, part, answers, covered(crossings, probes.tx[late]), delays.unsure[late])
        spent[dropped] = 0
        booked[stage] = spent.sum(axis=0)
        accounts += spent
    accounts[dropped, BURSTS] = excess[dropped]
    missing = excess - accounts.sum(axis=1)
    missing[missing < 1.0] = 0
    accounts[:, UNKNOWN] += missing
    if missing.any():
        reasons["unstamped"] = reasons.get("unstamped", 0.0) + float(missing.sum())
    return WaitLedger(late, excess, accounts, stages, booked, entries, reasons)


def queue_stages(crossing: Crossing) -> tuple[str, ...]:
    """Returns the stages in which a packet can wait in front of this port. A mirror sees packets of both directions
    leave."""
    if crossing.port.direction == "mirror":
        return ("forward", "back", "round_trip", "return")
    return QUEUES[crossing.end, crossing.port.direction]


def split(delays: ProbeLatency, parts: tuple[str, ...], late: NDArray[np.int64], excess: Floats) -> dict[str, Floats]:
    """Splits each late probe's excess over its stages, in proportion to their times beyond the medians, without
    jitter."""
    beyond = {stage: np.nan_to_num(delays.excess(stage, late)) for stage in parts}
    beyond = {stage: np.where(values >= SMALL * excess, values, 0.0) for stage, values in beyond.items()}
    total = sum(beyond.values(), np.zeros(len(late)))
    # If stamps are missing, the parts are less than the excess: the rest stays unknown.
    scale = excess / np.maximum(total, excess * (1 - SMALL))
    return {stage: values * scale for stage, values in beyond.items() if values.any()}


def covered(crossings: list[Crossing], time: Floats) -> NDArray[np.bool_]:
    """Returns whether any port of the path was recorded at each time."""
    inside = np.zeros(len(time), dtype=bool)
    for crossing in crossings:
        inside |= np.isfinite(crossing.port.position(time))
    return inside


def book(
    accounts: Floats,
    reasons: dict[str, float],
    stage: str,
    part: Floats,
    answers: NDArray[np.int8],
    recorded: NDArray[np.bool_],
    unsure: Floats,
) -> None:
    """Add the time of one stage to the accounts. answers: a Wait, or −1 if no recorded port's queue is in the stage.
    unsure: the part of each probe's time in the network that may be the clocks; a full link shows that it is not."""
    busy = answers == Wait.BUSY
    accounts[busy, BURSTS] += part[busy]
    if stage in HOST_STAGES:
        accounts[~busy, HOST] += part[~busy]
        return
    if stage in ("forward", "back"):
        away = (answers == Wait.IDLE) | ((answers == -1) & recorded)
        clocks = np.where(away, np.minimum(part, unsure), 0.0)
        accounts[away, ELSEWHERE] += part[away] - clocks[away]
        accounts[away, UNKNOWN] += clocks[away]
        if clocks.any():
            reasons["clocks"] = reasons.get("clocks", 0.0) + float(clocks.sum())
        rest = ~busy & ~away
        names = {int(Wait.COARSE): "coarse", int(Wait.LOSING): "losing"}
    else:
        rest = ~busy
        names = {int(Wait.COARSE): "coarse", int(Wait.LOSING): "losing", int(Wait.IDLE): "unstamped", -1: "unstamped"}
    accounts[rest, UNKNOWN] += part[rest]
    for answer in np.unique(answers[rest & (part > 0)]):
        reason = names.get(int(answer), "unrecorded")
        if int(answer) == -1 and not recorded.any():
            reason = "unrecorded"
        reasons[reason] = reasons.get(reason, 0.0) + float(part[rest & (answers == answer)].sum())
