"""kill -9 of a live recording: acknowledged rows are in the store exactly once after the next clean end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from building import library
from faultlib import (
    Follower,
    assert_counted,
    assert_kept,
    assert_sealed,
    assert_totals,
    chance,
    end,
    held,
    kill,
    query,
    times,
)
from labrecorder import received, recording, sending
from livelab import Lab
from outcomes import outcome
from waiting import wait_for

from mburst.sql import StoreFolder

TABLES = ("bins", "sources", "clock")


def killed_once(lab: Lab, store: Path, when: str, wait_s: float, traffic: ExitStack) -> tuple[bool, dict[str, list]]:
    """Records, and kills the recorder. Returns whether it was alive, and what was acknowledged until then. TRAFFIC
    begins with the first recording."""
    follower = Follower(store, *TABLES)
    with recording(lab, store, roll_s=0.15 if when == "rolling" else None) as process:
        if not received(lab):
            traffic.enter_context(sending(lab))
        wait_for(lambda: sum(rows.num_rows for rows in follower.rows["bins"]) > 100, "bins")
        time.sleep(wait_s)
        if when == "ending":
            process.send_signal(signal.SIGTERM)
            time.sleep(wait_s / 10)
        alive = kill(process)
    kept = {table: held(store, table) for table in TABLES}
    followed = follower.stop()
    return alive, {table: kept[table] + followed[table] for table in TABLES}


@pytest.mark.parametrize("when", ["running", "rolling", "ending"])
def test_a_live_recording_is_killed(lab: Lab, tmp_path: Path, when: str) -> None:
    store, random = StoreFolder.create(tmp_path / "store").path, chance("killed", when)
    acknowledged: dict[str, list] = {table: [] for table in TABLES}
    alive = 0
    with ExitStack() as traffic:
        for _ in times(2):
            lived, rows = killed_once(lab, store, when, random.random(), traffic)
            alive += lived
            for table in TABLES:
                acknowledged[table] += rows[table]
        with recording(lab, store) as process:
            traffic.close()
            time.sleep(0.3)
            assert end(process, signal.SIGTERM)[0] == 0
    assert_sealed(store)
    counts = {table: assert_kept(store, table, acknowledged[table]) for table in TABLES}
    assert counts["bins"] > 100 and counts["sources"] > 100 and counts["clock"] > 0
    assert_totals(store)
    [(ended,)] = query(store, "SELECT count(DISTINCT capture_id) FROM recordings WHERE NOT complete")
    assert ended == alive or (when == "ending" and ended <= alive)
    left = f"{counts['bins']:,} bins, {counts['sources']:,} sources acknowledged: 0 lost, 0 doubled"
    if when != "ending":
        assert_counted(store, received(lab))
        left += f"; bins, drops and gaps are all {received(lab):,} packets"
    outcome(f"record live, killed while {when}", f"{len(times(2))} kills, {alive} alive", left)


@pytest.mark.parametrize(("threads", "calls"), [(1, 2), (2, 6)])
def test_frames_that_arrive_while_the_next_recorder_starts(lab: Lab, tmp_path: Path, threads: int, calls: int) -> None:
    """They are neither lost by both recorders nor counted twice: each frame is in a gap or in a bin."""
    store = StoreFolder.create(tmp_path / "store").path
    slow = {**os.environ, "LD_PRELOAD": str(library("tests/c/slow_begin.c")), "SLOW_CALLS": str(calls)}
    with ExitStack() as traffic:
        with recording(lab, store) as first:
            traffic.enter_context(sending(lab))
            wait_for(lambda: received(lab) > 400, "frames")
            assert kill(first)
        with recording(lab, store, "--threads", str(threads), env=slow) as second:
            traffic.close()
            time.sleep(0.3)
            assert end(second, signal.SIGTERM)[0] == 0
    [(missed,)] = query(store, "SELECT packets FROM gaps WHERE reason = 'killed'")
    assert missed > 0
    assert_counted(store, received(lab))


def test_a_recording_starts_on_a_link_that_is_never_silent(lab: Lab, tmp_path: Path) -> None:
    """It takes a few tries: on a busy link there is never a pause."""
    slow = {**os.environ, "LD_PRELOAD": str(library("tests/c/slow_begin.c")), "SLOW_CALLS": "1000000"}
    with sending(lab), recording(lab, tmp_path / "store", env=slow) as process:
        before = received(lab)
        wait_for(lambda: received(lab) > before + 400, "frames")
        assert end(process, signal.SIGTERM)[0] == 0
    assert_totals(tmp_path / "store")
    [(recorded,)] = query(tmp_path / "store", "SELECT sum(packets)::BIGINT FROM recordings")
    assert 400 <= recorded <= received(lab)
