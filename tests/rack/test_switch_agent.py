"""The switch agent on the rack: what it says of the port's queue is what the probes waited for, and what the queue
held."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from calm import Attempts, Taken, hold
from rackdata import one_way, read_columns

from mburst.netlab import Rack, Round
from mburst.netlab.plan import mac
from mburst.sql import Store

CONFIG = """
insecure: true
targets:
  fine: {{address: "unix:{socket}", subscriptions: [changes]}}
  tor: {{address: "unix:{socket}", subscriptions: [samples, near, ports]}}
subscriptions:
  changes: {{paths: ["/qos/interfaces/interface[interface-id=p-cache]/output/queues/queue/state/max-queue-len"],
             stream-mode: on-change}}
  samples: {{paths: ["/qos/interfaces/interface[interface-id=p-cache]"], stream-mode: sample, sample-interval: 10ms}}
  ports: {{paths: ["/interfaces/interface[name=p-cache]"], stream-mode: sample, sample-interval: 100ms}}
  near: {{paths: [/lldp], stream-mode: on-change}}
"""


@dataclass(frozen=True)
class Collected:
    folder: Path
    rounds: list[Round]
    port_bytes: int

    def query(self, text: str) -> list[tuple]:
        return Store.open(self.folder / "store").connect().execute(text).fetchall()

    def windows(self, device: str) -> list[np.ndarray]:
        """Start, end and largest depth of each window."""
        found = (
            Store.open(self.folder / "store")
            .connect()
            .execute(
                "SELECT window_start_ns, ts_ns, max_bytes FROM queues WHERE device = ? AND max_bytes >= 0 ORDER BY 2",
                [device],
            )
            .fetchnumpy()
        )
        return [np.asarray(column) for column in found.values()]


def measure(folder: Path, link: str) -> Collected:
    socket, ethers, config = folder / "agent.sock", folder / "ethers", folder / "gnmi.yaml"
    mburst = [sys.executable, "-m", "mburst"]
    with Rack(40, link) as rack:
        ethers.write_text("".join(f"{mac(nic.address)} {nic.host}\n" for nic in rack.plan.nics))
        config.write_text(CONFIG.format(socket=socket))
        rack.exec_in(
            rack.plan.namespace("tor"),
            [*mburst, "switch-agent", "--listen", f"unix:{socket}", "--link", link, "--ethers", str(ethers)],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not socket.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        collector = subprocess.Popen([*mburst, "collect", config, "-o", folder / "store"], stdout=subprocess.DEVNULL)
        try:
            store = folder / "store" / "hot" / "queues"
            while not store.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            before = rack.port_counters()["p-cache"][1]
            with rack.watch_queue(folder / "1ms.csv", folder / "1s.csv"), rack.probe(folder / "probes.csv"):
                rounds = rack.run_rounds(8, truth=folder / "truth.csv")
            port_bytes = rack.port_counters()["p-cache"][1] - before
            time.sleep(0.5)
        finally:
            collector.send_signal(signal.SIGINT)
            collector.wait(60)
    return Collected(folder, rounds, port_bytes)


def depth_explains_the_delay(found: Collected) -> None:
    """The depth that was read last before a probe arrived, at most a millisecond, against how long the probe waited."""
    tx_ns, delay = one_way(found.folder / "probes.csv")
    _, end_ns, depth = found.windows("fine")
    place = np.minimum(np.searchsorted(end_ns, tx_ns), len(end_ns) - 1)
    assert (r := np.corrcoef(delay, depth[place])[0, 1]) > 0.9, r


def maxima_are_the_queues(found: Collected) -> None:
    """For each round, in both series, within a tenth of what the rack saw in the queue, by the same code in another
    process: this holds the way from there to the store. tests/telemetry/test_agent_queues.py holds the code to tc."""
    ts_ns, depth = read_columns(found.folder / "1ms.csv", "ts_ns", "max_bytes")
    for device in ("fine", "tor"):
        start_ns, end_ns, largest = found.windows(device)
        for done in found.rounds:
            true = depth[(ts_ns >= done.t_req_ns) & (ts_ns <= done.t_last_ns)].max()
            told = largest[(end_ns >= done.t_req_ns) & (start_ns <= done.t_last_ns)].max()
            assert abs(told - true) <= true / 10, (device, done.round, told, true)


CHECKS = [depth_explains_the_delay, maxima_are_the_queues]


def all_checks(found: Collected) -> None:
    for check in CHECKS:
        check(found)


@pytest.fixture(scope="module")
def attempts(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Attempts[Collected]:
    return Attempts(*(lambda link=link: measure(tmp_path_factory.mktemp("collected"), link)
                      for link in ("1gbit", "100mbit")))


@pytest.fixture(scope="module")
def first(attempts: Attempts[Collected]) -> Collected:
    return attempts[0].result


@pytest.fixture(scope="module")
def bounded(attempts: Attempts[Collected]) -> Taken[Collected]:
    """What to hold against the bounds."""
    return attempts.that_holds(all_checks)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_bound(bounded, check):
    hold(check, bounded)


def test_windows_follow_each_other(first):
    start_ns, end_ns, _ = first.windows("tor")
    assert (start_ns[1:] == end_ns[:-1]).all() and (end_ns > start_ns).all() and len(end_ns) > 50


def test_nothing_was_dropped_and_every_byte_is_counted(first):
    [(sent, dropped)] = first.query("SELECT sum(transmit_bytes), sum(dropped_packets) FROM queues WHERE device = 'tor'")
    [(out,)] = first.query("SELECT sum(out_bytes) FROM ports")
    assert (
        dropped == 0 and sent >= first.port_bytes and out >= first.port_bytes
    )  # what was sent before the rounds is in it
    assert out - first.port_bytes < 100_000


def test_neighbours_fill_links(first):
    found = first.query("SELECT host, port FROM links WHERE present")
    assert len(found) == 42 and ("s07", "p-s07") in found and ("cache", "p-cache") in found


def test_the_speed_is_told_and_nothing_is_impossible(first):
    assert first.query("SELECT DISTINCT link_bps FROM ports WHERE link_bps IS NOT NULL") == [(10**9,)]
    assert first.query("SELECT count(*) FROM queues WHERE device = 'fine' AND quality & 1024 <> 0") == [(0,)]


def test_one_clock_has_no_offset_but_the_way(first):
    """Agent and collector share a clock, so the least lag is the way from one to the other."""
    for least, offset, uncertainty in first.query(
        "SELECT least_lag_ns, offset_ns, uncertainty_ns FROM device_clocks"
    ):
        assert 0 < least < 10**9 and abs(offset) <= least + uncertainty
