#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many updates per second does `mburst collect` take from a switch into a store, on one core?

A server (gnmi_source.py) on another core sends UPDATES updates of 512 queues, ten leaves each, as fast as they are
accepted. The rate is measured from the collector's first message to the sync after the last one, while it writes, and
then to the end of the process with all rows sealed. Of each queue's ten leaves, five are columns of `queues`, and five
are rows of `gnmi_values`.

Then the disk stalls (the store's writer is made to wait): prints how much memory the collector takes, and how many
updates it reports as dropped, compared with those that it received.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import machine, spread

HERE = Path(__file__).parent
CORES = os.sched_getaffinity(0)
MBURST = Path(sys.executable).parent / "mburst"
CONFIG = """
targets: {{switch: {{address: "unix:{socket}", insecure: true}}}}
subscriptions: {{queues: {{paths: [/qos/interfaces], stream-mode: sample, sample-interval: 10s, encoding: proto}}}}
mburst: {{buffer: {buffer}}}
"""
STALL = """
import asyncio, resource, sys, time
from mburst.sql.writer import Writer
append = Writer.append
def stalled(self, batch):
    time.sleep(1e6 if self._table in ("queues", "gnmi_values") else 0)
    append(self, batch)
Writer.append = stalled
from mburst.services.collector import Collector
from mburst.sql import Store
from mburst.telemetry.gnmi.gnmic_file import load
async def work():
    collector = Collector(load(sys.argv[1]), Store.create(sys.argv[2]), print)
    task = asyncio.create_task(collector.run())
    device = collector.sessions[0].device
    while device.values < int(sys.argv[3]):
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.5)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(device.values, collector.writing.dropped.total(), peak, flush=True)
    import os; os._exit(0)
asyncio.run(work())
"""


class Source:
    """The server, on the first core."""

    def __init__(self, folder: Path, updates: int, a_message: int) -> None:
        self.socket = folder / "switch.sock"
        self._process = subprocess.Popen(
            [*pinned(0), sys.executable, HERE / "gnmi_source.py", self.socket, str(updates), str(a_message)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout and self._process.stdout.readline().startswith("ready")

    def wait_sent(self) -> None:
        """Waits until everything has been sent; until then nothing else runs on the server's core."""
        assert self._process.stdout and self._process.stdout.readline().startswith("sent")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def pinned(core: int) -> list[str]:
    """Returns the command that pins another one to a core, if there are several cores."""
    return ["taskset", "-c", str(sorted(CORES)[core % len(CORES)])]


def collected(updates: int, a_message: int) -> tuple[float, float, float]:
    """Returns (updates per second until the sync, the same until all is sealed, CPU seconds of the collector)."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-gnmi-") as name:
        folder = Path(name)
        source = Source(folder, updates, a_message)
        config = folder / "gnmi.yaml"
        config.write_text(CONFIG.format(socket=source.socket, buffer="1G"))
        try:
            process = subprocess.Popen(
                [*pinned(1), MBURST, "collect", config, "-o", folder / "store"], stdout=subprocess.PIPE, text=True
            )
            source.wait_sent()
            wait_for_sync(folder / "store")
            process.send_signal(2)
            _, _, usage = os.wait4(process.pid, 0)
            ended_ns = time.time_ns()
        finally:
            source.close()
        assert process.stdout
        printed = process.stdout.read()
        assert f"{updates:,} values" in printed and "dropped" not in printed, printed
        first_ns, sync_ns = spans(folder / "store")
        return (
            updates * 1e9 / (sync_ns - first_ns),
            updates * 1e9 / (ended_ns - first_ns),
            usage.ru_utime + usage.ru_stime,
        )


def wait_for_sync(store: Path) -> None:
    """Waits until the store has the event of the stream's sync."""
    from mburst.sql import StoreFolder

    while True:
        time.sleep(0.1)
        if (store / "mburst.json").exists() and (store / "hot" / "gnmi_events").exists():
            found = (
                StoreFolder.open(store)
                .connect()
                .execute("SELECT count(*) FROM gnmi_events WHERE event = 'sync'")
                .fetchone()
            )
            if found and found[0]:
                return


def spans(store: Path) -> tuple[int, int]:
    """Returns when the first row was received, and when the sync was."""
    from mburst.sql import StoreFolder

    con = StoreFolder.open(store).connect()
    (first,) = con.execute("SELECT min(receive_ns) FROM queues").fetchone() or (0,)
    (sync,) = con.execute("SELECT ts_ns FROM gnmi_events WHERE event = 'sync'").fetchone() or (0,)
    return first, sync


def stalled(updates: int, buffer: str) -> str:
    """Returns what happens to UPDATES while the disk accepts nothing."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-gnmi-") as name:
        folder = Path(name)
        source = Source(folder, updates, 10)
        config = folder / "gnmi.yaml"
        config.write_text(CONFIG.format(socket=source.socket, buffer=buffer))
        try:
            done = subprocess.run(
                [*pinned(1), sys.executable, "-c", STALL, config, folder / "store", str(updates)],
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            source.close()
        values, dropped, peak = map(int, re.findall(r"\d+", done.stdout.splitlines()[-1]))
        return f"{values:,} received, {dropped:,} rows dropped and counted, {peak / 1e6:,.0f} MB at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=1_000_000)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {sorted(CORES)[0]})  # the collector has a core to itself
    print(f"gnmi: {machine()}; median (least) of {arguments.rounds} rounds")
    for a_message in (10, 1):
        updates = arguments.updates if a_message > 1 else arguments.updates // 4
        found = [collected(updates, a_message) for _ in range(arguments.rounds)]
        live, sealed, cpu = zip(*found, strict=True)
        print(
            f"| {a_message} updates a message | {spread(list(live))}/s received | {spread(list(sealed))}/s sealed | "
            f"{spread([seconds / updates * 1e6 for seconds in cpu])} µs of CPU an update, with start-up and sealing |",
            flush=True,
        )
    for buffer in ("32M", "128M"):
        print(f"| disk stalled, buffer {buffer} | {stalled(2 * arguments.updates, buffer)} |", flush=True)


if __name__ == "__main__":
    main()
