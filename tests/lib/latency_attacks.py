"""Labelled cases that look like bursts and are not, and bursts that do not look like the usual ones.

Built on latency_cases.py. In the negative kinds, the recorded port is full while probes wait elsewhere, the port's
switch or the losses contradict, or the recording is too short; `bursts` is a wrong verdict in each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import latency_cases as cases
import numpy as np
from latency_cases import MS, Case, FluidPort, S, Setting, fluid, held, moments, scene_of, send

from mburst.analysis.cause.evidence.switch import CountedWindows, PortQueue, SwitchCounts

EITHER = frozenset({"undetermined", "elsewhere"})


def generator(kind: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, sum(map(ord, kind)), 21])


def case_of(
    kind: str, seed: int, setting: Setting, scene: cases.Scene, truth: str, accepted: frozenset[str] = frozenset()
) -> Case:
    cases.MAY_SAY.setdefault(kind, set(accepted))
    return Case(kind, scene, truth, seed, setting)


def queue_stage(setting: Setting) -> str:
    """Returns the stage of a probe in which the queue of the recorded port lies."""
    return "forward" if setting.end == "dst" else "back"


# Ports that are full without a queue, and something else that stalls.


def paced_port(
    rng: np.random.Generator, setting: Setting, starts: np.ndarray, lengths: np.ndarray
) -> tuple[FluidPort, Setting]:
    """Returns a port with one sender that is paced to 92 to 99.9 % of line rate, with little other traffic: practically
    no queue."""
    rate = float(rng.uniform(0.92, 0.999))
    setting = replace(setting, load=min(setting.load, 0.5 * (1 - rate)))
    amounts = lengths * rate * setting.link_bps / 8e9
    return fluid(rng, setting, starts, amounts, rate), setting


def paced(kind: str, seed: int, setting: Setting) -> Case:
    """Long transfers of one paced sender fill the port; a hop or a host stalls within them, or at any time.

    -random: stalls with their own rhythm; -inside: one in each transfer; -onset: it begins with the transfer; -alike:
    as -onset, all of one length and periodic; -few: as -alike, five to nine of them; -always: one transfer all the
    time; -sparse: as -inside, with 20 probes a second.
    """
    rng, how = generator(kind, seed), kind.partition("-")[2]
    if how == "sparse":
        setting = sparse(setting)
    if how == "few":
        setting = replace(setting, seconds=float(rng.uniform(5, 9.9)) * setting.period_ns / S)
    regular = how in ("alike", "few") or setting.periodic
    starts = moments(
        rng, setting, setting.period_ns, float(rng.uniform(0, 0.2)) * setting.period_ns if regular else None
    )
    length = setting.period_ns * float(rng.uniform(0.3, 0.6))
    lengths = np.full(len(starts), length) if how in ("alike", "few") else length * rng.uniform(0.4, 1.0, len(starts))
    if how == "always":
        starts, lengths = np.array([0.01 * setting.seconds * S]), np.array([0.98 * setting.seconds * S])
    stalls = np.minimum(setting.drain_ns * rng.uniform(0.6, 1.4, len(starts)), 0.8 * lengths)
    begin = starts + rng.uniform(0.05, 0.95, len(starts)) * (lengths - stalls)
    if how in ("onset", "alike", "few"):
        begin = starts + 0.2 * MS
        stalls = lengths * (0.5 if how != "onset" else rng.uniform(0.2, 0.9, len(starts)))
    if how in ("random", "always"):
        begin = moments(rng, setting, setting.period_ns * float(rng.uniform(0.7, 1.4)))
        stalls = setting.drain_ns * rng.uniform(0.4, 1.2, len(begin))
    model, setting = paced_port(rng, setting, starts, lengths)
    probes = send(rng, setting, None, {queue_stage(setting): (begin, stalls)})
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "elsewhere", EITHER)


def sparse(setting: Setting) -> Setting:
    """Returns a setting with one or two probes in a burst."""
    return replace(setting, rate=20.0, seconds=90.0, period_ns=max(setting.period_ns, 200 * MS), loss=0.0)


def collected(kind: str, seed: int, setting: Setting) -> Case:
    """Each burst triggers garbage collection in the target: a stall that begins with the burst and has its own length.

    The burst queues, but the probes are in a higher class. -alike: all bursts have the same length.
    """
    rng = generator(kind, seed)
    setting = sparse(setting) if "sparse" in kind else setting
    starts = moments(
        rng, setting, setting.period_ns, float(rng.uniform(0, setting.period_ns)) if setting.periodic else None
    )
    drains = setting.drain_ns * (np.ones(len(starts)) if "alike" in kind else rng.uniform(0.6, 1.4, len(starts)))
    stalls = setting.drain_ns * rng.uniform(0.3, 1.1, len(starts))
    if "alike" in kind:
        stalls = np.full(len(starts), setting.drain_ns * float(rng.uniform(0.4, 0.85)))
    model = fluid(rng, setting, starts, drains * setting.link_bps / 8e9, setting.overload)
    stage = queue_stage(setting) if setting.stamps != "rtt" and rng.random() < 0.6 else "turn"
    seen = stage in cases.SEEN[setting.stamps]
    probes = send(rng, setting, None, {stage: (starts + 0.2 * MS, stalls)})
    truth = "none" if not seen else "host" if stage == "turn" else "elsewhere"
    return case_of(kind, seed, setting, scene_of(model, probes, setting), truth, EITHER)


def short_rhythm(kind: str, seed: int, setting: Setting) -> Case:
    """Harmless bursts and stalls elsewhere with the same period and phase, seven to fourteen of each, one at the
    edge."""
    rng = generator(kind, seed)
    count = float(rng.integers(7, 15)) + float(rng.uniform(0.1, 0.9))
    setting = replace(setting, seconds=count * setting.period_ns / S)
    starts = moments(rng, setting, setting.period_ns, float(rng.uniform(0, 0.3)) * setting.period_ns)
    drains = np.full(len(starts), setting.drain_ns)
    model = fluid(rng, setting, starts, drains * setting.link_bps / 8e9, setting.overload)
    begin = starts + float(rng.uniform(0.05, 0.3)) * setting.drain_ns
    stalls = setting.drain_ns * rng.uniform(0.3, 0.6, len(starts))
    probes = send(rng, setting, None, {queue_stage(setting): (begin, stalls)})
    return case_of(kind, seed, setting, scene_of(model, probes, setting), "elsewhere", EITHER)


# The switch's own word.


def windows_of(model: FluidPort, setting: Setting, width: float, scale: float = 1.0) -> PortQueue:
    """Returns the port's queue as its switch reports it: the largest depth of each window."""
    ratio = round(width / model.step)
    count = len(model.backlog) // ratio
    depth = model.backlog[: count * ratio].reshape(count, ratio).max(axis=1) * scale
    begin = np.arange(count) * ratio * model.step
    return PortQueue("tor p queue 0", begin, begin + ratio * model.step, depth)


