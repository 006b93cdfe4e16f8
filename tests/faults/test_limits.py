"""Limits of a process: files, memory, sizes of files. One line reports the limit, and acknowledged rows are kept."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from faultlib import Follower, assert_kept, end, failure, held, mburst, query, started
from labrecorder import TABLES, finish, inside, recording, sending
from livelab import Lab
from outcomes import outcome
from storelib import write
from waiting import wait_for

from mburst.sql import StoreFolder


def limited(what: str, number: int) -> tuple[str, ...]:
    """Returns the beginning of a command that runs under this limit: an option of sh's ulimit."""
    return ("sh", "-c", f'ulimit {what} {number}; exec "$@"', "sh")


def test_a_file_may_not_grow(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    follower = Follower(store, *TABLES)
    with (
        sending(lab),
        started(
            "record",
            lab.b,
            "-o",
            store,
            "--direction",
            "in",
            "--host",
            "cache",
            "--rack",
            "r1",
            prefix=(*limited("-f", 200), *inside(lab)),
        ) as process,
    ):
        code, error = end(process)
    assert code == 1 and "File too large" in failure(error), error
    kept = {table: held(store, table) for table in TABLES}
    followed = follower.stop()
    left = finish(lab, store, {table: kept[table] + followed[table] for table in TABLES})
    outcome("record live, files may not grow (ulimit -f)", 1, f"exit 1; {left}")


@pytest.mark.parametrize("files", [16, 32])
def test_few_files_while_recording(lab: Lab, tmp_path: Path, files: int) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with (
        sending(lab),
        started(
            "record",
            lab.b,
            "-o",
            store,
            "--direction",
            "in",
            "--duration",
            "1s",
            prefix=(*limited("-n", files), *inside(lab)),
        ) as process,
    ):
        code, error = end(process)
    if code:
        assert "Too many open files" in failure(error)
    else:
        assert error == "" and query(store, "SELECT sum(packets) > 0 FROM bins") == [(True,)]
    outcome(f"record live, ulimit -n {files}", 1, "one line, exit 1" if code else "records")


def test_few_files_while_querying(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    for number in range(12):
        for table in ("recordings", "bins"):
            write(
                StoreFolder(store),
                table,
                {
                    "recording_id": f"r{number}",
                    "capture_id": f"c{number}",
                    "host": f"h{number}",
                    "writer_id": f"{number:012x}",
                    "start_ns": 10**18,
                    "end_ns": 10**18 + 10**9,
                },
            )
    done = mburst("bursts", store, prefix=limited("-n", 24))
    if done.returncode:
        assert "Too many open files" in failure(done.stderr)
    else:
        assert done.stderr == "" and done.stdout.count("no burst in") == 12
    assert query(store, "SELECT count(*) FROM damaged_files") == [(0,)]
    outcome("bursts of 12 recordings, ulimit -n 24", 1, "one line, exit 1" if done.returncode else "answers")


@pytest.mark.parametrize("kibibytes", [400_000, 800_000, 1_450_000, 1_600_000])
def test_little_memory_while_recording(lab: Lab, tmp_path: Path, kibibytes: int) -> None:
    """A refusal is one line, and acknowledged rows are kept, even if the process dies of it."""
    store = StoreFolder.create(tmp_path / "store").path
    follower = Follower(store, *TABLES)
    with (
        sending(lab),
        started(
            "record",
            lab.b,
            "-o",
            store,
            "--direction",
            "in",
            "--host",
            "cache",
            "--rack",
            "r1",
            prefix=(*limited("-v", kibibytes), *inside(lab)),
        ) as process,
    ):
        time.sleep(1.5)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=60)[1]
    assert "Traceback" not in error and "ignored" not in error
    acknowledged = {table: held(store, table) for table in TABLES}
    for table, rows in follower.stop().items():
        acknowledged[table] += rows
    with recording(lab, store) as process:
        wait_for(lambda: (store / "hot").exists(), "a start")
        assert end(process, signal.SIGTERM)[0] == 0
    counts = [assert_kept(store, table, acknowledged[table]) for table in TABLES]
    ending = f"exit {process.returncode}"
    outcome(f"record live, ulimit -v {kibibytes:,}", 1, f"{ending}; {counts[0]:,} bins acknowledged: 0 lost, 0 doubled")


@pytest.mark.parametrize("kibibytes", [100_000, 325_000, 475_000, 625_000, 850_000, 1_000_000])
def test_little_memory_while_querying(tmp_path: Path, kibibytes: int) -> None:
    """An answer or one line, whichever library runs out of memory, even while it is loaded. Some libraries end the
    process by a signal."""
    store = StoreFolder.create(tmp_path / "store").path
    row = {"recording_id": "r", "capture_id": "c", "host": "h", "writer_id": f"{1:012x}"}
    for table in ("recordings", "bins"):
        write(StoreFolder(store), table, row)
    with started("bursts", store, prefix=limited("-v", kibibytes)) as process:
        error = process.communicate(timeout=60)[1]
    assert "Traceback" not in error and "ignored" not in error
    outcome(f"bursts, ulimit -v {kibibytes:,}", 1, f"exit {process.returncode}")
