"""Envelopes against a slow oracle: no burst vanishes at any level, in any window."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import write

from mburst.analysis.model import envelope
from mburst.analysis.model.envelope import Envelope, Slice
from mburst.sql import StoreFolder

BIN = 100_000
START = 1_795_228_463_900_000_000 // BIN

recordings = st.dictionaries(st.integers(0, 400), st.integers(84, 200_000), min_size=1, max_size=80)


def build(bins: dict[int, int]) -> Envelope:
    cells = np.array(sorted(bins), np.int64)
    wire = np.array([bins[cell] for cell in sorted(bins)], np.int64)
    return Envelope(BIN, BIN, cells + START, wire, wire, np.ones(len(cells), np.int64))


@settings(deadline=None, max_examples=60)
@given(recordings, st.lists(st.integers(2, 9), max_size=4))
def test_the_largest_bin_survives_every_level(bins, factors):
    level = build(bins)
    for factor in [1, *factors]:
        level = level.coarsen(factor)
        width = level.width_ns // BIN
        for cell, largest, total, count in zip(level.cells, level.largest, level.total, level.bins, strict=True):
            inside = [wire for at, wire in bins.items() if (at + START) // width == cell]
            assert (largest, total, count) == (max(inside), sum(inside), len(inside))
        assert set(level.cells.tolist()) == {(at + START) // width for at in bins}


@settings(deadline=None, max_examples=60)
@given(recordings, st.integers(-50, 450), st.integers(1, 300), st.integers(1, 60))
def test_any_window_shows_its_largest_bin(bins, first, length, buckets):
    start, end = (START + first) * BIN, (START + first + length) * BIN
    view = build(bins).view(start, end, buckets)
    inside = [wire for at, wire in bins.items() if first <= at < first + length]
    assert view.largest.max(initial=0) >= max(inside, default=0)
    assert len(view) <= buckets + 1
    width = view.width_ns // BIN
    for cell, largest in zip(view.cells, view.largest, strict=True):
        assert largest == max(wire for at, wire in bins.items() if (at + START) // width == cell)


def test_each_coarser_level_has_the_fullest_bin_and_all_bytes():
    levels = [build({0: 84, 7: 1538, 399: 100})]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].coarsen(2))
    assert {int(level.largest.max()) for level in levels} == {1538}
    assert {int(level.total.sum()) for level in levels} == {84 + 1538 + 100}


def test_mean_rates_include_silent_bins():
    level = build({0: 12_500, 1: 12_500}).coarsen(10)
    assert level.max_bps().tolist() == [1e9]
    assert level.mean_bps().tolist() == [0.2e9]


@settings(deadline=None, max_examples=60)
@given(recordings, st.lists(st.tuples(st.integers(0, 400), st.integers(1, 80)), max_size=4))
def test_steps_are_zero_in_silence_and_absent_where_nothing_was_recorded(bins, more):
    spans = [(at * BIN, (at + 1) * BIN) for at in bins] + [(a * BIN, (a + n) * BIN) for a, n in more]
    zero = START * BIN
    coverage = envelope.merge_intervals([(a + zero, b + zero) for a, b in spans])
    level = build(bins)
    x, y = envelope.steps(level, level.max_bps(), coverage, zero)
    assert x == sorted(x)
    recorded = {at for a, b in spans for at in range(a // BIN, b // BIN)}
    for at in range(-2, 483):
        moment = (at + 0.5) * BIN / 1e9
        before = [value for when, value in zip(x, y, strict=True) if when <= moment]
        shown = before[-1] if before else None
        assert shown == (bins.get(at, 0) * 8e9 / BIN if at in recorded else None)


def test_a_pause_begins_and_ends_at_zero_so_that_no_fill_covers_it():
    level, zero = build({0: 9, 1: 9, 300: 9}), START * BIN
    x, y = envelope.steps(level, level.max_bps(), [(zero, zero + 2 * BIN), (zero + 300 * BIN, zero + 301 * BIN)], zero)
    pause = y.index(None)
    assert y[pause - 1] == 0 == y[pause + 1] and x[pause + 1] == 300 * BIN / 1e9


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), max_size=30), st.integers(1, 10))
def test_merged_intervals_cover_all_and_little_else(given_spans, limit):
    spans = [(a, a + n) for a, n in given_spans]
    merged = envelope.merge_intervals(spans)
    assert all(a[1] < b[0] for a, b in pairwise(merged))
    assert {t for a, b in merged for t in range(a, b)} == {t for a, b in spans for t in range(a, b)}
    few = envelope.merge_intervals(spans, limit)
    assert len(few) <= limit
    assert all(any(c <= a and b <= d for c, d in few) for a, b in merged)


@pytest.fixture
def bursty(tmp_path):
    """20,000 bins of 84 bytes and 10 µs, with a burst of 20 full bins among them."""
    store = StoreFolder.create(tmp_path / "store")
    wire = [12_500 if 7000 <= i < 7020 else 84 for i in range(20_000)]
    write(
        store,
        "bins",
        *(
            {"ts_ns": (i + 10**14) * 10_000, "wire_bytes": bytes_, "bytes": bytes_ - 24}
            for i, bytes_ in enumerate(wire)
        ),
    )
    where = Slice(["run-1"], 10_000, 10**18, 10**18 + 20_000 * 10_000)
    return store.connect(), where


def test_the_store_aggregates_to_the_allowed_number_of_cells(bursty):
    con, where = bursty
    whole = envelope.finest(con, where, 20_000, 20_000)
    assert whole.width_ns == 10_000 and len(whole) == 20_000
    base = envelope.finest(con, where, 20_000, 2500)
    assert base.width_ns == 100_000 and len(base) == 2000
    assert base.total.sum() == whole.total.sum()
    for cells in (base, envelope.read_seconds(con, where), envelope.read_seconds(con, where, base)):
        assert cells.total.sum() == 20 * 12_500 + 19_980 * 84
    assert base.largest.max() == 12_500


def test_detail_has_every_bin_of_the_burst_if_allowed(bursty):
    con, where = bursty
    base = envelope.finest(con, where, 20_000, 2500)
    burst = (10**18 + 7000 * 10_000, 10**18 + 7020 * 10_000)
    detail, cells = envelope.read_detail(con, where, base, [burst], 100)
    assert cells.tolist() == [10**13 + 700, 10**13 + 701]
    assert detail.width_ns == 10_000 and len(detail) == 20 and set(detail.largest.tolist()) == {12_500}
    none, cells = envelope.read_detail(con, where, base, [burst], 19)
    assert not len(none) and not len(cells)


def test_a_slice_without_bins_is_an_empty_envelope(bursty):
    con, _ = bursty
    empty = envelope.finest(con, Slice(["run-2"], 10_000, 0, 10), 0, 10)
    assert not len(empty) and not len(empty.coarsen(5)) and not len(empty.view(0, 10, 3))
    assert envelope.steps(empty, empty.max_bps(), [], 0) == ([], [])


def test_the_mean_of_a_cell_is_of_its_recorded_time():
    """12 B in each bin of 1 ns, in cells of 10 bins; recorded from 5 to 20, from 22 to 25 and from 45 on."""
    cells = np.array([0, 1, 2, 4], np.int64)
    bins = np.array([5, 10, 3, 5], np.int64)
    whole = Envelope(10, 1, cells, np.full(4, 12), 12 * bins, bins)
    coverage = [(5, 20), (22, 25), (45, 50)]
    shifted = [(10**18 + a, 10**18 + b) for a, b in coverage]
    later = Envelope(10, 1, cells + 10**17, np.full(4, 12), 12 * bins, bins)
    for found in (whole.mean_bps(coverage), later.mean_bps(shifted)):
        assert found.tolist() == pytest.approx([12 * 8e9] * 4)
    assert whole.mean_bps().tolist() == pytest.approx([6 * 8e9, 12 * 8e9, 3.6 * 8e9, 6 * 8e9])
