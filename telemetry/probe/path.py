"""Paths of datagrams: a socket towards a target, the probes that are sent through it and the answers that come back.

Each path has a socket and a source port of its own, so routers that distribute flows over equal paths (ECMP) always
send it the same way.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from ...errors import MburstError
from ...process.binding import cannot_bind
from . import stamp, timestamping
from .exchanges import Exchanges
from .loop import deepen, dropped
from .pacer import NTP, SENDS, TAKES, Pacer, Shape
from .targets import ProbeTarget

_IPV6_TCLASS = 67
_ANSWERS = 256  # numbers of the reflector for which a departure may still be reported

Report = Callable[[str], None]  # called with a line for people

TROUBLE = {
    errno.ECONNREFUSED: "port closed: is `mburst reflect` running there?",
    errno.ECONNRESET: "the connection broke; connecting again",
    errno.EHOSTUNREACH: "host unreachable",
    errno.ENETUNREACH: "no route to that network",
    errno.EACCES: "blocked by a firewall",
    errno.EPERM: "blocked by a firewall on this host",
    errno.ENOBUFS: "a queue of this host is full: it drops probes",
    errno.EMSGSIZE: "the probe is too large for the path: use a smaller --size",
}


class SendOptions(NamedTuple):
    """How the probes of a path are sent."""

    size: int  # bytes: of the datagram's payload or the message
    source: tuple[str, int]  # address and port; "" and 0: any
    dscp: int
    hardware: bool  # with stamps of the NIC


def open_socket(target: ProbeTarget, kind: socket.SocketKind, protocol: int, options: SendOptions) -> socket.socket:
    """Returns a socket that is bound to the source, not connected yet. Raises MburstError."""
    sock = None
    try:
        sock = socket.socket(target.family, kind, protocol)
        if target.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TCLASS, options.dscp << 2)
        else:
            sock.setsockopt(socket.SOL_IP, socket.IP_TOS, options.dscp << 2)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.source != ("", 0):
            sock.bind(options.source)
        return sock
    except OSError as error:
        if sock is not None:
            sock.close()
        raise _explained(error, protocol, options.source) from error


def _explained(error: OSError, protocol: int, source: tuple[str, int]) -> MburstError:
    if protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6) and error.errno in (errno.EACCES, errno.EPERM):
        return MburstError(
            "ping sockets are not permitted for this group",
            'sudo sysctl net.ipv4.ping_group_range="0 2147483647" permits every group',
        )
    port = f" port {source[1]}" if source[1] else ""
    return cannot_bind(f"cannot send from {source[0] or 'any address'}{port}", error)


class ProbePath:
    """The common part of the paths of all protocols. The pacer calls them, see pacer.Paced."""

    def __init__(self, target: ProbeTarget, pacer: Pacer, report: Report, shape: Shape, hardware: bool) -> None:
        self.target = target
        self.exchanges = Exchanges()
        self.pacer = pacer
        self.index = pacer.add(self, shape)
        self.hardware = hardware
        self.clock_error_ns: int | None = None  # of this end's clock; None while NTP or PTP does not synchronize it
        self._report = report
        self._reported: set[int] = set()
        self._strange: set[str] = set()

    def close(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the counts when no more answers will come."""

    @property
    def source_port(self) -> int:
        """0 if the protocol has no ports."""
        return 0

    def clock_set(self, apart_ns: int) -> None:
        self.exchanges.clock_set(apart_ns)

    def sent(self, due_ns: int, now_ns: int) -> None:
        self.exchanges.add(due_ns, now_ns)

    def due(self, due_ns: int, now_ns: int) -> int:
        raise NotImplementedError

    def partly(self, due_ns: int, now_ns: int, size: int) -> None:
        raise NotImplementedError

    def failed(self, due_ns: int, now_ns: int, error: int) -> None:
        raise NotImplementedError

    def left(self, count: int, ns: int, hardware: int) -> None:
        raise NotImplementedError

    def answered(self, data: bytes, size: int, rx_ns: int, hardware: int, now_ns: int) -> None:
        raise NotImplementedError

    def ready(self, events: int) -> None:
        raise NotImplementedError

    def strange(self, size: int, what: str) -> None:
        """Count an invalid answer; report each kind of fault once."""
        self.exchanges.counts.stray += 1
        if what not in self._strange:
            self._strange.add(what)
            self._report(f"{self.target.name}: invalid answers: {what} (this one has {size:,} bytes)")

    def trouble(self, number: int) -> None:
        """Report an errno, once per path."""
        if number and number not in self._reported:
            self._reported.add(number)
            self._report(f"{self.target.name}: {TROUBLE.get(number) or os.strerror(number)}")


