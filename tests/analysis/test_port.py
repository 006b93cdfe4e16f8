"""A recorded port: positions, counts, and the physics of waiting, against packets through a simulated queue."""

from __future__ import annotations

import heapq
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.cause import port as port_module
from mburst.analysis.cause.arrivals import arrivals_of
from mburst.analysis.cause.arriving import stretches_of
from mburst.analysis.cause.port import CHUNK, Port, Wait, port_from_bins

NAME = ("h", "eth0", "in")
BIN = 100_000


def port_of(bytes_: list[int], start: float = 0.0, link: float = 1e9, lossy: list[int] | None = None) -> Port:
    starts = start + np.arange(len(bytes_)) * float(BIN)
    amounts = np.array(bytes_, dtype=np.int64)
    bad = [] if lossy is None else [starts[lossy]]
    return port_from_bins(
        NAME, link, BIN, [(starts[amounts > 0], amounts[amounts > 0])], [(start, start + len(bytes_) * BIN)], bad
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=40), st.integers(0, 5), st.data())
def test_counts_between_positions(bytes_: list[int], offset: int, data: st.DataObject) -> None:
    port = port_of(bytes_, offset * float(BIN))
    a = data.draw(st.floats(0, len(bytes_)))
    whole, part = int(a), a - int(a)
    expected = sum(bytes_[:whole]) + (part * bytes_[whole] if whole < len(bytes_) else 0)
    assert port.carried_before(np.array([a]))[0] == pytest.approx(expected)
    time = np.array([offset * BIN + a * BIN])
    assert port.position(time)[0] == pytest.approx(a)
    assert port.time(np.array([a]))[0] == pytest.approx(time[0])


def test_stretches_are_one_axis_and_gaps_are_unknown() -> None:
    at = np.array([0.0, BIN, 10 * BIN, 11 * BIN])
    port = port_from_bins(NAME, 1e9, BIN, [(at, np.array([1, 2, 3, 4]))], [(0.0, 2.0 * BIN), (10.0 * BIN, 12.0 * BIN)])
    assert port.bins == 4
    assert port.position(np.array([0.5 * BIN, 5.0 * BIN, 10.5 * BIN, -1.0])).tolist()[::2] == [0.5, 2.5]
    assert np.isnan(port.position(np.array([5.0 * BIN, -1.0, 13.0 * BIN]))).all()
    assert port.waits(np.array([1.0 * BIN]), np.array([10.5 * BIN]))[0] == Wait.UNRECORDED


FILLINGS = st.lists(st.sampled_from([0, 300, 6_000, 11_500, 12_500]), min_size=1, max_size=60)


@settings(deadline=None, max_examples=200)
@given(st.lists(FILLINGS, min_size=1, max_size=4), st.sampled_from([1e9, 1e8]), st.integers(1, 70), st.integers(1, 5))
def test_stretches_are_as_each_alone(parts: list[list[int]], link: float, window: int, ratio: int) -> None:
    """Time that was not recorded joins nothing: no full stretch goes on over it, and no bins on its two sides are taken
    together."""
    begins = [k * 1e15 for k in range(len(parts))]
    chunks = [
        (begin + np.arange(len(part)) * float(BIN), np.array(part)) for begin, part in zip(begins, parts, strict=True)
    ]
    spans = [(begin, begin + len(part) * BIN) for begin, part in zip(begins, parts, strict=True)]
    port = port_from_bins(NAME, link, BIN, chunks, spans)
    alone = [port_of(part, begin, link) for begin, part in zip(begins, parts, strict=True)]
    longest = max(one.bins for one in alone)
    for side in (0, 1):
        moved = [one.busy_periods()[side] + before for one, before in zip(alone, port.offsets[:-1], strict=True)]
        assert port.busy_periods()[side].tolist() == np.concatenate(moved).tolist()
    full, margin = stretches_of(port), 1e6  # ns: a full one may reach into the bins beside it
    assert all(begin <= end <= begin + longest * BIN + margin for begin, end in zip(full.begin, full.end, strict=True))
    for begin, one in zip(begins, alone, strict=True):
        times = begin + np.arange(0.25, one.bins, 0.5) * BIN
        assert port.busy_after(times).tolist() == one.busy_after(times).tolist()
        assert port.utilization(times, ratio * BIN).tolist() == one.utilization(times, ratio * BIN).tolist()
    width = min(window, longest)
    assert port.ceiling(float(window)) == max(one.ceiling(float(width)) for one in alone if one.bins >= width)


@settings(deadline=None, max_examples=100)
@given(st.lists(FILLINGS, min_size=1, max_size=4))
def test_no_backlog_outlives_a_stretch(parts: list[list[int]]) -> None:
    """What two senders sent in each bin, against a loop over the bins; before each stretch there is none."""
    begins = [k * 1e15 for k in range(len(parts))]
    spans = [(begin, begin + len(part) * BIN) for begin, part in zip(begins, parts, strict=True)]
    starts = np.concatenate(
        [begin + np.arange(len(part)) * float(BIN) for begin, part in zip(begins, parts, strict=True)]
    )
    sent = np.concatenate([np.array(part) for part in parts])
    senders = [port_from_bins((name, "eth0", "out"), 1e9, BIN, [(starts, sent)], spans) for name in ("a", "b")]
    port = port_from_bins(NAME, 1e9, BIN, [(starts, 2 * sent)], spans)
    came = arrivals_of(port, senders)
    assert came is not None
    expected = []
    for part in parts:
        left = 0.0
        for bytes_ in part:
            left = max(left + 2 * bytes_ - port.bin_bytes, 0.0)
            expected.append(left)
    assert came.backlog.tolist() == pytest.approx(expected)
    first, last = port.offsets[:-1].astype(float), port.offsets[1:].astype(float)
    assert came.backlog_at(first).tolist() == [0.0] * len(parts)
    assert came.backlog_at(first + 0.5) == pytest.approx([one / 2 for one in came.backlog[port.offsets[:-1]]])
    assert came.backlog_at(last - 1e-6) == pytest.approx(came.backlog[port.offsets[1:] - 1], abs=1)


