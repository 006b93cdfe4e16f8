"""Compares two situations: before and after a change, one path and another, TCP and RoCE.

Latencies are compared by percentile. The ratio B / A has a 95 % interval from a block bootstrap: neighbouring probes
meet the same queue, so whole blocks of time are drawn, not single probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...units import NS_PER_MINUTE
from ..bursts.find import BurstDefinition, find_bursts
from ..model import coverage
from ..model.distributions import quantile
from ..model.envelope import Interval, merge_intervals
from ..model.stats import Estimate, Floats, block_bootstrap, poisson, wilson
from ..whatif.tail_at_scale import slow_requests
from .paths import LEVELS, ProbeSelection, read_met

if TYPE_CHECKING:
    import duckdb

WIDTHS = (1, 10, 100, 500, 1000)
ROUNDS = 400
LEAST_BLOCKS = 8  # with fewer blocks, an interval would claim more than the time can show
BLOCKS = 60
SHORTEST_BLOCK_NS = 100e6  # longer than the queue of a burst takes to drain
LEAST_DIFFERENCE = 0.05  # of a percentile: a smaller difference counts as alike, even if it is significant
_MOST_SAMPLED = 200_000
_LANE = ("rack", "host", "interface", "direction")


@dataclass(frozen=True)
class SituationLatency:
    """The probes of a situation.

    values: the known latencies, ns. blocks: the block of time of each value. sent, lost: the probes sent on these
    paths, and those lost. measures: the measures of the values, sorted. span: the Unix times (ns) of the first and the
    last probe."""

    values: Floats
    blocks: NDArray[np.int64]
    sent: int
    lost: int
    measures: tuple[str, ...] = ()
    span: tuple[int, int] | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def loss(self) -> float:
        return self.lost / self.sent


@dataclass(frozen=True)
class ComparedPercentile:
    """A percentile of A and of B, ns, and the ratio B / A. A value is None if there are too few probes for it."""

    share: float
    a: float | None
    b: float | None
    ratio: Estimate | None


@dataclass(frozen=True)
class BurstSummary:
    """Bursts of a situation.

    count: bursts as listed. in_bursts_ns: of the recorded time. per_minute: rate of bursts; a burst that several
    recordings have counts once. The interval comes from a block bootstrap, which keeps bursts that come together in one
    block. directions: of the lanes, sorted."""

    count: int
    recorded_ns: int
    in_bursts_ns: int
    per_minute: Estimate
    directions: tuple[str, ...] = ()

    @property
    def share_of_time(self) -> float:
        return self.in_bursts_ns / self.recorded_ns


@dataclass(frozen=True)
class FanOutShares:
    """The share of requests with `width` answers that wait for at least one answer that is lost or above the
    threshold."""

    width: int
    a: float
    b: float


@dataclass(frozen=True)
class Comparison:
    """Both situations. `verdict` says whether B is better, worse, alike or undetermined. `decided_by` is a percentile
    such as p99, or loss, bursts or empty."""

    a: SituationLatency
    b: SituationLatency
    levels: list[ComparedPercentile]
    threshold_ns: float
    fans: list[FanOutShares]
    bursts_a: BurstSummary | None
    bursts_b: BurstSummary | None
    verdict: str
    decided_by: str


def read_latency(
    con: duckdb.DuckDBPyConnection, selection: ProbeSelection, measure: str | None = None
) -> SituationLatency:
    """Returns the latencies of the selected probes by MEASURE (one of paths.MEASURES), or each path's by its own
    measure if MEASURE is None. Paths that have answers, but none with that measure, are left out. All paths share the
    same blocks of time, because probes that wait in one queue have to be drawn together."""
    of_path = [(met, met.values[measure] if measure else met.latency) for met in read_met(con, selection)]
    taken = [
        (met, latency, known)
        for met, latency in of_path
        if (known := np.isfinite(latency)).any() or measure is None or met.lost == met.sent
    ]
    if not taken:
        return SituationLatency(np.zeros(0), np.zeros(0, np.int64), 0, 0)
    spans = merge_intervals([(met.start_ns, met.end_ns) for met, _, _ in taken])
    length = max(SHORTEST_BLOCK_NS, coverage.length(spans) / BLOCKS)
    start_ns, end_ns = spans[0][0], spans[-1][1]
    return SituationLatency(
        np.concatenate([latency[known] for _, latency, known in taken]),
        np.concatenate([((met.tx + (met.start_ns - start_ns)) // length).astype(np.int64)[of] for met, _, of in taken]),
        sum(met.sent for met, _, _ in taken),
        sum(met.lost for met, _, _ in taken),
        tuple(sorted({measure or met.measure for met, _, known in taken if known.any()})),
        (start_ns, end_ns),
    )


def compare(
    a: SituationLatency,
    b: SituationLatency,
    threshold_ns: float | None,
    bursts_a: BurstSummary | None,
    bursts_b: BurstSummary | None,
    seed: int = 1,
) -> Comparison:
    """Returns the comparison. `threshold_ns` is the limit above which an answer of a fan-out is slow; by default the
    p99 of A, so that one in a hundred of its answers is slow."""
    rng = np.random.default_rng(seed)
    levels = _levels(a, b, rng)
    if threshold_ns is None:
        threshold_ns = next(
            (level.a for level in levels if level.share == 0.99 and level.a is not None),
            float(a.values.max()) if a.n else 0.0,
        )
    fans = [
        FanOutShares(x.width, x.share, y.share)
        for x, y in zip(
            slow_requests(_slow(a, threshold_ns), WIDTHS), slow_requests(_slow(b, threshold_ns), WIDTHS), strict=True
        )
    ]
    verdict, decided_by = _verdict(a, b, levels, bursts_a, bursts_b)
    return Comparison(a, b, levels, threshold_ns, fans if a.n and b.n else [], bursts_a, bursts_b, verdict, decided_by)


def _slow(latency: SituationLatency, threshold_ns: float) -> float:
    """Returns the share of probes that are lost or slower than the threshold. The answered probes with a known latency
    stand for all answered probes."""
    lost = latency.lost / max(latency.sent, 1)
    return lost + (1 - lost) * float((latency.values > threshold_ns).mean()) if latency.n else lost


def _levels(a: SituationLatency, b: SituationLatency, rng: np.random.Generator) -> list[ComparedPercentile]:
    ordered_a, ordered_b = np.sort(a.values), np.sort(b.values)
    drawn_a, drawn_b = resampled(a, LEVELS, rng), resampled(b, LEVELS, rng)
    found = []
    for place, share in enumerate(LEVELS):
        first, second = quantile(ordered_a, share), quantile(ordered_b, share)
        ratio = None
        if first is not None and first > 0 and second is not None and drawn_a is not None and drawn_b is not None:
            low, high = np.quantile(drawn_b[:, place] / np.maximum(drawn_a[:, place], 1.0), [0.025, 0.975])
            ratio = Estimate(second / first, float(low), float(high), min(a.n, b.n))
        found.append(ComparedPercentile(share, first, second, ratio))
    return found


def resampled(latency: SituationLatency, shares: Sequence[float], rng: np.random.Generator) -> Floats | None:
    """Returns the percentiles of ROUNDS samples of whole blocks, drawn with replacement, one row each; None with fewer
    than LEAST_BLOCKS.

    The percentile of a sample is that of the values weighted by how often their block was drawn."""
    values, blocks = latency.values, latency.blocks
    if len(values) > _MOST_SAMPLED:  # evenly thinned: an interval needs no more
        kept = np.linspace(0, len(values) - 1, _MOST_SAMPLED).astype(np.int64)
        values, blocks = values[kept], blocks[kept]
    _, block = np.unique(blocks, return_inverse=True)
    count = int(block.max()) + 1 if len(block) else 0
    if count < LEAST_BLOCKS:
        return None
    order = np.argsort(values, kind="stable")
    values, block = values[order], block[order]
    found = np.empty((ROUNDS, len(shares)))
    for turn in range(ROUNDS):
        reached = np.cumsum(rng.multinomial(count, np.full(count, 1 / count))[block])
        places = np.searchsorted(reached, np.asarray(shares) * reached[-1])
        found[turn] = values[np.minimum(places, len(values) - 1)]
    return found


def read_bursts(
    con: duckdb.DuckDBPyConnection,
    definition: BurstDefinition,
    *,
    hosts: Sequence[str] | None,
    rack: str | None,
    interface: str | None,
    direction: str | None,
    since_ns: int | None,
    until_ns: int | None,
) -> BurstSummary | None:
    """Returns the bursts of all matching recordings together; None if nothing was recorded. Raises the errors of
    find_bursts."""
    bursts = find_bursts(
        con,
        definition,
        hosts=hosts,
        rack=rack,
        interface=interface,
        direction=direction,
        since_ns=since_ns,
        until_ns=until_ns,
    )
    known = coverage.by_epoch(con, since_ns, until_ns)
    recordings: dict[tuple[str, ...], list[str]] = {}
    for *lane, recording in con.execute(f"SELECT {', '.join(_LANE)}, recording_id FROM lanes").fetchall():
        recordings.setdefault(tuple(lane), []).append(recording)
    of_recording = coverage.by_recording(known)
    merged = {lane: coverage.covered(of_recording, of) for lane, of in recordings.items()}
    recorded = sum(coverage.length(found) for found in merged.values())
    if not recorded:
        return None
    taken = _by_lane(bursts)
    own = coverage.by_recording(coverage.in_bursts(bursts, known))
    within = sum(coverage.length(coverage.covered(own, of)) for of in recordings.values())
    directions = tuple(sorted({lane[_LANE.index("direction")] for lane, spans in merged.items() if spans}))
    return BurstSummary(len(bursts), recorded, within, _per_minute(merged, taken, recorded), directions)


def _by_lane(bursts: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], list[Interval]]:
    """Returns the times of the bursts of each lane, ascending. Overlapping bursts of several recordings of a lane are
    merged into one."""
    found: dict[tuple[str, ...], list[Interval]] = {}
    for burst in sorted(bursts, key=lambda burst: int(burst["start_ns"])):
        spans = found.setdefault(tuple(burst[name] for name in _LANE), [])
        start, end = burst["start_ns"], burst["end_ns"]
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return found


def _per_minute(
    spans: dict[tuple[str, ...], list[Interval]], bursts: dict[tuple[str, ...], list[Interval]], recorded_ns: int
) -> Estimate:
    """Returns the bursts per minute. The interval is the wider of two: a block bootstrap over the recorded time, and
    the interval for bursts that come independently. The bootstrap alone is too narrow if all blocks have equally many
    bursts, or none."""
    rows: list[tuple[float, float]] = []
    for lane, found in spans.items():
        starts = _begins([start for start, _ in bursts.get(lane, ())], found)
        for begin, end in found:
            edges = np.linspace(begin, end, BLOCKS + 1).astype(np.int64)
            held = np.diff(np.searchsorted(starts, edges))
            rows += [(float(n), float(span)) for n, span in zip(held, np.diff(edges), strict=True)]

    def rate(totals: Floats) -> Floats:
        return totals[:, 0] / np.maximum(totals[:, 1], 1) * NS_PER_MINUTE

    count, minutes = sum(map(len, bursts.values())), recorded_ns / NS_PER_MINUTE
    least, most = poisson(count)
    low, high = block_bootstrap(np.array(rows), rate, 2000, np.random.default_rng(1))
    return Estimate(count / minutes, min(least / minutes, low), max(most / minutes, high), count)


def _begins(starts: Sequence[int], recorded: Sequence[Interval]) -> NDArray[np.int64]:
    """Returns when bursts were first recorded: one of wide bins can begin before the recording. Without recorded time,
    returns their starts."""
    if not recorded:
        return np.asarray(starts, np.int64)
    begins, ends = (np.array([span[edge] for span in recorded], np.int64) for edge in (0, 1))
    of = np.asarray(starts, np.int64)
    return np.maximum(of, begins[np.minimum(np.searchsorted(ends, of, side="right"), len(begins) - 1)])


def _verdict(
    a: SituationLatency,
    b: SituationLatency,
    levels: list[ComparedPercentile],
    bursts_a: BurstSummary | None,
    bursts_b: BurstSummary | None,
) -> tuple[str, str]:
    """Returns (verdict, what decided it) for B. The first significantly different percentile from p99 up decides, then
    the median, then loss; without latencies, the number of bursts decides. The verdict is undetermined if percentiles
    from p99 up contradict each other, or if latency contradicts loss."""
    known = [level for level in levels if level.ratio is not None]
    if not known:
        if bursts_a is None or bursts_b is None:
            return "undetermined", ""
        fewer = bursts_b.per_minute.high < bursts_a.per_minute.low
        more = bursts_a.per_minute.high < bursts_b.per_minute.low
        return ("better" if fewer else "worse" if more else "alike"), "bursts"
    tail = [(_sign(level), level) for level in known if level.share >= 0.99 and _sign(level)]
    middle = [(_sign(level), level) for level in known if level.share == 0.5 and _sign(level)]
    found = [(sign, f"p{100 * level.share:g}") for sign, level in tail or middle]
    loss = _loss_sign(a, b)
    signs = {sign for sign, _ in found} | ({loss} if loss else set())
    if not signs:
        return "alike", ""
    decided = found[0][1] if found else "loss"
    return ("undetermined" if len(signs) > 1 else "better" if signs == {-1} else "worse"), decided


def _sign(level: ComparedPercentile) -> int:
    """Returns 1 if B / A is significantly above 1, -1 if significantly below, 0 if undetermined or negligible."""
    ratio = level.ratio
    if ratio is None or abs(ratio.value - 1) < LEAST_DIFFERENCE:
        return 0
    return 1 if ratio.low > 1 else -1 if ratio.high < 1 else 0


def _loss_sign(a: SituationLatency, b: SituationLatency) -> int:
    """Returns 1 if B loses significantly more, -1 if it loses significantly less (disjoint 95 % intervals), else 0."""
    first, second = wilson(a.lost, a.sent), wilson(b.lost, b.sent)
    return 1 if second[0] > first[1] else -1 if second[1] < first[0] else 0
