"""Frames of a few flows, some of which continue one another."""

from __future__ import annotations

import random

import frame_builder as make
from decode_check import v4, v6
from decode_tool import Frame

MARKS = [2, 2, 2, 2, 3, 1, 0]  # of ECN
KINDS = [(is_ipv6, is_tcp, tags) for is_ipv6 in (0, 1) for is_tcp in (0, 1) for tags in ((), (0x8100,))]


def frame(
    is_ipv6: bool,
    is_tcp: bool,
    tags: tuple[int, ...],
    payload: int,
    sequence: int,
    ts_ns: int,
    traffic_class: int = 0,
    opcode: int | None = None,
) -> Frame:
    """OPCODE: of RoCEv2 if the frame is UDP; otherwise the frame is of another service."""
    data = bytes([opcode or 0])[:payload] + bytes(max(payload - 1, 0))
    port = 80 if opcode is None else 4791
    segment = make.tcp(data, (9, port), sequence, options=bytes(12)) if is_tcp else make.udp(data, (9, port))
    protocol = 6 if is_tcp else 17
    packet = v6(segment, protocol, traffic_class=traffic_class) if is_ipv6 else v4(segment, protocol, tos=traffic_class)
    whole = make.ethernet(packet, 0x86DD if is_ipv6 else 0x0800, tags=tags).ljust(80, b"\0")
    return Frame(whole, len(whole), ts_ns=ts_ns)


def random_frames(draw: random.Random, count: int, trouble: float, begin_ns: int) -> list[Frame]:
    """Returns COUNT frames, from BEGIN_NS on, some 50 ns apart. TROUBLE is the share that is damaged; fewer go back."""
    frames, kind, sequence, ts_ns = [], draw.choice(KINDS), 0, begin_ns
    is_roce = draw.random() < 0.3
    services = draw.choice([0, 0x28]), draw.choice([0, 0x28])
    for _ in range(count):
        if draw.random() < 0.1:
            kind = draw.choice(KINDS)
        payload = draw.choice([0, 1, 5, 100, 100, 700])
        ts_ns += draw.randrange(100) - (50 if draw.random() < trouble / 5 else 0)
        traffic_class = draw.choice(services) | draw.choice(MARKS)
        opcode = draw.choice([0x07, 0x07, 0x07, 0x11, 0x81]) if is_roce else None
        made = frame(*kind, payload, sequence % 2**32, ts_ns, traffic_class, opcode)
        sequence += payload - (draw.randrange(300) if draw.random() < trouble / 5 else 0)
        if draw.random() < trouble:
            made = damage(made, draw)
        frames.append(made)
    return frames


def damage(made: Frame, draw: random.Random) -> Frame:
    """Returns the frame with a wrong bit in its headers, or truncated, or with another length, direction or segment
    size."""
    data = bytearray(made.data)
    match draw.randrange(5):
        case 0:
            data[draw.randrange(min(len(data), 80))] ^= 1 << draw.randrange(8)
        case 1:
            return made._replace(data=bytes(data[: draw.randrange(len(data))]))
        case 2:
            return made._replace(length=draw.choice([0, 13, len(data) - 1, len(data) + 1, 65_000, 2**32 - 1]))
        case 3:
            return made._replace(direction=draw.choice([1, 2]))
        case _:
            return made._replace(gso=draw.choice([1, 1400]))
    return made._replace(data=bytes(data))
