"""The reflector: answers STAMP and TWAMP Light senders, and echoes TCP, optionally after a delay.

It keeps a little state for each sender's session (RFC 8762, section 4: stateful mode): a number for each answer, so
that losses of the two directions can be separated, and the time at which the last answer really left, which it reports
in the next answer to senders that ask for it (RFC 8972, section 4.7). After a restart numbers begin at 0, which senders
handle.

UDP source addresses can be forged, and a server that answers anything can be made to answer another server. So
datagrams that look like answers or come from ports of services are ignored, and the number of answers is limited, for
each peer and in total.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ...process import alive
from ...process.binding import cannot_bind
from ...units import NS_PER_S
from . import stamp, timestamping
from .admission import CONNECTIONS, Admission
from .clock import Clocks
from .delays import Delay
from .echo import Echo
from .loop import ERROR, READ, Loop, deepen, dropped, listening, wake_promptly

_IP_PKTINFO, _IP_RECVTTL, _IP_RECVTOS = 8, 12, 13
_IPV6_RECVPKTINFO, _IPV6_RECVHOPLIMIT, _IPV6_RECVTCLASS = 49, 51, 66
_IP_TOS, _IP_TTL = 1, 2
_IPV6_PKTINFO, _IPV6_HOPLIMIT, _IPV6_TCLASS = 50, 52, 67
_NUMBERS = 4096  # answers whose departure may still be unknown
_MOST_SESSIONS = 65_536
_SPIN_NS = 150_000  # a wait ends about this late, so the rest of a wait is spent spinning
_CLOCK_EVERY_NS = NS_PER_S
_SERVICE_PORTS = 1024  # below, system ports (RFC 6335) of services that answer: echo, chargen, DNS, NTP, reflectors
_SILENCE_NS = 30 * NS_PER_S  # after which a sender that does not continue its numbers has begun a new session
_MOST_HELD, _MOST_HELD_BYTES = 65_536, 64 << 20  # answers that wait for their time
_AT_ONCE = 256  # waiting answers that are sent before new datagrams are received

Control = list[tuple[int, int, bytes]]


class SenderSession:
    """The state of a sender's session: the newest number and timestamp of its packets, as they came."""

    __slots__ = ("answers", "heard_ns", "left", "sequence", "stamp")

    def __init__(self, sequence: int, stamp_: int, now_ns: int) -> None:
        self.answers = 0
        self.left: tuple[int, int] | None = None  # number of an answer, and when it left
        self.sequence, self.stamp, self.heard_ns = sequence, stamp_, now_ns

    def goes_on(self, sequence: int, stamp_: int, now_ns: int) -> bool:
        """Whether a packet belongs to this session, and is not the first packet of another one from the same port: a
        restarted sender begins at 0, later than before (a duplicated or delayed packet 0 is not later), or after a
        silence."""
        if sequence == 0 and (stamp_ > self.stamp or not stamp_):
            return False
        if now_ns - self.heard_ns > _SILENCE_NS and sequence != self.sequence + 1:
            return False
        self.sequence, self.stamp, self.heard_ns = sequence, max(stamp_, self.stamp), now_ns
        return True


