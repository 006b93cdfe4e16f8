"""Several interfaces in one process. Each is a separate recording, by a recorder in its own thread. They begin
together, once all are attached, and end together; one that fails earlier ends alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from ...errors import MburstError
from ...messages import print_error
from ...process import alive, privileges
from ...process.stopping import stopping, wait_for_signals
from .recorder import Recorder, RecordResult, Until, locked
from .recording import RecordProgress, RecordSettings, fingerprint
from .recovery import Housekeeping

if TYPE_CHECKING:
    import signal
    from types import TracebackType

    from ...sql import StoreFolder

Progress = Callable[[RecordProgress], None]


def record_several(
    store: StoreFolder, recordings: list[RecordSettings], progress: Progress | None = None, until: Until = stopping
) -> RecordResult:
    """Record interfaces into STORE, each as recorder.record does, until UNTIL ends all of them. PROGRESS is called by
    one thread at a time.

    Raises MburstError, before anything is recorded, if one of the interfaces cannot be captured from. A later failure
    of one is reported on standard error and in the result, and the others continue."""
    with _attached(store, recordings) as captures:
        privileges.drop(keep={right for one in captures for right in one.recorder.rights})
        return _Several(captures, progress).run(store, until)


class _OneOfSeveral:
    """One interface. Once it is attached, its lock is held until the context `held` ends."""

    def __init__(self, recording: RecordSettings) -> None:
        self.recording = recording
        self.name = recording.targets[0]
        self.thread: threading.Thread | None = None
        self.held = ExitStack()

    def attach(self, store: StoreFolder, said: _SaidOnce) -> None:
        """Begin to count. Raises MburstError and ValueError."""
        capture_id = fingerprint(self.recording)
        lock = self.held.enter_context(locked(store, capture_id, self.recording))
        self.recorder = self.held.enter_context(
            Recorder(store, self.recording, capture_id, lock, None, lambda error: said.say(self.name, error))
        )
        self.recorder.attach()

    def begin(self, record: Callable[[_OneOfSeveral], None]) -> None:
        """Run RECORD in a thread."""
        self.thread = threading.Thread(target=record, args=(self,), name="mburst-record")
        self.thread.start()

    def let_go(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End a context: after an error, give up without recording, unless the thread has already begun."""
        if error and (self.thread is None or self.thread.ident is None):
            self.held.__exit__(kind, error, trace)

    def wait(self) -> None:
        """Wait until the thread has ended."""
        if self.thread and self.thread.ident is not None:
            wait_for_signals(self._has_ended)

    def _has_ended(self, wait_s: float) -> bool:
        if self.thread:
            self.thread.join(wait_s)
        return not (self.thread and self.thread.is_alive())


@contextmanager
def _attached(store: StoreFolder, recordings: list[RecordSettings]) -> Iterator[list[_OneOfSeveral]]:
    """Yields all interfaces, attached. If anything fails, those whose thread has not begun are released."""
    captures: list[_OneOfSeveral] = []
    said = _SaidOnce()
    with ExitStack() as released:
        for recording in recordings:
            captures.append(_OneOfSeveral(recording))
            released.push(captures[-1].let_go)
            captures[-1].attach(store, said)
        yield captures


class _SaidOnce:
    """Prints the errors of the recorders on standard error. An error that several of them report, such as a full disk,
    is printed once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_all: Counter[str] = Counter()
        self._by_one: Counter[tuple[str, str]] = Counter()

    def say(self, name: str, error: MburstError) -> None:
        """Print ERROR of the recorder NAME, unless another recorder already reported it as often."""
        text = str(error)
        with self._lock:
            self._by_one[name, text] += 1
            if self._by_one[name, text] > self._by_all[text]:
                self._by_all[text] += 1
                print_error(error)


class _Several:
    """The threads of all interfaces while they record."""

    def __init__(self, captures: list[_OneOfSeveral], progress: Progress | None) -> None:
        self._captures = captures
        self._progress = progress
        self._one_at_a_time = threading.Lock()
        self._recording = [one.name for one in captures]
        self._alive = alive.SeveralLoops(self._recording)
        self._ended_by: list[signal.Signals] = []
        self._failures: list[MburstError] = []
        self._unforeseen: list[BaseException] = []

    def run(self, store: StoreFolder, until: Until) -> RecordResult:
        """Record until all recordings have ended."""
        with (
            store.place.watched(self._stop),
            Housekeeping(store, self._trouble) as self._housekeeping,
            until(self._stop) as self._ended_by,
        ):
            try:
                for one in self._captures:
                    one.begin(self._record)
                for one in self._captures:
                    one.wait()
            except BaseException:  # such as KeyboardInterrupt
                self._stop()
                for one in self._captures:
                    one.wait()
                raise
        if self._unforeseen:
            raise self._unforeseen[0]
        return RecordResult([row for one in self._captures for row in one.recorder.rows], True, "", self._failures)

    def _stop(self) -> None:
        for one in self._captures:
            one.recorder.stop(self._ended_by)

    def _trouble(self, error: MburstError) -> None:
        for one in self._captures:
            one.recorder.trouble(error)

    def _record(self, one: _OneOfSeveral) -> None:
        """Run one recorder; the body of its thread."""
        failure: MburstError | None = None
        try:
            with one.held:
                one.recorder.run(
                    self._report if self._progress else None,
                    self._housekeeping,
                    lambda _: nullcontext(self._ended_by),
                    lambda: self._alive.beat(one.name),
                )
        except MburstError as error:
            failure = error
        except BaseException as error:  # not lost: `run` raises it
            self._unforeseen.append(error)
            self._stop()
        self._end(one, failure)

    def _report(self, progress: RecordProgress) -> None:
        with self._one_at_a_time:
            if self._progress:
                self._progress(progress)

    def _end(self, one: _OneOfSeveral, failure: MburstError | None) -> None:
        self._alive.end(one.name)
        with self._one_at_a_time:
            self._recording.remove(one.name)
            if failure:
                self._failures.append(failure)
                others = f"{', '.join(self._recording)} {'goes' if len(self._recording) == 1 else 'go'} on"
                remarks = [failure.hint] * bool(failure.hint) + [others] * bool(self._recording)
                print_error(MburstError(f"{failure}" + (f" ({'; '.join(remarks)})" if remarks else "")))
