"""Where the time of a probe was spent, and whether there is a tail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import measured
from storelib import rows

from mburst.analysis.cause.tail import (
    MS,
    Probes,
    TailRule,
    clock_offset,
    episodes,
    established,
    find_tail,
    floor,
    latency,
    latency_by,
)
from mburst.analysis.live.store import MEASURES
from mburst.analysis.read.probes import sound
from mburst.sql import in_memory

NONE = np.full(1, np.nan)


def probes(
    n: int, rng: np.random.Generator, offset: np.ndarray | float = 0.0, wait: np.ndarray | float = 0.0
) -> Probes:
    """n exchanges over 20 s with all stamps. The clock of the reflector is ahead by `offset`; `wait` is spent on the
    way out."""
    tx = np.sort(rng.uniform(0, 2e10, n))
    there = tx + 10e3 + rng.exponential(2e3, n) + wait
    away = there + 5e3
    rx = away + 10e3 + rng.exponential(2e3, n)
    none = np.full(n, np.nan)
    return Probes(
        "a", "b", "udp", tx - 1e3, tx, there + offset, away + offset, rx, rx + 4e3, none, np.zeros(n, dtype=bool)
    )


@settings(deadline=None, max_examples=25)
@given(st.floats(-1e12, 1e12), st.floats(-5e-5, 5e-5), st.integers(0, 10**6))
def test_the_offset_of_two_clocks_is_taken_out(offset: float, drift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = probes(4000, np.random.default_rng(seed))
    apart = offset + drift * true.tx
    wait = np.where(rng.random(4000) < 0.1, 20 * MS, 0.0)
    exchange = probes(4000, np.random.default_rng(seed), apart, wait)
    assert (
        np.abs(clock_offset(exchange) - apart).max() < 0.06 * MS
    )  # half of what a crystal drifts in a second, and jitter
    stages = latency(exchange).stages
    assert np.abs(stages["forward"] - (12e3 + wait)).max() < 0.1 * MS
    assert np.nanmax(stages["back"]) < 0.1 * MS


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([-3.6e12, 40 * MS, 1e9]) | st.floats(1 * MS, 8 * MS) | st.floats(-8 * MS, -1 * MS),
    st.floats(1.5e9, 1.85e10),
    st.floats(-5e-5, 5e-5),
    st.integers(0, 10**6),
)
def test_a_clock_that_is_set_meanwhile_spoils_no_delay(step: float, at: float, drift: float, seed: int) -> None:
    """To the probe, but for those that waited for longer than the step and so fit both sides of it."""
    rng = np.random.default_rng(seed)
    true = probes(4000, np.random.default_rng(seed))
    apart = 7e8 + drift * true.tx + np.where(true.tx >= at, step, 0.0)
    wait = np.where(rng.random(4000) < 0.1, 20 * MS, 0.0)
    found = clock_offset(probes(4000, np.random.default_rng(seed), apart, wait))
    near = (np.abs(true.tx - at) < 0.1e9) & (wait >= abs(step) / 2)
    assert np.abs(found - apart)[~near].max() < 0.12 * MS  # of a second in which the drift is not known


def test_a_fast_slew_of_a_clock_is_not_taken_for_a_step() -> None:
    true = probes(4000, np.random.default_rng(5))
    apart = np.clip(0.08 * (true.tx - 8.2e9), 0.0, 60 * MS)  # as chrony does
    found = clock_offset(probes(4000, np.random.default_rng(5), apart))
    inside = (true.tx > 8.2e9) & (true.tx < 8.9e9)
    assert np.abs(found - apart)[inside].max() < 35 * MS and np.abs(found - apart)[true.tx > 1e10].max() < 0.06 * MS


def test_one_way_stamps_alone_show_variations() -> None:
    rng = np.random.default_rng(3)
    wait = np.where(np.arange(4000) % 40 == 0, 7 * MS, 0.0)
    exchange = probes(4000, rng, 3e9 + 2e-5 * np.linspace(0, 2e10, 4000), wait)
    none = np.full(4000, np.nan)
    one_way = Probes("a", "b", "udp", none, exchange.tx, exchange.remote_rx, none, none, none, none, exchange.lost)
    delays = latency(measured(one_way))
    assert delays.measured == "one way"
    assert np.abs(delays.total - wait - 12e3).max() < 0.15 * MS


def test_the_measure_by_which_the_tail_is_tested() -> None:
    exchange = probes(100, np.random.default_rng(1))
    assert latency(measured(exchange)).measured == "application"
    none = np.full(100, np.nan)
    bare = measured(Probes("a", "b", "", none, exchange.tx, none, none, none, none, np.full(100, 5e4), exchange.lost))
    assert latency(bare).measured == "reported round trip"
    assert latency(bare).stages["round_trip"] == pytest.approx(5e4)


STAMPS = ("app_send", "tx", "remote_rx", "remote_tx", "rx", "app_recv", "rtt")


@pytest.mark.costly
@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(*[st.none() | st.integers(1, 10**6) for _ in STAMPS], st.booleans()), min_size=1, max_size=8))
def test_the_measure_and_the_latency_are_those_of_the_store(exchanges):
    given_rows = [
        {
            **{f"{name}_ns": value for name, value in zip(STAMPS, stamps, strict=True)},
            "tx_ns": stamps[1] or 0,
            "seq": i,
            "lost": lost,
        }
        for i, (*stamps, lost) in enumerate(exchanges)
    ]
    with in_memory(1) as con:
        con.register("given_rows", rows("probes", *given_rows))
        assert con.execute("SELECT measure_names()").fetchall() == [(list(MEASURES),)]
        found = con.execute(
            "SELECT measure, latency_ns FROM measured_probes('given_rows', 0, 2000000, "
            "CAST(NULL AS VARCHAR)) ORDER BY seq"
        ).fetchall()
        stamped = ", ".join(f"CAST({sound(f'{name}_ns')} AS DOUBLE)" for name in STAMPS)
        read = con.execute(f"SELECT {stamped} FROM given_rows ORDER BY seq").fetchall()
    columns = dict(zip(STAMPS, np.array(read, dtype=float).T, strict=True))
    ours = measured(Probes("a", "b", "udp", **columns, lost=np.array([row["lost"] for row in given_rows])))
    assert {measure or "" for measure, _ in found} == {ours.measure}
    latencies = np.array([np.nan if took is None else took for _, took in found], dtype=float)
    assert np.array_equal(np.where(ours.lost, np.nan, latency_by(ours)), latencies, equal_nan=True)


def test_a_tail_is_established_ruled_out_or_open() -> None:
    assert established(200, 10_000, (0.99, 0.999)) == 0.99
    assert established(50, 10_000, (0.99, 0.999)) == 0.999
    assert established(11, 10_000, (0.99, 0.999)) is None
    assert established(3, 100, (0.99, 0.999)) is None
    for n, late, present in ((10_000, 11, False), (10_000, 150, True), (200, 0, None), (2000, 0, False)):
        exchange = probes(n, np.random.default_rng(2), wait=np.where(np.arange(n) < late, 9 * MS, 0.0))
        assert find_tail(exchange, latency(exchange), TailRule(), np.zeros(n, dtype=bool)).present is present


def test_lost_probes_count_only_where_the_full_port_lost_them() -> None:
    rng = np.random.default_rng(4)
    exchange = probes(10_000, rng)
    exposed = np.repeat(rng.random(1000) < 0.1, 10)
    anywhere = rng.random(10_000) < 0.02
    exchange.lost[:] = anywhere
    tail = find_tail(exchange, latency(exchange), TailRule(), exposed)
    assert tail.lost == anywhere.sum() and not tail.late_losses.any() and tail.present is False
    outages = np.repeat(rng.random(500) < 0.05, 20)  # clusters of losses at other times, some exposed
    exchange.lost[:] = outages
    tail = find_tail(exchange, latency(exchange), TailRule(), exposed)
    assert (outages & exposed).any() and not tail.late_losses.any() and tail.present is False
    exchange.lost[:] = exposed & (rng.random(10_000) < 0.3)
    tail = find_tail(exchange, latency(exchange), TailRule(), exposed)
    assert tail.present and tail.late_losses.sum() == exchange.lost.sum()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from("LO-"), max_size=40))
def test_episodes_end_with_two_probes_on_time(kinds: list[str]) -> None:
    late = np.array([kind == "L" for kind in kinds], dtype=bool)
    has_latency = np.array([kind != "-" for kind in kinds], dtype=bool)
    expected, number, calm = [], -1, 2
    for kind in kinds:
        if kind == "L":
            number += calm >= 2
            calm = 0
        calm += kind == "O"
        expected.append(number if kind == "L" else -1)
    assert episodes(late, has_latency).tolist() == expected


@pytest.mark.parametrize(
    ("links", "excess"),
    [([], 1e6), ([1e8], 1e6), ([1e9], 1e6), ([25e9], 2e5), ([1e11, 25e9], 2e5), ([1e11], 1e5), ([4e11], 1e5)],
)
def test_the_limit_of_lateness_scales_with_the_slowest_link_unless_given(links: list[float], excess: float) -> None:
    assert TailRule().on(links).excess == pytest.approx(excess, rel=1e-6)
    assert TailRule(excess_ns=3e6).on(links).excess == 3e6
    assert TailRule().on(links).threshold(30e3) == pytest.approx(max(150e3, 30e3 + excess), rel=1e-6)


@pytest.mark.parametrize("drift", [-5e-5, 0.0, 4e-5])
def test_one_way_delays_of_a_few_seconds_are_free_of_drift(drift: float) -> None:
    rng = np.random.default_rng(3)
    tx = np.sort(rng.uniform(0, 6e9, 3000))
    delay = rng.lognormal(9, 0.5, len(tx))
    delay[(tx > 2e9) & (tx < 3e9)] += 5e5  # a second without a quiet moment
    found = floor(tx, delay + 7e8 + drift * tx)
    assert np.abs(found - 7e8 - drift * tx - delay.min()).max() < 2e4
