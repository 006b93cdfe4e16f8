"""Labelled cases: a simulated port, probes through it, and the true cause of their tail.

A fluid model, independent of the code under test: traffic arrives at a FIFO port in steps, the backlog follows
Lindley's recursion, the recorded bins are its departures in whole frames. A probe adds up the delays on its way: the
backlog when it reaches the port, trouble at another hop, stalls of a host, jitter everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mburst.analysis.cause.ledger import Crossing
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.scene import Scene
from mburst.analysis.cause.tail import DEFAULT, Probes
from mburst.analysis.model.stats import join_runs, runs

MS, S = 1e6, 1e9
FRAME = 1538


@dataclass(frozen=True)
class Setting:
    """The parameters of a case, except its kind."""

    seconds: float = 20.0
    link_bps: float = 1e9
    bin_ns: int = 100_000
    rate: float = 1000.0  # probes per second
    stamps: str = "full"  # full, no-app, rtt, one-way
    end: str = "dst"  # the end of the probes that is the recorded host
    period_ns: float = 250 * MS
    periodic: bool = False  # periodic bursts rather than random ones
    drain_ns: float = 20 * MS  # how long the queue of a mean burst takes to drain
    overload: float = 8.0  # arrivals in a burst as a multiple of line rate
    buffer_ns: float = np.inf  # of the port, as the time to drain it
    loss: float = 0.0  # share of probes lost anywhere
    skew_ns: float = 4e6  # offset of the reflector's clock from the sender's
    drift: float = 2e-5
    load: float = 0.05  # background traffic


@dataclass(frozen=True)
class Case:
    kind: str
    scene: Scene
    truth: str
    seed: int
    setting: Setting

    def accepts(self, cause: str) -> bool:
        """Returns whether a verdict is right, or one of those that are acceptable for the kind (MAY_SAY)."""
        if self.truth == "host" and self.setting.stamps == "no-app" and cause == "none":
            return True  # the reflector's own time is not part of the network round trip, which is then measured
        return cause == self.truth or cause in MAY_SAY.get(self.kind, ())


# Verdicts that are acceptable in place of the truth, if the recording cannot show more.
MAY_SAY = {
    "periodic-equal": {"undetermined"},  # equal periods cannot be separated; but never `bursts`
    "periodic-near": {"undetermined"},  # they meet in consecutive trains of bursts, of which few are recorded
    "few-probes": {"undetermined", "none"},
    "clock-apart": {"undetermined"},  # but never that the network delayed them elsewhere
    "slower-link": {"undetermined"},
    "pauses": {"undetermined"},
    "lost-in-outages": {"undetermined"},
    "mixed": {"undetermined", "host", "bursts"},
}


def moments(rng: np.random.Generator, setting: Setting, period: float, phase: float | None = None) -> np.ndarray:
    """Returns starts of events: periodic from a phase, or at random with a least gap of a fifth of the period."""
    span = setting.seconds * S
    if phase is not None:
        return np.arange(phase, span, period)
    gaps = period * (0.2 + rng.exponential(0.8, int(3 * span / period) + 10))
    times = np.cumsum(gaps)
    return times[times < span - 0.2 * period]


def held(time: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns the delay at each time if everything is held from each start for its length."""
    at = np.searchsorted(starts, time, side="right") - 1
    left = (
        np.where(at >= 0, starts[np.maximum(at, 0)] + lengths[np.maximum(at, 0)] - time, 0) if len(starts) else 0 * time
    )
    return np.maximum(left, 0)


@dataclass(frozen=True)
class FluidPort:
    step: float
    backlog: np.ndarray  # bytes after each step
    dropped: np.ndarray  # share of the arrivals in a step
    departures: np.ndarray

    def delay(self, time: np.ndarray, link_bps: float) -> np.ndarray:
        return np.interp(time, (np.arange(len(self.backlog)) + 1) * self.step, self.backlog) * 8e9 / link_bps


