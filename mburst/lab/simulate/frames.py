"""Frames as bytes: scapy builds one of each kind and size, and numpy derives all others from it, including
checksums."""

from __future__ import annotations

import importlib
from ipaddress import ip_address
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import extras
from .scenario import CACHE, GATEWAY, HEADER_BYTES, TRANSPORT_BYTES, FrameKind, Scenario
from .traffic import Frames

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[Any]

PORTS = {  # source and destination of each kind
    FrameKind.ANSWER: (9000, 32768), FrameKind.SCATTER: (32768, 9000), FrameKind.ACK: (32768, 9000),
    FrameKind.BACKGROUND: (40001, 11211), FrameKind.PROBE: (40000, 7000), FrameKind.REPLY: (7000, 40000),
}  # fmt: skip
ALWAYS_UDP = {FrameKind.BACKGROUND, FrameKind.PROBE, FrameKind.REPLY}  # other kinds: as in the scenario
STAMP_BYTES = 8  # of a datagram's payload: round and number
ECT_0, CE, ACK, PUSH = 2, 3, 0x10, 0x08
INITIAL_SEQUENCE = {True: 0x1000_0000, False: 0x2000_0000}  # by whether the cache server is the sender


class Template(NamedTuple):
    """A frame that scapy built, and the offsets of its parts."""

    raw: bytes
    protocol: str  # udp or tcp
    l3: int
    addresses: int  # IP source and destination addresses, which end both headers
    l4: int
    ip_checksum: int | None  # IPv6 has none
    l4_checksum: int


