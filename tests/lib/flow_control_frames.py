"""Frames made by scapy that ask senders to slow down or stop, and stores that `mburst record` makes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.contrib.roce import cnp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mburst.__main__ import main

START_NS = 1_700_000_000 * 10**9
BIN_NS = 100_000
HERE, THERE = "02:00:00:00:00:02", "02:00:00:00:00:01"
CONTROL = Ether(src=HERE, dst="01:80:c2:00:00:01", type=0x8808)
PACKET = Ether(src=HERE, dst=THERE) / IP(src="10.0.0.2", dst="10.0.0.1")


def pause(quanta: int) -> Packet:
    return CONTROL / MACControlPause(pause_time=quanta)


def by_class(times: dict[int, int]) -> Packet:
    """Returns a pause frame of PFC: quanta by class."""
    fields = {f"c{i}_enabled": 1 for i in times} | {f"c{i}_pause_time": time for i, time in times.items()}
    return CONTROL / MACControlClassBasedFlowControl(**fields)


def notification() -> Packet:
    return PACKET / UDP(sport=49152, dport=4791) / cnp(dqpn=7)


def plain(size: int = 100) -> Packet:
    return PACKET / UDP(sport=9, dport=9) / Raw(bytes(size))


def captured(path: Path, frames: Iterable[tuple[int, bytes, int]]) -> Path:
    """Writes a capture of (ns, captured bytes, length of the frame)."""
    records = (
        struct.pack("<IIII", *divmod(at, 10**9), len(kept), length) + kept
        for at, kept, length in sorted(frames, key=lambda frame: frame[0])
    )
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1) + b"".join(records))
    return path


def record(folder: Path, frames: Iterable[tuple[int, Packet]], side: str = "in", link: str | None = "10G") -> Path:
    """Records a store of frames, each some bins after START_NS, that were received by this host or sent by it."""
    folder.mkdir(exist_ok=True)
    found = [(START_NS + at * BIN_NS, bytes(one), len(one)) for at, one in frames]
    path = captured(folder / f"{side}.pcap", found)
    speed = ["--link", link] if link else []
    names = ["--host", "cache", "--rack", "r1", "--interface", "eth0", "--local", HERE if side == "out" else THERE]
    assert main(["record", str(path), "-o", str(folder / "store"), *names, *speed]) == 0
    return folder / "store"
