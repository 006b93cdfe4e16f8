#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many bins per second does `mburst compact` reduce to the bins around bursts?

Writes a day of one host: --rate bins of 1 ms in each second, without senders, and a burst of 20 ms every --every
seconds. Each round copies the store and compacts the copy. The comparison, in the same rounds: DuckDB's sums over the
five columns that any compaction must read. Both include the start of their process; elapsed and CPU seconds.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_age import COMPACT, DAY_NS, SEGMENTS, S, rows, write_recording
from side_by_side import machine, run, spread

from mburst.sql import StoreFolder

MS = 10**6
SUMS = """
import sys, duckdb
con = duckdb.connect(config={"threads": 2})
sums = "sum(ts_ns), sum(bytes), sum(wire_bytes), sum(packets), bit_or(quality)"
con.execute(f"SELECT {sums} FROM read_parquet(?)", sys.argv[1:])
"""


def fill(store: StoreFolder, rate: int, every_s: int) -> int:
    """Writes the day before today. Returns the number of its bins."""
    random = np.random.default_rng(1)
    first_ns = (time.time_ns() // DAY_NS - 1) * DAY_NS
    span = DAY_NS // SEGMENTS
    total = np.zeros(3, np.int64)
    with store.writer("bins", "h", "r1", "000000000001") as to:
        for segment in range(SEGMENTS):
            chosen = np.sort(random.choice(span // MS, rate * span // S, replace=False))
            times = first_ns + segment * span + chosen * MS
            wire = random.integers(84, 20_000, len(times))
            wire[times // MS % (every_s * 1000) < 20] = 125_000
            counts = {"bytes": wire - 20, "wire_bytes": wire, "packets": np.ones(len(times), np.uint32)}
            to.append(rows("bins", "h", ts_ns=times, **counts))
            to.roll()
            total += [len(times), int(counts["bytes"].sum()), int(wire.sum())]
    write_recording(store, "h", "000000000001", (first_ns, first_ns + DAY_NS), total, MS)
    return int(total[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=990)
    parser.add_argument("--every", type=int, default=864)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = StoreFolder.create(folder / "store")
        count = fill(store, arguments.rate, arguments.every)
        costs = {"mburst compact": [], "DuckDB's sums": []}
        for _ in range(arguments.repeat):
            copy = folder / "copy"
            shutil.copytree(store.path, copy)
            costs["mburst compact"].append(run([sys.executable, "-c", COMPACT, copy]))
            shutil.rmtree(copy)
            costs["DuckDB's sums"].append(run([sys.executable, "-c", SUMS, store.path / "bins" / "**" / "*.parquet"]))
    print(machine())
    print(f"{count:,} bins of 1 ms, a burst of 20 ms each {arguments.every} s; median and least of {arguments.repeat}")
    for what, of in costs.items():
        best = count / min(cost.wall_s for cost in of) / 1e6
        peak = max(cost.peak_bytes / 1e6 for cost in of)
        walls, cpus = spread([cost.wall_s for cost in of]), spread([cost.cpu_s for cost in of])
        print(
            f"{what:15} {walls} s by the clock, {cpus} CPU s, {peak:,.0f} MB: {best:.1f} million bins a second at best"
        )


if __name__ == "__main__":
    main()
