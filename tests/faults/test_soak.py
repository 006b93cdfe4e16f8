"""An agent that runs on while senders change all the time: its memory, files and scrapes stay constant, and the sent
packets are recorded. `make soak` takes an hour."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import frame_builder as fb
from labrecorder import inside
from livelab import Lab, promiscuity, raw_socket
from processes import children, verb_of
from waiting import beside, wait_for

from mburst.sql import StoreFolder

SECONDS = float(os.environ.get("MBURST_SOAK", "12"))
TOGETHER, EVERY_S = 150, 0.05  # packets that arrive together, each from another sender
SEGMENT_S = 900.0  # after which a table has one more sealed file
TABLES = 12  # that an agent writes at most
MIB = 1 << 20
CONFIG = """
store = "store"
host = "h1"
rack = "r1"
[record]
inputs = ["{interface}", "udp"]
backend = "afpacket"
direction = "in"
link = "10G"
sources = "all"
[metrics]
listen = "127.0.0.1:9620"
[keep]
every = "1m"
size = "20G"
"""


@contextmanager
def sending(lab: Lab) -> Iterator[list[int]]:
    """Sends from addresses that were never used before, until the end. The list has the number of packets."""
    frame = bytearray(fb.ethernet(fb.ipv4(fb.udp(b"x" * 60, (1, 9)), fb.UDP, 0, 0x0A090002), 0x0800, sender=77))
    sent = [0]

    def send(ended: threading.Event) -> None:
        with raw_socket(lab, lab.near, lab.a) as to:
            while not ended.wait(EVERY_S):
                for number in range(sent[0], sent[0] + TOGETHER):
                    struct.pack_into(">I", frame, 26, 0x0B000000 + number)
                    to.send(frame)
                sent[0] += TOGETHER

    with beside(send):
        yield sent


def memory(pid: int) -> int:
    """Returns the bytes of a process that belong to no file."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def files_of(store: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(store))


def scrape_s(pid: int, lab: Lab) -> float:
    """Returns the processor seconds that the process of the metrics takes for an answer."""
    with lab.inside(lab.far):
        before = processor_s(pid)
        with urllib.request.urlopen("http://127.0.0.1:9620/metrics", timeout=60) as answer:
            assert b"mburst_" in answer.read()
    return processor_s(pid) - before


def processor_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def ends(values: list[float]) -> tuple[float, float]:
    """Returns the medians of the second quarter and of the last one, because rows that wait for the end of their
    segment come and go."""
    quarter = len(values) // 4
    return median(values[quarter : 2 * quarter]), median(values[-quarter:])


def test_memory_files_and_scrapes_stay_constant(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mburst.toml").write_text(CONFIG.format(interface=lab.b))
    StoreFolder.create(tmp_path / "store")
    log = tmp_path / "log"
    with log.open("w") as out:
        command = [*inside(lab), sys.executable, "-m", "mburst", "run"]
        agent = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    seen: dict[str, list[float]] = {}
    try:
        wait_for(lambda: "metrics of store: http://" in log.read_text(), "metrics")
        wait_for(lambda: promiscuity(lab), "the recorder")
        parts = {verb_of(pid): pid for pid in children(agent.pid)}
        with sending(lab) as sent:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                time.sleep(SECONDS / 40)
                for verb, pid in parts.items():
                    seen.setdefault(f"memory of {verb}", []).append(memory(pid))
                    seen.setdefault(f"open files of {verb}", []).append(open_files(pid))
                seen.setdefault("files", []).append(files_of(tmp_path / "store"))
                seen.setdefault("scrape", []).append(scrape_s(parts["metrics"], lab))
    finally:
        agent.terminate()
        code = agent.wait(60)
    assert code == 0, log.read_text()
    assert {verb_of(pid) for pid in parts.values()} == {""} and "restarting" not in log.read_text()
    print({name: (values[len(values) // 4], values[-1]) for name, values in seen.items()}, *sent)
    with StoreFolder(tmp_path / "store").connect() as con:
        bins = con.execute("SELECT sum(packets), sum(bytes) FROM bins").fetchone()
        of_senders = con.execute("SELECT sum(packets), sum(bytes), count(DISTINCT source) FROM sources").fetchone()
        lost = con.execute("SELECT count(*) FROM gaps").fetchone()
    assert lost == (0,)
    assert bins == (sent[0], sent[0] * 102) and of_senders == (*bins, sent[0])
    for name, values in seen.items():
        early, late = ends(values)
        if name.startswith("memory"):
            assert late < 1.1 * early + 16 * MIB, (name, [int(value) >> 20 for value in values])
        elif name.startswith("open files"):
            assert late <= early + 4, (name, values)
        elif name == "scrape":
            assert late <= 3 * early + 0.05, values
    assert seen["files"][-1] <= seen["files"][0] + TABLES * (1 + SECONDS / SEGMENT_S), seen["files"]
