"""A day that is done is detected again only if rows that may change it arrived."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fleetlib import detected, files, rows, shipped
from hypothesis import given, settings
from hypothesis import strategies as st
from racklib import DAY, FULL, HOUR, MS, START
from storelib import rows as rows_of
from storelib import sealed_files, write

from mburst.fleet.results import TABLES
from mburst.fleet.ship import Shipped, ShipSettings, ship
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

DATE = "2026-11-20"
WRITERS = {"a": "a" * 12, "b": "b" * 12}


def recorded(store: StoreFolder, host: str, until: int, bursts: list[int]) -> None:
    """Writes what a recorder of HOST seals at UNTIL, which began at START and still runs: a burst at each time of
    BURSTS, and a row about its recording, whose end is that of its last bin."""
    name = {"recording_id": f"{host}-0", "host": host, "rack": "r1"}
    bins = [{**name, "ts_ns": at + i * MS, "wire_bytes": FULL, "bytes": FULL - 24} for at in bursts for i in range(3)]
    last = {"start_ns": START, "end_ns": bins[-1]["ts_ns"] + MS, "packets": 3} if bins else known_end(store, host)
    about = {"complete": False, "ended": "", "writer_id": WRITERS[host], "capture_id": host, "counted_segments": 1000}
    for table, given_ in (("bins", bins), ("recordings", [{**name, **about, **last, "written_ns": until}])):
        if given_:
            with store.writer(table, host, "r1", WRITERS[host]) as writer:
                writer.append(rows_of(table, *given_))


def known_end(store: StoreFolder, host: str) -> dict[str, Any]:
    with store.connect() as con:
        [(start, end)] = con.execute("SELECT start_ns, end_ns FROM recordings WHERE host = ?", [host]).fetchall()
    return {"start_ns": start, "end_ns": end, "packets": 3}


def passed(store: StoreFolder, until: int) -> None:
    """Moves the watermark of both hosts to UNTIL, with rows of another table (`clock`)."""
    for host in WRITERS:
        counts = ("monotonic_raw_ns", "tai_offset_ns", "uncertainty_ns", "status", "max_error_ns")
        name = {"host": host, "rack": "r1", "interface": "eth0", "ts_ns": until - 1, "synchronized": True}
        write(store, "clock", {**name, **dict.fromkeys(counts, 0)})


def tables_of(results: Path) -> dict[str, Counter[str]]:
    """Returns all rows, without the columns that describe a whole recording as it was when it was detected."""
    whole = ("complete", "dropped", "late")
    plain = lambda row: repr({key: value for key, value in row.items() if key not in whole})  # noqa: E731
    return {table: Counter(map(plain, rows(results, table))) for table in TABLES}


hours = st.lists(st.integers(1, 40), max_size=3, unique=True).map(sorted)


@settings(max_examples=3)
@given(st.fixed_dictionaries({"a": hours, "b": hours}), st.sets(st.integers(1, 40), min_size=2, max_size=2))
def test_what_arrives_bit_by_bit_gives_what_all_at_once_does(
    tmp_path_factory: pytest.TempPathFactory, bursts: dict[str, list[int]], stops: set[int]
) -> None:
    """Hosts may be idle for hours: whether they were recorded then is known when they have traffic again."""
    folder = tmp_path_factory.mktemp("bit")
    store, since = StoreFolder.create(folder / "store"), 0
    for until in [*sorted(stops), 41]:
        for host, at in bursts.items():
            new = [START + hour * HOUR for hour in [0, *at] if since <= hour <= until]
            recorded(store, host, START + until * HOUR + HOUR // 2, new)
        passed(store, START + until * HOUR + HOUR // 2)
        since = until + 1
        detected(shipped(store, folder / "target"), folder / "results", DATE)
    assert not detected(folder / "target", folder / "results", DATE).outcomes
    detected(folder / "target", folder / "fresh", DATE)
    assert tables_of(folder / "results") == tables_of(folder / "fresh")
    shutil.rmtree(folder)


def filled(folder: Path) -> StoreFolder:
    """A store of two recorders that still run: a day is complete, and each recorder has a bin after it."""
    store = StoreFolder.create(folder)
    for host in WRITERS:
        recorded(store, host, START + 25 * HOUR, [START, START + 25 * HOUR])
    passed(store, START + 26 * HOUR)
    return store


def test_later_rows_about_recordings_do_not_change_a_done_day(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    target, results = tmp_path / "target", tmp_path / "results"
    assert len(detected(shipped(store, target), results, DATE).outcomes) == 1
    before = files(results)
    for hour in (26, 27, 40):
        recorded(store, "a", START + hour * HOUR, [])
        recorded(store, "b", START + hour * HOUR, [START + hour * HOUR])
        found = detected(shipped(store, target), results, DATE)
        assert not found.outcomes and len(found.done) == 1
    assert files(results) == before


def test_a_row_that_may_move_the_end_of_a_recording_causes_detection_again(tmp_path: Path) -> None:
    """The recording of an idle host is known only up to its last bin, an hour before midnight, until the host has
    traffic again."""
    store = StoreFolder.create(tmp_path / "store")
    target, results = tmp_path / "target", tmp_path / "results"
    recorded(store, "a", START + 25 * HOUR, [START, START + 23 * HOUR])
    passed(store, START + 26 * HOUR)
    detected(shipped(store, target), results, DATE)
    assert sum(row["recorded_ns"] for row in rows(results, "hours")) == 23 * HOUR + 3 * MS
    recorded(store, "a", START + 30 * HOUR, [START + 29 * HOUR])
    assert len(detected(shipped(store, target), results, DATE).outcomes) == 1
    assert sum(row["recorded_ns"] for row in rows(results, "hours")) == DAY
    recorded(store, "a", START + 31 * HOUR, [START + 30 * HOUR])
    assert not detected(shipped(store, target), results, DATE).outcomes


def test_a_host_that_ships_bursts_does_the_same(tmp_path: Path) -> None:
    store, target = filled(tmp_path / "store"), open_target(tmp_path / "results")

    def sent() -> int:
        done: Shipped = ship_bursts(store, target, ShipSettings("bursts"))
        assert done.troubles == []
        return sum(host.sent for host in done.hosts)

    assert sent() == 2 * len(TABLES)
    for hour in (26, 27):
        for host in WRITERS:
            recorded(store, host, START + hour * HOUR, [])
        assert sent() == 0
        shutil.rmtree(store.path / "shipped")
        assert sent() == 0, "the ledger is a cache"


def test_a_damaged_file_concerns_only_its_own_days(tmp_path: Path) -> None:
    store, results = filled(tmp_path / "store"), tmp_path / "results"
    places = shipped(store, tmp_path / "target"), results
    assert not detected(*places, DATE).incomplete
    recorded(store, "a", START + 50 * HOUR, [START + 49 * HOUR])
    passed(store, START + 50 * HOUR)
    for table in ("bins", "clock"):
        path = sealed_files(store, table)[-1]
        path.write_bytes(path.read_bytes()[:-9])
    assert len(ship(store, open_target(places[0]), ShipSettings()).troubles) == 2
    found = detected(*places, DATE)
    assert not found.outcomes and not found.incomplete, "clocks have no part in it"
    [name] = detected(*places, "2026-11-22").incomplete
    missing = [row["reason"] for row in rows(results, "incomplete") if row["reason"] and row["date"] == name.date]
    assert [reason.partition("/")[0] for reason in missing if reason.startswith(("bins", "clock"))] == ["bins"]
