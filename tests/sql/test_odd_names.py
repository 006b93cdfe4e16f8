"""Folders with any name can hold a store, shipped files and results: a name is never taken as a pattern, an address or
a home folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from racklib import DAY, START, fill

from mburst.analysis.bursts.find import find_bursts
from mburst.errors import MburstError
from mburst.sql import StoreFolder, openable
from mburst.sql.damage import _unreadable

DATE = "2026-11-20"  # of START
NAMES = {  # with a folder for which libraries may take each: by the pattern, or by the address
    "~[x]*?\\'\"{b,c}": "~xab'\"{b,c}",
    "file:x": "x",
    "~root": "root",
}
ODD = next(iter(NAMES))


def mburst(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mburst", *words], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def starts(bursts: str) -> list[int]:
    return [burst["start_ns"] for burst in json.loads(bursts)]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_reads_only_that_folder(tmp_path, monkeypatch, name):
    """Compaction may read only the store, and not the folder above it, where it would look for a pattern."""
    monkeypatch.chdir(tmp_path)
    store = f"./{name}"
    fill(StoreFolder.create(tmp_path / name), {"a1": [(100, 20)]})
    shutil.copytree(name, NAMES[name])  # rows in files of the same names
    Path("\\[").mkdir()  # DuckDB fails if it searches this folder for a pattern
    [found] = starts(mburst(tmp_path, "bursts", store, "--json"))
    assert "sound" in mburst(tmp_path, "check", store)
    assert mburst(tmp_path, "sql", store, "SELECT count(*) AS n FROM bins", "--csv").split() == ["n", "30"]
    shutil.rmtree(NAMES[name])
    fill(StoreFolder.create(tmp_path / NAMES[name]), {"b1": [(300, 10), (400, 10)]})
    mburst(tmp_path, "ship", store, f"{store}.shipped")
    fill(StoreFolder.open(tmp_path / name), {"a1": []}, start=START + DAY)
    mburst(tmp_path, "ship", store, f"{store}.shipped")
    mburst(tmp_path, "fleet", "detect", f"{store}.shipped", "--day", DATE, "-o", f"{store}.results")
    [row] = mburst(tmp_path, "fleet", "ask", f"{store}.results", "worst_hosts", "--day", DATE, "--csv").splitlines()[1:]
    assert "a1" in row
    mburst(tmp_path, "compact", store)
    assert starts(mburst(tmp_path, "bursts", store, "--json")) == [found]
    copy = f"{name} copy"
    shutil.copytree(tmp_path / name, tmp_path / copy)
    assert starts(mburst(tmp_path, "bursts", copy, "--json")) == [found]


def test_a_damaged_file_is_named_by_its_path(tmp_path):
    """It is not named by the path that DuckDB has for it."""
    store = StoreFolder.create(tmp_path / ODD)
    fill(store, {"a1": [(100, 20)]})
    with store.connect() as connection:
        [bins] = store.path.glob("bins/*/*/*.parquet")
        bins.write_bytes(b"x" * bins.stat().st_size)
        with pytest.raises(MburstError, match="damaged") as caught:
            find_bursts(connection)
    assert str(caught.value).startswith(f"{bins}: damaged: ")


def test_errors_of_duckdb_name_the_path_of_the_file(tmp_path):
    path = tmp_path / ODD / "bins.parquet"
    path.parent.mkdir()
    path.write_bytes(100 * b"x")
    with duckdb.connect() as connection:
        [name] = openable.names(connection, [str(path)])
        found = _unreadable(connection.cursor(), path, name)
    assert str(path) in found and "/proc/" not in found


def test_opened_folders_are_closed_with_the_database(tmp_path):
    store = StoreFolder.create(tmp_path / ODD)
    fill(store, {f"a{at}": [(100, 20)] for at in range(3)})
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with store.connect() as connection:
            assert connection.execute("SELECT count(DISTINCT host) FROM bins").fetchone() == (3,)
            assert len(openable._folders[connection]) == 1
        del connection
    assert len(os.listdir("/proc/self/fd")) <= before
