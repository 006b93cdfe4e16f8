"""The line rate of a lane whose recordings have different ones, or none, and what is exported of its bursts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from racklib import FULL, MS
from storelib import rows

from mburst.agent.metrics.counts import LaneName
from mburst.agent.metrics.exporter import Exporter
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.sql import StoreFolder

NOW = 1_795_132_800 * 10**9
GIGABIT = 10**9
LANE = LaneName("r1", "cache-1", "eth0", "in")
Writers = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    return StoreFolder.create(tmp_path / "store")


@pytest.fixture
def writers(store: StoreFolder) -> Iterator[Writers]:
    """Writers that stay open."""
    names = ("recordings", "bins", "sources", "canary")
    writers = {table: store.writer(table, host="cache-1", rack="r1") for table in names}
    yield writers
    for writer in writers.values():
        writer.close()


def record(writers: Writers, name: str, link_bps: int | None, begun: int = 0, size: int = FULL) -> None:
    """Adds a recording with a burst of 5 ms of one sender. Its recorder began BEGUN ms after NOW."""
    of = {"recording_id": name, "capture_id": name, "start_ns": NOW, "end_ns": NOW + 1000 * MS, "complete": False}
    times = [NOW + i * MS for i in range(25)]
    sizes = [size] * 5 + [100] * 20
    bins = [{"ts_ns": at, "wire_bytes": size, "bytes": size} for at, size in zip(times, sizes, strict=True)]
    sent = [{"ts_ns": at, "bytes": size, "first_ns": at, "last_ns": at + MS - 1} for at in times]
    run = {**of, "link_bps": link_bps, "begun_ns": NOW + begun * MS, "written_ns": NOW}
    writers["recordings"].append(rows("recordings", run))
    writers["bins"].append(rows("bins", *({"recording_id": name, "quality": 2, **one} for one in bins)))
    writers["sources"].append(rows("sources", *({"recording_id": name, **one} for one in sent)))


def samples(of: Meter) -> dict[tuple[str, str], float]:
    """Returns the exported values of the lane, by their name and their label that is none of the lane."""
    found = {}
    for metric in Exporter(of).collect():
        for sample in metric.samples:
            others = [value for name, value in sample.labels.items() if name not in LaneName._fields]
            if sample.labels.get("host") == LANE.host:
                found[sample.name, *others or ("",)] = sample.value
    return found


def exported(store: StoreFolder, writers: Writers, link_bps: int | None, *recordings: dict[str, Any]) -> list[Any]:
    """Returns the values of the lane, from a meter that followed RECORDINGS, and from one that is created after it."""
    definition = BurstDefinition(link_bps=link_bps)
    found = []
    with closing(Meter(store, definition, NOW)) as of:
        for recording in recordings:
            record(writers, **recording)
            of.take()
        found.append(samples(of))
    with closing(Meter(store, definition, NOW)) as again:
        found.append(samples(again))
    return found


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recordings are silent, so that their bursts have ended."""
    monkeypatch.setattr("mburst.agent.metrics.meter.time.time_ns", lambda: NOW + 100_000 * MS)


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_bins_are_measured_by_the_line_rate_of_their_own_recording(
    store: StoreFolder, writers: Writers, names: str
) -> None:
    """Also if the other recording of the lane has none, or another one. Live recordings have random names."""
    known, other = ({"name": name} for name in names)
    for of in exported(
        store,
        writers,
        None,
        {**known, "link_bps": GIGABIT, "size": FULL},
        {**other, "link_bps": None, "begun": 1, "size": 10 * FULL},
    ):
        assert of["mburst_peak_utilization_ratio", "1ms"] == 1
        assert of["mburst_bursts_total", "single-source"] == of["mburst_burst_duration_seconds_count", ""] == 1
        assert ("mburst_link_speed_bytes", "") not in of  # of the newest recording


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_the_line_rate_of_a_lane_is_that_of_its_newest_recording(
    store: StoreFolder, writers: Writers, names: str
) -> None:
    old, new = ({"name": name} for name in names)
    for of in exported(
        store,
        writers,
        None,
        {**new, "link_bps": 10 * GIGABIT, "begun": 1, "size": 8 * FULL},
        {**old, "link_bps": GIGABIT, "size": FULL // 2},
    ):
        assert of["mburst_peak_utilization_ratio", "1ms"] == 0.8
        assert of["mburst_link_speed_bytes", ""] == 10 * GIGABIT / 8


@pytest.mark.parametrize("recorded", [None, GIGABIT])
def test_a_given_line_rate_is_that_of_all_metrics(store: StoreFolder, writers: Writers, recorded: int | None) -> None:
    for of in exported(store, writers, 10 * GIGABIT, {"name": "a", "link_bps": recorded, "size": 8 * FULL}):
        assert of["mburst_bursts_total", "single-source"] == of["mburst_burst_duration_seconds_count", ""] == 1
        assert of["mburst_burst_seconds_total", ""] == 0.005
        assert of["mburst_peak_utilization_ratio", "1ms"] == 0.8
        assert of["mburst_link_speed_bytes", ""] == 10 * GIGABIT / 8


def test_bursts_that_cannot_be_detected_are_not_zero(store: StoreFolder, writers: Writers) -> None:
    for of in exported(store, writers, None, {"name": "a", "link_bps": None}):
        assert of["mburst_packets_total", ""] == 25
        assert not [name for name, _ in of if name.startswith(("mburst_burst", "mburst_peak", "mburst_link"))]


def test_the_bursts_of_the_canary_count_the_same_after_a_restart(store: StoreFolder, writers: Writers) -> None:
    """The record of what was sent comes after the bursts have counted."""
    with closing(Meter(store, BurstDefinition(), NOW)) as of:
        record(writers, "a", GIGABIT)
        of.take()
        sent = dict.fromkeys(("size_bytes", "length_ns", "sent_ns", "sent_for_ns", "sent_error_ns", "offset_ns"), 0)
        sent |= dict.fromkeys(("threshold_ppb", "release_ppb", "join_ns", "min_duration_ns", "offset_error_ns"), 0)
        sent |= {"number": 1, "read_ns": 1, "sent_stamps": "sw", "drift_ppb": 0, "stamps": "sw", "excluded": ""}
        canary = {"recording_id": "a", "start_ns": NOW, "end_ns": NOW + 5 * MS, "detected": True}
        writers["canary"].append(rows("canary", {**sent, **canary}))
        before = samples(of)
    assert before["mburst_bursts_total", "single-source"] == 1 and ("mburst_bursts_total", "canary") not in before
    with closing(Meter(store, BurstDefinition(), NOW)) as again:
        after = samples(again)
    assert after == before
    with store.connect() as con:
        assert [burst["pattern"] for burst in find_bursts(con)] == ["canary"]
