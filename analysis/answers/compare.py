"""Two situations side by side: before and after a change, one path and another, TCP and RoCE.

Latencies are compared by percentile, with the ratio B / A and a 95 % interval of it from a block bootstrap:
neighbouring probes meet the same queue, so whole blocks of time are drawn and not single probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..bursts.find import BurstDefinition, find_bursts
from ..model import coverage
from ..model.distributions import quantile
from ..model.envelope import merge_intervals
from ..model.stats import Estimate, Floats, block_bootstrap, poisson, wilson
from ..whatif.tail_at_scale import slow_requests
from .paths import ProbeSelection, read_met

if TYPE_CHECKING:
    import duckdb

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
WIDTHS = (1, 10, 100, 500, 1000)
ROUNDS = 400
LEAST_BLOCKS = 8  # with fewer, an interval would claim more than the time can show
BLOCKS = 60
SHORTEST_BLOCK_NS = 100e6  # longer than the queue of a burst takes to drain
LEAST_DIFFERENCE = 0.05  # of a percentile: what is surely there, but smaller, is alike
_MOST_SAMPLED = 200_000


@dataclass(frozen=True)
class SituationLatency:
    """The probes of a situation: what each met (ns, lost ones left out), and the block of time of each. measures: by
    which that is, sorted. span: the Unix times, ns, of the first and the last probe."""

    values: Floats
    blocks: NDArray[np.int64]
    lost: int
    measures: tuple[str, ...] = ()
    span: tuple[int, int] | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def sent(self) -> int:
        return self.n + self.lost


@dataclass(frozen=True)
class ComparedPercentile:
    """A percentile of both, ns, and B / A. None where there are too few probes for that percentile."""

    share: float
    a: float | None
    b: float | None
    ratio: Estimate | None


@dataclass(frozen=True)
class BurstSummary:
    """Bursts of a situation. Intervals of a minute's count take bursts as they come, by blocks of time."""

    count: int
    recorded_ns: int
    in_bursts_ns: int
    per_minute: Estimate

    @property
    def share_of_time(self) -> float:
        return self.in_bursts_ns / self.recorded_ns


@dataclass(frozen=True)
class FanOutShares:
    """Of requests that need `width` answers, the share that meets at least one slower than the threshold or lost."""

    width: int
    a: float
    b: float


@dataclass(frozen=True)
class Comparison:
    """Both situations. `verdict` is better, worse, alike or undetermined: of B. `decided_by` is a percentile such as
    p99, loss, bursts, or empty."""

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
    """What the selected probes met: one of paths.MEASURES; by default, each path by its own measure."""
    values, blocks, lost, first = [], [], 0, 0
    measures: set[str] = set()
    ends: list[int] = []
    for met in read_met(con, selection):
        latency = met.values[measure] if measure else met.latency
        known = np.isfinite(latency)
        length = max(SHORTEST_BLOCK_NS, (met.end_ns - met.start_ns) / BLOCKS)
        block = (met.tx // length).astype(np.int64)
        values.append(latency[known])
        blocks.append(block[known] + first)
        first += int(block.max()) + 1
        lost += met.lost // met.every
        ends += [met.start_ns, met.end_ns]
        if known.any():
            measures.add(measure or met.measure)
    if not values:
        return SituationLatency(np.zeros(0), np.zeros(0, np.int64), 0)
    joined = np.concatenate(values), np.concatenate(blocks)
    return SituationLatency(*joined, lost, tuple(sorted(measures)), (min(ends), max(ends)))


def compare(
    a: SituationLatency,
    b: SituationLatency,
    threshold_ns: float | None,
    bursts_a: BurstSummary | None,
    bursts_b: BurstSummary | None,
    seed: int = 1,
) -> Comparison:
    """The comparison. `threshold_ns`: what is slow in a fan-out; by default the p99 of A, so that one of a hundred of
    its answers is."""
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
    """Share of the probes that are slower than the threshold; lost ones are."""
    return (int((latency.values > threshold_ns).sum()) + latency.lost) / max(latency.sent, 1)


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
    """Percentiles of ROUNDS samples of whole blocks with replacement, a row each; None with fewer than LEAST_BLOCKS.

    A sample's percentile is that of the values weighted by how often their block was drawn."""
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
    """The bursts of the recordings that match, all taken together; None where nothing was recorded. Raises as
    find_bursts does."""
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
    known = coverage.recorded(con, since_ns, until_ns)
    runs: dict[tuple[str, ...], list[str]] = {}
    for *lane, run in con.execute("SELECT host, interface, direction, recording_id FROM lanes").fetchall():
        runs.setdefault(tuple(lane), []).append(run)
    merged = {lane: coverage.covered(known, of) for lane, of in runs.items()}
    recorded = sum(coverage.length(found) for found in merged.values())
    if not recorded:
        return None
    taken: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for burst in bursts:
        lane_of = burst["host"], burst["interface"], burst["direction"]
        taken.setdefault(lane_of, []).append((burst["start_ns"], burst["end_ns"]))
    within = sum(coverage.length(merge_intervals(found)) for found in taken.values())
    return BurstSummary(len(bursts), recorded, within, _per_minute(merged, bursts, recorded))


def _per_minute(
    spans: dict[tuple[str, ...], list[tuple[int, int]]], bursts: Sequence[dict[str, Any]], recorded_ns: int
) -> Estimate:
    """Bursts a minute, with the interval of a block bootstrap over the recorded time, or of bursts that come
    independently where that is wider: blocks without any, or with as many each, say nothing of what was not seen."""
    rows: list[tuple[float, float]] = []
    for lane, found in spans.items():
        starts = np.sort(
            np.array(
                [
                    burst["start_ns"]
                    for burst in bursts
                    if (burst["host"], burst["interface"], burst["direction"]) == lane
                ],
                np.int64,
            )
        )
        for begin, end in found:
            edges = np.linspace(begin, end, BLOCKS + 1).astype(np.int64)
            held = np.diff(np.searchsorted(starts, edges))
            rows += [(float(n), float(span)) for n, span in zip(held, np.diff(edges), strict=True)]

    def rate(totals: Floats) -> Floats:
        return totals[:, 0] / np.maximum(totals[:, 1], 1) * 60e9

    minutes = recorded_ns / 60e9
    least, most = poisson(len(bursts))
    low, high = block_bootstrap(np.array(rows), rate, 2000, np.random.default_rng(1))
    return Estimate(len(bursts) / minutes, min(least / minutes, low), max(most / minutes, high), len(bursts))


def _verdict(
    a: SituationLatency,
    b: SituationLatency,
    levels: list[ComparedPercentile],
    bursts_a: BurstSummary | None,
    bursts_b: BurstSummary | None,
) -> tuple[str, str]:
    """(verdict, what decided it) of B. The first percentile from p99 on that surely differs decides, then the median,
    then loss; without latencies the number of bursts. Where percentiles from p99 on, or latency and loss, speak against
    each other, it is undetermined."""
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
    """1 where B / A is surely above 1, -1 where surely below, 0 where that cannot be determined or is negligible."""
    ratio = level.ratio
    if ratio is None or abs(ratio.value - 1) < LEAST_DIFFERENCE:
        return 0
    return 1 if ratio.low > 1 else -1 if ratio.high < 1 else 0


def _loss_sign(a: SituationLatency, b: SituationLatency) -> int:
    """1 where B surely loses more, -1 where it surely loses less (95 % intervals apart)."""
    first, second = wilson(a.lost, a.sent), wilson(b.lost, b.sent)
    return 1 if second[0] > first[1] else -1 if second[1] < first[0] else 0
