"""Decodes a frame plainly, for the tests of capture/decode/decode.c: by the standards, and as capture/decode/decode.h
promises for frames that are cut off or contradict themselves. It shares no code with the engine and has another
structure: recursive descent that stops by exception. The link layers are in decode_oracle_link.py."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from decode_oracle_link import Link, Rest, Stop, number, read_link, version_of
from decode_words import CE, CNP, IPV4, IPV6, MERGED, PAUSE, TCP, TRUNCATED, UNPARSED, Address

WITH_PORTS = {6, 17, 33, 132, 136}


class Flow(NamedTuple):
    source: Address
    destination: Address
    protocol: int
    ports: tuple[int, int]


class Packet(NamedTuple):
    source: Address
    bytes: int
    wire_bytes: int
    flow: Flow | None
    tcp_seq: int
    tcp_len: int
    marks: int
    direction: int
    macs: tuple[int, int] | None
    destination: Address | None


@dataclass
class Ip:
    version: int
    source: Address
    destination: Address
    ce: bool
    at: int
    protocol: int = 0
    fragment: bool = False
    transport: int | None = None
    payload: int | None = None
    ports: tuple[int, int] = (0, 0)
    tcp: tuple[int, int] | None = None
    notifies: bool = False
    rest: Rest | None = None
    marks: int = 0

    def flow(self) -> Flow:
        return Flow(self.source, self.destination, self.protocol, self.ports)


@dataclass
class Found:
    """The result up to the outermost IP header."""

    link: Link = field(default_factory=Link)
    version: int | None = None  # of the IP header that is declared to follow
    at: int = 0
    ip: Ip | None = None
    pause: tuple[int, int] | None = None  # quanta, classes
    marks: int = 0


def decode(
    data: bytes,
    length: int,
    linktype: int,
    *,
    fcs: int = 0,
    inner: bool = False,
    mtu: int = 0,
    gso: int = 0,
    direction: int = 0,
) -> Packet:
    size = max(length - fcs, 0)
    rest = Rest(data, 0, size, min(len(data), size))
    found = read_frame(rest, linktype)
    wire = wire_bytes(max(size - found.link.header, 0) + 14)
    marks = found.marks
    merged, assumed = merged_wire_bytes(found, size, mtu, gso)
    if merged:
        marks |= MERGED | (TRUNCATED if assumed else 0)
        wire = merged
    ip = found.ip
    if ip and inner:
        ip, more, _ = innermost(ip)
        marks |= more
    if ip:
        marks |= ip.marks | (CE if ip.ce else 0) | (TCP if ip.tcp else 0) | (CNP if ip.notifies else 0)
    marks |= PAUSE if found.pause else 0
    seq, length_or_classes = (ip.tcp if ip and ip.tcp else None) or found.pause or (0, 0)
    return Packet(
        source=ip.source if ip else found.link.sender,
        bytes=size,
        wire_bytes=min(wire, 2**32 - 1),
        flow=ip.flow() if ip else None,
        tcp_seq=seq,
        tcp_len=length_or_classes,
        marks=marks,
        direction=found.link.direction or direction,
        macs=found.link.macs,
        destination=ip.destination if ip else None,
    )


def wire_bytes(ethernet: int) -> int:
    return max(ethernet, 60) + 24


def read_frame(rest: Rest, linktype: int) -> Found:
    found = Found()
    try:
        what = read_link(rest, linktype, found.link)
        if what == ("type", 0x8808):
            found.at = rest.at
            found.pause = read_pause(rest)
            return found
        found.version = version_of(rest, what)
        found.at = rest.at
        if found.version:
            found.ip = read_ip(rest, found.version)
    except Stop as stop:
        found.at = rest.at
        found.marks |= stop.mark
    return found


def read_pause(rest: Rest) -> tuple[int, int] | None:
    """Returns the longest time of the classes of a MAC control frame, and the set of classes with a time."""
    opcode = number(rest.need(2))
    if opcode == 0x0001:
        times = [number(rest.need(4)[2:])] * 8
    elif opcode == 0x0101:
        body = rest.need(20)
        times = [number(body[4 + 2 * i : 6 + 2 * i]) * (number(body[2:4]) >> i & 1) for i in range(8)]
    else:
        return None
    return max(times), sum(1 << i for i, time in enumerate(times) if time)


# IP


def read_ip(rest: Rest, version: int) -> Ip:
    """Raises Stop if the fixed header is missing or not of that version."""
    ip = (read_ipv4 if version == 4 else read_ipv6)(rest)
    ip.rest = rest
    try:
        find_transport(rest, ip)
        ip.transport = rest.at
        if not ip.fragment and ip.protocol in WITH_PORTS:
            read_transport(rest, ip)
    except Stop as stop:
        ip.marks |= stop.mark
    if rest.lied:
        ip.marks |= UNPARSED
    if ip.marks & UNPARSED:
        ip.tcp = None
    return ip


def read_ipv4(rest: Rest) -> Ip:
    head = rest.need(20)
    header = (head[0] & 15) * 4
    if head[0] >> 4 != 4 or header < 20:
        raise Stop(UNPARSED)
    ip = Ip(4, Address(IPV4, number(head[12:16])), Address(IPV4, number(head[16:])), head[1] & 3 == 3, rest.at)
    ip.protocol = head[9]
    ip.fragment = number(head[6:8]) & 0x3FFF != 0
    total = number(head[2:4])
    if 0 < total < header:
        rest.lied = True
    elif total:
        rest.limit(total)
    return ip


def read_ipv6(rest: Rest) -> Ip:
    head = rest.need(40)
    if head[0] >> 4 != 6:
        raise Stop(UNPARSED)
    ip = Ip(6, Address(IPV6, number(head[8:24])), Address(IPV6, number(head[24:])), head[1] >> 4 & 3 == 3, rest.at)
    ip.protocol = head[6]
    rest.skip(40)
    length = number(head[4:6])
    if length == 0 and ip.protocol == 0:
        length = jumbo(rest)
    if length or ip.protocol == 59:
        rest.limit(length)
    return ip


def jumbo(rest: Rest) -> int:
    try:
        options = rest.need((rest.need(2)[1] + 1) * 8)[2:]
    except Stop:
        return 0  # detected again, and reported, where the header is skipped
    while len(options) >= 2:
        if options[0] == 0:
            options = options[1:]
        elif options[0] == 0xC2 and options[1] == 4 and len(options) >= 6:
            return number(options[2:6])
        else:
            options = options[2 + options[1] :]
    return 0


def find_transport(rest: Rest, ip: Ip) -> None:
    if ip.version == 4:
        rest.skip((rest.data[rest.at] & 15) * 4)
        if ip.protocol == 51 and not ip.fragment:
            following, size = rest.need(2)
            rest.skip(size * 4 + 8)
            ip.protocol = following
        return
    while ip.protocol in (0, 43, 44, 51, 60) and not ip.fragment:
        if ip.protocol == 44:
            head = rest.take(8)
            ip.fragment = number(head[2:4]) & 0xFFF9 != 0
            ip.protocol = head[0]
        else:
            following, size = rest.need(2)
            rest.skip(size * 4 + 8 if ip.protocol == 51 else size * 8 + 8)
            ip.protocol = following


def read_transport(rest: Rest, ip: Ip) -> None:
    if ip.protocol == 17 and rest.end - rest.at >= 8:
        ip.payload = rest.at + 8
    ports = rest.need(4)
    ip.ports = (number(ports[:2]), number(ports[2:]))
    if ip.protocol == 17 and ip.ports[1] == 4791 and rest.end - rest.at >= 20:
        ip.notifies = rest.need(9)[8] == 0x81
    if ip.protocol != 6:
        return
    head = rest.need(14)
    header = (head[12] >> 4) * 4
    if header < 20 or rest.at + header > rest.end:
        raise Stop(UNPARSED)
    ip.payload = rest.at + header
    ip.tcp = (number(head[4:8]), rest.end - ip.payload + (head[13] & 1) + (head[13] >> 1 & 1))


# Tunnels


def innermost(ip: Ip) -> tuple[Ip, int, int]:
    """Returns the innermost readable IP header, the reason why the search for a deeper one ended, and its position."""
    marks = 0
    while True:
        rest = replace(ip.rest)
        try:
            version = version_of(rest, tunnel(rest, ip))
            if not version:
                return ip, marks, rest.at
            deeper = read_ip(rest, version)
        except Stop as stop:
            return ip, marks | stop.mark, rest.at
        marks |= ip.marks
        ip = deeper


def tunnel(rest: Rest, ip: Ip):
    if ip.transport is None or ip.fragment:
        return "nothing"
    if ip.protocol in (4, 41):
        return {4: 4, 41: 6}[ip.protocol]
    if ip.protocol == 137:
        return ("type", 0x8847)
    if ip.protocol == 143:
        return "ethernet"
    if ip.protocol == 47:
        return gre(rest)
    if ip.protocol == 17 and ip.ports[1] in (4789, 8472):
        rest.skip(8)
        if not rest.need(8)[0] & 8:
            return "nothing"
        rest.take(8)
        return "ethernet"
    if ip.protocol == 17 and ip.ports[1] == 6081:
        rest.skip(8)
        head = rest.need(8)
        if head[0] >> 6:
            return "nothing"
        rest.skip(8 + 4 * (head[0] & 63))
        return ("type", number(head[2:4]))
    return "nothing"


def gre(rest: Rest):
    head = rest.need(4)
    checksum, routing, key, sequence = (bool(head[0] & bit) for bit in (0x80, 0x40, 0x20, 0x10))
    version, protocol = head[1] & 7, number(head[2:])
    if version > 1:
        return "nothing"
    rest.skip(4 + 4 * ((checksum or routing) + key + sequence + (version == 1 and bool(head[1] & 0x80))))
    while routing:
        entry = rest.need(4)
        rest.skip(4 + entry[3])
        routing = entry[:2] != b"\0\0" or entry[3] != 0
    if protocol == 0x880B and not sequence:
        return "nothing"
    if protocol == 0x22EB or (protocol == 0x88BE and sequence):
        return erspan(rest)
    if protocol == 0x883E:
        if rest.need(4)[0] >> 4 != 4:
            rest.take(4)
        return 4
    return "ethernet" if protocol == 0x88BE else ("type", protocol)


def erspan(rest: Rest):
    version = rest.need(8)[0] >> 4
    if version == 1:
        rest.skip(8)
        return "ethernet"
    if version == 2:
        last = rest.need(12)[10:]
        rest.skip(20 if last[1] & 1 else 12)
        return {0: "ethernet", 2: "ip"}.get(number(last) >> 10 & 31, "nothing")
    return "nothing"


# Merged frames


def merged_wire_bytes(found: Found, size: int, mtu: int, gso: int) -> tuple[int, bool]:
    """Returns the wire bytes of the segments (0: a single frame), and whether header lengths were assumed."""
    end = found.ip.rest.end if found.ip and found.ip.rest and not gso else size
    if not found.version or not (gso or (mtu and end - found.at > mtu)):
        return 0, False
    start, assumed = segmented_from(found)
    if not start or start >= end:
        return 0, False
    room = gso or mtu - (start - found.at)
    payload = end - start
    if room <= 0 or payload <= room:
        return 0, False
    before = start - found.link.header + 14
    last = payload % room or room
    return (payload - last) // room * wire_bytes(before + room) + wire_bytes(before + last + size - end), assumed


def segmented_from(found: Found) -> tuple[int | None, bool]:
    ip = found.ip
    if not ip:
        cut = found.marks & TRUNCATED
        return (found.at + (40 if found.version == 4 else 60), True) if cut else (None, False)
    ip, marks, at = innermost(ip)
    if ip.fragment:
        return None, False
    if not (ip.marks | marks) & TRUNCATED:
        return ip.payload, False
    if ip.transport is None:
        return ip.rest.at + 20, True
    if ip.marks & TRUNCATED:  # in the transport header
        return {6: ip.transport + 20, 17: ip.payload}.get(ip.protocol), True
    return at + 40, True  # inside the tunnel