class DatagramPath(ProbePath):
    """A connected datagram socket. The subclass defines the content of a datagram."""

    def __init__(
        self,
        target: ProbeTarget,
        pacer: Pacer,
        report: Report,
        sock: socket.socket,
        shape: Shape,
        flags: int,
        hardware: bool,
    ) -> None:
        super().__init__(target, pacer, report, shape, hardware)
        self._sock = sock
        self._counted_from = 0  # the probe at which the kernel's count of datagrams begins
        sock.setblocking(False)
        deepen(sock)
        try:
            sock.connect(target.address)
        except OSError as error:
            sock.close()
            raise MburstError(f"{target.name}: {TROUBLE.get(error.errno or 0) or error.strerror}") from error
        timestamping.enable(sock, hardware=hardware)
        pacer.watch(self.index, sock, TAKES | SENDS | flags)

    def close(self) -> None:
        self.pacer.leave(self.index, self._sock)
        self._sock.close()

    def finish(self) -> None:
        self.exchanges.counts.overflowed = dropped(self._sock)

    def failed(self, due_ns: int, now_ns: int, error: int) -> None:
        number = self.exchanges.add(due_ns, now_ns)
        self.trouble(error)
        timestamping.enable(self._sock, hardware=self.hardware)
        self._counted_from = number + 1

    def left(self, count: int, ns: int, hardware: int) -> None:
        if ns:
            self.exchanges.departed(self._counted_from + count, ns, hardware)

    def unplaced(self, number: int, size: int) -> None:
        """Count an answer whose probe no longer waits."""
        if self.exchanges.was_settled(number):
            self.exchanges.counts.late += 1
        else:
            self.strange(size, "to a probe that was not sent")


