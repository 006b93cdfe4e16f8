"""A failure to seal any table is reported at once, is in the metrics while it lasts, and is tried again until it
works."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from places import ROOT
from storelib import hot_logs, sealed_files
from waiting import wait_for

from mburst.agent.metrics.exporter import Exporter
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError
from mburst.sql import StoreFolder, writer
from mburst.sql.format import filenames
from mburst.sql.sealing import SealedParts
from mburst.sql.tables import ORDER, arrow_schema

sys.path.insert(0, str(ROOT / "tests" / "data" / "stores"))
import make

SAID_S = 10.0  # the time within which it must be reported


def row(table: str) -> pa.Table:
    """Returns a row with a value in every column."""
    return (
        pa.Table.from_pylist([make.row(table, 0) | {"host": "cache-1", "rack": "r 1"}])
        .select(arrow_schema(table).names)
        .cast(arrow_schema(table))
    )


def oldest_hot_logs(store: StoreFolder) -> dict[str, float]:
    """Returns what the metrics report of tables that are not sealed."""
    [waiting] = [
        metric
        for metric in Exporter(Meter(store, BurstDefinition())).collect()
        if metric.name == "mburst_oldest_hot_log_age_seconds"
    ]
    return {sample.labels["table"]: sample.value for sample in waiting.samples}


def test_failures_of_every_table_are_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    assert writer.RETRY_S < SAID_S
    monkeypatch.setattr(writer, "RETRY_S", 0.05)
    store = StoreFolder.create(tmp_path / "store")
    writers = {}
    for table in ORDER:
        (store.path / table).write_text("in the way")
        writers[table] = writer.TableWriter(store.path, table, "cache-1", "r 1", roll_rows=1)
        writers[table].append(row(table))
    said = Path("/proc/self/fd/2")  # readouterr() would lose lines that are written meanwhile
    wait_for(lambda: said.read_text().count("\n") >= len(ORDER))
    time.sleep(0.2)  # a few more tries
    lines = capfd.readouterr().err.splitlines()
    for table in ORDER:
        [line] = [line for line in lines if f"{store.path}/{table}:" in line]  # once, although it was tried again
        assert line.startswith("mburst: not sealed yet, trying again: ")
        assert len(hot_logs(store, table)) == 1
    assert set(oldest_hot_logs(store)) == set(ORDER)
    for table in ORDER:
        (store.path / table).unlink()
    wait_for(lambda: not any(hot_logs(store, table) for table in ORDER))  # while the writers live
    assert oldest_hot_logs(store) == {}
    for table in ORDER:
        writers[table].close()
        assert len(sealed_files(store, table)) == 1
        assert store.connect().execute(f"SELECT count(*) FROM {table}").fetchall() == [(1,)]


def test_a_log_of_a_dead_writer_that_cannot_be_sealed_is_reported(tmp_path: Path, capfd: Any) -> None:
    """The writer that tries to seal it when it ends reports it. Its own rows are of another rack, and are sealed."""
    store = StoreFolder.create(tmp_path / "store")
    left = writer.HotLog(
        store.path, "bins", writer.filenames.new_segment("cache-2", writer.filenames.new_writer(), 0), "r2"
    )
    left.append(row("bins").set_column(2, "rack", pa.array(["r2"])))
    left.leave()
    day = make.T0 // (86_400 * 10**9)
    folder = store.path / "bins" / writer.sealing.date_folder(day)
    folder.mkdir(parents=True)
    (folder / "rack=r2").write_text("in the way")
    for _ in range(2):
        with store.writer("bins", "cache-1", "r 1") as own:
            own.append(row("bins"))
        [line] = capfd.readouterr().err.splitlines()
        assert line.startswith("mburst: not sealed yet: ") and str(store.path) in line
    (folder / "rack=r2").unlink()
    with store.writer("bins", "cache-1", "r 1") as own:
        own.append(row("bins"))
    assert capfd.readouterr().err == "" and hot_logs(store, "bins") == []


def test_an_unsealed_log_is_an_error_at_the_end(tmp_path: Path) -> None:
    store, reported = StoreFolder.create(tmp_path / "store"), list[MburstError]()
    own = store.writer("gnmi_events", on_trouble=reported.append)
    own.append(row("gnmi_events"))
    (store.path / "gnmi_events").write_text("in the way")
    with pytest.raises(MburstError, match="gnmi_events"):
        own.close()
    assert len(reported) == 1 and reported[0].args[0].startswith("not sealed yet, trying again: ")
    (store.path / "gnmi_events").unlink()
    assert store.seal() == 1


@pytest.mark.parametrize("kind", ["link", "file", "draft of another"])
def test_an_existing_draft_is_not_overwritten(tmp_path: Path, kind: str) -> None:
    """Two processes may seal one segment, or a link may be in the way: this is an error, and the existing file is not
    changed."""
    store = StoreFolder.create(tmp_path / "store")
    segment = filenames.new_segment("cache-1", filenames.new_writer(), 0)
    first, second = (SealedParts(store.path, "bins", "r 1", segment) for _ in range(2))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    first.add(row("bins"))
    [draft] = store.path.glob("bins/*/*/*.tmp")
    if kind != "draft of another":
        first.discard()
        draft.symlink_to(elsewhere) if kind == "link" else draft.write_text("kept")
    with pytest.raises(MburstError, match="cannot write: File exists"):
        second.add(row("bins"))
    second.discard()
    assert draft.is_symlink() == (kind == "link") and draft.exists() and elsewhere.read_text() == "kept"
    if kind == "draft of another":
        first.publish()
        with store.connect() as connection:
            assert connection.execute(
                "SELECT (SELECT count(*) FROM bins), (SELECT count(*) FROM damaged_files)"
            ).fetchall() == [(1, 0)]
