"""A follower of a table gets every row once, in the writers' order, in whatever order writing, sealing and polling
happen."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import rows

from mburst.sql import StoreFolder, follow
from mburst.sql.follow import TableFollower
from mburst.sql.writer import TableWriter

SEGMENT = "bad-01700000000000000000-0123456789ab-0"
STEPS = st.lists(st.sampled_from(["append", "other", "close", "poll"]), min_size=1, max_size=25)


def followed(tail: TableFollower) -> list[int]:
    return [at for table in tail.poll() for at in table.column("ts_ns").to_pylist()]


@settings(deadline=None, max_examples=40)
@given(before=st.integers(0, 4), steps=STEPS)
def test_every_row_is_told_once(before, steps):
    with TemporaryDirectory() as folder:
        store = StoreFolder.create(Path(folder, "store"))
        writers = {}
        written, now = 0, time.time_ns()  # sealed files of former days are no news

        def append(name):
            nonlocal written
            writer = writers.setdefault(name, TableWriter(store.path, "bins", "cache-1", "r1", roll_rows=3))
            writer.append(
                rows("bins", {"ts_ns": now + written}, {"ts_ns": now + written + 1, "recording_id": f"run-{written}"})
            )
            written += 2

        for _ in range(before):
            append("append")
        known, tail = written, TableFollower(store.path, "bins", look_for_sealed_s=0)
        found = []
        for step in steps:
            if step == "poll":
                found += followed(tail)
            elif step == "close":
                for writer in writers.values():
                    writer.close()
                writers.clear()
            else:
                append(step)
        for writer in writers.values():
            writer.close()
        found += followed(tail) + followed(tail)
        tail.close()
        assert sorted(found) == list(range(now + known, now + written))
        assert tail.damage == []


def test_a_torn_batch_waits_for_its_rest(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    tail = TableFollower(store.path, "bins")
    writer = store.writer("bins", "cache-1", "r1")
    writer.append(rows("bins", {"ts_ns": 1}))
    [log] = (store.path / "hot" / "bins").iterdir()
    assert followed(tail) == [1]
    whole = log.stat().st_size
    writer.append(rows("bins", {"ts_ns": 2}))
    content = log.read_bytes()
    with log.open("r+b") as file:
        file.truncate(whole + (len(content) - whole) // 2)
    assert followed(tail) == []
    with log.open("r+b") as file:
        file.write(content)
    assert followed(tail) == [2]
    writer.close()


def test_only_segments_that_are_listed_are_remembered(tmp_path, monkeypatch):
    """A follower runs for years. A store that is away for a while has no news when it comes back."""
    store = StoreFolder.create(tmp_path / "store")
    tail, now = TableFollower(store.path, "bins", look_for_sealed_s=0), time.time_ns()

    def write(at: int) -> None:
        with store.writer("bins", "cache-1", "r1") as writer:
            writer.append(rows("bins", {"ts_ns": at}))

    write(now)
    assert followed(tail) == [now]
    (store.path / "bins").rename(tmp_path / "away")
    assert followed(tail) == []
    (tmp_path / "away").rename(store.path / "bins")
    assert followed(tail) == [] and len(tail._done) == 1
    shutil.rmtree(store.path / "bins")
    monkeypatch.setattr(follow, "FORGET_S", 0.0)
    for at in range(now + 1, now + 4):
        write(at)
    assert sorted(followed(tail)) == [now + 1, now + 2, now + 3]
    assert followed(tail) == [] and len(tail._done) == 3


def test_damage_is_reported_and_the_rest_is_followed(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    tail = TableFollower(store.path, "bins")
    folder = store.path / "hot" / "bins"
    folder.mkdir(parents=True)
    (folder / f"{SEGMENT}.log").write_bytes(b"no frame at all, and longer than a header is")
    with store.writer("bins", "cache-1", "r1") as writer:
        writer.append(rows("bins", {"ts_ns": 1}))
        assert followed(tail) == [1]
    assert len(tail.damage) == 1 and SEGMENT in tail.damage[0] and "damaged" in tail.damage[0]


@pytest.mark.parametrize("rack, wanted", [("r1", [1]), ("r2", [2]), (None, [1, 2])])
def test_a_single_rack_is_followed(tmp_path, rack, wanted):
    store = StoreFolder.create(tmp_path / "store")
    tail = TableFollower(store.path, "bins", rack)
    for at, name in ((1, "r1"), (2, "r2")):
        writer = store.writer("bins", "cache-1", name)
        writer.append(rows("bins", {"ts_ns": at, "rack": name}))
    assert sorted(followed(tail)) == wanted
