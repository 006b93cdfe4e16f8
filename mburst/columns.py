"""Tables of text, with columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def widths_of(rows: Iterable[Sequence[str]]) -> list[int]:
    """Returns the width of each column in characters. There is at least one row, and all have the same number of
    cells."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Returns a row as a line without trailing blanks. Cells of columns that are RIGHT are aligned to the right."""
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()
