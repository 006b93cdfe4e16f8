"""Labelled cases with two recorded ports on one path, both full in the same bursts: which of them queues?

The prober's host sends out of its own port, which feeds the port towards the target (latency_cases.py has the model).
The truth is the port in front of which the late probes waited most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import latency_cases as cases
import numpy as np
from latency_cases import MS, FluidPort, Setting, arriving, held, jitter, moments, served

from mburst.analysis.cause.ledger import Crossing
from mburst.analysis.cause.scene import Scene

SENDER, TARGET = 0, 1  # the ports: out of the prober's host, and towards the target


@dataclass(frozen=True)
class PortsCase:
    """waited: by port, the time that late probes waited there, in all, as far as the stamps of the probes show it;
    stalled: the time that they were held elsewhere."""

    kind: str
    scene: Scene
    waited: tuple[float, float]
    models: tuple[FluidPort, FluidPort]
    stalled: float

    @property
    def queues(self) -> tuple[int, ...]:
        """The ports that made most of the waiting; both if neither made 70 % of it."""
        first, second = self.waited
        return (SENDER,) if first > 0.7 * (first + second) else (TARGET,) if second > 0.7 * (first + second) else (0, 1)


class TwoPortsTraffic(NamedTuple):
    """What arrives in each step at the sender's port, and at the other one; what share of the first goes on to it;
    begin and length of stalls of a hop between them."""

    sent: np.ndarray
    other: np.ndarray
    onwards: float = 1.0
    stalls: tuple[np.ndarray, np.ndarray] = (np.zeros(0), np.zeros(0))


def relayed(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """The prober's host sends bursts to the target faster than its port: they queue there, and fill the next port."""
    starts, drains = bursts(rng, setting)
    amounts = drains * setting.link_bps / 8e9
    quiet = replace(setting, load=0.0)
    return TwoPortsTraffic(arriving(rng, setting, starts, amounts, setting.overload), nothing(rng, quiet))


