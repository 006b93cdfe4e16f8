"""Wire bytes of merged frames are those of the frames into which a sender would have cut them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import frame_builder as make
import pytest
from decode_check import PORTS, one, v4, v6
from decode_oracle import wire_bytes
from decode_words import MERGED, TCP, TRUNCATED


class Segmented(NamedTuple):
    wrap: Callable[[bytes], bytes]  # payload → frame
    headers: int  # from the IP header to the payload


SEGMENTED = {
    "IPv4": Segmented(lambda data: make.ethernet(v4(make.tcp(data, PORTS, 1)), 0x0800), 40),
    "IPv4, options": Segmented(
        lambda data: make.ethernet(v4(make.tcp(data, PORTS, 1, options=bytes(12)), options=bytes(4)), 0x0800), 56
    ),
    "vlan, IPv6": Segmented(lambda data: make.ethernet(v6(make.tcp(data, PORTS, 1)), 0x86DD, tags=(0x8100,)), 60),
    "make.UDP": Segmented(lambda data: make.ethernet(v4(make.udp(data, PORTS), make.UDP), 0x0800), 28),
    "vxlan": Segmented(
        lambda data: make.ethernet(
            v4(make.udp(make.vxlan(make.ethernet(v4(make.tcp(data, PORTS, 1)), 0x0800)), (*PORTS[:1], 4789)), make.UDP),
            0x0800,
        ),
        20 + 8 + 8 + 14 + 40,
    ),
    "gre": Segmented(
        lambda data: make.ethernet(v4(make.gre(v6(make.tcp(data, PORTS, 1)), 0x86DD, key=True), 47), 0x0800),
        20 + 8 + 60,
    ),
}


@pytest.mark.parametrize("segmented", SEGMENTED.values(), ids=SEGMENTED.keys())
@pytest.mark.parametrize("size", [1, 2, 100, 1399, 1400, 1401, 2800, 2801, 44_000, 60_000])
@pytest.mark.parametrize("caplen", [None, 128])
def test_wire_bytes_of_merged_frames(segmented: Segmented, size: int, caplen: int | None):
    mss, payload = 1400, bytes(size)
    data = segmented.wrap(payload)
    wire = sum(wire_bytes(len(segmented.wrap(payload[at : at + mss]))) for at in range(0, size, mss))
    for options in ({"gso": mss}, {"mtu": mss + segmented.headers}):
        packet = one(data[:caplen], length=len(data), **options)
        assert (packet.bytes, packet.wire_bytes) == (len(data), wire)
        assert bool(packet.marks & MERGED) == (size > mss)
        assert not packet.marks & TRUNCATED


def test_small_segments_are_padded():
    packet = one(make.ethernet(v4(make.udp(bytes(25), PORTS), make.UDP), 0x0800), gso=10)
    assert packet.wire_bytes == 84 * 3 and packet.marks == MERGED


def test_merged_frames_on_a_cooked_link():
    ip = v4(make.tcp(bytes(3000), PORTS, 1))
    assert one(make.sll(ip, 0x0800), 113, mtu=1500).wire_bytes == one(make.ethernet(ip, 0x0800), mtu=1500).wire_bytes


@pytest.mark.parametrize(
    "caplen, kind, headers", [(20, 0x0800, 40), (34, 0x0800, 40), (40, 0x86DD, 60), (60, 0x86DD, 60)]
)
def test_merged_frames_with_truncated_headers(caplen: int, kind: int, headers: int):
    ip = v4 if kind == 0x0800 else v6
    data = make.ethernet(ip(make.tcp(bytes(4000), PORTS, 1)), kind)
    packet = one(data[:caplen], length=len(data), mtu=1500)
    room = 1500 - headers
    assert packet.wire_bytes == 2 * 1538 + wire_bytes(14 + headers + 4000 - 2 * room)
    assert packet.marks == MERGED | TRUNCATED


NEVER_MERGED = {
    "fragment": v4(bytes(4000), make.UDP, more=True),
    "icmp": v4(bytes(4000), 1),
    "esp": v6(bytes(4000), 50),
    "icmp in vxlan": v4(make.udp(make.vxlan(make.ethernet(v4(bytes(4000), 1), 0x0800)), (1, 4789)), make.UDP),
}


@pytest.mark.parametrize("data", NEVER_MERGED.values(), ids=NEVER_MERGED.keys())
def test_only_tcp_and_udp_are_merged(data: bytes):
    packet = one(make.ethernet(data, 0x0800 if data[0] >> 4 == 4 else 0x86DD), mtu=1500)
    assert packet.marks == 0 and packet.wire_bytes == packet.bytes + 24


@pytest.mark.parametrize("trailer", [4, 8, 12, 100])
@pytest.mark.parametrize("caplen", [None, 34, 60])
@pytest.mark.parametrize("tags", [(), (0x8100,)])
def test_a_trailer_is_no_second_frame(trailer: int, caplen: int | None, tags: tuple[int, ...]):
    """An FCS that the file does not declare, or the trailer of a tap, is behind a full packet."""
    for packet, kind in (
        (v4(make.tcp(bytes(1460), PORTS, 1)), 0x0800),
        (v6(make.udp(bytes(1452), PORTS), make.UDP), 0x86DD),
    ):
        data = make.ethernet(packet, kind, tags=tags) + bytes(trailer)
        if caplen and caplen < 14 + 4 * len(tags) + (20 if kind == 0x0800 else 40):
            continue  # the length of the packet is not captured
        decoded = one(data[:caplen], length=len(data), mtu=1500)
        assert (decoded.wire_bytes, decoded.marks & MERGED) == (len(data) + 24, 0)


def test_a_length_of_0_is_that_of_the_frame():
    segment = make.tcp(bytes(2920), PORTS, 1)
    for packet, kind in ((v4(segment, total=0), 0x0800), (v6(segment, length=0), 0x86DD)):
        decoded = one(make.ethernet(packet, kind), mtu=1500)
        assert decoded.marks & MERGED


def test_an_mtu_counts_from_the_ip_header():
    frame = make.ethernet(v4(make.tcp(bytes(1460), PORTS, 1)), 0x0800, tags=(0x88A8, 0x8100))
    assert one(frame, mtu=1500).marks == TCP
    assert one(frame, mtu=1499).marks == TCP | MERGED
    assert one(frame, mtu=40).marks == TCP, "an MTU that does not hold the headers says nothing"
