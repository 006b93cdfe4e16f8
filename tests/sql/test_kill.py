"""Acknowledged rows survive kill -9, once each, at any step: of the writer, of the seal, and of the seal after that."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from killing import Killer, memory_folder, serving
from storelib import hot_logs, rows

from mburst.sql import StoreFolder, segments
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog

HERE = Path(__file__).parent
TOTAL = 42  # rows that killed.py writes


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with serving(HERE / "killed.py") as killer:
        yield killer


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def seen(store: StoreFolder) -> list[int]:
    """Returns `bytes` of all rows, sorted, from the files that `connect` reads."""
    found = segments.snapshot(store.path, "bins", segments.FileSelection())
    assert found.damage == []
    tables = [*(log.rows for log in found.logs), *(pq.ParquetFile(file.path).read() for file in found.files)]
    return sorted(at for table in tables for at in table.column("bytes").to_pylist())


def check(store: StoreFolder, acknowledged: int) -> None:
    """Asserts that readers see the acknowledged rows, and at most the one batch that was being acknowledged, before and
    after sealing."""
    found = seen(store)
    assert found == list(range(len(found))) and acknowledged <= len(found) <= acknowledged + 7
    store.seal()
    assert seen(store) == found
    assert hot_logs(store, "bins") == []
    assert [path for path in store.path.rglob("*.tmp")] == []


def test_a_writer_killed_at_every_step(killer: Killer, in_memory: Path) -> None:
    step = 0
    while True:
        step += 1
        store = StoreFolder.create(in_memory / str(step))
        answer = killer.order(store=str(store.path), work="write", step=step)
        check(store, answer["acknowledged"])
        shutil.rmtree(store.path)
        if not answer["killed"]:
            assert answer["code"] == 0 and answer["acknowledged"] == TOTAL
            break
    assert step > 40  # so many places to be killed at


def test_a_seal_killed_at_every_step(killer: Killer, in_memory: Path) -> None:
    source = StoreFolder.create(in_memory / "source")
    for log in range(2):
        kept = HotLog(source.path, "bins", filenames.new_segment("cache-1", filenames.new_writer(), 0), "r1")
        mine = range(log * TOTAL // 2, (log + 1) * TOTAL // 2)
        kept.append(rows("bins", *({"ts_ns": (at == mine[-1]) * 86_400 * 10**9, "bytes": at} for at in mine)))
        kept.leave()
    step = 0
    while True:
        step += 1
        shutil.copytree(source.path, in_memory / str(step))
        store = StoreFolder.open(in_memory / str(step))
        killed = killer.order(store=str(store.path), work="seal", step=step)["killed"]
        assert seen(store) == list(range(TOTAL))
        again = killer.order(store=str(store.path), work="seal", step=step // 2 + 1)["killed"]
        check(store, TOTAL)
        shutil.rmtree(store.path)
        if not killed and not again:
            break
    assert step > 15


def test_a_writer_killed_at_any_time(killer: Killer, tmp_path: Path) -> None:
    for attempt in range(8):
        store = StoreFolder.create(tmp_path / str(attempt))
        answer = killer.order(store=str(store.path), work="endless", seconds=0.05 + 0.03 * attempt)
        assert answer["killed"]
        check(store, answer["acknowledged"])


def test_the_log_of_a_live_writer_is_left_alone(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", {"bytes": 0}))
        assert StoreFolder.open(tmp_path).seal() == 0
        with store.writer("bins", host="cache-1", rack="r1") as other:
            other.append(rows("bins", {"bytes": 1}))
        writer.append(rows("bins", {"bytes": 2}))
        assert len(hot_logs(store, "bins")) == 1
    assert seen(store) == [0, 1, 2]


def test_the_next_writer_seals_the_log_of_a_dead_one(killer: Killer, tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path)
    answer = killer.order(store=str(store.path), work="endless", seconds=0.1)
    with store.writer("bins", host="cache-2", rack="r2") as writer:
        writer.append(rows("bins", {"host": "cache-2", "rack": "r2", "bytes": 10**9}))
    assert hot_logs(store, "bins") == []
    assert len(seen(store)) >= answer["acknowledged"] + 1
