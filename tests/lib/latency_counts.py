"""Labelled cases in which the switch counts the packets that its port drops, or marks with ECN.

Built on latency_attacks.py. `bursts` is a wrong verdict in each of the negative kinds.
"""

from __future__ import annotations

from dataclasses import replace

import latency_cases as cases
import latency_networks as networks
import numpy as np
from latency_attacks import EITHER, Builder, case_of, generator, without
from latency_cases import MS, Case, FluidPort, S, Setting, held, scene_of, send

from mburst.analysis.cause.evidence.switch import CountedWindows, SwitchCounts
from mburst.analysis.cause.scene import Scene

INNOCENT = frozenset({"none", "host", *EITHER})


def counts_of(times: np.ndarray, setting: Setting, width: float) -> CountedWindows:
    """Returns packets at these times, in windows of a width, as a switch counts them."""
    edges = np.arange(0, setting.seconds * S + width, width)
    return CountedWindows("tor p", edges[:-1], edges[1:], np.histogram(times, edges)[0].astype(float))


def with_counts(scene: Scene, drops: CountedWindows | None, marks: CountedWindows | None) -> Scene:
    return replace(scene, counted=[SwitchCounts(drops, marks)])


def marked_steps(model: FluidPort, setting: Setting, threshold_ns: float) -> np.ndarray:
    """Returns the steps in which a port with a queue above a threshold marks packets."""
    deep = model.backlog * 8e9 / setting.link_bps > threshold_ns
    return (np.flatnonzero(deep) + 0.5) * model.step


def width_of(rng: np.random.Generator) -> float:
    return float(rng.choice([1, 10, 100, 1000])) * MS


def counters_agree(kind: str, seed: int, setting: Setting) -> Case:
    """An incast into a port that marks above a threshold, and drops (-drops) packets that its buffer cannot hold; its
    switch counts both."""
    rng, draw = generator(kind, seed), np.random.default_rng([seed, 22])
    if kind.endswith("drops"):
        setting = replace(setting, buffer_ns=0.5 * setting.drain_ns, overload=max(setting.overload, 4.0))
    _, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    width, threshold = width_of(draw), float(draw.uniform(0.05, 0.4)) * setting.drain_ns
    full = np.repeat((np.arange(len(model.dropped)) + 0.5) * model.step, 20 * (model.dropped > 0))
    drops = counts_of(full, setting, width)
    marks = counts_of(marked_steps(model, setting, threshold), setting, width)
    return case_of(kind, seed, setting, with_counts(scene, drops, marks), "bursts")


def dropped_apart(kind: str, seed: int, setting: Setting) -> Case:
    """Harmless bursts, something drops probes together with them; the port drops as many packets, at other times."""
    rng, model = cases.plain_incast(kind, seed, setting)
    probes = send(rng, replace(setting, loss=0.0), None, {})
    starts = cases.recorded_port(model, setting)[1][0]
    lost = held(probes.tx - setting.skew_ns, starts, np.full(len(starts), setting.drain_ns)) > 0
    scene = scene_of(model, without(probes, lost), setting)
    width = float(rng.choice([1, 2, 5])) * MS
    quiet = rng.uniform(0, setting.seconds * S, 4 * int(lost.sum()))
    near = held(quiet, starts - 3 * width, np.full(len(starts), 2 * setting.drain_ns + 6 * width)) > 0
    scene = with_counts(scene, counts_of(quiet[~near], setting, width), None)
    return case_of(kind, seed, setting, scene, "elsewhere", INNOCENT)


def marked_elsewhere(kind: str, seed: int, setting: Setting) -> Case:
    """A hop before the port, of the same speed, holds the bursts and feeds the port at line rate.

    unmarked: the port occasionally marks in short queues of its own, not with the bursts; marked-before: that hop marks
    the packets that wait in it, which the recorder sees, and the port's own counter shows nothing.
    """
    rng, model = cases.plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    width = float(rng.choice([1, 2, 5])) * MS
    crossing = scene.crossings[0]
    if kind == "unmarked":
        short = rng.uniform(0, setting.seconds * S, 400)
        deep = marked_steps(model, setting, 0.05 * setting.drain_ns)
        apart = deep[np.minimum(np.searchsorted(deep, short - 2 * width), len(deep) - 1)] - short
        short = short[np.abs(apart) > 2 * width]
        return case_of(
            kind, seed, setting, with_counts(scene, None, counts_of(short, setting, width)), "elsewhere", INNOCENT
        )
    places = np.unique(np.floor(marked_steps(model, setting, 0.2 * setting.drain_ns) / setting.bin_ns))
    port = replace(crossing.port, marked=places[places < crossing.port.bins])
    scene = replace(scene, crossings=[crossing._replace(port=port)])
    return case_of(
        kind, seed, setting, with_counts(scene, None, counts_of(np.zeros(0), setting, width)), "elsewhere", INNOCENT
    )


NEGATIVE: dict[str, Builder] = {
    "dropped-apart": dropped_apart,
    **dict.fromkeys(("unmarked", "marked-before"), marked_elsewhere),
}
BURSTS: dict[str, Builder] = dict.fromkeys(("counters-agree", "counters-drops"), counters_agree)
cases.OTHERWISE.update(NEGATIVE | BURSTS)
KINDS = {"bursts": [*networks.KINDS["bursts"], *BURSTS], "negative": [*networks.KINDS["negative"], *NEGATIVE]}
