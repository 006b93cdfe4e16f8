"""Subscribe calls that are read by a thread of their own.

grpc.aio and grpcio's own iterator of a two-way stream hand each message over from thread to thread, which costs several
times as much as reading it: 45 µs of CPU against 9 on one core. grpcio reads only the answer to a single request in the
thread of the caller (`SingleThreadedUnaryStream`). A SubscribeRequest is such a request, but grpcio then also signals
that no other request follows, and many targets take that as the end of the subscription (sonic-net/sonic-telemetry#48).
So that signal is left out.
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
    """A channel of grpcio's C core whose calls do not close their side after the request."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def segregated_call(self, *arguments: Any) -> Any:
        """Returns a call that the thread of its reader polls. The seventh argument is the (operations, tag) of each
        batch with which it begins."""
        from grpc._cython.cygrpc import SendCloseFromClientOperation as Close

        batches = [(tuple(part for part in batch if not isinstance(part, Close)), tag) for batch, tag in arguments[6]]
        return self._channel.segregated_call(*arguments[:6], batches, *arguments[7:])


def subscribe(channel: Any, request: Any, metadata: list[tuple[str, str]], timeout_s: float | None = None) -> Any:
    """Begin a Subscribe. Returns an iterator over the serialized responses, which raises grpc.RpcError. One thread
    reads it; any thread may `cancel` it, which ends the reading. CHANNEL comes from credentials.channel_to."""
    begin = channel.unary_stream(messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString)
    begin._channel = _KeptOpen(begin._channel)
    return begin(request, metadata=metadata, timeout=timeout_s)


async def in_thread(work: Callable[[], Result]) -> Result:
    """Returns or raises what WORK does, run in a thread of its own: asyncio.to_thread has too few threads for many
    targets. The thread continues when the waiting is cancelled."""
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
