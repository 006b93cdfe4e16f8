"""The stop of what runs until a signal: a process of ours by SIGINT, SIGTERM and SIGHUP, in another's by an event."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import printing
from .interrupting import is_ignored_hangup

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last: the terminal was closed
EVERY_S = 0.1  # at most between the end of what runs and that of the thread that waits to stop it


def wait_for_signals(wait: Callable[[float], object]) -> None:
    """WAIT, in the main thread, until it says that what it waits for is there. It is called with seconds, again and
    again: a signal that comes just before a wait without an end would be heard after it."""
    while not wait(EVERY_S):
        pass


@contextmanager
def stopping(
    stop: Callable[[], object], again: Callable[[signal.Signals], object] = lambda number: None
) -> Iterator[list[signal.Signals]]:
    """The first of SIGNALS calls `stop` while this lasts, and nothing under way is broken off, neither where nobody
    reads what is printed; the list says which came. What `stop` waits for must not be held by this thread, which it
    interrupts anywhere: set a plain flag, start a thread, or call an event loop's call_soon_threadsafe. Later signals
    call `again`. In another thread than the main one, where Python cannot handle signals, they are left alone."""
    printing.outlive_reader()
    ended_by: list[signal.Signals] = []
    once = iter((stop,))  # a second one may come inside of the first one's `stop`

    def end(number: int, _frame: Any) -> None:
        ended_by.append(signal.Signals(number))
        for call in once:
            call()
            return
        again(signal.Signals(number))

    if threading.current_thread() is not threading.main_thread():
        yield ended_by
        return
    before = {number: signal.signal(number, end) for number in SIGNALS if not is_ignored_hangup(number)}
    try:
        yield ended_by
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reloading(reload: Callable[[], object]) -> Iterator[None]:
    """SIGHUP calls `reload` while this lasts, as `stopping` calls `stop`. Where a terminal is watched, SIGHUP says that
    it is gone, and is left to `stopping`."""
    if threading.current_thread() is not threading.main_thread() or os.isatty(0):
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: reload())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def stopping_by(event: threading.Event | None, stop: Callable[[], object]) -> Iterator[list[signal.Signals]]:
    """The same for who handles signals otherwise: `stop` is called once EVENT is set, in a thread of its own."""
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
    """WORK in a thread of its own, which a signal leaves where it is: it may wait for a server for minutes, and can be
    broken off anywhere. The signals that came. Raises what WORK raises."""
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

    with stopping(threading.Thread(target=stop).start) as ended_by:
        threading.Thread(target=run, name="mburst-work", daemon=True).start()
        wait_for_signals(over.wait)
    if failures and not ended_by:
        raise failures[0]
    return ended_by
