"""The latency of probes on each path: the round trip, each direction, and the time in the hosts at the ends.

Each path has one measure for its latency, and one kind of round trip (chosen_measure of sql/macros.sql). One-way delays
need two clocks that agree. If both ends report the error of their clocks, and that error is smaller than that of the
minimum filter, the delays are taken as measured. Otherwise, the minimum filter of both directions (tail.clock_offset)
removes the offset and the drift of the clocks, and splits the empty path evenly. `ClockState.uncertainty_ns` bounds the
error of both methods; it does not affect how far a delay exceeds the smallest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..cause.tail import Probes, clock_offset, clock_steps, smallest_in_windows
from ..model.distributions import quantile
from ..model.stats import Floats
from ..model.whole import note_probes
from ..read import probes as read_probes
from ..read.path_ends import host_of

if TYPE_CHECKING:
    import duckdb

MOST_PROBES = 4_000_000  # probes of a path that are read: enough for p99.99, in some 500 MB
MEASURES = ("application", "round_trip", "forward", "back", "host_here", "host_there")
LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)  # of the percentiles that are stated
_DRIFT_SPAN = 10e9  # ns of probing before a drift is stated


@dataclass(frozen=True)
class ProbeSelection:
    """A selection of probes; None selects all. Times are Unix ns: tx_ns in [since_ns, until_ns)."""

    batch: str | None = None
    src: str | None = None
    dst: str | None = None
    protocol: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def parameters(self) -> dict[str, str | int | None]:
        """Returns the selection as the variables of a query."""
        return {
            "batch": self.batch,
            "src": self.src,
            "dst": self.dst,
            "protocol": self.protocol,
            "since": self.since_ns,
            "until": self.until_ns,
        }


@dataclass(frozen=True)
class ClockState:
    """The reflector's clock against the sender's, ns: the offset in the middle of the time, the drift (ppm; None if the
    time was too short), and the possible error of a one-way delay."""

    kept: bool  # both clocks are accurate enough: delays are as measured
    offset_ns: float
    drift_ppm: float | None
    uncertainty_ns: float
    steps: int = 0  # how often one of the two clocks was set in that time


@dataclass(frozen=True)
class Distribution:
    """The distribution of one measure, ns. A percentile is None if there are too few values to separate it from the
    largest."""

    n: int
    least: float | None
    levels: tuple[float | None, ...]  # of LEVELS
    largest: float | None

    @property
    def named_levels(self) -> dict[str, float | None]:
        """The percentiles for JSON: p50_ns to p9999_ns."""
        names = (f"p{100 * level:g}_ns".replace(".", "") for level in LEVELS)
        return dict(zip(names, self.levels, strict=True))

    def facts(self) -> dict[str, int | float | None]:
        """Returns the facts for JSON."""
        return {"n": self.n, "min_ns": self.least, **self.named_levels, "max_ns": self.largest}


@dataclass(frozen=True)
class PathProbes:
    """The probes of one path, and their latencies."""

    src: str
    dst: str
    protocol: str
    stamps: str  # hw, sw, app: the kinds that occur, the most frequent first
    sent: int
    lost: int
    every: int  # sampling stride: 1 (all probes), unless there are more than MOST_PROBES
    start_ns: int
    end_ns: int
    clocks: ClockState | None
    measure: str  # the measure of `latency`; '' if nothing was measured
    latency: Floats  # by that measure, in the order of `values`
    round_trip: str  # the measure of `values["round_trip"]`; '' if none was measured
    values: dict[str, Floats]  # by MEASURES; NaN if not measured; in the order of sending
    tx: Floats  # ns since start_ns
    lost_at: NDArray[np.int64]  # indexes of the lost probes in `tx`
    measured: dict[str, Distribution]
    paths: int = 1  # number of paths that are merged here

    @cached_property
    def by_measure(self) -> Distribution:
        """The distribution of the latency by the path's measure."""
        return distribution(self.latency)

    @property
    def has_latency(self) -> bool:
        """Whether the latency, or the round trip, of any probe is known."""
        return bool(self.by_measure.n or self.measured["round_trip"].n)


def distribution(values: Floats) -> Distribution:
    """Returns the distribution of the known `values`."""
    ordered = np.sort(values[np.isfinite(values)])
    if not len(ordered):
        return Distribution(0, None, (None,) * len(LEVELS), None)
    return Distribution(
        len(ordered), float(ordered[0]), tuple(quantile(ordered, level) for level in LEVELS), float(ordered[-1])
    )


