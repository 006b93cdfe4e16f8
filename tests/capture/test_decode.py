"""capture/decode/decode.c on frames made by hand, against the values that they were made from, and, in `one`, against
the plain decoder. Every frame is in a heap block of exactly its captured length, under ASan and UBSan."""

from __future__ import annotations

from collections.abc import Callable

import frame_builder as make
import pytest
from decode_check import DATA, ETHERNET, PORTS, V4, V6, one, v4, v6
from decode_oracle import wire_bytes
from decode_words import CE, IN, IPV4, IPV6, MAC, OUT, TCP, TRUNCATED, UNPARSED, Address

INNER4 = (0xC0A80001, 0xC0A80002)


# The decoded values are those that the frame was made from.


def test_an_ordinary_frame_in_full():
    packet = one(
        make.ethernet(v4(make.tcp(DATA, PORTS, 0xFFFFFFF0, make.SYN | make.ACK), tos=3), 0x0800), direction=OUT
    )
    assert packet.source == Address(IPV4, V4[0])
    assert packet.destination == Address(IPV4, V4[1])
    assert (packet.ts_ns, packet.quality, packet.direction) == (12345, 0, OUT)
    assert (packet.bytes, packet.wire_bytes) == (154, 178)
    assert (packet.tcp_seq, packet.tcp_len) == (0xFFFFFFF0, 101)
    assert packet.marks == CE | TCP
    assert packet.macs == (2, 1)


@pytest.mark.parametrize(
    "flags, space", [(make.ACK, 100), (make.SYN, 101), (make.FIN | make.ACK, 101), (make.SYN | make.FIN, 102)]
)
@pytest.mark.parametrize("ip, kind", [(v4, 0x0800), (v6, 0x86DD)])
def test_sequence_space(ip: Callable[..., bytes], kind: int, flags: int, space: int):
    packet = one(make.ethernet(ip(make.tcp(DATA, PORTS, 77, flags, bytes(12))), kind))
    assert (packet.tcp_seq, packet.tcp_len, packet.marks) == (77, space, TCP)


@pytest.mark.parametrize("field, marks", [(0, 0), (1, 0), (2, 0), (3, CE), (0xFC, 0), (0xFF, CE)])
def test_congestion_experienced_is_both_bits(field: int, marks: int):
    datagram = make.udp(DATA, PORTS)
    assert one(make.ethernet(v4(datagram, make.UDP, tos=field), 0x0800)).marks == marks
    assert one(make.ethernet(v6(datagram, make.UDP, traffic_class=field), 0x86DD)).marks == marks


def test_ethernet_padding_is_not_payload():
    packet = one(make.ethernet(v4(make.tcp(b"", PORTS, 5)), 0x0800).ljust(60, b"\0"))
    assert (packet.bytes, packet.wire_bytes, packet.tcp_len, packet.marks) == (60, 84, 0, TCP)


