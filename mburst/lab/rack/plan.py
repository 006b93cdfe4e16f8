"""The plan of a rack: names, addresses (198.18.0.0/15, RFC 2544), and the commands that build it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ...ethernet import FRAME_OVERHEAD_BYTES, FULL_FRAME_WIRE_BYTES

MIN_SENDERS, MAX_SENDERS = 8, 120
CACHE_IP, API_IP = "198.18.0.1", "198.18.0.2"
CACHE2_IP, API2_IP = "198.19.0.1", "198.19.0.2"
CACHE_PORT, CACHE2_PORT = "p-cache", "p-cache2"
BRIDGE = "br0"


def mac(address: str) -> str:
    """Returns the locally administered MAC address of a host, from the last three bytes of its IPv4 address."""
    return "02:00:0a:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed[1:])


@dataclass(frozen=True)
class Nic:
    """An interface of a host, the switch port at the other end of its cable, and its address."""

    host: str
    interface: str
    port: str
    address: str


@dataclass(frozen=True)
class RackPlan:
    """A rack before it is built. `link_bps` and `limit_bytes` are the rate and the queue of the ports to the cache.
    `train` full frames leave such a port at one instant, followed by a pause of the time that they take."""

    name: str
    senders: int
    link_bps: int
    limit_bytes: int
    second_nic: bool
    train: int

    @property
    def sender_names(self) -> list[str]:
        return [f"s{index:02d}" for index in range(1, self.senders + 1)]

    @property
    def nics(self) -> list[Nic]:
        nics = [Nic("cache", "eth0", CACHE_PORT, CACHE_IP), Nic("api", "eth0", "p-api", API_IP)]
        if self.second_nic:
            nics.append(Nic("cache", "eth1", CACHE2_PORT, CACHE2_IP))
        senders = enumerate(self.sender_names, start=1)
        return nics + [Nic(host, "eth0", f"p-{host}", f"198.18.1.{index}") for index, host in senders]

    @property
    def namespaces(self) -> list[str]:
        return [self.namespace(host) for host in ("tor", *dict.fromkeys(nic.host for nic in self.nics))]

    def namespace(self, host: str) -> str:
        """Returns the namespace of "tor", "cache", "api" or a sender such as "s07"."""
        return f"{self.name}-{host}"

    def address(self, sender: str) -> str:
        """Returns the IPv4 address of a sender such as "s07"."""
        return next(nic.address for nic in self.nics if nic.host == sender)

    def links(self) -> list[str]:
        """Returns lines for `ip -batch` in the switch: the bridge, and a cable to every interface of every host."""
        lines = [
            "link set lo up",
            f"link add {BRIDGE} type bridge stp_state 0 mcast_snooping 0",
            f"link set {BRIDGE} up",
        ]
        for nic in self.nics:
            peer = f"name {nic.interface} address {mac(nic.address)} netns {self.namespace(nic.host)}"
            lines.append(f"link add {nic.port} type veth peer {peer}")
            lines.append(f"link set {nic.port} master {BRIDGE} up")
        return lines

    def host(self, host: str) -> list[str]:
        """Returns lines for `ip -batch` in a host: addresses, and static neighbours, so that there is no ARP
        traffic."""
        lines = []
        for nic in self.nics:
            if nic.host == host:
                lines += [f"addr add {nic.address}/16 dev {nic.interface}", f"link set {nic.interface} up"]
                if self.train > 1:
                    lines.append(f"link set {nic.interface} gso_max_segs {self.train}")
        if host == "api" and self.second_nic:
            lines.append(f"addr add {API2_IP}/16 dev eth0")
        for address, interface, owner in self._neighbours(host):
            lines.append(f"neigh add {address} lladdr {mac(owner)} dev {interface} nud permanent")
        return lines

    def _neighbours(self, host: str) -> list[tuple[str, str, str]]:
        """Returns (address, interface to reach it by, address from which its MAC is made) of every peer of a host."""
        if host == "cache":
            near = [(nic.address, "eth0", nic.address) for nic in self.nics if nic.host != "cache"]
            return near + ([(API2_IP, "eth1", API_IP)] if self.second_nic else [])
        near = [(CACHE_IP, "eth0", CACHE_IP)]
        return near + ([(CACHE2_IP, "eth0", CACHE2_IP)] if self.second_nic and host == "api" else [])

    def forwarding(self) -> list[str]:
        """Returns lines for `bridge -batch` with the port of every MAC address, so that nothing is flooded."""
        return [f"fdb add {mac(nic.address)} dev {nic.port} master static" for nic in self.nics]

    def queues(self) -> list[str]:
        """Returns lines for `tc -batch`: the ports to the cache as line-rate FIFOs.

        With an overhead of 24 bytes per frame, 1 Gb/s is the line rate: 1514 B take 12.304 µs. The bucket holds a train
        and 29 µs. With less, a late timer reduces the rate (1600 bytes give 886 Mb/s); with 16k, the port is too fast
        after a stall.
        """
        overhead = FRAME_OVERHEAD_BYTES * self.train
        burst = FULL_FRAME_WIRE_BYTES * self.train + 3582
        shape = f"rate {self.link_bps}bit burst {burst} limit {self.limit_bytes} overhead {overhead} linklayer ethernet"
        ports = [CACHE_PORT, CACHE2_PORT] if self.second_nic else [CACHE_PORT]
        return [f"qdisc add dev {port} root handle 1: tbf {shape}" for port in ports]
