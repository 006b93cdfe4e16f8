"""One message of a sender: whether it may send, and what it is answered. The same for gRPC and HTTP."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from ..telemetry.otlp import messages
from ..telemetry.otlp.intake import Intake
from ..telemetry.otlp.reading import InvalidMessage, ReadMessage

WRONG_TOKEN_S = 1.0  # before a wrong token is answered
RETRY_S = 1  # that a sender should wait where the store is behind
AT_ONCE = 8  # messages that are in memory at a time


class NotTaken(Exception):
    """A message that is not taken. `status`: gRPC's name of it, and that of HTTP."""

    def __init__(self, reason: str, grpc: str, http: int) -> None:
        super().__init__(reason)
        self.grpc, self.http = grpc, http


@dataclass
class Reception:
    """Takes messages in. `full` says whether the store is behind, `say` gets a line for each sender that is refused."""

    intake: Intake
    token: str
    full: Callable[[], bool]
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._lines: set[str] = set()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def admit(self, sender: str, authorization: str) -> None:
        """Raises NotTaken unless the sender may send."""
        if not self.token or hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return
        self._say_once(f"{sender}: refused: the token is wrong or missing")
        await asyncio.sleep(WRONG_TOKEN_S)
        raise NotTaken("the bearer token is wrong or missing", "UNAUTHENTICATED", 401)

    async def take(self, message: bytes, sender: str) -> bytes:
        """The answer to a message. Raises NotTaken."""
        if self.full() or self.intake.full:
            self.intake.count(sender, "deferred", "the store was too slow: the sender was asked to send again")
            raise NotTaken("the store is behind: send it again", "UNAVAILABLE", 503)
        async with self._places:
            try:
                reading = await asyncio.to_thread(self.intake.read, message, sender)
            except InvalidMessage as error:
                raise NotTaken(str(error), "INVALID_ARGUMENT", 400) from None
        answer: bytes = _answer(reading).SerializeToString()
        return answer

    def _say_once(self, line: str) -> None:
        if line not in self._lines and len(self._lines) < 1000:
            self._lines.add(line)
            self.say(line)


def _answer(reading: ReadMessage) -> messages.Response:
    """Success, or which points are refused and why."""
    answer = messages.Response()
    if reading.refused:
        answer.partial_success.rejected_data_points = reading.refused.total()
        answer.partial_success.error_message = ", ".join(
            f"{number:,} points: {reason}" for reason, number in reading.refused.most_common(5)
        )
    return answer