V4_TCP, V6_TCP = v4(), v6()
LINKS = {
    "vlan": (ETHERNET, make.ethernet(V4_TCP, 0x0800, tags=(0x8100,))),
    "vlan, IPv6": (ETHERNET, make.ethernet(V6_TCP, 0x86DD, tags=(0x8100,))),
    "802.1ad": (ETHERNET, make.ethernet(V4_TCP, 0x0800, tags=(0x88A8, 0x8100))),
    "four tags": (ETHERNET, make.ethernet(V4_TCP, 0x0800, tags=(0x9100, 0x9100, 0x8100, 0x8100))),
    "snap": (ETHERNET, make.ethernet(make.snap(V4_TCP, 0x0800), None)),
    "snap, bridge tunnel": (ETHERNET, make.ethernet(make.snap(V4_TCP, 0x0800, b"\0\0\xf8"), None)),
    "vlan, snap": (ETHERNET, make.ethernet(make.snap(V6_TCP, 0x86DD), None, tags=(0x8100,))),
    "mpls": (ETHERNET, make.ethernet(make.mpls(V4_TCP), 0x8847)),
    "three labels, IPv6": (ETHERNET, make.ethernet(make.mpls(V6_TCP, 3), 0x8848)),
    "pppoe": (ETHERNET, make.ethernet(make.pppoe(V4_TCP, 0x0021), 0x8864)),
    "pppoe, IPv6": (ETHERNET, make.ethernet(make.pppoe(V6_TCP, 0x0057), 0x8864, tags=(0x8100,))),
    "pppoe, mpls": (ETHERNET, make.ethernet(make.pppoe(make.mpls(V4_TCP), 0x0281), 0x8864)),
    "cooked": (113, make.sll(V4_TCP, 0x0800)),
    "cooked, vlan": (113, make.sll(b"\0\x05\x86\xdd" + V6_TCP, 0x8100)),
    "cooked, 802.2": (113, make.sll(make.snap(V4_TCP, 0x0800), 4)),
    "cooked, no address": (113, make.sll(V4_TCP, 0x0800, hardware=65534, address=b"")),
    "cooked 2": (276, make.sll2(V4_TCP, 0x0800)),
    "cooked 2, IPv6": (276, make.sll2(V6_TCP, 0x86DD)),
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
    "ppp": (9, make.ppp(V4_TCP, 0x0021)),
    "ppp, framed": (9, make.ppp(V6_TCP, 0x0057, framed=True)),
    "ppp, compressed": (9, make.ppp(V4_TCP, 0x21, short=True)),
    "ppp hdlc": (50, make.ppp(V4_TCP, 0x0021, framed=True)),
    "ppp hdlc, cisco": (50, b"\x0f\0\x08\0" + V4_TCP),
    "ppp ether": (51, make.pppoe(V4_TCP, 0x0021)),
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
    reference = make.ethernet(V4_TCP, 0x0800) if packet.source.family == IPV4 else make.ethernet(V6_TCP, 0x86DD)
    assert packet.flow == one(reference).flow, "a flow is the same on every link"


@pytest.mark.parametrize("cooked, linktype", [(make.sll, 113), (make.sll2, 276)])
def test_cooked_direction(cooked: Callable[..., bytes], linktype: int):
    for kind, direction in [(0, IN), (1, IN), (2, IN), (3, IN), (4, OUT)]:
        assert one(cooked(V4_TCP, 0x0800, kind=kind), linktype, direction=3 - direction).direction == direction
    assert one(cooked(V4_TCP, 0x0800, kind=7), linktype, direction=OUT).direction == OUT


@pytest.mark.parametrize("cooked, linktype", [(make.sll, 113), (make.sll2, 276)])
@pytest.mark.parametrize("hardware", [770, 803, 824])
def test_cooked_protocols_that_are_no_ethernet_types(cooked: Callable[..., bytes], linktype: int, hardware: int):
    packet = one(cooked(V4_TCP, 0x0800, hardware=hardware), linktype)
    assert (packet.source, packet.flow, packet.marks) == (Address(MAC, 0x020000000009), 0, 0)


NOT_IP = {
    "arp": make.ethernet(bytes(28), 0x0806),
    "lldp": make.ethernet(DATA, 0x88CC, tags=(0x8100,)),
    "spanning tree": make.ethernet(b"\x42\x42\x03" + bytes(35), None),
    "snap, cdp": make.ethernet(make.snap(DATA, 0x2000, b"\0\0\x0c"), None),
    "mpls, pseudowire": make.ethernet(make.mpls(bytes(4) + make.ethernet(V4_TCP, 0x0800)), 0x8847),
    "pppoe discovery": make.ethernet(make.pppoe(b"", 0, code=9), 0x8863),
    "pppoe, lcp": make.ethernet(make.pppoe(DATA, 0xC021), 0x8864),
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


def test_ipv4_options_are_skipped():
    packet = one(make.ethernet(v4(options=bytes(40)), 0x0800))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)
    assert packet.flow == one(make.ethernet(v4(), 0x0800)).flow


@pytest.mark.parametrize("kind", ["v4", "v6"])
def test_fragments_of_a_datagram_are_one_flow_without_ports(kind: str):
    datagram = make.udp(bytes(2000), PORTS)
    pieces = [(0, datagram[:1200]), (150, datagram[1200:])]
    if kind == "v4":
        frames = [
            make.ethernet(v4(piece, make.UDP, offset=at, more=at == 0, ident=ident), 0x0800)
            for ident in (1, 2)
            for at, piece in pieces
        ]
        unfragmented = make.ethernet(v4(datagram, make.UDP), 0x0800)
    else:
        frames = [
            make.ethernet(v6(piece, make.UDP, extensions=((44, make.fragment(at, at == 0, ident)),)), 0x86DD)
            for ident in (1, 2)
            for at, piece in pieces
        ]
        unfragmented = make.ethernet(v6(datagram, make.UDP), 0x86DD)
    packets = [one(frame) for frame in frames]
    assert len({packet.flow for packet in packets}) == 1
    assert packets[0].flow not in (0, one(unfragmented).flow)
    assert not any(packet.marks for packet in packets)


def test_a_tcp_fragment_has_no_sequence():
    packet = one(make.ethernet(v4(more=True), 0x0800))
    assert (packet.marks, packet.tcp_seq, packet.tcp_len) == (0, 0, 0)


def test_an_ipv6_fragment_that_is_the_whole_datagram_has_ports():
    packet = one(make.ethernet(v6(extensions=((44, make.fragment(0, False)),)), 0x86DD))
    assert packet.marks == TCP and packet.flow == one(make.ethernet(v6(), 0x86DD)).flow


EXTENSIONS = {
    "hop-by-hop": ((0, make.extension(1)),),
    "all": (
        (0, make.extension(2, b"\5\2\0\0")),
        (60, make.extension(1)),
        (43, make.extension(3)),
        (44, make.fragment(0, False)),
        (51, make.authentication()),
        (60, make.extension(4)),
    ),
    "many": ((60, make.extension(1)),) * 40,
    "the longest": ((60, make.extension(256)),),
}


@pytest.mark.parametrize("extensions", EXTENSIONS.values(), ids=EXTENSIONS.keys())
def test_ipv6_extension_headers_are_skipped(extensions: tuple[tuple[int, bytes], ...]):
    packet = one(make.ethernet(v6(extensions=extensions), 0x86DD))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)
    assert packet.flow == one(make.ethernet(v6(), 0x86DD)).flow


