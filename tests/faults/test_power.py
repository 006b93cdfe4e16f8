"""The power is cut while `mburst record` writes: every resulting disk opens with nothing damaged, at most a second is
missing (or as long as the recorder had reported), and the next recorder records a gap for it."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from disks import LEFT, LoggedDisk, in_memory, logged_disk
from faultlib import Follower, chance, end, query, succeed, times
from labrecorder import TABLES, recording, sending
from livelab import Lab
from mounts import mounted
from outcomes import outcome

from mburst import machine
from mburst.services.record import recovery
from mburst.sql import StoreFolder, locks
from mburst.sql.disk import SYNC_S
from mburst.sql.repair.repair import repair

RECORDED_S = 6.0
BEHIND = "gaps WHERE reason NOT IN ('dropped', 'reader too slow')"  # those are of a slow machine
BOOT = "00000000-0000-4000-8000-000000000000"  # boot id of the machine after the cut


def record_on(disk: LoggedDisk, lab: Lab) -> tuple[float, float, Follower, float]:
    """Records into a new store, with rolls, twice. Returns (start, end, what was acknowledged when, for how many
    seconds rows were at risk, as the recorders reported: SYNC_S without a report)."""
    start, reported_s = time.monotonic(), SYNC_S
    store = StoreFolder.create(disk.folder / "store").path
    follower = Follower(store, *TABLES)
    with sending(lab):
        for part in (RECORDED_S * 2 / 3, RECORDED_S / 3):
            with recording(lab, store, roll_s=1.2) as process:
                time.sleep(part)
                code, error = end(process, signal.SIGTERM)
                assert code == 0, error
                reported_s = max([reported_s, *map(float, re.findall(r"cost the rows of ([\d.]+) s", error))])
    over = time.monotonic()
    follower.stop()
    return start, over, follower, reported_s


def missing_s(store: Path, moment: float, follower: Follower) -> float:
    """Returns by how many seconds the oldest acknowledged row that is not in the store precedes MOMENT; 0 if none is
    missing."""
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
    with StoreFolder.open(store).connect() as connection:
        connection.register("acknowledged", rows)
        [(number,)] = connection.execute(
            f"SELECT min(came) FROM acknowledged ANTI JOIN {table} USING ({same})"
        ).fetchall()
        [(doubled,)] = connection.execute(
            f"SELECT count(*) FROM (SELECT *, count(*) AS n FROM {table} GROUP BY ALL HAVING n > 1)"
        ).fetchall()
        damaged = connection.execute("SELECT path, reason FROM damaged_files").fetchall()
    assert (doubled, damaged) == (0, [])
    return moment if number is None else follower.came[number][0]


def is_explained(store: Path) -> int:
    """The next recorder, after the machine has restarted, gives each interrupted recording its end, and a gap after it.
    Returns how many there are."""
    broken = query(store, "SELECT recording_id FROM recordings WHERE ended = ''")
    silent = [] if broken else locks.names(store)  # only its beginning is stored
    troubles: list[Exception] = []
    recovery.tidy(StoreFolder.open(store), troubles.append)
    assert (troubles, locks.names(store)) == ([], [])
    assert query(store, "SELECT * FROM recordings WHERE ended NOT IN ('stopped', 'killed')") == []
    found = query(
        store,
        """
        SELECT recording_id FROM gaps g JOIN recordings r USING (recording_id)
        WHERE reason = 'power' AND ended = 'killed' AND g.end_ns IS NULL AND g.start_ns = coalesce(
            (SELECT max(ts_ns) + r.bin_ns FROM bins WHERE bins.recording_id = r.recording_id), r.begun_ns)""",
    )
    assert len(found) == len(set(found)) and set(broken) <= set(found)
    assert (
        len(found)
        == query(store, f"SELECT count(*) FROM {BEHIND}")[0][0]
        == len(query(store, "SELECT * FROM recordings WHERE ended = 'killed'"))
    )
    assert not silent or found or query(store, "SELECT * FROM recordings WHERE ended = 'stopped'")
    return len(found)


def is_recorded_on(store: Path, lab: Lab, boot: Path) -> None:
    """A recorder of the same interface, on a machine that has restarted, ends the gap."""
    prefix = ("sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"', str(boot))
    open_gaps = "SELECT recording_id FROM recordings WHERE ended = ''"
    broken = query(store, open_gaps)
    with sending(lab), recording(lab, store, prefix=prefix) as process:
        time.sleep(1)
        code, error = end(process, signal.SIGTERM)
    assert code == 0, error
    gap_rows = query(store, f"SELECT recording_id, reason, end_ns > start_ns, detail FROM {BEHIND} ORDER BY start_ns")
    assert {row[0] for row in gap_rows} >= {name for (name,) in broken}
    assert all(row[1:3] == ("power", True) and "was restarted" in row[3] for row in gap_rows), gap_rows
    assert query(store, open_gaps) == []


def goes_on(store: Path) -> None:
    """Checks that the store can be sealed and written to as any other, and that its contents stay."""
    counts = {table: query(store, f"SELECT count(*) FROM {table}") for table in TABLES}
    assert list(repair(store)) == []
    StoreFolder.open(store).seal()
    assert {table: query(store, f"SELECT count(*) FROM {table}") for table in TABLES} == counts
    assert query(store, "SELECT path, reason FROM damaged_files") == []


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_the_power_is_cut_while_recording(lab: Lab, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_memory() as folder:
        with logged_disk(folder, kind) as disk:
            start, over, follower, reported_s = record_on(disk, lab)
        random, missing, opened, explained = chance("power", kind), [], 0, 0
        (folder / "boot").write_text(BOOT + "\n")  # the machine has restarted
        monkeypatch.setattr(machine, "BOOT_ID", folder / "boot")
        moments = sorted(random.uniform(start, over) for _ in times(4))
        for number, (moment, image) in enumerate(disk.cuts(moments, kind)):
            with mounted(image, folder / "left", "-o", LEFT[kind]):
                store = folder / "left" / "store"
                if not (store / "mburst.json").exists():
                    assert follower.came == [] or follower.came[0][0] > moment
                    StoreFolder.create(store)
                missing.append(missing_s(store, moment, follower))
                opened += 1
                if number % 25 == len(moments) // 2 % 25:
                    is_recorded_on(store, lab, folder / "boot")
                else:
                    explained += is_explained(store)
                goes_on(store)
                if number % 25 == 0:
                    succeed("sql", store, "recordings")
    outcome(
        f"power cut while recording, {kind}",
        f"{len(moments)} images",
        f"{opened} open, up to {max(missing):.2f} s of acknowledged rows missing (up to {reported_s:.2f} s, as the "
        f"recorder said), {explained} of them with a recording that was broken off: a gap each",
    )
    assert max(missing) <= reported_s + 0.01 and explained
