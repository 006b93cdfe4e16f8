"""The live line, the live view and the metrics detect the same bursts as the store, each once, in whatever order the
rows arrive."""

from __future__ import annotations

import contextlib
import random
import time
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import racklib
from storelib import rows, write

from mburst.agent.metrics.counts import LaneName
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts import follower
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.store import LiveStore
from mburst.services.record.live_line import BurstCount
from mburst.sql import StoreFolder
from mburst.sql.follow import TableFollower

MS, SECOND = 10**6, 10**9
NOW = 1_795_132_800 * SECOND
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s
NAMES = {"host": "cache-1", "rack": "r1", "interface": "eth0"}
LANE = LaneName("r1", "cache-1", "eth0", "in")
DEFINITION = BurstDefinition()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence ends no burst: on a loaded machine it does not mean that the recorder is gone."""
    monkeypatch.setattr(follower, "QUIET_NS", 10**18)


class Followed:
    """A store that grows, and its three followers."""

    def __init__(self, folder: Path) -> None:
        self.store = StoreFolder.create(folder)
        self.writers = {
            table: self.store.writer(table, "cache-1", "r1") for table in ("recordings", "bins", "sources", "clock")
        }
        self.row = {**NAMES, "start_ns": NOW, "complete": False}
        self.append("recordings", self.row)
        self.live = LiveStore(self.store)
        self.watch = LiveBursts(self.live, DEFINITION)
        self.meter = Meter(self.store, DEFINITION, NOW - 60 * SECOND)
        self.line = BurstCount()
        self.running = count()

    def append(self, table: str, *given: dict[str, Any]) -> pa.Table:
        found = rows(table, *given)
        self.writers[table].append(found)
        return found

    def bins(self, at: list[int], epoch: int = 0, senders: bool = True) -> None:
        """Appends full bins at these ms since NOW, and their senders."""
        starts = [{"ts_ns": NOW + i * MS, "clock_epoch": epoch} for i in at]
        batches = self.append("bins", *({**row, "wire_bytes": FULL, "bytes": FULL - 24} for row in starts)).to_batches()
        if senders:
            self.append(
                "sources",
                *(
                    {
                        **row,
                        "bytes": FULL - 24,
                        "source": f"10.0.0.{i % 2}",
                        "first_ns": row["ts_ns"],
                        "last_ns": row["ts_ns"] + MS - 1,
                    }
                    for i, row in zip(at, starts, strict=True)
                ),
            )
        self.line.add(batches, [rows("recordings", self.row).to_pylist()[0]])

    def tick(self, *times: int) -> None:
        """The recorder reports that it runs."""
        zeros = dict.fromkeys(("tai_offset_ns", "uncertainty_ns", "status", "max_error_ns"), 0)
        row = {**NAMES, "synchronized": True, **zeros}
        running = [next(self.running) for _ in times]
        spans = zip(times, running, strict=True)
        self.append("clock", *({**row, "ts_ns": NOW + ms * MS, "monotonic_raw_ns": now} for ms, now in spans))

    def look(self) -> None:
        self.live.poll()
        self.watch.look()
        self.meter.take()

    def end(self) -> None:
        self.append(
            "recordings",
            {**self.row, "complete": True, "ended": "stopped", "end_ns": NOW + 10**4 * MS, "written_ns": 2 * 10**18},
        )
        last = rows("bins", {"ts_ns": NOW + 10**5 * MS})  # in silence, the live line would report its last burst later
        self.line.add(last.to_batches(), rows("recordings", {**self.row, "complete": True}).to_pylist())
        self.look()

    def close(self) -> None:
        for each in (*self.writers.values(), self.live, self.meter):
            each.close()

    def compare(self) -> int:
        """Checks that all followers have the bursts of the store. Returns the number of bursts."""
        with self.store.connect() as con:
            truth = find_bursts(con, DEFINITION)
        [lane] = self.live.lanes.values()
        assert sorted(lane.bursts, key=_order) == sorted(truth, key=_order)
        metered = self.meter.lanes[LANE]
        assert sum(metered.bursts.values()) == self.line.count == len(truth)
        assert {name: n for name, n in metered.bursts.items() if n} == {
            name: n
            for name in {burst["pattern"] for burst in truth}
            if (n := sum(burst["pattern"] == name for burst in truth))
        }
        return len(truth)


def _order(burst: dict[str, Any]) -> tuple[int, int]:
    return burst["clock_epoch"], burst["start_ns"]


@pytest.fixture
def followed(tmp_path: Path) -> Any:
    made = Followed(tmp_path / "store")
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(3))
def test_all_followers_detect_the_bursts_of_the_store(followed: Followed, seed: int) -> None:
    choose = random.Random(seed)
    epoch, at = 0, 0
    for _ in range(12):
        part = []
        for _ in range(choose.randint(1, 12)):
            at += choose.choice([1, 1, 1, 1, 2, 4, 6, 7, 40])
            part.append(at)
        followed.bins(part, epoch)
        if choose.random() < 0.5:
            followed.tick(at + choose.choice([0, 3, 500]))
        if choose.random() < 0.2:
            epoch, at = epoch + 1, at - choose.choice([3, 30, 200])  # the clock is set back
        if choose.random() < 0.8:
            followed.look()
    followed.end()
    assert followed.compare() > 5


def test_a_report_that_the_recorder_runs_ends_no_burst(followed: Followed) -> None:
    """The report arrives at once, and the bins arrive a little later."""
    followed.bins(list(range(0, 40)))
    followed.tick(150)
    followed.look()
    followed.bins(list(range(40, 200)))
    followed.look()
    followed.tick(1300)
    followed.look()
    [lane] = followed.live.lanes.values()
    assert [burst["duration_ns"] for burst in lane.bursts] == [200 * MS]  # silence does end it
    followed.end()
    assert followed.compare() == 1


def test_a_clock_that_is_set_back_hides_no_burst(followed: Followed) -> None:
    followed.bins([100, 101, 200])
    followed.look()
    followed.bins([10, 11, 100, 101], 1)
    followed.look()
    followed.end()
    assert followed.compare() == 4


def test_a_clock_that_is_set_back_ends_no_burst(followed: Followed) -> None:
    """Reports from before the clock was set have later times than everything that follows."""
    followed.bins([5000, 5001])
    followed.bins([10, 11], 1)
    followed.look()
    followed.tick(6000, 20)
    followed.look()
    followed.bins([12, 13], 1)
    followed.look()
    followed.end()
    assert followed.compare() == 2


def test_a_clock_that_is_set_to_before_the_start_hides_no_burst(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = 3600 * 1000
    followed.bins([100, 101, 200])
    followed.look()
    monkeypatch.setattr(time, "time_ns", lambda: NOW - hour * MS)
    followed.bins([-hour + 10, -hour + 11, -hour + 100], 1)
    followed.tick(-hour + 150)
    followed.look()
    assert followed.meter.lanes[LANE].packets == 6
    followed.end()
    assert followed.compare() == 4


def test_the_last_bins_of_a_recording_come_before_its_end(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written after the follower read the table of bins, and before it read `recordings`."""
    poll, done = TableFollower.poll, []

    def late(tail: TableFollower) -> Any:
        if tail._table == "recordings" and not done:
            done.append(True)
            followed.bins([10, 11, 12])
            followed.append("recordings", {**followed.row, "complete": True, "written_ns": 2 * 10**18})
        return poll(tail)

    followed.bins([0])
    followed.look()
    monkeypatch.setattr(TableFollower, "poll", late)
    followed.live.poll()
    followed.watch.look()
    done.clear()
    with followed.store.connect() as con:
        truth = find_bursts(con, DEFINITION)
    [lane] = followed.live.lanes.values()
    assert lane.bursts == truth and len(truth) == 2


