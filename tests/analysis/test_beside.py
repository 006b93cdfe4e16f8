"""Latency and switch queues on the time axis, against plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import write

from mburst.analysis.model import context
from mburst.sql import StoreFolder

START = 10**18


def latency(probes: list[tuple[int, int | None]]) -> context.PathLatency:
    probes = sorted(probes, key=lambda probe: probe[0])
    at = np.array([when for when, _ in probes], np.int64)
    took = np.array([-1 if value is None else value for _, value in probes], np.int64)
    back = (took >= 0).astype(np.int64)
    return context.PathLatency(
        "a",
        "b",
        "udp",
        "sw",
        len(probes),
        int((1 - back).sum()),
        int(back.sum()),
        "round trip",
        None,
        None,
        None,
        None,
        0,
        at,
        took,
        took,
        back,
        1 - back,
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.one_of(st.none(), st.integers(1, 10**8))),
        max_size=60,
        unique_by=lambda probe: probe[0],
    ),
    st.integers(1, 40),
)
def test_the_slowest_and_every_lost_probe_are_drawn(probes, buckets):
    points = latency(probes).view(0, 1001, buckets)
    answered = [value for _, value in probes if value is not None]
    assert points.largest.max(initial=0) == max(answered, default=0)
    assert points.lost_ns.tolist() == sorted(when for when, value in probes if value is None)
    width = -(-1001 // buckets) if len(probes) > buckets else 1
    for at, largest, median in zip(points.at_ns, points.largest, points.median, strict=True):
        group = sorted(value for when, value in probes if value is not None and when // width == at // width)
        assert largest == group[-1]
        assert median == group[(len(group) - 1) // 2]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 120), st.integers(0, 10**7)), max_size=40),
    st.integers(0, 800),
    st.integers(1, 300),
    st.integers(1, 12),
)
def test_a_queue_is_as_full_as_its_fullest_window_wherever_that_reaches(windows, start, length, buckets):
    windows.sort()
    columns = [np.array(column, np.int64) for column in zip(*windows, strict=True)] or [np.zeros(0, np.int64)] * 3
    queue = context.QueueWindows(
        "tor",
        "p",
        "0",
        "gauge",
        len(windows),
        None,
        None,
        0,
        0,
        columns[0],
        columns[0] + columns[1],
        columns[2],
        columns[2] * 0,
    )
    end = start + length
    shown = queue.view(start, end, buckets)
    touching = [(a, a + n, high) for a, n, high in windows if a + n >= start and a < end]
    assert max((high for *_, high in shown), default=-1) == max((high for *_, high in touching), default=-1)
    assert len(shown) <= max(buckets + 1, len(touching) if len(touching) <= buckets else 0)
    if len(touching) <= buckets:
        assert sorted(shown) == sorted(touching)


@pytest.fixture
def con(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    exchanges = [
        {
            "seq": i,
            "tx_ns": START + i * 1000,
            "rx_ns": START + i * 1000 + 500,
            "app_send_ns": START + i * 1000 - 100,
            "app_recv_ns": START + i * 1000 + 600 + 10 * i,
            "src": "api",
            "dst": "cache",
        }
        for i in range(100)
    ]
    write(
        store,
        "probes",
        *exchanges,
        {"seq": 200, "tx_ns": START + 50_500, "lost": True, "src": "api", "dst": "cache"},
        {"seq": 0, "tx_ns": START, "rx_ns": START + 70, "src": "x", "dst": "y"},
        {"seq": 1, "tx_ns": START + 1, "rtt_ns": 90, "src": "x", "dst": "y"},
    )  # another measure: no figure shows it
    write(
        store,
        "queues",
        *(
            {"window_start_ns": START + i * 1000, "ts_ns": START + (i + 1) * 1000, "max_bytes": i, "dropped_packets": 1}
            for i in range(100)
        ),
        {"window_start_ns": START, "ts_ns": START + 5, "avg_bytes": 7, "queue": "1"},
    )
    return store.connect()


def test_each_path_has_latencies_of_one_measure(con):
    paths, count = context.read_latency(con, "y", START, START + 10**6, 8, 1000)
    assert count == 2 and [path.name for path in paths] == ["x → y (udp)", "api → cache (udp)"]
    assert (paths[0].largest.tolist(), paths[0].measure, paths[0].measured) == ([70, -1], "round trip", 1)
    cache = paths[1]
    assert (cache.probes, cache.lost_probes, cache.measured, cache.max_ns) == (101, 1, 100, 700 + 990)
    assert (cache.measure, cache.p99_ns, cache.p999_ns) == ("application", 700 + 980, None)
    assert cache.p50_ns == 700 + 490 and cache.largest.tolist().count(-1) == 1
    assert context.read_latency(con, "y", START, START + 10**6, 1, 1000)[1] == 2


def test_cells_of_many_probes_keep_the_slowest_probe(con):
    cache = context.read_latency(con, "cache", START, START + 10**5, 1, 10)[0][0]
    assert cache.width_ns == 10**4 and len(cache.at_ns) == 10
    assert cache.largest.tolist() == [700 + 10 * (10 * i + 9) for i in range(10)]
    assert cache.n.sum() == 100 and cache.lost.sum() == 1


def test_queues_are_windows_with_the_fullest_first(con):
    queues, count = context.read_queues(con, START, START + 10**6, 8, 1000)
    assert count == 2 and [queue.max_bytes for queue in queues] == [99, 7]
    assert queues[0].dropped_packets == 100 and len(queues[0].start_ns) == 100
    assert (queues[0].end_ns - queues[0].start_ns).tolist() == [1000] * 100
    cells = context.read_queues(con, START, START + 10**5, 1, 10)[0][0]
    assert cells.width_ns == 10**4 and len(cells.start_ns) <= 11 and cells.largest.max() == 99
