"""A growing store in memory equals the store itself: series, port directions, bursts and moments."""

from __future__ import annotations

import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from livestore import RUN, SECOND, Growing, filled
from reportlib import BIN, FULL, SHORT, START
from storelib import write

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.lane import COLUMNS, LiveLane
from mburst.analysis.live.snapshot import INTERVALS, History, read_cells, read_losing, read_moment, width_for
from mburst.analysis.live.store import LiveStore
from mburst.analysis.model.series import Series
from mburst.errors import MburstError
from mburst.sql import StoreFolder

NOW = 1_795_228_500_000_000_000
ROWS = st.lists(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), max_size=20), max_size=8)


@settings(deadline=None, max_examples=100)
@given(inserts=ROWS, kept=st.integers(0, 60))
def test_a_series_is_a_dictionary_by_time(inserts, kept):
    series, oracle = Series(["value"]), {}
    for given_rows in inserts:
        times, values = (np.array([row[i] for row in given_rows], np.int64) for i in (0, 1))
        series.insert(times, {"value": values})
        oracle |= dict(given_rows)
        assert dict(zip(series.times.tolist(), series.column("value").tolist(), strict=True)) == oracle
        assert series.times.tolist() == sorted(oracle)
    series.keep_newest(kept)
    assert series.times.tolist() == sorted(oracle)[len(oracle) - min(kept, len(oracle)) :]


def test_memory_keeps_the_newest_bins_of_all_recordings_together():
    """A share for each recording left the running one a twentieth of the memory after nineteen restarts."""
    lane = LiveLane(("r", "h", "eth0", "in", 10, 10**9), 0)
    for number in range(20):
        times = np.arange(number * 1000, (number + 1) * 1000, 10)
        lane.add(f"recording {number}", 0, {"ts_ns": times, **dict.fromkeys(COLUMNS, np.ones_like(times))})
    lane.keep_newest(150)
    kept = {key: series.times.tolist() for key, series in lane.series.items()}
    assert kept == {
        ("recording 18", 0): list(range(18_500, 19_000, 10)),
        ("recording 19", 0): [*range(19_000, 20_000, 10)],
    }
    assert lane.complete_from_ns == 18_500 and len(lane.spans) == 20
    lane.keep_newest(150)
    assert lane.complete_from_ns == 18_500


def test_recordings_of_the_same_time_are_removed_together():
    lane = LiveLane(("r", "h", "eth0", "in", 10, 10**9), 0)
    for name in ("first", "second"):
        times = np.arange(0, 1000, 10)
        lane.add(name, 0, {"ts_ns": times, **dict.fromkeys(COLUMNS, np.ones_like(times))})
    lane.keep_newest(51)
    assert {key[0]: (int(one.times[0]), len(one)) for key, one in lane.series.items()} == {
        "first": (740, 26),
        "second": (740, 26),
    }
    assert lane.complete_from_ns == 740


def settled(live: LiveStore, watch: LiveBursts) -> None:
    live.poll()
    watch.look()


@pytest.mark.costly
@settings(deadline=None, max_examples=6)
@given(
    parts=st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0, 84, 6000, 6250, FULL])), min_size=1, max_size=12),
    join=st.sampled_from([None, 0, 2_000_000]),
)
def test_bursts_as_they_end_are_those_of_the_store(tmp_path_factory, parts, join):
    growing = Growing(tmp_path_factory.mktemp("live") / "store", NOW)
    definition = BurstDefinition(join_ns=join)
    live = LiveStore(growing.store)
    watch = LiveBursts(live, definition)
    for length, wire in parts:
        growing.append([wire] * length, senders=("10.0.0.1", "10.0.0.2") if wire > 84 else ())
        settled(live, watch)
    growing.append([0] * 200 + [84] + [0] * 20_000 + [84])
    settled(live, watch)
    settled(live, watch)
    [lane] = live.lanes.values()
    assert lane.bursts == find_bursts(growing.store.connect(), definition)
    growing.close()
    live.close()


