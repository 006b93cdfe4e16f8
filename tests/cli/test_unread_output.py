"""A reader of the output that stops reading holds up no work: a stopped terminal (Ctrl-S), a lost ssh session, a full
pipe."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ports import free_port
from unread import UnreadOutput, unread
from waiting import LIMIT_S, wait_for

from mburst.process.unread import MOST_BYTES, OutputThread, without_waiting

MBURST = [sys.executable, "-m", "mburst"]
KINDS = ["terminal", "pipe"]
SIGNALS = [(signal.SIGTERM, 1), (signal.SIGINT, 130), (signal.SIGHUP, 1)]  # results that nobody has read

WORK = """
import json, os, signal, sys, time
from mburst import __main__, cli, messages
from mburst.process import ending, stopping, unread
unread.PATIENCE_S = 0.5
turns = int(os.environ["TURNS"])

def work(_):
    stopped = []
    with stopping.stopping(lambda: stopped.append(1)) as ended_by:
        turn = 0
        while not stopped:
            turn += 1
            messages.print_progress(f"progress {turn}")
            messages.print_message(f"message {turn} {'-' * 100}")
            print(f"line {turn}", flush=True)
            os.write(turns, b".")
            if os.environ.get("ONCE") == str(turn):
                break
            time.sleep(0.0002)
    if results := int(os.environ.get("RESULTS", 200_000)):
        print("\\n".join(f"result {number}" for number in range(results)))
    return 130 if signal.SIGINT in ended_by else 0

