"""Bursts of a port aligned by their onsets: the link, the queue and the probes around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.stats import Floats, Whole, quantiles
from .evidence.exposure import met_bursts
from .scene import Evidence, Scene

STEPS = 120  # of the time shown
BEFORE = 1 / 4  # of that time lies before the onset
MOST = 5000  # bursts that are aligned, evenly chosen


@dataclass(frozen=True)
class Alignment:
    """Medians and 90th percentiles over the bursts at each time after onset (ns); NaN if nothing was measured.

    delay and queue: of the values in each step. bursts: the numbers of the port's bursts that are used; of: the number
    of bursts in the time of the probes; probes: the number of probes in the time shown.
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
    """Returns the alignment for the port that the evidence is about, of its CHOSEN bursts (default: all); None if no
    such burst is in the time of the probes."""
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
    """Returns which bursts late probes met, dropped ones included, at the port that the evidence is about; None if they
    met no burst."""
    if evidence.crossing is None or evidence.met is None:
        return None
    late = (evidence.tail.spikes | evidence.dropped) & ~evidence.repeats.held
    bursts = scene.bursts[scene.number_of(evidence.crossing)]
    met = met_bursts(evidence.met[late], bursts, evidence.crossing.port.bin_ns)
    return np.isin(np.arange(len(bursts[0])), met) if (met >= 0).any() else None


def slots(time: Floats, onsets: Floats, offset: Floats, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each time near an onset, its step after the last onset (shifted by the lead), and the indexes of
    these times."""
    lead = -offset[0]
    at = np.searchsorted(onsets - lead, time, side="right") - 1
    since = time - (onsets - lead)[np.maximum(at, 0)]
    inside = np.flatnonzero((at >= 0) & (since < step * len(offset)))
    return (since[inside] / step).astype(np.int64), inside


def by_slot(slot: np.ndarray, values: Floats, count: int) -> tuple[Floats, Floats]:
    """Returns the median and the 90th percentile of the known values of each slot."""
    middle, high = np.full(count, np.nan), np.full(count, np.nan)
    for k in range(count):
        here = values[slot == k]
        here = here[np.isfinite(here)]
        if len(here):
            found = quantiles(here, [0.5, 0.9])
            middle[k], high[k] = float(found[0] or 0.0), float(found[1] or 0.0)
    return middle, high
