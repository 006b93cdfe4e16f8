"""What every engine is asked of the results of fleettables.py, and when its answer is that of fleet_oracle.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fleettables import DAY, START

SPANS = [(START, START + DAY), (START - DAY, START + DAY), (START + DAY, START + 2 * DAY)]
HOSTS: list[dict[str, str | None]] = [
    {"rack": "r1", "host": "h0", "service": "cache", "address": "10.0.0.1"},
    {"rack": "r1", "host": "h1", "service": "cache", "address": None},
    {"rack": "r /2", "host": "gone", "service": "", "address": "10.0.0.3"},
]


def same(found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> None:
    """Numbers that are no whole ones may differ by rounding; all else is equal."""
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        for value, expected in zip(row, other, strict=True):
            is_real = isinstance(expected, float) and isinstance(value, float)
            assert value == (pytest.approx(expected, rel=1e-9, abs=1e-9) if is_real else expected), (row, other)
