"""Follows the bursts of recordings in progress, each reported once when it has ended: for the live line, the live view
and the metrics.

A burst is defined by sql/queries/bursts.sql, over the bins that are kept: those that may belong to a burst that has not
ended. The same rows therefore give the same bursts as in the store, however often they are examined. A burst has ended
when no later bin can be joined to it: its recording has ended, is known until long enough after it, or was silent for
QUIET_NS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import MburstError
from ...units import NS_PER_MINUTE
from ..read.clocks import last_heard
from ..read.columns import joined, schema_of, table_of
from ..read.rows import newest_bins, rows_since
from .find import BurstDefinition, find_bursts

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

QUIET_NS = 10 * 10**9  # after this long without a bin, any burst has ended
LONGEST_NS = NS_PER_MINUTE  # a longer burst is reported in pieces
MOST_ROWS = 8_000_000  # of bins of a recording that are kept; beyond it, bursts are reported in pieces too
LATE_NS = 10**9  # delay after which no earlier bins and senders arrive any more
BIN_COLUMNS = ("recording_id", "clock_epoch", "ts_ns", "bytes", "wire_bytes", "packets", "quality")
SENDER_COLUMNS = ("recording_id", "clock_epoch", "ts_ns", "source", "bytes", "members", "first_ns", "last_ns")
RECORDING_COLUMNS = (
    "recording_id", "host", "rack", "interface", "direction", "backend", "bin_ns", "source_bin_ns", "link_bps",
    "start_ns", "end_ns",
)  # fmt: skip
_COLUMNS = {"bins": BIN_COLUMNS[1:], "sources": SENDER_COLUMNS[1:]}  # the columns that are kept of a recording

Epoch = tuple[str, int]  # recording_id, clock_epoch
Detect = Callable[["list[EpochBins]"], list[dict[str, Any]]]


@dataclass
class EpochBins:
    """The kept rows of one clock epoch of a recording, and the time up to which its bursts are reported."""

    recording: dict[str, Any]
    settled_ns: int  # bursts that begin before it are reported
    newest_ns: int = -1  # its newest bin; -1: none was seen
    heard_ns: int = 0  # when its recorder last reported that it runs
    came_ns: int = 0  # when its newest bins arrived, by the local clock
    senders_ns: int = -1  # the newest of its senders
    bins: list[pa.Table] = field(default_factory=list)
    senders: list[pa.Table] = field(default_factory=list)

    @property
    def known_ns(self) -> int:
        """The time before which no further bin begins."""
        return max(self.newest_ns, self.heard_ns - LATE_NS)


class Follower:
    """The bursts of the recordings that were added, from SINCE_NS on. LATE_NS: how long a burst waits for its senders
    (0: senders are not used). Bursts longer than LONGEST_NS are reported in pieces."""

    def __init__(
        self, definition: BurstDefinition, since_ns: int, late_ns: int | None = None, longest_ns: int | None = None
    ) -> None:
        self.definition = definition
        self.since_ns = since_ns
        self.late_ns = LATE_NS if late_ns is None else late_ns
        self.longest_ns = LONGEST_NS if longest_ns is None else longest_ns
        self.unfit: MburstError | None = None  # why no bursts can be detected in a recording
        self._unfit: set[str] = set()  # recordings without detection
        self._recordings: dict[str, dict[str, Any]] = {}
        self._waiting: dict[Epoch, EpochBins] = {}
        self._con: duckdb.DuckDBPyConnection | None = None
        self.names: pa.Table | None = None  # rows of the view `names`, if bursts are named

    @property
    def kept_rows(self) -> int:
        """The number of rows of bins and senders in memory."""
        return sum(table.num_rows for of in self._waiting.values() for table in (*of.bins, *of.senders))

    def add_recording(self, recording: dict[str, Any]) -> None:
        """Add a recording, or update it. A recording without a link speed is not followed."""
        recording = {**recording, "link_bps": self.definition.line_bps(recording["link_bps"])}
        if recording["recording_id"] in self._unfit or recording["link_bps"] is None:
            return
        self._recordings[recording["recording_id"]] = recording
        for (name, _), of in self._waiting.items():
            if name == recording["recording_id"]:
                of.recording = recording

    def add(self, bins: pa.Table | None, senders: pa.Table | None, now_ns: int) -> None:
        """Add rows of `bins` and `sources`; known rows are left out."""
        import pyarrow.compute as pc

        for of, rows in self._by_epoch(bins, "bins") if bins is not None else ():
            rows = rows.filter(pc.greater_equal(rows["ts_ns"], of.settled_ns))
            if rows.num_rows:
                of.bins.append(_unknown(rows, of.bins, of.newest_ns))
                of.newest_ns = max(of.newest_ns, pc.max(rows["ts_ns"]).as_py())
                of.came_ns = now_ns
        for of, rows in self._by_epoch(senders, "sources") if senders is not None else ():
            of.senders.append(_unknown(rows, of.senders, of.senders_ns))
            of.senders_ns = max(of.senders_ns, pc.max(rows["ts_ns"]).as_py())

    def hear(self, clock: pa.Table) -> None:
        """Rows of `clock`: their recorders ran then, and had counted all until a little before."""
        heard = last_heard(clock)
        for of in self._waiting.values():
            of.heard_ns = heard.get((of.recording["host"], of.recording["interface"]), of.heard_ns)

    def _by_epoch(self, rows: pa.Table, table: str) -> Iterator[tuple[EpochBins, pa.Table]]:
        """Yields the rows of each recording that is followed, by clock epoch."""
        import pyarrow.compute as pc

        for recording in pc.unique(rows["recording_id"]).to_pylist():
            if recording not in self._recordings:
                continue
            own = joined(table, _COLUMNS[table], [rows.filter(pc.equal(rows["recording_id"], recording))])
            for epoch in pc.unique(own["clock_epoch"]).to_pylist():
                yield self._of(recording, epoch), own.filter(pc.equal(own["clock_epoch"], epoch))

    def _of(self, recording: str, epoch: int) -> EpochBins:
        return self._waiting.setdefault((recording, epoch), EpochBins(self._recordings[recording], self.since_ns))

    def ended(self, now_ns: int) -> list[dict[str, Any]]:
        """Returns the bursts that have ended and were not reported before, in the form of find_bursts. If the bins of a
        recording do not fit the definition, `unfit` has the reason, and the recording is not followed any more."""
        due = {key: of for key, of in self._waiting.items() if of.bins}
        bursts = self._fitting([of for of in due.values() if self._possible(of)], self._detected)
        found = self._settled(due, bursts, now_ns)
        for recording in [name for name, row in self._recordings.items() if row["ended"]]:
            del self._recordings[recording]
        for key in [key for key in self._waiting if self._is_over(key)]:
            del self._waiting[key]
        return found

    def begin(self, con: duckdb.DuckDBPyConnection, now_ns: int) -> list[dict[str, Any]]:
        """Returns the ended bursts of the recordings in a store, from the beginning, and keeps the rows that are needed
        later. CON has the store's tables; of its bins and senders, only the newest are read into memory."""

        def detected(due: list[EpochBins]) -> list[dict[str, Any]]:
            con.register("recordings", _recordings(due))
            con.register("links", _no_links())
            try:
                return find_bursts(con, self.definition, since_ns=self.since_ns)
            finally:
                con.unregister("links")
                con.unregister("recordings")

        due = {}
        for recording, epoch, newest_ns in newest_bins(con, self.since_ns):
            if recording in self._recordings:
                due[recording, epoch] = of = self._of(recording, epoch)
                of.newest_ns = newest_ns
        found = self._settled(due, self._fitting(list(due.values()), detected), now_ns)
        for key, of in due.items():
            of.bins = [rows_since(con, "bins", _COLUMNS["bins"], key, of.settled_ns)]
            of.senders = [rows_since(con, "sources", _COLUMNS["sources"], key, of.settled_ns - self._before(of))]
        return found

    def may_be_cut(self, burst: dict[str, Any]) -> bool:
        """Returns whether a burst of a recording that was added is reported in pieces if it is followed while it goes
        on. The pieces depend on when its bins come."""
        bin_ns = int(self._recordings[burst["recording_id"]]["bin_ns"])
        return bool(burst["end_ns"] - burst["start_ns"] >= min(self.longest_ns, MOST_ROWS * bin_ns))

    def _fitting(self, due: list[EpochBins], detect: Detect) -> list[dict[str, Any]]:
        """Returns the result of DETECT on all that is DUE, or on each one that fits the definition."""
        try:
            return detect(due) if due else []
        except MburstError as error:
            if len(due) > 1:
                return [burst for of in due for burst in self._fitting([of], detect)]
            self.unfit = error
            name = due[0].recording["recording_id"]
            self._unfit.add(name)
            self._recordings.pop(name, None)
            return []

    def _is_over(self, key: Epoch) -> bool:
        """Returns whether no more bins of a recording's epoch are expected."""
        recording, epoch = key
        return (
            recording not in self._recordings
            or bool(self._recordings[recording]["ended"])
            or any(name == recording and later > epoch for name, later in self._waiting)
        )

    def _settled(self, due: dict[Epoch, EpochBins], bursts: list[dict[str, Any]], now_ns: int) -> list[dict[str, Any]]:
        by_epoch: dict[Epoch, list[dict[str, Any]]] = {key: [] for key in due}
        for burst in bursts:
            if (key := (burst["recording_id"], burst["clock_epoch"])) in by_epoch:
                by_epoch[key].append(burst)
        return [
            burst
            for key, of in due.items()
            for burst in self._settle(
                of, by_epoch[key], self._is_over(key) or now_ns - max(of.known_ns, of.came_ns) > QUIET_NS
            )
        ]

    # --- one recording ----------------------------------------------------------------------------------------------

    def _width_ns(self, of: EpochBins) -> int:
        return self.definition.width_ns(int(of.recording["bin_ns"]))

    def _join_ns(self, of: EpochBins) -> int:
        return self.definition.joined_ns(int(of.recording["bin_ns"]))

    def _before(self, of: EpochBins) -> int:
        """Returns how long before a burst its senders are read."""
        return 4 * int(of.recording["source_bin_ns"]) + self._join_ns(of) + 2 * self._width_ns(of)

    def _possible(self, of: EpochBins) -> bool:
        """Returns whether a bin is full enough: no wide bin is fuller than its fullest stored bin."""
        import pyarrow.compute as pc

        least = self.definition.threshold * of.recording["bin_ns"] * of.recording["link_bps"] / 8e9 - 1
        return any(pc.max(rows["wire_bytes"]).as_py() >= least for rows in of.bins if rows.num_rows)

    def _detected(self, due: list[EpochBins]) -> list[dict[str, Any]]:
        from ...sql import in_memory

        if self._con is None:
            self._con = in_memory(threads=1)  # for a few rows, more threads cost more
        con = self._con
        con.register("recordings", _recordings(due))
        con.register("bins", _together("bins", ((of, of.bins) for of in due)))
        con.register("sources", _together("sources", ((of, of.senders) for of in due)))
        if self.names is not None:
            con.register("names", self.names)
        return find_bursts(con, self.definition, since_ns=min(of.settled_ns for of in due))

    def _settle(self, of: EpochBins, bursts: list[dict[str, Any]], over: bool) -> list[dict[str, Any]]:
        """Returns the ended bursts of an epoch, or all if it is OVER; removes rows that are no longer needed."""
        width = self._width_ns(of)
        until = of.newest_ns + 1 if over else of.known_ns // width * width - self._join_ns(of)
        kept_ns = max(_newest_from(of.bins, MOST_ROWS), of.newest_ns - self.longest_ns + 1)
        mine = [burst for burst in bursts if burst["start_ns"] >= of.settled_ns]
        going_on = [
            burst
            for burst in mine
            if not over
            and burst["start_ns"] >= kept_ns
            and (burst["end_ns"] >= until or not self._senders_known(of, burst))
        ]
        ended = [burst for burst in mine if burst not in going_on]
        last = max((burst["end_ns"] for burst in ended), default=until)
        of.settled_ns = max(of.settled_ns, min((burst["start_ns"] for burst in going_on), default=max(until, last)))
        of.bins = _from(of.bins, "ts_ns", of.settled_ns)
        of.senders = _from(of.senders, "last_ns", of.settled_ns - self._before(of))
        return ended

    def _senders_known(self, of: EpochBins, burst: dict[str, Any]) -> bool:
        return bool(
            burst["end_ns"] <= of.senders_ns + int(of.recording["source_bin_ns"])
            or burst["end_ns"] + self.late_ns <= of.known_ns
        )


