"""Checked values of a configuration file. A UsageError names the file, the table and the key."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError

Checker = Callable[[Path, str, str, Any], str]  # of a value: the file, the table, the key, the value


@contextmanager
def naming(path: Path, where: str) -> Iterator[None]:
    """Prefix each UsageError in the context with the file and the table."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}: {where}: {error}", error.hint) from None


def only(path: Path, where: str, table: Mapping[str, Any], valid: Sequence[str]) -> None:
    """Raise UsageError for keys that the table does not have."""
    for key in table:
        if key not in valid:
            raise UsageError(f"{path}: {where} has no key {key!r}", f"valid are {', '.join(sorted(valid))}")


def tables(path: Path, name: str, value: Any) -> list[dict[str, Any]]:
    """Returns the tables of a name, one or several."""
    found = [value] if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise UsageError(f"{path}: {name} must be a table", f"write [{name}], or [[{name}]] for each of several")
    return found


def plain_text(key: str, value: Any) -> str:
    """Returns a text or number as text. The error names only the key."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{key} must be a text or a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{key} must be a text (in quotes) or a number, and not {value}")
    if "\0" in str(value):
        raise UsageError(f"{key} has a NUL character")
    return str(value)


def text(path: Path, where: str, key: str, value: Any) -> str:
    """Returns a text or number as text. The error names the file and the table, too."""
    try:
        return plain_text(f"{key} of {where}", value)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def place(path: Path, where: str, key: str, value: Any) -> str:
    """Returns the name of a file, folder or bucket. A number is not taken for one."""
    if not isinstance(value, str):
        raise UsageError(f"{path}: {key} of {where} must be a text (in quotes)")
    return text(path, where, key, value)


def texts(path: Path, where: str, key: str, value: Any, each: Checker = text) -> list[str]:
    """Returns a list of texts or numbers as texts, as EACH reads them; a single one becomes a list."""
    return [each(path, where, key, item) for item in (value if isinstance(value, list) else [value])]
