#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a seeded capture of a busy link: bench/make_capture.py OUT.pcap [--packets 10M] [--rate 10G] [--snaplen 96].

About 1,000 senders (Zipf shares) have several UDP and TCP flows each, IPv4 and one in sixteen IPv6. Frames have the
usual three sizes of an internet mix, in trains of about 16 packets of a flow, on and off in bursts of 0.1 to 3 ms; 1 in
200 packets is CE-marked, 1 in 500 TCP segments is sent again. Stamps are in nanoseconds and never go back. The same
arguments give the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

HEADER = 16
CHUNK = 1 << 18
FIRST_NS = 1_700_000_000 * 10**9
SIZES = np.array([66, 590, 1514], dtype=np.uint32)
SHARES = np.array([0.12, 0.10, 0.78])
FLOWS_A_SOURCE = 8

Rows = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Flows:
    """One row for each flow; all values that are the same in its packets."""

    template: Rows  # the first 54 (IPv4) or 74 (IPv6) bytes of a frame
    is_ipv6: npt.NDArray[np.bool_]
    is_tcp: npt.NDArray[np.bool_]
    share: npt.NDArray[np.float64]


def make_flows(random: np.random.Generator, sources: int) -> Flows:
    count = sources * FLOWS_A_SOURCE
    source = np.repeat(np.arange(sources), FLOWS_A_SOURCE)
    is_ipv6 = source % 16 == 15
    is_tcp = random.random(count) < 0.7
    template = np.zeros((count, 80), dtype=np.uint8)
    template[:, 0:6] = [0x02, 0xFF, 0, 0, 0, 0x01]
    template[:, 6] = 0x02
    put(template, 8, source, 4)
    protocol = np.where(is_tcp, 6, 17)
    ports = np.column_stack([random.integers(1024, 65536, count), np.where(is_tcp, 443, 4789 + source % 7)])

    v4 = ~is_ipv6
    template[v4, 12:15] = [0x08, 0x00, 0x45]
    template[v4, 22] = 64
    template[v4, 23] = protocol[v4]
    put(template, 26, np.where(v4, 0x0A000000 + source, 0), 4)
    put(template, 30, np.where(v4, 0x0AFF0001, 0), 4)
    template[is_ipv6, 12:15] = [0x86, 0xDD, 0x60]
    template[is_ipv6, 20] = protocol[is_ipv6]
    template[is_ipv6, 21] = 64
    template[np.ix_(is_ipv6, range(22, 54))] = np.frombuffer(
        bytes.fromhex("20010db800000000000000000000000020010db8000000000000000000000001"), dtype=np.uint8
    )
    template[is_ipv6, 36] = source[is_ipv6] >> 8
    template[is_ipv6, 37] = source[is_ipv6] & 0xFF
    for rows, at in ((v4, 34), (is_ipv6, 54)):
        part = template[rows]
        put(part, at, ports[rows, 0], 2)
        put(part, at + 2, ports[rows, 1], 2)
        part[:, at + 12] = np.where(is_tcp[rows], 0x50, 0)
        part[:, at + 13] = np.where(is_tcp[rows], 0x10, 0)
        template[rows] = part
    weight = 1.0 / np.arange(1, sources + 1) ** 0.8
    share = np.repeat(random.permutation(weight), FLOWS_A_SOURCE)
    return Flows(template, is_ipv6, is_tcp, share / share.sum())


def put(rows: Rows, at: int, values: npt.NDArray[np.integer], width: int) -> None:
    """Stores VALUES big-endian in WIDTH bytes at column AT."""
    wide = values.astype(">u8").view(np.uint8).reshape(-1, 8)
    rows[:, at : at + width] = wide[:, 8 - width :]


def arrivals(random: np.random.Generator, sizes: npt.NDArray[np.uint32], rate: float) -> npt.NDArray[np.float64]:
    """Returns gaps in ns before each frame: back to back at twice the mean rate in a burst, spread out between
    bursts."""
    wire_ns = (np.maximum(sizes, 60) + 24) * 8e9 / rate
    lengths = random.integers(64, 4096, len(sizes) // 64 + 2)
    state = np.repeat(np.arange(len(lengths)) % 2, lengths)[: len(sizes)]
    gap = np.where(state == 0, wire_ns * 0.5, wire_ns * 1.5 * random.exponential(1.0, len(sizes)))
    return gap


def trains(
    random: np.random.Generator, choices: int, share: npt.NDArray[np.float64], count: int, mean: float
) -> npt.NDArray[np.int64]:
    """Returns COUNT choices by SHARE in runs of equal ones, geometric with MEAN: the segments of a sender leave it, and
    mostly arrive, one after the other. MEAN 1 interleaves at random, which is the worst case for any cache."""
    lengths = random.geometric(1 / mean, size=int(2 * count / mean) + 64)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), count)) + 1]
    return np.repeat(random.choice(choices, size=len(lengths), p=share), lengths)[:count]


