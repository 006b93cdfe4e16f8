"""kill -9 of `mburst run` and of its children."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from faultlib import Follower, chance, held, query, times
from labrecorder import TABLES, finish, recorder, running, sending, wait_until_recorded
from livelab import Lab
from outcomes import outcome
from processes import children
from waiting import wait_for

from mburst.sql import StoreFolder


def test_the_parent_is_killed(lab: Lab, tmp_path: Path) -> None:
    store, acknowledged = StoreFolder.create(tmp_path / "store").path, {table: [] for table in TABLES}
    with sending(lab):
        for attempt in times(1):
            follower = Follower(store, *TABLES)
            with running(lab, tmp_path, store) as process:
                wait_for(lambda: recorder(process.pid), "the recorder's start")
                wait_until_recorded(store)
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
    store, acknowledged = StoreFolder.create(tmp_path / "store").path, {table: [] for table in TABLES}
    with sending(lab), running(lab, tmp_path, store) as process:
        for attempt in times(2):
            wait_for(lambda: recorder(process.pid), "the recorder's start")
            wait_until_recorded(store)
            time.sleep(chance("child", attempt).random())
            part = recorder(process.pid)
            assert part
            os.kill(part, signal.SIGKILL)
            wait_for(lambda: not Path(f"/proc/{part}").exists(), "its end")  # noqa: B023
            for table in TABLES:
                acknowledged[table] += held(store, table)
        wait_for(lambda: recorder(process.pid), "the recorder's start")
        wait_until_recorded(store)
    left = finish(lab, store, acknowledged)
    assert query(store, "SELECT count(DISTINCT capture_id) FROM recordings WHERE NOT complete") == [(len(times(2)),)]
    outcome("run, its recording part killed", f"{len(times(2))} kills", f"started again; {left}")
