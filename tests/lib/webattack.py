"""Attacks of a hostile client of the web servers, and the response times of an honest client during them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bounded import next_line

PATIENCE_S = 30.0


class Verb:
    """`mburst VERB STORE` at its own port, with at most DESCRIPTORS files."""

    def __init__(self, verb: str, store: Path, *options: str, descriptors: int = 1024) -> None:
        self.process = subprocess.Popen(
            [
                "prlimit",
                f"--nofile={descriptors}",
                sys.executable,
                "-m",
                "mburst",
                verb,
                str(store),
                "--listen",
                "127.0.0.1:0",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = next_line(self.process).strip().rsplit(": ", 1)[1]
        self.port = int(self.url.split("//")[1].split("/")[0].rsplit(":", 1)[1])

    def ask(self, path: str = "/", **headers: str) -> tuple[int, bytes]:
        """Returns status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def say(self, request: bytes) -> bytes:
        """Returns the beginning of the server's response to these bytes; b'' if it closes the connection."""
        with self.open() as connection, contextlib.suppress(OSError):
            connection.sendall(request)
            return connection.recv(65536)
        return b""

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident(self) -> int:
        """Returns the resident memory in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> tuple[int, str]:
        """Ends it by SIGTERM. Returns its exit code and its standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, error


@contextlib.contextmanager
def serving(verb: str, store: Path, *options: str, **more: int) -> Iterator[Verb]:
    made = Verb(verb, store, *options, **more)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.stop()


@contextlib.contextmanager
def held(server: Verb, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Yields COUNT connections that have sent FIRST."""
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(server.open())
            with contextlib.suppress(OSError):
                connections[-1].sendall(first)
        yield connections
    finally:
        for connection in connections:
            connection.close()


def until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Returns whether the condition comes to hold."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def frame(payload: bytes, opcode: int = 1, final: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """Returns a frame of a WebSocket client (RFC 6455, 5.2), which must be masked. RESERVED are the bits RSV1 to
    RSV3."""
    size = len(payload)
    length = (
        bytes([128 | size])
        if size < 126
        else bytes([128 | 126]) + size.to_bytes(2, "big")
        if size < 65536
        else (bytes([128 | 127]) + size.to_bytes(8, "big"))
    )
    if not masked:
        length = bytes([length[0] & 127]) + length[1:]
    return bytes([(128 if final else 0) | reserved << 4 | opcode]) + length + (bytes(4) if masked else b"") + payload


def closed(connection: socket.socket) -> bool:
    """Returns whether the other end closes the connection, whatever it sends before."""
    connection.settimeout(PATIENCE_S)
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def websocket(server: Verb, **headers: str) -> socket.socket:
    """Opens a WebSocket."""
    connection = server.open()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(
        f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: http://127.0.0.1:{server.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1)
    assert b" 101 " in head, head
    return connection


def lane_of(server: Verb) -> str:
    return str(json.loads(server.ask("/lanes")[1])[0]["id"])


def wish(lane: str, span: object = 10**9, steps: object = 1000, origin: object = 0) -> bytes:
    return json.dumps({"lane": lane, "span": span, "steps": steps, "origin": origin}).encode()
