"""kill -9 of `mburst run` and of its children."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faultlib import (
    MBURST,
    Follower,
    assert_kept,
    assert_sealed,
    assert_totals,
    chance,
    held,
    outcome,
    query,
    times,
    wait_for,
    wait_for_rows,
)
from labrecorder import inside, recording, sending
from livelab import Lab

from mburst.sql import Store

TABLES = ("bins", "sources")


def children(pid: int) -> list[int]:
    """The processes that process PID has started."""
    try:
        return [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    except OSError:
        return []


def recorder(pid: int) -> int | None:
    """The child that records."""
    for child in children(pid):
        try:
            if "\0record\0" in Path(f"/proc/{child}/cmdline").read_text():
                return child
        except OSError:
            continue
    return None


@contextmanager
def running(lab: Lab, folder: Path, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`mburst run` in the far namespace, with a recording and metrics; its file and log are in FOLDER."""
    (folder / "mburst.toml").write_text(
        f'store = "{store}"\nrack = "r1"\n[record]\ninputs = ["{lab.b}"]\ndirection = "in"\nhost = "cache"\n'
        '[metrics]\nlisten = "127.0.0.1:0"\n')
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*inside(lab), *MBURST, "run"], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
                process.wait()
    assert "Traceback" not in (folder / "log").read_text()


def finish(lab: Lab, store: Path, acknowledged: dict[str, list[Any]]) -> str:
    """End clean, and hold the store against what was acknowledged."""
    with recording(lab, store) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert_sealed(store)
    assert_totals(store)
    counts = {table: assert_kept(store, table, acknowledged[table]) for table in TABLES}
    assert all(counts.values())
    return f"{counts['bins']:,} bins, {counts['sources']:,} sources acknowledged: 0 lost, 0 doubled"


def test_the_parent_is_killed(lab: Lab, tmp_path: Path) -> None:
    store, acknowledged = Store.create(tmp_path / "store").path, {table: [] for table in TABLES}
    with sending(lab):
        for attempt in times(1):
            follower = Follower(store, *TABLES)
            with running(lab, tmp_path, store) as process:
                wait_for(lambda: recorder(process.pid), "the recorder's start")
                wait_for_rows(store, "bins")
                time.sleep(chance("parent", attempt).random())
                parts = children(process.pid)
                rows = {table: held(store, table) for table in TABLES}
                process.kill()
                process.wait()
                wait_for(lambda: not any(Path(f"/proc/{part}").exists() for part in parts), "the parts' end")  # noqa: B023
            for table, followed in follower.stop().items():
                acknowledged[table] += rows[table] + followed
    outcome("run, its parent killed", f"{len(times(1))} kills", f"all parts end; {finish(lab, store, acknowledged)}")


def test_the_recording_part_is_killed(lab: Lab, tmp_path: Path) -> None:
    store, acknowledged = Store.create(tmp_path / "store").path, {table: [] for table in TABLES}
    with sending(lab), running(lab, tmp_path, store) as process:
        for attempt in times(2):
            wait_for(lambda: recorder(process.pid), "the recorder's start")
            wait_for_rows(store, "bins")
            time.sleep(chance("child", attempt).random())
            part = recorder(process.pid)
            assert part
            os.kill(part, signal.SIGKILL)
            wait_for(lambda: not Path(f"/proc/{part}").exists(), "its end")  # noqa: B023
            for table in TABLES:
                acknowledged[table] += held(store, table)
        wait_for(lambda: recorder(process.pid), "the recorder's start")
        wait_for_rows(store, "bins")
    left = finish(lab, store, acknowledged)
    assert query(store, "SELECT count(DISTINCT capture_id) FROM recordings WHERE NOT complete") == [(len(times(2)),)]
    outcome("run, its recording part killed", f"{len(times(2))} kills", f"started again; {left}")
