"""A disk that is full or read-only gives one line of error, and no acknowledged row is lost."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from mounts import tmpfs
from storelib import hot_logs, rows

from mburst.errors import MburstError
from mburst.sql import StoreFolder

ROWS = 1000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with the given options, and unmounts it after the test."""
    with ExitStack() as mounted:
        numbers = itertools.count()
        yield lambda options: mounted.enter_context(tmpfs(tmp_path / f"disk-{next(numbers)}", options))


def batch(number: int) -> pa.Table:
    given = [{"bytes": at, "wire_bytes": at * 7919 % 2**40} for at in range(number * ROWS, (number + 1) * ROWS)]
    return rows("bins", *given)


def seen(store: StoreFolder) -> int:
    ((count, distinct, last),) = (
        store.connect().execute("SELECT count(*), count(DISTINCT bytes), max(bytes) FROM bins").fetchall()
    )
    assert count == distinct == (0 if last is None else last + 1)
    return int(count)


def fill(folder: Path) -> None:
    """Leaves no room on a disk."""
    with open(folder / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(b"x" * 4096)


def check_message(error: MburstError, folder: Path, reason: str) -> None:
    assert str(folder) in str(error) and reason in str(error) and "\n" not in str(error) and error.hint


def test_appends_until_the_disk_is_full(disk: Callable[[str], Path]) -> None:
    folder = disk("size=3m")
    store = StoreFolder.create(folder / "store")
    writer = store.writer("bins", host="cache-1", rack="r1")
    acknowledged = 0
    with pytest.raises(MburstError) as caught:
        while True:
            writer.append(batch(acknowledged // ROWS))
            acknowledged += ROWS
    check_message(caught.value, folder, "No space left on device")
    writer.close()
    assert acknowledged > 5 * ROWS
    assert seen(store) == acknowledged
    fill(folder)  # the bytes of the torn batch are free again
    with pytest.raises(MburstError) as caught:
        store.seal()
    check_message(caught.value, folder, "No space left on device")
    assert seen(store) == acknowledged
    subprocess.run(["mount", "-o", "remount,size=20m", str(folder)], check=True)
    assert store.seal() == 1
    assert seen(store) == acknowledged and hot_logs(store, "bins") == []


def test_the_disk_fills_up_before_the_seal(disk: Callable[[str], Path]) -> None:
    folder = disk("size=3m")
    store = StoreFolder.create(folder / "store")
    writer = store.writer("bins", host="cache-1", rack="r1")
    for number in range(5):  # less than a row group: nothing is sealed before the end
        writer.append(batch(number))
    fill(folder)
    with pytest.raises(MburstError) as caught:
        writer.close()
    check_message(caught.value, folder, "No space left on device")
    assert seen(store) == 5 * ROWS
    assert list(folder.rglob("*.tmp")) == []
    (folder / "filler").unlink()
    store.seal()
    assert seen(store) == 5 * ROWS and hot_logs(store, "bins") == []


def test_a_store_that_is_mounted_read_only(disk: Callable[[str], Path]) -> None:
    folder = disk("size=3m")
    store = StoreFolder.create(folder / "store")
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(batch(0))
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    assert seen(StoreFolder.open(folder / "store")) == ROWS
    with pytest.raises(MburstError) as caught:
        StoreFolder.create(folder / "other")
    check_message(caught.value, folder, "Read-only file system")
    writing = StoreFolder.create(folder / "store").writer("bins", host="cache-1", rack="r1")
    with writing as writer, pytest.raises(MburstError) as caught:
        writer.append(batch(1))
    check_message(caught.value, folder, "Read-only file system")


def test_a_disk_with_no_room_at_all(disk: Callable[[str], Path]) -> None:
    folder = disk("size=4k")
    (folder / "filler").write_bytes(b"x" * 4096)
    with pytest.raises(MburstError) as caught:
        StoreFolder.create(folder / "store")
    check_message(caught.value, folder, "No space left on device")
