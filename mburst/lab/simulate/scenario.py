"""The parameters of a simulation: the numbers of a scenario, and the hosts of its rack."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address
from typing import NamedTuple

from ...errors import UsageError
from ...ethernet import SHORTEST_FRAME_BYTES, on_wire

PS_PER_NS = 1_000
PS_PER_S = 10**12

HEADER_BYTES = {4: 20, 6: 40}  # IP header without options or extensions
TRANSPORT_BYTES = {"udp": 8, "tcp": 20}
MAX_FRAMES = 5_000_000  # some 2 GB while they are built

REQUEST_BYTES = 64  # payload of a scatter request, a probe, and its reply
BACKGROUND_MIX = ((64, 0.5), (512, 0.2), (None, 0.3))  # payload bytes (None: the largest) and share of the frames
HOP_NS = 1_000  # cable, switch and stack of one hop, without queueing


class FrameKind(IntEnum):
    """The kind of a frame."""

    ANSWER = 0  # database to cache: a part of an answer
    BACKGROUND = 1  # client to cache
    PROBE = 2  # api to cache
    SCATTER = 3  # cache to database: the request of a round
    REPLY = 4  # cache to api: the answer to a probe
    ACK = 5  # cache to database: a bare TCP acknowledgement


class Host(NamedTuple):
    name: str
    mac: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One cache server asks `senders` databases at once, and every answer passes the same switch port.

    Raises UsageError for numbers that describe no possible rack.
    """

    seed: int = 1
    start_ns: int = 1_790_000_000 * 10**9  # Unix time of the start
    rounds: int = 40
    period_ns: int = 250_000_000  # between rounds, shifted by up to a fifth
    duration_ns: int = 0  # 0: as long as the rounds take; a longer time is quiet after them

    senders: int = 40
    bytes_per_sender: int = 100_000  # payload of one answer
    protocol: str = "udp"  # of scatter and gather: udp, or tcp, which retransmits dropped frames
    reaction_ns: int = 100_000  # least time from the request to the first frame of the answer
    reaction_jitter_ns: int = 1_000_000  # mean of an additional exponential delay
    rto_ns: int = 200_000_000  # TCP's first retransmission timeout (Linux: at least 200 ms); doubles

    link_bps: int = 10**9  # the port to the cache server, and the way back
    sender_bps: int = 0  # of each database's own interface; 0: as link_bps
    buffer_bytes: int = 4_000_000  # of the port
    ecn_threshold_bytes: int = 0  # frames that find a longer queue are marked CE; 0: no ECN
    background: float = 0.02  # mean load of other traffic through the port, as a share of link_bps
    probe_rate: float = 1000.0  # per second, Poisson

    ip_version: int = 4
    vlan: int = 0  # 802.1Q tag of every captured frame; 0: untagged
    routed: bool = False  # every frame comes from and goes to the gateway's MAC
    mtu: int = 1500
    snaplen: int = 96  # 0: whole frames
    both_directions: bool = True  # also capture what the cache server sends
    stamp_jitter_ns: int = 0  # every timestamp is late by up to this, so that timestamps are out of order

    def __post_init__(self) -> None:
        for name, low, high in (
            ("seed", 0, 2**63), ("start_ns", 10**9, 4 * 10**18), ("rounds", 0, 10**6), ("period_ns", 1, 10**15),
            ("duration_ns", 0, 10**15), ("senders", 1, 65_000), ("bytes_per_sender", 1, 2**31 - 1),
            ("reaction_ns", 0, 10**12), ("reaction_jitter_ns", 0, 10**12), ("rto_ns", 1, 10**12),
            ("link_bps", 10**6, 10**12), ("sender_bps", 0, 10**12), ("ecn_threshold_bytes", 0, 2**62),
            ("buffer_bytes", self.mtu + 18, 2**62), ("background", 0, 0.95), ("probe_rate", 0, 10**6),
            ("vlan", 0, 4094), ("mtu", 576 if self.ip_version == 4 else 1280, 65_535), ("stamp_jitter_ns", 0, 10**9),
        ):  # fmt: skip
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"{name} {getattr(self, name)} is not between {low} and {high}")
        if self.ip_version not in HEADER_BYTES or self.protocol not in TRANSPORT_BYTES:
            raise UsageError(
                f"unsupported scenario: {self.protocol} over IPv{self.ip_version}", "udp or tcp over 4 or 6"
            )
        if self.snaplen != 0 and not 14 <= self.snaplen <= 262_144:
            raise UsageError(f"snaplen {self.snaplen} is neither 0 nor between 14 and 262144")
        if 0 < self.duration_ns < self.rounds * self.period_ns:
            raise UsageError(f"{self.rounds} rounds of {self.period_ns} ns do not fit into {self.duration_ns} ns")
        if self.expected_frames() > MAX_FRAMES:
            raise UsageError(f"the case would have {self.expected_frames():,} frames, more than {MAX_FRAMES:,}")

    def length_ns(self) -> int:
        """Returns the nanoseconds from start to end; queues may take a little longer to drain."""
        return self.duration_ns or max(self.rounds * self.period_ns, self.period_ns)

    def segment_bytes(self) -> int:
        """Returns the largest payload that fits into a frame of an answer."""
        return self.mtu - HEADER_BYTES[self.ip_version] - TRANSPORT_BYTES[self.protocol]

    def segments(self) -> int:
        """Returns the number of frames in one answer."""
        return -(-self.bytes_per_sender // self.segment_bytes())

    def datagram_bytes(self) -> int:
        """Returns the largest payload of a UDP datagram in one frame."""
        return self.mtu - HEADER_BYTES[self.ip_version] - TRANSPORT_BYTES["udp"]

    def header_bytes(self, protocol: str) -> int:
        """Returns the bytes of a frame before its payload, without FCS."""
        return 14 + (4 if self.vlan else 0) + HEADER_BYTES[self.ip_version] + TRANSPORT_BYTES[protocol]

    def background_mix(self) -> list[tuple[int, float]]:
        """Returns (payload bytes, share of the frames) of the other traffic."""
        return [(payload or self.datagram_bytes(), share) for payload, share in BACKGROUND_MIX]

    def background_frame_rate(self) -> float:
        """Returns the frames per second of the other traffic."""
        header = self.header_bytes("udp")
        mean = sum(share * wire_bytes(header + payload) for payload, share in self.background_mix())
        return self.background * self.link_bps / (8 * mean)

    def expected_frames(self) -> int:
        seconds = self.length_ns() / 10**9
        return int(
            self.rounds * self.senders * (self.segments() + 1)
            + seconds * (self.background_frame_rate() + 2 * self.probe_rate)
        )

    def hosts(self) -> list[Host]:
        """Returns the gateway, the cache server, the api server, the databases, and four clients. `CACHE` and the like
        are indexes.

        Addresses are in the ranges for benchmarks: 198.18.0.0/15 (RFC 2544), 2001:2::/48 (RFC 5180).
        """
        base = ip_address("198.18.0.0" if self.ip_version == 4 else "2001:2::")
        names = [(f"db-{n + 1}", (1 << 16) + n + 1) for n in range(self.senders)]
        names += [(f"client-{n + 1}", 1001 + n) for n in range(CLIENTS)]
        return [
            Host(name, f"02:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}", str(base + number))
            for name, number in [("gateway", 254), ("cache", 1), ("api", 2), *names]
        ]


GATEWAY, CACHE, API, FIRST_SENDER = range(4)  # indexes of Scenario.hosts()
CLIENTS = 4


def wire_bytes(length: int) -> int:
    """Returns the bytes that a frame of `length` bytes (without FCS) takes on Ethernet: padded, with FCS, preamble and
    gap."""
    return on_wire(max(length, SHORTEST_FRAME_BYTES))


def wire_ps(length: int, bps: int) -> int:
    """Returns the picoseconds that a frame takes at `bps`, rounded up so that the rate is never exceeded."""
    return -(-wire_bytes(length) * 8 * PS_PER_S // bps)
