"""Signals that end a command, however many arrive and whenever."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading

import pytest

from mburst.process import stopping as stopping_module
from mburst.process.interrupting import SIGNALS
from mburst.process.stopping import reloading, stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_once_and_all_are_listed(number):
    before = signal.getsignal(number)
    calls = []
    with stopping(lambda: calls.append(number)) as ended_by:
        assert not ended_by
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGTERM)
    assert calls == [number] and ended_by == [number, signal.SIGTERM]
    assert signal.getsignal(number) is before


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_an_interruption_at_the_start_leaves_no_handler_behind(monkeypatch):
    def interrupt(number: signal.Signals) -> bool:
        if number == signal.SIGHUP:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(stopping_module, "is_ignored_hangup", interrupt)
    before = handlers()
    with pytest.raises(KeyboardInterrupt), stopping(lambda: None):
        pass
    assert handlers() == before


def test_an_interruption_at_the_end_leaves_no_handler_behind(monkeypatch):
    before, set_handler = handlers(), signal.signal

    def interrupt(number: signal.Signals, handler: object) -> object:
        result = set_handler(number, handler)
        if handler is before[SIGNALS.index(number)]:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(signal, "signal", interrupt)
    with pytest.raises(KeyboardInterrupt), stopping(lambda: None):
        pass
    assert handlers() == before


def test_a_signal_does_not_wait_for_a_lock_of_the_thread_that_it_interrupts():
    """`Event.wait` holds one for a moment, and `Event.set` takes it."""
    lock, calls = threading.Lock(), []

    def call(name: str) -> None:
        with lock:
            calls.append(name)

    with stopping(lambda: call("stop"), lambda number: call(number.name)), lock:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert sorted(calls) == ["SIGTERM", "stop"]


def test_a_reload_does_not_wait_for_a_lock_of_the_thread_that_it_interrupts(monkeypatch):
    monkeypatch.setattr("os.isatty", lambda descriptor: False)
    lock, before, calls = threading.Lock(), signal.getsignal(signal.SIGHUP), []

    def reload() -> None:
        with lock:
            calls.append("reload")

    with reloading(reload), lock:
        signal.raise_signal(signal.SIGHUP)
    assert calls == ["reload"] and signal.getsignal(signal.SIGHUP) is before


def test_a_signal_that_cannot_start_a_thread_stops_nevertheless(monkeypatch):
    def refuse(*given: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    calls = []
    with stopping(lambda: calls.append("stop")):
        signal.raise_signal(signal.SIGINT)
        assert calls == ["stop"]


LOST_INTERRUPT = """
import signal
from mburst.process import ending, interrupting
from mburst.process.stopping import stopping

class Freed:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def discard():
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        pass  # as a library does with exceptions of what it calls

def compute():
    for _ in range(200):
        signal.sigtimedwait([], 0.1)

def begin_to_wait():
    with stopping(lambda: None):
        print("works")

interrupting.LOST_S = 0.05 if {work} is compute else 60
interrupting.own_process()
try:
    {lose}()
    {work}()
except KeyboardInterrupt:
    print("ends")
ending.end(0)
"""


@pytest.mark.parametrize("lose", ["Freed", "discard"])
@pytest.mark.parametrize("work", ["compute", "begin_to_wait"])
def test_a_signal_is_not_lost_where_exceptions_are_discarded(lose, work):
    program = LOST_INTERRUPT.format(lose=lose, work=work)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


CLEANS_UP = """
import signal
from mburst.process import ending, interrupting

def wait():
    for _ in range(10):
        signal.sigtimedwait([], 0.05)

interrupting.LOST_S = 0.05
interrupting.own_process()
try:
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        wait()
        print("cleaned up")
except KeyboardInterrupt:
    print("ends")
ending.end(0)
"""


def test_what_an_interruption_cleans_up_is_not_interrupted():
    done = subprocess.run([sys.executable, "-c", CLEANS_UP], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\nends\n", "")


def test_a_hangup_that_was_ignored_at_the_start_stays_ignored():
    """nohup relies on that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping(lambda: None) as ended_by:
            signal.raise_signal(signal.SIGHUP)
        assert not ended_by and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


LOST = """
import ctypes, os, signal, threading, time
from mburst.process.stopping import until_stopped

def work(stopped):
    time.sleep(0.3)  # the main thread waits
    ctypes.CDLL(None).tgkill(os.getpid(), threading.get_native_id(), signal.SIGTERM)
    if not stopped.wait(20):
        os._exit(1)

assert until_stopped(work) == [signal.SIGTERM]
"""


