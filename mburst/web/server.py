"""A web server that slow, silent and many clients cannot block: uvicorn, with connections that are accepted, limited
and ended here.

A connection waits for a TLS handshake, for a whole request, or for the next one. After REQUEST_S of waiting it ends. If
there are too many, the one that has waited longest is ended in favour of the newest, so that a client with a prompt
request is always served. Data that a client does not read is held up to MOST_UNREAD bytes, and for UNREAD_S.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, cast

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ..listening.tls import RenewedContext
from ..messages import print_message
from ..process import alive, privileges
from .address import ListenAddress

REQUEST_S = 10.0  # for a TLS handshake and a whole request, and for the next request on the same connection
SLOW_S = 1.0  # a client that does not read for longer is slow
UNREAD_S, LITTLE = 60.0, 64 << 10  # time for the client to read what it was sent, except for this many bytes
MOST = 128  # waiting connections, and as many active ones; beyond it, the newest active ones are refused
LEAST, KEPT_BACK = 4, 64  # least connections, even with few descriptors; descriptors that are reserved for files
MOST_UNREAD = 32 << 20  # bytes that wait for one connection
HEADER_BYTES, MESSAGE_BYTES = 16 << 10, 4 << 10  # of a request, and of a WebSocket message
SPARE_BYTES, BYTES_PER_S = 256 << 10, 64 << 10  # what a client may send at once, and in the long run
WATCH_S = 0.5
LINGER_S = 0.2  # time for running answers when the server ends
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
Peer = tuple[Any, ...]


class WebConnection:
    """One client: the time since which it waits, or None while it is answered; what it may still send; and when it last
    read."""

    def __init__(self, end: Callable[[], object], now: float) -> None:
        self.end = end
        self.waits_since: float | None = now
        self.transport: asyncio.Transport | None = None
        self.spare, self.at = float(SPARE_BYTES), now
        self.reads_since = now

    def sent(self, count: int, now: float) -> bool:
        """Count sent bytes, and return whether the client may have sent them."""
        self.spare = min(SPARE_BYTES, self.spare + BYTES_PER_S * (now - self.at)) - count
        self.at = now
        return self.spare >= 0

    def is_due(self, now: float) -> bool:
        """Whether the connection must end, because it waited too long or does not read."""
        unread = unread_bytes(self.transport) if self.transport else 0
        if unread < LITTLE:
            self.reads_since = now
        elif self.waits_since is not None:  # the client has not read its answer yet, so it does not wait
            self.waits_since = now
        waited = self.waits_since is not None and now - self.waits_since > REQUEST_S
        return waited or unread > MOST_UNREAD or now - self.reads_since > UNREAD_S


def unread_bytes(transport: asyncio.Transport) -> int:
    """Returns the bytes that were written and not yet passed to the kernel. TLS uses a second stream, which asyncio
    does not count."""
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return transport.get_write_buffer_size() + (below.get_write_buffer_size() if below else 0)


class WebConnections:
    """All open connections, by the address of the peer as it appears in an application's scope."""

    def __init__(self) -> None:
        self.of: dict[Peer, WebConnection] = {}
        self.most = most_connections()

    def add(self, peer: Peer, end: Callable[[], object]) -> None:
        """Add a connection that was just accepted. If too many wait, the one that has waited longest ends."""
        waiting = {name: one.waits_since for name, one in self.of.items() if one.waits_since is not None}
        if len(waiting) >= self.most:
            self.of.pop(min(waiting, key=lambda name: waiting[name])).end()
        self.of[peer] = WebConnection(end, time.monotonic())

    @contextlib.contextmanager
    def answered(self, peer: Peer) -> Iterator[bool]:
        """Mark PEER as active while its whole request is answered. Yields whether there is room for it."""
        one = self.of.get(peer)
        room = self._has_room()
        if one:
            one.waits_since = None
        try:
            yield room
        finally:
            if one:
                one.waits_since = time.monotonic()

    def _has_room(self) -> bool:
        """Whether one more connection may be active. If necessary, the slow one that has not read for the longest time
        ends."""
        at_work = {name: one for name, one in self.of.items() if one.waits_since is None}
        if len(at_work) < self.most:
            return True
        before = time.monotonic() - SLOW_S
        slow = {name: one.reads_since for name, one in at_work.items() if one.reads_since < before}
        if slow:
            self.of.pop(min(slow, key=lambda name: slow[name])).end()
        return bool(slow)

    def watch(self) -> None:
        """End the connections that are due."""
        now = time.monotonic()
        for one in list(self.of.values()):
            if one.is_due(now):
                one.end()

    def end(self, waiting: bool) -> None:
        """End the waiting connections, or all."""
        for one in list(self.of.values()):
            if one.waits_since is not None or not waiting:
                one.end()


