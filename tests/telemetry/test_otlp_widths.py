"""The width and the place of bins of switch ports, whose samples are late, missing, taken together, or stamped by
clocks that are set. Simulated senders know the interval at which they sample; no byte is lost whatever width is
determined."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlplib import MS, OUT_BYTES, T0, FedIntake, message

from mburst.telemetry.otlp.lanes import LOOKED
from mburst.telemetry.otlp.port_bins import MOST_RUNS
from mburst.telemetry.otlp.widths import width_of

US, S = MS // 1000, 1000 * MS
INTERVALS = [100 * US, MS, 10 * MS, 50 * MS, 100 * MS, S]
SAMPLES = 200


def late(due: list[int], lateness: list[int]) -> Iterator[int]:
    """The times of samples that are due at DUE; one that is so late that others become due stands for them all."""
    last = 0
    for at, by in zip(due, lateness, strict=True):
        if at > last:
            last = at + by
            yield last


def late_at_first(due: list[int], width: int, noise: random.Random) -> list[int]:
    """The first samples are late, on a machine that is busy; the others are not."""
    first = noise.choice([1, 2, 5])
    return [*late(due, [noise.randrange(width if k < first else width // 100) for k in range(len(due))])]


def late_at_times(due: list[int], width: int, noise: random.Random) -> list[int]:
    """One in ten samples is late, by up to a width."""
    return [*late(due, [noise.randrange(width if noise.random() < 0.1 else width // 100) for _ in due])]


def jitter(due: list[int], width: int, noise: random.Random) -> list[int]:
    """Each sample is early or late by up to a tenth of the width."""
    return [at + noise.randrange(-width // 10, width // 10) for at in due]


def pauses(due: list[int], width: int, noise: random.Random) -> list[int]:
    """The machine pauses again and again for up to eight widths, and then takes one sample at once."""
    lateness = [noise.randrange(8 * width) if noise.random() < 1 / 15 else noise.randrange(width // 200) for _ in due]
    return [*late(due, lateness)]


def taken_together(due: list[int], width: int, noise: random.Random) -> list[int]:
    """The machine pauses, and then takes the samples of that time within some µs each."""
    times, behind = [], 0
    for at in due:
        behind = max(behind + 5000, at)
        times.append(behind)
        if noise.random() < 1 / 20:
            behind += noise.randrange(4 * width)
    return times


def missing(due: list[int], width: int, noise: random.Random) -> list[int]:
    """One sample in three is missing."""
    return [at + noise.randrange(width // 100) for at in due if noise.random() > 1 / 3]


def late_at_random(due: list[int], width: int, noise: random.Random) -> list[int]:
    """Each sample is late by up to a width."""
    return [*late(due, [noise.randrange(width) for _ in due])]


def mostly_missing(due: list[int], width: int, noise: random.Random) -> list[int]:
    """Seven in ten samples are missing."""
    return [at + noise.randrange(width // 100) for at in due if noise.random() > 0.7]


def stepped(due: list[int], width: int, noise: random.Random) -> list[int]:
    """The clock is set forward while the width is determined."""
    step, first = noise.randrange(100 * width), noise.randrange(3, 40)
    return [at + (step if k >= first else 0) for k, at in enumerate(due)]


SENDERS = [late_at_first, late_at_times, jitter, pauses, taken_together, missing, stepped]


def fed(times: list[int], amounts: list[int], take: int = 50) -> FedIntake:
    """Returns the results for samples at these times of a total that increased by AMOUNTS from one to the next."""
    values = np.concatenate([[10**12], 10**12 + np.cumsum(amounts)]).tolist()
    points = [(OUT_BYTES, "Ethernet0", at, value) for at, value in zip(times, values, strict=False)]
    return FedIntake().feed(*(message(points[first : first + take]) for first in range(0, len(points), take))).end()


@pytest.mark.parametrize("width", INTERVALS)
@pytest.mark.parametrize("sender", SENDERS)
def test_uneven_samples_become_bins_of_their_interval(sender, width):
    """The width is the interval at which the sender samples, and no byte is lost or counted twice."""
    for seed in range(3):
        noise = random.Random(f"{sender.__name__} {width} {seed}")
        phase = noise.randrange(width)
        times = sender([T0 + phase + k * width for k in range(SAMPLES)], width, noise)
        amounts = [noise.randrange(width) for _ in times[1:]]
        found = fed(times, amounts)
        assert [lane.bin_ns for lane in found.intake.ports.lanes.values()] == [width], f"seed {seed}"
        in_bins = sum(amount for amount, _ in found.bins.values())
        assert in_bins + sum(missed.bytes for missed in found.missed) == sum(amounts)


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize(
    ("before", "after"), [(1000, 1200), (1000, 500), (10_000, 12_000), (10_000, 9000), (50_000, 70_000)]
)
def test_another_interval_is_another_recording(sender, before, after):
    """Also one that is so near the former width that each sample has a bin of its own: it would hold the bytes of
    another time than its width."""
    for seed in range(3):
        noise = random.Random(f"{sender.__name__} {before} {after} {seed}")
        times = late(
            [T0 + k * before * US for k in range(400)], [noise.randrange(before * US // 100) for _ in range(400)]
        )
        first = [*times]
        due = [first[-1] + (k + 1) * after * US for k in range(1000)]
        times = [*first, *(at for at in sender(due, after * US, noise) if at > first[-1])]
        amounts = [noise.randrange(after * US) for _ in times[1:]]
        found = fed(times, amounts)
        assert [lane.bin_ns for lane in found.intake.ports.lanes.values()] == [before * US, after * US], f"seed {seed}"
        in_bins = sum(amount for amount, _ in found.bins.values())
        assert in_bins + sum(missed.bytes for missed in found.missed) == sum(amounts)


@pytest.mark.parametrize("width", INTERVALS)
@pytest.mark.parametrize("sender", SENDERS)
def test_uneven_samples_end_no_recording(sender, width):
    for seed in range(3):
        noise = random.Random(f"{sender.__name__} {width} {seed}")
        times = sender([T0 + k * width for k in range(3000)], width, noise)
        found = fed(times, [1000] * (len(times) - 1), take=500)
        assert [lane.bin_ns for lane in found.intake.ports.lanes.values()] == [width], f"seed {seed}"


@pytest.mark.parametrize("sender", [late_at_random, mostly_missing])
def test_samples_that_are_too_uneven_end_no_recording(sender):
    """128 of them do not show their interval."""
    for seed in range(3):
        noise = random.Random(f"{sender.__name__} {seed}")
        times = sender([T0 + k * 10 * MS for k in range(8000)], 10 * MS, noise)
        assert len(fed(times, [1000] * (len(times) - 1), take=500).intake.ports.lanes) == 1, f"seed {seed}"


def test_a_port_that_changes_all_the_time_has_a_bounded_number_of_recordings():
    """The number of lanes is limited for all ports together."""
    intervals = [(10 if k // 400 % 2 else 11) * MS for k in range(20_000)]
    amounts = [k % 977 for k in range(20_000)]
    found = fed([T0, *(T0 + np.cumsum(intervals)).tolist()], amounts, take=400)
    lanes = [*found.intake.ports.lanes.values()]
    assert len(lanes) == MOST_RUNS + 1 and all(len(lane._last) <= LOOKED for lane in lanes)
    in_bins = sum(amount for amount, _ in found.bins.values())
    assert in_bins + sum(missed.bytes for missed in found.missed) == sum(amounts)


@pytest.mark.parametrize("late_ns", [0, 300_000, 600_000, 990_000])
@pytest.mark.parametrize("phase", [0, 400_000, 800_000])
def test_a_late_first_sample_does_not_move_the_bins(late_ns, phase):
    """Each bin but the first two is at the nearest multiple of the width from its samples."""
    times = [T0 + phase + k * MS for k in range(SAMPLES)]
    times[0] += late_ns
    amounts = [1000 + k for k in range(SAMPLES - 1)]
    places = {amount: start for (_, _, start), (amount, _) in fed(times, amounts).bins.items()}
    assert all(abs(places[1000 + k] - times[k]) <= MS // 2 for k in range(2, SAMPLES - 1))


def test_more_samples_are_awaited_while_the_width_is_not_clear():
    """Bins of even samples begin after 16 intervals, those of samples whose interval is not clear after 128 at most."""
    noise = random.Random(1)
    even = [T0 + k * 950 * US for k in range(300)]
    for times, least, most in ((even, 17, 19), ([at + noise.randrange(400 * US) for at in even], 33, 131)):
        samples = FedIntake()
        for number, at in enumerate(times, 1):
            samples.feed(message([(OUT_BYTES, "Ethernet0", at, 10**12 + number)]))
            if samples.intake.ports.lanes:
                break
        assert least <= number <= most
        assert [lane.bin_ns for lane in samples.end().intake.ports.lanes.values()] == [950 * US]


@pytest.mark.parametrize("share", [0.1, 0.12, 0.2])
@pytest.mark.parametrize("width", [MS, 10 * MS])
def test_half_the_interval_is_never_sure(width, share):
    """Up to one sample in five is late by half a width."""
    for seed in range(200):
        noise = random.Random(f"{width} {share} {seed}")
        due = [T0 + k * width for k in range(129)]
        times = [*late(due, [width // 2 if noise.random() < share else noise.randrange(width // 200) for _ in due])]
        for number in (16, 32, 64, len(times) - 1):
            found = width_of(np.diff(times[: number + 1]))
            assert not (found.is_sure and found.ns == width // 2), f"seed {seed}, {number} intervals: {found}"


@pytest.mark.parametrize("take", [1, 10, 100])
def test_samples_at_almost_a_second_are_awaited_too(take):
    """The decision does not depend on how many samples a message has."""
    noise = random.Random(1)
    times = [T0 + k * 970 * MS + noise.randrange(-60 * MS, 60 * MS) for k in range(200)]
    found = fed(times, [1000] * 199, take)
    [lane] = found.intake.ports.lanes.values()
    assert abs(lane.bin_ns - 970 * MS) <= 10 * MS and not found.rows["ports"]
    [alone] = fed(times, [1000] * 199, 200).intake.ports.lanes.values()
    assert lane.bin_ns == alone.bin_ns


def test_a_second_is_a_width_of_bins():
    """Samples each second, some ms early or late, become bins: some intervals are longer than the widest bin."""
    noise = random.Random(1)
    times = [T0 + k * S + noise.randrange(-20 * MS, 20 * MS) for k in range(60)]
    found = fed(times, [1000] * 59)
    assert [lane.bin_ns for lane in found.intake.ports.lanes.values()] == [S] and not found.rows["ports"]


@pytest.mark.parametrize(
    ("interval", "width"),
    [(100_120, 100_000), (999_000, 1_000_000), (5_000_900, 5_000_000), (12_749_000, 12_750_000), (10_050, 10_000),
     (1_003_000, 1_000_000), (13_000, 13_000), (1_024_000, 1_020_000), (100_400_000, 100_000_000), (700, 1000)],
)  # fmt: skip
def test_widths(interval, width):
    assert width_of(np.full(16, interval))[:2] == (width, True)


@settings(max_examples=200)
@given(
    jitter=st.lists(st.integers(-100_000, 100_000), min_size=18, max_size=18),
    lost=st.sets(st.integers(1, 16), max_size=6),
)
def test_jitter_and_missing_samples_do_not_change_the_width(jitter, lost):
    times = [T0 + k * MS + jitter[k] for k in range(18) if k not in lost]
    assert width_of(np.diff(np.array(times))).ns == MS


@settings(max_examples=300)
@given(st.lists(st.one_of(st.integers(1, 10**4), st.integers(1, 10**12)), min_size=1, max_size=24))
def test_any_intervals_have_a_width(intervals):
    """Whatever a clock does, there is a width, and the first sample is less than a width early or late."""
    width = width_of(np.array(intervals))
    assert width.ns >= 1000 and abs(width.late_ns) < width.ns
