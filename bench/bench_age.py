#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does a store cost as it gets older: in files and bytes, before and after compaction, and for each query?

Writes --days days of --hosts hosts, a segment every 15 minutes, with bursts in one of every hundred seconds. Queries
the store, a tenth of its hosts, and the last 20 segments of one host (hard links to the same files): the bursts of the
last minute, those of all days, the report of a rack over the last hour, `status`; the time until `mburst live` answers,
and the cost of a scrape of `mburst metrics`. Then compacts, and queries again. Figures are CPU seconds of the whole
command (for live: elapsed seconds), the median of --repeat and the least.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from side_by_side import machine, run, spread

from mburst.sql import StoreFolder
from mburst.sql.format.filenames import SealedName
from mburst.sql.tables import arrow_schema

MBURST = Path(sys.executable).parent / "mburst"
S, DAY_NS, BIN_NS = 10**9, 86_400 * 10**9, 100_000
SEGMENTS = 96  # per day
# Runs as if three days later, when all of these days are old enough: files that are written now count as new.
COMPACT = """
import sys, time
from mburst.process.python import one_thread_for_products
one_thread_for_products()
from mburst.sql import StoreFolder
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import KeepRules
from mburst.units import NS_PER_DAY
compact(StoreFolder.open(sys.argv[1]), KeepRules(), now_ns=time.time_ns() + 3 * NS_PER_DAY)
"""
LINK = 10**9


