#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long does `mburst record` take as a whole, compared with capinfos and tshark on the same file?

Runs `mburst record` from its start to its exit, each time into a new store. The comparisons are `capinfos -c -d`, which
only counts the packets and sums their lengths, and `tshark -q -z io,stat,0.001`, which counts into bins of 1 ms. All
figures are elapsed seconds. tshark reads only the first TSHARK_PACKETS packets (`-c`); the time for them, minus that
for one packet, is extrapolated.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from side_by_side import PACKETS, TRAINS, Cost, fresh_capture, machine, ratio, rounds, run, spread

TSHARK_PACKETS = PACKETS // 20
RECORD, CAPINFOS = "mburst record --bin {}", "capinfos -c -d"
MBURST = Path(sys.executable).parent / "mburst"


def tshark_for_all(capture: Path) -> float:
    """Returns the elapsed seconds that tshark would take for the whole CAPTURE."""

    def took(packets: int) -> float:
        return run(["tshark", "-r", capture, "-c", str(packets), "-q", "-z", "io,stat,0.001"]).wall_s

    start_up = took(1)
    return start_up + (took(TSHARK_PACKETS) - start_up) * (PACKETS / TSHARK_PACKETS)


def compare(capture: Path, n: int) -> tuple[dict[str, list[float]], dict[str, list[Cost]]]:
    """Returns the elapsed seconds of each contestant except tshark in N rounds, and the costs from which they come."""
    costs: dict[str, list[Cost]] = {}

    def measured(name: str, command: list[str | Path]) -> float:
        costs.setdefault(name, []).append(run(command))
        return costs[name][-1].wall_s

    def record(width: str) -> float:
        with tempfile.TemporaryDirectory(prefix="mburst-bench-store-") as store:
            return measured(RECORD.format(width), [MBURST, "record", capture, "-o", store, "--bin", width])

    contestants: dict[str, Callable[[], float]] = {
        RECORD.format("100us"): lambda: record("100us"),
        RECORD.format("10us"): lambda: record("10us"),
        CAPINFOS: lambda: measured(CAPINFOS, ["capinfos", "-c", "-d", capture]),
    }
    return rounds(contestants, n), costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(f"record: {machine()}; seconds by the clock and of CPU, median (least) of {arguments.rounds} rounds")
    for name, train in TRAINS.items():
        with fresh_capture(train) as capture:
            figures, costs = compare(capture, arguments.rounds)
            tshark = tshark_for_all(capture)
        for contestant, wall in figures.items():
            cpu = spread([cost.cpu_s for cost in costs[contestant]])
            print(f"| {name} | {contestant} | {spread(wall)} | {cpu} | {versus(wall, figures)} |")
        slower = versus([tshark] * arguments.rounds, figures)
        print(f"| {name} | tshark -q -z io,stat,0.001 | {tshark:.3g} | | {slower} |")


def versus(wall: list[float], figures: dict[str, list[float]]) -> str:
    """Returns the ratio to `mburst record` with either width of bin."""
    return " | ".join(f"{ratio(wall, figures[RECORD.format(width)]):.2f} ×" for width in ("100us", "10us"))


if __name__ == "__main__":
    main()
