"""Evidence of pause frames: the part of the lateness that a port can have caused because it was asked to stop sending.

Pause frames that a recorded host sends stop the switch port towards it; pause frames that it receives stop its own
port. A packet that waits at a port is delayed by at most the time that the port was stopped since it last had no
backlog. This bounds the effect of pauses, in full stretches too, because delayed packets leave in one. Time that a
packet waited at an idle port that was asked to stop is a fact about this port, provided that all classes were asked and
that chance does not explain it.
"""

from __future__ import annotations

import numpy as np

from ...model.stats import Estimate, Floats, Whole, permutation_p, rank
from ..ledger import ACCOUNTS, PortWaits
from ..port import Port, Wait
from ..scene import Evidence, Paused, Scene
from ..signals import Signals, backlogged, before, stopped
from .shares import MOST, episodes_of, share_of_excess

SHIFTS = 999
SAMPLE = 2000  # waits that are shifted; an evenly spaced choice of more
AS_WELL = 0.95  # of the unshifted fit: a shift with this fit counts as an equal one
ASKER = {"in": "host", "out": "elsewhere"}  # by the direction of the stopped port: the account of the asker


class Stops:
    """The times in which one port of a path may have been stopped. number: of its crossing."""

    def __init__(self, number: int, port: Port, signals: Signals) -> None:
        self.number, self.port, self.signals = number, port, signals
        self.sums = stopped(port, signals)
        self.stretches = backlogged(port, self.sums)

    def between(self, arrival: Floats, departure: Floats) -> Floats:
        """Returns the stopped time between positions, ns; 0 if one is unknown."""
        known = np.isfinite(arrival) & np.isfinite(departure)
        low, high = np.where(known, arrival, 0.0), np.where(known, departure, 0.0)
        return np.maximum(before(self.sums, high) - before(self.sums, low), 0.0)

    def held_up(self, arrival: Floats, departure: Floats) -> Floats:
        """Returns the stopped time since the port last had no backlog before each arrival, until the departure."""
        begin, end = self.stretches
        if not len(begin):
            return np.zeros(len(arrival))
        place = rank(begin, np.nan_to_num(arrival) + 1.0).astype(np.int64) - 1
        inside = (place >= 0) & (arrival <= end[np.maximum(place, 0)] + 1.0)
        return self.between(np.where(inside, np.minimum(begin[np.maximum(place, 0)], arrival), arrival), departure)


def against_pauses(evidence: Evidence, scene: Scene, rng: np.random.Generator) -> None:
    """Add what pauses of all ports of the path can account for; named after the port with most of it."""
    found = [
        Stops(number, crossing.port, crossing.port.signals)
        for number, crossing in enumerate(scene.crossings)
        if crossing.port.signals is not None and crossing.port.signals.pauses.any()
    ]
    if not found or not evidence.ledger.late.size:
        return
    parts = [made_by(evidence, stops) for stops in found]
    could = np.minimum(np.sum(parts, axis=0), evidence.ledger.excess)
    main = found[int(np.argmax([part.sum() for part in parts]))]
    crossing, stood = scene.crossings[main.number], None
    if main.signals.is_whole_link and not crossing.assumed and crossing.port.direction in ASKER:
        stood = stood_still(evidence, main)
    sent = scene.probes.tx
    evidence.paused = Paused(
        port=crossing.port,
        asker=ASKER.get(crossing.port.direction, ""),
        askers=tuple(sorted({ASKER.get(stops.port.direction, "") for stops in found})),
        could=share_of_excess(evidence, could, sent),
        left={name: left_of(evidence, number, could, sent) for number, name in enumerate(ACCOUNTS)},
        stood=None if stood is None else share_of_excess(evidence, stood, sent),
        episodes=0 if stood is None else mostly(evidence, stood),
        p_value=None if stood is None or not stood.any() else chance_of(evidence, main, rng),
    )


def made_by(evidence: Evidence, stops: Stops) -> Floats:
    """Returns the most of each late probe's excess that pauses of a port can have caused, ns. A drop at a full port
    counts as caused by its pauses, as far as can be determined, if these add what makes a probe late."""
    ledger, port = evidence.ledger, stops.port
    could = np.zeros(len(ledger.late))
    for entry in entries_of(evidence, stops.number):
        arrival, departure = port.position(entry.arrival - entry.slack), port.position(entry.departure + entry.slack)
        part = ledger.stages[entry.stage][entry.rows]
        could[entry.rows] += np.minimum(part, stops.held_up(arrival, departure))
    dropped = np.flatnonzero(evidence.dropped[ledger.late] | evidence.repeats.held[ledger.late])
    if evidence.met is not None and evidence.crossing is not None and evidence.crossing.port is port and len(dropped):
        rows = ledger.late[dropped]
        first = np.where(evidence.repeats.behind[rows] >= 0, evidence.repeats.behind[rows], rows)
        place = port.position(evidence.met[first])
        least = evidence.tail.threshold_ns - evidence.tail.median_ns
        could[dropped] = np.where(stops.held_up(place, place) > least, ledger.excess[dropped], could[dropped])
    return could


def entries_of(evidence: Evidence, number: int) -> list[PortWaits]:
    return [entry for entry in evidence.ledger.entries if entry.crossing == number]


def stood_still(evidence: Evidence, stops: Stops) -> Floats:
    """Returns the part of each late probe's excess that it spent at the port while that was idle and asked to stop,
    ns."""
    stood = np.zeros(len(evidence.ledger.late))
    for entry in entries_of(evidence, stops.number):
        idle = entry.answers == Wait.IDLE
        rows, part = entry.rows[idle], evidence.ledger.stages[entry.stage][entry.rows[idle]]
        arrival, departure = (stops.port.position(side[idle]) for side in (entry.arrival, entry.departure))
        stood[rows] += np.minimum(part, stops.between(arrival, departure))
    return stood


def left_of(evidence: Evidence, account: int, could: Floats, sent: Floats) -> Estimate:
    """Returns the share of an account that no pause can have caused."""
    return share_of_excess(evidence, np.maximum(evidence.ledger.accounts[:, account] - could, 0.0), sent)


def mostly(evidence: Evidence, part: Floats) -> int:
    """Returns the number of episodes of lateness in which PART is more than half."""
    number, _ = episodes_of(evidence)
    return int((np.bincount(number, part) > MOST * np.bincount(number, evidence.ledger.excess)).sum())


def chance_of(evidence: Evidence, stops: Stops, rng: np.random.Generator) -> float:
    """Returns how often pauses that are shifted around the circle of recorded time meet the waits as well."""
    entries, port = entries_of(evidence, stops.number), stops.port
    arrival, departure = (
        port.position(np.concatenate(sides))
        for sides in ([entry.arrival for entry in entries], [entry.departure for entry in entries])
    )
    part = np.concatenate([evidence.ledger.stages[entry.stage][entry.rows] for entry in entries])
    rows: Whole = np.flatnonzero(np.isfinite(arrival) & np.isfinite(departure))
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(np.int64)]
    begin, length, weight = arrival[rows], (departure - arrival)[rows], part[rows]

    def fit(shifts: Floats) -> Floats:
        low = np.mod(begin + shifts[:, None], port.bins)
        inside = np.minimum(stops.between(low, np.minimum(low + length, port.bins)), weight)
        met: Floats = inside.sum(axis=1)
        return met

    shifts = rng.uniform(0, port.bins, SHIFTS)
    null = np.concatenate([fit(shifts[first : first + 100]) for first in range(0, SHIFTS, 100)])
    return permutation_p(AS_WELL * float(fit(np.zeros(1))[0]), null)
