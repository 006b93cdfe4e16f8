"""OTLP over HTTP/1.1 with protobuf: POST /v1/metrics."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Any

from ..listening.door import FLUSH_S, Client, Door
from .entries import OpenEntry
from .reception import RETRY_S, Reception
from .refusals import NotTaken
from .service import OtlpService

PATH = b"/v1/metrics"
IDLE_S = 60.0  # longest time without a request
CHUNK = 65_536
KIND = b"application/x-protobuf"
REST_S, REST_BYTES = 5.0, 64 << 20  # limits for reading the rest of a refused message


class HttpService(OtlpService):
    """Answers exporters over HTTP."""

    def _made_door(self) -> Door:
        return _HttpDoor(self._opened, self._reception, self._most)


class _HttpEnd(asyncio.StreamReaderProtocol):
    """The end of a connection at this host."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=CHUNK)
        super().__init__(self.reader)


class _HttpDoor(Door):
    """Serves connections."""

    def __init__(self, opened: OpenEntry, reception: Reception, most: int) -> None:
        super().__init__(opened.listener.sock, opened.tls, reception.refusals.count_connection)
        self._reception, self._most = reception, most

    def _protocol(self) -> _HttpEnd:
        return _HttpEnd()

    async def _attend(self, client: Client, transport: asyncio.Transport, end: _HttpEnd) -> None:
        writer = asyncio.StreamWriter(transport, end, end.reader, asyncio.get_running_loop())
        with suppress(OSError):  # TimeoutError is one
            await _Connection(end.reader, writer, self._reception, self._most, client.host or "local").serve()
            transport.close()
            async with asyncio.timeout(FLUSH_S):
                await writer.wait_closed()


class _Connection:
    """The requests of one connection, one after another."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reception: Reception, most: int, sender: str
    ) -> None:
        import h11

        self._reader, self._writer, self._reception, self._most, self._sender = reader, writer, reception, most, sender
        self._h11, self._state = h11, h11.Connection(h11.SERVER)
        self._is_head = False  # whether the request's method is HEAD, so that its answer has no body

    async def serve(self) -> None:
        """Answer requests until the sender closes the connection or a request is refused. Raises OSError."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    request = await self._next()
                if not isinstance(request, self._h11.Request):
                    return
                self._is_head = request.method == b"HEAD"
                status, body = 200, await self._answered(request)
            except NotTaken as refusal:
                self._reception.refusals.count_message(self._sender, refusal)
                status, body = refusal.http, _status(str(refusal))
            await self._send(status, b"" if self._is_head else body)
            if status != 200:
                return await self._read_rest()
            if self._state.our_state is self._h11.MUST_CLOSE or self._state.their_state is not self._h11.DONE:
                return None
            self._state.start_next_cycle()

    async def _answered(self, request: Any) -> bytes:
        """Returns the answer to a request. Raises NotTaken."""
        headers = dict(request.headers)
        if request.target.partition(b"?")[0] != PATH:
            raise NotTaken("metrics are at /v1/metrics", "UNIMPLEMENTED", 404)
        if request.method != b"POST":
            raise NotTaken("only POST is answered", "UNIMPLEMENTED", 405)
        await self._reception.admit(self._sender, headers.get(b"authorization", b"").decode("latin-1"))
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != KIND:
            raise NotTaken(f"only {KIND.decode()} is understood", "UNIMPLEMENTED", 415)
        length, encoding = headers.get(b"content-length", b""), headers.get(b"content-encoding", b"").lower()
        if length and int(length) > self._most:
            raise self._too_large()

        async def read() -> bytes:
            return _unpacked(await self._body(), encoding, self._most)

        return await self._reception.take(read, self._sender)

    def _too_large(self) -> NotTaken:
        return NotTaken(f"more than {self._most:,} bytes", "RESOURCE_EXHAUSTED", 413)

    async def _body(self) -> bytes:
        parts, size = [], 0
        while isinstance(part := await self._next(), self._h11.Data):
            size += len(part.data)
            if size > self._most:
                raise self._too_large()
            parts.append(bytes(part.data))
        return b"".join(parts)

    async def _next(self) -> Any:
        """Returns the next event of the connection. Raises NotTaken if the data is not HTTP."""
        try:
            while (event := self._state.next_event()) is self._h11.NEED_DATA:
                if self._state.they_are_waiting_for_100_continue:
                    await self._write(self._h11.InformationalResponse(status_code=100, headers=[]))
                self._state.receive_data(await self._reader.read(CHUNK))
        except self._h11.RemoteProtocolError as error:
            cut_off = self._reader.at_eof()
            reason = "the request is cut off" if cut_off else "not a valid request of HTTP/1.1"
            raise NotTaken(reason, "INVALID_ARGUMENT", error.error_status_hint) from None
        return event

    async def _read_rest(self) -> None:
        """Discard what the sender still sends. If unread data were left, the kernel would reset the connection, and the
        sender would not get the answer."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        left = REST_BYTES
        async with asyncio.timeout(REST_S):
            while left > 0 and (data := await self._reader.read(CHUNK)):
                left -= len(data)

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
    """Returns the decompressed body. Raises NotTaken."""
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"x-gzip", b"deflate"):
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
    if unpacking.unused_data:
        raise NotTaken("the compressed body has more than one part", "INVALID_ARGUMENT", 400)
    return unpacked


def _status(reason: str) -> bytes:
    """Returns a google.rpc.Status with a message, the form of failures in OTLP."""
    text = reason.encode()[:127]
    return b"\x12" + bytes([len(text)]) + text
