"""The prober's sockets between Python and exchange.c, which does the time-critical sending and receiving.

Events come as notes, a few dozen at a time, so that handling them never keeps a probe waiting for long.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from array import array
from dataclasses import dataclass
from typing import Protocol

from . import _exchange
from ._exchange import (
    ANSWER,
    DUE,
    FAILED,
    HEAD_BYTES,
    LEFT,
    NOTE_BYTES,
    NTP,
    PARTLY,
    PATH_BYTES,
    SENDS,
    SENT,
    STREAM,
    TAKES,
    TROUBLE,
)

__all__ = ["NTP", "READ", "SENDS", "STREAM", "TAKES", "WRITE", "PacedPath", "Pacer", "Shape"]

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
_PATH = struct.Struct(f"@iIQIIBBBB4x{HEAD_BYTES}s{HEAD_BYTES}x")  # struct mb_path
_NOTE = struct.Struct(f"@qqqQIIHH4x{HEAD_BYTES}s")  # struct mb_note
_HEAD = struct.Struct("@iI")  # of struct mb_path: fd, flags
_NEXT, _NEXT_AT = struct.Struct("@Q"), 8
_COMING, _COMING_AT = struct.Struct("@I"), 20  # the field `have`
_LEAST_SET_NS = 50_000  # smallest difference that counts as a set clock; notes are accurate to 20 µs
_NOTES = 64  # that are made before they are handled: of some 20 probes
assert (_PATH.size, _NOTE.size) == (PATH_BYTES, NOTE_BYTES)


@dataclass(frozen=True)
class Shape:
    """The positions, in bytes, of a probe's number and time. `head` is the beginning of the probe; the bytes after it
    are zero. The lower 16 bits of the number also go to `short_at`, unless that is 0."""

    size: int
    head: bytes
    number_at: int
    number_bytes: int
    time_at: int
    short_at: int = 0


class PacedPath(Protocol):
    """The methods of a path that the pacer calls. Times are Unix ns; `hardware` is whether the network interface made a
    stamp."""

    def clock_set(self, apart_ns: int) -> None:
        """From now on, system time is ahead of CLOCK_MONOTONIC by APART_NS. Called before anything else, and each time
        that somebody has set the clock."""

    def sent(self, due_ns: int, now_ns: int) -> None:
        """The next probe was sent."""

    def due(self, due_ns: int, now_ns: int) -> int:
        """The next probe is due, on a path that does not send. Returns the number of the one after it."""

    def partly(self, due_ns: int, now_ns: int, size: int) -> None:
        """A stream took SIZE bytes of the next probe, and the path sends no more."""

    def failed(self, due_ns: int, now_ns: int, error: int) -> None:
        """The next probe could not be sent."""

    def left(self, count: int, ns: int, hardware: int) -> None:
        """A probe departed: `count` is the kernel's count of datagrams or bytes."""

    def answered(self, data: bytes, size: int, rx_ns: int, hardware: int, now_ns: int) -> None:
        """An answer of `size` bytes that begins with `data`."""

    def trouble(self, error: int) -> None:
        """The network reported an error, or nothing more can be received, for the reason ERROR."""

    def ready(self, events: int) -> None:
        """The events of epoll for a path that takes no answers, or that waits for room to send."""

    def strange(self, size: int, what: str) -> None:
        """An answer of SIZE bytes could not be processed, for the reason WHAT."""


class Pacer:
    """Has the probes of paths sent when they are due, and reports to the paths what became of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._timer = _exchange.timer()
        self._epoll.register(self._timer, select.EPOLLIN | select.EPOLLET)
        self._paths: list[PacedPath] = []
        self._structs = bytearray()
        self._owners = array("i")
        self._notes = bytearray(_NOTES * NOTE_BYTES)
        self._apart_ns = 0  # not known yet

    def add(self, path: PacedPath, shape: Shape) -> int:
        """Returns the index of a path. It has no socket yet: probes that are due are reported to it."""
        self._paths.append(path)
        self._structs += _PATH.pack(
            -1, 0, 0, shape.size, 0, shape.number_at, shape.number_bytes, shape.short_at, shape.time_at, shape.head
        )
        return len(self._paths) - 1

    def watch(self, index: int, sock: socket.socket, flags: int, events: int = READ) -> None:
        """Set the socket of a path from now on. Flags: TAKES, SENDS, STREAM, NTP."""
        descriptor = sock.fileno()
        self._owners.extend([-1] * (descriptor + 1 - len(self._owners)))
        self._owners[descriptor] = index
        _HEAD.pack_into(self._structs, index * PATH_BYTES, descriptor, flags)
        _COMING.pack_into(self._structs, index * PATH_BYTES + _COMING_AT, 0)
        self._epoll.register(sock, events)

    def change(self, index: int, sock: socket.socket, flags: int, events: int) -> None:
        """Change the flags and events of a path's socket."""
        _HEAD.pack_into(self._structs, index * PATH_BYTES, sock.fileno(), flags)
        self._epoll.modify(sock, events)

    def leave(self, index: int, sock: socket.socket) -> None:
        """Forget the socket of a path, which is about to be closed."""
        if sock.fileno() < len(self._owners) and self._owners[sock.fileno()] == index:
            self._owners[sock.fileno()] = -1
            self._epoll.unregister(sock)
        _HEAD.pack_into(self._structs, index * PATH_BYTES, -1, 0)

    def run(self, due: array[int], until_ns: int) -> int:
        """Exchange until a time of CLOCK_MONOTONIC, or until there is a note for the paths. `due` has a time of that
        clock and a path for each probe, in order. Returns how many of them were handled. Raises OSError."""
        done, count = _exchange.exchange(
            self._epoll.fileno(), self._timer, self._structs, self._owners, due, self._notes, until_ns
        )
        paths = self._paths
        for now, ns, apart, number, index, value, what, hardware, data in _NOTE.iter_unpack(
            memoryview(self._notes)[: count * NOTE_BYTES]
        ):
            if apart and not -_LEAST_SET_NS < apart - self._apart_ns < _LEAST_SET_NS:
                self._apart_ns = apart
                for path in paths:
                    path.clock_set(apart)
            if what == SENT:
                paths[index].sent(ns, now)
            elif what == LEFT:
                paths[index].left(number, ns, hardware)
            elif what == ANSWER:
                try:
                    paths[index].answered(data, value, ns, hardware, now)
                except Exception as error:  # no answer, whatever it contains, may end the loop
                    paths[index].strange(value, f"internal error: {type(error).__name__}")
            else:
                self._dispatch(index, what, ns, now, value)
        return done

    def _dispatch(self, index: int, what: int, due_ns: int, now_ns: int, value: int) -> None:
        path = self._paths[index]
        if what == DUE:
            _NEXT.pack_into(self._structs, index * PATH_BYTES + _NEXT_AT, path.due(due_ns, now_ns))
        elif what == PARTLY:
            path.partly(due_ns, now_ns, value)
        elif what == FAILED:
            path.failed(due_ns, now_ns, value)
        elif what == TROUBLE:
            path.trouble(value)
        else:
            path.ready(value)

    def close(self) -> None:
        self._epoll.close()
        os.close(self._timer)
