"""Fluid models of a port: how deep its queue was, and how deep it would have been.

A receiver sees departures only: the recorded busy periods give the bytes, and how fast they came is the one unknown.
Where the senders were recorded too, their outgoing bins tell it (arrivals.py); else it is fitted to the measured
delays. The model's error on the recorded situation stands before every prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrivals import Arrivals
from .evidence import Evidence, Scene
from .fifo import waited_here
from .port import Port
from .stats import Fit, Floats, correlation, fit, quantiles, runs
from .switch_word import Queue

LEVELS = (0.5, 0.99, 0.999)
SPEEDS = np.concatenate(
    (np.geomspace(0.01, 0.5, 18), np.linspace(0.55, 1.0, 10))
)  # of a busy period in which it arrives
SAMPLE = 5000  # probes that a model is fitted to


class Prediction(NamedTuple):
    """The queue that the senders' bins predict, against the windows that the switch told (bytes on bytes)."""

    senders: int
    peak_bytes: float
    against_switch: Fit | None


class Load(NamedTuple):
    """What comes to a port: volumes that each arrive evenly over a time. Sorted by start; ns and bytes."""

    start: Floats
    length: Floats  # over which it arrives
    bytes: Floats
    background_bps: float  # what else the link carries
    fan_in: Floats  # senders of each


class Backlog(NamedTuple):
    """Bytes in the queue, linear between breakpoints; `lost`: share of what arrives after each breakpoint that is
    dropped."""

    time: Floats
    bytes: Floats
    lost: Floats

    def at(self, time: Floats) -> Floats:
        return np.interp(time, self.time, self.bytes) if len(self.time) else np.zeros(len(time))

    def drops_at(self, time: Floats) -> Floats:
        place = np.searchsorted(self.time, time, side="right") - 1
        return np.where(place >= 0, self.lost[np.maximum(place, 0)], 0.0) if len(self.time) else np.zeros(len(time))


@dataclass(frozen=True)
class Change:
    """What is changed against the recorded situation; as it was where nothing is said."""

    name: str
    link_bps: float | None = None
    priority: bool = False  # the probes' class before all others, or on a link of its own
    stagger_ns: float = 0.0  # the senders begin one after the other over this time
    fan_in: int | None = None  # at most so many senders at once
    buffer_bytes: float | None = None


class Outcome(NamedTuple):
    """Latency of the recorded probes under a change: p50, p99, p99.9 in ns, and the share dropped."""

    change: Change
    quantiles_ns: tuple[float | None, ...]
    dropped: float
    slow: float  # share beyond the threshold of the recorded tail, dropped ones included


@dataclass(frozen=True)
class Replay:
    """A model of one port that was fitted to the recorded situation.

    arrival_share: of each busy period, in which its bytes arrive; None where recorded senders told. met: sorted.
    error_ns, error_high_ns: median and 90th percentile of the absolute error of the predicted wait of n late probes;
    r: of the waits of all that met the port full, measured against modelled.
    """

    load: Load
    link_bps: float
    arrival_share: float | None
    met: Floats
    base: Floats  # each probe's latency without its wait at this port
    threshold_ns: float
    recorded: Outcome
    modelled: Outcome
    error_ns: float
    error_high_ns: float
    relative_error: float
    r: float | None
    n: int


def lindley(load: Load, link_bps: float, buffer_bytes: float = np.inf) -> Backlog:
    """The backlog of a FIFO port with drop tail (Lindley 1952, as a fluid), exact at and between its breakpoints."""
    length = np.maximum(load.length, 1.0)
    edge = np.concatenate((load.start, load.start + length))
    order = np.argsort(edge, kind="stable")
    edge = edge[order]
    arriving = np.maximum(np.cumsum(np.concatenate((load.bytes / length, -load.bytes / length))[order]), 0.0)
    arriving[-1:] = 0.0  # what is left of adding and taking away
    drain = max(link_bps - load.background_bps, 0.02 * link_bps) / 8e9
    if np.isinf(buffer_bytes):
        return endless(edge, arriving, drain)
    return drop_tail(edge, arriving, drain, buffer_bytes)


def endless(edge: Floats, arriving: Floats, drain: float) -> Backlog:
    """Without a limit: the net input less its running minimum."""
    change = (arriving - drain) * np.diff(edge, append=edge[-1:])
    net = np.concatenate(([0.0], np.cumsum(change)[:-1])) if len(edge) else edge
    level = net - np.minimum.accumulate(net)
    span = np.diff(edge, append=np.inf)
    empty = np.where(arriving < drain, level / np.maximum(drain - arriving, 1e-12), np.inf)
    emptied = (level > 0) & (empty < span)
    time = np.concatenate((edge, edge[emptied] + empty[emptied]))
    order = np.argsort(time, kind="stable")
    backlog = np.concatenate((level, np.zeros(int(emptied.sum()))))[order]
    return Backlog(time[order], backlog, np.zeros(len(time)))


