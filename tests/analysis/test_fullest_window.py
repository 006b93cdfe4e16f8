"""The fullest window and second of the bins of a port direction, against the sum of every window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import write

import mburst
from mburst.analysis.answers.lane_report import window_of
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.rack.period import Period, detected, lanes
from mburst.analysis.read import bins as read_bins
from mburst.sql import StoreFolder

BIN = 100_000
MS = 1_000_000
START = 1_795_132_800 * 10**9  # 2026-11-20, midnight
FULL = 125_000  # wire bytes of a bin of 1 ms at 1 Gb/s
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


def test_the_busiest_second_of_recordings_that_overlap_has_the_bins_of_both(tmp_path: Path) -> None:
    """The clock of one was set back. Reports of hosts and racks count each time once, by the fullest bin."""
    store = StoreFolder.create(tmp_path / "store")
    for name, epochs, first, last in (("one", 2, 0, 700), ("two", 1, 500, 1200)):
        run = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "packets": 1, "clock_epochs": epochs}
        write(store, "recordings", {"recording_id": name, "written_ns": START + 5000 * MS, **run})
    bins = [("one", 0, range(600), FULL), ("one", 1, range(400, 700), FULL), ("two", 0, range(500, 1200), FULL // 2)]
    for name, epoch, times, sent in bins:
        of = {"recording_id": name, "clock_epoch": epoch, "wire_bytes": sent}
        write(store, "bins", *({**of, "ts_ns": START + ms * MS} for ms in times))
    second = 700 * FULL + 300 * (FULL // 2)
    [lane] = mburst.open(store.path).report().lanes
    [of_rack] = mburst.open(store.path).rack_report("r1", since="2026-11-20", until="2026-11-21").report.lanes
    assert lane.busiest_second is not None and lane.busiest_second.wire_bytes == second
    assert of_rack.busiest_second == second * 8


class Asked:
    """A connection that keeps its queries."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.queries: list[tuple[str, Any]] = []

    def execute(self, query: str, where: Any = None) -> duckdb.DuckDBPyConnection:
        self.queries.append((query, where))
        return self.con.execute(query, where)


def groups_of(profile: Any) -> list[int]:
    """Returns the number of groups of each GROUP BY in the profile of a query."""
    if isinstance(profile, list):
        return [groups for part in profile for groups in groups_of(part)]
    if not isinstance(profile, dict):
        return []
    own = [profile["intermediate_rows"]] if "GROUP_BY" in str(profile.get("type")) else []
    return own + groups_of([*profile.values()])


def test_only_seconds_that_overlap_are_read_by_bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are rows in memory: with a group for each bin, a rack of 20 million bins took 2.4 GB."""
    store = StoreFolder.create(tmp_path / "store")
    for name, first, last in (("one", 0, 3001), ("two", 3000, 6000)):
        run = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "packets": 1}
        write(store, "recordings", {"recording_id": name, "written_ns": START + 9000 * MS, **run})
        of = {"recording_id": name, "wire_bytes": FULL}
        write(store, "bins", *({**of, "ts_ns": START + ms * MS} for ms in range(first, last)))
    period = Period(START, START + 10_000 * MS)
    with detected(store, "r1", period, BurstDefinition()) as con:
        asked = Asked(con)
        [lane] = lanes(cast(duckdb.DuckDBPyConnection, asked), period)
        plans = [
            str(con.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}", where).fetchall()[0][1])
            for query, where in asked.queries
            if "FROM counts" in query
        ]
    assert lane.busiest_second == 1000 * FULL * 8
    groups = [rows for plan in plans for rows in groups_of(json.loads(plan))]
    assert groups and max(groups) <= 1001 + 5


@pytest.mark.parametrize("groups", [1, 30, 10**12])
@pytest.mark.parametrize("width", [1, 3000])
def test_seconds_are_read_in_slices_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, groups: int
) -> None:
    """Two recordings of the same time, one fuller than the other; bins can be wider than a second."""
    store = StoreFolder.create(tmp_path / "store")
    first = START // (3000 * MS) * 3000 * MS + 3000 * MS
    for name, sent in (("one", FULL), ("two", FULL // 2)):
        run = {"start_ns": first, "end_ns": first + 6000 * MS - 1, "packets": 1, "bin_ns": width * MS}
        write(store, "recordings", {"recording_id": name, "written_ns": START + 19_000 * MS, **run})
        of = {"recording_id": name, "wire_bytes": sent}
        write(store, "bins", *({**of, "ts_ns": first + ms * MS} for ms in range(0, 6000, width)))
    monkeypatch.setattr(read_bins, "GROUPS", groups)
    for since in (first, first + 1500 * MS):
        period = Period(since, first + 5500 * MS)
        with detected(store, "r1", period, BurstDefinition()) as con:
            [lane] = lanes(con, period)
        assert lane.busiest_second == (1000 if width == 1 else 1) * FULL * 8


def sliced(store: StoreFolder, period: Period) -> tuple[int, int]:
    """Returns the number of slices in which a rack's seconds were read, and the most groups of one of them."""
    with detected(store, "r1", period, BurstDefinition()) as con:
        asked = Asked(con)
        lanes(cast(duckdb.DuckDBPyConnection, asked), period)
        slices = [(query, where) for query, where in asked.queries if "first" in (where or {})]
        plans = [con.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}", where).fetchall() for query, where in slices]
    return len(slices), max(rows for [[_, plan]] in plans for rows in groups_of(json.loads(plan)))


@pytest.mark.parametrize(("groups", "slices"), [(2_000_000, 1), (50, 4)])
def test_a_slice_of_the_time_has_as_many_bins_as_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: int, slices: int
) -> None:
    """Two recordings of a week at 100 us have few bins, most of them together in a few seconds."""
    store = StoreFolder.create(tmp_path / "store")
    week = 7 * 86_400 * 1000
    times = sorted({*range(0, week, week // 20), *range(week // 2, week // 2 + 4000, 50)})
    for name in ("one", "two"):
        run = {"start_ns": START, "end_ns": START + week * MS - 1, "packets": 1, "bin_ns": MS // 10}
        write(store, "recordings", {"recording_id": name, "written_ns": START + week * MS, **run})
        write(store, "bins", *({"recording_id": name, "ts_ns": START + ms * MS, "wire_bytes": 1000} for ms in times))
    monkeypatch.setattr(read_bins, "GROUPS", groups)
    found, most = sliced(store, Period(START, START + week * MS))
    assert found == slices and most <= groups + 2 * 20
