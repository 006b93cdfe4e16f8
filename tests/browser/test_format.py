"""The browser writes numbers in pages as Python does."""

from __future__ import annotations

import pytest

from mburst.units import format_bytes, format_duration, format_number, format_share

# Near each power of ten: numbers that round up to it, and numbers that do not.
SIZES = [near * 10**power for power in range(15) for near in (1, 1.234, 2.5, 9.9851, 9.994, 9.996)]
SMALL = [near * 10**-power for power in range(1, 12) for near in (1, 1.234, 9.996)]
TIES = [number / 8 for number in range(1, 40_000)]  # exact in binary: 12.25, 112.5, 1000.5
TIES += [(number + 0.5) * 2.0**power for number in range(100, 1000, 7) for power in (-30, -12, -4, 0, 6, 20)]
PERIODS = [near * unit * 10**9 for unit in (60, 3600, 86_400) for near in (0.999, 0.9996, 1, 1.5, 999.6)]


@pytest.mark.parametrize(
    ("name", "written", "values"),
    [
        ("threeDigits", format_number, [*SIZES, *SMALL, *TIES, *(-tie for tie in TIES), 0]),
        ("duration", format_duration, [*SIZES, *PERIODS, *(tie * 1e6 for tie in TIES), 0]),
        ("bytes", format_bytes, [*SIZES, *(tie * 1e3 for tie in TIES), 0]),
        ("share", format_share, [*SIZES[:30], *SMALL, *(tie / 100 for tie in TIES), 0]),
    ],
)
def test_numbers_are_written_as_by_python(page_with, name, written, values):
    shown = page_with("common/format.js").evaluate(f"values => values.map({name})", values)
    different = [
        (value, one, written(value)) for value, one in zip(values, shown, strict=True) if one != written(value)
    ]
    assert different == []
