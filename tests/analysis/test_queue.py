"""Fluid models of a port against a slow one that takes small steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.arrivals import arrivals_of
from mburst.analysis.port import port_from_bins
from mburst.analysis.queue import Change, Load, arrival_times, changed, lindley, load_of, predict, predicted
from mburst.analysis.switch_word import Queue

LINK = 1e9
volumes = st.lists(st.tuples(st.floats(0, 4e7), st.floats(1e5, 1e7), st.floats(1e3, 4e6)), min_size=1, max_size=6)


def load(parts: list[tuple[float, float, float]]) -> Load:
    ordered = sorted(parts)
    start, length, volume = (np.array(side) for side in zip(*ordered, strict=True))
    return Load(start, length, volume, 0.0, np.full(len(start), 8.0))


def stepped(parts: Load, limit: float, step: float, until: float) -> tuple[np.ndarray, float]:
    """Backlog after each step, and bytes dropped."""
    levels, level, dropped = [], 0.0, 0.0
    for at in np.arange(0, until, step):
        inside = np.clip(np.minimum(at + step, parts.start + parts.length) - np.maximum(at, parts.start), 0, None)
        level = max(0.0, level + float((inside * parts.bytes / parts.length).sum()) - LINK / 8e9 * step)
        if level > limit:
            dropped += level - limit
            level = limit
        levels.append(level)
    return np.array(levels), dropped


@settings(deadline=None, max_examples=30)
@given(volumes, st.sampled_from([np.inf, 1e6, 2e5]))
def test_backlog_agrees_with_small_steps(parts: list[tuple[float, float, float]], limit: float) -> None:
    given_load = load(parts)
    step, until = 5e3, 6e7
    expected, _ = stepped(given_load, limit, step, until)
    found = lindley(given_load, LINK, limit).at(np.arange(step, until + step / 2, step)[: len(expected)])
    rate = float((given_load.bytes / given_load.length).sum()) + LINK / 8e9
    assert np.abs(found - expected).max() <= 4 * rate * step + 1


def test_drops_are_what_does_not_fit() -> None:
    burst = Load(np.array([0.0]), np.array([1e6]), np.array([1e6]), 0.0, np.array([8.0]))
    backlog = lindley(burst, LINK, 4e5)
    _, dropped = stepped(burst, 4e5, 1e3, 1e7)
    at = np.linspace(0, 1e6, 100_001)
    assert float(np.mean(backlog.drops_at(at[:-1])) * 1e6) == pytest.approx(dropped, rel=0.01)


def test_changes_do_what_they_say() -> None:
    burst = Load(np.array([0.0, 5e7]), np.array([1e6, 1e6]), np.array([2e6, 2e6]), 0.0, np.array([40.0, 40.0]))
    met = np.array([1.0e6, 5.1e7])
    base = np.full(2, 2e4)

    def largest(change: Change) -> float:
        return float(predict(met, base, burst, LINK, 1e6, change).quantiles_ns[2] or 0)

    as_is = largest(Change("as recorded"))
    assert as_is == pytest.approx(2e4 + (2e6 * 8 - 1e6), rel=1e-6)  # what came less what left in the meantime
    assert largest(Change("", priority=True)) == 2e4
    assert largest(Change("", link_bps=1e10)) == pytest.approx(2e4 + (2e6 - 1.25e6) * 0.8, rel=1e-6)
    assert largest(Change("", buffer_bytes=5e5)) == pytest.approx(2e4 + 4e6, rel=1e-6)
    assert largest(Change("", stagger_ns=2e7)) < as_is / 4
    waves = changed(burst, Change("", fan_in=10), LINK)
    assert len(waves.start) == 8 and waves.bytes.sum() == burst.bytes.sum()
    assert lindley(waves, LINK).bytes.max() < lindley(burst, LINK).bytes.max() / 3


def test_load_of_a_port_keeps_its_bytes() -> None:
    bin_ns = 100_000
    bytes_ = np.array(([12_500] * 30 + [1_000] * 70) * 4)
    port = port_from_bins(
        ("h", "eth0", "in"), LINK, bin_ns, [(np.arange(400) * float(bin_ns), bytes_)], [(0.0, 400.0 * bin_ns)]
    )
    found = load_of(port, 0.25)
    assert len(found.start) == 4
    assert found.length == pytest.approx(0.25 * 30 * bin_ns)
    assert found.background_bps == pytest.approx(1_000 * 8e9 / bin_ns)
    assert found.bytes == pytest.approx(30 * 11_500)


def test_senders_predict_the_queue_of_the_receiver() -> None:
    """Two senders at line rate for 3 ms each into one port: 375 kB wait at the end; the switch says the same."""
    bin_ns, n = 100_000, 200
    times = np.arange(n) * float(bin_ns)
    sent = np.where((np.arange(n) >= 20) & (np.arange(n) < 50), 12_500, 0)
    received = np.where((np.arange(n) >= 20) & (np.arange(n) < 80), 12_500, 0)
    span = [(0.0, n * float(bin_ns))]
    senders = [port_from_bins((f"s{k}", "eth0", "out"), LINK, bin_ns, [(times, sent)], span) for k in range(2)]
    receiver = port_from_bins(("h", "eth0", "in"), LINK, bin_ns, [(times, received)], span)
    total = np.cumsum(2.0 * sent - 12_500)
    depth = total - np.minimum(0, np.minimum.accumulate(total))
    windows = Queue("q", times[:-10:10], times[10::10], np.maximum.reduceat(depth, np.arange(0, n - 10, 10)))
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
    assert arrival_times(receiver, came, 0.0) == pytest.approx([30 * bin_ns], rel=0.05)  # the half of its busy period
