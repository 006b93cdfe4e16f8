"""Evidence outside of the recording: whether the probes that were sent while no port was recorded are late, or lost,
too.

Nothing shows what a port did at that time, so these probes are in no account. But a recorder that fails when the
network or the host is slow leaves out just what an investigation is about.
"""

from __future__ import annotations

import numpy as np

from ...model.stats import Z_99, Estimate, wilson
from ..scene import Evidence, Scene, Unrecorded
from ..tail import episodes, latency, surely_beyond


def against_gaps(evidence: Evidence, scene: Scene) -> None:
    """Measure the share of late or lost probes outside of recorded time, by the threshold of those inside, and the
    latter's. A loss counts if probes were answered before and after it: else nobody may have been there to answer. One
    way there is none: a part of the probes does not show how the clocks drift."""
    tail, outside = evidence.tail, scene.unrecorded
    if outside is None or not tail.n or tail.measured == "one way":
        return
    total, inside = latency(outside).total, scene.probes
    answered = np.isfinite(total)
    times = np.concatenate((inside.tx[np.isfinite(evidence.delays.total)], outside.tx[answered]))
    first, last = (times.min(), times.max()) if len(times) else (np.inf, -np.inf)
    is_lost, lost_inside = (of.lost & (of.tx > first) & (of.tx < last) for of in (outside, inside))
    is_late = (total > tail.threshold_ns) | is_lost
    n, late = int((answered | is_lost).sum()), int(is_late.sum())
    if not n:
        return
    spans, late_at = np.array(scene.left_out, dtype=float).reshape(-1, 2), outside.tx[is_late]
    begun, ended = (np.searchsorted(np.sort(side), late_at, side="right") for side in spans.T)
    lost = int((lost_inside & ~tail.late_losses).sum())
    here, of = int(tail.spikes.sum() + tail.late_losses.sum()) + lost, tail.n + lost
    evidence.unrecorded = Unrecorded(
        Estimate(late / n, *wilson(late, n, Z_99), n),
        Estimate(here / of, *wilson(here, of, Z_99), of),
        surely_beyond(late + here, n + of, tail.rule),
        int(episodes(is_late, answered | is_lost).max(initial=-1)) + 1,
        int(is_lost.sum()),
        2 * int((begun > ended).sum()) > late,
    )
