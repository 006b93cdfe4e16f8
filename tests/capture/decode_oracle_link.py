"""Link layers of the plain decoder: from the first byte of a frame to the IP header. Each layer returns what follows
it: ("type", Ethernet type), or one word."""

from __future__ import annotations

from dataclasses import dataclass

from decode_words import IN, MAC, NOBODY, OUT, TRUNCATED, UNPARSED, Address


class Stop(Exception):
    """The wanted header is missing."""

    def __init__(self, mark: int) -> None:
        self.mark = mark


@dataclass
class Rest:
    """The part of a frame that is still to be read: from `at` to `end`, captured up to `seen`."""

    data: bytes
    at: int
    end: int
    seen: int
    lied: bool = False

    def need(self, size: int, at: int = 0) -> bytes:
        """Returns SIZE bytes, AT bytes ahead, without consuming them."""
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
        """Applies the length field of a header: SIZE bytes from here."""
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


def number(octets: bytes) -> int:
    return int.from_bytes(octets, "big")


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
    """Returns 4 or 6 if WHAT leads to an IP header of that version, None if it leads to none."""
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