def test_ipv4_authentication_header():
    packet = one(make.ethernet(v4(bytes([6]) + make.authentication() + make.tcp(DATA, PORTS, 1), 51), 0x0800))
    assert packet.marks == TCP and packet.flow == one(make.ethernet(v4(), 0x0800)).flow


@pytest.mark.parametrize("protocol", [6, 17, 33, 132, 136])
def test_ports_distinguish_flows(protocol: int):
    payloads = [make.tcp(b"", ports, 1) for ports in [(1, 2), (2, 1), (1, 3), (3, 2)]]
    assert len({one(make.ethernet(v4(payload, protocol), 0x0800)).flow for payload in payloads}) == 4


@pytest.mark.parametrize("protocol", [1, 50, 58, 89])
def test_protocols_without_ports_have_a_flow_each(protocol: int):
    flows = {one(make.ethernet(v4(payload, protocol), 0x0800)).flow for payload in (DATA, DATA[::-1], b"")}
    assert len(flows) == 1 and flows != {one(make.ethernet(v4(b"", 253), 0x0800)).flow}


# Lengths that are larger than a packet on a wire.


def test_ipv4_length_zero_means_the_length_of_the_frame():
    packet = one(make.ethernet(v4(total=0), 0x0800))
    assert (packet.marks, packet.tcp_len) == (TCP, 100)


@pytest.mark.parametrize("size", [65536, 200_000, 2**31])
def test_big_tcp(size: int):
    for data, kind, header in [
        (v4(make.tcp(DATA, PORTS, 1), total=0), 0x0800, 40),
        (v6(make.tcp(DATA, PORTS, 1), length=0), 0x86DD, 60),
        (v6(make.tcp(DATA, PORTS, 1), length=0, extensions=((0, make.jumbo(size - 40)),)), 0x86DD, 68),
    ]:
        packet = one(make.ethernet(data, kind), length=size + 14)
        assert (packet.marks, packet.tcp_len, packet.bytes) == (TCP, size - header, size + 14)


def test_a_jumbo_option_is_found_after_others():
    options = b"\0\x05\x02\0\0\xc2\x04" + (68 + 100 - 44).to_bytes(4, "big")
    packet = one(make.ethernet(v6(length=0, extensions=((0, make.extension(2, options)),)), 0x86DD).ljust(400, b"\0"))
    assert (packet.marks, packet.tcp_len) == (TCP, 68 + 100 - 44 - 16 - 20)


def test_ipv6_without_next_header_is_empty():
    assert one(make.ethernet(v6(b"", 59, length=0), 0x86DD).ljust(60, b"\0")).marks == 0


def test_wire_bytes_do_not_wrap():
    assert one(DATA, length=2**32 - 1).wire_bytes == 2**32 - 1
    assert one(DATA, 101, length=2**32 - 20).wire_bytes == 2**32 - 1


@pytest.mark.parametrize("length, size", [(0, 0), (3, 0), (4, 0), (5, 1), (64, 60), (1518, 1514)])
def test_the_frame_check_sequence_is_no_part_of_bytes(length: int, size: int):
    packet = one(make.ethernet(v4(), 0x0800).ljust(2000, b"\0")[:length], fcs=4)
    assert (packet.bytes, packet.wire_bytes) == (size, max(size, 60) + 24)