def test_a_signal_that_interrupts_no_wait_is_handled():
    """A signal may arrive just before the main thread waits, which then continues to sleep. Here it goes to another
    thread."""
    subprocess.run([sys.executable, "-c", LOST], check=True, timeout=60)


IDLE = """
import asyncio, ctypes, os, signal, sys, threading, time
from mburst.process import ending, interrupting
from mburst.process.stopping import stopping

def end(number):
    time.sleep(0.3)  # the main thread waits
    ctypes.CDLL(None).tgkill(os.getpid(), threading.get_native_id(), number)

async def serve():
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    with stopping(lambda: loop.call_soon_threadsafe(over.set)) as ended_by:
        await over.wait()
    assert len(ended_by) == 1

def read():
    try:
        os.read(os.pipe()[0], 1)
    except KeyboardInterrupt:
        return
    os._exit(1)

def take():
    lock = threading.Lock()
    lock.acquire()
    with stopping(lock.release) as ended_by:
        lock.acquire()
    assert len(ended_by) == 1

interrupting.own_process()
threading.Thread(target=end, args=[int(sys.argv[2])], daemon=True).start()
{"serve": lambda: asyncio.run(serve()), "read": read, "take": take}[sys.argv[1]]()
print("ended")
ending.end(0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wait", ["serve", "read", "take"])
def test_a_signal_that_another_thread_gets_ends_an_unlimited_wait(wait, number):
    """The kernel may give a signal of a process to any of its threads. Python handles it in the main one, and does not
    interrupt what that waits for."""
    command = [sys.executable, "-c", IDLE, wait, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_another_thread_does_not_change_signal_handlers():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run() -> None:
        with stopping(lambda: None) as ended_by:
            seen.extend((signal.getsignal(signal.SIGTERM), ended_by))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before, []]


INTERRUPTED = """
import os, signal, sys
from mburst import __main__, cli
from mburst.process import interrupting
from mburst.sql import in_memory

def fail(_):
    con = in_memory()  # from here on a thread waits for SIGINT; it does not come to run
    sys.setswitchinterval(100)
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise {error}

cli.carry_out = fail
sys.argv = ["mburst", "check", "store"]
sys.exit(__main__.command())
"""


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError('Query interrupted')",
        "OSError('INTERRUPT Error: Interrupted!')",
        "KeyboardInterrupt",
        "MemoryError",
        "__main__.MburstError('cannot read: INTERRUPT Error: Interrupted!')",
    ],
)
def test_failures_caused_by_an_interruption_are_one_line(error):
    """DuckDB and Arrow turn the exception of the signal, or the interruption of a query, into other exceptions."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(error=error)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "mburst: interrupted\n")


def test_other_failures_are_no_interruption():
    code = INTERRUPTED.replace("os.kill(os.getpid(), signal.SIGINT)", "raise KeyboardInterrupt").format(
        error="__main__.MburstError('no such thing')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "mburst: no such thing\n")


LATE = """
import signal, sys, time
from mburst.process import interrupting, stopping
from mburst.sql import in_memory
interrupting.own_process()
connection = in_memory()
with stopping.stopping(lambda: None):
    signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGHUP)
time.sleep(0.2)
[(number,)] = connection.execute("SELECT sum(a.range) FROM range(10_000) a, range(10_000) b").fetchall()
print("prints what it did:", number)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_second_sigterm_does_not_interrupt_what_follows_the_first():
    """Others than Ctrl-C are often sent twice, to a process and to its group. The second one may come late."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "prints what it did: 499950000000\ninterrupted\n"), done.stderr


WHILE_LOADING = """
import os, signal, sys
from importlib.machinery import ExtensionFileLoader
from mburst import __main__, cli
LOADS = {ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__}
calls = 0

def interrupt(frame, event, _):
    global calls
    while frame and frame.f_code not in LOADS:
        frame = frame.f_back
    calls += bool(frame) and event == "call"
    if calls == 100:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.NUMBER)

def load(_):
    sys.setprofile(interrupt)
    import duckdb
    signal.sigtimedwait([], 30)

cli.carry_out = load
sys.argv = ["mburst", "check", "store"]
__main__.entry()
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_database_is_loaded_does_not_abort(number):
    """DuckDB calls Python while it is loaded, and an exception there ends the process with a core dump."""
    program = WHILE_LOADING.replace("NUMBER", number)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "mburst: interrupted\n")
