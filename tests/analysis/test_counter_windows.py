"""Windows of a port's counters: each moment counts once, and queues are summed for times in which all are known."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mburst.analysis.cause.conservation import SwitchWindows
from mburst.analysis.cause.counter_windows import SAME, added_up, apart

TIMES = st.integers(0, 60)


def windows(edges: list[tuple[int, int]], bytes_: list[int] | None = None) -> SwitchWindows:
    start, end = (np.array([edge[side] for edge in edges], dtype=np.float64) for side in (0, 1))
    counted = np.array(bytes_ or [1] * len(edges), dtype=np.float64)
    return SwitchWindows("q", start, end, counted, np.zeros(len(edges), dtype=bool))


@given(st.lists(st.tuples(TIMES, st.integers(1, 9)).map(lambda at: (at[0], at[0] + at[1])), max_size=12))
def test_each_moment_once(edges: list[tuple[int, int]]) -> None:
    """Those that begin first stay; of the others, those that overlap none that stays."""
    found = apart(windows(edges))
    kept: list[tuple[int, int]] = []
    for begin, end in sorted(edges, key=lambda edge: edge[0]):
        if not kept or begin >= kept[-1][1]:
            kept.append((begin, end))
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == kept


QUEUES = st.lists(
    st.builds(
        lambda width, first, count, counts: [
            (first + k * width, first + (k + 1) * width, counts[k % len(counts)]) for k in range(count)
        ],
        st.sampled_from([16, 16, 16, 40]),
        st.integers(0, 24),
        st.integers(1, 6),
        st.lists(st.integers(0, 5), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=4,
)


@given(QUEUES)
def test_queues_together(queues: list[list[tuple[int, int, int]]]) -> None:
    """The same, window by window: what each other queue has in it must be one window of nearly the same edges."""
    found = added_up("p", [windows([row[:2] for row in queue], [row[2] for row in queue]) for queue in queues])
    base, *others = sorted(queues, key=len, reverse=True)
    expected, off = [], 0.0
    for begin, end, count in base:
        known = True
        for queue in others:
            for b, e, more in queue:
                distance = max(abs(b - begin), abs(e - end))
                if distance <= SAME * (end - begin):
                    count, off = count + more, max(off, distance)
                elif (
                    b < end
                    and e > begin
                    and more
                    and not any(max(abs(b - x), abs(e - y)) <= SAME * (y - x) for x, y, _ in base)
                ):
                    known = False
        if known:
            expected.append((begin, end, count))
    assert list(zip(found.start.tolist(), found.end.tolist(), found.bytes.tolist(), strict=True)) == expected
    assert found.edge_ns == off
