"""The report of a rack, against the stored data and against a slow and plain computation."""

from __future__ import annotations

import dataclasses
import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racklib import DAY, FULL, HOUR, MS, START, fill, report
from storelib import write

from mburst.analysis.bursts.contention import Contention, contention
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.rack.report import slot_width
from mburst.sql import StoreFolder, in_memory


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


def test_hosts_hours_and_lengths(store):
    hour = 3_600_000
    fill(store, {"a": [(3 * hour + 5, 20), (3 * hour + 900, 10)], "b": [(23 * hour, 3)], "c": []})
    page = report(store)
    a, b, c = page.lanes
    assert [lane.host for lane in page.lanes] == ["a", "b", "c"]
    assert (a.bursts, a.burst_ns, a.longest_ns, a.p50_ns) == (2, 30 * MS, 20 * MS, 10 * MS)
    assert (b.bursts, c.bursts, c.longest_ns) == (1, 0, None)
    assert (a.peak_utilization, a.peak_bin_ns) == (1.0, MS) and c.peak_bin_ns is None
    assert a.fan_in == 1 and a.patterns["single-source"] == 2
    assert [cell.bursts for cell in page.cells[0]] == [2 if slot == 3 else 0 for slot in range(24)]
    assert page.cells[0][3].burst_ns == 30 * MS and page.cells[1][23].burst_ns == 3 * MS
    assert page.duration.n == 3 and page.duration.largest == 20 * MS
    assert a.busiest_bin == 1e9 and a.busiest_second == (20 + 10) * 125_000 * 8
    assert page.slot_ns == HOUR and all(cell.recorded_ns >= HOUR - 1 for cell in page.cells[2])


def test_a_burst_across_the_end_of_an_hour_is_in_both_hours(store):
    fill(store, {"a": [(3_600_000 - 4, 10)]})
    cells = report(store).cells[0]
    assert [(cell.bursts, cell.burst_ns) for cell in cells[:3]] == [(1, 4 * MS), (0, 6 * MS), (0, 0)]


def test_only_the_period_and_the_rack_count(store):
    fill(store, {"a": [(50, 10)]})
    fill(store, {"a": [(70, 10), (90_000, 10)]}, start=START + DAY)
    fill(store, {"z": [(50, 10)]}, rack="r2")
    assert report(store).bursts == 1
    assert report(store, start=START + DAY).bursts == 2
    assert report(store, length=40 * MS).bursts == 0
    assert [lane.host for lane in report(store, "r2").lanes] == ["z"]


def test_a_rack_without_data_is_reported(store):
    fill(store, {"a": [(50, 10)]})
    for page in (report(store, "nowhere"), report(store, start=START - 10 * DAY)):
        assert not page.recorded and page.lanes == [] and page.new is None
        json.dumps(dataclasses.asdict(page), allow_nan=False)


def test_a_recording_under_way_counts_to_its_last_bin(store):
    fill(store, {"a": [(50, 10)]}, complete=False, end_ns=None)
    page = report(store)
    assert page.lanes[0].recorded_ns == 9001 * MS and page.lanes[0].cut_off == 1
    assert page.cells[0][1].recorded_ns == 0


def test_an_unknown_link_speed_hides_no_other_host(store):
    fill(store, {"a": [(50, 10)]})
    fill(store, {"b": [(50, 10)]}, link_bps=None)
    a, b = report(store).lanes
    assert (a.bursts, b.bursts, b.link_bps) == (1, 0, None) and b.packets
    assert [lane.bursts for lane in report(store, link_bps=10**9).lanes] == [1, 1]


def test_senders_that_feed_several_hosts(store):
    fill(store, {"a": [(50, 10)], "b": [(50, 10)]}, senders=["10.0.0.1", "10.0.0.2"])
    fill(store, {"c": [(500, 10)]}, senders=["10.0.0.2"])
    page = report(store)
    assert [(feeder.source, feeder.hosts, feeder.bursts) for feeder in page.feeders] == [
        ("10.0.0.2", ["a", "b", "c"], 3),
        ("10.0.0.1", ["a", "b"], 2),
    ]
    assert page.fed_bytes == sum(feeder.bytes for feeder in page.feeders) == pytest.approx(30 * 124_976, rel=1e-4)


