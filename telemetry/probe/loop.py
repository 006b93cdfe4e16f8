"""One epoll loop with waits finer than the milliseconds of epoll."""

from __future__ import annotations

import ctypes
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

READ, WRITE, ERROR, HANGUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP
_PR_SET_TIMERSLACK = 29
_SO_RCVBUFFORCE, _SO_MEMINFO = 33, 55
_MEMINFO = struct.Struct("=9I")  # SK_MEMINFO_… of linux/sock_diag.h; the last is SK_MEMINFO_DROPS
_BUFFER_BYTES = 4 << 20
_LONGEST_S = 0.2  # so that a signal is noticed
_AT_ONCE = 64  # sockets that are handled before the caller's own work is due again

Handler = Callable[[int], None]


class Loop:
    """Calls the handler of each socket with the events of epoll(7)."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}

    def add(self, sock: socket.socket, handler: Handler, events: int = READ) -> None:
        self._handlers[sock.fileno()] = handler
        self._epoll.register(sock, events)

    def change(self, sock: socket.socket, events: int) -> None:
        self._epoll.modify(sock, events)

    def remove(self, sock: socket.socket) -> None:
        """Call this before the socket is closed."""
        if self._handlers.pop(sock.fileno(), None):
            self._epoll.unregister(sock)

    def wait(self, until_ns: int | None) -> None:
        """Handle the sockets that are ready, or that become ready first before a time of CLOCK_MONOTONIC; may return
        early."""
        longest = _LONGEST_S
        if until_ns is not None:  # epoll counts in milliseconds
            longest = 0
            left = min(_LONGEST_S, (until_ns - time.monotonic_ns()) / 1e9)
            if left > 0 and not select.select([self._epoll], [], [], left)[0]:
                return
        for descriptor, events in self._epoll.poll(longest, _AT_ONCE):
            handler = self._handlers.get(descriptor)
            if handler:
                handler(events)

    def close(self) -> None:
        self._epoll.close()


def deepen(sock: socket.socket) -> None:
    """Give a socket a receive buffer that does not fill during a pause of this process: _BUFFER_BYTES if this process
    is allowed to (CAP_NET_ADMIN), otherwise as much of it as net.core.rmem_max allows."""
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        with suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
            return


def dropped(sock: socket.socket) -> int:
    """The number of datagrams that have found the receive buffer of a socket full so far."""
    return int(_MEMINFO.unpack(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1])


def wake_promptly() -> None:
    """Have the kernel end waits of this thread when they are due, not up to 50 µs later (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def listening(address: tuple[str, int], kind: socket.SocketKind) -> socket.socket:
    """Returns a non-blocking socket bound to an address; an OSError has the address in `filename`."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, error.strerror, f"{address[0]} port {address[1]}") from error
    return sock
