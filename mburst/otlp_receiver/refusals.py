"""What was not taken of senders, counted by the reason: for rows of `gnmi_events`, and for people at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

REFUSED, DEFERRED, NOT_UNDERSTOOD = "refused", "deferred", "not-understood"  # events, as `gnmi_events` has them
MOST_KINDS = 1000  # (sender, event, reason) that are distinguished between two reports
MOST_LINES = 1000


class NotTaken(Exception):
    """A message that is not taken. `grpc`: gRPC's name of the status, `http`: that of HTTP."""

    def __init__(self, reason: str, grpc: str, http: int, event: str = REFUSED) -> None:
        super().__init__(reason)
        self.grpc, self.http, self.event = grpc, http, event


class Refusals:
    """Counts. `say` gets a line for each sender and reason that people should know of. For one thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lines: set[str] = set()
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self.total = 0

    def count(self, sender: str, event: str, reason: str) -> None:
        """One more that was not taken."""
        key = (sender, event, reason)
        if key not in self._counted and len(self._counted) >= MOST_KINDS:
            key = ("", event, "others")
        self._counted[key] += 1
        self.total += 1

    def count_message(self, sender: str, refusal: NotTaken) -> None:
        """A message that its sender got an answer for."""
        self.count(sender, refusal.event, str(refusal))

    def count_connection(self, name: str, host: str, reason: str) -> None:
        """A connection that is not served."""
        self.count(host or "local", REFUSED, reason)
        self.say_once(f"{host or name}: refused: {reason}")

    def say_once(self, line: str) -> None:
        """A line for people, once."""
        if line not in self._lines and len(self._lines) < MOST_LINES:
            self._lines.add(line)
            self._say(line)

    def taken(self) -> Counter[tuple[str, str, str]]:
        """What was counted since the last call, by (sender, event, reason)."""
        found, self._counted = self._counted, Counter()
        return found