def test_change_and_new_hosts_and_senders(store):
    fill(store, {"a": [(50, 10)], "b": [], "gone": []}, start=START - DAY)
    fill(store, {"a": [(50, 10)], "b": []}, start=START - 7 * DAY)
    fill(store, {"a": [(50, 10), (900, 10)], "b": [(50, 10)]}, senders=["10.0.0.1", "10.9.9.9"])
    page = report(store)
    assert page.previous.then.bursts == 1 and page.previous.now.bursts == 3 and page.previous.missing == ["gone"]
    assert page.weekday.then.bursts == 1 and page.weekday.since_ns == START - 7 * DAY
    assert [lane.host for lane in page.new.lanes] == ["b"]
    assert [source for source, _ in page.new.senders] == ["10.9.9.9"]
    assert page.previous.comparable


def test_change_compares_received_bursts(store):
    """This also holds if sent traffic is recorded now and was not before."""
    fill(store, {"a": [(50, 10)]}, start=START - DAY)
    fill(store, {"a": [(50, 10)]})
    for table, row in (
        ("recordings", {"start_ns": START, "end_ns": START + DAY - 1, "written_ns": START + DAY}),
        ("bins", {"ts_ns": START + 900 * MS, "wire_bytes": FULL, "bytes": FULL - 24}),
    ):
        write(store, table, {"recording_id": "out", "host": "a", "rack": "r1", "direction": "out", **row})
    page = report(store)
    assert page.previous.now == page.previous.then and page.previous.now.per_hour == pytest.approx(1 / 24)
    assert [(lane.direction, lane.now.bursts) for lane in page.previous.lanes] == [("in", 1), ("out", 1)]


def test_nothing_is_new_without_an_earlier_period(store):
    fill(store, {"a": [(50, 10)]})
    page = report(store)
    assert page.previous is None and page.weekday is None and page.new is None


def test_contention(store):
    fill(store, {"a": [(50, 10)], "b": [(55, 10)], "c": [(500, 10)]})
    found = report(store).contention
    assert (found.hosts, found.bursts, found.most, found.contended_ns) == (3, 3, 2, 5 * MS)
    assert found.share == pytest.approx(2 / 3) and found.most_ns == START + 55 * MS
    assert [(pair.hosts, pair.shared_ns) for pair in found.pairs] == [(("a", "b"), 5 * MS)]
    assert report(store, length=60 * MS).contention.by_host == {"a": 1.0, "b": 1.0}


@pytest.fixture(scope="module")
def con():
    """A database without rows; overlap() adds some."""
    with in_memory(1) as con:
        yield con


def overlap(con: duckdb.DuckDBPyConnection, rows: list[tuple[str, str, int, int]]) -> Contention | None:
    """Computes contention from (rack, host, start, end), as detect_bursts leaves them."""
    names = ("rack", "receiver", "start_ns", "end_ns")
    types = (pa.string(), pa.string(), pa.int64(), pa.int64())
    columns = {name: pa.array([row[i] for row in rows], types[i]) for i, name in enumerate(names)}
    columns["recording_id"] = pa.array([str(number) for number in range(len(rows))], pa.string())
    columns["burst"] = pa.array(range(len(rows)), pa.int64())
    columns["clock_epoch"] = pa.array([0] * len(rows), pa.int64())
    con.register("bursts", pa.table(columns))
    con.register("recorded", pa.table(columns))
    return contention(con, pairs=100)


def test_contention_is_between_hosts_of_one_rack(con):
    seen = overlap(con, [("r1", "a", 0, 10), ("r1", "b", 5, 15), ("r2", "c", 6, 9), ("r1", "a", 50, 60)])
    assert (seen.hosts, seen.bursts, seen.share, seen.most, seen.contended_ns) == (2, 3, pytest.approx(2 / 3), 2, 5)
    assert [(pair.hosts, pair.shared_ns) for pair in seen.pairs] == [(("a", "b"), 5)] and 0 < seen.usual < 1
    assert overlap(con, [("r1", "a", 0, 10), ("r2", "b", 0, 10)]) is None
    both = overlap(con, [(rack, host, 0, 10) for rack in ("r1", "r2") for host in ("a", "b")])
    assert (both.hosts, both.bursts, both.share, both.most, both.contended_ns) == (4, 4, 1.0, 2, 20)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 6)), max_size=6)


