"""The queue that is predicted from recorded senders, compared with the switch's windows."""

from __future__ import annotations

import numpy as np
import pytest

from mburst.analysis.cause.arrivals import arrivals_of
from mburst.analysis.cause.arriving import curve_of_senders, stretches_of
from mburst.analysis.cause.evidence.switch import PortQueue, deepest
from mburst.analysis.cause.port import port_from_bins
from mburst.analysis.cause.predicted_queue import predicted
from mburst.analysis.cause.read import finest_in_each_time

LINK = 1e9


def test_senders_predict_the_queue_of_the_receiver() -> None:
    """Two senders at line rate for 3 ms each into one port: 375 kB wait at the end, as the switch reports."""
    bin_ns, n = 100_000, 200
    times = np.arange(n) * float(bin_ns)
    sent = np.where((np.arange(n) >= 20) & (np.arange(n) < 50), 12_500, 0)
    received = np.where((np.arange(n) >= 20) & (np.arange(n) < 80), 12_500, 0)
    span = [(0.0, n * float(bin_ns))]
    senders = [port_from_bins((f"s{k}", "eth0", "out"), LINK, bin_ns, [(times, sent)], span) for k in range(2)]
    receiver = port_from_bins(("h", "eth0", "in"), LINK, bin_ns, [(times, received)], span)
    total = np.cumsum(2.0 * sent - 12_500)
    depth = total - np.minimum(0, np.minimum.accumulate(total))
    windows = PortQueue("q", times[:-10:10], times[10::10], np.maximum.reduceat(depth, np.arange(0, n - 10, 10)))
    came = arrivals_of(receiver, [*senders, receiver])
    assert came is not None
    found = predicted(receiver, came, windows)
    assert found.senders == 2
    assert found.peak_bytes == pytest.approx(375_000)
    assert found.against_switch is not None and found.against_switch.r > 0.999
    assert found.against_switch.slope == pytest.approx(1, abs=0.01)
    assert came.backlog_at(np.array([20.0, 35.0, 50.0, np.nan])) == pytest.approx(
        [0, 187_500, 375_000, np.nan], nan_ok=True
    )
    assert arrivals_of(receiver, [senders[0], receiver]) is None
    full = stretches_of(receiver)
    curve = curve_of_senders(receiver, full, came)
    assert full.begin == pytest.approx([20 * bin_ns]) and full.length == pytest.approx([60 * bin_ns])
    assert curve.leaving(times[35:36]) == pytest.approx([50 * bin_ns])  # 375 kB arrived in 1.5 ms, and leave in 3 ms


def test_the_deepest_of_windows_that_overlap_each_other() -> None:
    """Windows of several collections lie in each other."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        windows = int(rng.integers(0, 9))
        start, length = rng.integers(0, 30, windows).astype(float), rng.integers(1, 25, windows).astype(float)
        order = np.argsort(start + length, kind="stable")
        queue = PortQueue("q", start[order], (start + length)[order], rng.integers(0, 9, windows).astype(float))
        begin = np.append(rng.integers(0, 60, 9), np.nan)
        end = begin + rng.integers(0, 5, 10)
        found = deepest(queue, begin, end)
        for k in range(len(begin)):
            over = queue.max_bytes[(queue.start <= end[k]) & (queue.end >= begin[k])]
            assert found[k] == over.max() if len(over) else np.isnan(found[k])


def test_coarser_windows_are_kept_where_no_finer_one_overlaps_them() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        windows = int(rng.integers(0, 12))
        level = rng.integers(0, 4, windows)
        begin = rng.integers(0, 40, windows).astype(float)
        end = begin + rng.integers(1, 5, windows) * 2.0**level
        kept: list[int] = []
        for k in np.argsort(level, kind="stable"):
            finer = [other for other in kept if level[other] < level[k]]
            if all(end[other] <= begin[k] or begin[other] >= end[k] for other in finer):
                kept.append(int(k))
        assert np.flatnonzero(finest_in_each_time(begin, end, level)).tolist() == sorted(kept)
