"""Plans, records and the definition of results are read as they were written; changed ones are reported as damaged, and
never raise another error."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.analysis.bursts.find import BurstDefinition
from mburst.errors import MburstError
from mburst.fleet.plan import PartitionPlan, read_plan
from mburst.fleet.receipts import ShippedFile
from mburst.fleet.results import MARKER, PartitionName, PartitionRecord, definition_of, open_results
from mburst.fleet.target import open_target
from mburst.typed import is_typed

NAME = PartitionName("2026-11-20", "r1", None)
FILE = ShippedFile("bins", "k", 1, "00", 1, -(2**63), 2**63 - 1)
PLAN = PartitionPlan(
    NAME, BurstDefinition(bin_ns=1000, release=0.25), 0, 1, (FILE,), (FILE, FILE), {"a": None, "b": 5}, ("m",), ("c",),
    with_verdicts=True, evidence=(FILE,),
)  # fmt: skip
RECORD = PartitionRecord(
    *NAME, "d", "1", True, {"a": None, "b": 5}, ["m"], 1, 2, {"bursts": 3}, {"bursts": "00"}, 0.5, ["w"], 1, 0
)  # fmt: skip
NESTED = 100_000 * "[" + 100_000 * "]"

values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=5)
odd = st.recursive(
    values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def places(facts: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Returns the path of each value in a JSON document, except the document itself."""
    inner = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


def changed(data: st.DataObject, content: bytes) -> bytes:
    """Returns CONTENT with one value replaced or removed."""
    facts = json.loads(content)
    *above, key = data.draw(st.sampled_from([*places(facts)]))
    inside = facts
    for step in above:
        inside = inside[step]
    if data.draw(st.booleans()):
        inside[key] = data.draw(odd)
    else:
        del inside[key]
    return json.dumps(facts).encode()


def test_records_are_read_as_they_were_written() -> None:
    plan, record = copy.deepcopy(PLAN), RECORD
    assert PartitionPlan.from_json(plan.to_json()) == plan
    assert PartitionRecord.from_json("", record.to_json()) == record


@settings(max_examples=60)
@given(st.data())
def test_a_changed_one_is_damaged_or_has_the_types_of_its_fields(data: st.DataObject) -> None:
    try:
        plan = PartitionPlan.from_json(changed(data, PLAN.to_json()))
        assert is_typed(plan) and plan.digest(plan.collectors) and isinstance(plan.size, int)
    except ValueError:
        pass
    try:
        record = PartitionRecord.from_json("place", changed(data, RECORD.to_json()))
        assert is_typed(record) and record.lacks_tables in (True, False) and record.name.record_key
    except MburstError as error:
        assert str(error) == "place: damaged: not the record of a partition"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("switch_ports", "x"), ("switch_ports", True), ("rows", []), ("rows", {"bursts": "3"}), ("sha256", None),
        ("behind", {"a": 0.5}), ("missing", "m"), ("missing", [1]), ("cpu_s", float("nan")), ("cpu_s", 10**400),
        ("files", 2**64), ("host", 1), ("unsettled", 1), ("more", 1), ("format", 9),
    ],
)  # fmt: skip
def test_a_record_has_the_types_of_its_fields(field: str, value: object) -> None:
    facts = {**json.loads(RECORD.to_json()), field: value}
    with pytest.raises(MburstError, match="place: damaged"):
        PartitionRecord.from_json("place", json.dumps(facts).encode())


@pytest.mark.parametrize("content", ["", "1", "[]", '"x"', "null", "{}", NESTED, '{"format": 1, "definition": 3}'])
def test_other_json_is_not_accepted(tmp_path: Path, content: str) -> None:
    results = open_target(tmp_path / "results")
    open_results(results, BurstDefinition())
    results.replace("plan", content.encode())
    results.replace(MARKER, content.encode())
    with pytest.raises(MburstError, match="plan: damaged: not the plan of a partition"):
        read_plan(results, "plan")
    with pytest.raises(MburstError, match="place: damaged"):
        PartitionRecord.from_json("place", content.encode())
    with pytest.raises(MburstError, match="damaged, or of a newer mburst"):
        definition_of(results)


@pytest.mark.parametrize(
    "definition",
    [{"bin_ns": "1us"}, {"bin_ns": 1.5}, {"bin_ns": -1}, {"threshold": "1"}, {"threshold": 1e400}, {"x": 1}],
)
def test_results_need_a_valid_definition_of_bursts(tmp_path: Path, definition: dict[str, Any]) -> None:
    results = open_target(tmp_path / "results")
    results.replace(MARKER, json.dumps({"format": 1, "definition": definition}).encode())
    with pytest.raises(MburstError, match="damaged, or of a newer mburst"):
        definition_of(results)
