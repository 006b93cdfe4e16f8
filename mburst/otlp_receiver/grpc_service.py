"""OTLP over gRPC. It uses the same door as the switch agent for TLS, client certificates and the number of
connections."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from ..listening.door import ConnectionRelay
from ..telemetry.otlp import messages
from .refusals import NotTaken
from .service import OtlpService

GRACE_S = 0.5  # time for calls to end
MOST_CALLS = 64  # of one connection at a time
WINDOW_BYTES = 16_384  # of a message that has no place yet; the rest stays at the sender
SERVED = f"{messages.EXPORT.rpartition('.')[2]}/Export"  # for messages


class _Methods:
    """Selects the handler of a call: one for Export of metrics, one for all others."""

    def __init__(self, export: Any, other: Any) -> None:
        self._export, self._other = export, other

    def service(self, call: Any) -> Any:
        """Returns the handler of a call, when gRPC asks for it."""
        return self._export if call.method == f"/{messages.EXPORT}/Export" else self._other


class GrpcService(OtlpService):
    """MetricsService/Export."""

    _door: ConnectionRelay
    _server: Any = None

    def _made_door(self) -> ConnectionRelay:
        refused = self._reception.refusals.count_connection
        return ConnectionRelay(self._opened.listener.sock, self._opened.tls, refused)

    def _options(self) -> list[tuple[str, int]]:
        """Returns options that make a client wait with calls beyond its limit, and with most of a message that is not
        read yet."""
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", self._most),
            ("grpc.max_concurrent_streams", MOST_CALLS),
            ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
        ]

    async def start(self) -> None:
        import grpc

        # The handler of a stream is called before its message is read.
        answers = [grpc.stream_unary_rpc_method_handler(one, None, None) for one in (self._export, self._refuse_method)]
        self._server = grpc.aio.server(options=self._options())
        self._server.add_generic_rpc_handlers((_Methods(*answers),))
        # An abstract name instead of a file, because this process may create no socket files. Other processes that
        # connect are refused.
        name = f"mburst-{secrets.token_hex(16)}"
        self._server.add_insecure_port(f"unix-abstract:{name}")
        await self._server.start()
        self._door.inner = f"\0{name}"
        await super().start()

    async def stop(self) -> None:
        self._refuse_more()
        if self._server:
            await self._server.stop(GRACE_S)
        await super().stop()

    async def _export(self, sent: AsyncIterator[bytes], context: Any) -> bytes:
        sender = self._sender(context)
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            if not sender:
                raise NotTaken("the connection is not known", "PERMISSION_DENIED", 403)
            await self._reception.admit(sender, metadata.get("authorization", ""))
            return await self._reception.take(partial(self._message, sent), sender)
        except NotTaken as refused:
            refusal = refused
        await self._refuse(refusal, sender, context)
        raise AssertionError  # `_refuse` always raises

    async def _refuse_method(self, sent: AsyncIterator[bytes], context: Any) -> bytes:
        """Refuse a call of anything but Export of metrics, such as traces or logs."""
        refusal = NotTaken(f"only {SERVED} is served", "UNIMPLEMENTED", 404)
        await self._refuse(refusal, self._sender(context), context)
        raise AssertionError  # `_refuse` always raises

    def _sender(self, context: Any) -> str:
        """Returns the address of the caller; empty if the connection is not known."""
        client = self._door.client(context.peer())
        return client.host or "local" if client else ""

    async def _refuse(self, refusal: NotTaken, sender: str, context: Any) -> None:
        """Count a refused call, and end it. Raises gRPC's exception for that."""
        import grpc

        self._reception.refusals.count_message(sender or "unknown", refusal)
        await context.abort(grpc.StatusCode[refusal.grpc], str(refusal))

    async def _message(self, sent: AsyncIterator[bytes]) -> bytes:
        """Returns the message of a call. Raises NotTaken if there is none because gRPC refused it or the sender gave
        up."""
        async for message in sent:
            return message
        raise NotTaken(f"more than {self._most:,} bytes, or ended before it was there", "RESOURCE_EXHAUSTED", 413)
