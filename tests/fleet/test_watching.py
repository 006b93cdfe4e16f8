"""Progress comes from the records that tasks leave: each is reported once, and none of an older plan."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fleetlib import DATES, filled, shipped
from waiting import wait_for

from mburst.analysis.bursts.find import BurstDefinition
from mburst.fleet import watching
from mburst.fleet.planning import plan
from mburst.fleet.results import open_results
from mburst.fleet.target import FleetTarget, open_target
from mburst.fleet.task import PartitionOutcome, carry_out


def places(folder: Path) -> tuple[FleetTarget, FleetTarget]:
    """Returns the target with shipped files, and new results."""
    target, results = shipped(filled(folder / "store"), folder / "target"), folder / "results"
    open_results(open_target(results), BurstDefinition())
    return open_target(target), open_target(results)


def test_each_partition_is_reported_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_S", 0.05)
    target, results = places(tmp_path)
    plans = list(plan(target, results, DATES[0], BurstDefinition(), split="host"))
    assert len(plans) == 4
    heard: list[PartitionOutcome] = []
    first, *others = [one.name.plan_key for one in plans]
    results.replace(first, plans[0].to_json())
    carry_out(target.name, results.name, first)
    for one in plans[1:]:
        results.replace(one.name.plan_key, one.to_json())
    with watching.watched(results.name, [first, *others], heard.append) as seen:
        wait_for(lambda: len(heard) == 1, "what is done")
        for count, key in enumerate(others[:2], 2):
            outcome = carry_out(target.name, results.name, key)
            wait_for(lambda count=count: len(heard) == count, "the next")  # type: ignore[misc]
            assert heard[-1]._replace(seconds=outcome.seconds, cpu_s=outcome.cpu_s) == outcome
        assert seen == {outcome.name for outcome in heard} == {one.name for one in plans[:3]}
    carry_out(target.name, results.name, others[2])
    assert len(heard) == 3 and not any(thread.name == "mburst-progress" for thread in threading.enumerate())


def test_the_record_of_an_older_plan_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_S", 0.05)
    target, results = places(tmp_path)
    [whole, *_] = plan(target, results, DATES[0], BurstDefinition(), split="rack")
    results.replace(whole.name.plan_key, whole.to_json())
    carry_out(target.name, results.name, whole.name.plan_key)
    results.replace(whole.name.plan_key, replace(whole, version="0.0.0").to_json())
    heard: list[PartitionOutcome] = []
    with watching.watched(results.name, [whole.name.plan_key], heard.append):
        threading.Event().wait(0.5)
    assert heard == []
