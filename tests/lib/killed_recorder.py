"""A process for tests: forks workers that record a file and are killed at a chosen step.

Reads orders (killing.py): {"arguments": [of `mburst record`], "step": N or null}; segments of bins are short. Answers
{"killed": bool, "code": exit code, "calls": N}.
"""

from __future__ import annotations

import os
from typing import Any

import duckdb
import numpy
import pyarrow.parquet as pq
from killing import Steps, serve

from mburst.__main__ import main
from mburst.capture import Capture
from mburst.sql.format import hotlog
from mburst.sql.writer import TableWriter

assert duckdb and numpy  # loaded before the fork
ROLL_ROWS = 300
steps = Steps()


class InPieces:
    """A capture that yields a few rows at a time."""

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
            self._waiting = [
                (Piece(bins.slice(at, self.ROWS)), Piece(sources.slice(0 if at == 0 else len(sources))))
                for at in range(0, max(len(bins), 1), self.ROWS)
            ]
        return self._waiting.pop(0)


class Piece:
    """Rows as the engine yields them."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        [batch] = self._rows.to_batches()
        import pyarrow as pa

        return pa.Table.from_batches([batch]).__arrow_c_stream__(schema)


def worker(order: dict[str, Any], pipe: int) -> int:
    steps.limit = order["step"]
    steps.watch(os, "rename", "unlink", "fsync", "mkdir", "pwrite", "ftruncate")
    steps.watch(pq.ParquetWriter, "__init__", "write_table", "close")
    steps.watch(hotlog.HotLog, "append")
    import mburst.capture

    mburst.capture.Capture = InPieces  # type: ignore[assignment,misc]
    defaults = TableWriter.__init__.__defaults__
    assert defaults is not None
    TableWriter.__init__.__defaults__ = (*defaults[:-2], ROLL_ROWS, defaults[-1])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        return main(["record", *order["arguments"]])
    finally:
        os.write(pipe, str(steps.made).encode())


if __name__ == "__main__":
    serve(worker, lambda received: {"calls": int(received or 0)})
