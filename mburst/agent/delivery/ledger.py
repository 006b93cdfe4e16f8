"""What was delivered, to whom, and what was not: a file of JSON lines beside the reports, the last line of a delivery
counts.

A line `sending` is on the disk before anything is sent, and `done` after it was taken. Whoever finds a delivery that
was left at `sending` (the machine died, or the connection did before an answer) cannot know whether it arrived: it is
never sent again, and reported as `unsure`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ... import files
from ...errors import MburstError
from ...names import shown
from ..secrets import Secrets

WAIT_S = 600.0  # for another process to deliver
MOST_SENTENCES = 10
SENDING, DONE, FAILED, UNSURE = "sending", "done", "failed", "unsure"


@dataclass(frozen=True)
class DeliveryKey:
    """A delivery: which report, of which period, to whom."""

    report: str
    since_ns: int
    until_ns: int
    to: str


class DeliveryLedger:
    """The ledger of a folder of reports, for one process at a time: others wait."""

    NAME = ".deliveries.jsonl"

    def __init__(self, path: Path, secrets: Secrets | None = None) -> None:
        self.path = path
        self.secrets = secrets or Secrets()  # that older lines may hold, and that are not printed
        self.lines: list[dict[str, Any]] = []

    def __enter__(self) -> DeliveryLedger:
        """Raises MburstError where it cannot be read or written."""
        self._file = files.open_private(self.path, os.O_APPEND)
        try:
            files.lock(self._file, self.path, WAIT_S)
            with os.fdopen(os.dup(self._file), "rb") as file:
                text = file.read().decode("utf-8", "replace")
        except BaseException:
            os.close(self._file)
            raise
        if text and not text.endswith("\n"):  # a line that was cut by a crash
            os.write(self._file, b"\n")
        self._take(text)
        for key, state in self._last().items():
            if state["state"] == SENDING:
                self.say(key, UNSURE, "it was being sent when mburst ended: it may have arrived, and is not sent again")
        return self

    @classmethod
    def seen(cls, path: Path, secrets: Secrets) -> DeliveryLedger:
        """The ledger as it is now, to be asked alone: nothing is locked or written. Raises MburstError where there is
        one that cannot be read."""
        ledger = cls(path, secrets)
        if os.path.lexists(path):
            ledger._take(files.read_own(path).decode("utf-8", "replace"))
        return ledger

    def _take(self, text: str) -> None:
        for line in text.splitlines():
            try:
                self.lines.append(_line(json.loads(line)))
            except (ValueError, KeyError, TypeError, RecursionError):  # a cut line has nothing that was acknowledged
                continue

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def say(self, key: DeliveryKey, state: str, error: str = "") -> None:
        """Write a line, on the disk when this returns. Raises MburstError."""
        sentence = {**vars(key), "state": state, "at_ns": time.time_ns(), "error": error}
        try:
            os.write(self._file, (json.dumps(sentence, ensure_ascii=False) + "\n").encode())
            os.fsync(self._file)
        except OSError as failure:
            raise MburstError(f"{self.path}: cannot write: {failure.strerror}", "nothing more is sent") from failure
        self.lines.append({**sentence, "key": key})

    def _last(self) -> dict[DeliveryKey, dict[str, Any]]:
        return {line["key"]: line for line in self.lines}

    def state(self, key: DeliveryKey) -> str:
        """The state of a delivery, or '' where it was never tried."""
        return str(self._last().get(key, {"state": ""})["state"])

    def failed(self, report: str, to: str) -> list[tuple[int, int]]:
        """The periods of a report that failed to reach TO and may be tried again."""
        return [
            (key.since_ns, key.until_ns)
            for key, line in self._last().items()
            if (key.report, key.to) == (report, to) and line["state"] == FAILED
        ]

    def troubles(self, to: str) -> list[str]:
        """What the next message to TO must report: failures since the last one that arrived, those to it first,
        and deliveries to others that are still failed or unsure."""
        since = max((i for i, line in enumerate(self.lines) if line["to"] == to and line["state"] == DONE), default=-1)
        own = [line for line in self.lines[since + 1 :] if line["to"] == to and line["state"] in (FAILED, UNSURE)]
        latest = {line["key"]: line for line in own}
        others = [line for line in self._last().values() if line["to"] != to and line["state"] in (FAILED, UNSURE)]
        return self._sentences([*latest.values(), *others])

    def open_failures(self) -> list[str]:
        """Every delivery that is failed or unsure, for the index of reports."""
        return self._sentences([line for line in self._last().values() if line["state"] in (FAILED, UNSURE)])

    def _sentences(self, lines: list[dict[str, Any]]) -> list[str]:
        return [shown(self.secrets.hide(sentence(line))) for line in lines[-MOST_SENTENCES:]]


def _line(entry: dict[str, Any]) -> dict[str, Any]:
    """A line that was read, with its key. Raises KeyError and TypeError for what is none."""
    texts, times = ("report", "to", "state", "error"), ("since_ns", "until_ns", "at_ns")
    if not all(isinstance(entry[name], str) for name in texts) or not all(
        type(entry[name]) is int and 0 <= entry[name] < 2**62 for name in times
    ):
        raise TypeError("not a line of a ledger")
    return {**entry, "key": DeliveryKey(*(entry[name] for name in DeliveryKey.__dataclass_fields__))}


def sentence(line: dict[str, Any]) -> str:
    """A failure in a sentence."""
    from ...dashboards.common.words import moment
    from ...dashboards.rack.words import period

    verb = "was not delivered" if line["state"] == FAILED else "may not have been delivered"
    return (
        f"Report {line['report']} of {period(line['since_ns'], line['until_ns'])} {verb} to {line['to']} at "
        f"{moment(line['at_ns'])}: {line['error']}"
    )
