"""The meaning and unit of each column, read from the comments after the columns in schema/*.sql, model/*.sql and
queries/*.sql, the only place where they are written."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FOLDERS = ("model", "queries", "schema")  # if several have a table with columns of the same name, the first one counts
_COLUMN = re.compile(r"(\w+),? +-- ([A-Z\[\]]+): (.+)$", re.MULTILINE)  # of a view or query
_STORED = re.compile(r"^ {4}(\w+)\s+[A-Z]+[^-\n]*(?:-- (.+))?$", re.MULTILINE)  # of CREATE TABLE
_AS_IN = re.compile(r"as in `(\w+)`")
UNITS = (  # by the end of a column's name
    (re.compile(r"_ns$"), "ns"),
    (re.compile(r"_bps$"), "bit/s"),
    (re.compile(r"(^|_)bytes$"), "B"),
    (re.compile(r"(^|_)(utilization|share)$|^(late|dropped)_share$"), "1"),
)


class DescribedColumn(NamedTuple):
    """A column of a view or query: its type in DuckDB, and its meaning."""

    name: str
    type: str
    about: str


def columns(text: str) -> list[DescribedColumn]:
    """The columns of a view or query, from the comments after them, which have the form `-- TYPE: meaning`."""
    return [DescribedColumn(*found) for found in _COLUMN.findall(text)]


@cache
def about(name: str) -> dict[str, str]:
    """Returns the meanings of the columns of a table, view or named query, by name. Columns without a comment are left
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
    """A meaning with references resolved: to the same column of another table, or to the meaning BEFORE it."""
    if other := _AS_IN.fullmatch(meaning):
        return about(other[1]).get(column, "")
    return before if meaning == "likewise" else meaning


def unit(column: str) -> str:
    """The unit of a column, from its name: `ns`, `bit/s`, `B`, `1` for a share, or '' for none."""
    return next((unit for ending, unit in UNITS if ending.search(column)), "")
