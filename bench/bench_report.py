"""How long do the reports of many racks take, and how much memory do they need?

A day of bins is what the store keeps of a host's day at 1 ms: the bins that had a packet. Here that is one in a hundred
(10 per second at random: probes, requests, heartbeats), and all bins of about 220 bursts of 2 to 30 ms from 8 to 40
senders: 0.87 million rows for each host. Then a single process writes the report of every rack over that day. The aim
is 50 racks of 20 hosts in less than 5 minutes and 2 GB. Prints seconds and the largest resident size.

    python bench/bench_report.py [--racks 3] [--hosts 20] [--rate 10] [--bursts 200] [--days 1] [--keep DIR]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "lib"))

import storelib

from mburst.sql import StoreFolder

DAY_NS = 86_400 * 10**9
START = 1_795_132_800 * 10**9  # 2026-11-20, midnight
BIN, LINK = 10**6, 10**9
FULL = LINK // 8000  # wire bytes of a full bin
SENDERS = [f"10.{i // 250}.{i % 250}.1" for i in range(400)]
HOUR_WEIGHTS = np.array([1, 1, 1, 1, 1, 2, 3, 6, 9, 10, 10, 8, 7, 9, 10, 10, 8, 6, 5, 4, 3, 2, 1, 1], dtype=float)


def text(value: str, n: int) -> pa.Array:
    """Returns a column with the same text in each row."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int16()), n), pa.array([value]))


