"""Recovery: the next recorder completes what dead recorders left in a store.

A recorder holds the lock of its capture_id (sql/locks.py) while it runs. The file of a lock that nobody holds belongs
to a dead recorder: its rows get an end and the totals of its bins, and the gap behind it gets a row. If files were
recorded again, the rows of the interrupted attempts are removed. Each step may itself be interrupted; the next recorder
repeats it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...process import shortage
from . import gaps
from .recording import Row

if TYPE_CHECKING:
    from ...sql import StoreFolder
    from ...sql.locks import Lock
    from ...sql.repair.recovery import Totals

TIDY_S = 900.0  # as often as a segment is sealed


def attempts(store: StoreFolder, capture_id: str) -> dict[str, list[Row]]:
    """Returns the newest rows of all attempts at one capture, by writer_id, the first attempt first. Raises
    MburstError."""
    from ...sql.repair.recovery import rows_of

    if store.is_empty("recordings"):
        return {}
    found: dict[str, list[Row]] = {}
    rows = gaps.newest(rows_of(store.path, "recordings", "capture_id = ?", [capture_id]))
    for row in sorted(rows, key=lambda row: (row["begun_ns"], row["recording_id"])):
        found.setdefault(row["writer_id"], []).append(row)
    return found


def complete_attempt(found: dict[str, list[Row]]) -> str | None:
    """Returns the writer_id of the attempt that is complete, None if there is none."""
    return next((writer for writer, rows in found.items() if all(row["complete"] for row in rows)), None)


def ended_attempts(store: StoreFolder, capture_id: str, lock: Lock) -> dict[str, list[Row]]:
    """Returns the attempts at a capture for the holder of its LOCK, after writing the last rows of attempts whose
    recorder died. Raises MburstError."""
    found = attempts(store, capture_id)
    if complete_attempt(found) or all(row["ended"] for rows in found.values() for row in rows):
        return found
    for writer, rows in found.items():
        end_killed(store, writer, rows, lock.note.get("reason", ""))
    return attempts(store, capture_id)


def remove_replaced(store: StoreFolder, found: dict[str, list[Row]], kept: str) -> None:
    """Remove all attempts except KEPT, once KEPT is durable on the disk. Raises MburstError."""
    from ...sql.repair.recovery import make_durable, remove_writers

    others = set(found) - {kept}
    if others:
        make_durable(store.path, kept)
        remove_writers(store.path, others)


def recover(store: StoreFolder, capture_id: str, lock: Lock) -> None:
    """End the recording of LOCK, whose holder died. Raises MburstError; the lock's file then remains."""
    try:
        found = ended_attempts(store, capture_id, lock)
        if kept := complete_attempt(found):
            remove_replaced(store, found, kept)
        elif not found:
            for writer, rows in noted_rows(lock.note).items():
                end_killed(store, writer, rows, lock.note.get("reason", ""))
    except BaseException:
        lock.leave()
        raise
    lock.end()


def noted_rows(note: dict[str, Any]) -> dict[str, list[Row]]:
    """Returns the rows that a recorder noted in its lock before any packet came, by writer_id; {} if they are
    incomplete."""
    import pyarrow as pa

    from ...sql.tables import arrow_schema

    schema = arrow_schema("recordings")
    try:
        rows = pa.Table.from_pylist(note.get("rows", []), schema).to_pylist()
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        shortage.refuse(error, "cannot read what a recorder noted")
        return {}
    if not rows or any(row[field.name] is None for row in rows for field in schema if not field.nullable):
        return {}
    return {rows[0]["writer_id"]: rows}


