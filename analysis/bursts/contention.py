"""Hosts of one rack that receive bursts at the same time: they compete for everything that they share above the rack's
switch, and for its buffer. sql/queries/contention.sql is the definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...sql.named import prepare
from ..model.context import dicts

if TYPE_CHECKING:
    import duckdb

PAIRED = 8  # hosts of a rack, those with most contended bursts, that are examined in pairs

_BURSTS = "SELECT host, start_ns, end_ns, contended FROM contended_bursts WHERE rack = $1 ORDER BY host, start_ns"
_TIMES = "SELECT host, start_ns, end_ns, contended FROM contended_times WHERE rack = $1 ORDER BY host, start_ns"

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Two hosts of a rack and the time in which both received bursts, ns."""

    hosts: tuple[str, str]
    shared_ns: int


@dataclass(frozen=True)
class Contention:
    """Overlap of the bursts that different hosts of a rack receive. Overlapping bursts of one host count as one.

    share: share of these bursts that overlap one of another host; usual: the same if the hosts' bursts were
    independent; most: the largest number of hosts in a burst at once, first at `most_ns`; contended_ns: time with two
    or more such hosts.
    """

    hosts: int
    bursts: int
    share: float
    usual: float
    most: int
    most_ns: int
    contended_ns: int
    by_host: dict[str, float]
    pairs: list[Pair]


@dataclass(frozen=True)
class HostBursts:
    """The bursts that a host received, or their recorded times, disjoint and ascending: start and end, Unix ns, and
    which are contended."""

    host: str
    start: Times
    end: Times
    contended: NDArray[np.bool_]


def contention(con: duckdb.DuckDBPyConnection, pairs: int) -> Contention | None:
    """Reads the contention from the bursts that detect_bursts left in CON; None if no rack has two hosts
    that received bursts. Hosts, bursts and times of several racks are added up."""
    last = prepare(con, "contention", alone=True)
    racks = {row["rack"]: row for row in dicts(con, last.query, {})}
    if not racks:
        return None
    bursts = sum(row["bursts"] for row in racks.values())
    fullest = min(racks.values(), key=lambda row: (-row["most"], row["most_ns"]))
    hosts = {rack: list(_hosts(con, rack, _BURSTS)) for rack in racks}
    every = [host for of in hosts.values() for host in of]
    found = [pair for rack, of in hosts.items() for pair in _pairs(of, list(_hosts(con, rack, _TIMES)))]
    found.sort(key=lambda pair: (-pair.shared_ns, pair.hosts))
    return Contention(
        len(every),
        bursts,
        sum(int(host.contended.sum()) for host in every) / bursts,
        sum(_expected(of) for of in hosts.values()) / bursts,
        fullest["most"],
        fullest["most_ns"],
        sum(row["contended_ns"] for row in racks.values()),
        {host.host: float(host.contended.mean()) for host in every},
        found[:pairs],
    )


def _hosts(con: duckdb.DuckDBPyConnection, rack: str, query: str) -> Iterator[HostBursts]:
    columns = con.execute(query, [rack]).fetchnumpy()
    host, start, end, contended = (np.asarray(columns[name]) for name in ("host", "start_ns", "end_ns", "contended"))
    names, first = np.unique(host, return_index=True)
    for name, part in zip(names, np.split(np.arange(len(host)), first[1:]), strict=True):
        yield HostBursts(str(name), start[part], end[part], contended[part].astype(bool))


def _pairs(hosts: Sequence[HostBursts], times: Sequence[HostBursts]) -> Iterator[Pair]:
    """Yields the pairs of HOSTS that share time, by the recorded TIMES of the bursts of each."""
    ranked = sorted(range(len(hosts)), key=lambda i: (-int(hosts[i].contended.sum()), i))[:PAIRED]
    for a, b in combinations([times[i] for i in sorted(ranked)], 2):
        if shared := _common(a.start, a.end, b.start, b.end):
            yield Pair((a.host, b.host), shared)


def _expected(hosts: Sequence[HostBursts]) -> float:
    """Returns how many bursts would overlap one of another host of their rack if they came at random: the sum of
    1 − exp(−expected). The expectation of overlaps of a burst of length L with n others of mean length l in a time T is
    n (L + l) / T."""
    span = max(int(host.end[-1]) for host in hosts) - min(int(host.start[0]) for host in hosts)
    number, time = sum(len(host.start) for host in hosts), sum(int((host.end - host.start).sum()) for host in hosts)
    expected = 0.0
    for host in hosts:
        lengths = host.end - host.start
        meets = ((number - len(lengths)) * lengths + (time - int(lengths.sum()))) / max(span, 1)
        expected += float(-np.expm1(-meets).sum())
    return expected


def _common(a_start: Times, a_end: Times, b_start: Times, b_end: Times) -> int:
    """Returns the time in both of two sets of disjoint, sorted intervals."""

    def before(at: Times) -> Times:
        """Returns the time of B before each time."""
        whole = np.concatenate(([0], np.cumsum(b_end - b_start)))
        i = np.searchsorted(b_start, at, side="right")
        inside = np.minimum(at, b_end[np.maximum(i - 1, 0)]) - b_start[np.maximum(i - 1, 0)]
        total: Times = np.where(i > 0, whole[np.maximum(i - 1, 0)] + inside, 0)
        return total

    return int((before(a_end) - before(a_start)).sum())
