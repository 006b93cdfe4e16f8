"""Interfaces, the classes of their queues and the neighbours behind them, from rtnetlink (rtnetlink(7),
linux/if_link.h, linux/pkt_sched.h, linux/neighbour.h)."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_RTM_GETLINK, _RTM_GETNEIGH, _RTM_GETTCLASS, _NLMSG_ERROR, _NLMSG_DONE = 18, 30, 42, 2, 3
_RTM_NEWSTATS, _RTM_GETSTATS = 92, 94
_REQUEST, _REQUEST_DUMP = 1, 1 | 0x300
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_IFINFO = struct.Struct("=BxHiII")  # struct ifinfomsg
_NDMSG = struct.Struct("=BxxxiHBB")  # struct ndmsg
_TCMSG = struct.Struct("=BxxxiIII")  # struct tcmsg: family, ifindex, handle, parent, info
_IFSTATS = struct.Struct("=BxxxII")  # struct if_stats_msg: family, ifindex, groups
_IFLA_STATS_LINK_64 = 1
_ATTRIBUTE = struct.Struct("=HH")
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_OPERSTATE = 1, 3, 4, 10, 16
_IFLA_STATS64, _IFLA_CARRIER_CHANGES = 23, 35
_IFF_UP = 1
_NDA_LLADDR = 2
_TCA_KIND = 1
# Disciplines with classes that are configured queues. Others (fq_codel, sfq, cake) list their flows as classes.
_CLASSFUL = (b"drr", b"ets", b"hfsc", b"htb", b"mq", b"mqprio", b"multiq", b"prio", b"qfq", b"taprio")
_NUD_PERMANENT = 0x80  # an address of the bridge itself
# struct rtnl_link_stats64: rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped,
# multicast, collisions, rx_length_errors, rx_over_errors, rx_crc_errors, rx_frame_errors, rx_fifo_errors,
# rx_missed_errors
_STATS64 = struct.Struct("=16Q")
# IF_OPER_UNKNOWN and so on, in the names of RFC 2863 and OpenConfig.
_OPER = ("UNKNOWN", "NOT_PRESENT", "DOWN", "LOWER_LAYER_DOWN", "TESTING", "DORMANT", "UP")
_SIOCETHTOOL, _ETHTOOL_GSET = 0x8946, 1
_SETTINGS = struct.Struct("=IIIH")  # struct ethtool_cmd: cmd, supported, advertising, speed in Mb/s (low half)
_SPEED_HIGH = 28  # offset of the high half
_UNKNOWN_SPEED = (0, 0xFFFFFFFF, 0xFFFF)


@dataclass(frozen=True)
class Interface:
    """An interface and the kernel's counters of it."""

    index: int
    name: str
    master: int  # index of its bridge, 0 if it has none
    mac: str
    mtu: int  # of a frame's payload, as ip(8) shows it
    admin_status: str
    oper_status: str
    in_octets: int
    out_octets: int
    in_pkts: int
    out_pkts: int
    in_multicast_pkts: int | None  # None while it is 0: many drivers do not count them
    in_errors: int
    out_errors: int
    in_discards: int  # dropped by the kernel, or because the interface had no space
    out_discards: int
    in_fcs_errors: int
    carrier_transitions: int | None  # None if the kernel does not report it


@dataclass(frozen=True)
class BridgeNeighbour:
    """A MAC address that a bridge has learned behind a port, or that was configured there."""

    port: int
    mac: str


def attributes(data: bytes) -> dict[int, bytes]:
    """Returns the netlink attributes of DATA, by kind."""
    found, offset = {}, 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        found[kind & 0x3FFF] = data[offset + _ATTRIBUTE.size : offset + length]
        offset += max((length + 3) & ~3, _ATTRIBUTE.size)
    return found


