"""The engine on a live source, in simulated time: set clocks, losses that are reported ahead, and bins that close in
silence."""

from __future__ import annotations

import json
import subprocess

import pytest
from building import program

MS = 1_000_000
DROPS, STEPPED = 32, 256


@pytest.fixture(scope="module")
def play():
    driver = program("tests/c/step_driver.c", link=("-Wl,--wrap=clock_gettime",))

    def run(*arguments):
        done = subprocess.run([driver, *map(str, arguments)], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_a_clock_without_steps(play):
    rows = play(50, 0, 0)
    assert [row["ts_ns"] for row in rows] == [n * MS for n in range(50)]
    assert {(row["clock_epoch"], row["packets"], row["quality"]) for row in rows} == {(0, 10, 2)}


@pytest.mark.parametrize("step", [3_600_000 * MS, 5 * MS, 2 * MS, -5 * MS, -3_600_000 * MS, -(2 * MS + 500)])
def test_a_clock_that_is_set_begins_an_epoch(play, step):
    rows = play(60, 30, step)
    before, after = ([row for row in rows if row["clock_epoch"] == epoch] for epoch in (0, 1))
    assert len(before) + len(after) == len(rows)
    assert sum(row["packets"] for row in before) == sum(row["packets"] for row in after) == 300
    assert {row["ts_ns"] // MS for row in before} == set(range(30))
    assert all(30 * MS + step - MS < row["ts_ns"] < 60 * MS + step for row in after)
    assert before[-1]["quality"] & STEPPED and after[0]["quality"] & STEPPED
    assert sum(bool(row["quality"] & STEPPED) for row in rows) == 2


@pytest.mark.parametrize("step", [500_000, -500_000, 20_000])
def test_a_difference_that_may_be_slewing_is_no_step(play, step):
    rows = play(60, 30, step)
    assert {row["clock_epoch"] for row in rows} == {0}
    assert sum(row["packets"] for row in rows) == 600


def test_a_loss_from_before_the_first_packet(play):
    """The loss is reported before the first frame; the first frames arrive while it lasts."""
    rows = play(20, 0, 0, 1, 0, 8 * MS, 0, 5)
    assert [row["ts_ns"] // MS for row in rows if row["packets"]] == list(range(5, 20))
    assert {row["ts_ns"] // MS for row in rows if row["packets"] and row["quality"] & DROPS} == {5, 6, 7, 8}


def test_losses_mark_the_bins_of_their_time(play):
    rows = play(50, 0, 0, 20, 18 * MS + 900_000, 25 * MS + 100_000)
    assert {row["ts_ns"] // MS for row in rows if row["quality"] & DROPS} == set(range(18, 26))
    assert all(row["packets"] == 10 for row in rows)


def test_losses_mark_the_bins_of_a_direction_that_begins_later(play):
    """The loss is reported before the frames of its time come; from read 22 on, they leave."""
    rows = play(50, 0, 0, 20, 18 * MS + 900_000, 25 * MS + 100_000, 0, 0, 22)
    found = {(row["lane"], row["ts_ns"] // MS) for row in rows if row["packets"] and row["quality"] & DROPS}
    assert found == {(0, n) for n in range(18, 22)} | {(1, n) for n in range(22, 26)}


@pytest.mark.parametrize(
    ("read", "first_us", "last_us", "step_us", "marked"),
    [
        (29, 29_000, 29_900, -5_000, {(0, 29)}),
        (30, 26_000, 28_900, -5_000, {(0, 27), (0, 28), (0, 29), (1, 25), (1, 26)}),  # or from 28.9 to 26
        (30, 28_900, 29_100, -4_000, {(0, 28), (0, 29), (1, 26), (1, 27)}),
        (30, 28_900, 36_000, 5_000, {(0, 28), (0, 29), (1, 35), (1, 36)}),
        (30, 28_900, 3_631_000, 3_600_000, {(0, 28), (0, 29), (1, 3_630), (1, 3_631)}),
        (30, -3_569_000, 28_900, -3_600_000, {(0, 28), (0, 29), (1, -3_570), (1, -3_569)}),
        (31, -3_569_900, -3_568_100, -3_600_000, {(1, -3_570), (1, -3_569)}),
    ],
)
def test_a_loss_marks_no_bin_of_another_clock(play, read, first_us, last_us, step_us, marked):
    """The clock is set before read 30. A loss that this read reports, between the time of the old clock at which the
    counter was last read, and that of the new clock, may be of either."""
    rows = play(60, 30, step_us * 1000, read, first_us * 1000, last_us * 1000)
    assert {(row["clock_epoch"], row["ts_ns"] // MS) for row in rows if row["quality"] & DROPS} == marked
    assert sum(row["packets"] for row in rows) == 600


@pytest.mark.parametrize(
    ("read", "first_us", "last_us", "step_us", "reported_us"),
    [
        (29, 29_000, 29_900, -5_000, (29_000, 29_900)),
        (30, 28_900, 3_631_000, 3_600_000, (28_900, 31_000)),
        (30, -3_569_000, 28_900, -3_600_000, (28_900, 31_000)),
        (30, 26_000, 28_900, -5_000, (26_000, 31_000)),  # of either clock
        (31, -3_569_900, -3_568_100, -3_600_000, (-3_569_900, -3_568_100)),
    ],
)
def test_a_loss_around_a_step_is_as_long_as_it_was(play, read, first_us, last_us, step_us, reported_us):
    """Not as long as the step, by which its ends are apart."""
    losses = play(60, 30, step_us * 1000, read, first_us * 1000, last_us * 1000, 0, 0, 0, 1)
    assert losses == [[reported_us[0] * 1000, reported_us[1] * 1000, 7]]


@pytest.mark.parametrize(
    ("read", "first_us", "last_us", "step_us", "marked", "reported_us"),
    [
        (31, -9_968_600, 30_200, -10_000_000, {-9_970, -9_969}, (-9_969_800, -9_968_600)),
        (31, -9_969_600, 29_800, -10_000_000, {-9_970}, (-9_970_000, -9_969_600)),
        (31, 30_200, 3_631_700, 3_600_000, {3_630, 3_631}, (3_630_200, 3_631_700)),
        (31, 29_800, 3_630_700, 3_600_000, {3_630}, (3_630_000, 3_630_700)),
        (31, 26_400, 29_800, -5_000, {25, 26}, (25_000, 26_400)),
        (31, -269_300, 30_200, -300_000, {-270}, (-269_800, -269_300)),
        (31, -9_968_600, -9_968_200, -10_000_000, {-9_969}, (-9_968_600, -9_968_200)),
        (31, 3_631_200, 3_631_700, 3_600_000, {3_631}, (3_631_200, 3_631_700)),
        (900, -9_900_000, -9_899_500, -10_000_000, set(), (-9_900_000, -9_899_500)),  # its bins are closed
    ],
)
def test_a_loss_that_is_reported_after_its_step_is_in_the_new_clock(
    play, read, first_us, last_us, step_us, marked, reported_us
):
    """The counter is read once a millisecond, the packets more often: the read that notices the step need not report
    the loss around it. The clock may have been set as early as after the last read that did not notice it."""
    loss = (11_000, 30, step_us * 1000, read, first_us * 1000, last_us * 1000, 0, 0, 0)
    rows = [row for row in play(*loss) if row["quality"] & DROPS]
    assert {(row["clock_epoch"], row["ts_ns"] // MS) for row in rows} == {(1, ms) for ms in marked}
    assert play(*loss, 1) == [[reported_us[0] * 1000, reported_us[1] * 1000, 7]]


@pytest.mark.parametrize("step_us", [2_000, -5_000, 3_600_000, -3_600_000])
@pytest.mark.parametrize("behind_ms", [100_000, 5, -5])
def test_a_step_of_system_time_does_not_extend_losses_of_another_clock(play, behind_ms, step_us):
    """An interface stamps, by a clock that does not step: the loss is in its time, and is as long as it was."""
    first, last = 28_900_000 - behind_ms * MS, 30_100_000 - behind_ms * MS
    loss = (60, 30, step_us * 1000, 30, first, last, 0, 0, 0)
    rows = play(*loss, 0, behind_ms * MS)
    found = {row["ts_ns"] // MS + behind_ms for row in rows if row["quality"] & DROPS}
    assert found == {28, 29, 30} and sum(row["packets"] for row in rows) == 600
    assert play(*loss, 1, behind_ms * MS) == [[first, last, 7]]


def test_bins_with_all_packets_lost_are_rows(play):
    """Reads 20 to 29 return nothing, and a loss states why. Otherwise that time would look silent."""
    rows = play(50, 0, 0, 29, 20 * MS, 30 * MS - 1, 20, 30)
    assert [row["ts_ns"] // MS for row in rows] == list(range(50))
    for row in rows:
        lost = 20 <= row["ts_ns"] // MS < 30
        assert (row["packets"], bool(row["quality"] & DROPS)) == ((0, True) if lost else (10, False))


def test_silence_has_no_rows(play):
    rows = play(50, 0, 0, 0, 0, 0, 20, 30)
    assert [row["ts_ns"] // MS for row in rows] == [*range(20), *range(30, 50)]


def test_losses_may_extend_to_the_end(play):
    rows = play(20, 0, 0, 19, 18 * MS, 24 * MS)
    assert [row["ts_ns"] // MS for row in rows] == list(range(25))
    assert [row["packets"] for row in rows[-5:]] == [0] * 5
    assert all(row["quality"] & DROPS for row in rows[18:])


def test_bins_close_as_time_passes_without_a_frame(play):
    rows = play(400, 0, 0, 0, 0, 0, 50, 400)
    assert len(rows) == 50 and sum(row["packets"] for row in rows) == 500
    assert max(row["read"] for row in rows) < 250
