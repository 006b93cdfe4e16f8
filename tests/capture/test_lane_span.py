"""The first and the last stamp that a port direction counted, and its clock epochs, even where time moves on without a
packet: by a program of the engine's code under sanitizers (tests/c/lane_driver.c), against the definition."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from building import program
from hypothesis import example, given, settings
from hypothesis import strategies as st

WINDOW_NS, STEP_PACKETS = 25, 32
SET_NS = 946_684_800 * 10**9  # 2000-01-01: a clock with an earlier time was never set
TIMES = st.one_of(st.integers(0, 60), st.integers(SET_NS - 30, SET_NS + 30))
EVENTS = st.lists(
    st.one_of(st.tuples(st.just("p"), TIMES), st.tuples(st.just("a"), TIMES), st.just(("s", 0))),
    min_size=1,
    max_size=STEP_PACKETS - 1,  # late packets are then no step of the clock
)


@pytest.fixture(scope="module")
def driver() -> Path:
    return program("tests/c/lane_driver.c")


def counted(events: list[tuple[str, int]]) -> tuple[list[int], int]:
    """Returns the stamps that are in bins, without those outside the window, and the number of clock epochs: one more
    for each step and each time that a clock is set."""
    stamps: list[int] = []
    newest, epochs = None, 1
    for kind, ns in events:
        if newest is not None and (kind == "s" or newest < SET_NS <= ns):
            newest = None
            epochs += 1
        if kind == "a" and newest is not None:
            newest = max(newest, ns)
        elif kind == "p" and (newest is None or ns >= newest - WINDOW_NS):
            stamps.append(ns)
            newest = ns if newest is None else max(newest, ns)
    return stamps, epochs


@settings(max_examples=150, deadline=None)
@given(EVENTS)
@example([("p", 0)])
@example([("p", 3), ("a", 7), ("p", 7)])
@example([("p", 3), ("a", 7), ("p", 5)])
@example([("p", 3), ("a", 7), ("p", 5), ("p", 7)])
@example([("p", 3), ("a", 7), ("s", 0), ("p", 7)])
@example([("p", 3), ("p", SET_NS), ("p", SET_NS - 1)])
@example([("p", 3), ("a", SET_NS), ("p", SET_NS + 30)])
def test_the_span_of_a_lane(driver: Path, events: list[tuple[str, int]]) -> None:
    words = [kind if kind == "s" else f"{kind}:{ns}" for kind, ns in events]
    found = json.loads(subprocess.run([str(driver), *words], capture_output=True, text=True, check=True).stdout)
    stamps, epochs = counted(events)
    assert (found["error"], found["packets"], found["epochs"]) == (0, len(stamps), epochs)
    assert found["late"] == sum(kind == "p" for kind, _ in events) - len(stamps)
    if stamps:
        assert (found["first_ns"], found["last_ns"]) == (min(stamps), max(stamps))
