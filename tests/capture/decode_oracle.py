"""A frame decoded plainly, for the tests of capture/decode.c: what the standards say, and what
capture/decode.h promises about frames that are cut off or contradict themselves. Shares no code
with the engine and follows another plan: recursive descent that stops by exception."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

CE, TCP, UNPARSED, TRUNCATED, MERGED = 1, 2, 4, 8, 16
IN, OUT = 1, 2
NONE, IPV4, IPV6, MAC = 0, 4, 6, 48
WITH_PORTS = {6, 17, 33, 132, 136}


class Address(NamedTuple):
    family: int
    value: int


NOBODY = Address(NONE, 0)


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


class Stop(Exception):
    """The header wanted is not there."""

    def __init__(self, mark: int) -> None:
        self.mark = mark


@dataclass
class Rest:
    """What of a frame is still to be read: from `at` to `end`, captured up to `seen`."""

    data: bytes
    at: int
    end: int
    seen: int
    lied: bool = False

    def need(self, size: int, at: int = 0) -> bytes:
        """SIZE bytes, AT bytes ahead, without taking them."""
        start = self.at + at
        if start + size > self.end:
            raise Stop(UNPARSED)
        if start + size > self.seen:
            raise Stop(TRUNCATED)
        return self.data[start : start + size]

    def take(self, size: int) -> bytes:
        taken = self.need(size)
        self.at += size
        return taken

    def skip(self, size: int) -> None:
        if self.at + size > self.end:
            raise Stop(UNPARSED)
        self.at += size

    def limit(self, size: int) -> None:
        """The packet says that it has SIZE bytes from here."""
        if self.at + size > self.end:
            self.lied = True
        else:
            self.end = self.at + size


@dataclass
class Link:
    header: int = 0
    sender: Address = NOBODY
    macs: tuple[int, int] | None = None
    direction: int = 0


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
    rest: Rest | None = None
    marks: int = 0

    def flow(self) -> Flow:
        return Flow(self.source, self.destination, self.protocol, self.ports)


@dataclass
class Found:
    """As far as the outermost IP header."""

    link: Link = field(default_factory=Link)
    version: int | None = None  # of the IP header that is said to follow
    at: int = 0
    ip: Ip | None = None
    marks: int = 0


def number(octets: bytes) -> int:
    return int.from_bytes(octets, "big")


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
        marks |= ip.marks | (CE if ip.ce else 0) | (TCP if ip.tcp else 0)
    return Packet(
        source=ip.source if ip else found.link.sender,
        bytes=size,
        wire_bytes=min(wire, 2**32 - 1),
        flow=ip.flow() if ip else None,
        tcp_seq=ip.tcp[0] if ip and ip.tcp else 0,
        tcp_len=ip.tcp[1] if ip and ip.tcp else 0,
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
        found.version = version_of(rest, what)
        found.at = rest.at
        if found.version:
            found.ip = read_ip(rest, found.version)
    except Stop as stop:
        found.at = rest.at
        found.marks |= stop.mark
    return found


# Link layers. Each returns what follows: ("type", Ethernet type), or one word.


def read_link(rest: Rest, linktype: int, link: Link):
    if linktype == 1:
        return ethernet(rest, link)
    if linktype in (113, 276):
        return cooked(rest, link, linktype)
    if linktype in (0, 108):
        link.header = 4
        family = rest.take(4)
        value = number(family)
        if linktype == 0:
            value = min(value, int.from_bytes(family, "little"))
        return {2: 4, 10: 6, 24: 6, 28: 6, 30: 6}.get(value, "nothing")
    if linktype == 9 or (linktype == 50 and rest.need(1)[0] not in (0x0F, 0x8F)):
        try:
            return ppp(rest)
        finally:
            link.header = rest.at
    if linktype in (104, 50):
        link.header = 4
        protocol = number(rest.take(4)[2:])
        return ("type", protocol) if protocol >= 0x600 else "nothing"
    if linktype == 51:
        return "pppoe"
    if linktype in (101, 12, 14):
        return "ip"
    if linktype in (228, 229):
        return 4 if linktype == 228 else 6
    raise Stop(UNPARSED)


def type_or_length(value: int):
    return ("type", value) if value >= 1536 else "llc"


def ethernet(rest: Rest, link: Link):
    link.header = 14
    head = rest.take(14)
    link.sender = Address(MAC, number(head[6:12]))
    link.macs = (link.sender.value, number(head[:6]))
    return type_or_length(number(head[12:]))


def cooked(rest: Rest, link: Link, linktype: int):
    link.header = 16 if linktype == 113 else 20
    head = rest.take(link.header)
    if linktype == 113:
        kind, hardware, length, address, protocol = head[:2], head[2:4], head[4:6], head[6:14], head[14:]
    else:
        protocol, hardware, kind, length, address = head[:2], head[8:10], head[10:11], head[11:12], head[12:]
    link.direction = {0: IN, 1: IN, 2: IN, 3: IN, 4: OUT}.get(number(kind), 0)
    if number(length) == 6:
        link.sender = Address(MAC, number(address[:6]))
        link.macs = (link.sender.value, 0)
    if number(hardware) in (770, 803, 824):
        return "nothing"
    if number(protocol) == 4:
        return "llc"
    return ("type", number(protocol)) if number(protocol) >= 1536 else "nothing"


def ppp(rest: Rest):
    if rest.need(1) == b"\xff":
        if rest.need(2) != b"\xff\x03":
            return "nothing"
        rest.take(2)
    protocol = number(rest.take(1) if rest.need(1)[0] % 2 else rest.take(2))
    return {0x21: 4, 0x57: 6, 0x281: ("type", 0x8847), 0x283: ("type", 0x8847)}.get(protocol, "nothing")


def version_of(rest: Rest, what) -> int | None:
    """4 or 6 when WHAT leads to such a header; None when to none."""
    while what not in (4, 6):
        match what:
            case ("type", 0x0800):
                what = 4
            case ("type", 0x86DD):
                what = 6
            case ("type", 0x8100 | 0x88A8 | 0x9100):
                what = type_or_length(number(rest.take(4)[2:]))
            case ("type", 0x8847 | 0x8848):
                bottom = rest.take(4)[2] & 1
                what = "unlabelled" if bottom else what
            case ("type", 0x8864) | "pppoe":
                what = "ppp" if rest.take(6)[:2] == b"\x11\x00" else "nothing"
            case ("type", 0x880B) | "ppp":
                what = ppp(rest)
            case ("type", 0x6558) | "ethernet":
                what = ethernet(rest, Link())
            case "llc":
                what = llc(rest)
            case "ip" | "unlabelled":
                nibble = rest.need(1)[0] >> 4
                if nibble not in (4, 6) and what == "ip":
                    raise Stop(UNPARSED)
                what = nibble if nibble in (4, 6) else "nothing"
            case _:
                return None
    return what


def llc(rest: Rest):
    if rest.need(3) != b"\xaa\xaa\x03":
        return "nothing"
    snap = rest.take(8)
    return ("type", number(snap[6:])) if snap[3:6] in (b"\0\0\0", b"\0\0\xf8") else "nothing"


# IP


def read_ip(rest: Rest, version: int) -> Ip:
    """Raises Stop where the fixed header is not there or not of that version."""
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
        return 0  # found again, and said, where the header is stepped over
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
    """The innermost IP header that can be read, why the search for a deeper one ended, and where."""
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
    """Wire bytes of the segments (0: the frame was one), and whether header lengths were assumed."""
    if not found.version or not (gso or (mtu and size - found.at > mtu)):
        return 0, False
    start, assumed = segmented_from(found)
    if not start or start >= size:
        return 0, False
    room = gso or mtu - (start - found.at)
    payload = size - start
    if room <= 0 or payload <= room:
        return 0, False
    before = start - found.link.header + 14
    last = payload % room or room
    return (payload - last) // room * wire_bytes(before + room) + wire_bytes(before + last), assumed


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
