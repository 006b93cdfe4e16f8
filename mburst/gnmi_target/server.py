"""The gRPC service: gNMI's Capabilities, Get and Subscribe. Set is refused."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import temporary
from ..errors import MburstError
from ..listening import tls
from ..listening.addresses import Address, listen
from ..listening.door import Client, ConnectionRelay
from ..telemetry.gnmi import messages
from . import requests, snapshots
from .encoding import ENCODINGS
from .log import Log
from .schema import MODELS, RequestRefused
from .streams import SETTLE_S, SubscribeStream
from .tree import Tree
from .writer import MessageWriter

MODEL = "mburst-switch-agent"  # the name in vendors/mburst.toml
MOST_CALLS = 32  # of one client at the same time
LONGEST_REASON = 500  # characters of a status, which may quote the client's message
LARGEST_REQUEST = 1 << 20  # bytes
FIRST_MESSAGE_S = 30.0  # longest wait for the client's SubscriptionList
WRONG_PASSWORD_S = 1.0  # delay of the answer to a wrong password
GONE_S = 1.0  # writing to a client that is gone fails a little before its call is cancelled
GRACE_S = 0.2  # time for calls to end with the agent
_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LARGEST_REQUEST),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),  # of a connection without a call
    ("grpc.keepalive_time_ms", 60_000),  # detects a client that is gone without closing
    ("grpc.keepalive_timeout_ms", 20_000),
]


@dataclass(frozen=True)
class Endpoint:
    """Where clients connect, and their credentials."""

    address: Address
    certificates: tls.Certificates | None = None
    username: str = ""
    password: str = field(default="", repr=False)


class TargetServer:
    """The service over a tree. `say` gets a line for each client that is refused, and for each failure."""

    def __init__(self, tree: Tree, entry: Endpoint, say: Callable[[str], None]) -> None:
        self.tree, self.entry = tree, entry
        self.log = Log(say)
        self.log.take_from("grpc")
        self.door: ConnectionRelay
        self._server: Any = None
        self._inner = -1
        self._opened = contextlib.AsyncExitStack()
        self._failure: asyncio.Future[None]

    # --- start and end ----------------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Listen, and return the address, with the port that the kernel chose if none was given. The caller must call
        `close`, also after an error. Raises MburstError."""
        context = tls.context(self.entry.certificates) if self.entry.certificates else None
        listener = listen(self.entry.address)
        self._opened.callback(self.log.flush)
        self._opened.callback(listener.close)
        self._opened.callback(self._close_inner)
        self.door = ConnectionRelay(
            listener.sock,
            (lambda: context) if context else None,
            lambda name, host, reason: self.log.say(f"{name}: refused: {reason}"),
        )
        self._opened.push_async_callback(self.door.close)
        await self._start_service()
        self._failure = asyncio.get_running_loop().create_future()
        return listener.address

    async def _start_service(self) -> None:
        """Start gRPC on a Unix socket that is unlinked once it is open."""
        import grpc

        self._server = grpc.aio.server(options=_OPTIONS)
        self._opened.push_async_callback(self._server.stop, GRACE_S)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        with temporary.folder("mburst-") as folder:
            path = Path(folder, "gnmi")
            try:
                self._server.add_insecure_port(f"unix:{path}")
            except RuntimeError:
                raise MburstError(f"{folder}: gRPC cannot listen there", "the path of TMPDIR may be too long") from None
            await self._server.start()
            path.chmod(0o666)  # for the later user of this process; the folder is private, and removed soon
            self._inner = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self.door.inner = f"/proc/self/fd/{self._inner}"

    async def serve(self) -> None:
        """Serve until cancelled. Raises MburstError if the agent cannot continue."""
        accepting = asyncio.create_task(self.door.serve())
        ended = asyncio.create_task(self._server.wait_for_termination())
        try:
            done, _ = await asyncio.wait((self._failure, accepting, ended), return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
            raise MburstError("gRPC has stopped serving")
        finally:
            accepting.cancel()
            await self.close()
            await asyncio.gather(ended, return_exceptions=True)  # not cancelled, because gRPC waits for the same future

    def fail(self, error: Exception) -> None:
        """End the server with a failure. May be called from any thread."""

        def end() -> None:
            if not self._failure.done():
                self._failure.set_exception(MburstError(f"the queues cannot be read any more: {error}"))

        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._failure.get_loop().call_soon_threadsafe(end)

    async def close(self) -> None:
        """Answer running calls, and stop listening. Does nothing if that is done, or if the server was never
        started."""
        await self._opened.aclose()

    def _close_inner(self) -> None:
        if self._inner >= 0:
            os.close(self._inner)

    # --- calls ------------------------------------------------------------------------------------------------------

    def _handlers(self) -> Any:
        """Returns the handlers that gRPC calls."""
        import grpc

        def unary(work: Callable[[bytes], Awaitable[Any]]) -> Any:
            async def answer(request: bytes, context: Any) -> Any:
                async with self._call(context):
                    return await work(request)

            return grpc.unary_unary_rpc_method_handler(answer, None, lambda made: made.SerializeToString())

        subscribe = grpc.stream_stream_rpc_method_handler(
            self._subscribe, None, messages.SubscribeResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(
            messages.SERVICE,
            {
                "Capabilities": unary(self.capabilities),
                "Get": unary(self.get),
                "Set": unary(self.set),
                "Subscribe": subscribe,
            },
        )

    @contextlib.asynccontextmanager
    async def _call(self, context: Any) -> AsyncIterator[Client]:
        """Yields the client of a permitted call. Any failure in the context becomes a gRPC status."""
        import grpc

        client = self.door.client(context.peer())
        try:
            if client is None:
                raise RequestRefused("the connection is not known", "PERMISSION_DENIED")
            with _counted(client):
                await self._admit(client, context)
                yield client
            return
        except RequestRefused as refusal:
            code, reason = refusal.code, str(refusal)
        except Exception as failure:
            await asyncio.sleep(GONE_S)  # if the client is gone, this call is cancelled here
            code, reason = "INTERNAL", f"the agent failed: {failure!r}"
            self.log.say(f"{client.name if client else context.peer()}: {reason}")
        await context.abort(grpc.StatusCode[code], reason[:LONGEST_REASON])

    async def _admit(self, client: Client, context: Any) -> None:
        """Raises RequestRefused if the user or the password is wrong."""
        entry = self.entry
        if not entry.username:
            return
        credentials = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        right = hmac.compare_digest(credentials.get("username", "").encode(), entry.username.encode())
        right &= hmac.compare_digest(credentials.get("password", "").encode(), entry.password.encode())
        if not right:
            self.log.say(f"{client.name}: refused: user or password is wrong")
            await asyncio.sleep(WRONG_PASSWORD_S)
            raise RequestRefused("user or password is wrong", "UNAUTHENTICATED")

    async def capabilities(self, request: bytes) -> Any:
        models = [
            messages.ModelData(name=name, organization="OpenConfig working group", version=version)
            for name, version in MODELS.items()
        ]
        return messages.CapabilityResponse(
            supported_models=[messages.ModelData(name=MODEL, organization="mburst"), *models],
            supported_encodings=[messages.ENCODINGS.index(name) for name in ENCODINGS],
            gNMI_version=messages.VERSION,
        )

    async def get(self, request: bytes) -> Any:
        asked = requests.snapshot(requests.parsed(messages.GetRequest, request))
        windows = [self.tree.watch(selected) for selected in asked.paths]
        try:
            await asyncio.sleep(SETTLE_S)
            return messages.GetResponse(notification=list(snapshots.taken(self.tree, asked, windows)))
        finally:
            for one in windows:
                self.tree.watermarks.forget(one)

    async def set(self, request: bytes) -> Any:
        raise RequestRefused("this agent is read-only: Set is not implemented", "UNIMPLEMENTED")

    async def _subscribe(self, received: Any, context: Any) -> None:
        async with self._call(context) as client:
            following = aiter(received)
            try:
                async with asyncio.timeout(FIRST_MESSAGE_S):
                    first = await anext(following, None)
            except TimeoutError:
                raise RequestRefused(f"no SubscriptionList in {FIRST_MESSAGE_S:g} s", "DEADLINE_EXCEEDED") from None
            if first is None:
                return
            first = requests.parsed(messages.SubscribeRequest, first)
            if first.WhichOneof("value") != "subscribe":
                raise RequestRefused("the first message must be a SubscriptionList")
            asked = requests.subscription(first.subscribe)
            stream = SubscribeStream(self.tree, asked, MessageWriter(context.write, lambda: self._give_up(client)))
            try:
                await stream.run(following)
            finally:
                stream.close()

    def _give_up(self, client: Client) -> None:
        self.log.say(f"{client.name}: disconnected: it does not read messages")
        client.drop()


@contextlib.contextmanager
def _counted(client: Client) -> Iterator[None]:
    """Count one more call of a client. Raises RequestRefused if it has too many."""
    if client.calls >= MOST_CALLS:
        raise RequestRefused(f"{MOST_CALLS} calls at a time are the most for one connection", "RESOURCE_EXHAUSTED")
    client.calls += 1
    try:
        yield
    finally:
        client.calls -= 1
