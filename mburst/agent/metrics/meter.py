"""New data of a store since the last look, as numbers for a monitoring system.

A meter follows the store's tables (sql/follow.py), so that each row is read once, when it arrives. The cost of a look
depends only on the data since the previous one, not on the size of the store or the age of a log. Counters begin at
zero with the rows from SINCE_NS on, which the meter reads from the store when it is created; a meter that is created
again with the same SINCE_NS has the same counts.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.bursts.follower import Follower
from ...analysis.read.columns import joined, table_of
from ...errors import MburstError
from ...units import NS_PER_HOUR
from .counts import STAMPS, LaneCounts, LaneName, PathCounts, QueueCounts
from .queries import (
    BINS,
    CARRIED,
    COUNTED,
    COUNTED_IN,
    FOLLOWED,
    LATENCIES,
    PEAKS,
    PROBES,
    QUEUES,
    RECORDINGS,
    TARGETS,
    UP_AFTER,
    WINDOWS_REPORTED,
    without_stored,
)
from .since import CountedSpans, Largest, Newest, RecentNames

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from ...analysis.bursts.find import BurstDefinition
    from ...analysis.bursts.follower import Epoch
    from ...analysis.model.envelope import Interval
    from ...sql import StoreFolder

LEAST_SET_NS = 10**9  # least step back of the clock that is handled
FORGOTTEN_NS = NS_PER_HOUR  # a window of a recording without newer bins is forgotten after this time
WIDTHS_NS = {"10us": 10_000, "100us": 100_000, "1ms": 1_000_000}
MOST_SPANS = 1024  # newest bursts of a lane that are kept, to count time in overlapping recordings once
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def _counted_since(store: StoreFolder, since_ns: int) -> int:
    """Returns SINCE_NS, or the present if the store no longer has every bin and probe from then on: counters that begin
    with less than they had would be taken for a reset, and all that they begin with for new. Raises MburstError."""
    from ...analysis.model.whole import probes_from, whole_from
    from ...sql.limits import midnight, note

    with store.connect(None, since_ns) as con:
        times = [ns for ns in (whole_from(con, since_ns), probes_from(con, since_ns)) if ns is not None]
    if not times:
        return since_ns
    note(f"metrics begin at zero: the store was compacted, and has every row from {midnight(max(times))} on only")
    return time.time_ns()


class Meter:
    """Counts the data that a store receives from SINCE_NS on (Unix ns; None: from now on). If the clock is set back,
    SINCE_NS becomes at most the start of the meter by the new time. One thread at a time may use it. Raises MburstError
    if the store cannot be read; a file that cannot be followed is added to sql.damage.FOUND."""

    def __init__(self, store: StoreFolder, definition: BurstDefinition, since_ns: int | None = None) -> None:
        from ...sql import in_memory
        from ...sql.follow import TableFollower

        self.store = store
        self._began_ns, self._monotonic_ns = time.time_ns(), time.monotonic_ns()
        self.since_ns = time.time_ns() if since_ns is None else _counted_since(store, since_ns)
        self.lanes: dict[LaneName, LaneCounts] = defaultdict(LaneCounts)
        self.late: dict[LaneName, int] = {}  # late packets
        self.dropped: dict[tuple[str, ...], int] = {}  # packets dropped before capture, by rack, host and interface
        self.paths: dict[tuple[str, str, str], PathCounts] = {}
        self.queues: dict[tuple[str, str, str], QueueCounts] = {}
        self.failure: MburstError | None = None  # why rows that were read do not count
        self.rows_read = 0  # rows that arrived while the meter followed the store
        self._definition = definition
        self._recordings: dict[str, dict[str, Any]] = {}  # with the line rate of the definition
        self._drops: dict[tuple[str, ...], dict[str, int]] = {}  # of each capture of an interface, by direction
        self._names: dict[str, LaneName] = {}
        self._events: dict[str, tuple[int, bool]] = {}  # per gNMI target: time of the last event, and up or down
        self._peaks: Largest[tuple[LaneName, str]] = Largest()
        self._fullest: Largest[tuple[str, str, str]] = Largest()
        self._windows = RecentNames()  # windows of switch queues already seen: several collections may bring the same
        self._counted = CountedSpans()  # time of the newest drops of each queue
        self._latencies: Newest[tuple[str, str, str, str]] = Newest()  # by path and measure
        self._bursts = Follower(definition, self.since_ns)
        self._con = in_memory(threads=1)  # the rows are few: more threads would cost more
        self._tails = {table: TableFollower(store.path, table) for table in FOLLOWED}
        self._carried = table_of("bins", ("recording_id", "ts_ns", "wire_bytes"))  # bins of windows that are not over
        self._begin(store, is_at_zero=self.since_ns != since_ns)

    @property
    def targets(self) -> dict[str, bool]:
        """Whether each gNMI target has a working subscription."""
        return {device: is_up for device, (_, is_up) in sorted(self._events.items())}

    def damaged_files(self) -> int:
        """Returns the number of damaged files of the store that this process met and that still exist. Files that were
        set aside do not count."""
        from ...sql.damage import FOUND

        return sum(
            path.startswith(f"{self.store.path}/") and not file.is_set_aside and os.path.lexists(path)
            for path, file in FOUND.files.items()
        )

    def unsealed_s(self) -> dict[str, float]:
        """The age of each table's oldest hot log, in seconds."""
        now = time.time_ns()
        return {table: max(now - begun, 0) / 1e9 for table, begun in self.store.unsealed().items()}

    @property
    def kept_rows(self) -> int:
        """The rows in memory: of windows and bursts that are not over."""
        return self._bursts.kept_rows + int(self._carried.num_rows)

    def advance(self, scraper: str) -> dict[LaneName, dict[str, float]]:
        """Count new data, and return the peak utilization of each lane by width since SCRAPER's last call. Also sets
        the values in `paths` and `queues` that depend on the scraper. Raises MburstError if bins do not fit the
        definition."""
        self.take()
        latencies, fullest = self._latencies.take(scraper), self._fullest.take(scraper)
        for path, counts in self.paths.items():
            self.paths[path] = counts._replace(quantiles=_quantiles(latencies.get((*path, counts.measure))))
        for queue, value in fullest.items():
            self.queues[queue] = self.queues[queue]._replace(max_bytes=int(value))
        peaks: dict[LaneName, dict[str, float]] = {}
        for (name, width), share in self._peaks.take(scraper).items():
            peaks.setdefault(name, {})[width] = share
        return peaks

    def take(self) -> None:
        """Count the data since the last call. Raises MburstError, and then at each further call (`failure`), since rows
        that were read are not read again."""
        from ...sql.damage import readable

        if self.failure:
            raise self.failure
        try:
            with readable(self._con):
                self._take_new()
        except Exception as error:
            self.failure = MburstError(f"not all rows were counted: {error}", "restart `mburst metrics`")
            raise self.failure from error
        self._check_fit()

    def _take_new(self) -> None:
        rows = self._polled()
        self._follow_clock()
        if any(rows.values()):
            self._count({table: joined(table, FOLLOWED[table][0], parts) for table, parts in rows.items()})
        self._count_bursts(self._bursts.ended(time.time_ns()))

    def _follow_clock(self) -> None:
        """Adjust the times if the clock was set back."""
        began_ns = time.time_ns() - (time.monotonic_ns() - self._monotonic_ns)
        if began_ns < self._began_ns - LEAST_SET_NS:
            self._began_ns = began_ns
            self.since_ns = self._bursts.since_ns = min(self.since_ns, began_ns)

    def _check_fit(self) -> None:
        """Raise MburstError if bins do not fit the definition."""
        if self._bursts.unfit:
            raise self._bursts.unfit

    def interrupt(self) -> None:
        """Interrupt a running query, which then fails. For the end of the process."""
        self._con.interrupt()

    def close(self) -> None:
        """Close the files and the database."""
        for tail in self._tails.values():
            tail.close()
        self._con.close()

    # --- reading ----------------------------------------------------------------------------------------------------

    def _begin(self, store: StoreFolder, is_at_zero: bool) -> None:
        """Count the stored data from SINCE_NS on, and, unless IS_AT_ZERO, what recordings under way lost before. Rows
        that the followers return as well are left out."""
        from ...analysis.model.context import dicts
        from ...sql.damage import readable
        from ...sql.tables import arrow_schema

        with store.connect() as whole, readable(whole):
            self._take_events(whole)
        with store.connect(None, self.since_ns) as con, readable(con):
            fresh = {table: joined(table, FOLLOWED[table][0], parts) for table, parts in self._polled().items()}
            fresh = {table: without_stored(con, table, rows) for table, rows in fresh.items()}
            for recording in dicts(con, RECORDINGS, {"since": self.since_ns}):
                self._take_recording(recording)
            if is_at_zero:  # their recordings state what was lost since they began
                self.late, self.dropped = dict.fromkeys(self.late, 0), dict.fromkeys(self.dropped, 0)
            self._count_rows(con)
            con.register("canary", arrow_schema("canary").empty_table())  # as for bursts that end later
            self._count_bursts(self._countable(self._bursts.begin(con, time.time_ns())))
        self._check_fit()
        self.rows_read = 0
        self._count(fresh)

    def _countable(self, stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the bursts of the store without those of lanes that had one in pieces while it was followed: these
        pieces cannot be known from the store, and other counts would be taken for a reset and for new bursts."""
        from ...sql.limits import note

        cut = {self._names[burst["recording_id"]] for burst in stored if self._bursts.may_be_cut(burst)}
        for lane in sorted(cut):
            name = " ".join(filter(None, (lane.host, lane.interface, lane.direction)))
            note(f"metrics of the bursts of {name} begin at zero: one of them goes on for a minute or more")
        return [burst for burst in stored if self._names[burst["recording_id"]] not in cut]

    def _polled(self) -> dict[str, list[pa.Table]]:
        from ...sql.follow import poll_all

        found = poll_all(self._tails)
        self.rows_read += sum(rows.num_rows for parts in found.values() for rows in parts)
        return found

    # --- counting ---------------------------------------------------------------------------------------------------

    def _count(self, rows: dict[str, pa.Table]) -> None:
        for recording in rows["recordings"].to_pylist():
            self._take_recording(recording)
        for table, values in rows.items():
            if table != "recordings":
                self._con.register(table, values)
        self._count_rows(self._con)
        self._take_events(self._con)
        self._bursts.hear(rows["clock"])
        self._bursts.add(rows["bins"], rows["sources"], time.time_ns())

    def _take_recording(self, recording: dict[str, Any]) -> None:
        """Take a row of `recordings`; the last row that was written of a recording counts."""
        before = self._recordings.get(recording["recording_id"])
        if before is None and recording["ended"] and (recording["end_ns"] or 0) < self.since_ns:
            return  # the recording had ended before SINCE_NS
        if before and _age(before) > _age(recording):
            return
        recording = {**recording, "link_bps": self._definition.line_bps(recording["link_bps"])}
        self._recordings[recording["recording_id"]] = recording
        name = self._names[recording["recording_id"]] = LaneName(*(recording[label] for label in LaneName._fields))
        lane, begun = self.lanes[name], (recording["begun_ns"], recording["recording_id"])
        lane.is_examined |= recording["link_bps"] is not None
        if begun >= lane.newest_recording:
            lane.newest_recording, lane.link_bps = begun, recording["link_bps"]
        self.late[name] = self.late.get(name, 0) + recording["late"] - (before["late"] if before else 0)
        self._take_drops(name, recording["capture_id"], recording["dropped"] - (before["dropped"] if before else 0))
        self._bursts.add_recording(recording)

    def _take_drops(self, name: LaneName, capture: str, more: int) -> None:
        """Count dropped packets, of which the recordings of both directions of a capture have all."""
        interface = name[:-1]
        drops = self._drops.setdefault((capture, *interface), {})
        known = max(drops.values(), default=0)
        drops[name.direction] = drops.get(name.direction, 0) + more
        self.dropped[interface] = self.dropped.get(interface, 0) + max(drops.values()) - known

    def _count_rows(self, con: duckdb.DuckDBPyConnection) -> None:
        """Count the rows of CON's tables from SINCE_NS on."""
        self._count_peaks(con, self._count_bins(con))
        self._count_probes(con)
        self._count_queues(con)

    def _count_bins(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """Count bins, and return the recordings that have new ones."""
        from ...analysis.model.context import dicts

        rows = [row for row in dicts(con, BINS, {"since": self.since_ns}) if row["recording_id"] in self._names]
        for row in rows:
            lane = self.lanes[self._names[row["recording_id"]]]
            lane.newest_ns = max(lane.newest_ns, row["newest_ns"])
            lane.wire_bytes += row["wire_bytes"]
            lane.packets += row["packets"]
            lane.bins_with_drops += row["drops"]
            for kind in STAMPS:
                lane.stamped[kind] += row[kind]
        return [row["recording_id"] for row in rows]

    def _count_peaks(self, con: duckdb.DuckDBPyConnection, found: list[str]) -> None:
        if not found:
            return
        names = ("recording_id", "bin_ns", "link_bps")
        con.register("known", table_of("recordings", names, [self._recordings[recording] for recording in found]))
        con.register("carried", self._carried)
        for width, width_ns in WIDTHS_NS.items():
            for recording, peak in con.execute(PEAKS, {"width": width_ns, "since": self.since_ns}).fetchall():
                self._peaks.add((self._names[recording], width), peak)
        widest = {"widest": max(WIDTHS_NS.values()), "forgotten": FORGOTTEN_NS, "since": self.since_ns}
        self._carried = con.sql(CARRIED, params=widest).to_arrow_table()

    def _count_probes(self, con: duckdb.DuckDBPyConnection) -> None:
        from ...analysis.model.context import dicts

        for row in dicts(con, PROBES, {"since": self.since_ns}):
            path = row["src"], row["dst"], row["protocol"]
            before = self.paths.get(path, PathCounts(0, 0, ()))
            known = tuple(map(sum, zip(before.known or (0,) * len(row["known"]), row["known"], strict=True)))
            [(measure,)] = con.execute("SELECT chosen_measure($1)", [list(known)]).fetchall()
            self.paths[path] = PathCounts(
                before.sent + row["sent"],
                before.lost + row["lost"],
                (),
                measure or "",
                known,
                before.measured if before.measure == measure else 0,
            )
        self._take_latencies(con)

    def _take_latencies(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take the latencies of CON's probes, each by its path's measure."""
        import pyarrow as pa

        from ...analysis.model.context import dicts

        names = ("src", "dst", "protocol", "measure")
        con.register(
            "measures",
            pa.Table.from_pylist(
                [dict(zip(names, (*path, counts.measure), strict=True)) for path, counts in self.paths.items()],
                pa.schema([(name, pa.string()) for name in names]),
            ),
        )
        for row in dicts(con, LATENCIES, {"since": self.since_ns}):
            path = row["src"], row["dst"], row["protocol"]
            counts = self.paths[path]
            self.paths[path] = counts._replace(measured=counts.measured + row["measured"])
            self._latencies.add((*path, counts.measure), np.array(row["latencies"], np.int64))
        con.unregister("measures")

    def _count_queues(self, con: duckdb.DuckDBPyConnection) -> None:
        from ...analysis.model.context import dicts

        windows = con.sql(WINDOWS_REPORTED, params={"since": self.since_ns}).to_arrow_table()
        con.register("new_windows", windows.filter(self._windows.unknown(windows["name"].to_numpy())))
        con.register("counted", self._counted.to_arrow())
        for row in dicts(con, QUEUES, {}):
            name = row["device"], row["port"], row["queue"]
            before = self.queues.get(name, QueueCounts(None, None))
            known = [count for count in (before.dropped, row["dropped"]) if count is not None]
            self.queues[name] = before._replace(
                dropped=sum(known) if known else None, impossible=before.impossible + row["impossible"]
            )
            if row["max_bytes"] is not None:
                self._fullest.add(name, row["max_bytes"])
        for device, port, queue, batch, first_ns, last_ns in con.execute(COUNTED).fetchall():
            self._counted.add((device, port, queue), batch, first_ns, last_ns)
        con.unregister("new_windows")
        con.unregister("counted")

    def _take_events(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take the last event of each gNMI target."""
        for device, at_ns, event in con.execute(TARGETS).fetchall():
            self._events[device] = max(self._events.get(device, (0, False)), (at_ns, UP_AFTER[event]))

    def _count_bursts(self, bursts: list[dict[str, Any]]) -> None:
        from ...analysis.model.coverage import within

        spans: dict[LaneName, list[Interval]] = defaultdict(list)
        counted = self._counted_in(bursts)
        for burst in bursts:
            name = self._names[burst["recording_id"]]
            lane = self.lanes[name]
            epoch = burst["recording_id"], burst["clock_epoch"]
            spans[name] += within([(burst["start_ns"], burst["end_ns"])], [counted[epoch]])
            lane.bursts[burst["pattern"]] += 1
            lane.durations.add(burst["duration_ns"] / 1e9)
            if burst["fan_in"]:
                lane.fan_ins.add(float(burst["fan_in"]))
        for name, of in spans.items():
            self._count_time(self.lanes[name], of)

    def _counted_in(self, bursts: list[dict[str, Any]]) -> dict[Epoch, Interval]:
        """Returns the time from the beginning of each burst's recording to its end, by its clock epoch: open towards
        another epoch."""
        from ...analysis.model.coverage import EARLIEST, LATEST

        found = {}
        for recording, epoch in {(burst["recording_id"], burst["clock_epoch"]) for burst in bursts}:
            row = self._recordings[recording]
            names = ("start_ns", "end_ns", "bin_ns", "complete", "ended")
            [(first, end)] = self._con.execute(COUNTED_IN, {name: row[name] for name in names}).fetchall()
            found[recording, epoch] = (
                EARLIEST if epoch else first,
                end if epoch == row["clock_epochs"] - 1 else LATEST,
            )
        return found

    def _count_time(self, lane: LaneCounts, spans: list[Interval]) -> None:
        """Add the time in bursts; time that overlapping recordings of a lane share counts once."""
        from ...analysis.model.coverage import length
        from ...analysis.model.envelope import merge_intervals

        together = merge_intervals([*lane.newest_bursts, *spans])
        lane.burst_ns += length(together) - length(lane.newest_bursts)
        lane.newest_bursts = together[-MOST_SPANS:]


def _quantiles(values: npt.NDArray[np.int64] | None) -> tuple[float | None, ...]:
    """Returns QUANTILES of values in ns, in seconds; () if VALUES is None. Each is one of the values, or None if there
    are too few."""
    from ...analysis.model.distributions import quantile

    if values is None:
        return ()
    ordered = np.sort(values)
    return tuple(None if (value := quantile(ordered, level)) is None else value / 1e9 for level in QUANTILES)


def _age(recording: dict[str, Any]) -> tuple[bool, int]:
    """Returns a key that is larger for the later of two rows of a recording."""
    return recording["ended"] != "", recording["written_ns"]
