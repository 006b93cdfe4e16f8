"""Which bins of a port direction are marked as having lost packets, and how merged frames are spread over bins: by a
program of the engine's code under sanitizers (tests/c/lane_driver.c), against the definitions."""

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
EPOCH, TS, BYTES, WIRE, PACKETS, QUALITY = range(6)


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


def test_a_silent_direction_forgets_the_losses_of_a_clock_that_went_back(driver: Path) -> None:
    """Packets of the other direction show that it did: when this one's time reaches that of the loss again, nothing is
    lost there."""
    words = ["p:1000", "l:1050:1059", "s", "a:500", "a:900"]
    found = run(driver, *words, "p:1045", "p:1055", "p:1200")
    assert marked(found) == set() and found["packets"] == 4


LARGEST = 640 * 1024  # wire bytes of the largest merged frame for which bins stay open (MB_MERGED_WIRE)


def shares(stamp: int, wire: int, bin_ns: int) -> dict[int, int]:
    """Returns the nanoseconds of each bin in which a frame that ends at STAMP crossed a link of 1 byte a nanosecond."""
    first, last = (stamp - wire) // bin_ns, stamp // bin_ns
    return {n: min(stamp, (n + 1) * bin_ns) - max(stamp - wire, n * bin_ns) for n in range(first, last + 1)}


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([1000, 4096, 100_000]),
    st.sampled_from([0, 50_000]),
    st.lists(
        st.tuples(st.integers(64, LARGEST), st.integers(0, 3000), st.integers(0, 50_000)), min_size=1, max_size=12
    ),
)
@example(1000, 0, [(LARGEST, 0, 0)] * 4)
@example(1000, 50_000, [(LARGEST, 0, 50_000)] * 4)
def test_merged_frames_are_spread_at_the_speed_of_the_link(
    driver: Path, bin_ns: int, window_ns: int, frames: list[tuple[int, int, int]]
) -> None:
    """Frames that the link carried one after another; each comes after a packet that is newer, within the window."""
    words = [f"bin={bin_ns}", f"window={window_ns}", "spread=8000000000"]
    at, expected, parts = 10_000_000, dict[int, int](), dict[int, int]()
    for wire, gap, ahead in frames:
        at += wire + gap
        if window_ns:
            words.append(f"p:{at + ahead}")
            number = (at + ahead) // bin_ns
            expected[number] = expected.get(number, 0) + 124
        words.append(f"m:{at}:{wire}")
        for number, share in shares(at, wire, bin_ns).items():
            expected[number] = expected.get(number, 0) + share
            parts[number] = parts.get(number, 0) + 1
        at += ahead if window_ns else 0
    found = run(driver, *words)
    rows = {row[TS] // bin_ns: row for row in found["rows"]}
    small = 124 * len(frames) if window_ns else 0
    assert (found["late"], found["squeezed"]) == (0, 0)
    assert sum(row[WIRE] for row in rows.values()) == sum(frame[0] for frame in frames) + small
    assert sum(row[BYTES] for row in rows.values()) == sum(frame[0] - 24 for frame in frames) + small * 100 // 124
    for number in expected.keys() | rows.keys():
        wire_bytes = rows[number][WIRE] if number in rows else 0
        assert abs(wire_bytes - expected.get(number, 0)) <= parts.get(number, 0), number


def test_a_recording_begins_with_the_transmission_of_its_first_frame(driver: Path) -> None:
    """Otherwise it would have bytes from before its start, and bursts that take longer than it."""
    words = ["bin=1000", "window=2000", "spread=8000000000", "m:9000500:4000", "p:9002000"]
    found = run(driver, *words)
    assert (found["first_ns"], found["last_ns"]) == (8_996_500, 9_002_000)
    assert found["rows"][0][TS] == 8_996_000
    squeezed = run(driver, *words[:-2], f"m:9000500:{2 * LARGEST}")
    assert squeezed["squeezed"] == 1 and squeezed["first_ns"] == squeezed["rows"][0][TS]


def test_a_merged_frame_that_bins_are_not_open_for_is_stated(driver: Path) -> None:
    words = ["bin=1000", "window=2000", "spread=8000000000", "p:9000000"]
    for wire, squeezed in ((LARGEST, 0), (2 * LARGEST, 1)):
        found = run(driver, *words, f"m:9000000:{wire}")
        assert found["squeezed"] == squeezed
        assert sum(row[WIRE] for row in found["rows"]) == wire + 124


def test_a_packet_within_the_longest_window_is_in_its_bin(driver: Path) -> None:
    """The window is longer than the most bins that may be open, by less than a bin."""
    stamps = (20_000_000, 9_514_235, 20_000_001, 40_000_000)
    found = run(driver, "bin=10", "window=10485765", *(f"p:{stamp}" for stamp in stamps))
    assert found["late"] == 0
    assert {row[TS] for row in found["rows"]} == {9_514_230, 20_000_000, 40_000_000}
