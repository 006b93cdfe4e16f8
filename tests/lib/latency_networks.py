"""Labelled cases of whole networks: other parts that stall, drop or hold probes while a recorded port is full, and
bursts in surroundings that hide them. Built on latency_cases.py, as latency_attacks.py is.

`bursts` is a wrong verdict in each of the negative kinds: in most of them the port is filled by one paced sender
(`paced`), or the probes are in a higher class than the bursts (`classed`), so that no probe waits in front of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import latency_cases as cases
import latency_variants as variants
import numpy as np
from latency_attacks import Builder, case_of, generator, paced_port, queue_stage, windows_of, without
from latency_cases import MS, Case, FluidPort, S, Setting, fluid, held, jitter, moments, scene_of, send
from latency_variants import INNOCENT, burst_bytes

Trouble = tuple[np.ndarray, np.ndarray]


class Full(NamedTuple):
    """Times for which a port is full without harm to the probes: when, and for how long."""

    model: FluidPort
    setting: Setting
    starts: np.ndarray
    lengths: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        return self.starts + self.lengths


def paced(rng: np.random.Generator, setting: Setting, starts: np.ndarray | None = None, times: float = 1.0) -> Full:
    """One sender near line rate, for `times` as long as a mean burst."""
    starts = moments(rng, setting, setting.period_ns) if starts is None else starts
    lengths = times * setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    model, setting = paced_port(rng, setting, starts, lengths)
    return Full(model, setting, starts, lengths)


def classed(rng: np.random.Generator, setting: Setting, starts: np.ndarray | None = None) -> Full:
    """An incast in a lower class than that of the probes."""
    starts = moments(rng, setting, setting.period_ns) if starts is None else starts
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    return Full(model, setting, starts, drains / (1 - setting.load))


def either(rng: np.random.Generator, setting: Setting, times: float = 1.0) -> Full:
    return paced(rng, setting, times=times) if rng.random() < 0.6 else classed(rng, setting)


def stalled(kind: str, seed: int, full: Full, stage: str, trouble: Trouble, rng: np.random.Generator) -> Case:
    """Probes that are held in one stage while the port is full."""
    order = np.argsort(trouble[0])
    probes = send(rng, full.setting, None, {stage: (trouble[0][order], trouble[1][order])})
    return innocent(kind, seed, full, probes)


def innocent(kind: str, seed: int, full: Full, probes: cases.Probes, direction: str = "in") -> Case:
    scene = scene_of(full.model, probes, full.setting, direction)
    return case_of(kind, seed, full.setting, scene, "elsewhere", INNOCENT)


def any_stage(rng: np.random.Generator, setting: Setting) -> str:
    return "turn" if rng.random() < 0.4 else queue_stage(setting)


# Something else at the same trigger.


def same_trigger(kind: str, seed: int, setting: Setting) -> Case:
    """The trigger of a burst also triggers something else.

    request-pauses: the application pauses after sending its requests, 0.2 to 1 ms before the answers; gc-by-bytes: the
    target collects garbage after each amount of received bytes; interrupts: packets of a burst are stamped at the next
    interrupt, 2 to 6 ms apart; stolen-time: the hypervisor takes the processor periodically, always at the same phase
    of a burst; after-burst, before-burst: a stall some time after the end, or before the onset, of each burst;
    cut-short: a stall from each onset that ends 1.5 to 4 ms before its burst.
    """
    rng = generator(kind, seed)
    if kind == "stolen-time":
        starts = moments(rng, setting, setting.period_ns, float(rng.uniform(0, 0.5)) * setting.period_ns)
        full = paced(rng, setting, starts, float(rng.uniform(1, 2)))
        begin = starts + float(rng.uniform(0.0, 0.3)) * setting.drain_ns
        return stalled(
            kind, seed, full, any_stage(rng, setting), (begin, np.full(len(begin), 0.5 * setting.drain_ns)), rng
        )
    full = either(rng, setting, float(rng.uniform(1, 2.5)))
    starts, lengths, n = full.starts, full.lengths, len(full.starts)
    if kind == "request-pauses":
        begin, stalls = starts - rng.uniform(0.2, 1, n) * MS, lengths * rng.uniform(0.3, 1.3, n)
    elif kind == "gc-by-bytes":
        volume, limit = np.cumsum(lengths), setting.drain_ns * float(rng.uniform(0.8, 2))
        at = np.arange(limit, volume[-1], limit)
        burst = np.searchsorted(volume, at)
        begin, stalls = full.ends[burst] - (volume[burst] - at), setting.drain_ns * rng.uniform(0.2, 0.8, len(at))
    elif kind == "interrupts":
        step = float(rng.uniform(2, 6)) * MS
        begin = np.concatenate([np.arange(a, b, step) for a, b in zip(starts, full.ends, strict=True)])
        stalls = np.full(len(begin), 0.99 * step)
    elif kind == "after-burst":
        begin, stalls = full.ends + float(rng.uniform(0.3, 5)) * MS, setting.drain_ns * rng.uniform(0.4, 1.2, n)
    elif kind == "before-burst":
        stalls = setting.drain_ns * rng.uniform(0.4, 1.2, n)
        begin = starts - stalls - float(rng.uniform(0.3, 5)) * MS
    else:
        begin, stalls = starts, np.maximum(lengths - rng.uniform(1.5, 4, n) * MS, 0.3 * lengths)
    return stalled(kind, seed, full, any_stage(rng, setting), (begin, stalls), rng)


def other_queue(kind: str, seed: int, setting: Setting) -> Case:
    """A queue at another hop that fills with the bursts, drained at its own rate; the recorded port has none.

    two-hops-away: with its own sizes; balancer: of 40 to 90 % of the burst's length, from 0.5 to 2 ms before it;
    sibling: the other member of a bundle, with 60 to 140 % of the burst; reverse: the link of the other direction, with
    its own sizes and times; shaped-class: a shaper of the probes' class, for 0.3 to 3 times as long.
    """
    rng = generator(kind, seed)
    full = paced(rng, setting, times=float(rng.uniform(1, 2))) if kind == "balancer" else either(rng, setting)
    setting, n = full.setting, len(full.starts)
    times = {
        "two-hops-away": lambda: rng.lognormal(0, 0.7, n),
        "balancer": lambda: rng.uniform(0.4, 0.9, n),
        "sibling": lambda: rng.uniform(0.6, 1.4, n),
        "reverse": lambda: rng.lognormal(0, 0.5, n),
        "shaped-class": lambda: np.exp(rng.uniform(np.log(0.3), np.log(3), n)),
    }[kind]()
    apart = rng.uniform(-2, -0.5, n) if kind == "balancer" else rng.uniform(-1, 3, n) if kind == "reverse" else 0.0
    begin = np.maximum(full.starts + apart * MS, 0)
    there = fluid(rng, replace(setting, load=0.02), begin, burst_bytes(setting, full.lengths * times), setting.overload)
    crossed = replace(setting, end={"dst": "src", "src": "dst"}[setting.end]) if kind == "reverse" else setting
    if kind == "reverse" and setting.stamps == "one-way":
        crossed = setting
    probes = send(rng, crossed, there, {})
    if crossed.end != setting.end:  # the stamps are those of the recorded end
        probes = restamped(rng, setting, there)
    return innocent(kind, seed, full, probes)


def restamped(rng: np.random.Generator, setting: Setting, there: FluidPort) -> cases.Probes:
    """Returns probes that queue in the direction that was not recorded."""
    n = int(setting.seconds * setting.rate)
    asked = np.sort(rng.uniform(0, setting.seconds * S, n))

    def over(time: np.ndarray, queues: bool) -> np.ndarray:
        come = time + jitter(rng, n, 8e3)
        return come + there.delay(come, setting.link_bps) if queues else come

    tx = asked + jitter(rng, n, 3e3)
    remote_rx = over(tx, setting.end == "src")
    remote_tx = remote_rx + jitter(rng, n, 6e3)
    rx = over(remote_tx, setting.end == "dst")
    return cases.stamp(
        setting, (asked, tx, remote_rx, remote_tx, rx, rx + jitter(rng, n, 5e3)), rng.random(n) < setting.loss
    )


# Delays of single probes.


def scattered(kind: str, seed: int, setting: Setting) -> Case:
    """Probes that are late individually, more often in bursts than outside.

    wireless: 20 to 60 % of those in bursts, by a heavy-tailed time; delayed-acks: 10 to 50 % of them by 40 ms, in
    transfers of 60 to 150 ms; wake-ups: probes come in trains with each burst, and the first ones wake a processor.
    """
    rng = generator(kind, seed)
    if kind == "delayed-acks":
        setting = replace(setting, drain_ns=100 * MS, period_ns=max(setting.period_ns, 400 * MS), seconds=40.0)
    full = paced(rng, setting, times=float(rng.uniform(1, 1.5))) if kind != "wake-ups" else classed(rng, setting)
    setting = full.setting
    probes = send(rng, replace(setting, skew_ns=0.0, drift=0.0), None, {})
    inside = held(probes.tx, full.starts, full.lengths) > 0
    hit = inside & (rng.random(len(probes)) < rng.uniform(0.2, 0.6))
    late = rng.lognormal(np.log(4 * MS), 0.8, len(probes))
    if kind == "delayed-acks":
        late = np.full(len(probes), 40 * MS) + rng.uniform(0, 1, len(probes)) * MS
    if kind == "wake-ups":
        first = held(probes.tx, full.starts, np.full(len(full.starts), 1.5 * MS)) > 0
        hit, late = first, rng.uniform(2, 5, len(probes)) * MS
    hit |= ~inside & (rng.random(len(probes)) < 0.002)
    return innocent(kind, seed, full, delayed(probes, np.where(hit, late, 0.0), setting))


def delayed(probes: cases.Probes, extra: np.ndarray, setting: Setting) -> cases.Probes:
    """Returns the same probes, delayed from the stage on in which the recorded port's queue would lie."""
    names = ("remote_rx", "remote_tx", "rx", "app_recv") if setting.end == "dst" else ("rx", "app_recv")
    later = {name: getattr(probes, name) + extra for name in names}
    return replace(probes, **later, rtt=probes.rtt + extra)


