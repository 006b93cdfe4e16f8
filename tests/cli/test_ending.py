"""A command ends like Python does, except for the modules that it imported: no output is lost and no file is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mburst.process import interrupting

ENDS = """
import atexit, sys, threading, time
from mburst.process import ending
atexit.register(print, "atexit")
def work():
    time.sleep(0.2)
    print("thread")
threading.Thread(target=work).start()
threading.Thread(target=time.sleep, args=[60], daemon=True).start()
print("main")
sys.stderr.write("no newline")
class Kept:
    def __del__(self):
        print("torn down")
kept = Kept()
ending.end(3)
"""
SPILLS = """
import os
from mburst.process import ending, interrupting
from mburst.sql import views
from mburst.sql.catalogue import bare
interrupting.own_process()
connection = views.unlocked(bare(), {"memory_limit": "20MB"})
connection.execute("CREATE TEMP TABLE large AS SELECT random() AS x FROM range(8_000_000)")
print(any(name.startswith(".mburst-") for name in os.listdir()))
ending.end(0)
"""

ENDLESS = """
import sys
from mburst import __main__, cli
from mburst.process import ending
from mburst.sql import views
from mburst.sql.catalogue import bare

def ask(_):
    connection = views.unlocked(bare(), {"memory_limit": "20MB"})
    connection.execute("CREATE TEMP TABLE large AS SELECT random() AS x FROM range(8_000_000)")
    print("asks", flush=True)
    connection.execute("SELECT count(*) FROM range(1_000_000) a, range(1_000_000) b, large").fetchall()

cli.carry_out = ask
sys.argv = ["mburst", "check", "store"]
ending.end(__main__.command())
"""
WAITS = """
import atexit, os, signal, sys, threading, time
from mburst import __main__, cli

def work(_):
    atexit.register(print, "atexit")
    threading.Thread(target=time.sleep, args=[60]).start()
    threading.Timer(0.5, os.kill, [os.getpid(), signal.NUMBER]).start()
    print("done")
    return 3

cli.carry_out = work
sys.argv = ["mburst", "check", "store"]
__main__.entry()
"""
AT_EXIT = """
import atexit, os, signal, sys, threading
from mburst import __main__, cli

def hang():
    with lock:
        print("begins")
        os.kill(os.getpid(), signal.SIGTERM)
        print("goes on")

lock = threading.Lock()
cli.carry_out = lambda _: atexit.register(hang) and 3
sys.argv = ["mburst", "check", "store"]
sys.stdout.reconfigure(line_buffering=True)
__main__.entry()
"""
# The verb `check` of the following programs is their function `work`.
BEGINS = """
import _thread, atexit, ctypes, os, signal, sys, threading, time
from mburst import __main__, cli
from mburst.messages import print_message
from mburst.process import interrupting
"""
CARRIES_OUT = """
cli.carry_out = work
sys.argv = ["mburst", "check", "store"]
__main__.entry()
"""
STUCK = """
def work(_):
    atexit.register(print, "atexit")
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        {cleans_up}

interrupting.LOST_S, interrupting.PATIENCE_S = 0.05, 0.5
lock = threading.Lock()
lock.acquire()
"""
IN_A_LIBRARY = """
def work(_):
    atexit.register(print, "atexit")
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGTERM]).start()
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)

interrupting.PATIENCE_S = 0.5
"""
UNREAD = """
def write():
    while True:
        print_message("x" * 200)

def work(_):
    threading.Thread(target=write, daemon=True).start()
    time.sleep(1)  # until the pipe is full
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

interrupting.PATIENCE_S = 0.5
"""
NO_THREAD = """
def refuse(*given):
    raise RuntimeError("can't start new thread")

def work(_):
    _thread.start_new_thread = refuse
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        lock.acquire()

interrupting.PATIENCE_S = 0.5
lock = threading.Lock()
lock.acquire()
"""
STEPS = """
def work(_):
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        for _ in range(6):
            interrupting.begin_step()
            time.sleep(0.4)
        print("cleaned up")

interrupting.PATIENCE_S = 1.0
"""
LATE = """
import os, signal, threading, time
from mburst.process import interrupting
from mburst.process.stopping import stopping

def late(*given):
    number = read(*given)
    time.sleep(0.3)  # this thread does not come to run
    return number

read, os.read = os.read, late
interrupting.own_process(lambda: os._exit(3))
interrupting.PATIENCE_S = 0.2
stop = threading.Event()
with stopping(stop.set):
    os.kill(os.getpid(), signal.SIGINT)
    stop.wait()
