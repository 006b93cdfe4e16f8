"""SQL of this package, parsed once per process: with few rows, parsing takes as long as running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_statements: dict[str, list[duckdb.Statement]] = {}


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
    """The statements of TEXT, a constant of this package. Any connection can run them, any number of times."""
    if text not in _statements:
        _statements[text] = connection.extract_statements(text)
    return _statements[text]


def run(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run the statements of TEXT, a constant of this package."""
    for statement in parsed(connection, text):
        connection.execute(statement)