class UdpPath(DatagramPath):
    """STAMP, see stamp.py."""

    def __init__(self, target: ProbeTarget, pacer: Pacer, report: Report, options: SendOptions, error: int) -> None:
        self._answers: list[tuple[int, int]] = [(-1, -1)] * _ANSWERS  # (number of the reflector, number of the prober)
        self._remote_next = 0
        self._remote_lost = 0
        self._rounds = False  # the reflector keeps timestamps as floats
        packet = stamp.request(options.size, secrets.randbelow(65_535) + 1, error)
        shape = Shape(options.size, bytes(packet), number_at=0, number_bytes=4, time_at=4)
        sock = open_socket(target, socket.SOCK_DGRAM, 0, options)
        super().__init__(target, pacer, report, sock, shape, NTP, options.hardware)

    @property
    def source_port(self) -> int:
        return int(self._sock.getsockname()[1])

    def answered(self, data: bytes, size: int, rx_ns: int, hardware: int, now_ns: int) -> None:
        exchanges = self.exchanges
        answer = stamp.parse_reply(data[:size], now_ns)
        if answer is None:
            self.strange(size, f"shorter than the {stamp.LEAST_REPLY_BYTES} bytes of a reply of STAMP or TWAMP Light")
            return
        place = exchanges.place(answer.sender_sequence)
        if place is None:
            self.unplaced(answer.sender_sequence, size)
        elif not self._is_ours(stamp.to_ntp(exchanges.sent[place]), answer.sender_stamp, size):
            return
        else:
            exchanges.answer(place, rx_ns, hardware, now_ns, (answer.rx_ns, answer.tx_ns, self._apart(answer)))
        self._count_remote(answer)

    def _is_ours(self, sent: int, returned: int, size: int) -> bool:
        """Whether an answer has the timestamp of its probe."""
        if sent != returned and not stamp.same_stamp(sent, returned):
            self.strange(size, "its sender timestamp does not match the probe")
            return False
        if sent != returned and not self._rounds:
            self._rounds = True
            self._report(f"{self.target.name}: the reflector rounds timestamps: its resolution is 1 µs at best")
        return True

    def _apart(self, answer: stamp.Reply) -> int:
        """By how much the clocks may differ, according to both ends; 0 if one does not report it."""
        theirs = None if self.clock_error_ns is None else stamp.error_ns(answer.error)
        return (
            0 if theirs is None or self.clock_error_ns is None else min(theirs + self.clock_error_ns, stamp.LARGEST_NS)
        )

    def _count_remote(self, answer: stamp.Reply) -> None:
        """Evaluate the reflector's own numbers: when an earlier answer left, which answers are missing, restarts."""
        number = answer.sequence
        if answer.follow_up:
            earlier, left_ns = answer.follow_up
            known, ours = self._answers[earlier % _ANSWERS]
            place = self.exchanges.place(ours) if known == earlier else None
            if place is not None and 0 < self.exchanges.remote_tx[place] <= left_ns:
                self.exchanges.remote_tx[place] = left_ns
            if self.exchanges.counts.lost_back is None:
                self.exchanges.counts.lost_back = 0  # the reflector counts its answers
        if number + _ANSWERS < self._remote_next or (number == 0 and self._remote_next > 1):
            self.exchanges.counts.restarts += 1
            self._answers = [(-1, -1)] * _ANSWERS
            self._remote_next = 0
        if self._answers[number % _ANSWERS][0] == number:
            return  # the network duplicated it
        self._answers[number % _ANSWERS] = (number, answer.sender_sequence)
        self._remote_lost += number - self._remote_next if number >= self._remote_next else -1
        self._remote_next = max(self._remote_next, number + 1)
        if self.exchanges.counts.lost_back is not None:
            self.exchanges.counts.lost_back = max(0, self._remote_lost)


class IcmpPath(DatagramPath):
    """ICMP echo through the kernel's ping sockets, which need no privileges if net.ipv4.ping_group_range allows them.

    The data of a probe is its number and the time of sending, 8 bytes each, and zeros up to the size.
    """

    _HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence: RFC 792, RFC 4443
    _SEQUENCE_AT = 6
    _DATA = struct.Struct("!QQ")
    LEAST_BYTES = _DATA.size

    def __init__(self, target: ProbeTarget, pacer: Pacer, report: Report, options: SendOptions) -> None:
        six = target.family == socket.AF_INET6
        request, self._reply = (128, 129) if six else (8, 0)
        protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
        sock = open_socket(target, socket.SOCK_DGRAM, protocol, options)
        begin = self._HEADER.size
        shape = Shape(
            begin + options.size,
            self._HEADER.pack(request, 0, 0, 0, 0),
            number_at=begin,
            number_bytes=8,
            time_at=begin + 8,
            short_at=self._SEQUENCE_AT,
        )
        super().__init__(target, pacer, report, sock, shape, 0, options.hardware)

    def answered(self, data: bytes, size: int, rx_ns: int, hardware: int, now_ns: int) -> None:
        exchanges = self.exchanges
        if size < self._HEADER.size + self._DATA.size or data[0] != self._reply:
            self.strange(size, "not an echo of a probe")
            return
        number, sent_ns = self._DATA.unpack_from(data, self._HEADER.size)
        place = number - exchanges.first
        if not 0 <= place < len(exchanges.sent):
            self.unplaced(number, size)
        elif exchanges.sent[place] != sent_ns:
            self.strange(size, "its timestamp does not match the probe")
        else:
            exchanges.answer(place, rx_ns, hardware, now_ns)
