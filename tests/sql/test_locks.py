"""A look at the locks of a store hides no lock from those who take it."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from room import room

from mburst.errors import MburstError
from mburst.sql import StoreFolder, locks

NAME = "c" * 12


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return StoreFolder.create(tmp_path / "store").path


def left(store: Path, note: dict[str, object]) -> Path:
    """Leaves a lock whose holder died."""
    lock = locks.acquire(store, NAME)
    assert lock is not None
    lock.begin(note)
    lock.leave()
    return lock.path


@contextmanager
def looked_at(path: Path, seconds: float) -> Iterator[None]:
    """Someone looks at a lock, for that long: as held_notes does, but slowly."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        ended = threading.Timer(seconds, lambda: fcntl.flock(file, fcntl.LOCK_UN))
        ended.start()
        try:
            yield
        finally:
            ended.join()


def test_who_only_looks_keeps_nobody_from_taking_a_lock(store: Path) -> None:
    with looked_at(left(store, {"rows": [1]}), 0.1):
        lock = locks.acquire(store, NAME)
    assert lock is not None and lock.note["rows"] == [1]
    lock.end()


def test_a_held_lock_is_refused_at_once(store: Path) -> None:
    lock = locks.acquire(store, NAME)
    assert lock is not None
    began = time.monotonic()
    assert locks.acquire(store, NAME) is None and time.monotonic() - began < 0.05
    lock.end()


def test_who_looks_without_end_is_not_waited_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a process was stopped."""
    monkeypatch.setattr(locks, "_LOOK_S", 0.05)
    with looked_at(left(store, {"rows": [1]}), 0.2):
        assert locks.acquire(store, NAME) is None


def test_of_many_who_take_a_lock_that_many_look_at_one_gets_it(store: Path) -> None:
    over = threading.Event()
    path = left(store, {"rows": [1]})

    def look() -> None:
        while not over.is_set():
            list(locks.held_notes(store))

    found: list[locks.Lock | None] = []
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in lookers:
        thread.start()
    try:
        for _ in range(100):
            takers = [threading.Thread(target=lambda: found.append(locks.acquire(store, NAME))) for _ in range(3)]
            for thread in takers:
                thread.start()
            for thread in takers:
                thread.join()
            [lock] = filter(None, found)
            lock.leave()
            found.clear()
    finally:
        over.set()
        for thread in lookers:
            thread.join()
    assert path.exists()


@pytest.mark.parametrize("note", [None, {"rows": []}], ids=["fresh", "no rows"])
def test_a_lock_without_rows_is_not_looked_at(store: Path, monkeypatch: pytest.MonkeyPatch, note: object) -> None:
    lock = locks.acquire(store, NAME)
    assert lock is not None
    if note is not None:
        lock.begin({"rows": []})
    monkeypatch.setattr(fcntl, "flock", None)
    assert list(locks.held_notes(store)) == []
    lock.leave()


def test_a_note_that_does_not_fit_on_the_disk_is_an_error(store: Path) -> None:
    """Part of it would hide from the next recorder which recording was interrupted."""
    lock = locks.acquire(store, NAME)
    assert lock is not None
    lock.begin({"rows": [1]})
    with room(lock.path, -3), pytest.raises(MburstError, match="cannot write: File too large"):
        lock.begin({"rows": [1]})
    lock.begin({"rows": [2]})
    lock.leave()
    again = locks.acquire(store, NAME)
    assert again is not None and again.note["rows"] == [2]
    again.end()


def test_a_lock_whose_file_cannot_be_removed_is_released(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = locks.acquire(store, NAME)
    assert lock is not None
    with monkeypatch.context() as broken, pytest.raises(OSError, match="read-only"):
        broken.setattr(Path, "unlink", lambda self, missing_ok: (_ for _ in ()).throw(OSError("read-only")))
        lock.end()
    again = locks.acquire(store, NAME)
    assert again is not None
    again.end()
