"""The rack: built on entry, removed on exit, with the operations in between."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ... import units
from ...errors import UsageError
from . import namespaces
from .errors import RackFailed, RackUnavailable
from .plan import CACHE_PORT, MAX_SENDERS, MIN_SENDERS, RackPlan
from .role import Role, python_command, python_environment
from .rounds import DATAGRAM, Round
from .timers import LONGEST_TRAIN, train_for

_TCPDUMP_READS_S = 1.5  # tcpdump reads a part-filled block after 1 s, and loses it if it is interrupted before
_QUEUE_S = 0.032  # the queue's depth as time at line rate: 4 MB at 1 Gb/s


class PortCounters(NamedTuple):
    """The kernel's counters of a port's queue since it was created, and what waits in it now."""

    bytes: int
    packets: int
    dropped: int
    waiting_bytes: int


_serials = itertools.count()


def require() -> None:
    """Raise RackUnavailable, with what is missing, if this machine cannot build any rack."""
    if sys.platform != "linux":
        raise RackUnavailable("the rack in a box needs Linux: network namespaces, a bridge, tbf")
    if os.geteuid() != 0:
        raise RackUnavailable("the rack in a box needs root to make network namespaces", "run it with sudo")
    lacking = [tool for tool in ("ip", "tc", "bridge") if not shutil.which(tool)]
    if lacking:
        raise RackUnavailable(f"the rack in a box needs {', '.join(lacking)}", "apt install iproute2")


class Rack:
    """`senders` hosts behind a switch with a line-rate FIFO at its port to the cache server.

    link: rate of that port; "100mbit" is the fallback for a loaded machine. limit_bytes: its queue, 32 ms of line rate
    by default (4 MB at 1 Gb/s). second_nic: the cache server has another port, with a separate queue, that no sender
    uses. offloads: checksum, segmentation and GRO offloads on all interfaces. train: number of frames that leave that
    port together, 1 to 5; timers.py has the defaults. limit_s: after this time the rack is removed in any case.

    Building first removes what dead racks left. Raises RackUnavailable if the rack cannot be built.
    """

    def __init__(
        self,
        senders: int = 40,
        link: str = "1gbit",
        *,
        second_nic: bool = False,
        offloads: bool = False,
        limit_bytes: int | None = None,
        train: int | None = None,
        limit_s: float = 300,
    ) -> None:
        if not MIN_SENDERS <= senders <= MAX_SENDERS:
            raise UsageError(f"a rack has {MIN_SENDERS} to {MAX_SENDERS} senders, not {senders}")
        require()
        if train is not None and not 1 <= train <= LONGEST_TRAIN:
            raise UsageError(f"a train has 1 to {LONGEST_TRAIN} frames, not {train}")
        link_bps = units.parse_rate(link)
        queue = limit_bytes if limit_bytes is not None else int(link_bps / 8 * _QUEUE_S)
        self.plan = RackPlan(
            namespaces.rack_name(next(_serials)), senders, link_bps, queue, second_nic, train or train_for(link_bps)
        )
        self.sent: dict[str, tuple[int, int]] = {}
        self._offloads = offloads
        self._cpus = sorted(os.sched_getaffinity(0))
        self.limit_s = limit_s
        self._janitor: subprocess.Popen[bytes] | None = None
        self._running: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Rack:
        for name in namespaces.dead_racks():
            namespaces.remove(name)
        self._janitor = subprocess.Popen(
            python_command("janitor", self.plan.name, str(self.limit_s)),
            env=python_environment(),
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the rack and everything that runs in it. Repeating it is harmless; any other end of this process does
        the same."""
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        if self._janitor and self._janitor.stdin:
            self._janitor.stdin.close()
            self._janitor.wait()
        for process in self._running:
            process.wait()
        self._running.clear()
        namespaces.remove(self.plan.name)  # in case the janitor itself was killed

    @property
    def capture_interface(self) -> tuple[str, str]:
        """The (namespace, interface) to record from: where the cache server receives what left the queue."""
        return self.plan.namespace("cache"), "eth0"

    @property
    def bytes_per_sender(self) -> int:
        """The payload of a sender's answer with which a round fills the queue without overflowing it."""
        return self.plan.limit_bytes // self.plan.senders

    def _build(self) -> None:
        plan, tor = self.plan, self.plan.namespace("tor")
        namespaces.run_batch(
            ["ip"],
            [f"netns add {name}" for name in plan.namespaces],
            "network namespaces need CAP_SYS_ADMIN, which a container may lack even as root",
        )
        for name in plan.namespaces:
            with namespaces.inside(name):
                namespaces.set_sysctl("ipv6/conf/default/disable_ipv6", 1)
                namespaces.set_sysctl("ipv4/tcp_slow_start_after_idle", 0)
        namespaces.run_batch(["ip", "-n", tor], plan.links(), "the kernel needs bridge and veth: modprobe bridge veth")
        for host in dict.fromkeys(nic.host for nic in plan.nics):
            namespaces.run_batch(["ip", "-n", plan.namespace(host)], plan.host(host), "iproute2 5.0 or newer is needed")
        namespaces.run_batch(["tc", "-n", tor], plan.queues(), "the kernel needs the tbf queue: modprobe sch_tbf")
        namespaces.run_batch(["bridge", "-n", tor], plan.forwarding(), "iproute2 5.0 or newer is needed")
        self._settle()
        if plan.train > 1 and len(self._cpus) > 1:
            self._steer(self._cpus[1])

    def _settle(self) -> None:
        """Set the offloads of both ends of every cable, and wait until it has a carrier.

        Trains travel as one GSO frame from the sender to the far side of the queue, where they are segmented.
        """
        tor = self.plan.namespace("tor")
        deadline = time.monotonic() + 5
        for nic, at_host in itertools.product(self.plan.nics, (True, False)):
            namespace, interface = (self.plan.namespace(nic.host), nic.interface) if at_host else (tor, nic.port)
            sends = self._offloads or (self.plan.train > 1 and nic.host in self.plan.sender_names)
            with namespaces.inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                namespaces.set_offloads(control, interface, send=sends, gro=self._offloads and at_host)
                while not namespaces.is_running(control, interface):
                    if time.monotonic() > deadline:
                        raise RackFailed(f"rack: {interface} has no carrier after 5 s")
                    time.sleep(0.002)

    def _steer(self, cpu: int) -> None:
        """Let one processor, which the senders do not use, do all of the switch's work (RPS), so that packets stay in
        order."""
        script = f"for ports in /sys/class/net/p-*/queues/rx-0/rps_cpus; do echo {_cpu_mask(cpu)} > $ports; done"
        process = self.exec_in(self.plan.namespace("tor"), ["sh", "-c", script], stderr=subprocess.DEVNULL)
        process.wait()  # a kernel without RPS can build the rack, too

    def exec_in(self, namespace: str, argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program in a namespace of the rack. Returns when it is inside or has ended.

        Options are those of Popen. The program ends with the rack at the latest.
        """
        process = subprocess.Popen(["ip", "netns", "exec", namespace, *argv], **options)
        self._running.append(process)
        while process.poll() is None and process.pid not in namespaces.processes_in([namespace]):
            time.sleep(0.001)
        return process

    def port_counters(self) -> dict[str, tuple[int, int]]:
        """Returns {switch port: (bytes in from its host, bytes out to it)} by the kernel's counters, layer 2 without
        FCS."""
        argv = ["ip", "-n", self.plan.namespace("tor"), "-j", "-s", "link", "show", "type", "veth"]
        links = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        return {link["ifname"]: (link["stats64"]["rx"]["bytes"], link["stats64"]["tx"]["bytes"]) for link in links}

    def queue_counters(self) -> PortCounters:
        """Returns the queue of the port to the cache server, as in `tc -s`."""
        argv = ["tc", "-n", self.plan.namespace("tor"), "-j", "-s", "qdisc", "show", "dev", CACHE_PORT, "root"]
        [queue] = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        return PortCounters(queue["bytes"], queue["packets"], queue["drops"], queue["backlog"])

    def run_rounds(
        self,
        count: int,
        *,
        protocol: str = "udp",
        bytes_per_sender: int | None = None,
        gap_s: tuple[float, float] = (0.15, 0.35),
        seed: int = 1,
        truth: Path | None = None,
    ) -> list[Round]:
        """Run scatter/gather rounds that begin at random intervals of `gap_s`, and write each to `truth` when it ends.

        Afterwards `sent` has what each sender passed to its kernel: (datagrams or writes, payload bytes).
        """
        plan, wanted = self.plan, bytes_per_sender or self.bytes_per_sender
        if wanted < DATAGRAM.size:
            raise UsageError(f"a sender's answer has at least {DATAGRAM.size} bytes, not {wanted}")
        addresses = {name: plan.address(name) for name in plan.sender_names}
        timeout_s = 1 + 3 * wanted * plan.senders * 8 / plan.link_bps
        limit_s = 10 + count * (gap_s[1] + timeout_s)
        responders = [
            {"name": name, "namespace": plan.namespace(name), "address": address} for name, address in addresses.items()
        ]
        with contextlib.ExitStack() as stack:
            respond = stack.enter_context(
                contextlib.closing(
                    Role(
                        "respond",
                        limit_s,
                        protocol=protocol,
                        senders=responders,
                        chunk_datagrams=plan.train if plan.train > 1 else 16,
                        cpu=self._cpus[0],
                    )
                )
            )
            respond.wait_ready()
            gather = stack.enter_context(
                contextlib.closing(
                    Role(
                        "gather",
                        limit_s,
                        namespace=plan.namespace("cache"),
                        addresses=addresses,
                        protocol=protocol,
                        bytes_per_sender=wanted,
                        rounds=count,
                        gap_s=gap_s,
                        seed=seed,
                        timeout_s=timeout_s,
                        truth=str(truth.resolve()) if truth else None,
                    )
                )
            )
            gather.wait_ready()
            rounds = [Round(**row) for row in gather.results()]
            (sent,) = respond.stop()
        self.sent = {name: (units, payload) for name, (units, payload) in sent.items()}
        return rounds

    @contextlib.contextmanager
    def record_pcap(self, path: Path, snaplen: int = 96) -> Iterator[None]:
        """In this context, record with tcpdump what the cache server receives. Raises RackFailed if it lost a
        packet."""
        namespace, interface = self.capture_interface
        if not shutil.which("tcpdump"):
            raise RackUnavailable("recording the rack needs tcpdump", "apt install tcpdump")
        argv = [
            "tcpdump",
            "-i",
            interface,
            "-Q",
            "in",
            "--time-stamp-precision=nano",
            "-s",
            str(snaplen),
            "-B",
            "65536",
            "-n",
            "-Z",
            "root",
            "-w",
            str(path.resolve()),
        ]
        process = self.exec_in(namespace, argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stderr
        with process.stderr as words:
            _wait_for(words, "listening on")
            yield
            time.sleep(_TCPDUMP_READS_S)
            process.send_signal(signal.SIGINT)
            lost = [line for line in words if "dropped by" in line and not line.startswith("0 ")]
            if process.wait() or lost:
                raise RackFailed(f"rack: tcpdump: {lost[0].strip() if lost else f'exit code {process.returncode}'}")


def _cpu_mask(cpu: int) -> str:
    """Returns a processor in the kernel's bitmap format: groups of 32 bits in hexadecimal, the highest first."""
    return ",".join([f"{1 << cpu % 32:x}", *["00000000"] * (cpu // 32)])


def _wait_for(words: IO[str], wanted: str) -> None:
    heard = ""
    for line in words:
        if wanted in line:
            return
        heard = line.strip() or heard
    raise RackFailed(f"rack: tcpdump: {heard or 'ended at once'}")
