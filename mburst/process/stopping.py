"""Stopping of long-running work: in mburst's own process by SIGINT, SIGTERM and SIGHUP, in another program by an
event."""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from . import printing
from .interrupting import INTERRUPTED, SIGNALS, is_ignored_hangup, note_end, was_raised

EVERY_S = 0.1  # longest delay between the end of the work and that of the thread that waits to stop it


def exit_code(ended_by: Sequence[signal.Signals]) -> int:
    """Returns the exit code of work that has been done until the first of these signals."""
    return INTERRUPTED if signal.SIGINT in ended_by[:1] else 0


def wait_for_signals(wait: Callable[[float], object]) -> None:
    """Call WAIT in the main thread until it returns true. It is called repeatedly with a number of seconds, because a
    signal just before an unlimited wait would only be handled after it."""
    while not wait(EVERY_S):
        pass


@contextmanager
def stopping(
    stop: Callable[[], object], again: Callable[[signal.Signals], object] = lambda number: None
) -> Iterator[list[signal.Signals]]:
    """In this context the first of SIGNALS calls `stop`, and running work is not interrupted, even if nobody reads the
    output, for which it does not wait: print no results in it, because what nobody reads is left out. Yields the list
    of signals that arrived. Later signals call `again`. Both run in threads of their own, which may overtake each
    other: the signal interrupts this thread anywhere, also while it holds a lock, such as that of the Event for which
    it waits. They have returned when the context ends. In other threads than the main one, where Python cannot handle
    signals, nothing of signals is changed. Raises KeyboardInterrupt if a signal had raised it before, and it was
    lost."""
    ended_by: list[signal.Signals] = []
    running: list[_thread.LockType] = []
    once = iter((stop,))  # a second signal may arrive before this is used

    def end(number: int, _frame: Any) -> None:
        ended_by.append(signal.Signals(number))
        note_end(number)
        printing.note_readers()
        running.append(_call_beside(next(once, lambda: again(signal.Signals(number)))))

    with printing.without_waiting():
        if threading.current_thread() is not threading.main_thread():
            yield ended_by
            return
        with ExitStack() as ending:  # a handler may raise between two calls
            ending.callback(lambda: [call.acquire() for call in running])
            for number in SIGNALS:
                if not is_ignored_hangup(number):
                    ending.callback(signal.signal, number, signal.getsignal(number))
                    signal.signal(number, end)
            if was_raised():
                raise KeyboardInterrupt
            yield ended_by


def _call_beside(function: Callable[[], object]) -> _thread.LockType:
    """Call FUNCTION in a thread, from a signal handler. Returns a lock that is free once it has returned. The classes
    of `threading` are not used, because they take locks that the interrupted thread may hold."""
    call = _thread.allocate_lock()
    call.acquire()

    def run() -> None:
        try:
            function()
        finally:
            call.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # no thread can be started
        run()
    return call


@contextmanager
def reloading(reload: Callable[[], object]) -> Iterator[None]:
    """In this context SIGHUP calls `reload`, in a thread as `stopping` calls `stop`. With a terminal, SIGHUP means that
    it is gone, and is left to `stopping`."""
    if threading.current_thread() is not threading.main_thread() or os.isatty(0):
        yield
        return
    running: list[_thread.LockType] = []
    with ExitStack() as ending:
        ending.callback(lambda: [call.acquire() for call in running])
        ending.callback(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        signal.signal(signal.SIGHUP, lambda _number, _frame: running.append(_call_beside(reload)))
        yield


@contextmanager
def stopping_by(event: threading.Event | None, stop: Callable[[], object]) -> Iterator[list[signal.Signals]]:
    """Like `stopping`, for programs that handle signals themselves: a separate thread calls `stop` once EVENT is
    set."""
    if event is None:
        yield []
        return
    over = threading.Event()

    def wait() -> None:
        while not over.is_set():
            if event.wait(EVERY_S):
                stop()
                return

    waiting = threading.Thread(target=wait, name="mburst-stop", daemon=True)
    waiting.start()
    try:
        yield []
    finally:
        over.set()
        waiting.join()


def until_stopped(work: Callable[[threading.Event], object]) -> list[signal.Signals]:
    """Run WORK in a separate thread, and return the signals that arrived. A signal does not wait for the thread, which
    may be waiting for a server for minutes and can be abandoned anywhere. Raises what WORK raises."""
    over, stopped = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work(stopped)
        except BaseException as error:
            failures.append(error)
        over.set()

    def stop() -> None:
        stopped.set()
        over.set()

    with stopping(stop) as ended_by:
        threading.Thread(target=run, name="mburst-work", daemon=True).start()
        wait_for_signals(over.wait)
    if failures and not ended_by:
        raise failures[0]
    return ended_by