def dropped(kind: str, seed: int, setting: Setting) -> Case:
    """Probes that something else drops while the port is full without a queue.

    policer: all, from when a burst has used up its tokens until it ends; flaky: a third of those in bursts; both leave
    a few late ones.
    """
    rng = generator(kind, seed)
    full = paced(rng, setting, times=float(rng.uniform(1, 2)))
    setting = full.setting
    late = (full.starts + 0.1 * full.lengths, 0.3 * full.lengths * (rng.random(len(full.starts)) < 0.5))
    probes = send(rng, replace(setting, skew_ns=0.0, drift=0.0), None, {queue_stage(setting): late})
    left = held(probes.tx, full.starts, full.lengths)
    part = float(rng.uniform(0.2, 0.7))
    lost = (left > 0) & (left < part * np.median(full.lengths))
    if kind == "flaky":
        lost = (left > 0) & (rng.random(len(probes)) < 1 / 3)
    return innocent(kind, seed, full, without(probes, lost))


# Clocks.


def off_clocks(kind: str, seed: int, setting: Setting) -> Case:
    """Stalls of a hop within paced transfers, or at any time; the capture's clock is wrong.

    unsynchronised: by up to 50 ms; drifting: by up to 200 ppm; stepping: it jumps by 1 to 50 ms half way.
    """
    rng = generator(kind, seed)
    full = paced(rng, setting, times=float(rng.uniform(1, 3)))
    n = len(full.starts)
    stalls = np.minimum(setting.drain_ns * rng.uniform(0.4, 1.2, n), 0.9 * full.lengths)
    begin = full.starts + rng.uniform(0, 1, n) * (full.lengths - stalls)
    if rng.random() < 0.5:
        begin = moments(rng, setting, setting.period_ns)[:n]
        stalls = stalls[: len(begin)]
    case = stalled(kind, seed, full, queue_stage(setting), (begin, stalls), rng)
    probes, size = case.scene.probes, float(rng.uniform(-1, 1))
    names = ("app_send", "tx", "remote_rx", "remote_tx", "rx", "app_recv")
    off = {
        "unsynchronised": size * 50 * MS,
        "drifting": size * 2e-4 * probes.tx,
        "stepping": size * 50 * MS * (probes.tx > np.median(probes.tx)),
    }[kind]
    moved = {name: getattr(probes, name) + off for name in names}
    order = np.argsort(moved["tx"], kind="stable")
    arrays = {
        name: value[order] for name, value in vars(replace(probes, **moved)).items() if isinstance(value, np.ndarray)
    }
    return case_of(
        kind, seed, case.setting, replace(case.scene, probes=replace(probes, **arrays)), "elsewhere", INNOCENT
    )


