"""What does --keep-packets cost? CPU time per packet of `mburst record` with and without a ring, and of tcpdump's ring.

    sudo .venv/bin/python bench/bench_ring.py [--rate 300000] [--seconds 10] [--size 1000] [--rounds 5]

Uses the packets and figures of bench_backends.py; the ring takes 256 MB, as does tcpdump's (-C -W). User and system
time are those of the whole process, including the thread that writes. Rounds alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench_backends import Cost, livelab, run
from building import OPTIMIZE, linked
from side_by_side import machine

KEPT_MB = 256


def contestants(lab: livelab.Lab, folder: Path) -> dict[str, list[str]]:
    """Returns names and command lines, each to be ended by SIGINT."""
    record = [sys.executable, "-m", "mburst", "record", lab.b, "--direction", "in", "--json", "-o"]
    tcpdump = ["tcpdump", "-i", lab.b, "-Z", "root", "-s", "128", "-B", "65536", "-w"]
    return {
        "record": [*record, str(folder / "without")],
        f"record --keep-packets {KEPT_MB}MB": [*record, str(folder / "with"), "--keep-packets", f"{KEPT_MB}MB"],
        f"tcpdump -s 128 -C {KEPT_MB // 16} -W 16": [
            *tcpdump,
            str(folder / "ring"),
            "-C",
            str(KEPT_MB // 16),
            "-W",
            "16",
        ],
        "tcpdump -s 128 -w /dev/null": [*tcpdump, "/dev/null"],
    }


def median(costs: list[Cost], name: str) -> float:
    return statistics.median(getattr(cost, name) for cost in costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=300_000, help="packets a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("not measured: the cost of a ring needs root, for network namespaces of its own")
        return
    count = int(arguments.rate * arguments.seconds)
    sender = linked(("tests/c/send.c",), OPTIMIZE)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder, livelab.make_lab() as lab:
        send = [str(sender), lab.a, str(count), str(arguments.rate), str(arguments.size)]
        for _ in range(arguments.rounds):
            for name, command in contestants(lab, Path(folder)).items():
                costs.setdefault(name, []).append(run(name, lab, command, send))
    print(f"ring: {machine()}; CPU ns a packet, medians of {arguments.rounds} rounds")
    for name, found in costs.items():
        got, sent = sum(cost.got for cost in found), sum(cost.sent for cost in found)
        print(
            f"| {name} | {median(found, 'user_ns'):.0f} | {median(found, 'system_ns'):.0f} | "
            f"{sent - got:,} of {sent:,} missed | {median(found, 'rate'):,.0f}/s |"
        )


if __name__ == "__main__":
    main()
