"""`mburst canary` on a rack: quiet, with offloads, and together with bursts of others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calm import Attempts, hold
from coalescing import Coalesced, coalescing

from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError
from mburst.lab.rack import Rack
from mburst.lab.rack.plan import CACHE_IP
from mburst.lab.rack.role import python_environment
from mburst.lab.rack.verbs import ExperimentObserver, Verb, recording, running
from mburst.process.python import command
from mburst.services import canary
from mburst.sql import StoreFolder

COUNT = 20
SMALL, LARGE = 3_000, 60_000  # 24 and 480 µs at 1 Gb/s; a bin is 100 µs


@dataclass(frozen=True)
class Cell:
    """The results for the bursts of one size."""

    sent: int
    counted: int
    detected: int
    excluded: dict[str, int]


def send(rack: Rack, *arguments: str) -> None:
    process = rack.exec_in(
        rack.plan.namespace("api"),
        command(
            "mburst",
            "canary",
            CACHE_IP,
            "--link",
            "1G",
            "--size",
            f"{SMALL}B,{LARGE}B",
            "--length",
            "0",
            "--count",
            str(COUNT),
            *arguments,
        ),
        env=python_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def cells(store: Path) -> dict[int, Cell]:
    con = StoreFolder.open(store).connect()
    rows = con.execute("SELECT size_bytes, excluded, detected FROM canary").fetchall()
    found = {}
    for size in {row[0] for row in rows}:
        mine = [row for row in rows if row[0] == size]
        why = {word: sum(row[1] == word for row in mine) for word in {row[1] for row in mine} - {""}}
        found[size] = Cell(len(mine), sum(not row[1] for row in mine), sum(bool(row[2]) for row in mine), why)
    return found


def recording_of(folder: Path) -> Verb:
    return recording(folder, ["--link", "1G", "--host", "cache", "--direction", "in"])


def measure(folder: Path, *, offloads: bool = False, load: bool = False) -> dict[int, Cell]:
    with (
        Rack(8, offloads=offloads) as rack,
        ThreadPoolExecutor(1) as beside,
        running(rack, [recording_of(folder)], ExperimentObserver()),
    ):
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
def test_the_canary_bursts_that_a_recorder_detects(
    case: str, can_build: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    how, check = CASES[case]

    def once() -> dict[int, Cell]:
        return measure(tmp_path_factory.mktemp("canary") / "s", **how)

    attempts = Attempts(once, once)
    hold(check, attempts.that_holds(check))


@dataclass(frozen=True)
class Behind:
    """The results of a recorder behind an interface that holds frames."""

    cells: dict[int, Cell]
    nic: Coalesced
    edges: list[tuple[int, int]]  # errors of begin and end of the large bursts in ns


def measure_behind(folder: Path, hold_us: int) -> Behind:
    with Rack(8) as rack, coalescing(rack, hold_us) as nic:
        behind = replace(recording_of(folder), words=["record", "-i", nic.interface, *recording_of(folder).words[3:]])
        with running(rack, [behind], ExperimentObserver()):
            send(rack, "-o", str(folder))
    con = StoreFolder.open(folder).connect()
    edges = con.execute(f"""
        SELECT found_start_ns - start_ns, found_end_ns - end_ns FROM canary
        WHERE detected AND excluded = '' AND size_bytes = {LARGE}""").fetchall()
    return Behind(cells(folder), nic, edges)


HOLD_US = 250


def held_frames_move_edges_and_hide_no_burst(found: Behind) -> None:
    """The 40 frames of a large burst come in two or three interrupts, each of which fills bins above the line rate."""
    the_large_is_detected_and_the_small_is_not(found.cells)
    assert found.nic.frames > 5 * found.nic.interrupts and found.nic.most >= HOLD_US // 13, found.nic
    for edge in zip(*found.edges, strict=True):
        assert np.median(np.abs(edge)) <= (HOLD_US + 200) * 1000, edge  # the machine itself may pause for longer


def test_behind_an_interface_that_coalesces(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The measured detection limit includes the interface's effect on arrival times; a computed limit would not."""

    def once() -> Behind:
        return measure_behind(tmp_path_factory.mktemp("canary") / "s", HOLD_US)

    attempts = Attempts(once, once)
    hold(held_frames_move_edges_and_hide_no_burst, attempts.that_holds(held_frames_move_edges_and_hide_no_burst))


def test_bursts_that_never_reached_the_recorder(can_build: None, tmp_path: Path) -> None:
    """The bursts went to the API host itself. The cache recorded other packets, from which no curve is made."""
    record = recording(tmp_path / "s", ["--link", "1G", "--direction", "in"])
    with Rack(8) as rack, running(rack, [record], ExperimentObserver()):
        rack.run_rounds(2, bytes_per_sender=20_000)
        sent = rack.exec_in(
            rack.plan.namespace("api"),
            command(
                "mburst",
                "canary",
                "198.18.0.2",
                "--link",
                "1G",
                "--size",
                "3kB",
                "--length",
                "0",
                "--count",
                "10",
                "--sent",
                str(tmp_path / "sent"),
            ),
            env=python_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output, _ = sent.communicate(timeout=60)
        assert sent.returncode == 0, output
    store = StoreFolder.open(tmp_path / "s")
    with pytest.raises(MburstError, match=r"no packet of 198\.18\.0\.2 was recorded"):
        canary.read(store, canary.load(tmp_path / "sent"), BurstDefinition())
    assert store.connect().execute("SELECT count(*) FROM canary").fetchone() == (0,)
