"""Interruption of mburst's own process by Ctrl-C, SIGTERM or SIGHUP: it cleans up and ends. Queries of the database are
interrupted, too, because it ignores signals while its own threads work. Verbs that run until a signal handle these
signals themselves (stopping.py).
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from concurrent.futures import Future
    from types import FrameType

    import duckdb

EVERY_S = 0.05
REPEAT_S = 0.01
LOST_S = 1.0  # time after which a KeyboardInterrupt that nothing handles is raised again
INTERRUPTED = 130  # exit code of the command line
PATIENCE_S = 15.0  # longest time from a signal to the end of the work, and for each further step of the end
T = TypeVar("T")
_LOADS = {ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__}


class _SignalState:
    """The state of this process; there is only one."""

    own = False  # whether this is mburst's own process
    heard = False  # whether one of SIGNALS arrived that raises KeyboardInterrupt
    raised = False  # whether it has raised it
    since = 0.0  # monotonic time at which the present step of the end began
    woken = 0  # how many times the main thread has handled WAKING
    instead: Callable[[], object] | None = None  # what it calls in place of raising it
    give_up: Callable[[], object]  # ends the process if the work does not end


arrived: list[signal.Signals] = []  # signals that ended work of this process, in order
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: the terminal was closed
WAKING = signal.SIGURG  # ends a wait of the main thread; without effect otherwise, also in other programs
_open: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()


def own_process(give_up: Callable[[], object] = lambda: os._exit(INTERRUPTED)) -> None:
    """From now on, SIGNALS that have their default effect raise KeyboardInterrupt, and interrupt queries. GIVE_UP is
    called in another thread if the work has not ended after PATIENCE_S. Called at the start of a command; a program
    that imports mburst handles signals itself."""
    _SignalState.own, _SignalState.give_up = True, give_up
    with suppress(OSError, RuntimeError):  # no file, no thread: then only the main thread hears them
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        threading.Thread(target=_wait, args=[reading], name="mburst-interrupt", daemon=True).start()
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(WAKING, _note_woken)
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _raise)


def _note_woken(_number: int, _frame: FrameType | None) -> None:
    _SignalState.woken += 1


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and note it, because running code may convert it to another exception, as DuckDB does.
    Only Ctrl-C interrupts what the first signal began: others are often sent twice, to a process and to its group."""
    if _SignalState.instead:
        _SignalState.instead()
        return
    if number != signal.SIGINT and arrived:
        return
    if _is_loading(frame):
        _repeat(number)
        return
    _SignalState.heard = _SignalState.raised = True
    note_end(number)
    _free_in_silence()
    signal.signal(signal.SIGALRM, _look_again)
    signal.setitimer(signal.ITIMER_REAL, LOST_S, LOST_S)
    raise KeyboardInterrupt


