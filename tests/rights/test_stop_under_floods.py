"""A part ends on a signal under each kind of flood: the work that it still does after the signal does not grow with the
flood.

The bound is on the processor time between the signal and the end, since test machines are busy. The wall-clock time is
printed (pytest -s), and SECURITY.md states it. A part that does not end is killed after PATIENCE_S.
"""

from __future__ import annotations

import gzip
import itertools
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from bounded import next_line
from livestore import filled
from ports import free_port
from privilegelib import needs_root
from waiting import beside
from webattack import Verb, frame, lane_of, serving, until, websocket, wish

WORK_S = 3.0  # of all processors between the signal and the end; without a flood it is some 0.2
PATIENCE_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Started = Iterator[tuple[subprocess.Popen[str], Callable[[], object]]]  # a part, and whether the flood has reached it


def worked_s(pid: int) -> float:
    """Returns the processor time of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def stop(process: subprocess.Popen[str], number: int) -> tuple[int, float, float]:
    """Ends a process by a signal. Returns its exit code, and the processor time and wall-clock time until its end in
    seconds."""
    before, begun = worked_s(process.pid), time.monotonic()
    process.send_signal(number)
    killer = threading.Timer(PATIENCE_S, process.kill)
    killer.start()
    _, status, used = os.wait4(process.pid, 0)
    killer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime - before, time.monotonic() - begun


@contextmanager
def part(*words: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "mburst", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


@contextmanager
def flooding(*floods: Callable[[], object]) -> Iterator[None]:
    """Repeats each of FLOODS in a thread of its own until the end."""

    def run(flood: Callable[[], object], ended: threading.Event) -> None:
        while not ended.is_set():
            with suppress(OSError, AssertionError, ValueError):
                flood()

    with ExitStack() as stack:
        for flood in floods:
            stack.enter_context(beside(partial(run, flood)))
        yield


def working(process: subprocess.Popen[str], seconds: float = 0.5) -> Callable[[], object]:
    """Returns a function that says whether the process has worked for SECONDS since now, as a sign that the flood keeps
    it busy."""
    since = worked_s(process.pid)
    return lambda: worked_s(process.pid) - since > seconds


# --- the floods -------------------------------------------------------------------------------------------------------


def random_senders(count: int) -> list[bytes]:
    """Returns frames of IPv6 whose senders occur only once."""
    head = bytes.fromhex("02000000ffff020000000001") + b"\x86\xdd\x60\0\0\0" + struct.pack(">HBB", 8, 17, 64)
    return [head + random.randbytes(16) + bytes(16) + struct.pack(">HHHH", 9, 9, 8, 0) for _ in range(count)]


@contextmanager
def recording(folder: Path) -> Started:
    frames = random_senders(20_000)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("lo", 0))

        def flood() -> None:
            for one in frames:
                out.send(one)

        with part("record", "lo", "ip6 and udp", "-o", folder / "store") as process, flooding(flood):
            until(lambda: list(folder.glob("store/hot/bins/*")) or process.poll() is not None, PATIENCE_S)
            yield process, lambda: sum(path.stat().st_size for path in folder.glob("store/hot/sources/*")) > 10**6


@contextmanager
def served(folder: Path, verb: str, *floods: Callable[[Verb], object]) -> Started:
    with (
        serving(verb, filled(folder / "store").path, "--open") as server,
        flooding(*(lambda flood=flood: flood(server) for flood in floods)),
    ):  # type: ignore[misc]
        yield server.process, working(server.process)


def half_requests(server: Verb) -> None:
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(server.open()).sendall(HALF)


def questions(server: Verb) -> None:
    server.ask("/metrics")
    server.ask("/lanes")


def wishes(server: Verb) -> None:
    lane = lane_of(server)
    with websocket(server) as connection:
        for number in range(200):
            connection.sendall(frame(wish(lane, span=10**9 + number)))


def live(folder: Path) -> Started:
    return served(folder, "live", half_requests, questions, wishes)


def metrics(folder: Path) -> Started:
    return served(folder, "metrics", half_requests, questions)


@contextmanager
def reflecting(folder: Path) -> Started:
    port = free_port()

    def datagrams() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            for size in (14, 44, 1400) * 300:
                out.sendto(os.urandom(size), ("127.0.0.1", port))

    def connections() -> None:
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(bytes(9000))

    with (
        part("reflect", "--listen", f"127.0.0.1:{port}", "--delay", "constant:30s") as process,
        flooding(datagrams, connections),
    ):
        next_line(process)
        yield process, working(process)


@contextmanager
def probing(folder: Path) -> Started:
    """Probes a reflector that answers each probe with fifty datagrams: its bytes, changed bytes, and random bytes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hostile:
        hostile.bind(("127.0.0.1", 0))
        hostile.settimeout(0.2)

        def answer() -> None:
            asked, peer = hostile.recvfrom(2000)
            for number in range(50):
                hostile.sendto(bytes([asked[0] ^ number & 1]) + asked[1:] if number % 3 else os.urandom(200), peer)

        with (
            part("probe", f"127.0.0.1:{hostile.getsockname()[1]}", "--rate", "1000/s", "-o", folder / "store") as (
                process
            ),
            flooding(answer),
        ):
            yield process, working(process)


