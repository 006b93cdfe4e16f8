"""More labelled cases: TCP retransmissions, links and captures that differ from their description, trains, and shared
rhythms.

Built on latency_cases.py, as latency_attacks.py is. `bursts` is a wrong verdict in each of the negative kinds.
"""

from __future__ import annotations

from dataclasses import replace

import latency_attacks as attacks
import latency_cases as cases
import numpy as np
from latency_attacks import EITHER, Builder, case_of, generator, paced_port, queue_stage
from latency_cases import MS, Case, S, Setting, fluid, held, moments, scene_of, send

from mburst.analysis.cause.port import Port, port_from_bins

INNOCENT = frozenset({"undetermined", "elsewhere", "host", "none"})


def burst_bytes(setting: Setting, drains: np.ndarray) -> np.ndarray:
    return drains * setting.link_bps / 8e9


# TCP retransmissions.


def slow_tcp(setting: Setting) -> Setting:
    """Returns a setting with probes on few connections, whose timeouts are over before the next burst."""
    period = max(setting.period_ns, 900 * MS)
    return replace(setting, loss=0.0, stamps="rtt", rate=min(setting.rate, 300.0), period_ns=period, seconds=40.0)


def answered_late(rng: np.random.Generator, probes: cases.Probes, lost: np.ndarray, one: bool) -> cases.Probes:
    """TCP: a lost probe is answered after a timeout of 201 to 215 ms, and later ones on the same of two connections (or
    on the only one) wait for it."""
    until = probes.tx[lost] + rng.uniform(201, 215, int(lost.sum())) * MS
    before = np.searchsorted(probes.tx[lost], probes.tx, side="right")
    waited = np.maximum(np.append(0.0, np.maximum.accumulate(until))[before] - probes.tx, 0)
    late = waited * (lost | one | (rng.random(len(probes)) < 0.5))
    rx = np.maximum(np.where(np.isnan(probes.rtt), 0.0, probes.rtt), late + 30e3) + probes.tx
    none = np.full(len(probes), np.nan)
    stamps = {"app_send": none, "remote_rx": none, "remote_tx": none, "app_recv": none, "rtt": none, "rx": rx}
    return cases.measured(replace(probes, protocol="tcp", lost=np.zeros(len(probes), dtype=bool), **stamps))


def repeated_alone(kind: str, seed: int, setting: Setting) -> Case:
    """TCP probes on one connection through an incast that drops."""
    rng = generator(kind, seed)
    setting = replace(slow_tcp(setting), buffer_ns=0.4 * setting.drain_ns, overload=max(setting.overload, 4.0))
    _, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, setting, model, {})
    scene = scene_of(model, answered_late(rng, probes, probes.lost, one=True), setting)
    return case_of(kind, seed, setting, scene, "bursts", frozenset({"undetermined"}))  # few probes wait in a queue


def timeouts(kind: str, seed: int, setting: Setting) -> Case:
    """Harmless bursts and TCP probes that are late by about a timeout, for another reason. -stall: the far host stalls
    for that long from the onset of each burst; -elsewhere: another hop drops them at any time; -inside: it does so
    while one paced sender fills the port."""
    rng, how = generator(kind, seed), kind.partition("-")[2]
    setting = slow_tcp(setting)
    starts = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    if how == "inside":
        model, setting = paced_port(rng, setting, starts, 0.4 * setting.period_ns * rng.uniform(0.5, 1, len(starts)))
    else:
        model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    if how == "stall":
        stalls = rng.uniform(201, 215, len(starts)) * MS
        probes = replace(send(rng, setting, None, {"turn": (starts + 0.2 * MS, stalls)}), protocol="tcp")
    else:
        probes = send(rng, setting, None, {})
        outages = moments(rng, setting, 1.3 * setting.period_ns) if how == "elsewhere" else starts + 20 * MS
        lost = held(probes.tx, outages, np.full(len(outages), 4 * MS)) > 0
        probes = answered_late(rng, probes, lost, one=bool(rng.integers(2)))
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "undetermined", INNOCENT)


# Ports, links and captures that differ from their description.


def neighbour(kind: str, seed: int, setting: Setting) -> Case:
    """An incast at a port that was not recorded; the recorded port of a neighbour is full at the same times, and
    nothing shows which port the probes cross."""
    rng = generator(kind, seed)
    starts = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    beside = fluid(rng, setting, starts, burst_bytes(setting, drains * rng.uniform(0.8, 1.2)), setting.overload)
    scene = scene_of(beside, send(rng, setting, model, {}), setting)
    scene = replace(scene, crossings=[crossing._replace(assumed=True) for crossing in scene.crossings])
    return case_of(kind, seed, setting, scene, "undetermined", EITHER)


