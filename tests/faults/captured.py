"""A capture file for tests of faults: it has many senders, so that recording it takes a while."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PACKETS = 200_000
SENDERS = 200
HEADER = 16  # bytes before a packet: libpcap's format, in nanoseconds
CAPTURED = 64


def write_capture(path: Path, packets: int = PACKETS, seed: int = 1) -> Path:
    """Writes PACKETS frames of 60 to 1,514 bytes over two minutes, from random SENDERS."""
    random = np.random.default_rng(seed)
    at_ns = np.sort(random.integers(0, 120 * 10**9, packets)) + 1_700_000_000 * 10**9
    record = np.zeros((packets, HEADER + CAPTURED), np.uint8)
    words = record[:, :HEADER].view("<u4")
    words[:, 0], words[:, 1] = at_ns // 10**9, at_ns % 10**9
    words[:, 2], words[:, 3] = CAPTURED, random.integers(CAPTURED, 1515, packets)
    record[:, HEADER : HEADER + 6] = [2, 0, 0, 0, 0, 0xFF]
    record[:, HEADER + 6] = 2
    record[:, HEADER + 11] = random.integers(0, SENDERS, packets)
    record[:, HEADER + 12 : HEADER + 14] = [0x88, 0xB5]
    header = np.array([0xA1B23C4D, 0x00040002, 0, 0, 65535, 1], "<u4").tobytes()
    path.write_bytes(header + record.tobytes())
    return path
