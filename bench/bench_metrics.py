"""Does the cost of a scrape of `mburst metrics` stay constant?

One writer appends to one unsealed log: a number of bins per second of the log's time, one in a hundred of them full,
and equally many rows of senders. A scrape follows each second. Prints the CPU time of a scrape (the median of ten) when
the log has N rows and ten times as many, and their ratio, which should be near 1; for comparison, also the cost of
reading the whole log again at both points.

    python bench/bench_metrics.py [--rate 10000] [--rows 200000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition
from mburst.sql import StoreFolder
from mburst.sql.tables import arrow_schema

BIN, LINK = 100_000, 10**9
FULL = LINK // 80_000  # wire bytes of a full bin
NAMES = {"recording_id": "r", "host": "h", "rack": "k", "interface": "eth0", "direction": "in"}
ROW = {**NAMES, "link_bps": LINK, "bin_ns": BIN, "source_bin_ns": 10 * BIN, "complete": False}


def filled(table: str, rows: int, **columns: object) -> pa.RecordBatch:
    """Returns a batch in which every column that is not given is 0 or ''."""
    arrays = []
    for field in arrow_schema(table):
        value = columns.get(field.name, "" if pa.types.is_string(field.type) else 0)
        arrays.append(pa.array(value if isinstance(value, np.ndarray) else [value] * rows).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table))


class Recording:
    """A recorder, as the store sees it."""

    def __init__(self, store: StoreFolder, rate: int, start_ns: int) -> None:
        self.rate, self.at_ns, self.rows = rate, start_ns, 0
        self.writers = {table: store.writer(table, "h", "k") for table in ("recordings", "bins", "sources")}
        self.writers["recordings"].append(filled("recordings", 1, **ROW, start_ns=start_ns))
        self.rng = np.random.default_rng(1)

    def second(self) -> None:
        """Appends a second of rows."""
        wire = self.rng.integers(84, FULL // 5, self.rate)
        wire[::100] = FULL
        times = self.at_ns + np.arange(self.rate) * BIN
        self.writers["bins"].append(
            filled("bins", self.rate, **NAMES, ts_ns=times, wire_bytes=wire, bytes=wire, packets=1)
        )
        self.writers["sources"].append(
            filled(
                "sources",
                self.rate,
                **NAMES,
                ts_ns=times // (10 * BIN) * (10 * BIN),
                source="10.0.0.1",
                members=1,
                bytes=wire,
                first_ns=times,
                last_ns=times,
            )
        )
        self.at_ns += self.rate * BIN
        self.rows += 2 * self.rate


def cpu_of_a_scrape(meter: Meter, recording: Recording) -> float:
    """Returns seconds, the median of ten, each after a second of rows."""
    taken = []
    for _ in range(10):
        recording.second()
        before = time.process_time()
        meter.advance("prometheus")
        taken.append(time.process_time() - before)
    return statistics.median(taken)


def cpu_of_reading_again(store: StoreFolder, since_ns: int) -> float:
    """Returns seconds for a meter that begins at that time."""
    before = time.process_time()
    Meter(store, BurstDefinition(), since_ns).close()
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000, help="bins a second")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the log at the first point")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, start_ns = StoreFolder.create(Path(folder) / "store"), time.time_ns()
        meter, recording = Meter(store, BurstDefinition(), start_ns), Recording(store, options.rate, start_ns)
        found = []
        for rows in (options.rows, 10 * options.rows):
            while recording.rows < rows:
                recording.second()
                meter.take()
            found.append((recording.rows, cpu_of_a_scrape(meter, recording), cpu_of_reading_again(store, start_ns)))
        for rows, scrape, again in found:
            print(
                f"{rows:>10,} rows: a scrape {1000 * scrape:6.1f} ms, all of it again {1000 * again:8.1f} ms of CPU; "
                f"{meter.kept_rows:,} rows kept"
            )
        (_, first, again), (_, second, again_later) = found
        print(f"ten times the rows: a scrape x {second / first:.2f}, all of it again x {again_later / again:.2f}")
        for writer in recording.writers.values():
            writer.close()


if __name__ == "__main__":
    main()