def _recordings(of: Iterable[EpochBins]) -> pa.Table:
    """Returns the columns of `recordings` that bursts.sql reads."""
    rows = {each.recording["recording_id"]: each.recording for each in of}
    return table_of("recordings", RECORDING_COLUMNS, rows.values())


def _no_links() -> pa.Table:
    """Returns no links: the host behind a switch port is not needed here. Finding out when that host was recorded
    itself would take more of `recordings`."""
    from ...sql.tables import arrow_schema

    return arrow_schema("links").empty_table()


def _together(table: str, parts: Iterable[tuple[EpochBins, list[pa.Table]]]) -> pa.Table:
    """Returns the rows of several recordings with their recording_id, which is not kept in each row."""
    import pyarrow as pa

    name = pa.field("recording_id", pa.dictionary(pa.int32(), pa.string()))
    found = [pa.schema([name, *schema_of(table, _COLUMNS[table])]).empty_table()]
    for of, tables in parts:
        for rows in tables:
            of_one = pa.DictionaryArray.from_arrays(np.zeros(rows.num_rows, np.int32), [of.recording["recording_id"]])
            found.append(rows.add_column(0, name, of_one))
    return pa.concat_tables(found).unify_dictionaries()


def _unknown(rows: pa.Table, known: list[pa.Table], newest_ns: int) -> pa.Table:
    """Returns ROWS of an epoch without the KNOWN ones. NEWEST_NS is the time of the newest known row. No two rows are
    equal."""
    import pyarrow.compute as pc

    least = pc.min(rows["ts_ns"]).as_py()
    if least > newest_ns:
        return rows
    have = {tuple(row.values()) for table in _from(known, "ts_ns", least) for row in table.to_pylist()}
    return rows.filter([tuple(row.values()) not in have for row in rows.to_pylist()]) if have else rows


def _newest_from(tables: list[pa.Table], most: int) -> int:
    """Returns the time of the oldest of the MOST newest rows; 0 if there are no more."""
    if sum(rows.num_rows for rows in tables) <= most:
        return 0
    times = np.concatenate([rows["ts_ns"].to_numpy() for rows in tables])
    return int(np.partition(times, -most)[-most])


def _from(tables: list[pa.Table], column: str, least: int) -> list[pa.Table]:
    """Returns the rows of LEAST or later as one table, which keeps no other rows in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = [rows for table in tables if (rows := table.filter(pc.greater_equal(table[column], least))).num_rows]
    return [pa.concat_tables(kept).combine_chunks()] if kept else []
