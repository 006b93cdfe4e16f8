"""OTLP by gRPC, behind the same door as the switch agent: TLS, client certificates and the number of connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import ssl
from collections.abc import Callable
from typing import Any

from ..gnmi_target.door import ConnectionRelay
from ..gnmi_target.listening import Address, bound, listen
from ..telemetry.otlp import messages
from .reception import NotTaken, Reception

GRACE_S = 0.5  # for calls to end
MOST_CALLS = 64  # at a time


class GrpcService:
    """MetricsService/Export at an address."""

    def __init__(
        self,
        address: Address,
        context: ssl.SSLContext | None,
        reception: Reception,
        message_bytes: int,
        say: Callable[[str], None],
    ) -> None:
        self.address, self._reception = address, reception
        self._door = ConnectionRelay(listen(address), context, say)
        self._options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", message_bytes),
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
        ]

    async def start(self) -> str:
        """Serve; what it is called for people. Raises MburstError."""
        import grpc

        handler = grpc.unary_unary_rpc_method_handler(self._export, None, None)
        handlers = grpc.method_handlers_generic_handler(messages.EXPORT, {"Export": handler})
        self._server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=MOST_CALLS)
        self._server.add_generic_rpc_handlers((handlers,))
        # A name and no file, since this process may make none where sockets can be. Who else connects there is refused.
        name = f"mburst-{secrets.token_hex(16)}"
        self._server.add_insecure_port(f"unix-abstract:{name}")
        await self._server.start()
        self._door.inner = f"\0{name}"
        self._accepting = asyncio.create_task(self._door.serve())
        return f"OTLP by gRPC on {bound(self.address, self._door.sock)}"

    async def stop(self) -> None:
        """Answer what is under way, and end."""
        self._accepting.cancel()
        await self._server.stop(GRACE_S)
        await self._door.close()
        if self.address.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.address.path)

    async def _export(self, message: bytes, context: Any) -> bytes:
        import grpc

        client = self._door.client(context.peer())
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            if client is None:
                raise NotTaken("the connection is not known", "PERMISSION_DENIED", 403)
            sender = client.host or "local"
            await self._reception.admit(sender, metadata.get("authorization", ""))
            return await self._reception.take(message, sender)
        except NotTaken as refusal:
            code, reason = grpc.StatusCode[refusal.grpc], str(refusal)
        await context.abort(code, reason)
        raise AssertionError  # abort() has raised
