"""Accepts connections, terminates TLS, and serves the content. For gRPC it relays the content to the service, byte for
byte.

gRPC does not report who was refused and why, and does not limit its connections. The service listens on a Unix socket
that is unlinked as soon as it is open, so that only this process can connect to it. The kernel gives each connection to
it a unique name, by which a call is assigned to its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .addresses import Address

MOST_CLIENTS = 64  # connections at a time; one host may have half of them
HANDSHAKE_S = 10.0
FLUSH_S = 2.0  # time to deliver the service's last answer


@dataclass(eq=False)
class Client:
    """A connection. `calls` is the number of its calls that are being answered."""

    name: str  # its address, for messages
    host: str
    calls: int = 0
    _ends: list[asyncio.Transport] = field(default_factory=list)

    def drop(self) -> None:
        for end in self._ends:
            with contextlib.suppress(AttributeError):  # Python 3.11.2: if TLS was closed already
                end.abort()


class _RelayEnd(asyncio.Protocol):
    """One end of a relayed connection. Incoming data goes out at the other end, which pauses this end when it is full.

    Data that arrives before the other end exists is kept: pausing in connection_made() has no effect in Python 3.11.2.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.other: _RelayEnd | None = None
        self._early = bytearray()
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def join(self, other: _RelayEnd) -> None:
        self.other, other.other = other, self
        for end in (self, other):
            end.transport.resume_reading()
            end.data_received(bytes(end._early))
            end._early.clear()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data
            self.transport.pause_reading()
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class Door:
    """Accepts connections on SOCK, with a TLS context that is requested for each, if TLS is used. `refused` is called
    with (name, host, reason) for each connection that is not served."""

    def __init__(
        self, sock: socket.socket, tls: Callable[[], ssl.SSLContext] | None, refused: Callable[[str, str, str], None]
    ) -> None:
        self._sock, self._tls, self._refused = sock, tls, refused
        self._tasks: dict[asyncio.Task[None], str] = {}  # → host
        self._numbers = 0

    def _protocol(self) -> asyncio.Protocol:
        """Returns the protocol that receives a connection's bytes."""
        raise NotImplementedError

    async def _attend(self, client: Client, transport: asyncio.Transport, protocol: Any) -> None:
        """Serve one connection to its end."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._sock)
            except OSError:  # the client is gone, or there are too many open files
                await asyncio.sleep(0.05)
                continue
            name, host = self._name(peer)
            if (refusal := self._full(host)) is not None:
                self._refused(name, host, refusal)
                accepted.close()
                continue
            task = loop.create_task(self._connection(accepted, Client(name, host)))
            self._tasks[task] = host
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        host = self._tasks.pop(task)
        if not task.cancelled() and (failure := task.exception()):
            self._refused(host or "a local client", host, f"the connection failed: {failure!r}")

    async def close(self) -> None:
        """End all connections. The socket stays open."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _name(self, peer: object) -> tuple[str, str]:
        """Returns the address for messages and the host of a peer."""
        if isinstance(peer, tuple):
            return str(Address(peer[0], peer[1])), peer[0]
        self._numbers += 1
        return f"local client {self._numbers}", ""

    def _full(self, host: str) -> str | None:
        if len(self._tasks) >= MOST_CLIENTS:
            return f"{MOST_CLIENTS} clients are connected, which is the most"
        if host and sum(one == host for one in self._tasks.values()) >= MOST_CLIENTS // 2:
            return f"{MOST_CLIENTS // 2} clients of this host are connected, which is the most"
        return None

    async def _connection(self, accepted: socket.socket, client: Client) -> None:
        timeout = HANDSHAKE_S if self._tls else None
        try:
            transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls() if self._tls else None,
                ssl_handshake_timeout=timeout,
                ssl_shutdown_timeout=timeout and FLUSH_S,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._refused(client.name, client.host, why_refused(error))
            return
        client._ends.append(transport)
        try:
            await self._attend(client, transport, protocol)
        finally:
            client.drop()


class ConnectionRelay(Door):
    """Relays connections to `inner`, the path of a Unix socket."""

    inner = ""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.clients: dict[str, Client] = {}  # by the name that the service sees

    def client(self, peer: str) -> Client | None:
        """Returns the client of a call by the peer that gRPC reports."""
        return self.clients.get(peer.removeprefix("unix-abstract:"))

    def _protocol(self) -> _RelayEnd:
        return _RelayEnd()

    async def _attend(self, client: Client, transport: asyncio.Transport, outer: _RelayEnd) -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("")  # the kernel chooses a name, which the service sees
            key = sock.getsockname()[1:].decode()
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, self.inner)
            _, inner = await asyncio.get_running_loop().create_unix_connection(_RelayEnd, sock=sock.dup())
        client._ends.append(inner.transport)
        self.clients[key] = client
        try:
            outer.join(inner)
            await asyncio.wait((outer.closed, inner.closed), return_when=asyncio.FIRST_COMPLETED)
            outer.transport.close()
            await asyncio.wait((outer.closed,), timeout=FLUSH_S)
        finally:
            del self.clients[key]


def why_refused(error: OSError | TimeoutError) -> str:
    """Returns what failed in a TLS handshake, worded for the person who has to fix it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its client certificate is not accepted: {error.verify_message}"
    reason = str(getattr(error, "reason", None) or "").replace("_", " ").lower()
    if "did not return a certificate" in reason:
        return "it presents no client certificate"
    if reason in ("wrong version number", "http request", "unknown protocol"):
        return "it does not speak TLS"
    if "alert" in reason:
        return f"it does not accept the certificate of this host: {reason.rpartition('alert ')[2]}"
    if isinstance(error, ConnectionError):
        return "it closed the connection during the TLS handshake; it may not accept the certificate of this host"
    if isinstance(error, TimeoutError) or "handshake is taking longer" in str(error):
        return f"no TLS handshake in {HANDSHAKE_S:g} s"
    return f"the TLS handshake failed: {reason or error.strerror or error}"
