"""Bursts in bins wider than the recorded ones, which can begin before their recording and end after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from storelib import sealed_files, write

import mburst
from mburst.__main__ import main
from mburst.analysis.model.coverage import within
from mburst.sql import StoreFolder

MS = 10**6
START = 1_795_132_800 * 10**9  # 2026-11-20, midnight
FULL = 125_000  # wire bytes of a bin of 1 ms at 1 Gb/s
WIDE = {"bin": "1s", "threshold": 0.2}
# By host, files: recording, first and last ms, bytes of each ms, whether it is damaged.
HOSTS = {
    "hole": [("h", 500, 1300, FULL, False), ("h", 1300, 1900, FULL, True), ("h", 1900, 2700, FULL, False)],
    "inside": [("i", 500, 1300, 10, True), ("i", 600, 700, FULL, False), ("i", 4000, 4100, 10, False)],
    "nothing": [("n", 500, 1300, 10, True), ("n", 600, 700, FULL, False)],
    "replaced": [("one", 500, 800, FULL, False), ("two", 900, 2000, 100, False)],
}
RECORDED = {
    "hole": (1600, 1600),
    "inside": (0, 2800),
    "nothing": (0, 0),
    "replaced": (300, 1400),
}  # ms in bursts, and all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings with full links, of 300 ms and 400 ms: in seconds of the clock, two bursts. The last 100 ms are in
    none."""
    store = StoreFolder.create(tmp_path_factory.mktemp("wide") / "store")
    for run, first, last in (("before", 500, 800), ("after", 1700, 2100)):
        name = {"recording_id": run, "host": "a"}
        times = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "written_ns": START + 5000 * MS}
        write(store, "recordings", {**name, **times, "packets": last - first})
        write(store, "bins", *({**name, "ts_ns": START + ms * MS, "wire_bytes": FULL} for ms in range(first, last)))
    return store.path


def test_time_in_bursts_is_recorded_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every answer says the same: 600 ms of 700 ms."""
    store = mburst.open(folder)
    [lane] = store.report(**WIDE).lanes
    assert (len(lane.bursts), lane.burst_ns, lane.recorded_ns) == (2, 600 * MS, 700 * MS)
    page = store.rack_report("r1", since="2026-11-20", until="2026-11-21", **WIDE).report
    assert [(one.bursts, one.burst_ns, one.recorded_ns) for one in page.inbound] == [(2, 600 * MS, 700 * MS)]
    assert sum(cell.burst_ns for cell in page.cells[0]) == 600 * MS
    found = store.compare(**WIDE).comparison.bursts_a
    assert found is not None and (found.count, found.in_bursts_ns, found.recorded_ns) == (2, 600 * MS, 700 * MS)
    assert main(["bursts", str(folder), "--bin", "1s", "--threshold", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "1 burst in 300 ms, 100 % of the time" in out and "1 burst in 400 ms, 75 % of the time" in out


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> mburst.Store:
    """A store of HOSTS."""
    store = StoreFolder.create(tmp_path_factory.mktemp("hosts") / "store")
    damaged = set()
    for host, files in HOSTS.items():
        for run in sorted({run for run, *_ in files}):
            first, last = min(of[1] for of in files if of[0] == run), max(of[2] for of in files if of[0] == run)
            times = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "written_ns": START + 9000 * MS}
            write(store, "recordings", {"recording_id": run, "host": host, "packets": 10, **times})
        for run, first, last, sent, is_damaged in files:
            name = {"recording_id": run, "host": host, "wire_bytes": sent}
            before = {*sealed_files(store, "bins")}
            rows = ({**name, "ts_ns": START + ms * MS} for ms in range(first, last))
            write(store, "bins", *rows, writer_id="0123456789ab")
            damaged |= {*sealed_files(store, "bins")} - before if is_damaged else set()
    for file in damaged:
        file.write_bytes(b"x" * file.stat().st_size)
    return mburst.open(store.path)


@pytest.mark.filterwarnings("ignore::mburst.DamagedFileWarning")
@pytest.mark.parametrize("definition", [WIDE, {"join": "1s"}, {"bin": "10ms"}], ids=str)
def test_time_in_bursts_is_that_of_their_own_recordings(hosts: mburst.Store, definition: dict[str, Any]) -> None:
    """Every answer leaves out bins that are missing, and time that only another recording of the interface has."""
    lanes = hosts.report(**definition).lanes
    assert {of.lane.host: (of.burst_ns // MS, of.recorded_ns // MS) for of in lanes} == RECORDED
    report = hosts.rack_report("r1", since="2026-11-20", until="2026-11-21", **definition).report
    assert {of.host: (of.burst_ns // MS, of.recorded_ns // MS) for of in report.inbound} == RECORDED
    assert [sum(cell.burst_ns for cell in row) for row in report.cells] == [of.burst_ns for of in report.inbound]
    assert [sum(cell.bursts for cell in row) for row in report.cells] == [of.bursts for of in report.inbound]
    assert [of.bursts for of in report.inbound] == [len(of.bursts) for of in lanes]
    both = hosts.compare(**definition).comparison.bursts_a
    assert both is not None and both.count == report.bursts
    assert (both.in_bursts_ns // MS, both.recorded_ns // MS) == tuple(map(sum, zip(*RECORDED.values(), strict=True)))


def test_time_in_bursts_ends_with_the_period(folder: Path) -> None:
    """A burst goes on in the last bin, which begins before the end of the period."""
    span = {"since": START + 500 * MS, "until": START + 600 * MS + MS // 2}
    store = mburst.open(folder)
    [lane] = store.report(**span).lanes
    [page] = store.rack_report("r1", **span).report.inbound
    assert lane.burst_ns == page.burst_ns == lane.recorded_ns == page.recorded_ns == 100 * MS + MS // 2


def test_parts_within_others() -> None:
    assert within([(0, 10), (5, 20), (30, 40)], [(-5, 2), (8, 32), (35, 36), (50, 60)]) == [
        (0, 2),
        (8, 20),
        (30, 32),
        (35, 36),
    ]
    assert within([(0, 1)], []) == within([], [(0, 1)]) == []