def misread(kind: str, seed: int, setting: Setting) -> Case:
    """A stall within each transfer of one paced sender, at a port that has room: -faster: the link is 1.3 to 2.5 times
    as fast as described; -twice: each frame was captured twice."""
    rng = generator(kind, seed)
    times = 2.0 if kind.endswith("twice") else float(rng.uniform(1.3, 2.5))
    starts = moments(rng, setting, setting.period_ns)
    lengths = setting.period_ns * rng.uniform(0.2, 0.5, len(starts))
    setting = replace(setting, load=min(setting.load, 0.1))
    rate = float(rng.uniform(1.2 / times, 0.95))
    model = fluid(rng, setting, starts, burst_bytes(setting, lengths * rate), rate)
    stalls = np.minimum(setting.drain_ns * rng.uniform(0.6, 1.4, len(starts)), 0.8 * lengths)
    begin = starts + rng.uniform(0.05, 0.95, len(starts)) * (lengths - stalls)
    probes = send(rng, setting, None, {queue_stage(setting): (begin, stalls)})
    stated = replace(setting, link_bps=setting.link_bps / times)
    return case_of(kind, seed, stated, scene_of(model, probes, stated), "elsewhere", EITHER)


def losing(case: Case, kind: str, rng: np.random.Generator, accepted: frozenset[str]) -> Case:
    """Returns the same, captured with losses in a third of the busier bins."""
    crossing = case.scene.crossings[0]
    bytes_ = np.diff(crossing.port.carried)
    bad = (bytes_ > 0.3 * crossing.port.bin_bytes) & (rng.random(len(bytes_)) < 0.33)
    bytes_[bad] = (bytes_[bad] * rng.uniform(0.3, 0.95, int(bad.sum()))).astype(np.int64)
    carried, lossy = (np.concatenate(([0], np.cumsum(of))) for of in (bytes_, bad))
    port = replace(crossing.port, carried=carried, lossy=lossy.astype(np.int32), dropped=int(bad.sum()) * 20, _busy=[])
    scene = replace(case.scene, crossings=[crossing._replace(port=port)])
    return case_of(kind, case.seed, case.setting, scene, case.truth, accepted)


def lossy(kind: str, seed: int, setting: Setting) -> Case:
    """-incast, -hop: as these kinds, captured with losses."""
    rng, plain = generator(kind, seed), kind.partition("-")[2]
    case = cases.build(plain, seed, setting)
    return losing(case, kind, rng, frozenset({"undetermined"}) | (EITHER if plain == "hop" else frozenset()))


# Events in trains, and events that follow each other.


def regimes(rng: np.random.Generator, setting: Setting, times: np.ndarray, length: float) -> np.ndarray:
    """Returns which of the times lie in every other stretch of random length (mean: `length`)."""
    edges = np.cumsum(rng.exponential(length, int(6 * setting.seconds * S / length) + 20))
    return np.searchsorted(edges, times) % 2 == 0


def trains(kind: str, seed: int, setting: Setting) -> Case:
    """Events in trains of seconds. -incast: bursts; -mixed: a host stalls in most trains, bursts queue in the others;
    -shared: harmless bursts and stalls of a hop come in the same trains, independently."""
    rng, how = generator(kind, seed), kind.partition("-")[2]
    setting = replace(setting, seconds=40.0, stamps="full" if how == "mixed" else setting.stamps)
    starts = moments(rng, setting, setting.period_ns)
    busy = regimes(np.random.default_rng(seed), setting, starts, 2 * S)
    holds = moments(rng, setting, setting.period_ns)
    other = regimes(np.random.default_rng(seed), setting, holds, 2 * S)
    if how == "mixed":
        starts, holds = starts[busy & (rng.random(len(starts)) < 0.35)], holds[~other]
    elif how == "shared":
        starts, holds = starts[busy], holds[other]
    else:
        starts, holds = starts[busy], holds[:0]
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    stalls = setting.drain_ns * rng.uniform(0.8, 1.4, len(holds))
    stage = "turn" if how == "mixed" else queue_stage(setting)
    probes = send(rng, setting, None if how == "shared" else model, {stage: (holds, stalls)})
    truth = "bursts" if how == "incast" else "undetermined"
    return case_of(
        kind, seed, setting, scene_of(model, probes, setting), truth, frozenset() if how == "incast" else INNOCENT
    )


def following(kind: str, seed: int, setting: Setting) -> Case:
    """Stalls of a hop and harmless bursts, one after the other. proportional: a stall from each onset, for 30 to 80 %
    of its burst; outlasting: one that begins in the burst and ends well after it; fast-retries: bursts that begin 1 to
    10 ms after each stall."""
    rng = generator(kind, seed)
    starts = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    begin, stalls = starts + 0.1 * MS, drains * float(rng.uniform(0.3, 0.8))
    if kind == "outlasting":
        begin = starts + rng.uniform(0, 0.5, len(starts)) * drains
        stalls = starts + drains + setting.drain_ns * rng.uniform(0.5, 1.5, len(starts)) - begin
    if kind == "fast-retries":
        stalls = setting.drain_ns * rng.uniform(0.4, 1.2, len(starts))
        begin = starts - stalls - rng.uniform(1, 10, len(starts)) * MS
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    probes = send(rng, setting, None, {queue_stage(setting): (begin, stalls)})
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "elsewhere", EITHER)


