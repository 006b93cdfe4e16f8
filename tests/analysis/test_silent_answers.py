"""Answers that would be wrong in silence: late probes that nothing recorded, answered or contradicts, and senders and
ports that only accompany those that cause the lateness."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import latency_store
import numpy as np
import pytest
from latency_cases import MS, Case, S, Setting, build, fluid, held, moments, scene_of, send
from latency_store import LANE, ORIGIN, add_case, store_case

from mburst.analysis.answers.chosen import usual_speeds
from mburst.analysis.answers.investigate import InvestigationResult, investigate
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.evidence.unrecorded import against_gaps
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.read import Question
from mburst.analysis.cause.scene import Scene
from mburst.analysis.cause.tail import Probes
from mburst.analysis.cause.verdict import Verdict, decide
from mburst.dashboards.investigation.summary import summary
from mburst.dashboards.investigation.words import senders_section
from mburst.sql import StoreFolder

BASE = Setting(seconds=12)
DRAIN = BASE.drain_ns * BASE.link_bps / 8e9


def verdict_of(scene: Scene) -> Verdict:
    return decide(gather(scene, np.random.default_rng(1)))


def answer_of(store: StoreFolder) -> InvestigationResult:
    with store.connect() as con:
        return investigate(con, Question(BurstDefinition()))


def incast_at(starts: np.ndarray, drains: np.ndarray | float, setting: Setting = BASE) -> Case:
    """Returns an incast at these times, with queues of these times to drain."""
    rng = np.random.default_rng(3)
    amounts = np.broadcast_to(drains, len(starts)) * setting.link_bps / 8e9
    model = fluid(rng, setting, starts, amounts, setting.overload)
    return Case("", scene_of(model, send(rng, setting, model, {}), setting), "", 3, setting)


def test_late_probes_outside_of_the_recording_are_no_absence_of_a_tail(tmp_path: Path) -> None:
    """The recorder ended before the bursts came."""
    case = incast_at(np.arange(6.2, 11.8, 0.25) * S, BASE.drain_ns)
    answer = answer_of(store_case(tmp_path / "store", case, end_ns=ORIGIN + 6 * 10**9))
    assert answer.cause == "undetermined"
    assert "probes that were sent outside of the recordings in use were late" in summary(answer)


def test_prompt_probes_outside_of_the_recording_change_nothing(tmp_path: Path) -> None:
    case = build("harmless", 0, BASE)
    answer = answer_of(store_case(tmp_path / "store", case, end_ns=ORIGIN + 6 * 10**9))
    assert answer.cause == "none"


def test_a_cause_gives_way_if_most_late_probes_were_not_recorded(tmp_path: Path) -> None:
    """A few bursts in the recorded time, and many more after it."""
    starts = np.concatenate((np.arange(0.5, 6, 0.8), np.arange(6.2, 11.8, 0.1))) * S
    case = incast_at(starts, BASE.drain_ns)
    whole = answer_of(store_case(tmp_path / "whole", case))
    part = answer_of(store_case(tmp_path / "part", case, end_ns=ORIGIN + 6 * 10**9))
    assert (whole.cause, part.cause) == ("bursts", "undetermined")
    assert "outside of the recordings in use were late, but" in summary(part)


@pytest.mark.parametrize(("stalls", "cause"), [(1, "bursts"), (5, "undetermined")])
def test_one_event_outside_of_the_recording_changes_no_cause(stalls: int, cause: str) -> None:
    scene = incast_at(np.arange(0.3, 11.8, 0.25) * S, BASE.drain_ns).scene
    begin = (0.5 + np.arange(stalls) * 2) * S
    stalled = {"forward": (begin, np.full(stalls, 6000 * MS / stalls))}
    outside = send(np.random.default_rng(6), BASE, None, stalled)
    assert verdict_of(scene).cause == "bursts"
    assert verdict_of(replace(scene, unrecorded=outside)).cause == cause


@pytest.mark.parametrize(("outages", "causes"), [(2, ("none", "bursts")), (5, ("undetermined", "undetermined"))])
def test_probes_that_were_lost_outside_of_the_recording_are_late_or_more(outages: int, causes: tuple[str, str]) -> None:
    """Several outages, in which the recorder stopped, too; one or two are anecdotes."""
    begin = (0.5 + np.arange(outages) * 2) * S
    outside = send(np.random.default_rng(6), BASE, None, {})
    lost = held(outside.tx - BASE.skew_ns, begin, np.full(outages, 6000 * MS / outages)) > 0
    scenes = build("harmless", 0, BASE).scene, incast_at(np.arange(0.3, 11.8, 0.25) * S, BASE.drain_ns).scene
    for scene, cause in zip(scenes, causes, strict=True):
        verdict = verdict_of(replace(scene, unrecorded=without(outside, lost)))
        assert verdict.cause == cause
        assert cause != "undetermined" or "outside of the recordings in use were late or lost" in verdict.reasons[0]


def test_losses_everywhere_change_no_cause() -> None:
    scene = incast_at(np.arange(0.3, 11.8, 0.25) * S, BASE.drain_ns).scene
    rng, outside = np.random.default_rng(7), send(np.random.default_rng(6), BASE, None, {})
    inside, beyond = (without(of, rng.random(len(of)) < 0.02) for of in (scene.probes, outside))
    assert verdict_of(replace(scene, probes=inside, unrecorded=beyond)).cause == "bursts"


def test_probes_that_nobody_answers_any_more_are_no_losses_outside() -> None:
    scene = build("harmless", 0, BASE).scene
    later = send(np.random.default_rng(6), BASE, None, {})
    later = replace(later, tx=later.tx + 20 * S)
    assert verdict_of(replace(scene, unrecorded=without(later, later.tx > 0))).cause == "none"


def test_probes_from_before_anybody_answers_are_no_losses() -> None:
    scene = build("harmless", 0, BASE).scene
    early = scene.probes.tx < 0.5 * S
    assert verdict_of(replace(scene, probes=without(scene.probes, early))).cause == "none"


def test_the_speed_with_most_time_is_used_and_time_counts_once() -> None:
    lane = {"host": "h", "interface": "eth0", "direction": "in"}
    spans = [(10**10, 0, 8), (10**9, 10, 15), (10**9, 10, 15)]
    found = usual_speeds([{**lane, "link_bps": speed, "first_ns": a, "end_ns": b} for speed, a, b in spans])
    assert found == {("h", "eth0", "in"): 10**10}


def test_late_probes_at_another_speed_of_the_link_need_another_time_not_another_recording(tmp_path: Path) -> None:
    fast = build("harmless", 0, replace(BASE, seconds=20, link_bps=10e9))
    store = store_case(tmp_path / "store", fast)
    add_case(store, build("incast", 0, BASE), lane={**LANE, "recording_id": "later"}, origin=ORIGIN + 21 * 10**9)
    answer = answer_of(store)
    assert answer.cause == "undetermined"
    assert "Needed: an investigation of the time of the recordings that are left out" in summary(answer)


def test_many_recordings_that_are_left_out_take_no_memory_for_each_probe() -> None:
    setting = replace(BASE, seconds=100, rate=1000)
    stalls = {"forward": (np.arange(0.35, 100, 1.0) * S, np.full(100, 100.0 * MS))}
    outside = send(np.random.default_rng(6), setting, None, stalls)
    scene = replace(build("harmless", 0, BASE).scene, unrecorded=outside)
    evidence = gather(scene, np.random.default_rng(1))
    for begin, is_left_out in ((0.3 * S, True), (0.6 * S, False)):
        spans = [(begin + k * S / 10, begin + k * S / 10 + S / 5) for k in range(0, 1000, 10)] * 10  # ten times each
        tracemalloc.start()
        against_gaps(evidence, replace(scene, left_out=spans))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert evidence.unrecorded is not None and evidence.unrecorded.left_out is is_left_out and peak < 50e6


def without(probes: Probes, lost: np.ndarray) -> Probes:
    stamps = ("remote_rx", "remote_tx", "rx", "app_recv", "rtt")
    return replace(probes, lost=lost, **{name: np.where(lost, np.nan, getattr(probes, name)) for name in stamps})


def test_probes_that_were_given_up_are_no_absence_of_a_tail() -> None:
    """A host stalls, and the prober waits for less than that."""
    scene = build("harmless", 0, BASE).scene
    stalls = moments(np.random.default_rng(4), BASE, 400 * MS)
    lost = held(scene.probes.tx, stalls, np.full(len(stalls), 20 * MS)) > 0
    verdict = verdict_of(replace(scene, probes=without(scene.probes, lost)))
    assert verdict.cause == "undetermined" and f"{lost.sum()} probes were lost" in verdict.reasons[0]
    few = np.arange(len(lost)) % 110 == 0
    assert verdict_of(replace(scene, probes=without(scene.probes, few))).cause == "none"


@pytest.mark.parametrize("phase", [1, 3])
def test_a_clock_that_wanders_is_no_delay_in_the_network(phase: float) -> None:
    """One way, a clock that moves by 2 ms to and fro within 14 s looks like delays that last for seconds."""
    scene = build("harmless", 0, replace(BASE, stamps="one-way", drift=0.0)).scene
    ahead = 2 * MS * np.sin(2 * np.pi * scene.probes.tx / (14 * S) + phase)
    verdict = verdict_of(replace(scene, probes=replace(scene.probes, tx=scene.probes.tx + ahead)))
    assert verdict.cause == "undetermined" and "cannot be placed" in verdict.reasons[0]
    assert "may be the clocks" in verdict.missing[0]


@pytest.mark.parametrize(
    ("rate", "seconds", "apart_s", "stall_ms"), [(1.0, 600, 0.4, 25), (2.0, 300, 0.4, 25), (100.0, 240, 16, 3000)]
)
def test_stalls_are_no_clock_however_few_probes_there_are_and_however_long_they_last(
    rate: float, seconds: float, apart_s: float, stall_ms: float
) -> None:
    setting = replace(BASE, stamps="one-way", drift=0.0, rate=rate, seconds=seconds)
    rng, scene = np.random.default_rng(9), build("harmless", 0, setting).scene
    stalls = moments(rng, setting, apart_s * S)
    probes = send(rng, setting, None, {"forward": (stalls, stall_ms * MS * rng.uniform(0.6, 1.4, len(stalls)))})
    assert verdict_of(replace(scene, probes=probes)).cause == "elsewhere"


@pytest.mark.parametrize("rate", [2.0, 10.0, 100.0])
@pytest.mark.parametrize(("ahead_ms", "period_s"), [(0.1, 30), (1, 300), (0.3, 60)])  # PTP, NTP
def test_clocks_that_are_slewed_hide_no_queue(rate: float, ahead_ms: float, period_s: float) -> None:
    setting = replace(BASE, stamps="one-way", drift=0.0, rate=rate, seconds=min(1200 / rate, 300), drain_ns=25 * MS)
    scene = build("incast", 0, setting).scene
    ahead = ahead_ms * MS * np.sin(2 * np.pi * scene.probes.tx / (period_s * S))
    assert verdict_of(replace(scene, probes=replace(scene.probes, tx=scene.probes.tx + ahead))).cause == "bursts"


def test_a_median_that_is_itself_a_wait_is_no_absence_of_a_tail() -> None:
    rng, scene = np.random.default_rng(5), build("harmless", 0, BASE).scene
    begin = np.arange(0, BASE.seconds * S, 10 * MS)
    probes = send(rng, BASE, None, {"forward": (begin, np.full(len(begin), 9 * MS))})
    verdict = verdict_of(replace(scene, probes=probes))
    assert verdict.cause == "undetermined" and verdict.reasons[0].startswith("most probes are slow")


def test_too_few_probes_need_more_than_there_are() -> None:
    probes = build("harmless", 0, BASE).scene.probes
    late = probes.app_recv + np.where(np.arange(len(probes)) % 200 == 7, 5 * MS, 0)
    some = np.arange(len(probes)) < 1000
    scene = replace(build("harmless", 0, BASE).scene, probes=replace(probes, app_recv=late).select(some))
    verdict = verdict_of(scene)
    assert "too few" in verdict.reasons[0] and "at least 2,000" in verdict.missing[0]


def test_the_senders_that_cause_the_lateness_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most bytes of bursts are of short bursts, which delay nobody."""
    long, short = np.arange(0.3, 11.8, 0.5) * S, np.arange(0.05, 11.8, 0.02) * S
    short = short[np.abs(short - long[np.abs(short[:, None] - long).argmin(axis=1)]) > 0.03 * S]
    order = np.argsort(np.concatenate((long, short)))
    starts = np.concatenate((long, short))[order]
    drains = np.concatenate((np.full(len(long), 8 * MS), np.full(len(short), 0.8 * MS)))[order]
    case = incast_at(starts, drains)
    written = latency_store.burst_sources

    def named(case: Case, *rest: object) -> list[dict[str, object]]:
        rows = written(case, *rest)  # type: ignore[arg-type]
        near = np.array([int(str(row["ts_ns"])) - ORIGIN for row in rows])
        of_long = np.abs(near[:, None] - long - 5 * MS).min(axis=1) < 12 * MS
        return [
            {**row, "source": str(row["source"]).replace("10.0.0.", "10.0.9.") if is_long else row["source"]}
            for row, is_long in zip(rows, of_long, strict=True)
        ]

    monkeypatch.setattr(latency_store, "burst_sources", named)
    answer = answer_of(store_case(tmp_path / "store", case))
    harmful, harmless = answer.groups
    assert answer.cause == "bursts" and harmful.share_of_bytes < harmless.share_of_bytes
    assert harmful.share_of_lateness == pytest.approx(1, abs=0.02)
    assert "They come from 10.0.9." in summary(answer)
    table = senders_section(answer)
    assert [row[table.head.index("of the lateness")] for row in table.rows] == ["100 %", "0 %"]