cli.carry_out = work
sys.argv = ["mburst", "check", "store"]
ending.end(__main__.command())
"""


class Work:
    """A command that works and prints in turns. Its output is OUT, its error output ERR."""

    def __init__(self, out: UnreadOutput | int, err: UnreadOutput | int, turns: int, results: int) -> None:
        self._reading, writing = os.pipe()
        files = [one.descriptor if isinstance(one, UnreadOutput) else one for one in (out, err)]
        variables = {"TURNS": str(writing), "RESULTS": str(results), **({"ONCE": str(turns)} if turns else {})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORK],
            stdout=files[0],
            stderr=files[1],
            pass_fds=[writing],
            env=os.environ | variables,
        )
        os.close(writing)

    def wait_for_turns(self, count: int) -> None:
        while count > 0:
            readable, _, _ = select.select([self._reading], [], [], LIMIT_S)
            assert readable, f"the work stopped: {count} turns are missing"
            count -= len(os.read(self._reading, count))

    def close(self) -> None:
        os.close(self._reading)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def working(out: UnreadOutput | int, err: UnreadOutput | int, turns: int = 0, results: int = 200_000) -> Iterator[Work]:
    work = Work(out, err, turns, results)
    try:
        yield work
    finally:
        work.close()


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=[number.name for number, _ in SIGNALS])
@pytest.mark.parametrize("kind", KINDS)
def test_work_goes_on_and_ends_by_a_signal(kind, number, code):
    with unread(kind) as output, working(output, output) as work:
        work.wait_for_turns(2000)
        work.process.send_signal(number)
        assert work.process.wait(60) == code


@pytest.mark.parametrize("turns", [1, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_about_work_are_no_results(kind, turns):
    """The exit code is that of the work, whether they wait or were left out."""
    with unread(kind) as output, working(output, output, results=0) as work:
        work.wait_for_turns(turns)
        work.process.terminate()
        assert work.process.wait(60) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_left_out_is_stated_once_it_is_read_again(kind):
    with unread(kind) as output, working(subprocess.DEVNULL, output) as work:
        work.wait_for_turns(2000)
        output.read()
        wait_for(lambda: "left out\n" in output.text(), "a statement")
        work.process.terminate()
        assert work.process.wait(60) == 0
        lines = output.all_text().splitlines()
    before = 0  # the number of the last message
    missing = 0  # messages that the last line stated
    for line in filter(None, (line.rpartition("\r\033[K")[2] for line in lines)):
        if stated := re.fullmatch(r"mburst: standard error was not read: ([0-9,]+) lines? left out", line):
            missing = int(stated[1].replace(",", ""))
            assert missing > 0
        elif message := re.match(r"mburst: message ([0-9]+) ", line):
            assert int(message[1]) == before + missing + 1
            before, missing = int(message[1]), 0


def test_standard_error_states_what_standard_output_lacks(tmp_path):
    with unread("pipe") as output, (tmp_path / "error").open("wb") as error, working(output, error.fileno()) as work:
        work.wait_for_turns(10_000)
        work.process.terminate()
        assert work.process.wait(60) == 1
    assert "mburst: standard output was not read: " in (tmp_path / "error").read_text()


def test_a_slow_reader_gets_the_whole_result(tmp_path):
    """Without a signal, the end of a command waits for its reader, however slow."""
    with unread("pipe") as output, working(output, subprocess.DEVNULL, turns=3) as work:
        work.wait_for_turns(3)
        with pytest.raises(subprocess.TimeoutExpired):
            work.process.wait(1)
        output.read()
        assert work.process.wait(60) == 0
        lines = output.all_text().splitlines()
    assert lines == [*(f"line {number}" for number in (1, 2, 3)), *(f"result {number}" for number in range(200_000))]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_pauses_after_the_signal_gets_the_whole_result(kind, number, code):
    """For longer than the patience, as who stops a terminal to read what Ctrl-C has printed."""
    with unread(kind) as output, working(output, subprocess.DEVNULL) as work:
        output.pause_at("result 5")
        output.read()
        work.wait_for_turns(100)
        work.process.send_signal(number)
        output.wait_for_pause()
        with pytest.raises(subprocess.TimeoutExpired):
            work.process.wait(2)
        output.go_on()
        assert work.process.wait(60) == code
        lines = output.all_text().splitlines()
    assert lines[-200_000:] == [f"result {number}" for number in range(200_000)]


def test_a_full_disk_that_answers_late_is_an_error(tmp_path):
    """The write that fails is that of the thread, which nobody waits for during work."""
    code = "import time\nfrom mburst.process import printing\nnow = printing._Output.write_now\n"
    code += (
        "def late(self, data):\n    time.sleep(0.3)\n    return now(self, data)\nprinting._Output.write_now = late\n"
    )
    with open("/dev/full", "w") as full, (tmp_path / "error").open("wb") as error:
        done = subprocess.run(
            [sys.executable, "-c", code + WORK],
            stdout=full,
            stderr=error,
            env=os.environ | {"TURNS": "2", "ONCE": "1", "RESULTS": "0"},
            timeout=60,
        )
    assert done.returncode == 1 and "standard output: No space left on device" in (tmp_path / "error").read_text()


def test_a_reader_that_ends_without_reading_is_no_failure():
    with unread("pipe") as output, working(output, output) as work:
        output.close_here()
        work.wait_for_turns(1000)
        output.end_reading()
        work.wait_for_turns(1000)
        work.process.send_signal(signal.SIGINT)
        assert work.process.wait(60) == 130


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_only_prints_ends_by_a_signal(kind):
    code = "import sys; from mburst import __main__, cli\n"
    code += "from mburst.process import ending, unread\nunread.PATIENCE_S = 0.5\n"
    code += "def work(_):\n    print('begins', flush=True)\n"
    code += "cli.carry_out = work; sys.argv = ['mburst', 'check', 'store']\nending.end(__main__.command())"
    with unread(kind) as output:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=output.descriptor, stderr=output.descriptor)
        try:
            wait_for(lambda: writes(process.pid), "the write")
            process.terminate()
            assert process.wait(60) == 130
        finally:
            process.kill()
            process.wait()


def writes(pid: int) -> bool:
    """Returns whether the main thread of a process is in write(2) on standard output or standard error."""
    with open(f"/proc/{pid}/syscall") as file:
        words = file.read().split()
    return words[0] == "1" and int(words[1], 16) in (1, 2)


def test_a_responder_ends_while_its_terminal_is_stopped():
    port = free_port()
    with unread("terminal") as output:
        process = subprocess.Popen(
            [*MBURST, "reflect", "--listen", f"127.0.0.1:{port}"], stdout=output.descriptor, stderr=output.descriptor
        )
        try:
            probed = subprocess.run(
                [*MBURST, "probe", f"127.0.0.1:{port}", "--count", "5", "--rate", "2/s"],
                capture_output=True,
                timeout=60,
            )
            process.terminate()
            assert process.wait(60) == 1 and probed.returncode == 0, probed.stderr  # its last line is not read
        finally:
            process.kill()
            process.wait()


def test_a_line_that_finds_room_too_late_does_not_precede_the_statement():
    """What waits may be written just after it was decided that a line does not fit."""
    written, gate = [], threading.Event()

    def write(data):
        gate.wait(LIMIT_S)
        written.append(bytes(data))
        return len(data)

    output = OutputThread(write, lambda lines: f"{lines} left out\n".encode(), lambda: False, False)
    has_room = output._has_room

    def has_room_too_late(data):
        answer = has_room(data)
        if not answer:
            gate.set()
            assert output._changed.wait_for(lambda: not output._waiting, LIMIT_S)
        return answer

    with without_waiting():
        output.put(b"first\n" + b"-" * MOST_BYTES + b"\n")
        output.put(b"second\n")
        output._has_room = has_room_too_late
        output.put(b"third\n")
        output.put(b"fourth\n")
        output.finish()
    assert b"".join(written).replace(b"-", b"") == b"first\n\n2 left out\nfourth\n"