def shallow(kind: str, seed: int, setting: Setting) -> Case:
    """A hop before the port, of the same speed, holds the bursts and feeds the port at line rate: the port's queue
    stays empty, as its switch reports in windows of 1 ms to 1 s."""
    rng, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    width = float(rng.choice([1, 10, 100, 1000])) * MS
    scene = replace(scene, queues=[windows_of(model, setting, width, scale=float(rng.uniform(0, 0.05)))])
    return case_of(kind, seed, setting, scene, "elsewhere", EITHER)


def windows_agree(kind: str, seed: int, setting: Setting) -> Case:
    """An incast, with windows of the switch that agree."""
    rng, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    scene = replace(scene, queues=[windows_of(model, setting, float(rng.choice([1, 10, 100, 1000])) * MS)])
    return case_of(kind, seed, setting, scene, "bursts")


def undropped(kind: str, seed: int, setting: Setting) -> Case:
    """Harmless bursts; something drops probes together with them, and the switch counts no drop at the port."""
    rng, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, replace(setting, loss=0.0), None, {})
    starts = cases.recorded_port(model, setting)[1][0]
    lost = held(probes.tx - setting.skew_ns, starts, np.full(len(starts), setting.drain_ns)) > 0
    scene = scene_of(model, without(probes, lost), setting)
    queue = windows_of(model, setting, 100 * MS)
    none = CountedWindows(queue.name, queue.start, queue.end, np.zeros(len(queue.end)))
    scene = replace(scene, queues=[queue], counted=[SwitchCounts(none, None)])
    return case_of(kind, seed, setting, scene, "elsewhere", frozenset({"none", *EITHER}))


# Losses.


def without(probes: cases.Probes, lost: np.ndarray) -> cases.Probes:
    """Returns the probes, some of them lost."""
    answers = ("remote_rx", "remote_tx", "rx", "app_recv", "rtt")
    lost = lost | probes.lost
    return replace(probes, lost=lost, **{name: np.where(lost, np.nan, getattr(probes, name)) for name in answers})


def lost_elsewhere(kind: str, seed: int, setting: Setting) -> Case:
    """An incast delays a few probes, or drops them; outages elsewhere lose several times as many."""
    rng = generator(kind, seed)
    few = replace(setting, period_ns=setting.period_ns * 4, seconds=setting.seconds * 2)
    if rng.random() < 0.5:
        few = replace(few, buffer_ns=0.1 * MS, overload=max(setting.overload, 4.0))
    _, model = cases.plain_incast(kind, seed, few)
    probes = send(rng, few, model, {})
    starts = moments(rng, few, setting.period_ns * 1.7)
    lost = held(probes.tx, starts, np.full(len(starts), 3 * setting.drain_ns)) > 0
    return case_of(
        kind, seed, few, scene_of(model, without(probes, lost), few), "undetermined", frozenset({"none", *EITHER})
    )


