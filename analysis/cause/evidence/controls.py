"""Negative controls: comparisons in which bursts must show no effect if they are the cause of the tail."""

from __future__ import annotations

import numpy as np

from ...model.stats import Estimate, Floats
from .. import ledger as books
from ..port import Port
from ..scene import Control, Evidence, Scene
from ..tail import Probes, find_tail, latency
from .exposure import block_length, in_bursts, risk_of


def against_controls(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Negative controls: time before the bursts, the other direction of the same probes, and other paths."""
    port, bursts = scene.crossings[number].port, scene.bursts[number]
    if len(bursts[0]) == 0 or len(met) == 0:
        return
    slack, length = float(port.bin_ns), block_length(met, bursts)
    known = np.isfinite(evidence.delays.total) & np.isfinite(port.position(met)) & ~evidence.repeats.held
    exposed = in_bursts(met, bursts, slack)
    # As long as the burst, but not into the previous one.
    begin = np.maximum(2 * bursts[0] - bursts[1] - slack, np.concatenate(([-np.inf], bursts[1][:-1])))
    before = in_bursts(met, (begin, bursts[0] - 2 * slack), 0.0) & ~exposed
    rows = known & ~exposed
    if before[rows].any():
        spikes = evidence.tail.spikes
        risk = risk_of(spikes[rows], before[rows], met[rows], length, rng)
        add(evidence, "before the bursts", risk, int((spikes & before & rows).sum()))
    opposite = "back" if "forward" in books.queue_stages(scene.crossings[number]) else "forward"
    other_way = evidence.queued.excess(opposite)
    if port.direction != "mirror" and exposed.any():
        rows = np.isfinite(other_way) & np.isfinite(port.position(met))
        spikes = other_way > scene.rule.excess
        risk = risk_of(spikes[rows], exposed[rows], met[rows], length, rng)
        add(evidence, "the other direction", risk, int((spikes & exposed).sum()))
    for other in scene.others:
        sent = other.tx
        if other.src == scene.probes.src and scene.crossings[number].end == "dst":  # the same clock and offset
            sent = sent + np.interp(sent, scene.probes.tx, evidence.delays.offset)
        risk, late = other_path(other, sent, scene, port, bursts, rng)
        add(evidence, f"path {other.path}", risk, late)


def other_path(
    other: Probes, sent: Floats, scene: Scene, port: Port, bursts: tuple[Floats, Floats], rng: np.random.Generator
) -> tuple[Estimate | None, int]:
    """Tests the same bursts against probes that do not cross the port; also returns how many of these were late.
    `sent`: send times on the port's clock."""
    delays = latency(other)
    tail = find_tail(other, delays, scene.rule, np.zeros(len(other), dtype=bool))
    exposed = in_bursts(sent, bursts, port.bin_ns)
    rows = np.isfinite(delays.total) & np.isfinite(port.position(sent))
    length = block_length(sent[rows], bursts)
    risk = risk_of(tail.spikes[rows], exposed[rows], sent[rows], length, rng)
    return risk, int((tail.spikes & exposed & rows).sum())


def add(evidence: Evidence, name: str, risk: Estimate | None, late: int) -> None:
    """Add a control if there were probes in bursts and outside of them."""
    if risk is not None:
        evidence.controls.append(Control(name, risk, late))
