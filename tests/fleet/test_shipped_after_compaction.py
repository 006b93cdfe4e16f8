"""Rows that a store compacted before it first shipped do not arrive; the days that contain such rows are incomplete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compactionlib import DAY, S, compacted, days_of_bursts, incast, recorded
from fleetlib import detected
from fleetlib import rows as rows_of

from mburst.fleet import receipts
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.target import FleetTarget, open_target
from mburst.sql import StoreFolder
from mburst.sql.compaction.rules import DAY_NS, SETTLED_NS

pytest.importorskip("obstore")

NOON = DAY + DAY_NS // 2
LOST = "rows from 2024-10-04 11:59:40.000000 to 2024-10-04 12:00:29.990000 were compacted before they were shipped"


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three days of two hosts; the files of the first day are merged, and still have all of its rows."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)
    [day] = compacted(made, DAY + DAY_NS + SETTLED_NS).days
    assert day.detail == 1
    return made


def newest(target: FleetTarget, host: str) -> receipts.Receipt:
    return list(receipts.read_receipts(target, "r1", host))[-1]


@pytest.mark.parametrize("by", [ship, ship_bursts])
def test_receipts_state_what_was_compacted_before(store: StoreFolder, tmp_path: Path, by: Any) -> None:
    target = open_target(str(tmp_path / "target"))
    first = by(store, target, ShipSettings())
    assert [str(trouble) for trouble in first.troubles] == [
        f"{store.path}: rows until 2024-10-04 12:00:29.990000 were compacted: what had not been shipped of them is not"
    ]
    for ledger in (store.path / "shipped").iterdir():
        ledger.unlink()
    recorded(store, "r9", *incast(DAY + 3 * DAY_NS))
    compacted(store, DAY + 2 * DAY_NS + SETTLED_NS)  # the rows that had arrived are not lost
    by(store, target, ShipSettings())
    for host in ("host-r0", "host-r1"):
        assert newest(target, host).compacted_ns == (NOON - 20 * S, NOON + 29_990_000_000), host


def test_days_with_such_rows_are_incomplete(store: StoreFolder, tmp_path: Path) -> None:
    recorded(store, "r9", *incast(DAY + 9 * DAY_NS))  # a host that recorded later, into the same store
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