# Headers that are cut off, and headers with false lengths.


@pytest.mark.parametrize("data, linktype", [(make.ethernet(v4(), 0x0800), 1), (make.ethernet(v6(), 0x86DD), 1)])
@pytest.mark.parametrize("caplen", [14, 20, 33])
def test_without_an_ip_header_the_mac_is_the_source(data: bytes, linktype: int, caplen: int):
    packet = one(data[:caplen], linktype, length=1514)
    assert (packet.source, packet.flow, packet.marks) == (Address(MAC, 2), 0, TRUNCATED)
    assert (packet.bytes, packet.wire_bytes) == (1514, 1538)


@pytest.mark.parametrize("caplen", [0, 1, 13])
def test_without_a_link_header_there_is_no_source(caplen: int):
    packet = one(make.ethernet(v4(), 0x0800)[:caplen], length=1514)
    assert packet.source.family == 0 and packet.marks == TRUNCATED
    assert (packet.bytes, packet.wire_bytes, packet.macs) == (1514, 1538, None)


@pytest.mark.parametrize("length", [0, 1, 13])
def test_a_frame_shorter_than_its_header_is_unparsed(length: int):
    packet = one(make.ethernet(v4(), 0x0800)[:length])
    assert (packet.bytes, packet.wire_bytes, packet.marks) == (length, 84, UNPARSED)


LIES = {
    "IPv4 says it is version 5": make.ethernet(b"\x55" + v4()[1:], 0x0800),
    "IPv4 header of 16 bytes": make.ethernet(b"\x44" + v4()[1:], 0x0800),
    "IPv4 header longer than the packet": make.ethernet(v4(b"", total=20).replace(b"\x45", b"\x4f", 1), 0x0800),
    "IPv4 length beyond the frame": make.ethernet(v4(total=1000), 0x0800),
    "IPv4 length below the header": make.ethernet(v4(total=19), 0x0800),
    "IPv6 says it is version 4": make.ethernet(b"\x45" + v6()[1:], 0x86DD),
    "IPv6 length beyond the frame": make.ethernet(v6(length=1000), 0x86DD),
    "IPv6 extension beyond the packet": make.ethernet(v6(b"", 6, extensions=((60, b"\x50" + bytes(6)),)), 0x86DD),
    "TCP header of 16 bytes": make.ethernet(v4(make.tcp(b"", PORTS, 1)[:12] + b"\x40" + bytes(7)), 0x0800),
    "TCP header beyond the packet": make.ethernet(v4(make.tcp(b"", PORTS, 1)[:12] + b"\xf0" + bytes(7)), 0x0800).ljust(
        90, b"\0"
    ),
    "TCP in three bytes": make.ethernet(v4(b"\1\2\3"), 0x0800).ljust(60, b"\0"),
    "jumbo length beyond the frame": make.ethernet(v6(length=0, extensions=((0, make.jumbo(9999)),)), 0x86DD),
    "raw IP of version 7": None,
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES.keys())
def test_contradictions_are_unparsed_and_no_length_wraps(data: bytes | None):
    packet = one(data) if data else one(b"\x70" + v4()[1:], 101)
    assert packet.marks == UNPARSED
    assert (packet.tcp_seq, packet.tcp_len) == (0, 0)


# Tunnels.

