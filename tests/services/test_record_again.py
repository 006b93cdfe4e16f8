"""A file may be recorded again after any kind of end: the store then has its rows once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frames import START_NS, Frame, pcap, write_pcap
from killing import Killer, memory_folder, serving
from mounts import tmpfs
from outcomes import outcome
from places import ROOT
from waiting import LIMIT_S

from mburst.__main__ import main
from mburst.services.record.recording import RecordSettings, fingerprint
from mburst.sql import StoreFolder, locks
from mburst.sql.format.filenames import SealedName
from mburst.sql.repair.recovery import rows_of

LONG = "MBURST_FAULTS" in os.environ  # `make faults`: each step, not only some of them
SUMS = {
    "recordings": "SELECT count(*), sum(packets), sum(bytes), sum(wire_bytes), min(start_ns), max(end_ns), "
    "bool_and(complete)",
    "bins": "SELECT count(*), sum(packets), sum(bytes), sum(wire_bytes), sum(ts_ns::HUGEINT), "
    "count(DISTINCT recording_id)",
    "sources": "SELECT count(*), sum(packets), sum(bytes), sum(ts_ns::HUGEINT)",
}


def test_the_last_row_of_a_recording_is_the_newest_though_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**18, 0, -(10**12)))
    monkeypatch.setattr("mburst.services.record.rows.time", SimpleNamespace(time_ns=lambda: next(clock)))
    capture = write_pcap(tmp_path / "a.pcap", [Frame(START_NS + n, 1, 100) for n in range(9)])
    assert main(["record", str(capture), "-o", str(tmp_path / "store"), "--link", "1G"]) == 0
    rows = sorted(rows_of(tmp_path / "store", "recordings"), key=lambda row: row["written_ns"])
    assert [row["ended"] for row in rows] == ["", "finished"]


def test_the_fingerprint_of_a_file_is_that_of_older_stores(tmp_path: Path) -> None:
    """With another fingerprint, for example after a field of RecordSettings was renamed, each file of an older store
    would be recorded again."""
    (tmp_path / "x").write_bytes(b"x")
    assert fingerprint(RecordSettings([str(tmp_path / "x")])) == "c598cd92c28b"


def sums(store: Path) -> dict[str, tuple]:
    con = StoreFolder.open(store).connect()
    assert con.execute("FROM damaged_files").fetchall() == []
    return {table: con.execute(f"{query} FROM {table}").fetchone() for table, query in SUMS.items()}


def consistent(store: Path) -> None:
    """Asserts that the totals of recordings are those of their bins, and that each bin is stored once, whatever was
    killed."""
    if not (store / "mburst.json").exists():
        return
    con = StoreFolder.open(store).connect()
    stored = con.execute("""
        SELECT r.recording_id, r.packets, r.bytes, r.wire_bytes, coalesce(b.packets, 0), coalesce(b.bytes, 0),
               coalesce(b.wire_bytes, 0), coalesce(b.times, 0) = coalesce(b.rows, 0),
               r.complete AND r.ended <> 'finished'
        FROM recordings r LEFT JOIN (
            SELECT recording_id, sum(packets) AS packets, sum(bytes) AS bytes, sum(wire_bytes) AS wire_bytes,
                   count(*) AS rows, count(DISTINCT (clock_epoch, ts_ns)) AS times
            FROM bins GROUP BY ALL) b USING (recording_id)""").fetchall()
    for name, *row in stored:
        assert row[:3] == row[3:6] and row[6] and not row[7], (name, row)
    assert con.execute(
        "SELECT count(*) FROM bins WHERE recording_id NOT IN (SELECT recording_id FROM recordings)"
    ).fetchone() == (0,)


def is_tidy(store: Path) -> None:
    """Asserts that one sealed attempt at the file is left, and nothing of the others."""
    assert locks.names(store) == []
    assert [path.name for path in store.rglob("*.tmp")] == [path.name for path in store.rglob("*.log")] == []
    sealed = [SealedName.parse(path.name) for path in store.rglob("*.parquet")]
    assert len({name.segment.writer for name in sealed if name}) == 1 and None not in sealed


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with serving(ROOT / "tests" / "lib" / "killed_recorder.py") as killer:
        yield killer


@pytest.fixture
def memory() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def killed_recording(killer: Killer, file: Path, store: Path, step: int | None = None) -> dict[str, Any]:
    """Records FILE in a process that is killed at a step."""
    return killer.order(arguments=[str(file), "-o", str(store)], step=step)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = [Frame(START_NS + i * 70_000, i % 7, 60 + i % 1400, i % 3, outgoing=i % 9 == 0) for i in range(1500)]
    return write_pcap(tmp_path_factory.mktemp("capture") / "eth0.pcap", frames)


def test_killed_at_every_step_and_recorded_again(killer: Killer, file: Path, memory: Path) -> None:
    """The second attempt is killed in some cases too: each of its steps may follow any step of the first."""
    whole = killed_recording(killer, file, memory / "whole")
    assert whole["code"] == 0
    wanted = sums(memory / "whole")
    assert wanted["bins"][1] == 1500 and wanted["recordings"][1] == 1500
    steps = range(1, whole["calls"] + 2)
    chooser = random.Random(1)
    chosen = steps if LONG else sorted({*chooser.sample(steps, 5), *steps[-6:]})
    for step in chosen:
        store = memory / str(step)
        first = killed_recording(killer, file, store, step)
        assert first["killed"] or step > whole["calls"] - 3, step
        consistent(store)
        if step % 2:
            killed_recording(killer, file, store, chooser.choice(steps))
            consistent(store)
        assert killed_recording(killer, file, store)["code"] == 0
        assert sums(store) == wanted, step
        assert killed_recording(killer, file, store)["code"] == 0  # the rest of a killed removal is gone by then
        assert sums(store) == wanted, step
        is_tidy(store)
        shutil.rmtree(store)
    outcome("record FILE, killed at a step, again", f"{len(chosen)} of {len(steps)} steps", "sums of the file in all")


def run(file: Path, store: Path) -> list[str]:
    return [sys.executable, "-m", "mburst", "record", str(file), "-o", str(store)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that takes a second or so to record."""
    path = tmp_path_factory.mktemp("large") / "cache.pcap"
    path.write_bytes(pcap(Frame(START_NS + i * 40_000, i % 50, 100) for i in range(400_000)))
    return path


