"""Gathers the evidence on one path: for and against the bursts of the recorded ports as the cause of its tail.

There are two independent lines, and a verdict needs both. The ledger (ledger.py) tests for every late probe whether the
link was full exactly while it waited. The permutation (chance.py) tests how often that would happen if bursts and
latency were unrelated. The other evidence reveals mere coincidence. One file has one kind of evidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..model.stats import Floats
from . import ledger as books
from .evidence import fifo, switch
from .evidence.chance import against_chance, against_pairing, begun_in_bursts
from .evidence.controls import against_controls
from .evidence.dose import against_rate
from .evidence.exposure import against_bursts
from .evidence.fifo import waited_here
from .evidence.notifications import against_notifications
from .evidence.other_ports import full_too
from .evidence.pauses import against_pauses
from .evidence.repeats import ended, find, seen_again
from .evidence.shares import account, main_port
from .evidence.soundness import against_recording
from .evidence.switch_counts import against_counts
from .evidence.unrecorded import against_gaps
from .scene import Evidence, Scene
from .tail import find_tail, latency


def gather(scene: Scene, rng: np.random.Generator) -> Evidence:
    """Returns all the evidence on one path. Deterministic for a given state of the generator."""
    scene = replace(scene, rule=scene.rule.on(crossing.port.link_bps for crossing in scene.crossings))
    probes = scene.probes
    delays = latency(probes)
    meets = [books.meeting_time(probes, delays, crossing) for crossing in scene.crossings]
    full = [crossing.port.busy_after(met) for crossing, met in zip(scene.crossings, meets, strict=True)]
    busy = np.zeros(len(probes), dtype=bool)
    for remaining in full:
        busy |= remaining > 0
    tail = find_tail(probes, delays, scene.rule, busy)
    repeats = find(probes, delays, tail, busy)
    ledger = books.keep(probes, delays, tail, scene.crossings, repeats)
    evidence = Evidence(probes.path, tail, delays, ledger, None, repeats=repeats)
    account(evidence, probes.tx)
    against_gaps(evidence, scene)
    if scene.crossings:
        number = main_port(ledger, len(scene.crossings))
        evidence.crossing, evidence.met, evidence.full_ns = scene.crossings[number], meets[number], full[number]
        against_bursts(evidence, scene, number, meets[number], rng)
        against_rate(evidence, scene, number, meets[number], rng.spawn(1)[0])
        against_chance(evidence, scene, number, meets[number], rng)
        against_recording(evidence)
        against_fifo(evidence, scene, number)
        against_repeats(evidence, scene, number, rng.spawn(1)[0])
        against_pairing(evidence, scene, number, rng)
        against_switch(evidence, scene, number)
        against_counts(evidence, scene, number)
        begun_in_bursts(evidence, scene, number, rng)
        against_controls(evidence, scene, number, meets[number], rng)
        against_pauses(evidence, scene, rng.spawn(1)[0])
        against_notifications(evidence, scene, number)
        for other in full_too(evidence, number, [crossing.port for crossing in scene.crossings]):
            evidence.other_ports.append(at_port(evidence, scene, other, meets[other], rng.spawn(1)[0]))
    return evidence


def at_port(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> Evidence:
    """Returns the evidence with the tests for a queue at another port of the path."""
    there = replace(evidence, crossing=scene.crossings[number], met=met, lag_ns=None, pairing_p=None, switch=None)
    against_fifo(there, scene, number)
    against_pairing(there, scene, number, rng)
    against_switch(there, scene, number)
    return there


def against_fifo(evidence: Evidence, scene: Scene, number: int) -> None:
    """Test whether the waits are those of a queue at the port: as they are, and at the lag that fits the full link
    best."""
    crossing, met, delays, tail = scene.crossings[number], evidence.met, evidence.queued, evidence.tail
    if met is None:
        return
    model = fifo.examine(scene.probes, delays, tail, evidence.ledger, (number, crossing), met, evidence.dropped)
    evidence.fifo = model
    if evidence.lag_ns and evidence.scan is not None:
        step = float(evidence.scan.lags[1] - evidence.scan.lags[0])
        there = met - evidence.lag_ns
        error = model.error_ns + step
        evidence.lag_explained = fifo.explained_at(delays, tail, crossing, there, error, evidence.dropped)


def against_repeats(evidence: Evidence, scene: Scene, number: int, rng: np.random.Generator) -> None:
    """Look for recorded segments that ended the waits of repeated probes."""
    crossing, delays, behind = scene.crossings[number], evidence.delays, evidence.repeats.behind
    if crossing.port.direction == "out":  # a packet dropped behind it is sent through it twice anyway
        return
    first = np.unique(behind[behind >= 0])
    ends = ended(scene.probes, delays)[first] + (delays.offset[first] if crossing.end == "dst" else 0.0)
    evidence.seen_again = seen_again(crossing.port, ends, rng)


def against_switch(evidence: Evidence, scene: Scene, number: int) -> None:
    """Compare the depths that the port's switch reports with the waits."""
    crossing, queue, tail = scene.crossings[number], scene.queues[number], evidence.tail
    met, model = evidence.met, evidence.fifo
    if met is None or model is None:
        return
    waited = waited_here(evidence.queued, crossing)
    late = np.flatnonzero(waited > tail.threshold_ns - tail.median_ns)
    if queue is not None and len(late):
        evidence.switch = switch.word(queue, crossing.port.link_bps, met[late], waited[late], model.error_ns)
