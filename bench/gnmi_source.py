# SPDX-License-Identifier: Apache-2.0
"""A gNMI server that sends prepared notifications as fast as they are accepted: for bench_gnmi.py.

The notifications have 64 ports of 8 queues, ten leaves of each queue's state. After the last one, the stream stays
open. Prints "ready PATH" when it listens, and "sent" when a client has everything. It implements just enough HTTP/2
(RFC 9113) for one client of grpcio, which requests the capabilities on its first stream and subscribes on its second: a
server based on a gRPC library would cost more than the collector that is measured.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from mburst.telemetry.gnmi import messages
from mburst.telemetry.gnmi.path import as_message, parse

PORTS, QUEUES = 64, 8
LEAVES = (
    "max-queue-len",
    "avg-queue-len",
    "transmit-octets",
    "transmit-pkts",
    "dropped-octets",
    "dropped-pkts",
    "ecn-marked-octets",
    "ecn-marked-pkts",
    "watermark-pkts",
    "tail-dropped-pkts",
)


def made(updates: int, a_message: int) -> list[bytes]:
    """Returns the updates in serialized messages of `a_message` updates each; the timestamps rise."""
    keys = [(port, queue) for port in range(PORTS) for queue in range(QUEUES)]
    base = "/qos/interfaces/interface[interface-id=Ethernet{}]/output/queues/queue[name={}]/state/{}"
    paths = {
        (port, queue, leaf): as_message(parse(base.format(port, queue, leaf)))
        for port, queue in keys
        for leaf in LEAVES
    }
    now_ns, found = time.time_ns(), []
    for number in range(updates // a_message):
        first = number * a_message
        round_, place = divmod(first // len(LEAVES), len(keys))
        port, queue = keys[place]
        leaves = [LEAVES[(first + i) % len(LEAVES)] for i in range(a_message)]
        notification = messages.Notification(
            timestamp=now_ns + round_ * 10**9 // 10 + place,
            update=[
                messages.Update(path=paths[port, queue, leaf], val=messages.TypedValue(uint_val=number * 7 + i))
                for i, leaf in enumerate(leaves)
            ],
        )
        found.append(messages.SubscribeResponse(update=notification).SerializeToString())
    return found


FRAME = struct.Struct(">BHBBI")  # length (24 bits), type, flags, stream
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW = 4  # of SETTINGS
CHUNK = 16_384
PREFACE = 24  # bytes at the start of a client's connection


def literal(name: str, value: str) -> bytes:
    """Returns a header in HPACK, not indexed (RFC 7541 section 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


BEGIN = b"\x88" + literal("content-type", "application/grpc")  # :status 200
UNIMPLEMENTED = BEGIN + literal("grpc-status", "12")


class Connection:
    """The connection of one client."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.window = self.stream_window = 65_535  # bytes that the client accepts on the connection, and on its stream
        self.initial = 65_535
        self.subscribed = 0  # the stream of the subscription
        self._read(PREFACE)
        self.send(SETTINGS, 0, 0)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        """Writes a frame."""
        self.sock.sendall(FRAME.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload)

    def take(self) -> None:
        """Reads a frame, and acts on it."""
        high, low, kind, flags, stream = FRAME.unpack(self._read(FRAME.size))
        payload = self._read(high << 16 | low)
        if kind == SETTINGS and not flags & ACK:
            settings = dict(struct.iter_unpack(">HI", payload))
            changed = settings.get(INITIAL_WINDOW, self.initial) - self.initial
            self.initial, self.stream_window = self.initial + changed, self.stream_window + changed
            self.send(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.send(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload) & 0x7FFFFFFF
            if not stream:
                self.window += more
            elif stream == self.subscribed:
                self.stream_window += more
        elif kind == HEADERS and stream == 1:
            self.send(HEADERS, END_HEADERS | END_STREAM, stream, UNIMPLEMENTED)
        elif kind == HEADERS:
            self.subscribed, self.stream_window = stream, self.initial
            self.send(HEADERS, END_HEADERS, stream, BEGIN)

    def stream(self, data: bytes) -> None:
        """Sends DATA on the subscribed stream, as the client's windows allow."""
        sent = 0
        while sent < len(data):
            size = min(CHUNK, len(data) - sent, self.window, self.stream_window)
            if size <= 0:
                self.take()
                continue
            self.send(DATA, 0, self.subscribed, data[sent : sent + size])
            sent += size
            self.window -= size
            self.stream_window -= size


def framed(message: bytes) -> bytes:
    """Returns a message as in gRPC's DATA: not compressed, preceded by its length."""
    return b"\0" + len(message).to_bytes(4) + message


def serve(path: str, stream: bytes) -> None:
    """Sends the stream to each client that subscribes."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        print(f"ready {path}", flush=True)
        while True:
            with listening.accept()[0] as sock:
                try:
                    connection = Connection(sock)
                    while not connection.subscribed:
                        connection.take()
                    connection.stream(stream)
                    print("sent", flush=True)
                    while True:
                        connection.take()
                except (EOFError, OSError):
                    pass


def main() -> None:
    path, updates, a_message = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sync = messages.SubscribeResponse(sync_response=True).SerializeToString()
    serve(path, b"".join(framed(message) for message in [*made(updates, a_message), sync]))


if __name__ == "__main__":
    main()
