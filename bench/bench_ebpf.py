"""What does counting in the kernel cost? Measures the program alone, under real traffic, and with concurrent TCP.

    sudo .venv/bin/python bench/bench_ebpf.py [--rate 500000] [--seconds 5] [--rounds 6]

Uses a veth pair in its own namespaces. Reading the clock of a virtual machine may cost more than everything else, so it
is measured separately. bench_backends.py has the cost of the recorder as a whole.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import livelab  # noqa: E402
from building import OPTIMIZE, linked, program  # noqa: E402

from mburst.capture import Capture  # noqa: E402

BYTES = 2_000_000_000  # of a TCP transfer
FINE_NS = 10_000  # width of bins


def of_the_program(cost: Path) -> None:
    done = subprocess.run([cost], capture_output=True, text=True, check=True)
    found = {row["program"]: row["ns"] for row in map(json.loads, done.stdout.splitlines())}
    empty, clock = found["empty"], found["clock"] - found["empty"]
    print("ns a packet, the same frame again and again (BPF_PROG_TEST_RUN)")
    print(f"  a program that does nothing {empty:4}, of which the test itself is most")
    print(f"  reading the clock           {clock:4}")
    print(f"  counting                    {found['counts'] - empty - clock:4}")
    print(f"  in all                      {found['counts']:4}")
    print(f"  in all, at XDP              {found['xdp']:4}, of which the test itself is {found['empty_xdp']}\n")


def under_traffic(lab: livelab.Lab, cost: Path, sender: Path, rate: int, seconds: int) -> None:
    inside = ["ip", "netns", "exec"]
    command = [*inside, lab.far, str(cost), lab.b, str(seconds + 2)]
    measured = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert measured.stdout
    measured.stdout.readline()
    subprocess.run([*inside, lab.near, str(sender), lab.a, str(rate * seconds), str(rate), "64"], check=True)
    row = json.loads(measured.communicate()[0])
    print(f"under traffic: {row['ns']:.0f} ns a packet with the kernel's own measuring ({row['packets']:,} packets)\n")


def of_the_reader(lab: livelab.Lab, sender: Path, rate: int, seconds: int) -> None:
    """Measures the CPU time of the recorder's process, minus that of one that records silence."""
    inside = ["ip", "netns", "exec", lab.near, str(sender), lab.a]
    print(
        f"CPU of the process that reads, % of a core, while {rate:,} frames a second of 64 bytes arrive (and none do)"
    )
    for backend, bin_ns in (("ebpf", 100_000), ("ebpf", FINE_NS), ("afpacket", 100_000), ("afpacket", FINE_NS)):
        shares, reached = [], 0.0
        for frames in (rate * seconds, 0):
            reader = begin_reader(lab, backend, bin_ns)
            begun = time.monotonic()
            if frames:
                subprocess.run([*inside, str(frames), str(rate), "64"], check=True)
            else:
                time.sleep(seconds)
            took = time.monotonic() - begun
            shares.append(json.loads(reader.communicate(b"")[0])["cpu_s"] / took)
            reached = max(reached, frames / took)
        busy, silent = (100 * share for share in shares)
        which = f"{backend:9} bins of {bin_ns // 1000:3} µs"
        print(f"  {which} {busy:.2f} ({silent:.2f}), {reached:,.0f} frames a second sent")
    print()


def begin_reader(lab: livelab.Lab, backend: str, bin_ns: int) -> subprocess.Popen[bytes]:
    with lab.inside(lab.far):
        command = [sys.executable, __file__, "--reader", backend, lab.b, str(bin_ns)]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout
    reader.stdout.readline()
    return reader


def speed(lab: livelab.Lab, backend: str) -> float:
    """Returns Gb/s of TCP while BACKEND records both directions."""
    reader = begin_reader(lab, backend, FINE_NS)
    begun = time.monotonic()
    livelab.transfer(lab, BYTES)
    took = time.monotonic() - begun
    reader.communicate(b"")
    return BYTES * 8 / took / 1e9


def read(backend: str, interface: str, bin_ns: str) -> None:
    """Reads until its standard input ends, and prints the CPU time that it has used since it was ready."""
    import threading

    capture = Capture([interface], backend=backend, bin_ns=int(bin_ns)) if backend != "nobody" else None
    print("ready", flush=True)
    if capture is None:
        sys.stdin.read()
        return
    threading.Thread(target=lambda: (sys.stdin.read(), capture.stop())).start()
    begun = time.process_time()
    while capture.read() is not None:
        pass
    print(json.dumps({"cpu_s": time.process_time() - begun}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=500_000, help="packets a second")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--reader", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        read(*arguments.reader)
        return
    cost = program("bench/ebpf_cost.c", flags=OPTIMIZE)
    sender = linked(("tests/c/send.c",), OPTIMIZE)
    of_the_program(cost)
    with livelab.make_lab() as lab:
        under_traffic(lab, cost, sender, arguments.rate, arguments.seconds)
        of_the_reader(lab, sender, arguments.rate, arguments.seconds)
        speeds: dict[str, list[float]] = {"nobody": [], "ebpf": [], "afpacket": []}
        for _ in range(arguments.rounds):
            for backend, found in speeds.items():
                found.append(speed(lab, backend))
    print(f"Gb/s of TCP through a veth pair while it is recorded by …, median of {arguments.rounds} (least, most)")
    for backend, found in speeds.items():
        print(f"  {backend:9} {statistics.median(found):6.2f} ({min(found):.2f}, {max(found):.2f})")


if __name__ == "__main__":
    main()
