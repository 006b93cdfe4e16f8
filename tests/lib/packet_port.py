"""A packet-level FIFO port as the truth for `mburst what-if`: independent of the code under test.

Every frame of every sender is queued individually. A case is recorded as mburst would record it (bins and senders of
the frames that leave the port), and replayed with its senders, its link or its buffer actually changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from latency_cases import MS, S, Setting, jitter, moments, stamp

from mburst.analysis.cause import ledger as books
from mburst.analysis.cause.evidence.repeats import find
from mburst.analysis.cause.ledger import Crossing
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.scene import Evidence, Scene
from mburst.analysis.cause.tail import find_tail, latency
from mburst.analysis.model.stats import join_runs, runs
from mburst.analysis.whatif.moved_senders import SenderRows
from mburst.analysis.whatif.replay import WhatIfChange

FRAME = 1538.0  # wire bytes
BACKGROUND = 3  # senders of background traffic; they are the first


@dataclass(frozen=True)
class Made:
    """The parameters of a case. speeds: arrivals of bursts as a multiple of line rate; one is drawn for each."""

    senders: int = 8
    speeds: tuple[float, ...] = (8.0,)
    uneven: float = 0.0  # sigma of the logarithm of the senders' sizes
    own_pace: bool = False  # all senders have the same speed; else all of a burst end together
    spread_ns: float = 100e3  # of their onsets
    ramp: float = 1.0  # the second half of each sender's bytes comes slower by this factor
    buffer_ns: float = np.inf  # of the port, as the time to drain it
    unknown: float = 0.0  # share of the senders that are recorded as `other`
    source_bin_ns: int = 1_000_000
    setting: Setting = field(default_factory=Setting)


@dataclass(frozen=True)
class Traffic:
    """Frames in order of arrival: time, wire bytes, sender, and burst (−1: background)."""

    time: np.ndarray
    bytes: np.ndarray
    sender: np.ndarray
    burst: np.ndarray

    def sorted(self) -> Traffic:
        order = np.argsort(self.time, kind="stable")
        return Traffic(self.time[order], self.bytes[order], self.sender[order], self.burst[order])


def fifo(traffic: Traffic, link_bps: float, limit: float = np.inf) -> np.ndarray:
    """Returns when each frame has left; NaN if the buffer (bytes) was full."""
    took = traffic.bytes * 8e9 / link_bps
    if np.isinf(limit):
        done = np.cumsum(took)
        return done + np.maximum.accumulate(traffic.time - (done - took))
    left, free = np.empty(len(took)), 0.0
    room = limit * 8e9 / link_bps
    for k, (at, work) in enumerate(zip(traffic.time.tolist(), took.tolist(), strict=True)):
        if free - at + work > room:
            left[k] = np.nan
        else:
            free = max(free, at) + work
            left[k] = free
    return left


def waits(traffic: Traffic, left: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Returns how long a small packet that arrives at each time waits for those before it."""
    latest = np.maximum.accumulate(np.nan_to_num(left))
    before = np.searchsorted(traffic.time, at, side="right") - 1
    return np.where(before >= 0, np.maximum(latest[np.maximum(before, 0)] - at, 0), 0.0)