# Recordings that see something else.


def own_answers(kind: str, seed: int, setting: Setting) -> Case:
    """The target's own answers fill its outgoing link, paced; its threads are busy making them, so that probes wait
    inside it for a part of that time."""
    rng = generator(kind, seed)
    setting = replace(setting, end="dst", stamps="full" if setting.stamps == "one-way" else setting.stamps)
    full = paced(rng, setting, times=float(rng.uniform(1, 2)))
    n = len(full.starts)
    begin = full.starts + rng.uniform(-1, 1, n) * MS
    stalls = full.lengths * rng.uniform(0.3, 1.2, n)
    probes = send(rng, full.setting, None, {"turn": (np.maximum(begin, 0), stalls)})
    return innocent(kind, seed, full, probes, "out")


def mirrored(kind: str, seed: int, setting: Setting) -> Case:
    """A mirror has both directions, which together fill its line; a hop stalls within that time."""
    rng = generator(kind, seed)
    full = paced(rng, setting, times=float(rng.uniform(1, 3)))
    n = len(full.starts)
    stalls = full.lengths * rng.uniform(0.2, 0.8, n)
    begin = full.starts + rng.uniform(0, 1, n) * (full.lengths - stalls)
    probes = send(rng, full.setting, None, {str(rng.choice(["forward", "back"])): (begin, stalls)})
    return innocent(kind, seed, full, probes, "mirror")


