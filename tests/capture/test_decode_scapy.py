"""capture/decode/decode.c on frames that scapy builds, independently of frame_builder.py."""

from __future__ import annotations

import ipaddress
import logging

import pytest
from decode_tool import Decoded, Frame, driver
from decode_words import CE, IPV4, IPV6, MAC, TCP, Address
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, ICMP, IP, UDP, IPOption_NOP, fragment
from scapy.layers.inet import TCP as Tcp
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    Jumbo,
    fragment6,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, LLC, SNAP, STP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether, Loopback
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

logging.getLogger("scapy").setLevel(logging.ERROR)
MACS = {"src": "02:00:00:00:00:02", "dst": "02:00:00:00:00:01"}
ETHER = Ether(**MACS)
IP4 = IP(src="10.1.2.3", dst="10.4.5.6")
IP6 = IPv6(src="2001:db8::1", dst="2001:db8::2")
INNER4 = IP(src="192.168.0.1", dst="192.168.0.2", tos=3)
INNER6 = IPv6(src="fd00::1", dst="fd00::2", tc=3)
SEGMENT = Tcp(sport=40000, dport=443, seq=123456789, flags="SA", options=[("MSS", 1460), ("NOP", None)]) / Raw(
    b"x" * 77
)
INNER_FRAME = Ether(src="02:00:00:00:00:08") / INNER4 / SEGMENT

OUTER = {
    "ip": (1, ETHER / IP4 / SEGMENT),
    "ip, options": (1, ETHER / IP(src="10.1.2.3", dst="10.4.5.6", options=[IPOption_NOP()] * 8) / SEGMENT),
    "ipv6": (1, ETHER / IP6 / SEGMENT),
    "vlan": (1, ETHER / Dot1Q(vlan=7) / IP4 / SEGMENT),
    "qinq": (1, ETHER / Dot1AD(vlan=7) / Dot1Q(vlan=8) / IP6 / SEGMENT),
    "three tags": (1, ETHER / Dot1AD() / Dot1AD() / Dot1Q() / IP4 / SEGMENT),
    "mpls": (1, ETHER / MPLS(label=16, s=0) / MPLS(label=17, s=1) / IP4 / SEGMENT),
    "mpls, ipv6": (1, ETHER / MPLS(label=17, s=1) / IP6 / SEGMENT),
    "pppoe": (1, ETHER / PPPoE(sessionid=5) / PPP(proto=0x21) / IP4 / SEGMENT),
    "pppoe, ipv6": (1, ETHER / Dot1Q() / PPPoE(sessionid=5) / PPP(proto=0x57) / IP6 / SEGMENT),
    "snap": (1, Dot3(**MACS) / LLC() / SNAP() / IP4 / SEGMENT),
    "cooked": (113, CookedLinux() / IP4 / SEGMENT),
    "cooked 2": (276, CookedLinuxV2() / IP6 / SEGMENT),
    "raw": (101, IP4 / SEGMENT),
    "null": (0, Loopback(type=2) / IP4 / SEGMENT),
    "ppp": (9, HDLC() / PPP(proto=0x21) / IP4 / SEGMENT),
    "hop-by-hop": (1, ETHER / IP6 / IPv6ExtHdrHopByHop() / SEGMENT),
    "extensions": (
        1,
        ETHER
        / IP6
        / IPv6ExtHdrHopByHop()
        / IPv6ExtHdrDestOpt()
        / IPv6ExtHdrRouting(addresses=["::1", "::2"])
        / SEGMENT,
    ),
    "atomic fragment": (1, ETHER / IP6 / IPv6ExtHdrFragment(offset=0, m=0) / SEGMENT),
    "authentication": (1, ETHER / IP4 / AH(nh=6, payloadlen=4, icv=bytes(12)) / SEGMENT),
    "jumbo": (
        1,
        ETHER
        / IPv6(src="2001:db8::1", dst="2001:db8::2", plen=0)
        / IPv6ExtHdrHopByHop(options=[Jumbo(jumboplen=8 + 28 + 77)])
        / SEGMENT,
    ),
}

