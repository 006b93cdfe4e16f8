"""The execution of a scenario: what the cache server's interface saw, the probes, the port's queue, and the truth."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import traffic
from .frames import FrameBuilder
from .pcap import write_pcap
from .port import DROPPED, DropTailPort, Passage, carry, watermarks
from .scenario import CACHE, FIRST_SENDER, HOP_NS, PS_PER_NS, FrameKind, Host, Scenario, wire_ps
from .traffic import Frames

Rows = npt.NDArray[Any]

NOT_TAKEN = -1  # timestamp of a probe that was lost before it
UNBOUNDED = 1 << 62

PROBE = np.dtype(
    [
        (name, np.int64)
        for name in ("seq", "app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns", "lost")
    ]
)
QUEUE = np.dtype([(name, np.int64) for name in ("window_start_ns", "ts_ns", "max_bytes", "dropped_packets")])
ROUND = np.dtype(
    [
        (name, np.int64)
        for name in (
            "round",  # from 1
            "t_req_ns",
            "t_first_ns",  # timestamps of the first and last frame; 0 if every frame was dropped
            "t_last_ns",
            "bytes_expected",  # payload
            "bytes_rx",
            "frame_bytes_rx",  # the same frames without FCS
            "senders_seen",
            "senders_complete",
            "dgrams_rx",
            "dgrams_expected",
            "dropped",
        )
    ]
)


@dataclass(frozen=True)
class SimulatedCase:
    """The result of a scenario. The arrays have the dtypes FRAME (in traffic), PROBE, QUEUE and ROUND."""

    scenario: Scenario
    hosts: list[Host]
    frames: Frames  # as captured, in file order: `ts_ns` has the timestamps, `src` and `dst` are indexes of `hosts`
    probes: Rows
    queues: dict[str, Rows]  # by width of the window: "1ms", "1s"
    rounds: Rows
    dropped: int  # frames that the port dropped

    def incoming(self) -> Frames:
        """Returns the captured frames that the cache server received."""
        received: Frames = self.frames[self.frames["dst"] == CACHE]
        return received

    def write(self, folder: Path) -> dict[str, Path]:
        """Write cache.pcap, probes.csv, queues-1ms.csv, queues-1s.csv and truth.csv, and return their paths by name."""
        builder = FrameBuilder(self.scenario)
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name}.csv" for name in ("probes", "truth", *(f"queues-{w}" for w in self.queues))}
        _write_csv(paths["probes"], self.probes, {"src": "api", "dst": "cache"}, _PROBE_COLUMNS)
        for window, rows in self.queues.items():
            constants = {"device": "tor", "port": "p-cache", "queue": "0", "semantics": "max-since-last"}
            _write_csv(paths[f"queues-{window}"], rows, constants, _QUEUE_COLUMNS)
        columns = {
            "proto": self.scenario.protocol,
            "n_senders": str(self.scenario.senders),
            "bytes_per_sender": str(self.scenario.bytes_per_sender),
        }
        _write_csv(paths["truth"], self.rounds, columns, ["round", *columns, *(ROUND.names or ())[1:]])
        paths["cache"] = folder / "cache.pcap"
        write_pcap(paths["cache"], self.frames, builder, self.scenario.snaplen)
        return paths


_PROBE_COLUMNS = [
    "seq", "src", "dst", "app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns", "lost",
]  # fmt: skip
_QUEUE_COLUMNS = [
    "device", "port", "queue", "window_start_ns", "ts_ns", "max_bytes", "dropped_packets", "semantics",
]  # fmt: skip


def _write_csv(path: Path, rows: Rows, constants: dict[str, str], columns: Sequence[str]) -> None:
    """Write columns of `rows`, and the constants; NOT_TAKEN becomes an empty field."""
    fields: list[Iterable[object]] = []
    for name in columns:
        if name in constants:
            fields.append([constants[name]] * len(rows))
        else:
            fields.append("" if value == NOT_TAKEN else value for value in rows[name].tolist())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*fields, strict=True))


def simulate(scenario: Scenario) -> SimulatedCase:
    """Execute a scenario."""
    streams = np.random.SeedSequence(scenario.seed).spawn(7)
    rngs = dict(zip(("times", "gather", "background", "probes", "replies", "apps", "stamps"),
                    map(np.random.default_rng, streams), strict=True))  # fmt: skip

    requests = traffic.scatter(scenario, traffic.request_times(scenario, rngs["times"]))
    offered = np.concatenate(
        [
            traffic.gather(scenario, requests, rngs["gather"]),
            traffic.background(scenario, rngs["background"]),
            traffic.probes(scenario, rngs["probes"]),
        ]
    )
    offered = offered[np.argsort(offered["at_ps"], kind="stable")]
    passage = _through_the_port(scenario, offered)
    received, took = traffic.passed(offered, passage)
    received_ps = took.end_ps + HOP_NS * PS_PER_NS
    received["ts_ns"] = scenario.start_ns + received_ps // PS_PER_NS
    received["ce"] = took.level - received["length"] > (scenario.ecn_threshold_bytes or UNBOUNDED)

    probed = received["kind"] == FrameKind.PROBE
    sent = [requests, traffic.replies(received[probed], received_ps[probed], rngs["replies"])]
    if scenario.protocol == "tcp":
        answered = received["kind"] == FrameKind.ANSWER
        sent.append(traffic.acknowledge(scenario, requests, received[answered], received_ps[answered]))
    outgoing = _back(scenario, np.concatenate(sent))

    exchanged = _exchanges(
        scenario, offered[offered["kind"] == FrameKind.PROBE], received[probed], outgoing, rngs["apps"]
    )
    frames = _captured(scenario, received, outgoing, rngs["stamps"])
    return SimulatedCase(
        scenario,
        scenario.hosts(),
        frames,
        exchanged,
        {"1ms": _windows(scenario, offered, passage, 10**6), "1s": _windows(scenario, offered, passage, 10**9)},
        _truth(scenario, requests, frames, offered, passage),
        int(np.count_nonzero(passage.begin_ps == DROPPED)),
    )


def _through_the_port(scenario: Scenario, offered: Frames) -> Passage:
    """Pass everything that is sent to the cache server through its port."""
    port = DropTailPort(scenario.link_bps, scenario.buffer_bytes)
    if scenario.protocol == "udp":
        return carry(port, offered["at_ps"], offered["length"])
    answers = (offered["kind"] == FrameKind.ANSWER).tolist()
    rto_ps = scenario.rto_ns * PS_PER_NS
    return carry(port, offered["at_ps"], offered["length"], answers.__getitem__, rto_ps)


def _back(scenario: Scenario, sent: Frames) -> Frames:
    """Returns what the cache server sends, with timestamps of leaving its interface at line rate."""
    sent = sent[np.argsort(sent["at_ps"], kind="stable")]
    passage = carry(DropTailPort(scenario.link_bps, UNBOUNDED), sent["at_ps"], sent["length"])
    sent["ts_ns"] = scenario.start_ns + passage.begin_ps // PS_PER_NS
    return sent


def _exchanges(scenario: Scenario, asked: Frames, received: Frames, outgoing: Frames, rng: np.random.Generator) -> Rows:
    """Returns a row for each probe; values after a loss are NOT_TAKEN. All hosts read the same clock."""
    rows = np.full(len(asked), NOT_TAKEN, PROBE)
    if not len(asked):
        return rows
    flight = wire_ps(int(asked["length"][0]), scenario.link_bps) // PS_PER_NS + HOP_NS
    rows["seq"] = asked["index"]
    rows["tx_ns"] = scenario.start_ns + asked["at_ps"] // PS_PER_NS - flight
    rows["app_send_ns"] = rows["tx_ns"] - traffic.host_delay(rng, len(rows), median_ns=2_000).astype(np.int64)
    rows["lost"] = 1
    answered = outgoing[outgoing["kind"] == FrameKind.REPLY]
    back = answered["index"]
    rows["remote_rx_ns"][received["index"]] = received["ts_ns"]
    rows["remote_tx_ns"][back] = answered["ts_ns"]
    rows["rx_ns"][back] = answered["ts_ns"] + 2 * flight
    waking = traffic.host_delay(rng, len(rows), median_ns=5_000).astype(np.int64)
    rows["app_recv_ns"][back] = rows["rx_ns"][back] + waking[back]
    rows["lost"][back] = 0
    return rows


def _captured(scenario: Scenario, received: Frames, outgoing: Frames, rng: np.random.Generator) -> Frames:
    """Returns frames in the order in which the interface saw them, with its timestamps."""
    frames = np.concatenate([received, outgoing]) if scenario.both_directions else received
    frames = frames[np.argsort(frames["ts_ns"], kind="stable")]
    if scenario.stamp_jitter_ns:
        frames["ts_ns"] += rng.integers(0, scenario.stamp_jitter_ns, len(frames), endpoint=True)
    return frames


def _windows(scenario: Scenario, offered: Frames, passage: Passage, width_ns: int) -> Rows:
    """Returns the queue's largest depth in windows of `width_ns`, from the start until the queue is empty."""
    last_ps = max(int(passage.end_ps.max(initial=0)) + 1, scenario.length_ns() * PS_PER_NS)
    edges = np.arange(-(-last_ps // (width_ns * PS_PER_NS)) + 1) * width_ns
    rows = np.zeros(len(edges) - 1, QUEUE)
    rows["window_start_ns"] = scenario.start_ns + edges[:-1]
    rows["ts_ns"] = scenario.start_ns + edges[1:]
    rows["max_bytes"], rows["dropped_packets"] = watermarks(passage, offered["length"], edges * PS_PER_NS)
    return rows


def _truth(scenario: Scenario, requests: Frames, frames: Frames, offered: Frames, passage: Passage) -> Rows:
    """Returns a row for each round, about its answers in the capture."""
    rows = np.zeros(scenario.rounds, ROUND)
    rows["round"] = np.arange(scenario.rounds) + 1
    rows["t_req_ns"] = scenario.start_ns + requests["at_ps"][:: scenario.senders] // PS_PER_NS
    rows["bytes_expected"] = scenario.senders * scenario.bytes_per_sender
    rows["dgrams_expected"] = scenario.senders * scenario.segments()

    answers = frames[frames["kind"] == FrameKind.ANSWER]
    of_round = answers["round"]
    np.add.at(rows["bytes_rx"], of_round, answers["payload"])
    np.add.at(rows["frame_bytes_rx"], of_round, answers["length"])
    np.add.at(rows["dgrams_rx"], of_round, 1)
    np.maximum.at(rows["t_last_ns"], of_round, answers["ts_ns"])
    first = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(first, of_round, answers["ts_ns"])
    rows["t_first_ns"] = np.where(rows["dgrams_rx"] > 0, first, 0)

    arrived = np.zeros((scenario.rounds, scenario.senders), np.int64)
    np.add.at(arrived, (of_round, answers["src"] - FIRST_SENDER), answers["payload"])
    rows["senders_seen"] = np.count_nonzero(arrived, axis=1)
    rows["senders_complete"] = np.count_nonzero(arrived == scenario.bytes_per_sender, axis=1)

    lost = offered[passage.frame[passage.begin_ps == DROPPED]]
    np.add.at(rows["dropped"], lost["round"][lost["kind"] == FrameKind.ANSWER], 1)
    return rows
