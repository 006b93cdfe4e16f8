"""TCP echo: every byte comes back, in order, optionally after a delay (RFC 862, over TCP).

The memory that clients can make it use is limited: the number of connections, and the number of bytes that wait for
their time or for the client to read. At the maximum number of connections, it stops accepting, and idle connections are
closed to make room.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable

from ...units import NS_PER_HOUR, NS_PER_S
from .admission import CONNECTIONS
from .delays import Delay
from .loop import ERROR, HANGUP, READ, WRITE, Loop, listening

_CHUNK = 1 << 16
_WAITING_BYTES = 64 << 20  # that all connections together may owe, approximately; one connection may owe
_MOST_SHARES = 64  # this part of it, or less if there are more connections
_PIECE_BYTES = 512  # of memory for each waiting piece
_BACKLOG = 128
_IDLE_NS = 2 * NS_PER_HOUR  # twice the longest time between two probes of `mburst probe`
_IDLE_WHEN_FULL_NS = 30 * NS_PER_S
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Hold = Callable[[int, Callable[[], None]], object]


class Echo:
    """A listening socket and its connections. `allows` returns whether an address may connect."""

    def __init__(
        self,
        loop: Loop,
        hold: Hold,
        address: tuple[str, int],
        delay: Delay | None,
        allows: Callable[[str], bool],
        most: int = CONNECTIONS,
    ) -> None:
        self.echoed = self.refused = 0
        self._loop = loop
        self._hold = hold
        self._delay = delay
        self._allows = allows
        self._most = most
        self._connections: set[EchoConnection] = set()
        self._sock = listening(address, socket.SOCK_STREAM)
        self._sock.listen(_BACKLOG)
        self._listens = False
        self._listen()

    @property
    def share_bytes(self) -> int:
        """How many bytes one connection may owe before no more is read from it."""
        return _WAITING_BYTES // max(_MOST_SHARES, len(self._connections))

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._loop.add(self._sock, self._accept)

    def _pause(self) -> None:
        if self._listens:
            self._listens = False
            self._loop.remove(self._sock)

    def _accept(self, events: int) -> None:
        try:
            sock, peer = self._sock.accept()
        except OSError as error:
            if error.errno in _NO_MORE_FILES:  # the socket stays ready, and would be tried again at once
                self._pause()
            return
        if not self._allows(peer[0]):
            self.refused += 1
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(EchoConnection(self, self._loop, sock, self._hold, self._delay))
        if len(self._connections) >= self._most:
            self._pause()

    def look_after(self, now_ns: int) -> None:
        """Called about once a second: close idle connections, and listen again if there is room."""
        limit_ns = _IDLE_WHEN_FULL_NS if len(self._connections) >= self._most else _IDLE_NS
        for connection in [each for each in self._connections if now_ns - each.heard_ns > limit_ns]:
            connection.close()
        if len(self._connections) < self._most:
            self._listen()

    def sent(self, size: int) -> None:
        self.echoed += size

    def forget(self, connection: EchoConnection) -> None:
        self._connections.discard(connection)

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close()
        self._pause()
        self._sock.close()


class EchoConnection:
    """A connection and the bytes that it is still owed."""

    def __init__(self, echo: Echo, loop: Loop, sock: socket.socket, hold: Hold, delay: Delay | None) -> None:
        self._echo = echo
        self._loop = loop
        self._sock = sock
        self._hold = hold
        self._delay = delay
        self._last_due_ns = 0
        self._held = 0  # bytes of memory of waiting pieces
        self._out = bytearray()
        self._ended = self._closed = False
        self._events = READ
        self.heard_ns = time.monotonic_ns()
        loop.add(sock, self._ready)

    def _ready(self, events: int) -> None:
        self.heard_ns = time.monotonic_ns()
        if events & (ERROR | HANGUP):
            self.close()
            return
        if events & READ and not self._ended:
            self._read()
        if events & WRITE and not self._closed:
            self._write()

    def _read(self) -> None:
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._ended = True
            self._settle()
        elif self._delay:
            self._last_due_ns = max(self._last_due_ns, self.heard_ns + self._delay())
            self._held += len(data) + _PIECE_BYTES
            self._hold(self._last_due_ns, lambda: self._release(data))
            self._settle()
        else:
            self._out += data
            self._write()

    def _release(self, data: bytes) -> None:
        self._held -= len(data) + _PIECE_BYTES
        if not self._closed:
            self._out += data
            self._write()

    def _write(self) -> None:
        try:
            while self._out:
                size = self._sock.send(self._out)
                self._echo.sent(size)
                del self._out[:size]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._settle()

    def _settle(self) -> None:
        """Wait for the events that matter now; close when the peer has ended and has received everything."""
        if self._ended and not self._out and not self._held:
            self.close()
            return
        open_for_more = not self._ended and len(self._out) + self._held < self._echo.share_bytes
        events = (READ if open_for_more else 0) | (WRITE if self._out else 0)
        if events != self._events:
            self._loop.change(self._sock, events)
            self._events = events

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._out.clear()
            self._loop.remove(self._sock)
            self._sock.close()
            self._echo.forget(self)
