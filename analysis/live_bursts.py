"""Bursts as they end: sql/queries/bursts.sql over the newest bins in memory, where something can have been one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MburstError
from ..sql import in_memory
from .bursts import BurstDefinition, find_bursts
from .live_lane import LiveLane
from .live_store import LiveStore

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MOST_BURSTS = 2000  # of a lane in memory
LATE_NS = 1_000_000_000  # by which senders of a burst have come, if any will


class BurstWatch:
    """Finds the bursts of a live store's lanes as they end. `begin` once, then `look` now and then. Call both with the
    store's lock held."""

    def __init__(self, live: LiveStore, definition: BurstDefinition) -> None:
        self.live = live
        self.definition = definition
        self._judged: dict[str, int] = {}  # of each run: up to when bursts that ended are told
        self._con: duckdb.DuckDBPyConnection | None = None

    def look(self) -> bool:
        """Tell each lane its bursts that ended; whether any did. Raises MburstError where the definition does not fit
        what was recorded, once those that it fits are told."""
        waiting = [(lane, run) for lane in self.live.lanes.values() for run in lane.runs if self._possible(lane, run)]
        found, unfit = False, None
        for lane, run in waiting:
            try:
                found |= self._judge(lane, run)
            except MburstError as error:
                unfit = error
        if unfit:
            raise unfit
        return found

    def _link(self, lane: LiveLane) -> int | None:
        return self.definition.link_bps or lane.link_bps

    def _possible(self, lane: LiveLane, run: str) -> bool:
        """Whether a bin of the run that was not judged yet is full enough: no wide bin is fuller than its fullest."""
        link, known = self._link(lane), lane.spans.get(run)
        if not link or not known:
            return False
        since = self._judged.setdefault(run, lane.complete_from_ns)
        least = self.definition.threshold * lane.bin_ns * link / 8e9
        hot = False
        for (name, _), series, part in lane.rows(since, 2**63 - 1):
            hot |= name == run and bool((series.column("wire_bytes")[part] >= least - 1).any())
        if not hot:
            self._pass(lane, run, max(since, known[1] - self._reach(lane)))
        return hot

    def _reach(self, lane: LiveLane) -> int:
        """How long after its last bin a burst may still go on."""
        return self.definition.joined_ns(lane.bin_ns) + 2 * self.definition.width_ns(lane.bin_ns)

    def _pass(self, lane: LiveLane, run: str, until_ns: int) -> None:
        """Everything before UNTIL_NS is judged: its senders need not be kept, but for those just before a burst."""
        import pyarrow.compute as pc

        self._judged[run] = until_ns
        keep = until_ns - 4 * int(lane.runs[run]["source_bin_ns"]) - self._reach(lane)
        tables = self.live.senders.get(run, [])
        self.live.senders[run] = [
            table for table in tables if (pc.max(table.column("last_ns")).as_py() or 0) >= keep]

    def _judge(self, lane: LiveLane, run: str) -> bool:
        since = self._judged[run]
        known_ns = max(lane.edge_ns if not lane.runs[run]["ended"] else 2**62, lane.spans[run][1])
        bursts = find_bursts(self._database(lane, run, since), replace(self.definition, link_bps=self._link(lane)))
        reach, senders_until = self._reach(lane), self._senders_until(run)
        ended: list[dict[str, Any]] = []
        unended: list[int] = []
        for burst in bursts:
            over = burst["end_ns"] + reach <= known_ns
            told = burst["end_ns"] <= senders_until or burst["end_ns"] + LATE_NS <= known_ns
            if over and told:
                ended.append(burst)
            else:
                unended.append(burst["start_ns"])
        width = self.definition.width_ns(lane.bin_ns)
        last = max((burst["end_ns"] for burst in ended), default=since)
        until = max(since, last, min([known_ns, lane.spans[run][1]]) - reach)
        self._pass(lane, run, min([until, *unended]) // width * width)
        lane.bursts = sorted([*lane.bursts, *ended], key=lambda burst: burst["start_ns"])[-MOST_BURSTS:]
        if ended:
            lane.changes.add(min(burst["start_ns"] for burst in ended))
        return bool(ended)

    def _senders_until(self, run: str) -> int:
        """Up to when the senders of a run are known."""
        import pyarrow.compute as pc

        width = int(self.live.lane_of[run].runs[run]["source_bin_ns"])
        return max((pc.max(table.column("ts_ns")).as_py() + width for table in self.live.senders.get(run, [])
                    if table.num_rows), default=0)

    def _database(self, lane: LiveLane, run: str, since_ns: int) -> duckdb.DuckDBPyConnection:
        """A database in memory that has only what is to be judged of a run."""
        import pyarrow as pa

        if self._con is None:
            self._con = in_memory(threads=1)  # for a few rows, more cost more
        con = self._con
        con.register("bins", _bins(lane, run, since_ns))
        con.register("recordings", pa.Table.from_pylist([lane.runs[run]]))
        tables = self.live.senders.get(run)
        con.register("sources", pa.concat_tables(table.unify_dictionaries() for table in tables) if tables
                     else con.sql("FROM defined.sources").to_arrow_table())
        return con


def _bins(lane: LiveLane, run: str, since_ns: int) -> pa.Table:
    """What bursts.sql reads of `bins`."""
    import pyarrow as pa

    names = ("ts_ns", "clock_epoch", "bytes", "wire_bytes", "packets", "quality")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for (name, epoch), series, part in lane.rows(since_ns, 2**63 - 1):
        if name == run:
            columns["ts_ns"].append(series.times[part].copy())
            columns["clock_epoch"].append(np.full(part.stop - part.start, epoch, np.int64))
            for column in ("bytes", "wire_bytes", "packets", "quality"):
                columns[column].append(series.column(column)[part].copy())
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return pa.table({"recording_id": pa.array([run] * len(joined["ts_ns"]), pa.string()).dictionary_encode(), **joined})
