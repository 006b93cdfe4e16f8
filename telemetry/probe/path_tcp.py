"""Probes over TCP: messages of one size on a persistent connection to a server that echoes them.

The latency includes everything that the bytes of the connection went through, such as retransmissions and waits for the
window. Both stamps are of the last byte of a message, or of the segment that took it along with later ones. A probe
that is due while there is no connection is lost; so are probes under way when it breaks.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections import deque

from ...errors import MburstError
from . import timestamping
from .pacer import READ, SENDS, STREAM, TAKES, WRITE, Pacer, Shape
from .path import ProbePath, Report, SendOptions, open_socket
from .targets import ProbeTarget

_AGAIN_NS = 500_000_000  # between two attempts to connect
_MOST_OWED = 16 << 20  # bytes that wait for room in a window: then a peer that reads nothing is given up
_MESSAGE = struct.Struct("!QQ")  # number, time of sending
LEAST_BYTES = _MESSAGE.size


class TcpPath(ProbePath):
    """A connection that is made again when it breaks. While it accepts all that is due, the pacer sends. Probes that
    are due before it is made, and while its window is full, come to `due`."""

    def __init__(self, target: ProbeTarget, pacer: Pacer, report: Report, options: SendOptions) -> None:
        shape = Shape(options.size, b"", number_at=0, number_bytes=8, time_at=8)
        super().__init__(target, pacer, report, shape, options.hardware)
        self._options = options
        self._sock: socket.socket | None = None
        self._connected = False
        self._was_connected = False
        self._port = 0
        self._next_try_ns = 0
        self._padding = bytes(options.size - _MESSAGE.size)
        self._begin()

    @property
    def source_port(self) -> int:
        return self._port

    @property
    def opening(self) -> bool:
        """Whether the connection is being made."""
        return self._sock is not None and not self._connected

    def close(self) -> None:
        self._drop()

    def _begin(self) -> None:
        """Begin to connect, without waiting."""
        self._next_try_ns = time.monotonic_ns() + _AGAIN_NS
        self._out = bytearray()  # bytes for which there was no room
        self._under_way: deque[int] = deque()  # numbers of probes without an echo yet, in order
        self._sock = open_socket(self.target, socket.SOCK_STREAM, 0, self._options)
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._sock.connect_ex(self.target.address)
        if code not in (0, errno.EINPROGRESS):
            self._break(code)
            return
        self._port = int(self._sock.getsockname()[1])
        self.pacer.watch(self.index, self._sock, 0, READ | WRITE)

    def _drop(self) -> None:
        if self._sock is not None:
            self.pacer.leave(self.index, self._sock)
            self._sock.close()
        self._sock = None
        self._connected = False
        self._out = bytearray()

    def _break(self, code: int) -> None:
        self._drop()
        super().trouble(errno.ECONNRESET if code == errno.EPIPE else code)

    def sent(self, due_ns: int, now_ns: int) -> None:
        self._under_way.append(self.exchanges.add(due_ns, now_ns))

    def due(self, due_ns: int, now_ns: int) -> int:
        if self._sock is None and time.monotonic_ns() >= self._next_try_ns:
            try:
                self._begin()
            except MburstError as error:  # no socket is available now: tried again, as after a refusal
                self._report(f"{self.target.name}: {error}")
        self._owe(due_ns, now_ns, 0)
        return self.exchanges.next

    def partly(self, due_ns: int, now_ns: int, size: int) -> None:
        self._owe(due_ns, now_ns, size)

    def failed(self, due_ns: int, now_ns: int, error: int) -> None:
        self.exchanges.add(due_ns, now_ns)
        self._break(error)

    def trouble(self, error: int) -> None:
        self._break(error)

    def _owe(self, due_ns: int, now_ns: int, size: int) -> None:
        """Note a probe and, if there is a connection, send the rest of it when there is room."""
        number = self.exchanges.add(due_ns, now_ns)
        if self._connected:
            self._under_way.append(number)
            self._out += (_MESSAGE.pack(number, now_ns) + self._padding)[size:]
            self._write()
        if len(self._out) > _MOST_OWED:
            self._report(f"{self.target.name}: the other end does not read; reconnecting")
            self._drop()

    def _write(self) -> None:
        assert self._sock is not None
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error.errno or 0)
            return
        self._let_send()

    def _let_send(self) -> None:
        """Have the pacer send while nothing is owed, and report when there is room while something is owed."""
        assert self._sock is not None
        flags, events = (0, READ | WRITE) if self._out else (SENDS, READ)
        self.pacer.change(self.index, self._sock, TAKES | STREAM | flags, events)

    def ready(self, events: int) -> None:
        if self._connected:
            self._write()
        else:
            self._arrive()

    def _arrive(self) -> None:
        """The connection was made, or it failed."""
        assert self._sock is not None
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._break(code)
            return
        self._connected = True
        self._stream_from = self.exchanges.next  # the probe whose message is the first of this connection
        self._left_to = self._stream_from  # the first probe of unknown departure
        if self._was_connected:
            self.exchanges.counts.restarts += 1
        self._was_connected = True
        timestamping.enable(self._sock, hardware=self.hardware)
        self._let_send()

    def answered(self, data: bytes, size: int, rx_ns: int, hardware: int, now_ns: int) -> None:
        if not self._connected:  # the connection broke because of the previous answer
            return
        number, _ = _MESSAGE.unpack_from(data)
        if not self._under_way or self._under_way[0] != number:
            self.strange(size, "the answer differs from the probe: is an echo service on that port?")
            self._drop()
            return
        self._under_way.popleft()
        place = number - self.exchanges.first
        if place < 0:
            self.exchanges.counts.late += 1
        else:
            self.exchanges.answer(place, rx_ns, hardware, now_ns)

    def left(self, count: int, ns: int, hardware: int) -> None:
        if not ns or not self._connected:
            return
        number = (
            self._stream_from + count // self._options.size
        )  # the count is that of a segment's last byte in the stream
        for other in range(self._left_to, number):  # in the same segment, which the kernel stamps once
            self.exchanges.departed(other, ns, hardware)
        self.exchanges.departed(number, ns, hardware)
        self._left_to = max(self._left_to, number + 1)
