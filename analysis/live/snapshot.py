"""The content of a live view for a time of a lane: from memory if it has all of it, otherwise from the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...quality import Quality
from ...units import NS_PER_DAY, NS_PER_S
from ..answers.host import marked
from ..bursts.find import BurstDefinition, find_bursts
from ..model import context, envelope
from ..model.context import PathLatency, QueueWindows
from ..model.envelope import Envelope, Interval, Slice
from .lane import LiveLane
from .store import LiveStore, Measures

if TYPE_CHECKING:
    import duckdb

PATHS = QUEUES = 8
POINTS = 4000  # of a path or queue; more are aggregated into cells of time
INTERVALS = 2000
BURSTS = 500  # of a snapshot, the latest
AROUND_NS = NS_PER_S  # by which a burst may reach beyond a snapshot without being cut
FRESH_S = 2.0  # for which a connection to the store serves further queries


@dataclass(frozen=True)
class LaneSnapshot:
    """[start_ns, end_ns) of a lane. `seconds` are whole seconds of the clock, only complete ones."""

    start_ns: int
    end_ns: int
    coverage: list[Interval]
    cells: Envelope
    seconds: Envelope
    losing: list[Interval]
    bursts: Sequence[dict[str, Any]]
    latency: list[PathLatency]
    queues: list[QueueWindows]


@dataclass(frozen=True)
class HeatCells:
    """The heatmap from `start_ns` on: its cells, and those that were recorded at least in part. Both are whole
    cells."""

    start_ns: int
    cells: Envelope
    coverage: list[Interval]


class History:
    """Queries to the store, one at a time."""

    def __init__(self, live: LiveStore, definition: BurstDefinition) -> None:
        self.live = live
        self.definition = definition
        self._lock = threading.Lock()
        self._con: duckdb.DuckDBPyConnection | None = None
        self._of: tuple[int, int] | None = None
        self._since = 0.0
        self._ended = False

    @contextmanager
    def asked(self, start_ns: int, end_ns: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yields a connection to the store as it is now, or was at most FRESH_S ago. Raises MburstError."""
        days = start_ns // NS_PER_DAY, end_ns // NS_PER_DAY
        with self._lock:
            if self._ended:
                raise MburstError("the view has ended")
            if self._con is None or self._of != days or time.monotonic() - self._since > FRESH_S:
                if self._con is not None:
                    self._con.close()
                self._con = self.live.connect(start_ns, end_ns)
                self._of, self._since = days, time.monotonic()
            yield self._con

    def interrupt(self) -> None:
        """Interrupt a running query, and reject further ones with an error. For the end of the process."""
        self._ended = True
        if (con := self._con) is not None:
            con.interrupt()

    def bursts(
        self, con: duckdb.DuckDBPyConnection, lane: LiveLane, start_ns: int, end_ns: int
    ) -> list[dict[str, Any]]:
        """Returns the bursts of a lane that overlap [start_ns, end_ns), detected in the bins of that time and AROUND_NS
        around it."""
        link = self.definition.line_bps(lane.link_bps)
        if not link:
            return []
        wanted = replace(self.definition, link_bps=link)
        found = [
            burst
            for recording in list(lane.recordings)
            if lane.touches(recording, start_ns, end_ns)
            for burst in find_bursts(
                con, wanted, recording=recording, since_ns=start_ns - AROUND_NS, until_ns=end_ns + AROUND_NS
            )
            if burst["end_ns"] > start_ns and burst["start_ns"] < end_ns
        ]
        return sorted(found, key=lambda burst: burst["start_ns"])


