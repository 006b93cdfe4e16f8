"""Losses that the reader of the kernel's bins finds while the clock is set, by a program of the engine's code under
sanitizers (tests/c/losses_driver.c): each is in the time of the clock of its bins."""

from __future__ import annotations

import json
import subprocess

import pytest
from building import kernel_program, program

BASE, STEP_BASE = 5_000_000, 3_000_000  # system time minus the kernel's, before the clock is set back and after it


@pytest.fixture(scope="module")
def find():
    if not kernel_program():
        pytest.skip("the engine is built without --backend ebpf: that needs clang and libbpf")
    driver = program("tests/c/losses_driver.c")

    def run(step_at_ns: int, *bins: str):
        command = [str(driver), str(BASE), str(step_at_ns), str(STEP_BASE), *bins]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert found["status"] == 0
        return found["drops"], found["later"]

    return run


def test_without_a_step(find):
    assert find(0, "10:0:5", "20:8:1", "21:9:1") == ([[BASE + 10_000, BASE + 19_999, 3]], [])


def test_a_loss_after_a_step_has_the_time_of_the_new_clock(find):
    """Bins after the step are collected with those before it."""
    bins = ["10:0:5", "12:7:1", "20:8:1", "30:11:1", "31:12:1"]
    before = [[BASE + 10_000, BASE + 11_999, 2]]
    assert find(20_000, *bins) == (before, [[STEP_BASE + 20_000, STEP_BASE + 29_999, 2]])


@pytest.mark.parametrize(("step_at", "before", "after"), [(20, 3, 0), (21, 3, 0), (19, 0, 3), (11, 0, 3)])
def test_a_loss_around_a_step_is_in_the_time_of_both_clocks(find, step_at, before, after):
    """Its packets are counted once, in the longer part; both parts state that they are parts."""
    assert find(step_at * 1000, "10:0:5", "30:8:1") == (
        [[BASE + 10_000, BASE + step_at * 1000 - 1, before, True]],
        [[STEP_BASE + step_at * 1000, STEP_BASE + 29_999, after, True]],
    )
