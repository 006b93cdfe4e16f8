"""Counts of a switch's queues are in the windows of one collection only, however many collections report them, and
whatever their widths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from counted_windows import COUNTERS, Window, counting, has, named, overlap
from hypothesis import given
from hypothesis import strategies as st
from storelib import rows, write

from mburst.__main__ import main
from mburst.sql import StoreFolder, views

MS = 10**6


class Feed(NamedTuple):
    """Consecutive windows of `width` ms from `start` ms on; those in `holes` are left out."""

    batch: str
    queue: str
    width: int
    start: int
    count: int
    holes: frozenset[int]
    counters: tuple[str, ...]
    impossible: bool = False

    def windows(self) -> list[Window]:
        return [
            {
                "batch": self.batch,
                "queue": self.queue,
                "window_start_ns": (self.start + k * self.width) * MS,
                "ts_ns": (self.start + (k + 1) * self.width) * MS,
                "max_bytes": 7,
                "quality": 1024 if self.impossible else 0,
                **dict.fromkeys(self.counters, self.width),
            }
            for k in range(self.count)
            if k not in self.holes
        ]


FEEDS = st.lists(
    st.builds(
        Feed,
        st.sampled_from("abc"),
        st.sampled_from("01"),
        st.sampled_from([1, 3, 10, 100]),
        st.integers(0, 60),
        st.integers(1, 12),
        st.frozensets(st.integers(0, 12), max_size=6),
        st.sampled_from([COUNTERS, COUNTERS[:1], COUNTERS[1:], ()]),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def reported() -> Iterator[Any]:
    """Returns the usable windows of rows of `queues`, by the store's macro."""
    with views.in_memory() as con:

        def found(given: list[Window]) -> list[Window]:
            con.register("given", rows("queues", *given))
            relation = con.sql("FROM believable_windows('given', -9223372036854775808, 9223372036854775807)")
            return list(relation.to_arrow_table().to_pylist())

        yield found


@given(FEEDS)
def test_as_counted_slowly(reported: Any, feeds: list[Feed]) -> None:
    given = [window for feed in feeds for window in feed.windows()]
    found = reported(given)
    by_window = {named(row): {name: row[name] for name in COUNTERS} for row in found}
    assert len(by_window) == len(found) and by_window == counting(given)


@given(FEEDS)
def test_no_moment_counts_twice_and_no_depth_is_lost(reported: Any, feeds: list[Feed]) -> None:
    given = [window for feed in feeds for window in feed.windows()]
    found = reported(given)
    for k, one in enumerate(found):
        for other in found[:k]:
            if one["queue"] == other["queue"] and one["batch"] != other["batch"] and overlap(one, other):
                assert not has(one) & has(other), (one, other)
    assert len(found) == len(counting(given)) and all(row["depth_bytes"] == 7 for row in found)


def test_the_counts_of_one_collection_are_not_changed(reported: Any) -> None:
    """This also holds if two collections follow each other or count different things, and if windows overlap since the
    counters of a collection change at different times."""
    first = Feed("a", "0", 10, 0, 50, frozenset({7}), COUNTERS)
    given = first.windows() + first._replace(batch="b", start=500).windows()
    assert sum(row["dropped_packets"] for row in reported(given)) == 10 * (2 * 50 - 2)
    beside = (
        first._replace(counters=COUNTERS[:1]).windows() + first._replace(batch="b", counters=COUNTERS[1:]).windows()
    )
    assert sum(row["dropped_packets"] or 0 for row in reported(beside)) == 490


def test_windows_of_two_widths_in_one_collection_count_once(reported: Any) -> None:
    fine = Feed("a", "0", 1, 0, 3000, frozenset(), COUNTERS)
    coarse = fine._replace(width=1000, count=5)
    found = reported(fine.windows() + coarse.windows())
    assert (len(found), sum(row["dropped_packets"] or 0 for row in found)) == (3005, 5000)


@pytest.mark.parametrize("invented", [{"dropped_packets": 2**50}, {"max_bytes": 2**61}])
def test_impossible_windows_take_no_count_from_others(reported: Any, invented: dict[str, int]) -> None:
    true = Feed("b", "0", 10, 0, 50, frozenset(), COUNTERS).windows()
    others = [{**window, **invented} for window in Feed("a", "0", 10, 5, 50, frozenset(), COUNTERS).windows()]
    assert sum(row["dropped_packets"] for row in reported([*true, *others])) == 500


def test_drops_of_several_collections_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = StoreFolder.create(tmp_path / "store")
    for batch, width, start in (("a", 1000, 0), ("b", 1000, 400), ("c", 10, 0)):
        write(store, "queues", *Feed(batch, "0", width, start, 10_000 // width, frozenset(), COUNTERS).windows())
    assert main(["sql", str(store.path), "queue_depths", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["windows"], row["dropped_packets"], row["max_bytes"]) == (1020, 10_000, 7)