class FrameBuilder:
    """Builds the bytes of a scenario's frames. Raises MburstError if scapy is missing."""

    def __init__(self, scenario: Scenario) -> None:
        try:
            importlib.import_module("scapy.layers.inet6")
        except ModuleNotFoundError:
            raise extras.lacking("simulated captures need", "scapy", "demo") from None
        hosts = scenario.hosts()
        self._scenario = scenario
        self._macs = _words(b"".join(bytes.fromhex(host.mac.replace(":", "")) for host in hosts), 6)
        addresses = [ip_address(host.address).packed for host in hosts]
        self._addresses = _words(b"".join(addresses), len(addresses[0]))
        self._templates: dict[tuple[int, int], Template] = {}

    def build(self, frames: Frames, width: int) -> Bytes:
        """Returns the first `width` bytes of frames with one kind and one payload size, one row for each frame."""
        kind, payload = FrameKind(frames["kind"][0]), int(frames["payload"][0])
        if (kind, payload) not in self._templates:
            self._templates[kind, payload] = build_template(self._scenario, kind, payload)
        template = self._templates[kind, payload]
        sheet = Sheet(template, len(frames), width)
        self._address(sheet, frames)
        if self._scenario.ip_version == 4:
            sheet.put(template.l3 + 4, frames["index"])  # identification
        if self._scenario.ecn_threshold_bytes:
            first = int.from_bytes(template.raw[template.l3 : template.l3 + 2], "big")
            shift = 0 if self._scenario.ip_version == 4 else 4  # the traffic class of IPv6 straddles the octets
            sheet.put(template.l3, first | np.where(frames["ce"], CE, ECT_0) << shift)
        if template.protocol == "tcp":
            outgoing = frames["src"][0] == CACHE
            _put_32(sheet, template.l4 + 4, INITIAL_SEQUENCE[bool(outgoing)] + frames["seq"])
            _put_32(sheet, template.l4 + 8, INITIAL_SEQUENCE[not outgoing] + frames["ack"])
            sheet.put(template.l4 + 12, 5 << 12 | ACK | frames["push"] * PUSH)
        elif payload >= STAMP_BYTES:
            _put_32(sheet, template.l4 + 8, frames["round"])
            _put_32(sheet, template.l4 + 12, frames["index"])
        return sheet.finish(width)

    def _address(self, sheet: Sheet, frames: Frames) -> None:
        """Set MAC and IP addresses. In a routed rack the far end of every frame has the gateway's MAC."""
        sides = {"src": frames["src"], "dst": frames["dst"]}
        macs = sides
        if self._scenario.routed:
            macs = {side: np.where(hosts == CACHE, CACHE, GATEWAY) for side, hosts in sides.items()}
        sheet.put(0, self._macs[macs["dst"]])
        sheet.put(6, self._macs[macs["src"]])
        sheet.put(sheet.template.addresses, self._addresses[sides["src"]])
        sheet.put((sheet.template.addresses + sheet.template.l4) // 2, self._addresses[sides["dst"]])


class Sheet:
    """Copies of a template as rows of 16-bit words. Replacing words keeps their checksums right.

    In one's complement arithmetic a new checksum follows from the old one and the difference (RFC 1624). The position
    of a word determines which sums include it.
    """

    def __init__(self, template: Template, count: int, width: int) -> None:
        self.template = template
        room = max(width, template.l4 + TRANSPORT_BYTES[template.protocol] + STAMP_BYTES)
        self._words = np.tile(_words(template.raw[:room].ljust(room + room % 2, b"\0"), room + room % 2), (count, 1))
        self._ip = np.zeros(count, np.int64)
        self._l4 = np.zeros(count, np.int64)

    def put(self, offset: int, values: Words) -> None:
        """Replace the words at byte `offset` by `values`, of shape (count,) or (count, words), modulo 2**16."""
        new = np.asarray(values, np.int64).reshape(len(self._words), -1) & 0xFFFF
        where = slice(offset // 2, offset // 2 + new.shape[1])
        change = np.sum(new - self._words[:, where], axis=1)
        self._words[:, where] = new
        if self.template.l3 <= offset < self.template.l4:
            self._ip += change
        if offset >= self.template.addresses:  # included in the pseudo-header of UDP and TCP
            self._l4 += change

    def finish(self, width: int) -> Bytes:
        """Set the checksums, and return the first `width` bytes of every row."""
        template = self.template
        if template.ip_checksum:
            self._update(template.ip_checksum, self._ip)
        self._update(template.l4_checksum, self._l4)
        if template.protocol == "udp":  # RFC 768: zero would mean no checksum
            column = self._words[:, template.l4_checksum // 2]
            column[column == 0] = 0xFFFF
        return self._words.view(np.uint8)[:, :width]

    def _update(self, offset: int, change: npt.NDArray[np.int64]) -> None:
        old = self._words[:, offset // 2].astype(np.int64)
        total = ((0xFFFF - old) + change) % 0xFFFF
        self._words[:, offset // 2] = 0xFFFF - np.where(total == 0, 0xFFFF, total)


def build_template(scenario: Scenario, kind: FrameKind, payload: int) -> Template:
    """Returns the frame of a kind and size with the gateway's addresses, built by scapy."""
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw

    protocol = "udp" if kind in ALWAYS_UDP else scenario.protocol
    gateway = scenario.hosts()[GATEWAY]
    sport, dport = PORTS[kind]
    hops = 63 if scenario.routed else 64
    frame = Ether(src=gateway.mac, dst=gateway.mac)
    if scenario.vlan:
        frame /= Dot1Q(vlan=scenario.vlan)
    if scenario.ip_version == 4:
        frame /= IP(src=gateway.address, dst=gateway.address, ttl=hops, flags="DF")
    else:
        frame /= IPv6(src=gateway.address, dst=gateway.address, hlim=hops)
    frame /= UDP(sport=sport, dport=dport) if protocol == "udp" else TCP(sport=sport, dport=dport, flags="A")
    frame /= Raw((bytes(STAMP_BYTES) + b"mburst " * (payload // 7 + 1))[:payload])
    l3 = 18 if scenario.vlan else 14
    l4 = l3 + HEADER_BYTES[scenario.ip_version]
    return Template(
        bytes(frame),
        protocol,
        l3,
        addresses=l4 - 2 * (4 if scenario.ip_version == 4 else 16),
        l4=l4,
        ip_checksum=l3 + 10 if scenario.ip_version == 4 else None,
        l4_checksum=l4 + (6 if protocol == "udp" else 16),
    )


def _words(raw: bytes, width: int) -> Words:
    """Returns rows of `width` bytes as big-endian 16-bit words."""
    return np.frombuffer(raw, ">u2").reshape(-1, width // 2)


def _put_32(sheet: Sheet, offset: int, values: npt.NDArray[np.int64]) -> None:
    """Replace the two words at `offset` by a 32-bit number, modulo 2**32."""
    sheet.put(offset, np.stack([values >> 16, values], axis=1))