INSIDE = make.ipv4(make.tcp(DATA, PORTS, 9), 6, *INNER4, tos=3)
INSIDE6 = make.ipv6(make.tcp(DATA, PORTS, 9), 6, *V6, traffic_class=3)
FRAME_INSIDE = make.ethernet(INSIDE, 0x0800, sender=8, tags=(0x8100,))
TUNNELS = {
    "ip in ip": v4(INSIDE, 4),
    "ip in ipv6": v6(INSIDE, 4),
    "6in4": v4(INSIDE6, 41),
    "ipv6 in ipv6": v6(INSIDE6, 41, extensions=((60, make.extension(1)),)),
    "mpls in ip": v4(make.mpls(INSIDE, 2), 137),
    "ethernet in ip": v6(FRAME_INSIDE, 143),
    "gre": v4(make.gre(INSIDE, 0x0800), 47),
    "gre, ipv6": v6(make.gre(INSIDE6, 0x86DD), 47),
    "gre, all fields": v4(make.gre(INSIDE, 0x0800, checksum=True, key=True, sequence=True), 47),
    "gre, routing": v4(make.gre(INSIDE, 0x0800, routes=(bytes(4), bytes(8)), key=True), 47),
    "gre, teb": v4(make.gre(FRAME_INSIDE, 0x6558, key=True), 47),
    "gre, mpls": v4(make.gre(make.mpls(INSIDE), 0x8847), 47),
    "pptp": v4(make.gre(make.ppp(INSIDE, 0x21, short=True), 0x880B, key=True, sequence=True, ack=True, version=1), 47),
    "erspan": v4(make.gre(FRAME_INSIDE, 0x88BE), 47),
    "erspan II": v4(make.gre(make.erspan2(FRAME_INSIDE), 0x88BE, sequence=True), 47),
    "erspan III": v4(make.gre(make.erspan3(FRAME_INSIDE), 0x22EB, sequence=True), 47),
    "erspan III, platform": v4(make.gre(make.erspan3(FRAME_INSIDE, platform=True), 0x22EB, sequence=True), 47),
    "erspan III, ip": v4(make.gre(make.erspan3(INSIDE, kind=2), 0x22EB, sequence=True), 47),
    "wccp": v4(make.gre(INSIDE, 0x883E), 47),
    "wccp 2": v4(make.gre(bytes(4) + INSIDE, 0x883E), 47),
    "vxlan": v4(make.udp(make.vxlan(FRAME_INSIDE), (50000, 4789)), make.UDP),
    "vxlan over ipv6": v6(make.udp(make.vxlan(FRAME_INSIDE), (50000, 4789)), make.UDP),
    "vxlan, Linux's port": v4(make.udp(make.vxlan(FRAME_INSIDE), (50000, 8472)), make.UDP),
    "geneve": v4(make.udp(make.geneve(FRAME_INSIDE, 0x6558, options=5), (50000, 6081)), make.UDP),
    "geneve, ip": v6(make.udp(make.geneve(INSIDE6, 0x86DD), (50000, 6081)), make.UDP),
    "vxlan in gre": v4(make.gre(v4(make.udp(make.vxlan(FRAME_INSIDE), (50000, 4789)), make.UDP), 0x0800), 47),
}


@pytest.mark.parametrize("data", TUNNELS.values(), ids=TUNNELS.keys())
def test_tunnels(data: bytes):
    kind = 0x0800 if data[0] >> 4 == 4 else 0x86DD
    outer, inner = one(make.ethernet(data, kind)), one(make.ethernet(data, kind), inner=True)
    assert outer.source == (Address(IPV4, V4[0]) if kind == 0x0800 else Address(IPV6, V6[0]))
    assert outer.marks == 0
    assert inner.source in (Address(IPV4, INNER4[0]), Address(IPV6, V6[0]))
    assert (inner.marks, inner.tcp_seq, inner.tcp_len) == (CE | TCP, 9, 100)
    assert (
        inner.flow
        == one(
            make.ethernet(
                INSIDE if inner.source.family == IPV4 else INSIDE6, 0x0800 if inner.source.family == IPV4 else 0x86DD
            )
        ).flow
    )
    assert (outer.bytes, outer.wire_bytes) == (inner.bytes, inner.wire_bytes)


OPAQUE = {
    "fragment": v4(INSIDE, 4, more=True),
    "arp in vxlan": v4(make.udp(make.vxlan(make.ethernet(bytes(28), 0x0806)), (1, 4789)), make.UDP),
    "vxlan without its flag": v4(make.udp(b"\0" + make.vxlan(FRAME_INSIDE)[1:], (1, 4789)), make.UDP),
    "vxlan's port as the source": v4(make.udp(make.vxlan(FRAME_INSIDE), (4789, 53)), make.UDP),
    "geneve of another version": v4(make.udp(b"\x40" + make.geneve(INSIDE, 0x0800)[1:], (1, 6081)), make.UDP),
    "gre of another version": v4(make.gre(INSIDE, 0x0800, version=2), 47),
    "pptp acknowledgement": v4(make.gre(b"", 0x880B, key=True, ack=True, version=1), 47),
    "erspan of another version": v4(make.gre(b"\x30" + make.erspan2(FRAME_INSIDE)[1:], 0x88BE, sequence=True), 47),
    "esp": v4(INSIDE, 50),
}


@pytest.mark.parametrize("data", OPAQUE.values(), ids=OPAQUE.keys())
def test_unreadable_tunnels_count_for_the_outer_sender(data: bytes):
    packet = one(make.ethernet(data, 0x0800), inner=True)
    assert (packet.source, packet.marks) == (Address(IPV4, V4[0]), 0)
