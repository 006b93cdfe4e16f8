"""A database that reads the files of a store and nothing else. Every query runs on such a database, whoever wrote it.

There are two layers, since each alone leaves a hole: without the first, a statement may name any file; without the
second, it may overwrite a segment, which has to be readable.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..machine import available_memory

if TYPE_CHECKING:
    import duckdb

MEMORY_SHARE, DISK_SHARE = 0.6, 0.5  # shares of what is free when a database is made, to sort and join
_VARIABLE = re.compile(r"(SET|RESET)\s+VARIABLE\b", re.IGNORECASE)
_OTHERWISE = {"SET": "SET of anything but a variable", "EXPLAIN": "EXPLAIN of anything but SELECT"}
_EXPLAIN = re.compile(r"EXPLAIN\b(\s+ANALYZE\b)?(\s*\((\s*\w+\s+\w+\s*,?)+\))?(\s+ANALYZE\b)?", re.IGNORECASE)


def limits() -> dict[str, str]:
    """How much memory a database may use, and how much of the disk of the current folder if memory is not enough:
    shares of what is free, so that a query does not stop a recorder."""
    bounds = {"memory_limit": f"{int(MEMORY_SHARE * available_memory())}B"}
    with suppress(OSError):  # the folder is gone: nothing is spilled to it
        bounds["max_temp_directory_size"] = f"{int(DISK_SHARE * shutil.disk_usage('.').free)}B"
    return bounds


def temporary() -> str:
    """Where a database spills what does not fit into memory: a folder that does not exist, with a name that nobody can
    guess, since queries can read its content. The database makes it when needed, and removes it. '' (no folder) if the
    current folder was removed, since a database whose spill folder has no place cannot be locked."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return ""
    return f".mburst-{secrets.token_hex(8)}"


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on, the database opens only files that the table `defined.files` names, loads and fetches nothing,
    reads no Python object by its name, and no setting can change that."""
    names = {name for (name,) in connection.execute("SELECT name FROM defined.files").fetchall()}
    connection.execute("SET allowed_paths = $1", [sorted(names)])
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def check(connection: duckdb.DuckDBPyConnection, query: str) -> list[duckdb.Statement]:
    """Returns the statements of QUERY, which only read: SELECT (and its equivalents, such as SHOW and DESCRIBE),
    EXPLAIN of one, and SET VARIABLE. Raises UsageError for any other."""
    statements = connection.extract_statements(query)
    for statement in statements:
        if not _only_reads(connection, statement):
            kind = _kind(statement)
            raise UsageError(
                f"{_OTHERWISE.get(kind, kind)} is not allowed: a query only reads",
                "SELECT, EXPLAIN SELECT and SET VARIABLE are; --csv and --json print for other programs",
            )
    return statements


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    kind = _kind(statement)
    if kind == "SET":
        return _VARIABLE.match(statement.query) is not None
    if kind == "EXPLAIN":
        explained = connection.extract_statements(_EXPLAIN.sub("", statement.query, count=1))
        return bool(explained) and all(_kind(one) == "SELECT" for one in explained)
    return kind in ("SELECT", "MULTI")  # MULTI is the kind of PIVOT


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # the database has more kinds than its Python binding
        return "this statement"
