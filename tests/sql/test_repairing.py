"""`mburst repair` sets damaged files aside, saves readable rows, deletes nothing, and can be killed at any step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forking import exit_code_of
from storelib import hot_logs, rows, sealed_files, write
from test_checking import T0, flip, left_hot

from mburst.__main__ import main
from mburst.sql import StoreFolder, disk, sealing
from mburst.sql.format import frames
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    made = StoreFolder.create(tmp_path / "store")
    write(made, "bins", {"ts_ns": T0, "bytes": 7_000_000}, {"host": "cache-2", "ts_ns": T0, "bytes": 9_000_000})
    return made


def total(store: StoreFolder) -> int:
    return store.connect().execute("SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM bins").fetchall()[0][0]


def content(folder: Path) -> dict[str, bytes]:
    """Returns the content of every file except the ledgers, which anybody may write."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".verified"
    }


def frame_at(log: Path, number: int) -> int:
    """Returns where the payload of a frame begins in a log."""
    at = 0
    for _ in range(number):
        length = int.from_bytes(log.read_bytes()[at + 8 : at + 16], "little")
        at += frames.HEADER + length + -length % frames.ALIGNMENT
    return at + frames.HEADER


@pytest.mark.parametrize(("number", "saved"), [(1, 110), (2, 101), (3, 11), (0, 111)])
def test_the_good_batches_of_a_damaged_log_are_saved(store: StoreFolder, number: int, saved: int, capsys: Any) -> None:
    log = left_hot(store)
    flip(log, frame_at(log, number) + 3)
    before = log.read_bytes()
    assert main(["repair", str(store.path)]) == 0
    out = capsys.readouterr().out
    assert f"rows saved of it: {3 if number == 0 else 2}; lost: rows of bins of host cache-1" in out
    assert total(store) == 16_000_000 + saved and check(store.path).is_sound
    assert (store.path / "damaged" / "hot" / "bins" / log.name).read_bytes() == before
    assert hot_logs(store, "bins") == []
    assert store.connect().execute("SELECT DISTINCT rack FROM bins").fetchall() == [("r1",)]


def test_a_sealed_file_is_moved_and_its_neighbours_stay(store: StoreFolder, capsys: Any) -> None:
    path, other = sorted(sealed_files(store, "bins"))
    flip(path, 30)
    before = path.read_bytes()
    assert main(["repair", "--dry-run", str(store.path)]) == 0
    assert path.exists() and not (store.path / "damaged").exists()
    assert main(["repair", str(store.path)]) == 0
    assert "lost: rows of bins of host cache-1 in rack r1 from 2023-11-14" in capsys.readouterr().out
    assert (store.path / "damaged" / path.relative_to(store.path)).read_bytes() == before
    assert other.exists() and total(store) == 9_000_000 and check(store.path).is_sound
    assert main(["repair", str(store.path)]) == 0 and "nothing is damaged" in capsys.readouterr().out


@pytest.mark.parametrize("output", ["a closed pipe", "/dev/full"])
def test_output_that_cannot_be_printed_stops_no_repair(store: StoreFolder, output: str) -> None:
    damaged = sealed_files(store, "bins")
    for path in damaged:
        flip(path, 30)
    read, write_end = os.pipe() if output != "/dev/full" else (-1, os.open(output, os.O_WRONLY))
    if read >= 0:
        os.close(read)
    command = [sys.executable, "-m", "mburst", "repair", str(store.path)]
    with os.fdopen(write_end, "wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60)
    assert len(damaged) == 2 and check(store.path).is_sound and not any(path.exists() for path in damaged)
    assert ("No space left" in done.stderr, done.returncode) == ((False, 0) if read >= 0 else (True, 1))
    assert "Traceback" not in done.stderr and "None" not in done.stderr


def test_a_file_that_was_set_aside_is_never_overwritten(store: StoreFolder) -> None:
    path = sorted(sealed_files(store, "bins"))[0]
    aside = store.path / "damaged" / path.relative_to(store.path)
    aside.parent.mkdir(parents=True)
    aside.write_text("an earlier one")
    flip(path, 30)
    before = path.read_bytes()
    list(repair(store.path))
    assert aside.read_text() == "an earlier one" and aside.with_name(f"{aside.name}.2").read_bytes() == before


def test_the_log_of_a_live_writer_is_left_alone(store: StoreFolder, capsys: Any) -> None:
    with store.writer("bins", "cache-1", "r1") as writer:
        writer.append(rows("bins", {"ts_ns": T0}))
        [log] = hot_logs(store, "bins")
        flip(log, frame_at(log, 1))
        assert main(["repair", str(store.path)]) == 1
        assert "left alone: its writer is running" in capsys.readouterr().out
        assert hot_logs(store, "bins") == [log]


@pytest.mark.parametrize("marker", [b"", b"\xff", b"[]"])
def test_a_damaged_marker_is_kept_and_replaced(store: StoreFolder, marker: bytes) -> None:
    (store.path / "mburst.json").write_bytes(marker)
    list(repair(store.path))
    assert total(StoreFolder.open(store.path)) == 16_000_000 and check(store.path).is_sound
    assert len(list((store.path / "damaged").iterdir())) == 1


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("where", ["sealed", "hot", "marker"])
def test_special_files_are_moved_without_being_opened(store: StoreFolder, make: Any, where: str) -> None:
    path = {"sealed": sealed_files(store, "bins")[0], "hot": left_hot(store), "marker": store.path / "mburst.json"}[
        where
    ]
    path.unlink()
    make(path)
    list(repair(store.path))
    assert check(store.path).is_sound
    StoreFolder.open(store.path).connect()


# --- killed at any step -----------------------------------------------------------------------------------------------

STEPS: list[tuple[Any, str]] = [
    (os, "rename"),
    (os, "fsync"),
    (os, "mkdir"),
    (os, "unlink"),
    (disk, "sync"),
    (sealing, "publish_log"),
]


def killed_after(steps: int, work: Callable[[], object]) -> bool:
    """Does WORK in a process that dies after so many steps on the disk. Returns whether it completed."""
    left = steps

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return call(*args, **named)

        return step

    def do() -> None:
        for module, name in STEPS:
            setattr(module, name, counted(getattr(module, name)))
        work()

    code = exit_code_of(do)
    assert code in (0, 9), code
    return code == 0


def test_a_repair_killed_at_any_step_is_completed_by_the_next(tmp_path: Path) -> None:
    for steps in range(60):
        store = StoreFolder.create(tmp_path / str(steps))
        write(store, "bins", {"ts_ns": T0, "bytes": 7_000_000}, {"host": "cache-2", "ts_ns": T0, "bytes": 9_000_000})
        log, path = left_hot(store), sorted(sealed_files(store, "bins"))[0]
        flip(log, frame_at(log, 2) + 3)
        flip(path, 30)
        (store.path / "mburst.json").write_text("")
        before = sorted([*content(store.path).values()], key=len)
        ended = killed_after(steps, lambda store=store: list(repair(store.path)))
        if (store.path / "mburst.json").read_text():
            assert total(store) == 9_000_101, "a kill shows what is saved once, or not yet"
        list(repair(store.path))
        after = content(store.path)
        assert total(store) == 9_000_101 and check(store.path).is_sound
        assert all(kept in after.values() for kept in before), "nothing is deleted"
        if ended:
            break
    else:
        pytest.fail("60 steps were not enough")
