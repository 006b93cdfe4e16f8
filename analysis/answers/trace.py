"""The content of a trace of a store on one time axis: lanes, probes and switch queues, bounded whatever is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..bursts.find import BurstDefinition
from ..cause.tail import DEFAULT
from ..model import context
from ..model.context import PathLatency, QueueWindows
from ..model.envelope import Interval
from .host import Limits, gather
from .lane_report import LaneReport
from .lanes import ReportLane, detect

if TYPE_CHECKING:
    import duckdb

PATHS = QUEUES = 16
PROBES = WINDOWS = 50_000  # of a path or queue; more are aggregated into cells of time
# The probes and queues of the page are left out: they belong to no lane here.
LIMITS = Limits(whole_bins=500_000, cells=250_000, detail_bins=250_000, seconds=100_000, paths=0, queues=0)

_SPAN = """
SELECT min(greatest(start_ns, $since)), max(least(end_ns, $until)) FROM (
    SELECT start_ns, end_ns FROM recorded WHERE start_ns < $until AND end_ns > $since
    UNION ALL SELECT min(tx_ns), max(tx_ns) FROM latency WHERE tx_ns >= $since AND tx_ns < $until
    UNION ALL SELECT min(window_start_ns), max(ts_ns) FROM believable_windows('queues', $since, $until))
WHERE start_ns IS NOT NULL
"""
_GAPS = """
SELECT recording_id, start_ns, least(end_ns, $until) AS end_ns, reason, packets, detail FROM gaps
WHERE start_ns < $until AND coalesce(end_ns > $since, true) ORDER BY start_ns, end_ns, reason
"""


@dataclass(frozen=True)
class TraceData:
    """The time [start_ns, end_ns) of a store. `gaps` are rows of the view of this name. `paths_found` and
    `queues_found` count all paths and queues; only the first PATHS and QUEUES are included."""

    start_ns: int
    end_ns: int
    lanes: list[LaneReport]
    gaps: list[dict[str, Any]]
    paths: list[PathLatency]
    paths_found: int
    queues: list[QueueWindows]
    queues_found: int

    def unrecorded(self, lane: LaneReport) -> list[Interval]:
        """Returns the times in which a lane was not recorded."""
        edges = [(self.start_ns, self.start_ns), *lane.coverage, (self.end_ns, self.end_ns)]
        return [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]

    def gaps_of(self, lane: ReportLane) -> list[dict[str, Any]]:
        """Returns the gaps of a lane's recordings; `end_ns` is None if it is unknown whether counting continued."""
        recordings = {recording["recording_id"] for recording in lane.recordings}
        return [gap for gap in self.gaps if gap["recording_id"] in recordings]

    def late_from_ns(self, path: PathLatency) -> float | None:
        """Returns the latency above which a probe of PATH is late, by the rule of investigations; None if nothing was
        measured."""
        links = [lane.lane.link_bps for lane in self.lanes if lane.lane.link_bps]
        return None if path.p50_ns is None else DEFAULT.on(links).threshold(path.p50_ns)


def gather_trace(
    con: duckdb.DuckDBPyConnection,
    chosen: Sequence[ReportLane],
    definition: BurstDefinition,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> TraceData | None:
    """Returns the content of a trace of [since_ns, until_ns); None if nothing was stored in that time. Raises
    MburstError."""
    asked = {"since": since_ns or 0, "until": 2**63 - 1 if until_ns is None else until_ns}
    [(start, end)] = con.execute(_SPAN, asked).fetchall()
    if start is None:
        return None
    bursts = detect(con, chosen, definition, since_ns, until_ns)
    lanes = [lane for lane in gather(con, chosen, bursts, since_ns, until_ns, LIMITS) if lane.coverage]
    hosts = {lane.lane.host for lane in lanes}
    host = hosts.pop() if len(hosts) == 1 else ""
    paths, paths_found = context.read_latency(con, host, start, end, PATHS, PROBES)
    queues, queues_found = context.read_queues(con, start, end, QUEUES, WINDOWS)
    return TraceData(start, end, lanes, context.dicts(con, _GAPS, asked), paths, paths_found, queues, queues_found)
