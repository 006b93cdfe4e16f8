"""Paths and times of probes: ICMP, ports, classes, plans, and the delays that a reflector injects."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from calm import Attempts
from livelab import Lab
from test_probe import LOCAL, MS, answering, ns, probed, reflecting, reflector, reply_to

from mburst.errors import MburstError
from mburst.telemetry.probe import stamp
from mburst.telemetry.probe.reflector import Reflector


def test_icmp_needs_no_reflector(lab: Lab):
    groups = Path("/proc/sys/net/ipv4/ping_group_range")
    with lab.inside(lab.near):
        groups.write_text("1 0")
        with pytest.raises(MburstError, match="ping sockets are not permitted") as refused:
            probed(7, "10.9.0.2", protocol="icmp", size=56, count=1)
        assert "ping_group_range" in refused.value.hint
        groups.write_text("0 2147483647")
        rows, counts, _ = probed(7, "10.9.0.2", protocol="icmp", size=56, count=50)
    assert counts.answered == 50 and set(rows["stamp_kind"].to_pylist()) == {"sw"}
    assert rows["remote_rx_ns"].null_count == 50 and (ns(rows, "rx") >= ns(rows, "tx")).all()


def test_each_source_port_is_a_path():
    seen: set[int] = set()

    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        seen.add(peer[1])
        sock.sendto(reply_to(data), peer)

    with answering(answer) as port:
        rows = probed(port, source_ports=(0, 0, 0), count=90)[0]
    assert len(seen) == 3 and set(rows["src"].to_pylist()) == {f"here:{port}" for port in seen}
    assert sorted(rows["seq"].to_pylist()) == sorted(list(range(30)) * 3)


def test_a_probe_and_its_answer_carry_its_class():
    classes: list[int] = []
    with reflector() as behind, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inner:
        inner.setsockopt(socket.SOL_IP, socket.IP_RECVTOS, 1)
        inner.setsockopt(socket.SOL_IP, socket.IP_TOS, 46 << 2)
        inner.connect((LOCAL, behind))
        inner.settimeout(1)
        inner.send(bytes(stamp.request(64, 1, 1)))
        _, control, _, _ = inner.recvmsg(2048, 64)
        classes += [data[0] for _, kind, data in control if kind == socket.IP_TOS]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((LOCAL, 0))
        sock.setsockopt(socket.SOL_IP, socket.IP_RECVTOS, 1)
        sock.settimeout(1)
        probed(sock.getsockname()[1], dscp=10, count=1, timeout_ns=MS)
        _, control, _, _ = sock.recvmsg(2048, 64)
        classes += [data[0] for _, kind, data in control if kind == socket.IP_TOS]
    assert classes == [46 << 2, 10 << 2]


def test_the_answer_comes_from_the_probed_address():
    """Connected sockets accept no other; the reflector listens on all addresses."""
    with reflector(address="0.0.0.0") as port:
        assert probed(port, "127.0.0.53", count=5)[1].answered == 5


def test_two_reflectors_do_not_answer_each_other():
    with reflector() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.9", port))
        sock.settimeout(0.2)
        sock.sendto(bytes(stamp.request(64, 1, 1)), (LOCAL, port))
        with pytest.raises(TimeoutError):
            sock.recv(100)


@pytest.mark.parametrize("poisson", [True, False])
def test_probes_are_due_as_planned(poisson):
    with answering(lambda sock, data, peer: None) as port:
        rows = probed(port, poisson=poisson, rate=1000.0, count=800, timeout_ns=MS)[0]
    gaps = np.diff(ns(rows, "app_send"))
    if poisson:
        assert abs(gaps.mean() / MS - 1) < 0.15 and 0.85 < gaps.std() / gaps.mean() < 1.15
    else:
        assert np.abs(np.median(gaps) - MS) < 0.05 * MS and abs(gaps.mean() / MS - 1) < 0.01


def test_a_stalled_prober_leaves_no_probe_out():
    """Probes that were due during the stall are sent, and their latency counts from the due time: no coordinated
    omission."""
    begun = threading.Event()

    def answer(sock, data, peer):
        begun.set()
        sock.sendto(reply_to(data), peer)

    with answering(answer) as port:
        script = (
            "import sys, pyarrow as pa\n"
            f"sys.path[:0] = {sys.path!r}\n"
            "from test_probe import probed, ns\n"
            "print('go', flush=True)\n"
            f"rows, counts, _ = probed({port}, rate=1000.0, count=1500, poisson=False, timeout_ns=5 * 10**9)\n"
            "print(counts.sent, *(ns(rows, 'app_recv') - ns(rows, 'app_send')), flush=True)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout and child.stdout.readline() == "go\n"
            assert begun.wait(60)
            time.sleep(0.2)
            os.kill(child.pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(child.pid, signal.SIGCONT)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
            child.wait()
    sent, *took = map(float, out.split())
    late = sum(value > 50 * MS for value in took)
    assert sent == 1500 and late >= 200, late


def pareto_normal(mean: float, deviation: float) -> Callable[[float], float]:
    """Returns quantiles of netem's mixture, by a large sample: a quarter normal, three quarters Pareto of index 3."""
    pareto = np.random.default_rng(1).pareto(3, 400_000) + 1
    normal = np.random.default_rng(2).standard_normal(400_000)
    mixed = mean + deviation * (normal / 4 + 3 / 4 * (pareto - 1.5) / 0.75**0.5) / (10 / 16) ** 0.5
    return lambda share: float(np.quantile(mixed, share))


