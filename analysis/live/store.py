"""The newest rows of a store, kept up to date with its writers: lanes, probes and switch queues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from ...sql import StoreFolder, in_memory
from ...sql.damage import damaged_files
from ...sql.follow import TableFollower, poll_all
from ..model import coverage
from ..model.context import PathLatency, QueueWindows
from ..model.distributions import quantile
from ..model.losses import CaptureLoss
from ..model.series import Series
from ..read import rows as read_rows
from ..read.clocks import last_heard
from .lane import COLUMNS, KEY, ChangeLog, LiveLane

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

REMEMBERED_NS = 330 * 10**9  # the time before the newest bin that memory starts with
MOST_BINS = 4_000_000  # in memory, over all lanes
MOST_ROWS = 2_000_000  # of another table, at the start
MOST_BESIDE = 200_000  # probes of a path, or windows of a queue
TABLES = ("bins", "sources", "probes", "queues", "clock", "recordings")

MEASURES = (
    "application",
    "network round trip",
    "round trip",
    "reported round trip",
    "round trip to the application",
    "one way",
)  # measure_names() of sql/macros.sql
_BY = ", ".join(
    f"""CASE WHEN NOT lost THEN latency_by('{measure}', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns,
                                          app_recv_ns, rtt_ns) END AS "{measure}" """
    for measure in MEASURES[:-1]
)
_PROBES = f"""
SELECT src, dst, protocol, stamp_kind, tx_ns, lost, {_BY},
    CASE WHEN NOT lost AND remote_rx_ns > 0 THEN 1 END AS "one way"
FROM rows ORDER BY tx_ns
"""
_QUEUES = """
SELECT device, port, queue, semantics, ts_ns, window_start_ns, depth_bytes AS largest,
    dropped_packets AS dropped, CAST(believed AS BIGINT) AS believed
FROM reported_windows('rows', -9223372036854775808, 9223372036854775807) ORDER BY ts_ns
"""

Measures = dict[tuple[str, ...], str]


class ContextSeries:
    """Series that accompany the lanes, by name: the path of probes, or the queue of a switch."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.series: dict[tuple[str, ...], Series] = {}
        self.facts: dict[tuple[str, ...], dict[str, Any]] = {}
        self.changes = ChangeLog()

    def of(self, key: tuple[str, ...]) -> Series:
        """Returns the series of one path or queue."""
        return self.series.get(key) or Series(self.columns)

    def add(self, key: tuple[str, ...], times: Any, columns: dict[str, Any]) -> None:
        """Add rows of one path or queue."""
        series = self.series.setdefault(key, Series(self.columns))
        series.insert(times, columns)
        series.keep_newest(MOST_BESIDE)
        self.changes.add(int(times.min()))


