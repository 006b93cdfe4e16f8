"""What does capturing cost? CPU time per packet of each live backend at one offered load, and of tcpdump and dumpcap.

    sudo .venv/bin/python bench/bench_backends.py [--rate 300000] [--seconds 10] [--size 64]

Frames with sequence numbers go through a veth pair in its own namespaces. `record` is `mburst record` as a whole; the
backends alone only read frames. User and system time are those of the reader; receiving in the kernel is part of the
sender's time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import livelab  # noqa: E402
from building import OPTIMIZE, linked, program  # noqa: E402


@dataclass
class Cost:
    """The cost of one reader: CPU time per packet, and the share of the sent packets that it received."""

    name: str
    user_ns: float
    system_ns: float
    got: int
    sent: int
    rate: float


def readers(lab: livelab.Lab, driver: Path, store: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields names and command lines, each to be ended by SIGINT."""
    source = [str(driver), f"target={lab.b}", "mode=read", "direction=in", "seconds=600"]
    yield "afpacket", [*source, "backend=afpacket"]
    yield "afpacket, 2 threads", [*source, "backend=afpacket", "threads=2"]
    yield "libpcap", [*source, "backend=libpcap"]
    record = [sys.executable, "-m", "mburst", "record", lab.b, "--direction", "in", "--json", "-o"]
    yield "record, 100 µs bins", [*record, str(store / "100us")]
    yield "record, 10 µs bins", [*record, str(store / "10us"), "--bin", "10us"]
    yield "record by ebpf, 100 µs bins", [*record, str(store / "ebpf-100us"), "--backend", "ebpf"]
    yield "record by ebpf, 10 µs bins", [*record, str(store / "ebpf-10us"), "--backend", "ebpf", "--bin", "10us"]
    if shutil.which("tcpdump"):
        options = ["-Z", "root", "-s", "128", "-B", "65536"]
        yield "tcpdump -w /dev/null", ["tcpdump", "-i", lab.b, *options, "-w", "/dev/null"]
    if shutil.which("dumpcap"):
        yield "dumpcap -w /dev/null", ["dumpcap", "-q", "-i", lab.b, "-s", "128", "-B", "64", "-w", "/dev/null"]


def packets_of(output: str) -> int:
    """Returns the number of packets that the reader reports."""
    for line in output.splitlines():
        if line.startswith("{"):
            counts = json.loads(line)
            if "stats_frames" in counts or "packets" in counts:
                return int(counts.get("stats_frames", counts.get("packets")))
        if "packets captured" in line or "Packets captured" in line:
            return int("".join(character for character in line if character.isdigit()))
        if line.startswith("Packets received/dropped"):
            return int(line.split(":")[1].split("/")[0])
    return 0


def cpu_ns(pid: int) -> tuple[float, float]:
    """Returns the user and system time of a process with all its threads, since it began (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    tick = 1e9 / os.sysconf("SC_CLK_TCK")
    return int(fields[11]) * tick, int(fields[12]) * tick


def wait_for_capture(lab: livelab.Lab, process: subprocess.Popen[bytes]) -> None:
    """Waits until the reader has its interface in promiscuous mode, which each of them uses, and a second more."""
    while "promiscuity 1 " not in livelab.sh(f"ip -n {lab.far} -d link show {lab.b}"):
        if process.poll() is not None:
            sys.exit(f"{process.args}: ended with exit code {process.returncode}")
        time.sleep(0.05)
    time.sleep(1)


def run(name: str, lab: livelab.Lab, command: list[str], send: list[str]) -> Cost:
    """Returns the cost of a reader while packets arrive: from when it is ready until it has read them all."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(["ip", "netns", "exec", lab.far, *command], stdout=output, stderr=output)
        wait_for_capture(lab, process)
        user, system = cpu_ns(process.pid)
        counts = json.loads(lab.call(lab.near, " ".join(send)))
        time.sleep(1.2)
        user_after, system_after = cpu_ns(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait()
        output.seek(0)
        got, sent = packets_of(output.read()), counts["sent"]
    return Cost(name, (user_after - user) / sent, (system_after - system) / sent, got, sent, sent / counts["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=300_000, help="packets a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("not measured: the cost of live sources needs root, for network namespaces of its own")
        return
    count = int(arguments.rate * arguments.seconds)
    driver, sender = program("tests/c/live_driver.c", flags=OPTIMIZE), linked(("tests/c/send.c",), OPTIMIZE)
    with tempfile.TemporaryDirectory() as folder, livelab.make_lab() as lab:
        print(
            f"{'reader':<22} {'user ns':>8} {'system ns':>10} {'got':>12} {'of sent':>12} {'packets/s':>11} {'load':>6}"
        )
        send = [str(sender), lab.a, str(count), str(arguments.rate), str(arguments.size)]
        for name, command in readers(lab, driver, Path(folder, "store")):
            cost = run(name, lab, command, send)
            print(
                f"{cost.name:<22} {cost.user_ns:>8.1f} {cost.system_ns:>10.1f} {cost.got:>12,} {cost.sent:>12,} "
                f"{cost.rate:>11,.0f} {os.getloadavg()[0]:>6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