# Stamps and clocks.


def rounded(probes: cases.Probes, step: float) -> cases.Probes:
    """Returns the probes with the stamps of a coarse clock."""
    names = ("app_send", "tx", "remote_rx", "remote_tx", "rx", "app_recv", "rtt")
    return replace(probes, **{name: np.floor(getattr(probes, name) / step) * step for name in names})


def coarse_stamps(kind: str, seed: int, setting: Setting) -> Case:
    """Stamps of 1 or 4 ms: of an incast, or (-hop) of a hop that stalls within paced transfers."""
    step = float(generator(kind, seed).choice([1, 4])) * MS
    if kind.endswith("hop"):
        case = paced("paced-inside", seed, setting)
        scene = replace(case.scene, probes=rounded(case.scene.probes, step))
        return case_of(kind, seed, case.setting, scene, "elsewhere", EITHER | {"none"})
    rng, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, rounded(send(rng, setting, model, {}), step), setting)
    return case_of(kind, seed, setting, scene, "bursts", frozenset({"undetermined"}))


def clock_steps(kind: str, seed: int, setting: Setting) -> Case:
    """The prober's clock steps by 3 to 300 ms half way: an incast, or (-hop) stalls within paced transfers."""
    rng = generator(kind, seed)
    step = float(rng.choice([-1, 1]) * rng.choice([3, 30, 300])) * MS
    if kind.endswith("hop"):
        case = paced("paced-inside", seed, setting)
        truth, accepted = "elsewhere", EITHER | {"none", "host"}
    else:
        _, model = cases.plain_incast(kind, seed, setting)
        case = Case(kind, scene_of(model, send(rng, setting, model, {}), setting), "bursts", seed, setting)
        truth, accepted = "bursts", frozenset({"undetermined", "none"})
    probes = case.scene.probes
    late = probes.tx > np.median(probes.tx)
    names = ("app_send", "tx", "rx", "app_recv")
    probes = replace(probes, **{name: getattr(probes, name) + step * late for name in names})
    order = np.argsort(probes.tx, kind="stable")
    arrays = {name: value[order] for name, value in vars(probes).items() if isinstance(value, np.ndarray)}
    return case_of(kind, seed, case.setting, replace(case.scene, probes=replace(probes, **arrays)), truth, accepted)


# Bursts that are not plain.


def speeds(kind: str, seed: int, setting: Setting) -> Case:
    """Bursts of very different overload, from 1.2 to 30 times line rate."""
    rng = generator(kind, seed)
    starts = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    model = fluid(
        rng, setting, starts, drains * setting.link_bps / 8e9, np.exp(rng.uniform(np.log(1.2), np.log(30), len(starts)))
    )
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


def doubled(kind: str, seed: int, setting: Setting) -> Case:
    """Bursts in pairs: the second comes while the queue of the first one drains, or just after."""
    rng = generator(kind, seed)
    first = moments(rng, setting, setting.period_ns)
    drains = setting.drain_ns * rng.uniform(0.4, 0.8, len(first))
    second = first + drains * rng.uniform(0.5, 1.05, len(first))
    starts, amounts = np.concatenate((first, second)), np.concatenate((drains, drains[::-1]))
    order = np.argsort(starts)
    model = fluid(rng, setting, starts[order], amounts[order] * setting.link_bps / 8e9, setting.overload)
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


def bloated(kind: str, seed: int, setting: Setting) -> Case:
    """Transfers that keep a buffer of some milliseconds filled for long, like a sender that never backs off."""
    rng = generator(kind, seed)
    setting = replace(
        setting,
        buffer_ns=setting.drain_ns * float(rng.uniform(0.4, 0.8)),
        period_ns=setting.period_ns * 2,
        seconds=setting.seconds * 1.5,
    )
    starts = moments(rng, setting, setting.period_ns)
    lengths = setting.period_ns * rng.uniform(0.1, 0.4, len(starts))
    rate = 1.0 + rng.uniform(0.1, 1.0, len(starts))
    model = fluid(rng, setting, starts, lengths * rate * setting.link_bps / 8e9, rate)
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


