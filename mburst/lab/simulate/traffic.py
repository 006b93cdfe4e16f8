"""Traffic: who sends what and when, as frames before they reach a queue. Times are picoseconds since the scenario's
start."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .port import DROPPED, Ints, Passage
from .scenario import API, CACHE, CLIENTS, FIRST_SENDER, HOP_NS, PS_PER_NS, REQUEST_BYTES, FrameKind, Scenario, wire_ps

Frames = npt.NDArray[Any]  # of dtype FRAME

FRAME = np.dtype(
    [
        ("at_ps", np.int64),  # when it reaches the queue
        ("ts_ns", np.int64),  # timestamp of the capture, Unix; 0 until it is captured
        ("length", np.int64),  # bytes without FCS
        ("payload", np.int64),  # bytes above UDP or TCP
        ("kind", np.uint8),
        ("src", np.int32),  # indexes of Scenario.hosts()
        ("dst", np.int32),
        ("round", np.int64),  # -1: no round
        ("index", np.int64),  # running number among the frames of this kind from this host
        ("seq", np.int64),  # TCP, offsets in the stream: the first byte, and (ack) the next expected byte
        ("ack", np.int64),
        ("push", np.bool_),
        ("ce", np.bool_),  # marked ECN congestion experienced
    ]
)


def blank(count: int, kind: FrameKind, **columns: Any) -> Frames:
    """Returns `count` frames of a kind with the given columns; the round is -1 (none), and all other columns are 0."""
    frames = np.zeros(count, FRAME)
    frames["kind"] = kind
    for name, values in ({"round": -1} | columns).items():
        frames[name] = values
    return frames


def request_times(scenario: Scenario, rng: np.random.Generator) -> Ints:
    """Returns when the cache server begins to ask, one value for each round: in the second or third tenth of its
    period."""
    begin = (np.arange(scenario.rounds) + rng.uniform(0.1, 0.3, scenario.rounds)) * scenario.period_ns
    return begin.astype(np.int64) * PS_PER_NS


def scatter(scenario: Scenario, asked_ps: Ints) -> Frames:
    """Returns the requests of every round: to one database after another at line rate."""
    rounds, senders = scenario.rounds, scenario.senders
    length = scenario.header_bytes(scenario.protocol) + REQUEST_BYTES
    turn = np.arange(senders) * wire_ps(length, scenario.link_bps)
    number = np.repeat(np.arange(rounds), senders)
    return blank(
        rounds * senders, FrameKind.SCATTER, at_ps=(asked_ps[:, None] + turn).ravel(), length=length,
        payload=REQUEST_BYTES,
        src=CACHE, dst=np.tile(np.arange(senders) + FIRST_SENDER, rounds), round=number, index=number,
        seq=number * REQUEST_BYTES, push=True,
    )  # fmt: skip


def gather(scenario: Scenario, requests: Frames, rng: np.random.Generator) -> Frames:
    """Returns the answers as they reach the port: frames back to back at the rate of each database's interface. An
    answer begins only when the previous one has left the interface."""
    rounds, senders, segments = scenario.rounds, scenario.senders, scenario.segments()
    payload = np.full(segments, scenario.segment_bytes())
    payload[-1] = scenario.bytes_per_sender - (segments - 1) * scenario.segment_bytes()
    length = payload + scenario.header_bytes(scenario.protocol)
    rate = scenario.sender_bps or scenario.link_bps
    sent = np.cumsum([wire_ps(size, rate) for size in length.tolist()])

    hop = HOP_NS * PS_PER_NS
    reaction = scenario.reaction_ns + rng.exponential(scenario.reaction_jitter_ns, (rounds, senders))
    ready = requests["at_ps"].reshape(rounds, senders) + hop + (reaction * PS_PER_NS).astype(np.int64)
    free = np.zeros(senders, np.int64)
    for begin in ready:
        np.maximum(begin, free, out=begin)
        free = begin + sent[-1]

    number, sender, part = (grid.ravel() for grid in np.indices((rounds, senders, segments)))
    return blank(
        number.size, FrameKind.ANSWER, at_ps=(ready[:, :, None] + sent + hop).ravel(), length=length[part],
        payload=payload[part], src=sender + FIRST_SENDER, dst=CACHE, round=number, index=number * segments + part,
        seq=number * scenario.bytes_per_sender + part * scenario.segment_bytes(), ack=(number + 1) * REQUEST_BYTES,
        push=part == segments - 1,
    )  # fmt: skip


def background(scenario: Scenario, rng: np.random.Generator) -> Frames:
    """Returns the clients' datagrams: Poisson, in three sizes."""
    seconds = scenario.length_ns() / 10**9
    count = int(rng.poisson(scenario.background_frame_rate() * seconds))
    sizes, shares = zip(*scenario.background_mix(), strict=True)
    payload = rng.choice(sizes, count, p=shares)
    return blank(
        count, FrameKind.BACKGROUND, at_ps=np.sort(rng.integers(0, scenario.length_ns() * PS_PER_NS, count)),
        length=payload + scenario.header_bytes("udp"), payload=payload, dst=CACHE, index=np.arange(count),
        src=FIRST_SENDER + scenario.senders + rng.integers(0, CLIENTS, count),
    )  # fmt: skip


