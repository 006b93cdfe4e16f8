"""A store as a Python object, with a method for each question that the command line answers. docs/python.md has a
worked example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import MburstError, UsageError
from ..units import format_count
from . import asked, bursts, comparing, investigating, reporting, tables
from .asked import takes
from .comparing import Compared
from .damage import warn
from .investigating import Investigation, WhatIf
from .options import duration_ns, names, newest_ns, rate_bps, span_of
from .reporting import RackReport, Report
from .sensing import Sensitivity

if TYPE_CHECKING:
    import os

    import duckdb
    import pyarrow as pa

    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder
    from ..sql.damage import DamagedFile
    from .options import Scope

_LANE = """
    coalesce(list_contains(CAST($hosts AS VARCHAR[]), host), true) AND coalesce(rack = $rack, true)
    AND coalesce(interface = $interface, true) AND coalesce(direction = $direction, true)
"""
_TOUCHED = "coalesce(start_ns < $until_ns, true) AND coalesce(end_ns > $since_ns, true)"
_PATH = """
    coalesce(src = $src, true) AND coalesce(dst = $dst, true) AND coalesce(protocol = $protocol, true)
"""
_SPAN = "coalesce($since_ns, -9223372036854775808), coalesce($until_ns, 9223372036854775807)"
_QUEUE = "coalesce(device = $device, true) AND coalesce(port = $port, true) AND coalesce(queue = $queue, true)"


def open(path: str | os.PathLike[str]) -> Store:
    """Open the store at PATH, which `mburst record` wrote. Raises MburstError if there is none, or one of another
    format.

    Nothing is read until a method asks for it; each call sees what the store holds at that moment."""
    from ..sql import StoreFolder

    return Store(StoreFolder.open(path))


class Store:
    """A store that can be queried. Created by `mburst.open`; usable in a `with` statement and from several threads.

    Options have the names of the command line's. Durations are "1ms" or integers of nanoseconds, rates "10G" or bits
    per second, sizes "4MB" or bytes, shares of line rate 0.8 or "80%". `since` and `until` are "24h" (before the newest
    data), "2026-11-20T14:03" (UTC), a datetime with a time zone, or Unix nanoseconds. A row counts if it begins in
    [since, until). `host` is one name or several; None selects all.

    Large answers are a pyarrow.Table: use `.to_pandas()`, or `polars.from_arrow(table)`. Times are Unix nanoseconds in
    int64. The metadata of each field has its `unit` and its meaning, `about`.

    If files are damaged, answers come from the other files, as on the command line. Each damaged file causes a
    DamagedFileWarning and is listed in the answer, as `damaged` or in a table's metadata. Every method raises
    MburstError (UsageError if the call itself is wrong); its `hint` says what to do.
    """

    def __init__(self, folder: StoreFolder) -> None:
        if isinstance(folder, str | Path):  # else the first query would fail with a raw Python error
            raise UsageError(f"{folder}: a path in place of a store", "mburst.open(path) opens one")
        self._folder = folder
        self._closed = False

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self._folder.path

    def __repr__(self) -> str:
        return f"mburst.open({str(self.path)!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Refuse further queries. Calling it is optional, because nothing stays open between queries."""
        self._closed = True

    # --- recorded data ---

    @takes(asked.RecordingOptions)
    def recordings(self, **options: Unpack[asked.RecordingOptions]) -> pa.Table:
        """A row for each recording of one direction of one interface, in order of its beginning: the table `recordings`
        of docs/schema.md. If a time is given, only recordings that counted in it."""
        with self._connected(self._scope(options)) as (con, scope):
            return tables.of_query(
                con,
                f"""
                FROM recordings WHERE {_LANE} AND ($since_ns IS NULL AND $until_ns IS NULL OR recording_id IN (
                    SELECT recording_id FROM recorded WHERE {_TOUCHED}))
                ORDER BY start_ns NULLS LAST, recording_id""",
                _of_lane(scope),
                about="recordings",
            )

    @takes(asked.RecordingOptions)
    def coverage(self, **options: Unpack[asked.RecordingOptions]) -> pa.Table:
        """The intervals in which each direction of each interface was recorded, and what was lost, one row each: the
        view `coverage` of docs/schema.md. If a time is given, all intervals that overlap it, not cut to it."""
        with self._connected(self._scope(options)) as (con, scope):
            return tables.of_query(
                con,
                f"""
                FROM coverage WHERE {_LANE} AND {_TOUCHED} ORDER BY rack, host, interface, direction, start_ns""",
                _of_lane(scope),
                about="coverage",
            )

    @takes(asked.UtilizationOptions)
    def utilization(self, **options: Unpack[asked.UtilizationOptions]) -> pa.Table:
        """Utilization over time: a row for each recorded bin of the width `bin`, also for bins without a packet, by
        lane and time. ts_ns (start, Unix ns), packets, bytes and wire_bytes (B), utilization (share of line rate over
        the whole bin; NULL if the link speed is not known), recorded_ns (how much of the bin was recorded), quality
        (bits, see mburst.Quality). Two recordings of the same time have separate rows.

        Raises UsageError if `bin` is not a multiple of the stored width, and MburstError if there are more than ten
        million rows."""
        from ..analysis.model.utilization import bins_of

        bin, link = options.get("bin"), options.get("link")
        with self._connected(self._scope(options)) as (con, scope):
            query = bins_of(
                con,
                None if bin is None else duration_ns(bin),
                None if link is None else rate_bps(link),
                scope.filters(),
            )
            if query is None:
                raise scope.no_recording(self.path)
            return tables.of_query(con, *query, about="bins")

    @property
    def newest_ns(self) -> int | None:
        """The time of the newest bin, probe or queue window in Unix ns: `since="10m"` counts back from it. None for an
        empty store."""
        with self._connected() as (con, _):
            return newest_ns(con)

    @property
    def damage(self) -> list[DamagedFile]:
        """The damaged files that reading the store reveals; `mburst check` reads every file completely."""
        from ..sql.damage import damaged_files

        self._check_open()
        with self._folder.connect() as con:
            return damaged_files(con)

    def sql(self, query: str) -> pa.Table:
        """The result of an SQL statement (in DuckDB's dialect) or of a named query, as `mburst sql` gives it. Only
        statements that read are allowed. docs/schema.md has the tables and views."""
        from ..sql.damage import readable
        from ..sql.named import prepare

        with self._connected() as (con, _):
            with readable(con):
                last = prepare(con, query)
            return tables.of_query(con, last, about=query if query.isidentifier() else "")

    # --- bursts ---

    @takes(asked.BurstOptions)
    def bursts(self, **options: Unpack[asked.BurstOptions]) -> pa.Table:
        """A row for each burst, by its start: the fields of `mburst bursts --json` (docs/bursts.md).

        Raises MburstError if nothing was recorded, if a line rate is not known (give `link`), and, unless `force` is
        true, if the timestamps are too coarse for the bins."""
        with self._detected(asked.definition(options), self._scope(options), bool(options.get("force"))) as con:
            return tables.of_query(con, "FROM listed", about="bursts")

    @takes(asked.BurstOptions)
    def senders(self, burst: Mapping[str, Any] | Any = None, **options: Unpack[asked.BurstOptions]) -> pa.Table:
        """The senders of a burst, one row each, most bytes first: source, members, bytes (B), share, onset_ns (its
        first frame in the burst, Unix ns), counted (the fan-in includes it); and recording_id, clock_epoch, start_ns
        and end_ns of the burst.

        BURST is a row of `bursts`: a dict, a Series of pandas, a named row of polars. Without it, returns the senders
        of all bursts that `bursts` returns with these options."""
        if burst is None:
            wanted, scope = asked.definition(options), self._scope(options)
        elif options:
            raise UsageError("a burst and options exclude each other", "options choose among all bursts")
        else:
            wanted, scope = bursts.scope_of_burst(burst)
        with self._detected(wanted, scope, burst is not None or bool(options.get("force"))) as con:
            found = tables.of_query(con, prepared(con, "burst_senders"), about="burst_senders")
        return found if burst is None else bursts.only(found, burst)

    @takes(asked.ContentionOptions)
    def contention(self, **options: Unpack[asked.ContentionOptions]) -> pa.Table:
        """How many hosts of a rack received bursts at the same time, a row for each rack in which at least two received
        any: hosts, bursts, share (of bursts that overlap one of another host), most (hosts at once), most_ns (when,
        Unix ns), contended_ns (time in which two or more hosts received bursts, ns)."""
        with self._detected(asked.definition(options), self._scope(options), bool(options.get("force"))) as con:
            return tables.of_query(con, prepared(con, "contention"), about="contention")

    def sensitivity(self) -> Sensitivity:
        """The smallest burst that is detected, measured by the canary bursts in the store (docs/canary.md)."""
        from ..analysis.canary.sensitivity import curves

        with self._connected() as (con, _):
            return Sensitivity(curves(con))

    # --- probes and switch queues ---

    @takes(asked.PathOptions)
    def latency(self, **options: Unpack[asked.PathOptions]) -> pa.Table:
        """The latency of each probed path: the view `path_latency` of docs/schema.md, for the probes that were sent in
        the time. Times in ns, by the one `measure` of the path; a quantile is NULL if there are too few probes."""
        return self._probes(
            f"""
            FROM path_latencies('probes', {_SPAN}, CAST($batch AS VARCHAR)) WHERE {_PATH}
            ORDER BY src, dst, protocol""",
            "path_latency",
            options,
        )

    @takes(asked.PathOptions)
    def probes(self, **options: Unpack[asked.PathOptions]) -> pa.Table:
        """A row for each probe, by the time it was sent: the view `latency` of docs/schema.md. tx_ns in Unix ns,
        latency_ns and round_trip_ns in ns, NULL if the probe was lost or lacks the timestamps."""
        return self._probes(
            f"""
            SELECT batch, seq, src, dst, protocol, tx_ns, lost, measure, latency_ns, round_trip_ns
            FROM measured_probes('probes', {_SPAN}, CAST($batch AS VARCHAR)) WHERE {_PATH}
            ORDER BY tx_ns, src, dst, protocol, seq""",
            "latency",
            options,
        )

    @takes(asked.QueueOptions)
    def queues(self, **options: Unpack[asked.QueueOptions]) -> pa.Table:
        """The depth of each switch queue, over the windows that overlap the time: windows, impossible (windows with
        impossible values, which are left out), max_bytes and p99_bytes (B), dropped_packets, ecn_marked_packets (NULL
        if the device does not report it)."""
        with self._windows(options) as (con, where):
            where.pop("since_ns"), where.pop("until_ns")
            return tables.of_query(
                con,
                f"FROM ({prepared(con, 'queue_depths').query.rstrip().rstrip(';')}) WHERE {_QUEUE}",
                where,
                about="queue_depths",
            )

    @takes(asked.QueueOptions)
    def queue_windows(self, **options: Unpack[asked.QueueOptions]) -> pa.Table:
        """The usable windows of switch queues, by time: the view `queue_windows` of docs/schema.md. Times in Unix ns,
        depths in B. A counter is None if another collection already has what it counted."""
        with self._windows(options) as (con, where):
            return tables.of_query(
                con,
                f"""
                FROM believable_windows('queues', {_SPAN}) WHERE {_QUEUE}
                ORDER BY device, port, queue, window_start_ns, ts_ns""",
                where,
                about="queue_windows",
            )

    # --- answers ---

    @takes(asked.InvestigationOptions)
    def investigate(self, **options: Unpack[asked.InvestigationOptions]) -> Investigation:
        """The cause of the latency tail of the probes: bursts of the recorded ports, the hosts, the rest of the
        network, or none. The cause is `undetermined`, with what is missing, if the data does not suffice
        (docs/investigate.md).

        Raises MburstError if there is neither a recording nor a probe."""
        self._check_open()
        answer = investigating.investigated(self._folder, asked.definition(options), **_question(options))
        warn(answer.damaged)
        return Investigation(answer)

    @takes(asked.WhatIfOptions)
    def what_if(self, **options: Unpack[asked.WhatIfOptions]) -> WhatIf:
        """Replay the recorded bursts through a model of their port with a change, and predict the latency of the
        recorded probes: for each change alone and, if there are several, for all together. Without a change, the usual
        ones are used.

        Raises MburstError if no late probe met a full port."""
        self._check_open()
        changes = investigating.changes_of(**asked.part(options, asked.ChangeOptions))
        recorded = asked.definition({"link": options.get("recorded_link")})
        answer = investigating.investigated(self._folder, recorded, **_question(options))
        warn(answer.damaged)
        return investigating.predicted(answer, changes)

    @takes(asked.ComparisonOptions)
    def compare(
        self,
        other: Store | str | os.PathLike[str] | None = None,
        *,
        a: Mapping[str, Any] | None = None,
        b: Mapping[str, Any] | None = None,
        both: Mapping[str, Any] | None = None,
        **options: Unpack[asked.ComparisonOptions],
    ) -> Compared:
        """Compare this store (A) with another (B), or two parts of this one: latency by percentile with the ratio B / A
        and the 95 % interval, bursts, and requests that need many answers. `a`, `b` and `both` select what is compared:
        dicts with the keys since, until, src, dst, protocol, batch, host, rack, interface and direction.

        Raises MburstError if there is nothing to compare."""
        self._check_open()
        that = self if other is None else other if isinstance(other, Store) else open(other)
        that._check_open()
        sides = [comparing.side_of({**(both or {}), **(mine or {})}) for mine in (a, b)]
        found = comparing.compared(
            (self._folder, sides[0]),
            (that._folder, sides[1]),
            asked.definition(options),
            measure=options.get("measure"),
            slow=options.get("slow"),
            seed=options.get("seed", 1),
        )
        warn(found.damaged)
        return found

    @takes(asked.ReportOptions)
    def report(self, **options: Unpack[asked.ReportOptions]) -> Report:
        """The report of all stored data, or of one rack or host: its figures, its facts, and the page to write."""
        self._check_open()
        rack = options.get("rack")
        span = span_of(self._folder, options.get("since"), options.get("until"), rack)
        found = reporting.report_of(self._folder, asked.definition(options), rack, options.get("host"), *span)
        warn(found.damaged)
        return found

    @takes(asked.RackReportOptions)
    def rack_report(self, rack: str, **options: Unpack[asked.RackReportOptions]) -> RackReport:
        """The report of a rack in a period: which hosts received bursts, when, how long and how intense they were, who
        sent them, and what changed. An open end of the time becomes that of the recordings."""
        self._check_open()
        span = span_of(self._folder, options.get("since"), options.get("until"), rack)
        period = reporting.period_of(self._folder, span, options.get("last"), rack)
        found = reporting.rack_report_of(self._folder, asked.definition(options), rack, period)
        warn(found.damaged)
        return found

    # --- helpers ---

    def _scope(self, options: Mapping[str, Any]) -> Scope:
        self._check_open()
        return asked.scope(self._folder, options)

    def _check_open(self) -> None:
        if self._closed:
            raise MburstError(f"{self.path}: this store was closed", "open it again")

    @contextmanager
    def _connected(self, scope: Scope | None = None) -> Iterator[tuple[duckdb.DuckDBPyConnection, Scope]]:
        """Yields a connection for one query, and the scope of the query; afterwards warns of each damaged file."""
        from ..sql.damage import damaged_files

        self._check_open()
        scope = scope or self._scope({})
        with self._folder.connect(scope.rack, scope.since_ns, scope.until_ns) as con:
            damaged = damaged_files(con)
            yield con, scope
        warn(damaged)

    @contextmanager
    def _detected(self, wanted: BurstDefinition, scope: Scope, force: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yields a connection that also has the tables of detect_bursts."""
        from ..sql.damage import damaged_files

        self._check_open()
        with bursts.detected(self._folder, wanted, scope, force=force) as con:
            damaged = damaged_files(con)
            yield con
        warn(damaged)

    def _probes(self, query: str, about: str, options: Mapping[str, Any]) -> pa.Table:
        from ..analysis.model.whole import note_probes

        with self._connected(self._scope(asked.part(options, asked.TimeOptions))) as (con, scope):
            where = {name: options.get(name) for name in ("src", "dst", "protocol", "batch")}
            self._check_named(con, "probes", where)
            note_probes(con, scope.since_ns, scope.until_ns)
            return tables.of_query(con, query, {**where, **_span(scope)}, about=about)

    @contextmanager
    def _windows(self, options: Mapping[str, Any]) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, Any]]]:
        """Yields a connection that has the time as variables, and the parameters of _QUEUE and _SPAN."""
        from ..sql.named import set_variables

        with self._connected(self._scope(asked.part(options, asked.TimeOptions))) as (con, scope):
            where = {name: options.get(name) for name in ("device", "port", "queue")}
            self._check_named(con, "queues", where)
            set_variables(con, **_span(scope))
            yield con, {**where, **_span(scope)}

    def _check_named(self, con: duckdb.DuckDBPyConnection, table: str, where: Mapping[str, Any]) -> None:
        """Raise MburstError if no row of TABLE, of any time, has the names WHERE, such as a name that is misspelt. It
        names damaged files, which may have had them."""
        from ..analysis.read.rows import holds
        from ..sql.damage import damaged_files

        given = {name: value for name, value in where.items() if value is not None}
        if not given or holds(con, table, given):
            return
        with self._folder.connect() as everything:
            summed = {name: value for name, value in given.items() if name != "batch"}  # the sums of old probes
            if holds(everything, table, given) or (table == "probes" and holds(everything, "latency_steps", summed)):
                return
            damaged = damaged_files(everything)
        names = " and ".join(f"{name} {value}" for name, value in given.items())
        unread = (
            f"; {format_count(len(damaged), 'damaged file was', 'damaged files were')} not read: " if damaged else ""
        )
        raise MburstError(
            f"{self.path}: no {table} of {names}{unread}{'; '.join(map(str, damaged))}",
            "`mburst sql STORE` shows what there is",
        )


def prepared(con: duckdb.DuckDBPyConnection, name: str) -> duckdb.Statement:
    """Run the statements of a named query about the detected bursts except the last, and return the last."""
    from ..sql.damage import readable
    from ..sql.named import prepare

    with readable(con):
        return prepare(con, name, alone=True)


def _of_lane(scope: Scope) -> dict[str, Any]:
    return {name: value for name, value in scope.filters().items() if name != "recording"}


def _span(scope: Scope) -> dict[str, int | None]:
    return {"since_ns": scope.since_ns, "until_ns": scope.until_ns}


def _question(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of `investigated` that are given."""
    given = asked.part(options, asked.TailOptions)
    listed = {"hosts": names(given.pop("host", None)), "alias": names(given.pop("alias", None))}
    return {**{name: value for name, value in given.items() if value is not None}, **listed}
