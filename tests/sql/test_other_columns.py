"""Columns are added without a new format: files with fewer or more columns than today's are read together with the
others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from storelib import rows, write

from mburst.sql import StoreFolder, sealing, tables
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog
from mburst.sql.repair.checking import check
from mburst.sql.repair.repair import repair

T0 = 1_700_000_000_000_000_000
SENDER = {"ts_ns": T0, "first_ns": T0, "last_ns": T0, "source_port": 80, "destination_port": 443}
COLUMNS = [column.name for column in tables.columns("sources")]


def older() -> pa.Table:
    """Returns rows of an mburst without ports and without the time of a sender's last packet."""
    return rows("sources", {**SENDER, "source": "older", "bytes": 5}).select(COLUMNS[: COLUMNS.index("source_port")])


def newer() -> pa.Table:
    """Returns rows of an mburst with one more column."""
    table = rows("sources", {**SENDER, "source": "newer", "bytes": 7})
    return table.append_column("colour", pa.array(["red"]))


def keep(store: StoreFolder, table: pa.Table, form: str) -> None:
    segment = filenames.new_segment("cache-1", filenames.new_writer(), 0)
    if form == "hot":
        log = HotLog(store.path, "sources", segment, "r1")
        log.append(table)
        log.leave()
    else:
        parts = sealing.SealedParts(store.path, "sources", "r1", segment)
        parts.add(table)
        parts.publish()


@pytest.fixture(params=["hot", "sealed"])
def store(request: Any, tmp_path: Path) -> StoreFolder:
    made = StoreFolder.create(tmp_path)
    write(made, "sources", {**SENDER, "source": "now", "bytes": 6})
    keep(made, older(), request.param)
    keep(made, newer(), request.param)
    return made


def test_all_files_are_read_and_missing_columns_are_null(store: StoreFolder) -> None:
    found = store.connect().execute("SELECT source, bytes, source_port FROM sources ORDER BY bytes").fetchall()
    assert found == [("older", 5, None), ("now", 6, 80), ("newer", 7, 80)]
    described = store.connect().execute("DESCRIBE sources").fetchall()
    assert [row[0] for row in described] == COLUMNS


def test_missing_columns_have_their_default_if_there_is_one(
    store: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tables.columns("sources")
    with_default = tuple(replace(one, default="7") if one.name == "destination_port" else one for one in known)
    now = tables.columns
    monkeypatch.setattr(tables, "columns", lambda table: with_default if table == "sources" else now(table))
    found = store.connect().execute("SELECT destination_port FROM sources ORDER BY bytes").fetchall()
    assert found == [(7,), (443,), (443,)]


def test_older_and_newer_files_are_sound_and_can_be_sealed(store: StoreFolder) -> None:
    assert check(store.path).is_sound and list(repair(store.path)) == []
    store.seal()
    assert store.connect().execute("SELECT CAST(sum(bytes) AS BIGINT) FROM sources").fetchall() == [(18,)]
    assert check(store.path).is_sound
