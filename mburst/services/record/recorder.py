"""The recorder: runs the engine on a capture and appends the rows that it yields to the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

from ...errors import Interrupted, MburstError
from ...messages import print_error
from ...process import alive, privileges
from ...process.stopping import stopping
from ...units import format_bytes, format_count
from . import gaps, interface_counters, pins, recovery
from .keeping import PacketKeeper
from .opening import open_capture
from .reading import AheadReader, Reader, Turn
from .recording import Notes, RecordProgress, RecordSettings, Row, fingerprint, is_live, is_repeatable
from .reserve import DiskReserve
from .rows import Attempt, RecordState, describe, silence_text, silent_lanes
from .tally import BinTally
from .watch import InterfaceMonitor

if TYPE_CHECKING:
    import signal

    import pyarrow as pa

    from ...capture import Facts, Lane, Rows
    from ...sql import StoreFolder
    from ...sql.locks import Lock
    from ...sql.repair.recovery import Totals
    from .recovery import Housekeeping

Until = Callable[[Callable[[], object]], AbstractContextManager[list["signal.Signals"]]]
ROWS_EVERY_S = 10.0  # longest time between a loss or an error and its row in the store
_LOCK_S = 10.0  # time for which another process may hold a dead recorder's lock while it recovers the recording


@dataclass(frozen=True)
class RecordResult:
    """The result of a recording: the rows of recordings, whether they are NEW, and an optional remark. For several
    interfaces also why some of them ended early."""

    rows: list[Row]
    new: bool = True
    remark: str = ""
    failures: Sequence[MburstError] = ()


def record(
    store: StoreFolder,
    recording: RecordSettings,
    progress: Callable[[RecordProgress], None] | None = None,
    until: Until = stopping,
) -> RecordResult:
    """Record into `store`: a row of recordings for each interface and direction. UNTIL calls the function that it is
    given when the recording shall end: by default on SIGINT, SIGTERM and SIGHUP.

    Files that were already recorded completely add nothing. Rows from an interrupted attempt count until this attempt
    is complete, and are then removed. If the input is damaged, everything before the damage is stored, and then the
    error is raised. If a signal interrupts the recording of files, what was read is stored, and then Interrupted is
    raised; a recording from an interface ends by such a signal and returns normally. Raises MburstError if another
    process records the same files with the same settings into STORE.
    """
    with _begun(recording) as reader:
        return _record(store, recording, reader, progress, until)


@contextmanager
def _begun(recording: RecordSettings) -> Iterator[Reader | None]:
    """Yields a reader that begins to read files at once, while the recording is set up. Yields None for an interface,
    which is opened only when its rows can be stored."""
    with privileges.raised():
        is_interface = is_live(recording)
    if is_interface:
        yield None
        return
    with closing((AheadReader if recording.threads > 1 else Reader)(open_capture(recording, {}))) as reader:
        yield reader


def _record(
    store: StoreFolder,
    recording: RecordSettings,
    reader: Reader | None,
    progress: Callable[[RecordProgress], None] | None,
    until: Until,
) -> RecordResult:
    with privileges.raised():
        capture_id, repeatable = fingerprint(recording), is_repeatable(recording)
    with locked(store, capture_id, recording) as lock:
        earlier = recovery.ended_attempts(store, capture_id, lock) if repeatable else {}
        if kept := recovery.complete_attempt(earlier):
            recovery.remove_replaced(store, earlier, kept)
            recovery.tidy(store, print_error)
            return RecordResult(earlier[kept], False, "already recorded: nothing added")
        with Recorder(store, recording, capture_id, lock, reader) as recorder:
            recorder.attach()
            privileges.drop(keep=recorder.rights)
            with (
                store.place.watched(lambda: recorder.stop(recorder.ended_by)),
                recovery.Housekeeping(store, recorder.trouble) as housekeeping,
            ):
                rows = recorder.run(progress, housekeeping, until)
        return RecordResult(rows, True, _replace(store, earlier, recorder.attempt.writer_id) if earlier else "")


def _replace(store: StoreFolder, earlier: dict[str, list[Row]], kept: str) -> str:
    """Remove the attempts that KEPT replaces, and return a sentence about them. Raises MburstError."""
    held = sum(row["bytes"] for rows in earlier.values() for row in rows)
    recovery.remove_replaced(store, earlier, kept)
    which = "an interrupted recording of it" if len(earlier) == 1 else f"{len(earlier)} interrupted recordings of it"
    return f"{which} ({format_bytes(held)}) {'was' if len(earlier) == 1 else 'were'} replaced"


@contextmanager
def locked(store: StoreFolder, capture_id: str, recording: RecordSettings) -> Iterator[Lock]:
    """Yields the lock of a capture. If the recording was begun but its end could not be stored, the lock's file
    remains. Raises MburstError if another process holds the lock."""
    lock = _lock(store, capture_id, recording)
    try:
        yield lock
    except BaseException:
        (lock.leave if lock.is_begun else lock.end)()
        raise
    lock.end()


def _lock(store: StoreFolder, capture_id: str, recording: RecordSettings) -> Lock:
    from ...sql import locks

    deadline = time.monotonic() + _LOCK_S
    while (lock := locks.acquire(store.path, capture_id)) is None:
        pid = locks.holder(store.path, capture_id)
        if time.monotonic() > deadline or (pid is not None and os.path.exists(f"/proc/{pid}")):
            which = f"process {pid}" if pid else "another process"
            raise MburstError(
                f"{' '.join(recording.targets)}: {which} is recording it into {store.path} with the same "
                "settings: nothing added",
                "wait until it has ended",
            )
        time.sleep(0.1)
    return lock


class Recorder:
    """One recording: the engine, the store's writers, and the lanes seen so far. As a context, it releases all that
    `attach` took if an exception ends the context before `run` has begun. `rights` are the capabilities that it needs
    until it has ended. SAY is called with errors of storing that the recorder survives."""

    def __init__(
        self,
        store: StoreFolder,
        recording: RecordSettings,
        capture_id: str,
        lock: Lock,
        reader: Reader | None,
        say: Callable[[MburstError], None] = print_error,
    ) -> None:
        from ...sql import new_writer

        self.store = store
        self.recording = recording
        self.lock = lock
        self._capture_id = capture_id
        self._say = say
        self.troubles = Notes("more troubles are on standard error alone")
        self.gave_up = self._has_begun = False
        self._writer_id = new_writer()
        names = (recording.host, recording.rack, self._writer_id, self.trouble)
        self.recordings = store.writer("recordings", *names)
        self.bins = store.writer("bins", *names)
        self.sources = store.writer("sources", *names)
        self.reserve = DiskReserve(store.path, recording.live.reserve_bytes, self.trouble)
        self.keeper = PacketKeeper(store.path, recording, self.trouble)
        self.reader = reader
        self.monitor: InterfaceMonitor | None = None
        self.lanes: list[Lane] = []  # belong to the newest rows, too
        self.rows: list[Row] = []  # the newest row of each lane
        self.tally = BinTally()
        self.held: dict[str, Totals] = {}  # totals of the first `counted` segments of bins
        self.counted = 0
        self.ended_by: list[signal.Signals] = []

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error:
            self.let_go(error)

    def let_go(self, error: BaseException) -> None:
        """Release all because of ERROR, such as KeyboardInterrupt, unless `run` has begun, which does so itself. A
        filter or a setting of the interface outlives the process, and a lock with a note is a killed recording."""
        if not self._has_begun:
            self.give_up(error)
            self.close()

    def attach(self) -> None:
        """Begin to count, and prepare the rows. Raises MburstError and ValueError."""
        recording = self.recording
        with privileges.raised():
            self.repeatable, live = is_repeatable(recording), is_live(recording)
        before = interface_counters.read(recording.targets[0]) if live else interface_counters.InterfaceCounters()
        with privileges.raised():
            self.pinned = pins.describe_unread(recording) if live else []
        self.reader = self.reader or Reader(open_capture(recording, self.keeper.options()))
        self.capture = self.reader.capture
        self.facts: Facts = self.reader.begun  # belong to the newest rows
        live, begun, since_ns = self.facts["live"], self.facts["begun"], self.facts["since_ns"]
        self.attempt = Attempt(
            recording,
            self._capture_id,
            self._writer_id,
            since_ns or time.time_ns(),
            live,
            interface_counters.of_then(before)
            if since_ns
            else interface_counters.read(recording.targets[0], begun)
            if begun
            else before,
        )
        self.lock.begin({"rows": self._silent_rows() if live else []})
        self.monitor = InterfaceMonitor(self.store, recording, self._writer_id, self.trouble) if live else None
        self.row_due = time.monotonic() + ROWS_EVERY_S
        self.rights = [privileges.NET_ADMIN] if self.facts["restores"] else []

    def trouble(self, error: MburstError) -> None:
        """Report and note an error of storing that the recorder survives. Also called from other threads."""
        self.troubles.add(str(error))
        if not self.gave_up:  # else a failure is reported
            self._say(error)

    def run(
        self,
        progress: Callable[[RecordProgress], None] | None,
        housekeeping: Housekeeping,
        until: Until = stopping,
        beat: Callable[[], None] = alive.beat,
    ) -> list[Row]:
        """Record until the end of the input, or until UNTIL ends the recording, and return the last rows. BEAT is
        called in every turn."""
        with until(self._stop) as self.ended_by:
            self._has_begun = True
            try:
                failure = self._read_all(progress, housekeeping, beat)
                rows = self._finish(failure)
                self._report(housekeeping)
            except BaseException as error:
                self.give_up(error)
                raise
            finally:
                self.close()
        if failure:
            raise failure
        if self.ended_by and not self.monitor:
            raise Interrupted(
                "interrupted",
                f"recorded before that: {format_count(self._packets(), 'packet')}; the same command records all"
                if self.repeatable
                else "",
            )
        return rows

    def _stop(self) -> None:
        self.stop(self.ended_by)

    def stop(self, ended_by: list[signal.Signals]) -> None:
        """End the recording. Pinned objects count on if SIGTERM ends it: a service manager may start it again."""
        self.capture.stop(SIGTERM in ended_by)

    def close(self) -> None:
        """Stop counting, except for pinned objects that shall continue, and release the ring of packets."""
        if self.reader:
            self.reader.close()
        self.keeper.close()

    def _read_all(
        self, progress: Callable[[RecordProgress], None] | None, housekeeping: Housekeeping, beat: Callable[[], None]
    ) -> MburstError | None:
        """Record to the end of the input, and return the error that ended it early, if any."""
        assert self.reader is not None
        while True:
            beat()
            try:
                turn = self.reader.read()
            except MburstError as failure:
                return failure
            if turn is None:
                return None
            bins = self._append(turn)
            if self.monitor:
                self.monitor.look(self.capture, self.rows)
                self.keeper.look(self.capture.facts)
                self._report(housekeeping)
            if progress:
                progress(self._progress(bins))

    def _report(self, housekeeping: Housekeeping) -> None:
        """Report to HOUSEKEEPING that the interface is recorded again, once there are rows of it."""
        if self.monitor and self.rows:
            housekeeping.recorded(self.recording.host, self.rows[0]["interface"])

    def _packets(self) -> int:
        return sum(lane["packets"] for lane in self.lanes)

    def _progress(self, bins: pa.RecordBatch | None) -> RecordProgress:
        end_ns = max((lane["end_ns"] for lane in self.lanes if lane["packets"]), default=0)
        return RecordProgress(self.recording, self._packets(), end_ns, self.lanes, self.facts, bins, self.rows)

    def _append(self, turn: Turn) -> pa.RecordBatch | None:
        known = len(self.lanes)
        self.lanes, self.facts = turn.lanes, turn.facts
        named = self._name_lanes(turn.bins) if len(turn.bins) else None
        if self.monitor and named is not None:
            self.monitor.check_stamps(named)
        if len(self.lanes) > known:
            self._append_rows()
            if self.monitor:  # its bins are shipped while it runs, and need their rows, which must be sealed for that
                self.recordings.roll()
        if named is not None:
            self._append_bins(named)
        if len(turn.sources):
            self.sources.append(self.reserve.within(self._name_lanes(turn.sources)))
        for writer in (self.bins, self.sources):
            if writer.hot_bytes > self.reserve.most_hot_bytes:
                writer.roll()
        if time.monotonic() > self.row_due and self._has_news():
            self._append_rows()
        return named

    def _append_bins(self, bins: pa.RecordBatch) -> None:
        """Append bins, and store the totals whenever a segment is full, so that few segments are not covered by
        them."""
        before = dict(self.tally.totals)
        self.bins.append(bins)
        self.tally.add(bins)
        if self.bins.segments - 1 > self.counted:
            self.held, self.counted = before, self.bins.segments - 1
            self._append_rows()

    def _has_news(self) -> bool:
        """Whether packets were lost or an error occurred that no row shows yet; checked every ROWS_EVERY_S."""
        self.row_due = time.monotonic() + ROWS_EVERY_S
        dropped, notes = self.facts["dropped"], "\n".join(self.troubles)
        return any(
            (row["notes"], row["dropped"], row["late"], row["unparsed"])
            != (notes, dropped, lane["late"], lane["unparsed"])
            for row, lane in zip(self.rows, self.lanes, strict=True)
        )

    def _name_lanes(self, rows: Rows) -> pa.RecordBatch:
        """Returns the engine's rows with the text columns of the store instead of the lane's number."""
        import pyarrow as pa

        [batch] = pa.RecordBatchReader.from_stream(rows)
        lane = batch.column("lane")
        one = pa.repeat(pa.scalar(0, pa.int16()), len(batch))

        def named(index: Any, names: list[str]) -> Any:
            return pa.DictionaryArray.from_arrays(index, pa.array(names, pa.string()))

        columns = {
            "recording_id": named(lane, [self.attempt.recording_id(i) for i in range(len(self.lanes))]),
            "host": named(one, [self.recording.host]),
            "rack": named(one, [self.recording.rack]),
            "interface": named(lane, [self.attempt.interface(lane) for lane in self.lanes]),
            "direction": named(lane, [lane["direction"] for lane in self.lanes]),
        }
        rest = [name for name in batch.schema.names if name != "lane"]
        return pa.RecordBatch.from_arrays(
            [*columns.values(), *(batch.column(name) for name in rest)], [*columns, *rest]
        )

    def _append_rows(self) -> None:
        """Store the present rows of all lanes during the recording."""
        self.rows = self._rows(RecordState(self.held, self.counted, self._counters(), notes=tuple(self.troubles)))
        self._store_rows()

    def _rows(self, state: RecordState) -> list[Row]:
        return [self.attempt.row(index, lane, self.facts, state) for index, lane in enumerate(self.lanes)]

    def _silent_rows(self) -> list[Row]:
        """Returns the rows of a recording from an interface without a packet so far."""
        state = RecordState({}, 0, self.attempt.begun)
        lanes = silent_lanes(self.recording, self.facts)
        return [self.attempt.row(index, lane, self.facts, state) for index, lane in enumerate(lanes)]

    def _store_rows(self) -> None:
        import pyarrow as pa

        from ...sql.tables import arrow_schema

        if self.rows:
            self.recordings.append(pa.Table.from_pylist(self.rows, arrow_schema("recordings")))

    def _counters(self) -> interface_counters.InterfaceCounters:
        return (
            interface_counters.read_again(self.attempt.begun)
            if self.monitor
            else interface_counters.InterfaceCounters()
        )

    # --- the end of a recording ---

    def _finish(self, failure: MburstError | None) -> list[Row]:
        """Store the last rows, after all rows that they refer to are on the disk. Raises MburstError."""
        self.lanes, self.facts = self.capture.lanes, self.capture.facts
        if self.monitor:
            self.monitor.look(self.capture, self.rows)
            self.monitor.close()
        self.bins.roll()  # `bins` and `sources` are sealed at the same time: each mostly waits for the disk
        self.sources.close()
        self.bins.close()
        self._check_totals()
        notes = self._notes(failure)
        ended = "failed" if failure else "stopped" if self.monitor else "interrupted"
        self._end(ended if failure or self.ended_by else "finished", notes)
        return self.rows

    def _end(self, ended: str, notes: list[str], reason: str = "failed") -> None:
        """Store the last rows, and the gap behind a recording from an interface that failed. Raises MburstError."""
        state = RecordState(self.tally.totals, self.counted, self._counters(), ended, tuple([*notes, *self.troubles]))
        self.rows = self._rows(state)
        if ended == "failed" and self.monitor:
            gaps.append(self.store, [gaps.opened(row, reason) for row in self.rows])
        self._store_rows()
        self.recordings.close()
        self.lock.is_begun = False

    def _check_totals(self) -> None:
        """Raises MburstError unless the totals of the bins equal the engine's."""
        for index, lane in enumerate(self.lanes):
            held = self.tally.totals.get(self.attempt.recording_id(index))
            stored = (held.packets, held.bytes, held.wire_bytes) if held else (0, 0, 0)
            counted = (lane["packets"], lane["bytes"], lane["wire_bytes"])
            if stored != counted:
                raise MburstError(
                    f"internal error: bins hold {stored[0]:,} packets and {stored[1]:,} bytes, and "
                    f"{counted[0]:,} and {counted[1]:,} were counted",
                    "please report this",
                )

    def _notes(self, failure: MburstError | None) -> list[str]:
        notes = [*describe(self.recording, self.capture, self.lanes), *self.reserve.notes()]
        if not self.capture.facts["live"] and (silence := self.tally.silence()):
            notes.append(silence_text(*silence))
        notes += [*self.pinned, *self.keeper.notes(self.capture.facts)]
        if failure:
            notes.append(f"the input ended early: {failure}")
            if self._packets() and not failure.hint:
                failure.hint = f"recorded before that: {format_count(self._packets(), 'packet')}"
        if self.monitor:
            notes += self.monitor.notes(self._packets(), self.ended_by)
        elif self.ended_by:
            notes.append("the recording was interrupted")
        return notes

    def give_up(self, error: BaseException) -> None:
        """Keep what is stored after ERROR (the store cannot be written, or the bins are refused), and store how the
        recording ended, if possible. If not, the next recorder learns it from the lock's file. ERROR is what gets
        reported: further errors, such as those of exhausted memory, do not replace it."""
        self.gave_up = True
        cause = error.__cause__
        full = isinstance(cause, OSError) and cause.errno in (ENOSPC, EDQUOT)
        reason = "disk full" if full else "failed"
        with suppress(Exception):
            self.lock.give_reason(reason)
        for writer in (self.sources, self.bins, self.monitor):
            with suppress(Exception):
                if writer:
                    writer.close()
        with suppress(Exception):
            if self.rows:
                self._end("failed", [f"the recording ended early: {error}"], reason)
            self.lock.is_begun = False
