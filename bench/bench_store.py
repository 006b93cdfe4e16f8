#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does it cost to verify that each byte of a store is as it was written?

There are three questions. How much longer does a query take if its files must be verified first (as after a copy, a
restore or a remount), compared with the same query later, when the verification is stored? How many MB per second does
`mburst check` read, for a store of 1 GB in the page cache? And what do the frames of a hot log cost in appending and
reading, compared with an Arrow IPC stream of the same batches in one plain file, without checksums and syncs?
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench_bursts import bins_table, fresh_store, utilizations
from side_by_side import machine, ratio, run, spread

from mburst.sql import StoreFolder, segments, verified
from mburst.sql.format import hotlog
from mburst.sql.format.filenames import new_segment, new_writer
from mburst.sql.repair.checking import check
from mburst.sql.writer import conform

MBURST = Path(sys.executable).parent / "mburst"
BATCH = 1 << 12  # rows, as a recorder appends about ten times per second
HOT_ROWS = 1 << 21
CHECKED = 10**9  # bytes


def forgotten(store: Path) -> None:
    """Deletes the stored results of verification."""
    for ledger in store.rglob(verified.LEDGER):
        ledger.unlink()


def queries(store: Path, repeat: int) -> None:
    """Prints the table of the first question."""
    command: list[str | Path] = [MBURST, "bursts", store, "--json"]
    wall: dict[str, list[float]] = {"first": [], "later": []}
    cpu: dict[str, list[float]] = {"first": [], "later": []}
    for _ in range(repeat):
        forgotten(store)
        for name in ("first", "later"):
            cost = run(command)
            wall[name].append(cost.wall_s)
            cpu[name].append(cost.cpu_s)
    for name in wall:
        print(f"  {name:6} {spread(wall[name])} s, {spread(cpu[name])} CPU s")
    for what, costs in (("clock", wall), ("CPU", cpu)):
        print(f"  first / later by the {what}: {ratio(costs['first'], costs['later']):.2f}")
    files = list(store.rglob("*.parquet"))
    alone = [timed(verified.verify, files)[0] for _ in range(repeat)]
    print(f"  verifying alone {spread(alone, 1e3)} CPU ms, {ratio(alone, cpu['later']):.1%} of a later query's")


def checks(store: Path, repeat: int) -> None:
    """Prints the table of the second question: the sealed files are copied under the names of other writers until there
    are CHECKED bytes."""
    files = segments.list_sealed(store, "bins", segments.FileSelection()).files
    size = sum(file.path.stat().st_size for file in files)
    for _ in range(CHECKED // size):
        for file in files:
            segment = replace(file.name.segment, writer=new_writer())
            shutil.copy(file.path, file.path.with_name(replace(file.name, segment=segment).name))
    costs, found = [], check(store)
    assert found.is_sound
    for _ in range(repeat):
        costs.append(timed(check, store)[0])
    print(
        f"`mburst check` of {found.bytes / 1e6:,.0f} MB in {found.files} files: "
        f"{found.bytes / 1e6 / statistics.median(costs):,.0f} MB a CPU second"
    )


def batches() -> list[pa.Table]:
    """Returns the batches that a recorder appends."""
    chance = np.random.default_rng(2)
    return [
        conform(bins_table(start, utilizations(BATCH, 0.001, chance)), "bins", None)
        for start in range(0, HOT_ROWS, BATCH)
    ]


def append_frames(folder: Path, rows: list[pa.Table]) -> Path:
    """Appends as mburst does."""
    StoreFolder.create(folder)
    log = hotlog.HotLog(folder, "bins", new_segment("cache-1", new_writer(), 0), "r1")
    for batch in rows:
        log.append(batch)
    log.leave()
    return log.path


def append_plain(folder: Path, rows: list[pa.Table]) -> Path:
    """Writes one Arrow IPC stream, handed to the kernel batch by batch."""
    folder.mkdir()
    with (folder / "plain").open("wb", buffering=0) as file, pa.ipc.new_stream(file, rows[0].schema) as stream:
        for batch in rows:
            stream.write_table(batch)
    return folder / "plain"


def read_frames(path: Path) -> pa.Table:
    """Reads a hot log as mburst does."""
    return hotlog.read_log(path).rows


def read_plain(path: Path) -> pa.Table:
    """Reads a whole plain stream."""
    with path.open("rb") as file:
        return pa.ipc.open_stream(file.read()).read_all()


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Returns the CPU seconds of this process that a call took, and its result."""
    start = time.process_time()
    result = work(*arguments)
    return time.process_time() - start, result


def logs(folder: Path, repeat: int) -> None:
    """Prints the table of the third question."""
    rows = batches()
    cost: dict[str, list[float]] = {name: [] for name in ("framed append", "plain append", "framed read", "plain read")}
    sizes: dict[str, int] = {}
    for _ in range(repeat):
        for name, append, read in (("framed", append_frames, read_frames), ("plain", append_plain, read_plain)):
            seconds, path = timed(append, folder / name, rows)
            cost[f"{name} append"].append(seconds)
            cost[f"{name} read"].append(timed(read, path)[0])
            sizes[name] = path.stat().st_size
            shutil.rmtree(folder / name)
    for name, seconds in cost.items():
        print(f"  {name:13} {spread([each / HOT_ROWS * 1e9 for each in seconds])} CPU ns a row")
    print(f"  bytes: framed / plain {sizes['framed'] / sizes['plain']:.3f}, {sizes['framed'] / HOT_ROWS:.1f} a row")
    for what in ("append", "read"):
        print(f"  {what}: framed / plain {ratio(cost[f'framed {what}'], cost[f'plain {what}']):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bins", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(machine())
    with fresh_store(arguments.bins, 0.001) as store:
        size = sum(path.stat().st_size for path in store.path.rglob("*.parquet"))
        print(f"`mburst bursts --json` over {arguments.bins:,} bins, {size / 1e6:,.0f} MB sealed")
        queries(store.path, arguments.rounds)
        checks(store.path, arguments.rounds)
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as name:
        print(f"A hot log of {HOT_ROWS:,} bins in batches of {BATCH:,}")
        logs(Path(name), arguments.rounds)


if __name__ == "__main__":
    main()
