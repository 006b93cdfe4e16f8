"""Which of two recorded ports of a path is named, if both are full in the same bursts (latency_ports.py)."""

from __future__ import annotations

from dataclasses import replace

import latency_ports as ports
import numpy as np
import pytest
from latency_attacks import windows_of
from latency_cases import MS, S, Setting, build
from latency_ports import SENDER, TARGET

from mburst.analysis.answers.investigate import Finding, InvestigationResult, gathered
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.scene import Scene
from mburst.analysis.cause.signals import Signals
from mburst.analysis.cause.verdict import decide, queueing_ports
from mburst.analysis.whatif.replay import calibrate, usual_changes, what_if
from mburst.dashboards.investigation.phrases import unsure_words
from mburst.dashboards.investigation.summary import summary

BASE = Setting(seconds=12)


def named(scene: Scene) -> set[int]:
    """Returns the ports that the verdict names, by their numbers."""
    verdict = decide(gather(scene, np.random.default_rng(1)))
    assert verdict.cause == "bursts", verdict
    return {number for number, crossing in enumerate(scene.crossings) if crossing.port.name in verdict.ports}


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("relayed", {SENDER, TARGET}),  # what they carried is the same
        ("relayed-loaded", {SENDER, TARGET}),
        ("taking-turns", {SENDER, TARGET}),
        ("incast-of-all", {TARGET}),
        ("relayed-and-incast", {TARGET}),
        ("beside-paced", {TARGET}),
    ],
)
@pytest.mark.parametrize("seed", [1, 3])
def test_the_ports_that_may_have_queued_are_named(kind: str, found: set[int], seed: int) -> None:
    case = ports.built(kind, seed, BASE, inside=True)
    assert named(case.scene) == found and set(case.queues) & found


@pytest.mark.parametrize(("seed", "cause"), [(2, "undetermined"), (5, "bursts")])
def test_a_full_port_that_did_not_queue_explains_no_stall_elsewhere(seed: int, cause: str) -> None:
    case = ports.built("paced-and-stalls", seed, Setting(seconds=48))
    assert decide(gather(case.scene, np.random.default_rng(1))).cause == "bursts"
    notes: list[str] = []
    scene, evidence = gathered(case.scene, [1], notes)
    assert len(notes) == 1 and "p eth0 out was full while probes waited, and is left out: " in notes[0]
    assert [crossing.port.host for crossing in scene.crossings] == ["h"] and decide(evidence).cause == cause
    truth = case.waited[TARGET] / (sum(case.waited) + case.stalled)
    assert evidence.shares["bursts"].value == pytest.approx(truth, abs=0.02)


def test_it_explains_none_either_if_the_stalls_are_most_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(rng: np.random.Generator, setting: Setting) -> ports.TwoPortsTraffic:
        traffic = ports.paced_and_stalls(rng, setting)
        return traffic._replace(stalls=(traffic.stalls[0], 1.5 * traffic.stalls[1]))

    monkeypatch.setitem(ports.KINDS, "paced-and-stalls", longer)
    case = ports.built("paced-and-stalls", 2, Setting(seconds=40), inside=True)
    before, (_, evidence) = gather(case.scene, np.random.default_rng(1)), gathered(case.scene, [1], [])
    truth = case.waited[TARGET] / (sum(case.waited) + case.stalled)
    assert decide(before).cause == decide(evidence).cause == "undetermined"
    assert before.shares["bursts"].value > truth + 0.1
    assert evidence.shares["bursts"].value == pytest.approx(truth, abs=0.03)


def test_a_wait_before_the_stamp_of_its_host_is_in_that_host() -> None:
    assert named(ports.built("relayed", 1, BASE, inside=False).scene) == {SENDER}


def test_windows_of_the_switch_show_which_of_two_ports_queued() -> None:
    setting = replace(BASE, skew_ns=0.0, stamps="rtt")
    case = ports.built("relayed", 1, setting, inside=True)
    long, none = (windows_of(model, setting, 10 * MS) for model in case.models)
    assert named(replace(case.scene, queues=[long, None])) == {SENDER}
    assert named(replace(case.scene, queues=[None, none])) == {SENDER}


