#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long does `mburst bursts` take over 100 million stored bins, compared with DuckDB summing a column of them?

Stores have bins of 10 µs at 10 Gb/s with four senders per millisecond; 0.05 %, 1 % and 5 % of the bins are at or above
half of line rate. These come in bursts of 20 bins on average with one cold bin in ten, spread evenly over the whole
recording: the worst case, because every part of every file has some. The comparison is DuckDB's `SELECT
sum(wire_bytes)` over the same files. Both run once as whole commands, including start-up and output (JSON), and once as
queries in a process that has run them before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from side_by_side import Cost, machine, ratio, rounds, run, spread

sys.path.append(str(Path(__file__).parent.parent / "tests" / "lib"))
from storelib import rows

from mburst.analysis.bursts.find import BurstDefinition, detect_bursts, listed_json
from mburst.sql import StoreFolder

BIN_NS = 10_000
FULL = 12_500  # wire bytes of a bin at 10 Gb/s
SENDERS = 4
BATCH = 1 << 16
T0 = 1_700_000_000_000_000_000
LANE = {"recording_id": "run-1", "host": "cache-1", "rack": "r1", "interface": "eth0", "direction": "in"}
MBURST = Path(sys.executable).parent / "mburst"
SUM = "SELECT sum(wire_bytes) FROM {}"


def utilizations(bins: int, hot: float, chance: np.random.Generator) -> np.ndarray:
    """Returns the wire bytes of BINS consecutive bins: a base of up to 48 % of line rate, and bursts until HOT of them
    are hot."""
    wire = chance.integers(84, int(FULL * 0.48), bins)
    lengths = chance.geometric(1 / 20, max(1, int(bins * hot / 18)))
    starts = np.sort(chance.integers(0, bins, len(lengths)))
    inside = np.repeat(starts, lengths) + np.concatenate([np.arange(length) for length in lengths])
    inside = inside[(inside < bins) & (chance.random(len(inside)) < 0.9)]
    wire[inside] = chance.integers(FULL // 2, FULL + 1, len(inside))
    return wire


def table(count: int, **columns: Any) -> pa.Table:
    """Returns columns of COUNT rows: arrays as they are, text dictionary-encoded, a number repeated."""
    made = {}
    for name, value in {**LANE, "clock_epoch": np.uint16(0), **columns}.items():
        if isinstance(value, str):
            value = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([value]))
        made[name] = np.full(count, value) if np.isscalar(value) else value
    return pa.table(made)


def bins_table(first: int, wire: np.ndarray) -> pa.Table:
    """Returns rows of `bins` from the FIRST bin on."""
    packets = (wire // 1000 + 1).astype(np.uint32)
    return table(
        len(wire),
        ts_ns=T0 + (first + np.arange(len(wire))) * BIN_NS,
        wire_bytes=wire,
        bytes=wire - 24 * packets,
        packets=packets,
        ce_packets=np.uint32(0),
        retransmits=np.uint32(0),
        quality=np.uint16(2),
    )


def sources_table(first: int, bins: int, chance: np.random.Generator) -> pa.Table:
    """Returns rows of `sources`: SENDERS in each millisecond of BINS bins."""
    count = bins * BIN_NS // 1_000_000 * SENDERS
    ts_ns = T0 + first * BIN_NS + np.arange(count) // SENDERS * 1_000_000
    names = pa.DictionaryArray.from_arrays(
        pa.array((np.arange(count) % SENDERS).astype(np.int8)), pa.array([f"10.0.0.{at}" for at in range(SENDERS)])
    )
    return table(
        count,
        ts_ns=ts_ns,
        source=names,
        bytes=chance.integers(60, 100_000, count),
        packets=np.uint32(40),
        flows=np.uint32(1),
        members=np.uint32(1),
        first_ns=ts_ns + chance.integers(0, 500_000, count),
        last_ns=ts_ns + chance.integers(500_000, 1_000_000, count),
    )


@contextmanager
def fresh_store(bins: int, hot: float) -> Iterator[StoreFolder]:
    """Yields a store of BINS bins of which the share HOT is at or above half of line rate, and removes it."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        store = StoreFolder.create(Path(folder, "store"))
        chance = np.random.default_rng(1)
        recording = {
            **LANE,
            "link_bps": 10**10,
            "bin_ns": BIN_NS,
            "start_ns": T0,
            "end_ns": T0 + bins * BIN_NS,
            "quality": 2,
        }
        host, rack = LANE["host"], LANE["rack"]
        with (
            store.writer("recordings", host, rack) as runs,
            store.writer("bins", host, rack) as writer,
            store.writer("sources", host, rack) as senders,
        ):
            runs.append(rows("recordings", recording))
            for first in range(0, bins, 10_000_000):
                count = min(10_000_000, bins - first)
                made = bins_table(first, utilizations(count, hot, chance))
                for at in range(0, count, BATCH):
                    writer.append(made.slice(at, BATCH))
                senders.append(sources_table(first, count, chance))
        yield store


def commands(store: StoreFolder, n: int) -> dict[str, list[Cost]]:
    """Returns the costs of whole commands in N rounds."""
    files = [str(path) for path in sorted(store.path.glob("bins/*/*/*.parquet"))]
    asked = f"import duckdb; print(duckdb.sql({SUM.format(f'read_parquet({files})')!r}).fetchall())"
    costs: dict[str, list[Cost]] = {}

    def measured(name: str, command: list[str | Path]) -> Callable[[], float]:
        def measure() -> float:
            costs.setdefault(name, []).append(run(command))
            return costs[name][-1].wall_s

        return measure

    rounds(
        {
            "DuckDB: sum(wire_bytes)": measured("DuckDB: sum(wire_bytes)", [sys.executable, "-c", asked]),
            "mburst bursts": measured("mburst bursts", [MBURST, "bursts", store.path, "--json"]),
            "mburst bursts --bin 100us": measured(
                "mburst bursts --bin 100us", [MBURST, "bursts", store.path, "--bin", "100us", "--json"]
            ),
        },
        n,
    )
    return costs


def queries(store: StoreFolder, n: int) -> tuple[dict[str, list[float]], int]:
    """Returns the CPU seconds of queries in one process that has run them before, in N rounds; and the number of
    bursts."""
    connection = store.connect()
    bursts = 0

    def of_cpu(ask: Callable[[], Any]) -> Callable[[], float]:
        def measure() -> float:
            start = time.process_time()
            ask()
            return time.process_time() - start

        return measure

    def find(bin_ns: int | None) -> None:
        nonlocal bursts
        detect_bursts(connection, BurstDefinition(bin_ns=bin_ns))
        found = sum(1 for _ in listed_json(connection))
        bursts = bursts if bin_ns else found

    asks = {
        "DuckDB: sum(wire_bytes)": of_cpu(lambda: connection.execute(SUM.format("bins")).fetchall()),
        "mburst bursts": of_cpu(lambda: find(None)),
        "mburst bursts --bin 100us": of_cpu(lambda: find(10 * BIN_NS)),
    }
    rounds(asks, 1)
    return rounds(asks, n), bursts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bins", type=int, default=100_000_000)
    arguments = parser.parse_args()
    print(f"bursts: {machine()}; {arguments.bins:,} bins; median (least) of {arguments.rounds} rounds")
    for hot in (0.0005, 0.01, 0.05):
        with fresh_store(arguments.bins, hot) as store:
            costs = commands(store, arguments.rounds)
            asked, bursts = queries(store, arguments.rounds)
        print(f"\n{hot:.2%} of the bins are hot, {bursts:,} bursts")
        print(f"{'':28}{'command, s':>16}{'ratio':>8}{'CPU s':>16}{'peak, MB':>10}{'query, CPU s':>18}{'ratio':>8}")
        base = "DuckDB: sum(wire_bytes)"
        for name, measured in costs.items():
            wall = [cost.wall_s for cost in measured]
            print(
                f"{name:28}{spread(wall):>16}{ratio(wall, [cost.wall_s for cost in costs[base]]):>8.1f}"
                f"{spread([cost.cpu_s for cost in measured]):>16}"
                f"{max(cost.peak_bytes for cost in measured) / 1e6:>10.0f}"
                f"{spread(asked[name]):>18}{ratio(asked[name], asked[base]):>8.1f}"
            )


if __name__ == "__main__":
    main()
