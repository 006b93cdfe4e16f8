"""The time of the newest row of a store is read from few files, however old the store is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storelib import rows, sealed_files

from mburst.sql import StoreFolder
from mburst.sql.writer import TableWriter

DAY_NS = 86_400 * 10**9
START = 20_000 * DAY_NS
TIMES = {"bins": "ts_ns", "probes": "tx_ns", "queues": "ts_ns"}
SEGMENT = st.tuples(
    st.sampled_from(sorted(TIMES)),
    st.sampled_from(["r1", "r2"]),
    st.lists(st.integers(0, 4 * DAY_NS), min_size=1, max_size=3),
)


def rows_of(table: str, rack: str, times: list[int]) -> pa.Table:
    """Returns rows at these times, in ns after START."""
    more = {"bins": {"host": "h", "rack": rack}, "queues": {"window_start_ns": START}}.get(table, {})
    return rows(table, *({TIMES[table]: START + at, **more} for at in times))


def writer(store: StoreFolder, table: str, rack: str) -> TableWriter:
    """Returns a writer; probes and queues have no host."""
    return store.writer(table, "h", rack) if table == "bins" else store.writer(table)


def write(store: StoreFolder, table: str, rack: str, times: list[int]) -> None:
    with writer(store, table, rack) as to:
        to.append(rows_of(table, rack, times))


def newest(con: duckdb.DuckDBPyConnection) -> Any:
    with con:
        return con.execute("SELECT max(ts_ns) FROM newest").fetchall()


@pytest.mark.costly
@settings(max_examples=24, suppress_health_check=[HealthCheck.too_slow])
@given(segments=st.lists(SEGMENT, max_size=4), hot=st.none() | SEGMENT, rack=st.none() | st.sampled_from(["r1", "r2"]))
def test_few_files_say_what_all_say(segments: list[Any], hot: Any, rack: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = StoreFolder.create(Path(folder) / "store")
        for segment in segments:
            write(store, *segment)
        if hot is None:
            assert newest(store.connect_newest(rack)) == newest(store.connect(rack))
            return
        table, of, times = hot
        with writer(store, table, of) as to:
            to.append(rows_of(table, of, times))
            assert newest(store.connect_newest(rack)) == newest(store.connect(rack))


def test_older_days_are_not_read(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    for day in range(5):
        write(store, "bins", "r1", [day * DAY_NS + DAY_NS // 2])
    with store.connect_newest() as con:
        assert con.execute("SELECT count(*), max(ts_ns) FROM bins").fetchall() == [
            (1, START + 4 * DAY_NS + DAY_NS // 2)
        ]


def test_a_newest_file_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    for day in range(3):
        write(store, "bins", "r1", [day * DAY_NS + 7])
    victim = sealed_files(store, "bins")[-1]
    victim.write_bytes(victim.read_bytes()[:-9])
    assert newest(store.connect_newest()) == [(START + DAY_NS + 7,)]
