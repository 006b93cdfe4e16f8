"""Frames and capture files for tests, made independently of the engine."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

START_NS = 1_700_000_000_000_000_000
LOCAL_MAC = bytes.fromhex("02000000ffff")


def mac(number: int) -> bytes:
    return bytes([2, 0, 0, 0, number >> 8 & 255, number & 255])


@dataclass(frozen=True)
class Frame:
    """An Ethernet frame of IPv4 and UDP or TCP, sent by sender number `sender`, `size` bytes long."""

    ts_ns: int
    sender: int
    size: int
    flow: int = 0
    ce: bool = False
    sequence: int | None = None  # TCP if set
    outgoing: bool = False

    @property
    def source(self) -> str:
        return "192.0.2.1" if self.outgoing else f"10.0.{self.sender >> 8}.{self.sender & 255}"

    def data(self) -> bytes:
        """The headers; at most `size` bytes of them are captured."""
        ends = [mac(self.sender), LOCAL_MAC]
        addresses = [bytes([10, 0, self.sender >> 8, self.sender & 255]), bytes([192, 0, 2, 1])]
        if self.outgoing:
            ends.reverse()
            addresses.reverse()
        length = max(self.size - 14, 40)
        protocol = 17 if self.sequence is None else 6
        ip = struct.pack(">BBHHHBBH", 0x45, 3 if self.ce else 0, length, 1, 0, 64, protocol, 0) + b"".join(addresses)
        if self.sequence is None:
            transport = struct.pack(">HHHH", 1000 + self.flow, 11211, length - 20, 0)
        else:
            transport = struct.pack(">HHIIBBHHH", 1000 + self.flow, 11211, self.sequence, 0, 0x50, 0x10, 512, 0, 0)
        return (ends[1] + ends[0] + b"\x08\x00" + ip + transport).ljust(self.size, b"\0")


def pcap(frames: Iterable[Frame], snaplen: int = 96, nanoseconds: bool = True) -> bytes:
    """Returns a little-endian pcap file of Ethernet."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    parts = [struct.pack("<IHHIIII", magic, 2, 4, 0, 0, snaplen, 1)]
    for frame in frames:
        captured = frame.data()[:snaplen]
        parts.append(struct.pack("<IIII", frame.ts_ns // 10**9, frame.ts_ns % 10**9 // unit, len(captured), frame.size))
        parts.append(captured)
    return b"".join(parts)


def write_pcap(path: Path, frames: Iterable[Frame], snaplen: int = 96, nanoseconds: bool = True) -> Path:
    path.write_bytes(pcap(frames, snaplen, nanoseconds))
    return path
