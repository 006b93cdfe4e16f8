"""The sender of canary bursts: UDP packets of known size at known times, which a recorder elsewhere should detect.

A packet begins with MARK: a magic, the run's id, the number of the burst, the place of the packet in it and how many
packets it has. The kernel stamps the departures of the first and the last packet of a burst
(Documentation/networking/timestamping.rst: a control message asks for a stamp of that packet alone), or otherwise this
process does.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

from ...errors import MburstError
from ...ethernet import on_wire
from ...sent_burst import SentBurst
from ..probe.targets import ProbeTarget
from ..probe.timestamping import SO_TIMESTAMPING, SendStamp, event
from .plan import MOST_TRIES, BurstShape, CanaryPlan, Pace, length_at_least

PORT = 9  # discard (RFC 863)
MAGIC = b"mbcanary"
MARK = struct.Struct(">8s8sIII4x")  # magic, run, number of the burst, number of the packet, packets, 0
_TX_SOFTWARE, _SOFTWARE, _OPT_ID, _OPT_CMSG, _OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 10, 1 << 11
_SOL_UDP, _UDP_SEGMENT = 17, 103
_IP_MTU, _IPV6_MTU = 14, 24
_CALL_NS = 10_000  # of link time that a call should cover: more segments per call on faster links
_MOST_SEGMENTS, _MOST_BYTES = 64, 65_000
_STAMP_S = 0.05  # to wait for a stamp of departure
_EARLY_NS = 300_000  # before a burst begins, during which this process does not sleep
_HELD_UP = 0.1, 100_000  # of its length, and ns: a burst that is late by more is not the one that was asked for
_SEND_S = 1.0  # timeout of one call
_ASK = [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("@I", _TX_SOFTWARE))]


def wire_bytes(burst: SentBurst) -> int:
    """What a burst uses of the link."""
    return on_wire(burst.bytes, burst.packets)


class Sender:
    """A socket for canary bursts to one host. Raises MburstError if the host cannot be reached."""

    def __init__(self, target: ProbeTarget, run: bytes) -> None:
        self.target, self._run = target, run
        self._socket = socket.socket(target.family, socket.SOCK_DGRAM)
        try:
            self.source, self.mtu = _way_to(target)
            self._socket.settimeout(_SEND_S)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            self._stamped = _stamps_on(self._socket)
        except OSError as error:
            self._socket.close()
            raise MburstError(f"{target.name}: {error.strerror}") from error
        self._numbers = [0, 0]  # of stamps: the first of this burst, and the next to ask for
        self._segments = True
        self._apart_ns = time.time_ns() - time.monotonic_ns()

    def close(self) -> None:
        self._socket.close()

    def send(self, number: int, cell: BurstShape, plan: CanaryPlan, stop: threading.Event, start: int = 0) -> SentBurst:
        """Send a burst at START of the monotonic clock, and wait for its stamps. Raises MburstError if it cannot be
        sent."""
        lengths = plan.frames.split(cell.size_bytes)
        calls = self._calls(number, lengths, plan, cell)
        each = cell.length_ns / len(calls)
        while (now := time.monotonic_ns()) < start:
            if stop.wait(max(0, start - now - _EARLY_NS) / 1e9):
                break
        sent, times, behind = self._send_all(calls, each, stop)
        if not sent:
            now = time.time_ns()
            return SentBurst(number, cell.size_bytes, cell.length_ns, now, now, 0, "app", 0, 0, True)
        first, last, error, stamps = self._when(times)
        packets = sum(len(call) for call in calls[:sent])
        meant = max(length_at_least(plan, cell) - each, 0)
        late = max(last - first - meant, behind) > meant * _HELD_UP[0] + _HELD_UP[1]
        return SentBurst(
            number,
            cell.size_bytes,
            cell.length_ns,
            first,
            last,
            error,
            stamps,
            packets,
            sum(lengths[:packets]),
            late or sent < len(calls),
        )

    def _calls(self, number: int, lengths: list[int], plan: CanaryPlan, cell: BurstShape) -> list[list[bytes]]:
        """The payloads of each call: several packets of one length if one takes less time than a call should. The last
        packet is sent alone, since of packets that are sent together only the first is stamped."""
        wire = on_wire(sum(lengths), len(lengths))
        worth = wire * _CALL_NS / cell.length_ns if cell.length_ns else plan.link_bps * _CALL_NS / 8e9
        together = max(1, min(round(worth / lengths[0]), _MOST_SEGMENTS, _MOST_BYTES // lengths[0]))
        together = together if self._segments else 1
        payloads = [
            self._payload(number, i, len(lengths), length - plan.frames.headers) for i, length in enumerate(lengths)
        ]
        body = payloads[:-1]
        return [*(body[i : i + together] for i in range(0, len(body), together)), payloads[-1:]]

    def _payload(self, number: int, place: int, packets: int, length: int) -> bytes:
        return MARK.pack(MAGIC, self._run, number, place, packets).ljust(length, b"\0")

    def _send_all(self, calls: list[list[bytes]], each: float, stop: threading.Event) -> tuple[int, list[int], float]:
        """Returns how many calls were made; the times (Unix ns) before and after the first, and before and after the
        last; and the maximum delay (ns) of a call of a spread burst."""
        times, last, behind, begun = [0, 0, 0, 0], len(calls) - 1, 0.0, time.monotonic_ns()
        for i, payloads in enumerate(calls):
            while each and (early := begun + i * each - time.monotonic_ns()) > 0:
                pass
            behind = max(behind, -early) if each else 0.0
            if stop.is_set():
                return i, times, behind
            before = time.time_ns()
            self._send(payloads, i in (0, last))
            times[2:] = before, time.time_ns()
            if i == 0:
                times[:2] = times[2:]
        return len(calls), times, behind

    def _send(self, payloads: list[bytes], stamped: bool) -> None:
        control = list(_ASK) if stamped and self._stamped else []
        if len(payloads) > 1:
            control.append((_SOL_UDP, _UDP_SEGMENT, struct.pack("@H", len(payloads[0]))))
        try:
            self._socket.sendmsg(payloads, control, 0, self.target.address)
        except TimeoutError:
            raise MburstError(f"{self.target.name}: the interface accepts no packets") from None
        except OSError as error:
            if len(payloads) == 1:
                raise MburstError(f"{self.target.name}: {error.strerror}") from error
            self._segments = False  # this kernel or interface does not support it: send packets one by one
            for i, payload in enumerate(payloads):
                self._send([payload], stamped and i == 0)
            return
        self._numbers[1] += bool(stamped and self._stamped)

    def _when(self, times: list[int]) -> tuple[int, int, int, str]:
        """Returns the first and last departure, their error bound, and what stamped them. A single packet is also the
        last."""
        found = self._departures()
        apart = time.time_ns() - time.monotonic_ns() - self._apart_ns  # by how much somebody has set the clock since
        if found:
            return min(found) - apart, max(found) - apart, 1_000, "sw"
        error = max(times[1] - times[0], times[3] - times[2])
        return times[0] - apart, times[3] - apart, error, "app"

    def _departures(self) -> list[int]:
        """The stamps of the first and the last packet of the burst that was just sent; none unless both came."""
        wanted, until = set(range(*self._numbers)), time.monotonic() + _STAMP_S
        found: dict[int, int] = {}
        self._numbers[0] = self._numbers[1]
        while len(found) < len(wanted) and time.monotonic() < until:
            departure = event(self._socket)
            if isinstance(departure, SendStamp) and departure.ns and departure.number in wanted:
                found[departure.number] = departure.ns
            elif departure is None:
                time.sleep(0.0002)
        if len(found) < len(wanted):
            self._numbers, self._stamped = [0, 0], _stamps_on(self._socket)
            return []
        return list(found.values())


def _stamps_on(sock: socket.socket) -> bool:
    """Have the kernel stamp packets that ask for it, numbered from 0. Returns whether it can."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, _SOFTWARE | _OPT_ID | _OPT_CMSG | _OPT_TSONLY)
    except OSError:
        return False
    return True