def drop_free_queue(arrivals: list[float], link: float, size: int = 1538) -> list[tuple[float, float]]:
    """Returns arrival and departure of each packet through a FIFO port, packet by packet."""
    served, free = [], 0.0
    heap = list(arrivals)
    heapq.heapify(heap)
    while heap:
        at = heapq.heappop(heap)
        free = max(free, at) + size * 8e9 / link
        served.append((at, free))
    return served


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1e9, 1e10, 1e8]))
def test_waiting_implies_busy(seed: int, link: float) -> None:
    """Whoever waited long enough for the bins to show it, waited while the link was full: never idle."""
    rng = np.random.default_rng(seed)
    frame = 1538 * 8e9 / link
    arrivals = [float(t) for t in rng.uniform(0, 400 * frame, 40)]
    for start in rng.uniform(0, 300 * frame, 3):
        arrivals += [float(start + k * frame / rng.uniform(2, 8)) for k in range(int(rng.integers(100, 600)))]
    served = drop_free_queue(arrivals, link)
    end = served[-1][1]
    width = max(BIN, int(20 * frame))
    departures = np.array([out for _, out in served])
    counts = np.bincount((departures / width).astype(int), minlength=int(end / width) + 1) * 1538
    port = port_from_bins(
        NAME, link, width, [(np.arange(len(counts)) * float(width), counts)], [(0.0, len(counts) * float(width))]
    )
    waits = np.array([(at, out - frame) for at, out in served if out - frame - at > 3 * width])
    if len(waits):
        answers = port.waits(waits[:, 0], waits[:, 1])
        assert set(answers.tolist()) <= {Wait.BUSY}
        assert (port.busy_after(waits[:, 0]) >= (waits[:, 1] - waits[:, 0]) * 0.9 - 2 * width).all()


def test_a_wait_with_an_idle_link_is_not_at_the_port() -> None:
    port = port_of([12_500] * 20 + [100] * 20)
    spans = np.array([[2.0, 18.0], [22.0, 38.0], [10.0, 30.0], [15.0, 15.4], [25.0, 25.4], [19.2, 20.8]]) * BIN
    expected = [Wait.BUSY, Wait.IDLE, Wait.IDLE, Wait.BUSY, Wait.IDLE, Wait.IDLE]
    assert port.waits(spans[:, 0], spans[:, 1]).tolist() == expected
    half = port_of([6_000] * 40)
    assert half.waits(np.array([10.2 * BIN]), np.array([10.7 * BIN]))[0] == Wait.COARSE
    assert half.waits(np.array([10.0 * BIN]), np.array([20.0 * BIN]))[0] == Wait.IDLE


def test_lost_packets_make_an_idle_link_doubtful() -> None:
    bytes_ = [12_500] * 10 + [7_000] * 10
    assert port_of(bytes_).waits(np.array([12.0 * BIN]), np.array([18.0 * BIN]))[0] == Wait.IDLE
    assert port_of(bytes_, lossy=[14]).waits(np.array([12.0 * BIN]), np.array([18.0 * BIN]))[0] == Wait.LOSING
    assert port_of(bytes_, lossy=[14]).waits(np.array([2.0 * BIN]), np.array([8.0 * BIN]))[0] == Wait.BUSY


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=40), st.floats(0, 50), st.integers(1, 50))
def test_a_ceiling_is_that_of_all_bins_however_few_are_taken_together(
    bytes_: list[int], bins: float, together: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(port_module, "CHUNK", together)
        found = port_of(bytes_).ceiling(bins)
    width = max(1, min(round(bins), len(bytes_)))
    starts = range(0, len(bytes_) - width + 1, max(1, width // 4))
    assert found == max(sum(bytes_[at : at + width]) for at in starts) / (width * port_of(bytes_).bin_bytes)


def test_a_ceiling_needs_no_memory_proportional_to_the_recording() -> None:
    """A day of 1 ms bins has 86 million bins, and each would need 24 bytes more."""
    port = port_of([100] * 8 * CHUNK)
    tracemalloc.start()
    try:
        port.ceiling(4)
        assert tracemalloc.get_traced_memory()[1] < 5 * 8 * CHUNK
    finally:
        tracemalloc.stop()


def test_shifts_of_waits_wrap_around_the_recording() -> None:
    port = port_of([12_500] * 10 + [0] * 90)
    a, d = np.array([2.0]), np.array([6.0])
    assert port.filling(a, d)[0] == pytest.approx(1)
    shifts = np.array([[0.0], [50.0], [100.0], [6.0]])
    assert port.filling(a, d, shifts)[:, 0] == pytest.approx([1, 0, 1, 0.5])


def test_utilization_of_wider_bins() -> None:
    port = port_of([12_500, 0] * 50)
    assert port.utilization(np.array([0.0, 1.5 * BIN]), BIN) == pytest.approx([1, 0])
    assert port.utilization(np.array([0.0, 1.5 * BIN]), 10 * BIN) == pytest.approx([0.5, 0.5])
    assert np.isnan(port.utilization(np.array([-1.0]), BIN))[0]
