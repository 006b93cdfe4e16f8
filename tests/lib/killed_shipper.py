"""A process for tests: forks workers that ship a store and are killed at a chosen step, or after some time.

Reads orders (killing.py): {"store": …, "target": …, "step": N or null}. Answers {"killed": bool, "code": 0 or 1,
"calls": N}."""

from __future__ import annotations

import os
from typing import Any

import pyarrow.parquet as pq
from killing import Steps, serve

from mburst.fleet.bucket import BucketTarget
from mburst.fleet.folder import FolderTarget
from mburst.fleet.ship import ShipSettings, ship
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

assert pq  # loaded before the fork
steps = Steps()


def worker(order: dict[str, Any], pipe: int) -> int:
    steps.limit = order["step"]
    steps.watch(os, "rename", "link", "unlink", "fsync", "mkdir")
    for kind in (FolderTarget, BucketTarget):
        steps.watch(kind, "put_new", "holds", "get")
    try:
        shipped = ship(StoreFolder.open(order["store"]), open_target(order["target"]), ShipSettings())
        return 1 if shipped.troubles else 0
    finally:
        os.write(pipe, str(steps.made).encode())


if __name__ == "__main__":
    serve(worker, lambda received: {"calls": int(received or 0)})
