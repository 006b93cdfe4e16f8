"""All senders of a rack: one process with a socket in the namespace of each, which answers requests.

The senders take turns with one chunk each, like hosts that send at the same time. In the end it reports how many
datagrams (TCP: writes) and payload bytes each sender passed to its kernel.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

from . import role
from .namespaces import enter
from .rounds import DATAGRAM, DATAGRAM_BYTES, REQUEST, SENDER_PORT

_UDP_SEGMENT = 103
_SO_SNDBUFFORCE = 32
_SERVICE_S = 0.0005  # time of a look-up: when the first answer begins, all requests have arrived


@dataclass
class PendingAnswer:
    """What a sender still has to send. `peer` is None for a connected (TCP) socket."""

    sender: str
    sock: socket.socket
    peer: tuple[str, int] | None
    data: memoryview


@dataclass
class SentTotals:
    """What a sender has passed to its kernel."""

    units: int = 0
    payload: int = 0


@dataclass
class Senders:
    """The sockets of all senders, and their pending answers."""

    names: dict[int, str]
    sockets: dict[int, socket.socket]
    chunk_bytes: int
    poll: select.epoll = field(default_factory=select.epoll)
    under_way: deque[PendingAnswer] = field(default_factory=deque)
    blocked: dict[int, PendingAnswer] = field(default_factory=dict)
    sent: dict[str, SentTotals] = field(default_factory=dict)
    segmented: bool = True
    _key: tuple[int, int] = (0, 0)
    _payload: memoryview = field(default_factory=lambda: memoryview(b""))

    def payload(self, number: int, wanted: int) -> memoryview:
        """Returns the answer to round `number`; it is the same for all senders."""
        if self._key != (number, wanted):
            data = bytearray(wanted)
            for place, start in enumerate(range(0, wanted, DATAGRAM_BYTES)):
                DATAGRAM.pack_into(data, start, number, place)
            self._key, self._payload = (number, wanted), memoryview(data)
        return self._payload

    def accept(self, descriptor: int) -> None:
        """Accept a TCP connection to a sender's listening socket."""
        connection, _ = self.sockets[descriptor].accept()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 22)
        self.names[connection.fileno()] = self.names[descriptor]
        self.sockets[connection.fileno()] = connection
        self.poll.register(connection.fileno(), select.EPOLLIN)

    def read_request(self, descriptor: int) -> None:
        """Queue the answer to a request."""
        sock = self.sockets[descriptor]
        stream = sock.type == socket.SOCK_STREAM
        data, peer = sock.recvfrom(REQUEST.size)
        if len(data) != REQUEST.size:  # the other end has closed
            self.poll.unregister(descriptor)
            return
        answer = self.payload(*REQUEST.unpack(data))
        self.under_way.append(PendingAnswer(self.names[descriptor], sock, None if stream else peer, answer))

    def send_chunk(self) -> None:
        """Send the next chunk of the next answer."""
        answer = self.under_way.popleft()
        try:
            count = self._send(answer)
        except BlockingIOError:
            self.blocked[answer.sock.fileno()] = answer
            self.poll.modify(answer.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
            return
        tally = self.sent[answer.sender]
        tally.units += 1 if answer.peer is None else -(-count // DATAGRAM_BYTES)
        tally.payload += count
        answer.data = answer.data[count:]
        if answer.data:
            self.under_way.append(answer)

    def _send(self, answer: PendingAnswer) -> int:
        if answer.peer is None:
            return answer.sock.send(answer.data[: self.chunk_bytes])
        if self.segmented:
            try:
                return answer.sock.sendto(answer.data[: self.chunk_bytes], answer.peer)
            except OSError as error:
                if error.errno not in (errno.EIO, errno.EINVAL):
                    raise
                self.segmented = False  # before Linux 6.11, not possible on an interface without checksum offload
        return answer.sock.sendto(answer.data[:DATAGRAM_BYTES], answer.peer)

    def unblock(self, descriptor: int) -> None:
        """Resume a TCP socket that was full and has room again."""
        self.under_way.append(self.blocked.pop(descriptor))
        self.poll.modify(descriptor, select.EPOLLIN)


def open_socket(protocol: str, address: str) -> socket.socket:
    """Returns a sender's socket, in the namespace of the process."""
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, SENDER_PORT))
    sock.setblocking(False)
    if protocol == "udp":
        sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 22)
        sock.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, DATAGRAM_BYTES)
    else:
        sock.listen(8)
    return sock


def serve(senders: Senders, listening: set[int]) -> None:
    """Answer until the owner closes standard input."""
    stdin = sys.stdin.fileno()
    senders.poll.register(stdin, select.EPOLLIN | select.EPOLLHUP)
    while True:
        if not senders.under_way and not senders.blocked:
            senders.poll.poll()
            time.sleep(_SERVICE_S)
        for descriptor, events in senders.poll.poll(0 if senders.under_way else -1):
            if descriptor == stdin:
                return
            if descriptor in listening:
                senders.accept(descriptor)
                continue
            if events & select.EPOLLOUT:
                senders.unblock(descriptor)
            if events & select.EPOLLIN:
                senders.read_request(descriptor)
        for _ in range(len(senders.under_way)):
            senders.send_chunk()


def main() -> None:
    config = role.begin()
    names, sockets = {}, {}
    for sender in config["senders"]:
        enter(sender["namespace"])
        sock = open_socket(config["protocol"], sender["address"])
        names[sock.fileno()], sockets[sock.fileno()] = sender["name"], sock
    senders = Senders(names, sockets, config["chunk_datagrams"] * DATAGRAM_BYTES)
    senders.sent = {name: SentTotals() for name in names.values()}
    for descriptor in sockets:
        senders.poll.register(descriptor, select.EPOLLIN)
    listening = set(sockets) if config["protocol"] == "tcp" else set()
    os.sched_setaffinity(0, {config["cpu"]})
    role.go_real_time()
    role.ready()
    serve(senders, listening)
    role.report({name: [tally.units, tally.payload] for name, tally in senders.sent.items()})


if __name__ == "__main__":
    main()
