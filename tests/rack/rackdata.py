"""An independent reading of a rack's files in numpy: nothing here comes from the code that mburst ships."""

from __future__ import annotations

import csv
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RECORD = struct.Struct("<IIII")


@dataclass(frozen=True)
class Frames:
    """Frames of an Ethernet capture in the order of their stamps; IPv4 fields are 0 in other frames."""

    ts_ns: np.ndarray
    length: np.ndarray
    source: np.ndarray  # IPv4 address as an integer
    seq: np.ndarray  # TCP sequence number
    payload: np.ndarray  # TCP or UDP payload bytes


def read_pcap(path: Path) -> Frames:
    data = path.read_bytes()
    assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D, "a nanosecond pcap of this byte order"
    rows, offset = [], 24
    while offset < len(data):
        seconds, nanoseconds, kept, length = RECORD.unpack_from(data, offset)
        frame = data[offset + 16:offset + 16 + kept]
        offset += 16 + kept
        row = [seconds * 10**9 + nanoseconds, length, 0, 0, 0]
        if frame[12:14] == b"\x08\x00":
            ip_bytes, protocol = struct.unpack_from(">H", frame, 16)[0], frame[23]
            row[2] = struct.unpack_from(">I", frame, 26)[0]
            row[3] = struct.unpack_from(">I", frame, 38)[0] if protocol == 6 else 0
            row[4] = ip_bytes - 20 - (8 if protocol == 17 else (frame[46] >> 4) * 4)
        rows.append(row)
    rows.sort(key=lambda row: row[0])
    return Frames(*np.array(rows, np.int64).T)


def address(text: str) -> int:
    return int.from_bytes(bytes(map(int, text.split("."))), "big")


def utilization(frames: Frames, bin_ns: int, link_bps: int) -> tuple[int, np.ndarray]:
    """(start of the first bin, share of line rate in each bin) over the capture."""
    place = frames.ts_ns // bin_ns
    wire = np.maximum(frames.length, 60) + 24
    share = np.bincount(place - place[0], weights=wire) * 8e9 / (bin_ns * link_bps)
    return int(place[0]) * bin_ns, share


def bursts(frames: Frames, link_bps: int, threshold: float = 0.5) -> list[tuple[int, int]]:
    """(start, end) in ns of runs of 1 ms bins at or above the threshold, joined over 5 ms, of 3 ms or more."""
    ms = 1_000_000
    start, share = utilization(frames, ms, link_bps)
    found: list[list[int]] = []
    for place in np.flatnonzero(share >= threshold):
        if found and place - found[-1][1] <= 5:
            found[-1][1] = int(place) + 1
        else:
            found.append([int(place), int(place) + 1])
    return [(start + a * ms, start + b * ms) for a, b in found if b - a >= 3]


def read_columns(path: Path, *names: str) -> list[np.ndarray]:
    """Columns of a CSV file as integers; empty is -1."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return [np.array([int(row[name] or -1) for row in rows], np.int64) for name in names]


def one_way(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(departure, delay to the other host) in ns of the probes that arrived, by kernel stamps of one clock."""
    tx_ns, remote_rx_ns, lost = read_columns(path, "tx_ns", "remote_rx_ns", "lost")
    arrived = (lost == 0) & (remote_rx_ns > 0)
    return tx_ns[arrived], (remote_rx_ns - tx_ns)[arrived]
