"""Where the share of a cause was spent: the first sentence gives no stage the share of several."""

from __future__ import annotations

import re

import latency_cases as cases
import numpy as np
import pytest
from latency_cases import MS, Case, Setting

from mburst.analysis.answers.investigate import Finding, InvestigationResult
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.verdict import decide
from mburst.dashboards.investigation.phrases import STAGES
from mburst.dashboards.investigation.summary import summary

BASE = Setting(seconds=12)
SHARE = r"([\d.]+) % "


def held_in(parts: dict[str, float], seed: int = 1) -> Case:
    """Returns a case in which probes are held in stages, for so many milliseconds each; bursts pass beside them."""
    rng = np.random.default_rng(seed)
    starts = cases.moments(rng, BASE, BASE.period_ns)
    model = cases.fluid(rng, BASE, starts, np.full(len(starts), 1e5), BASE.overload)
    trouble = {}
    for stage, length in parts.items():
        holds = cases.moments(rng, BASE, 150 * MS)
        trouble[stage] = (holds, np.full(len(holds), length * MS))
    probes = cases.send(rng, BASE, None, trouble)
    return Case("held", cases.scene_of(model, probes, BASE), "", seed, BASE)


def said_of(case: Case) -> tuple[str, InvestigationResult]:
    evidence = gather(case.scene, np.random.default_rng(1))
    answer = InvestigationResult(0, (0, 1), [], [Finding(case.scene, evidence, decide(evidence))], [])
    return summary(answer), answer


@pytest.mark.parametrize(
    ("cause", "group", "stages"),
    [
        ("host", "in the hosts", ("send", "turn", "receive")),
        ("host", "in the hosts", ("send", "turn")),
        ("elsewhere", "in the network", ("forward", "back")),
    ],
)
def test_a_share_of_several_stages_is_split(cause: str, group: str, stages: tuple[str, ...]) -> None:
    text, answer = said_of(held_in(dict.fromkeys(stages, 20.0)))
    evidence = answer.findings[0].evidence
    assert answer.cause == cause
    [listed] = re.findall(rf"excess lies {group} \((.+?)\)(?: while that port had room)?; p99", text)
    for stage in stages:
        [share] = re.findall(SHARE + re.escape(STAGES[stage]), listed)
        assert float(share) / 100 == pytest.approx(evidence.stage_shares[stage], abs=0.005)
    whole = sum(float(share) for share in re.findall(SHARE, listed))
    assert whole / 100 == pytest.approx(evidence.shares[cause].value, abs=0.005)


@pytest.mark.parametrize(("stage", "cause"), [("turn", "host"), ("back", "elsewhere")])
def test_a_share_of_one_stage_names_it_alone(stage: str, cause: str) -> None:
    text, answer = said_of(held_in({stage: 20.0}))
    assert answer.cause == cause and f"excess lies {STAGES[stage]}" in text


@pytest.mark.parametrize("kind", ["incast", "mixed", "relayed"])
def test_the_places_of_an_account_are_all_of_it(kind: str) -> None:
    """Time that the full port explains is in no place of another account, though it was in the same stage."""
    case = cases.build(kind, 0, BASE)
    evidence = gather(case.scene, np.random.default_rng(1))
    assert not evidence.dropped.any()
    for account in ("bursts", "host", "elsewhere"):
        assert sum(evidence.places[account].values()) == pytest.approx(evidence.shares[account].value)
