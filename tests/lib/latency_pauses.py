"""Labelled cases with pause frames and congestion notifications: ports that were asked to stop, bursts with pauses that
do not matter, and pauses that are unrelated to the waits.

Built on latency_cases.py, as latency_counts.py is. `bursts` is a wrong verdict in each of the negative kinds.
"""

from __future__ import annotations

from dataclasses import replace

import latency_cases as cases
import latency_counts as counts
import numpy as np
from latency_attacks import Builder, case_of, generator, queue_stage
from latency_cases import FRAME, MS, Case, FluidPort, S, Setting, held, moments, scene_of, send

from mburst.analysis.cause.scene import Scene
from mburst.analysis.cause.signals import Signals

ALL, LONGEST = 0xFF, 65535
NOT_BURSTS = frozenset({"undetermined", "host"})
Spans = tuple[np.ndarray, np.ndarray]
Sent = list[tuple[float, float, int]]  # time, requested pause (0: resume), classes


def pause_frames(
    setting: Setting, spans: Spans, classes: int = ALL, quanta: int = LONGEST, resumes: bool = True
) -> Sent:
    """Returns the frames that ask a port to stop in these spans: they are repeated when half of their time is over, and
    one ends it; or, without resumes, a last one that requests only the rest."""
    time = quanta * 512e9 / setting.link_bps
    sent: Sent = []
    for begin, end in zip(*spans, strict=True):
        at = np.arange(begin, end, time / 2)
        asked = np.full(len(at), time) if resumes else np.minimum(time, end - at)
        sent += [(float(when), float(long), classes) for when, long in zip(at, asked, strict=True)]
        sent += [(float(end), 0.0, classes)] if resumes else []
    return sent