def read_met(con: duckdb.DuckDBPyConnection, selection: ProbeSelection) -> list[PathProbes]:
    """Returns the selected probes of each path, in the order of names. Of a path with more than MOST_PROBES, every Nth
    probe is read; the numbers of sent and lost probes are exact."""
    note_probes(con, selection.since_ns, selection.until_ns)
    return [_met(con, selection, path) for path in read_probes.paths(con, selection.parameters())]


def _met(con: duckdb.DuckDBPyConnection, selection: ProbeSelection, path: dict[str, Any]) -> PathProbes:
    every, start_ns = -(-path["sent"] // MOST_PROBES), path["start_ns"]
    src, dst, protocol = (path[name] for name in ("src", "dst", "protocol"))
    columns = read_probes.exchanges(
        con,
        {**selection.parameters(), "src": src, "dst": dst, "protocol": protocol},
        start_ns,
        every,
        path["measure"],
        path["round_trip"],
    )

    def column(name: str) -> Floats:
        return np.ma.filled(np.ma.asarray(columns[name]).astype(np.float64), np.nan)

    stamped: dict[str, Any] = {name.removesuffix("_ns"): column(name) for name in (*read_probes.STAMPS, "rtt_ns")}
    lost = np.ma.filled(np.ma.asarray(columns["lost"]), False).astype(bool)
    probes = Probes(src, dst, protocol, lost=lost, stamp_kind=path["stamps"], **stamped)
    clocks, offset = compare_clocks(probes, column("clock_error_ns"))
    values, latency = measures(probes, column("round_trip"), offset if clocks else None), column("latency")
    return PathProbes(
        src,
        dst,
        protocol,
        path["stamps"],
        path["sent"],
        path["lost"],
        every,
        start_ns,
        path["end_ns"],
        clocks,
        path["measure"],
        latency,
        path["round_trip"],
        values,
        probes.tx,
        np.flatnonzero(lost),
        {name: distribution(value) for name, value in values.items()},
    )


def together(found: Sequence[PathProbes]) -> list[PathProbes]:
    """Returns the probes of each target with several paths, merged over paths that differ only in the source port."""
    targets: dict[tuple[str, str, str], list[PathProbes]] = {}
    for met in found:
        if (host := host_of(met.src)) != met.src:
            targets.setdefault((host, met.dst, met.protocol), []).append(met)
    return [_merged(host, paths) for (host, _, _), paths in targets.items() if len(paths) > 1]


def _merged(src: str, paths: list[PathProbes]) -> PathProbes:
    start_ns = min(path.start_ns for path in paths)
    tx = np.concatenate([path.tx + (path.start_ns - start_ns) for path in paths])
    order = np.argsort(tx, kind="stable")
    lost = np.concatenate([np.isin(np.arange(len(path.tx)), path.lost_at) for path in paths])
    measure, latency = _of_one_measure([(path.measure, path.latency) for path in paths])
    round_trip, trips = _of_one_measure([(path.round_trip, path.values["round_trip"]) for path in paths])
    joined = {name: np.concatenate([path.values[name] for path in paths]) for name in MEASURES}
    values = {name: value[order] for name, value in (joined | {"round_trip": trips}).items()}
    kinds = sorted({kind for path in paths for kind in path.stamps.split(", ") if kind})
    known = [path.clocks for path in paths if path.clocks]
    return PathProbes(
        src,
        paths[0].dst,
        paths[0].protocol,
        ", ".join(kinds),
        sum(path.sent for path in paths),
        sum(path.lost for path in paths),
        max(path.every for path in paths),
        start_ns,
        max(path.end_ns for path in paths),
        max(known, key=lambda clocks: clocks.uncertainty_ns, default=None),
        measure,
        latency[order],
        round_trip,
        values,
        tx[order],
        np.flatnonzero(lost[order]),
        {name: distribution(value) for name, value in values.items()},
        len(paths),
    )


def _of_one_measure(parts: Sequence[tuple[str, Floats]]) -> tuple[str, Floats]:
    """Returns the measure by which most of the values of PARTS are known, and all values in their order. Values by
    another measure become NaN, so that no distribution mixes two."""
    known: dict[str, int] = {}
    for measure, values in parts:
        known[measure] = known.get(measure, 0) + int(np.isfinite(values).sum())
    chosen = max(sorted(known), key=lambda measure: known[measure])
    return chosen, np.concatenate(
        [values if measure == chosen else np.full(len(values), np.nan) for measure, values in parts]
    )


def measures(probes: Probes, round_trip: Floats, offset: Floats | None) -> dict[str, Floats]:
    """Returns each of MEASURES for each probe, ns. `offset`: the reflector's clock minus the sender's; None:
    unknown."""
    unknown = np.full(len(probes), np.nan)
    found = {
        "application": probes.app_recv - probes.app_send,
        "round_trip": round_trip,
        "forward": unknown if offset is None else probes.remote_rx - probes.tx - offset,
        "back": unknown if offset is None else probes.rx - probes.remote_tx + offset,
        "host_here": (probes.tx - probes.app_send) + (probes.app_recv - probes.rx),
        "host_there": probes.remote_tx - probes.remote_rx,
    }
    return {name: np.where(probes.lost, np.nan, value) for name, value in found.items()}


def compare_clocks(probes: Probes, clock_error: Floats) -> tuple[ClockState | None, Floats]:
    """Returns the relation of the two clocks, and the offset to subtract from the one-way delays of each probe (0 if
    the clocks are kept). The relation is None if no exchange was stamped in both directions.

    The clocks count as kept if most answers carry the error of both clocks, this error is less than half the fastest
    round trip (the accuracy of the minimum filter), and no delay is negative by more than this error."""
    forward, back = probes.remote_rx - probes.tx, probes.rx - probes.remote_tx
    network = forward + back
    known = np.flatnonzero(np.isfinite(network))
    if not len(known):
        return None, np.zeros(len(probes))
    fastest = known[smallest_in_windows(probes.tx[known], network[known])]
    half = float(np.median(network[fastest])) / 2
    estimate = ((forward - back) / 2)[fastest]
    steps = [k for k, _ in clock_steps(probes, fastest, estimate)]
    drift = _drift(probes.tx[fastest], estimate, network[fastest], steps)
    trend = (drift or 0.0) * (probes.tx - probes.tx[known[0]])  # removed first, so that it continues to both ends
    level = replace(probes, remote_rx=probes.remote_rx - trend, remote_tx=probes.remote_tx - trend)
    offset = clock_offset(level) + trend
    errors = clock_error[known]
    stated = errors[np.isfinite(errors)]
    middle = float(np.median(offset[known]))
    if 2 * len(stated) > len(known) and (error := float(stated.max())) < half:
        least = min(float(np.min(forward[known])), float(np.min(back[known])))
        if least >= -error:
            return ClockState(True, middle, None, error), np.zeros(len(probes))
    return ClockState(False, middle, None if drift is None else drift * 1e6, max(half, 0.0), len(steps)), offset


def _drift(time: Floats, offset: Floats, network: Floats, steps: list[int]) -> float | None:
    """Returns the growth of the offset, from the fastest exchanges of each second that did not wait: the common slope
    of the times between STEPS. None if the time is too short."""
    quiet = network <= 2 * np.median(network)
    if quiet.sum() < 3 or time[quiet][-1] - time[quiet][0] < _DRIFT_SPAN:
        return None
    part = np.searchsorted(steps, np.arange(len(time)))[quiet]
    ahead, at = (_about_means(values[quiet] - values[0], part) for values in (offset, time))
    spread = float(at @ at)
    return float(at @ ahead) / spread if spread else None


def _about_means(values: Floats, part: NDArray[np.int64]) -> Floats:
    """Returns VALUES minus the mean of their part."""
    counts = np.maximum(np.bincount(part), 1)
    return np.asarray(values - (np.bincount(part, values) / counts)[part])


@dataclass(frozen=True)
class Steps:
    """Steps of time in which something was measured: the time of the largest value (ns), that value, and the median."""

    at_ns: Floats
    largest: Floats
    median: Floats


def extremes(time_ns: Floats, values: Floats, steps: int) -> Steps:
    """Returns at most `steps` steps of ascending times, or every value if there are no more; NaN is left out."""
    known = np.isfinite(values)
    time_ns, values = time_ns[known], values[known]
    if len(values) <= steps:
        return Steps(time_ns, values, values)
    width = (time_ns[-1] - time_ns[0]) / steps or 1.0
    step = np.minimum((time_ns - time_ns[0]) // width, steps - 1)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(step)) + 1])
    counts = np.diff(starts, append=len(values))
    group = np.repeat(np.arange(len(starts)), counts)
    ranked = values[np.lexsort((values, group))]
    median = (ranked[starts + (counts - 1) // 2] + ranked[starts + counts // 2]) / 2
    at_most = np.flatnonzero(values == np.maximum.reduceat(values, starts)[group])
    largest = at_most[np.unique(group[at_most], return_index=True)[1]]  # the first of equal ones
    return Steps(time_ns[largest], values[largest], median)