def released(kind: str, seed: int, setting: Setting) -> Case:
    """A hop stops everything for a while and then releases it at once, so that the port is full just after the
    stall."""
    rng = generator(kind, seed)
    begin = moments(rng, setting, setting.period_ns)
    stalls = setting.drain_ns * rng.uniform(0.6, 1.4, len(begin))
    amounts = burst_bytes(setting, stalls * rng.uniform(0.1, 0.4, len(begin)))
    model = fluid(rng, setting, begin + stalls, amounts, setting.overload)
    probes = send(rng, setting, model, {queue_stage(setting): (begin, stalls)})
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "elsewhere", EITHER)


# Bursts in other settings.


def in_setting(kind: str, seed: int, setting: Setting) -> Case:
    """An incast. microbursts: of 0.3 to 0.8 ms at 25 or 100 Gb/s; loaded: with 50 to 75 % of other traffic; slow: at
    100 Mb/s."""
    rng = generator(kind, seed)
    if kind == "microbursts":
        drain = float(rng.uniform(0.3, 0.8)) * MS
        setting = replace(
            setting, link_bps=float(rng.choice([25e9, 100e9])), bin_ns=20_000, drain_ns=drain, rate=2000.0,
            period_ns=drain * float(rng.uniform(10, 25)), seconds=8.0, load=min(setting.load, 0.2), overload=8.0,
        )  # fmt: skip
    if kind == "loaded":
        setting = replace(setting, load=float(rng.uniform(0.5, 0.75)), period_ns=2 * setting.period_ns)
    if kind == "slow":
        setting = replace(setting, link_bps=1e8, bin_ns=1_000_000, load=min(setting.load, 0.2))
    _, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    return case_of(kind, seed, setting, scene, "bursts")


def two_sizes(kind: str, seed: int, setting: Setting) -> Case:
    """Bursts of two sizes, one a fifth of the other."""
    rng = generator(kind, seed)
    starts = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * np.where(rng.random(len(starts)) < 0.6, 0.25, 1.25)
    model = fluid(rng, setting, starts, burst_bytes(setting, drains), setting.overload)
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


# Recorders that are restarted again and again.


def recorded_spans(rng: np.random.Generator, port: Port, bursts: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Returns begin and end of stretches of 2 s on average, 0.05 to 0.5 s apart: half of their edges are within a
    burst."""
    end = float(port.end_time(np.array([float(port.bins)]))[0])
    middles, spans, begin = bursts[0] + (bursts[1] - bursts[0]) / 2, [], float(port.starts[0])

    def edge(time: float) -> float:
        near = middles[(middles > time) & (middles < time + S)]
        return float(near[0]) if len(near) and rng.random() < 0.5 else time

    while begin < end:
        last = min(edge(begin + 0.3 * S + rng.exponential(2 * S)), end)
        spans.append((begin, last))
        begin = edge(last + rng.uniform(0.05, 0.5) * S)
    return np.round(np.array(spans) / port.bin_ns) * port.bin_ns


def interrupted(kind: str, seed: int, setting: Setting) -> Case:
    """The case that its name refers to, with only the parts of its port and probes recorded that are within those
    stretches."""
    case = cases.build(kind.removeprefix("interrupted-"), seed, setting)
    [crossing], [(begin, end)] = case.scene.crossings, case.scene.bursts
    whole = crossing.port
    spans = recorded_spans(generator(kind, seed), whole, (begin, end))
    starts, amounts = whole.time(np.arange(float(whole.bins))), np.diff(whole.carried)
    port = port_from_bins(whole.lane, whole.link_bps, whole.bin_ns, [(starts, amounts)], [*map(tuple, spans)])
    first, last = np.maximum(begin[:, None], spans[:, 0]), np.minimum(end[:, None], spans[:, 1])
    probes = case.scene.probes
    scene = replace(
        case.scene,
        probes=probes.select(np.isfinite(port.position(probes.tx))),
        crossings=[crossing._replace(port=port)],
        bursts=[(first[first < last], last[first < last])],
    )
    return replace(case, scene=scene)


NEGATIVE: dict[str, Builder] = {
    **dict.fromkeys(("timeout-stall", "timeout-elsewhere", "timeout-inside"), timeouts),
    "neighbour": neighbour,
    **dict.fromkeys(("misread-faster", "misread-twice"), misread),
    "lossy-hop": lossy,
    **dict.fromkeys(("trains-mixed", "trains-shared"), trains),
    **dict.fromkeys(("proportional", "outlasting", "fast-retries"), following),
    "released": released,
    **dict.fromkeys(("interrupted-neighbour", "interrupted-outlasting"), interrupted),
}
BURSTS: dict[str, Builder] = {
    "repeated-alone": repeated_alone,
    "lossy-incast": lossy,
    "trains-incast": trains,
    **dict.fromkeys(("microbursts", "loaded", "slow"), in_setting),
    "two-sizes": two_sizes,
    "interrupted-incast": interrupted,
}
cases.OTHERWISE.update(NEGATIVE | BURSTS)
KINDS = {"bursts": [*attacks.KINDS["bursts"], *BURSTS], "negative": [*attacks.KINDS["negative"], *NEGATIVE]}