def drop_tail(edge: Floats, arriving: Floats, drain: float, limit: float) -> Backlog:
    """With a limit, which has no closed form: one breakpoint after the other."""
    time, level, lost = [], [], []
    now = 0.0
    for at, rate, until in zip(edge.tolist(), arriving.tolist(), [*edge[1:].tolist(), np.inf], strict=True):
        slope = rate - drain
        end = now + slope * (until - at) if slope else now
        full = slope > 0 and end > limit
        time.append(at)
        level.append(now)
        lost.append(slope / rate if full and now >= limit else 0.0)
        if full and now < limit:
            time.append(at + (limit - now) / slope)
            level.append(limit)
            lost.append(slope / rate)
        elif now > 0 and end < 0:
            time.append(at - now / slope)
            level.append(0.0)
            lost.append(0.0)
        now = min(max(end, 0.0), limit)
    return Backlog(np.array(time), np.array(level), np.array(lost))


def load_of(port: Port, arrival_share: float, fan_in: tuple[Floats, Floats, Floats] | None = None) -> Load:
    """The port's busy periods, each arriving evenly over `arrival_share` of it; the rest is background.

    fan_in: begin, end (ns) and fan-in of bursts, for the number of senders of each busy period (1 where none overlaps).
    """
    first, last = port.busy_periods()
    volume = port.carried_before(last) - port.carried_before(first)
    begin, end = port.time(first), port.time(np.maximum(last - 1e-9, first))
    quiet_bins = port.bins - float((last - first).sum())
    rest = float(port.carried[-1]) - float(volume.sum())
    background = rest * 8e9 / (quiet_bins * port.bin_ns) if quiet_bins > 0 else 0.0
    senders = np.ones(len(begin))
    if fan_in is not None and len(fan_in[0]):
        at = np.clip(np.searchsorted(fan_in[0], begin + port.bin_ns, side="right") - 1, 0, None)
        senders = np.where(fan_in[1][at] >= begin, fan_in[2][at], 1.0)
    # What the background would have carried meanwhile anyway is not the burst's.
    own = np.maximum(volume - background / 8e9 * (end - begin), 0)
    return Load(begin, (end - begin) * arrival_share, own, min(background, port.link_bps), np.maximum(senders, 1))


def changed(load: Load, change: Change, link_bps: float) -> Load:
    """The load under a change of the senders' behaviour."""
    length = load.length + change.stagger_ns
    if change.fan_in is None:
        return load._replace(length=length)
    # Fewer at once: the same volume in waves, each of which begins when the one before has been carried.
    waves = np.ceil(load.fan_in / change.fan_in).astype(int)
    index = np.repeat(np.arange(len(waves)), waves)
    turn = np.arange(len(index)) - np.repeat(np.cumsum(waves) - waves, waves)
    volume = (load.bytes / waves)[index]
    free = max(link_bps - load.background_bps, 0.02 * link_bps)
    step = np.maximum(volume * 8e9 / free, (length / waves)[index])
    start = load.start[index] + turn * step
    order = np.argsort(start, kind="stable")
    return Load(
        start[order], (length / waves)[index][order], volume[order], load.background_bps, load.fan_in[index][order]
    )


def predict(met: Floats, base: Floats, load: Load, link_bps: float, threshold: float, change: Change) -> Outcome:
    """What the probes would have met. met: when each would come to the port, sorted; base: latency but for its wait."""
    speed = change.link_bps or link_bps
    total: Floats = base
    lost: Floats = np.zeros(0)
    rows = np.zeros(0, dtype=np.int64)
    if not change.priority:
        backlog = lindley(changed(load, change, speed), speed, change.buffer_bytes or np.inf)
        rows = meeting(backlog, met)
        total = base.copy()
        total[rows] += backlog.at(met[rows]) * 8e9 / speed
        lost = backlog.drops_at(met[rows])
    if not len(total):
        return Outcome(change, (None,) * len(LEVELS), 0.0, 0.0)
    late = int(np.count_nonzero(total > threshold)) + float(lost[total[rows] <= threshold].sum())
    return Outcome(change, tuple(quantiles(total, LEVELS)), float(lost.sum()) / len(total), late / len(total))


def meeting(backlog: Backlog, met: Floats) -> NDArray[np.int64]:
    """Which of sorted times lie between breakpoints where something waits or is dropped."""
    waiting = (backlog.bytes > 0) | (backlog.lost > 0)
    first, last = runs(waiting)
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    begin = np.searchsorted(met, backlog.time[np.maximum(first - 1, 0)], side="left")
    end = np.searchsorted(met, np.append(backlog.time, np.inf)[last], side="right")
    # Neighbouring stretches may share their ends.
    begin[1:] = np.maximum(begin[1:], np.maximum.accumulate(end)[:-1])
    spans = [np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True) if b > a]
    return np.concatenate([np.zeros(0, dtype=np.int64), *spans])


