"""The width of bins for the samples of a running total, determined from the times between its first samples.

No sender states its interval, and samples may be late, missing or taken together after a pause, so a mean of few times
depends on how late the first and the last of them were. The width is the median slope of all pairs of samples
(Theil-Sen), which a quarter of deviating samples does not change. How uneven the samples are says how exact it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .points import Ints

Floats = NDArray[np.float64]

WHOLE = 0.25  # at least this share of the intervals has no missing sample
FEW = 8  # widths: for longer intervals, it is not known how many widths they have
MEANT = 0.015  # of the width, by which samples may be off the nominal multiple
EARLY = 0.25  # widths: a first sample that seems to be earlier than that is late, for the sample before
SINGLE = 0.4  # of the intervals have one width: with fewer, the width may be half the interval of the samples
SURE = 8  # times the error of a width: its step, if no other width is as likely
EDGES = (0.1, 0.9)  # quantiles of the lateness of samples, between which it is measured
# Steps of nominal widths, the coarsest first. Cumulus samples at multiples of 50 µs, SONiC at whole µs.
STEPS = (10**9, 5 * 10**8, 10**8, 5 * 10**7, 10**7, 5 * 10**6, 10**6, 5 * 10**5, 10**5, 5 * 10**4, 10**4)
USUAL_STEPS = (10**6, 5 * 10**4)  # of widths from LONG_NS on, and of shorter ones
LONG_NS = 100_000_000
FINEST_NS = 1000


class LearnedWidth(NamedTuple):
    """The nominal width of bins. It is sure if no other nominal width fits the samples as well, and enough samples
    follow each other by it."""

    ns: int
    is_sure: bool
    late_ns: int  # by how much the first sample is later than the median one; negative: earlier


def width_of(intervals: Ints) -> LearnedWidth:
    """The width for samples at these intervals, of which there is at least one. An interval with missing samples has
    several widths, one of samples that were taken together has none."""
    single = intervals[FEW * intervals >= np.median(intervals)]  # the others are of samples that were taken together
    shortest = np.quantile(single, WHOLE, method="lower")
    width = float(single[np.abs(single - shortest) < shortest / 2].mean())
    times = intervals[intervals < FEW * width]
    at = np.concatenate([[0], np.cumsum(times)]).astype(float)
    number = _numbers(times, width)
    width = _slope(at, number)
    if (counted := _numbers(times, width))[-1] > 0:  # the first one was a rough width
        number, width = counted, _slope(at, counted)
    least, most = np.quantile(at - width * number, EDGES)
    error = float((most - least) / number[-1])
    nominal, step = _nominal(width, error)
    early_ns = EARLY * nominal
    late_ns = (early_ns - float(np.median(at - nominal * number))) % nominal - early_ns
    is_sure = SURE * error <= step and float(np.mean(np.rint(times / nominal) == 1)) >= SINGLE
    return LearnedWidth(nominal, is_sure, round(late_ns))


def _numbers(times: Ints, width: float) -> Floats:
    """The number of each sample, in widths after the first one."""
    return np.concatenate([[0.0], np.cumsum(np.rint(times / width))])


def _slope(at: Floats, number: Floats) -> float:
    """The median slope of all pairs of samples of different numbers."""
    first, last = np.triu_indices(len(at), 1)
    apart = number[last] - number[first]
    return float(np.median((at[last] - at[first])[apart > 0] / apart[apart > 0]))


def _nominal(width: float, error: float) -> tuple[int, int]:
    """The nominal width that was meant by a measured one, and its step: the coarsest multiple within the error.
    The usual steps also fit if the clock of the samples runs fast or slow."""
    usual = USUAL_STEPS[0] if width >= LONG_NS else USUAL_STEPS[1]
    for step in STEPS:
        nominal = round(width / step) * step
        if nominal and abs(nominal - width) <= (max(error, MEANT * width) if step <= usual else error):
            return nominal, step
    return max(round(width / FINEST_NS) * FINEST_NS, FINEST_NS), FINEST_NS
