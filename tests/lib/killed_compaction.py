"""A process that forks workers. These compact a store and are killed at a chosen step (killing.py).

Orders: {"store": PATH, "now_ns": TIME, "step": N or null}."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from killing import Steps, serve

from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import KeepRules

steps = Steps()


def worker(order: dict[str, Any], _pipe: int) -> int:
    steps.limit = order["step"]
    steps.watch(os, "rename", "unlink", "fsync", "mkdir", "link", "rmdir")
    steps.watch(pq.ParquetWriter, "write_table", "close")
    compact(StoreFolder.open(Path(order["store"])), KeepRules(), now_ns=order["now_ns"])
    return 0


if __name__ == "__main__":
    serve(worker, lambda received: {})
