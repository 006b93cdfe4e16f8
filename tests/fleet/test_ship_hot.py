"""Level hot: ships the objects of level bursts, and the bins and senders of the seconds near bursts, each row once."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fleetlib import files, of_whole, plain, rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from racklib import DAY, HOUR, START, fill

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.fleet.receipts import read_receipts
from mburst.fleet.ship import Shipped, ShipSettings
from mburst.fleet.ship_bursts import ship_bursts
from mburst.fleet.status import status
from mburst.fleet.target import FleetTarget, TargetError, open_target
from mburst.sql import StoreFolder

HOT, BURSTS = ShipSettings("hot"), ShipSettings("bursts")
S = 10**9


@pytest.fixture
def target(tmp_path: Path) -> FleetTarget:
    return open_target(tmp_path / "results")


def sent(done: Shipped) -> int:
    assert done.troubles == []
    return sum(host.sent for host in done.hosts)


def near(store: StoreFolder, table: str, until_ns: int, definition: BurstDefinition | None = None) -> Counter[Any]:
    """Returns the rows of TABLE that should arrive, by a loop over all rows and all bursts."""
    with store.connect() as con:
        bursts = find_bursts(con, definition)
        seconds = {
            (of["recording_id"], of["clock_epoch"], second)
            for of in bursts
            for second in range(of["start_ns"] // S - 1, (of["end_ns"] - 1) // S + 2)
        }
        every = con.sql(f"FROM {table}").to_arrow_table().to_pylist()
    return Counter(
        repr(sorted(row.items()))
        for row in every
        if (row["recording_id"], row["clock_epoch"], row["ts_ns"] // S) in seconds and row["ts_ns"] < until_ns
    )


def arrived(target: FleetTarget, table: str) -> Counter[Any]:
    found = rows(Path(target.name), table)
    return Counter(repr(sorted((name, value) for name, value in row.items() if name != "date")) for row in found)


def test_rows_near_bursts_arrive_once_with_the_objects_of_level_bursts(
    fleet_store: StoreFolder, fleet_by_host: Path, tmp_path: Path, target: FleetTarget
) -> None:
    """The rows include midnight, a burst of 90 s, and names of any letters. tests/fleet/test_ship_bursts.py tests the
    objects of level bursts."""
    shutil.copytree(fleet_store.path, tmp_path / "store")
    store = StoreFolder.open(tmp_path / "store")
    sent(ship_bursts(store, target, HOT))
    assert files(tmp_path / "results") == files(fleet_by_host)
    for table in ("bins", "sources"):
        found = arrived(target, table)
        assert found == near(store, table, START + 2 * DAY) and found
    types = {field.type for path in (tmp_path / "results").rglob("*.parquet") for field in pq.read_schema(path)}
    assert not any(pa.types.is_unsigned_integer(of) for of in types)
    assert {of.level for of in status(target)} == {"hot"}
    for receipt in read_receipts(target):
        stated = {file.table: file for file in receipt.files}
        assert {"bins", "sources", "bursts"} <= stated.keys()
        assert all(len(target.get(file.key)) == file.bytes for file in receipt.files)
    assert sent(ship_bursts(store, target, HOT)) == 0


@pytest.mark.costly
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    bursts=st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 1500)), max_size=4),
    threshold=st.sampled_from([0.25, 0.5, 0.9]),
)
def test_rows_are_those_of_a_loop_over_all(
    tmp_path_factory: pytest.TempPathFactory, bursts: list[tuple[int, int]], threshold: float
) -> None:
    folder = tmp_path_factory.mktemp("hot")
    store, definition = StoreFolder.create(folder / "store"), BurstDefinition(threshold=threshold)
    fill(store, {"h": bursts}, start=START + DAY - 10 * S, length=20 * S)  # across midnight
    fill(store, {"h": []}, start=START + 2 * DAY + HOUR, length=HOUR)
    target = open_target(folder / "results")
    sent(ship_bursts(store, target, replace(HOT, definition=definition)))
    for table in ("bins", "sources"):
        assert arrived(target, table) == near(store, table, START + 2 * DAY, definition)


def test_a_query_reads_the_rows_near_bursts_and_names_hosts_without_them(
    small: StoreFolder, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    def ask(query: str) -> tuple[list[str], str]:
        day = str(np.datetime64(START, "ns").astype("datetime64[D]"))
        assert main(["fleet", "ask", target.name, query, "--day", day, "--csv"]) == 0
        out, err = capfd.readouterr()
        return out.split()[1:], err

    sent(ship_bursts(small, target, BURSTS))
    for table in ("bins", "sources"):
        assert ask(f"SELECT count(*), max(ts_ns) FROM {table}")[0] == ["0,"]
    typed = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name IN ('bins', 'sources')"
    typed += " AND schema_name = 'main'"
    lacking = (
        "mburst: bins: missing in 1 of 1 partition: 2026-11-20 rack r1 host a (`mburst ship --level hot` ships them)"
    )
    assert ask("SELECT count(*) FROM Bins") == (["0"], f"{lacking}\n")
    for column in ("max(sources)", "count(bursts.sources)", "'bins'"):  # of bursts: no table near bursts is read
        assert ask(f"SELECT {column} AS bins FROM bursts JOIN coverage USING (rack, host)")[1] == ""
        assert ask(f"SELECT {column} AS m FROM bursts")[1] == ""
    joined = "SELECT count(*) FROM main.bins JOIN coverage USING (rack, host)"
    for query in (joined, "FROM query_table('bins') JOIN coverage USING (rack, host)", "PIVOT bins ON host"):
        assert ask(query)[1] == f"{lacking}\n"
    empty = ask(typed)[0]
    sent(ship_bursts(small, target, HOT))
    for table in ("bins", "sources"):
        assert ask(f"SELECT count(*) FROM {table} WHERE rack = 'r1'") == (
            [str(len(rows(Path(target.name), table)))],
            "",
        )
    of_ports = ask("SELECT count(*) FROM port_bins")
    assert of_ports == (["0"], "")
    full = ask(typed)[0]
    assert sorted(full) == sorted(empty)


def test_a_damaged_file_fails_only_queries_that_read_its_table(
    small: StoreFolder, target: FleetTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    sent(ship_bursts(small, target, HOT))
    [path] = Path(target.name).glob("sources/**/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    day = str(np.datetime64(START, "ns").astype("datetime64[D]"))
    ask = ["fleet", "ask", target.name, "--day", day]
    assert main([*ask, "SELECT max(sources) FROM bursts"]) == 0
    assert capfd.readouterr().err == ""
    assert main([*ask, "SELECT count(*) FROM sources"]) == 1
    assert "damaged" in capfd.readouterr().err


@pytest.fixture
def small(tmp_path: Path) -> StoreFolder:
    """A store of a host with one complete day."""
    store = StoreFolder.create(tmp_path / "small")
    fill(store, {"a": [(50, 10)]})
    fill(store, {"a": []}, start=START + DAY + HOUR, length=HOUR)
    return store


def test_a_change_of_level_ships_only_the_missing_rows(small: StoreFolder, target: FleetTarget) -> None:
    """Days that were shipped at level bursts get their rows; days that have rows are not shipped again."""
    without = sent(ship_bursts(small, target, BURSTS))
    assert not arrived(target, "bins")
    assert sent(ship_bursts(small, target, HOT)) == without + 2
    assert arrived(target, "bins") == near(small, "bins", START + DAY)
    for level in (BURSTS, HOT):
        assert sent(ship_bursts(small, target, level)) == 0
    for ledger in (small.path / "shipped").iterdir():
        ledger.unlink()
    assert sent(ship_bursts(small, target, HOT)) == 0


def test_a_late_recording_replaces_the_rows(small: StoreFolder, target: FleetTarget) -> None:
    ship_bursts(small, target, HOT)
    fill(small, {"a": [(10, 5)]}, start=START + 3 * HOUR, length=HOUR)
    assert sent(ship_bursts(small, target, HOT)) > 0
    assert arrived(target, "bins") == near(small, "bins", START + DAY)
    assert plain(rows(Path(target.name), "bursts")) == of_whole(small)


@pytest.mark.parametrize("after", (2, 9, 10, 11))
def test_an_interrupted_call_is_completed_by_the_next(
    small: StoreFolder, target: FleetTarget, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    left = iter(range(after))

    def put(self: Any, key: str, content: bytes) -> None:
        if next(left, None) is None:
            raise TargetError(f"{key}: no route to host")
        real(self, key, content)

    real = type(target).replace
    with monkeypatch.context() as broken:
        broken.setattr(type(target), "replace", put)
        with pytest.raises(TargetError):
            ship_bursts(small, target, HOT)
    assert sent(ship_bursts(small, target, HOT)) > 0
    assert arrived(target, "bins") == near(small, "bins", START + DAY)
    assert sent(ship_bursts(small, target, HOT)) == 0
