# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks: the generated captures, measuring a command, alternating rounds, and a table of them."""

from __future__ import annotations

import datetime
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PACKETS = 10_000_000
TRAINS = {"trains of 16": 16, "no trains": 1}  # mean length of a train: packets of a flow one after the other
WATCH_MS = 10


@dataclass(frozen=True)
class Cost:
    """The cost of one run: elapsed seconds, CPU seconds (user and system), and the peak of memory."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@contextmanager
def fresh_capture(train: int) -> Iterator[Path]:
    """Yields a capture of PACKETS packets (1.1 GB), just written and therefore in the page cache, and removes it."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        capture = Path(folder, "capture.pcap")
        subprocess.run(
            [sys.executable, HERE / "make_capture.py", capture, "--packets", str(PACKETS), "--train", str(train)],
            check=True,
        )
        yield capture


def run(command: list[str | Path]) -> Cost:
    """Runs COMMAND without its output; raises CalledProcessError if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak_bytes = _watch(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes)


def _watch(pid: int) -> int:
    """Waits for a child to end. Returns its peak of resident bytes, sampled every WATCH_MS. (Not ru_maxrss, which a
    process inherits from the process that it was forked from.)"""
    peak = 0
    ended = select.poll()
    with os.fdopen(os.pidfd_open(pid)) as handle:
        ended.register(handle)
        while not ended.poll(WATCH_MS):
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            line = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
            peak = max(peak, int(line[1]) * 1024 if line else 0)
    return peak


def rounds(contestants: dict[str, Callable[[], float]], n: int) -> dict[str, list[float]]:
    """Returns N figures of each contestant, taken in turn (A B C A B C …), so that a busy moment affects all
    equally."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(n):
        for name, measure in contestants.items():
            figures[name].append(measure())
    return figures


def ratio(slower: list[float], faster: list[float]) -> float:
    """Returns the median over the rounds of the ratio of SLOWER to FASTER in the same round."""
    return statistics.median(a / b for a, b in zip(slower, faster, strict=True))


def spread(figures: list[float], scale: float = 1.0) -> str:
    """ "median (least)" of FIGURES × SCALE."""
    return f"{statistics.median(figures) * scale:.3g} ({min(figures) * scale:.3g})"


def machine() -> str:
    """Returns date, processor, cores, kernel, Python, and how busy the machine was."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return (
        f"{datetime.date.today()}, {model[1] if model else platform.machine()}, {os.cpu_count()} cores, "
        f"Linux {platform.release()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