def bins(host: str, times: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Returns bins at TIMES: 1 % of line rate, and full ones in each hundredth second."""
    wire = random.integers(84, 200, len(times))
    full = times // S % 100 == 0
    wire[full] = random.integers(4000, 12_500, int(full.sum()))
    return rows("bins", host, ts_ns=times, bytes=wire - 20, wire_bytes=wire, packets=np.ones(len(times), np.uint32))


def rows(table: str, host: str, **columns: object) -> pa.Table:
    """Returns rows of TABLE with COLUMNS, and 0 or the common value in the other columns."""
    count = len(columns["ts_ns"])  # type: ignore[arg-type]
    fixed = {"recording_id": host, "host": host, "rack": "r1", "interface": "eth0", "direction": "in"}
    arrays = []
    for field in arrow_schema(table):
        if field.name in columns:
            arrays.append(pa.array(columns[field.name]).cast(field.type))
        elif field.nullable:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(pa.array([fixed.get(field.name, 0)] * count, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(table))


def fill(store: StoreFolder, hosts: int, days: int, rate: int) -> int:
    """Writes the days before today. Returns the end of the last."""
    random = np.random.default_rng(1)
    end_ns = time.time_ns() // DAY_NS * DAY_NS
    first_ns = end_ns - days * DAY_NS
    for number in range(hosts):
        host, writer = f"h{number:03}", f"{number + 1:012x}"
        total = np.zeros(3, np.int64)
        with store.writer("bins", host, "r1", writer) as to, store.writer("sources", host, "r1", writer) as senders:
            for segment in range(days * SEGMENTS):
                span = DAY_NS // SEGMENTS
                begin = (first_ns + segment * span) // BIN_NS
                chosen = random.choice(span // BIN_NS, rate * span // S, replace=False)
                table = bins(host, (begin + np.sort(chosen)) * BIN_NS, random)
                to.append(table)
                to.roll()
                times = table.column("ts_ns").to_numpy()
                sent = {"first_ns": times, "last_ns": times + 1, "bytes": table.column("bytes").to_numpy()}
                names = np.char.add("10.0.0.", random.integers(0, 200, len(times)).astype(str))
                ones = dict.fromkeys(("packets", "flows", "members"), np.ones(len(times), np.uint32))
                senders.append(rows("sources", host, ts_ns=times // 10**6 * 10**6, source=names, **ones, **sent))
                senders.roll()
                total += [table.num_rows, sum(sent["bytes"]), int(table.column("wire_bytes").to_numpy().sum())]
        write_recording(store, host, writer, (first_ns, end_ns), total, BIN_NS)
    return end_ns


def write_recording(
    store: StoreFolder, host: str, writer: str, span_ns: tuple[int, int], total: np.ndarray, bin_ns: int
) -> None:
    """Writes the row of a recording of SPAN_NS; TOTAL: its packets, bytes and wire bytes."""
    texts = {"host": host, "rack": "r1", "interface": "eth0", "direction": "in", "recording_id": host}
    given = {
        field.name: 0 if field.type == pa.int64() else "" for field in arrow_schema("recordings") if not field.nullable
    }
    given |= texts | {"capture_id": host, "writer_id": writer, "link_bps": LINK, "bin_ns": bin_ns, "boot_id": "b"}
    given |= {"source_bin_ns": 10**6, "clock_epochs": 1, "complete": True, "ended": "finished"}
    given |= {"start_ns": span_ns[0], "end_ns": span_ns[1] - 1, "written_ns": span_ns[1], "begun_ns": span_ns[0]}
    given |= dict(zip(("packets", "bytes", "wire_bytes"), map(int, total), strict=True))
    with store.writer("recordings", host, "r1", writer) as to:
        to.append(pa.Table.from_pylist([given], arrow_schema("recordings")))


def part_of(store: StoreFolder, folder: Path, hosts: int, segments: int) -> StoreFolder:
    """Returns a store of the last SEGMENTS segments of the first HOSTS hosts of STORE, whose segments are numbered."""
    part = StoreFolder.create(folder)
    files = [(path, SealedName.parse(path.name)) for path in store.path.rglob("*.parquet")]
    last = max(name.segment.number for _, name in files if name)
    for path, name in files:
        is_recent = path.parts[-4] == "recordings" or (name and name.segment.number > last - segments)
        if name and is_recent and int(name.segment.writer, 16) <= hosts:
            link = part.path / path.relative_to(store.path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(path)
    return part


def describe(store: StoreFolder, repeat: int) -> None:
    """Prints files, bytes, and the cost of each query."""
    files = list(store.path.rglob("*.parquet"))
    size = sum(file.stat().st_size for file in files)
    print(f"  {len(files):,} files, {size / 1e6:,.0f} MB, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        questions = {
            "bursts of the last minute": ["bursts", store.path, "--since", "1m", "--json"],
            "bursts of all days": ["bursts", store.path, "--json"],
            "report of the rack, last hour": ["report", store.path, "--rack", "r1", "--since", "1h", "-o", folder],
            "recordings": ["sql", store.path, "recordings"],
        }
        for name, words in questions.items():
            costs = [run([MBURST, *words]) for _ in range(repeat)]
            print(f"  {name:30} {spread([cost.cpu_s for cost in costs])} CPU s")
    # Nothing is being recorded, so `status` reports a problem and exits with 1.
    costs = [run(["sh", "-c", f"{MBURST} status {store.path} || true"]) for _ in range(repeat)]
    print(f"  {'status':30} {spread([cost.cpu_s for cost in costs])} CPU s")
    print(f"  {'live answers, by the clock':30} {spread([live_answers_s(store) for _ in range(repeat)])} s")
    print(f"  {'a scrape of metrics':30} {spread(scrapes_s(store))} CPU s")


@contextmanager
def serving(store: StoreFolder, verb: str) -> Iterator[tuple[int, str]]:
    """Yields the process of a verb that serves STORE, and its address once it answers there."""
    command = [MBURST, verb, store.path, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            [address] = re.findall(r"http://\S+", process.stdout.readline())
            yield process.pid, address
        finally:
            process.send_signal(signal.SIGINT)


def live_answers_s(store: StoreFolder) -> float:
    """Returns the seconds from the start of `mburst live` until its page is available."""
    began = time.perf_counter()
    with serving(store, "live") as (_, address):
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        urllib.request.build_opener(cookies).open(address).read()
        return time.perf_counter() - began


def scrapes_s(store: StoreFolder) -> list[float]:
    """Returns the processor seconds of `mburst metrics` for each of ten scrapes."""
    with serving(store, "metrics") as (pid, address):
        found = []
        for _ in range(10):
            before = processor_s(pid)
            urllib.request.urlopen(address).read()
            found.append(processor_s(pid) - before)
        return found


def processor_s(pid: int) -> float:
    """Returns the processor time that a process has used, from the scheduler (ns)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def main() -> None:
    """Writes, queries, compacts, queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=30)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rate", type=int, default=20, help="bins a second of each host (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        store = StoreFolder.create(Path(folder) / "store")
        fill(store, given.hosts, given.days, given.rate)
        parts = {
            20: part_of(store, Path(folder) / "few", 1, 20),
            (ten := max(given.hosts // 10, 1)) * given.days * SEGMENTS: part_of(
                store, Path(folder) / "ten", ten, 2**31
            ),
            given.hosts * given.days * SEGMENTS: store,
        }
        for segments, part in parts.items():
            print(f"{segments:,} segments a table:")
            describe(part, given.repeat)
        cost = run([sys.executable, "-c", COMPACT, store.path])
        total = given.hosts * given.days * 86_400 * given.rate
        rate = f"{total / cost.cpu_s / 1e6:.2f} M bins a CPU s, {total / cost.wall_s / 1e6:.2f} M by the clock"
        print(f"compacted in {cost.cpu_s:.1f} CPU s, {cost.peak_bytes / 1e6:.0f} MB: {rate}")
        describe(store, given.repeat)


if __name__ == "__main__":
    main()
