"""capture/decode.c on frames made by hand: against what they were made from, and against a plain
decoder in Python, whole, cut off at every byte and corrupted. Every frame lies in a heap block of
exactly its captured length, under ASan and UBSan."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from decode_oracle import (
    CE, IN, IPV4, IPV6, MAC, MERGED, OUT, TCP, TRUNCATED, UNPARSED, Address, Flow, decode, wire_bytes,
)  # fmt: skip
from decode_tool import Frame, driver
from frame_builder import (
    ACK, FIN, SYN, UDP, authentication, erspan2, erspan3, ethernet, extension, fragment, geneve, gre, ipv4, ipv6, jumbo,
    mpls, ppp, pppoe, sll, sll2, snap, tcp, udp, vxlan,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st

ETHERNET = 1
SETTINGS = settings(deadline=None, max_examples=150)
V4 = (0x0A000001, 0x0A000002)
V6 = (0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2)
INNER4 = (0xC0A80001, 0xC0A80002)
PORTS = (40000, 443)
DATA = bytes(range(100))

fingerprints: dict[Flow | None, int] = {None: 0}
flows: dict[int, Flow | None] = {0: None}


def check(frames: list[Frame], linktype: int, *, fcs: int = 0, inner: bool = False, mtu: int = 0) -> None:
    """The engine and the plain decoder agree on FRAMES, in everything."""
    decoded = driver().decode(frames, linktype, fcs=fcs, inner=inner, mtu=mtu)
    for frame, got in zip(frames, decoded, strict=True):
        want = decode(
            frame.data, frame.length, linktype, fcs=fcs, inner=inner, mtu=mtu, gso=frame.gso, direction=frame.direction
        )
        assert got.flow == fingerprints.setdefault(want.flow, got.flow), "a flow has one fingerprint"
        assert want.flow == flows.setdefault(got.flow, want.flow), "a fingerprint has one flow"
        assert got._replace(flow=0) == got._replace(flow=0, quality=0, ts_ns=frame.ts_ns, **fields(want)), frame


def fields(packet: NamedTuple) -> dict[str, object]:
    return {name: value for name, value in packet._asdict().items() if name != "flow"}


def whole(data: bytes, **more: int) -> Frame:
    return Frame(data, len(data), **more)


def one(data: bytes, linktype: int = ETHERNET, *, length: int | None = None, gso: int = 0, direction: int = 0, **options):
    """What the engine says of one frame, after it agreed with the plain decoder."""
    frame = Frame(data, len(data) if length is None else length, gso, direction, 12345)
    check([frame], linktype, **options)
    return driver().decode([frame], linktype, **options)[0]


def v4(payload: bytes = tcp(DATA, PORTS, 1), protocol: int = 6, pair: tuple[int, int] = V4, **more) -> bytes:
    return ipv4(payload, protocol, *pair, **more)


def v6(payload: bytes = tcp(DATA, PORTS, 1), protocol: int = 6, pair: tuple[int, int] = V6, **more) -> bytes:
    return ipv6(payload, protocol, *pair, **more)


# What a frame was made from comes out.

def test_an_ordinary_frame_in_full():
    packet = one(ethernet(v4(tcp(DATA, PORTS, 0xFFFFFFF0, SYN | ACK), tos=3), 0x0800), direction=OUT)
    assert packet.source == Address(IPV4, V4[0])
    assert packet.destination == Address(IPV4, V4[1])
    assert (packet.ts_ns, packet.quality, packet.direction) == (12345, 0, OUT)
    assert (packet.bytes, packet.wire_bytes) == (154, 178)
    assert (packet.tcp_seq, packet.tcp_len) == (0xFFFFFFF0, 101)
    assert packet.marks == CE | TCP
    assert packet.macs == (2, 1)


@pytest.mark.parametrize("flags, space", [(ACK, 100), (SYN, 101), (FIN | ACK, 101), (SYN | FIN, 102)])
@pytest.mark.parametrize("ip, kind", [(v4, 0x0800), (v6, 0x86DD)])
def test_sequence_space(ip: Callable[..., bytes], kind: int, flags: int, space: int):
    packet = one(ethernet(ip(tcp(DATA, PORTS, 77, flags, bytes(12))), kind))
    assert (packet.tcp_seq, packet.tcp_len, packet.marks) == (77, space, TCP)


@pytest.mark.parametrize("field, marks", [(0, 0), (1, 0), (2, 0), (3, CE), (0xFC, 0), (0xFF, CE)])
def test_congestion_experienced_is_both_bits(field: int, marks: int):
    datagram = udp(DATA, PORTS)
    assert one(ethernet(v4(datagram, UDP, tos=field), 0x0800)).marks == marks
    assert one(ethernet(v6(datagram, UDP, traffic_class=field), 0x86DD)).marks == marks


def test_ethernet_padding_is_not_payload():
    packet = one(ethernet(v4(tcp(b"", PORTS, 5)), 0x0800).ljust(60, b"\0"))
    assert (packet.bytes, packet.wire_bytes, packet.tcp_len, packet.marks) == (60, 84, 0, TCP)


V4_TCP, V6_TCP = v4(), v6()
LINKS = {
    "vlan": (ETHERNET, ethernet(V4_TCP, 0x0800, tags=(0x8100,))),
    "vlan, IPv6": (ETHERNET, ethernet(V6_TCP, 0x86DD, tags=(0x8100,))),
    "802.1ad": (ETHERNET, ethernet(V4_TCP, 0x0800, tags=(0x88A8, 0x8100))),
    "four tags": (ETHERNET, ethernet(V4_TCP, 0x0800, tags=(0x9100, 0x9100, 0x8100, 0x8100))),
    "snap": (ETHERNET, ethernet(snap(V4_TCP, 0x0800), None)),
    "snap, bridge tunnel": (ETHERNET, ethernet(snap(V4_TCP, 0x0800, b"\0\0\xf8"), None)),
    "vlan, snap": (ETHERNET, ethernet(snap(V6_TCP, 0x86DD), None, tags=(0x8100,))),
    "mpls": (ETHERNET, ethernet(mpls(V4_TCP), 0x8847)),
    "three labels, IPv6": (ETHERNET, ethernet(mpls(V6_TCP, 3), 0x8848)),
    "pppoe": (ETHERNET, ethernet(pppoe(V4_TCP, 0x0021), 0x8864)),
    "pppoe, IPv6": (ETHERNET, ethernet(pppoe(V6_TCP, 0x0057), 0x8864, tags=(0x8100,))),
    "pppoe, mpls": (ETHERNET, ethernet(pppoe(mpls(V4_TCP), 0x0281), 0x8864)),
    "cooked": (113, sll(V4_TCP, 0x0800)),
    "cooked, vlan": (113, sll(b"\0\x05\x86\xdd" + V6_TCP, 0x8100)),
    "cooked, 802.2": (113, sll(snap(V4_TCP, 0x0800), 4)),
    "cooked, no address": (113, sll(V4_TCP, 0x0800, hardware=65534, address=b"")),
    "cooked 2": (276, sll2(V4_TCP, 0x0800)),
    "cooked 2, IPv6": (276, sll2(V6_TCP, 0x86DD)),
    "raw": (101, V4_TCP),
    "raw, IPv6": (101, V6_TCP),
    "raw 12": (12, V4_TCP),
    "raw 14": (14, V6_TCP),
    "ipv4": (228, V4_TCP),
    "ipv6": (229, V6_TCP),
    "null, little-endian": (0, b"\2\0\0\0" + V4_TCP),
    "null, big-endian": (0, b"\0\0\0\2" + V4_TCP),
    "null, Linux": (0, b"\x0a\0\0\0" + V6_TCP),
    "null, OpenBSD": (0, b"\0\0\0\x18" + V6_TCP),
    "null, FreeBSD": (0, b"\x1c\0\0\0" + V6_TCP),
    "null, Darwin": (0, b"\x1e\0\0\0" + V6_TCP),
    "loop": (108, b"\0\0\0\2" + V4_TCP),
    "ppp": (9, ppp(V4_TCP, 0x0021)),
    "ppp, framed": (9, ppp(V6_TCP, 0x0057, framed=True)),
    "ppp, compressed": (9, ppp(V4_TCP, 0x21, short=True)),
    "ppp hdlc": (50, ppp(V4_TCP, 0x0021, framed=True)),
    "ppp hdlc, cisco": (50, b"\x0f\0\x08\0" + V4_TCP),
    "ppp ether": (51, pppoe(V4_TCP, 0x0021)),
    "c-hdlc": (104, b"\x8f\0\x86\xdd" + V6_TCP),
}


@pytest.mark.parametrize("linktype, data", LINKS.values(), ids=LINKS.keys())
def test_every_link_layer_leads_to_ip(linktype: int, data: bytes):
    packet = one(data, linktype)
    assert packet.source in (Address(IPV4, V4[0]), Address(IPV6, V6[0]))
    assert (packet.marks, packet.tcp_seq, packet.tcp_len, packet.bytes) == (TCP, 1, 100, len(data))
    ethernet_header = {1: 14, 113: 16, 276: 20, 0: 4, 108: 4, 104: 4}
    if linktype in ethernet_header:
        assert packet.wire_bytes == wire_bytes(len(data) - ethernet_header[linktype] + 14)
    reference = ethernet(V4_TCP, 0x0800) if packet.source.family == IPV4 else ethernet(V6_TCP, 0x86DD)
    assert packet.flow == one(reference).flow, "a flow is the same on every link"


@pytest.mark.parametrize("cooked, linktype", [(sll, 113), (sll2, 276)])
def test_cooked_direction(cooked: Callable[..., bytes], linktype: int):
    for kind, direction in [(0, IN), (1, IN), (2, IN), (3, IN), (4, OUT)]:
        assert one(cooked(V4_TCP, 0x0800, kind=kind), linktype, direction=3 - direction).direction == direction
    assert one(cooked(V4_TCP, 0x0800, kind=7), linktype, direction=OUT).direction == OUT


@pytest.mark.parametrize("cooked, linktype", [(sll, 113), (sll2, 276)])
@pytest.mark.parametrize("hardware", [770, 803, 824])
def test_cooked_protocols_that_are_no_ethernet_types(cooked: Callable[..., bytes], linktype: int, hardware: int):
    packet = one(cooked(V4_TCP, 0x0800, hardware=hardware), linktype)
    assert (packet.source, packet.flow, packet.marks) == (Address(MAC, 0x020000000009), 0, 0)


NOT_IP = {
    "arp": ethernet(bytes(28), 0x0806),
    "lldp": ethernet(DATA, 0x88CC, tags=(0x8100,)),
    "spanning tree": ethernet(b"\x42\x42\x03" + bytes(35), None),
    "snap, cdp": ethernet(snap(DATA, 0x2000, b"\0\0\x0c"), None),
    "mpls, pseudowire": ethernet(mpls(bytes(4) + ethernet(V4_TCP, 0x0800)), 0x8847),
    "pppoe discovery": ethernet(pppoe(b"", 0, code=9), 0x8863),
    "pppoe, lcp": ethernet(pppoe(DATA, 0xC021), 0x8864),
}


@pytest.mark.parametrize("data", NOT_IP.values(), ids=NOT_IP.keys())
def test_frames_without_ip_belong_to_the_sender_mac(data: bytes):
    packet = one(data.ljust(60, b"\0"))
    assert (packet.source, packet.flow, packet.marks, packet.destination) == (Address(MAC, 2), 0, 0, None)


@pytest.mark.parametrize("linktype", [105, 127, 107, 189, 65000])
def test_unknown_link_types_are_counted_by_length(linktype: int):
    packet = one(DATA, linktype, length=1000)
    assert (packet.bytes, packet.wire_bytes, packet.marks, packet.flow) == (1000, 1038, UNPARSED, 0)
    assert packet.source.family == 0 and packet.macs is None


# IP beyond the fixed header.

def test_ipv4_options_are_stepped_over():
    packet = one(ethernet(v4(options=bytes(40)), 0x0800))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)
    assert packet.flow == one(ethernet(v4(), 0x0800)).flow


@pytest.mark.parametrize("kind", ["v4", "v6"])
def test_fragments_of_a_datagram_are_one_flow_without_ports(kind: str):
    datagram = udp(bytes(2000), PORTS)
    pieces = [(0, datagram[:1200]), (150, datagram[1200:])]
    if kind == "v4":
        frames = [
            ethernet(v4(piece, UDP, offset=at, more=at == 0, ident=ident), 0x0800)
            for ident in (1, 2)
            for at, piece in pieces
        ]
        unfragmented = ethernet(v4(datagram, UDP), 0x0800)
    else:
        frames = [
            ethernet(v6(piece, UDP, extensions=((44, fragment(at, at == 0, ident)),)), 0x86DD)
            for ident in (1, 2)
            for at, piece in pieces
        ]
        unfragmented = ethernet(v6(datagram, UDP), 0x86DD)
    packets = [one(frame) for frame in frames]
    assert len({packet.flow for packet in packets}) == 1
    assert packets[0].flow not in (0, one(unfragmented).flow)
    assert not any(packet.marks for packet in packets)


def test_a_tcp_fragment_has_no_sequence():
    packet = one(ethernet(v4(more=True), 0x0800))
    assert (packet.marks, packet.tcp_seq, packet.tcp_len) == (0, 0, 0)


def test_an_ipv6_fragment_that_is_the_whole_datagram_has_ports():
    packet = one(ethernet(v6(extensions=((44, fragment(0, False)),)), 0x86DD))
    assert packet.marks == TCP and packet.flow == one(ethernet(v6(), 0x86DD)).flow


EXTENSIONS = {
    "hop-by-hop": ((0, extension(1)),),
    "all": (
        (0, extension(2, b"\5\2\0\0")), (60, extension(1)), (43, extension(3)), (44, fragment(0, False)),
        (51, authentication()), (60, extension(4)),
    ),
    "many": ((60, extension(1)),) * 40,
    "the longest": ((60, extension(256)),),
}  # fmt: skip


@pytest.mark.parametrize("extensions", EXTENSIONS.values(), ids=EXTENSIONS.keys())
def test_ipv6_extension_headers_are_stepped_over(extensions: tuple[tuple[int, bytes], ...]):
    packet = one(ethernet(v6(extensions=extensions), 0x86DD))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)
    assert packet.flow == one(ethernet(v6(), 0x86DD)).flow


def test_ipv4_authentication_header():
    packet = one(ethernet(v4(bytes([6]) + authentication() + tcp(DATA, PORTS, 1), 51), 0x0800))
    assert packet.marks == TCP and packet.flow == one(ethernet(v4(), 0x0800)).flow


@pytest.mark.parametrize("protocol", [6, 17, 33, 132, 136])
def test_ports_tell_flows_apart(protocol: int):
    payloads = [tcp(b"", ports, 1) for ports in [(1, 2), (2, 1), (1, 3), (3, 2)]]
    assert len({one(ethernet(v4(payload, protocol), 0x0800)).flow for payload in payloads}) == 4


@pytest.mark.parametrize("protocol", [1, 50, 58, 89])
def test_protocols_without_ports_have_a_flow_each(protocol: int):
    flows = {one(ethernet(v4(payload, protocol), 0x0800)).flow for payload in (DATA, DATA[::-1], b"")}
    assert len(flows) == 1 and flows != {one(ethernet(v4(b"", 253), 0x0800)).flow}


# Lengths that are larger than a packet on a wire.

def test_ipv4_length_zero_means_that_of_the_frame():
    packet = one(ethernet(v4(total=0), 0x0800))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)


@pytest.mark.parametrize("size", [65536, 200_000, 2**31])
def test_big_tcp(size: int):
    for data, kind, header in [
        (v4(tcp(DATA, PORTS, 1), total=0), 0x0800, 40),
        (v6(tcp(DATA, PORTS, 1), length=0), 0x86DD, 60),
        (v6(tcp(DATA, PORTS, 1), length=0, extensions=((0, jumbo(size - 40)),)), 0x86DD, 68),
    ]:
        packet = one(ethernet(data, kind), length=size + 14)
        assert (packet.marks, packet.tcp_len, packet.bytes) == (TCP, size - header, size + 14)


def test_a_jumbo_option_is_found_behind_others():
    options = b"\0\x05\x02\0\0\xc2\x04" + (68 + 100 - 44).to_bytes(4, "big")
    packet = one(ethernet(v6(length=0, extensions=((0, extension(2, options)),)), 0x86DD).ljust(400, b"\0"))
    assert (packet.marks, packet.tcp_len) == (TCP, 68 + 100 - 44 - 16 - 20)


def test_ipv6_without_next_header_is_empty():
    assert one(ethernet(v6(b"", 59, length=0), 0x86DD).ljust(60, b"\0")).marks == 0


def test_wire_bytes_do_not_wrap():
    assert one(DATA, length=2**32 - 1).wire_bytes == 2**32 - 1
    assert one(DATA, 101, length=2**32 - 20).wire_bytes == 2**32 - 1


@pytest.mark.parametrize("length, size", [(0, 0), (3, 0), (4, 0), (5, 1), (64, 60), (1518, 1514)])
def test_the_frame_check_sequence_is_no_part_of_bytes(length: int, size: int):
    packet = one(ethernet(v4(), 0x0800).ljust(2000, b"\0")[:length], fcs=4)
    assert (packet.bytes, packet.wire_bytes) == (size, max(size, 60) + 24)


# Headers that are cut off, and headers that lie.

@pytest.mark.parametrize("data, linktype", [(ethernet(v4(), 0x0800), 1), (ethernet(v6(), 0x86DD), 1)])
@pytest.mark.parametrize("caplen", [14, 20, 33])
def test_without_an_ip_header_the_mac_is_the_source(data: bytes, linktype: int, caplen: int):
    packet = one(data[:caplen], linktype, length=1514)
    assert (packet.source, packet.flow, packet.marks) == (Address(MAC, 2), 0, TRUNCATED)
    assert (packet.bytes, packet.wire_bytes) == (1514, 1538)


@pytest.mark.parametrize("caplen", [0, 1, 13])
def test_without_a_link_header_there_is_no_source(caplen: int):
    packet = one(ethernet(v4(), 0x0800)[:caplen], length=1514)
    assert packet.source.family == 0 and packet.marks == TRUNCATED
    assert (packet.bytes, packet.wire_bytes, packet.macs) == (1514, 1538, None)


@pytest.mark.parametrize("length", [0, 1, 13])
def test_a_frame_shorter_than_its_header_is_unparsed(length: int):
    packet = one(ethernet(v4(), 0x0800)[:length])
    assert (packet.bytes, packet.wire_bytes, packet.marks) == (length, 84, UNPARSED)


LIES = {
    "IPv4 says it is version 5": ethernet(b"\x55" + v4()[1:], 0x0800),
    "IPv4 header of 16 bytes": ethernet(b"\x44" + v4()[1:], 0x0800),
    "IPv4 header longer than the packet": ethernet(v4(b"", total=20).replace(b"\x45", b"\x4f", 1), 0x0800),
    "IPv4 length beyond the frame": ethernet(v4(total=1000), 0x0800),
    "IPv4 length below the header": ethernet(v4(total=19), 0x0800),
    "IPv6 says it is version 4": ethernet(b"\x45" + v6()[1:], 0x86DD),
    "IPv6 length beyond the frame": ethernet(v6(length=1000), 0x86DD),
    "IPv6 extension beyond the packet": ethernet(v6(b"", 6, extensions=((60, b"\x50" + bytes(6)),)), 0x86DD),
    "TCP header of 16 bytes": ethernet(v4(tcp(b"", PORTS, 1)[:12] + b"\x40" + bytes(7)), 0x0800),
    "TCP header beyond the packet": ethernet(v4(tcp(b"", PORTS, 1)[:12] + b"\xf0" + bytes(7)), 0x0800).ljust(90, b"\0"),
    "TCP in three bytes": ethernet(v4(b"\1\2\3"), 0x0800).ljust(60, b"\0"),
    "jumbo length beyond the frame": ethernet(v6(length=0, extensions=((0, jumbo(9999)),)), 0x86DD),
    "raw IP of version 7": None,
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES.keys())
def test_contradictions_are_unparsed_and_wrap_nothing(data: bytes | None):
    packet = one(data) if data else one(b"\x70" + v4()[1:], 101)
    assert packet.marks == UNPARSED
    assert (packet.tcp_seq, packet.tcp_len) == (0, 0)


# Tunnels.

INSIDE = ipv4(tcp(DATA, PORTS, 9), 6, *INNER4, tos=3)
INSIDE6 = ipv6(tcp(DATA, PORTS, 9), 6, *V6, traffic_class=3)
FRAME_INSIDE = ethernet(INSIDE, 0x0800, sender=8, tags=(0x8100,))
TUNNELS = {
    "ip in ip": v4(INSIDE, 4),
    "ip in ipv6": v6(INSIDE, 4),
    "6in4": v4(INSIDE6, 41),
    "ipv6 in ipv6": v6(INSIDE6, 41, extensions=((60, extension(1)),)),
    "mpls in ip": v4(mpls(INSIDE, 2), 137),
    "gre": v4(gre(INSIDE, 0x0800), 47),
    "gre, ipv6": v6(gre(INSIDE6, 0x86DD), 47),
    "gre, all fields": v4(gre(INSIDE, 0x0800, checksum=True, key=True, sequence=True), 47),
    "gre, routing": v4(gre(INSIDE, 0x0800, routes=(bytes(4), bytes(8)), key=True), 47),
    "gre, teb": v4(gre(FRAME_INSIDE, 0x6558, key=True), 47),
    "gre, mpls": v4(gre(mpls(INSIDE), 0x8847), 47),
    "pptp": v4(gre(ppp(INSIDE, 0x21, short=True), 0x880B, key=True, sequence=True, ack=True, version=1), 47),
    "erspan": v4(gre(FRAME_INSIDE, 0x88BE), 47),
    "erspan II": v4(gre(erspan2(FRAME_INSIDE), 0x88BE, sequence=True), 47),
    "erspan III": v4(gre(erspan3(FRAME_INSIDE), 0x22EB, sequence=True), 47),
    "erspan III, platform": v4(gre(erspan3(FRAME_INSIDE, platform=True), 0x22EB, sequence=True), 47),
    "erspan III, ip": v4(gre(erspan3(INSIDE, kind=2), 0x22EB, sequence=True), 47),
    "vxlan": v4(udp(vxlan(FRAME_INSIDE), (50000, 4789)), UDP),
    "vxlan over ipv6": v6(udp(vxlan(FRAME_INSIDE), (50000, 4789)), UDP),
    "vxlan, Linux's port": v4(udp(vxlan(FRAME_INSIDE), (50000, 8472)), UDP),
    "geneve": v4(udp(geneve(FRAME_INSIDE, 0x6558, options=5), (50000, 6081)), UDP),
    "geneve, ip": v6(udp(geneve(INSIDE6, 0x86DD), (50000, 6081)), UDP),
    "vxlan in gre": v4(gre(v4(udp(vxlan(FRAME_INSIDE), (50000, 4789)), UDP), 0x0800), 47),
}


@pytest.mark.parametrize("data", TUNNELS.values(), ids=TUNNELS.keys())
def test_tunnels(data: bytes):
    kind = 0x0800 if data[0] >> 4 == 4 else 0x86DD
    outer, inner = one(ethernet(data, kind)), one(ethernet(data, kind), inner=True)
    assert outer.source == (Address(IPV4, V4[0]) if kind == 0x0800 else Address(IPV6, V6[0]))
    assert outer.marks == 0
    assert inner.source in (Address(IPV4, INNER4[0]), Address(IPV6, V6[0]))
    assert (inner.marks, inner.tcp_seq, inner.tcp_len) == (CE | TCP, 9, 100)
    assert inner.flow == one(ethernet(INSIDE if inner.source.family == IPV4 else INSIDE6, 0x0800 if
                                      inner.source.family == IPV4 else 0x86DD)).flow
    assert (outer.bytes, outer.wire_bytes) == (inner.bytes, inner.wire_bytes)


OPAQUE = {
    "fragment": v4(INSIDE, 4, more=True),
    "arp in vxlan": v4(udp(vxlan(ethernet(bytes(28), 0x0806)), (1, 4789)), UDP),
    "vxlan without its flag": v4(udp(b"\0" + vxlan(FRAME_INSIDE)[1:], (1, 4789)), UDP),
    "vxlan's port as the source": v4(udp(vxlan(FRAME_INSIDE), (4789, 53)), UDP),
    "geneve of another version": v4(udp(b"\x40" + geneve(INSIDE, 0x0800)[1:], (1, 6081)), UDP),
    "gre of another version": v4(gre(INSIDE, 0x0800, version=2), 47),
    "pptp acknowledgement": v4(gre(b"", 0x880B, key=True, ack=True, version=1), 47),
    "erspan of another version": v4(gre(b"\x30" + erspan2(FRAME_INSIDE)[1:], 0x88BE, sequence=True), 47),
    "esp": v4(INSIDE, 50),
}


@pytest.mark.parametrize("data", OPAQUE.values(), ids=OPAQUE.keys())
def test_what_cannot_be_looked_into_is_the_outer_senders(data: bytes):
    packet = one(ethernet(data, 0x0800), inner=True)
    assert (packet.source, packet.marks) == (Address(IPV4, V4[0]), 0)


# Merged frames: the wire bytes are those of the frames that a sender would have cut them into.

class Segmented(NamedTuple):
    wrap: Callable[[bytes], bytes]  # payload → frame
    headers: int  # from the IP header to the payload


SEGMENTED = {
    "IPv4": Segmented(lambda data: ethernet(v4(tcp(data, PORTS, 1)), 0x0800), 40),
    "IPv4, options": Segmented(lambda data: ethernet(v4(tcp(data, PORTS, 1, options=bytes(12)), options=bytes(4)), 0x0800), 56),
    "vlan, IPv6": Segmented(lambda data: ethernet(v6(tcp(data, PORTS, 1)), 0x86DD, tags=(0x8100,)), 60),
    "UDP": Segmented(lambda data: ethernet(v4(udp(data, PORTS), UDP), 0x0800), 28),
    "vxlan": Segmented(
        lambda data: ethernet(v4(udp(vxlan(ethernet(v4(tcp(data, PORTS, 1)), 0x0800)), PORTS[:1] + (4789,)), UDP), 0x0800),
        20 + 8 + 8 + 14 + 40,
    ),
    "gre": Segmented(lambda data: ethernet(v4(gre(v6(tcp(data, PORTS, 1)), 0x86DD, key=True), 47), 0x0800), 20 + 8 + 60),
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
    packet = one(ethernet(v4(udp(bytes(25), PORTS), UDP), 0x0800), gso=10)
    assert packet.wire_bytes == 84 * 3 and packet.marks == MERGED


def test_merged_frames_on_a_cooked_link():
    ip = v4(tcp(bytes(3000), PORTS, 1))
    assert one(sll(ip, 0x0800), 113, mtu=1500).wire_bytes == one(ethernet(ip, 0x0800), mtu=1500).wire_bytes


@pytest.mark.parametrize("caplen, kind, headers", [(20, 0x0800, 40), (34, 0x0800, 40), (40, 0x86DD, 60), (60, 0x86DD, 60)])
def test_merged_frames_whose_headers_are_cut_off(caplen: int, kind: int, headers: int):
    ip = v4 if kind == 0x0800 else v6
    data = ethernet(ip(tcp(bytes(4000), PORTS, 1)), kind)
    packet = one(data[:caplen], length=len(data), mtu=1500)
    room = 1500 - headers
    assert packet.wire_bytes == 2 * 1538 + wire_bytes(14 + headers + 4000 - 2 * room)
    assert packet.marks == MERGED | TRUNCATED


NEVER_MERGED = {
    "fragment": v4(bytes(4000), UDP, more=True),
    "icmp": v4(bytes(4000), 1),
    "esp": v6(bytes(4000), 50),
    "icmp in vxlan": v4(udp(vxlan(ethernet(v4(bytes(4000), 1), 0x0800)), (1, 4789)), UDP),
}


@pytest.mark.parametrize("data", NEVER_MERGED.values(), ids=NEVER_MERGED.keys())
def test_only_tcp_and_udp_are_merged(data: bytes):
    packet = one(ethernet(data, 0x0800 if data[0] >> 4 == 4 else 0x86DD), mtu=1500)
    assert packet.marks == 0 and packet.wire_bytes == packet.bytes + 24


def test_an_mtu_counts_from_the_ip_header():
    frame = ethernet(v4(tcp(bytes(1460), PORTS, 1)), 0x0800, tags=(0x88A8, 0x8100))
    assert one(frame, mtu=1500).marks == TCP
    assert one(frame, mtu=1499).marks == TCP | MERGED
    assert one(frame, mtu=40).marks == TCP, "an MTU that does not hold the headers says nothing"


# Fingerprints.

def flow_of(data: list[bytes]) -> list[int]:
    return [packet.flow for packet in driver().decode([whole(frame) for frame in data], ETHERNET)]


def test_fingerprints_do_not_collide_and_are_uniform():
    """Neighbouring addresses and ports, as real flows have. Deterministic: a fingerprint has no seed."""
    few = udp(bytes(12), PORTS)
    values = flow_of(
        [
            ethernet(ipv4(port.to_bytes(2, "big") + few[2:], UDP, V4[0] + host, V4[1] + peer), 0x0800)
            for port in range(32768, 32768 + 100)
            for host in range(20)
            for peer in range(20)
        ]
    )
    assert len(set(values)) == len(values) == 40_000
    for shift in (0, 16, 32):  # 0.19 pairs are expected to share 32 bits
        assert len(values) - len({value >> shift & 0xFFFFFFFF for value in values}) <= 3
    for bit in range(64):
        assert abs(sum(value >> bit & 1 for value in values) / len(values) - 0.5) < 0.02


@pytest.mark.parametrize("ip, kind, first, last", [(v4, 0x0800, 26, 38), (v6, 0x86DD, 22, 58)])
def test_every_bit_of_a_flow_turns_half_of_the_fingerprint(ip: Callable[..., bytes], kind: int, first: int, last: int):
    draw = random.Random(1)
    turned = [[0] * 64 for _ in range(8 * (last - first))]
    samples = 200
    for _ in range(samples):
        frame = bytearray(ethernet(ip(udp(bytes(20), PORTS), UDP), kind))
        frame[first:last] = draw.randbytes(last - first)
        base = int.from_bytes(frame, "big")
        bits = [8 * (len(frame) - 1 - at // 8) + at % 8 for at in range(8 * first, 8 * last)]
        plain, *others = flow_of([value.to_bytes(len(frame), "big") for value in (base, *(base ^ 1 << b for b in bits))])
        for row, other in zip(turned, others, strict=True):
            for bit in range(64):
                row[bit] += (plain ^ other) >> bit & 1
    for row in turned:
        assert abs(sum(row) / samples - 32) < 2
        assert all(0.3 < count / samples < 0.7 for count in row)


# Property: whatever the frame, the engine and the plain decoder agree.

small = st.integers(0, 7)
octets = st.binary(max_size=40)


@st.composite
def transports(draw: st.DrawFn) -> tuple[int, bytes]:
    ports = (draw(small), draw(st.sampled_from([53, 443, 4789, 8472, 6081])))
    payload = draw(octets)
    match draw(st.sampled_from(["tcp", "tcp", "udp", "udp", "other", "tunnel"])):
        case "tcp":
            options = bytes(4 * draw(st.integers(0, 10)))
            return 6, tcp(payload, ports, draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 63)), options)
        case "udp":
            return 17, udp(payload, ports)
        case "other":
            return draw(st.sampled_from([1, 33, 50, 58, 59, 132, 136, 255])), payload
        case _:
            return draw(tunnels())


@st.composite
def tunnels(draw: st.DrawFn) -> tuple[int, bytes]:
    kind, inside = draw(packets())
    inside_ethernet = ethernet(inside, kind, sender=draw(small), tags=draw(tag_stacks))
    flags = {name: draw(st.booleans()) for name in ("checksum", "key", "sequence")}
    match draw(st.integers(0, 9)):
        case 0:
            return (4 if kind == 0x0800 else 41), inside
        case 1:
            return 47, gre(inside, kind, **flags)
        case 2:
            return 47, gre(inside_ethernet, 0x6558, **flags, routes=draw(st.none() | st.tuples(octets)))
        case 3:
            return 47, gre(inside_ethernet, 0x88BE)
        case 4:
            return 47, gre(erspan2(inside_ethernet), 0x88BE, sequence=True)
        case 5:
            return 47, gre(erspan3(inside_ethernet, draw(st.sampled_from([0, 1, 2])), draw(st.booleans())), 0x22EB)
        case 6:
            protocol = 0x21 if kind == 0x0800 else 0x57
            return 47, gre(ppp(inside, protocol), 0x880B, version=1, sequence=draw(st.booleans()), ack=draw(st.booleans()))
        case 7:
            return 17, udp(geneve(inside_ethernet, 0x6558, draw(st.integers(0, 9))), (draw(small), 6081))
        case 8:
            return 137, mpls(inside)
        case _:
            return 17, udp(vxlan(inside_ethernet), (draw(small), 4789))


@st.composite
def packets(draw: st.DrawFn) -> tuple[int, bytes]:
    """An IP packet and its Ethernet type."""
    protocol, payload = draw(transports())
    source, destination, traffic = draw(small), draw(small), draw(st.sampled_from([0, 1, 2, 3, 3, 0xFF]))
    odd = draw(st.sampled_from([None] * 6 + [0, 1, 30, 9999]))
    if draw(st.booleans()):
        if draw(st.integers(0, 9)) == 0:
            protocol, payload = 51, bytes([protocol]) + authentication(draw(st.sampled_from([0, 12]))) + payload
        return 0x0800, ipv4(
            payload, protocol, V4[0] + source, V4[1] + destination, tos=traffic, total=odd,
            options=bytes(4 * draw(st.sampled_from([0, 0, 0, 1, 10]))),
            more=draw(st.integers(0, 9)) == 0, offset=draw(st.sampled_from([0] * 9 + [5])),
        )  # fmt: skip
    chains = st.sampled_from(
        [
            (0, extension(1)), (0, jumbo(draw(st.integers(0, 200)))), (43, extension(2)), (60, extension(3)),
            (44, fragment(0, False)), (44, fragment(0, True)), (44, fragment(3, False)), (51, authentication()),
        ]
    )  # fmt: skip
    extensions = tuple(draw(st.lists(chains, max_size=3 if draw(st.booleans()) else 0)))
    return 0x86DD, ipv6(
        payload, protocol, V6[0] + source, V6[1] + destination, traffic_class=traffic, extensions=extensions, length=odd
    )


tag_stacks = st.sampled_from([(), (), (0x8100,), (0x88A8, 0x8100), (0x9100,)])


@st.composite
def frames(draw: st.DrawFn) -> tuple[int, bytes]:
    """A frame and its link type."""
    kind, packet = draw(packets())
    protocol = 0x21 if kind == 0x0800 else 0x57
    match draw(st.integers(0, 16)):
        case 0:
            return 113, sll(packet, kind, kind=draw(small), hardware=draw(st.sampled_from([1, 772, 803])))
        case 1:
            return 276, sll2(packet, kind, kind=draw(small), address=draw(st.binary(max_size=8)))
        case 2:
            return draw(st.sampled_from([101, 12, 14, 228, 229])), packet
        case 3:
            family = draw(st.sampled_from([2, 10, 24, 28, 30, 7]))
            return draw(st.sampled_from([0, 108])), family.to_bytes(4, draw(st.sampled_from(["big", "little"]))) + packet
        case 4:
            return draw(st.sampled_from([9, 50])), ppp(packet, protocol, framed=draw(st.booleans()), short=draw(st.booleans()))
        case 5:
            return draw(st.sampled_from([104, 50])), b"\x0f\0" + kind.to_bytes(2, "big") + packet
        case 6:
            return 51, pppoe(packet, protocol, draw(st.sampled_from([0, 0, 9])))
        case 7:
            return ETHERNET, ethernet(pppoe(packet, protocol), 0x8864, tags=draw(tag_stacks))
        case 8:
            return ETHERNET, ethernet(mpls(packet, draw(st.integers(1, 3))), 0x8847, tags=draw(tag_stacks))
        case 9:
            return ETHERNET, ethernet(snap(packet, kind), None, tags=draw(tag_stacks))
        case 10:
            return ETHERNET, ethernet(packet, draw(st.sampled_from([0x0806, 0x0800, 0x86DD, 5])))
    return ETHERNET, ethernet(packet, kind, tags=draw(tag_stacks))


options = st.fixed_dictionaries(
    {
        "fcs": st.sampled_from([0, 0, 0, 4]),
        "inner": st.booleans(),
        "mtu": st.sampled_from([0, 0, 30, 68, 100, 1500, 70_000]),
    }
)
gso_sizes = st.sampled_from([0, 0, 0, 1, 20, 1400])


@SETTINGS
@given(made=frames(), options=options, gso=gso_sizes, direction=st.integers(0, 2), more=st.sampled_from([0, 0, 4, 20, 70_000]))
def test_every_cut_agrees(made: tuple[int, bytes], options: dict, gso: int, direction: int, more: int):
    """Each frame at every captured length; MORE: bytes that it had on the wire, behind all that was built."""
    linktype, data = made
    length = len(data) + more
    check([Frame(data[:cut], length, gso, direction) for cut in range(len(data) + 1)], linktype, **options)


@SETTINGS
@given(made=frames(), options=options, gso=gso_sizes)
def test_every_length_agrees(made: tuple[int, bytes], options: dict, gso: int):
    """Each frame as if it had been shorter or longer than its headers say, captured whole or beyond its end."""
    linktype, data = made
    lengths = range(len(data) + 10)
    check([Frame(data[:length], length, gso) for length in lengths], linktype, **options)
    check([Frame(data, length, gso) for length in lengths], linktype, **options)


@SETTINGS
@given(
    made=frames(),
    options=options,
    gso=gso_sizes,
    linktype=st.sampled_from([None, None, None, 0, 9, 50, 101, 113, 276, 147]),
    seed=st.integers(0, 2**32),
)
def test_corrupted_frames_agree(made: tuple[int, bytes], options: dict, gso: int, linktype: int | None, seed: int):
    draw = random.Random(seed)
    damaged = []
    for _ in range(60):
        data = bytearray(made[1])
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            data[at] = draw.choice([data[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 0xFF])
        cut = draw.choice([len(data), len(data), draw.randrange(len(data) + 1)])
        damaged.append(Frame(bytes(data[:cut]), draw.choice([len(data), cut, len(data) + 5]), gso))
    check(damaged, made[0] if linktype is None else linktype, **options)


@SETTINGS
@given(
    data=st.binary(max_size=200), length=st.integers(0, 2**32 - 1), gso=st.integers(0, 65535), options=options,
    linktype=st.sampled_from([0, 1, 9, 12, 50, 51, 101, 104, 108, 113, 228, 229, 276, 147]),
)  # fmt: skip
def test_any_bytes_agree(data: bytes, length: int, gso: int, options: dict, linktype: int):
    check([Frame(data, length, gso)], linktype, **options)
