"""The rack of namespaces: it is built, it reports what is missing, and it leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from calm import Attempts
from places import ROOT
from rackdata import columns_of, depths_of, stored

from mburst.errors import UsageError
from mburst.lab.rack import Rack, RackUnavailable, namespaces, read_truth, timers
from mburst.lab.rack.errors import RackFailed
from mburst.lab.rack.plan import RackPlan, mac
from mburst.lab.rack.rack import _cpu_mask
from mburst.lab.rack.respond import PendingAnswer, Senders, SentTotals
from mburst.lab.rack.role import Role
from mburst.lab.rack.rounds import COLUMNS, DATAGRAM_BYTES, Round
from mburst.lab.rack.verbs import ExperimentObserver, Verb, measured, running

AMPLE = 8_000_000  # bytes of a queue that never drops: a round has 4 MB
OWNER = """
import sys, time
from mburst.lab.rack import Rack
rack = Rack(8).__enter__()
rack.exec_in(rack.capture_interface[0], ["sleep", "600"])
print(rack.plan.name, rack._janitor.pid, flush=True)
time.sleep(600)
"""


def host_links() -> set[str]:
    """Returns the links of the host whose names are those of a rack's own links: other tests may make other links
    meanwhile."""
    return {name for name in os.listdir("/sys/class/net") if name == "br0" or name.startswith("p-")}


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def runs(pid: int) -> bool:
    """Returns whether the process runs, and is not merely a zombie whose parent has not read its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(rack: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while namespaces.namespaces_of(rack):
        assert time.monotonic() < deadline, f"{rack} is still here"
        time.sleep(0.05)


@pytest.fixture
def owner(can_build: None):
    """Starts processes that own a rack; returns (process, name of the rack, process id of its janitor)."""
    started = []

    def start() -> tuple[subprocess.Popen[str], str, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        )
        started.append(process)
        name, janitor = process.stdout.readline().split()
        return process, name, int(janitor)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def every_answer_came(rounds: list[Round]) -> None:
    assert all(done.complete for done in rounds)


def test_nothing_is_left(can_build, tmp_path):
    links, processes = host_links(), children()
    hosts_way = Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle").read_text()
    with Rack(8, second_nic=True, limit_bytes=AMPLE) as rack:
        inside = namespaces.namespaces_of(rack.plan.name)
        assert sorted(inside) == sorted(rack.plan.namespaces) and len(inside) == 11
        rack.exec_in(rack.capture_interface[0], ["sleep", "600"])
        with measured(rack, tmp_path / "store", ["--link", "1G"]):
            Attempts(*2 * [lambda: rack.run_rounds(2)]).held(every_answer_came)
    assert not namespaces.namespaces_of(rack.plan.name)
    assert host_links() == links and children() == processes
    assert Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle").read_text() == hosts_way
    rack.close()  # safe to repeat


def test_an_exception_tears_down(can_build):
    with pytest.raises(ZeroDivisionError), Rack(8) as rack:
        rack.exec_in(rack.capture_interface[0], ["sleep", "600"])
        raise ZeroDivisionError
    assert not namespaces.namespaces_of(rack.plan.name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_owner_tears_down(owner, number):
    process, name, _ = owner()
    inside = namespaces.processes_in(namespaces.namespaces_of(name))
    assert inside  # the sleep that the owner started there
    process.send_signal(number)
    wait_gone(name)
    assert not any(runs(pid) for pid in inside)


def test_the_next_rack_removes_the_rest_of_killed_racks_and_spares_live_ones(owner):
    process, dead, janitor = owner()
    _, living, _ = owner()
    os.kill(janitor, signal.SIGKILL)
    process.kill()
    process.wait()
    inside = namespaces.processes_in(namespaces.namespaces_of(dead))
    assert namespaces.namespaces_of(dead) and inside
    with Rack(8):
        assert not namespaces.namespaces_of(dead)
        assert len(namespaces.namespaces_of(living)) == 11
    assert not any(runs(pid) for pid in inside)


def test_the_time_limit_removes_a_rack_whose_owner_hangs(can_build):
    with Rack(8, limit_s=2) as rack:
        wait_gone(rack.plan.name)


def test_a_reused_process_id_does_not_save_a_dead_rack(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "FOLDER", tmp_path)
    mine = namespaces.rack_name(0)
    reused = f"mb-{os.getpid()}-1-0"
    for name in (f"{mine}-tor", f"{reused}-tor", f"{reused}-s07", "mb-4194304-1f-0-cache", "mb-home", "lv1"):
        (tmp_path / name).touch()
    assert namespaces.dead_racks() == sorted([reused, "mb-4194304-1f-0"])


def test_without_root_the_error_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RackUnavailable, match="needs root"):
        Rack(8)


def test_without_iproute2_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else f"/sbin/{tool}")
    with pytest.raises(RackUnavailable, match="needs tc") as failure:
        Rack(8)
    assert failure.value.hint == "apt install iproute2"


def test_a_missing_feature_of_the_kernel_is_one_line(can_build):
    with pytest.raises(RackUnavailable, match=r"cannot build the rack: ip: .*Unknown device type") as failure:
        namespaces.run_batch(["ip"], ["link add x type nosuchkind"], "modprobe it")
    assert "\n" not in str(failure.value) and failure.value.hint == "modprobe it"


@pytest.mark.parametrize("options", [{"senders": 7}, {"senders": 121}, {"link": "fast"}, {"train": 6}])
def test_invalid_arguments_are_refused(options, can_build):
    with pytest.raises(UsageError):
        Rack(**options)


