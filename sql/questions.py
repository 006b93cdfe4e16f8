"""The questions that can be asked of the results of a fleet: queries/fleet/NN_NAME.sql, which DuckDB, Spark SQL and
Trino can all run (`make test-engines`).

They read the tables of results (docs/fleet.md) and two more: `asked` has one row, since_ns and until_ns; `inventory`
has the rack, host, service and address of hosts, and from when until when (NULL: no limit) each is expected, each host
once, or no row.

The charts of a report also need the queries of queries/fleet_report, which only DuckDB runs."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import UsageError
from .named import first_sentence

FOLDER = Path(__file__).parent / "queries" / "fleet"


def names() -> list[str]:
    """The names of all questions, in their order."""
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


def text(name: str) -> str:
    """Returns the SQL of a question, which is one SELECT. NAME is like `02_worst_hosts`, `worst_hosts` or `2`. Raises
    UsageError."""
    for known in names():
        number, _, word = known.partition("_")
        if name in (known, word, number, number.lstrip("0")):
            return (FOLDER / f"{known}.sql").read_text(encoding="utf-8")
    raise UsageError(f"unknown question {name!r}", f"there are {', '.join(names())}")


def part(name: str, part_name: str) -> str:
    """Returns the SELECT that a question calls PART_NAME, for use in other queries. It reads no other part of the
    question."""
    [select] = re.findall(rf"\b{part_name} AS \( *(?:--[^\n]*)?\n(.*?)\n\)", text(name), re.DOTALL)
    return str(select)


def for_report(name: str) -> str:
    """The SQL of a query that a report needs in addition to the questions: one SELECT."""
    return (FOLDER.parent / "fleet_report" / f"{name}.sql").read_text(encoding="utf-8")


def about(name: str) -> str:
    """The first sentence of a question's documentation."""
    return first_sentence(text(name))
