"""Limits of time and memory for a query of the database.

The database limits the memory of sorts and joins, but not that of a single function (repeat('x', 10000000000)), and
some functions ignore an interruption.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .. import machine
from ..errors import MburstError
from ..messages import print_message
from ..units import format_bytes, format_duration
from . import interrupting

if TYPE_CHECKING:
    import duckdb

MEMORY_SHARE = 0.8  # share of the free memory at the start of a query; the database itself uses less
EVERY_S = 0.05  # interval of checking this process
GRACE_S = 5.0  # time from the interruption of a query to the end of the process
FIRST_KILLED = 1000  # proc(5), oom_score_adj: if memory is short, the kernel kills this process before any recorder


class _Limit:
    """Monitors a query until it ends."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, timeout_ns: int, temporary: Path | None) -> None:
        self._connection = connection
        self._timeout_ns = timeout_ns
        self._temporary = temporary
        self._most_bytes = int(machine.available_memory() * MEMORY_SHARE)
        self._over = threading.Event()
        self.error: MburstError | None = None
        self._thread = threading.Thread(target=self._run, name="mburst-bounded", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the monitoring."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic_ns()
        while not self._over.wait(EVERY_S):
            if machine.own_memory() > self._most_bytes:
                self.error = MburstError(
                    f"the query takes more than {format_bytes(self._most_bytes)} of memory", "query less at a time"
                )
                self._end_process(self.error)
            if time.monotonic_ns() - begun > self._timeout_ns:
                self.error = MburstError(
                    f"the query took longer than {format_duration(self._timeout_ns)}",
                    "query less at a time, or give a longer --timeout",
                )
                return self._interrupt(self.error)

    def _interrupt(self, error: MburstError) -> None:
        """Interrupt repeatedly, because a query may have several statements. If that fails, end the process."""
        end = time.monotonic() + GRACE_S
        while time.monotonic() < end:
            with suppress(Exception):  # the connection is closed
                self._connection.interrupt()
            if self._over.wait(EVERY_S):
                return
        self._end_process(error)

    def _end_process(self, error: MburstError) -> None:
        if interrupting.is_own():
            print_message(f"{error} ({error.hint})")
            if self._temporary:
                shutil.rmtree(self._temporary, ignore_errors=True)
            os._exit(error.exit_code)


@contextmanager
def bounded(connection: duckdb.DuckDBPyConnection, timeout_ns: int) -> Iterator[None]:
    """Limit queries on CONNECTION in the context to TIMEOUT_NS, and to MEMORY_SHARE of the memory that is free now.
    Raises MburstError if a query takes longer. If it then does not end, or takes more memory, mburst's own process
    prints that error and ends."""
    [(folder,)] = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    if interrupting.is_own():
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(FIRST_KILLED), encoding="ascii")
    limit = _Limit(connection, timeout_ns, Path(folder).absolute() if folder else None)
    try:
        yield
    except Exception:
        if limit.error:
            raise limit.error from None
        raise
    finally:
        limit.end()