class LiveStore:
    """The live view's knowledge of a store. `poll` is for one thread; readers that may run at the same time hold
    `lock`. DROPPED returns how many packets the captures of this process have dropped so far, by the id of each of
    their recordings."""

    def __init__(
        self, store: StoreFolder, rack: str | None = None, dropped: Callable[[], Mapping[str, int]] = dict
    ) -> None:
        self.store = store
        self.rack = rack
        self._dropped = dropped
        self.lock = threading.RLock()
        self.lanes: dict[tuple[Any, ...], LiveLane] = {}
        self.lane_of: dict[str, LiveLane] = {}
        self.probes = ContextSeries((*MEASURES, "lost"))
        self.queues = ContextSeries(("start", "largest", "dropped"))
        self.impossible = ContextSeries(())  # windows of queues with impossible values
        self.takers: list[Callable[[dict[str, pa.Table]], None]] = []  # further consumers of new rows, by table
        self.complete_from_ns = 0
        self._damaged: list[str] = []
        self._con = in_memory(threads=1)  # for a few rows, more threads cost more
        self._tails = {table: TableFollower(store.path, table, rack) for table in TABLES}
        self._begin()

    def loss_of(self, lane: LiveLane) -> CaptureLoss:
        """Returns what the captures of LANE's recordings dropped: those of this process so far, others according to
        their rows. Its packets are not counted."""
        captures: dict[str, int] = {}
        so_far = self._dropped()
        for name, recording in lane.recordings.items():
            known = captures.get(recording["capture_id"], 0)
            captures[recording["capture_id"]] = max(known, so_far.get(name, recording["dropped"]))
        names = {
            (other.named("direction"), other.named("interface"))
            for other in self.lanes.values()
            if any(recording["capture_id"] in captures for recording in other.recordings.values())
        }
        return CaptureLoss(
            dropped=sum(captures.values()),
            directions=len({direction for direction, _ in names}),
            interfaces=len({interface for _, interface in names}),
            is_least=not all(name in so_far or of["complete"] for name, of in lane.recordings.items()),
        )

    @property
    def damage(self) -> list[str]:
        """A line for each file that cannot be read."""
        return [
            *self._damaged,
            *(line for tail in self._tails.values() for line in tail.damage if line not in self._damaged),
        ]

    def _begin(self) -> None:
        """Take the stored rows of the newest minutes. Rows that the followers return a second time change nothing."""
        with closing(self.store.connect_newest(self.rack)) as con:
            newest = con.execute("SELECT max(ts_ns) FROM newest").fetchall()[0][0] or 0
            since_ns = coverage.binned_since(con, self.rack)
            known = coverage.by_epoch(con) if since_ns is None else {}
        if since_ns is not None:
            with closing(self.store.connect(self.rack, since_ns)) as con:
                known = coverage.by_epoch(con)
        self.complete_from_ns = newest - REMEMBERED_NS
        con = self.store.connect(self.rack, self.complete_from_ns)
        self._damaged = [str(file) for file in damaged_files(con)]
        self._take_recordings(con.sql("SELECT * FROM recordings").to_arrow_table())
        for (recording, epoch), spans in known.items():
            if lane := self.lane_of.get(recording):
                lane.spans[recording, epoch] = min(start for start, _ in spans), max(end for _, end in spans)
        self._take_newest(con, newest)
        con.close()

    def _take_newest(self, con: duckdb.DuckDBPyConnection, newest: int) -> None:
        """Take the rows of the newest minutes, or of a shorter time if there are too many."""
        for table in read_rows.TIMES:
            columns = ("recording_id", "clock_epoch", "ts_ns", *COLUMNS) if table == "bins" else ("*",)
            limit = MOST_BINS if table == "bins" else MOST_ROWS
            rows, since = read_rows.newest_rows(con, table, columns, newest - REMEMBERED_NS, newest, limit)
            if table == "bins":
                self.complete_from_ns = since
                for lane in self.lanes.values():
                    lane.complete_from_ns = since
            self._take(table, rows)

    def poll(self) -> bool:
        """Take the new rows since the last call. Returns whether there were any. Raises MburstError."""
        import pyarrow as pa

        found = {table: pa.concat_tables(map(_plain, rows)) for table, rows in poll_all(self._tails).items() if rows}
        with self.lock:
            for table in sorted(found, key=lambda name: name != "recordings"):
                self._take(table, found[table])
            for take in self.takers:
                take(found)
        return bool(found)

    def _take(self, table: str, rows: pa.Table) -> None:
        takers = {
            "recordings": self._take_recordings,
            "bins": self._take_bins,
            "probes": self._take_probes,
            "queues": self._take_queues,
            "clock": self._take_clock,
        }
        if table in takers and rows.num_rows:
            takers[table](rows)

    def _take_recordings(self, rows: pa.Table) -> None:
        for recording in rows.to_pylist():
            if self.rack is not None and recording["rack"] != self.rack:
                continue
            key = tuple(recording[name] for name in KEY)
            lane = self.lanes.setdefault(key, LiveLane(key, self.complete_from_ns))
            known = lane.recordings.get(recording["recording_id"])
            if known is None or (known["ended"] != "", known["written_ns"]) <= (
                recording["ended"] != "",
                recording["written_ns"],
            ):
                covered = lane.coverage()
                lane.recordings[recording["recording_id"]] = recording
                self.lane_of[recording["recording_id"]] = lane
                lane.changed(covered)

    def _take_bins(self, rows: pa.Table) -> None:
        for (recording, epoch), columns in _by_recording(rows, ("recording_id", "clock_epoch"), ("ts_ns", *COLUMNS)):
            if lane := self.lane_of.get(recording):
                lane.add(recording, epoch, columns)
        share = MOST_BINS // max(1, sum(bool(lane.series) for lane in self.lanes.values()))
        for lane in self.lanes.values():
            lane.keep_newest(share)

    def _take_probes(self, rows: pa.Table) -> None:
        columns = self._asked(_PROBES, rows)
        for key, part in _groups(columns, ("src", "dst", "protocol")):
            self.probes.add(key, part["tx_ns"], {name: part[name] for name in (*MEASURES, "lost")})
            facts = self.probes.facts.setdefault(key, {"stamps": set()})
            facts["stamps"] |= set(part["stamp_kind"]) - {""}

    def _take_queues(self, rows: pa.Table) -> None:
        columns = self._asked(_QUEUES, rows)
        for key, part in _groups(columns, ("device", "port", "queue", "semantics")):
            given = {"start": part["window_start_ns"], "largest": part["largest"], "dropped": part["dropped"]}
            for windows, wanted in ((self.queues, part["believed"] == 1), (self.impossible, part["believed"] == 0)):
                if wanted.any():
                    windows.add(key, part["ts_ns"][wanted], {name: values[wanted] for name, values in given.items()})

    def _asked(self, query: str, rows: pa.Table) -> dict[str, Any]:
        self._con.register("rows", rows)
        columns = self._con.execute(query).fetchnumpy()
        return {
            name: np.ma.filled(values, -1) if values.dtype.kind != "O" else np.ma.getdata(values)
            for name, values in columns.items()
        }

    def _take_clock(self, rows: pa.Table) -> None:
        newest = last_heard(rows)
        for lane in self.lanes.values():
            heard = newest.get((lane.named("host"), lane.named("interface")), lane.heard_ns)
            if heard != lane.heard_ns:
                covered = lane.coverage()
                lane.heard_ns = heard
                lane.changed(covered)

    def measures(self, start_ns: int, end_ns: int) -> Measures:
        """Returns the measure of each path in memory that was probed in [start_ns, end_ns): '' if nothing was
        measured."""
        found = {}
        for path, series in self.probes.series.items():
            part = series.between(start_ns, end_ns)
            if part.start < part.stop:
                found[path] = self._measure(series, part)
        return found

    def latency(self, host: str, start_ns: int, end_ns: int, measures: Measures | None = None) -> list[PathLatency]:
        """Returns the paths in memory that were probed in [start_ns, end_ns), those of HOST first. MEASURES has the
        measures of a longer time, if known, so that no figure mixes two."""
        measures = measures or self.measures(start_ns, end_ns)
        found = []
        for (src, dst, protocol), series in sorted(self.probes.series.items()):
            part, facts = series.between(start_ns, end_ns), self.probes.facts[src, dst, protocol]
            if part.start == part.stop:
                continue
            measure = measures.get((src, dst, protocol), "")
            latency = (
                np.full(part.stop - part.start, -1)
                if measure in ("", "one way")
                else series.column(measure)[part].copy()
            )
            lost, known = series.column("lost")[part].copy(), np.sort(latency[latency >= 0])
            p50, p99, p999 = (
                None if (value := quantile(known, share)) is None else int(value) for share in (0.5, 0.99, 0.999)
            )
            found.append(
                PathLatency(
                    src=src,
                    dst=dst,
                    protocol=protocol,
                    stamps=", ".join(sorted(facts["stamps"])),
                    probes=len(latency),
                    lost_probes=int(lost.sum()),
                    measured=len(known),
                    measure=measure,
                    p50_ns=p50,
                    p99_ns=p99,
                    p999_ns=p999,
                    max_ns=int(known[-1]) if len(known) else None,
                    width_ns=0,
                    at_ns=series.times[part].copy(),
                    largest=latency,
                    median=latency,
                    n=(latency >= 0).astype(np.int64),
                    lost=lost,
                )
            )
        return sorted(found, key=lambda path: host not in path.hosts)

    def _measure(self, series: Series, part: slice) -> str:
        """Returns the measure of probes of a path: '' if nothing was measured."""
        known = [int((series.column(name)[part] >= 0).sum()) for name in MEASURES]
        return str(self._con.execute("SELECT coalesce(chosen_measure($1), '')", [known]).fetchall()[0][0])

    def queue_windows(self, start_ns: int, end_ns: int) -> list[QueueWindows]:
        """Returns the switch queues in memory with a window that ends in [start_ns, end_ns), by name."""
        found = []
        for device, port, queue, semantics in sorted({*self.queues.series, *self.impossible.series}):
            name = device, port, queue, semantics
            series, doubted = self.queues.of(name), self.impossible.of(name)
            part, left_out = series.between(start_ns, end_ns), doubted.between(start_ns, end_ns)
            if part.start == part.stop and left_out.start == left_out.stop:
                continue
            start, largest, dropped = (series.column(name)[part].copy() for name in ("start", "largest", "dropped"))
            found.append(
                QueueWindows(
                    device=device,
                    port=port,
                    queue=queue,
                    semantics=semantics,
                    windows=len(start),
                    max_bytes=int(largest.max()) if (largest >= 0).any() else None,
                    dropped_packets=int(dropped[dropped >= 0].sum(dtype=float)) if (dropped >= 0).any() else None,
                    impossible=left_out.stop - left_out.start,
                    width_ns=0,
                    start_ns=start,
                    end_ns=series.times[part].copy(),
                    largest=largest,
                    dropped=np.maximum(dropped, 0),
                )
            )
        return found

    def connect(self, since_ns: int, until_ns: int) -> duckdb.DuckDBPyConnection:
        """Returns a connection to the store as it is now, for times older than memory. Raises MburstError."""
        return self.store.connect(self.rack, max(since_ns, 0), until_ns)

    def close(self) -> None:
        """Close the files and the database."""
        for tail in self._tails.values():
            tail.close()
        self._con.close()