def probes(scenario: Scenario, rng: np.random.Generator) -> Frames:
    """Returns probe requests as they reach the port, Poisson; `index` is the number of the probe."""
    count = int(rng.poisson(scenario.probe_rate * scenario.length_ns() / 10**9))
    return blank(
        count, FrameKind.PROBE, at_ps=np.sort(rng.integers(0, scenario.length_ns() * PS_PER_NS, count)),
        length=scenario.header_bytes("udp") + REQUEST_BYTES, payload=REQUEST_BYTES, src=API, dst=CACHE,
        index=np.arange(count),
    )  # fmt: skip


def replies(requests: Frames, received_ps: Ints, rng: np.random.Generator) -> Frames:
    """Returns the cache server's replies to the probes that it received."""
    thinking = (host_delay(rng, len(requests), median_ns=8_000) * PS_PER_NS).astype(np.int64)
    answer = requests.copy()
    answer["kind"], answer["src"], answer["dst"] = FrameKind.REPLY, CACHE, API
    answer["at_ps"] = received_ps + thinking
    return answer


def host_delay(rng: np.random.Generator, count: int, median_ns: int) -> npt.NDArray[np.float64]:
    """Returns the nanoseconds between an application and its interface: lognormal, with a tail of some ten times the
    median."""
    return rng.lognormal(np.log(median_ns), 0.6, count)


class Receiver:
    """The cache server's end of one TCP connection: the received data, and its acknowledgements (RFC 9293, 3.8.6)."""

    def __init__(self) -> None:
        self.edge = 0  # all bytes before it have arrived
        self.asked = 0  # bytes of requests sent
        self._beyond: dict[int, int] = {}  # segments after a gap: offset → bytes
        self._unanswered = 0

    def take(self, seq: int, size: int, push: bool) -> bool:
        """Take a segment, and return whether it is acknowledged at once: every second one, the last one, and around a
        gap."""
        gap = bool(self._beyond) or seq != self.edge
        self._beyond[seq] = size
        while self.edge in self._beyond:
            self.edge += self._beyond.pop(self.edge)
        self._unanswered += 1
        if gap or push or self._unanswered == 2:
            self._unanswered = 0
            return True
        return False


def acknowledge(scenario: Scenario, requests: Frames, answers: Frames, received_ps: Ints) -> Frames:
    """Returns the cache server's bare acknowledgements. Also sets the `ack` of the requests.

    `answers` are the segments as received, at `received_ps`; requests and answers are merged by time.
    """
    connections = [Receiver() for _ in range(scenario.senders)]
    acks: list[tuple[int, int, int, int]] = []
    when = np.concatenate([requests["at_ps"], received_ps])
    columns = (np.concatenate([requests[name], answers[name]]) for name in ("src", "dst", "seq", "payload", "push"))
    rows = list(zip(when.tolist(), *(column.tolist() for column in columns), strict=True))
    for number in np.argsort(when, kind="stable").tolist():
        at, src, dst, seq, payload, push = rows[number]
        if src == CACHE:
            connection = connections[dst - FIRST_SENDER]
            requests["ack"][number] = connection.edge
            connection.asked += payload
        elif (connection := connections[src - FIRST_SENDER]).take(seq, payload, push):
            acks.append((at, src, connection.asked, connection.edge))
    at_ps, database, asked, edge = np.array(acks, np.int64).reshape(-1, 4).T
    return blank(
        len(acks), FrameKind.ACK, at_ps=at_ps, length=scenario.header_bytes("tcp"), src=CACHE, dst=database, seq=asked,
        ack=edge, index=np.arange(len(acks)),
    )  # fmt: skip


def passed(frames: Frames, passage: Passage) -> tuple[Frames, Passage]:
    """Returns the frames that a port let through, in the order in which they left, with their passage."""
    accepted = passage.begin_ps != DROPPED
    kept = Passage(*(column[accepted] for column in passage))
    return frames[kept.frame], kept
