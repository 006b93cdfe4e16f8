"""What this process or its machine is short of: memory, threads, open files.

No file and no question is to blame for such a failure. Whoever would say of one that it is damaged, invalid or gone
asks here first.
"""

from __future__ import annotations

import os
import sys
from errno import EMFILE, ENFILE, ENOMEM

from .errors import MORE_FILES, MORE_MEMORY, MburstError

_NUMBERS = {ENOMEM: MORE_MEMORY, EMFILE: MORE_FILES, ENFILE: ""}
_NOT_MAPPED = "failed to map segment from shared object"  # of the dynamic linker, where memory is short
_NOT_ALLOCATED = ("bad allocation", "Allocation failure")  # of DuckDB
_NO_THREAD = ("can't start new thread", "can't allocate lock")  # of Python
# Of Python: a library has failed and said nothing, as where it found no memory for what it had to raise.
_NOT_RAISED = ("error return without exception set", "without setting an exception")


def of(error: BaseException) -> MburstError | None:
    """What to say of ERROR where a shortage is to blame; None where not."""
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
    duckdb = sys.modules.get("duckdb")  # importing it takes memory and files, too
    if duckdb and isinstance(error, duckdb.OutOfMemoryException):
        is_process = any(text in first for text in _NOT_ALLOCATED)  # else a limit of DuckDB's own
        return MburstError(first, MORE_MEMORY if is_process else "query less at a time")
    return _named(first) if duckdb and isinstance(error, duckdb.IOException) else None


def _of_import(line: str) -> MburstError | None:
    """The same by a line of an ImportError: numpy's has twenty, of which one is the reason."""
    reason = line.rpartition("Original error was: ")[2]
    return MburstError(f"not enough memory: {reason}", MORE_MEMORY) if _NOT_MAPPED in line else _named(reason)


def refuse(error: BaseException, about: str = "") -> None:
    """Raises MburstError where a shortage is to blame for ERROR: "ABOUT: …" where something is given. The error
    is made anew, in no variable: one in a variable of a frame that it passes keeps alive what that frame holds."""
    if found := of(error):
        raise MburstError(f"{about}: {found}" if about else str(found), found.hint) from error


def _named(message: str) -> MburstError | None:
    """Of a message that has the system's text of a shortage in it."""
    found = (hint for number, hint in _NUMBERS.items() if os.strerror(number).lower() in message.lower())
    hint = next(found, None)
    return None if hint is None else MburstError(message, hint)