def test_addresses_are_unique():
    nics = RackPlan("mb-1-1-0", 120, 10**9, 4_000_000, True, 1).nics
    assert len({nic.address for nic in nics}) == len({mac(nic.address) for nic in nics}) == len(nics) == 123
    assert max(len(nic.port) for nic in nics) <= 15  # IFNAMSIZ


def test_a_processor_mask_has_the_kernels_format():
    masks = {0: "1", 1: "2", 31: "80000000", 32: "1,00000000", 69: "20,00000000,00000000"}
    assert {cpu: _cpu_mask(cpu) for cpu in masks} == masks


@pytest.mark.parametrize(("cost_us", "link_bps", "train"), [(1, 10**9, 1), (13, 10**9, 5), (13, 10**8, 1)])
def test_trains_are_sent_only_where_timers_are_slow(monkeypatch, cost_us, link_bps, train):
    monkeypatch.setattr(timers, "timer_cost_s", lambda: cost_us / 1e6)
    assert timers.train_for(link_bps) == train


def test_the_cost_of_a_timer_is_more_than_0():
    assert 1e-8 < timers.timer_cost_s(20) < 1e-2


class OldKernelSocket:
    """A UDP socket that refuses segmentation, as kernels before Linux 6.11 do without checksum offload."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def sendto(self, data: memoryview, peer: tuple[str, int]) -> int:
        if len(data) > DATAGRAM_BYTES:
            raise OSError(errno.EIO, "Input/output error")
        self.sizes.append(len(data))
        return len(data)


def test_a_kernel_that_cannot_segment_is_sent_single_datagrams():
    sock = OldKernelSocket()
    senders = Senders({}, {}, chunk_bytes=16 * DATAGRAM_BYTES, sent={"s01": SentTotals()})
    senders.under_way.append(
        PendingAnswer("s01", sock, ("198.18.0.1", 1), senders.payload(1, 2 * DATAGRAM_BYTES + 100))
    )
    while senders.under_way:
        senders.send_chunk()
    assert sock.sizes == [DATAGRAM_BYTES, DATAGRAM_BYTES, 100]
    assert senders.sent["s01"] == SentTotals(units=3, payload=2 * DATAGRAM_BYTES + 100)


def test_a_program_that_fails_is_one_line():
    role = Role("gather", 5, namespace="mb-no-such")
    with contextlib.closing(role), pytest.raises(RackFailed, match=r"rack: gather failed: .*mb-no-such") as failure:
        role.wait_ready()
    assert "\n" not in str(failure.value)


def test_a_program_ends_at_its_time_limit(can_build):
    with Rack(8) as rack:
        sender = {"name": "s01", "namespace": rack.plan.namespace("s01"), "address": rack.plan.address("s01")}
        cpu = min(os.sched_getaffinity(0))
        role = Role("respond", 0.5, protocol="udp", senders=[sender], chunk_datagrams=1, cpu=cpu)
        with contextlib.closing(role), pytest.raises(RackFailed, match="respond did not finish in time"):
            role.wait_ready()
            list(role.results())


def test_a_failing_verb_is_one_line_with_its_message(can_build, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "of-others").touch()
    with Rack(8) as rack:
        begins = pytest.raises(RackFailed, match=r"rack: mburst record did not begin: mburst: .*not empty")
        with begins as failure, measured(rack, tmp_path / "store", ["--link", "1G"]):
            pass
        assert "\n" not in str(failure.value)
        ending = Verb("api", ["reflect", "--duration", "1ms"], lambda output: "reflecting" in output)
        gone = Verb("api", ["sql", str(tmp_path / "store")], lambda output: bool(output))
        with running(rack, [ending], ExperimentObserver()):
            pass  # a verb that has already ended is no failure
        ends = pytest.raises(RackFailed, match=r"rack: mburst sql ended with exit code -?\d+: mburst: ")
        with ends, running(rack, [gone], ExperimentObserver()):
            pass


def test_rounds_of_120_senders_are_written_like_the_recorded_case(can_build, tmp_path):
    truth = tmp_path / "truth.csv"
    with Rack(120, limit_bytes=AMPLE) as rack:
        rounds = rack.run_rounds(2, truth=truth)
    assert [done.senders_complete for done in rounds] == [120, 120]
    assert read_truth(truth) == rounds
    recorded = ROOT / "tests" / "data" / "recorded-truth.csv"
    assert truth.read_text().splitlines()[0] == recorded.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert all(done.complete for done in read_truth(recorded))


def test_drops_of_a_full_queue_are_counted_to_the_packet(can_build, tmp_path):
    """The counts of the senders and the receiver, of `tc -s` and of the switch agent agree."""
    with Rack(8, "100mbit", limit_bytes=100_000, train=1) as rack:
        with measured(rack, tmp_path / "store"):
            rounds = rack.run_rounds(2, bytes_per_sender=50_000, truth=tmp_path / "truth.csv")
            time.sleep(0.5)  # until the switch has sent its counters
        sent = sum(units for units, _ in rack.sent.values())
        counted = rack.queue_counters()
    missing = sent - sum(done.dgrams_rx for done in rounds)
    [reported_drops] = columns_of(stored(tmp_path / "store", "queues"), "dropped_packets")
    [lost] = columns_of(stored(tmp_path / "store", "probes"), "lost")
    assert missing > 0 and reported_drops[reported_drops > 0].sum() == counted.dropped == missing + lost.sum()
    assert all(done.timed_out and not done.complete for done in rounds)
    _, _, depth = depths_of(tmp_path / "store")
    assert 0 < depth.max() <= 100_000 and counted.waiting_bytes <= 100_000
