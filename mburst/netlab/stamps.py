"""Kernel timestamps of datagrams as they leave and as they arrive (Documentation/networking/timestamping.rst)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

_SO_TIMESTAMPING = 37
_IP_RECVERR = 11
# SOF_TIMESTAMPING_TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, OPT_ID, OPT_CMSG, OPT_TSONLY
_FLAGS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 10 | 1 << 11
_TIMESPEC = struct.Struct("@ll")
_EXTENDED_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err; ee_data is the datagram's number


def enable(sock: socket.socket) -> None:
    """Ask for software stamps of every datagram sent and received; sent ones are numbered from 0."""
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _FLAGS)


def _software(data: bytes) -> int:
    seconds, nanoseconds = _TIMESPEC.unpack_from(data)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def received(sock: socket.socket) -> Iterator[tuple[bytes, int, tuple[str, int]]]:
    """(payload, arrival Unix ns or 0, sender) of each waiting datagram of a non-blocking socket."""
    while True:
        try:
            data, control, _, address = sock.recvmsg(2048, 256)
        except BlockingIOError:
            return
        stamps = [_software(value) for level, kind, value in control
                  if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING]
        yield data, stamps[0] if stamps else 0, address


def sent(sock: socket.socket) -> Iterator[tuple[int, int]]:
    """(number of the datagram, departure Unix ns) of each stamp that waits on the socket's error queue."""
    while True:
        try:
            _, control, _, _ = sock.recvmsg(0, 512, socket.MSG_ERRQUEUE)
        except BlockingIOError:
            return
        number = stamp = None
        for level, kind, value in control:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING:
                stamp = _software(value)
            elif level == socket.SOL_IP and kind == _IP_RECVERR:
                number = _EXTENDED_ERROR.unpack_from(value)[6]
        if number is not None and stamp is not None:
            yield number, stamp
