"""Evidence of pause frames: what part of the lateness a port can have made because it was asked to stop sending.

Pause frames that a recorded host sends stop the switch port towards it, those that it receives stop its own. A packet
that waits at a port is held up by no more than the port was stopped since it last had no backlog: that bounds what
pauses can have made, in full stretches too, for what was held up leaves in one. Time that a packet waited at an idle
port that was asked to stop is a fact about this port, where all classes were asked and chance does not place it there.
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
AS_WELL = 0.95  # of the unshifted fit: a shift that fits so well fits as well
ASKER = {"in": "host", "out": "elsewhere"}  # by the direction of the stopped port: the account of who asked


class Stops:
    """When one port of a path may have been stopped. number: of its crossing."""

    def __init__(self, number: int, port: Port, signals: Signals) -> None:
        self.number, self.port, self.signals = number, port, signals
        self.sums = stopped(port, signals)
        self.stretches = backlogged(port, self.sums)

    def between(self, arrival: Floats, departure: Floats) -> Floats:
        """How long between positions, ns; 0 where one is not known."""
        known = np.isfinite(arrival) & np.isfinite(departure)
        low, high = np.where(known, arrival, 0.0), np.where(known, departure, 0.0)
        return np.maximum(before(self.sums, high) - before(self.sums, low), 0.0)

    def held_up(self, arrival: Floats, departure: Floats) -> Floats:
        """The same since the port last had no backlog before each arrival."""
        begin, end = self.stretches
        if not len(begin):
            return np.zeros(len(arrival))
        place = rank(begin, np.nan_to_num(arrival) + 1.0).astype(np.int64) - 1
        inside = (place >= 0) & (arrival <= end[np.maximum(place, 0)] + 1.0)
        return self.between(np.where(inside, np.minimum(begin[np.maximum(place, 0)], arrival), arrival), departure)


def against_pauses(evidence: Evidence, scene: Scene, rng: np.random.Generator) -> None:
    """What pauses of all ports of the path can account for; named after the port with most of it."""
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
    """Of each late probe's excess, the most that pauses of a port can have made, ns. What a full port dropped was
    dropped by its pauses, as far as can be determined, where these add what makes a probe late."""
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
    """Of each late probe's excess, what it spent at the port while that was idle and asked to stop, ns."""
    stood = np.zeros(len(evidence.ledger.late))
    for entry in entries_of(evidence, stops.number):
        idle = entry.answers == Wait.IDLE
        rows, part = entry.rows[idle], evidence.ledger.stages[entry.stage][entry.rows[idle]]
        arrival, departure = (stops.port.position(side[idle]) for side in (entry.arrival, entry.departure))
        stood[rows] += np.minimum(part, stops.between(arrival, departure))
    return stood


def left_of(evidence: Evidence, account: int, could: Floats, sent: Floats) -> Estimate:
    """The share of an account that no pause can have made."""
    return share_of_excess(evidence, np.maximum(evidence.ledger.accounts[:, account] - could, 0.0), sent)


def mostly(evidence: Evidence, part: Floats) -> int:
    """The episodes of lateness of which a part is more than half."""
    number, _ = episodes_of(evidence)
    return int((np.bincount(number, part) > MOST * np.bincount(number, evidence.ledger.excess)).sum())


def chance_of(evidence: Evidence, stops: Stops, rng: np.random.Generator) -> float:
    """How often pauses that are shifted around the circle of recorded time meet the waits as well."""
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
