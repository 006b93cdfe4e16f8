"""The fullest window of the bins of a port direction, against the sum of every window."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.answers.host import window_of
from mburst.analysis.read import bins as read_bins

BIN = 100_000
MS = 1_000_000
BINS = st.dictionaries(st.integers(0, 60), st.integers(84, 13_000), max_size=40)


@pytest.fixture(scope="module")
def con():
    with duckdb.connect() as opened:
        opened.execute("CREATE TABLE bins (recording_id VARCHAR, clock_epoch INT, ts_ns BIGINT, wire_bytes BIGINT)")
        yield opened


def fullest_of(wire: dict[int, int], bins: int) -> tuple[int, int] | None:
    """Returns start and bytes of the first of the fullest windows of this number of bins."""
    sums: dict[int, int] = {}
    for number, wire_bytes in wire.items():
        sums[number // bins] = sums.get(number // bins, 0) + wire_bytes
    return min(((-total, cell) for cell, total in sums.items()), default=None)


@settings(max_examples=40, deadline=None)
@given(runs=st.lists(BINS, min_size=1, max_size=2), bins=st.sampled_from([1, 3, 10]))
def test_it_is_the_largest_sum_of_all_windows(con, runs, bins):
    con.execute("TRUNCATE bins")
    for name, wire in enumerate(runs):
        for number, wire_bytes in wire.items():
            con.execute("INSERT INTO bins VALUES (?, 0, ?, ?)", [str(name), number * BIN, wire_bytes])
    once = {number: max(wire.get(number, 0) for wire in runs) for number in set().union(*runs)}
    where = {"ids": [str(name) for name in range(len(runs))], "since": 0, "until": 61 * BIN}
    found = read_bins.fullest(con, where, len(runs) > 1, BIN, bins * BIN)
    wanted = fullest_of(once, bins)
    assert found == (wanted and (wanted[1] * bins * BIN, -wanted[0]))


@pytest.mark.parametrize(("bin_ns", "window_ns"), [(10_000, MS), (300_000, 1_200_000), (MS, MS), (10 * MS, 10 * MS)])
def test_a_window_has_whole_bins_and_is_at_least_1_ms(bin_ns, window_ns):
    assert window_of(bin_ns) == window_ns
