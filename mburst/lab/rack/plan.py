"""Who is where in a rack: names, addresses (198.18.0.0/15, RFC 2544), and the commands that build it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

MIN_SENDERS, MAX_SENDERS = 8, 120
FRAME_BYTES, GAP_BYTES = 1514, 24  # a full frame without FCS; FCS, preamble and gap after it
CACHE_IP, API_IP = "198.18.0.1", "198.18.0.2"
CACHE2_IP, API2_IP = "198.19.0.1", "198.19.0.2"
CACHE_PORT, CACHE2_PORT = "p-cache", "p-cache2"
BRIDGE = "br0"


def mac(address: str) -> str:
    """The locally administered MAC address of a host, made from the last three bytes of its IPv4 address."""
    return "02:00:0a:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed[1:])


@dataclass(frozen=True)
class Nic:
    """An interface of a host, the port of the switch that it is wired to, and the address on it."""

    host: str
    interface: str
    port: str
    address: str


@dataclass(frozen=True)
class RackPlan:
    """A rack before it is built. link_bps and limit_bytes are the rate and the queue of the ports to the cache;
    so many full frames as `train` leave such a port at one instant, and then the time that they take."""

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
        """The namespace of "tor", "cache", "api" or a sender such as "s07"."""
        return f"{self.name}-{host}"

    def address(self, sender: str) -> str:
        """The IPv4 address of a sender such as "s07"."""
        return next(nic.address for nic in self.nics if nic.host == sender)

    def links(self) -> list[str]:
        """Lines for `ip -batch` in the switch: the bridge, and a cable to every interface of every host."""
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
        """Lines for `ip -batch` in a host: addresses, and static neighbours so that no ARP is on the wire."""
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
        """(address, interface to reach it by, address that its MAC is made from) of all that a host talks to."""
        if host == "cache":
            near = [(nic.address, "eth0", nic.address) for nic in self.nics if nic.host != "cache"]
            return near + ([(API2_IP, "eth1", API_IP)] if self.second_nic else [])
        near = [(CACHE_IP, "eth0", CACHE_IP)]
        return near + ([(CACHE2_IP, "eth0", CACHE2_IP)] if self.second_nic and host == "api" else [])

    def forwarding(self) -> list[str]:
        """Lines for `bridge -batch`: where every MAC address is, so that nothing is flooded."""
        return [f"fdb add {mac(nic.address)} dev {nic.port} master static" for nic in self.nics]

    def queues(self) -> list[str]:
        """Lines for `tc -batch`: the ports to the cache as line-rate FIFOs.

        overhead 24 a frame makes 1 Gb/s the line rate: 1514 B take 12.304 µs. The burst is a train and 29 µs: with less
        a late timer costs rate (1600 bytes make 886 Mb/s), with 16k the port runs too fast after a stall.
        """
        overhead = GAP_BYTES * self.train
        burst = (FRAME_BYTES + GAP_BYTES) * self.train + 3582
        shape = f"rate {self.link_bps}bit burst {burst} limit {self.limit_bytes} overhead {overhead} linklayer ethernet"
        ports = [CACHE_PORT, CACHE2_PORT] if self.second_nic else [CACHE_PORT]
        return [f"qdisc add dev {port} root handle 1: tbf {shape}" for port in ports]
