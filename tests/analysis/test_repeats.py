"""Probes that TCP repeats after a timeout, and those that wait behind them, against stalls and drops elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import latency_variants as variants
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import Case, Setting, build, measured
from latency_store import store_case

from mburst.analysis.answers.investigate import investigate
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.evidence.repeats import Repeats, ended_by, find, first_of_each, near_timeout, seen_again
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.port import port_from_bins
from mburst.analysis.cause.read import Question
from mburst.analysis.cause.tail import DEFAULT, Probes, find_tail, latency
from mburst.analysis.cause.verdict import decide
from mburst.dashboards.investigation.facts import facts

MS = 1e6


def exchanges(tx: np.ndarray, delay: np.ndarray, protocol: str = "tcp") -> Probes:
    none = np.full(len(tx), np.nan)
    lost = np.zeros(len(tx), dtype=bool)
    return measured(Probes("p", "h", protocol, none, tx, none, none, tx + delay, none, none, lost))


def planted(seed: int, timeout: float, every: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probes of one connection each ms, some of which are dropped when the port is full. Returns send times, delays,
    whether the port was full, and the probe behind which each waits."""
    rng = np.random.default_rng(seed)
    tx = np.arange(0.0, 8000.0) * MS
    full = (tx % every) < 20 * MS
    delay, behind = rng.uniform(0.05, 0.1, len(tx)) * MS, np.full(len(tx), -1)
    for start in np.arange(0, 8000 * MS, every):
        first = int((start + rng.uniform(1, 18) * MS) / MS)
        end = tx[first] + timeout
        held = np.flatnonzero((tx > tx[first]) & (tx + 2 * MS < end))
        delay[first], delay[held] = end - tx[first], end - tx[held] + rng.uniform(0, 0.05) * MS
        behind[held] = first
    return tx, delay, full, behind


def found_in(probes: Probes, full: np.ndarray) -> Repeats:
    delays = latency(probes)
    return find(probes, delays, find_tail(probes, delays, DEFAULT, full), full)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([201.0, 209.0, 230.0, 605.0, 1010.0]))
def test_repeated_probes_and_those_behind_them_are_found(seed: int, timeout: float) -> None:
    tx, delay, full, behind = planted(seed, timeout * MS, 3000 * MS)
    found = found_in(exchanges(tx, delay), full)
    assert np.flatnonzero(found.dropped).tolist() == np.unique(behind[behind >= 0]).tolist()
    assert found.behind.tolist() == behind.tolist()


@pytest.mark.parametrize("change", ["udp", "no timeout", "any time"])
def test_probes_that_are_late_for_another_reason_are_not_found(change: str) -> None:
    tx, delay, full, _ = planted(1, (120 if change == "no timeout" else 205) * MS, 2000 * MS)
    if change == "any time":  # as often outside the bursts as in them
        full = np.random.default_rng(1).random(len(tx)) < 0.5
    found = found_in(exchanges(tx, delay, "udp" if change == "udp" else "tcp"), full)
    assert not found.either.any()


@given(st.floats(1e6, 5e9))
def test_timeouts_double(excess: float) -> None:
    sums = [least * (2**times - 1) for least in (0.2e9, 1e9) for times in (1, 2, 3, 4)]
    assert near_timeout(np.array([excess]))[0] == any(0.95 * wait <= excess <= 1.25 * wait for wait in sums)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=12), st.integers(0, 3))
def test_the_first_of_what_ends_together(spans: list[tuple[int, int]], lateness: int) -> None:
    begin, length = (np.array(side, dtype=float) for side in zip(*spans, strict=True))
    end = begin + length
    first = first_of_each(np.arange(len(begin)), begin, end, float(lateness))
    ends = np.sort(end)
    assert len(first) == 1 + int((np.diff(ends) > lateness).sum())
    late = np.arange(len(begin))
    for one, of in zip(late, ended_by(late, first, begin, end, float(lateness)), strict=True):
        if of >= 0:
            assert begin[of] < begin[one] and abs(end[of] - end[one]) <= lateness


def test_repeated_segments_at_the_port_support_or_contradict_repeats() -> None:
    port = port_from_bins(("h", "e", "in"), 1e9, 100_000, [(np.zeros(1), np.ones(1, dtype=np.int64))], [(0.0, 8e9)])
    rng = np.random.default_rng(1)
    ends = np.sort(rng.uniform(0.2e9, 7.8e9, 16))
    assert seen_again(port, ends, rng) is None and seen_again(replace(port, repeated=np.zeros(0)), ends, rng) is None
    there = seen_again(replace(port, repeated=np.floor(ends / 1e5) - 2), ends, rng)
    away = seen_again(replace(port, repeated=np.floor(ends / 1e5) - 900), ends, rng)
    assert there is not None and there.share.value == 1 and there.p_value < 0.01
    assert away is not None and away.share.high < 0.5


def test_stored_retransmits_and_marks_are_evidence(tmp_path: Path) -> None:
    """From the columns of the stored bins to the answer: segments that were seen again when repeated probes ended, and
    packets that a queue marked in the stretches that delayed probes."""
    case = build("repeated", 3, Setting(seconds=12))
    evidence = gather(case.scene, np.random.default_rng(1))
    behind = np.unique(evidence.repeats.behind[evidence.repeats.held])
    port, probes = case.scene.crossings[0].port, case.scene.probes
    ended = np.floor((probes.tx + evidence.delays.total)[behind] / port.bin_ns).astype(int) - 1
    full = (port.busy_periods()[0] + 1).astype(int)
    store = store_case(tmp_path / "s", case, columns={"retransmits": ended, "ce_packets": full})
    answer = investigate(store.connect(), Question(BurstDefinition()))
    [read] = answer.ports
    assert read.repeated is not None and np.isin(ended, read.repeated).all()
    assert read.marked is not None and read.marked.tolist() == full.tolist()
    shown = facts(answer)["evidence"]
    assert shown["marked"]["share"]["value"] > 0.9 and shown["marked"]["by_chance"] < 0.5
    of_stretches = np.diff(port.busy_periods(), axis=0).sum() / port.bins  # one bin of each is marked
    assert shown["marked"]["times_as_dense"] == pytest.approx(1 / of_stretches, rel=0.02)
    again = shown["repeated"]["seen_again"]
    assert again["share"]["value"] > 0.9 and again["p_value"] < 0.05


def cause_of(case: Case) -> tuple[str, list[str]]:
    verdict = decide(gather(case.scene, np.random.default_rng(1)))
    return verdict.cause, verdict.reasons


def test_drops_and_repeats_count_for_the_burst_unless_the_port_contradicts() -> None:
    case = build("repeated", 3, Setting(seconds=12))
    evidence = gather(case.scene, np.random.default_rng(1))
    assert decide(evidence).cause == "bursts" and evidence.repeats.dropped.sum() >= 3
    assert evidence.shares["bursts"].value > 0.99 and evidence.episodes < 60
    crossing = case.scene.crossings[0]
    elsewhere = replace(crossing.port, repeated=np.arange(100.0), _busy=[])
    scene = replace(case.scene, crossings=[crossing._replace(port=elsewhere)])
    cause, reasons = cause_of(replace(case, scene=scene))
    assert cause == "undetermined" and "repeated segments" in reasons[-1]


@pytest.mark.parametrize("kind", ["timeout-stall", "timeout-elsewhere", "timeout-inside"])
def test_other_delays_of_a_timeout_are_not_attributed_to_bursts(kind: str) -> None:
    case = variants.NEGATIVE[kind](kind, 3, Setting(seconds=12))
    assert cause_of(case)[0] != "bursts"
