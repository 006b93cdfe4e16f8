"""The power is cut while `mburst record` writes: every disk that is left opens, and at most a second is missing."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from disks import LoggedDisk, flushes, in_memory, logged_disk, mounted
from faultlib import Follower, chance, outcome, query, succeed, times
from labrecorder import recording, sending
from livelab import Lab

from mburst.sql import Store
from mburst.sql.disk import SYNC_S

RECORDED_S = 6.0
LOGS = 5  # that a recorder has synced one after the other: bins, sources, recordings, clock, gaps
TABLES = ("bins", "sources")


def record_on(disk: LoggedDisk, lab: Lab) -> tuple[float, float, Follower]:
    """Record from a store's beginning on, with rolls, and once more: (start, end, what was acknowledged when)."""
    start = time.monotonic()
    store = Store.create(disk.folder / "store").path
    follower = Follower(store, *TABLES)
    with sending(lab):
        for part in (RECORDED_S * 2 / 3, RECORDED_S / 3):
            with recording(lab, store, roll_s=1.2) as process:
                time.sleep(part)
                process.send_signal(signal.SIGTERM)
                process.wait(60)
    end = time.monotonic()
    follower.stop()
    return start, end, follower


def missing_s(store: Path, moment: float, follower: Follower) -> float:
    """For how long before MOMENT the oldest acknowledged row was that is not in the store; 0 where none is missing."""
    oldest = moment
    for table in TABLES:
        batches = iter(follower.rows[table])
        acknowledged = []
        for number, (at, of, _) in enumerate(follower.came):
            if of == table and at <= moment:
                rows = next(batches)
                acknowledged.append(rows.append_column("came", pa.array([number] * rows.num_rows)))
        if acknowledged:
            oldest = min(oldest, _first_missing(store, table, pa.concat_tables(acknowledged), moment, follower))
    return moment - oldest


def _first_missing(store: Path, table: str, rows: Any, moment: float, follower: Follower) -> float:
    same = "recording_id, interface, direction, ts_ns, packets, bytes" + ", source" * (table == "sources")
    with Store.open(store).connect() as connection:
        connection.register("acknowledged", rows)
        [(number,)] = connection.execute(
            f"SELECT min(came) FROM acknowledged ANTI JOIN {table} USING ({same})").fetchall()
        [(doubled,)] = connection.execute(
            f"SELECT count(*) FROM (SELECT *, count(*) AS n FROM {table} GROUP BY ALL HAVING n > 1)").fetchall()
        damaged = connection.execute("SELECT path, reason FROM damaged_files").fetchall()
    assert doubled == 0 and damaged == []
    return moment if number is None else follower.came[number][0]


def goes_on(store: Path) -> None:
    """The store is sealed and written to as any other; what was there stays."""
    counts = {table: query(store, f"SELECT count(*) FROM {table}") for table in TABLES}
    Store.open(store).seal()
    assert {table: query(store, f"SELECT count(*) FROM {table}") for table in TABLES} == counts
    assert query(store, "SELECT path, reason FROM damaged_files") == []


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_disks_cut_while_recording(lab: Lab, kind: str) -> None:
    with in_memory() as folder:
        with logged_disk(folder, kind) as disk:
            start, end, follower = record_on(disk, lab)
        random, missing, opened = chance("power", kind), [], 0
        moments = sorted(random.uniform(start, end) for _ in times(8))
        for number, (moment, image) in enumerate(disk.cuts(moments, kind)):
            with mounted(image, folder / "left", "-o", "loop"):
                store = folder / "left" / "store"
                if not (store / "mburst.json").exists():
                    assert follower.came == [] or follower.came[0][0] > moment
                    Store.create(store)
                missing.append(missing_s(store, moment, follower))
                opened += 1
                goes_on(store)
                if number % 25 == 0:
                    succeed("sql", store, "recordings")
        late_s = max(after - before for before, after in zip(flushes(disk.log), flushes(disk.log)[1:], strict=False))
    allowed_s = SYNC_S + LOGS * max(0.0, late_s - SYNC_S / 2)  # a disk that is late is late for each log
    outcome(f"power cut while recording, {kind}", f"{len(moments)} images",
            f"{opened} open, up to {max(missing):.2f} s of acknowledged rows missing "
            f"(up to {late_s:.2f} s between two flushes)")
    assert max(missing) <= allowed_s
