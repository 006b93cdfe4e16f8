"""Stamps by the kernel or the network interface of what a socket sends and receives.

Source: Documentation/networking/timestamping.rst of Linux. Stamps are Unix nanoseconds of the system clock.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from ._exchange import next_departure

SO_TIMESTAMPING = 37
IP_RECVERR, IPV6_RECVERR = 11, 25
SOL_IPV6 = 41

_TX_HARDWARE, _TX_SOFTWARE, _RX_HARDWARE, _RX_SOFTWARE, _SOFTWARE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 4
_RAW_HARDWARE, _OPT_ID, _OPT_CMSG, _OPT_TSONLY, _OPT_TX_SWHW = 1 << 6, 1 << 7, 1 << 10, 1 << 11, 1 << 14
_KERNEL = _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE | _OPT_ID | _OPT_CMSG | _OPT_TSONLY
_INTERFACE = _TX_HARDWARE | _RX_HARDWARE | _RAW_HARDWARE | _OPT_TX_SWHW

_STAMPS = struct.Struct("@qqqqqq")  # software, unused, hardware: seconds and nanoseconds each
CONTROL_BYTES = 512


class SendStamp(NamedTuple):
    """The departure of a datagram (by its number since `enable`) or of a byte of a stream: when, and what stamped
    it."""

    number: int
    ns: int
    kind: str  # hw or sw


class SendError(NamedTuple):
    """An error that the network or the kernel reported about something that was sent: an errno."""

    errno: int


def enable(sock: socket.socket, *, hardware: bool = False) -> None:
    """Ask for stamps of all that is sent (numbered from 0) and received; from then on, `event` also returns errors of
    the network. `hardware` asks for stamps of the interface, which must have been switched on; its clock must be
    synchronized with system time. Raises OSError."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)  # numbering restarts when it is switched on
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _KERNEL | (_INTERFACE if hardware else 0))
    if sock.family == socket.AF_INET6:
        sock.setsockopt(SOL_IPV6, IPV6_RECVERR, 1)
    else:
        sock.setsockopt(socket.SOL_IP, IP_RECVERR, 1)


def stamp_of(data: bytes) -> tuple[int, str]:
    """Returns (ns, kind) of the control message SO_TIMESTAMPING: the hardware stamp if there is one, otherwise the
    software stamp; (0, "") if there is neither."""
    soft_s, soft_ns, _, _, hard_s, hard_ns = _STAMPS.unpack_from(data)
    if hard_s:
        return hard_s * 1_000_000_000 + hard_ns, "hw"
    return (soft_s * 1_000_000_000 + soft_ns, "sw") if soft_s else (0, "")


def arrival(control: list[tuple[int, int, bytes]]) -> tuple[int, str]:
    """Returns (ns, kind) from the control messages of a received datagram; (0, "") if it was not stamped."""
    for level, kind, data in control:
        if kind == SO_TIMESTAMPING and level == socket.SOL_SOCKET:
            return stamp_of(data)
    return 0, ""


def event(sock: socket.socket) -> SendStamp | SendError | None:
    """Returns the next entry of the error queue of a socket: a stamp of departure, or an error; None if it is empty."""
    departure = next_departure(sock.fileno())
    if departure is None:
        return None
    return SendError(*departure) if len(departure) == 1 else SendStamp(*departure)