class DelayedActions:
    """Actions that wait for their time, in order of time."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, int, Callable[[], None]]] = []
        self._count = 0
        self._bytes = 0

    def add(self, due_ns: int, action: Callable[[], None], size: int = 0) -> None:
        """Delay an action that keeps SIZE bytes in memory."""
        self._count += 1
        self._bytes += size
        heappush(self._waiting, (due_ns, self._count, size, action))

    @property
    def full(self) -> bool:
        return len(self._waiting) >= _MOST_HELD or self._bytes >= _MOST_HELD_BYTES

    def release(self) -> int | None:
        """Run the actions that are due, to the microsecond, or some of them. Returns the time of the next one
        (CLOCK_MONOTONIC), if there is one."""
        for _ in range(_AT_ONCE):
            if not self._waiting:
                return None
            due_ns = self._waiting[0][0]
            if due_ns - time.monotonic_ns() > _SPIN_NS:
                return due_ns - _SPIN_NS
            while time.monotonic_ns() < due_ns:
                pass
            _, _, size, action = heappop(self._waiting)
            self._bytes -= size
            action()
        return time.monotonic_ns()


class Reflector:
    """Answers on each of `addresses`, UDP and TCP. Raises MburstError if it cannot listen.

    `delay` delays each answer as a queue on the way back would: its stamp of departure is that much before it really
    leaves, to the microsecond even if it leaves late. `hardware`: see timestamping.enable. `admission` decides who is
    answered, and how often. `least_bytes` is the minimum size of a datagram that is answered. `connections` is the
    maximum number of TCP connections on each address.

    answered, ignored, limited, overfull: the number of datagrams that were answered; that are not requests, or come
    from networks that may not ask; that exceed the rate limits; and that exceed the number of answers that can be
    delayed.
    """

    def __init__(
        self,
        addresses: list[tuple[str, int]],
        delay: Delay | None = None,
        *,
        hardware: bool = False,
        admission: Admission | None = None,
        least_bytes: int = stamp.LEAST_SENDER_BYTES,
        connections: int = CONNECTIONS,
    ) -> None:
        self.answered = self.ignored = self.limited = self.overfull = 0
        self.admission = admission or Admission()
        self.least_bytes = least_bytes
        self._loop = Loop()
        self._held = DelayedActions()
        self._clocks = Clocks()
        self._next_reading_ns = 0
        self._stopping = False
        self.error = 1
        try:
            self._ports = [UdpPort(self, self._loop, address, delay, hardware) for address in addresses]
            self._echoes = [
                Echo(self._loop, self._held.add, address, delay, self.admission.allows, connections)
                for address in addresses
            ]
        except OSError as error:
            where = f"cannot listen on {error.filename}"
            raise cannot_bind(where, error, "--listen takes another address or port") from error

    def hold(self, due_ns: int, action: Callable[[], None], size: int) -> None:
        """Delay an answer of SIZE bytes until a time of CLOCK_MONOTONIC, unless too many are waiting already."""
        if self._held.full:
            self.overfull += 1
        else:
            self._held.add(due_ns, action, size)

    @property
    def echoed(self) -> int:
        """The number of bytes that TCP connections were sent back."""
        return sum(echo.echoed for echo in self._echoes)

    @property
    def dropped(self) -> int:
        """The number of probes that came when the receive buffer was full: to their senders, losses."""
        return sum(port.dropped for port in self._ports)

    @property
    def sessions(self) -> int:
        """The number of senders' sessions that are remembered."""
        return sum(len(port.sessions) for port in self._ports)

    def stop(self) -> None:
        """End `serve` soon. A signal handler may call this."""
        self._stopping = True

    def serve(self, until_ns: int | None = None) -> None:
        """Answer until stopped, or until a time of CLOCK_MONOTONIC."""
        wake_promptly()
        while not self._stopping:
            alive.beat()
            now = time.monotonic_ns()
            if until_ns is not None and now >= until_ns:
                return
            if now >= self._next_reading_ns:
                reading = self._clocks.read()
                self.error = stamp.error_estimate(reading.max_error_ns, reading.synchronized)
                self._next_reading_ns = now + _CLOCK_EVERY_NS
                for echo in self._echoes:
                    echo.look_after(now)
            self._loop.wait(self._held.release())

    def close(self) -> None:
        for port in self._ports:
            port.close()
        for echo in self._echoes:
            echo.close()
        self._clocks.close()
        self._loop.close()


