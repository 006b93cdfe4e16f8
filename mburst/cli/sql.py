"""`mburst sql`: queries of a store."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..units import parse_duration
from . import output

if TYPE_CHECKING:
    import duckdb

# Types whose values lose something in Python: nanoseconds, months, or all (times with a zone need pytz), and bytes.
AS_TEXT = ("WITH TIME ZONE", "_NS", "INTERVAL", "BLOB")
AS_TEXT_IN_TABLES = (*AS_TEXT, "MAP(")  # the values alone of a map would say nothing


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    about = (
        "Query a store by the name of a query or in SQL (of DuckDB): SELECT, EXPLAIN SELECT and "
        "SET VARIABLE, which read the store and nothing else. Without a query, list the named "
        "queries."
    )
    parser = verbs.add_parser("sql", help="query a store in SQL or by a named query", description=about)
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    parser.add_argument("query", metavar="QUERY-NAME|SQL", nargs="?", help="one of the named queries, or SQL")
    parser.add_argument(
        "--timeout", metavar="DURATION", default="1h", help="end the query if it takes longer (default: %(default)s)"
    )
    output.add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the query, or list the tables and named queries."""
    from ..process.bounded import bounded
    from ..sql import StoreFolder, names
    from ..sql.damage import readable
    from ..sql.named import about, prepare

    store = StoreFolder.open(arguments.store)
    if arguments.query is None:
        output.write(arguments.format, ["query", "answers"], [(name, about(name)) for name in names()])
        return 0
    timeout_ns = parse_duration(arguments.timeout)
    connection = store.connect()
    with bounded(connection, timeout_ns), readable(connection):
        write_answer(connection, prepare(connection, arguments.query), arguments.format)
    return 0


def write_answer(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, form: str) -> None:
    """Write the answer of a query as "table", "json" or "csv", without losing digits of times."""
    columns, result = _asked(connection, statement, AS_TEXT_IN_TABLES if form == "table" else AS_TEXT)
    output.write(form, columns, _rows(result))


def _asked(
    connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, types: tuple[str, ...]
) -> tuple[list[str], duckdb.DuckDBPyConnection]:
    """Returns the names of the columns, and the connection with the result. Columns of one of TYPES are text."""
    if statement.type.name == "SELECT":
        asked = connection.sql(statement)  # is not run
        as_text = [any(word in str(kind) for word in types) for kind in asked.types]
        if any(as_text):
            cells = [f"#{place}::VARCHAR" if text else f"#{place}" for place, text in enumerate(as_text, 1)]
            return asked.columns, connection.execute(asked.project(", ".join(cells)).sql_query())
    result = connection.execute(statement)
    return [column[0] for column in result.description], result


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    from ..sql.named import FETCH

    while rows := result.fetchmany(FETCH):
        yield from rows