TUNNELS = {
    "ip in ip": IP4 / INNER4 / SEGMENT,
    "6in4": IP4 / INNER6 / SEGMENT,
    "4in6": IP6 / INNER4 / SEGMENT,
    "ipv6 in ipv6": IP6 / INNER6 / SEGMENT,
    "gre": IP4 / GRE() / INNER4 / SEGMENT,
    "gre, ipv6": IP6 / GRE(key_present=1, key=7) / INNER6 / SEGMENT,
    "gre, all": IP4 / GRE(chksum_present=1, key_present=1, seqnum_present=1) / INNER4 / SEGMENT,
    "gre, teb": IP4 / GRE(proto=0x6558) / INNER_FRAME,
    "gre, mpls": IP4 / GRE(proto=0x8847) / MPLS(s=1) / INNER6 / SEGMENT,
    "erspan II": IP4 / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II() / INNER_FRAME,
    "erspan III": IP4 / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III() / INNER_FRAME,
    "vxlan": IP4 / UDP(sport=50000, dport=4789) / VXLAN(vni=5) / INNER_FRAME,
    "vxlan over ipv6": IP6 / UDP(sport=50000, dport=4789) / VXLAN(vni=5) / INNER_FRAME,
    "geneve": IP4 / UDP(sport=50000, dport=6081) / GENEVE(vni=5) / INNER_FRAME,
    "geneve, ip": IP4 / UDP(sport=50000, dport=6081) / GENEVE(vni=5, proto=0x0800) / INNER4 / SEGMENT,
    "vxlan in gre": IP6 / GRE() / IP4 / UDP(dport=4789) / VXLAN() / INNER_FRAME,
}


def decoded(packet: Packet, linktype: int = 1, *, inner: bool = False) -> Decoded:
    data = bytes(packet)
    return driver().decode([Frame(data, len(data))], linktype, inner=inner)[0]


def address(text: str) -> Address:
    value = ipaddress.ip_address(text)
    return Address(value.version, int(value))


@pytest.mark.parametrize("linktype, packet", OUTER.values(), ids=OUTER.keys())
def test_headers_that_scapy_made(linktype: int, packet: Packet):
    got = decoded(packet, linktype)
    assert got.source == address(packet.getlayer(IP).src if IP in packet else packet.getlayer(IPv6).src)
    assert got.destination == address("10.4.5.6" if got.source.family == IPV4 else "2001:db8::2")
    assert (got.marks, got.tcp_seq, got.tcp_len) == (TCP, 123456789, 78)


@pytest.mark.parametrize("packet", TUNNELS.values(), ids=TUNNELS.keys())
def test_tunnels_that_scapy_made(packet: Packet):
    outer, inner = decoded(ETHER / packet), decoded(ETHER / packet, inner=True)
    assert outer.source == address("10.1.2.3" if packet.version == 4 else "2001:db8::1")
    assert outer.marks == 0
    assert inner.source in (address("192.168.0.1"), address("fd00::1"))
    assert (inner.marks, inner.tcp_seq, inner.tcp_len) == (CE | TCP, 123456789, 78)


def test_fragments_that_scapy_made():
    datagram = UDP(sport=1, dport=2) / Raw(bytes(3000))
    for pieces, family in [
        (fragment(IP4 / datagram, 1000), IPV4),
        (fragment6(IP6 / IPv6ExtHdrFragment() / datagram, 1280), IPV6),
    ]:
        got = [decoded(ETHER / piece) for piece in pieces]
        assert len(got) >= 3 and len({packet.flow for packet in got}) == 1
        assert {packet.source.family for packet in got} == {family}
        assert not any(packet.marks for packet in got)


def test_frames_without_ip_that_scapy_made():
    for packet in (ETHER / ARP(), Dot3(**MACS) / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP()):
        got = decoded(packet)
        assert (got.source, got.flow, got.marks) == (Address(MAC, 0x020000000002), 0, 0)


def test_ping_has_one_flow_each_way():
    there, again, back = (
        decoded(ETHER / packet)
        for packet in (IP4 / ICMP(seq=1), IP4 / ICMP(seq=2), IP(src="10.4.5.6", dst="10.1.2.3") / ICMP(type=0))
    )
    assert there.flow == again.flow != back.flow
