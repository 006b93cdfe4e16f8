"""Subscribe calls that are read by a thread of their own.

grpc.aio and grpcio's own iterator of a two-way stream hand each message over from thread to thread, which costs several
times what reading it does: 45 µs of CPU against 9 on one core. What grpcio reads in the caller's thread is the answer
to a single request (`SingleThreadedUnaryStream`). A SubscribeRequest is one; but grpcio also says then that no other
follows, and many targets take that as the end of the subscription (sonic-net/sonic-telemetry#48). So that is left out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from . import messages

Result = TypeVar("Result")


class _KeptOpen:
    """A channel of grpcio's C core whose calls do not end their side after the request."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def segregated_call(self, *arguments: Any) -> Any:
        """A call that its reader's thread polls. The seventh argument: (operations, tag) of each batch that it begins
        with."""
        from grpc._cython.cygrpc import SendCloseFromClientOperation as Close

        batches = [(tuple(part for part in batch if not isinstance(part, Close)), tag) for batch, tag in arguments[6]]
        return self._channel.segregated_call(*arguments[:6], batches, *arguments[7:])


def subscribe(channel: Any, request: Any, metadata: list[tuple[str, str]], timeout_s: float | None = None) -> Any:
    """Begin a Subscribe: an iterator over the serialized responses, which raises grpc.RpcError. It is read by one
    thread; any may `cancel` it, which ends the reading. CHANNEL: of credentials.channel_to."""
    begin = channel.unary_stream(messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString)
    begin._channel = _KeptOpen(begin._channel)
    return begin(request, metadata=metadata, timeout=timeout_s)


async def in_thread(work: Callable[[], Result]) -> Result:
    """What WORK returns or raises, in a thread of its own: those of asyncio.to_thread are too few for many targets. The
    thread goes on when the waiting is cancelled."""
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="mburst-gnmi", daemon=True).start()
    return await asyncio.wrap_future(future)
