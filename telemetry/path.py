"""Paths of datagrams: a socket towards a target, the probes that go through it and the answers that come back.

Each path is a socket of its own with a source port of its own, so that routers which spread flows over equal paths
(ECMP) send each the same way all the time.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable

from ..errors import MburstError
from . import stamp, timestamping
from .exchanges import Exchanges
from .loop import ERROR, READ, Loop, deepen, dropped
from .targets import Target

_IPV6_TCLASS = 67
_ANSWERS = 256  # numbers of the reflector whose departure may still be told
_SIXTEEN_BITS = 1 << 16
_TOGETHER_NS, _TRIES = 20_000, 3  # within which two readings of clocks are of one moment, and how often to try

Control = list[tuple[int, int, bytes]]
Tell = Callable[[str], None]  # takes a line for people

TROUBLE = {
    errno.ECONNREFUSED: "the port is closed: does `mburst reflect` run there?",
    errno.ECONNRESET: "the connection broke; connecting again",
    errno.EHOSTUNREACH: "the host cannot be reached",
    errno.ENETUNREACH: "there is no route to that network",
    errno.EACCES: "a firewall forbids it",
    errno.EPERM: "a firewall here forbids it",
    errno.EMSGSIZE: "the probe is too large for the path: --size makes it smaller",
}


def open_socket(target: Target, kind: socket.SocketKind, protocol: int, source: tuple[str, int], dscp: int,
                ) -> socket.socket:
    """A socket that is bound to the source address and port ("" and 0: any), not connected yet. Raises MburstError."""
    sock = None
    try:
        sock = socket.socket(target.family, kind, protocol)
        if target.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TCLASS, dscp << 2)
        else:
            sock.setsockopt(socket.SOL_IP, socket.IP_TOS, dscp << 2)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if source != ("", 0):
            sock.bind(source)
        return sock
    except OSError as error:
        if sock is not None:
            sock.close()
        raise _explained(error, kind, protocol, source) from error


def _explained(error: OSError, kind: socket.SocketKind, protocol: int, source: tuple[str, int]) -> MburstError:
    if protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6) and error.errno in (errno.EACCES, errno.EPERM):
        return MburstError("this group may not open ping sockets",
                           'sudo sysctl net.ipv4.ping_group_range="0 2147483647" lets every group')
    port = f" port {source[1]}" if source[1] else ""
    return MburstError(f"cannot send from {source[0] or 'any address'}{port}: {error.strerror}")


class Path:
    """What paths of all protocols share."""

    def __init__(self, target: Target, loop: Loop, tell: Tell, hardware: bool) -> None:
        self.target = target
        self.exchanges = Exchanges()
        self.loop = loop
        self.hardware = hardware
        self.clock_error_ns: int | None = None  # of this end's clock; None while it is not kept by NTP or PTP
        self._tell = tell
        self._told: set[int] = set()

    def send(self, due_mono_ns: int) -> None:
        """Send the probe that was due then (CLOCK_MONOTONIC)."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the counts when no more will come."""

    @property
    def source_port(self) -> int:
        """0 where the protocol has none."""
        return 0

    def begin(self, due_mono_ns: int) -> tuple[int, int]:
        """Note a probe that was due then; its number, and the time of sending in Unix ns."""
        for _ in range(_TRIES):  # a pause between the two clocks would move the time when it was due
            before = time.monotonic_ns()
            now = time.time_ns()
            if time.monotonic_ns() - before < _TOGETHER_NS:
                break
        return self.exchanges.add(now - (before - due_mono_ns), now), now

    def trouble(self, number: int) -> None:
        """Tell of an errno, once a path."""
        if number and number not in self._told:
            self._told.add(number)
            self._tell(f"{self.target.name}: {TROUBLE.get(number) or os.strerror(number)}")


