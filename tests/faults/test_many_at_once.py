"""Many processes write to one store at once, and start while others tidy it: no file in use is removed, and no leftover
stays."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from captured import write_capture
from faultlib import LIMIT_S, assert_sealed, end, query, started, times
from outcomes import outcome
from storelib import rows
from waiting import wait_for

from mburst.services.record import recovery
from mburst.sql import StoreFolder, locks
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair import recovery as cleaning
from mburst.sql.sealing import SealedParts
from mburst.sql.writer import TableWriter

RECORDERS = 5
PACKETS = 20_000
T0 = 1_700_000_000_000_000_000
OLD_S = 3600.0


def bins(host: str, first: int, count: int) -> pa.Table:
    return rows(
        "bins", *({"recording_id": f"{host}-0", "host": host, "ts_ns": T0 + at} for at in range(first, first + count))
    )


def leave_behind(store: StoreFolder, number: int) -> None:
    """Creates what a dead writer leaves: a log, a partial seal of it, and drafts."""
    log = HotLog(store.path, "bins", filenames.new_segment("dead", filenames.new_writer(), 0), "r1")
    log.append(bins("dead", number, 1))
    half = SealedParts(store.path, "bins", "r1", log.segment)  # by the holder of the log: no other process seals now
    half.add(bins("dead", number, 1))
    log.leave()
    other = SealedParts(store.path, "bins", "r1", filenames.new_segment("dead", filenames.new_writer(), 0))
    other.add(bins("dead", number, 1))
    draft = log.path.with_name(f"{filenames.new_segment('dead', filenames.new_writer(), 0)}.new")
    draft.write_bytes(b"half a header")
    old = time.time() - OLD_S
    os.utime(draft, (old, old))


def test_recorders_that_begin_at_once_in_a_store_with_leftovers(tmp_path: Path) -> None:
    files = [write_capture(tmp_path / f"{number}.pcap", PACKETS, seed=number) for number in range(RECORDERS)]
    for attempt in times(1):
        store = StoreFolder.create(tmp_path / f"store-{attempt}")
        for number in range(10):
            leave_behind(store, number)
        own, written = TableWriter(store.path, "bins", "alive", "r1", roll_rows=30), 0
        with ExitStack() as stack:
            begun = [
                stack.enter_context(
                    started("record", file, "-o", store.path, "--link", "10G", "--host", "cache", "--rack", "r1")
                )
                for file in files
            ]
            until = time.monotonic() + LIMIT_S
            while any(process.poll() is None for process in begun):  # this one rolls some hundred times meanwhile
                own.append(bins("alive", written, 10))
                written += 10
                assert time.monotonic() < until
                time.sleep(0.01)
            ends = [end(process) for process in begun]
        own.close()
        assert ends == [(0, "")] * RECORDERS
        assert_sealed(store.path)
        assert locks.names(store.path) == []
        counts = dict(query(store.path, "SELECT host, count(*) FROM bins WHERE host <> 'cache' GROUP BY ALL"))
        assert counts == {"dead": 10, "alive": written}
        assert query(store.path, "SELECT count(DISTINCT ts_ns) FROM bins WHERE host = 'alive'") == [(written,)]
        for table in ("recordings", "bins", "sources"):
            assert query(store.path, f"SELECT sum(packets) FROM {table} WHERE host = 'cache'") == [
                (PACKETS * RECORDERS,)
            ]
    outcome(
        "recorders that begin at once, with leftovers",
        f"{len(times(1))} stores, {RECORDERS} each",
        f"all whole; {written} rows of a writer beside them: 0 lost, 0 doubled; nothing left",
    )


def test_a_draft_is_not_locked_before_its_writer_locks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often other processes tidy the store in between."""
    store, locked = StoreFolder.create(tmp_path / "store"), []

    def flock(file: int, how: int) -> None:
        locked.append(os.readlink(f"/proc/self/fd/{file}"))

    monkeypatch.setattr(fcntl, "flock", flock)
    hot = store.path / "hot" / "bins"
    hot.mkdir(parents=True)
    young, old = (hot / f"{filenames.new_segment('h', filenames.new_writer(), 0).name}.new" for _ in range(2))
    for draft in (young, old):
        draft.touch()
    os.utime(old, (time.time() - OLD_S, time.time() - OLD_S))
    cleaning.clean(store.path, lambda error: None)
    assert locked == [str(old)] and young.exists() and not old.exists()


def test_running_recorders_tidy_up_after_others_that_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three recorders run all the time, while writers start, roll and die. A failed seal is tried again and reported
    once."""
    monkeypatch.setattr(recovery, "TIDY_S", 0.02)
    store, errors, dead = StoreFolder.create(tmp_path / "store"), [], 0
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(recovery.Housekeeping(store, errors.append))
        own = stack.enter_context(TableWriter(store.path, "bins", "alive", "r1", roll_rows=2))
        for dead in range(1, 21):
            leave_behind(store, dead)
            own.append(bins("alive", dead, 1))
        wait_for(lambda: not list(store.path.glob("hot/bins/dead-*")), "all that died is in order")
        assert errors == []
        (store.path / "probes").write_text("in the way")
        log = HotLog(store.path, "probes", filenames.new_segment("dead", filenames.new_writer(), 0), "")
        log.append(rows("probes", {"tx_ns": T0}))
        log.leave()
        wait_for(lambda: len(errors) == 3, "that it cannot be sealed")
        (store.path / "probes").unlink()
        wait_for(lambda: not log.path.exists(), "it is sealed")
    assert {str(error).startswith("not sealed yet: ") for error in errors} == {True} and len(errors) == 3
    assert_sealed(store.path)
    counts = dict(query(store.path, "SELECT host, count(*) FROM bins GROUP BY ALL"))
    assert counts == {"dead": dead, "alive": dead} and query(store.path, "SELECT count(*) FROM probes") == [(1,)]


def test_files_in_progress_are_no_leftovers(tmp_path: Path) -> None:
    """A draft that a process holds, or that is young; a log that is held; a seal under way."""
    store = StoreFolder.create(tmp_path / "store")
    own = store.writer("bins", "alive", "r1")
    own.append(bins("alive", 0, 1))
    young = store.path / "hot" / "bins" / f"{filenames.new_segment('young', filenames.new_writer(), 0)}.new"
    young.touch()
    [log] = (store.path / "hot" / "bins").glob("*.log")
    part = SealedParts(store.path, "bins", "r1", filenames.Segment.parse(log.stem))
    part.add(bins("alive", 0, 1))
    [draft] = store.path.glob("bins/date=*/rack=*/*.tmp")
    held = young.with_name(f"{filenames.new_segment('held', filenames.new_writer(), 0)}.new")
    with subprocess.Popen(["flock", str(held), "cat"], stdin=subprocess.PIPE) as holder:
        while not held.exists():
            time.sleep(0.01)
        os.utime(held, (time.time() - OLD_S,) * 2)
        write_capture(tmp_path / "a.pcap", 1000)
        with started("record", tmp_path / "a.pcap", "-o", store.path, "--link", "10G") as recorder:
            assert end(recorder) == (0, "")
        assert all(path.exists() for path in (log, draft, young, held))
        assert holder.stdin is not None
        holder.stdin.close()
    part.discard()
    own.close()
