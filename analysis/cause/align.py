"""Bursts of a port laid over each other by their onset: what the link, the queue and the probes did around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats, Whole, quantiles
from .evidence.exposure import met_bursts
from .scene import Evidence, Scene

STEPS = 120  # of the time shown
BEFORE = 1 / 4  # of it lies before the onset
MOST = 5000  # bursts that are laid over each other, evenly chosen


@dataclass(frozen=True)
class Alignment:
    """Medians and 90th percentiles over the bursts at each time after onset (ns); NaN where nothing was measured.

    delay and queue: of what falls into the step. bursts: which ones of the port, by number; of: how many there are in
    the time of the probes; probes: probes in the time shown.
    """

    offset: Floats
    bursts: Whole
    of: int
    probes: int
    utilization: Floats
    delay: Floats
    delay_high: Floats
    queue: Floats


def align(scene: Scene, evidence: Evidence, chosen: NDArray[np.bool_] | None = None) -> Alignment | None:
    """The alignment for the port that the evidence is about, of its CHOSEN bursts (default: all); None without such
    bursts in the time of the probes."""
    met = evidence.met
    if evidence.crossing is None or met is None:
        return None
    number = scene.number_of(evidence.crossing)
    port, (starts, ends), queue = evidence.crossing.port, scene.bursts[number], scene.queues[number]
    if len(starts) == 0 or len(scene.probes) == 0:
        return None
    covered = (starts >= met.min()) & (ends <= met.max())
    laid = np.flatnonzero(covered if chosen is None else covered & chosen)
    if not len(laid):
        return None
    laid = laid[np.linspace(0, len(laid) - 1, min(len(laid), MOST)).astype(int)]
    onsets = starts[laid]
    length = max(2.5 * float(np.median((ends - starts)[laid])), 40.0 * port.bin_ns)
    step = max(length / STEPS, float(port.bin_ns))
    offset = (np.arange(int(length / step)) - int(length / step * BEFORE)) * step
    rate = np.array([np.nanmedian(port.utilization(onsets + at, round(step))) for at in offset])
    slot, inside = slots(met, onsets, offset, step)
    delay, high = by_slot(slot, evidence.delays.total[inside], len(offset))
    depth = np.full(len(offset), np.nan)
    if queue is not None and len(queue.end):
        at, windows = slots(queue.end, onsets, offset, step)
        depth, _ = by_slot(at, queue.max_bytes[windows], len(offset))
    return Alignment(offset, laid, int(covered.sum()), len(slot), rate, delay, high, depth)


def met_by_late(scene: Scene, evidence: Evidence) -> NDArray[np.bool_] | None:
    """Which bursts of the port that the evidence is about late probes met, dropped ones included; None where they met
    none."""
    if evidence.crossing is None or evidence.met is None:
        return None
    late = (evidence.tail.spikes | evidence.dropped) & ~evidence.repeats.held
    bursts = scene.bursts[scene.number_of(evidence.crossing)]
    met = met_bursts(evidence.met[late], bursts, evidence.crossing.port.bin_ns)
    return np.isin(np.arange(len(bursts[0])), met) if (met >= 0).any() else None


def slots(time: Floats, onsets: Floats, offset: Floats, step: float) -> tuple[np.ndarray, np.ndarray]:
    """For each time near an onset, its step after the nearest one before (less the lead), and which times those are."""
    lead = -offset[0]
    at = np.searchsorted(onsets - lead, time, side="right") - 1
    since = time - (onsets - lead)[np.maximum(at, 0)]
    inside = np.flatnonzero((at >= 0) & (since < step * len(offset)))
    return (since[inside] / step).astype(np.int64), inside


def by_slot(slot: np.ndarray, values: Floats, count: int) -> tuple[Floats, Floats]:
    """Median and 90th percentile of the known values of each slot."""
    middle, high = np.full(count, np.nan), np.full(count, np.nan)
    for k in range(count):
        here = values[slot == k]
        here = here[np.isfinite(here)]
        if len(here):
            found = quantiles(here, [0.5, 0.9])
            middle[k], high[k] = float(found[0] or 0.0), float(found[1] or 0.0)
    return middle, high