def signals_of(setting: Setting, sent: Sent, notified: np.ndarray | None = None) -> Signals:
    """Returns the same as a recording of the other direction counts it, bin by bin."""
    bins: dict[int, list[float]] = {}
    for when, asked, classes in sent:
        one = bins.setdefault(int(when // setting.bin_ns), [0.0, 0, 0, 0, 0])
        one[0] = min(one[0] + asked, LONGEST * 512e9 / setting.link_bps)
        one[1] = int(one[1]) | (classes if asked else 0)
        one[2 if asked else 3] += 1
    for when in notified if notified is not None else ():
        bins.setdefault(int(when // setting.bin_ns), [0.0, 0, 0, 0, 0])[4] += 1
    numbers = np.array(sorted(bins))
    columns = [np.array([bins[k][i] for k in numbers.tolist()]) for i in range(5)]
    counted = [of.astype(np.int64) for of in columns[1:]]
    return Signals(setting.bin_ns, numbers * float(setting.bin_ns), columns[0], *counted)


def asked(scene: Scene, signals: Signals) -> Scene:
    [crossing] = scene.crossings
    return replace(scene, crossings=[crossing._replace(port=replace(crossing.port, signals=signals))])


def silenced(
    rng: np.random.Generator, setting: Setting, spans: Spans, more: tuple[np.ndarray, np.ndarray] | None = None
) -> FluidPort:
    """Returns a port that sends nothing in these spans, with background traffic and MORE: bursts (begin, bytes) that
    arrive with the setting's overload."""
    step = min(setting.bin_ns / 5, 50_000.0)
    count, room = int(setting.seconds * S / step), setting.link_bps / 8e9 * step
    arrivals = rng.poisson(setting.load * room / FRAME, count) * float(FRAME)
    for begin, amount in zip(*(more or (np.zeros(0), np.zeros(0))), strict=True):
        low, length = int(begin / step), max(1, int(amount / (setting.overload * room)))
        arrivals[low : low + length] += amount / length
    silent = held((np.arange(count) + 0.5) * step, spans[0], spans[1] - spans[0]) > 0
    return cases.behind_pauses(arrivals, silent, room, step, setting)


def spans_of(rng: np.random.Generator, setting: Setting, long: float = 1.0) -> Spans:
    starts = moments(rng, setting, setting.period_ns)
    ends = starts + setting.drain_ns * long * rng.uniform(0.6, 1.4, len(starts))
    return starts, np.minimum(ends, np.append(starts[1:], np.inf) - MS)


def inbound(setting: Setting) -> Setting:
    """Returns a setting with probes that can show more than a round trip."""
    return replace(setting, stamps="full" if setting.stamps == "rtt" else setting.stamps)


def paused(kind: str, seed: int, setting: Setting) -> Case:
    """The recorded host asks the switch to stop, and probes wait. -host: the whole link, with frames that end by a
    resume; -timeout: the same, but the pauses expire; -class: PFC of the class of the probes; -drain: with so much
    traffic that most of the waiting is in the full stretches that follow; -switch: the switch asks the recorded host to
    stop."""
    rng, how = generator(kind, seed), kind.partition("-")[2]
    setting = inbound(replace(setting, load=max(setting.load, 0.1)))
    if how == "drain":
        setting = replace(setting, load=float(rng.uniform(0.6, 0.75)), period_ns=2 * setting.period_ns)
    spans = spans_of(rng, setting)
    model = silenced(rng, setting, spans)
    classes = 1 << 3 if how == "class" else ALL
    sent = pause_frames(setting, spans, classes, resumes=how != "timeout")
    if how == "switch":
        return by_switch(kind, seed, rng, setting, model, sent)
    scene = asked(scene_of(model, send(rng, setting, model, {}), setting), signals_of(setting, sent))
    return case_of(kind, seed, setting, scene, "host", NOT_BURSTS)


def by_switch(kind: str, seed: int, rng: np.random.Generator, setting: Setting, model: FluidPort, sent: Sent) -> Case:
    """Probes of the recorded host wait in it, or in its interface, while the switch asks it to stop."""
    setting = replace(setting, end="src", stamps="full")
    n = int(setting.seconds * setting.rate)
    begun = np.sort(rng.uniform(0, setting.seconds * S, n))
    queued = begun + cases.jitter(rng, n, 3e3)
    wait = model.delay(queued, setting.link_bps)
    tx = queued if rng.integers(2) else queued + wait
    remote_rx = queued + wait + cases.jitter(rng, n, 8e3)
    remote_tx = remote_rx + cases.jitter(rng, n, 6e3)
    rx = remote_tx + cases.jitter(rng, n, 8e3)
    times = (begun, tx, remote_rx, remote_tx, rx, rx + cases.jitter(rng, n, 5e3))
    probes = cases.stamp(setting, times, rng.random(n) < setting.loss)
    scene = asked(scene_of(model, probes, setting, "out"), signals_of(setting, sent))
    return case_of(kind, seed, setting, scene, "elsewhere", frozenset({"undetermined"}))


def paced_behind(kind: str, seed: int, setting: Setting) -> Case:
    """Transfers of one paced sender, which fill the port without a queue; at the onset of each, the recorded host asks
    the switch to stop for a moment, and the resulting queue stays for the duration of the transfer."""
    rng = generator(kind, seed)
    rate = float(rng.uniform(0.99, 0.998))
    setting = inbound(replace(setting, load=0.001, overload=rate, period_ns=2 * setting.period_ns, drain_ns=8 * MS))
    starts = moments(rng, setting, setting.period_ns)
    lengths = setting.period_ns * rng.uniform(0.1, 0.2, len(starts))
    spans = starts - 0.2 * MS, starts + rng.uniform(3, 6, len(starts)) * MS
    model = silenced(rng, setting, spans, (starts, lengths * rate * setting.link_bps / 8e9))
    scene = asked(
        scene_of(model, send(rng, setting, model, {}), setting), signals_of(setting, pause_frames(setting, spans))
    )
    return case_of(kind, seed, setting, scene, "host", NOT_BURSTS)


def slow_receiver(kind: str, seed: int, setting: Setting) -> Case:
    """An incast that the receiver accepts at a fraction of line rate: it stops the link every other moment."""
    rng = generator(kind, seed)
    setting = inbound(setting)
    starts = moments(rng, setting, 2 * setting.period_ns)
    amounts = setting.drain_ns * rng.uniform(0.3, 0.7, len(starts)) * setting.link_bps / 8e9
    part, turn = float(rng.uniform(0.55, 0.8)), 5 * setting.bin_ns
    begins = (starts[:, None] + np.arange(0, 2 * setting.drain_ns, turn)).ravel()
    spans = begins, begins + part * turn
    model = silenced(rng, setting, spans, (starts, amounts))
    sent = pause_frames(setting, spans)
    scene = asked(scene_of(model, send(rng, setting, model, {}), setting), signals_of(setting, sent))
    return case_of(kind, seed, setting, scene, "undetermined", NOT_BURSTS | {"elsewhere"})


def hop_beside(kind: str, seed: int, setting: Setting) -> Case:
    """A hop stalls at any time; the recorded host sends unrelated pause frames, often (-often) or occasionally."""
    rng = generator(kind, seed)
    setting = inbound(setting)
    spans = spans_of(rng, setting, 2.0 if kind.endswith("often") else 0.2)
    model = silenced(rng, replace(setting, load=0.01), spans)
    holds = moments(rng, setting, 0.8 * setting.period_ns)
    trouble = {queue_stage(setting): (holds, setting.drain_ns * rng.uniform(0.6, 1.4, len(holds)))}
    probes = send(rng, setting, None, trouble)
    scene = asked(scene_of(model, probes, setting), signals_of(setting, pause_frames(setting, spans)))
    return case_of(kind, seed, setting, scene, "elsewhere", frozenset({"undetermined"}))


def incast_beside(kind: str, seed: int, setting: Setting) -> Case:
    """An incast. -short: the host requests pauses for a few per mille of each wait at its onset; -between: it requests
    them in the middle between bursts; -class: PFC of a class that the probes do not have, for all of each burst;
    -notified: no pause frames, but notifications in bursts."""
    rng, how = generator(kind, seed), kind.partition("-")[2]
    _, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    begin, end = scene.bursts[0]
    long = end - begin > 0.2 * setting.drain_ns
    begin, end = begin[long], end[long]
    if how == "notified":
        times = np.concatenate([rng.uniform(a, b, 20) for a, b in zip(begin, end, strict=True)] or [np.zeros(0)])
        return case_of(kind, seed, setting, asked(scene, signals_of(setting, [], times)), "bursts")
    if how == "class":
        sent = pause_frames(setting, (begin, end), 1 << 3)
        scene = asked(scene, signals_of(setting, sent))
        return case_of(kind, seed, setting, scene, "bursts", frozenset({"undetermined"}))
    if how == "between":
        middle = (end[:-1] + begin[1:]) / 2
        sent = pause_frames(setting, (middle, middle + 2 * setting.bin_ns), quanta=100)
    else:
        few = max(1, round(0.005 * setting.drain_ns * setting.link_bps / 512e9))
        sent = pause_frames(setting, (begin, begin + 1.0), quanta=min(few, LONGEST), resumes=False)
        sent = [(when, min(few, LONGEST) * 512e9 / setting.link_bps, ALL) for when, _, _ in sent]
    return case_of(kind, seed, setting, asked(scene, signals_of(setting, sent)), "bursts")


NEGATIVE: dict[str, Builder] = {
    **dict.fromkeys(("paused-host", "paused-timeout", "paused-class", "paused-drain", "paused-switch"), paused),
    "paused-paced": paced_behind,
    "slow-receiver": slow_receiver,
    **dict.fromkeys(("hop-beside", "hop-beside-often"), hop_beside),
}
BURSTS: dict[str, Builder] = dict.fromkeys(
    ("incast-short", "incast-between", "incast-class", "incast-notified"), incast_beside
)
cases.OTHERWISE.update(NEGATIVE | BURSTS)
KINDS = {"bursts": [*counts.KINDS["bursts"], *BURSTS], "negative": [*counts.KINDS["negative"], *NEGATIVE]}
