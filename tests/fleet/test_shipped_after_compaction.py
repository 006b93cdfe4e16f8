"""Rows that a store compacted before it first shipped do not arrive; the days that contain such rows are incomplete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compactionlib import DAY, MS, NOW, S, compacted, days_of_bursts, incast, quiet, recorded, together
from fleetlib import detected, files, of_whole, plain
from fleetlib import rows as rows_of
from storelib import sealed_files

from mburst.__main__ import main
from mburst.fleet import receipts
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.target import FleetTarget, open_target
from mburst.sql import StoreFolder
from mburst.sql.compaction.rules import SETTLED_NS
from mburst.units import NS_PER_DAY

pytest.importorskip("obstore")

HOUR = 3600 * S
NOON = DAY + NS_PER_DAY // 2
LOST = "rows from 2024-10-04 11:59:40.000000 to 2024-10-04 12:00:29.990000 were compacted before they were shipped"


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three days of two hosts; the files of the first day are merged, and still have all of its rows."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)
    [day] = compacted(made, DAY + NS_PER_DAY + SETTLED_NS).days
    assert day.detail == 1
    return made


def newest(target: FleetTarget, host: str) -> receipts.Receipt:
    return max(receipts.read_receipts(target, "r1", host), key=lambda receipt: receipt.written_ns)


@pytest.mark.parametrize("by", [ship, ship_bursts])
def test_receipts_state_what_was_compacted_before(store: StoreFolder, tmp_path: Path, by: Any) -> None:
    target = open_target(str(tmp_path / "target"))
    first = by(store, target, ShipSettings())
    assert [str(trouble) for trouble in first.troubles] == [
        f"{store.path}: rows until 2024-10-04 12:00:29.990000 were compacted: what had not been shipped of them is not"
    ]
    for ledger in (store.path / "shipped").iterdir():
        ledger.unlink()
    recorded(store, "r9", *incast(DAY + 3 * NS_PER_DAY))
    compacted(store, DAY + 2 * NS_PER_DAY + SETTLED_NS)  # the rows that had arrived are not lost
    by(store, target, ShipSettings())
    for host in ("host-r0", "host-r1"):
        assert newest(target, host).compacted_ns == (NOON - 20 * S, NOON + 29_990_000_000), host


def test_days_with_such_rows_are_incomplete(store: StoreFolder, tmp_path: Path) -> None:
    recorded(store, "r9", *incast(DAY + 9 * NS_PER_DAY))  # a host that recorded later, into the same store
    ship(store, open_target(str(tmp_path / "target")), ShipSettings())
    detected(tmp_path / "target", tmp_path / "results", "2024-10-04")
    detected(tmp_path / "target", tmp_path / "results", "2024-10-05")
    reasons = {
        date: {row["reason"] for row in rows_of(tmp_path / "results", "incomplete") if row["date"] == date}
        for date in ("2024-10-04", "2024-10-05")
    }
    assert f"host host-r0: {LOST}" in reasons["2024-10-04"]
    assert not any("compacted" in reason for reason in reasons["2024-10-05"])


def test_compaction_waits_from_the_first_call_on(tmp_path: Path) -> None:
    """It waits even if that call is interrupted before the first receipt."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)

    class Broken(Exception):
        pass

    def stop(done: Any) -> None:
        raise Broken

    target = open_target(str(tmp_path / "target"))
    with pytest.raises(Broken):
        ship(made, target, ShipSettings(), stop)
    assert compacted(made).days == []
    assert ship(made, target, ShipSettings()).troubles == []
    assert newest(target, "host-r0").compacted_ns is None
    assert len(compacted(made).days) == 3


def of_day(store: StoreFolder, day: int, name: str = "", **more: Any) -> None:
    """A recording from noon of a day to 2 o'clock, with bursts at noon and across midnight."""
    noon = NOON + day * NS_PER_DAY
    midnight = noon + NS_PER_DAY // 2
    pieces = (quiet(noon, 10), incast(noon + S), incast(midnight - 5 * MS, 12), quiet(midnight + 2 * HOUR, 10))
    recorded(store, name or f"day-{day}", *together(*pieces), host="h", **more)


def shipped_days(folder: Path) -> tuple[StoreFolder, FleetTarget]:
    """A store of a host whose days have been shipped as bursts, and to where."""
    store, target = StoreFolder.create(folder / "store"), open_target(folder / "results")
    for day in range(2):
        of_day(store, day)
    recorded(store, "later", *quiet(DAY + 2 * NS_PER_DAY + HOUR, 10), host="h")
    [host] = ship_bursts(store, target, ShipSettings("bursts")).hosts
    assert host.sent and host.until_ns == DAY + 2 * NS_PER_DAY
    return store, target


@pytest.mark.parametrize(("everything_ns", "is_lost"), [(0, False), (NS_PER_DAY, True)])
def test_days_that_are_shipped_beside_compaction_have_bursts_across_midnight_once(
    tmp_path: Path, everything_ns: int, is_lost: bool
) -> None:
    """Compaction leaves what the day behind still takes; days beside what it took stay as they arrived."""
    store, target = StoreFolder.create(tmp_path / "store"), open_target(tmp_path / "results")
    merged = 0
    for day in range(3):
        of_day(store, day)
        ship_bursts(store, target, ShipSettings("bursts"))
        if is_lost:
            next((store.path / "shipped").iterdir()).unlink()
            ship_bursts(store, target, ShipSettings("bursts"))
        merged += len(compacted(store, DAY + (day + 1) * NS_PER_DAY + SETTLED_NS, everything_ns=everything_ns).days)
    ship_bursts(store, target, ShipSettings("bursts"))
    assert merged >= 1, "it does not wait for ever"
    found = rows_of(tmp_path / "results", "bursts")
    assert len(found) == 6 and plain(found) == of_whole(store)
    assert rows_of(tmp_path / "results", "incomplete") == []