def always_busy(kind: str, seed: int, setting: Setting) -> Case:
    """mostly-full: one paced sender fills the port for 80 to 95 % of the time, and a hop stalls at any time; backups:
    three windows of seconds with paced transfers and stalls, and quiet in between."""
    rng = generator(kind, seed)
    if kind == "mostly-full":
        starts = moments(rng, setting, setting.period_ns, 0.0)
        lengths = np.full(len(starts), setting.period_ns) * rng.uniform(0.8, 0.95, len(starts))
        begin = moments(rng, setting, setting.period_ns)
    else:
        setting = replace(setting, seconds=30.0)
        starts, begin = moments(rng, setting, setting.period_ns), moments(rng, setting, setting.period_ns)
        starts, begin = (time[time % (10 * S) < 3 * S] for time in (starts, begin))
        lengths = setting.period_ns * rng.uniform(0.4, 0.6, len(starts))
    model, setting = paced_port(rng, setting, starts, lengths)
    stalls = setting.drain_ns * rng.uniform(0.4, 1.2, len(begin))
    return stalled(kind, seed, Full(model, setting, starts, lengths), any_stage(rng, setting), (begin, stalls), rng)


def small_stalls(kind: str, seed: int, setting: Setting) -> Case:
    """At 25 or 100 Gb/s: the host handles each burst of 0.5 to 2 ms with a delay of 0.2 to 0.6 ms."""
    rng = generator(kind, seed)
    drain = float(rng.uniform(0.5, 2)) * MS
    setting = replace(
        setting,
        link_bps=float(rng.choice([25e9, 100e9])),
        bin_ns=20_000,
        drain_ns=drain,
        rate=2000.0,
        period_ns=drain * float(rng.uniform(10, 25)),
        seconds=8.0,
    )
    full = either(rng, setting)
    n = len(full.starts)
    return stalled(kind, seed, full, any_stage(rng, setting), (full.starts, rng.uniform(0.2, 0.6, n) * MS), rng)


def little_queue(kind: str, seed: int, setting: Setting) -> Case:
    """A real queue that causes the smaller part of the lateness, and stalls of a hop within the same full stretches.

    sawtooth: one sender keeps a buffer full that is smaller than the tail's excess; part-queue: an incast for a quarter
    of the stretch, then a paced sender, and a stall in that part.
    """
    rng = generator(kind, seed)
    starts = moments(rng, setting, setting.period_ns)
    n = len(starts)
    length = np.minimum(setting.drain_ns * 3, 0.5 * setting.period_ns) * rng.uniform(0.7, 1.3, n)
    if kind == "sawtooth":
        excess = cases.DEFAULT.on([setting.link_bps]).excess
        setting = replace(setting, buffer_ns=excess * float(rng.uniform(0.2, 0.7)), load=min(setting.load, 0.05))
        model = fluid(rng, setting, starts, burst_bytes(setting, length * 1.05), 1.05)
        stalls = length * rng.uniform(0.3, 0.6, n)
        begin = starts + rng.uniform(0.1, 0.4, n) * length
    else:
        setting = replace(setting, load=0.005)
        both = np.concatenate((starts, starts + 0.2 * length))
        order = np.argsort(both)
        amounts = burst_bytes(setting, np.concatenate((0.2 * length, 0.8 * length * 0.97)))[order]
        rates = np.concatenate((np.full(n, setting.overload), np.full(n, 0.97)))[order]
        model = fluid(rng, setting, both[order], amounts, rates)
        begin, stalls = starts + rng.uniform(0.3, 0.4, n) * length, length * rng.uniform(0.45, 0.55, n)
    trouble = {queue_stage(setting): (begin, stalls)}
    probes = send(rng, setting, model, trouble)
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "elsewhere", INNOCENT)


