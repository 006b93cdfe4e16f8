"""The context of bursts, on their time axis: the latency of probes, and windows of switch queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..read import probes as read_probes
from ..read.path_ends import host_of, path_name
from ..read.rows import dicts as dicts

if TYPE_CHECKING:
    import duckdb

_PATHS = """
SELECT * FROM path_latencies('probes', $since, $until, CAST(NULL AS VARCHAR))
ORDER BY ($host IN (probe_host(src), probe_host(dst))) DESC, sent DESC, src, dst, protocol
"""
_QUEUES = """
SELECT device, port, queue, semantics, count(ts_ns) AS n, max(depth_bytes) AS largest,
    total(dropped_packets) AS dropped, coalesce(any_value(impossible), 0) AS impossible
FROM believable_windows('queues', $since, $until) FULL JOIN impossible_windows('queues', $since, $until)
    USING (device, port, queue, semantics)
GROUP BY device, port, queue, semantics ORDER BY largest DESC NULLS LAST, device, port, queue, semantics
"""
_WINDOWS = """
SELECT min(window_start_ns) AS begin, max(ts_ns) AS until, max(depth_bytes) AS largest,
    total(dropped_packets) AS dropped
FROM believable_windows('queues', $since, $until)
WHERE device = $device AND port = $port AND queue = $queue AND semantics = $semantics
GROUP BY CASE WHEN $width = 0 THEN ts_ns ELSE ts_ns // greatest($width, 1) END,
    CASE WHEN $width = 0 THEN ts_ns - window_start_ns ELSE 0 END
