#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long does a packet take to its pixel, how many drawings are there per second, and what do fifty browsers cost?

- pixel: from the end of the newest bin to the frame of Chromium (headless, no GPU) that shows it; for a store to which
  bins are appended every 10 ms, and for packets on the loopback that `mburst live lo` records (as root).
- drawings: frames that show something new, frames of the browser, and points in the figure, each per second.
- clients: CPU time of the server while its store grows, alternately without a browser and with fifty WebSockets that
  follow one lane.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from side_by_side import machine

from mburst.sql import StoreFolder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "lib"))

from browserlib import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession

BIN_NS = 100_000
APPEND_S = 0.01
CLIENTS = 50
ROUNDS = 3
ARRIVAL_S = 4.0  # time in which all clients have connected
WATCH = """seconds => new Promise((done) => {
  const delays = [], begun = performance.now();
  let frames = 0, last = null;
  addEventListener('mburst-drawn', (event) => {
    if (event.detail.edge === last) return;
    last = event.detail.edge;
    const edge = view.originS * 1000 + last / 1e6;
    requestAnimationFrame(() => delays.push(performance.timeOrigin + performance.now() - edge));
  });
  const frame = () => {
    frames++;
    if (performance.now() - begun < seconds * 1000) return requestAnimationFrame(frame);
    const points = Object.values(view.timeline.found).reduce((sum, { x }) => sum + x.length, 0);
    return done({ delays, frames, points });
  };
  requestAnimationFrame(frame);
})"""


class Feeder(threading.Thread):
    """Appends the bins of the elapsed time, every APPEND_S, with a probe and a window of a switch per millisecond."""

    def __init__(self, store: StoreFolder) -> None:
        super().__init__(daemon=True)
        self.writers = {
            "bins": store.writer("bins", "bench", "r1"),
            "probes": store.writer("probes"),
            "queues": store.writer("queues"),
        }
        self.ending = threading.Event()
        self.at = time.time_ns() // BIN_NS * BIN_NS
        self.noise = np.random.default_rng(1)
        with store.writer("recordings", "bench", "r1") as runs:
            runs.append(pa.Table.from_pylist([self._run()]))
        self._append()

    def _run(self) -> dict[str, Any]:
        texts = dict.fromkeys(("backend", "input", "filter", "offloads", "notes", "version"), "")
        counts = dict.fromkeys(
            (
                "snaplen",
                "packets",
                "bytes",
                "wire_bytes",
                "unattributed_packets",
                "unattributed_bytes",
                "dropped",
                "late",
                "late_bytes",
                "unparsed",
            ),
            0,
        )
        return {
            "recording_id": "bench-0",
            "capture_id": "bench",
            "host": "bench",
            "rack": "r1",
            "interface": "eth0",
            "direction": "in",
            "link_bps": 10**9,
            "bin_ns": BIN_NS,
            "source_bin_ns": 10**6,
            "clock": "kernel, ns",
            "start_ns": self.at,
            "end_ns": self.at,
            "clock_epochs": 1,
            "quality": 2,
            "complete": False,
            "written_ns": self.at,
            "writer_id": "000000000000",
            "begun_ns": self.at,
            "ended": "",
            **texts,
            **counts,
        }

    def _append(self) -> None:
        end = time.time_ns() // BIN_NS * BIN_NS
        times = np.arange(self.at, end, BIN_NS)
        wire = self.noise.integers(84, 4000, len(times))
        wire[self.noise.random(len(times)) < 0.002] = 12_500
        names = {"recording_id": "bench-0", "host": "bench", "rack": "r1", "interface": "eth0", "direction": "in"}
        self.writers["bins"].append(
            pa.table(
                {
                    **{name: pa.array([value] * len(times)).dictionary_encode() for name, value in names.items()},
                    "clock_epoch": np.zeros(len(times), np.uint16),
                    "ts_ns": times,
                    "bytes": wire - 24,
                    "wire_bytes": wire,
                    "packets": np.ones(len(times), np.uint32),
                    "ce_packets": np.zeros(len(times), np.uint32),
                    "retransmits": np.zeros(len(times), np.uint32),
                    "quality": np.full(len(times), 2, np.uint16),
                }
            )
        )
        sent = np.arange(self.at // 10**6 * 10**6 + 10**6, end, 10**6)
        if len(sent):
            paths = {"batch": "bench", "src": "a", "dst": "bench", "protocol": "udp", "stamp_kind": "sw"}
            self.writers["probes"].append(
                pa.table(
                    {
                        **{name: pa.array([value] * len(sent)).dictionary_encode() for name, value in paths.items()},
                        "seq": sent,
                        "tx_ns": sent,
                        "rtt_ns": self.noise.integers(15_000, 40_000, len(sent)),
                        "lost": np.zeros(len(sent), bool),
                    }
                )
            )
            queue = {"batch": "bench", "device": "tor1", "port": "swp1", "queue": "7", "semantics": "periodic-max"}
            self.writers["queues"].append(
                pa.table(
                    {
                        **{name: pa.array([value] * len(sent)).dictionary_encode() for name, value in queue.items()},
                        "window_start_ns": sent - 10**6,
                        "ts_ns": sent,
                        "max_bytes": self.noise.integers(0, 2_000_000, len(sent)),
                        "quality": np.zeros(len(sent), np.uint16),
                    }
                )
            )
        self.at = end

    def run(self) -> None:
        while not self.ending.wait(APPEND_S):
            self._append()
        for writer in self.writers.values():
            writer.close()


@contextmanager
def serving(*target: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yields the process of `mburst live TARGET`, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mburst", "live", *target, "--listen", "127.0.0.1:0", "--open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        printed = process.stdout.readline()
        if not printed:
            raise SystemExit(f"mburst live {' '.join(target)} does not start")
        yield process, printed.rsplit(": ", 1)[1].strip()
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def growing() -> Iterator[Path]:
    """Yields a store that grows."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-live-") as folder:
        feeder = Feeder(StoreFolder.create(Path(folder, "store")))
        feeder.start()
        try:
            yield Path(folder, "store")
        finally:
            feeder.ending.set()
            feeder.join()


@contextmanager
def packets() -> Iterator[None]:
    """Sends a thousand datagrams per second over the loopback, to a port of this process."""
    ending = threading.Event()
    kind = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*kind) as receiver, socket.socket(*kind) as sender:
        receiver.bind(("127.0.0.1", 0))

        def send() -> None:
            while not ending.wait(0.001):
                sender.sendto(bytes(200), receiver.getsockname())

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()


def watched(url: str, seconds: float, width: int) -> dict[str, Any]:
    """Returns what Chromium shows in SECONDS."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": 1000})
        page.goto(url)
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        page.wait_for_timeout(2000)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        before = busy_s(session)
        found: dict[str, Any] = page.evaluate(WATCH, seconds)
        found["busy"] = busy_s(session) - before
        browser.close()
    return found