def relayed_loaded(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """The same, and 2 to 10 % of other traffic at the target's port."""
    sent, *_ = relayed(rng, replace(setting, load=0.02))
    return TwoPortsTraffic(sent, nothing(rng, replace(setting, load=float(rng.uniform(0.02, 0.1)))))


def incast_of_all(rng: np.random.Generator, setting: Setting, lasting: float = 0.0) -> TwoPortsTraffic:
    """All senders answer the target at once; the prober's host is one of them, at 93 to 99 % of its port."""
    starts, drains = bursts(rng, setting)
    rate = float(rng.uniform(0.93, 0.99))
    own = drains * (lasting or rng.uniform(0.2, 0.5, len(starts)))
    bytes_ns = setting.link_bps / 8e9
    sent = arriving(rng, replace(setting, load=0.5 * (1 - rate)), starts, own * rate * bytes_ns, rate)
    rest = np.maximum(drains - own * rate, 0.1 * drains) * bytes_ns
    return TwoPortsTraffic(sent, arriving(rng, setting, starts, rest, setting.overload))


def incast_beside_long(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """The same, but its host sends for as long as the queue lasts."""
    return incast_of_all(rng, setting, 1.0)


def beside_paced(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """An incast at the target; with it and at other times, its host fills its port with paced transfers to others."""
    starts, drains = bursts(rng, setting)
    rate = float(rng.uniform(0.93, 0.99))
    begin = np.sort(np.concatenate((starts - 1 * MS, starts + 0.5 * setting.period_ns)))
    begin = begin[np.diff(begin, prepend=-np.inf) > 2 * drains.max()]
    bytes_ns = setting.link_bps / 8e9
    paced = np.full(len(begin), 2 * drains.max() * rate * bytes_ns)
    sent = arriving(rng, replace(setting, load=0.5 * (1 - rate)), begin, paced, rate)
    return TwoPortsTraffic(sent, arriving(rng, setting, starts, drains * bytes_ns, setting.overload), 0.0)


def paced_and_stalls(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """Bursts queue at the target, a hop stalls as often, and the prober's host sends paced transfers to others, which
    fill its port for a third of the time."""
    starts, drains = bursts(rng, setting)
    begin, bytes_ns = moments(rng, setting, 2 * setting.period_ns, 0.3 * setting.period_ns), setting.link_bps / 8e9
    paced = 0.7 * setting.period_ns * rng.uniform(0.6, 1.4, len(begin)) * 0.95 * bytes_ns
    sent = arriving(rng, replace(setting, load=0.01), begin, paced, 0.95)
    holds = moments(rng, setting, setting.period_ns)
    stalls = holds, 0.8 * setting.drain_ns * rng.uniform(0.6, 1.4, len(holds))
    return TwoPortsTraffic(sent, arriving(rng, setting, starts, drains * bytes_ns, setting.overload), 0.0, stalls)


def taking_turns(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """Half of the bursts queue in the prober's host, on their way to others, and the rest at the target."""
    starts, drains = bursts(rng, setting)
    first = rng.random(len(starts)) < float(rng.uniform(0.3, 0.7))
    amounts = drains * setting.link_bps / 8e9
    sent = arriving(rng, setting, starts[first], amounts[first], setting.overload)
    return TwoPortsTraffic(sent, arriving(rng, setting, starts[~first], amounts[~first], setting.overload), 0.0)


def relayed_and_incast(rng: np.random.Generator, setting: Setting) -> TwoPortsTraffic:
    """Bursts queue in the prober's host, and others send to the target at the same times."""
    starts, drains = bursts(rng, setting)
    bytes_ns = setting.link_bps / 8e9
    part = float(rng.uniform(0.2, 0.8))
    sent = arriving(rng, setting, starts, part * drains * bytes_ns, setting.overload)
    return TwoPortsTraffic(sent, arriving(rng, setting, starts, (1 - part) * drains * bytes_ns, setting.overload))


def bursts(rng: np.random.Generator, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    starts = moments(rng, setting, setting.period_ns)
    return starts, setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))


def nothing(rng: np.random.Generator, setting: Setting) -> np.ndarray:
    return arriving(rng, setting, np.zeros(0), np.zeros(0), 1.0)


def built(kind: str, seed: int, setting: Setting, inside: bool | None = None) -> PortsCase:
    """Returns the case of a kind. INSIDE: the first queue is behind the stamp of the sender, in its interface; None:
    the seed determines that."""
    rng = np.random.default_rng([seed, sum(map(ord, kind)), 31])
    setting = replace(setting, load=min(setting.load, 0.05))
    traffic = KINDS[kind](rng, setting)
    first = served(setting, traffic.sent)
    second = served(setting, traffic.onwards * first.departures + traffic.other)
    drawn = bool(rng.integers(2))
    return case_of(kind, rng, setting, (first, second), traffic.stalls, drawn if inside is None else inside)


def case_of(
    kind: str,
    rng: np.random.Generator,
    setting: Setting,
    models: tuple[FluidPort, FluidPort],
    stalls: tuple[np.ndarray, np.ndarray],
    inside: bool,
) -> PortsCase:
    first, second = models
    n = int(setting.seconds * setting.rate)
    asked = np.sort(rng.uniform(0, setting.seconds * cases.S, n))
    come = asked + jitter(rng, n, 3e3)
    left = come + (one := first.delay(come, setting.link_bps))
    there = left + jitter(rng, n, 8e3) + (hop := held(left, *stalls))
    remote_rx = there + (two := second.delay(there, setting.link_bps))
    remote_tx = remote_rx + jitter(rng, n, 6e3)
    rx = remote_tx + jitter(rng, n, 8e3)
    times = (asked, come if inside else left, remote_rx, remote_tx, rx, rx + jitter(rng, n, 5e3))
    skew = round(setting.skew_ns / setting.bin_ns) * setting.bin_ns
    stamped = cases.stamp(replace(setting, end="dst", skew_ns=skew, drift=0.0), times, rng.random(n) < setting.loss)
    if not inside and setting.stamps != "full":
        one = np.zeros(n)  # before the first stamp
    late = one + two + hop > 1 * MS
    crossings, spans = [], []
    for model, end, direction in ((first, "src", "out"), (second, "dst", "in")):
        port, found = cases.recorded_port(model, setting)
        apart = skew if end == "src" and setting.stamps in ("full", "no-app", "one-way") else 0.0
        port = replace(port, host={"src": "p", "dst": "h"}[end], direction=direction, starts=port.starts + apart)
        crossings.append(Crossing(port, end, False))
        spans.append((found[0] + apart, found[1] + apart))
    scene = Scene(stamped, crossings, spans, [None, None], [])
    return PortsCase(kind, scene, (float(one[late].sum()), float(two[late].sum())), models, float(hop[late].sum()))


KINDS: dict[str, Callable[[np.random.Generator, Setting], TwoPortsTraffic]] = {
    "relayed": relayed,
    "relayed-loaded": relayed_loaded,
    "incast-of-all": incast_of_all,
    "incast-beside-long": incast_beside_long,
    "relayed-and-incast": relayed_and_incast,
    "beside-paced": beside_paced,
    "taking-turns": taking_turns,
    "paced-and-stalls": paced_and_stalls,
}