@pytest.mark.costly
@settings(deadline=None, max_examples=25)
@given(st.lists(spans, min_size=2, max_size=4))
def test_contention_is_what_counting_every_tick_says(con, hosts):
    ticks = [sorted({at for start, n in own for at in range(start, start + n)}) for own in hosts]
    rows = [
        (f"h{i}", run[0], run[-1] + 1)
        for i, own in enumerate(ticks)
        for run in np.split(own, np.flatnonzero(np.diff(own) > 1) + 1)
        if len(run)
    ]
    found = overlap(con, [("r1", *row) for row in rows])
    bursting = [own for own in ticks if own]
    if len(bursting) < 2:
        assert found is None
        return
    at_once = {tick: sum(tick in own for own in ticks) for own in ticks for tick in own}
    assert found.most == max(at_once.values())
    assert found.most_ns == min(tick for tick, n in at_once.items() if n == found.most)
    assert found.contended_ns == sum(n >= 2 for n in at_once.values())
    contended = [any(at_once[tick] > 1 for tick in range(start, end)) for _, start, end in rows]
    assert found.share == pytest.approx(sum(contended) / len(rows))
    for pair in found.pairs:
        a, b = (set(ticks[int(name[1:])]) for name in pair.hosts)
        assert pair.shared_ns == len(a & b) > 0


def test_probes_in_and_out_of_bursts(store):
    fill(store, {"a": [(50, 10)], "b": [(500, 10)]})
    rtt = {0: 1000, 49: 2 * MS, 55: 3 * MS, 60: 1000, 505: 1000, 700: None}
    for dst in ("a", "elsewhere"):
        write(
            store,
            "probes",
            *(
                {
                    "seq": i,
                    "src": "x",
                    "dst": dst,
                    "tx_ns": START + at * MS,
                    "lost": length is None,
                    "rx_ns": None if length is None else START + at * MS + length,
                }
                for i, (at, length) in enumerate(rtt.items())
            ),
        )
    page = report(store)
    [path] = page.paths
    assert (path.src, path.dst, page.unplaced_probes) == ("x", "a", 6)
    # probe 49 was under way when the burst of 50 to 60 ms began; probe 60 began after it; b is not on the path
    assert (path.met.sent, path.met.n, path.met.max_ns) == (2, 2, 3 * MS)
    assert (path.clear.sent, path.clear.n, path.clear.lost, path.clear.max_ns) == (4, 3, 1, 1000)
    assert path.met.p50_ns == 2 * MS and path.met.p99_ns is None


@pytest.mark.costly
@settings(deadline=None, max_examples=3)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40)), min_size=1, max_size=30), spans, spans)
def test_probes_are_placed_as_comparing_each_with_each_burst_does(tmp_path_factory, probes, here, there):
    store = StoreFolder.create(tmp_path_factory.mktemp("probes") / "store")
    fill(store, {"a": [(start * 7, n) for start, n in here], "x": [(start * 7, n) for start, n in there]})
    write(
        store,
        "probes",
        *(
            {"seq": i, "src": "x", "dst": "a", "tx_ns": START + at * MS, "rx_ns": START + at * MS + length * MS}
            for i, (at, length) in enumerate(probes)
        ),
    )
    bursts = find_bursts(store.connect(), BurstDefinition(), until_ns=START + DAY)
    met = sum(
        any(burst["start_ns"] <= START + (at + length) * MS and burst["end_ns"] > START + at * MS for burst in bursts)
        for at, length in probes
    )
    [path] = report(store).paths
    assert (path.met.sent, path.clear.sent) == (met, len(probes) - met)


def test_queues_that_were_deep_or_dropped(store):
    fill(store, {"a": [(50, 10)]})
    window = {"semantics": "max-since-last"}
    write(
        store,
        "queues",
        *(
            {
                **window,
                "port": port,
                "window_start_ns": START + i * MS,
                "ts_ns": START + (i + 1) * MS,
                "max_bytes": size,
                "dropped_packets": drops,
            }
            for port, sizes in (
                ("p1", [(0, 0), (900, 0), (900, 0)]),
                ("p2", [(5, 0), (7, 3), (0, 0)]),
                ("p3", [(0, 0)] * 3),
            )
            for i, (size, drops) in enumerate(sizes)
        ),
    )
    page = report(store)
    assert [(queue.port, queue.max_bytes, queue.dropped, queue.dropping_windows) for queue in page.queues] == [
        ("p2", 7, 3, 1),
        ("p1", 900, 0, 0),
    ]
    assert page.queues[1].max_at_ns == START + MS and page.queue_count == 3 and not page.queues_known


