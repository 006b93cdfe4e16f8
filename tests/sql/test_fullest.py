"""The fullest windows of each second (sql/compaction/fullest.h), against a loop over all bins."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mburst.sql.compaction._fullest import fullest

S = 10**9
MOST = 2**63 - 1
WIDTHS = st.sampled_from(
    [(10**6, 10**7, 10**8), (S,), (1, S), (50_000, 10**6, 5 * 10**8), (2, 4, 8, 16, 32, 64, 128, 256)]
)
ENDS = st.sampled_from([-MOST - 1, -S, -1, 0, S - 1, 5 * S, MOST - 2 * S, MOST])
TIMES = st.lists(
    st.builds(lambda end, more: max(-MOST - 1, min(MOST, end + more)), ENDS, st.integers(-2 * S, 2 * S)), max_size=60
)


def array(values: object) -> memoryview:
    return np.array(values, np.int64).data


def slowly(times: list[int], amounts: list[int], widths: tuple[int, ...]) -> list[list[int]]:
    sums: dict[tuple[int, int, int], int] = defaultdict(int)
    for ts, amount in zip(times, amounts, strict=True):
        for place, width in enumerate(widths):
            sums[ts // S, place, ts // width] += amount
    seconds = sorted({second for second, _, _ in sums})
    return [
        [max(value for (s, p, _), value in sums.items() if (s, p) == (second, place)) for place in range(len(widths))]
        for second in seconds
    ]


@example(times=[-MOST - 1, MOST], widths=(S,), data=None)
@given(times=TIMES.map(sorted), widths=WIDTHS, data=st.data())
def test_as_a_loop_finds_them(times: list[int], widths: tuple[int, ...], data: st.DataObject | None) -> None:
    some = st.lists(st.integers(-(10**12), 10**12), min_size=len(times), max_size=len(times))
    amounts = data.draw(some) if data else [0] * len(times)
    found = fullest(array(times), array(amounts), array(widths))
    assert np.frombuffer(found, np.int64).reshape(-1, len(widths)).tolist() == slowly(times, amounts, widths)


def test_of_many_seconds() -> None:
    times = np.arange(5000) * S + 7
    found = np.frombuffer(fullest(times.data, times.data, array([S])), np.int64)
    assert (found == times).all()


@pytest.mark.parametrize(
    ("times", "amounts", "widths"),
    [
        ([1], [1, 2], [S]),
        ([1], [1], []),
        ([1], [1], [0]),
        ([1], [1], [-S]),
        ([1], [1], [3, S]),
        ([1], [1], [7]),
        ([1], [1], [2 * S]),
        ([1], [1], [S] * 9),
    ],
)
def test_other_arguments_are_refused(times: list[int], amounts: list[int], widths: list[int]) -> None:
    with pytest.raises(ValueError, match="widths that divide a second"):
        fullest(array(times), array(amounts), array(widths))


def test_bytes_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="64-bit"):
        fullest(bytes(7), bytes(7), array([S]))
    with pytest.raises(ValueError, match="64-bit"):
        fullest(b"", b"", bytes(9))
