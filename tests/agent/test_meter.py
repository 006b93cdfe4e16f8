"""The meter's counts equal the store's, however often the meter reads it."""

from __future__ import annotations

import urllib.parse
import urllib.request
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racklib import FULL, MS
from storelib import rows, write

from mburst.agent.metrics import exporter
from mburst.agent.metrics.counts import LaneName
from mburst.agent.metrics.meter import Meter
from mburst.agent.metrics.since import Largest
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.sql import StoreFolder
from mburst.web.address import where_of

NOW = 1_795_132_800 * 10**9
LANE = LaneName("r1", "cache-1", "eth0", "in")


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


@pytest.fixture
def writers(store):
    """A recording that goes on: its row in `recordings`, and writers that stay open."""
    writers = {table: store.writer(table, host="cache-1", rack="r1") for table in ("recordings", "bins", "sources")}
    writers["recordings"].append(rows("recordings", {"complete": False, "start_ns": NOW}))
    yield writers
    for writer in writers.values():
        writer.close()


@pytest.fixture(autouse=True)
def bins_alone(monkeypatch):
    """Most tests write bins without senders, so the meter need not wait for senders."""
    monkeypatch.setattr("mburst.analysis.bursts.follower.LATE_NS", 0)


def bins(first: int, sizes: list[int], quality: int = 2) -> object:
    return rows(
        "bins",
        *(
            {"ts_ns": NOW + (first + i) * MS, "wire_bytes": size, "bytes": size, "quality": quality}
            for i, size in enumerate(sizes)
            if size
        ),
    )


def meter(store: StoreFolder) -> Meter:
    return Meter(store, BurstDefinition(), NOW)


def count(of: Meter) -> int:
    return sum(of.lanes[LANE].bursts.values())


def test_a_burst_is_counted_once_after_its_end(store, writers, monkeypatch):
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 100 * MS)
    of = meter(store)
    writers["bins"].append(bins(0, [FULL] * 4))
    of.advance("a")
    assert count(of) == 0  # it may go on
    writers["bins"].append(bins(4, [FULL] * 2 + [100] * 20))
    for _ in range(3):
        of.advance("a")
    lane = of.lanes[LANE]
    assert count(of) == 1 and lane.burst_ns == 6 * MS
    assert lane.packets == 26 and lane.wire_bytes == 6 * FULL + 2000 and lane.stamped["sw"] == 26
    assert lane.durations.counts[lane.durations.bounds.index(1e-2)] == 1


def test_a_burst_waits_for_its_senders(store, writers, monkeypatch):
    """Senders are appended after the bins, and the meter may read the store in between."""
    monkeypatch.setattr("mburst.analysis.bursts.follower.LATE_NS", 10**9)
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 100 * MS)
    of = meter(store)
    writers["bins"].append(bins(0, [FULL] * 4 + [100] * 20))
    of.advance("a")
    assert count(of) == 0
    writers["sources"].append(
        rows(
            "sources",
            *(
                {"ts_ns": NOW + i * MS, "bytes": FULL, "first_ns": NOW + i * MS, "last_ns": NOW + (i + 1) * MS - 1}
                for i in range(5)
            ),
        )
    )
    of.advance("a")
    assert {name: n for name, n in of.lanes[LANE].bursts.items() if n} == {"single-source": 1}


def test_silence_and_the_end_of_a_recording_end_a_burst(store, writers, monkeypatch):
    of = meter(store)
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 100 * MS)
    writers["bins"].append(bins(0, [FULL] * 4))
    of.advance("a")
    assert count(of) == 0
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 60_000 * MS)
    of.advance("a")
    of.advance("a")
    assert count(of) == 1
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 60_100 * MS)
    writers["bins"].append(bins(60_000, [FULL] * 4))
    of.advance("a")
    assert count(of) == 1
    writers["recordings"].append(
        rows(
            "recordings",
            {"complete": True, "start_ns": NOW, "end_ns": NOW + 60_004 * MS, "dropped": 7, "written_ns": 2 * 10**18},
        )
    )
    of.advance("a")
    assert count(of) == 2 and (of.dropped[LANE[:-1]], of.late[LANE]) == (7, 0)


def test_dropped_packets_of_both_directions_count_once(store, writers):
    """Both recordings of a capture have the drops of both; a row that comes again adds nothing."""
    of, ended = meter(store), {"complete": True, "start_ns": NOW, "end_ns": NOW + MS, "capture_id": "both"}
    for written, dropped in ((1, 7), (2, 7), (3, 9)):
        for direction in ("in", "out"):
            row = {**ended, "recording_id": direction, "direction": direction, "dropped": dropped}
            writers["recordings"].append(rows("recordings", {**row, "written_ns": written}))
        of.advance("a")
        assert of.dropped == {LANE[:-1]: dropped}