def busy_s(session: CDPSession) -> float:
    """Returns the seconds for which the page's main thread has worked: script, style, layout and painting."""
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def show(name: str, found: dict[str, Any], seconds: float) -> None:
    delays = sorted(found["delays"])
    late = delays[int(0.95 * len(delays))]
    print(
        f"{name}: packet to pixel {statistics.median(delays):.0f} ms, 95 % within {late:.0f} ms; "
        f"{len(delays) / seconds:.1f} drawings and {found['frames'] / seconds:.0f} frames a second, "
        f"{found['points']:,} points, {1000 * found['busy'] / len(delays):.1f} ms of the page a drawing "
        f"(load {os.getloadavg()[0]:.1f})"
    )


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Returns the CPU time that a process has used, user and system."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def follow(url: str, seconds: float) -> int:
    """Follows the first lane with CLIENTS WebSockets. Returns the number of messages."""
    from websockets.asyncio.client import connect

    lanes = json.load(urllib.request.urlopen(f"{url}lanes"))
    day = 86_400 * 10**9
    wish = json.dumps(
        {
            "lane": lanes[0]["id"],
            "span": str(10 * 10**9),
            "steps": 1280,
            "origin": str(int(lanes[0]["edge"]) // day * day),
        }
    )
    messages = 0

    async def one() -> None:
        nonlocal messages
        async with connect(f"ws{url.removeprefix('http')}live", max_size=2**26, compression=None) as connection:
            await connection.send(wish)
            while True:
                await connection.recv()
                messages += 1

    tasks = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise SystemExit(f"a client was cut off: {ended!r}")
    return messages


@contextmanager
def following(url: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Runs `follow` in a process that prints the number of messages; the process ends with this one."""
    command = [sys.executable, __file__, "--seconds", str(seconds), "--follow", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def clients(seconds: float) -> None:
    """Prints the CPU time of the server without and with CLIENTS, alternately, once they are connected."""
    lasting = seconds + 2 * ARRIVAL_S
    with growing() as store, serving(str(store)) as (process, url):
        alone, metrics, more = [], [], []
        for _ in range(ROUNDS):
            time.sleep(ARRIVAL_S)
            alone.append(share_of_a_core(process, seconds))
            with following(url, lasting) as browsers:
                time.sleep(ARRIVAL_S)
                more.append(share_of_a_core(process, seconds) - alone[-1])
                metrics.append(int(browsers.communicate()[0]) / CLIENTS / lasting)
        print(
            f"clients: the server takes {statistics.median(alone):.3f} of a core alone, with {CLIENTS} clients "
            f"{', '.join(f'{share:.3f}' for share in sorted(more))} more; "
            f"{statistics.median(metrics):.1f} messages a second to each"
        )


def share_of_a_core(process: subprocess.Popen[str], seconds: float) -> float:
    """Returns how busy the process is, from now on."""
    begun, used = time.monotonic(), cpu_s(process)
    time.sleep(seconds)
    return (cpu_s(process) - used) / (time.monotonic() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--follow", metavar="URL", help="be clients of a server, and print how many messages came")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    if arguments.follow:
        print(asyncio.run(follow(arguments.follow, seconds)))
        return
    print(f"live: {machine()}")
    with growing() as store, serving(str(store)) as (_, url):
        time.sleep(11)
        show("a store", watched(url, seconds, 1400), seconds)
        show("a store, a wide screen", watched(url, seconds, 2200), seconds)
    if os.geteuid() == 0:
        with packets(), serving("lo", "--link", "1G") as (_, url):
            time.sleep(2)
            show("an interface", watched(url, seconds, 1400), seconds)
    clients(seconds)
    print(f"load at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
