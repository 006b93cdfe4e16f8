"""A process for tests: forks workers that record a file and are killed at a chosen step.

Reads lines of JSON: {"arguments": [of `mburst record`], "step": N or null}. For each it forks a worker that runs the
command and kills itself (SIGKILL) when it is about to make its Nth call of a function that changes files; segments of
bins are short. Answers {"killed": bool, "code": exit code, "calls": N}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

import duckdb
import numpy
import pyarrow.parquet as pq

from mburst.__main__ import main
from mburst.capture import Capture
from mburst.sql import hotlog
from mburst.sql.writer import Writer

assert duckdb and numpy  # loaded before the fork
ROLL_ROWS = 300
calls = 0
limit: int | None = None
lock = threading.Lock()


def killing(owner: Any, name: str) -> None:
    """Make OWNER.NAME count itself, and kill the process instead of making the call that reaches the limit."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        global calls
        with lock:
            calls += 1
            if calls == limit:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


class InPieces:
    """A capture whose rows come a few at a time."""

    ROWS = 100

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._capture = Capture(*arguments, **options)
        self._waiting: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)

    def read(self) -> Any:
        import pyarrow as pa

        if not self._waiting:
            rows = self._capture.read()
            if rows is None:
                return None
            bins, sources = (pa.RecordBatchReader.from_stream(part).read_all().combine_chunks() for part in rows)
            self._waiting = [(Piece(bins.slice(at, self.ROWS)), Piece(sources.slice(0 if at == 0 else len(sources))))
                             for at in range(0, max(len(bins), 1), self.ROWS)]
        return self._waiting.pop(0)


class Piece:
    """Rows as the engine gives them."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        [batch] = self._rows.to_batches()
        import pyarrow as pa

        return pa.Table.from_batches([batch]).__arrow_c_stream__(schema)


def worker(order: dict[str, Any]) -> int:
    global limit
    limit = order["step"]
    for owner, names in (
        (os, ["rename", "unlink", "fsync", "mkdir", "pwrite", "ftruncate"]),
        (pq.ParquetWriter, ["__init__", "write_table", "close"]),
        (hotlog.HotLog, ["append"]),
    ):
        for name in names:
            killing(owner, name)
    import mburst.capture

    mburst.capture.Capture = InPieces  # type: ignore[assignment,misc]
    defaults = Writer.__init__.__defaults__
    assert defaults is not None
    Writer.__init__.__defaults__ = (*defaults[:-2], ROLL_ROWS, defaults[-1])
    return main(["record", *order["arguments"]])


def serve() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        hear, told = os.pipe()
        if (child := os.fork()) == 0:
            os.close(hear)
            code = 1
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                code = worker(order)
            finally:
                os.write(told, str(calls).encode())
                sys.stderr.flush()
                os._exit(code)
        os.close(told)
        with os.fdopen(hear) as pipe:
            made = pipe.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"killed": os.WIFSIGNALED(status), "code": os.waitstatus_to_exitcode(status),
                          "calls": int(made or 0)}), flush=True)


if __name__ == "__main__":
    serve()