def test_one_port_that_either_end_may_cross_is_one_port() -> None:
    scene = build("incast", 1, replace(BASE, stamps="rtt")).scene
    [crossing], [spans] = scene.crossings, scene.bursts
    both = [crossing._replace(end=end, assumed=True) for end in ("dst", "src")]
    notes: list[str] = []
    found, evidence = gathered(
        replace(scene, crossings=both, bursts=[spans, spans], queues=[None, None]), [1, 0], notes
    )
    assert (
        len(found.crossings) == 2
        and not notes
        and [port is crossing.port for port in queueing_ports(evidence)] == [True]
    )


@pytest.mark.parametrize("seed", [2, 5])
def test_windows_that_contradict_the_first_of_two_ports_leave_the_other(seed: int) -> None:
    setting = replace(BASE, skew_ns=0.0)
    case, notes = ports.built("relayed-loaded", seed, setting, inside=True), []
    scene = replace(case.scene, queues=[None, windows_of(case.models[TARGET], setting, 10 * MS)])
    assert gather(scene, np.random.default_rng(seed)).crossing is scene.crossings[TARGET] and case.queues == (SENDER,)
    _, evidence = gathered(scene, [seed, 0], notes)
    verdict = decide(evidence)
    assert verdict.cause == "bursts" and verdict.ports == ("p eth0 out",)
    assert "h eth0 in was full" in notes[0] and "queue was too short" in notes[0]


def test_a_port_with_pause_frames_is_not_left_out() -> None:
    """Pause frames hold packets up without any queue of bursts."""
    scene = ports.built("paced-and-stalls", 5, Setting(seconds=48)).scene
    sender = scene.crossings[SENDER]
    at = np.arange(0.5, 48, 1.0) * S
    one = np.ones(len(at), dtype=np.int64)
    signals = Signals(MS, at, 0.1 * MS * one, 255 * one, one, 0 * one, 0 * one)
    kept = sender._replace(port=replace(sender.port, signals=signals))
    found, _ = gathered(replace(scene, crossings=[kept, scene.crossings[TARGET]]), [1], [])
    assert len(found.crossings) == 2


def test_predictions_for_one_of_two_ports_are_ranges_up_to_what_was_measured() -> None:
    scene = ports.built("relayed", 1, BASE, inside=True).scene
    evidence = gather(scene, np.random.default_rng(1))
    replay = calibrate(scene, evidence)
    assert replay is not None and evidence.crossing is not None
    [other] = {"p eth0 out", "h eth0 in"} - {evidence.crossing.port.name}
    measured = replay.recorded.quantiles_ns[1]
    for outcome in what_if(replay, usual_changes(replay)):
        assert f"the queue may have been at {other}" in outcome.unsure and outcome.p99_range is not None
        assert outcome.p99_range[1] >= measured
        assert f"the queue may have been at {other}" in unsure_words([outcome])[0]
    assert not replay.modelled.unsure
    alone = scene.without_ports([port for port in (c.port for c in scene.crossings) if port.name == other])
    sure = calibrate(alone, gather(alone, np.random.default_rng(1)))
    assert sure is not None and not all(o.unsure for o in what_if(sure, usual_changes(sure)))


def test_a_pair_of_ports_is_stated_with_what_would_separate_them() -> None:
    scene = ports.built("relayed", 1, BASE, inside=True).scene
    evidence = gather(scene, np.random.default_rng(1))
    text = summary(InvestigationResult(0, (0, 1), [], [Finding(scene, evidence, decide(evidence))], []))
    assert "Bursts out of p (eth0, 1 Gb/s) or into h (eth0, 1 Gb/s) cause the latency tail" in text
    assert "while one of these links was full" in text
    assert "The queue was at p eth0 out or at h eth0 in, which were full at the same times: the switch's queue " in text
    assert "queue windows of h eth0 in would show which" in text  # p's queue is in p
