"""The prober: when probes are due, and the loop that sends them and receives the answers.

A probe is due at a time that was fixed beforehand, whatever happened to earlier probes. Its `app_send_ns` is that time
and not the time at which it was finally sent, so a prober that was held up does not omit what it would have measured in
that time (no coordinated omission).
"""

from __future__ import annotations

import gc
import random
import socket
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import MburstError
from ...process import alive
from ...units import NS_PER_S
from . import stamp
from .clock import Clocks, jump_ns
from .exchanges import SettledProbes
from .pacer import Pacer
from .path import IcmpPath, ProbePath, Report, SendOptions, UdpPath
from .path_tcp import TcpPath
from .schedule import Schedule
from .targets import ProbeTarget

_SETTLE_EVERY_NS = 100_000_000
_BEGIN_IN_NS = 20_000_000
_AHEAD_NS = 10_000_000  # minimum time for which the times of probes are computed ahead
_CONNECT_NS = 2 * NS_PER_S
_NOTHING_DUE = array("q")
_LEAST_JUMP_NS = 1_000_000  # smaller jumps may be slewing by NTP: 500 ppm

Take = Callable[[SettledProbes, dict[str, str]], None]


@dataclass(frozen=True)
class ProbePlan:
    """How to probe. `rate` is the rate for each target, shared by its source ports; a source port of 0 is any port."""

    protocol: str = "udp"  # udp, tcp, icmp
    rate: float = 1000.0
    poisson: bool = True
    duration_ns: int | None = None  # None: until stopped
    count: int | None = None  # probes for each target
    timeout_ns: int = 2 * NS_PER_S
    size: int = 64
    source: str = ""
    source_ports: tuple[int, ...] = (0,)
    dscp: int = 0
    seed: int | None = None
    hardware: bool = False


class Prober:
    """Probes targets along one path for each source port.

    `host` is the name of this end in rows, `batch` that of this run. `report` is called with lines of text. A target
    for which no socket can be made is reported and left out; raises MburstError if that is so for all targets.
    """

    def __init__(self, targets: list[ProbeTarget], plan: ProbePlan, *, host: str, batch: str, report: Report) -> None:
        self.plan = plan
        self._host = host
        self._batch = batch
        self._report = report
        self._reported: set[str] = set()
        self._pacer = Pacer()
        self._clocks = Clocks()
        self._last = self._clocks.read()
        self._rng = random.Random(plan.seed)
        self._stopping = False
        self.paths: list[list[ProbePath]] = []
        self.left_out: list[MburstError] = []
        for target in targets:
            try:
                self.paths.append([])
                for port in plan.source_ports:
                    path = self._open(target, port)
                    path.exchanges.timeout_ns = plan.timeout_ns
                    self.paths[-1].append(path)
            except MburstError as error:
                for path in self.paths.pop():
                    path.close()
                self.left_out.append(error)
        if not self.paths:
            self.close()
            raise self.left_out[0]
        for reason in self.left_out:
            report(str(reason))

    def _open(self, target: ProbeTarget, port: int) -> ProbePath:
        plan = self.plan
        options = SendOptions(plan.size, (plan.source, port), plan.dscp, plan.hardware)
        if plan.protocol == "tcp":
            return TcpPath(target, self._pacer, self._report_once, options)
        if plan.protocol == "icmp":
            return IcmpPath(target, self._pacer, self._report_once, options)
        error = stamp.error_estimate(self._last.max_error_ns, self._last.synchronized)
        return UdpPath(target, self._pacer, self._report_once, options, error)

    def _report_once(self, line: str) -> None:
        """Report a line once: several paths to one target have the same problem."""
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)

    def names(self, path: ProbePath) -> dict[str, str]:
        """The names of a path in rows. The source port is part of them if there are several."""
        src = self._host
        if len(self.plan.source_ports) > 1 and path.source_port:
            src = f"[{src}]:{path.source_port}" if ":" in src else f"{src}:{path.source_port}"
        return {"batch": self._batch, "src": src, "dst": path.target.name, "protocol": self.plan.protocol}

    def stop(self) -> None:
        """End `run` soon: no more probes are sent, and answers to those under way are awaited. A signal handler may
        call this."""
        self._stopping = True

    def close(self) -> None:
        for paths in self.paths:
            for path in paths:
                path.close()
        self._clocks.close()
        self._pacer.close()

    def run(self, take: Take) -> None:
        """Probe, and pass every probe to `take` once it is settled: when its answer can no longer come in time. `take`
        is called between probes, so it should be quick."""
        gc.collect()
        gc.freeze()  # existing objects need not be scanned while probes wait
        try:
            self._wait_for_connections()
            self._probe(take)
            self._wait_for_answers(take)
        finally:
            gc.unfreeze()

    def _wait_for_answers(self, take: Take) -> None:
        """Receive the answers that still come in time, then settle everything."""
        deadline = time.monotonic_ns() + self.plan.timeout_ns
        while any(path.exchanges.waiting for path in self._each()) and time.monotonic_ns() < deadline:
            alive.beat()
            self._pacer.run(_NOTHING_DUE, min(deadline, time.monotonic_ns() + _AHEAD_NS))
            self._settle(take, time.monotonic_ns() - self.plan.timeout_ns)
        self._settle(take, 2**63 - 1)
        for path in self._each():
            path.finish()

    def _each(self) -> list[ProbePath]:
        return [path for paths in self.paths for path in paths]

    def _wait_for_connections(self) -> None:
        """Give connections time to be made before the first probe is due."""
        waiting = [path for path in self._each() if isinstance(path, TcpPath)]
        deadline = time.monotonic_ns() + _CONNECT_NS
        while not self._stopping and time.monotonic_ns() < deadline and any(path.opening for path in waiting):
            self._pacer.run(_NOTHING_DUE, deadline)

    def _probe(self, take: Take) -> None:
        plan = self.plan
        begin = known = time.monotonic_ns() + _BEGIN_IN_NS
        schedule = Schedule(
            [[path.index for path in paths] for paths in self.paths],
            plan.rate,
            begin,
            count=plan.count,
            end_ns=None if plan.duration_ns is None else begin + plan.duration_ns,
            poisson=plan.poisson,
            rng=self._rng,
        )
        due = array("q")
        look = begin
        while (schedule.more or due) and not self._stopping:
            alive.beat()
            now = time.monotonic_ns()
            if known < now + _AHEAD_NS:
                known = now + 2 * _AHEAD_NS
                schedule.look_ahead(known, due)
            if now >= look:
                look = now + _SETTLE_EVERY_NS
                self._settle(take, now - plan.timeout_ns)
                self._watch_clock()
            until = known if schedule.more else due[-2] if due else now
            del due[: 2 * self._pacer.run(due, until)]

    def _settle(self, take: Take, due_before_ns: int) -> None:
        for path in self._each():
            settled = path.exchanges.settle(due_before_ns)
            if settled is not None:
                take(settled, self.names(path))

    def _watch_clock(self) -> None:
        """Monitor how well the clock is synchronized, and report when somebody sets it."""
        now = self._clocks.read()
        moved = jump_ns(self._last, now)
        if abs(moved) >= _LEAST_JUMP_NS:
            self._report(
                f"system time was set {'forward' if moved > 0 else 'back'} by {abs(moved) / 1e6:,.0f} ms: "
                "the latencies of probes in flight at that moment are not known"
            )
        self._last = now
        for path in self._each():
            path.clock_error_ns = now.max_error_ns if now.synchronized else None


def kind_of(protocol: str) -> socket.SocketKind:
    """The kind of socket for which the targets of a protocol are resolved."""
    return socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
