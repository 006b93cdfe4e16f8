"""TCP echo: every byte comes back, in order, after a delay if wanted (RFC 862, over TCP)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from .delays import Delay
from .loop import ERROR, HANGUP, READ, WRITE, Loop, listening

_CHUNK = 1 << 16
_MOST_WAITING = 1 << 20  # bytes that a connection may owe before it is read no further
_BACKLOG = 128

Hold = Callable[[int, Callable[[], None]], None]


class Echo:
    """A listening socket and its connections."""

    def __init__(self, loop: Loop, hold: Hold, address: tuple[str, int], delay: Delay | None) -> None:
        self.echoed = 0
        self._loop = loop
        self._hold = hold
        self._delay = delay
        self._connections: set[Connection] = set()
        self._sock = listening(address, socket.SOCK_STREAM)
        self._sock.listen(_BACKLOG)
        loop.add(self._sock, self._accept)

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self._sock.accept()
        except OSError:  # gone again, or too many files are open
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(Connection(self, self._loop, sock, self._hold, self._delay))

    def sent(self, size: int) -> None:
        self.echoed += size

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close()
        self._loop.remove(self._sock)
        self._sock.close()


class Connection:
    """A connection and what it is still owed."""

    def __init__(self, echo: Echo, loop: Loop, sock: socket.socket, hold: Hold, delay: Delay | None) -> None:
        self._echo = echo
        self._loop = loop
        self._sock = sock
        self._hold = hold
        self._delay = delay
        self._last_due_ns = 0
        self._held = 0
        self._out = bytearray()
        self._ended = self._closed = False
        self._events = READ
        loop.add(sock, self._ready)

    def _ready(self, events: int) -> None:
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
            self._last_due_ns = max(self._last_due_ns, time.monotonic_ns() + self._delay())
            self._held += len(data)
            self._hold(self._last_due_ns, lambda: self._release(data))
            self._settle()
        else:
            self._out += data
            self._write()

    def _release(self, data: bytes) -> None:
        self._held -= len(data)
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
        """Wait for what makes sense now; end when the peer has ended and was given everything."""
        if self._ended and not self._out and not self._held:
            self.close()
            return
        open_for_more = not self._ended and len(self._out) + self._held < _MOST_WAITING
        events = (READ if open_for_more else 0) | (WRITE if self._out else 0)
        if events != self._events:
            self._loop.change(self._sock, events)
            self._events = events

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove(self._sock)
            self._sock.close()
            self._echo.forget(self)
