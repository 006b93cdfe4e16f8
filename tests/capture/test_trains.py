"""Whatever the frames, a train says of each what the decoder would have said (under ASan and UBSan)."""

from __future__ import annotations

import random

import frame_builder as make
import pytest
from decode_check import ETHERNET, v4, v6
from decode_tool import Frame, Train, driver
from hypothesis import given, settings
from hypothesis import strategies as st

TCP_MARK = 2
VARYING = {"ts_ns": 0, "bytes": 0, "wire_bytes": 0, "tcp_seq": 0, "tcp_len": 0}
KINDS = [(is_ipv6, is_tcp, tags) for is_ipv6 in (0, 1) for is_tcp in (0, 1) for tags in ((), (0x8100,))]


def frame(is_ipv6: bool, is_tcp: bool, tags: tuple[int, ...], payload: int, sequence: int, ts_ns: int) -> Frame:
    data = bytes(payload)
    segment = make.tcp(data, (9, 80), sequence, options=bytes(12)) if is_tcp else make.udp(data, (9, 80))
    protocol = 6 if is_tcp else 17
    packet = v6(segment, protocol) if is_ipv6 else v4(segment, protocol)
    whole = make.ethernet(packet, 0x86DD if is_ipv6 else 0x0800, tags=tags).ljust(80, b"\0")
    return Frame(whole, len(whole), ts_ns=ts_ns)


def check(frames: list[Frame], **options: int) -> list[Train]:
    """The trains of FRAMES, after they agreed with the decoder."""
    trains = driver().trains(frames, ETHERNET, **options)
    decoded = driver().decode(frames, ETHERNET, **options)
    assert [train.first for train in trains] == [sum(t.count for t in trains[:i]) for i in range(len(trains))]
    assert sum(train.count for train in trains) == len(frames)
    for train in trains:
        members = decoded[train.first : train.first + train.count]
        assert train.head == members[0]._replace(macs=None, destination=None)
        if train.count == 1:
            continue
        for member in members:
            assert member._replace(**VARYING) == members[0]._replace(**VARYING)
            assert member.wire_bytes == max(member.bytes, 60) + 24
        stamps = [member.ts_ns for member in members]
        assert stamps == sorted(stamps)
        if train.head.marks & TCP_MARK:
            ends = [(member.tcp_seq + member.tcp_len) % 2**32 for member in members]
            assert [member.tcp_seq for member in members[1:]] == ends[:-1]
            assert train.tcp_end == ends[-1]
    return trains


@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_a_flow_are_one_train(kind: tuple[int, int, tuple[int, ...]]):
    sizes = [100, 1, 0, 1400, 7]
    sequence = [2**32 - 50 + sum(sizes[:i]) for i in range(len(sizes))]
    stamped = enumerate(zip(sizes, sequence, strict=True))
    frames = [frame(*kind, size, number % 2**32, 5 * i) for i, (size, number) in stamped]
    assert [train.count for train in check(frames)] == [len(sizes)]


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    fcs=st.sampled_from([0, 0, 4]),
    mtu=st.sampled_from([0, 1500, 600]),
    inner=st.booleans(),
    trouble=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_trains_agree_with_the_decoder(seed: int, fcs: int, mtu: int, inner: bool, trouble: float):
    draw = random.Random(seed)
    frames, kind, sequence, ts_ns = [], draw.choice(KINDS), 0, 0
    for _ in range(80):
        if draw.random() < 0.1:
            kind = draw.choice(KINDS)
        payload = draw.choice([0, 1, 5, 100, 100, 700])
        ts_ns += draw.randrange(100) - (50 if draw.random() < trouble / 5 else 0)
        made = frame(*kind, payload, sequence % 2**32, ts_ns)
        sequence += payload - (draw.randrange(300) if draw.random() < trouble / 5 else 0)
        if draw.random() < trouble:
            made = damage(made, draw)
        frames.append(made)
    check(frames, fcs=fcs, mtu=mtu, inner=inner)


def damage(made: Frame, draw: random.Random) -> Frame:
    """The frame with a bit of its headers wrong, or cut off, or of another length, direction or segment size."""
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