@pytest.mark.parametrize("by", ["compaction", "compaction and damage", "repair", "nobody"])
def test_what_was_shipped_is_not_replaced_by_less(tmp_path: Path, by: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Though more of the day is recorded after that of which it was made is gone: that is an error."""
    store, target = shipped_days(tmp_path)
    if by.startswith("compaction"):
        compacted(store, DAY + NS_PER_DAY + SETTLED_NS)
    elif by == "repair":
        for path in sealed_files(store, "bins")[:1]:
            path.write_bytes(path.read_bytes()[:-9])
        assert ship_bursts(store, target, ShipSettings("bursts")).troubles
        assert main(["repair", str(store.path)]) == 0
    before = files(tmp_path / "results")
    for _ in range(2):
        assert ship_bursts(store, target, ShipSettings("bursts")).troubles == []
    assert files(tmp_path / "results") == before
    recorded(store, "late", *incast(NOON + HOUR), host="h")
    what = "results: 2024-10-04 rack r1 host h"
    if by == "compaction and damage":
        [record] = (tmp_path / "results" / "partitions" / "date=2024-10-04").rglob("host-h.json")
        record.write_bytes(record.read_bytes()[:-9])
        what = "host-h.json: damaged: not the record of a partition; the day"
    done = ship_bursts(store, target, ShipSettings("bursts"))
    if by == "nobody":
        assert done.troubles == [] and plain(rows_of(tmp_path / "results", "bursts")) == of_whole(store)
        return
    assert files(tmp_path / "results") == before
    [trouble] = map(str, done.troubles)
    assert f"{what} was made of files that this store does not have" in trouble


def test_two_stores_of_one_host_do_not_replace_each_other(tmp_path: Path) -> None:
    store, target = shipped_days(tmp_path)
    before = files(tmp_path / "results")
    other = StoreFolder.create(tmp_path / "other")
    for day in range(2):
        of_day(other, day, f"other-{day}")
    for _ in range(2):
        troubles = ship_bursts(other, target, ShipSettings("bursts")).troubles
        assert len(troubles) == 2 and all("was made of files" in str(trouble) for trouble in troubles)
        assert ship_bursts(store, target, ShipSettings("bursts")).troubles == []
        assert files(tmp_path / "results") == before


def test_what_is_recorded_again_replaces(tmp_path: Path) -> None:
    """A recording that was broken off, whose files the next attempt has removed."""
    store, target = StoreFolder.create(tmp_path / "store"), open_target(tmp_path / "results")
    of_day(store, 0, "attempt", complete=False)
    of_day(store, 1)
    ship_bursts(store, target, ShipSettings("bursts"))
    for path in store.path.rglob("*.parquet"):
        if b"attempt" in path.read_bytes():
            path.unlink()
    recorded(store, "again", *together(incast(NOON), incast(NOON + S)), host="h")
    assert ship_bursts(store, target, ShipSettings("bursts")).troubles == []
    assert plain(rows_of(tmp_path / "results", "bursts")) == of_whole(store)


def test_tables_that_are_not_shipped_wait_for_nobody(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    days_of_bursts(store)
    ship(store, open_target(tmp_path / "target"), ShipSettings(tables=("recordings", "bins")))
    assert len(compacted(store).days) == 3 and len(sealed_files(store, "sources")) == 3


NARROW = ShipSettings(tables=("recordings", "bins"))


def test_tables_that_are_shipped_later_lack_what_was_compacted_before(tmp_path: Path) -> None:
    store, target = StoreFolder.create(tmp_path / "store"), open_target(tmp_path / "target")
    days_of_bursts(store)
    ship(store, target, NARROW)
    assert newest(target, "host-r0").compacted_ns is None
    compacted(store, DAY + NS_PER_DAY + SETTLED_NS)
    for _ in range(2):
        ship(store, target, ShipSettings())
        assert newest(target, "host-r0").compacted_ns == (NOON - 20 * S, NOON + 29_990_000_000)
        compacted(store)  # it waits for all tables now: these rows have arrived
    detected(tmp_path / "target", tmp_path / "results", "2024-10-04", "2024-10-05")
    reasons = {(row["date"], row["reason"]) for row in rows_of(tmp_path / "results", "incomplete") if row["reason"]}
    assert {date for date, reason in reasons if "compacted" in reason} == {"2024-10-04"}
    assert ("2024-10-04", f"host host-r0: {LOST}") in reasons


def test_a_call_for_fewer_tables_does_not_release_the_others(tmp_path: Path) -> None:
    store, target = StoreFolder.create(tmp_path / "store"), open_target(tmp_path / "target")
    ship(store, target, ShipSettings())
    days_of_bursts(store)
    ship(store, target, NARROW)
    before = sealed_files(store, "bins"), sealed_files(store, "sources")
    compacted(store)
    assert (sealed_files(store, "bins"), sealed_files(store, "sources")) == before
    [line] = compacted(store, NOW + NS_PER_DAY).waits
    assert f"until {target.name} has them" in line and str(next((store.path / "shipped").iterdir())) in line
    ship(store, target, ShipSettings())
    assert len(compacted(store).days) == 3
