"""What a meter begins with: zero, or its counts before a restart. A counter that begins with less than it had, and more
than zero, is taken for a reset, and all that it begins with for new."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from racklib import FULL, MS
from storelib import rows

from mburst.agent.metrics import exporter
from mburst.agent.metrics.counts import LaneName
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError
from mburst.sql import StoreFolder, limits
from mburst.web.address import where_of

NOW = 1_795_132_800 * 10**9
LANE = LaneName("r1", "cache-1", "eth0", "in")
OTHER = LANE._replace(interface="eth1")
UNDER_WAY = {"complete": False, "ended": "", "start_ns": NOW}


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    return StoreFolder.create(tmp_path / "store")


@pytest.fixture
def writers(store: StoreFolder) -> Iterator[dict[str, Any]]:
    """Two recordings that go on, and writers that stay open."""
    writers = {table: store.writer(table, host="cache-1", rack="r1") for table in ("recordings", "bins", "sources")}
    for name, lane in (("one", LANE), ("other", OTHER)):
        of = {"recording_id": name, "capture_id": name, "interface": lane.interface}
        writers["recordings"].append(rows("recordings", {**of, **UNDER_WAY}))
    yield writers
    for writer in writers.values():
        writer.close()


def fill(writers: dict[str, Any], name: str, first: int, sizes: list[int], senders: int = 1) -> None:
    """Adds bins of 1 ms from FIRST on, in ms; SENDERS send equal parts of each."""
    times = [NOW + (first + i) * MS for i in range(len(sizes))]
    found = ({"ts_ns": at, "wire_bytes": size, "bytes": size} for at, size in zip(times, sizes, strict=True))
    writers["bins"].append(rows("bins", *({"recording_id": name, "quality": 2, **one} for one in found)))
    sent = (
        {"ts_ns": at, "bytes": size // senders, "first_ns": at, "last_ns": at + MS - 1, "source": f"10.0.0.{sender}"}
        for at, size in zip(times, sizes, strict=True)
        for sender in range(senders)
    )
    writers["sources"].append(rows("sources", *({"recording_id": name, **one} for one in sent)))


def series(of: Meter, name: LaneName) -> dict[tuple[str, Any], float]:
    """Returns the counters of the bursts of a lane."""
    lane = of.lanes[name]
    found: dict[tuple[str, Any], float] = {("pattern", pattern): n for pattern, n in lane.bursts.items() if n}
    found["time", ""] = lane.burst_ns
    for kind, histogram in (("duration", lane.durations), ("fan-in", lane.fan_ins)):
        found |= {(kind, i): sum(histogram.counts[: i + 1]) for i in range(len(histogram.counts))}
    return found


@pytest.mark.parametrize("step", [50, 150])
def test_the_bursts_of_a_lane_with_one_that_was_cut_begin_at_zero(
    store: StoreFolder, writers: dict[str, Any], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The pieces depend on when the bins came, and so do their patterns."""
    monkeypatch.setattr("mburst.analysis.bursts.follower.LONGEST_NS", 250 * MS)
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 10**10)
    said: list[str] = []
    with closing(Meter(store, BurstDefinition(), NOW)) as of:
        fill(writers, "other", 0, [FULL] * 9 + [100] * 20)
        for at in range(0, 1050, step):
            fill(writers, "one", at, [FULL] * step, 1 + at // 350)
            of.advance("a")
        for name in ("one", "other"):
            fill(writers, name, 1100, [100] * 20)
        of.advance("a")
        assert sum(of.lanes[LANE].bursts.values()) >= 3
        with limits.noting(said.append), closing(Meter(store, BurstDefinition(), NOW)) as again:
            again.advance("a")
            assert not any(series(again, LANE).values())
            assert series(again, OTHER) == series(of, OTHER) and of.lanes[OTHER].burst_ns == 9 * MS
            for name in ("packets", "wire_bytes"):
                assert getattr(again.lanes[LANE], name) == getattr(of.lanes[LANE], name)
            fill(writers, "one", 1200, [FULL] * 5 + [100] * 20)
            again.advance("a")
            assert (sum(again.lanes[LANE].bursts.values()), again.lanes[LANE].burst_ns) == (1, 5 * MS)
    assert said == ["metrics of the bursts of cache-1 eth0 in begin at zero: one of them goes on for a minute or more"]


def test_what_recordings_under_way_lost_before_does_not_count(store: StoreFolder) -> None:
    """Their rows state what was lost since they began."""
    lost = {"in": (700, 3), "out": (700, 0)}
    lanes = LANE, LANE._replace(direction="out")

    def add(more: int) -> None:
        for direction, (dropped, late) in lost.items():
            of = {"recording_id": direction, "direction": direction, "capture_id": "both", "end_ns": NOW + MS}
            row = {**UNDER_WAY, **of, "dropped": dropped + more, "late": late + more, "written_ns": NOW + more}
            writer.append(rows("recordings", row))

    with store.writer("recordings", host="cache-1", rack="r1") as writer:
        add(0)
        with closing(Meter(store, BurstDefinition())) as meter:
            assert (meter.dropped, meter.late) == ({LANE[:-1]: 0}, dict.fromkeys(lanes, 0))
            add(5)
            meter.take()
            assert (meter.dropped, meter.late) == ({LANE[:-1]: 5}, dict.fromkeys(lanes, 5))
    with closing(Meter(store, BurstDefinition(), NOW)) as whole:
        assert (whole.dropped, whole.late) == ({LANE[:-1]: 705}, {lanes[0]: 8, lanes[1]: 5})


def test_a_meter_that_did_not_count_rows_that_it_read_gives_no_metrics(
    store: StoreFolder, writers: dict[str, Any]
) -> None:
    """Counters would lack them in silence. A restart counts from SINCE_NS again."""
    with closing(Meter(store, BurstDefinition(), NOW)) as of:
        of.advance("a")
        fill(writers, "one", 0, [2**62] * 3)  # more than a sum may have
        for _ in range(2):
            with pytest.raises(MburstError, match="not all rows were counted: Conversion Error"):
                of.advance("a")
            fill(writers, "one", 10, [100])


def test_the_service_ends_when_rows_that_were_read_do_not_count(
    store: StoreFolder, writers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs it starts it again."""
    monkeypatch.setattr(exporter, "FOLLOW_S", 0.01)
    with closing(Meter(store, BurstDefinition(), NOW)) as of:
        of.advance("a")
        made = exporter.MetricsService(of, where_of("127.0.0.1:0", 9620, None, None, None, True))
        fill(writers, "one", 0, [2**62] * 3)
        with pytest.raises(MburstError, match="not all rows were counted"):
            made.run()
