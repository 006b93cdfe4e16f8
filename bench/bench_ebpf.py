"""What does counting in the kernel cost? The program alone, the program under real traffic, and TCP beside it.

    sudo .venv/bin/python bench/bench_ebpf.py [--rate 500000] [--seconds 5] [--rounds 6]

Through a veth pair in namespaces of their own. A virtual machine's clock may cost more than all the rest: therefore it
is measured apart. What the recorder as a whole costs is in bench_sources.py.
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


def of_the_program(cost: Path) -> None:
    done = subprocess.run([cost], capture_output=True, text=True, check=True)
    found = {row["program"]: row["ns"] for row in map(json.loads, done.stdout.splitlines())}
    empty, clock = found["empty"], found["clock"] - found["empty"]
    print("ns a packet, the same frame again and again (BPF_PROG_TEST_RUN)")
    print(f"  a program that does nothing {empty:4}, of which the test itself is most")
    print(f"  reading the clock           {clock:4}")
    print(f"  counting                    {found['counts'] - empty - clock:4}")
    print(f"  in all                      {found['counts']:4}")
    print(f"  in all, at XDP              {found['xdp']:4}\n")


def under_traffic(lab: livelab.Lab, cost: Path, sender: Path, rate: int, seconds: int) -> None:
    inside = ["ip", "netns", "exec"]
    command = [*inside, lab.far, str(cost), lab.b, str(seconds + 2)]
    measured = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert measured.stdout
    measured.stdout.readline()
    subprocess.run([*inside, lab.near, str(sender), lab.a, str(rate * seconds), str(rate), "64"], check=True)
    row = json.loads(measured.communicate()[0])
    print(f"under traffic: {row['ns']:.0f} ns a packet with the kernel's own measuring ({row['packets']:,} packets)\n")


def speed(lab: livelab.Lab, backend: str) -> float:
    """Gb/s of TCP while BACKEND records both directions."""
    with lab.inside(lab.far):
        command = [sys.executable, __file__, "--reader", backend, lab.b]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout
    reader.stdout.readline()
    begun = time.monotonic()
    livelab.transfer(lab, BYTES)
    took = time.monotonic() - begun
    reader.communicate(b"")
    return BYTES * 8 / took / 1e9


def read(backend: str, interface: str) -> None:
    """Reads until its standard input ends."""
    import threading

    capture = Capture([interface], backend=backend, bin_ns=10_000) if backend != "nobody" else None
    print("ready", flush=True)
    if capture is None:
        sys.stdin.read()
        return
    threading.Thread(target=lambda: (sys.stdin.read(), capture.stop())).start()
    while capture.read() is not None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=500_000, help="packets a second")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--reader", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        read(*arguments.reader)
        return
    cost = program("bench/ebpf_cost.c", flags=OPTIMIZE)
    sender = linked(("tests/c/send.c",), OPTIMIZE)
    of_the_program(cost)
    with livelab.make_lab() as lab:
        under_traffic(lab, cost, sender, arguments.rate, arguments.seconds)
        speeds: dict[str, list[float]] = {"nobody": [], "ebpf": [], "afpacket": []}
        for _ in range(arguments.rounds):
            for backend, found in speeds.items():
                found.append(speed(lab, backend))
    print(f"Gb/s of TCP through a veth pair while it is recorded by …, median of {arguments.rounds} (least, most)")
    for backend, found in speeds.items():
        print(f"  {backend:9} {statistics.median(found):6.2f} ({min(found):.2f}, {max(found):.2f})")


if __name__ == "__main__":
    main()