@pytest.mark.parametrize("started", ["before", "after"])
def test_time_in_bursts_is_time_that_was_recorded(store, writers, started):
    """Bins of 1 s begin before the recording and end after it."""
    wide = BurstDefinition(bin_ns=1000 * MS, threshold=0.2)
    of = Meter(store, wide, NOW) if started == "before" else None
    span = {"start_ns": NOW + 500 * MS, "end_ns": NOW + 800 * MS - 1}
    writers["bins"].append(bins(500, [FULL] * 300))
    writers["recordings"].append(rows("recordings", {"complete": True, **span, "written_ns": 2 * 10**18}))
    of = of or Meter(store, wide, NOW)
    for _ in range(2):
        of.take()
        lane = of.lanes[LANE]
        assert (count(of), lane.burst_ns) == (1, 300 * MS)


def test_each_scraper_gets_the_peak_since_its_last_scrape(store, writers):
    of = meter(store)
    writers["bins"].append(bins(0, [FULL // 2, 100]))
    assert of.advance("a") == {LANE: {"1ms": 0.5}}
    writers["bins"].append(bins(10, [FULL // 4]))
    assert of.advance("a") == {LANE: {"1ms": 0.25}}
    assert of.advance("a") == {}
    assert of.advance("b") == {LANE: {"1ms": 0.5}}


def test_scrapers_that_never_come_back_are_forgotten(store, writers, monkeypatch):
    monkeypatch.setattr("mburst.agent.metrics.since.SCRAPERS", 3)
    of = meter(store)
    writers["bins"].append(bins(0, [FULL // 2]))
    for i in range(5):
        of.advance(f"scraper {i}")
    assert of.advance("scraper 4") == {} and of.advance("scraper 0") == {LANE: {"1ms": 0.5}}


def test_losses_and_kinds_of_stamps_are_counted(store, writers):
    of = meter(store)
    writers["bins"].append(bins(0, [100, 100], quality=1 | 32))
    writers["bins"].append(bins(5, [100], quality=4))
    of.advance("a")
    lane = of.lanes[LANE]
    assert lane.bins_with_drops == 2 and lane.stamped == {"hw": 2, "sw": 0, "ring": 1, "file_us": 0}


def test_rows_from_before_the_start_do_not_count(store):
    write(store, "recordings", {"start_ns": NOW - 10**9, "end_ns": NOW - 1})
    write(store, "bins", {"ts_ns": NOW - 10**9, "wire_bytes": FULL, "bytes": FULL})
    of = meter(store)
    of.advance("a")
    assert not of.lanes


def test_probes_and_queues(store):
    write(
        store,
        "probes",
        *(
            {
                "seq": i,
                "tx_ns": NOW + i * MS,
                "lost": i == 3,
                "rx_ns": None if i == 3 else NOW + i * MS + 1000 * (i + 1),
            }
            for i in range(10)
        ),
    )
    write(store, "queues", {"window_start_ns": NOW, "ts_ns": NOW + 1, "max_bytes": 77, "dropped_packets": 2})
    of = meter(store)
    of.advance("a")
    of.advance("a")
    assert of.paths["a", "b", "udp"][:2] == (10, 1)
    assert of.queues["tor-1", "swp1", "0"] == (2, 77, 0)


def test_drops_that_a_switch_does_not_report_have_no_sample(store):
    """A 0 would state that nothing was dropped."""
    write(store, "queues", {"window_start_ns": NOW, "ts_ns": NOW + 1, "max_bytes": 77})
    of = meter(store)
    found = [metric for metric in exporter.Exporter(of).collect() if metric.name == "mburst_queue_dropped_packets"]
    assert [metric.samples for metric in found] == [[]] and of.queues["tor-1", "swp1", "0"] == (None, 77, 0)
    with store.writer("queues") as writer:
        writer.append(rows("queues", {"window_start_ns": NOW + 1, "ts_ns": NOW + 2, "dropped_packets": 0}))
        of.advance("a")
    assert of.queues["tor-1", "swp1", "0"].dropped == 0


def test_a_window_from_two_collections_counts_once(store):
    """Whenever the collections arrive. Counts of overlapping windows are not added twice either. The last three windows
    are of a device that sets its clock."""
    window = {"window_start_ns": NOW, "ts_ns": NOW + 10 * MS, "max_bytes": 5000, "dropped_packets": 3}
    doubted = {**window, "max_bytes": 10**12, "quality": 1024}
    write(store, "queues", window, doubted)
    of = meter(store)
    of.advance("a")
    with store.writer("queues") as writer:
        for batch in ("batch-2", "batch-3"):
            writer.append(rows("queues", *({**row, "batch": batch} for row in (window, doubted))))
            of.advance("a")
        assert of.queues["tor-1", "swp1", "0"] == (3, 5000, 1)
        for number, begin, end, dropped in (
            (2, 0, 20, 3),
            (2, 10, 20, 6),
            (3, 5, 15, 6),
            (2, 20, 30, 9),
            (3, 15, 25, 9),
            (2, 16, 26, 12),  # overlapping windows of one collection all count
            (2, 3_600_000, 3_600_010, 15),
            (2, 40, 50, 18),
            (3, 42, 52, 18),
        ):
            later = {"window_start_ns": NOW + begin * MS, "ts_ns": NOW + end * MS, "batch": f"batch-{number}"}
            writer.append(rows("queues", {**window, **later}))
            of.advance("a")
            assert of.queues["tor-1", "swp1", "0"] == (dropped, 5000, 1), (begin, end)


def test_the_state_of_a_gnmi_target_holds_until_its_next_event(store):
    def event(device: str, at: int, name: str) -> dict[str, object]:
        subscription = "otlp" if device == "sender" else ""
        return {"device": device, "subscription": subscription, "ts_ns": at, "event": name, "detail": "", "batch": "b"}

    long_ago = NOW - 40 * 86_400 * 10**9
    write(
        store,
        "gnmi_events",
        event("tor-1", long_ago, "connect"),
        event("tor-1", long_ago + 1, "sync"),
        event("tor-2", long_ago, "connect"),
        event("tor-2", long_ago + 1, "disconnect"),
        event("sender", long_ago + 1, "refused"),  # OTLP has no targets
    )
    of = meter(store)
    of.advance("a")
    assert of.targets == {"tor-1": True, "tor-2": False}
    with store.writer("gnmi_events") as writer:
        writer.append(rows("gnmi_events", event("tor-1", NOW, "disconnect"), event("tor-1", NOW + 1, "gap")))
        writer.append(rows("gnmi_events", event("sender", NOW, "refused")))
        of.advance("a")
    assert of.targets == {"tor-1": False, "tor-2": False}


@pytest.mark.costly
@settings(deadline=None, max_examples=4)
@given(st.lists(st.sampled_from([0, 100, FULL]), min_size=1, max_size=60), st.lists(st.integers(1, 20), max_size=6))
def test_any_cuts_give_the_same_counts(tmp_path_factory, sizes, cuts):
    store = StoreFolder.create(tmp_path_factory.mktemp("cuts") / "store")
    of, at = meter(store), 0
    with (
        store.writer("recordings", "cache-1", "r1") as runs,
        store.writer("bins", "cache-1", "r1") as writer,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW)
        runs.append(rows("recordings", {"complete": False, "start_ns": NOW}))
        for cut in [*cuts, len(sizes)]:
            part = sizes[at : at + cut]
            if any(part):
                writer.append(bins(at, part))
            at += cut
            of.advance("a")
        runs.append(rows("recordings", {"start_ns": NOW, "end_ns": NOW + 10**9, "written_ns": 2 * 10**18}))
        of.advance("a")
    whole = find_bursts(store.connect(), BurstDefinition())
    assert count(of) == len(whole)
    assert of.lanes[LANE].burst_ns == sum(burst["duration_ns"] for burst in whole)
    assert of.lanes[LANE].wire_bytes == sum(sizes)


def test_a_reading_takes_only_the_new_rows(store, writers, monkeypatch):
    """Work is counted in rows, because time depends on the machine."""
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 10**9)
    of, read, kept = meter(store), [], []
    monkeypatch.setattr(StoreFolder, "connect", lambda *_: pytest.fail("the store is asked only when a meter is made"))
    for step in range(15):
        writers["bins"].append(bins(step * 100, [FULL] * 5 + [100] * 95))
        before = of.rows_read
        of.advance("a")
        read.append(of.rows_read - before)
        kept.append(of.kept_rows)
    assert set(read) == {100} and max(kept) < 200 and count(of) == 15
    of.advance("a")
    assert of.rows_read == 1500


def test_a_burst_of_minutes_is_held_in_pieces(store, writers, monkeypatch):
    monkeypatch.setattr("mburst.analysis.bursts.follower.LONGEST_NS", 500 * MS)
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 3000 * MS)
    of, kept = meter(store), []
    for step in range(12):
        writers["bins"].append(bins(step * 100, [FULL] * 100))
        of.advance("a")
        kept.append(of.kept_rows)
    assert max(kept) <= 700 and of.lanes[LANE].burst_ns >= 500 * MS


def test_a_restarted_meter_counts_the_same(store, writers, monkeypatch):
    """Rows that were stored while no meter ran are counted, and a burst that continues is not counted twice."""
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 10**9)
    of = meter(store)
    writers["bins"].append(bins(0, [FULL] * 4 + [100] * 20 + [FULL] * 3))
    of.advance("a")
    again = meter(store)  # in the middle of a burst
    writers["bins"].append(bins(27, [FULL] * 2 + [100] * 20))
    for each in (of, again):
        each.advance("a")
        each.advance("b")
    assert count(of) == count(again) == 2 and of.lanes[LANE] == again.lanes[LANE]
    assert of.lanes[LANE].burst_ns == 9 * MS


def test_rows_that_arrive_while_a_meter_starts_count_once(store, writers, monkeypatch):
    from mburst.sql.follow import TableFollower

    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 10**9)
    poll, connect = TableFollower.poll, StoreFolder.connect

    def late(tail):  # after the store was read, before the tables are followed
        if tail._table == "bins" and not late.done:
            late.done = True
            writers["bins"].append(bins(20, [100] * 3))
        return poll(tail)

    def early(*arguments):  # after the followers started, before the store is read
        if not early.done:
            early.done = True
            writers["bins"].append(bins(10, [100] * 4))
        return connect(*arguments)

    late.done = early.done = False
    monkeypatch.setattr(TableFollower, "poll", late)
    monkeypatch.setattr(StoreFolder, "connect", early)
    writers["bins"].append(bins(0, [100] * 5))
    of = meter(store)
    of.advance("a")
    assert of.lanes[LANE].packets == 12


def test_each_scraper_gets_the_latencies_since_its_last_scrape(store, monkeypatch):
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 10**9)
    of = meter(store)
    with store.writer("probes") as writer:
        for first in (1000, 5000):
            writer.append(
                rows(
                    "probes",
                    *({"seq": i, "tx_ns": NOW + i, "lost": False, "rx_ns": NOW + i + first} for i in range(10)),
                )
            )
            of.advance("a")
            assert of.paths["a", "b", "udp"].quantiles == (first / 1e9, first / 1e9, None, None)
        of.advance("a")
        assert of.paths["a", "b", "udp"].quantiles == ()
        of.advance("b")
        assert of.paths["a", "b", "udp"].quantiles == (1e-6, 5e-6, None, None)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.sampled_from(["x", "y", None])), max_size=40))
def test_the_largest_since_each_asked(steps):
    of, largest = Largest(), {"x": 0, "y": 0}
    asked: set[str] = set()
    for at, (key, value, scraper) in enumerate(steps, 1):
        of.add(key, value)
        if scraper:
            since = largest[scraper] if scraper in asked else 0
            expected: dict[str, int] = {}
            for other, number, _ in steps[since:at]:
                expected[other] = max(expected.get(other, 0), number)
            assert of.take(scraper) == expected
            largest[scraper] = at
            asked.add(scraper)


def test_a_client_that_resets_the_connection_causes_no_traceback(store, capfd):
    import socket
    import struct

    made = exporter.MetricsService(meter(store), where_of("127.0.0.1:0", 9620, None, None, None, True))
    thread = Thread(target=made.run)
    thread.start()
    try:
        port = urllib.parse.urlsplit(made.url).port
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")  # closing resets the connection
        got = urllib.request.urlopen(made.url)
        head = urllib.request.urlopen(urllib.request.Request(made.url, method="HEAD"))
        assert head.status == 200 and head.read() == b"" and int(head.headers["Content-Length"]) == len(got.read())
        assert got.version == 11
    finally:
        made.stop()
        thread.join()
    assert "Traceback" not in capfd.readouterr().err


def test_a_scrape_has_the_counts_of_the_store(store):
    from prometheus_client.parser import text_string_to_metric_families

    write(store, "recordings", {"start_ns": NOW, "end_ns": NOW + 10**9})
    write(store, "bins", *({"ts_ns": NOW + i * MS, "wire_bytes": FULL, "bytes": FULL} for i in range(3)))
    of = meter(store)
    made = exporter.MetricsService(of, where_of("127.0.0.1:0", 9620, None, None, None, True))
    thread = Thread(target=made.run)
    thread.start()
    try:
        url = made.url.removesuffix("/metrics")
        text = urllib.request.urlopen(f"{url}/metrics").read().decode()
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        request = urllib.request.Request(f"{url}/metrics", headers=accept)
        assert urllib.request.urlopen(request).read().endswith(b"# EOF\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/else")
    finally:
        made.stop()
        thread.join()
    samples = {
        sample.name + sample.labels.get("le", ""): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("pattern", "unknown") == "unknown"
    }
    assert samples["mburst_bursts_total"].value == 1
    assert samples["mburst_counting_since_timestamp_seconds"].value == of.since_ns / 1e9
    assert samples["mburst_burst_seconds_total"].value == 0.003
    assert samples["mburst_burst_duration_seconds_bucket0.002"].value == 0
    assert samples["mburst_burst_duration_seconds_bucket0.005"].value == 1
    assert samples["mburst_peak_utilization_ratio"].value == 1 and samples["mburst_link_speed_bytes"].value == 125e6
