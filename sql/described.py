"""What a column means, and in which unit: read from the comments behind the columns, in schema/*.sql, model/*.sql and
queries/*.sql, which are the one place where that is written."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FOLDERS = ("model", "queries", "schema")  # of a table that has columns of the same name in several, the first counts
_COLUMN = re.compile(r"(\w+),? +-- ([A-Z\[\]]+): (.+)$", re.MULTILINE)  # of a view or query
_STORED = re.compile(r"^ {4}(\w+)\s+[A-Z]+[^-\n]*(?:-- (.+))?$", re.MULTILINE)  # of CREATE TABLE
_AS_IN = re.compile(r"as in `(\w+)`")
UNITS = (  # by how a column's name ends
    (re.compile(r"_ns$"), "ns"),
    (re.compile(r"_bps$"), "bit/s"),
    (re.compile(r"(^|_)bytes$"), "B"),
    (re.compile(r"(^|_)(utilization|share)$|^(late|dropped)_share$"), "1"),
)


class DescribedColumn(NamedTuple):
    """A column of a view or query: its type in DuckDB, and what it is."""

    name: str
    type: str
    about: str


def columns(text: str) -> list[DescribedColumn]:
    """The columns of a view or query, from the comments behind them, which are `-- TYPE: what it is`."""
    return [DescribedColumn(*found) for found in _COLUMN.findall(text)]


@cache
def about(name: str) -> dict[str, str]:
    """What the columns of a table, view or named query are, by their names; those that nothing is written of are left
    out."""
    meanings: dict[str, str] = {}
    for folder in FOLDERS:
        if (path := HERE / folder / f"{name}.sql").exists():
            text = path.read_text(encoding="utf-8")
            before, is_stored = "", folder == "schema"
            found = _STORED.findall(text) if is_stored else [(column.name, column.about) for column in columns(text)]
            for column, meaning in found:
                before = _spelt_out(column, meaning, before)
                meanings.setdefault(column, before)
    return {column: meaning for column, meaning in meanings.items() if meaning}


def _spelt_out(column: str, meaning: str, before: str) -> str:
    """A meaning without reference to another: to what another table says of the column, or to the one BEFORE."""
    if other := _AS_IN.fullmatch(meaning):
        return about(other[1]).get(column, "")
    return before if meaning == "likewise" else meaning


def unit(column: str) -> str:
    """The unit of a column by its name: `ns`, `bit/s`, `B`, `1` for a share, or '' for none."""
    return next((unit for ending, unit in UNITS if ending.search(column)), "")
