"""The ledger of deliveries: what was delivered to whom, and what failed. It is a file of JSON lines in the folder of
the reports; the last line of a delivery counts.

A line `due` of each destination is on the disk before the first of them is tried, so that what a kill or a power loss
prevented is tried by the next call. A line `sending` is there before the first byte with which a digest could arrive
(unless sending it twice does no harm), and `done` follows once the destination has accepted it. If a delivery is still
`sending` later (the machine or the connection failed before the answer), nobody can know whether it arrived: it is not
sent again, and reported as `unsure`.

The file has the newest deliveries only. They are counted, so that a clock that is wrong for a while removes none.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ... import files
from ...errors import MburstError
from ...names import shown
from ...units import NS_PER_DAY, NS_PER_HOUR
from ..secrets import Secrets

MOST_KEPT = 10_000  # deliveries; they are the newest when the file has twice as many lines
REPORTED_NS = 31 * NS_PER_DAY  # length of the newest periods of a report whose failures are reported
WAIT_S = 600.0  # longest wait for another process that delivers
MOST_SENTENCES = 10
SENDING, DONE, FAILED, UNSURE = "sending", "done", "failed", "unsure"
NOTHING = "nothing"  # there was nothing to send
DUE = "due"  # not begun yet
DUE_NS = NS_PER_HOUR  # after that time, what is still not begun is a failure


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
        with ExitStack() as opened:  # a failure releases the lock
            self._open(opened)
            if len(self.lines) > 2 * MOST_KEPT and files.is_own(self.path):  # another user's file remains that user's
                self._shorten()
                opened.close()
                self._open(opened)
            for key, state in self._last().items():
                if state["state"] == SENDING:
                    why = "it was being sent when mburst ended: it may have arrived, and is not sent again"
                    self.say(key, UNSURE, why)
            self._opened = opened.pop_all()
        return self

    def _open(self, opened: ExitStack) -> None:
        """Open, lock and read the file, until OPENED ends. Raises MburstError."""
        self._file = files.open_locked(self.path, WAIT_S, os.O_APPEND)
        opened.callback(os.close, self._file)
        try:
            with os.fdopen(os.dup(self._file), "rb") as file:
                text = file.read().decode("utf-8", "replace")
        except OSError as error:
            raise MburstError(f"{self.path}: cannot read: {error.strerror}", "nothing more is sent") from error
        if text and not text.endswith("\n"):  # a crash cut the last line
            self._append(b"\n")
        self._take(text)

    def _shorten(self) -> None:
        """Replace the file by one with the last lines of the newest deliveries. Raises MburstError."""
        newest = list(self._last().values())[-MOST_KEPT:]
        text = "".join(_text({name: value for name, value in line.items() if name != "key"}) for line in newest)
        files.write(self.path, text, "the ledger of deliveries", "nothing more is sent", files.PRIVATE)

    @classmethod
    def seen(cls, path: Path, secrets: Secrets) -> DeliveryLedger:
        """Returns the present ledger for reading: nothing is locked or written. Raises MburstError if it exists and
        cannot be read."""
        ledger = cls(path, secrets)
        if os.path.lexists(path):
            ledger._take(files.read_own(path).decode("utf-8", "replace"))
        return ledger

    def _take(self, text: str) -> None:
        self.lines = []
        for line in text.splitlines():
            try:
                self.lines.append(_line(json.loads(line)))
            except (ValueError, KeyError, TypeError, RecursionError):  # a cut line was never acknowledged
                continue

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def say(self, key: DeliveryKey, state: str, error: str = "") -> None:
        """Write a line; it is on the disk when this returns. Raises MburstError."""
        sentence = {**vars(key), "state": state, "at_ns": time.time_ns(), "error": error}
        self._append(_text(sentence).encode())
        self.lines.append({**sentence, "key": key})

    def _append(self, text: bytes) -> None:
        """Write TEXT to the disk completely. Raises MburstError; then the file is as before."""
        try:
            files.append(self._file, text)
            os.fsync(self._file)
        except OSError as error:
            raise MburstError(f"{self.path}: cannot write: {error.strerror}", "nothing more is sent") from error

    def _last(self) -> dict[DeliveryKey, dict[str, Any]]:
        """Returns the last line of each delivery, in the order of these lines."""
        last: dict[DeliveryKey, dict[str, Any]] = {}
        for line in self.lines:
            last.pop(line["key"], None)
            last[line["key"]] = line
        return last

    def state(self, key: DeliveryKey) -> str:
        """Returns the state of a delivery, or '' if it was never tried."""
        return str(self._last().get(key, {"state": ""})["state"])

    def plan(self, key: DeliveryKey) -> None:
        """Note that a delivery is due, unless it was ever noted. Raises MburstError."""
        if not self.state(key):
            self.say(key, DUE, "not begun")

    def give_up(self, report: str, to: str, until_ns: int) -> None:
        """Note as failed what was due in periods that ended until UNTIL_NS, and is not tried any more. Raises
        MburstError."""
        for key, line in self._last().items():
            if (key.report, key.to, line["state"]) == (report, to, DUE) and key.until_ns <= until_ns:
                self.say(key, FAILED, "not begun before mburst ended, and too old now")

    def failed(self, report: str, to: str) -> list[tuple[int, int]]:
        """Returns the periods of a report that failed to reach TO, or that were due and not begun, and may be tried
        again."""
        return [
            (key.since_ns, key.until_ns)
            for key, line in self._last().items()
            if (key.report, key.to) == (report, to) and line["state"] in (FAILED, DUE)
        ]

    def troubles(self, to: str) -> list[str]:
        """Returns what the next message to TO must report: first failures to TO since the last message that arrived,
        then deliveries to others that are still failed or unsure."""
        since = max((i for i, line in enumerate(self.lines) if line["to"] == to and line["state"] == DONE), default=-1)
        own = [line for line in self.lines[since + 1 :] if line["to"] == to and line["state"] in (FAILED, UNSURE)]
        latest = {line["key"]: line for line in own}
        return self._sentences([*latest.values(), *(line for line in self._open_lines() if line["to"] != to)])

    def open_failures(self) -> list[str]:
        """Returns every delivery of the last month that is failed or unsure, or due for long, for the index of reports
        and the status of the host."""
        late_ns = time.time_ns() - DUE_NS
        lines = self._open_lines((FAILED, UNSURE, DUE))
        return self._sentences([line for line in lines if line["state"] != DUE or line["at_ns"] <= late_ns])

    def _open_lines(self, states: tuple[str, ...] = (FAILED, UNSURE)) -> list[dict[str, Any]]:
        """Returns the last lines of deliveries in STATES, of the newest periods of each report that
        together are REPORTED_NS long: nobody can do anything about older ones."""
        last = self._last()
        periods: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for key in last:
            periods[key.report].add((key.until_ns, key.since_ns))
        reported = {report: _newest(ended) for report, ended in periods.items()}
        return [
            line
            for key, line in last.items()
            if line["state"] in states and (key.until_ns, key.since_ns) in reported[key.report]
        ]

    def _sentences(self, lines: list[dict[str, Any]]) -> list[str]:
        return [shown(self.secrets.hide(sentence(line))) for line in lines[-MOST_SENTENCES:]]


def _newest(periods: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Returns the newest of PERIODS (end and begin, ns) that together are REPORTED_NS long."""
    newest, length_ns = set(), 0
    for until, since in sorted(periods, reverse=True):
        if length_ns >= REPORTED_NS:
            break
        newest.add((until, since))
        length_ns += until - since
    return newest


def _text(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


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

    verb = "may not have been delivered" if line["state"] == UNSURE else "was not delivered"
    return (
        f"Report {line['report']} of {period(line['since_ns'], line['until_ns'])} {verb} to {line['to']} at "
        f"{moment(line['at_ns'])}: {line['error']}"
    )
