"""The switch agent on the rack: the depths that it reports explain the delays of probes, and agree with the depths of
the kernel's queue."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from calm import Attempts, Taken, hold
from rackdata import depths_of, one_way, stored
from waiting import beside

from mburst.lab.rack import Rack, Round
from mburst.lab.rack.plan import mac
from mburst.lab.rack.verbs import ExperimentObserver, Verb, collecting, hosts_file, probing, reflecting, running
from mburst.sql import StoreFolder

MS = 1_000_000

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
class Seen:
    """A depth of the queue from `tc -s`, at some moment of [begin, end], by its own reading of the kernel."""

    begin_ns: int
    end_ns: int
    depth: int


@dataclass(frozen=True)
class Collected:
    folder: Path
    rounds: list[Round]
    port_bytes: int
    seen: list[Seen]

    def query(self, text: str) -> list[tuple]:
        return StoreFolder.open(self.folder / "store").connect().execute(text).fetchall()

    def windows(self, device: str) -> list[np.ndarray]:
        """Returns start, end and largest depth of each window."""
        return depths_of(self.folder / "store", device)


@contextmanager
def watched_by_tc(rack: Rack) -> Iterator[list[Seen]]:
    """Queries one `tc` again and again while the block runs."""
    seen: list[Seen] = []

    def watch(tc: subprocess.Popen[str], ended: threading.Event) -> None:
        while not ended.wait(0.003):
            begin_ns = time.time_ns()
            tc.stdin.write("qdisc show dev p-cache\n")
            tc.stdin.flush()
            [queue] = json.loads(tc.stdout.readline())
            seen.append(Seen(begin_ns, time.time_ns(), queue["backlog"]))

    argv = ["tc", "-n", rack.plan.namespace("tor"), "-j", "-s", "-batch", "-"]
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tc,
        beside(lambda ended: watch(tc, ended)),
    ):
        yield seen


def measure(folder: Path, link: str) -> Collected:
    socket, ethers, config, hosts = (folder / name for name in ("agent.sock", "ethers", "gnmi.yaml", "hosts"))
    with Rack(40, link) as rack:
        ethers.write_text("".join(f"{mac(nic.address)} {nic.host}\n" for nic in rack.plan.nics))
        config.write_text(CONFIG.format(socket=socket))
        hosts.write_text(hosts_file())
        agent = Verb("tor", ["switch-agent", "--listen", f"unix:{socket}", "--link", link, "--ethers", str(ethers)],
                     lambda output: "serving" in output, real_time=True)  # fmt: skip
        asking = [collecting(folder / "store", config), probing(rack, folder / "store", hosts)]
        with running(rack, [agent, reflecting()], ExperimentObserver()), running(rack, asking, ExperimentObserver()):
            before = rack.port_counters()["p-cache"][1]
            with watched_by_tc(rack) as seen:
                rounds = rack.run_rounds(8, truth=folder / "truth.csv")
            port_bytes = rack.port_counters()["p-cache"][1] - before
            time.sleep(0.5)
    return Collected(folder, rounds, port_bytes, seen)


def depth_explains_the_delay(found: Collected) -> None:
    """Correlates the delay of each probe with the last depth read before the probe arrived, at most 1 ms earlier."""
    tx_ns, delay = one_way(stored(found.folder / "store", "probes"))
    _, end_ns, depth = found.windows("fine")
    place = np.minimum(np.searchsorted(end_ns, tx_ns), len(end_ns) - 1)
    assert (r := np.corrcoef(delay, depth[place])[0, 1]) > 0.9, r


def depths_are_those_of_tc(found: Collected) -> None:
    """Each depth that tc read lies between the depths that the agent reported from 2 ms before to 2 ms after, within a
    tenth of the queue."""
    start_ns, end_ns, depth = found.windows("fine")
    slack = depth.max() // 10
    deep = 0
    for seen in found.seen:
        near = depth[(end_ns >= seen.begin_ns - 2 * MS) & (start_ns <= seen.end_ns + 2 * MS)]
        if len(near):
            assert near.min() - slack <= seen.depth <= near.max() + slack, (seen, near.min(), near.max())
            deep += seen.depth > depth.max() // 4
    assert deep >= 3, deep


def both_series_have_the_same_maxima(found: Collected) -> None:
    """Compares the maxima of each round, on change and in 10 ms samples, within a tenth."""
    largest = []
    for device in ("fine", "tor"):
        start_ns, end_ns, depth = found.windows(device)
        largest.append([depth[(end_ns >= done.t_req_ns) & (start_ns <= done.t_last_ns)].max() for done in found.rounds])
    for fine, coarse in zip(*largest, strict=True):
        assert abs(fine - coarse) <= fine / 10, largest


CHECKS = [depth_explains_the_delay, depths_are_those_of_tc, both_series_have_the_same_maxima]


def all_checks(found: Collected) -> None:
    for check in CHECKS:
        check(found)


@pytest.fixture(scope="module")
def attempts(can_build: None, tmp_path_factory: pytest.TempPathFactory) -> Attempts[Collected]:
    return Attempts(
        *(lambda link=link: measure(tmp_path_factory.mktemp("collected"), link) for link in ("1gbit", "100mbit"))
    )


@pytest.fixture(scope="module")
def first(attempts: Attempts[Collected]) -> Collected:
    return attempts[0].result


@pytest.fixture(scope="module")
def bounded(attempts: Attempts[Collected]) -> Taken[Collected]:
    """The measurement to compare with the bounds."""
    return attempts.that_holds(all_checks)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_bound(bounded, check):
    hold(check, bounded)


def test_windows_are_contiguous(first):
    start_ns, end_ns, _ = first.windows("tor")
    assert (start_ns[1:] == end_ns[:-1]).all() and (end_ns > start_ns).all() and len(end_ns) > 50


def test_nothing_was_dropped_and_every_byte_is_counted(first):
    [(sent, dropped)] = first.query("SELECT sum(transmit_bytes), sum(dropped_packets) FROM queues WHERE device = 'tor'")
    [(out,)] = first.query("SELECT sum(out_bytes) FROM ports")
    assert (
        dropped == 0 and sent >= first.port_bytes and out >= first.port_bytes
    )  # packets that were sent before the rounds are included
    assert out - first.port_bytes < 100_000


def test_neighbours_become_links(first):
    found = first.query("SELECT host, port FROM links WHERE present")
    assert len(found) == 42 and ("s07", "p-s07") in found and ("cache", "p-cache") in found


def test_the_speed_is_reported_and_no_value_is_impossible(first):
    assert first.query("SELECT DISTINCT link_bps FROM ports WHERE link_bps IS NOT NULL") == [(10**9,)]
    assert first.query("SELECT count(*) FROM queues WHERE device = 'fine' AND quality & 1024 <> 0") == [(0,)]


def test_a_shared_clock_has_no_offset_beyond_the_delay_of_messages(first):
    """Agent and collector share a clock, so the least lag is the delay between them."""
    for least, offset, uncertainty in first.query("SELECT least_lag_ns, offset_ns, uncertainty_ns FROM device_clocks"):
        assert 0 < least < 10**9 and abs(offset) <= least + uncertainty
