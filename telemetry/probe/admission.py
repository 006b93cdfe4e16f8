"""Who is answered, and how often: networks that may ask, and a token bucket for each peer and one for all peers.

A source address in UDP can be forged. So a reflector answers no more often than any prober of mburst asks, and what it
sends to one address, or to all of them, is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...units import NS_PER_S

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    Network = IPv4Network | IPv6Network

CONNECTIONS = 256  # TCP connections on each address
PEER_RATE = 10_000.0  # per second: two probers at their fastest
RATE = 50_000.0
_MOST_PEERS = 65_536
_PREFIX_6 = 64  # bits of an IPv6 address that identify a peer: a host with one address there has all of them


class Bucket:
    """A token bucket that holds the tokens of one second, filled at that rate."""

    __slots__ = ("_at_ns", "_most", "_rate", "_tokens")

    def __init__(self, rate: float, now_ns: int) -> None:
        self._rate = rate
        self._tokens = self._most = max(1.0, rate)
        self._at_ns = now_ns

    def take(self, now_ns: int) -> bool:
        """Take a token; returns whether there was one. `now_ns` is a time of CLOCK_MONOTONIC."""
        self._tokens = min(self._most, self._tokens + (now_ns - self._at_ns) * self._rate / NS_PER_S)
        self._at_ns = now_ns
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Admission:
    """Whom a reflector answers. No `networks` means everybody. Rates are answers per second."""

    def __init__(self, networks: Sequence[Network] = (), peer_rate: float = PEER_RATE, rate: float = RATE) -> None:
        self._networks = tuple(networks)
        self._peer_rate = peer_rate
        self._all = Bucket(rate, 0)
        self._peers: dict[str, Bucket | None] = {}  # by address; None: not allowed
        self._blocks: dict[str, Bucket] = {}

    def allows(self, address: str) -> bool:
        """Whether an address is in the networks."""
        from ipaddress import ip_address

        found = ip_address(address.partition("%")[0])
        return not self._networks or any(found in network for network in self._networks)

    def take(self, address: str, now_ns: int) -> bool | None:
        """Whether a datagram from an address is answered now; None if the address is not allowed at all."""
        if address not in self._peers:
            self._meet(address, now_ns)
        bucket = self._peers[address]
        if bucket is None:
            return None
        return bucket.take(now_ns) and self._all.take(now_ns)

    def _meet(self, address: str, now_ns: int) -> None:
        from ipaddress import ip_network

        if len(self._peers) >= _MOST_PEERS:  # the tokens that they had left are forgotten; the bucket for all is not
            self._peers.clear()
            self._blocks.clear()
        if not self.allows(address):
            self._peers[address] = None
            return
        plain = address.partition("%")[0]
        block = str(ip_network((plain, _PREFIX_6), strict=False)) if ":" in plain else plain
        self._peers[address] = self._blocks.setdefault(block, Bucket(self._peer_rate, now_ns))
