"""The way in: accepts connections, ends TLS, and serves what is in it; for gRPC, by relaying it to the service behind,
byte for byte.

gRPC itself says neither who was refused nor why, and does not bound its connections. The service listens on a Unix
socket whose name is removed as soon as it is open; only this process can connect to it. Each connection to it has a
name of its own, which the kernel gives, so that a call is known by the connection that it came over.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .listening import Address

MOST_CLIENTS = 64  # connections at a time; one host gets half of them at most
HANDSHAKE_S = 10.0
FLUSH_S = 2.0  # for what the service said last


@dataclass(eq=False)
class Client:
    """A connection. `calls`: how many are being answered."""

    name: str  # its address, for people
    host: str
    calls: int = 0
    _ends: list[asyncio.Transport] = field(default_factory=list)

    def drop(self) -> None:
        for end in self._ends:
            with contextlib.suppress(AttributeError):  # Python 3.11.2: of TLS that was closed already
                end.abort()


class _RelayEnd(asyncio.Protocol):
    """One end of a relayed connection: what comes in goes out at the other end, which stops it when it is full.

    What comes before there is an other end waits: pausing in connection_made() has no effect in Python 3.11.2.
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
    """Accepts connections to SOCK, each with what TLS gives for it where that is there. `refused` gets (name, host,
    reason) of each connection that is not served."""

    def __init__(
        self, sock: socket.socket, tls: Callable[[], ssl.SSLContext] | None, refused: Callable[[str, str, str], None]
    ) -> None:
        self._sock, self._tls, self._refused = sock, tls, refused
        self._tasks: dict[asyncio.Task[None], str] = {}  # → host
        self._numbers = 0

    def _protocol(self) -> asyncio.Protocol:
        """What gets a connection's bytes."""
        raise NotImplementedError

    async def _attend(self, client: Client, transport: asyncio.Transport, protocol: Any) -> None:
        """One connection, to its end."""
        raise NotImplementedError

    async def serve(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._sock)
            except OSError:  # it has gone again, or there are too many open files
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
        """(address for people, host) of a peer."""
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
        """The client of a call, by what gRPC says of its peer."""
        return self.clients.get(peer.removeprefix("unix-abstract:"))

    def _protocol(self) -> _RelayEnd:
        return _RelayEnd()

    async def _attend(self, client: Client, transport: asyncio.Transport, outer: _RelayEnd) -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("")  # the kernel gives a name, which the service sees
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
    """What failed in a TLS handshake, in the words of whoever has to mend it."""
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