def test_a_burst_is_not_cut_by_rows_that_came_before_it(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows are taken at once after a follower was stopped."""
    monkeypatch.setattr(follower, "MOST_ROWS", 50)
    followed.append("bins", *({"ts_ns": NOW + i * MS} for i in range(100)))
    followed.bins(list(range(100, 120)))
    followed.look()
    assert followed.meter._bursts.kept_rows <= 2 * 50
    followed.bins(list(range(120, 130)))
    followed.look()
    followed.end()
    assert followed.compare() == 1


def test_rows_that_arrive_twice_count_once(followed: Followed) -> None:
    made = follower.Follower(DEFINITION, 0, late_ns=0)
    made.add_recording(rows("recordings", followed.row).to_pylist()[0])
    table = rows("bins", *({"ts_ns": NOW + i * MS, "wire_bytes": FULL, "bytes": 100} for i in range(5)))
    for part in (table, table.slice(2), table, rows("bins", {"ts_ns": NOW + 1000 * MS})):
        made.add(part, None, NOW)
        assert made.kept_rows <= 6
    [burst] = made.ended(NOW)
    assert burst["bytes"] == 500


def test_a_switch_port_and_the_host_behind_it_are_both_followed(tmp_path: Path) -> None:
    """The rows were stored before, and links attach the host to the port."""
    store = StoreFolder.create(tmp_path / "store")
    link = {"device": "tor1", "port": "E0", "queue": "", "host": "a", "rack": "r1", "origin": "configuration"}
    write(store, "links", {**link, "present": True, "ts_ns": NOW})
    racklib.fill(store, {"a": [(500, 10)]}, length=60 * SECOND)
    racklib.fill_ports(store, {"E0": [(500, 10), (900, 10)]}, length=60 * SECOND)
    with contextlib.closing(Meter(store, DEFINITION, NOW)) as meter:
        meter.take()
        found = {(lane.host, lane.interface): sum(of.bursts.values()) for lane, of in meter.lanes.items()}
    assert found == {("a", "eth0"): 1, ("tor1", "E0"): 2}
