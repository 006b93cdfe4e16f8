"""Names from CSV: a header line, then a line for each address or prefix, with the time in which it holds."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from itertools import pairwise

from ...errors import UsageError
from ...units import parse_span
from .rows import LONGEST, NamedPrefix, canonical

COLUMNS = ("address", "name", "service", "rack", "owner", "from", "until")
_TEXTS = ("name", "service", "rack", "owner")
_ALWAYS = (-(2**63), 2**63 - 1)


def names_of(text: str, file: str) -> list[NamedPrefix]:
    """Returns the names in TEXT, the content of FILE. Raises UsageError for the first wrong line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        _check_header(header, file)
        found: dict[str, list[tuple[int, NamedPrefix]]] = defaultdict(list)
        names = []
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            one = _row(dict(zip(header, cells, strict=False)), len(cells) - len(header), f"{file}:{reader.line_num}")
            found[one.prefix].append((reader.line_num, one))
            names.append(one)
    except csv.Error as error:
        raise UsageError(f"{file}:{reader.line_num}: invalid CSV: {error}") from None
    for lines in found.values():
        _check_times(lines, file)
    return names


def _check_header(header: list[str], file: str) -> None:
    columns = f"the columns are {', '.join(COLUMNS)}"
    if unknown := next((column for column in header if column not in COLUMNS), None):
        raise UsageError(f"{file}:1: unknown column {unknown!r}", columns)
    if "address" not in header:
        raise UsageError(f"{file}:1: no column address", columns)
    if len(set(header)) < len(header):
        raise UsageError(f"{file}:1: a column is there twice", columns)


def _row(cells: dict[str, str], beyond: int, where: str) -> NamedPrefix:
    if beyond > 0:
        raise UsageError(f"{where}: {beyond} more cells than columns", "put quotes around text with commas")
    texts = [cells.get(column, "").strip() for column in _TEXTS]
    try:
        prefix = canonical(cells.get("address", ""))  # a short line may have none
        times = parse_span(cells.get("from", ""), cells.get("until", ""))
    except UsageError as error:
        raise UsageError(f"{where}: {error}", error.hint) from None
    if not any(texts):
        raise UsageError(f"{where}: {prefix} has no name, service, rack or owner", "remove the line")
    if any(len(text) > LONGEST for text in texts):
        raise UsageError(f"{where}: text longer than {LONGEST} characters")
    name, service, located, owner = texts
    return NamedPrefix(prefix, name, service, located, owner, *times)


def _check_times(lines: list[tuple[int, NamedPrefix]], file: str) -> None:
    """Raises UsageError if a prefix has two meanings at one time."""
    spans = sorted(
        (
            _ALWAYS[0] if one.from_ns is None else one.from_ns,
            _ALWAYS[1] if one.until_ns is None else one.until_ns,
            number,
        )
        for number, one in lines
    )
    for (_, until, first), (begin, _, second) in pairwise(spans):
        if begin < until:
            low, high = sorted((first, second))
            raise UsageError(
                f"{file}:{high}: {lines[0][1].prefix} is in line {low} too, for the same time",
                "give each a from and until, or remove one",
            )