@pytest.mark.parametrize(
    "spec, true, highest",
    [
        ("constant:3ms", lambda share: 3 * MS, 0.99),
        ("uniform:1ms:9ms", lambda share: MS + share * 8 * MS, 0.99),
        ("uniform:0:20us", lambda share: share * 20_000, 0.9),  # the shortest delays beyond are the machine's
        ("normal:5ms:1ms", NormalDist(5 * MS, MS).inv_cdf, 0.99),
        ("pareto:500us:3", lambda share: 500_000 * (1 - share) ** (-1 / 3), 0.99),
        ("pareto-normal:5ms:1ms", pareto_normal(5 * MS, MS), 0.99),
        ("file:cdf.csv", lambda share: float(np.interp(share, [0.25, 0.75, 1], [MS, 3 * MS, 20 * MS])), 0.99),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_injected_delays_are_recovered(spec, true, highest, tmp_path, monkeypatch):
    """Every percentile up to p99 is within 5 % or 20 µs."""
    monkeypatch.chdir(tmp_path)
    Path("cdf.csv").write_text("delay,share\n1ms,0.25\n3ms,0.75\n20ms,1\n")

    def returned() -> np.ndarray:
        with reflecting(spec) as port:
            rows = probed(port, rate=1500.0, count=1500)[0]
        return ns(rows, "rx") - ns(rows, "remote_tx")

    def is_as_injected(back: np.ndarray) -> None:
        assert not [
            (share, got, true(share))
            for share in (0.1, 0.5, 0.9, 0.95, 0.99)
            if share <= highest
            and abs((got := float(np.quantile(back, share))) - true(share))
            > max(0.05 * true(share), 20_000) + 4 * _error(true, share, len(back))
        ]

    Attempts(returned, returned).held(is_as_injected)


def _error(true: Callable[[float], float], share: float, n: int) -> float:
    """Returns the standard error of a quantile of n draws, since the sample is not the distribution."""
    step = (share * (1 - share) / n) ** 0.5
    return (true(min(share + step, 0.9999)) - true(max(share - step, 0))) / 2


def test_a_port_in_use_is_one_line():
    with reflector() as port, pytest.raises(MburstError, match=f"port {port}"):
        Reflector([(LOCAL, port)])


def test_a_foreign_source_address_is_one_line():
    with pytest.raises(MburstError, match=r"192\.0\.2\.1"):
        probed(9, source="192.0.2.1", count=1)


def test_tiny_datagrams_are_ignored():
    with reflector() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        sock.sendto(struct.pack("!IQ", 1, 1), (LOCAL, port))
        with pytest.raises(TimeoutError):
            sock.recv(100)
        sock.sendto(struct.pack("!IQH", 1, 1, 1), (LOCAL, port))
        assert len(sock.recv(100)) == 44
