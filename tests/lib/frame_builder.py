"""Frames assembled header by header, from the layouts in the standards."""

from __future__ import annotations

import struct

FIN, SYN, ACK = 1, 2, 16
TCP, UDP = 6, 17


def be16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def ethernet(
    payload: bytes, kind: int | None, *, sender: int = 2, receiver: int = 1, tags: tuple[int, ...] = ()
) -> bytes:
    """Returns an Ethernet frame. KIND None: the type field holds the length of the payload. TAGS: 0x8100 and the like,
    outermost first."""
    types = [*tags, len(payload) if kind is None else kind]
    rest = be16(types[0]) + b"".join(be16(100 + i, following) for i, following in enumerate(types[1:]))
    return receiver.to_bytes(6, "big") + sender.to_bytes(6, "big") + rest + payload


def snap(payload: bytes, kind: int, oui: bytes = b"\0\0\0") -> bytes:
    return b"\xaa\xaa\x03" + oui + be16(kind) + payload


def mpls(payload: bytes, labels: int = 1) -> bytes:
    return b"".join(struct.pack(">I", (16 + i) << 12 | (i == labels - 1) << 8 | 64) for i in range(labels)) + payload


def ppp(payload: bytes, protocol: int, *, framed: bool = False, short: bool = False) -> bytes:
    return (b"\xff\x03" if framed else b"") + (bytes([protocol]) if short else be16(protocol)) + payload


def pppoe(payload: bytes, protocol: int, code: int = 0) -> bytes:
    return bytes([0x11, code]) + be16(7, len(payload) + 2) + ppp(payload, protocol)


def sll(
    payload: bytes, protocol: int, *, kind: int = 0, hardware: int = 1, address: bytes = b"\2\0\0\0\0\x09"
) -> bytes:
    return be16(kind, hardware, len(address)) + address[:8].ljust(8, b"\0") + be16(protocol) + payload


def sll2(
    payload: bytes, protocol: int, *, kind: int = 0, hardware: int = 1, address: bytes = b"\2\0\0\0\0\x09"
) -> bytes:
    head = struct.pack(">HHIHBB", protocol, 0, 3, hardware, kind, len(address))
    return head + address[:8].ljust(8, b"\0") + payload


def ipv4(
    payload: bytes, protocol: int, source: int, destination: int, *, tos: int = 0, options: bytes = b"",
    total: int | None = None, more: bool = False, offset: int = 0, ident: int = 1,
) -> bytes:  # fmt: skip
    header = 20 + len(options)
    total = header + len(payload) if total is None else total
    fragment = (0x2000 if more else 0x4000 * (not offset)) | offset
    fixed = struct.pack(">BBHHHBBH", 0x40 | header // 4, tos, total & 0xFFFF, ident, fragment, 64, protocol, 0)
    return fixed + struct.pack(">II", source, destination) + options + payload


def ipv6(
    payload: bytes, protocol: int, source: int, destination: int, *, traffic_class: int = 0,
    extensions: tuple[tuple[int, bytes], ...] = (), length: int | None = None,
) -> bytes:  # fmt: skip
    """Returns an IPv6 packet. EXTENSIONS: (number, the header without its first byte, which becomes the number of the
    next header)."""
    numbers = [*(number for number, _ in extensions), protocol]
    chain = b"".join(bytes([following]) + body for following, (_, body) in zip(numbers[1:], extensions, strict=True))
    length = len(chain) + len(payload) if length is None else length
    head = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | 0x12345, length & 0xFFFF, numbers[0], 64)
    return head + source.to_bytes(16, "big") + destination.to_bytes(16, "big") + chain + payload


def extension(size: int, options: bytes = b"") -> bytes:
    """Returns the body of a hop-by-hop, routing or destination header of SIZE × 8 bytes."""
    return bytes([size - 1]) + options.ljust(size * 8 - 2, b"\0")


def jumbo(length: int) -> bytes:
    return extension(1, b"\xc2\x04" + struct.pack(">I", length))


def fragment(offset: int, more: bool, ident: int = 9) -> bytes:
    return b"\0" + struct.pack(">HI", offset << 3 | more, ident)


def authentication(icv: int = 12) -> bytes:
    return bytes([(12 + icv) // 4 - 2]) + bytes(10 + icv)


def tcp(payload: bytes, ports: tuple[int, int], seq: int, flags: int = ACK, options: bytes = b"") -> bytes:
    header = 20 + len(options)
    return struct.pack(">HHIIBBHHH", *ports, seq, 1, header // 4 << 4, flags, 1000, 0, 0) + options + payload


def udp(payload: bytes, ports: tuple[int, int]) -> bytes:
    return be16(*ports, (8 + len(payload)) & 0xFFFF, 0) + payload


def gre(
    payload: bytes, kind: int, *, checksum: bool = False, key: bool = False, sequence: bool = False,
    routes: tuple[bytes, ...] | None = None, version: int = 0, ack: bool = False,
) -> bytes:  # fmt: skip
    flags = checksum << 15 | (routes is not None) << 14 | key << 13 | sequence << 12 | ack << 7 | version
    fields = 4 * ((checksum or routes is not None) + key + sequence + ack)
    entries = b"".join(be16(0x0800) + bytes([0, len(route)]) + route for route in routes or ())
    return be16(flags, kind) + bytes(fields) + entries + (bytes(4) if routes is not None else b"") + payload


def erspan2(payload: bytes) -> bytes:
    return be16(0x1000 | 5, 7, 0, 9) + payload


def erspan3(payload: bytes, kind: int = 0, platform: bool = False) -> bytes:
    return be16(0x2000 | 5, 7, 0, 1, 0, kind << 10 | platform) + bytes(8 * platform) + payload


def vxlan(payload: bytes) -> bytes:
    return b"\x08\0\0\0" + struct.pack(">I", 42 << 8) + payload


def geneve(payload: bytes, kind: int, options: int = 0) -> bytes:
    return bytes([options, 0]) + be16(kind) + struct.pack(">I", 42 << 8) + bytes(4 * options) + payload
