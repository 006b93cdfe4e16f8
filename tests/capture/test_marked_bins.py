"""Which bins of a port direction are marked as having lost packets: by a program of the engine's code under sanitizers
(tests/c/lane_driver.c), against the definition."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from building import program
from hypothesis import example, given, settings
from hypothesis import strategies as st

DROPS, STEP_PACKETS = 32, 32
OPEN_NS = 20  # a loss is reported before any packet that is newer than its first time by more
Loss = tuple[int, int, int]  # packets before its report, first time before the newest packet, length
EPOCH, TS, QUALITY = 0, 1, 5


@pytest.fixture(scope="module")
def driver() -> Path:
    return program("tests/c/lane_driver.c")


def run(driver: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run([str(driver), *words], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert not found["error"]
    return found


def marked(found: dict[str, Any]) -> set[tuple[int, int]]:
    return {(row[EPOCH], row[TS]) for row in found["rows"] if row[QUALITY] & DROPS}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([7, 10, 50, 1000]),
    st.sampled_from([0, 25, 60]),
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 59), st.integers(-OPEN_NS, 60), st.integers(0, 60)), max_size=40),
)
@example(1000, 25, [0, *[30] * 50], [(3, 0, 5)])
@example(10, 0, [0, *[5] * 20], [(5, -OPEN_NS, 0)])
def test_each_bin_of_a_loss_is_marked(
    driver: Path, bin_ns: int, window_ns: int, gaps: list[int], losses: list[Loss]
) -> None:
    words = [f"bin={bin_ns}", f"window={window_ns}", f"open={OPEN_NS}"]
    at, begun_ns, lost = 5000, 5000 + gaps[0], set()
    for number, gap in enumerate(gaps):
        at += gap
        words.append(f"p:{at}")
        for first, length in [loss[1:] for loss in losses if loss[0] % len(gaps) == number]:
            words.append(f"l:{at + first}:{at + first + length}")
            lost |= set(range((at + first) // bin_ns, (at + first + length) // bin_ns + 1))
    begun = begun_ns // bin_ns
    found = {ts_ns // bin_ns for _, ts_ns in marked(run(driver, *words))}
    assert {bin for bin in found if bin >= begun} == {bin for bin in lost if bin >= begun}


def test_many_losses_in_a_wide_bin_mark_no_other() -> None:
    """More losses than the lane keeps apart (MB_DROP_SPANS): those of one bin count as one."""
    driver = program("tests/c/lane_driver.c")
    words = [f"bin={10_000}", "p:0"]
    for number in range(200):
        words += [f"p:{20_000 + number * 40}", f"l:{20_000 + number * 40}:{20_001 + number * 40}"]
    words += ["p:30001", "l:50000:50001", "p:60000"]
    assert marked(run(driver, *words)) == {(0, 20_000), (0, 50_000)}


def test_a_loss_before_a_step_back_marks_the_bins_of_its_own_clock(driver: Path) -> None:
    """The step is noticed while packets of the old clock still come: their bins are marked, and not those of the same
    time of the new clock."""
    words = ["p:1000", "l:1055:1064", "s", "p:1050", "p:1060"]
    words += [f"p:{ts_ns}" for ts_ns in range(500, 500 + STEP_PACKETS)]
    words += [f"p:{ts_ns}" for ts_ns in range(540, 1200, 10)]
    found = run(driver, *words)
    assert found["epochs"] == 3 and found["late"] == 0
    assert marked(found) == {(1, 1050), (1, 1060)}


def test_a_loss_after_a_step_back_is_not_forgotten(driver: Path) -> None:
    """It is reported while packets of the old clock still come."""
    words = ["p:1000", "s", "p:1010", "l:540:549"]
    words += [f"p:{ts_ns}" for ts_ns in range(500, 500 + STEP_PACKETS)] + ["p:545", "p:600"]
    assert marked(run(driver, *words)) == {(2, 540)}