ORDER BY 1, 2
"""

PAUSE = 20  # of probing: times the usual spacing (static/common/envelope.js has the same)


@dataclass(frozen=True)
class PathLatency:
    """Probes of one path, or cells of `width_ns` of them (0: single probes). The arrays have one length and are in the
    order of time.

    `measure` is the measure of the path, '' if nothing was measured. `at_ns` is the time at which the slowest probe of
    the cell was sent. `largest` and `median` are nanoseconds, -1 if no probe of the cell was measured; `n` counts the
    measured probes.
    """

    src: str
    dst: str
    protocol: str
    stamps: str
    probes: int
    lost_probes: int
    measured: int
    measure: str
    p50_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None
    width_ns: int
    at_ns: NDArray[np.int64]
    largest: NDArray[np.int64]
    median: NDArray[np.int64]
    n: NDArray[np.int64]
    lost: NDArray[np.int64]

    @property
    def name(self) -> str:
        return path_name(self.src, self.dst, self.protocol)

    @property
    def hosts(self) -> tuple[str, str]:
        """The hosts of both ends."""
        return host_of(self.src), host_of(self.dst)

    def pauses(self) -> NDArray[np.int64]:
        """Returns the middles of the times in which probing paused: PAUSE times the median time between probes, or
        longer."""
        apart = np.diff(self.at_ns)
        after = np.flatnonzero(apart > PAUSE * np.median(apart)) if len(apart) else np.zeros(0, np.int64)
        return np.asarray(self.at_ns[after] + apart[after] // 2, np.int64)

    def view(self, start_ns: int, end_ns: int, buckets: int) -> LatencyPoints:
        """Returns about `buckets` points at most for [start_ns, end_ns): the largest and the median latency, and the
        lost probes."""
        low, high = np.searchsorted(self.at_ns, [start_ns, end_ns])
        part = slice(int(low), int(high))
        at, largest, median, n = self.at_ns[part], self.largest[part], self.median[part], self.n[part]
        width = max(1, -(-(end_ns - start_ns) // buckets)) if high - low > buckets else 1
        key = at // width
        answered = n > 0
        firsts = np.flatnonzero(np.diff(key[answered], prepend=-1))
        groups = np.split(np.flatnonzero(answered), firsts[1:]) if len(firsts) else []
        slowest = np.array([group[np.argmax(largest[group])] for group in groups], np.int64)
        middle = [_weighted_median(median[group], n[group]) for group in groups]
        return LatencyPoints(at[slowest], largest[slowest], np.array(middle, np.int64), at[self.lost[part] > 0])


@dataclass(frozen=True)
class LatencyPoints:
    """The points to draw of a path's latency, of as many `at_ns`; and the times of lost probes."""

    at_ns: NDArray[np.int64]
    largest: NDArray[np.int64]
    median: NDArray[np.int64]
    lost_ns: NDArray[np.int64]

    def breaks(self, pauses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns where a line through the points ends: the times of the first of PAUSES between two points, and the
        numbers of the points behind. A point that would be alone stays connected: a line does not show it."""
        places, first = np.unique(np.searchsorted(self.at_ns, pauses), return_index=True)
        inside = (places > 0) & (places < len(self.at_ns))
        places, first = places[inside], first[inside]
        is_lonely = np.diff(places, prepend=0, append=len(self.at_ns)) == 1
        stays = ~(is_lonely[:-1] | is_lonely[1:])
        return pauses[first[stays]], places[stays]


def _weighted_median(values: NDArray[np.int64], weights: NDArray[np.int64]) -> int:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return int(values[order][np.searchsorted(2 * reached, reached[-1])])


@dataclass(frozen=True)
class QueueWindows:
    """Windows of one switch queue, or cells of them (`width_ns` > 0). The arrays have one length and are in the order
    of their starts.

    `largest` is bytes, -1 if the device reported none; `dropped` is packets, 0 if it reported none. `impossible` counts
    the windows that are left out because their values cannot be true.
    """

    device: str
    port: str
    queue: str
    semantics: str
    windows: int
    max_bytes: int | None
    dropped_packets: int | None
    impossible: int
    width_ns: int
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    largest: NDArray[np.int64]
    dropped: NDArray[np.int64]

    @property
    def name(self) -> str:
        return f"{self.device} {self.port} queue {self.queue}"

    def view(self, start_ns: int, end_ns: int, buckets: int) -> list[tuple[int, int, int]]:
        """Returns (start, end, bytes) of the windows that overlap [start_ns, end_ns), merged into at most `buckets`
        buckets."""
        seen = np.flatnonzero((self.end_ns >= start_ns) & (self.start_ns < end_ns) & (self.largest >= 0))
        if len(seen) <= buckets:
            return list(
                zip(self.start_ns[seen].tolist(), self.end_ns[seen].tolist(), self.largest[seen].tolist(), strict=True)
            )
        width = -(-(end_ns - start_ns) // buckets)
        highest: dict[int, int] = {}
        for i in seen.tolist():
            first = max(int(self.start_ns[i]), start_ns) // width
            last = min(int(self.end_ns[i]), end_ns - 1) // width
            for bucket in range(first, last + 1):
                highest[bucket] = max(highest.get(bucket, 0), int(self.largest[i]))
        return [(bucket * width, (bucket + 1) * width, highest[bucket]) for bucket in sorted(highest)]


def _cell_width(count: int, limit: int, since_ns: int, until_ns: int) -> int:
    return 0 if count <= limit else max(1, -(-(until_ns - since_ns) // limit))


def _arrays(columns: Mapping[str, Any], names: Sequence[str], absent: int) -> list[NDArray[np.int64]]:
    return [np.ma.filled(columns[name], absent).astype(np.int64) for name in names]


def read_latency(
    con: duckdb.DuckDBPyConnection, host: str, since_ns: int, until_ns: int, paths: int, limit: int
) -> tuple[list[PathLatency], int]:
    """Returns the first `paths` paths that were probed in [since_ns, until_ns), those of `host` first, and the number
    of all such paths.

    A path with more than `limit` probes is returned in cells of time.
    """
    period = {"since": since_ns, "until": until_ns}
    rows = dicts(con, _PATHS, {"host": host, **period})
    series = []
    for row in rows[:paths]:
        width = _cell_width(row["sent"], limit, since_ns, until_ns)
        path = {name: row[name] for name in ("src", "dst", "protocol")}
        at, largest, median, n, lost = _arrays(
            read_probes.cells(con, path, since_ns, until_ns, row["measure"], width),
            ("at", "largest", "median", "n", "lost"),
            -1,
        )
        levels = {name: row[name] for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")}
        series.append(
            PathLatency(
                **path,
                stamps=row["stamps"],
                probes=row["sent"],
                lost_probes=row["lost"],
                measured=row["measured"],
                measure=row["measure"] or "",
                **levels,
                width_ns=width,
                at_ns=at,
                largest=largest,
                median=median,
                n=n,
                lost=lost,
            )
        )
    return series, len(rows)


def read_queues(
    con: duckdb.DuckDBPyConnection, since_ns: int, until_ns: int, queues: int, limit: int
) -> tuple[list[QueueWindows], int]:
    """Returns the `queues` fullest switch queues of the period, and the number of all of them. A queue with more than
    `limit` windows is returned in cells."""
    period = {"since": since_ns, "until": until_ns}
    rows = dicts(con, _QUEUES, period)
    series = []
    for row in rows[:queues]:
        width = _cell_width(row["n"], limit, since_ns, until_ns)
        key = {name: row[name] for name in ("device", "port", "queue", "semantics")}
        start, end, largest, dropped = _arrays(
            con.execute(_WINDOWS, {**key, **period, "width": width}).fetchnumpy(),
            ("begin", "until", "largest", "dropped"),
            -1,
        )
        series.append(
            QueueWindows(
                **key,
                windows=row["n"],
                max_bytes=row["largest"],
                dropped_packets=row["dropped"],
                impossible=row["impossible"],
                width_ns=width,
                start_ns=start,
                end_ns=end,
                largest=largest,
                dropped=np.maximum(dropped, 0),
            )
        )
    return series, len(rows)