def outage_and_repeats(kind: str, seed: int, setting: Setting) -> Case:
    """Another hop drops everything for a while; a timeout later all flows retransmit at once, which fills the recorded
    port when the retransmitted TCP probes are answered, too."""
    rng = generator(kind, seed)
    setting = variants.slow_tcp(setting)
    outages = moments(rng, setting, setting.period_ns)
    full = classed(rng, setting, outages + 200 * MS)
    probes = send(rng, setting, None, {})
    lost = held(probes.tx, outages, np.full(len(outages), 6 * MS)) > 0
    probes = variants.answered_late(rng, probes, lost, one=bool(rng.integers(2)))
    return innocent(kind, seed, full, probes)


def shallow_windows(kind: str, seed: int, setting: Setting) -> Case:
    """An incast at another port of the same speed before the recorded one; the switch's coarse windows of the recorded
    port show a queue of 10 to 30 % of the depth that the waits need."""
    rng, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    width, scale = float(rng.choice([10, 100, 1000])) * MS, float(rng.uniform(0.1, 0.3))
    scene = replace(scene, queues=[windows_of(model, setting, width, scale=scale)])
    return case_of(kind, seed, setting, scene, "elsewhere", INNOCENT)


# Bursts in surroundings that hide them.


def surrounded(kind: str, seed: int, setting: Setting) -> Case:
    """Incasts that delay the probes.

    pareto: sizes and gaps with a heavy tail; rounds: each in three parts, the later ones smaller; ramps: each begins
    slowly; noisy-host: one probe in ten is also delayed in a host by up to the tail's excess; lossy-path: 3 % are lost
    anywhere; far-drift: clocks that drift apart by 80 ppm; seldom: few and long; trickle: slightly above line rate,
    with much other traffic; some-stalls: a host stalls, too, for a fifth of the lateness.
    """
    rng = generator(kind, seed)
    setting, sizes, rates = shaped(kind, rng, setting)
    starts = moments(rng, setting, setting.period_ns)
    if kind == "pareto":
        gaps = setting.period_ns * (0.3 + 0.35 * rng.pareto(2.0, len(starts)))
        starts = np.cumsum(gaps)
        starts = starts[starts < setting.seconds * S - 0.2 * setting.period_ns]
    drains = sizes(len(starts))
    speed = rates(len(starts))
    if kind in ("rounds", "ramps"):
        parts = (0.55, 0.3, 0.15) if kind == "rounds" else (0.2, 0.3, 0.5)
        faster = (1.0, 1.0, 1.0) if kind == "rounds" else (0.3, 0.6, 1.0)
        later = np.cumsum((0.0, *parts))[:-1]
        times = [starts + at * drains * (1.02 if kind == "rounds" else 1 / setting.overload) for at in later]
        starts, amounts = np.concatenate(times), np.concatenate([part * drains for part in parts])
        speed = np.concatenate([np.maximum(factor * speed, 1.2) for factor in faster])
        order = np.argsort(starts, kind="stable")
        starts, drains, speed = starts[order], amounts[order], speed[order]
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), speed)
    trouble: dict[str, Trouble] = {}
    if kind == "some-stalls":
        begin = moments(rng, setting, 4 * setting.period_ns)
        trouble = {"turn": (begin, 0.9 * setting.drain_ns * rng.uniform(0.6, 1.2, len(begin)))}
    if kind == "noisy-host":
        begin = moments(rng, setting, 20 * MS)
        trouble = {"turn": (begin, np.full(len(begin), 0.8 * cases.DEFAULT.on([setting.link_bps]).excess))}
    probes = send(rng, setting, model, trouble)
    open_ = ("some-stalls", "seldom", "rounds")  # rounds look like delayed interrupts
    accepted = frozenset({"undetermined"}) if kind in open_ else frozenset()
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "bursts", accepted)


Draw = Callable[[int], np.ndarray]


