"""The gRPC service: gNMI's Subscribe and Capabilities."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import MburstError
from ..telemetry.gnmi import messages
from .streams import ENCODINGS, Refused, Stream
from .tree import Tree

MODEL = "mburst-switch-agent"  # vendors/mburst.toml knows it by this
MODELS = ("openconfig-interfaces", "openconfig-qos", "openconfig-lldp", "openconfig-system")


@dataclass(frozen=True)
class Door:
    """Where clients come in, and who may."""

    address: str
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None  # clients need a certificate of this CA
    username: str = ""
    password: str = field(default="", repr=False)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from None


class Agent:
    """The service over a tree."""

    def __init__(self, tree: Tree, door: Door) -> None:
        self.tree, self.door = tree, door
        self._server: Any = None

    def handlers(self) -> Any:
        """What gRPC calls."""
        import grpc

        return grpc.method_handlers_generic_handler(
            messages.SERVICE,
            {
                "Capabilities": grpc.unary_unary_rpc_method_handler(
                    self.capabilities, messages.CapabilityRequest.FromString,
                    messages.CapabilityResponse.SerializeToString),
                "Subscribe": grpc.stream_stream_rpc_method_handler(
                    self.subscribe, messages.SubscribeRequest.FromString, messages.SubscribeResponse.SerializeToString),
            },
        )  # fmt: skip

    async def start(self) -> str:
        """Listen; the address, with the port where it was left to the kernel. Raises MburstError."""
        import grpc

        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self.handlers(),))
        door = self.door
        try:
            if door.certificate and door.key:
                root = _read(door.client_ca) if door.client_ca else None
                credentials = grpc.ssl_server_credentials(
                    [(_read(door.key), _read(door.certificate))], root, root is not None
                )
                port = self._server.add_secure_port(door.address, credentials)
            else:
                port = self._server.add_insecure_port(door.address)
        except RuntimeError:
            port = 0
        if not port:
            raise MburstError(
                f"cannot listen on {door.address}", "is the port free, and are key and certificate right?"
            )
        await self._server.start()
        return door.address if door.address.startswith("unix:") else f"{door.address.rpartition(':')[0]}:{port}"

    async def serve(self) -> None:
        """Until SIGINT or SIGTERM."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopped.set)
        try:
            await stopped.wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        await self._server.stop(0.2)

    async def _admit(self, context: Any) -> None:
        """End the call unless user and password are right."""
        import grpc

        if not self.door.username:
            return
        said = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        right = hmac.compare_digest(said.get("username", "").encode(), self.door.username.encode())
        right &= hmac.compare_digest(said.get("password", "").encode(), self.door.password.encode())
        if not right:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "user or password is wrong")

    async def capabilities(self, request: Any, context: Any) -> Any:
        await self._admit(context)
        models = [messages.ModelData(name=name, organization="OpenConfig working group") for name in MODELS]
        return messages.CapabilityResponse(
            supported_models=[messages.ModelData(name=MODEL, organization="mburst"), *models],
            supported_encodings=[messages.ENCODINGS.index(name) for name in ENCODINGS],
            gNMI_version=messages.VERSION,
        )

    async def subscribe(self, requests: Any, context: Any) -> None:
        import grpc

        await self._admit(context)
        first = await anext(aiter(requests), None)
        if first is None:
            return
        if first.WhichOneof("value") != "subscribe":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a SubscriptionList")
        try:
            stream = Stream(self.tree, first.subscribe, context.write)
        except Refused as refusal:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        try:
            mode = messages.LIST_MODES[first.subscribe.mode]
            if mode == "STREAM":
                await stream.run()
                return
            watch = stream.watch()
            await asyncio.sleep(0.002)  # so that there is a reading of every queue
            await stream.everything(watch)
            if mode == "POLL":
                async for request in requests:
                    if request.WhichOneof("value") != "poll":
                        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "after POLL only polls may follow")
                    await stream.everything(watch)
        finally:
            stream.close()
