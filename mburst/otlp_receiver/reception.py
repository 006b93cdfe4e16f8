"""The reception of one message: whether the sender is admitted, when there is a place for it, and the answer. It is the
same for gRPC and HTTP."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

from ..telemetry.otlp import messages
from ..telemetry.otlp.intake import Intake
from ..telemetry.otlp.reading import InvalidMessage, ReadMessage
from ..units import format_count
from .refusals import DEFERRED, NOT_UNDERSTOOD, REFUSED, NotTaken, Refusals

WRONG_TOKEN_S = 1.0  # delay of the answer to a wrong token
RETRY_S = 1  # time after which a sender should retry if the store is behind
AT_ONCE = 8  # messages in memory at the same time; one sender may have half of them
WAIT_S = 5.0  # longest wait for a place among these
ARRIVAL_S = 30.0  # longest time in which a message with a place must arrive


@dataclass
class _OwnPlaces:
    """The places of one sender, while it has or waits for one."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE // 2))
    users: int = 0


class Reception:
    """Takes messages. `full` returns whether the store is behind."""

    def __init__(self, intake: Intake, token: str, full: Callable[[], bool], refusals: Refusals) -> None:
        self._intake, self._token, self._full, self.refusals = intake, token, full, refusals
        self._free = asyncio.Semaphore(AT_ONCE)
        self._own: dict[str, _OwnPlaces] = {}

    async def admit(self, sender: str, authorization: str) -> None:
        """Raises NotTaken if the sender is not admitted."""
        scheme, _, token = authorization.partition(" ")
        right = hmac.compare_digest(token.strip().encode(), self._token.encode())
        if not self._token or (right and scheme.lower() == "bearer"):
            return
        self.refusals.say_once(f"{sender}: refused: the token is wrong or missing")
        await asyncio.sleep(WRONG_TOKEN_S)
        raise NotTaken("the bearer token is wrong or missing", "UNAUTHENTICATED", 401)

    async def take(self, read: Callable[[], Awaitable[bytes]], sender: str) -> bytes:
        """Read a message with READ once there is a place for it, and return the answer. Raises NotTaken, also if READ
        raises it."""
        async with self._place(sender):
            message = await self._arrived(read, sender)
            try:
                reading = await asyncio.to_thread(self._intake.read, message, sender)
            except InvalidMessage as error:
                raise NotTaken(str(error), "INVALID_ARGUMENT", 400, NOT_UNDERSTOOD) from None
        answer: bytes = _answer(reading).SerializeToString()
        return answer

    @asynccontextmanager
    async def _place(self, sender: str) -> AsyncIterator[None]:
        """Hold one of the places for messages. Several messages of a sender get places in turn."""
        own = self._own.setdefault(sender, _OwnPlaces())
        own.users += 1
        with ExitStack() as held:
            held.callback(self._leave, sender)
            for free in (own.free, self._free):
                await self._wait_for(free, sender)
                held.callback(free.release)
            if self._full() or self._intake.full:
                raise NotTaken("the store is behind: send it again", "UNAVAILABLE", 503, DEFERRED)
            yield

    def _leave(self, sender: str) -> None:
        own = self._own[sender]
        own.users -= 1
        if not own.users:
            del self._own[sender]

    async def _wait_for(self, free: asyncio.Semaphore, sender: str) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                await free.acquire()
        except TimeoutError:
            raise NotTaken("too many messages at a time: send it again", "UNAVAILABLE", 503, DEFERRED) from None
        except asyncio.CancelledError:
            self._count_given_up(sender)
            raise

    async def _arrived(self, read: Callable[[], Awaitable[bytes]], sender: str) -> bytes:
        try:
            async with asyncio.timeout(ARRIVAL_S):
                return await read()
        except TimeoutError:
            reason = f"not there {ARRIVAL_S:g} s after its begin"
            raise NotTaken(reason, "DEADLINE_EXCEEDED", 408) from None
        except (OSError, asyncio.CancelledError):
            self._count_given_up(sender)
            raise

    def _count_given_up(self, sender: str) -> None:
        self.refusals.count(sender, REFUSED, "ended before it was taken")


def _answer(reading: ReadMessage) -> messages.Response:
    """Returns success, or the number of refused points with the reasons."""
    answer = messages.Response()
    if reading.refused:
        answer.partial_success.rejected_data_points = reading.refused.total()
        answer.partial_success.error_message = ", ".join(
            f"{format_count(number, 'point')}: {reason}" for reason, number in reading.refused.most_common(5)
        )
    return answer
