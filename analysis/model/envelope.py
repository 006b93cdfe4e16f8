"""Envelopes: the traffic of a lane in cells of time, such that no burst disappears however coarse the cells are.

A cell keeps its largest bin and the sum of its bins. A coarser envelope is therefore made from a finer one without the
bins, and the largest bin of any time is exactly the largest of its cells. Cells without a packet have no row. Cell i of
width w covers [i*w, (i+1)*w) in Unix nanoseconds: the same grid at every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...units import NS_PER_S
from ..read import bins as read_bins

if TYPE_CHECKING:
    import duckdb

Interval = tuple[int, int]


@dataclass(frozen=True)
class Slice:
    """A selection of bins: those of some recordings, all of one bin width, in [since_ns, until_ns). `repeated`: some of
    the recordings cover the same time, so that only the fullest of simultaneous bins counts."""

    recordings: Sequence[str]
    bin_ns: int
    since_ns: int
    until_ns: int
    repeated: bool = False

    def parameters(self) -> dict[str, Any]:
        return {"ids": list(self.recordings), "since": self.since_ns, "until": self.until_ns}


@dataclass(frozen=True)
class Envelope:
    """Arrays of one length, in ascending order of `cells`. `largest` is the wire bytes of the largest bin of a cell,
    `total` those of the cell."""

    width_ns: int
    bin_ns: int
    cells: NDArray[np.int64]
    largest: NDArray[np.int64]
    total: NDArray[np.int64]
    bins: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.cells)

    def max_bps(self) -> NDArray[np.float64]:
        """Returns the bits per second of each cell's largest bin."""
        return np.asarray(self.largest * (8e9 / self.bin_ns), np.float64)

    def mean_bps(self, coverage: Sequence[Interval] | None = None) -> NDArray[np.float64]:
        """Returns the bits per second of each cell over its whole width, with empty bins; with COVERAGE (ascending,
        disjoint), over the part of it that was recorded."""
        if not coverage:
            return np.asarray(self.total * (8e9 / self.width_ns), np.float64)
        origin = coverage[0][0]
        edges = np.asarray(coverage, np.int64).ravel() - origin
        lengths = np.diff(edges, prepend=edges[0])
        lengths[::2] = 0  # between the intervals
        starts = self.cells * self.width_ns - origin
        until, before = (np.interp(at, edges, np.cumsum(lengths)) for at in (starts + self.width_ns, starts))
        mean = self.total * (8e9 / np.maximum(until - before, self.bin_ns))
        return np.asarray(np.minimum(mean, self.max_bps()), np.float64)

    def coarsen(self, factor: int) -> Envelope:
        """Returns the envelope in cells `factor` times as wide."""
        wider = Envelope(self.width_ns * factor, self.bin_ns, self.cells // factor, self.largest, self.total, self.bins)
        return wider if factor == 1 else wider.joined()

    def joined(self) -> Envelope:
        """Returns the envelope with one row per cell, if ascending cells occur several times."""
        if not len(self):
            return self
        first = np.flatnonzero(np.diff(self.cells, prepend=self.cells[0] - 1))
        return Envelope(
            self.width_ns,
            self.bin_ns,
            self.cells[first],
            np.maximum.reduceat(self.largest, first),
            np.add.reduceat(self.total, first),
            np.add.reduceat(self.bins, first),
        )

    def at_most(self, limit: int) -> Envelope:
        """Returns this envelope, or the finest one that is 2^n times as wide and has at most `limit` cells."""
        envelope = self
        while len(envelope) > limit:
            envelope = envelope.coarsen(2)
        return envelope

    def view(self, start_ns: int, end_ns: int, buckets: int) -> Envelope:
        """Returns the cells to draw [start_ns, end_ns) with about `buckets` steps: whole cells, so that panning changes
        none."""
        factor = max(1, -(-(end_ns - start_ns) // (buckets * self.width_ns)))
        wide = self.width_ns * factor
        low = np.searchsorted(self.cells, start_ns // wide * factor)
        high = np.searchsorted(self.cells, (max(end_ns - 1, start_ns) // wide + 1) * factor)
        part = slice(int(low), int(high))
        return Envelope(
            self.width_ns, self.bin_ns, self.cells[part], self.largest[part], self.total[part], self.bins[part]
        ).coarsen(factor)


def merged(envelopes: Sequence[Envelope]) -> Envelope:
    """Merges envelopes of one cell width and bin width, as if their bins had been read together. There is at least
    one."""
    [first, *others] = envelopes
    if not others:
        return first
    cells, largest, total, bins = (
        np.concatenate([getattr(envelope, name) for envelope in envelopes])
        for name in ("cells", "largest", "total", "bins")
    )
    order = np.argsort(cells, kind="stable")
    return Envelope(first.width_ns, first.bin_ns, cells[order], largest[order], total[order], bins[order]).joined()


def fullest(envelopes: Sequence[Envelope]) -> Envelope:
    """Merges envelopes of one bin width from recordings that cover the same time: each time counts once, by the fullest
    bin. There is at least one."""
    both = merged(envelopes)
    return both if len(envelopes) == 1 else replace(both, total=both.largest, bins=np.ones_like(both.bins))


def _envelope(columns: Mapping[str, Any], width_ns: int, bin_ns: int) -> Envelope:
    cells, largest, total, bins = (np.asarray(columns[name], np.int64) for name in ("cell", "largest", "total", "bins"))
    return Envelope(width_ns, bin_ns, cells, largest, total, bins)


def read(con: duckdb.DuckDBPyConnection, where: Slice, width_ns: int) -> Envelope:
    """Returns the envelope of stored bins in cells of `width_ns`, a multiple of their width. Aggregated in the
    database."""
    return _envelope(read_bins.cells(con, where.parameters(), where.repeated, width_ns), width_ns, where.bin_ns)


def read_seconds(con: duckdb.DuckDBPyConnection, where: Slice, finer: Envelope | None = None) -> Envelope:
    """Returns the wire bytes of each whole second of the clock, as a monitoring system would show them.

    Computed from `finer`, an envelope of the same bins, if its cells divide a second; otherwise from the store.
    """
    if finer is not None and NS_PER_S % finer.width_ns == 0:
        seconds = finer.coarsen(NS_PER_S // finer.width_ns)
    else:
        seconds = read(con, where, NS_PER_S)
    return Envelope(NS_PER_S, NS_PER_S, seconds.cells, seconds.total, seconds.total, seconds.bins)


def finest(con: duckdb.DuckDBPyConnection, where: Slice, count: int, limit: int) -> Envelope:
    """Returns the finest envelope of at most `limit` cells that are 1, 2, 5, 10, 20, 50, … bins wide.

    `count` is the number of bins. If the number of cells is not certain, a sketch estimates it; if the estimate was too
    low, the resolution is halved until the envelope fits.
    """
    factor = 1
    if count > limit:
        # The number of cells of `factor` bins is between count / factor and span / factor; only uncertain factors are
        # counted.
        span = (where.until_ns - where.since_ns) // where.bin_ns + 2
        ladder = [factor for factor in _ladder(span) if factor * limit >= count]
        certain = next((i for i, factor in enumerate(ladder) if span <= factor * limit), len(ladder) - 1)
        factor = _narrow(con, where, ladder[: certain + 1], limit)
    return read(con, where, where.bin_ns * factor).at_most(limit)


def _ladder(span: int) -> list[int]:
    factors, decade = [], 1
    while decade <= span * 10:
        factors += [decade, 2 * decade, 5 * decade]
        decade *= 10
    return factors


def _narrow(con: duckdb.DuckDBPyConnection, where: Slice, factors: list[int], limit: int) -> int:
    """Returns the first of the ascending `factors` with fewer than `limit` cells by a sketch; the last one is not
    counted."""
    candidates = factors[:-1]
    if not candidates:
        return factors[-1]
    counts = read_bins.count_cells(con, where.parameters(), [where.bin_ns * factor for factor in candidates])
    return next((f for f, n in zip(candidates, counts, strict=True) if n < 0.9 * limit), factors[-1])


def read_detail(
    con: duckdb.DuckDBPyConnection, where: Slice, base: Envelope, wanted: Sequence[Interval], limit: int
) -> tuple[Envelope, NDArray[np.int64]]:
    """Reads the stored bins inside the cells of `base` that `wanted` touches, in the order of `wanted`, at most `limit`
    bins.

    Returns the envelope at the bins' own width, and the cells of `base` that it covers, ascending.
    """
    chosen: set[int] = set()
    left = limit
    for start, end in wanted:
        low, high = start // base.width_ns, max(end - 1, start) // base.width_ns
        part = slice(*np.searchsorted(base.cells, [low, high + 1]).tolist())
        cost = sum(int(n) for cell, n in zip(base.cells[part], base.bins[part], strict=True) if int(cell) not in chosen)
        if cost > left or high - low > limit:
            break
        chosen.update(range(low, high + 1))
        left -= cost
    cells = np.array(sorted(chosen), np.int64)
    detail = _envelope(
        read_bins.bins_of_cells(con, where.parameters(), where.repeated, where.bin_ns, base.width_ns, cells.tolist()),
        where.bin_ns,
        where.bin_ns,
    )
    return detail, cells


def merge_intervals(intervals: Sequence[Interval], limit: int | None = None) -> list[Interval]:
    """Returns the intervals ascending, joined if they touch; then the smallest gaps are closed until at most `limit`
    are left."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    if limit is None or len(merged) <= limit:
        return merged
    gaps = np.array([after[0] - before[1] for before, after in pairwise(merged)])
    kept = set(np.argsort(-gaps, kind="stable")[: limit - 1].tolist())
    joined = [merged[0]]
    for i, (start, end) in enumerate(merged[1:]):
        if i in kept:
            joined.append((start, end))
        else:
            joined[-1] = (joined[-1][0], end)
    return joined


def steps(
    envelope: Envelope, values: NDArray[np.float64], coverage: Sequence[Interval], origin_ns: int
) -> tuple[list[float], list[float | None]]:
    """Returns the points of a step line (each value holds until the next point): seconds since `origin_ns`, value."""
    starts = envelope.cells * envelope.width_ns
    points = list(levels(starts, starts + envelope.width_ns, values, coverage))
    return [(at - origin_ns) / 1e9 for at, _ in points], [value for _, value in points]


def levels(
    starts_ns: NDArray[np.int64], ends_ns: NDArray[np.int64], values: NDArray[np.float64], coverage: Sequence[Interval]
) -> Iterator[tuple[int, float | None]]:
    """Yields (time, value from then on) of cells, ascending and disjoint.

    Time without a cell is zero if `coverage` (ascending, disjoint) has it as recorded, and a gap (None) otherwise.
    """
    i, starts, ends = 0, starts_ns.tolist(), ends_ns.tolist()
    at = coverage[0][0] if coverage else 0
    for begin, end in coverage:
        if end < at:  # a cell that spans several recordings covers this one entirely
            continue
        at = max(begin, at)
        yield (min(at, starts[i]) if i < len(starts) else at), 0.0  # so that a filled line is flat over a pause
        while i < len(starts) and starts[i] <= end:
            if starts[i] > at:
                yield at, 0.0
            yield starts[i], float(values[i])
            at = ends[i]
            i += 1
        yield at, 0.0
        yield max(at, end), 0.0
        yield max(at, end), None


def with_detail(
    base: Envelope, detail: Envelope | None, detail_cells: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Returns the cells of BASE, with bins of DETAIL in place of the cells that DETAIL covers: starts, ends, and the
    bits per second of the largest bin of each."""
    kept = ~np.isin(base.cells, np.asarray(detail_cells, np.int64))
    starts, values = base.cells[kept] * base.width_ns, base.max_bps()[kept]
    ends = starts + base.width_ns
    if detail is None or not len(detail):
        return starts, ends, values
    fine = detail.cells * detail.width_ns
    order = np.argsort(np.concatenate([starts, fine]), kind="stable")
    return (
        np.concatenate([starts, fine])[order],
        np.concatenate([ends, fine + detail.width_ns])[order],
        np.concatenate([values, detail.max_bps()])[order],
    )
