"""One epoll loop with waits finer than its milliseconds."""

from __future__ import annotations

import ctypes
import select
import socket
import time
from collections.abc import Callable

READ, WRITE, ERROR, HANGUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP
_PR_SET_TIMERSLACK = 29
_LONGEST_S = 0.2  # so that a signal is seen

Handler = Callable[[int], None]


class Loop:
    """Calls each socket's handler with what epoll(7) says of it."""

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
        """Handle what there is, or what comes first until a time of CLOCK_MONOTONIC; returns early now and then."""
        left = _LONGEST_S if until_ns is None else min(_LONGEST_S, (until_ns - time.monotonic_ns()) / 1e9)
        if left > 0 and not select.select([self._epoll], [], [], left)[0]:
            return
        for descriptor, events in self._epoll.poll(0):
            handler = self._handlers.get(descriptor)
            if handler:
                handler(events)

    def close(self) -> None:
        self._epoll.close()


def wake_promptly() -> None:
    """Have the kernel end this thread's waits when they are due, not up to 50 µs later (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def listening(address: tuple[str, int], kind: socket.SocketKind) -> socket.socket:
    """A non-blocking socket bound to an address; OSError names the address in `filename`."""
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