def fluid(
    rng: np.random.Generator, setting: Setting, starts: np.ndarray, amounts: np.ndarray, overload: float | np.ndarray
) -> FluidPort:
    """Returns a port with bursts of `amounts` bytes that arrive at `overload` × line rate (of all or of each), over a
    background of single frames."""
    return served(setting, arriving(rng, setting, starts, amounts, overload))


def arriving(
    rng: np.random.Generator, setting: Setting, starts: np.ndarray, amounts: np.ndarray, overload: float | np.ndarray
) -> np.ndarray:
    """Returns the bytes that arrive in each step at the port of fluid()."""
    step = step_of(setting)
    count = int(setting.seconds * S / step)
    room = setting.link_bps / 8e9 * step
    arrivals = rng.poisson(setting.load * room / FRAME, count) * float(FRAME)
    edges = np.zeros(count + 1)
    for start, amount, rate in zip(starts, amounts, np.broadcast_to(overload, len(starts)), strict=True):
        begin, end = start / step, (start + amount / (rate * room) * step) / step
        grid = np.arange(int(begin), min(count, int(end) + 1))
        inside = np.minimum(grid + 1, end) - np.maximum(grid, begin)
        edges[grid] += np.maximum(inside, 0) * rate * room
    return np.asarray(arrivals + edges[:count])


def step_of(setting: Setting) -> float:
    return min(setting.bin_ns / 5, 50_000.0)


def served(setting: Setting, arrivals: np.ndarray) -> FluidPort:
    """Returns a FIFO port with these arrivals in each step."""
    step = step_of(setting)
    room = setting.link_bps / 8e9 * step
    total = np.cumsum(arrivals - room)
    backlog = total - np.minimum(0, np.minimum.accumulate(total))
    dropped = np.zeros(len(arrivals))
    if np.isfinite(setting.buffer_ns):
        drop_tail(arrivals, room, backlog, dropped, setting.buffer_ns * setting.link_bps / 8e9)
    return FluidPort(step, backlog, dropped, arrivals * (1 - dropped) - np.diff(backlog, prepend=0.0))


def drop_tail(arrivals: np.ndarray, room: float, backlog: np.ndarray, dropped: np.ndarray, limit: float) -> None:
    """Changes a backlog without a limit, and the share that is dropped in each step, to those with the limit. Only busy
    periods that exceed it differ."""
    for first, last in zip(*runs(backlog > 0), strict=True):
        if backlog[first:last].max() <= limit:
            continue
        level, levels, losses = 0.0, [], []
        for came in arrivals[first:last].tolist():
            level = max(level + came - room, 0.0)
            losses.append((level - limit) / came if level > limit else 0.0)
            level = min(level, limit)
            levels.append(level)
        backlog[first:last], dropped[first:last] = levels, losses


def recorded_port(model: FluidPort, setting: Setting) -> tuple[Port, tuple[np.ndarray, np.ndarray]]:
    """Returns the port as a capture records it, and its bursts by the default definition."""
    ratio = round(setting.bin_ns / model.step)
    frames = np.floor(np.cumsum(model.departures)[ratio - 1 :: ratio] / FRAME)
    bytes_ = (np.diff(frames, prepend=0.0) * FRAME).astype(np.int64)
    starts = np.arange(len(bytes_)) * float(setting.bin_ns)
    rows = bytes_ > 0
    span = [(0.0, len(bytes_) * float(setting.bin_ns))]
    port = port_from_bins(("h", "eth0", "in"), setting.link_bps, setting.bin_ns, [(starts[rows], bytes_[rows])], span)
    first, last = runs(bytes_ >= 0.5 * port.bin_bytes)
    return port, join_runs(first * float(setting.bin_ns), last * float(setting.bin_ns), 5.0 * setting.bin_ns)


