"""Hosts of one rack that receive bursts in the same moments: they compete for what they share above the rack's switch,
and for its buffer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import duckdb

PAIRED = 8  # hosts, of most contended bursts, whose pairs are looked at

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Two hosts and the time in which both received bursts, ns."""

    hosts: tuple[str, str]
    shared_ns: int


@dataclass(frozen=True)
class Contention:
    """Overlap of the bursts that different hosts receive. Bursts of one host that overlap each other count as one.

    share: of these, how many overlap one of another host; most: hosts in a burst at once, largest, first at `most_ns`;
    contended_ns: time in which two or more were.
    """

    hosts: int
    bursts: int
    share: float
    most: int
    most_ns: int
    contended_ns: int
    by_host: dict[str, float]
    pairs: list[Pair]


def contention(con: duckdb.DuckDBPyConnection, pairs: int) -> Contention | None:
    """From the table rack_spans of rack_period.judged; None with fewer than two hosts that received bursts."""
    columns = con.execute("SELECT host, start_ns, end_ns FROM rack_spans ORDER BY host, start_ns").fetchnumpy()
    return overlap(np.asarray(columns["host"]), np.asarray(columns["start_ns"]), np.asarray(columns["end_ns"]), pairs)


def overlap(host: NDArray[Any], start: Times, end: Times, pairs: int) -> Contention | None:
    """The same of arrays of one length, a burst each: sorted by host and start, disjoint within a host."""
    names, index = np.unique(host, return_inverse=True)
    if len(names) < 2:
        return None
    apart = [(start[index == i], end[index == i]) for i in range(len(names))]
    rivals = np.zeros(len(start), dtype=np.int64)
    in_all = _touching(np.sort(start), np.sort(end), start, end)
    for i, (starts, ends) in enumerate(apart):
        mine = index == i
        rivals[mine] = in_all[mine] - _touching(starts, ends, starts, ends)
    contended = rivals > 0
    most, most_ns, shared_ns = _together(start, end)
    by_host = {str(name): float(contended[index == i].mean()) for i, name in enumerate(names)}
    ranked = sorted(range(len(names)), key=lambda i: (-int(contended[index == i].sum()), i))[:PAIRED]
    found = [Pair((str(names[a]), str(names[b])), _common(*apart[a], *apart[b]))
             for a, b in combinations(sorted(ranked), 2)]
    found = sorted((pair for pair in found if pair.shared_ns), key=lambda pair: (-pair.shared_ns, pair.hosts))
    return Contention(len(names), len(start), float(contended.mean()), most, most_ns, shared_ns, by_host, found[:pairs])


def _touching(starts: Times, ends: Times, of_start: Times, of_end: Times) -> Times:
    """How many of the intervals (STARTS and ENDS, each sorted) overlap each of the others."""
    begun: Times = np.searchsorted(starts, of_end, side="left")
    return begun - np.searchsorted(ends, of_start, side="right")


def _together(start: Times, end: Times) -> tuple[int, int, int]:
    """The most intervals at once, since when, and the time with two or more."""
    at = np.concatenate((end, start))  # at one moment, ends come before beginnings
    change = np.concatenate((np.full(len(end), -1), np.full(len(start), 1)))
    order = np.argsort(at, kind="stable")
    at, count = at[order], np.cumsum(change[order])
    first = int(np.argmax(count))
    lengths = np.diff(at, append=at[-1:])
    return int(count[first]), int(at[first]), int(lengths[count >= 2].sum())


def _common(a_start: Times, a_end: Times, b_start: Times, b_end: Times) -> int:
    """The time in both of two sets of disjoint, sorted intervals."""
    def before(at: Times) -> Times:
        """How much of B lies before each time."""
        whole = np.concatenate(([0], np.cumsum(b_end - b_start)))
        i = np.searchsorted(b_start, at, side="right")
        inside = np.minimum(at, b_end[np.maximum(i - 1, 0)]) - b_start[np.maximum(i - 1, 0)]
        told: Times = np.where(i > 0, whole[np.maximum(i - 1, 0)] + inside, 0)
        return told

    return int((before(a_end) - before(a_start)).sum())
