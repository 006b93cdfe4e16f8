"""Names by which DuckDB opens exactly the files that are meant.

DuckDB takes a name with *, ? or [ for a pattern, which it looks for in the parent folder, and \\ in such a name for an
escape. A folder with such a name is opened here and named by its descriptor.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import MburstError
from ..files import plain_name

if TYPE_CHECKING:
    import duckdb

_UP_TO_PATTERN = re.compile(r".*[*?\[\\][^/]*", re.DOTALL)
_folders: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[str, int]] = weakref.WeakKeyDictionary()


def names(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> list[str]:
    """Returns names for the files at PATHS, for use by CONNECTION (not by its cursors): folders that are opened for it
    are closed with it. Raises MburstError if a folder cannot be opened."""
    return [_name(connection, path) for path in paths]


def listed(names: Iterable[str]) -> str:
    """NAMES as a list in SQL."""
    return "[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]"


def _name(connection: duckdb.DuckDBPyConnection, path: str) -> str:
    if not (found := _UP_TO_PATTERN.match(path)):
        return plain_name(path)
    folders = _folders.setdefault(connection, {})
    if found[0] not in folders:
        folders[found[0]] = _opened(connection, found[0])
    return f"/proc/self/fd/{folders[found[0]]}{path[found.end() :]}"


def _opened(connection: duckdb.DuckDBPyConnection, folder: str) -> int:
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise MburstError(f"{folder}: cannot read: {error.strerror}") from error
    weakref.finalize(connection, os.close, descriptor)
    return descriptor
