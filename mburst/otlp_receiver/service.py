"""The common part of the OTLP services over gRPC and HTTP."""

from __future__ import annotations

import asyncio

from ..listening.door import Door
from .entries import OpenEntry
from .reception import Reception


class OtlpService:
    """Serves a listening entry. MESSAGE_BYTES is the size of the largest message, decompressed."""

    def __init__(self, opened: OpenEntry, reception: Reception, message_bytes: int) -> None:
        self._opened, self._reception, self._most = opened, reception, message_bytes
        self._door = self._made_door()
        self._accepting: asyncio.Task[None] | None = None

    def _made_door(self) -> Door:
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to serve."""
        self._accepting = asyncio.create_task(self._door.serve())

    async def stop(self) -> None:
        """Answer running calls, and end. Also works after an interrupted `start`."""
        self._refuse_more()
        await self._door.close()

    def _refuse_more(self) -> None:
        if self._accepting:
            self._accepting.cancel()