def shaped(kind: str, rng: np.random.Generator, setting: Setting) -> tuple[Setting, Draw, Draw]:
    """Returns the setting of a kind, how long its bursts take to drain, and how fast they come."""
    changed = {
        "lossy-path": {"loss": 0.03},
        "far-drift": {"drift": float(rng.choice([-8e-5, 8e-5])), "seconds": 40.0},
        "seldom": {"drain_ns": 40 * MS, "period_ns": 2 * S, "seconds": 60.0, "load": min(setting.load, 0.2)},
        "trickle": {
            "overload": float(rng.uniform(1.3, 2.5)),
            "load": float(rng.uniform(0.2, 0.4)),
            "period_ns": 2 * setting.period_ns,
            "seconds": 30.0,
        },
        "some-stalls": {"stamps": "full"},
        "noisy-host": {"stamps": "full", "load": min(setting.load, 0.2)},
    }.get(kind, {})
    setting = replace(setting, **changed)

    def sizes(n: int) -> np.ndarray:
        if kind == "pareto":
            return np.minimum(0.4 * (1 + rng.pareto(1.8, n)), 4) * setting.drain_ns
        return setting.drain_ns * rng.uniform(0.6, 1.4, n)

    def rates(n: int) -> np.ndarray:
        return np.full(n, setting.overload)

    return setting, sizes, rates


def fast_repeated(kind: str, seed: int, setting: Setting) -> Case:
    """TCP probes on one connection through an incast that drops: a lost one is answered when three later ones have
    arrived, and these are answered with it (fast retransmission). Stamps alone do not show that no hop held them."""
    rng = generator(kind, seed)
    setting = replace(variants.slow_tcp(setting), buffer_ns=0.4 * setting.drain_ns, overload=max(setting.overload, 4.0))
    _, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, setting, model, {})
    none, n = np.full(len(probes), np.nan), len(probes)
    answered = np.where(probes.lost, np.inf, probes.tx + np.nan_to_num(probes.rtt))
    for at in np.flatnonzero(probes.lost)[::-1]:  # the last first: it may be among the later ones of another
        came = np.sort(answered[at + 1 : at + 40])
        answered[at] = came[min(2, len(came) - 1)] + 60e3 if len(came) else probes.tx[at] + 200 * MS
    rx = np.maximum.accumulate(answered)
    probes = cases.measured(replace(
        probes, protocol="tcp", app_send=none, remote_rx=none, remote_tx=none, app_recv=none, rtt=none,
        rx=rx, lost=np.zeros(n, dtype=bool),
    ))  # fmt: skip
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "bursts", frozenset({"undetermined", "none"}))


def in_trains(kind: str, seed: int, setting: Setting) -> Case:
    """An incast; half of the probes come in trains within its bursts, the others at random."""
    rng, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, setting, model, {})
    inside = cases.recorded_port(model, setting)[1]
    exposed = held(probes.tx - setting.skew_ns, inside[0], inside[1] - inside[0]) > 0
    kept = exposed | (rng.random(len(probes)) < 0.3)
    return case_of(kind, seed, setting, scene_of(model, probes.select(kept), setting), "bursts")


NEGATIVE: dict[str, Builder] = {
    **dict.fromkeys(
        ("request-pauses", "gc-by-bytes", "interrupts", "stolen-time", "after-burst", "before-burst", "cut-short"),
        same_trigger,
    ),
    **dict.fromkeys(("two-hops-away", "balancer", "sibling", "reverse", "shaped-class"), other_queue),
    **dict.fromkeys(("wireless", "delayed-acks", "wake-ups"), scattered),
    **dict.fromkeys(("policer", "flaky"), dropped),
    **dict.fromkeys(("unsynchronised", "drifting", "stepping"), off_clocks),
    "own-answers": own_answers,
    "mirrored": mirrored,
    **dict.fromkeys(("mostly-full", "backups"), always_busy),
    "small-stalls": small_stalls,
    **dict.fromkeys(("sawtooth", "part-queue"), little_queue),
    "outage-and-repeats": outage_and_repeats,
    "shallow-windows": shallow_windows,
}
BURSTS: dict[str, Builder] = {
    **dict.fromkeys(
        ("pareto", "rounds", "ramps", "noisy-host", "lossy-path", "far-drift", "seldom", "trickle", "some-stalls"),
        surrounded,
    ),
    "in-trains": in_trains,
    "fast-repeated": fast_repeated,
}
cases.OTHERWISE.update(NEGATIVE | BURSTS)
KINDS = {"bursts": [*variants.KINDS["bursts"], *BURSTS], "negative": [*variants.KINDS["negative"], *NEGATIVE]}
