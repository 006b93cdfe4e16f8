"""The effect of a tail on requests that need many answers, and published thresholds of applications."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..model.stats import Floats

WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class SlowRequests(NamedTuple):
    """A request of `width` answers, each late with probability p independently."""

    width: int
    share: float


class ApplicationThreshold(NamedTuple):
    """A published threshold: the added delay from which on an application suffered."""

    application: str
    delay_ns: float
    effect: str
    source: str


POPESCU = (
    "D. A. Popescu, N. Zilberman, A. W. Moore: Characterizing the impact of network latency on cloud-based "
    "applications' performance, University of Cambridge, UCAM-CL-TR-914, 2017"
)
SENSITIVITIES = (
    ApplicationThreshold("Lasso regression on STRADS", 20e3, "training takes longer", POPESCU),
    ApplicationThreshold("memcached", 100e3, "over 20 % of the throughput is lost; about half at 200 µs", POPESCU),
    ApplicationThreshold("DNS server", 200e3, "throughput falls between 200 and 300 µs", POPESCU),
    ApplicationThreshold("Spark regression", 500e3, "no effect below", POPESCU),
)


def slow_requests(p: float, widths: tuple[int, ...] = WIDTHS) -> list[SlowRequests]:
    """Returns 1 − (1 − p)^n: the share of requests that wait for at least one late answer (Dean and Barroso 2013)."""
    return [SlowRequests(width, float(-np.expm1(width * np.log1p(-p)) if p < 1 else 1.0)) for width in widths]


def delay_beyond(total: Floats, median: float) -> list[tuple[ApplicationThreshold, float]]:
    """Returns, for each published threshold, the share of probes with a delay beyond the median that reaches it.

    The published delays were added to every exchange. A share here says how much of the traffic has such a
    delay, not that the application loses as much."""
    known = total[np.isfinite(total)]
    return [(entry, float((known - median >= entry.delay_ns).mean()) if len(known) else 0.0) for entry in SENSITIVITIES]
