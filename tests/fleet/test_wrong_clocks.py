"""Clocks of hosts that were wrong for a while: no day counts as complete because of them, and no file is left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fleetlib import DATES, detected, rows
from racklib import DAY, HOUR, START, fill
from shiplib import call
from storelib import write

from mburst.fleet import ship
from mburst.fleet.inventory import HostOf
from mburst.fleet.receipts import read_receipts, shipped_until, write_receipt
from mburst.fleet.sealed import HostFiles, HostName
from mburst.fleet.ship import Shipped, ShipSettings
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.status import status
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

YEAR = 365 * DAY
AHEAD_NS = 600 * 10**9  # of docs/fleet.md: the most by which a receipt may be later than now
Clock = Callable[[int], None]


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of host a: a day with two bursts, and some seconds of the next."""
    store = StoreFolder.create(tmp_path / "store")
    for start in (START, START + DAY + HOUR):
        fill(store, {"a": [(50, 10), (500, 10)]}, start=start)
    return store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the clock of the host that ships."""

    def set_clock(now_ns: int) -> None:
        monkeypatch.setattr(ship.time, "time_ns", lambda: now_ns)

    return set_clock


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def shipped(store: StoreFolder, target: Path) -> Shipped:
    return call(store, open_target(target))


def reasons(target: Path, date: str, now_ns: int) -> list[tuple[str | None, str]]:
    """Returns the hosts that a day lacks, and why."""
    results = target.parent / f"results-{date}-{now_ns}"
    detected(target, results, date, now_ns=now_ns)
    return [(row["host"], row["reason"]) for row in rows(results, "incomplete")]


def test_rows_of_the_future_promise_nothing(store: StoreFolder, target: Path) -> None:
    """The clock of a recorder was ahead, and was set back."""
    future = time.time_ns() + YEAR
    write(store, "bins", {"host": "a", "rack": "r1", "recording_id": f"r1-a-{START}", "ts_ns": future})
    shipped(store, target)
    [receipt] = read_receipts(open_target(target))
    assert receipt.until_ns == START + DAY + HOUR + 9 * 10**9 + 1
    [host] = status(open_target(target), now_ns=START + 9 * DAY)
    assert host.behind_ns == START + 9 * DAY - receipt.until_ns
    assert not reasons(target, DATES[0], START + 20 * DAY)
    assert reasons(target, "2026-11-25", START + 20 * DAY) == [("a", "behind")]
    place = open_target(target.parent / "bursts")
    ship_bursts(store, place, ShipSettings("bursts"))
    [receipt] = read_receipts(place)
    assert receipt.until_ns == START + DAY


def test_a_hot_log_of_the_future_promises_nothing() -> None:
    assert HostFiles(HostName("r1", "a"), hot_ns=[START + YEAR]).until_ns(START) == 0
    assert HostFiles(HostName("r1", "a"), hot_ns=[START + YEAR, START - HOUR]).until_ns(START) < START - HOUR


def test_a_receipt_of_the_future_promises_nothing(store: StoreFolder, target: Path, clock: Clock) -> None:
    """Its watermark is that of a clock that was ahead, and hides what later receipts state to be missing."""
    clock(START + YEAR)
    write(store, "bins", {"host": "a", "rack": "r1", "recording_id": f"r1-a-{START}", "ts_ns": START + YEAR - HOUR})
    shipped(store, target)
    [receipt] = read_receipts(open_target(target))
    assert receipt.until_ns > START + YEAR - 2 * HOUR
    now = START + 5 * DAY
    assert reasons(target, DATES[0], now) == [("a", "behind")]
    clock(now)
    fill(store, {"a": []}, start=START + 4 * DAY)
    shipped(store, target)
    assert reasons(target, DATES[0], now + AHEAD_NS) == []
    assert reasons(target, "2026-11-24", now + AHEAD_NS) == [("a", "behind")]
    assert reasons(target, "2026-11-24", START + YEAR) == [], "the clock of the detection is right, then"
    assert reasons(target, "2026-11-24", START + YEAR - AHEAD_NS) == []
    assert reasons(target, "2026-11-24", START + YEAR - AHEAD_NS - 1) == [("a", "behind")]


def test_a_host_that_ships_bursts_with_a_clock_of_the_future_promises_nothing(
    store: StoreFolder, target: Path, clock: Clock
) -> None:
    """Its later days are incomplete."""
    results, now = target.parent / "results", START + 6 * DAY
    clock(START + YEAR)
    write(store, "bins", {"host": "a", "rack": "r1", "recording_id": f"r1-a-{START}", "ts_ns": START + YEAR - HOUR})
    ship_bursts(store, open_target(results), ShipSettings("bursts"))
    clock(now)
    other = StoreFolder.create(target.parent / "other")
    for start in (START + 4 * DAY, START + 5 * DAY + HOUR):
        fill(other, {"b": [(60, 10)]}, start=start)
    shipped(other, target)
    expected = {HostOf("r1", host) for host in "ab"}
    detected(target, results, "2026-11-24", split="host", inventory=expected, now_ns=now)
    assert [(row["host"], row["reason"]) for row in rows(results, "incomplete")] == [("a", "never shipped")]
    assert shipped_until(open_target(results), "r1", "a", now) == 0


def test_a_host_whose_clock_was_set_back_ships_and_is_heard_again(
    store: StoreFolder, target: Path, clock: Clock
) -> None:
    """Its receipt of the future is not its newest one."""
    clock(START + YEAR)
    shipped(store, target)
    for hours in (25, 27):
        now = START + DAY + hours * HOUR
        clock(now)
        assert len(shipped(store, target).hosts[0].receipts) == 1, "though nothing is new"
        [host] = status(open_target(target), now_ns=now)
        assert host.written_ns == now and "ahead" not in host.silent


def test_files_that_were_shipped_by_a_clock_that_was_behind(store: StoreFolder, target: Path, clock: Clock) -> None:
    """As after a start without a battery. The next receipt names the one that seems to be old."""
    for moment in (3_600 * 10**9, 2 * 3_600 * 10**9, START + 2 * DAY):
        clock(moment)
        shipped(store, target)
        fill(store, {"a": [(5_000, 10)]}, start=START + HOUR + moment % DAY, length=HOUR)
    results = target.parent / "results"
    detected(target, results, DATES[0], now_ns=START + 2 * DAY)
    assert len(rows(results, "bursts")) == 4 and not rows(results, "incomplete")


@pytest.mark.parametrize(("later_ns", "silent"), [(AHEAD_NS, ""), (AHEAD_NS + 1, "its clock is 10 min ahead")])
def test_a_host_is_silent_if_its_clock_is_more_than_ten_minutes_ahead(
    store: StoreFolder, target: Path, clock: Clock, later_ns: int, silent: str
) -> None:
    clock(START + 2 * DAY)
    shipped(store, target)
    written_ns = START + DAY + HOUR + 10 * 10**9 + later_ns
    [receipt] = read_receipts(open_target(target))
    other = open_target(target.parent / "other")
    write_receipt(other, receipt._replace(written_ns=written_ns))
    [host] = status(other, now_ns=written_ns - later_ns)
    assert host.silent == silent
