"""Evidence about the recording of the port: what it lost where the verdict rests on it, whether it holds more than the
link can carry, and where queues marked packets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...model.stats import Estimate, Floats, wilson
from ..port import FRAME, Port
from ..scene import Evidence, RecordedMarks, Soundness

MERGED = 65536  # bytes of the largest merged frame: so many may be counted at one moment
COALESCED = 100_000  # ns that an interface may keep packets before the kernel stamps them
SHIFTS = 199
ABOVE = 1.1  # of line rate: wire bytes of merged frames are estimated


class StretchBins(NamedTuple):
    """Full stretches of a port: first and last bins."""

    first: Floats
    last: Floats


def against_recording(evidence: Evidence) -> None:
    """Look at the full stretches that late probes met."""
    port = evidence.crossing.port if evidence.crossing else None
    if port is None or evidence.met is None:
        return
    late = evidence.tail.spikes | evidence.dropped
    met = delaying(port, evidence.met[late & ~evidence.repeats.held])
    lossy = float(np.mean(lost_in(port, met))) if len(met.first) else 0.0
    carried = float((port.carried_before(met.last) - port.carried_before(met.first)).sum()) if len(met.first) else 0.0
    missing = port.dropped * FRAME / max(carried, 1.0)
    evidence.soundness = Soundness(port.dropped, lossy, missing, *excessive(port, met))
    evidence.marked = marked(port, met)


def delaying(port: Port, met: Floats) -> StretchBins:
    """The full stretches that probes met which came to the port at these times."""
    starts, ends = port.busy_periods()
    stretch = np.unique(port.period_at(port.position(met)))
    stretch = stretch[stretch >= 0]
    return StretchBins(starts[stretch], ends[stretch])


def lost_in(port: Port, met: StretchBins) -> Floats:
    """1 where the capture lost packets in a stretch, or may have: nothing says when it lost them."""
    if port.lossy is None:
        return np.full(len(met.first), float(port.dropped > 0))
    inside: Floats = (port.lossy[met.last.astype(np.int64)] > port.lossy[met.first.astype(np.int64)]).astype(float)
    return inside


def excessive(port: Port, met: StretchBins) -> tuple[float, float]:
    """The most that the port carried in a time as long as the median stretch, of line rate, and that time, ns; (0, 0)
    where that is no more than merged frames and late stamps explain. A mirror holds both directions."""
    if not len(met.first):
        return 0.0, 0.0
    bins = max(1.0, round(float(np.median(met.last - met.first))))
    most, at_once = port.ceiling(bins), MERGED + port.link_bps / 8e9 * COALESCED
    limit = ABOVE * (2 if port.direction == "mirror" else 1) + at_once / (bins * port.bin_bytes)
    return (most, bins * port.bin_ns) if most > limit else (0.0, 0.0)


def marked(port: Port, met: StretchBins) -> RecordedMarks | None:
    """How many of the stretches have marked packets; None where none was marked at all."""
    places = port.marked
    if places is None or not len(places) or not len(met.first):
        return None

    def having(shift: float) -> float:
        first = np.mod(met.first + shift, port.bins)
        until = first + (met.last - met.first)
        return float((np.searchsorted(places, until) > np.searchsorted(places, first)).mean())

    share, n = having(0.0), len(met.first)
    usual = np.mean([having(port.bins * k / (SHIFTS + 1)) for k in range(1, SHIFTS + 1)])
    inside = (np.searchsorted(places, met.last) - np.searchsorted(places, met.first)).sum()
    denser = float(inside / (met.last - met.first).sum()) / (len(places) / port.bins)
    return RecordedMarks(Estimate(share, *wilson(share * n, n), n), float(usual), denser)
