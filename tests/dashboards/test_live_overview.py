"""The overview of all interfaces: a number for recorded time, and none for unknown time."""

from __future__ import annotations

import pytest
from livestore import SECOND, Growing
from reportlib import FULL
from storelib import write

from mburst.analysis.live.store import LiveStore
from mburst.dashboards.live.overview import overview
from mburst.sql import StoreFolder

NOW = 1_795_228_500_000_000_000
QUIET = 0.67  # percent of a link that a bin of 84 bytes fills


@pytest.fixture
def growing(tmp_path):
    store = Growing(tmp_path / "store", NOW)
    yield store
    store.close()


def percents(live: LiveStore, seconds: int) -> list[float | None]:
    """Returns the percentages of the only port direction."""
    found = overview(live, "", seconds)
    [lane] = live.lanes.values()
    assert found["firstSecond"] == lane.edge_ns // SECOND - seconds
    [row] = found["lanes"]
    return row["percent"]


def test_a_second_that_was_not_recorded_has_no_number(growing):
    growing.append([84] * 100 + [0] * 19_900 + [FULL])
    growing.rest(25_000)
    growing.append([84] + [0] * 9_000 + [84])
    live = LiveStore(growing.store)
    assert percents(live, 6) == [None, QUIET, 0.0, 100.0, None, QUIET, QUIET]
    live.close()


def test_a_second_only_partly_in_memory_has_no_number(growing):
    growing.append([84] * 25_000)
    live = LiveStore(growing.store)
    assert percents(live, 3) == [None, QUIET, QUIET, QUIET]
    [lane] = live.lanes.values()
    lane.keep_newest(14_999)
    assert percents(live, 3) == [None, None, None, QUIET]
    live.close()


def test_bins_that_do_not_divide_a_second_count_in_their_second(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    width = 300_000
    begin = NOW // width * width + width
    write(store, "recordings", {"bin_ns": width, "start_ns": begin, "end_ns": begin + 4 * SECOND})
    write(store, "bins", {"ts_ns": begin, "wire_bytes": 84}, {"ts_ns": begin + 7_000 * width, "wire_bytes": 3 * FULL})
    live = LiveStore(store)
    assert percents(live, 4) == [0.22, 0.0, 100.0, 0.0, 0.0]
    live.close()
