"""The ledger of deliveries: what was delivered to whom, and what failed. It is a file of JSON lines in the folder of
the reports; the last line of a delivery counts.

A line `sending` is on the disk before anything is sent, and `done` follows once the destination has accepted it. If a
delivery is still `sending` later (the machine or the connection failed before the answer), nobody can know whether it
arrived: it is never sent again, and reported as `unsure`.
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

WAIT_S = 600.0  # longest wait for another process that delivers
MOST_SENTENCES = 10
SENDING, DONE, FAILED, UNSURE = "sending", "done", "failed", "unsure"


@dataclass(frozen=True)
class DeliveryKey:
    """The key of a delivery: report, period and destination."""

    report: str
    since_ns: int
    until_ns: int
    to: str


class DeliveryLedger:
    """The ledger of a folder of reports. One process at a time may use it; others wait."""

    NAME = ".deliveries.jsonl"

    def __init__(self, path: Path, secrets: Secrets | None = None) -> None:
        self.path = path
        self.secrets = secrets or Secrets()  # older lines may contain them; they are not printed
        self.lines: list[dict[str, Any]] = []

    def __enter__(self) -> DeliveryLedger:
        """Raises MburstError if the ledger cannot be read or written."""
        self._file = files.open_private(self.path, os.O_APPEND)
        try:
            files.lock(self._file, self.path, WAIT_S)
            with os.fdopen(os.dup(self._file), "rb") as file:
                text = file.read().decode("utf-8", "replace")
        except BaseException:
            os.close(self._file)
            raise
        if text and not text.endswith("\n"):  # a crash cut the last line
            os.write(self._file, b"\n")
        self._take(text)
        for key, state in self._last().items():
            if state["state"] == SENDING:
                self.say(key, UNSURE, "it was being sent when mburst ended: it may have arrived, and is not sent again")
        return self

    @classmethod
    def seen(cls, path: Path, secrets: Secrets) -> DeliveryLedger:
        """Returns the present ledger for reading: nothing is locked or written. Raises MburstError if it exists and
        cannot be read."""
        ledger = cls(path, secrets)
        if os.path.lexists(path):
            ledger._take(files.read_own(path).decode("utf-8", "replace"))
        return ledger

    def _take(self, text: str) -> None:
        for line in text.splitlines():
            try:
                self.lines.append(_line(json.loads(line)))
            except (ValueError, KeyError, TypeError, RecursionError):  # a cut line was never acknowledged
                continue

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def say(self, key: DeliveryKey, state: str, error: str = "") -> None:
        """Write a line; it is on the disk when this returns. Raises MburstError."""
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
        """Returns the state of a delivery, or '' if it was never tried."""
        return str(self._last().get(key, {"state": ""})["state"])

    def failed(self, report: str, to: str) -> list[tuple[int, int]]:
        """Returns the periods of a report that failed to reach TO and may be tried again."""
        return [
            (key.since_ns, key.until_ns)
            for key, line in self._last().items()
            if (key.report, key.to) == (report, to) and line["state"] == FAILED
        ]

    def troubles(self, to: str) -> list[str]:
        """Returns what the next message to TO must report: first failures to TO since the last message that arrived,
        then deliveries to others that are still failed or unsure."""
        since = max((i for i, line in enumerate(self.lines) if line["to"] == to and line["state"] == DONE), default=-1)
        own = [line for line in self.lines[since + 1 :] if line["to"] == to and line["state"] in (FAILED, UNSURE)]
        latest = {line["key"]: line for line in own}
        others = [line for line in self._last().values() if line["to"] != to and line["state"] in (FAILED, UNSURE)]
        return self._sentences([*latest.values(), *others])

    def open_failures(self) -> list[str]:
        """Returns every delivery that is failed or unsure, for the index of reports."""
        return self._sentences([line for line in self._last().values() if line["state"] in (FAILED, UNSURE)])

    def _sentences(self, lines: list[dict[str, Any]]) -> list[str]:
        return [shown(self.secrets.hide(sentence(line))) for line in lines[-MOST_SENTENCES:]]


def _line(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns a line of the file with its key. Raises KeyError or TypeError for an invalid line."""
    texts, times = ("report", "to", "state", "error"), ("since_ns", "until_ns", "at_ns")
    if not all(isinstance(entry[name], str) for name in texts) or not all(
        type(entry[name]) is int and 0 <= entry[name] < 2**62 for name in times
    ):
        raise TypeError("not a line of a ledger")
    return {**entry, "key": DeliveryKey(*(entry[name] for name in DeliveryKey.__dataclass_fields__))}


def sentence(line: dict[str, Any]) -> str:
    """Returns a sentence about a failure."""
    from ...dashboards.common.words import moment
    from ...dashboards.rack.words import period

    verb = "was not delivered" if line["state"] == FAILED else "may not have been delivered"
    return (
        f"Report {line['report']} of {period(line['since_ns'], line['until_ns'])} {verb} to {line['to']} at "
        f"{moment(line['at_ns'])}: {line['error']}"
    )
