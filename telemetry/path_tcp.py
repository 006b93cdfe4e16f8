"""Probes over TCP: messages of one size on a kept connection to whoever echoes them.

What the connection's bytes went through counts, retransmissions and waits for the window included. Both stamps are of a
message's last byte. A probe that is due while there is no connection is lost; so are those under way when it breaks.
"""

from __future__ import annotations

import errno
import socket
import struct
import time

from . import timestamping
from .loop import ERROR, HANGUP, READ, WRITE, Loop
from .path import Path, Tell, open_socket
from .targets import Target

_AGAIN_NS = 500_000_000  # between tries to connect
_MESSAGE = struct.Struct("!QQ")  # number, time of sending
LEAST_BYTES = _MESSAGE.size


class TcpPath(Path):
    """A connection that is made again when it breaks."""

    def __init__(self, target: Target, loop: Loop, tell: Tell, *, size: int, source: tuple[str, int], dscp: int,
                 hardware: bool) -> None:
        super().__init__(target, loop, tell, hardware)
        self._size = size
        self._source = source
        self._dscp = dscp
        self._sock: socket.socket | None = None
        self._connected = False
        self._was_connected = False
        self._port = 0
        self._next_try_ns = 0
        self._padding = bytes(size - _MESSAGE.size)
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
        """Connect, without waiting for it."""
        self._next_try_ns = time.monotonic_ns() + _AGAIN_NS
        self._out = bytearray()
        self._in = bytearray()
        self._waits_for_room = True
        self._under_way: list[int] = []  # numbers whose echo has not come, in order
        self._sock = open_socket(self.target, socket.SOCK_STREAM, 0, self._source, self._dscp)
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self._sock.connect_ex(self.target.address)
        if code not in (0, errno.EINPROGRESS):
            self._break(code)
            return
        self._port = int(self._sock.getsockname()[1])
        self.loop.add(self._sock, self._ready, READ | WRITE)

    def _drop(self) -> None:
        if self._sock is not None:
            self.loop.remove(self._sock)
            self._sock.close()
        self._sock = None
        self._connected = False

    def _break(self, code: int) -> None:
        self._drop()
        self.trouble(errno.ECONNRESET if code == errno.EPIPE else code)

    def send(self, due_mono_ns: int) -> None:
        number, now = self.begin(due_mono_ns)
        if self._sock is None and time.monotonic_ns() >= self._next_try_ns:
            self._begin()
        if not self._connected:
            return
        self._under_way.append(number)
        self._out += _MESSAGE.pack(number, now) + self._padding
        self._write()

    def _write(self) -> None:
        if self._sock is None:
            return
        try:
            while self._out:
                del self._out[:self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError as error:
            self._break(error.errno or 0)
            return
        self._wait_for_room(bool(self._out))
        self._learn()

    def _wait_for_room(self, wanted: bool) -> None:
        if wanted != self._waits_for_room:
            assert self._sock is not None
            self.loop.change(self._sock, READ | (WRITE if wanted else 0))
            self._waits_for_room = wanted

    def _ready(self, events: int) -> None:
        if not self._connected:
            self._arrive()
            return
        if events & ERROR:
            self._learn()
        if events & (READ | HANGUP) and self._connected:
            self._read()
        if events & WRITE and self._connected:
            self._write()

    def _arrive(self) -> None:
        """The connection is made, or it cannot be."""
        assert self._sock is not None
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._break(code)
            return
        self._connected = True
        self._stream_from = self.exchanges.next  # the probe whose message begins this connection's bytes
        if self._was_connected:
            self.exchanges.counts.restarts += 1
        self._was_connected = True
        timestamping.enable(self._sock, hardware=self.hardware)
        self._wait_for_room(False)

    def _read(self) -> None:
        assert self._sock is not None
        try:
            data, control, _, _ = self._sock.recvmsg(self._size - len(self._in), timestamping.CONTROL_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error.errno or 0)
            return
        now = time.time_ns()
        if not data:
            self._break(errno.ECONNRESET)
            return
        self._in += data
        if len(self._in) == self._size:
            self._take(timestamping.arrival(control), now)
            self._in.clear()

    def _take(self, rx: tuple[int, str], now_ns: int) -> None:
        number, _ = _MESSAGE.unpack_from(self._in)
        if not self._under_way or self._under_way[0] != number:
            self.exchanges.counts.stray += 1
            self._tell(f"{self.target.name}: what comes back is not what was sent: is there an echo on that port?")
            self._drop()
            return
        del self._under_way[0]
        place = number - self.exchanges.first
        if place < 0:
            self.exchanges.counts.late += 1
        else:
            self.exchanges.answer(place, *rx, now_ns)

    def _learn(self) -> None:
        """Take the next stamp of the error queue: its number is that of a message's last byte in the stream."""
        assert self._sock is not None
        told = timestamping.event(self._sock)
        if isinstance(told, timestamping.Refused):
            self._break(told.errno)
        elif told is not None and told.ns:
            self.exchanges.departed(self._stream_from + told.number // self._size, told.ns, told.kind)
