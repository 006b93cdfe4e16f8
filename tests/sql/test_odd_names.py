"""Folders of any name hold a store, what is shipped and results: a name is never a pattern, an address or a home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from racklib import DAY, START, fill

from mburst.analysis.bursts.find import find_bursts
from mburst.errors import MburstError
from mburst.sql import StoreFolder, openable

# Each is also what libraries take for something else, of which there is one: [x] for x, ~ for a home.
DATE = "2026-11-20"  # of START
NAMES = ["~[x]*?\\'\"{b,c}", "file:x", "~root"]
OTHERS = ["~xx", "x", "~[x]yz\\'\"b"]


def mburst(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mburst", *words], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def starts(bursts: str) -> list[int]:
    return [burst["start_ns"] for burst in json.loads(bursts)]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_reads_just_that_folder(tmp_path, monkeypatch, name):
    """Compaction may read the store alone, and not the folder above it, where it would look for a pattern."""
    monkeypatch.chdir(tmp_path)
    for other in (*OTHERS, "\\["):  # DuckDB fails where it looks for a pattern beside the last one
        fill(StoreFolder.create(tmp_path / other), {"b1": [(300, 10), (400, 10)]})
    fill(StoreFolder.create(tmp_path / name), {"a1": [(100, 20)]})
    store = f"./{name}"
    [found] = starts(mburst(tmp_path, "bursts", store, "--json"))
    assert "sound" in mburst(tmp_path, "check", store)
    assert mburst(tmp_path, "sql", store, "SELECT DISTINCT host FROM bins", "--csv").split() == ["host", "a1"]
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


def test_a_damaged_file_is_named_as_it_is_called(tmp_path):
    """And not by what DuckDB knows it as."""
    store = StoreFolder.create(tmp_path / NAMES[0])
    fill(store, {"a1": [(100, 20)]})
    with store.connect() as connection:
        [bins] = store.path.glob("bins/*/*/*.parquet")
        bins.write_bytes(b"x" * bins.stat().st_size)
        with pytest.raises(MburstError, match="damaged") as caught:
            find_bursts(connection)
    assert str(caught.value).startswith(f"{bins}: damaged: ")


def test_folders_that_are_opened_are_closed_with_the_database(tmp_path):
    store = StoreFolder.create(tmp_path / NAMES[0])
    fill(store, {f"a{at}": [(100, 20)] for at in range(3)})
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with store.connect() as connection:
            assert connection.execute("SELECT count(DISTINCT host) FROM bins").fetchone() == (3,)
            assert len(openable._folders[connection]) == 1
        del connection
    assert len(os.listdir("/proc/self/fd")) <= before