time.sleep(1)
print(interrupting._SignalState.heard)
"""
HUNG_UP = """
import signal
from mburst.process import interrupting
interrupting.own_process()
signal.raise_signal(signal.SIGHUP)
print("goes on")
"""


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)


def carried_out(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return ran(BEGINS + program + CARRIES_OUT, folder)


def test_exit_handlers_run_and_output_is_printed(tmp_path: Path) -> None:
    done = ran(ENDS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "main\nthread\natexit\n", "no newline")


def test_a_database_leaves_no_file_behind(tmp_path: Path) -> None:
    done = ran(SPILLS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert list(tmp_path.iterdir()) == []


def asks(folder: Path, stderr: int) -> subprocess.Popen[str]:
    """Starts a verb with a query that does not end, and returns it when it has temporary files in FOLDER."""
    command = [sys.executable, "-c", ENDLESS]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert process.stdout is not None and process.stdout.readline() == "asks\n" and list(folder.iterdir())
    return process


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 3), (signal.SIGHUP, 1), (signal.SIGHUP, 3)],
)
def test_a_signal_ends_a_query_and_leaves_no_file_behind(number: signal.Signals, times: int, tmp_path: Path) -> None:
    """`timeout` and service managers send SIGTERM, some of them to a process and to its group."""
    process = asks(tmp_path, subprocess.PIPE)
    for _ in range(times):
        process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "mburst: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_at_the_end_ends_the_wait_for_threads(number: str, tmp_path: Path) -> None:
    """The verb is done, and its exit code stays."""
    done = ran(WAITS.replace("NUMBER", number), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\natexit\n", "")


def test_a_signal_behind_all_threads_ends_at_once(tmp_path: Path) -> None:
    """What runs there may hold a lock, and would wait for itself."""
    done = ran(AT_EXIT, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "begins\n", "")


@pytest.mark.parametrize("cleans_up", ["lock.acquire()", "threading.Thread(target=lock.acquire).start()"])
def test_an_interruption_ends_although_what_it_cleans_up_does_not(cleans_up: str, tmp_path: Path) -> None:
    """It may fall between two steps of a library, which then waits for its own lock."""
    done = carried_out(STUCK.format(cleans_up=cleans_up), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "atexit\n", "mburst: interrupted\n")


def test_a_signal_ends_a_library_that_it_does_not_interrupt(tmp_path: Path) -> None:
    """Such as one that waits for a server, or for a name."""
    done = carried_out(IN_A_LIBRARY, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "atexit\n", "mburst: interrupted\n")


def test_an_interruption_begins_no_more_work_of_threads() -> None:
    begun, release = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(60)

    with pytest.raises(KeyboardInterrupt), ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(begun.wait, 60), *(pool.submit(work) for _ in range(20))]
        for _ in interrupting.completed(futures):
            threading.Timer(0.1, release.set).start()
            raise KeyboardInterrupt
    assert sum(future.cancelled() for future in futures) >= 18


def test_a_closed_terminal_leaves_no_file_behind(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = asks(tmp_path, writing)
    os.close(writing)
    os.close(reading)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 130 and list(tmp_path.iterdir()) == []


def test_a_query_under_nohup_survives_a_closed_terminal(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-c", HUNG_UP]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


@pytest.mark.parametrize(("words", "code"), [(["sql", "--help"], 0), (["sql"], 2), (["sql", "none", "bins"], 1)])
def test_exit_codes_are_those_of_the_verbs(words: list[str], code: int, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("mburst")
    if not program.exists():
        pytest.skip("mburst is not installed beside this Python")
    done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and bool(done.stdout) == (code == 0) and done.stderr.count("\n") == (code != 0)


def test_a_signal_ends_a_command_whose_messages_nobody_reads(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", BEGINS + UNREAD + CARRIES_OUT], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()


def test_a_signal_ends_a_command_that_can_start_no_thread(tmp_path: Path) -> None:
    done = carried_out(NO_THREAD, tmp_path)
    assert (done.returncode, done.stderr) == (130, "mburst: interrupted\n")


def test_cleaning_up_in_steps_has_time_for_each(tmp_path: Path) -> None:
    done = carried_out(STEPS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned up\n", "mburst: interrupted\n")


def test_a_signal_that_was_handled_interrupts_nothing_later(tmp_path: Path) -> None:
    done = ran(LATE, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
