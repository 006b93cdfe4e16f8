"""What a store gained since it was last looked at, as the numbers that a monitoring system wants.

Counters begin at zero when the meter is made. A burst is counted once it has ended, by the one definition that there is
(sql/queries/bursts.sql) over the newest bins; so the same bins give the same counts however often they are looked at.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import duckdb

    from ..analysis.bursts import BurstDefinition
    from ..sql import Store

QUIET_NS = 10 * 10**9  # after so long without a bin, whatever burst was going on has ended
DAY_NS = 86_400 * 10**9
SCRAPERS = 64  # that are told apart
LONGEST_NS = 600 * 10**9  # a burst that goes on for longer is counted in pieces
PROBE_SETTLE_NS = 10 * 10**9  # a lost probe is known when its time is up
WIDTHS_NS = {"10us": 10_000, "100us": 100_000, "1ms": 1_000_000}
STAMPS = {"hw": 1, "sw": 2, "ring": 4, "file_us": 8}  # bits of sql/schema/quality.sql
DROPS = 32
DURATIONS_S = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0)
FAN_INS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
QUANTILES = (0.5, 0.9, 0.99, 0.999)

_NEW = f"""
SELECT recording_id, max(ts_ns) AS newest_ns, CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes,
       CAST(sum(packets) AS BIGINT) AS packets, count(*) FILTER (quality & {DROPS} <> 0) AS losing,
       {", ".join(f"count(*) FILTER (quality & {bit} <> 0) AS {kind}" for kind, bit in STAMPS.items())}
FROM bins JOIN marks USING (recording_id) WHERE ts_ns > counted_ns GROUP BY recording_id
"""
_PEAKS = """
SELECT recording_id, max(filled) FROM (
    SELECT recording_id, sum(wire_bytes) AS filled FROM bins JOIN (SELECT recording_id FROM recordings
        WHERE $width % bin_ns = 0) USING (recording_id)
    WHERE ts_ns >= $whole GROUP BY recording_id, ts_ns // $width HAVING max(ts_ns) > $since)
GROUP BY recording_id
"""
_PROBES = """
SELECT src, dst, protocol, count(*) AS sent, count(*) FILTER (lost) AS lost,
       quantile_disc({latency}, {quantiles}) FILTER (NOT lost) AS quantiles
FROM probes WHERE tx_ns >= $since AND tx_ns < $until GROUP BY ALL ORDER BY ALL
"""
_QUEUES = """
SELECT device, port, queue, max(ts_ns) AS newest_ns, max(max_bytes) AS max_bytes,
       CAST(coalesce(sum(dropped_packets), 0) AS BIGINT) AS dropped
FROM queues WHERE ts_ns > $since GROUP BY ALL ORDER BY ALL
"""
_TARGETS = """
SELECT device, arg_max(event, ts_ns) IN ('connect', 'sync') AS up FROM gnmi_events
WHERE event IN ('connect', 'sync', 'disconnect', 'refused') GROUP BY device ORDER BY device
"""


class LaneName(NamedTuple):
    """The labels of a lane."""

    rack: str
    host: str
    interface: str
    direction: str


@dataclass
class Histogram:
    """Counts by bucket, each up to and with its bound, the last one without."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class LaneCounts:
    """What one lane did since the meter was made."""

    link_bps: int = 0
    newest_ns: int = 0
    wire_bytes: int = 0
    packets: int = 0
    losing_bins: int = 0
    stamped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAMPS, 0))
    bursts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    burst_ns: int = 0
    durations: Histogram = field(default_factory=lambda: Histogram(DURATIONS_S))
    fan_ins: Histogram = field(default_factory=lambda: Histogram(tuple(map(float, FAN_INS))))


class PathCounts(NamedTuple):
    """Probes of a path since the meter was made, and the quantiles (seconds) of those since the last look."""

    sent: int
    lost: int
    quantiles: tuple[float, ...]


class QueueCounts(NamedTuple):
    """Drops of a switch queue since the meter was made, and the fullest window since the last look."""

    dropped: int
    max_bytes: int | None


@dataclass
class Marks:
    """How far a run was counted: bins up to `counted_ns`, bursts that begin before `settled_ns`."""

    counted_ns: int
    settled_ns: int


