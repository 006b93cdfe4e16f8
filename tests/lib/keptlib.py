"""Recording with --keep-packets in a namespace, traffic with bursts, and what other programs find in it. For tests as
root."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bounded import next_line
from frames import Frame
from livelab import Lab, raw_socket
from liverecording import clock_logs
from waiting import wait_for

DEFINITION = ("--bin", "1ms", "--threshold", "0.5", "--join", "400ms")  # longer than the pauses of a busy machine
APART_S = 0.8  # from one burst to the next
SENDERS, EACH, SIZE = 8, 25, 1000
TSHARK = ("-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len", "-e", "ip.src")


def mburst(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a verb to its end."""
    return subprocess.run([sys.executable, "-m", "mburst", *map(str, arguments)], capture_output=True, text=True)


@contextmanager
def in_far(lab: Lab, *command: object) -> Iterator[subprocess.Popen[str]]:
    """Runs a program in the far namespace; it is ended by SIGINT."""
    process = subprocess.Popen(
        ["ip", "netns", "exec", lab.far, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()


@contextmanager
def dumping(lab: Lab, capture: Path) -> Iterator[None]:
    """Runs tcpdump on the far interface."""
    words = ("-i", lab.b, "-w", capture, "-s", "128", "--time-stamp-precision=nano", "-Z", "root")
    with in_far(lab, "tcpdump", *words, "-U", "--immediate-mode") as process:
        while "listening on" not in next_line(process, process.stderr):
            pass
        yield


@contextmanager
def keeping(lab: Lab, store: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Runs `mburst record` on the far interface, with a ring of 16 MB."""
    before = clock_logs(store)
    verb = (sys.executable, "-m", "mburst", "record", "-i", lab.b, "--link", "100M", "--host", "cache", "-o", store)
    kept = ("--keep-packets", "16MB", "--sources", "all")
    with in_far(lab, *verb, *kept, *arguments) as process:
        wait_for(lambda: clock_logs(store) - before or process.poll() is not None, "the recording")
        assert process.poll() is None, process.communicate()
        yield process


def incast(lab: Lab, each: int = EACH) -> None:
    """The far host sends requests to SENDERS near ones, and each of them answers with EACH frames at once."""
    with raw_socket(lab, lab.far, lab.b) as asking, raw_socket(lab, lab.near, lab.a) as answering:
        for sender in range(SENDERS):
            asking.send(Frame(0, sender, 80, flow=sender, outgoing=True).data())
        for number in range(each * SENDERS):
            answering.send(Frame(0, number % SENDERS, SIZE).data())


def tshark(capture: Path, *arguments: str) -> list[str]:
    """Returns the output lines of tshark for a capture, by time."""
    command = ["tshark", "-n", "-r", str(capture), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not warnings(done.stderr), done.stderr
    return done.stdout.splitlines()


def warnings(text: str) -> list[str]:
    """Returns the warnings of tshark, except the one about running as root."""
    return [line for line in text.splitlines() if line and not line.startswith("Running as user")]


def listed(store: Path, *arguments: object) -> list[dict[str, object]]:
    """Returns the bursts of a store."""
    done = mburst("bursts", store, *DEFINITION, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def counted(store: Path) -> int:
    """Returns the packets that arrived, by bins."""
    question = "SELECT sum(packets) AS packets FROM bins WHERE direction = 'in'"
    return int(json.loads(mburst("sql", store, question, "--json").stdout)[0]["packets"])


def ring_files(store: Path) -> Sequence[Path]:
    """Returns the files of all rings of a store."""
    return sorted(store.glob("packets/*/*/*"))
