"""Labelled cases (latency_cases.py) in which only a switch recorded the port: each millisecond it sends a running total
and the depth of a queue, with the delays of a sampler, and `mburst collect` receives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import latency_cases as cases
import numpy as np
from latency_cases import MS, Case, FluidPort, S, Setting
from latency_store import ORIGIN, write_probes
from otlplib import DEPTH, OUT_BYTES, Point, collected, message
from ports import free_port

from mburst.sql import StoreFolder

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
SETTING = Setting(seconds=8)
WITH_FCS = 1518 / cases.FRAME  # counted bytes of a full frame, as a share of its wire bytes
SMALL = 68 / 88  # of the smallest frames


@dataclass(frozen=True)
class SwitchCase:
    """The samples that the switch sends, the latency of the probes, and the cause."""

    case: Case
    model: FluidPort
    truth: str
    counted: float = WITH_FCS  # bytes that the switch counts for each wire byte
    deep: float = 1.0  # reported depth, as a share of the true depth
    host: str = "h"  # the host behind its port, by the configuration

    def points(self) -> list[Point]:
        """Returns samples of a port and a queue, up to 0.2 ms late, some by 1.5 ms."""
        rng, edges = np.random.default_rng(3), (np.arange(len(self.model.departures)) + 1) * self.model.step
        times = np.arange(0.3 * MS, SETTING.seconds * S, MS)
        times += rng.uniform(0, 0.2 * MS, len(times)) + 1.5 * MS * (rng.random(len(times)) < 0.003)
        times.sort()
        total = np.interp(times, edges, np.cumsum(self.model.departures)) * self.counted
        depth = np.interp(times, edges, self.model.backlog) * self.deep
        found: list[Point] = []
        for at, sent, waiting in zip(times.tolist(), total.tolist(), depth.tolist(), strict=True):
            found.append((OUT_BYTES, "Ethernet0", ORIGIN + round(at), 10**12 + round(sent)))
            found.append((DEPTH, "Ethernet0|3", ORIGIN + round(at), round(waiting)))
        return found

    def store(self, folder: Path) -> Path:
        """Returns a store of the probes and of the collected samples."""
        points, port = self.points(), free_port()
        links = f"links: [{{device: tor1, port: Ethernet0, host: {self.host}, interface: eth0, link: 1G}}]"

        def send() -> None:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                export = channel.unary_unary(EXPORT)
                for first in range(0, len(points), 4000):
                    export(message(points[first : first + 4000]), timeout=30, wait_for_ready=True)

        collected(folder, f"otlp: {{listen: '127.0.0.1:{port}'}}\nmburst: {{{links}}}", send, len(points))
        write_probes(StoreFolder.open(folder / "store"), self.case)
        return folder / "store"


def switch_case(kind: str) -> SwitchCase:
    """bursts: an incast that delays the probes. neighbour: the same, at a port that another host is attached to.
    shallow: the same delays, and a switch that reports a short queue: the probes waited before it. small: the same in
    the smallest frames, whose octets amount to three quarters of line rate. hop, host: something else delays the
    probes, at its own times. harmless: nothing does."""
    rng, model = cases.plain_incast(kind, 5, SETTING)
    holds = cases.moments(rng, SETTING, 1.37 * SETTING.period_ns)
    lengths = SETTING.drain_ns * rng.uniform(0.6, 1.4, len(holds))
    trouble = {"hop": {"forward": (holds, lengths)}, "host": {"turn": (holds, lengths)}}.get(kind, {})
    through = kind in ("bursts", "neighbour", "shallow", "small")
    case = Case(kind, cases.scene_of(model, cases.send(rng, SETTING, model if through else None, trouble), SETTING),
                "", 5, SETTING)  # fmt: skip
    made = SwitchCase(case, model, {"hop": "elsewhere", "host": "host", "harmless": "none"}.get(kind, "undetermined"))
    return {
        "bursts": replace(made, truth="bursts"),
        "neighbour": replace(made, host="other"),
        "shallow": replace(made, deep=0.05),
        "small": replace(made, counted=SMALL),
    }.get(kind, made)