def chunks(packets: int, rate: float, snaplen: int, sources: int, seed: int, train: float) -> Iterator[bytes]:
    random = np.random.default_rng(seed)
    flows = make_flows(random, sources)
    sequence = random.integers(0, 2**32, len(flows.share), dtype=np.uint64)
    now = 0.0
    for first in range(0, packets, CHUNK):
        count = min(CHUNK, packets - first)
        flow = trains(random, len(flows.share), flows.share, count, train)
        sizes = SIZES[trains(random, len(SIZES), SHARES, count, train)]
        sizes = np.where(flows.is_ipv6[flow], np.maximum(sizes, 86), sizes).astype(np.uint32)
        times = now + np.cumsum(arrivals(random, sizes, rate))
        now = float(times[-1])
        yield records(random, flows, flow, sizes, FIRST_NS + times.astype(np.int64), sequence, snaplen)


def records(
    random: np.random.Generator,
    flows: Flows,
    flow: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.uint32],
    ts_ns: npt.NDArray[np.int64],
    sequence: npt.NDArray[np.uint64],
    snaplen: int,
) -> bytes:
    """Returns the pcap records of one chunk; updates SEQUENCE, the next sequence number of each flow."""
    count = len(flow)
    caplen = np.minimum(sizes, snaplen).astype(np.uint32)
    frame = np.zeros((count, max(snaplen, 80)), dtype=np.uint8)
    frame[:, :80] = flows.template[flow]
    is_ipv6, is_tcp = flows.is_ipv6[flow], flows.is_tcp[flow]
    marked = random.random(count) < 1 / 200
    frame[~is_ipv6, 15] = np.where(marked[~is_ipv6], 3, 2)
    frame[is_ipv6, 15] = np.where(marked[is_ipv6], 0x30, 0x20)
    network = np.where(is_ipv6, 54, 34)
    payload = sizes - network - np.where(is_tcp, 20, 8)
    seq = sequence_numbers(random, flow, np.where(is_tcp, payload, 0), sequence)
    for rows, at in ((~is_ipv6, 34), (is_ipv6, 54)):
        part = frame[rows]
        length = sizes[rows] - (14 if at == 34 else 54)
        put(part, 16 if at == 34 else 18, length, 2)
        udp = ~is_tcp[rows]
        put(part, at + 4, np.where(udp, (sizes[rows] - at).astype(np.uint64) << 16, seq[rows]), 4)
        frame[rows] = part

    record = np.empty((count, HEADER + snaplen), dtype=np.uint8)
    header = np.column_stack([ts_ns // 10**9, ts_ns % 10**9, caplen, sizes]).astype("<u4")
    record[:, :HEADER] = header.view(np.uint8).reshape(count, HEADER)
    record[:, HEADER:] = frame[:, :snaplen]
    kept = np.arange(HEADER + snaplen) < (HEADER + caplen)[:, None]
    return record[kept].tobytes()


def sequence_numbers(
    random: np.random.Generator,
    flow: npt.NDArray[np.int64],
    payload: npt.NDArray[np.integer],
    sequence: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """Returns the running sequence number of each packet's flow; a segment in 500 repeats the previous one."""
    again = random.random(len(flow)) < 1 / 500
    advance = np.where(again, 0, payload).astype(np.uint64)
    order = np.argsort(flow, kind="stable")
    total = np.cumsum(advance[order])
    flow_sorted = flow[order]
    start = np.flatnonzero(np.r_[True, flow_sorted[1:] != flow_sorted[:-1]])
    before = np.r_[np.uint64(0), total[start[1:] - 1]]
    base = np.repeat(before, np.diff(np.r_[start, len(flow)]))
    inside = total - advance[order] - base
    repeated = np.where(again[order], payload[order], 0).astype(np.uint64)
    result = np.empty(len(flow), dtype=np.uint64)
    result[order] = (sequence[flow_sorted] + inside - repeated) & np.uint64(0xFFFFFFFF)
    np.add.at(sequence, flow, advance)
    return result


def scaled(text: str) -> int:
    """10M -> 10,000,000."""
    factor = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}.get(text[-1:], 1)
    return int(float(text.rstrip("kKMG")) * factor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--packets", type=scaled, default=10_000_000)
    parser.add_argument("--rate", type=scaled, default=10**10, help="mean rate on the wire in bit/s (10G)")
    parser.add_argument("--snaplen", type=int, default=96)
    parser.add_argument("--sources", type=int, default=1000)
    parser.add_argument("--train", type=float, default=16, help="mean length of a run of one flow (16)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    head = np.array([0xA1B23C4D, 4 << 16 | 2, 0, 0, arguments.snaplen, 1], dtype="<u4").tobytes()
    with arguments.out.open("wb") as out:
        out.write(head)
        for chunk in chunks(
            arguments.packets,
            float(arguments.rate),
            arguments.snaplen,
            arguments.sources,
            arguments.seed,
            arguments.train,
        ):
            out.write(chunk)


if __name__ == "__main__":
    main()
