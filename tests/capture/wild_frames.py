"""The frames of capture files, as far as they can be read, for comparing the decoder with tshark. This is no test of
reading: a broken record silently ends its file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LARGEST = 1 << 18


class WildFrame(NamedTuple):
    file: str
    number: int
    linktype: int
    data: bytes
    length: int


def wild_frames(path: Path) -> Iterator[WildFrame]:
    octets = path.read_bytes()
    read = pcapng if octets[:4] == b"\x0a\x0d\x0d\x0a" else pcap
    try:
        for number, (linktype, data, length) in enumerate(read(octets), 1):
            yield WildFrame(path.name, number, linktype, data, length)
    except struct.error:
        return


def pcap(octets: bytes) -> Iterator[tuple[int, bytes, int]]:
    orders = {
        b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">",
    }  # fmt: skip
    order = orders.get(octets[:4])
    if not order:
        return
    linktype = struct.unpack_from(order + "I", octets, 20)[0] & 0xFFFF
    at = 24
    while at < len(octets):
        caplen, length = struct.unpack_from(order + "8xII", octets, at)
        at += 16
        if caplen > LARGEST or at + caplen > len(octets):
            return
        yield linktype, octets[at : at + caplen], length
        at += caplen


def pcapng(octets: bytes) -> Iterator[tuple[int, bytes, int]]:
    order, linktypes, at = "<", [], 0
    while at < len(octets):
        if octets[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order, linktypes = ("<" if octets[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"), []
        kind, size = struct.unpack_from(order + "II", octets, at)
        if size < 12 or at + size > len(octets):
            return
        if kind == 1:
            linktypes.append(struct.unpack_from(order + "H", octets, at + 8)[0])
        elif kind in (2, 6):
            interface = struct.unpack_from(order + ("H" if kind == 2 else "I"), octets, at + 8)[0]
            caplen, length = struct.unpack_from(order + "II", octets, at + 20)
            if interface >= len(linktypes) or caplen > size - 32:
                return
            yield linktypes[interface], octets[at + 28 : at + 28 + caplen], length
        elif kind == 3:
            (length,) = struct.unpack_from(order + "I", octets, at + 8)
            yield linktypes[0], octets[at + 12 : at + 12 + min(length, size - 16)], length
        at += size


def write_pcap(path: Path, linktype: int, frames: list[WildFrame]) -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, LARGEST, linktype)
    records = (struct.pack("<IIII", 0, 0, len(frame.data), frame.length) + frame.data for frame in frames)
    path.write_bytes(head + b"".join(records))
