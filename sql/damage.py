"""Which stored file is damaged, and what DuckDB says, each in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError, UsageError

if TYPE_CHECKING:
    import duckdb

MAGIC = b"PAR1"
HINT = "the store can be read again once that file is moved out of it"


def damaged(path: Path | str, reason: str) -> MburstError:
    """ "PATH: damaged: REASON" """
    return MburstError(f"{path}: damaged: {reason}", HINT)


def check_ends(path: Path) -> None:
    """Raises MburstError when a Parquet file has lost its end. DuckDB would find out too, but only when a query comes
    to that file."""
    with open(path, "rb") as file:
        head = file.read(len(MAGIC))
        file.seek(max(0, os.path.getsize(path) - len(MAGIC)))
        if head != MAGIC or file.read(len(MAGIC)) != MAGIC:
            raise damaged(path, "no whole Parquet file")


@contextmanager
def readable(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Turns DuckDB's errors inside into MburstError of one line: "PATH: damaged: …" where one of the files that
    CONNECTION's views read is to blame. What SQL says by error('usage: …') becomes UsageError."""
    import duckdb

    at_fault = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.ConversionException)
    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        first, *more = str(error).splitlines() or [""]
        message = first.removeprefix("Invalid Input Error: ")
        if message.startswith("usage: "):
            raise UsageError(message.removeprefix("usage: ")) from error
        if not isinstance(error, at_fault):
            find_damage(connection)
        raise MburstError(message, next((line for line in more if line.startswith("Did you mean")), "")) from error


def find_damage(connection: duckdb.DuckDBPyConnection) -> None:
    """Raises MburstError for the first of the files that CONNECTION's views read which cannot be read whole."""
    import duckdb

    cursor = connection.cursor()
    for path, names in cursor.execute("SELECT path, names FROM defined.files").fetchall():
        try:
            everything = ", ".join(f"bit_xor(hash({name}))" for name in names)  # a count would not read the pages
            cursor.execute(f"SELECT {everything} FROM read_parquet([$1])", [path]).fetchall()
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise damaged(path, str(error).splitlines()[0]) from error
