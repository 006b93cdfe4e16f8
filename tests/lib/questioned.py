"""The queries that every engine runs on the results of fleettables.py, compared with fleet_oracle.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fleetlib import DATES, detected, filled, shipped
from fleettables import DAY, START
from places import ROOT

from mburst.fleet.asking import AskedDays, opened
from mburst.fleet.inventory import HostOf
from mburst.fleet.target import open_target
from mburst.sql import questions

SPANS = [(START, START + DAY), (START - DAY, START + DAY), (START + DAY, START + 2 * DAY)]
NOON = START + DAY // 2
HOSTS: list[dict[str, str | int | None]] = [
    {"rack": rack, "host": host, "service": service, "address": address, "added_ns": added_ns, "removed_ns": removed_ns}
    for rack, host, service, address, added_ns, removed_ns in [
        ("r1", "h0", "cache", "10.0.0.1", None, None),
        ("r1", "h1", "cache", None, None, NOON),
        ("r1", "later", "web", "10.0.0.3", START + DAY, None),
        ("r /2", "h2", "web", "10.0.0.4", NOON, START + DAY),
        ("r /2", "gone", "", "10.0.0.3", None, START + 1),
        ("r9", "moved", "web", None, START - DAY, START),
        ("r1", "h2", "db", "10.0.0.4", None, START - 1),
    ]
]


def same(found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> None:
    """Compares answers: floating-point numbers may differ by rounding; everything else is equal."""
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for value, expected in zip(row, other, strict=True):
            is_real = isinstance(expected, float) and isinstance(value, float)
            assert value == (pytest.approx(expected, rel=1e-9, abs=1e-9) if is_real else expected), (row, other)


def documented(engine: str = "") -> list[str]:
    """Returns the statements that docs/fleet.md has for all engines, or for the one of its list that begins with
    ENGINE."""
    page = (ROOT / "docs" / "fleet.md").read_text("utf-8").partition("### Other engines\n")[2].partition("\n### ")[0]
    part = page.partition(f"- **{engine}**")[2].partition("\n- ")[0] if engine else page.partition("\n- **")[0]
    texts = re.findall(r"^ *```sql\n(.*?)```$", part, re.DOTALL | re.MULTILINE)
    without_comments = re.sub(r"--.*", "", "".join(texts))
    return [statement.strip() for statement in without_comments.split(";") if statement.strip()]


def real_results(folder: Path) -> Path:
    """Returns the results of detection in a small fleet without switch ports."""
    results = folder / "results"
    assert not detected(shipped(filled(folder / "store"), folder / "target"), results).incomplete
    return results


def answers_of_fleet_ask(results: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Returns answers by query, for the day and the inventory of docs/fleet.md."""
    inventory = [HostOf("r1", "a", "cache", "10.0.0.1")]
    with opened(open_target(results), AskedDays.until_day(DATES[0], 1), inventory) as found:
        return {name: found.con.execute(questions.text(name)).fetchall() for name in questions.names()}