def jitter(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    return scale * rng.lognormal(0, 0.6, n)


def send(rng: np.random.Generator, setting: Setting, port: FluidPort | None, trouble: dict) -> Probes:
    """Sends probes through the port (None: past it) and through trouble: stage → (starts, lengths) of holds."""
    n = int(setting.seconds * setting.rate)
    app_send = np.sort(rng.uniform(0, setting.seconds * S, n))
    lost = rng.random(n) < setting.loss

    def cross(time: np.ndarray, stage: str, usual: float) -> np.ndarray:
        return time + jitter(rng, n, usual) + (held(time, *trouble[stage]) if stage in trouble else 0.0)

    def queue(time: np.ndarray) -> np.ndarray:
        if port is None:
            return time
        at = np.clip((time / port.step).astype(int), 0, len(port.dropped) - 1)
        lost[rng.random(n) < port.dropped[at]] = True
        return time + port.delay(time, setting.link_bps)

    tx = cross(app_send, "send", 3e3)
    there = cross(tx, "forward", 8e3)
    remote_rx = queue(there) if setting.end == "dst" else there
    remote_tx = cross(remote_rx, "turn", 6e3)
    home = cross(remote_tx, "back", 8e3)
    rx = queue(home) if setting.end == "src" else home
    app_recv = cross(rx, "receive", 5e3)
    return stamp(setting, (app_send, tx, remote_rx, remote_tx, rx, app_recv), lost)


def stamp(setting: Setting, times: tuple[np.ndarray, ...], lost: np.ndarray) -> Probes:
    """Returns the stamps of the true times, by clocks that differ; the recorded host's clock is the true one."""
    app_send, tx, remote_rx, remote_tx, rx, app_recv = (time.copy() for time in times)
    if setting.stamps in ("full", "no-app", "one-way"):
        far = [remote_rx, remote_tx] if setting.end == "src" else [app_send, tx, rx, app_recv]
        for time in far:
            time += setting.skew_ns + setting.drift * time
    none = np.full(len(tx), np.nan)
    for time in (remote_rx, remote_tx, rx, app_recv):
        time[lost] = np.nan
    if setting.stamps == "no-app":
        app_send, app_recv = none, none
    if setting.stamps == "rtt":
        return measured(Probes("p", "h", "udp", none, tx, none, none, none, none, rx - tx, lost))
    if setting.stamps == "one-way":
        return measured(Probes("p", "h", "udp", none, tx, remote_rx, none, none, none, none, lost))
    return measured(Probes("p", "h", "udp", app_send, tx, remote_rx, remote_tx, rx, app_recv, none, lost))


def measured(probes: Probes) -> Probes:
    """Returns the same with the measure that a store would choose, by plain counting."""
    stamps = {name: getattr(probes, name) for name in ("app_send", "app_recv", "tx", "rx", "remote_rx", "remote_tx")}
    known = {name: np.isfinite(value) & ~probes.lost for name, value in stamps.items()}
    counts = {
        "application": known["app_send"] & known["app_recv"],
        "network round trip": known["tx"] & known["rx"] & known["remote_rx"] & known["remote_tx"],
        "round trip": known["tx"] & known["rx"],
        "reported round trip": np.isfinite(probes.rtt) & ~probes.lost,
        "round trip to the application": known["tx"] & known["app_recv"],
        "one way": known["tx"] & known["remote_rx"],
    }
    most = max(int(answers.sum()) for answers in counts.values())
    enough = [name for name, answers in counts.items() if answers.any() and 2 * answers.sum() >= most]
    return replace(probes, measure=enough[0] if enough else "")


SEEN = {
    "full": {"send", "forward", "turn", "back", "receive"},
    "no-app": {"forward", "turn", "back"},
    "rtt": {"forward", "turn", "back"},
    "one-way": {"forward"},
}


def build(kind: str, seed: int, setting: Setting = Setting()) -> Case:
    """Returns the case of a kind; `truth` is the most that can be known with these stamps."""
    if kind in OTHERWISE:
        return OTHERWISE[kind](kind, seed, setting)
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    if kind == "too-little":
        setting = replace(setting, seconds=min(setting.seconds, 2.2 * setting.period_ns / S))
    phase = float(rng.uniform(0, setting.period_ns)) if setting.periodic or kind.startswith("periodic") else None
    if kind == "too-little":
        phase = 0.3 * setting.period_ns  # two bursts, never none
    starts = moments(rng, setting, setting.period_ns, phase)
    room = setting.link_bps / 8e9
    drains = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts))
    overload, trouble, through = setting.overload, {}, True
    truth = "bursts"
    if kind == "elephant":
        drains, overload = (
            drains * min(4.0, 0.4 * (1 - setting.load) * setting.period_ns / setting.drain_ns),
            float(rng.uniform(1.2, 1.5)),
        )
    elif kind == "harmless":  # long bursts at line rate, probes in their own class; no tail
        through, truth = False, "none"
    elif kind == "short":  # bursts with a queue far below the limits of the tail
        drains, truth = drains * 0.02 * DEFAULT.on([setting.link_bps]).excess / MS, "none"
    elif kind == "some":  # two of three bursts are too short to hurt
        drains = np.where(rng.random(len(starts)) < 1 / 3, drains, drains * 0.02)
    elif kind == "mixed":  # and a host stalls, too, about as badly
        holds = moments(rng, setting, setting.period_ns * 1.37)
        trouble = {"turn": (holds, setting.drain_ns * rng.uniform(0.6, 1.4, len(holds)))}
    elif kind not in ("incast", "too-little"):
        through = False
        trouble, starts, truth = mischief(kind, rng, setting, starts, drains)
        drains = np.resize(drains, len(starts))
    model = fluid(rng, setting, starts, drains * room, overload)
    probes = send(rng, setting, model if through else None, trouble)
    if kind == "too-little":
        truth = "undetermined"
    elif trouble and not set(trouble) & SEEN[setting.stamps]:
        truth = "bursts" if kind == "mixed" else "none"  # the delay is in a stage that these probes do not cross
    elif trouble and setting.stamps == "rtt":
        truth = "undetermined"
    return Case(kind, scene_of(model, probes, setting), truth, seed, setting)


