"""`mburst canary` on a rack: quiet, with offloads, and beside bursts of others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from calm import Attempts, hold

from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError
from mburst.lab.rack import Rack
from mburst.lab.rack.plan import CACHE_IP
from mburst.lab.rack.role import python_environment
from mburst.lab.rack.verbs import Onlooker, recording, running
from mburst.python import command
from mburst.services import canary
from mburst.sql import Store

COUNT = 20
SMALL, LARGE = 3_000, 60_000  # 24 and 480 µs at 1 Gb/s; a bin is 100 µs


@dataclass(frozen=True)
class Cell:
    """What became of the bursts of one size."""

    sent: int
    counted: int
    detected: int
    excluded: dict[str, int]


def send(rack: Rack, *arguments: str) -> None:
    process = rack.exec_in(
        rack.plan.namespace("api"),
        command("mburst", "canary", CACHE_IP, "--link", "1G", "--size", f"{SMALL}B,{LARGE}B", "--length", "0",
                "--count", str(COUNT), *arguments),
        env=python_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def cells(store: Path) -> dict[int, Cell]:
    con = Store.open(store).connect()
    rows = con.execute("SELECT size_bytes, excluded, detected FROM canary").fetchall()
    found = {}
    for size in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == size]
        why = {word: sum(row[1] == word for row in mine) for word in {row[1] for row in mine} - {""}}
        found[size] = Cell(len(mine), sum(not row[1] for row in mine), sum(bool(row[2]) for row in mine), why)
    return found


def measure(folder: Path, *, offloads: bool = False, load: bool = False) -> dict[int, Cell]:
    with Rack(8, offloads=offloads) as rack, ThreadPoolExecutor(1) as beside:
        record = recording(folder, ["--link", "1G", "--host", "cache", "--direction", "in"])
        with running(rack, [record], Onlooker()):
            others = beside.submit(rack.run_rounds, 80, bytes_per_sender=60_000, gap_s=(0.01, 0.03)) if load else None
            send(rack, "-o", str(folder))
            if others:
                others.result()
    return cells(folder)


def all_is_accounted_for(found: dict[int, Cell]) -> None:
    assert set(found) == {SMALL, LARGE}
    for cell in found.values():
        assert cell.sent >= COUNT and cell.counted + sum(cell.excluded.values()) == cell.sent, cell


def the_large_is_detected_and_the_small_is_not(found: dict[int, Cell]) -> None:
    all_is_accounted_for(found)
    assert found[LARGE].counted >= COUNT // 2 and found[LARGE].detected == found[LARGE].counted, found
    assert found[SMALL].detected == 0, found


def others_hide_and_are_not_taken_for_it(found: dict[int, Cell]) -> None:
    all_is_accounted_for(found)
    assert found[SMALL].detected == 0, found
    assert sum(cell.excluded.get("hidden", 0) for cell in found.values()) > 0, found


CASES: dict[str, tuple[dict[str, Any], Callable[[dict[int, Cell]], None]]] = {
    "quiet": ({}, the_large_is_detected_and_the_small_is_not),
    "offloads": ({"offloads": True}, the_large_is_detected_and_the_small_is_not),
    "load": ({"load": True}, others_hide_and_are_not_taken_for_it),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_recorder_sees_of_canary_bursts(case: str, can_build: None,
                                               tmp_path_factory: pytest.TempPathFactory) -> None:
    how, check = CASES[case]

    def once() -> dict[int, Cell]:
        return measure(tmp_path_factory.mktemp("canary") / "s", **how)

    attempts = Attempts(once, once)
    hold(check, attempts.that_holds(check))


def test_bursts_that_the_recorder_never_got(can_build: None, tmp_path: Path) -> None:
    """They went to the API host itself: the cache recorded others, and no curve comes of it."""
    record = recording(tmp_path / "s", ["--link", "1G", "--direction", "in"])
    with Rack(8) as rack, running(rack, [record], Onlooker()):
        rack.run_rounds(2, bytes_per_sender=20_000)
        sent = rack.exec_in(
            rack.plan.namespace("api"),
            command("mburst", "canary", "198.18.0.2", "--link", "1G", "--size", "3kB", "--length", "0", "--count",
                    "10", "--sent", str(tmp_path / "sent")),
            env=python_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output, _ = sent.communicate(timeout=60)
        assert sent.returncode == 0, output
    store = Store.open(tmp_path / "s")
    with pytest.raises(MburstError, match=r"no packet of 198\.18\.0\.2 was recorded"):
        canary.read(store, canary.load(tmp_path / "sent"), BurstDefinition())
    assert store.connect().execute("SELECT count(*) FROM canary").fetchone() == (0,)
