"""Tables of text: cells in columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def widths_of(rows: Iterable[Sequence[str]]) -> list[int]:
    """The width of each column, in characters. All rows have the same number of cells, and there is one at least."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """A row as a line without blanks at its end; cells of a column that is RIGHT end at its right edge."""
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()
