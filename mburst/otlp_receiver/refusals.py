"""Counts of messages that were not taken, by reason: for rows of `gnmi_events`, and for the summary at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

REFUSED, DEFERRED, NOT_UNDERSTOOD = "refused", "deferred", "not-understood"  # events, as in `gnmi_events`
MOST_KINDS = 1000  # most distinct (sender, event, reason) between two reports
MOST_LINES = 1000


class NotTaken(Exception):
    """A message that is not taken. `grpc` is the name of the gRPC status, `http` the HTTP status."""

    def __init__(self, reason: str, grpc: str, http: int, event: str = REFUSED) -> None:
        super().__init__(reason)
        self.grpc, self.http, self.event = grpc, http, event


class Refusals:
    """Counts refusals. `say` gets a line for each sender and reason that users should know. Used by one thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lines: set[str] = set()
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self.total = 0

    def count(self, sender: str, event: str, reason: str) -> None:
        """Count one refusal."""
        key = (sender, event, reason)
        if key not in self._counted and len(self._counted) >= MOST_KINDS:
            key = ("", event, "others")
        self._counted[key] += 1
        self.total += 1

    def count_message(self, sender: str, refusal: NotTaken) -> None:
        """Count a message that was answered with a refusal."""
        self.count(sender, refusal.event, str(refusal))

    def count_connection(self, name: str, host: str, reason: str) -> None:
        """Count a connection that is not served, and report it once."""
        self.count(host or "local", REFUSED, reason)
        self.say_once(f"{host or name}: refused: {reason}")

    def say_once(self, line: str) -> None:
        """Report a line once."""
        if line not in self._lines and len(self._lines) < MOST_LINES:
            self._lines.add(line)
            self._say(line)

    def taken(self) -> Counter[tuple[str, str, str]]:
        """Returns the counts since the last call, by (sender, event, reason)."""
        found, self._counted = self._counted, Counter()
        return found
