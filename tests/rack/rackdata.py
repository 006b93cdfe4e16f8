"""Reads a rack's files into numpy without any rule of mburst (bursts, latency, windows). The capture is tcpdump's;
probes and queue depths were measured by mburst's own verbs, and are compared with it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mburst.lab.rack import RecordedExperiment

RECORD = struct.Struct("<IIII")
BY_GNMI, BY_OTLP = "max-since-last", "gauge"  # of depths: on change, and each millisecond


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
        frame = data[offset + 16 : offset + 16 + kept]
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
    """Returns (start of the first bin, share of line rate in each bin) over the capture."""
    place = frames.ts_ns // bin_ns
    wire = np.maximum(frames.length, 60) + 24
    share = np.bincount(place - place[0], weights=wire) * 8e9 / (bin_ns * link_bps)
    return int(place[0]) * bin_ns, share


def bursts(frames: Frames, link_bps: int, threshold: float = 0.5) -> list[tuple[int, int]]:
    """Returns (start, end) in ns of runs of 1 ms bins at or above the threshold, joined over 5 ms, that last 3 ms or
    more."""
    ms = 1_000_000
    start, share = utilization(frames, ms, link_bps)
    found: list[list[int]] = []
    for place in np.flatnonzero(share >= threshold):
        if found and place - found[-1][1] <= 5:
            found[-1][1] = int(place) + 1
        else:
            found.append([int(place), int(place) + 1])
    return [(start + a * ms, start + b * ms) for a, b in found if b - a >= 3]


def stored(store: Path, table: str) -> pa.Table:
    """Returns the rows of a store in which all is sealed, directly from its Parquet files."""
    assert not list((store / "hot" / table).glob("*")), "a writer has not ended"
    return pa.concat_tables(pq.ParquetFile(file).read() for file in sorted((store / table).rglob("*.parquet")))


def columns_of(rows: pa.Table, *names: str) -> list[np.ndarray]:
    """Returns columns as integers; NULL is -1."""
    return [rows.column(name).cast(pa.int64()).fill_null(-1).to_numpy() for name in names]


@dataclass(frozen=True)
class Probes:
    """The probes of a recorded experiment, by kind: to the cache server while rounds ran, to the cache server before
    the rounds, and to its second interface while they ran."""

    busy: pa.Table
    quiet: pa.Table
    second: pa.Table


def probes_of(recording: RecordedExperiment) -> Probes:
    rows = stored(recording.store, "probes").sort_by("tx_ns")
    begin, end = recording.rounds[0].t_req_ns, recording.rounds[-1].t_last_ns
    tx_ns, dst = rows.column("tx_ns").to_numpy(), np.array(rows.column("dst").to_pylist())
    during = (tx_ns >= begin) & (tx_ns < end)
    before = (tx_ns >= recording.quiet_from_ns) & (tx_ns < begin)
    return Probes(*(rows.filter(pa.array(which)) for which in (
        (dst == "cache") & during, (dst == "cache") & before, (dst == "cache-nic2") & during)))  # fmt: skip


def depths_of(store: Path, device: str = "tor", semantics: str = BY_GNMI) -> list[np.ndarray]:
    """Returns (start, end, largest depth) of each window in which the depth of a queue was reported, by time."""
    rows = stored(store, "queues").sort_by("ts_ns")
    found = columns_of(rows, "window_start_ns", "ts_ns", "max_bytes")
    chosen = found[2] >= 0
    for name, wanted in (("device", device), ("semantics", semantics)):
        chosen &= np.array(rows.column(name).to_pylist()) == wanted
    return [column[chosen] for column in found]


def one_way(probes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns (departure, delay to the other host) in ns of the probes that arrived, by kernel stamps of one clock."""
    tx_ns, remote_rx_ns, lost = columns_of(probes, "tx_ns", "remote_rx_ns", "lost")
    arrived = (lost == 0) & (remote_rx_ns > 0)
    return tx_ns[arrived], (remote_rx_ns - tx_ns)[arrived]