def _look_again(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt again if it was lost, because this thread handles no exception: Python discards
    exceptions in `__del__` and as an import ends, and libraries discard those of what they call."""
    if not (_SignalState.instead or sys.exc_info()[1] or _is_loading(frame)):
        raise KeyboardInterrupt


def _is_loading(frame: FrameType | None) -> bool:
    """Whether an extension module is being loaded below FRAME. An exception in its code can end the process, as in
    that of DuckDB."""
    while frame:
        if frame.f_code in _LOADS:
            return True
        frame = frame.f_back
    return False


def _repeat(number: int) -> None:
    """Send the signal to this process again, after REPEAT_S."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, REPEAT_S)


def note_end(number: int) -> None:
    """Note that a signal has ended work: from now on, only Ctrl-C interrupts what follows, such as the output."""
    arrived.append(signal.Signals(number))


def call_instead(function: Callable[[], object]) -> None:
    """From now on, SIGNALS call FUNCTION in place of raising KeyboardInterrupt, which nothing would handle."""
    _SignalState.instead, _SignalState.since = function, time.monotonic()


def begin_step() -> None:
    """Note that a further step of the end begins, such as the end of another process: it may take PATIENCE_S again."""
    _SignalState.since = time.monotonic()


def _free_in_silence() -> None:
    """From now on, in mburst's own process, print nothing about errors in objects that Python frees, such as a
    half-made event loop or a coroutine that is never awaited."""
    if _SignalState.own:
        sys.unraisablehook = lambda unraisable: None
        warnings.simplefilter("ignore")


def was_raised() -> bool:
    """Whether one of SIGNALS has raised KeyboardInterrupt."""
    return _SignalState.raised


def is_own() -> bool:
    """Whether this is mburst's own process."""
    return _SignalState.own


def watch(connection: duckdb.DuckDBPyConnection) -> None:
    """From now on, SIGNALS interrupt CONNECTION if they also raise KeyboardInterrupt; other handlers end the work
    themselves. The connection is closed at the end of the process (ending.py)."""
    if threading.current_thread() is threading.main_thread():
        _open.add(connection)


def heard(error: BaseException) -> bool:
    """Whether ERROR is a consequence of one of SIGNALS, which raised KeyboardInterrupt or interrupted a query: it
    counts as the cause of all later errors. If the database noticed the signal before our thread did, its own message
    says so."""
    return _SignalState.heard or (isinstance(error, RuntimeError) and str(error) == "Query interrupted")


def _raises(number: int) -> bool:
    return number in SIGNALS and signal.getsignal(number) is _raise


def _wake(number: int) -> None:
    """Let the main thread handle a signal, also if it waits: the kernel may give a signal to any thread, and Python
    handles it in the main one, where WAKING comes after the others, since it has a higher number. Where the signal
    also interrupts a query, the caller does that meanwhile."""
    woken, end = _SignalState.woken, time.monotonic() + PATIENCE_S
    while _SignalState.woken == woken and time.monotonic() < end:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, WAKING)
        if _raises(number):
            return
        time.sleep(EVERY_S)


def _wait(reading: int) -> None:
    """Interrupt queries from such a signal until the process ends, because another one may begin before the exception
    is raised. Every PATIENCE_S take the next step of the end: the main thread may be in a library that no signal
    interrupts, such as one that waits for a server, or wait for a lock that it has itself, because the interruption
    fell between two steps of a library."""
    pause, heard = threading.Event(), 0
    while True:
        number = os.read(reading, 1)[0]
        if number not in SIGNALS:
            continue
        heard += 1
        _wake(number)
        is_handled = number != signal.SIGINT or heard <= len(arrived)
        if arrived and not _SignalState.raised and is_handled:  # by another handler, or it follows one that was
            continue
        _SignalState.since = time.monotonic()
        while _raises(number):
            _SignalState.heard = True
            _interrupt_all()
            if not _SignalState.raised:
                _wake(number)
            if time.monotonic() - _SignalState.since > PATIENCE_S:
                _SignalState.since = time.monotonic()
                step = _SignalState.instead or _SignalState.give_up
                try:
                    _thread.start_new_thread(step, ())  # as in stopping.py, without locks of `threading`
                except RuntimeError:  # no thread can be started
                    step()
            pause.wait(EVERY_S)


def _interrupt_all() -> None:
    """Interrupt all connections. It is a separate function, so that the thread holds no connection at the end of the
    process, about which the database would complain."""
    for connection in list(_open):
        with suppress(Exception):  # the connection was closed
            connection.interrupt()


def close_all() -> None:
    """Close the watched connections at the end of the process, so that the databases remove their temporary files."""
    for connection in list(_open):
        with suppress(Exception):  # the connection was closed
            connection.close()


def completed(futures: Collection[Future[T]]) -> Iterator[Future[T]]:
    """Yields FUTURES as they are done, and cancels the others in the end. `as_completed` takes locks of all of them,
    which an interruption would leave taken."""
    from queue import SimpleQueue

    done: SimpleQueue[Future[T]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(done.put)
    try:
        for _ in futures:
            yield done.get()
    finally:
        for future in futures:
            future.cancel()


def is_ignored_hangup(number: signal.Signals) -> bool:
    """Whether NUMBER is SIGHUP and the parent process ignored it (nohup), so that it stays ignored."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def leave_to_parent() -> None:
    """Ignore SIGINT. Called at the start of a process: the parent that waits for it handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave_hangup_to_parent() -> None:
    """Ignore SIGHUP. The parent handles it, even if it is sent to all processes or the terminal was closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