class Meter:
    """Counts what comes into a store from SINCE_NS on (Unix ns; None: from now on). One thread at a time."""

    def __init__(self, store: Store, definition: BurstDefinition, since_ns: int | None = None) -> None:
        self.store = store
        self.definition = definition
        self.since_ns = time.time_ns() if since_ns is None else since_ns
        self.lanes: dict[LaneName, LaneCounts] = defaultdict(LaneCounts)
        self.lost: dict[LaneName, tuple[int, int]] = {}  # packets dropped unseen, and too late for a bin
        self.paths: dict[tuple[str, str, str], PathCounts] = {}
        self.queues: dict[tuple[str, str, str], QueueCounts] = {}
        self.targets: dict[str, bool] = {}
        self._marks: dict[str, Marks] = {}
        self._names: dict[str, LaneName] = {}
        self._probed_ns = self._queued_ns = self.since_ns
        self._scraped: dict[str, int] = {}
        self._begun = False

    def advance(self, scraper: str) -> dict[LaneName, dict[str, float]]:
        """Count what is new; the peak utilization of each lane by width since the last call for SCRAPER.
        Raises MburstError when the store cannot be read."""
        from ..sql.damage import readable

        con = self.store.connect(None, self._oldest(scraper))
        try:
            with readable(con):
                self._choose_runs(con)
                self._count_bins(con)
                self._count_bursts(con)
                self._probes(con)
                self._queues(con)
                self._targets(con)
                return self._peaks(con, scraper)
        finally:
            con.close()

    def _oldest(self, scraper: str) -> int:
        """From when on files may hold something that was not counted: no more than a day before the newest bin, so that
        a host that went silent, or a table that stays empty, does not have ever more of them read."""
        newest = max((mark.counted_ns for mark in self._marks.values()), default=self.since_ns)
        waiting = [mark.settled_ns for mark in self._marks.values() if mark.settled_ns <= mark.counted_ns]
        since = min([*waiting, self._probed_ns, self._queued_ns, self._scraped.get(scraper, self.since_ns)])
        return max(since, newest - DAY_NS)

    def _choose_runs(self, con: duckdb.DuckDBPyConnection) -> None:
        """The runs that may still have something new become the connection's `runs`, and its `marks`."""
        import pyarrow as pa

        rows = con.execute("""
            SELECT recording_id, rack, host, interface, direction, coalesce(link_bps, 0), dropped, late FROM recordings
            WHERE NOT complete OR end_ns >= $since ORDER BY recording_id""", {"since": self.since_ns}).fetchall()
        self.lost = {}
        for run, rack, host, interface, direction, link_bps, dropped, late in rows:
            name = self._names[run] = LaneName(rack, host, interface, direction)
            self.lanes[name].link_bps = link_bps
            before = self.lost.get(name, (0, 0))
            self.lost[name] = before[0] + dropped, before[1] + late
            self._marks.setdefault(run, Marks(self.since_ns - 1, self.since_ns))
        chosen = pa.table({
            "recording_id": pa.array([row[0] for row in rows], pa.string()),
            "counted_ns": pa.array([self._marks[row[0]].counted_ns for row in rows], pa.int64())})
        con.register("marks", chosen)
        con.execute("CREATE TEMP TABLE judged AS SELECT * FROM recordings "
                    "WHERE recording_id IN (SELECT recording_id FROM marks)")
        con.execute("CREATE TEMP VIEW recordings AS SELECT * FROM judged WHERE link_bps IS NOT NULL")

    def _count_bins(self, con: duckdb.DuckDBPyConnection) -> None:
        from ..analysis.beside import dicts

        for row in dicts(con, _NEW, {}):
            lane = self.lanes[self._names[row["recording_id"]]]
            lane.newest_ns = max(lane.newest_ns, row["newest_ns"])
            lane.wire_bytes += row["wire_bytes"]
            lane.packets += row["packets"]
            lane.losing_bins += row["losing"]
            for kind in STAMPS:
                lane.stamped[kind] += row[kind]
            self._marks[row["recording_id"]].counted_ns = row["newest_ns"]

    def _count_bursts(self, con: duckdb.DuckDBPyConnection) -> None:
        """Count the bursts that have ended, and remember where those begin that have not."""
        from ..analysis.bursts import find_bursts

        judged = {run: (bin_ns, complete) for run, bin_ns, complete in
                  con.execute("SELECT recording_id, bin_ns, complete FROM recordings").fetchall()}
        waiting = [run for run in judged if self._marks[run].settled_ns <= self._marks[run].counted_ns]
        if not waiting:
            return
        bursts = find_bursts(con, self.definition, since_ns=min(self._marks[run].settled_ns for run in waiting))
        now = time.time_ns()
        for run in waiting:
            bin_ns, complete = judged[run]
            mark = self._marks[run]
            width = self.definition.bin_ns or bin_ns
            join_ns = 5 * width if self.definition.join_ns is None else self.definition.join_ns
            over = complete or now - mark.counted_ns > QUIET_NS
            settled = mark.counted_ns + 1 if over else mark.counted_ns // width * width - join_ns
            mine = [burst for burst in bursts if burst["recording_id"] == run and burst["start_ns"] >= mark.settled_ns]
            going_on = [burst for burst in mine if not over and burst["end_ns"] >= settled
                        and mark.counted_ns - burst["start_ns"] < LONGEST_NS]
            for burst in mine:
                if burst not in going_on:
                    self._count(self.lanes[self._names[run]], burst)
            ended = max((burst["end_ns"] for burst in mine if burst not in going_on), default=settled)
            begun = min((burst["start_ns"] for burst in going_on), default=max(settled, ended))
            mark.settled_ns = max(mark.settled_ns, begun)

    def _count(self, lane: LaneCounts, burst: dict[str, Any]) -> None:
        lane.bursts[burst["pattern"]] += 1
        lane.burst_ns += burst["duration_ns"]
        lane.durations.add(burst["duration_ns"] / 1e9)
        if burst["fan_in"]:
            lane.fan_ins.add(float(burst["fan_in"]))

    def _peaks(self, con: duckdb.DuckDBPyConnection, scraper: str) -> dict[LaneName, dict[str, float]]:
        since = self._scraped.get(scraper, self.since_ns - 1)
        whole = since // 10**6 * 10**6  # a window that was cut by the last look counts as a whole in this one
        peaks: dict[LaneName, dict[str, float]] = {}
        for width, width_ns in WIDTHS_NS.items():
            for run, filled in con.execute(_PEAKS, {"width": width_ns, "since": since, "whole": whole}).fetchall():
                name = self._names[run]
                share = filled * 8e9 / width_ns / self.lanes[name].link_bps
                of = peaks.setdefault(name, {})
                of[width] = max(of.get(width, 0.0), float(share))
        newest = max((mark.counted_ns for mark in self._marks.values()), default=since)
        self._scraped.pop(scraper, None)
        self._scraped[scraper] = max(since, newest)
        if len(self._scraped) > SCRAPERS:  # the one that has not asked for longest
            del self._scraped[next(iter(self._scraped))]
        return peaks

    def _probes(self, con: duckdb.DuckDBPyConnection) -> None:
        from ..analysis.beside import LATENCY, dicts

        newest = con.execute("SELECT max(tx_ns) FROM probes WHERE tx_ns >= $1", [self._probed_ns]).fetchall()[0][0]
        until = min((newest or 0) + 1, time.time_ns() - PROBE_SETTLE_NS)
        if until <= self._probed_ns:
            return
        query = _PROBES.format(latency=LATENCY, quantiles=list(QUANTILES))
        fresh = {}
        for row in dicts(con, query, {"since": self._probed_ns, "until": until}):
            path = row["src"], row["dst"], row["protocol"]
            before = self.paths.get(path, PathCounts(0, 0, ()))
            quantiles = tuple(value / 1e9 for value in row["quantiles"] or ())
            fresh[path] = PathCounts(before.sent + row["sent"], before.lost + row["lost"], quantiles)
        self.paths = {path: counts._replace(quantiles=()) for path, counts in self.paths.items()} | fresh
        self._probed_ns = until

    def _queues(self, con: duckdb.DuckDBPyConnection) -> None:
        from ..analysis.beside import dicts

        rows = dicts(con, _QUEUES, {"since": self._queued_ns})
        for row in rows:
            name = row["device"], row["port"], row["queue"]
            before = self.queues.get(name, QueueCounts(0, None))
            self.queues[name] = QueueCounts(before.dropped + row["dropped"], row["max_bytes"])
        self._queued_ns = max((row["newest_ns"] for row in rows), default=self._queued_ns)

    def _targets(self, con: duckdb.DuckDBPyConnection) -> None:
        """What the last event of each device was: first in all of the store, then in what is newer."""
        if self._begun:
            self.targets |= dict(con.execute(_TARGETS).fetchall())
            return
        with self.store.connect() as whole:
            self.targets = dict(whole.execute(_TARGETS).fetchall())
        self._begun = True
