"""Evidence of the dose: whether delay follows utilization, the switch's queue, or the time that the port stayed
full."""

from __future__ import annotations

import numpy as np

from ....units import NS_PER_S
from ...model.lines import Line, line_over_blocks
from ...model.stats import Estimate, Floats
from ..scene import Evidence, Scene
from ..tail import MS
from .exposure import block_length
from .fifo import waited_here
from .switch import depth_at

ROUNDS = 500  # of the bootstrap


def against_rate(evidence: Evidence, scene: Scene, number: int, met: Floats, rng: np.random.Generator) -> None:
    """Compare delay with utilization as three dashboards would show it, and measure the response to the dose."""
    crossing, queue = scene.crossings[number], scene.queues[number]
    port, delays = crossing.port, evidence.queued
    total = delays.total
    known = np.isfinite(met)
    block = np.zeros(len(met), dtype=np.int64)
    block[known] = (met[known] - met[known].min(initial=np.inf)) / block_length(met[known], scene.bursts[number])

    def line(dose: Floats, response: Floats) -> Line | None:
        return line_over_blocks(dose, response, block, ROUNDS, rng)

    def with_rate(width: int) -> Estimate | None:
        found = line(port.utilization(met, width), total)
        return found and found.r

    evidence.correlation_bin = with_rate(max(port.bin_ns, int(MS)))
    evidence.correlation_second = with_rate(NS_PER_S)
    waited = waited_here(delays, crossing)
    full = evidence.full_ns if evidence.full_ns is not None else port.busy_after(met)
    doses = {"time that the port stayed full after the probe came": full}
    if queue is not None:
        depth = depth_at(queue, met)
        found = line(depth, total)
        evidence.correlation_queue = found and found.r
        if float(np.median(queue.end - queue.start)) <= 10 * MS and np.isfinite(depth).any():
            drain = depth / port.link_bps * 8e9
            doses = {"the switch's largest queue of the window, at line rate": drain, **doses}
    came = scene.arrivals_at(crossing)
    if came is not None:
        drain = came.backlog_at(port.position(met)) / port.link_bps * 8e9
        doses = {"the queue that the recorded senders' bytes make, at line rate": drain, **doses}
    for kind, dose in doses.items():
        evidence.dose, evidence.dose_kind = line(np.where(dose > 0, dose, np.nan), waited), kind
        if evidence.dose is not None:
            return
