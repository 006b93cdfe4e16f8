"""Stores of earlier formats are migrated with every row; whatever is left out is reported."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forking import exit_code_of
from places import ROOT

from mburst.__main__ import main
from mburst.errors import MburstError
from mburst.services.record import recovery
from mburst.sql import StoreFolder
from mburst.sql.repair import format1
from mburst.sql.repair.checking import check
from mburst.sql.repair.migration import migrate
from mburst.sql.tables import ORDER

STORES = ROOT / "tests" / "data" / "stores"
OLD = ["format-1", "format-1-c3d7337"]
FLIPS = int(os.environ.get("MBURST_FAULTS", "15"))

sys.path.insert(0, str(STORES))
import make  # noqa: E402


@pytest.fixture
def old(tmp_path: Path) -> Path:
    shutil.copytree(STORES / "format-1" / "store", tmp_path / "old")
    return tmp_path / "old"


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected(name: str) -> dict[str, dict[str, int]]:
    """Returns the sums that the old mburst read in its store, by today's names and as a store of today counts them."""
    stated = json.loads((STORES / name / "expected.json").read_text())
    stated = {
        format1.TABLES.get(table, table): {format1.COLUMNS.get(column, column): value for column, value in sums.items()}
        for table, sums in stated.items()
    }
    stated |= {"gaps": {"rows": 0}, "canary": {"rows": 0}}
    stated["sources"] = {"source_port": 0, "destination_port": 0, **stated["sources"]}
    stated["probes"] = {"clock_error_ns": 0, **stated["probes"]}
    return stated