def test_captures_that_differ_in_one_byte_are_two_recordings(tmp_path: Path) -> None:
    """They differ in the middle, so that comparing both ends would not show it. One capture under two names is one
    recording."""
    capture = tmp_path / "a.pcap"
    frames = [Frame(START_NS + i * 40_000, i % 50, 100) for i in range(40_000)]
    capture.write_bytes(pcap(frames))
    other = tmp_path / "b.pcap"
    other.write_bytes(pcap([*frames[:20_000], replace(frames[20_000], size=101), *frames[20_001:]]))
    (tmp_path / "link.pcap").symlink_to(capture)
    for path in (capture, other, tmp_path / "link.pcap", capture):
        assert main(["record", str(path), "-o", str(tmp_path / "store"), "--host", "cache-1"]) == 0
    assert StoreFolder.open(tmp_path / "store").connect().execute(
        "SELECT count(*), sum(packets) FROM recordings"
    ).fetchall() == [(2, 80_000)]


def wait_for_bins(store: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LIMIT_S
    while process.poll() is None:
        if (store / "mburst.json").exists() and not StoreFolder.open(store).is_empty("bins"):
            return
        assert time.monotonic() < until
        time.sleep(0.01)
    raise AssertionError(f"it ended: {process.communicate()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_by_a_signal_and_recorded_again(large: Path, tmp_path: Path, number: signal.Signals) -> None:
    store = tmp_path / "store"
    process = subprocess.Popen(run(large, store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_bins(store, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    consistent(store)
    held = sums(store)["recordings"]
    if number != signal.SIGKILL:
        assert process.returncode == 130 and error.count("\n") == 1
        assert (
            error.startswith("mburst: interrupted (recorded before that: ") and "the same command records all" in error
        )
    assert held[1] < 400_000 and not held[-1]
    again = subprocess.run(run(large, store), capture_output=True, text=True, check=True)
    assert "an interrupted recording of it (" in again.stdout and ") was replaced\n" in again.stdout
    assert sums(store)["recordings"][1:3] == sums(store)["bins"][1:3] == (400_000, 40_000_000)
    assert sums(store)["recordings"][-1]
    is_tidy(store)
    third = subprocess.run(run(large, store), capture_output=True, text=True, check=True)
    assert third.stdout.endswith("already recorded: nothing added\n")
    assert sums(store)["bins"][1:3] == (400_000, 40_000_000)


def test_two_recorders_of_one_file_at_once(large: Path, tmp_path: Path) -> None:
    """The second recorder adds nothing and names the first, which continues."""
    store = tmp_path / "store"
    first = subprocess.Popen(run(large, store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_bins(store, first)
    first.send_signal(signal.SIGSTOP)
    try:
        second = subprocess.run(run(large, store), capture_output=True, text=True, timeout=60)
    finally:
        first.send_signal(signal.SIGCONT)
    assert second.returncode == 1 and second.stderr.count("\n") == 1
    assert f"process {first.pid} is recording it into {store}" in second.stderr and "nothing added" in second.stderr
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert sums(store)["recordings"][1:3] == sums(store)["bins"][1:3] == (400_000, 40_000_000)
    is_tidy(store)


def test_a_bad_input_is_reported_each_time_and_counted_once(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(file.read_bytes())
    offset = 24
    for _ in range(1000):
        offset += 16 + int.from_bytes(data[offset + 8 : offset + 12], "little")
    data[offset + 8 : offset + 12] = b"\xff\xff\xff\x7f"
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(data)
    for _ in range(3):
        assert main(["record", str(bad), "-o", str(tmp_path / "s")]) == 1
        assert str(offset) in capsys.readouterr().err
        assert sums(tmp_path / "s")["bins"][1] == sums(tmp_path / "s")["recordings"][1] == 1000
    con = StoreFolder.open(tmp_path / "s").connect()
    assert con.execute("SELECT DISTINCT ended, complete FROM recordings").fetchall() == [("failed", False)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
@pytest.mark.parametrize("size", ["96k", "1m"])
def test_a_file_is_recorded_once_a_full_disk_has_room_again(large: Path, tmp_path: Path, size: str) -> None:
    with tmpfs(tmp_path / "disk", f"size={size}") as disk:
        for _ in range(2):
            full = subprocess.run(run(large, disk / "s"), capture_output=True, text=True)
            assert full.returncode == 1 and full.stderr.count("\n") == 1 and "No space left" in full.stderr
            consistent(disk / "s")
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        subprocess.run(run(large, disk / "s"), capture_output=True, text=True, check=True)
        assert sums(disk / "s")["recordings"][1:3] == sums(disk / "s")["bins"][1:3] == (400_000, 40_000_000)
        is_tidy(disk / "s")


def test_invalid_locks_are_removed_and_other_files_are_left_alone(file: Path, tmp_path: Path) -> None:
    """The locks were left by dead recorders and have invalid content."""
    store = tmp_path / "s"
    assert main(["record", str(file), "-o", str(store)]) == 0
    (store / "locks").mkdir(exist_ok=True)
    for text in (
        b"",
        b"\xff\xfe",
        b"[1]\n{}\n",
        b'{"pid": 1}\n[[[[',
        b'{"pid": 1}\n{"rows": 5}\n',
        b'{}\n{"rows": [5]}',
        b'{}\n{"rows": [{"writer_id": "x", "packets": []}]}',
        b'{}\n{"rows": [{}]}',
    ):
        (store / "locks" / "0123456789ab").write_bytes(text)
        (store / "locks" / "notes").write_text("mine")
        assert main(["record", str(file), "-o", str(store)]) == 0
        assert os.listdir(store / "locks") == ["notes"]
