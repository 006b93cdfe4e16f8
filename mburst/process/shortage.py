"""Shortages of this process or its machine: memory, threads, open files.

Such a failure is not the fault of any file or query. Code that would report one as damaged, invalid or missing checks
for a shortage first.
"""

from __future__ import annotations

import os
import sys
from errno import EMFILE, ENFILE, ENOMEM

from ..errors import MORE_FILES, MORE_MEMORY, MburstError

_NUMBERS = {ENOMEM: MORE_MEMORY, EMFILE: MORE_FILES, ENFILE: ""}
_NOT_MAPPED = "failed to map segment from shared object"  # from the dynamic linker, if memory is short
_NOT_ALLOCATED = ("bad allocation", "Allocation failure")  # from DuckDB
_NO_THREAD = ("can't start new thread", "can't allocate lock")  # from Python
# From Python: a library failed without an exception, for example because it had no memory to raise one.
_NOT_RAISED = ("error return without exception set", "without setting an exception")


def of(error: BaseException) -> MburstError | None:
    """Returns the message for ERROR if a shortage caused it, else None."""
    first = (str(error).splitlines() or [""])[0]
    if isinstance(error, MemoryError):
        return MburstError("not enough memory", MORE_MEMORY)
    if isinstance(error, RuntimeError) and first in _NO_THREAD:
        return MburstError(f"not enough memory or threads: {first}", "allow it more (ulimit -v, ulimit -u)")
    if isinstance(error, SystemError) and first.endswith(_NOT_RAISED):
        return MburstError(f"a library failed, perhaps for lack of memory: {first}", MORE_MEMORY)
    if isinstance(error, OSError):
        return MburstError(os.strerror(error.errno), _NUMBERS[error.errno]) if error.errno in _NUMBERS else None
    if isinstance(error, ImportError):
        return next(filter(None, map(_of_import, str(error).splitlines())), None)
    duckdb = sys.modules.get("duckdb")  # not imported here, because that takes memory and files, too
    if duckdb and isinstance(error, duckdb.OutOfMemoryException):
        is_process = any(text in first for text in _NOT_ALLOCATED)  # else it is DuckDB's own limit
        return MburstError(first, MORE_MEMORY if is_process else "query less at a time")
    return _named(first) if duckdb and isinstance(error, duckdb.IOException) else None


def _of_import(line: str) -> MburstError | None:
    """Returns the message for a line of an ImportError; numpy's has twenty lines, one of which has the reason."""
    reason = line.rpartition("Original error was: ")[2]
    return MburstError(f"not enough memory: {reason}", MORE_MEMORY) if _NOT_MAPPED in line else _named(reason)


def refuse(error: BaseException, about: str = "") -> None:
    """Raise MburstError if a shortage caused ERROR, as "ABOUT: …" if ABOUT is given. The error is new and in no
    variable, because a variable in a frame that it passes would keep alive what that frame holds."""
    if found := of(error):
        raise MburstError(f"{about}: {found}" if about else str(found), found.hint) from error


def _named(message: str) -> MburstError | None:
    """Returns the message if it contains the system's text of a shortage, else None."""
    found = (hint for number, hint in _NUMBERS.items() if os.strerror(number).lower() in message.lower())
    hint = next(found, None)
    return None if hint is None else MburstError(message, hint)
