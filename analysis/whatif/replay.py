"""Predicts the effect of a change: the recorded bursts are replayed through their port, frame by frame, with the
change.

The probes give the arrival times of the bytes (arriving.py), recorded senders give their origin (moved_senders.py).
Every prediction comes with the model's error on the recorded situation, measured with probes that the model was not
made from. If the recording leaves something open, the prediction has a range; if that is wide, the outcome has the
reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...units import format_share
from ..cause.arriving import ArrivalCurve, FullStretches, curve_of_probes, curve_of_senders, stretches_of
from ..cause.evidence.fifo import waited_here
from ..cause.scene import Evidence, Scene
from ..cause.verdict import queueing_ports
from ..model.lines import correlation
from ..model.stats import Floats, quantiles
from .frames import ByteSpans, QueuedFrames, queued
from .moved_senders import (
    MOST_MEMBERS,
    STILL,
    SenderRows,
    in_waves,
    none_known,
    paced,
    sender_pieces,
    staggered,
    whole_pieces,
)

LEVELS = (0.5, 0.99, 0.999)
NEAR = 0.002  # about p99: this share of probes more or fewer beyond it is within the model's error
ORDERS = 3  # of senders that are tried if their order decides
PACES = (0.93, 1.07)  # factors on the duration of a sender: its arrivals are known about this well
UNSURE = 1.7  # largest over smallest p99: beyond that no value is within a quarter of both
QUARTER = 0.25  # required accuracy of a prediction
LEAST = 10  # probes that met the full port, to fit a model
TOP = 0.95  # of the longest wait: one in twenty probes that meet a filling and draining queue finds it deeper
PLATEAU = 0.15  # of those that meet it, beyond TOP: the buffer is full and drops


@dataclass(frozen=True)
class WhatIfChange:
    """The change against the recorded situation; a field that is not set stays as recorded."""

    name: str
    link_bps: float | None = None
    priority: bool = False  # the probes' class before all others, or on a link of its own
    stagger_ns: float = 0.0  # the senders begin one after the other over this time
    fan_in: int | None = None  # limit of concurrent senders
    buffer_bytes: float | None = None

    @property
    def is_any(self) -> bool:
        return self.moves or self.priority or self.link_bps is not None or self.buffer_bytes is not None

    @property
    def moves(self) -> bool:
        return bool(self.stagger_ns or self.fan_in)


class PredictedLatency(NamedTuple):
    """Latency of the recorded probes under a change: p50, p99, p99.9 in ns of the answered ones, and the share that the
    port drops.

    p99_range: the range that the recording leaves open, ns; None if there is none, or if it is unknown. unsure: the
    reason if the range is too wide for a prediction; else empty.
    """

    change: WhatIfChange
    quantiles_ns: tuple[float | None, ...]
    dropped: float
    slow: float  # share beyond the threshold of the recorded tail, including dropped ones
    p99_range: tuple[float, float] | None = None
    unsure: str = ""


@dataclass(frozen=True)
class Replay:
    """A model of one port that was fitted to the recorded situation.

    arrival_share: of most full stretches, the first part in which their bytes arrive; None if recorded senders show it.
    met: sorted. error_ns, error_high_ns: median and 90th percentile of the absolute error of the predicted wait of n
    late probes that the model was not made from; r: correlation of measured and modelled waits over all probes that met
    the port full. fan_in, known: median number of senders of a stretch, and the share of its bytes with a known sender.
    """

    full: FullStretches
    whole: ByteSpans  # of any sender
    sent: ByteSpans  # by sender
    link_bps: float
    arrival_share: float | None
    met: Floats
    base: Floats  # each probe's latency without its wait at this port
    repeated: Floats  # the latency of probes dropped by the port and repeated by TCP, or behind such a probe; else NaN
    threshold_ns: float
    recorded: PredictedLatency
    error_ns: float
    error_high_ns: float
    relative_error: float
    r: float | None
    n: int
    fan_in: int
    known: float
    lost_bytes: str  # evidence that the recorded port dropped some of the traffic; empty without any
    elsewhere: str  # other ports that may have queued instead; empty without any
    modelled: PredictedLatency = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "modelled", predict(self, WhatIfChange("as recorded")))

    @property
    def peak_bytes(self) -> float:
        """The deepest queue that a probe met, bytes."""
        return float(replay_waits(self).max(initial=0.0)) * self.full.rate

    @property
    def background(self) -> float:
        """Bytes per ns."""
        return self.full.background * self.full.rate

    def speed(self, link_bps: float) -> float:
        """Returns the bytes per ns that a link of this nominal speed carries."""
        return link_bps / self.link_bps * self.full.rate

    def free(self, link_bps: float) -> float:
        """Returns the bytes per ns that such a link leaves to the bursts."""
        return max(self.speed(link_bps) - self.background, 0.02 * self.speed(link_bps))


class FittedArrivals(NamedTuple):
    """Arrivals, the first part of a stretch that contains most of them, and the fitted waits."""

    curve: ArrivalCurve
    share: float | None
    modelled: Floats  # the wait of each probe that the curve was not made from; NaN for the others


def calibrate(scene: Scene, evidence: Evidence, rows: SenderRows | None = None) -> Replay | None:
    """Returns a model of the port with the burst arrivals that the waits of its probes show. None without enough probes
    that met it full.

    rows: the traffic of senders in that time, if it is known.
    """
    crossing, met = evidence.crossing, evidence.met
    if crossing is None or met is None:
        return None
    port, delays, threshold = crossing.port, evidence.queued, evidence.tail.threshold_ns
    full = stretches_of(port)
    answered = np.flatnonzero(np.isfinite(evidence.delays.total) & np.isfinite(met))
    answered = answered[np.argsort(met[answered], kind="stable")]
    every, repeated = evidence.delays.total[answered], evidence.repeats.either[answered]
    known = answered[~repeated]
    at, total = met[known], delays.total[known]
    waited = waited_here(delays, crossing)[known]
    here = np.flatnonzero(full.holding(at) >= 0)
    if len(here) < LEAST or not len(full.begin):
        return None
    fitted = fit_arrivals(full, at[here], waited[here])
    came = scene.arrivals_at(crossing)
    if came is not None:
        by_senders = curve_of_senders(port, full, came)
        waits = np.maximum(by_senders.leaving(at[here]) - at[here], 0)
        own = np.isfinite(fitted.modelled)
        if off(waits, waited[here])[own].mean() <= off(fitted.modelled, waited[here])[own].mean() + port.bin_ns / 2:
            fitted = FittedArrivals(by_senders, None, waits)
    late = np.flatnonzero(np.isfinite(fitted.modelled) & (waited[here] > threshold - evidence.tail.median_ns))
    late = late if len(late) else np.flatnonzero(np.isfinite(fitted.modelled))
    error = off(fitted.modelled, waited[here])[late]
    whole = whole_pieces(full, fitted.curve)
    base = np.full(len(answered), evidence.tail.median_ns)
    base[~repeated] = base_of(full, at, total, waited)
    quiet = port.bins * port.bin_ns - float(full.length.sum())
    sent = sender_pieces(full, fitted.curve, whole, rows if rows is not None else none_known(), quiet)
    lost = int((evidence.tail.late_losses & np.isfinite(met)).sum())
    slow, dropped = (count / (len(every) + lost) for count in (lost + int((every > threshold).sum()), lost))
    return Replay(
        full, whole, sent, port.link_bps, fitted.share, met[answered], base, np.where(repeated, every, np.nan),
        threshold,
        PredictedLatency(WhatIfChange("as recorded"), tuple(quantiles(every, LEVELS)), dropped, slow),
        float(np.median(error)), float(np.quantile(error, 0.9)),
        float(np.median(error / np.maximum(waited[here][late], 1.0))),
        correlation(fitted.modelled[late], waited[here][late]), len(late),
        fan_in_of(sent), float(sent.bytes[sent.sender != STILL].sum() / max(sent.bytes.sum(), 1.0)),
        dropping(scene, evidence, full, at[here], waited[here]),
        " or ".join(other.name for other in queueing_ports(evidence) if other is not port),
    )  # fmt: skip


def dropping(scene: Scene, evidence: Evidence, full: FullStretches, met: Floats, waited: Floats) -> str:
    """Returns the evidence that the recorded port dropped some of the traffic, so that its total is unknown."""
    queue = next((q for c, q in zip(scene.crossings, scene.queues, strict=True) if c is evidence.crossing), None)
    if queue is not None and queue.dropped:
        return "its switch dropped packets"
    if evidence.dropped.any():
        return "probes were dropped by the full port"
    place = full.holding(met)
    longest = float(np.quantile(waited, 0.999))
    top = waited > TOP * longest
    reached = np.unique(place[top])
    among = np.isin(place, reached)
    flat = top.sum() >= LEAST and len(reached) > 2 and top.sum() > PLATEAU * among.sum()
    return "waits end at one depth, as where a full buffer drops" if flat else ""


def off(modelled: Floats, waited: Floats) -> Floats:
    return np.abs(modelled - waited)


def fit_arrivals(full: FullStretches, met: Floats, waited: Floats) -> FittedArrivals:
    """Returns the arrivals by all probes, and the waits of each half of the probes as the other half predicts them."""
    even = np.arange(len(met)) % 2 == 0
    modelled = np.full(len(met), np.nan)
    for part in (even, ~even):
        curve, _ = curve_of_probes(full, met[part], waited[part])
        modelled[~part] = np.maximum(curve.leaving(met[~part]) - met[~part], 0)
    curve, share = curve_of_probes(full, met, waited)
    return FittedArrivals(curve, share, modelled)


def base_of(full: FullStretches, met: Floats, total: Floats, waited: Floats) -> Floats:
    """Returns each probe's latency without its wait in front of the full port. Other delays in that stage cannot be
    separated from the wait; the delays of the probes that met no full port are used for them, one after the other."""
    here = full.holding(met) >= 0
    base = total.copy()
    base[here] -= waited[here]
    beside = waited[~here & np.isfinite(waited)]
    if len(beside):
        base[here] += np.resize(beside, int(here.sum()))
    return base


def fan_in_of(sent: ByteSpans) -> int:
    """Returns the median number of senders of a stretch; 0 if none is known."""
    moving = sent.sender != STILL
    pairs = np.unique(np.column_stack((sent.stretch[moving], sent.sender[moving])), axis=0)
    return int(np.median(np.unique(pairs[:, 0], return_counts=True)[1])) if len(pairs) else 0


def replayed(replay: Replay, pieces: ByteSpans, change: WhatIfChange) -> tuple[Floats, Floats]:
    """Returns the latency of each probe, and its probability of being dropped."""
    if change.priority:
        return replay.base, np.zeros(len(replay.base))
    link = change.link_bps or replay.link_bps
    port = queued(pieces, replay.free(link), change.buffer_bytes or np.inf)
    total = replay.base + wait_behind(replay, port, link)
    return total if may_drop_less(replay, change) else as_repeated(replay, total), port.loss(replay.met)


def wait_behind(replay: Replay, port: QueuedFrames, link_bps: float) -> Floats:
    """Returns how long each probe waits behind the queue: bursts get what the background leaves of the link, but the
    bytes before a probe get all of it."""
    return port.wait(replay.met) * (replay.free(link_bps) / replay.speed(link_bps))


def may_drop_less(replay: Replay, change: WhatIfChange) -> bool:
    """Returns whether bytes that the recorded port dropped may find room under a change."""
    return (change.link_bps or 0.0) > replay.link_bps or change.moves or deepens(replay, change)


def deepens(replay: Replay, change: WhatIfChange) -> bool:
    """Returns whether the buffer becomes larger than the recorded situation needed."""
    return change.buffer_bytes is not None and change.buffer_bytes > replay.peak_bytes


def as_repeated(replay: Replay, total: Floats) -> Floats:
    """Returns the latencies; those of dropped and repeated probes are as recorded."""
    return np.where(np.isnan(replay.repeated), total, replay.repeated)


def moved(replay: Replay, pieces: ByteSpans, change: WhatIfChange, rng: np.random.Generator | None = None) -> ByteSpans:
    """Returns the bytes of the senders under a change."""
    if change.fan_in:
        speed = replay.speed(change.link_bps or replay.link_bps)
        pieces = in_waves(pieces, change.fan_in, (speed, replay.background), rng)
    return staggered(pieces, change.stagger_ns, rng) if change.stagger_ns else pieces


def predict(replay: Replay, change: WhatIfChange) -> PredictedLatency:
    """Returns the latency of the probes under a change, and its uncertainty."""
    pieces = moved(replay, replay.sent, change) if change.moves else replay.whole
    total, lost = replayed(replay, pieces, change)
    late = int(np.count_nonzero(total > replay.threshold_ns)) + float(lost[total <= replay.threshold_ns].sum())
    outcome = PredictedLatency(
        change, tuple(quantiles(total, LEVELS)), float(lost.sum()) / len(total), late / len(total), near_p99(total)
    )
    return with_doubts(replay, outcome)


def near_p99(total: Floats) -> tuple[float, float]:
    """Returns the range of p99 if a few more or fewer probes were beyond it."""
    low, high = quantiles(total, (0.99 - NEAR, 0.99 + NEAR))
    return float(low or 0.0), float(high or 0.0)


def with_doubts(replay: Replay, outcome: PredictedLatency) -> PredictedLatency:
    """Returns the outcome with the range that the recording leaves open."""
    assert outcome.p99_range is not None
    change, (low, high), predicted = outcome.change, outcome.p99_range, outcome.quantiles_ns[1] or 0.0
    others = [near_p99(replayed(replay, pieces, change)[0]) for pieces in possible(replay, change)]
    low, high = min([low, *(span[0] for span in others)]), max([high, *(span[1] for span in others)])
    most = hidden(replay, change)
    high = max(high, most)
    wide = high > UNSURE * max(low, 1.0) or predicted < (1 - QUARTER) * most
    why = why_unsure(replay, change, most > 0) if wide else ""
    if replay.elsewhere and change.is_any:
        recorded = replay.recorded.quantiles_ns[1] or 0.0
        low, high = min(low, recorded), max(high, recorded)
        why = f"the queue may have been at {replay.elsewhere}, where it would not change"
    return outcome._replace(p99_range=(low, high), unsure=why)


def hidden(replay: Replay, change: WhatIfChange) -> float:
    """Returns an upper bound for p99 if the recorded port dropped some of the traffic: its own queue on the changed
    link, with as much repeated; infinite if more than that fits the buffer. 0 if it dropped nothing."""
    deeper = deepens(replay, change)
    if not replay.lost_bytes or not (change.link_bps or change.moves or deeper):
        return 0.0
    slower = replay.link_bps / (change.link_bps or replay.link_bps)
    return np.inf if deeper else near_p99(as_repeated(replay, replay.base + replay_waits(replay) * slower))[1]


def why_unsure(replay: Replay, change: WhatIfChange, dropped: bool) -> str:
    """Returns why the range is wide."""
    if dropped:
        return f"it is not known how much came ({replay.lost_bytes})"
    if change.moves and replay.known < 0.9:
        return f"it is not known who sent {format_share(1 - replay.known)} of the bytes"
    if change.moves:
        return "it depends on which senders begin first, and how fast exactly they send"
    return "p99 lies at the edge of what waits"


def replay_waits(replay: Replay) -> Floats:
    """Returns the modelled wait of each probe in the recorded situation, ns."""
    return wait_behind(replay, queued(replay.whole, replay.free(replay.link_bps)), replay.link_bps)


def possible(replay: Replay, change: WhatIfChange) -> list[ByteSpans]:
    """Returns other possible bytes of the senders under a change: in other orders, somewhat faster or slower, and with
    one or many senders if they are unknown. A faster link still has a queue if the bursts are faster yet."""
    if not change.moves:
        return [paced(replay.whole, factor) for factor in PACES] if change.link_bps else []
    rng = np.random.default_rng(1)
    found = [moved(replay, replay.sent, change, rng) for _ in range(ORDERS)]
    found += [moved(replay, paced(replay.sent, factor), change) for factor in PACES]
    if replay.known < 0.99:
        found.append(moved(replay, in_parts(replay.sent), change, rng))
    return found


def in_parts(sent: ByteSpans) -> ByteSpans:
    """Returns the bytes of unknown senders as those of many equal ones."""
    still = np.flatnonzero(sent.sender == STILL)
    count = np.where(sent.sender == STILL, MOST_MEMBERS, 1)
    place = np.repeat(np.arange(len(count)), count)
    sender = sent.sender[place]
    sender[sender == STILL] = -2 - np.tile(np.arange(MOST_MEMBERS), len(still))
    return sent.take(place)._replace(sender=sender, bytes=(sent.bytes / count)[place])


def what_if(replay: Replay, changes: list[WhatIfChange]) -> list[PredictedLatency]:
    """Returns the predicted outcome of each change."""
    return [predict(replay, change) for change in changes]


def usual_changes(replay: Replay) -> list[WhatIfChange]:
    """Returns the usual changes for an incast, with sizes from the recording: a link of 2.5 and 10 times the speed, a
    class or link of its own, senders spread over twice the drain time of the median burst, half and a quarter of the
    senders, half the queue."""
    link = replay.link_bps
    drain = float(np.median(replay.full.length))
    changes = [
        WhatIfChange("link 2.5 times as fast", link_bps=2.5 * link),
        WhatIfChange("link 10 times as fast", link_bps=10 * link),
        WhatIfChange("strict priority or a separate link for the probes' class", priority=True),
        WhatIfChange("senders staggered over twice the time that a burst takes", stagger_ns=2 * drain),
    ]
    for part in (2, 4):
        if replay.fan_in >= 2 * part:
            changes.append(
                WhatIfChange(f"at most {replay.fan_in // part} senders at once", fan_in=replay.fan_in // part)
            )
    return [*changes, WhatIfChange("half the buffer that the bursts filled", buffer_bytes=replay.peak_bytes / 2)]


def together(changes: list[WhatIfChange]) -> WhatIfChange:
    """Returns several changes as one."""
    usual, merged = vars(WhatIfChange("")), WhatIfChange("all of these")
    for change in changes:
        different = {name: value for name, value in vars(change).items() if name != "name" and value != usual[name]}
        merged = replace(merged, **different)
    return merged
