"""A process for test_kill.py that forks workers which write to stores and are killed at a chosen step.

Reads lines of JSON: {"store": PATH, "work": "write" | "seal" | "endless", "step": N or null}. For each it forks a
worker that does the work and kills itself (SIGKILL) when it is about to make its Nth call of a function that changes
files, and answers {"acknowledged": rows, "killed": bool, "calls": N}. What was
acknowledged is told through a pipe as it happens.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from storelib import rows

from mburst.sql import Store, sealing
from mburst.sql.hotlog import HotLog
from mburst.sql.writer import Writer

DAY = 86_400 * 10**9
T0 = 1_700_000_000_000_000_000 // DAY * DAY
BATCH = 7
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


def batch(number: int) -> Any:
    """Rows that know their place in the whole. In every third batch the last one is of the next day."""
    first = number * BATCH
    late = first + BATCH - 1 if number % 3 == 2 else -1
    return rows("bins", *({"ts_ns": T0 + (at == late) * DAY + at, "bytes": at} for at in range(first, first + BATCH)))


def write(store: Store, told: int, batches: int) -> None:
    writer = Writer(store.path, "bins", "cache-1", "r1", roll_rows=3 * BATCH)
    for number in range(batches):
        writer.append(batch(number))
        os.write(told, b".")
    writer.close()


def worker(order: dict[str, Any], told: int) -> None:
    global limit
    limit = order["step"]
    sealing.ROW_GROUP = 2 * BATCH
    for owner, names in (
        (os, ["rename", "unlink", "fsync", "mkdir", "writev"]),
        (pq.ParquetWriter, ["__init__", "write_table", "close"]),
        (HotLog, ["append", "_write"]),
    ):
        for name in names:
            killing(owner, name)
    store = Store.open(Path(order["store"]))
    if order["work"] == "seal":
        store.seal()
    else:
        write(store, told, 6 if order["work"] == "write" else 10**9)


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        hear, told = os.pipe()
        if (child := os.fork()) == 0:
            os.close(hear)
            code = 1
            try:
                worker(order, told)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(told)
        if order["work"] == "endless":
            time.sleep(order["seconds"])
            os.kill(child, signal.SIGKILL)
        with os.fdopen(hear, "rb") as pipe:
            acknowledged = len(pipe.read()) * BATCH
        _, status = os.waitpid(child, 0)
        print(
            json.dumps(
                {
                    "acknowledged": acknowledged,
                    "killed": os.WIFSIGNALED(status),
                    "code": os.waitstatus_to_exitcode(status),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
