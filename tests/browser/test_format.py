"""The browser writes numbers in pages as Python does."""

from __future__ import annotations

import pytest

from mburst.units import format_bytes, format_duration, format_number, format_share

# Near each power of ten: numbers that round up to it, and numbers that do not.
SIZES = [near * 10**power for power in range(15) for near in (1, 1.234, 2.5, 9.9851, 9.994, 9.996)]
SMALL = [near * 10**-power for power in range(1, 12) for near in (1, 1.234, 9.996)]
PERIODS = [near * unit * 10**9 for unit in (60, 3600, 86_400) for near in (0.999, 0.9996, 1, 1.5, 999.6)]


@pytest.mark.parametrize(
    ("name", "written", "values"),
    [
        ("threeDigits", format_number, [*SIZES, *SMALL, 0]),
        ("duration", format_duration, [*SIZES, *PERIODS, 0]),
        ("bytes", format_bytes, [*SIZES, 0]),
        ("share", format_share, [*SIZES[:30], *SMALL, 0]),
    ],
)
def test_numbers_are_written_as_by_python(page_with, name, written, values):
    shown = page_with("common/format.js").evaluate(f"values => values.map({name})", values)
    different = [
        (value, one, written(value)) for value, one in zip(values, shown, strict=True) if one != written(value)
    ]
    assert different == []