def _dump(request: int, body: bytes) -> Iterator[bytes]:
    """Yields the bodies of the messages that answer a dump request. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(2)
        sock.send(_HEADER.pack(_HEADER.size + len(body), request, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data, offset = sock.recv(1 << 18), 0
            while offset < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, offset)
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", data, offset + _HEADER.size)[0], "rtnetlink")
                yield data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3


class PortTotals(NamedTuple):
    """The totals of an interface since it was created, in frames without FCS."""

    in_octets: int
    in_pkts: int
    out_octets: int
    out_pkts: int


class KernelQuestion:
    """A request to rtnetlink that is repeated often, in the network namespace of the process. It takes some 10 µs,
    while a dump returns all interfaces. ANSWER is the message type of the answer."""

    def __init__(self, request: int, answer: int, body: bytes, flags: int = 0) -> None:
        self._sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._question = _HEADER.pack(_HEADER.size + len(body), request, _REQUEST | flags, 0, 0) + body
        self._answer = answer

    def ask(self) -> bytes:
        """Send the request, and return the body of the answer. Raises OSError."""
        self._sock.send(self._question)
        reply = self._sock.recv(8192)
        size, kind, *_ = _HEADER.unpack_from(reply)
        if kind == _NLMSG_ERROR:
            raise OSError(-struct.unpack_from("=i", reply, _HEADER.size)[0], "rtnetlink")
        if kind != self._answer:
            raise OSError(0, f"rtnetlink answered with message type {kind}")
        return reply[_HEADER.size : size]

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class PortReader:
    """Reads the totals of one interface in the network namespace of the process."""

    def __init__(self, interface: str) -> None:
        groups = 1 << (_IFLA_STATS_LINK_64 - 1)
        body = _IFSTATS.pack(socket.AF_UNSPEC, socket.if_nametoindex(interface), groups)
        self._question = KernelQuestion(_RTM_GETSTATS, _RTM_NEWSTATS, body)
        self.close = self._question.close

    def read(self) -> PortTotals:
        """Returns the present totals. Raises OSError if the interface is gone."""
        have = attributes(self._question.ask()[_IFSTATS.size :])
        rx, tx, rx_bytes, tx_bytes = _STATS64.unpack_from(have[_IFLA_STATS_LINK_64])[:4]
        return PortTotals(rx_bytes, rx, tx_bytes, tx)


def interfaces() -> list[Interface]:
    """Returns every interface of this network namespace."""
    return [_interface(body) for body in _dump(_RTM_GETLINK, _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0))]


def _interface(body: bytes) -> Interface:
    _, _, index, flags, _ = _IFINFO.unpack_from(body)
    have = attributes(body[_IFINFO.size :])
    counted = _STATS64.unpack_from(have.get(_IFLA_STATS64, b"").ljust(_STATS64.size, b"\0"))
    rx, tx, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped, multicast = counted[:9]
    state = have.get(_IFLA_OPERSTATE, b"\0")[0]
    return Interface(
        index=index,
        name=have[_IFLA_IFNAME].rstrip(b"\0").decode(errors="replace"),
        master=_number(have, _IFLA_MASTER) or 0,
        mac=have.get(_IFLA_ADDRESS, b"").hex(":"),
        mtu=_number(have, _IFLA_MTU) or 0,
        admin_status="UP" if flags & _IFF_UP else "DOWN",
        oper_status=_OPER[state] if state < len(_OPER) else "UNKNOWN",
        in_octets=rx_bytes, out_octets=tx_bytes, in_pkts=rx, out_pkts=tx, in_multicast_pkts=multicast or None,
        in_errors=rx_errors, out_errors=tx_errors, in_discards=rx_dropped + counted[15], out_discards=tx_dropped,
        in_fcs_errors=counted[12], carrier_transitions=_number(have, _IFLA_CARRIER_CHANGES),
    )  # fmt: skip


def _number(have: dict[int, bytes], attribute: int) -> int | None:
    return int(struct.unpack("=I", have[attribute])[0]) if attribute in have else None


def neighbours() -> list[BridgeNeighbour]:
    """Returns the addresses that the bridges of this namespace have learned or were configured with, except their
    own."""
    found = {}
    for body in _dump(_RTM_GETNEIGH, _NDMSG.pack(socket.AF_BRIDGE, 0, 0, 0, 0)):
        family, index, state, _, _ = _NDMSG.unpack_from(body)
        have = attributes(body[_NDMSG.size :])
        mac = have.get(_NDA_LLADDR, b"")
        if family == socket.AF_BRIDGE and not state & _NUD_PERMANENT and len(mac) == 6 and not mac[0] & 1:
            found[index, mac] = BridgeNeighbour(index, mac.hex(":"))
    return [found[key] for key in sorted(found)]


def queue_classes(interface: str) -> list[int]:
    """Returns the classes (major << 16 | minor) in which packets for an interface wait: those without classes below
    them."""
    below: dict[int, int] = {}  # class → handle of the discipline in it
    above = set()
    for body in _dump(_RTM_GETTCLASS, _TCMSG.pack(socket.AF_UNSPEC, socket.if_nametoindex(interface), 0, 0, 0)):
        _, _, handle, parent, info = _TCMSG.unpack_from(body)
        if attributes(body[_TCMSG.size :]).get(_TCA_KIND, b"").rstrip(b"\0") in _CLASSFUL:
            below[handle] = info
            above.add(parent)
    majors = {handle >> 16 for handle in below}
    return sorted(handle for handle, info in below.items() if handle not in above and info >> 16 not in majors)


def link_speed(interface: str) -> int | None:
    """Returns the link speed of an interface in bits per second, None if its driver does not report it."""
    buffer = bytearray(44)  # struct ethtool_cmd
    _SETTINGS.pack_into(buffer, 0, _ETHTOOL_GSET, 0, 0, 0)
    import ctypes

    memory = (ctypes.c_char * len(buffer)).from_buffer(buffer)
    request = struct.pack("16sP", interface.encode(), ctypes.addressof(memory)).ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            fcntl.ioctl(control, _SIOCETHTOOL, request)
        except OSError:
            return None
    megabits = _SETTINGS.unpack_from(buffer)[3] | struct.unpack_from("=H", buffer, _SPEED_HIGH)[0] << 16
    return None if megabits in _UNKNOWN_SPEED else megabits * 10**6
