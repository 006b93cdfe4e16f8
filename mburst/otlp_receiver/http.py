"""OTLP by HTTP/1.1 with protobuf: POST /v1/metrics."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import zlib
from collections.abc import Callable
from typing import Any

from ..gnmi_target.door import HANDSHAKE_S, MOST_CLIENTS
from ..gnmi_target.listening import Address, bound, listen
from .reception import RETRY_S, NotTaken, Reception

PATH = b"/v1/metrics"
IDLE_S = 60.0  # without a byte of a request
CHUNK = 65_536
KIND = b"application/x-protobuf"


class HttpService:
    """Answers exporters at an address. At most MOST_CLIENTS connections at a time."""

    def __init__(
        self,
        address: Address,
        context: ssl.SSLContext | None,
        reception: Reception,
        message_bytes: int,
        say: Callable[[str], None],
    ) -> None:
        self.address, self._reception, self._most, self._say = address, reception, message_bytes, say
        self._context, self._sock = context, listen(address)
        self._connections: set[asyncio.Task[Any]] = set()

    async def start(self) -> str:
        """Serve; what it is called for people."""
        if self._context:
            self._context.set_alpn_protocols(["http/1.1"])
        self._server = await asyncio.start_server(
            self._connected,
            sock=self._sock,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_S if self._context else None,
        )
        return f"OTLP by HTTP on {bound(self.address, self._sock)}"

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self.address.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.address.path)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CLIENTS:
            writer.transport.abort()
            return
        self._connections.add(task)
        peer = writer.get_extra_info("peername")
        try:
            await _Connection(reader, writer, self._reception, self._most, peer[0] if peer else "local").serve()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()


class _Connection:
    """The requests of one connection, one after the other."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reception: Reception, most: int, sender: str
    ) -> None:
        import h11

        self._reader, self._writer, self._reception, self._most, self._sender = reader, writer, reception, most, sender
        self._h11, self._state = h11, h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Until the sender closes it, or sends what is no request. Raises OSError, TimeoutError."""
        while True:
            try:
                request = await self._next()
                if not isinstance(request, self._h11.Request):
                    return
                status, body = await self._answered(request)
            except self._h11.RemoteProtocolError:
                return
            await self._send(status, body)
            if self._state.our_state is self._h11.MUST_CLOSE or self._state.their_state is not self._h11.DONE:
                return
            self._state.start_next_cycle()

    async def _answered(self, request: Any) -> tuple[int, bytes]:
        headers = dict(request.headers)
        try:
            if request.target.partition(b"?")[0] != PATH:
                raise NotTaken("metrics are at /v1/metrics", "UNIMPLEMENTED", 404)
            if request.method != b"POST":
                raise NotTaken("only POST is answered", "UNIMPLEMENTED", 405)
            await self._reception.admit(self._sender, headers.get(b"authorization", b"").decode("latin-1"))
            if headers.get(b"content-type", b"").partition(b";")[0].strip() != KIND:
                raise NotTaken(f"only {KIND.decode()} is understood", "UNIMPLEMENTED", 415)
            body = _unpacked(await self._body(), headers.get(b"content-encoding", b""), self._most)
            return 200, await self._reception.take(body, self._sender)
        except NotTaken as refusal:
            return refusal.http, _status(str(refusal))

    async def _body(self) -> bytes:
        parts, size = [], 0
        while isinstance(part := await self._next(), self._h11.Data):
            size += len(part.data)
            if size > self._most:
                raise NotTaken(f"more than {self._most:,} bytes", "RESOURCE_EXHAUSTED", 413)
            parts.append(bytes(part.data))
        return b"".join(parts)

    async def _next(self) -> Any:
        """The next event of the connection."""
        while (event := self._state.next_event()) is self._h11.NEED_DATA:
            if self._state.they_are_waiting_for_100_continue:
                await self._write(self._h11.InformationalResponse(status_code=100, headers=[]))
            async with asyncio.timeout(IDLE_S):
                self._state.receive_data(await self._reader.read(CHUNK))
        return event

    async def _send(self, status: int, body: bytes) -> None:
        headers = [("content-type", KIND.decode()), ("content-length", str(len(body)))]
        if status == 503:
            headers.append(("retry-after", str(RETRY_S)))
        if status != 200:
            headers.append(("connection", "close"))
        await self._write(self._h11.Response(status_code=status, headers=headers))
        await self._write(self._h11.Data(data=body))
        await self._write(self._h11.EndOfMessage())

    async def _write(self, event: Any) -> None:
        if data := self._state.send(event):
            self._writer.write(data)
            async with asyncio.timeout(IDLE_S):
                await self._writer.drain()


def _unpacked(body: bytes, encoding: bytes, most: int) -> bytes:
    """The body as it was before it was compressed. Raises NotTaken."""
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"deflate"):
        raise NotTaken("only gzip and deflate are understood", "UNIMPLEMENTED", 415)
    unpacking = zlib.decompressobj(wbits=47)  # gzip or zlib
    try:
        unpacked = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise NotTaken(f"the body is no {encoding.decode()}", "INVALID_ARGUMENT", 400) from None
    if len(unpacked) > most:
        raise NotTaken(f"more than {most:,} bytes", "RESOURCE_EXHAUSTED", 413)
    if not unpacking.eof:
        raise NotTaken("the body is cut off", "INVALID_ARGUMENT", 400)
    return unpacked


def _status(reason: str) -> bytes:
    """google.rpc.Status with a message, as OTLP has it for failures."""
    text = reason.encode()[:127]
    return b"\x12" + bytes([len(text)]) + text