def scene_of(model: FluidPort, probes: Probes, setting: Setting, direction: str = "in") -> Scene:
    """Returns the recorded scene: one port, one path across it."""
    port, bursts = recorded_port(model, setting)
    port = replace(port, direction=direction)
    return Scene(probes, [Crossing(port, setting.end, False)], [bursts], [None], [])


def plain_incast(kind: str, seed: int, setting: Setting) -> tuple[np.random.Generator, FluidPort]:
    """Returns an incast to vary: its generator and its port."""
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    starts = moments(rng, setting, setting.period_ns, rng.uniform(0, setting.period_ns) if setting.periodic else None)
    amounts = setting.drain_ns * rng.uniform(0.6, 1.4, len(starts)) * setting.link_bps / 8e9
    return rng, fluid(rng, setting, starts, amounts, setting.overload)


def few_probes(kind: str, seed: int, setting: Setting) -> Case:
    """An incast, and 60 to 400 probes in total."""
    rng = np.random.default_rng([seed, 5])
    setting = replace(setting, rate=float(rng.uniform(60, 400)) / setting.seconds)
    rng, model = plain_incast(kind, seed, setting)
    return Case(kind, scene_of(model, send(rng, setting, model, {}), setting), "bursts", seed, setting)


def dropping(kind: str, seed: int, setting: Setting) -> Case:
    """An incast into a buffer that holds half of it: probes are late or lost."""
    setting = replace(setting, buffer_ns=0.5 * setting.drain_ns, overload=max(setting.overload, 4.0))
    rng, model = plain_incast(kind, seed, setting)
    return Case(kind, scene_of(model, send(rng, setting, model, {}), setting), "bursts", seed, setting)


def clock_apart(kind: str, seed: int, setting: Setting) -> Case:
    """An incast; the clock of the capture differs from that of the probes by some milliseconds."""
    rng, model = plain_incast(kind, seed, setting)
    scene = scene_of(model, send(rng, setting, model, {}), setting)
    apart = float(rng.choice([-1, 1]) * rng.uniform(2, 8)) * MS
    crossing, (begin, end) = scene.crossings[0], scene.bursts[0]
    port = replace(crossing.port, starts=crossing.port.starts + apart)
    scene = replace(scene, crossings=[crossing._replace(port=port)], bursts=[(begin + apart, end + apart)])
    return Case(kind, scene, "bursts", seed, setting)