def made(what: Made, rng: np.random.Generator) -> Traffic:
    """Returns the frames of the bursts and of the background."""
    setting, room = what.setting, what.setting.link_bps / 8e9
    starts = moments(rng, setting, setting.period_ns)
    parts = []
    sizes = rng.lognormal(0, what.uneven, what.senders)
    for burst, start in enumerate(starts):
        volume = setting.drain_ns * float(rng.uniform(0.6, 1.4)) * room
        speed = float(rng.choice(what.speeds))
        shares = volume * sizes / sizes.sum()
        for k in range(what.senders):
            count = max(1, round(shares[k] / FRAME))
            pace = 1 / what.senders if what.own_pace else sizes[k] / sizes.sum()
            step = FRAME / (speed * room * pace)
            steps = np.full(count, step)
            steps[count // 2 :] *= what.ramp
            times = start + rng.uniform(0, what.spread_ns) + np.cumsum(steps) - steps[0]
            parts.append((times, np.full(count, BACKGROUND + k), np.full(count, burst)))
    count = rng.poisson(setting.load * setting.seconds * S * room / FRAME)
    parts.append((rng.uniform(0, setting.seconds * S, count), rng.integers(0, BACKGROUND, count), np.full(count, -1)))
    time, sender, burst = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return Traffic(time, np.full(len(time), FRAME), sender, burst).sorted()


def changed(traffic: Traffic, change: WhatIfChange, link_bps: float) -> Traffic:
    """Returns the frames with changed senders: staggered starts, or waves of `fan_in` senders, each of which begins
    when the previous one has been transmitted."""
    time = traffic.time.copy()
    behind = np.flatnonzero(traffic.burst < 0)
    quiet = traffic.time[behind]
    for burst in range(int(traffic.burst.max()) + 1):
        rows = np.flatnonzero(traffic.burst == burst)
        senders, first = np.unique(traffic.sender[rows], return_index=True)
        senders = senders[np.argsort(first, kind="stable")]  # in the order in which they began
        place = np.empty(int(senders.max()) + 1, dtype=int)
        place[senders] = np.arange(len(senders))
        rank = place[traffic.sender[rows]]
        span = len(rows) * FRAME * 8e9 / link_bps
        if change.stagger_ns and len(senders) > 1:
            time[rows] += change.stagger_ns * rank / (len(senders) - 1)
        if change.fan_in:
            free = -np.inf
            for wave in range(int(rank.max()) // change.fan_in + 1):
                own = rows[rank // change.fan_in == wave]
                time[own] += max(0.0, free - time[own[0]])
                since, until = np.searchsorted(quiet, (time[own[0]], time[own].max() + 10 * span))
                beside = behind[since:until]
                among = np.concatenate((own, beside))
                part = Traffic(time[among], traffic.bytes[among], traffic.sender[among], traffic.burst[among]).sorted()
                free = float(fifo(part, link_bps)[part.burst >= 0].max())
    return replace(traffic, time=time).sorted()


@dataclass(frozen=True)
class PacketCase:
    """A case with its recording, and the latency of its probes under a change."""

    made: Made
    traffic: Traffic
    scene: Scene
    rows: SenderRows
    met: np.ndarray
    base: np.ndarray

    def p99(self, change: WhatIfChange) -> float:
        """Returns the true p99 under a change, ns."""
        setting = self.made.setting
        link = change.link_bps or setting.link_bps
        waited: np.ndarray = np.zeros(len(self.met))
        if not change.priority:
            limit = change.buffer_bytes or self.made.buffer_ns * setting.link_bps / 8e9
            came = changed(self.traffic, change, setting.link_bps)
            waited = waits(came, fifo(came, link, limit), self.met)
        return float(np.quantile(self.base + waited, 0.99, method="inverted_cdf"))


def case_of(what: Made, seed: int) -> PacketCase:
    """Makes the traffic, queues it, and records the frames that left."""
    rng = np.random.default_rng([seed, 41])
    setting, traffic = what.setting, made(what, rng)
    left = fifo(traffic, setting.link_bps, what.buffer_ns * setting.link_bps / 8e9)
    n = int(setting.seconds * setting.rate)
    sent = np.sort(rng.uniform(0, setting.seconds * S, n))
    way = [jitter(rng, n, scale) for scale in (3e3, 8e3, 6e3, 8e3, 5e3)]
    met = sent + way[0] + way[1]
    there = met + waits(traffic, left, met)
    back = there + way[2]
    times = (sent, sent + way[0], there, back, back + way[3], back + way[3] + way[4])
    probes = stamp(setting, times, np.zeros(n, dtype=bool))
    port, bursts = recorded(traffic, left, setting)
    scene = Scene(probes, [Crossing(port, "dst", False)], [bursts], [None], [])
    measured = way[1:4] if setting.stamps == "rtt" else way  # between the stamps, as in the predictions
    return PacketCase(what, traffic, scene, sender_rows(traffic, left, what), met, np.sum(measured, axis=0))


def recorded(traffic: Traffic, left: np.ndarray, setting: Setting) -> tuple[Port, tuple[np.ndarray, np.ndarray]]:
    """Returns the port as a capture records it, and its bursts by the default definition."""
    known = np.isfinite(left)
    count = int(np.nanmax(left) / setting.bin_ns) + 1
    bytes_ = np.bincount((left[known] / setting.bin_ns).astype(int), traffic.bytes[known], count).astype(np.int64)
    starts, width = np.arange(count) * float(setting.bin_ns), float(setting.bin_ns)
    name = ("h", "eth0", "in")
    port = port_from_bins(name, setting.link_bps, setting.bin_ns, [(starts, bytes_)], [(0.0, count * width)])
    first, last = runs(bytes_ >= 0.5 * port.bin_bytes)
    return port, join_runs(first * width, last * width, 5 * width)


def sender_rows(traffic: Traffic, left: np.ndarray, what: Made) -> SenderRows:
    """Returns the bytes of each sender in each source bin; some of the senders as `other`."""
    known = np.flatnonzero(np.isfinite(left))
    sender = traffic.sender[known].astype(np.int64)
    hidden = BACKGROUND + what.senders - round(what.unknown * what.senders)
    sender[sender >= hidden] = -1
    bin_ = (left[known] / what.source_bin_ns).astype(np.int64)
    key, place = np.unique(np.column_stack((bin_, sender)), axis=0, return_inverse=True)
    first, last = np.full(len(key), np.inf), np.zeros(len(key))
    np.minimum.at(first, place.ravel(), left[known])
    np.maximum.at(last, place.ravel(), left[known])
    members = np.where(key[:, 1] < 0, max(1, round(what.unknown * what.senders)), 1).astype(float)
    sent = np.bincount(place.ravel(), traffic.bytes[known])
    beside = np.where((key[:, 1] >= 0) & (key[:, 1] < BACKGROUND), traffic.bytes.sum(), 0.0)
    return SenderRows(key[:, 1], first, last, sent, members, beside)


def evidence_of(case: PacketCase) -> Evidence:
    """Returns the evidence that a model of the port needs, without the evidence for the verdict."""
    scene, probes = case.scene, case.scene.probes
    crossing, delays = scene.crossings[0], latency(probes)
    met = books.meeting_time(probes, delays, crossing)
    busy = crossing.port.busy_after(met) > 0
    tail = find_tail(probes, delays, scene.rule.on([crossing.port.link_bps]), busy)
    repeats = find(probes, delays, tail, busy)
    ledger = books.keep(probes, delays, tail, scene.crossings, repeats)
    return Evidence(probes.path, tail, delays, ledger, crossing, repeats=repeats, met=met)


def drawn(kind: str, seed: int, seconds: float = 12.0) -> PacketCase:
    """Returns a case of one of KINDS in a setting that the seed determines."""
    rng = np.random.default_rng([seed, 43])
    link = float(rng.choice([1e9, 1e9, 10e9]))
    drain = float(rng.uniform(4, 25)) * MS * (1e9 / link) ** 0.5
    setting = Setting(
        seconds=min(seconds, 80 * drain * 8 / S) if link > 1e9 else seconds,
        link_bps=link,
        bin_ns=int(rng.choice([20_000, 100_000, 100_000, 1_000_000])),
        rate=float(rng.choice([500, 1000, 2000])) * (link / 1e9) ** 0.5,
        period_ns=drain * float(rng.uniform(5, 12)),
        drain_ns=drain,
        skew_ns=float(rng.normal(0, 1e8)),
        drift=float(rng.uniform(-4e-5, 4e-5)),
        load=float(rng.uniform(0.01, 0.3)),
    )
    what = Made(
        senders=int(rng.choice([2, 4, 8, 16, 40, 64])),
        speeds=(float(rng.uniform(1.5, 20)),),
        spread_ns=float(rng.uniform(0, 500e3)),
        source_bin_ns=int(rng.choice([1_000_000, 1_000_000, 10_000_000])),
        setting=setting,
    )
    return case_of(replace(what, **KINDS[kind](what, rng)), seed)


KINDS = {
    "equal": lambda what, rng: {},
    "uneven": lambda what, rng: {"uneven": float(rng.uniform(0.5, 1.5)), "own_pace": bool(rng.integers(2))},
    "two-speed": lambda what, rng: {"speeds": (float(rng.uniform(1.2, 2)), float(rng.uniform(5, 20)))},
    "ramp": lambda what, rng: {"ramp": float(rng.uniform(2, 6))},
    "one-sender": lambda what, rng: {"senders": 1},
    "half-unknown": lambda what, rng: {"unknown": 0.5, "senders": max(4, what.senders)},
    "unknown": lambda what, rng: {"unknown": 1.0},
    "coarse": lambda what, rng: {
        "source_bin_ns": 10_000_000,
        "setting": replace(what.setting, bin_ns=1_000_000, rate=500.0),
    },
    "fine": lambda what, rng: {"setting": replace(what.setting, bin_ns=20_000)},
    "few-senders": lambda what, rng: {"senders": int(rng.integers(2, 5)), "uneven": float(rng.uniform(0, 1))},
    "few-probes": lambda what, rng: {"setting": replace(what.setting, rate=float(rng.uniform(150, 400)))},
    "round-trips": lambda what, rng: {"setting": replace(what.setting, stamps="rtt")},
    "dropped": lambda what, rng: {"buffer_ns": 0.5 * what.setting.drain_ns},
    "line-rate": lambda what, rng: {"speeds": (float(what.senders),)},  # each sender's link has the speed of the port
}