class DatagramPath(Path):
    """A connected socket of datagrams. What a datagram holds is the subclass's."""

    def __init__(self, target: Target, loop: Loop, tell: Tell, sock: socket.socket, size: int, hardware: bool) -> None:
        super().__init__(target, loop, tell, hardware)
        self._sock = sock
        self._buffer = bytearray(size + 256)
        self._numbered_from = 0  # the probe that the kernel's count of datagrams begins with
        sock.setblocking(False)
        deepen(sock)
        try:
            sock.connect(target.address)
        except OSError as error:
            sock.close()
            raise MburstError(f"{target.name}: {TROUBLE.get(error.errno or 0) or error.strerror}") from error
        timestamping.enable(sock, hardware=hardware)
        loop.add(sock, self._ready)

    def close(self) -> None:
        self.loop.remove(self._sock)
        self._sock.close()

    def finish(self) -> None:
        self.exchanges.counts.overflowed = dropped(self._sock)

    def pack(self, number: int, now_ns: int) -> bytearray:
        """The datagram of a probe that is sent now."""
        raise NotImplementedError

    def take(self, data: memoryview, rx: tuple[int, str], now_ns: int) -> None:
        """An answer that came now and was stamped `rx` (ns, kind)."""
        raise NotImplementedError

    def send(self, due_mono_ns: int) -> None:
        number, now = self.begin(due_mono_ns)
        packet = self.pack(number, now)
        try:
            try:
                self._sock.send(packet)
            except ConnectionRefusedError:  # it is about an earlier probe; told once, the next try is free of it
                self.trouble(errno.ECONNREFUSED)
                self._sock.send(packet)
        except OSError as error:
            self.trouble(error.errno or 0)
            timestamping.enable(self._sock, hardware=self.hardware)
            self._numbered_from = number + 1
            return
        self._learn()

    def _ready(self, events: int) -> None:
        if events & ERROR and not self._learn():  # an error that is not in the queue, which to ask for clears
            self.trouble(self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        if events & READ:
            try:
                size, control, _, _ = self._sock.recvmsg_into([self._buffer], timestamping.CONTROL_BYTES)
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    self.trouble(error.errno or 0)
                return
            self.take(memoryview(self._buffer)[:size], timestamping.arrival(control), time.time_ns())

    def _learn(self) -> bool:
        """Take the next of the error queue: a stamp of departure, or what the network says of an earlier probe. False
        where it is empty. The loop calls again while there is more; to ask an empty queue costs more than all else of a
        probe."""
        told = timestamping.event(self._sock)
        if isinstance(told, timestamping.Refused):
            self.trouble(told.errno)
        elif told is not None and told.ns:
            self.exchanges.departed(self._numbered_from + told.number, told.ns, told.kind)
        return told is not None

    def unplaced(self, number: int) -> None:
        """Count an answer whose probe waits no more."""
        counts = self.exchanges.counts
        if self.exchanges.was_settled(number):
            counts.late += 1
        else:
            counts.stray += 1


class UdpPath(DatagramPath):
    """STAMP, see stamp.py."""

    def __init__(self, target: Target, loop: Loop, tell: Tell, *, size: int, source: tuple[str, int], dscp: int,
                 error: int, hardware: bool) -> None:
        self._packet = stamp.request(size, secrets.randbelow(65_535) + 1, error)
        self._answers: list[tuple[int, int]] = [(-1, -1)] * _ANSWERS  # (reflector's number, ours)
        self._remote_next = 0
        self._remote_lost = 0
        super().__init__(target, loop, tell, open_socket(target, socket.SOCK_DGRAM, 0, source, dscp), size, hardware)

    @property
    def source_port(self) -> int:
        return int(self._sock.getsockname()[1])

    def pack(self, number: int, now_ns: int) -> bytearray:
        stamp.stamp_request(self._packet, number, now_ns)
        return self._packet

    def take(self, data: memoryview, rx: tuple[int, str], now_ns: int) -> None:
        answer = stamp.parse_reply(data, now_ns)
        if answer is None:
            self.exchanges.counts.stray += 1
            return
        place = self.exchanges.place(answer.sender_sequence)
        if place is None:
            self.unplaced(answer.sender_sequence)
        elif stamp.to_ntp(self.exchanges.sent[place]) != answer.sender_stamp:
            self.exchanges.counts.stray += 1
            return
        else:
            theirs, ours = stamp.error_ns(answer.error), self.clock_error_ns
            apart = 0 if theirs is None or ours is None else theirs + ours
            self.exchanges.answer(place, *rx, now_ns, (answer.rx_ns, answer.tx_ns, apart))
        self._count_remote(answer)

    def _count_remote(self, answer: stamp.Reply) -> None:
        """What the reflector's own numbers tell: when an earlier answer left, which answers are missing, restarts."""
        number = answer.sequence
        if answer.follow_up:
            earlier, left_ns = answer.follow_up
            known, ours = self._answers[earlier % _ANSWERS]
            place = self.exchanges.place(ours) if known == earlier else None
            if place is not None and left_ns >= self.exchanges.remote_tx[place]:
                self.exchanges.remote_tx[place] = left_ns
            if self.exchanges.counts.lost_back is None:
                self.exchanges.counts.lost_back = 0  # it keeps count
        if number + _ANSWERS < self._remote_next or (number == 0 and self._remote_next > 1):
            self.exchanges.counts.restarts += 1
            self._answers = [(-1, -1)] * _ANSWERS
            self._remote_next = 0
        if self._answers[number % _ANSWERS][0] == number:
            return  # the network doubled it
        self._answers[number % _ANSWERS] = (number, answer.sender_sequence)
        self._remote_lost += number - self._remote_next if number >= self._remote_next else -1
        self._remote_next = max(self._remote_next, number + 1)
        if self.exchanges.counts.lost_back is not None:
            self.exchanges.counts.lost_back = max(0, self._remote_lost)


class IcmpPath(DatagramPath):
    """ICMP echo through the kernel's ping sockets, which need no rights where net.ipv4.ping_group_range allows it.

    The data of a probe is its number and the time of sending, 8 bytes each, and zeros up to the size.
    """

    _HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence: RFC 792, RFC 4443
    _DATA = struct.Struct("!QQ")
    LEAST_BYTES = _DATA.size

    def __init__(self, target: Target, loop: Loop, tell: Tell, *, size: int, source: tuple[str, int], dscp: int,
                 hardware: bool) -> None:
        six = target.family == socket.AF_INET6
        self._packet = bytearray(self._HEADER.size + size)
        self._request, self._reply = (128, 129) if six else (8, 0)
        protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
        sock = open_socket(target, socket.SOCK_DGRAM, protocol, source, dscp)
        super().__init__(target, loop, tell, sock, size, hardware)

    def pack(self, number: int, now_ns: int) -> bytearray:
        self._HEADER.pack_into(self._packet, 0, self._request, 0, 0, 0, number % _SIXTEEN_BITS)
        self._DATA.pack_into(self._packet, self._HEADER.size, number, now_ns)
        return self._packet

    def take(self, data: memoryview, rx: tuple[int, str], now_ns: int) -> None:
        exchanges = self.exchanges
        if len(data) < self._HEADER.size + self._DATA.size or data[0] != self._reply:
            exchanges.counts.stray += 1
            return
        number, sent_ns = self._DATA.unpack_from(data, self._HEADER.size)
        place = number - exchanges.first
        if not 0 <= place < len(exchanges.sent):
            self.unplaced(number)
        elif exchanges.sent[place] != sent_ns:
            exchanges.counts.stray += 1
        else:
            exchanges.answer(place, *rx, now_ns)


