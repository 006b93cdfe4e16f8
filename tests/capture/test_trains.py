"""Whatever the frames, a train reports for each of them the decoder's result (under ASan and UBSan)."""

from __future__ import annotations

import random
from itertools import groupby
from math import gcd

import pytest
from decode_check import ETHERNET
from decode_tool import Amount, Decoded, Frame, Train, driver
from hypothesis import given, settings
from hypothesis import strategies as st
from train_builder import KINDS, frame, random_frames

CE_MARK, TCP_MARK = 1, 2
SECOND = 10**9
VARYING = {"ts_ns": 0, "bytes": 0, "wire_bytes": 0, "tcp_seq": 0, "tcp_len": 0}


def check(frames: list[Frame], widths: tuple[int, int] = (70, 100), **options: int) -> list[Train]:
    """Returns the trains of FRAMES, after checking that they agree with the decoder and with the trains of the same
    frames in a file."""
    trains = driver().trains(frames, ETHERNET, widths=widths, **options)
    decoded = driver().decode(frames, ETHERNET, **options)
    assert [train.first for train in trains] == [sum(t.count for t in trains[:i]) for i in range(len(trains))]
    assert sum(train.count for train in trains) == len(frames)
    for train in trains:
        members = decoded[train.first : train.first + train.count]
        assert train.head == members[0]._replace(macs=None, destination=None)
        if train.count > 1:
            check_members(train, members, widths)
    earliest = min(made.ts_ns for made in frames)
    plain = [made._replace(gso=0, direction=0, ts_ns=made.ts_ns - earliest + SECOND) for made in frames if made.data]
    in_memory, in_file = (
        driver().trains(plain, ETHERNET, widths=widths, layout=layout, **options) for layout in ("frames", "ns")
    )
    assert in_memory == in_file
    return trains


def unvarying(packet: Decoded) -> Decoded:
    return packet._replace(**VARYING, marks=packet.marks & ~CE_MARK)


def check_members(train: Train, members: list[Decoded], widths: tuple[int, int]) -> None:
    for member in members:
        assert unvarying(member) == unvarying(members[0])
        assert member.wire_bytes == max(member.bytes, 60) + 24
    stamps = [member.ts_ns for member in members]
    assert stamps == sorted(stamps)
    cell_ns = gcd(*widths)
    in_cells = [list(group) for _, group in groupby(members, lambda member: member.ts_ns // cell_ns)]
    assert train.amounts == [
        Amount(
            sum(member.bytes for member in group),
            sum(max(60 - member.bytes, 0) for member in group),
            group[0].ts_ns,
            group[-1].ts_ns,
            len(group),
            sum(member.marks & CE_MARK for member in group),
        )
        for group in in_cells
    ]
    if train.head.marks & TCP_MARK:
        ends = [(member.tcp_seq + member.tcp_len) % 2**32 for member in members]
        assert [member.tcp_seq for member in members[1:]] == ends[:-1]
        assert train.tcp_end == ends[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_a_flow_are_one_train(kind: tuple[int, int, tuple[int, ...]]):
    sizes = [100, 1, 0, 1400, 7]
    sequence = [2**32 - 50 + sum(sizes[:i]) for i in range(len(sizes))]
    stamped = enumerate(zip(sizes, sequence, strict=True))
    frames = [frame(*kind, size, number % 2**32, 5 * i, traffic_class=i % 4) for i, (size, number) in stamped]
    assert [train.count for train in check(frames)] == [len(sizes)]
    in_us = [made._replace(ts_ns=made.ts_ns * 1000) for made in frames]
    assert driver().trains(in_us, ETHERNET, layout="us") == check(in_us, widths=(10_000, 1_000_000))


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    fcs=st.sampled_from([0, 0, 4]),
    mtu=st.sampled_from([0, 1500, 600]),
    inner=st.booleans(),
    trouble=st.sampled_from([0.0, 0.1, 0.5]),
    widths=st.tuples(st.integers(1, 40), st.integers(1, 40)).map(lambda both: (both[0] * 50, both[1] * 50)),
    begin_ns=st.sampled_from([0, 1_700_000_000 * SECOND, -(2**62), 2**62 - SECOND]),
)
def test_trains_agree_with_the_decoder(
    seed: int, fcs: int, mtu: int, inner: bool, trouble: float, widths: tuple[int, int], begin_ns: int
):
    frames = random_frames(random.Random(seed), 80, trouble, begin_ns)
    check(frames, widths, fcs=fcs, mtu=mtu, inner=inner)