def without_zeros(sums: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {table: {column: value for column, value in of.items() if value} for table, of in sums.items()}


@pytest.mark.parametrize("name", OLD)
def test_a_store_of_format_1_keeps_every_row(name: str, tmp_path: Path, capsys: Any) -> None:
    before = content(STORES / name)
    assert main(["migrate", str(STORES / name / "store"), str(tmp_path / "new")]) == 0
    assert content(STORES / name) == before, "the old store is only read"
    assert "bins: 43 rows, 377,050 bytes, the same before and after" in capsys.readouterr().out
    found, wanted = make.expected(StoreFolder.open(tmp_path / "new")), expected(name)
    # The killed recording has its totals from its bins: 4 packets, where its row counted the first 5 bytes.
    assert found["recordings"].pop("counted_segments") == 0 and found["recordings"].pop("begun_ns") > 0
    for column, of_row, of_bins in (("packets", 5, 4), ("bytes", 5, 424), ("wire_bytes", 5, 514), ("end_ns", 0, 0)):
        wanted["recordings"][column] += of_bins - of_row
    for column in ("wire_bytes", "end_ns"):
        found["recordings"].pop(column), wanted["recordings"].pop(column)
    assert not any(without_zeros({table: found.pop(table)})[table] for table in found.keys() - wanted.keys())
    assert without_zeros(found) == without_zeros(wanted)
    assert check(tmp_path / "new").is_sound
    assert main(["check", "--deep", str(tmp_path / "new")]) == 0


@pytest.mark.parametrize("name", ["format-2", "format-2-f835f3c"])
def test_an_older_store_of_this_format_is_read_unchanged(name: str, tmp_path: Path) -> None:
    shutil.copytree(STORES / name / "store", tmp_path / "store")
    wanted = json.loads((STORES / name / "expected.json").read_text())
    found = make.expected(StoreFolder.open(tmp_path / "store"))
    assert {table: {column: found[table][column] for column in sums} for table, sums in wanted.items()} == wanted
    assert check(tmp_path / "store").is_sound


def test_recordings_without_newer_columns_are_recovered(tmp_path: Path) -> None:
    """The column that states how a recording ended is newer, so that older columns decide. The next recorder recovers
    the killed recording."""
    shutil.copytree(STORES / "format-2" / "store", tmp_path / "store")
    store = StoreFolder.open(tmp_path / "store")
    ends = "SELECT host, ended, complete, begun_ns > 0 FROM recordings ORDER BY 1"
    whole = ("cache-1", "finished", True, True)
    assert store.connect().execute(ends).fetchall() == [whole, ("cache-2", "", False, True)]
    [(capture,)] = store.connect().execute("SELECT capture_id FROM recordings WHERE host = 'cache-2'").fetchall()
    [of_it] = recovery.attempts(store, capture).items()
    recovery.end_killed(store, *of_it, "killed")
    assert store.connect().execute(ends).fetchall() == [whole, ("cache-2", "killed", False, True)]


def test_the_sample_stores_have_every_table_of_format_1() -> None:
    stated = json.loads((STORES / "format-1" / "expected.json").read_text())
    newer = {"gaps", "canary", "steps", "latency_steps", "kept", "thinned", "names"}
    assert {format1.TABLES.get(table, table) for table in stated} == {*ORDER} - newer
    assert all(sums["rows"] for sums in stated.values())


def test_a_killed_attempt_does_not_count_with_the_complete_one(old: Path, tmp_path: Path) -> None:
    """Format 1 counted both: 9 of 9 files that were recorded again after a kill were doubled."""
    tables = {table: next((old / table).rglob("*.parquet")) for table in ("runs", "bins", "sources")}
    for table, path in tables.items():
        rows = pq.read_table(path, partitioning=None)
        if table == "runs":
            rows = rows.filter(pa.compute.invert(rows["complete"]))
        earlier = path.name.replace("cache-1-0179", "cache-1-0178").replace("-15798-", "-15799-")
        again = path.with_name(earlier)
        pq.write_table(rows, again)
    migrate(old, tmp_path / "new")
    [(packets, bins)] = (
        StoreFolder.open(tmp_path / "new")
        .connect()
        .execute(
            "SELECT (SELECT sum(packets) FROM recordings WHERE host = 'cache-1'), "
            "(SELECT sum(packets) FROM bins WHERE host = 'cache-1')"
        )
        .fetchall()
    )
    assert packets == bins == 309


@pytest.mark.parametrize(
    ("backend", "note", "ended", "complete"),
    [
        ("file", "", "finished", True),
        ("file", "12 packets were dropped\nthe recording was interrupted", "interrupted", False),
        ("file", "the input ended early: a.pcap: cut off\n12 packets", "failed", False),
        ("afpacket", "ended by SIGTERM", "stopped", True),
        ("afpacket", "", "stopped", True),
        ("libpcap", "the input ended early: eth0 has vanished", "failed", False),
    ],
)
def test_an_interrupted_recording_is_not_complete(
    old: Path, tmp_path: Path, backend: str, note: str, ended: str, complete: bool
) -> None:
    """Format 1 called all recordings complete; their notes state how they ended."""
    path = next((old / "runs").rglob("*.parquet"))
    rows = pq.read_table(path, partitioning=None)
    for name, value in (("backend", backend), ("notes", note)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array([value] * len(rows)))
    pq.write_table(rows, path)
    before = rows.filter(rows["complete"])["packets"].to_pylist()
    migrate(old, tmp_path / "new")
    assert StoreFolder.open(tmp_path / "new").connect().execute(
        "SELECT ended, complete, counted_segments, packets FROM recordings WHERE host = 'cache-1'"
    ).fetchall() == [(ended, complete, None, *before)]


def test_a_store_that_is_being_written_is_refused(old: Path, tmp_path: Path) -> None:
    with next((old / "hot" / "bins").iterdir()).open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(MburstError, match="is being written"):
            migrate(old, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    migrate(old, tmp_path / "new")


def test_a_folder_that_is_not_empty_is_refused(old: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "letter.txt").write_text("dear")
    with pytest.raises(MburstError, match="new: not empty"):
        migrate(old, tmp_path / "new")
    with pytest.raises(MburstError, match="old: not empty"):
        migrate(old, old)
    store = StoreFolder.create(tmp_path / "other")
    with pytest.raises(MburstError, match="other: not empty"):
        migrate(old, store.path)
    with pytest.raises(MburstError, match="a store of format 2; only one of format 1 is migrated"):
        migrate(store.path, tmp_path / "third")


def test_an_interrupted_migration_begins_again(old: Path, tmp_path: Path) -> None:
    migrate(old, tmp_path / "whole")
    whole = {
        path.relative_to(tmp_path / "whole"): data
        for path, data in content(tmp_path / "whole").items()
        if path.name != ".verified"
    }
    for files in (0, 1, 10, 21):
        new = tmp_path / str(files)

        def ends(done: int, total: int, files: int = files) -> None:
            if done > files:
                os._exit(9)

        assert exit_code_of(partial(migrate, old, new, ends)) == 9
        with pytest.raises(MburstError, match="not an mburst store"):
            StoreFolder.open(new)
        migrate(old, new)
        assert {path.relative_to(new): data for path, data in content(new).items() if path.name != ".verified"} == whole


@pytest.mark.parametrize("damage", ["truncated", "garbage", "fifo", "empty"])
@pytest.mark.parametrize("table", ["bins", "runs", "ports"])
def test_a_damaged_file_is_named_and_the_others_are_migrated(
    old: Path, tmp_path: Path, table: str, damage: str, capsys: Any
) -> None:
    path = next((old / table).rglob("*.parquet"))
    data = path.read_bytes()
    path.unlink()
    if damage == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes({"truncated": data[: len(data) // 2], "garbage": b"x" * 500, "empty": b""}[damage])
    assert main(["migrate", str(old), str(tmp_path / "new")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1 and errors[0].startswith(f"mburst: {path}: damaged: ")
    assert check(tmp_path / "new").is_sound
    assert StoreFolder.open(tmp_path / "new").connect().execute("SELECT count(*) FROM probes").fetchall() == [(57,)]


def test_unknown_tables_and_columns_are_reported(old: Path, tmp_path: Path, capsys: Any) -> None:
    path = next((old / "ports").rglob("*.parquet"))
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.append_column("colour", pa.array(["red"] * len(rows))), path)
    shutil.copytree(old / "links", old / "cables")
    assert main(["migrate", str(old), str(tmp_path / "new")]) == 1
    stated = capsys.readouterr()
    assert "the column ports.colour is left out" in stated.out
    assert "unknown table cables" in stated.err


def test_flipped_bits_never_crash_a_migration(old: Path, tmp_path: Path) -> None:
    """Format 1 has no checksums, so a flipped bit may change a value. It must neither end the process nor lose another
    file."""
    chance = random.Random(7)
    files = sorted(path for path in old.rglob("*") if path.suffix in (".arrows", ".parquet"))
    for trial in range(FLIPS):
        path = chance.choice(files)
        data = path.read_bytes()
        broken = bytearray(data)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)

        def is_migrated(new: Path = tmp_path / f"new-{trial}", path: Path = path) -> None:
            outcome = migrate(old, new)
            assert outcome.files == 22 and {file.path for file in outcome.damaged} <= {str(path)}
            assert check(new).is_sound

        assert exit_code_of(is_migrated) == 0, f"trial {trial}: {path}"
        shutil.rmtree(tmp_path / f"new-{trial}")
        path.write_bytes(data)