def test_links_show_which_queues_belong_to_the_rack(store):
    fill(store, {"a": [(50, 10)], "b": [(50, 10)]})
    link = {"batch": "b", "queue": "", "origin": "lldp", "present": True, "interface": "eth0", "rack": ""}
    month = 30 * DAY
    write(
        store,
        "links",
        {**link, "ts_ns": START - month, "host": "a", "device": "tor-1", "port": "p1"},
        {**link, "ts_ns": START - month, "host": "z", "device": "tor-1", "port": "p2"},
        {**link, "ts_ns": START + DAY + 1, "host": "a", "device": "tor-1", "port": "p1", "present": False},
        {**link, "ts_ns": START + DAY + 1, "host": "b", "device": "tor-1", "port": "p4"},  # reported after it
    )
    write(
        store,
        "queues",
        *(
            {"port": port, "window_start_ns": START, "ts_ns": START + MS, "max_bytes": 900}
            for port in ("p1", "p2", "p3", "p4")
        ),
    )
    page = report(store)
    assert page.queues_known and page.queue_count == 2
    assert [(queue.port, queue.hosts) for queue in page.queues] == [("p1", ["a eth0"]), ("p4", ["b eth0"])]


def test_the_width_of_slots_depends_on_the_length_of_the_period():
    assert [slot_width(n) for n in (20 * 10**9, 30 * 60 * 10**9, DAY, 7 * DAY, 30 * DAY)] == [
        10**9,
        60 * 10**9,
        HOUR,
        HOUR,
        DAY,
    ]


def test_the_same_period_gives_the_same_facts(store):
    fill(
        store,
        {f"h{i}": [(i * 100 + j * 977, 3 + j % 7) for j in range(40)] for i in range(4)},
        senders=[f"10.0.0.{i}" for i in range(9)],
    )
    first, second = (json.dumps(dataclasses.asdict(report(store)), sort_keys=True) for _ in range(2))
    assert first == second


@pytest.mark.costly
@settings(deadline=None, max_examples=3)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 30)), max_size=8),
        min_size=1,
    )
)
def test_sums_are_those_of_the_list_of_bursts(tmp_path_factory, hosts):
    store = StoreFolder.create(tmp_path_factory.mktemp("sums") / "store")
    fill(store, hosts)
    bursts = find_bursts(store.connect(), BurstDefinition())
    page = report(store)
    for lane, cells in zip(page.inbound, page.cells, strict=True):
        mine = [burst for burst in bursts if burst["host"] == lane.host]
        assert lane.bursts == len(mine) == sum(cell.bursts for cell in cells)
        assert lane.burst_ns == sum(burst["duration_ns"] for burst in mine) == sum(cell.burst_ns for cell in cells)
        assert lane.burst_bytes == sum(burst["bytes"] for burst in mine)
        assert lane.longest_ns == max((burst["duration_ns"] for burst in mine), default=None)
    assert [burst["bytes"] for burst in page.worst] == sorted((b["bytes"] for b in bursts), reverse=True)[:20]


def test_two_overlapping_recordings_of_an_interface_count_once(store):
    """They overlap as when a recorder is replaced. So do their bursts, by half of each."""
    fill(store, {"a": [(1000, 100)]})
    fill(store, {"a": [(50, 100)]}, start=START + 1000 * MS, length=HOUR)
    page = report(store)
    [lane], [cells] = page.inbound, page.cells
    assert (lane.bursts, lane.burst_ns) == (2, 150 * MS)
    assert (sum(cell.bursts for cell in cells), sum(cell.burst_ns for cell in cells)) == (2, 150 * MS)


def test_the_busiest_second_is_that_of_all_recordings(store):
    """The recorder is replaced within a second. Of two recordings that overlap in it, the fuller one counts."""
    for name, hot in (("old", range(100, 120)), ("new", range(400, 430)), ("beside", range(200, 205)), ("long", [50])):
        last = 2500 if name == "long" else hot[-1]
        of = {"recording_id": name, "host": "long" if name == "long" else "a"}
        run = {"start_ns": START + hot[0] * MS, "end_ns": START + last * MS, "packets": 1, "written_ns": START + HOUR}
        write(store, "recordings", {**of, **run})
        write(store, "bins", *({**of, "ts_ns": START + ms * MS, "wire_bytes": FULL} for ms in {*hot, last}))
    write(store, "recordings", {**run, "recording_id": "over", "host": "a", "start_ns": START + 410 * MS})
    write(store, "bins", {"recording_id": "over", "host": "a", "ts_ns": START + 410 * MS, "wire_bytes": FULL})
    a, long = report(store).lanes
    assert (a.busiest_second, long.busiest_second) == ((20 + 5 + 30) * FULL * 8, FULL * 8)