def _way_to(target: ProbeTarget) -> tuple[str, int]:
    """The source address of packets to the target, and the MTU of the path as far as this host knows it."""
    with socket.socket(target.family, socket.SOCK_DGRAM) as probe:
        probe.connect(target.address)
        level, option = (
            (socket.IPPROTO_IPV6, _IPV6_MTU) if target.family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_MTU)
        )
        return str(probe.getsockname()[0]).partition("%")[0], probe.getsockopt(level, option)


def bursts(
    sender: Sender,
    plan: CanaryPlan,
    rng: random.Random,
    stop: threading.Event,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[SentBurst]:
    """Send the plan, in random order, until STOP is set. A burst during which this host was held up is sent again, at
    the end and as long as there are tries left. PROGRESS is called with the number of bursts that are done, and of all.
    Raises MburstError."""
    pace, number = Pace(plan, rng), 0
    waiting = [cell for cell in plan.cells for _ in range(plan.count)]
    rng.shuffle(waiting)
    while waiting and number < MOST_TRIES * plan.bursts and not stop.is_set():
        cell = waiting.pop()
        number += 1
        start = pace.next_ns(plan.frames.wire_bytes(cell.size_bytes))
        burst = sender.send(number, cell, plan, stop, start)
        pace.sent(time.monotonic_ns(), wire_bytes(burst))
        if burst.held_up:
            waiting.insert(0, cell)
        if burst.packets:
            yield burst
        progress(min(number, plan.bursts), plan.bursts)
