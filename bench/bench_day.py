#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much disk space does a day of traffic take, as recorded and after `mburst compact`?

Generates --seconds of frames of 1,030 bytes from 200 senders at random times, 50 Mb/s in total on a link of 1 Gb/s, and
for 1 % of the time bursts of 40 of them at 90 % of the link; records them with each choice of bins and senders,
compacts, and prints the bytes scaled to a day. Random times are hard: most packets have a bin of their own.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from side_by_side import machine

MBURST = Path(sys.executable).parent / "mburst"
S, DAY_S = 10**9, 86_400
FRAME, LINK, LOAD, CAPTURED = 1030, 10**9, 50 * 10**6, 60
SHAPES = {"none": None, "1 s each 100 s": (1.0, 100.0), "5 ms each 500 ms": (0.005, 0.5)}
CHOICES = {  # options of record, and the threshold of compact
    "all": (["--sources", "all"], "25%"),
    "busy": (["--sources", "busy"], "25%"),
    "busy, above 50 %": (["--sources", "busy", "--sources-above", "50%"], "50%"),
    "bins of 1 ms, busy, above 25 %": (["--bin", "1ms", "--sources", "busy", "--sources-above", "25%"], "25%"),
}
COMPACT = """
import sys, time
from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import KeepRules
from mburst.units import NS_PER_DAY
from mburst.units import parse_fraction
rules = KeepRules(threshold=parse_fraction(sys.argv[2]))
compact(StoreFolder.open(sys.argv[1]), rules, now_ns=time.time_ns() + 3 * NS_PER_DAY)
"""


def make_capture(path: Path, seconds: int, shape: tuple[float, float] | None) -> None:
    """Writes frames of SECONDS; SHAPE: how long a burst is, and how often there is one, in seconds."""
    random = np.random.default_rng(1)
    start_ns = (int(time.time()) // DAY_S - 3) * DAY_S * S + DAY_S // 2 * S
    count = LOAD * seconds // 8 // FRAME
    times, senders = [random.integers(0, seconds * S, count)], [random.integers(0, 200, count)]
    gap_ns = round((FRAME + 24) * 8 * S / (0.9 * LINK))
    for number in range(round(seconds / shape[1]) if shape else 0):
        assert shape
        of_burst = np.arange(int(shape[0] * S) // gap_ns) * gap_ns
        times.append(round((number + 0.5) * shape[1] * S) + of_burst)
        senders.append(random.integers(0, 40, len(of_burst)))
    order = np.argsort(np.concatenate(times), kind="stable")
    stamps, who = start_ns + np.concatenate(times)[order], np.concatenate(senders)[order]
    frames = np.zeros(
        len(order), [("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4"), ("bytes", "u1", CAPTURED)]
    )
    frames["s"], frames["ns"], frames["captured"], frames["length"] = stamps // S, stamps % S, CAPTURED, FRAME
    ip = struct.pack(">BBHIBBHII", 0x45, 0, FRAME - 14, 0, 64, 17, 0, 0x0A000000, 0x0AFF0001)
    frame = bytes.fromhex("0200000000010200000000020800") + ip + struct.pack(">HHHH", 1024, 443, FRAME - 34, 0)
    frames["bytes"][:, : len(frame)] = np.frombuffer(frame, np.uint8)
    frames["bytes"][:, 28], frames["bytes"][:, 29] = who >> 8, who & 255
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1) + frames.tobytes())


def megabytes(store: Path, table: str, seconds: int) -> str:
    """Returns the size of the sealed files of TABLE ("*": of all) for a day."""
    size = sum(path.stat().st_size for path in store.glob(f"{table}/date=*/*/*.parquet"))
    return f"{size * DAY_S / seconds / 1e6:10,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    given = parser.parse_args()
    print(f"{machine()}\n\nMB a day:\n{'bursts':18} {'senders':32} {'bins':>10} {'sources':>10} {'compacted':>10}")
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        for shape, of in SHAPES.items():
            capture = Path(folder) / "capture.pcap"
            make_capture(capture, given.seconds, of)
            for number, (choice, (options, threshold)) in enumerate(CHOICES.items()):
                store = Path(folder) / f"{shape} {number}"
                names = ["--link", "1G", "--host", "h1", "--rack", "r1"]
                record = [MBURST, "record", capture, "-o", store, *names, *options]
                subprocess.run(record, check=True, capture_output=True)
                recorded = [megabytes(store, table, given.seconds) for table in ("bins", "sources")]
                subprocess.run([sys.executable, "-c", COMPACT, store, threshold], check=True, capture_output=True)
                print(f"{shape:18} {choice:32}", *recorded, megabytes(store, "*", given.seconds), flush=True)


if __name__ == "__main__":
    main()
