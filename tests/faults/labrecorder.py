"""`mburst record` of the far end of a lab, and the traffic that is sent to it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import livelab
from faultlib import HERE, MBURST, assert_kept, assert_sealed, assert_totals, end, started, wait_for_rows
from livelab import Lab, promiscuity
from processes import children
from waiting import beside, wait_for

from mburst.agent.supervise import STOP_S

TABLES = ("bins", "sources")  # the tables by which a recorder is followed


def inside(lab: Lab) -> tuple[str, ...]:
    """Returns the beginning of a command that runs in the far namespace, where it keeps its process id."""
    return ("ip", "netns", "exec", lab.far)


@contextmanager
def recording(
    lab: Lab, store: Path, *words: str, roll_s: float | None = None, prefix: tuple[str, ...] = (), **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """Runs a live recording of incoming traffic, from when it captures."""
    program = MBURST if roll_s is None else (sys.executable, str(HERE / "rolling.py"), str(roll_s))
    before = promiscuity(lab)
    with started(
        "record",
        lab.b,
        "-o",
        store,
        "--direction",
        "in",
        "--host",
        "cache",
        "--rack",
        "r1",
        "--backend",
        "afpacket",  # with which gaps are exact to the packet
        *words,
        prefix=(*inside(lab), *prefix),
        program=program,
        **options,
    ) as process:
        wait_for(lambda: promiscuity(lab) > before or process.poll() is not None, "the recording begins")
        if process.poll() is None:
            time.sleep(0.2)  # libpcap has more to do after that
        yield process


@contextmanager
def sending(lab: Lab, rate: int = 4000, senders: int = 8) -> Iterator[None]:
    """Sends frames of 500 bytes from this number of senders at RATE a second, until the end."""
    frames = [b"\xff" * 6 + bytes([2, 0, 0, 0, 1, number]) + b"\x88\xb5" + bytes(486) for number in range(senders)]

    def send(ended: threading.Event) -> None:
        with lab.inside(lab.near), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
            out.bind((lab.a, 0))
            while not ended.wait(senders / rate):
                for frame in frames:
                    with suppress(OSError):  # the interface is missing for a while
                        out.send(frame)

    with beside(send):
        yield


def received(lab: Lab) -> int:
    """Returns the packets of the interface's counter."""
    [link] = json.loads(livelab.sh(f"ip -n {lab.far} -s -j link show {lab.b}"))
    return int(link["stats64"]["rx"]["packets"])


def recorder(pid: int) -> int | None:
    """Returns the child process that records."""
    for child in children(pid):
        try:
            if "\0record\0" in Path(f"/proc/{child}/cmdline").read_text():
                return child
        except OSError:
            continue
    return None


def wait_until_recorded(store: Path) -> None:
    """Returns when rows of each of TABLES have been stored."""
    for table in TABLES:
        wait_for_rows(store, table)


@contextmanager
def running(lab: Lab, folder: Path, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `mburst run` in the far namespace, with a recording and metrics. Its file and log are in FOLDER."""
    (folder / "mburst.toml").write_text(
        f'store = "{store}"\nrack = "r1"\n[record]\ninputs = ["{lab.b}"]\ndirection = "in"\nhost = "cache"\n'
        '[metrics]\nlisten = "127.0.0.1:0"\n'
    )
    with (folder / "log").open("a") as log:
        process = subprocess.Popen([*inside(lab), *MBURST, "run"], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_S + 30)  # it names a part that does not end, and kills it
            finally:
                process.kill()
                process.wait()
    printed = (folder / "log").read_text()
    assert "Traceback" not in printed and "did not end" not in printed, printed


def finish(lab: Lab, store: Path, acknowledged: dict[str, list[Any]]) -> str:
    """Ends the recording cleanly, and compares the store with what was acknowledged."""
    with recording(lab, store) as process:
        time.sleep(0.2)
        assert end(process, signal.SIGTERM)[0] == 0
    assert_sealed(store)
    assert_totals(store)
    counts = {table: assert_kept(store, table, acknowledged[table]) for table in TABLES}
    assert all(counts.values())
    return f"{counts['bins']:,} bins, {counts['sources']:,} sources acknowledged: 0 lost, 0 doubled"