def _plain(rows: pa.Table) -> pa.Table:
    """Returns the rows without dictionaries, so that the rows of several writers can be joined."""
    import pyarrow as pa

    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _by_recording(
    rows: pa.Table, keys: tuple[str, str], names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yields the rows of each recording and epoch, as arrays of int64 by name."""
    recording, epoch = keys
    encoded = rows.column(recording).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    epochs = rows.column(epoch).to_numpy().astype(np.int64)
    columns = {name: rows.column(name).to_numpy().astype(np.int64) for name in names}
    for part in _rows_of_each(codes, epochs):
        yield (
            (encoded.dictionary[int(codes[part[0]])].as_py(), int(epochs[part[0]])),
            {name: values[part] for name, values in columns.items()},
        )


def _groups(columns: dict[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields the rows of each value of KEYS, which are texts; numbers as int64."""
    import pyarrow as pa

    for part in _rows_of_each(*(pa.array(columns[key]).dictionary_encode().indices.to_numpy() for key in keys)):
        yield (
            tuple(str(columns[key][part[0]]) for key in keys),
            {
                name: values[part] if values.dtype.kind == "O" else values[part].astype(np.int64)
                for name, values in columns.items()
            },
        )


def _rows_of_each(*codes: Any) -> list[Any]:
    """Returns the numbers of the rows of each combination of CODES (arrays of integers), ascending."""
    order = np.lexsort(codes)
    edges = np.flatnonzero(np.diff(np.vstack(codes)[:, order]).any(axis=0)) + 1
    return np.split(order, edges) if len(order) else []
