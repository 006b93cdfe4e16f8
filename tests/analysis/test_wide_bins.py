"""Bursts in bins wider than the recorded ones, which can begin before their recording and end after it; and periods
that begin or end within bins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from storelib import sealed_files, write

import mburst
from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.model.coverage import within
from mburst.analysis.partition.detect import detect
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


def test_a_burst_of_which_nothing_was_recorded_in_the_period(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its bin begins in the period, and its recording after it."""
    span = ["--since", "2026-11-20T00:00:00", "--until", "2026-11-20T00:00:00.1"]
    assert main(["bursts", str(folder), *span, "--bin", "1s", "--threshold", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "1 burst in bins that begin in this time, of which nothing was recorded in it; no packet was lost" in out
    assert out.count("not recorded in this time") == 1


def test_time_in_bursts_ends_with_the_period(folder: Path) -> None:
    """A burst goes on in the last bin, which begins before the end of the period."""
    span = {"since": START + 500 * MS, "until": START + 600 * MS + MS // 2}
    store = mburst.open(folder)
    [lane] = store.report(**span).lanes
    [page] = store.rack_report("r1", **span).report.inbound
    assert lane.burst_ns == page.burst_ns == lane.recorded_ns == page.recorded_ns == 100 * MS + MS // 2


def test_a_recording_counts_in_the_whole_bins_of_its_first_and_last_packet(tmp_path: Path) -> None:
    """And in each clock epoch: the clock of `back` was set back by a second."""
    store = StoreFolder.create(tmp_path / "s")
    runs = {"first": (900, 900, 1), "last": (100, 100, 1), "back": (1500, 900, 2)}
    for host, (first, last, epochs) in runs.items():
        of = {"recording_id": host, "host": host}
        times = {"start_ns": START + first * MS + MS // 2, "end_ns": START + last * MS + MS // 2, "packets": 2}
        write(store, "recordings", {**of, **times, "written_ns": START + 5000 * MS, "clock_epochs": epochs})
        bins = {(0, first), (epochs - 1, last)}
        rows = ({**of, "clock_epoch": epoch, "ts_ns": START + ms * MS, "wire_bytes": FULL} for epoch, ms in bins)
        write(store, "bins", *rows)
    write(store, "bins", {**of, "clock_epoch": 1, "ts_ns": START + 600 * MS, "wire_bytes": FULL})
    for since, until, bursts in (
        (800, 900.2, {"back": 1, "first": 1}),
        (100.7, 500, {"last": 0}),
        (500, 700, {"back": 1}),
    ):
        span = {"since": START + int(since * MS), "until": START + int(until * MS)}
        page = mburst.open(store.path).rack_report("r1", **span).report
        assert {lane.host: lane.bursts for lane in page.lanes} == bursts


def test_a_port_does_not_count_what_its_host_recorded(tmp_path: Path) -> None:
    """The host recorded all that the port carried, but not all of the time of a wide bin."""
    store = StoreFolder.create(tmp_path / "s")
    link = {
        "device": "tor1",
        "port": "E0",
        "queue": "",
        "host": "a",
        "interface": "eth0",
        "rack": "r1",
        "present": True,
    }
    write(store, "links", {**link, "rack": "r1", "origin": "configuration", "ts_ns": START})
    for host, interface, direction, first, last in (("a", "eth0", "in", 400, 900), ("tor1", "E0", "out", 500, 800)):
        name = {"recording_id": f"of-{host}", "host": host, "interface": interface, "direction": direction}
        times = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "written_ns": START + 5000 * MS}
        backend = "otlp" if direction == "out" else "afpacket"
        write(store, "recordings", {**name, **times, "packets": last - first, "backend": backend})
        write(store, "bins", *({**name, "ts_ns": START + ms * MS, "wire_bytes": FULL} for ms in range(500, 800)))
    span = {"since": START, "until": START + 5000 * MS}
    for definition in ({}, WIDE):
        page = mburst.open(store.path).rack_report("r1", **span, **definition).report
        assert [(lane.host, lane.bursts) for lane in page.inbound] == [("a", 1)]
        assert page.duration.n == 1


def test_parts_within_others() -> None:
    assert within([(0, 10), (5, 20), (30, 40)], [(-5, 2), (8, 32), (35, 36), (50, 60)]) == [
        (0, 2),
        (8, 20),
        (30, 32),
        (35, 36),
    ]
    assert within([(0, 1)], []) == within([], [(0, 1)]) == []


def recordings(folder: Path, *given: tuple[str, int, int, int]) -> StoreFolder:
    """Returns a store with recordings of hosts: first and last ms, and wire bytes of each ms."""
    store = StoreFolder.create(folder)
    for host, first, last, wire in given:
        name = {"recording_id": f"of-{host}", "host": host}
        times = {"start_ns": START + first * MS, "end_ns": START + last * MS - 1, "written_ns": START + 5000 * MS}
        write(store, "recordings", {**name, **times, "packets": last - first})
        write(store, "bins", *({**name, "ts_ns": START + ms * MS, "wire_bytes": wire} for ms in range(first, last)))
    return store


def test_hosts_that_were_never_recorded_together_do_not_contend(tmp_path: Path) -> None:
    store = recordings(tmp_path / "s", ("a", 0, 300, FULL), ("b", 600, 900, FULL))
    found = mburst.open(store.path).rack_report("r1", since="2026-11-20", until="2026-11-21", **WIDE).report.contention
    assert found is not None and (found.bursts, found.most, found.share, found.contended_ns) == (2, 1, 0, 0)


def test_a_host_bursts_only_while_it_is_recorded(tmp_path: Path) -> None:
    store = recordings(tmp_path / "s", ("a", 500, 800, FULL), ("b", 0, 3000, 100))
    definition = BurstDefinition(bin_ns=1000 * MS, threshold=0.2)
    found = detect(store.files(), definition, since_ns=START, until_ns=START + 86400 * 10**9)
    rows = found.tables.contention.to_pylist()
    assert [(row["hosts"], row["bursting"], row["ns"] // MS) for row in rows] == [(1, 0, 2700), (2, 1, 300)]


@pytest.mark.filterwarnings("ignore::mburst.DamagedFileWarning")
def test_a_burst_with_missing_bins_is_one_burst_that_contends_while_it_was_recorded(tmp_path: Path) -> None:
    """Of `a`, a file of bins is damaged; `b` receives a burst then, and `c` before."""
    store = StoreFolder.create(tmp_path / "s")
    times = {"start_ns": START, "end_ns": START + 3000 * MS - 1, "written_ns": START + 9000 * MS, "packets": 9}
    for host, parts in {
        "a": ((500, 1300), (1300, 1900), (1900, 2700)),
        "b": ((1400, 1600),),
        "c": ((700, 900),),
    }.items():
        of = {"recording_id": host, "host": host}
        write(store, "recordings", {**of, **times})
        for first, last in parts:
            rows = ({**of, "ts_ns": START + ms * MS, "wire_bytes": FULL} for ms in range(first, last))
            before = {*sealed_files(store, "bins")}
            write(store, "bins", *rows, writer_id="0123456789ab" if host == "a" else None)
            if first == 1300:
                [damaged] = {*sealed_files(store, "bins")} - before
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    span = {"since": START, "until": START + 3000 * MS, "bin": "100ms", "join": "1s"}
    report = mburst.open(store.path).rack_report("r1", **span).report
    found = report.contention
    assert found is not None and (found.bursts, found.by_host) == (3, {"a": 1.0, "b": 0.0, "c": 1.0})
    assert (found.contended_ns, [(of.hosts, of.shared_ns) for of in found.pairs]) == (
        200 * MS,
        [(("a", "c"), 200 * MS)],
    )
    assert found.bursts == sum(lane.bursts for lane in report.inbound)


def test_a_probe_meets_a_burst_only_in_recorded_time(tmp_path: Path) -> None:
    """`a` was recorded for 300 ms of a burst of one bin of 1 s: a probe at 100 ms and one at 900 ms met none."""
    store = recordings(tmp_path / "s", ("a", 500, 800, FULL))
    sent = (100, 499, 600, 799, 800, 900)
    write(store, "probes", *({"dst": "a", "src": "x", "tx_ns": START + ms * MS, "rtt_ns": MS // 2} for ms in sent))
    page = mburst.open(store.path).rack_report("r1", since=START, until=START + 5000 * MS, **WIDE).report
    [path] = page.paths
    assert (path.every.sent, path.met.sent, path.clear.sent) == (6, 2, 4)
