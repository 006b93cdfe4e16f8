"""How long does it take to investigate an hour of 100 µs bins with 3.6 M probes, and how much memory does it need?

Makes a store of one hour: a 1 Gb/s port with a packet in every bin, four incasts of 40 senders per second, 1,000 probes
per second with all stamps; then investigates it in a separate process. Prints seconds, peak resident memory and the
verdict.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "lib"))

import storelib

START = 1_800_000_000_000_000_000
BIN, LINK = 100_000, 1_000_000_000
ROOM = LINK // 8 * BIN // 10**9  # bytes of a bin
BURST_MS, SENDERS = 20, 40


def onsets(seconds: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the bin in which each burst begins: four per second, not periodically."""
    slots = np.arange(seconds * 4) * 2500
    return slots + rng.integers(100, 2000, len(slots))


def write(store: Path, seconds: int, rng: np.random.Generator) -> None:
    """Writes recordings, bins, sources and probes, a minute at a time."""
    from mburst.sql import StoreFolder

    opened = StoreFolder.create(store)
    begin = onsets(seconds, rng)
    names = {"recording_id": "r", "host": "cache", "rack": "a", "interface": "eth0", "direction": "in"}
    with opened.writer("recordings", "cache", "a") as writer:
        writer.append(recording_row(names, seconds))
    with opened.writer("bins", "cache", "a") as bins, opened.writer("sources", "cache", "a") as sources:
        for minute in range(0, seconds, 60):
            span = min(60, seconds - minute)
            mine = begin[(begin >= minute * 10_000) & (begin < (minute + span) * 10_000)]
            bins.append(bin_rows(names, minute, span, mine, rng))
            sources.append(source_rows(names, mine))
    with opened.writer("probes") as probes:
        for minute in range(0, seconds, 60):
            probes.append(probe_rows(minute, min(60, seconds - minute), begin, rng))


def constant(names: dict[str, str], n: int) -> dict[str, pa.Array]:
    return {
        key: pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), [value]) for key, value in names.items()
    }


def recording_row(names: dict[str, str], seconds: int) -> pa.Table:
    end = START + seconds * 10**9
    times = {"start_ns": START, "end_ns": end, "written_ns": end, "begun_ns": end}
    counts = {"packets": 0, "bytes": 0, "wire_bytes": 0, "unparsed": 0}
    own = {"link_bps": LINK, "bin_ns": BIN, "input": "made", "clock": "made", "writer_id": "000000000000"}
    return storelib.rows("recordings", {**names, **times, **counts, **own})


def bin_rows(
    names: dict[str, str], minute: int, span: int, begin: np.ndarray, rng: np.random.Generator
) -> pa.RecordBatch:
    n = span * 10_000
    wire = rng.integers(84, 1538, n)
    for first in begin - minute * 10_000:
        wire[first : first + BURST_MS * 10] = ROOM
    at = START + (minute * 10_000 + np.arange(n, dtype=np.int64)) * BIN
    zero = np.zeros(n, np.uint32)
    return pa.RecordBatch.from_pydict(
        {
            **constant(names, n),
            "clock_epoch": zero.astype(np.uint16),
            "ts_ns": at,
            "bytes": wire - 24,
            "wire_bytes": wire,
            "packets": (wire // 1538 + 1).astype(np.uint32),
            "ce_packets": zero,
            "retransmits": zero,
            "quality": zero.astype(np.uint16),
        }
    )


def source_rows(names: dict[str, str], begin: np.ndarray) -> pa.RecordBatch:
    ms = np.add.outer(begin // 10, np.arange(BURST_MS)).ravel()
    at = START + np.repeat(ms, SENDERS).astype(np.int64) * 1_000_000
    n = len(at)
    who = pa.DictionaryArray.from_arrays(
        pa.array(np.tile(np.arange(SENDERS, dtype=np.int32), len(ms))), [f"10.0.1.{k + 1}" for k in range(SENDERS)]
    )
    one = np.ones(n, np.uint32)
    return pa.RecordBatch.from_pydict(
        {
            **constant(names, n),
            "clock_epoch": np.zeros(n, np.uint16),
            "ts_ns": at,
            "source": who,
            "bytes": np.full(n, 3075),
            "packets": 2 * one,
            "flows": one,
            "members": one,
            "first_ns": at + 1000,
            "last_ns": at + 999_000,
        }
    )


def probe_rows(minute: int, span: int, begin: np.ndarray, rng: np.random.Generator) -> pa.RecordBatch:
    n = span * 1000
    at = np.sort(rng.uniform(minute * 1e9, (minute + span) * 1e9, n))
    last = np.maximum(np.searchsorted(begin * float(BIN), at, side="right") - 1, 0)
    wait = np.maximum(begin[last] * float(BIN) + BURST_MS * 1e6 - at, 0) * (at >= begin[last] * float(BIN))
    steps = [
        np.zeros(n),
        rng.exponential(2e3, n),
        8e3 + rng.exponential(3e3, n) + wait,
        rng.exponential(6e3, n),
        8e3 + rng.exponential(3e3, n),
        rng.exponential(5e3, n),
    ]
    times = START + (at + np.cumsum(steps, axis=0)).astype(np.int64)
    keys = ("app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns")
    words = {"batch": "b", "src": "api", "dst": "cache", "protocol": "udp", "stamp_kind": "sw"}
    return pa.RecordBatch.from_pydict(
        {**constant(words, n), "seq": np.arange(n), **dict(zip(keys, times, strict=True)), "lost": np.zeros(n, bool)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600, help="of recording (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        write(Path(folder, "store"), arguments.seconds, np.random.default_rng(1))
        print(f"made a store of {arguments.seconds} s in {time.monotonic() - began:.0f} s", file=sys.stderr)
        began = time.monotonic()
        command = [sys.executable, "-m", "mburst", "investigate", str(Path(folder, "store")), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, usage = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(done.stdout)
    print(
        f"{answer['tail']['n']:,} probes, {answer['bursts']['count']:,} bursts: {answer['cause']}; {seconds:.1f} s, "
        f"{usage.ru_utime + usage.ru_stime:.1f} CPU s, peak {usage.ru_maxrss * 1024 / 1e9:.2f} GB"
    )


if __name__ == "__main__":
    main()
