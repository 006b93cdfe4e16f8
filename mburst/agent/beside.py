"""Work beside an event loop, in a thread that can be abandoned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def beside(work: Callable[[threading.Event], Result]) -> Result:
    """Returns the result of WORK(given_up), which runs in a thread, and raises what it raises. If this call is
    cancelled, the event `given_up` is set, and nobody waits for the thread: it may be waiting for a server.
    (asyncio.to_thread would delay the end of the process until then.)"""
    loop, given_up = asyncio.get_running_loop(), threading.Event()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: Result | None = None
        error: Exception | None = None
        try:
            result = work(given_up)
        except (SystemExit, StopIteration) as raised:  # they would end the loop, or could not reach it
            error = RuntimeError(repr(raised))
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="mburst-beside", daemon=True).start()
    try:
        return await done
    finally:
        given_up.set()
