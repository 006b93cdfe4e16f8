"""A heatmap of rows over slots of time, as SVG without a script, so that it prints and can be mailed. Lengths are in
pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from ...units import NS_PER_DAY, NS_PER_HOUR, NS_PER_MINUTE, NS_PER_S

WIDTH, LABELS, ROW, TOP = 1160, 200, 20, 22  # pixels
OPACITY = (
    1.0,
    0.86,
    0.72,
    0.6,
    0.48,
    0.37,
    0.27,
    0.18,
    0.1,
)  # of nine steps, the largest first; fewer steps use some of these
UNSEEN = -1  # the step of a slot that was not recorded
MOST_LABELS, MOST_CHARACTERS = 12, 28


class SlotAxis(NamedTuple):
    """Slots of equal length; the first one begins at FIRST_NS (Unix ns)."""

    first_ns: int
    slot_ns: int
    slots: int

    def start_of(self, slot: int) -> int:
        """Returns the start of a slot."""
        return self.first_ns + slot * self.slot_ns


class SlotShade(NamedTuple):
    """A slot of a row: the index of its step; None if there is nothing, UNSEEN if it was not recorded. TITLE is its
    tooltip, '' for none."""

    step: int | None
    title: str


class HeatLine(NamedTuple):
    """A row of a heatmap; its name is a link if HREF is given."""

    name: str
    shades: Sequence[SlotShade]
    href: str = ""


@dataclass(frozen=True)
class HeatCell:
    """A slot of time in a row: KIND is its CSS class; OPACITY is None if there is nothing."""

    x: float
    kind: str
    opacity: float | None
    title: str


@dataclass(frozen=True)
class HeatRow:
    """A row: a host, or a rack."""

    top: int
    name: str
    cells: Sequence[HeatCell]
    href: str


@dataclass(frozen=True)
class HeatWords:
    """The description of a heatmap, its REGION in three or four words, and the start of its LEGEND."""

    label: str
    region: str
    legend: str


@dataclass(frozen=True)
class Heatmap:
    """Rows over time. Without rows if nothing is shown."""

    words: HeatWords
    steps: Sequence[tuple[float, str]]
    labels: Sequence[tuple[float, str]]
    rows_of_cells: Sequence[HeatRow]
    cell_width: float
    template = "common/heatmap.html"
    width = WIDTH
    names_x = LABELS - 8
    cell_height = ROW - 2

    @property
    def height(self) -> int:
        """The height of the image."""
        return TOP + ROW * len(self.rows_of_cells) + 4


def heatmap(words: HeatWords, steps: Sequence[str], axis: SlotAxis, lines: Sequence[HeatLine]) -> Heatmap:
    """Returns LINES by time; STEPS are the names of the steps of shade, the largest first."""
    width, last = (WIDTH - LABELS) / axis.slots, max(len(steps) - 1, 1)
    opacities = [OPACITY[round(i * (len(OPACITY) - 1) / last)] for i in range(len(steps))]
    return Heatmap(
        words,
        tuple(zip(opacities, steps, strict=True)),
        _labels(axis, width),
        [_row(TOP + i * ROW, line, width, opacities) for i, line in enumerate(lines)],
        max(width - 1, 0.6),
    )


def slot_label(ts_ns: int, slot_ns: int) -> str:
    """Returns the text for the start of a slot on the axis."""
    form = "%m-%d" if slot_ns >= NS_PER_DAY else "%H:%M" if slot_ns >= NS_PER_MINUTE else "%H:%M:%S"
    return datetime.fromtimestamp(ts_ns // NS_PER_S, UTC).strftime(form)


def label_every(slots: int, slot_ns: int) -> int:
    """Returns the number of slots from one label to the next."""
    steps = (1, 3, 6, 12, 24, 48) if slot_ns == NS_PER_HOUR else (1, 2, 5, 10, 30, 60, 120)
    return next((step for step in steps if slots / step <= MOST_LABELS), slots)


def _labels(axis: SlotAxis, width: float) -> list[tuple[float, str]]:
    every = label_every(axis.slots, axis.slot_ns)
    return [
        (LABELS + i * width, slot_label(axis.start_of(i), axis.slot_ns))
        for i in range(axis.slots)
        if (axis.start_of(i) // axis.slot_ns) % every == 0 and LABELS + i * width < WIDTH - 50
    ]


def _row(top: int, line: HeatLine, width: float, opacities: Sequence[float]) -> HeatRow:
    name = line.name if len(line.name) <= MOST_CHARACTERS else line.name[: MOST_CHARACTERS - 1] + "…"
    cells = [_cell(shade, LABELS + i * width, opacities) for i, shade in enumerate(line.shades)]
    return HeatRow(top, name, cells, line.href)


def _cell(shade: SlotShade, x: float, opacities: Sequence[float]) -> HeatCell:
    if shade.step is None:
        return HeatCell(x, "calm", None, shade.title)
    if shade.step == UNSEEN:
        return HeatCell(x, "unseen-cell", None, shade.title)
    return HeatCell(x, "hot", opacities[shade.step], shade.title)