def most_connections() -> int:
    """Returns MOST, or what the process's descriptors allow: a database that cannot open a file may end the process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = limit - len(os.listdir("/proc/self/fd")) - KEPT_BACK
    return MOST if limit == resource.RLIM_INFINITY else max(LEAST, min(MOST, left // 2))


class Bounded:
    """An application that marks active connections, and refuses requests beyond the limits."""

    def __init__(self, app: ASGIApp, connections: WebConnections) -> None:
        self.app = app
        self.connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        if _has_body(scope):
            return await PlainTextResponse("request bodies are not accepted\n", 400, {"Connection": "close"})(
                scope, receive, send
            )
        with self.connections.answered(tuple(scope.get("client") or ())) as room:
            if room:
                await self.app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1013})
            else:
                await PlainTextResponse("too many connections\n", 503, {"Retry-After": "5"})(scope, receive, send)


def _has_body(scope: Scope) -> bool:
    """Whether a request has a body, or gives its length in more than one way."""
    framing = [(name, value) for name, value in scope["headers"] if name in (b"content-length", b"transfer-encoding")]
    return scope["type"] == "http" and bool(framing) and framing != [(b"content-length", b"0")]


class _Metered(asyncio.Protocol):
    """The common part of uvicorn's protocols for a connection (first HTTP, possibly followed by WebSocket)."""

    config: uvicorn.Config

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.known = cast(Bounded, self.config.app).connections
        self.peer = _name(transport.get_extra_info("peername"))
        self.stream = cast(asyncio.Transport, transport)
        if one := self.known.of.get(self.peer):
            one.transport, one.end = self.stream, self.stream.abort
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        one = self.known.of.get(self.peer)
        if one and one.sent(len(data), time.monotonic()):
            super().data_received(data)
        else:
            self.stream.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.known.of.pop(self.peer, None)
        super().connection_lost(error)


class _Http(_Metered, H11Protocol):
    """HTTP with lines that end in CR LF. Data that a proxy might read as one request and a server as two (RFC 9112,
    11.2) ends the connection. Requests with bodies are refused (see Bounded), so all data is heads of requests."""

    _last = b""

    def data_received(self, data: bytes) -> None:
        if _BARE.search(self._last + data):
            self.stream.abort()
            return
        self._last = data[-1:]
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # an invalid body while its head is answered: uvicorn would answer again
            self.stream.abort()


class _WebSocket(_Metered, WebSocketsSansIOProtocol):
    pass


class WebServer(uvicorn.Server):
    """Serves an application on a socket: `run` until `should_exit` is set. Raises MburstError if the certificate or key
    is invalid."""

    def __init__(self, app: ASGIApp, listening: socket.socket, where: ListenAddress) -> None:
        self.connections = WebConnections()
        self.listening = listening
        with privileges.raised():  # not every user may read a key
            self._tls = RenewedContext(where.tls, "http/1.1", print_message) if where.tls else None
        super().__init__(self._config(Bounded(app, self.connections)))
        self._tasks: list[asyncio.Task[None]] = []

    @staticmethod
    def _config(app: ASGIApp) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            loop="asyncio",
            http=_Http,
            h11_max_incomplete_event_size=HEADER_BYTES,
            ws=_WebSocket,
            ws_per_message_deflate=False,
            ws_max_size=MESSAGE_BYTES,
            timeout_graceful_shutdown=1,
        )
        config.load()
        return config

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self.listening.setblocking(False)
        self._tasks = [asyncio.create_task(self._accept()), asyncio.create_task(self._watch())]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        self.listening.close()
        self.connections.end(waiting=True)
        asyncio.get_running_loop().call_later(LINGER_S, self._cut)
        await super().shutdown(sockets=[])

    def _cut(self) -> None:
        self.connections.end(waiting=False)
        for task in self.server_state.tasks:
            task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            alive.beat()
            self.connections.watch()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        openings: set[asyncio.Task[None]] = set()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self.listening)
            except OSError:  # no descriptor left: waiting connections give theirs back
                self.connections.end(waiting=True)
                await asyncio.sleep(0.05)
                continue
            task = loop.create_task(self._open(accepted, _name(peer)))
            openings.add(task)
            task.add_done_callback(openings.discard)
            self.connections.add(_name(peer), task.cancel)
            await asyncio.sleep(0)  # so that ended connections are closed

    async def _open(self, accepted: socket.socket, peer: Peer) -> None:
        """Make a connection from an accepted socket, possibly with a TLS handshake."""
        config = self.config

        def protocol() -> asyncio.Protocol:
            return _Http(config, self.server_state, self.lifespan.state)

        try:
            encrypted: dict[str, Any] = {"ssl": self._tls(), "ssl_handshake_timeout": REQUEST_S} if self._tls else {}
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted, **encrypted)
        except (OSError, ssl.SSLError, asyncio.CancelledError):
            self.connections.of.pop(peer, None)
            accepted.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to the caller that runs the server (mburst/process/stopping.py)."""
        yield

    def run_beside(self) -> threading.Thread:
        """Run in a separate thread."""
        thread = threading.Thread(target=self.run, name="mburst-web", daemon=True)
        thread.start()
        return thread


def _name(peer: Any) -> Peer:
    """Returns the address of the peer as it appears in an application's scope; () if it is already gone."""
    return (str(peer[0]), int(peer[1])) if peer else ()