class UdpPort:
    """One UDP socket of the reflector."""

    def __init__(
        self, reflector: Reflector, loop: Loop, address: tuple[str, int], delay: Delay | None, hardware: bool
    ) -> None:
        self.sessions: dict[tuple[Any, ...], SenderSession] = {}
        self._reflector = reflector
        self._delay = delay
        self._hardware = hardware
        self._number = 0
        self._outgoing: list[tuple[int, SenderSession, int] | None] = [None] * _NUMBERS
        self._ways: dict[tuple[tuple[int, int, bytes], ...], tuple[int, Control]] = {}
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._sock = listening(address, socket.SOCK_DGRAM)
        self._own_ports = {self._sock.getsockname()[1]}
        self._six = self._sock.family == socket.AF_INET6
        deepen(self._sock)
        level, options = (
            (socket.IPPROTO_IPV6, (_IPV6_RECVPKTINFO, _IPV6_RECVHOPLIMIT, _IPV6_RECVTCLASS))
            if self._six
            else (socket.SOL_IP, (_IP_PKTINFO, _IP_RECVTTL, _IP_RECVTOS))
        )
        for option in options:
            self._sock.setsockopt(level, option, 1)
        timestamping.enable(self._sock, hardware=hardware)
        loop.add(self._sock, self._ready)
        self._loop = loop

    @property
    def dropped(self) -> int:
        """The number of datagrams that found the receive buffer full."""
        return dropped(self._sock)

    def close(self) -> None:
        self._loop.remove(self._sock)
        self._sock.close()

    def _ready(self, events: int) -> None:
        if events & ERROR and not self._learn_departure():
            self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # clears an error that is not in the queue
        if events & READ:
            try:
                size, control, _, peer = self._sock.recvmsg_into([self._buffer], timestamping.CONTROL_BYTES)
            except OSError:  # a network error about an answer
                return
            self._answer(size, control, peer)

    def _answer(self, size: int, control: Control, peer: tuple[Any, ...]) -> None:
        now_ns = time.monotonic_ns()
        if not self._is_request(size, peer, now_ns):
            return
        rx_ns, ttl, way = self._received(control)
        data = self._view[:size].tobytes()
        session = self._session(peer, data, now_ns)
        packet = stamp.reply(data, session.answers, rx_ns or time.time_ns(), ttl, self._reflector.error)
        if session.left and not self._delay and stamp.wants_follow_up(data):
            stamp.add_follow_up(packet, *session.left)
        number = session.answers
        session.answers = number + 1
        held_ns = self._delay() if self._delay else 0
        if held_ns:
            self._reflector.hold(
                time.monotonic_ns() + held_ns,
                lambda: self._send(packet, way, peer, session, number, held_ns),
                len(packet),
            )
        else:
            self._send(packet, way, peer, session, number, 0)

    def _is_request(self, size: int, peer: tuple[Any, ...], now_ns: int) -> bool:
        """Whether the datagram in the buffer is to be answered; if not, it is counted."""
        reflector = self._reflector
        if (
            size < reflector.least_bytes
            or peer[1] < _SERVICE_PORTS
            or peer[1] in self._own_ports
            or stamp.looks_like_reply(self._view[:size], time.time_ns())
        ):
            reflector.ignored += 1
            return False
        taken = reflector.admission.take(peer[0], now_ns)
        if taken is None:
            reflector.ignored += 1
        elif not taken:
            reflector.limited += 1
        return bool(taken)

    def _received(self, control: Control) -> tuple[int, int, Control]:
        """Returns when a datagram came, its TTL, and the control messages that send the answer back the way it came.
        All but the stamp are the same for each datagram of a session."""
        rx_ns = 0
        if control and control[0][1] == timestamping.SO_TIMESTAMPING:  # Linux puts it before the messages of IP
            rx_ns, _ = timestamping.stamp_of(control.pop(0)[2])
        key = tuple(control)
        known = self._ways.get(key)
        if known is None:
            if len(self._ways) >= _NUMBERS:
                self._ways.clear()
            known = self._ways[key] = _way_back(control)
        return rx_ns, *known

    def _session(self, peer: tuple[Any, ...], data: bytes, now_ns: int) -> SenderSession:
        key = (*peer[:2], data[14:16] if len(data) >= stamp.BASE_BYTES else b"")
        sequence, sent = stamp.NUMBER_AND_TIME.unpack_from(data)
        session = self.sessions.get(key)
        if session is None or not session.goes_on(sequence, sent, now_ns):
            if len(self.sessions) >= _MOST_SESSIONS:
                self._forget_sessions()
            session = self.sessions[key] = SenderSession(sequence, sent, now_ns)
        return session

    def _forget_sessions(self) -> None:
        """Forget half of the sessions, those with the fewest answers: each forged address has one session."""
        fewest = sorted(self.sessions, key=lambda key: self.sessions[key].answers)
        for key in fewest[: _MOST_SESSIONS // 2]:
            del self.sessions[key]

    def _send(
        self, packet: bytearray, way: Control, peer: tuple[Any, ...], session: SenderSession, number: int, held_ns: int
    ) -> None:
        self._outgoing[self._number % _NUMBERS] = (self._number, session, number)
        stamp.stamp_reply(packet, time.time_ns() - held_ns)
        try:
            self._sock.sendmsg([packet], way, 0, peer)
        except OSError:  # a full queue or an unreachable sender: to the sender, a loss
            timestamping.enable(self._sock, hardware=self._hardware)
            self._number = 0
            return
        self._number += 1
        self._reflector.answered += 1
        self._learn_departure()

    def _learn_departure(self) -> bool:
        """Read the next stamp of the error queue. Returns False if it is empty."""
        departed = timestamping.event(self._sock)
        if isinstance(departed, timestamping.SendStamp) and departed.ns:
            entry = self._outgoing[departed.number % _NUMBERS]
            if entry and entry[0] == departed.number:
                entry[1].left = entry[2], departed.ns
        return departed is not None


def _way_back(control: Control) -> tuple[int, Control]:
    """The TTL of a datagram, and control messages that send from the address at which it arrived, in its traffic
    class."""
    ttl, own, tos = 255, b"", 0
    for _, kind, data in control:
        if kind in (_IP_PKTINFO, _IPV6_PKTINFO):
            own = data
        elif kind in (_IP_TTL, _IPV6_HOPLIMIT):
            ttl = int.from_bytes(data, sys.byteorder)
        elif kind in (_IP_TOS, _IPV6_TCLASS):
            tos = int.from_bytes(data, sys.byteorder) & 0xFC  # the traffic class, without ECN
    six = len(own) == 20
    back: Control = []
    if six:  # struct in6_pktinfo: address, interface, which a link-local address needs
        back.append((socket.IPPROTO_IPV6, _IPV6_PKTINFO, own if own[:2] == b"\xfe\x80" else own[:16] + bytes(4)))
    elif own:  # struct in_pktinfo: interface, local address, destination of the header
        back.append((socket.SOL_IP, _IP_PKTINFO, bytes(4) + own[4:8] + bytes(4)))
    if tos:
        level, kind = (socket.IPPROTO_IPV6, _IPV6_TCLASS) if six else (socket.SOL_IP, _IP_TOS)
        back.append((level, kind, struct.pack("@i", tos)))
    return ttl, back
