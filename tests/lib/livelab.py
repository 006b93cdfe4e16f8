"""Two network namespaces joined by veth, and the programs that send and capture there. For tests as root."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from building import OPTIMIZE, library, linked, program

CLONE_NEWNET = 0x40000000

_numbers = count()


def build_pfring() -> Path:
    """Returns tests/c/fake_pfring.c, built as the vendor builds its library: with calls of libraries that it is not
    linked with."""
    return library("tests/c/fake_pfring.c", "-Wl,-z,lazy")


def sh(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@dataclass
class Lab:
    """Namespace `near`, which sends from interface `a` (10.9.0.1), and `far`, which captures at `b` (10.9.0.2)."""

    near: str
    far: str
    a: str = "veth-a"
    b: str = "veth-b"

    def call(self, namespace: str, command: str) -> str:
        return sh(f"ip netns exec {namespace} {command}")

    def offloads(self, state: str) -> None:
        for namespace, name in ((self.near, self.a), (self.far, self.b)):
            self.call(namespace, f"ethtool -K {name} tso {state} gso {state} gro {state} tx {state}")

    def mac(self, namespace: str, interface: str) -> str:
        [link] = json.loads(sh(f"ip -n {namespace} -j link show {interface}"))
        return str(link["address"])

    @contextmanager
    def inside(self, namespace: str) -> Iterator[None]:
        """Moves the calling thread to that namespace during the block."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
            assert not libc.setns(there.fileno(), CLONE_NEWNET), os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert not libc.setns(home.fileno(), CLONE_NEWNET)


@contextmanager
def make_lab() -> Iterator[Lab]:
    """Makes a lab, and removes it whatever happens. No IPv6, so that nothing sends on its own."""
    tag = f"mblive-{os.getpid()}-{next(_numbers)}"
    made = Lab(f"{tag}-near", f"{tag}-far")
    try:
        for namespace in (made.near, made.far):
            sh(f"ip netns add {namespace}")
            sh(
                f"ip netns exec {namespace} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 "
                "net.ipv6.conf.default.disable_ipv6=1"
            )
            sh(f"ip -n {namespace} link set lo up")
        join(made)
        yield made
    finally:
        for namespace in (made.near, made.far):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)


def join(lab: Lab, network: str = "10.9.0") -> Lab:
    """Creates its interfaces again."""
    sh(f"ip link add {lab.a} netns {lab.near} type veth peer name {lab.b} netns {lab.far}")
    for namespace, name, host in ((lab.near, lab.a, 1), (lab.far, lab.b, 2)):
        sh(f"ip -n {namespace} addr add {network}.{host}/24 dev {name}")
        sh(f"ip -n {namespace} link set {name} up")
    return lab


def promiscuity(lab: Lab) -> int:
    """Returns how many captures hold the interface in promiscuous mode."""
    return int(sh(f"ip -n {lab.far} -d link show {lab.b}").split("promiscuity ")[1].split()[0])


def raw_socket(lab: Lab, namespace: str, name: str) -> socket.socket:
    """Returns a socket that sends whole frames from the interface NAME."""
    with lab.inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    made.bind((name, 0))
    return made


def transfer(lab: Lab, count: int, address: str = "10.9.0.2") -> int:
    """Sends COUNT bytes by TCP from near to ADDRESS of far. Returns the segments with payload, as counted by the
    sender."""
    with lab.inside(lab.far):
        listener = socket.create_server((address, 5201))
    with lab.inside(lab.near):
        out = socket.create_connection((address, 5201))
    incoming, _ = listener.accept()
    with listener, out, incoming:
        left, block = count, b"z" * 65536
        received = 0
        while received < count:
            if left:
                out.send(block[: min(left, len(block))])
                left -= min(left, len(block))
            received += len(incoming.recv(1 << 20))
        info = out.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
        return struct.unpack_from("=I", info, 136)[0]  # tcpi_segs_out


@dataclass
class Captured:
    """The output of the driver."""

    ready: dict[str, Any]
    total: dict[str, Any]
    frames: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, int]] = field(default_factory=list)


def run_driver(
    command: list[str],
    action: Callable[[subprocess.Popen[str]], None] | None = None,
    environment: dict[str, str] | None = None,
) -> Captured:
    """Runs the driver; `action` runs once it captures. It ends by itself, or is stopped after the action."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    assert process.stdout and process.stderr
    first = process.stdout.readline()
    texts = {"out": first, "err": ""}

    def read(name: str, stream: Any) -> None:
        texts[name] += stream.read()

    readers = [threading.Thread(target=read, args=pair) for pair in (("out", process.stdout), ("err", process.stderr))]
    try:
        for reader in readers:
            reader.start()
        if action and '"ready"' in first:
            action(process)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        for reader in readers:
            reader.join()
        process.stdout.close()
        process.stderr.close()
    assert process.returncode in (0, 1), (process.returncode, texts)
    assert not texts["err"], texts["err"]
    lines = [json.loads(line) for line in texts["out"].splitlines()]
    ready = lines[0] if "ready" in lines[0] else {}
    return Captured(
        ready, lines[-1], [line for line in lines if "data" in line], [line["loss"] for line in lines if "loss" in line]
    )


@pytest.fixture(scope="session")
def live_driver() -> Path:
    """Returns tests/c/live_driver.c with the engine, under AddressSanitizer and UBSan."""
    return program("tests/c/live_driver.c")


@pytest.fixture(scope="session")
def fast_driver() -> Path:
    """Returns the same, built as for users."""
    return program("tests/c/live_driver.c", flags=OPTIMIZE)


@pytest.fixture(scope="session")
def sender() -> Path:
    """tests/c/send.c."""
    return linked(("tests/c/send.c",), OPTIMIZE)


@pytest.fixture(scope="session")
def flood() -> Path:
    """tests/c/flood.c."""
    return linked(("tests/c/flood.c",), OPTIMIZE)


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A lab for one test; skips if there can be none."""
    if os.geteuid() != 0:
        pytest.skip("live capture is tested in network namespaces of its own, which only root can make")
    for tool in ("ip", "ethtool", "tcpdump", "setpriv"):
        if not shutil.which(tool):
            pytest.skip(f"live capture is tested with {tool}, which is not installed")
    with make_lab() as made:
        yield made
