"""Evidence about the recording of the port: losses where the verdict rests on it, traffic beyond the capacity of the
link, and packets that queues marked."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....ethernet import FULL_FRAME_WIRE_BYTES
from ...model.carried import most_carried
from ...model.stats import Estimate, Floats, wilson
from ..port import Port
from ..scene import Evidence, RecordedMarks, Soundness

SHIFTS = 199


class StretchBins(NamedTuple):
    """Full stretches of a port: first and last bins."""

    first: Floats
    last: Floats


def against_recording(evidence: Evidence) -> None:
    """Examine the full stretches that late probes met."""
    port = evidence.crossing.port if evidence.crossing else None
    if port is None or evidence.met is None:
        return
    late = evidence.tail.spikes | evidence.dropped
    met = delaying(port, evidence.met[late & ~evidence.repeats.held])
    lossy = float(np.mean(lost_in(port, met))) if len(met.first) else 0.0
    carried = float((port.carried_before(met.last) - port.carried_before(met.first)).sum()) if len(met.first) else 0.0
    is_unknown = port.is_least and port.lossy is not None  # bins lost packets, and the number goes on
    missing = math.inf if is_unknown else port.dropped * FULL_FRAME_WIRE_BYTES / max(carried, 1.0)
    evidence.soundness = Soundness(port.dropped, port.is_least, lossy, missing, *excessive(port, met))
    evidence.marked = marked(port, met)


def delaying(port: Port, met: Floats) -> StretchBins:
    """Returns the full stretches that were met by probes that came to the port at these times."""
    starts, ends = port.busy_periods()
    stretch = np.unique(port.period_at(port.position(met)))
    stretch = stretch[stretch >= 0]
    return StretchBins(starts[stretch], ends[stretch])


def lost_in(port: Port, met: StretchBins) -> Floats:
    """Returns 1 for stretches in which the capture lost packets, or may have lost some because the time of its losses
    is unknown."""
    if port.lossy is None:
        return np.full(len(met.first), float(port.dropped > 0))
    inside: Floats = (port.lossy[met.last.astype(np.int64)] > port.lossy[met.first.astype(np.int64)]).astype(float)
    return inside


def excessive(port: Port, met: StretchBins) -> tuple[float, float]:
    """Returns the most that the port carried in a time as long as the median stretch, as a share of line rate, and that
    time, ns. (0, 0) if merged frames and late stamps explain it."""
    if not len(met.first):
        return 0.0, 0.0
    bins = max(1.0, round(float(np.median(met.last - met.first))))
    most = port.ceiling(bins)
    limit = most_carried(bins * port.bin_ns, port.link_bps, port.direction) / (bins * port.bin_bytes)
    return (most, bins * port.bin_ns) if most > limit else (0.0, 0.0)


def marked(port: Port, met: StretchBins) -> RecordedMarks | None:
    """Returns how many of the stretches have marked packets; None if no packet was marked at all."""
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
