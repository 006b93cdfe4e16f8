#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many CPU nanoseconds does a packet cost the engine (decode, 10 µs bins, exact senders), and a libpcap loop?

Three contestants read the same file from the page cache: the engine, which reads it to the end and stores nothing; a
pcap_dispatch loop that counts the same (libpcap_loop.c); and one that only counts packets, the floor of any such loop.
Each is a separate process that reports the CPU time from opening the file to its end, and is repeated until its turn
has lasted a second, so that disturbances affect fast and slow contestants equally. The first two must agree on every
total except retransmits, of which the engine may miss one in a hundred: it stores a bounded number of flows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import HERE, TRAINS, fresh_capture, machine, ratio, rounds, spread

TOTALS = ("packets", "bytes", "wire_bytes", "ce_packets", "retransmits")
EXACT = ("packets", "bytes", "wire_bytes", "ce_packets", "bins", "senders")
TURN_NS = 10**9  # of CPU


def read_with_engine(capture: str) -> dict[str, Any]:
    """Returns the totals of libpcap_loop for CAPTURE, from the engine; and the peak of resident memory."""
    from mburst.capture import Capture

    start = time.process_time_ns()
    engine = Capture([capture], bin_ns=10_000, source_bin_ns=1_000_000)
    bins = senders = 0
    while (rows := engine.read()) is not None:
        bins += len(rows[0])
        senders += len(rows[1])
    cpu_ns = time.process_time_ns() - start
    lanes = [dict(lane) for lane in engine.lanes]
    totals = {name: sum(int(str(lane[name])) for lane in lanes) for name in TOTALS}
    return {"cpu_ns": cpu_ns, **totals, "bins": bins, "senders": senders, "peak_kib": peak_kib()}


def peak_kib() -> int:
    """Returns the peak of resident memory of this process (ru_maxrss may be that of the process from which it was
    forked)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def compile_loop(folder: Path) -> Path:
    program = folder / "libpcap_loop"
    subprocess.run(["cc", "-std=gnu11", "-O3", "-o", program, HERE / "libpcap_loop.c", "-lpcap"], check=True)
    return program


def answer(command: list[str | Path]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def compare(capture: Path, loop: Path, n: int) -> tuple[dict[str, list[float]], int]:
    """Returns the CPU nanoseconds per packet of each contestant in N rounds, and the engine's peak of resident memory
    in KiB."""
    commands: dict[str, list[str | Path]] = {
        "engine": [sys.executable, __file__, "--engine", capture],
        "libpcap, same work": [loop, "bins", capture],
        "libpcap, count only": [loop, "count", capture],
    }
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}

    def contestant(name: str) -> Callable[[], float]:
        def measure() -> float:
            turn: list[dict[str, Any]] = []
            while sum(run["cpu_ns"] for run in turn) < TURN_NS:
                turn.append(answer(commands[name]))
            answers[name] += turn
            return float(sum(run["cpu_ns"] for run in turn) / sum(run["packets"] for run in turn))

        return measure

    figures = rounds({name: contestant(name) for name in commands}, n)
    check_same_work(answers["engine"][0], answers["libpcap, same work"][0])
    return figures, max(run["peak_kib"] for run in answers["engine"])


def check_same_work(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    exact = all(ours[name] == theirs[name] for name in EXACT)
    if not exact or not 0.99 * theirs["retransmits"] <= ours["retransmits"] <= theirs["retransmits"]:
        raise SystemExit(f"the contestants did not do the same work:\n{ours}\n{theirs}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engine", metavar="CAPTURE", help="be one contestant: read CAPTURE with the engine")
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(read_with_engine(arguments.engine)))
        return
    print(f"engine: {machine()}; CPU ns a packet, median (least) of {arguments.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        loop = compile_loop(Path(folder))
        for name, train in TRAINS.items():
            with fresh_capture(train) as capture:
                figures, peak = compare(capture, loop, arguments.rounds)
            for contestant, ns in figures.items():
                print(f"| {name} | {contestant} | {spread(ns)} | {ratio(ns, figures['engine']):.2f} × |")
            print(f"| {name} | engine, peak resident | {peak / 1024:.0f} MiB | |")


if __name__ == "__main__":
    main()