def end_killed(store: StoreFolder, writer_id: str, rows: list[Row], reason: str) -> None:
    """Write the last rows of a dead writer's recordings, and the gaps behind them. Raises MburstError."""
    from ...sql.repair.recovery import totals

    unended = [row for row in rows if not row["ended"]]
    if not unended:
        return
    held = totals(store.path, writer_id, min(row["counted_segments"] or 0 for row in unended))
    ended = [_ended(row, held.get(row["recording_id"]), gaps.cause(row["boot_id"], reason)) for row in unended]
    live = [row for row in ended if row["boot_id"] is not None or row["backend"] == "otlp"]  # files have no gaps
    gaps.append(store, [gaps.opened(row, gaps.cause(row["boot_id"], reason)) for row in live])
    append_rows(store, writer_id, ended)


def append_rows(store: StoreFolder, writer_id: str, rows: list[Row]) -> None:
    """Store rows of recordings of one attempt, durably. Raises MburstError."""
    import pyarrow as pa

    with store.writer("recordings", gaps.host_of(rows), rows[0]["rack"], writer_id) as writer:
        writer.append(pa.Table.from_pylist(rows))


def _ended(row: Row, held: Totals | None, reason: str) -> Row:
    """Returns the last row of an interrupted recording, with the totals of its bins."""
    note = f"the recorder ended early ({reason}): totals are those of its bins"
    ended = {
        **row,
        "ended": "failed" if reason in ("failed", "disk full") else "killed",
        "complete": False,
        "counted_segments": None,
        "notes": "\n".join([*row["notes"].splitlines(), note]),
        "written_ns": max(time.time_ns(), row["written_ns"] + 1),
    }
    if held:
        end_ns = held.last_ns + row["bin_ns"]
        ended["start_ns"] = held.first_ns if row["start_ns"] is None else row["start_ns"]
        ended["end_ns"] = end_ns if row["end_ns"] is None else max(row["end_ns"], end_ns)
        ended["quality"] |= held.quality
        for name in ("packets", "bytes", "wire_bytes"):
            ended[name] += getattr(held, name)
    return ended


def tidy(store: StoreFolder, failed: Callable[[MburstError], None]) -> None:
    """Complete what dead writers left: their files, and the recordings that they did not end."""
    from ...sql import locks
    from ...sql.repair.recovery import clean
    from ...sql.writer import unless_damaged

    clean(store.path, unless_damaged(failed))
    for name in locks.names(store.path):
        try:
            lock = locks.acquire(store.path, name, make=False)
            if lock is not None:
                recover(store, name, lock)
        except MburstError as error:
            failed(error)


class Housekeeping:
    """A thread that tidies the store when recorders begin and then every TIDY_S, because other writers may die
    meanwhile and a failed seal may succeed later. It closes gaps of the recorders' interfaces once they have rows.
    FAILED is called once for each distinct error."""

    def __init__(self, store: StoreFolder, failed: Callable[[MburstError], None]) -> None:
        self._store = store
        self._failed = failed
        self._reported: set[str] = set()
        self._places: set[tuple[str, str]] = set()
        self._waiting: deque[tuple[str, str]] = deque()  # places whose gaps are not closed yet
        self._over = False
        self._news = threading.Event()  # set for a new place, or the end
        self._thread = threading.Thread(target=self._run, name="mburst-tidy", daemon=True)

    def __enter__(self) -> Housekeeping:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._news.set()
        self._thread.join()

    def recorded(self, host: str, interface: str) -> None:
        """Note that a recorder has stored rows of this interface."""
        if (host, interface) not in self._places and not self._over:
            self._places.add((host, interface))
            self._waiting.append((host, interface))
            self._news.set()

    def _run(self) -> None:
        self._attempt(lambda: tidy(self._store, self._say))
        while not self._over or self._waiting:
            if not self._news.wait(TIDY_S):
                self._attempt(lambda: tidy(self._store, self._say))
                continue
            self._news.clear()
            while self._waiting:
                self._close(*self._waiting.popleft())

    def _close(self, host: str, interface: str) -> None:
        self._attempt(lambda: gaps.close(self._store, host, interface))

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except MburstError as error:
            self._say(error)

    def _say(self, error: MburstError) -> None:
        if str(error) not in self._reported:
            self._reported.add(str(error))
            self._failed(error)
