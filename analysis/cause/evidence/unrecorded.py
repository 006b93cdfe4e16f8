"""Evidence outside of the recording: whether the probes that were sent while no port was recorded are late, too.

Nothing shows what a port did at that time, so these probes are in no account. But a recorder that fails when the
network or the host is slow leaves out just what an investigation is about.
"""

from __future__ import annotations

import numpy as np

from ...model.stats import Z_99, Estimate, wilson
from ..scene import Evidence, Scene, Unrecorded
from ..tail import episodes, latency, surely_beyond


def against_gaps(evidence: Evidence, scene: Scene) -> None:
    """Measure the share of late probes outside of recorded time, by the threshold of those inside, and the latter's.
    One way there is none: a part of the probes does not show how the clocks drift."""
    tail, outside = evidence.tail, scene.unrecorded
    if outside is None or not tail.n or tail.measured == "one way":
        return
    total = latency(outside).total
    is_late = total > tail.threshold_ns
    n, late = int(np.isfinite(total).sum()), int(is_late.sum())
    if not n:
        return
    here = int(tail.spikes.sum() + tail.late_losses.sum())
    evidence.unrecorded = Unrecorded(
        Estimate(late / n, *wilson(late, n, Z_99), n),
        Estimate(here / tail.n, *wilson(here, tail.n, Z_99), tail.n),
        surely_beyond(late + here, n + tail.n, tail.rule),
        int(episodes(is_late, np.isfinite(total)).max(initial=-1)) + 1,
    )
