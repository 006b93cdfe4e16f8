# SPDX-License-Identifier: Apache-2.0
"""What `mburst fleet detect` takes for a day of racks, beside one database over everything.

Each rack is filled as bench_report.py does. The store is shipped to a folder: all rows, and the bursts alone. Rounds:
`mburst bursts` of the whole store; fleet detect in one process, rack by rack; in processes of this machine; on Spark
(`--spark`, local[*]). Peak is the largest process; for Spark that of Python.

    python bench/bench_fleet.py --racks 2 --hosts 20
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench_report import START, fill_host
from side_by_side import Cost, machine, run

from mburst.sql import StoreFolder

HERE = Path(__file__).parent
MBURST = [sys.executable, "-m", "mburst"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=20, help="of each rack")
    parser.add_argument("--bursts", type=int, default=200, help="a day and host, on average")
    parser.add_argument("--rate", type=int, default=10, help="quiet bins a second")
    parser.add_argument("--spark", action="store_true", help="also on Spark of this machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        measure(Path(folder), options)


def measure(folder: Path, options: argparse.Namespace) -> None:
    store, target = StoreFolder.create(folder / "store"), folder / "target"
    bins = sum(
        fill_host(store, f"r{rack}", f"h{rack}-{host}", 0, options, rack * 1000 + host)
        for rack in range(options.racks)
        for host in range(options.hosts)
    )
    for rack in range(options.racks):  # a day is complete once there are measurements of the next
        for host in range(options.hosts):
            fill_host(store, f"r{rack}", f"h{rack}-{host}", 1, argparse.Namespace(bursts=20, rate=0), host)
    shipped = run([*MBURST, "ship", store.path, target])
    size = bytes_of(target)
    own = run([*MBURST, "ship", store.path, folder / "own", "--level", "bursts"])
    date = datetime.fromtimestamp(START / 1e9, UTC).strftime("%Y-%m-%d")
    print(f"{machine()}\n{options.racks} racks of {options.hosts} hosts, a day: {bins:,} bins, {size / 1e6:,.0f} MB\n")
    detect = [*MBURST, "fleet", "detect", target, "--day", date, "-o"]
    rounds: dict[str, list[str | Path]] = {
        "one database over everything": [*MBURST, "bursts", store.path, "--csv"],
        "fleet detect, one process": [*detect, folder / "one", "--jobs", "1"],
        "fleet detect, processes": [*detect, folder / "several"],
    }
    if options.spark:
        rounds["fleet detect, Spark local[*]"] = [*detect, folder / "spark", "--master", "local[*]"]
    print(f"{'':32} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    show("ship", shipped)
    show("ship --level bursts", own)
    for name, command in rounds.items():
        show(name, run(command))
    again = run([*detect, folder / "one", "--jobs", "1"])
    show("again: nothing is new", again)
    records = [json.loads(path.read_text()) for path in (folder / "one").rglob("rack.json")]
    cpu_s = sum(record["cpu_s"] for record in records)
    hosts = options.racks * options.hosts
    print(f"\n{sum(record['rows']['bursts'] for record in records):,} bursts; CPU of tasks: {cpu_s:.1f} s")
    rows, bursts = size / hosts, bytes_of(folder / "own") / hosts
    print(f"a host and day: {rows / 1e3:,.0f} kB of rows, {bursts / 1e3:,.0f} kB of bursts")


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def show(name: str, cost: Cost) -> None:
    print(f"{name:32} {cost.wall_s:8.1f} {cost.cpu_s:8.1f} {cost.peak_bytes / 1e6:8.0f}", flush=True)


if __name__ == "__main__":
    main()
