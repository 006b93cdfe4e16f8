"""The cache server: asks all senders at once, gathers their answers, and writes the truth of every round."""

from __future__ import annotations

import csv
import os
import random
import select
import socket
import struct
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from . import role
from .namespaces import enter
from .rounds import COLUMNS, DATAGRAM, DATAGRAM_BYTES, REQUEST, SENDER_PORT, Round

_SO_TIMESTAMPNS = 35  # also the kind of its control message
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER = 1 << 25
_ETH_P_IP = 0x0800
_HEADERS_BYTES = 40  # IPv4 and TCP without options
_TIMESPEC = struct.Struct("@ll")
_CONTROL_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)


@dataclass
class RoundTally:
    """The part of a round that has arrived."""

    received: Counter[str] = field(default_factory=Counter)
    datagrams: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def stamp(self, control: list[tuple[int, int, bytes]]) -> None:
        """Note the kernel's arrival timestamp of a packet of the round."""
        for level, kind, value in control:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(value)
                stamp = seconds * 1_000_000_000 + nanoseconds
                self.first_ns = min(self.first_ns or stamp, stamp)
                self.last_ns = max(self.last_ns, stamp)


class Gatherer(Protocol):
    """One transport's way of asking the senders and reading their answers."""

    def ask(self, order: list[str], number: int, wanted: int) -> None:
        """Send the request of round `number` for `wanted` bytes to the senders, in that order."""

    def collect(self, tally: RoundTally, number: int) -> None:
        """Wait for about a millisecond, and add what has arrived of the round."""


def _stamped(sock: socket.socket) -> socket.socket:
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    return sock


class UdpGatherer:
    """One socket for all senders. Its buffer holds several rounds, and the kernel adds timestamps, so late reading
    distorts nothing."""

    def __init__(self, senders: dict[str, str]) -> None:
        self._names = {address: name for name, address in senders.items()}
        self._addresses = senders
        self._sock = _stamped(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._sock.setblocking(False)
        self._head = bytearray(DATAGRAM.size)

    def ask(self, order: list[str], number: int, wanted: int) -> None:
        request = REQUEST.pack(number, wanted)
        for name in order:
            self._sock.sendto(request, (self._addresses[name], SENDER_PORT))

    def collect(self, tally: RoundTally, number: int) -> None:
        time.sleep(0.001)
        while True:
            try:
                size, control, _, peer = self._sock.recvmsg_into([self._head], _CONTROL_SPACE, socket.MSG_TRUNC)
            except BlockingIOError:
                return
            if DATAGRAM.unpack(self._head)[0] == number:  # else it is a late datagram of a round that timed out
                tally.datagrams += 1
                tally.received[self._names[peer[0]]] += size
                tally.stamp(control)


class TcpGatherer:
    """A permanent connection to each sender. A read has only the timestamp of its last segment, so the times come from
    a tap."""

    def __init__(self, senders: dict[str, str]) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._names: dict[int, str] = {}
        self._poll = select.epoll()
        for name, address in senders.items():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(5)
            sock.connect((address, SENDER_PORT))
            sock.setblocking(False)
            self._sockets[name], self._names[sock.fileno()] = sock, name
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._tap = _stamped(socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)))
        self._tap.bind(("eth0", _ETH_P_IP))
        self._tap.setblocking(False)
        self._head = bytearray(_HEADERS_BYTES)

    def ask(self, order: list[str], number: int, wanted: int) -> None:
        request = REQUEST.pack(number, wanted)
        for name in order:
            self._sockets[name].send(request)

    def collect(self, tally: RoundTally, number: int) -> None:
        for descriptor, _ in self._poll.poll(0.001):
            name = self._names[descriptor]
            data = self._sockets[name].recv(1 << 18)
            if not data:
                raise SystemExit(f"sender {name} closed its connection in round {number}")
            tally.received[name] += len(data)
        self._read_tap(tally)

    def _read_tap(self, tally: RoundTally) -> None:
        while True:
            try:
                _, control, _, peer = self._tap.recvmsg_into([self._head], _CONTROL_SPACE, socket.MSG_TRUNC)
            except BlockingIOError:
                return
            from_sender = peer[2] != socket.PACKET_OUTGOING and self._head[9] == socket.IPPROTO_TCP
            if from_sender and int.from_bytes(self._head[2:4]) > 20 + (self._head[32] >> 4) * 4:  # it has a payload
                tally.stamp(control)


def run_round(gatherer: Gatherer, config: dict[str, Any], number: int, rng: random.Random) -> Round:
    """Ask all senders, in random order, and wait for the last byte, or until `timeout_s` has passed."""
    senders, wanted, udp = list(config["addresses"]), config["bytes_per_sender"], config["protocol"] == "udp"
    rng.shuffle(senders)
    tally = RoundTally()
    deadline = time.monotonic() + config["timeout_s"]
    asked_ns = time.time_ns()
    gatherer.ask(senders, number, wanted)
    expected = wanted * len(senders)
    while tally.received.total() < expected and time.monotonic() < deadline:
        gatherer.collect(tally, number)
    return Round(
        round=number,
        proto=config["protocol"],
        n_senders=len(senders),
        bytes_per_sender=wanted,
        t_req_ns=asked_ns,
        t_first_ns=tally.first_ns,
        t_last_ns=tally.last_ns,
        bytes_expected=expected,
        bytes_rx=tally.received.total(),
        senders_seen=len(tally.received),
        senders_complete=sum(count == wanted for count in tally.received.values()),
        dgrams_rx=tally.datagrams,
        dgrams_expected=len(senders) * -(-wanted // DATAGRAM_BYTES) if udp else 0,
        timed_out=int(tally.received.total() < expected),
    )


def main() -> None:
    config = role.begin()
    enter(config["namespace"])
    gatherer = (UdpGatherer if config["protocol"] == "udp" else TcpGatherer)(config["addresses"])
    rng = random.Random(config["seed"])
    low_s, high_s = config["gap_s"]
    with open(config["truth"] or os.devnull, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        role.ready()
        for number in range(1, config["rounds"] + 1):
            begin = time.monotonic()
            if role.stop_requested():
                return
            row = asdict(run_round(gatherer, config, number, rng))
            writer.writerow(row)
            file.flush()
            role.report(row)
            role.stop_requested(max(0.0, rng.uniform(low_s, high_s) - (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