def slower_link(kind: str, seed: int, setting: Setting) -> Case:
    """An incast at a port that is nominally faster than it is: because of a shaper, or a slower hop before it."""
    rng, model = plain_incast(kind, seed, setting)
    probes = send(rng, setting, model, {})
    named = replace(setting, link_bps=setting.link_bps / float(rng.uniform(0.4, 0.8)))
    return Case(kind, scene_of(model, probes, named), "bursts", seed, named)


def behind_pauses(arrivals: np.ndarray, silent: np.ndarray, room: float, step: float, setting: Setting) -> FluidPort:
    """Returns a port that sends nothing in the silent steps. Its backlog is the one that causes the same delay at line
    rate."""
    served = np.where(silent, 0.0, room)
    total = np.cumsum(arrivals - served)
    backlog = total - np.minimum(0, np.minimum.accumulate(total))
    departures = arrivals - np.diff(backlog, prepend=0.0)
    count = len(arrivals)
    work = np.concatenate(([0.0], np.cumsum(served)))  # the amount that could leave until then
    left = np.interp(work[1:] + backlog, work, np.arange(count + 1) * step)  # when the present arrivals have left
    delay = np.maximum(left - (np.arange(count) + 1) * step, 0)
    return FluidPort(step, delay * setting.link_bps / 8e9, np.zeros(count), departures)


def pauses(kind: str, seed: int, setting: Setting) -> Case:
    """The receiver pauses the port (PFC): packets wait while the link is silent, then leave back to back."""
    rng = np.random.default_rng([seed, 6])
    step = min(setting.bin_ns / 5, 50_000.0)
    count, room = int(setting.seconds * S / step), setting.link_bps / 8e9 * step
    load = max(setting.load, 0.1)
    arrivals = rng.poisson(load * room / FRAME, count) * float(FRAME)
    silent = np.zeros(count, dtype=bool)
    for start, length in zip(
        starts := moments(rng, setting, setting.period_ns), rng.uniform(0.6, 1.4, len(starts)), strict=True
    ):
        silent[int(start / step) : int((start + length * setting.drain_ns) / step)] = True
    seen_as = behind_pauses(arrivals, silent, room, step, setting)
    probes = send(rng, setting, seen_as, {})
    truth = "undetermined" if setting.stamps == "rtt" else "elsewhere"
    return Case(kind, scene_of(seen_as, probes, setting), truth, seed, setting)


def outgoing(kind: str, seed: int, setting: Setting) -> Case:
    """The recorded host's own traffic fills its link, and probes queue behind it in the host or its interface."""
    setting = replace(setting, end="src", stamps="full" if setting.stamps == "one-way" else setting.stamps)
    rng, model = plain_incast(kind, seed, setting)
    n = int(setting.seconds * setting.rate)
    asked = np.sort(rng.uniform(0, setting.seconds * S, n))
    queued = asked + jitter(rng, n, 3e3)
    wait = model.delay(queued, setting.link_bps)
    inside = bool(rng.integers(2)) or setting.stamps != "full"  # behind the stamp: in the interface
    tx = queued if inside else queued + wait
    remote_rx = queued + wait + jitter(rng, n, 8e3)
    remote_tx = remote_rx + jitter(rng, n, 6e3)
    rx = remote_tx + jitter(rng, n, 8e3)
    times = (asked, tx, remote_rx, remote_tx, rx, rx + jitter(rng, n, 5e3))
    probes = stamp(setting, times, rng.random(n) < setting.loss)
    return Case(kind, scene_of(model, probes, setting, "out"), "bursts", seed, setting)


def lost_in_outages(kind: str, seed: int, setting: Setting) -> Case:
    """Something occasionally drops all probes for a while; the port's bursts do no harm."""
    rng, model = plain_incast(kind, seed, setting)
    probes = send(rng, replace(setting, loss=0.0), None, {})
    starts = moments(rng, setting, setting.period_ns * 1.3)
    lost = held(probes.tx, starts, np.full(len(starts), setting.drain_ns)) > 0
    answers = ("remote_rx", "remote_tx", "rx", "app_recv", "rtt")
    probes = replace(probes, lost=lost, **{name: np.where(lost, np.nan, getattr(probes, name)) for name in answers})
    return Case(kind, scene_of(model, probes, setting), "none", seed, setting)