@contextmanager
def reading(folder: Path) -> Started:
    """Records a file of senders that occur only once."""
    path, stamps = folder / "senders.pcap", itertools.count(1_700_000_000_000_000_000, 1000)
    with path.open("wb") as out:
        out.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1))
        frames = random_senders(50_000)
        for _ in range(15):
            out.write(
                b"".join(
                    struct.pack("<IIII", *divmod(next(stamps), 10**9), len(one), len(one))
                    + one[:22]
                    + random.randbytes(16)
                    + one[38:]
                    for one in frames
                )
            )
    with part("record", path, "-o", folder / "store") as process:
        yield process, lambda: list(folder.glob("store/hot/bins/*"))


@contextmanager
def importing(folder: Path) -> Started:
    """Imports a table of equal lines, so that a small file has many lines."""
    path = folder / "probes.csv.gz"
    with gzip.open(path, "wb", 1) as out:
        out.write(b"src,dst,tx_ns,rtt_ns\n")
        for _ in range(60):
            out.write(b"a,b,1790000000000000000,1000\n" * 100_000)
    with part("import", "probes", path, "-o", folder / "store") as process:
        yield process, working(process, 1.5)


@contextmanager
def asking(folder: Path) -> Started:
    query = "SELECT count(*) FROM range(10000000000) a, range(1000000000) b"
    with part("sql", filled(folder / "store").path, query) as process:
        yield process, working(process, 2.0)


@contextmanager
def serving_ports(folder: Path) -> Started:
    def noise() -> None:
        with ExitStack() as stack:
            for first in (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", os.urandom(500), b"GET / HTTP/1.1\r\n\r\n") * 10:
                stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(first)

    with part("switch-agent", "lo", "--listen", "127.0.0.1:0") as process:
        port = int(next_line(process).partition(" on ")[2].split()[0].rpartition(":")[2])
        with open(folder / "said", "w") as errors, flooding(noise, lambda: errors.write(process.stderr.readline())):
            yield process, working(process)
            process.wait()


# What is flooded, the signal that stops it, and the exit codes that state the stop.
PARTS: dict[str, tuple[Callable[[Path], object], int, tuple[int, ...]]] = {
    "record of an interface, by senders that there are once": (recording, signal.SIGTERM, (0,)),
    "record of a file of such": (reading, signal.SIGTERM, (130,)),
    "import of a table that never ends": (importing, signal.SIGTERM, (130,)),
    "live, by requests, halves of such and wishes": (live, signal.SIGTERM, (0,)),
    "metrics, by the same": (metrics, signal.SIGTERM, (0,)),
    "reflect, by datagrams and connections": (reflecting, signal.SIGTERM, (0,)),
    "probe, by answers": (probing, signal.SIGTERM, (0,)),
    "switch-agent, by connections": (serving_ports, signal.SIGTERM, (0,)),
    "sql, by a question without end": (asking, signal.SIGINT, (130,)),
}
NEEDS = {recording: needs_root}


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(PARTS[name][0], ())) for name in PARTS])
def test_a_signal_ends_a_flooded_part(name, tmp_path):
    start, number, codes = PARTS[name]
    if start in (live, metrics):
        pytest.importorskip("uvicorn")
        if not shutil.which("prlimit"):
            pytest.skip("bounds descriptors with prlimit, which is not installed")
    with start(tmp_path) as (process, reached):  # type: ignore[attr-defined]
        assert until(lambda: reached() or process.poll() is not None, PATIENCE_S) and process.poll() is None
        code, work_s, clock_s = stop(process, number)
    print(f"{name}: {work_s:.2f} s of processors, {clock_s:.2f} s by the clock")
    assert code in codes and work_s < WORK_S
