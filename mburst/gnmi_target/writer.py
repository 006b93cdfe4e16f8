"""The only way from a subscription to its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 60.0


class MessageWriter:
    """Passes messages to gRPC one at a time, because gRPC accepts no second message before it has taken the first. The
    parts of a subscription wait here for each other and for a slow client; nothing is queued. If a client takes nothing
    for PATIENCE_S, `give_up` closes its connection, which cancels its calls."""

    def __init__(self, write: Callable[[Any], Awaitable[None]], give_up: Callable[[], None]) -> None:
        self._write, self._give_up = write, give_up
        self._lock = asyncio.Lock()

    async def send(self, message: Any) -> None:
        async with self._lock:
            too_late = asyncio.get_running_loop().call_later(PATIENCE_S, self._give_up)
            try:
                await self._write(message)
            finally:
                too_late.cancel()
