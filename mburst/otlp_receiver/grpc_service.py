"""OTLP by gRPC, behind the same door as the switch agent: TLS, client certificates and the number of connections."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from ..gnmi_target.door import ConnectionRelay
from ..telemetry.otlp import messages
from .refusals import NotTaken
from .service import OtlpService

GRACE_S = 0.5  # for calls to end
MOST_CALLS = 64  # of a connection at a time
WINDOW_BYTES = 16_384  # of a message that has no place yet: the rest stays with its sender


class GrpcService(OtlpService):
    """MetricsService/Export."""

    _door: ConnectionRelay

    def _made_door(self) -> ConnectionRelay:
        refused = self._reception.refusals.count_connection
        return ConnectionRelay(self._opened.listener.sock, self._opened.tls, refused)

    def _options(self) -> list[tuple[str, int]]:
        """A client waits with more calls than it may have at a time, and with most of a message that is not read."""
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

        # A handler of a stream is called before its message is read.
        handler = grpc.stream_unary_rpc_method_handler(self._export, None, None)
        handlers = grpc.method_handlers_generic_handler(messages.EXPORT, {"Export": handler})
        self._server = grpc.aio.server(options=self._options())
        self._server.add_generic_rpc_handlers((handlers,))
        # A name and no file, since this process may make none where sockets can be. Who else connects there is refused.
        name = f"mburst-{secrets.token_hex(16)}"
        self._server.add_insecure_port(f"unix-abstract:{name}")
        await self._server.start()
        self._door.inner = f"\0{name}"
        await super().start()

    async def stop(self) -> None:
        self._accepting.cancel()
        await self._server.stop(GRACE_S)
        await super().stop()

    async def _export(self, sent: AsyncIterator[bytes], context: Any) -> bytes:
        import grpc

        client = self._door.client(context.peer())
        sender = client.host or "local" if client else "unknown"
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            if client is None:
                raise NotTaken("the connection is not known", "PERMISSION_DENIED", 403)
            await self._reception.admit(sender, metadata.get("authorization", ""))
            return await self._reception.take(partial(self._message, sent), sender)
        except NotTaken as refusal:
            self._reception.refusals.count_message(sender, refusal)
            code, reason = grpc.StatusCode[refusal.grpc], str(refusal)
        await context.abort(code, reason)
        raise AssertionError  # abort() has raised

    async def _message(self, sent: AsyncIterator[bytes]) -> bytes:
        """The message of a call. Raises NotTaken where there is none: gRPC refused it, or its sender gave up."""
        async for message in sent:
            return message
        raise NotTaken(f"more than {self._most:,} bytes, or ended before it was there", "RESOURCE_EXHAUSTED", 413)
