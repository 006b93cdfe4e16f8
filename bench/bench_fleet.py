# SPDX-License-Identifier: Apache-2.0
"""How long does `mburst fleet detect` take for a day of racks, compared with one database, and what does a fleet take?

Each rack is filled as in bench_report.py. The store is shipped to a folder, and its first rack (hard links to its
files) also at the level bursts: hosts do that for themselves, all in the same way. Rounds: `mburst bursts` of the whole
store; fleet detect in one process, rack by rack; in processes of this machine; on Spark (`--spark`, local[*]). The peak
is that of the first process of a command, not of the processes that it starts.

Then the cost of a fleet of --fleet hosts is extrapolated from these figures, by the formula that is printed with it.

    python bench/bench_fleet.py --racks 2 --hosts 20
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench_report import START, fill_host
from side_by_side import Cost, machine, run

from mburst.fleet import DETECTED
from mburst.sql import StoreFolder

HERE = Path(__file__).parent
MBURST = [sys.executable, "-m", "mburst"]
SEALED = 96  # files of bins, of senders and of recordings that a recorder seals in a day: one every 15 minutes
FILLING = 4  # hosts that are filled at the same time
RECEIPTS = 24  # of a host and day: one every hour


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=20, help="of each rack")
    parser.add_argument("--bursts", type=int, default=200, help="a day and host, on average")
    parser.add_argument("--rate", type=int, default=10, help="quiet bins a second")
    parser.add_argument("--spark", action="store_true", help="also on Spark of this machine")
    parser.add_argument("--fleet", type=int, default=40_000, help="hosts of the fleet (1,000 racks of 40)")
    prices = parser.add_argument_group("prices", "list prices of us-east-1, in dollars")
    prices.add_argument("--core-hour", type=float, default=0.0408, help="half an m7g.large on demand")
    prices.add_argument("--gb-month", type=float, default=0.023, help="S3 Standard")
    prices.add_argument("--put-million", type=float, default=5.0, help="S3 Standard, PUT")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mburst-bench-") as folder:
        measure(Path(folder), options)


@dataclass(frozen=True)
class LevelCost:
    """The cost of a level for each host and day: bytes and objects that arrive, and CPU seconds there and on the
    host."""

    bytes: float
    objects: int
    central_s: float
    host_s: float


def measure(folder: Path, options: argparse.Namespace) -> None:
    store, target = StoreFolder.create(folder / "store"), folder / "target"
    hosts = [(f"r{rack}", f"h{rack}-{host}") for rack in range(options.racks) for host in range(options.hosts)]
    with ThreadPoolExecutor(FILLING) as pool:  # most of the time is waiting for the disk
        bins = sum(pool.map(lambda seed: fill_host(store, *hosts[seed], 0, options, seed), range(len(hosts))))
    shipped = run([*MBURST, "ship", store.path, target])
    size = size_of(target, "*.parquet")
    print(f"{machine()}\n{options.racks} racks of {options.hosts} hosts, a day: {bins:,} bins, {size / 1e6:,.0f} MB\n")
    print(f"{'':32} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    show("ship", shipped)
    detection = detect_day(folder, store, options.spark)
    records = [json.loads(path.read_text()) for path in (folder / "one").rglob("rack.json")]
    first = rack_alone(store.path, StoreFolder.create(folder / "first"), "r0")
    for seed, host in enumerate(hosts[: options.hosts]):  # a day is complete when later data are sealed
        fill_host(first, *host, 1, argparse.Namespace(bursts=20, rate=0), seed)
    by_hosts = {level: run([*MBURST, "ship", first.path, folder / level, "--level", level]) for level in DETECTED}
    for level, cost in by_hosts.items():
        show(f"ship --level {level}, a rack", cost)
    cpu_s = sum(record["cpu_s"] for record in records)
    print(f"\n{sum(record['rows']['bursts'] for record in records):,} bursts; CPU of tasks: {cpu_s:.1f} s")
    n, tables = len(hosts), len(records[0]["rows"])
    levels = {"all": LevelCost(size / n, 3 * SEALED + RECEIPTS, detection.cpu_s / n, shipped.cpu_s / n)} | {
        level: LevelCost(
            size_of(folder / level, "*") / options.hosts,
            tables + 2 * (level == "hot") + 2 + RECEIPTS,
            0.0,
            cost.cpu_s / options.hosts,
        )
        for level, cost in by_hosts.items()
    }
    extrapolate(levels, options)


def rack_alone(whole: Path, store: StoreFolder, rack: str) -> StoreFolder:
    """Returns STORE with the files that the store WHOLE has of RACK."""
    for path in whole.glob(f"*/date=*/rack={rack}/*.parquet"):
        link = store.path / path.relative_to(whole)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.hardlink_to(path)
    return store


def detect_day(folder: Path, store: StoreFolder, spark: bool) -> Cost:
    """Detects the first day in each way. Returns the cost of one process."""
    date = datetime.fromtimestamp(START / 1e9, UTC).strftime("%Y-%m-%d")
    detect = [*MBURST, "fleet", "detect", folder / "target", "--day", date, "-o"]
    rounds: dict[str, list[str | Path]] = {
        "one database over everything": [*MBURST, "bursts", store.path, "--csv"],
        "fleet detect, one process": [*detect, folder / "one", "--jobs", "1"],
        "fleet detect, processes": [*detect, folder / "several"],
    }
    if spark:
        rounds["fleet detect, Spark local[*]"] = [*detect, folder / "spark", "--master", "local[*]"]
    rounds["again: nothing is new"] = [*detect, folder / "one", "--jobs", "1"]
    costs = {}
    for name, command in rounds.items():
        costs[name] = run(command)
        show(name, costs[name])
    return costs["fleet detect, one process"]


def size_of(folder: Path, pattern: str) -> int:
    """Returns the bytes of the files below FOLDER."""
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def extrapolate(levels: dict[str, LevelCost], options: argparse.Namespace) -> None:
    """Prints the cost of a day of --fleet hosts, by level."""
    print(f"\nA day of {options.fleet:,} hosts = {options.fleet:,} × what a host took here:")
    print(f"{'level':8} {'kB a host':>10} {'GB':>8} {'objects':>12} {'core-h':>7} {'on hosts':>9} {'$ a day':>8}")
    for name, of in levels.items():
        gb, objects = of.bytes * options.fleet / 1e9, of.objects * options.fleet
        core_h = of.central_s * options.fleet / 3600
        dollars = core_h * options.core_hour + gb * options.gb_month + objects / 1e6 * options.put_million
        on_hosts = of.host_s * options.fleet / 3600
        print(
            f"{name:8} {of.bytes / 1e3:10,.0f} {gb:8,.1f} {objects:12,} {core_h:7,.1f} {on_hosts:9,.1f} {dollars:8,.2f}"
        )
    print(
        f"$ a day = core-h × {options.core_hour} + GB × {options.gb_month} (kept for a month) "
        f"+ objects / 1,000,000 × {options.put_million}; what hosts do is not bought.\n"
        f"Objects of a host: all: 3 tables × {SEALED} files + {RECEIPTS} receipts; hot, bursts: a file a table, "
        f"plan and record, and {RECEIPTS} receipts."
    )


def show(name: str, cost: Cost) -> None:
    print(f"{name:32} {cost.wall_s:8.1f} {cost.cpu_s:8.1f} {cost.peak_bytes / 1e6:8.0f}", flush=True)


if __name__ == "__main__":
    main()