OTHERWISE = {
    "few-probes": few_probes,
    "drops": dropping,
    "clock-apart": clock_apart,
    "slower-link": slower_link,
    "pauses": pauses,
    "outgoing": outgoing,
    "lost-in-outages": lost_in_outages,
}


def mischief(
    kind: str, rng: np.random.Generator, setting: Setting, starts: np.ndarray, drains: np.ndarray
) -> tuple[dict, np.ndarray, str]:
    """Returns trouble that the bursts did not cause: where it holds probes, when the bursts come, and the true
    cause."""
    stage = {"host": str(rng.choice(["turn", "receive", "send"]))}.get(
        kind.split("-")[0], str(rng.choice(["forward", "back"]))
    )
    period = setting.period_ns * float(rng.uniform(0.7, 1.4))
    truth = "host" if stage in ("turn", "receive", "send") else "elsewhere"
    if kind.startswith("periodic"):
        period = {"periodic-equal": setting.period_ns, "periodic-near": setting.period_ns * 1.003}.get(
            kind, setting.period_ns * (5**0.5 - 1) / 1.3
        )
        holds = moments(rng, setting, period, float(rng.uniform(0, period)))
    else:
        holds = moments(rng, setting, period)
    lengths = setting.drain_ns * rng.uniform(0.4, 1.2, len(holds))
    if kind == "retries":
        starts = holds + lengths + float(rng.choice([0.0, 200 * MS]))
        starts = starts[starts < setting.seconds * S - 50 * MS]
    if kind == "host-after-burst":  # processing the bursts stalls the host: with the bursts, but in no queue
        holds, lengths = starts, drains * 1.2 / (1 - setting.load)  # and outlasts them
        stage, truth = "receive" if setting.end == "src" else "turn", "host"
    return {stage: (holds, lengths)}, starts, truth


def varied(rng: np.random.Generator) -> Setting:
    """Returns a random setting: link speed, bins, probes, stamps, clocks, burst sizes."""
    link = float(rng.choice([1e9, 10e9, 25e9, 100e9]))
    drain = float(rng.uniform(4, 25)) * MS
    return Setting(
        seconds=float(rng.uniform(12, 25)),
        link_bps=link,
        bin_ns=int(rng.choice([100_000, 100_000, 1_000_000] if link < 1e10 else [20_000, 100_000, 1_000_000])),
        rate=float(rng.choice([300, 1000, 2000])),
        stamps=str(rng.choice(["full", "full", "no-app", "one-way", "rtt"])),
        end=str(rng.choice(["dst", "src"])),
        period_ns=drain * float(rng.uniform(5, 14)),
        periodic=bool(rng.random() < 0.3),
        drain_ns=drain,
        overload=float(rng.uniform(2.5, 30)),
        loss=float(rng.choice([0.0, 0.002, 0.01])),
        skew_ns=float(rng.normal(0, 1e8)),
        drift=float(rng.uniform(-4e-5, 4e-5)),
        load=float(rng.uniform(0.01, 0.4)),
    )


def drawn(kind: str, seed: int) -> Case:
    """Returns the case of a kind in a setting that the seed determines. One-way probes cross only a port at their far
    end."""
    setting = varied(np.random.default_rng([seed, 77]))
    if setting.stamps == "one-way":
        setting = replace(setting, end="dst")
    return build(kind, seed, setting)


KINDS = {
    "bursts": ["incast", "elephant", "some", "drops", "outgoing", "few-probes", "clock-apart", "slower-link", "mixed"],
    "negative": [
        "host",
        "host-after-burst",
        "hop",
        "periodic-equal",
        "periodic-near",
        "periodic-far",
        "retries",
        "harmless",
        "short",
        "too-little",
        "pauses",
        "lost-in-outages",
    ],
}
