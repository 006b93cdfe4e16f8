"""Which of two recorded ports of a path is named, if both are full in the same bursts (latency_ports.py)."""

from __future__ import annotations

from dataclasses import replace

import latency_ports as ports
import numpy as np
import pytest
from latency_attacks import windows_of
from latency_cases import MS, Setting
from latency_ports import SENDER, TARGET

from mburst.analysis.answers.investigate import Finding, InvestigationResult, gathered
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.scene import Scene
from mburst.analysis.cause.verdict import decide
from mburst.dashboards.investigation.summary import summary

BASE = Setting(seconds=12)


def named(scene: Scene) -> set[int]:
    """Returns the ports that the verdict names, by their numbers."""
    verdict = decide(gather(scene, np.random.default_rng(1)))
    assert verdict.cause == "bursts", verdict
    names = {port.name for port in verdict.ports}
    return {number for number, crossing in enumerate(scene.crossings) if crossing.port.name in names}


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
    scene, evidence = gathered(case.scene, [1])
    assert [crossing.port.host for crossing in scene.crossings] == ["h"] and decide(evidence).cause == cause
    truth = case.waited[TARGET] / (sum(case.waited) + case.stalled)
    assert evidence.shares["bursts"].value == pytest.approx(truth, abs=0.02)


def test_a_wait_before_the_stamp_of_its_host_is_in_that_host() -> None:
    assert named(ports.built("relayed", 1, BASE, inside=False).scene) == {SENDER}


def test_windows_of_the_switch_show_which_of_two_ports_queued() -> None:
    setting = replace(BASE, skew_ns=0.0, stamps="rtt")
    case = ports.built("relayed", 1, setting, inside=True)
    long, none = (windows_of(model, setting, 10 * MS) for model in case.models)
    assert named(replace(case.scene, queues=[long, None])) == {SENDER}
    assert named(replace(case.scene, queues=[None, none])) == {SENDER}


def test_a_pair_of_ports_is_stated_with_what_would_separate_them() -> None:
    scene = ports.built("relayed", 1, BASE, inside=True).scene
    evidence = gather(scene, np.random.default_rng(1))
    text = summary(InvestigationResult(0, (0, 1), [], [Finding(scene, evidence, decide(evidence))], []))
    assert "Bursts out of p (eth0, 1 Gb/s) or into h (eth0, 1 Gb/s) cause the latency tail" in text
    assert "while one of these links was full" in text and "queue windows of both would show" in text