def test_bursts_in_wider_bins_are_those_of_the_store(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    live = LiveStore(growing.store)
    definition = BurstDefinition(bin_ns=10 * BIN, threshold=0.4)
    watch = LiveBursts(live, definition)
    for i in range(8):
        growing.append([FULL] * i + [84] * (73 - i), senders=("10.0.0.1",))
        settled(live, watch)
    growing.append([84] * 20_000)
    settled(live, watch)
    [lane] = live.lanes.values()
    assert lane.bursts == find_bursts(growing.store.connect(), definition) != []
    growing.close()
    live.close()


@pytest.fixture
def known(tmp_path):
    """The store of the report's tests, read completely into memory."""
    live = LiveStore(filled(tmp_path / "store"))
    LiveBursts(live, BurstDefinition()).look()
    yield live, History(live, BurstDefinition())
    live.close()


def compared(live: LiveStore, history: History, start: int, end: int, width: int) -> None:
    """Compares a moment from memory with the same moment from the store."""
    [lane] = live.lanes.values()
    moments = []
    for complete in (0, 2**62):
        lane.complete_from_ns = complete
        moments.append(read_moment(history, lane, start, end, width))
    lane.complete_from_ns = 0
    memory, stored = moments
    for name in ("cells", "seconds"):
        for column in ("cells", "largest", "total", "bins"):
            assert np.array_equal(getattr(getattr(memory, name), column), getattr(getattr(stored, name), column)), name
    assert memory.coverage == stored.coverage and memory.losing == stored.losing
    assert [b["start_ns"] for b in memory.bursts] == [b["start_ns"] for b in stored.bursts]
    for ours, theirs in ((memory.latency, stored.latency), (memory.queues, stored.queues)):
        assert [entry.name for entry in ours] == [entry.name for entry in theirs]
    assert [of.dropped_packets for of in memory.queues] == [of.dropped_packets for of in stored.queues]
    for ours, theirs in zip(memory.latency, stored.latency, strict=True):
        assert np.array_equal(ours.at_ns, theirs.at_ns) and np.array_equal(ours.largest, theirs.largest)
        assert np.array_equal(ours.lost, theirs.lost) and np.array_equal(ours.n, theirs.n)


@pytest.mark.parametrize("width", [BIN, 10 * BIN, 64 * BIN, 20_000 * BIN])
def test_memory_agrees_with_the_store(known, width):
    compared(*known, START, START + 20 * SECOND, width)
    compared(*known, START + SHORT * BIN - 7 * BIN, START + SHORT * BIN + 13 * BIN, width)


def test_a_second_is_reported_when_it_is_over(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    live = LiveStore(growing.store)
    history = History(live, BurstDefinition())
    growing.append([1000] * 9_999)
    live.poll()
    [lane] = live.lanes.values()
    assert len(read_moment(history, lane, NOW, lane.edge_ns, BIN).seconds) == 0
    growing.append([1000])
    live.poll()
    whole_seconds = read_moment(history, lane, lane.edge_ns - BIN, lane.edge_ns, BIN).seconds
    assert whole_seconds.cells.tolist() == [NOW // SECOND] and whole_seconds.total.tolist() == [10_000 * 1000]
    growing.close()
    live.close()


def test_rows_from_before_the_start_count_once(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([1000] * 50)
    live = LiveStore(growing.store)
    growing.append([2000] * 50)
    live.poll()
    growing.close()
    live.poll()
    [lane] = live.lanes.values()
    cells = read_cells(History(live, BurstDefinition()), lane, NOW, NOW + 100 * BIN, BIN)
    assert cells.total.tolist() == [1000] * 50 + [2000] * 50
    live.close()


def test_a_silent_recording_that_reports_that_it_runs_is_covered(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([1000])
    live = LiveStore(growing.store)
    [lane] = live.lanes.values()
    growing.append([0] * (3 * SECOND // BIN - 1))
    growing.tick()
    live.poll()
    assert lane.coverage() == [(NOW, NOW + 3 * SECOND)] and lane.edge_ns == NOW + 3 * SECOND
    growing.close()
    live.close()


def test_a_clock_that_is_set_back_is_detected(tmp_path):
    """The time between the newest bin and the bins from before the clock was set is not covered."""
    growing = Growing(tmp_path / "store", NOW)
    growing.append([1000])
    growing.at = NOW + 3 * SECOND
    growing.tick()
    live = LiveStore(growing.store)
    live.poll()
    [lane] = live.lanes.values()
    assert lane.behind_ns == 0
    growing.at = NOW - 3600 * SECOND
    growing.append([1000], epoch=1)
    growing.at += SECOND
    growing.tick()
    live.poll()
    set_back = NOW - 3600 * SECOND
    assert lane.coverage() == [(set_back, set_back + SECOND + BIN), (NOW, NOW + BIN)]
    assert lane.behind_ns == 3599 * SECOND
    growing.close()
    live.close()


def test_an_interrupted_recording_is_not_continued_by_the_next(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84] * 10 + [0] * 90)
    growing.tick()
    live = LiveStore(growing.store)
    [lane] = live.lanes.values()
    assert lane.recording and lane.coverage() == [(NOW, NOW + 100 * BIN)]
    growing.begin_again(500)
    growing.append([84] * 10 + [0] * 40)
    growing.tick()
    live.poll()
    second = NOW + 600 * BIN
    assert lane.recording and lane.coverage() == [(NOW, NOW + 10 * BIN), (second, second + 50 * BIN)]
    growing.end()
    live.poll()
    assert not lane.recording and lane.coverage() == [(NOW, NOW + 10 * BIN), (second, second + 10 * BIN)]
    growing.close()
    live.close()


def test_a_killed_recording_does_not_end_the_current_one(tmp_path):
    """The next recorder writes the row about the killed recording after the first row of its own."""
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84] * 10)
    growing.begin_again(500)
    growing.append([84] * 10)
    live = LiveStore(growing.store)
    [lane] = live.lanes.values()
    write(
        growing.store,
        "recordings",
        {**lane.recordings[RUN], "complete": False, "ended": "killed", "written_ns": time.time_ns() + SECOND},
    )
    live.poll()
    assert lane.recording and lane._recorded() == RUN + "-again"
    growing.end()
    live.poll()
    assert not lane.recording
    growing.close()
    live.close()


def test_a_recording_goes_on_beside_one_that_ended(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84])
    other = Growing(tmp_path / "store", NOW, run="other")
    other.append([84])
    other.end()
    live = LiveStore(growing.store)
    [lane] = live.lanes.values()
    growing.at = time.time_ns()
    growing.tick()
    live.poll()
    assert lane.recording and lane.edge_ns == growing.at
    for recording in (growing, other):
        recording.close()
    live.close()


def test_losses_are_at_the_bins_that_are_flagged(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84] * 10)
    growing.append([84] * 2, quality=2 | 32)
    growing.append([84] * 10)
    live = LiveStore(growing.store)
    history = History(live, BurstDefinition())
    compared(live, history, NOW, NOW + 22 * BIN, BIN)
    [lane] = live.lanes.values()
    assert lane.losing(NOW, NOW + SECOND) == [(NOW + 10 * BIN, NOW + 12 * BIN)]
    growing.close()
    live.close()


def test_a_lane_without_detectable_bursts_does_not_affect_others(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.burst()
    fine = {"recording_id": "fine", "interface": "eth2", "bin_ns": 50_000, "source_bin_ns": 50_000}
    write(growing.store, "recordings", {**fine, "start_ns": NOW, "end_ns": NOW + SECOND})
    write(growing.store, "bins", *({**fine, "ts_ns": NOW + i * 50_000, "wire_bytes": FULL // 2} for i in range(20)))
    live = LiveStore(growing.store)
    unfit, fit = sorted(live.lanes.values(), key=lambda lane: lane.bin_ns, reverse=True)
    live.lanes = {lane.key: lane for lane in (unfit, fit)}
    watch = LiveBursts(live, BurstDefinition(bin_ns=250_000))
    with pytest.raises(MburstError, match="not a multiple"):
        watch.look()
    assert not unfit.bursts
    assert [(burst["start_ns"], burst["duration_ns"]) for burst in fit.bursts] == [(NOW, 1_000_000)]
    growing.close()
    live.close()


def test_only_the_selected_rack_is_read(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    for rack in ("r1", "r2"):
        write(store, "recordings", {"recording_id": rack, "rack": rack, "start_ns": NOW, "end_ns": NOW + BIN})
        write(store, "bins", {"recording_id": rack, "rack": rack, "ts_ns": NOW, "wire_bytes": 84})
    live = LiveStore(store, "r2")
    assert [lane.named("rack") for lane in live.lanes.values()] == ["r2"]
    live.close()


def test_the_width_gives_at_most_the_wanted_number_of_cells():
    for span, buckets in ((10 * SECOND, 4000), (BIN, 4000), (3 * BIN + 1, 2)):
        width = width_for(BIN, span, buckets)
        assert width % BIN == 0 and span / width <= buckets and (width == BIN or span / (width - BIN) > buckets)


def test_an_unfinished_recording_of_another_store_has_its_lane(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84])
    live = LiveStore(growing.store)
    assert live.lane_of[RUN].recording
    growing.close()
    live.close()


@pytest.mark.parametrize("epochs", [1, 2])
def test_old_recordings_count_as_the_store_has_them(tmp_path, monkeypatch, epochs):
    # Memory reads old bins only of recordings without a row that states when they counted.
    store, hour = StoreFolder.create(tmp_path / "store"), 3600 * SECOND
    lane = {"recording_id": "old", "wire_bytes": 84}
    write(store, "bins", *({**lane, "clock_epoch": k, "ts_ns": NOW - (50 - k) * hour} for k in range(epochs)))
    write(store, "bins", {"recording_id": "new", "ts_ns": NOW, "wire_bytes": 84})
    of_old = {"start_ns": NOW - 50 * hour, "end_ns": NOW - (51 - epochs) * hour, "clock_epochs": epochs}
    write(store, "recordings", {**lane, **of_old}, {"recording_id": "new", "start_ns": NOW, "end_ns": NOW})
    asked = []
    connect = StoreFolder.connect
    monkeypatch.setattr(StoreFolder, "connect", lambda *of: asked.append(of[2]) or connect(*of))
    with closing(LiveStore(store)) as live:
        assert min(asked) >= NOW - (hour if epochs == 1 else 50 * hour)
        [found] = live.lanes.values()
        with connect(store) as con:
            spans = con.execute("SELECT start_ns, end_ns FROM recorded ORDER BY ALL").fetchall()
        assert found.coverage() == spans and len(spans) == epochs + 1


def test_losses_of_a_whole_moment_are_marked_however_many_they_are(tmp_path):
    """Beyond the limit, the smallest gaps between them are closed; the oldest losses do not disappear."""
    growing = Growing(tmp_path / "store", NOW)
    live = LiveStore(growing.store)
    watch = LiveBursts(live, BurstDefinition())
    for _ in range(INTERVALS + 50):
        growing.append([84], quality=2 | 32)
        growing.append([84] * 3)
    settled(live, watch)
    [lane] = live.lanes.values()
    history = History(live, watch.definition)
    moment = read_moment(history, lane, NOW, growing.at, BIN)
    assert len(moment.losing) == INTERVALS
    assert moment.losing[0][0] == NOW and moment.losing[-1][1] == growing.at - 3 * BIN
    assert read_losing(history, lane, NOW, growing.at) == moment.losing
    live.close()
    growing.close()
