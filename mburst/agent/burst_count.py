"""Counts bursts once each, as they end, from bins as they come: what is kept is what may be in one that has not ended.

A burst is what sql/queries/bursts.sql says, over the bins that are kept; so the same bins give the same bursts however
often one looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .followed import joined, table_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..analysis.bursts import BurstDefinition

QUIET_NS = 10 * 10**9  # after so long without a bin, whatever burst was going on has ended
LONGEST_NS = 60 * 10**9  # a burst that goes on for longer is counted in pieces
LATE_NS = 10**9  # by which senders of a burst have come, if any will
BIN_COLUMNS = ("recording_id", "clock_epoch", "ts_ns", "bytes", "wire_bytes", "packets", "quality")
SENDER_COLUMNS = ("recording_id", "clock_epoch", "ts_ns", "source", "bytes", "members", "first_ns", "last_ns")
RECORDING_COLUMNS = ("recording_id", "host", "rack", "interface", "direction", "bin_ns", "source_bin_ns", "link_bps")


@dataclass
class Waiting:
    """Of one recording: what is kept, and up to when its bursts are counted."""

    recording: dict[str, Any]
    settled_ns: int  # bursts that begin before are counted
    newest_ns: int = -1  # its newest bin; -1: none was seen
    senders_until_ns: int = 0  # up to when its senders are known
    bins: list[pa.Table] = field(default_factory=list)
    senders: list[pa.Table] = field(default_factory=list)


class BurstCount:
    """The bursts of the recordings that it is told of, from SINCE_NS on."""

    def __init__(self, definition: BurstDefinition, since_ns: int) -> None:
        self.definition = definition
        self.since_ns = since_ns
        self._waiting: dict[str, Waiting] = {}
        self._con: duckdb.DuckDBPyConnection | None = None

    @property
    def kept_rows(self) -> int:
        """Rows of bins and senders in memory."""
        return sum(table.num_rows for of in self._waiting.values() for table in (*of.bins, *of.senders))

    def add_recording(self, recording: dict[str, Any]) -> None:
        """A recording, or what is newly known of it; without a link speed it is not judged."""
        if recording["link_bps"] is None and self.definition.link_bps is None:
            return
        of = self._waiting.setdefault(recording["recording_id"], Waiting(recording, self.since_ns))
        of.recording = recording

    def add(self, bins: pa.Table, senders: pa.Table) -> None:
        """Rows of `bins` and `sources` as they came."""
        import pyarrow.compute as pc

        bins = bins.filter(pc.greater_equal(bins["ts_ns"], self.since_ns))
        for of, rows in self._by_recording(bins, BIN_COLUMNS):
            of.bins.append(rows)
            of.newest_ns = max(of.newest_ns, pc.max(rows["ts_ns"]).as_py())
        for of, rows in self._by_recording(senders, SENDER_COLUMNS):
            of.senders.append(rows)
            until_ns = pc.max(rows["ts_ns"]).as_py() + of.recording["source_bin_ns"]
            of.senders_until_ns = max(of.senders_until_ns, until_ns)

    def _by_recording(self, rows: pa.Table, columns: tuple[str, ...]) -> Iterator[tuple[Waiting, pa.Table]]:
        import pyarrow.compute as pc

        rows = rows.select(columns)
        for recording in pc.unique(rows["recording_id"]).to_pylist():
            if of := self._waiting.get(recording):
                yield of, rows.filter(pc.equal(rows["recording_id"], recording))

    def ended(self, now_ns: int) -> list[dict[str, Any]]:
        """The bursts that have ended and were not returned before. Raises MburstError where the definition does not fit
        what was recorded."""
        due = [of for of in self._waiting.values() if of.bins]
        possible = [of for of in due if self._possible(of)]
        bursts = self._judged(possible) if possible else []
        found = []
        for of in due:
            recording = of.recording["recording_id"]
            found += self._settle(of, [burst for burst in bursts if burst["recording_id"] == recording], now_ns)
            if of.recording["ended"]:
                del self._waiting[recording]
        return found

    def begin(self, con: duckdb.DuckDBPyConnection, now_ns: int) -> list[dict[str, Any]]:
        """The same of all that a store holds of the recordings from the beginning on, and keep of it what is needed.
        CON: has the store's tables; its bins and senders are not read into memory but for the newest."""
        from ..analysis.bursts import find_bursts

        con.register("recordings", _recordings(self._waiting.values()))
        newest = con.execute("SELECT recording_id, max(ts_ns) FROM bins "
                             "JOIN (SELECT recording_id FROM recordings) USING (recording_id) "
                             "WHERE ts_ns >= $1 GROUP BY recording_id", [self.since_ns]).fetchall()
        bursts = find_bursts(con, self.definition, since_ns=self.since_ns) if newest else []
        con.unregister("recordings")
        found = []
        for recording, newest_ns in newest:
            of = self._waiting[recording]
            of.newest_ns = newest_ns
            found += self._settle(of, [burst for burst in bursts if burst["recording_id"] == recording], now_ns)
            for table, columns, kept in (("bins", BIN_COLUMNS, of.bins), ("sources", SENDER_COLUMNS, of.senders)):
                least = of.settled_ns - (0 if table == "bins" else self._before(of))
                rows = con.sql(f"SELECT {', '.join(columns)} FROM {table} WHERE recording_id = $1 AND ts_ns >= $2",
                               params=[recording, least]).to_arrow_table()
                kept.append(joined(table, columns, [rows]))
        return found

    # --- one recording ----------------------------------------------------------------------------------------------

    def _width_ns(self, of: Waiting) -> int:
        return self.definition.width_ns(int(of.recording["bin_ns"]))

    def _join_ns(self, of: Waiting) -> int:
        return self.definition.joined_ns(int(of.recording["bin_ns"]))

    def _before(self, of: Waiting) -> int:
        """How long before a burst its senders are looked at."""
        return 4 * int(of.recording["source_bin_ns"]) + self._join_ns(of) + 2 * self._width_ns(of)

    def _possible(self, of: Waiting) -> bool:
        """Whether a bin is full enough: no wide bin is fuller than its fullest."""
        import pyarrow.compute as pc

        link = self.definition.link_bps or of.recording["link_bps"]
        least = self.definition.threshold * of.recording["bin_ns"] * link / 8e9 - 1
        return any(pc.max(rows["wire_bytes"]).as_py() >= least for rows in of.bins if rows.num_rows)

    def _judged(self, due: list[Waiting]) -> list[dict[str, Any]]:
        from ..analysis.bursts import find_bursts
        from ..sql import in_memory

        if self._con is None:
            self._con = in_memory(threads=1)  # for a few rows, more cost more
        con = self._con
        con.register("recordings", _recordings(due))
        con.register("bins", joined("bins", BIN_COLUMNS, (rows for of in due for rows in of.bins)))
        con.register("sources", joined("sources", SENDER_COLUMNS, (rows for of in due for rows in of.senders)))
        return find_bursts(con, self.definition, since_ns=min(of.settled_ns for of in due))

    def _settle(self, of: Waiting, bursts: list[dict[str, Any]], now_ns: int) -> list[dict[str, Any]]:
        """Of a recording's bursts those that have ended; forgets what is no longer needed."""
        width = self._width_ns(of)
        over = of.recording["ended"] or now_ns - of.newest_ns > QUIET_NS
        until = of.newest_ns + 1 if over else of.newest_ns // width * width - self._join_ns(of)
        mine = [burst for burst in bursts if burst["start_ns"] >= of.settled_ns]
        going_on = [burst for burst in mine if not over and of.newest_ns - burst["start_ns"] < LONGEST_NS
                    and (burst["end_ns"] >= until or not self._senders_known(of, burst))]
        ended = [burst for burst in mine if burst not in going_on]
        last = max((burst["end_ns"] for burst in ended), default=until)
        of.settled_ns = max(of.settled_ns, min((burst["start_ns"] for burst in going_on), default=max(until, last)))
        of.bins = _from(of.bins, "ts_ns", of.settled_ns)
        of.senders = _from(of.senders, "last_ns", of.settled_ns - self._before(of))
        return ended

    def _senders_known(self, of: Waiting, burst: dict[str, Any]) -> bool:
        return bool(burst["end_ns"] <= of.senders_until_ns or burst["end_ns"] + LATE_NS <= of.newest_ns)


def _recordings(of: Iterable[Waiting]) -> pa.Table:
    """What bursts.sql reads of `recordings`."""
    return table_of("recordings", RECORDING_COLUMNS, (each.recording for each in of))


def _from(tables: list[pa.Table], column: str, least: int) -> list[pa.Table]:
    """The rows of LEAST or later, as one table that holds no others in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = [rows for table in tables if (rows := table.filter(pc.greater_equal(table[column], least))).num_rows]
    return [pa.concat_tables(kept).combine_chunks()] if kept else []
