#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What do 5,000 probes per second cost, in processor cores, at each end?

Runs `mburst probe` (with a store) and `mburst reflect` over the loopback, at RATE probes per second to one target. The
cost is the CPU time of each process, user and system, of a long run minus that of a short one, divided by the
difference of their lengths: start-up, and the work after the last probe, are the same in both. On the loopback, the
sender's CPU also does the receiver's part of the kernel's work, so the cost over a network is lower.

A busy machine makes the figures look better: a process that waits for a processor is woken once for several packets.
--real-time gives both ends precedence over everything else (SCHED_FIFO, which needs root), so that each packet is
handled separately.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from side_by_side import machine

RATE = 5000
SHORT_S, LONG_S = 2, 12
MOST_CORES = 0.5
MBURST = Path(sys.executable).parent / "mburst"
WHERE = "127.0.0.1:18620"


@dataclass(frozen=True)
class Used:
    """CPU seconds of both ends in one run, and the outcomes of the probes."""

    prober_s: float
    reflector_s: float
    sent: int
    lost: int


def run(protocol: str, seconds: int, before: list[str]) -> Used:
    """Probes for the given time; `before` is the prefix of commands."""
    reflector = subprocess.Popen([*before, MBURST, "reflect", "--listen", WHERE], stdout=subprocess.PIPE, text=True)
    assert reflector.stdout
    reflector.stdout.readline()
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        prober = subprocess.Popen(
            [
                *before,
                MBURST,
                "probe",
                WHERE,
                "--protocol",
                protocol,
                "--rate",
                f"{RATE}/s",
                "--duration",
                f"{seconds}s",
                "--json",
                "-o",
                f"{folder}/store",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert prober.stdout
        [answer] = json.loads(prober.stdout.read())
        prober_s = cpu_s(prober)
    reflector.terminate()
    return Used(prober_s, cpu_s(reflector), answer["sent"], answer["lost"])


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Waits for a process to end. Returns its user and system time."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    if process.stdout:
        process.stdout.close()
    return usage.ru_utime + usage.ru_stime


def cores(protocol: str, before: list[str]) -> tuple[float, float, int, int]:
    """Returns the number of cores that prober and reflector keep busy, and the sent and lost probes of the long run."""
    short, long = run(protocol, SHORT_S, before), run(protocol, LONG_S, before)
    span = LONG_S - SHORT_S
    costs = ((long.prober_s - short.prober_s) / span, (long.reflector_s - short.reflector_s) / span)
    return (*costs, long.sent, long.lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--real-time", action="store_true", help="before all other work; needs root")
    arguments = parser.parse_args()
    before = ["chrt", "--fifo", "1"] if arguments.real_time else []
    print(
        f"probe: {machine()}; cores at {RATE:,} probes a second, median (least) of {arguments.rounds} rounds"
        + (", real time" if before else "")
    )
    print("| protocol | prober | reflector | sent | lost |")
    dear = []
    for protocol in ("udp", "tcp"):
        found = [cores(protocol, before) for _ in range(arguments.rounds)]
        prober, reflector = ([one[place] for one in found] for place in (0, 1))
        print(
            f"| {protocol} | {statistics.median(prober):.2f} ({min(prober):.2f}) | "
            f"{statistics.median(reflector):.2f} ({min(reflector):.2f}) | {found[-1][2]:,} | {found[-1][3]:,} |"
        )
        if min(prober) >= MOST_CORES:
            dear.append(protocol)
    if dear:
        print(f"{' and '.join(dear)}: at or above the {MOST_CORES} cores that are the aim")


if __name__ == "__main__":
    main()