def bursts_of(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first bins of a day's bursts and their lengths in bins; they are much further apart than `join`."""
    hours = rng.choice(24, count, p=HOUR_WEIGHTS / HOUR_WEIGHTS.sum())
    first = np.unique(hours * 3_600_000 + rng.integers(0, 35_000, count) * 100)
    return first, rng.integers(2, 30, len(first))


def without(bins: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns BINS of a day, sorted and without duplicates, except OTHERS: np.setdiff1d, in a sixth of its time."""
    chosen = np.zeros(DAY_NS // BIN, bool)
    chosen[bins] = True
    chosen[others] = False
    return np.flatnonzero(chosen)


def fill_host(store: StoreFolder, rack: str, host: str, day: int, options: argparse.Namespace, seed: int) -> int:
    """Writes a day of one host. Returns the number of its bins."""
    rng = np.random.default_rng(seed)
    first, length = bursts_of(rng, int(options.bursts * rng.uniform(0.2, 2)))
    bins, wire = bins_of(rng, first, length, options.rate)
    start = START + day * DAY_NS
    names = {"host": host, "rack": rack}
    column = {"recording_id": f"{rack}-{host}-{day}", **names, "interface": "eth0", "direction": "in"}
    for table, rows in (
        ("recordings", recording_row(column, start, wire)),
        ("bins", bin_rows(column, start, bins, wire)),
        ("sources", source_rows(rng, column, start, first, length)),
    ):
        with store.writer(table, **names) as writer:
            writer.append(rows)
    return len(bins)


def bins_of(
    rng: np.random.Generator, first: np.ndarray, length: np.ndarray, rate: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bins of a day that have packets, in order, and their wire bytes."""
    hot = np.repeat(first, length) + np.concatenate([np.arange(n) for n in length])
    quiet = without(rng.integers(0, DAY_NS // BIN, rate * 86_400), hot)
    bins = np.concatenate([hot, quiet])
    wire = np.concatenate([rng.integers(int(FULL * 0.9), FULL, len(hot)), rng.integers(84, FULL // 5, len(quiet))])
    order = np.argsort(bins)
    return bins[order], wire[order]


def recording_row(column: dict[str, str], start: int, wire: np.ndarray) -> pa.Table:
    """Returns the row of a recording with bins of WIRE bytes."""
    own = {
        "link_bps": LINK,
        "bin_ns": BIN,
        "source_bin_ns": BIN,
        "backend": "afpacket",
        "input": "eth0",
        "snaplen": 128,
        "clock": "kernel, ns",
        "start_ns": start,
        "end_ns": start + DAY_NS - 1,
        "packets": len(wire),
        "bytes": int(wire.sum()) - 24 * len(wire),
        "wire_bytes": int(wire.sum()),
        "unparsed": 0,
        "quality": 2,
        "version": "bench",
        "written_ns": start + DAY_NS,
        "begun_ns": start,
        "writer_id": "000000000000",
    }
    return storelib.rows("recordings", {**column, "capture_id": column["recording_id"], **own})


def bin_rows(column: dict[str, str], start: int, bins: np.ndarray, wire: np.ndarray) -> pa.Table:
    """Returns a row for each bin, with one packet."""
    n = len(bins)
    return pa.table(
        {
            **{name: text(value, n) for name, value in column.items()},
            "clock_epoch": np.zeros(n, np.uint16),
            "ts_ns": start + bins * BIN,
            "bytes": wire - 24,
            "wire_bytes": wire,
            "packets": np.ones(n, np.uint32),
            "ce_packets": np.zeros(n, np.uint32),
            "retransmits": np.zeros(n, np.uint32),
            "quality": np.full(n, 2, np.uint16),
        }
    )


def source_rows(
    rng: np.random.Generator, column: dict[str, str], start: int, first: np.ndarray, length: np.ndarray
) -> pa.Table:
    """Returns the senders of each burst once, in the source bin of its first bin: enough for fan-in and bytes."""
    fan = rng.integers(8, 40, len(first))
    who = np.concatenate([rng.choice(len(SENDERS), n, replace=False) for n in fan]) if len(fan) else np.zeros(0, int)
    at = start + np.repeat(first, fan) * BIN
    m = len(who)
    return pa.table(
        {
            **{name: text(value, m) for name, value in column.items()},
            "clock_epoch": np.zeros(m, np.uint16),
            "ts_ns": at,
            "source": pa.DictionaryArray.from_arrays(pa.array(who, pa.int16()), pa.array(SENDERS)),
            "bytes": np.repeat(length * FULL // fan, fan),
            "packets": np.ones(m, np.uint32),
            "flows": np.ones(m, np.uint32),
            "members": np.ones(m, np.uint32),
            "first_ns": at + 10,
            "last_ns": at + BIN - 1,
        }
    )


def measured(store: Path, days: int, output: Path) -> tuple[float, float, float, int]:
    """Returns the elapsed and CPU seconds, resident GB and files of `mburst report` over the last day, in a separate
    process."""
    day = datetime.fromtimestamp((START + (days - 1) * DAY_NS) // 10**9, UTC)
    begun = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "mburst",
        "report",
        str(store),
        "--all-racks",
        "--since",
        f"{day:%Y-%m-%d}",
        "--until",
        f"{day:%Y-%m-%d}T23:59:59.999999999",
        "-o",
        str(output),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, len(list(output.glob("*.html"))) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--racks", type=int, default=3, help="each costs the same (default: %(default)s)")
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10, help="non-empty bins of 1 ms a second and host")
    parser.add_argument("--bursts", type=int, default=200, help="a day and host, about")
    parser.add_argument("--days", type=int, default=1, help="2 has something to compare with")
    parser.add_argument("--keep", type=Path, help="make or take the store there, and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        root = options.keep or Path(folder)
        if not (root / "store").exists():
            store, bins, begun = StoreFolder.create(root / "store"), 0, time.perf_counter()
            for day in range(options.days):
                for rack in range(options.racks):
                    for host in range(options.hosts):
                        seed = hash((rack, host, day)) % 2**32
                        bins += fill_host(store, f"r{rack:02}", f"h{host:02}", day, options, seed)
            print(f"store: {bins:,} bins in {time.perf_counter() - begun:.0f} s")
        took, cpu, memory, files = measured(root / "store", options.days, root / "reports")
        load = os.getloadavg()[0]
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, {datetime.now(UTC):%Y-%m-%d}: "
            f"{files} reports in {took:.1f} s, {cpu:.1f} s of CPU, {memory:.2f} GB resident at most"
        )


if __name__ == "__main__":
    main()