def test_senders_of_a_part_of_the_lateness_are_not_named_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The senders get other addresses after seven of twelve seconds."""
    case, written = incast_at(np.arange(0.3, 11.8, 0.25) * S, BASE.drain_ns), latency_store.burst_sources

    def renamed(case: Case, *rest: object) -> list[dict[str, object]]:
        return [
            {**row, "source": str(row["source"]).replace("10.0.0.", "10.0.9.")}
            if int(str(row["ts_ns"])) > ORIGIN + 7 * 10**9
            else row
            for row in written(case, *rest)  # type: ignore[arg-type]
        ]

    monkeypatch.setattr(latency_store, "burst_sources", renamed)
    text = summary(answer_of(store_case(tmp_path / "store", case)))
    assert "Of the lateness in them, 5" in text and "the rest is in other bursts" in text


def test_recordings_of_a_link_that_changed_its_speed_are_not_mixed(tmp_path: Path) -> None:
    """The first seconds are of a link of 10 Gb/s; then it has 1 Gb/s, and bursts fill it."""
    fast = build("harmless", 0, replace(BASE, seconds=4, link_bps=10e9))
    slow = build("incast", 0, BASE)
    store = store_case(tmp_path / "store", fast)
    add_case(store, slow, lane={**LANE, "recording_id": "later"}, origin=ORIGIN + 5 * 10**9)
    answer = answer_of(store)
    assert answer.cause == "bursts" and [port.link_bps for port in answer.ports] == [1e9]
    assert any("recording r is of a link of 10 Gb/s, and others of 1 Gb/s; it is left out" in n for n in answer.notes)