def width_for(bin_ns: int, span_ns: int, buckets: int) -> int:
    """Returns the narrowest multiple of a bin with about BUCKETS in a span."""
    return bin_ns * max(1, -(-span_ns // (buckets * bin_ns)))


def read_moment(
    history: History, lane: LiveLane, start_ns: int, end_ns: int, width_ns: int, measures: Measures | None = None
) -> LaneSnapshot:
    """Returns [start_ns, end_ns) of LANE in cells of WIDTH_NS, a multiple of its bin. If the time reaches the edge,
    probes and queues have no end, so that those sent while the link was silent are included. MEASURES: those of a
    longer time that contains this one. Raises MburstError."""
    first, last = start_ns // width_ns * width_ns, -(-end_ns // width_ns) * width_ns
    # One second more, because it may only now be complete.
    whole_first, whole_last = (start_ns // NS_PER_S - 1) * NS_PER_S, -(-end_ns // NS_PER_S) * NS_PER_S
    live, dividing = history.live, NS_PER_S if NS_PER_S % lane.bin_ns == 0 else lane.bin_ns
    with live.lock:
        coverage, edge = lane.covered(start_ns, end_ns), lane.edge_ns
        if first >= lane.complete_from_ns and whole_first >= lane.complete_from_ns:
            beside_end = 2**62 if end_ns >= edge else end_ns
            return LaneSnapshot(
                start_ns,
                end_ns,
                coverage,
                lane.envelope(first, last, width_ns),
                finished(lane.envelope(whole_first, whole_last, dividing), edge),
                lane.losing(start_ns, end_ns, INTERVALS),
                lane.bursts_between(start_ns, end_ns)[-BURSTS:],
                live.latency(lane.named("host"), start_ns, beside_end, measures)[:PATHS],
                live.queue_windows(start_ns, beside_end)[:QUEUES],
            )
        recordings, repeated = list(lane.recordings), lane.repeated
    with history.asked(whole_first, whole_last) as con:
        where, seconds = (
            Slice(recordings, lane.bin_ns, a, b, repeated) for a, b in ((first, last), (whole_first, whole_last))
        )
        return LaneSnapshot(
            start_ns,
            end_ns,
            coverage,
            envelope.read(con, where, width_ns),
            finished(envelope.read(con, seconds, dividing), edge),
            marked(con, where, Quality.DROPS, INTERVALS),
            history.bursts(con, lane, start_ns, end_ns)[-BURSTS:],
            context.read_latency(con, lane.named("host"), start_ns, end_ns, PATHS, POINTS)[0],
            context.read_queues(con, start_ns, end_ns, QUEUES, POINTS)[0],
        )


def read_cells(history: History, lane: LiveLane, start_ns: int, end_ns: int, width_ns: int) -> Envelope:
    """Returns only the cells of a time. Raises MburstError."""
    first, last = start_ns // width_ns * width_ns, -(-end_ns // width_ns) * width_ns
    with history.live.lock:
        if first >= lane.complete_from_ns:
            return lane.envelope(first, last, width_ns)
        where = Slice(list(lane.recordings), lane.bin_ns, first, last, lane.repeated)
    with history.asked(first, last) as con:
        return envelope.read(con, where, width_ns)


def read_losing(history: History, lane: LiveLane, start_ns: int, end_ns: int) -> list[Interval]:
    """Returns when packets of a time were lost. Raises MburstError."""
    with history.live.lock:
        if start_ns >= lane.complete_from_ns:
            return lane.losing(start_ns, end_ns, INTERVALS)
        where = Slice(list(lane.recordings), lane.bin_ns, start_ns, end_ns, lane.repeated)
    with history.asked(start_ns, end_ns) as con:
        return marked(con, where, Quality.DROPS, INTERVALS)


def read_bursts(history: History, lane: LiveLane, start_ns: int, end_ns: int) -> Sequence[dict[str, Any]]:
    """Returns the latest bursts of a time. Raises MburstError."""
    with history.live.lock:
        if start_ns >= lane.complete_from_ns:
            return lane.bursts_between(start_ns, end_ns)[-BURSTS:]
    with history.asked(start_ns, end_ns) as con:
        return history.bursts(con, lane, start_ns, end_ns)[-BURSTS:]


def read_heat(history: History, lane: LiveLane, start_ns: int, end_ns: int, width_ns: int) -> HeatCells:
    """Returns [start_ns, end_ns) of LANE in the heatmap's cells of WIDTH_NS. Raises MburstError."""
    first = start_ns // width_ns * width_ns
    with history.live.lock:
        coverage = [(a // width_ns * width_ns, -(-b // width_ns) * width_ns) for a, b in lane.covered(first, end_ns)]
    return HeatCells(first, read_cells(history, lane, first, end_ns, width_ns), coverage)


def finished(cells: Envelope, edge_ns: int) -> Envelope:
    """Returns the seconds of CELLS that are complete at EDGE_NS, as a monitoring system would show them by then."""
    seconds = (
        cells
        if cells.width_ns == NS_PER_S
        else replace(cells, width_ns=NS_PER_S, cells=cells.cells * cells.width_ns // NS_PER_S).joined()
    )
    over = (seconds.cells + 1) * NS_PER_S <= edge_ns
    return Envelope(
        NS_PER_S, NS_PER_S, seconds.cells[over], seconds.total[over], seconds.total[over], seconds.bins[over]
    )
