"""Rows reach the disk within a second, each log independently; if the disk takes longer, this is reported at that
time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from storelib import rows
from waiting import wait_for

from mburst.errors import MburstError
from mburst.sql import StoreFolder, disk
from mburst.sql.format.filenames import Segment, new_writer
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.checking import is_held
from mburst.sql.segments import list_hot
from mburst.units import parse_duration

SENDER = {"first_ns": 1, "last_ns": 2}


class Disk:
    """A disk on which syncs of some tables wait for permission, and those of others fail."""

    def __init__(self) -> None:
        self.slow: set[str] = set()
        self.broken: set[str] = set()
        self.let = threading.Event()
        self.synced: list[str] = []

    def fdatasync(self, descriptor: int) -> None:
        table = Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent.name
        if table in self.broken:
            raise OSError(5, "Input/output error")
        if table in self.slow:
            assert self.let.wait(60)
        self.synced.append(table)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk of this process, with a short SYNC_S."""
    made = Disk()
    monkeypatch.setattr(os, "fdatasync", made.fdatasync)
    monkeypatch.setattr(disk, "SYNC_S", 0.1)
    monkeypatch.setattr(disk, "EVERY_S", 0.01)
    monkeypatch.setattr(disk.Syncer, "_shared", None)
    yield made
    made.let.set()


def test_a_log_does_not_wait_for_another(tmp_path: Path, slow: Disk) -> None:
    store, slow.slow = StoreFolder.create(tmp_path / "store"), {"sources"}
    reported: list[MburstError] = []
    with store.writer("sources", on_trouble=reported.append) as waiting, store.writer("bins", rack="r1") as writer:
        waiting.append(rows("sources", {**SENDER, "rack": ""}))
        wait_for(lambda: reported)
        for count in range(1, 4):
            writer.append(rows("bins", {}))
            wait_for(lambda: slow.synced.count("bins") >= count)  # noqa: B023
        assert "sources" not in slow.synced
        slow.let.set()


def test_rows_at_risk_are_reported_during_the_delay_and_after_it(tmp_path: Path, slow: Disk) -> None:
    store, slow.slow = StoreFolder.create(tmp_path / "store"), {"bins", "sources"}
    reported: list[MburstError] = []
    with (
        store.writer("bins", rack="r1", on_trouble=reported.append) as bins,
        store.writer("sources", rack="r1", on_trouble=reported.append) as sources,
    ):
        begun = time.monotonic()
        bins.append(rows("bins", {}))
        sources.append(rows("sources", SENDER))
        wait_for(lambda: len(reported) >= 3)  # again after twice as long
        slow.let.set()
        wait_for(lambda: len(slow.synced) >= 2)
        passed = time.monotonic() - begun
    seconds = [
        parse_duration(str(error).split(" rows of ")[1].split(",")[0].replace(" ", "")) / 1e9 for error in reported
    ]
    assert seconds == sorted(seconds) and seconds[0] >= disk.SYNC_S and seconds[-1] <= passed + 0.01
    assert len(seconds) <= 4 + passed / disk.SYNC_S  # both logs are one spell
    assert all(str(store.path) in str(error) and "power cut" in str(error) and error.hint for error in reported)


def test_a_fast_disk_is_not_reported(tmp_path: Path, slow: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "SYNC_S", 60.0)
    reported: list[MburstError] = []
    with StoreFolder.create(tmp_path / "store").writer("bins", rack="r1", on_trouble=reported.append) as writer:
        for count in range(1, 4):
            writer.append(rows("bins", {}))
            wait_for(lambda: len(slow.synced) >= count)  # noqa: B023
    assert reported == []


def test_a_sync_that_fails_ends_the_writer(tmp_path: Path, slow: Disk) -> None:
    store, slow.broken = StoreFolder.create(tmp_path / "store"), {"bins"}
    writer = store.writer("bins", rack="r1", on_trouble=lambda error: None)
    with pytest.raises(MburstError, match="Input/output error"):
        for _ in range(1000):
            writer.append(rows("bins", {}))
            time.sleep(0.01)
    writer.close()
    assert store.connect().execute("SELECT count(*) > 0 FROM bins").fetchall() == [(True,)]


def test_logs_that_end_leave_no_thread(tmp_path: Path, slow: Disk) -> None:
    before = threading.active_count()
    store = StoreFolder.create(tmp_path / "store")
    for _ in range(20):
        with store.writer("bins", rack="r1") as writer:
            writer.append(rows("bins", {}))
    wait_for(lambda: threading.active_count() <= before + 1)  # the thread that looks after them
    assert disk.Syncer.shared()._watched == []


def test_a_log_that_cannot_be_synced_is_not_left_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock would keep everyone from sealing it for as long as this process lives."""
    store = StoreFolder.create(tmp_path / "store")
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", lambda thread: (_ for _ in ()).throw(RuntimeError("no thread")))
        with pytest.raises(RuntimeError, match="no thread"):
            HotLog(store.path, "bins", Segment("h", 1, new_writer(), 0), "r1")
    assert not any(is_held(path) for path in list_hot(store.path, "bins").logs)
