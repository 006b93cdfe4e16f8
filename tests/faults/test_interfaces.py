"""Interfaces that disappear and return, and an interface that two recorders share."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from faultlib import Follower, assert_kept, assert_sealed, assert_totals, end, failure, query, started, succeed, times
from labrecorder import TABLES, finish, recorder, recording, running, sending, wait_until_recorded
from livelab import Lab, promiscuity, sh
from outcomes import outcome
from processes import has_open
from waiting import wait_for

from mburst.sql import StoreFolder


def test_an_interface_goes_down_and_up(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with sending(lab), running(lab, tmp_path, store) as process:
        wait_for(lambda: recorder(process.pid), "the recorder's start")
        wait_until_recorded(store)
        follower = Follower(store, *TABLES)
        for _ in times(1):
            sh(f"ip -n {lab.far} link set {lab.b} down")
            time.sleep(0.5)
            sh(f"ip -n {lab.far} link set {lab.b} up")
            wait_until_recorded(store)
    left = finish(lab, store, follower.stop())
    outcome("run, its interface down and up", len(times(1)), f"records on; {left}")


def test_an_interface_vanishes_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with sending(lab), running(lab, tmp_path, store) as process:
        wait_for(lambda: recorder(process.pid), "the recorder's start")
        wait_until_recorded(store)
        follower = Follower(store, *TABLES)
        time.sleep(0.3)
        sh(f"ip -n {lab.far} link del {lab.b}")
        wait_for(lambda: "has vanished" in (tmp_path / "log").read_text(), "word of it")
    sh(f"ip link add {lab.a} netns {lab.near} type veth peer name {lab.b} netns {lab.far}")
    for namespace, name in ((lab.near, lab.a), (lab.far, lab.b)):
        sh(f"ip -n {namespace} link set {name} up")
    with sending(lab), running(lab, tmp_path, store) as process:
        wait_for(lambda: recorder(process.pid), "the recorder's start")
        wait_until_recorded(store)
    left = finish(lab, store, follower.stop())
    outcome("run, its interface removed and created again", 1, f"one line; records again; {left}")


def test_two_recorders_of_one_interface(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with recording(lab, store) as one, recording(lab, store) as two:
        with sending(lab):
            time.sleep(0.7)
        time.sleep(0.3)
        for process in (one, two):
            assert end(process, signal.SIGTERM)[0] == 0
    rows = query(store, "SELECT packets, bytes FROM recordings")
    assert len(rows) == 2 and rows[0] == rows[1] and rows[0][0] > 0
    assert_totals(store)
    assert_sealed(store)
    output = succeed("bursts", store)
    assert "recorded the same interface and time" in output.stdout + output.stderr
    outcome("two recorders of one interface", 1, "each whole; verbs say that the same was recorded twice")


def test_the_store_is_moved_while_recording(lab: Lab, tmp_path: Path) -> None:
    store, moved = StoreFolder.create(tmp_path / "store").path, tmp_path / "moved"
    follower = Follower(store, "bins")
    with sending(lab), recording(lab, store, roll_s=1.0) as process:
        follower.wait()
        rows = follower.stop()["bins"]
        store.rename(moved)
        code, error = end(process)
    assert code == 1 and "No such file or directory" in failure(error), error
    assert not store.exists() or not list(store.rglob("*.parquet")), "rows beside the store that was moved"
    with recording(lab, moved) as process:
        time.sleep(0.2)
        assert end(process, signal.SIGTERM)[0] == 0
    count = assert_kept(moved, "bins", rows)
    assert_sealed(moved)
    outcome("record live, store moved", 1, f"one line, exit 1; {count:,} bins acknowledged: 0 lost, 0 doubled")


@pytest.mark.parametrize("other", [[], ["lo"]], ids=["one", "two"])
def test_the_store_of_silent_interfaces_is_replaced_while_recording(lab: Lab, tmp_path: Path, other: list[str]) -> None:
    """No row arrives that could not be stored."""
    store = StoreFolder.create(tmp_path / "store").path
    sh(f"ip -n {lab.far} link set lo up")
    words = ["record", lab.b, *other, "-o", store, "--backend", "afpacket"]
    before = promiscuity(lab)
    with started(*words, prefix=("ip", "netns", "exec", lab.far)) as process:
        wait_for(lambda: promiscuity(lab) > before, "the recording begins")
        wait_for(lambda: has_open(process.pid, store), "its look at the store")
        shutil.rmtree(store)
        StoreFolder.create(store)
        code, error = end(process)
    assert code == 1 and "another folder than the one that was opened" in failure(error), error
    assert query(store, "SELECT count(*) FROM recordings") == [(0,)]


def removed(store: Path) -> bool:
    """Runs `rm -rf` once. It fails if the recorder began a file in a folder that rm had read and not yet removed"""
    return subprocess.run(["rm", "-rf", str(store)], capture_output=True, check=False).returncode == 0


def test_the_store_is_removed_while_recording(lab: Lab, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store").path
    with sending(lab), recording(lab, store, roll_s=1.0) as process:
        wait_until_recorded(store)
        wait_for(lambda: removed(store), "the removal")
        code, error = end(process)
    assert code == 1, error
    failure(error)
    outcome("record live, store removed", 1, "one line, exit 1")
