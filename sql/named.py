"""The named queries: queries/NAME.sql, one question per file. Its first comment is its documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .lockdown import check
from .parsed import parsed

if TYPE_CHECKING:
    import duckdb

FETCH = 10_000  # rows of an answer at a time
FOLDER = Path(__file__).parent / "queries"
_WHERE_ROWS = re.compile(r"  -- where there are rows: ([\w.]+)$", re.MULTILINE)
_INCLUDED = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


def names() -> list[str]:
    """The names of all named queries, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


def text(name: str, alone: bool = False) -> str:
    """Returns the SQL of the named query, which may be several statements; the last one returns the answer. Unless
    ALONE, it follows the SQL of the query that it includes, whose tables it reads. Raises UsageError."""
    if name not in names():
        raise UsageError(f"unknown query {name!r}", f"there are {', '.join(names())}")
    own = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    included = None if alone else _INCLUDED.search(own)
    return f"{text(included[1])}\n{own}" if included else own


def about(name: str) -> str:
    """The first sentence of the query's documentation."""
    return first_sentence(text(name, alone=True))


def first_sentence(sql: str) -> str:
    """The first sentence of the comment at the beginning of SQL."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines).split(". ")[0].rstrip(".:") + "."


def prepare(connection: duckdb.DuckDBPyConnection, query: str, alone: bool = False) -> duckdb.Statement:
    """Run all but the last statement of a named query (ALONE as for `text`), or of SQL that only reads, and return the
    last one, which returns the answer. Statements of a named query with a comment `-- where there are rows: TABLE` run
    only if TABLE has rows, since planning them can take longer than running all others. TABLE is checked once; no
    statement after the first one with this comment changes it. Raises UsageError for other SQL, and for several
    statements that return rows."""
    is_name = query.replace("_", "").isalnum()
    statements = parsed(connection, text(query, alone)) if is_name else check(connection, query)
    if not statements:
        raise UsageError("the query is empty", "`mburst sql STORE` lists queries that have a name")
    *steps, last = statements
    if not is_name and any(step.type.name != "SET" for step in steps):
        raise UsageError("several queries, of which only the last would be answered", "give one, after SET VARIABLE")
    have_rows: dict[str, bool] = {}
    for step in steps:
        if is_name and (asked := _WHERE_ROWS.search(step.query)):
            if asked[1] not in have_rows:
                have_rows[asked[1]] = bool(connection.execute(f"FROM {asked[1]} LIMIT 1").fetchall())
            if not have_rows[asked[1]]:
                continue
        result = connection.execute(step)
        while step.type.name == "SELECT" and result.fetchmany(FETCH):  # not needed, but the next has to wait for it
            pass
    return last


def set_variables(connection: duckdb.DuckDBPyConnection, **settings: Any) -> None:
    """Set the variables of a named query. A variable that was never set is NULL, like one that is set to None."""
    were_set = {name for (name,) in connection.execute("SELECT name FROM duckdb_variables()").fetchall()}
    for name, value in settings.items():
        if value is not None or name in were_set:
            connection.execute(f"SET VARIABLE {name} = ?", [value])
