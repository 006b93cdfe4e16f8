"""Ctrl-C ends a question to the database, which does not look up for signals while its own threads work."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import duckdb

EVERY_S = 0.05


class _SignalState:
    """Of this process; there is one."""

    own = False  # whether the process is mburst's
    waits = False  # whether a thread waits for SIGINT
    heard = False  # whether it came, and raised KeyboardInterrupt


_open: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def own_process() -> None:
    """At the start of a command: questions of this process may be interrupted. A program that imports mburst has
    signals of its own."""
    _SignalState.own = True
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    """KeyboardInterrupt, which what is under way may turn into another exception: DuckDB does."""
    _SignalState.heard = True
    _free_in_silence()
    signal.default_int_handler(number, frame)


def _free_in_silence() -> None:
    """From here on, where the process is ours, nothing is printed of what fails as Python frees it: an event loop that
    is half made, a coroutine that nobody awaits."""
    if _SignalState.own:
        sys.unraisablehook = lambda unraisable: None
        warnings.simplefilter("ignore")


def is_own() -> bool:
    """Whether the process is mburst's."""
    return _SignalState.own


def watch(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on SIGINT interrupts CONNECTION where it also raises KeyboardInterrupt: what handles it otherwise
    ends by itself. It is closed at the end of the process (ending.py)."""
    if threading.current_thread() is not threading.main_thread():
        return
    _open.add(connection)
    if _raises() and not _SignalState.waits:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=_wait, args=[reading], name="mburst-interrupt", daemon=True).start()
        _SignalState.waits = True


def heard(error: BaseException) -> bool:
    """Whether ERROR comes of SIGINT, which has raised KeyboardInterrupt or interrupted a question: what failed since
    then failed of that. Where the database looked up before our thread did, it says so itself."""
    return _SignalState.heard or (isinstance(error, RuntimeError) and str(error) == "Query interrupted")


def _raises() -> bool:
    return signal.getsignal(signal.SIGINT) is _raise


def _wait(reading: int) -> None:
    """Interrupts until the process ends, since the next question may begin before the exception is raised."""
    while signal.SIGINT not in os.read(reading, 1):
        pass
    _SignalState.heard |= _raises()
    pause = threading.Event()
    while _raises():
        _interrupt_all()
        pause.wait(EVERY_S)


def _interrupt_all() -> None:
    """In a function of its own: the database complains of a connection that a thread still holds at the end."""
    for connection in list(_open):
        with suppress(Exception):  # it was closed
            connection.interrupt()


def close_all() -> None:
    """Close what is watched, at the end of the process: a database that is closed removes what it put on the disk."""
    for connection in list(_open):
        with suppress(Exception):  # it was closed
            connection.close()


def is_ignored_hangup(number: signal.Signals) -> bool:
    """Whether NUMBER is SIGHUP and was ignored by who started this process (nohup), which holds on."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile, SIGTERM and SIGHUP end the process as Ctrl-C does, so that it cleans up."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        _free_in_silence()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [number for number in (signal.SIGTERM, signal.SIGHUP) if not is_ignored_hangup(number)]
    before = {number: signal.signal(number, interrupt) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_to_parent() -> None:
    """At the start of a process: Ctrl-C in a terminal is for the one that waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave_hangup_to_parent() -> None:
    """Likewise of SIGHUP: who sends it to all processes, or closes the terminal, means the one that started them."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
