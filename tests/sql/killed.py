"""A process for test_kill.py that forks workers which write to stores and are killed at a chosen step.

Reads orders (killing.py): {"store": PATH, "work": "write" | "seal" | "endless", "step": N or null}, and answers
{"acknowledged": rows, "killed": bool, "code": exit code}. Each acknowledgement is sent through a pipe at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from killing import Steps, serve
from storelib import rows

from mburst.sql import StoreFolder, sealing
from mburst.sql.format.hotlog import HotLog
from mburst.sql.writer import TableWriter

DAY = 86_400 * 10**9
T0 = 1_700_000_000_000_000_000 // DAY * DAY
BATCH = 7
steps = Steps()


def batch(number: int) -> Any:
    """Returns rows with their place in the whole. In every third batch the last row is of the next day."""
    first = number * BATCH
    late = first + BATCH - 1 if number % 3 == 2 else -1
    return rows("bins", *({"ts_ns": T0 + (at == late) * DAY + at, "bytes": at} for at in range(first, first + BATCH)))


def write(store: StoreFolder, pipe: int, batches: int) -> None:
    writer = TableWriter(store.path, "bins", "cache-1", "r1", roll_rows=3 * BATCH)
    for number in range(batches):
        writer.append(batch(number))
        os.write(pipe, b".")
    writer.close()


def worker(order: dict[str, Any], pipe: int) -> int:
    steps.limit = order["step"]
    sealing.ROW_GROUP = 2 * BATCH
    steps.watch(os, "rename", "unlink", "fsync", "mkdir", "writev")
    steps.watch(pq.ParquetWriter, "__init__", "write_table", "close")
    steps.watch(HotLog, "append", "_write")
    store = StoreFolder.open(Path(order["store"]))
    if order["work"] == "seal":
        store.seal()
    else:
        write(store, pipe, 6 if order["work"] == "write" else 10**9)
    return 0


if __name__ == "__main__":
    serve(worker, lambda received: {"acknowledged": len(received) * BATCH})