def calibrate(scene: Scene, evidence: Evidence, fan_in: tuple[Floats, Floats, Floats] | None) -> Replay | None:
    """A model of the port whose bursts come as fast as its probes' waits say. None without probes that met it full.

    One parameter, the share of a busy period in which its bytes arrive, chosen by the least absolute error; where the
    senders were recorded, what they say of each busy period instead, unless it fits worse by more than half a bin.
    """
    crossing, met, full = evidence.crossing, evidence.met, evidence.full_ns
    if crossing is None or met is None or full is None:
        return None
    port, delays = crossing.port, evidence.delays
    waited = waited_here(delays, crossing)
    busy = np.flatnonzero((full > 0) & np.isfinite(waited))
    if len(busy) < 10:
        return None
    sample = busy[np.linspace(0, len(busy) - 1, min(len(busy), SAMPLE)).astype(int)]

    def modelled(load: Load) -> Floats:
        return lindley(load, port.link_bps).at(met[sample]) * 8e9 / port.link_bps

    whole = load_of(port, 1.0, fan_in)
    choices = [whole._replace(length=whole.length * share) for share in SPEEDS]
    errors = [float(np.abs(modelled(load) - waited[sample]).mean()) for load in choices]
    share: float | None = float(SPEEDS[int(np.argmin(errors))])
    load = choices[int(np.argmin(errors))]
    came = scene.arrivals_at(crossing)
    if came is not None:
        told = whole._replace(length=arrival_times(port, came, whole.background_bps))
        if float(np.abs(modelled(told) - waited[sample]).mean()) <= min(errors) + port.bin_ns / 2:
            share, load = None, told
    model = modelled(load)
    error = np.abs(model - waited[sample])
    late = waited[sample] > evidence.tail.threshold_ns - evidence.tail.median_ns
    judged = late if late.any() else np.ones(len(sample), dtype=bool)
    relative = error[judged] / np.maximum(waited[sample][judged], 1.0)
    base = delays.total - waited
    known = np.flatnonzero(np.isfinite(base) & np.isfinite(met))
    known = known[np.argsort(met[known], kind="stable")]
    threshold, as_is = evidence.tail.threshold_ns, Change("as recorded")
    seen = delays.total[np.isfinite(delays.total)]
    return Replay(
        load,
        port.link_bps,
        share,
        met[known],
        base[known],
        threshold,
        Outcome(as_is, tuple(quantiles(seen, LEVELS)), 0.0, float((seen > threshold).mean())),
        predict(met[known], base[known], load, port.link_bps, threshold, as_is),
        float(np.median(error[judged])),
        float(np.quantile(error[judged], 0.9)),
        float(np.median(relative)),
        correlation(model, waited[sample]),
        int(judged.sum()),
    )


def arrival_times(port: Port, came: Arrivals, background_bps: float) -> Floats:
    """How long the bytes of each busy period took to arrive, ns: twice the mean time after its begin at which they
    came, as if they came evenly. The background comes all the time, and is left out."""
    first, last = port.busy_periods()
    own = came.bytes - background_bps / 8e9 * port.bin_ns
    total = np.concatenate(([0.0], np.cumsum(own)))
    moment = np.concatenate(([0.0], np.cumsum(own * (np.arange(port.bins) + 0.5))))
    low, high = np.maximum(first - 1, 0).astype(np.int64), last.astype(np.int64)
    volume = np.maximum(total[high] - total[low], 1e-9)
    mean: Floats = (moment[high] - moment[low]) / volume - first
    return np.clip(2 * mean, 1.0, last - first) * port.bin_ns


def what_if(replay: Replay, changes: list[Change]) -> list[Outcome]:
    """The predicted outcome of each change."""
    return [
        predict(replay.met, replay.base, replay.load, replay.link_bps, replay.threshold_ns, change)
        for change in changes
    ]


def usual_changes(replay: Replay) -> list[Change]:
    """What is worth asking of any incast, with sizes from the recording: a link of 2.5 and 10 times the speed, a class
    or link of its own, senders over twice the median burst's drain, half and a quarter of the senders, half the
    queue."""
    load, link = replay.load, replay.link_bps
    if len(load.bytes) == 0:
        return []
    drain = float(np.median(load.bytes)) * 8e9 / link
    senders = int(np.median(load.fan_in))
    peak = float(lindley(load, link).bytes.max(initial=0.0))
    changes = [
        Change("link 2.5 times as fast", link_bps=2.5 * link),
        Change("link 10 times as fast", link_bps=10 * link),
        Change("strict priority or a separate link for the probes' class", priority=True),
        Change("senders staggered over twice the time that a burst takes", stagger_ns=2 * drain),
    ]
    for part in (2, 4):
        if senders >= 2 * part:
            changes.append(Change(f"at most {senders // part} senders at once", fan_in=senders // part))
    return [*changes, Change("half the buffer that the bursts filled", buffer_bytes=peak / 2)]


def predicted(port: Port, came: Arrivals, windows: Queue | None) -> Prediction:
    """The queue that the senders' bytes predict, against the switch's windows of it."""
    line = None
    if windows is not None and len(windows.end):
        edges = port.time(np.arange(port.bins, dtype=float))
        first, last = np.searchsorted(edges, windows.start), np.searchsorted(edges, windows.end)
        whole = last > first
        peaks = np.array([came.backlog[a:b].max() for a, b in zip(first[whole], last[whole], strict=True)])
        line = fit(peaks, windows.max_bytes[whole]) if len(peaks) else None
    return Prediction(came.senders, float(came.backlog.max(initial=0.0)), line)
