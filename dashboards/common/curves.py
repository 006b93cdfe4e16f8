"""Step curves as SVG without a script. Lengths are in pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...units import format_share
from .figures import AROUND, duration_ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 210, 58, 534, 8, 184
LINES = ("line", "line b", "line c", "line d", "line e")  # CSS classes: a colour and a dash for each of several lines
SHARES = (0.0, 0.5, 0.9, 1.0)


class DurationShares(NamedTuple):
    """Values, ascending, each with the SHARE of all values that are not larger. NAME is in the legend if there are
    several."""

    name: str
    values: Sequence[float]
    shares: Sequence[float]


class CurveLine(NamedTuple):
    """A line: its CSS class, its SVG path, and its name in the legend."""

    kind: str
    path: str
    name: str


@dataclass(frozen=True)
class StepCurve:
    """Lines between axes: positions and texts of ticks, and the text below (name, value)."""

    label: str
    y_ticks: Sequence[tuple[float, str]]
    x_ticks: Sequence[tuple[float, str]]
    lines: Sequence[CurveLine]
    quantiles: Sequence[tuple[str, str]]
    template = "common/curve.html"
    width, height, left, right, bottom = WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM


def of_durations(label: str, found: Sequence[DurationShares], quantiles: Sequence[tuple[str, str]] = ()) -> StepCurve:
    """Returns the curve of DurationShares (ns) on one logarithmic axis: at most as many as LINES, none of them
    empty."""
    ends = [each.values[at] for each in found for at in (0, -1)]
    low, high = math.log10(min(ends) / AROUND), math.log10(max(ends) * AROUND)

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - low) / (high - low) * (RIGHT - LEFT)

    def y(share: float) -> float:
        return TOP + (1 - share) * (BOTTOM - TOP)

    return StepCurve(
        label,
        [(y(share), format_share(share)) for share in SHARES],
        [(x(value), text) for value, text in duration_ticks(ends) if low <= math.log10(value) <= high],
        [
            CurveLine(kind, _path(each, x, y), each.name if len(found) > 1 else "")
            for kind, each in zip(LINES, found, strict=False)
        ],
        quantiles,
    )


def _path(found: DurationShares, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    line = [f"M{LEFT},{y(0):.1f}H{x(found.values[0]):.1f}"]
    line += [
        f"V{y(share):.1f}" + (f"H{x(after):.1f}" if after else f"H{RIGHT}")
        for share, after in zip(found.shares, [*found.values[1:], 0.0], strict=True)
    ]
    return "".join(line)