def beside_paced(kind: str, seed: int, setting: Setting) -> Case:
    """Incasts, and equally many transfers of a paced sender that fill the port without a queue."""
    rng = generator(kind, seed)
    rate = float(rng.uniform(0.93, 0.99))
    setting = replace(
        setting,
        load=min(setting.load, 0.5 * (1 - rate)),
        period_ns=2 * setting.period_ns,
        seconds=1.5 * setting.seconds,
    )
    first = moments(rng, setting, setting.period_ns)
    amounts = setting.drain_ns * rng.uniform(0.6, 1.4, len(first))
    second = first + setting.period_ns * rng.uniform(0.3, 0.4, len(first))
    starts = np.concatenate((first, second))
    order = np.argsort(starts)
    volumes = np.concatenate((amounts, amounts * rate))[order] * setting.link_bps / 8e9
    rates = np.concatenate((np.full(len(first), setting.overload), np.full(len(second), rate)))[order]
    model = fluid(rng, setting, starts[order], volumes, rates)
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


def few_in_each(kind: str, seed: int, setting: Setting) -> Case:
    """An incast, and 20 probes a second."""
    setting = sparse(setting)
    rng, model = cases.plain_incast(kind, seed, setting)
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts")


def alike(kind: str, seed: int, setting: Setting) -> Case:
    """Bursts of one size: at random moments, periodic (-clock), or (-few) five to nine of them."""
    rng = generator(kind, seed)
    if kind.endswith("few"):
        setting = replace(setting, seconds=float(rng.uniform(7, 9.9)) * setting.period_ns / S)
    phase = float(rng.uniform(0, 0.5)) * setting.period_ns if kind.endswith("clock") else None
    starts = moments(rng, setting, setting.period_ns, phase)
    amounts = np.full(len(starts), setting.drain_ns * setting.link_bps / 8e9)
    model = fluid(rng, setting, starts, amounts, setting.overload)
    accepted = frozenset() if kind == "alike" else frozenset({"undetermined"})
    return case_of(kind, seed, setting, scene_of(model, send(rng, setting, model, {}), setting), "bursts", accepted)


def repeated(kind: str, seed: int, setting: Setting) -> Case:
    """TCP probes through an incast that drops: a lost one is answered after a timeout of 200 ms or more, and later ones
    on the same connection wait behind it."""
    rng = generator(kind, seed)
    setting = replace(
        setting,
        buffer_ns=0.4 * setting.drain_ns,
        overload=max(setting.overload, 4.0),
        loss=0.0,
        stamps="rtt",
        rate=min(setting.rate, 300.0),
        period_ns=max(setting.period_ns, 900 * MS),
        seconds=40.0,
    )
    _, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, setting, model, {})
    until = probes.tx[probes.lost] + rng.uniform(201, 215, int(probes.lost.sum())) * MS
    before = np.searchsorted(probes.tx[probes.lost], probes.tx, side="right")
    waited = np.append(0.0, np.maximum.accumulate(until))[before] - probes.tx
    # Two connections: not all probes wait behind one segment.
    late = np.maximum(waited, 0) * (probes.lost | (rng.random(len(probes)) < 0.5))
    usual, none = 30e3, np.full(len(probes), np.nan)
    answered = np.where(
        np.isnan(probes.rx), probes.tx + np.where(probes.lost, usual, np.nan_to_num(probes.rtt)), probes.rx
    )
    probes = cases.measured(replace(
        probes, protocol="tcp", app_send=none, remote_rx=none, remote_tx=none, app_recv=none, rtt=none,
        rx=np.maximum(answered, probes.tx + late + usual), lost=np.zeros(len(probes), dtype=bool),
    ))  # fmt: skip
    scene = scene_of(model, probes, setting)
    return case_of(kind, seed, setting, scene, "bursts", frozenset({"undetermined"}))  # not detected yet


Builder = Callable[[str, int, Setting], Case]
NEGATIVE: dict[str, Builder] = {
    **dict.fromkeys(
        ("paced-random", "paced-inside", "paced-onset", "paced-alike", "paced-few", "paced-always", "paced-sparse"),
        paced,
    ),
    **dict.fromkeys(("collected", "collected-alike", "collected-sparse"), collected),
    "short-rhythm": short_rhythm,
    "shallow": shallow,
    "undropped": undropped,
    "lost-elsewhere": lost_elsewhere,
    "coarse-hop": coarse_stamps,
    "step-hop": clock_steps,
}
BURSTS: dict[str, Builder] = {
    "windows-agree": windows_agree,
    "sparse": few_in_each,
    "speeds": speeds,
    "doubled": doubled,
    "bloated": bloated,
    "beside-paced": beside_paced,
    **dict.fromkeys(("alike", "alike-clock", "alike-few"), alike),
    "coarse-stamps": coarse_stamps,
    "clock-step": clock_steps,
    "repeated": repeated,
}
cases.OTHERWISE.update(NEGATIVE | BURSTS)
KINDS = {"bursts": [*cases.KINDS["bursts"], *BURSTS], "negative": [*cases.KINDS["negative"], *NEGATIVE]}
