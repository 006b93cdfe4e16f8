"""Builds pcap and pcapng files byte by byte from the specifications, independently of the engine.

pcap: draft-ietf-opsawg-pcap; pcapng: draft-ietf-opsawg-pcapng. `order` is "<" or ">" throughout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

MAGIC_US = 0xA1B2C3D4
MAGIC_NS = 0xA1B23C4D
MAGIC_MODIFIED = 0xA1B2CD34
MAGIC_IXIA_HW = 0x1C0001AC
MAGIC_IXIA_SW = 0x1C0001AB

SHB, IDB, PB, SPB, NRB, ISB, EPB, DSB, CUSTOM = 0x0A0D0D0A, 1, 2, 3, 4, 5, 6, 10, 0xBAD


# --- pcap ---


def pcap_header(
    order: str = "<", magic: int = MAGIC_NS, linktype: int = 1, snaplen: int = 65535, version: tuple[int, int] = (2, 4)
) -> bytes:
    extra = b"\0\0\0\0" if magic in (MAGIC_IXIA_HW, MAGIC_IXIA_SW) else b""
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, snaplen, linktype) + extra


def pcap_record(
    seconds: int,
    fraction: int,
    data: bytes,
    length: int | None = None,
    order: str = "<",
    extra: bytes = b"",
    swap_lengths: bool = False,
) -> bytes:
    lengths = (len(data), len(data) if length is None else length)
    return struct.pack(order + "IIII", seconds, fraction, *(lengths[::-1] if swap_lengths else lengths)) + extra + data


# --- pcapng ---


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    length = 12 + len(body)
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def options(items: Iterable[tuple[int, bytes]], order: str = "<") -> bytes:
    made = b"".join(struct.pack(order + "HH", code, len(value)) + pad(value) for code, value in items)
    return made + bytes(4) if made else b""


def section(order: str = "<", length: int = -1, minor: int = 0, extra: list[tuple[int, bytes]] | None = None) -> bytes:
    return block(SHB, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, minor, length) + options(extra or [], order), order)


@dataclass(frozen=True)
class Interface:
    linktype: int = 1
    snaplen: int = 0
    name: str | None = None
    resolution: int | None = None
    offset_s: int | None = None
    fcslen: int | None = None
    speed: int | None = None

    def block(self, order: str = "<") -> bytes:
        items: list[tuple[int, bytes]] = []
        if self.name is not None:
            items.append((2, self.name.encode()))
        if self.speed is not None:
            items.append((8, struct.pack(order + "Q", self.speed)))
        if self.resolution is not None:
            items.append((9, bytes([self.resolution])))
        items.append((11, b"\0tcp"))  # if_filter, which no test needs
        if self.fcslen is not None:
            items.append((13, bytes([self.fcslen])))
        if self.offset_s is not None:
            items.append((14, struct.pack(order + "q", self.offset_s)))
        body = struct.pack(order + "HHI", self.linktype, 0, self.snaplen)
        return block(IDB, body + options(items, order), order)


def halves(raw: int) -> tuple[int, int]:
    return raw >> 32, raw & 0xFFFFFFFF


def enhanced(
    interface: int,
    raw: int,
    data: bytes,
    length: int | None = None,
    order: str = "<",
    flags: int | None = None,
    drops: int | None = None,
    comment: str | None = None,
) -> bytes:
    items: list[tuple[int, bytes]] = []
    if comment is not None:
        items.append((1, comment.encode()))
    if flags is not None:
        items.append((2, struct.pack(order + "I", flags)))
    if drops is not None:
        items.append((4, struct.pack(order + "Q", drops)))
    fixed = struct.pack(order + "IIIII", interface, *halves(raw), len(data), len(data) if length is None else length)
    return block(EPB, fixed + pad(data) + options(items, order), order)


def obsolete(
    interface: int, raw: int, data: bytes, length: int | None = None, order: str = "<", drops: int = 0xFFFF
) -> bytes:
    fixed = struct.pack(
        order + "HHIIII", interface, drops, *halves(raw), len(data), len(data) if length is None else length
    )
    return block(PB, fixed + pad(data), order)


def simple(data: bytes, length: int | None = None, order: str = "<") -> bytes:
    return block(SPB, struct.pack(order + "I", len(data) if length is None else length) + pad(data), order)


def statistics(interface: int, raw: int, items: Iterable[tuple[int, int]] = (), order: str = "<") -> bytes:
    """ITEMS: (option code, value). The times (codes 2 and 3) are raw stamps, the counters are numbers."""
    packed = [
        (code, struct.pack(order + "II", *halves(value)) if code in (2, 3) else struct.pack(order + "Q", value))
        for code, value in items
    ]
    return block(ISB, struct.pack(order + "III", interface, *halves(raw)) + options(packed, order), order)
