"""Rows as a table for people, JSON or CSV for programs. Rows are written as they arrive, however many there are."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, count, islice
from typing import Any, TextIO

from ..columns import aligned, widths_of
from ..names import cell, seen_json, shown
from ..process.printing import read_rows

ALIGNED = 1000  # number of rows that determine the widths of a table
LISTED = 3  # entries of a list in a cell of a table


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --json and --csv."""
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--json", dest="format", action="store_const", const="json", help="print a JSON list of objects"
    )
    formats.add_argument(
        "--csv",
        dest="format",
        action="store_const",
        const="csv",
        help="CSV with a header; text that a spreadsheet evaluates begins with '",
    )
    parser.set_defaults(format="table")


def write(form: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO | None = None) -> None:
    """Write ROWS as "table", "json" or "csv"."""
    {"table": write_table, "json": write_json, "csv": write_csv}[form](columns, rows, out or sys.stdout)


def write_json(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """Write a JSON list with one object per line. A number that JSON does not have (NaN, infinity) is null."""
    keys = _keys(columns)
    objects = (dict(zip(keys, row, strict=True)) for row in rows)
    write_json_objects(map(_json, objects), out)


def write_json_objects(objects: Iterable[str], out: TextIO) -> None:
    """Write a JSON list of objects that are already JSON."""
    before = "["
    for one in read_rows(objects, out):
        out.write(f"{before}\n{seen_json(one)}")
        before = ","
    out.write("[]\n" if before == "[" else "\n]\n")


def write_json_value(value: Any) -> None:
    """Write one value as indented JSON."""
    sys.stdout.write(seen_json(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)) + "\n")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """Write CSV. NULL is an empty cell, and a list, struct or boolean is JSON in its cell. Text that a spreadsheet
    would compute has a quote in front, and characters that a terminal would interpret are escaped."""
    writer = csv.writer(_UnixLines(out), lineterminator="\r\n")  # so that a lone CR is quoted
    see = shown if out.isatty() else str
    writer.writerow(see(cell(column)) for column in columns)  # columns may be names from a store, through PIVOT
    for row in read_rows(rows, out):
        writer.writerow(
            [
                see(cell(value))
                if isinstance(value, str)
                else _json(value, ensure_ascii=out.isatty())
                if isinstance(value, list | dict | bool)
                else value
                for value in row
            ]
        )


class _UnixLines:
    """Converts the line ends of a csv.writer to a single newline."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, row: str) -> None:
        self._out.write(row.removesuffix("\r\n") + "\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], out: TextIO) -> None:
    """Write aligned columns, numbers to the right. The first ALIGNED rows determine the widths. Of a list, a cell has
    the first LISTED entries, and of a struct the values that are not NULL."""
    source = iter(rows)
    first = list(islice(source, ALIGNED))
    right = [
        any(row[i] is not None for row in first)
        and all(isinstance(row[i], int | float | Decimal | None) and not isinstance(row[i], bool) for row in first)
        for i in range(len(columns))
    ]
    cells = [[_cell(value) for value in row] for row in first]
    heads = list(map(shown, columns))
    widths = widths_of([heads, *cells])
    for line in read_rows(chain([heads], cells, _cells(source)), out):
        out.write(aligned(line, widths, right) + "\n")


def _keys(columns: Sequence[str]) -> list[str]:
    """Returns a different name for each column, as the database names columns of a subquery: a, a_1."""
    keys: list[str] = []
    for name in columns:
        others = {*keys, *columns}
        numbered = (f"{name}_{number}" for number in count(1))
        keys.append(name if name not in keys else next(key for key in numbered if key not in others))
    return keys


def _json(value: Any, ensure_ascii: bool = False) -> str:
    """Returns JSON of a cell or row."""
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, default=_plain, allow_nan=False)
    except (ValueError, TypeError):  # TypeError: keys of a map
        return json.dumps(_finite(value), ensure_ascii=ensure_ascii, default=_plain, allow_nan=False)


def _finite(value: Any) -> Any:
    """Returns VALUE with None in place of numbers that JSON does not have. Keys are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    """Returns a value for which JSON has no type: a decimal as a number, times and all others as text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _cells(rows: Iterator[Sequence[Any]]) -> Iterator[list[str]]:
    for row in rows:
        yield [_cell(value) for value in row]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return " ".join(_cell(item) for item in value.values() if item is not None) or "-"
    if isinstance(value, list):
        more = [f"and {len(value) - LISTED} more"] if len(value) > LISTED + 1 else []
        return ", ".join([_cell(item) for item in value[: LISTED if more else None]] + more)
    return shown(" ".join(str(value).split("\n")))
