"""Sums of seconds, their fullest windows and full spans (sql/compaction/seconds.h), compared with loops over all
bins."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mburst.sql.compaction._seconds import FIELDS, Seconds

MS = 10**6
S = 10**9
MOST = 2**63 - 1
LOSING = 32
ENDS = st.sampled_from([-MOST - 1, -S, -1, 0, S - 1, 5 * S, MOST - 3 * S, MOST])
TIMES = st.lists(
    st.builds(lambda end, more: max(-MOST - 1, min(MOST, end + more)), ENDS, st.integers(-3 * S, 3 * S)), max_size=60
)
WIDTHS = st.sampled_from([[], [(20, 3000, 120 * MS)], [(1, 100, 0), (500, 9000, S), (1000, 5000, 6 * S)]])


class Bin(NamedTuple):
    ts_ns: int
    bytes: int
    wire_bytes: int
    packets: int
    quality: int
    added: int | None
    joined: int | None


def bins_at(ts_ns: int) -> st.SearchStrategy[Bin]:
    return st.builds(
        Bin,
        st.just(ts_ns),
        st.integers(0, 10**12),
        st.one_of(st.integers(0, 1000), st.integers(1000, 10**12)),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**16 - 1),
        st.one_of(st.none(), st.integers(0, 10**9)),
        st.one_of(st.none(), st.integers(0, 255)),
    )


BINS = TIMES.map(sorted).flatmap(lambda times: st.tuples(*map(bins_at, times)).map(list))


def add(seconds: Seconds, bins: list[Bin]) -> bool:
    """Adds bins in the form that seconds.py uses."""
    columns = [np.array([of[place] for of in bins], kind) for place, kind in enumerate("qqqIH")]
    counters = [
        (
            np.array([of[place] or 0 for of in bins], np.int64),
            np.array([of[place] is not None for of in bins]) if any(of[place] is None for of in bins) else None,
        )
        for place in (5, 6)
    ]
    return seconds.add(*columns, counters)


def rows(found: bytes, width: int) -> list[list[int]]:
    return np.frombuffer(found, np.int64).reshape(-1, width).tolist()


def most_in(bins: list[Bin], width_ns: int) -> int:
    sums: dict[int, int] = defaultdict(int)
    for of in bins:
        sums[of.ts_ns // width_ns] += of.wire_bytes
    return max(sums.values())


def slowly(bins: list[Bin]) -> list[list[int]]:
    """Returns the sums of the seconds that have a bin, the slow way."""
    every: dict[int, list[Bin]] = defaultdict(list)
    for of in bins:
        every[of.ts_ns // S].append(of)
    found = []
    for number, of in sorted(every.items()):
        start = number * S
        sums = [sum(getattr(one, name) for one in of) for name in ("bytes", "wire_bytes", "packets")]
        found.append(
            [
                start if start >= -MOST - 1 else start + 2**64,
                min(one.ts_ns for one in of),
                max(one.ts_ns for one in of),
                len(of),
                sum(one.quality & LOSING != 0 for one in of),
                *sums,
                int(np.bitwise_or.reduce([one.quality for one in of])),
                max(one.wire_bytes for one in of),
                *(most_in(of, width) for width in (MS, 10 * MS, 100 * MS)),
                sum(one.added or 0 for one in of),
                sum(one.added is not None for one in of),
                int(np.bitwise_or.reduce([one.joined or 0 for one in of])),
                sum(one.joined is not None for one in of),
            ]
        )
    return found


def joined(spans: Any, gap_ns: int) -> list[list[int]]:
    """Returns SPANS, with those joined that are no more than GAP_NS apart."""
    found: list[list[int]] = []
    for first, last in sorted(spans):
        if found and first - found[-1][1] <= gap_ns:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return found


def full_windows(bins: list[Bin], width_ns: int, full_bytes: int, bin_bytes: int) -> list[tuple[int, int]]:
    """Returns the full windows of seconds that have a full bin."""
    looked_at = {of.ts_ns // S for of in bins if of.wire_bytes >= bin_bytes}
    sums: dict[int, int] = defaultdict(int)
    for of in bins:
        sums[of.ts_ns // width_ns * width_ns] += of.wire_bytes
    return [(start, start) for start, value in sums.items() if value >= full_bytes and start // S in looked_at]


@given(bins=BINS, cuts=st.lists(st.integers(0, 60)), gap_ns=st.sampled_from([0, MS, 110 * MS, 2 * S]), widths=WIDTHS)
@example(bins=[Bin(-MOST - 1, 0, 9, 0, 0, 0, 0), Bin(MOST, 0, 9, 0, 0, 0, 0)], cuts=[], gap_ns=0, widths=[])
def test_as_a_loop_finds_them(
    bins: list[Bin], cuts: list[int], gap_ns: int, widths: list[tuple[int, int, int]]
) -> None:
    seconds = Seconds([False, True], LOSING, 1000, gap_ns, widths)
    edges = [0, *sorted(cut for cut in cuts if cut < len(bins)), len(bins)]
    assert all(add(seconds, bins[start:end]) for start, end in itertools.pairwise(edges))
    found, full, wide = seconds.end()
    assert rows(found, len(FIELDS) + 4) == slowly(bins)
    assert rows(full, 2) == joined([(of.ts_ns, of.ts_ns) for of in bins if of.wire_bytes >= 1000], gap_ns)
    assert len(wide) == len(widths)
    for islands, (ms, full_bytes, gap) in zip(wide, widths, strict=True):
        if all(of.ts_ns > -MOST + S for of in bins):  # else a window begins before all times
            assert rows(islands, 2) == joined(full_windows(bins, ms * MS, full_bytes, 1000), gap)


@given(bins=BINS, data=st.data())
def test_of_two_seconds_the_order_does_not_matter(bins: list[Bin], data: st.DataObject) -> None:
    bins = [of for of in bins if -S <= of.ts_ns < S]
    mixed = data.draw(st.permutations(bins))
    sums, islands = [], []
    for order in (bins, mixed):
        seconds = Seconds([False, True], LOSING, 1000, 5 * MS, [(20, 3000, 120 * MS)])
        assert add(seconds, order)
        found, full, wide = seconds.end()
        sums.append(found)
        islands.append((joined(rows(full, 2), 5 * MS), wide))
    assert sums[0] == sums[1] and islands[0] == islands[1]


@pytest.mark.parametrize(
    ("times", "is_in_order"),
    [
        ([0, S, 0], True),
        ([0, 2 * S, S, 0], False),
        ([0, 2 * S, S, S, 2 * S], True),
        ([S, 0], True),
        ([0, S, 2 * S, 0], False),
        ([0, S, 2 * S, S], True),
        ([5 * S, 4 * S, 3 * S], False),
        ([0, 3 * S, S, 2 * S, S], False),
    ],
)
def test_a_bin_of_a_completed_second_is_refused(times: list[int], is_in_order: bool) -> None:
    seconds = Seconds([False, True], LOSING, MOST, 0, [])
    bins = [Bin(ts, 1, 1, 1, 0, 0, 0) for ts in times]
    assert add(seconds, bins) == is_in_order
    if is_in_order:
        assert rows(seconds.end()[0], len(FIELDS) + 4) == slowly(bins)


def test_many_seconds() -> None:
    times = [number * S + 7 for number in range(5000)]
    seconds = Seconds([False, True], LOSING, 1, 0, [(1000, 1, 0)])
    assert add(seconds, [Bin(ts, 1, ts % 1000, 1, 0, 0, 0) for ts in times])
    found, full, [wide] = seconds.end()
    assert [row[1] for row in rows(found, len(FIELDS) + 4)] == times
    assert rows(full, 2) == [[ts, ts] for ts in times] and len(rows(wide, 2)) == 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ([False] * 17, LOSING, 1, 0, []),
        ([], LOSING, 1, -1, []),
        ([], LOSING, 1, 0, [(0, 1, 0)]),
        ([], LOSING, 1, 0, [(7, 1, 0)]),
        ([], LOSING, 1, 0, [(2000, 1, 0)]),
        ([], LOSING, 1, 0, [(1, 1, -1)]),
        ([], LOSING, 1, 0, [(1, 1, 0)] * 9),
    ],
)
def test_invalid_options_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"widths?|counters"):
        Seconds(*arguments)


def test_invalid_columns_are_refused() -> None:
    numbers = np.zeros(3, np.int64)
    columns = [numbers, numbers, numbers, numbers.astype(np.uint32), numbers.astype(np.uint16)]
    for place in range(1, 5):
        other = [*columns]
        other[place] = other[place][:2]
        with pytest.raises(ValueError, match="differ in length"):
            Seconds([], LOSING, 1, 0, []).add(*other, [])
    for counters in ([(numbers[:1], None)], [(numbers, np.zeros(2, bool))], []):
        with pytest.raises(ValueError, match=r"differ in length|not as many"):
            Seconds([False], LOSING, 1, 0, []).add(*columns, counters)
    with pytest.raises(TypeError):
        Seconds([False], LOSING, 1, 0, []).add(*columns, [numbers])
    with pytest.raises(TypeError):
        Seconds([], LOSING, 1, 0, [20])
