"""The content of a span of time, such as a day of a rack: the bursts that begin in it, and sums over its hours, from
files that reach beyond it.

A burst across an edge of the span belongs, in full, to the span in which it begins. Detection includes a margin on both
sides, which is widened until no possible part of these bursts continues beyond it. Spans that divide the time therefore
have together the bursts of one database over all files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import MburstError, UsageError
from ...sql import listed
from ...sql.compaction.rules import Detail
from ...sql.damage import HINT, damaged_files, readable
from ...sql.format.filenames import SealedName
from ...sql.named import set_variables
from ...sql.parsed import parsed, run
from ...sql.tables import ATTACHED, partition_sql
from ...units import NS_PER_S, format_duration
from ..bursts.find import BurstDefinition, detect_bursts

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Tried in this order, and finally all that the files contain.
MARGINS_NS = (60 * NS_PER_S, 480 * NS_PER_S, 3840 * NS_PER_S)
AFTER_NS = 10 * 10**6  # a fast retransmission comes within this time; one after a timeout (200 ms and more) does not
MEMORY = "1GB"
NEAR = ("bins", "sources")  # tables with rows near bursts that can be passed on too
_BATCH_ROWS = 1 << 17


class BurstBeyond(MburstError):
    """A possible part of a burst continues beyond the time of the files."""


TakeRows = Callable[[str, "pa.RecordBatchReader"], None]


class PartitionTables(NamedTuple):
    """The results of the files in sql/partition/, by their names. No column has an unsigned type. Times are Unix ns."""

    bursts: pa.Table
    senders: pa.Table
    hours: pa.Table
    histograms: pa.Table
    contention: pa.Table
    coverage: pa.Table
    queue_drops: pa.Table


class PortTables(NamedTuple):
    """The rows of the tables of these names, without `port_`, from recordings of switch ports, with the columns of
    of_ports.sql."""

    port_bursts: pa.Table
    port_hours: pa.Table
    port_histograms: pa.Table
    port_coverage: pa.Table


class DetectedPartition(NamedTuple):
    """The tables that were detected. `tables` are of hosts, `ports` of switch ports, except that ports stand in for
    hosts in contention. unsettled: the writers of recordings that have not ended and are known only up to a time in the
    span; another row about them may change the tables. switch_ports: recordings of switch ports in the span;
    unfit_ports: those that are left out because their line rate is unknown, or because their bins do not add up to
    those of the definition."""

    tables: PartitionTables
    ports: PortTables
    unsettled: tuple[str, ...]
    switch_ports: int
    unfit_ports: int


def detect(
    files: Mapping[str, Iterable[Path]],
    definition: BurstDefinition | None = None,
    *,
    since_ns: int,
    until_ns: int,
    held_ns: int | None = None,
    after_ns: int = AFTER_NS,
    threads: int = 1,
    memory: str = MEMORY,
    scratch: Path | None = None,
    take: TakeRows | None = None,
) -> DetectedPartition:
    """Returns the bursts of FILES that begin in [SINCE_NS, UNTIL_NS), their senders, and sums over the hours of that
    time.

    FILES are those of whole hosts, by table: `bins` and `sources` of that time and of HELD_NS before and behind it
    (None: all that exist); `recordings` and `canary` of any date; `queues` of that time if `queue_drops` is to have
    rows; and `links`, which state the host behind a switch port. `contention` counts the hosts in FILES. AFTER_NS: how
    long behind a burst retransmissions and marks are counted. If THREADS is 1, the same files give the same bytes.
    SCRATCH: as in sql/listed.py. TAKE receives the rows of NEAR that start in the span, in the second of a burst or in
    an adjacent one; those of switch ports as `port_bins`. Raises UsageError for an empty span, BurstBeyond if HELD_NS
    is not enough, MburstError if a file is damaged or missing or if bins have no row of `recordings`, and the errors of
    find_bursts."""
    if until_ns <= since_ns or after_ns < 0:
        raise UsageError(f"invalid span of {until_ns - since_ns} ns, {after_ns} ns after a burst")
    files = {table: [*paths] for table, paths in files.items()}
    _check_not_thinned(path for paths in files.values() for path in paths)
    with listed.connect(files, threads=threads, memory=memory, scratch=scratch) as con:
        check_whole(con)
        set_variables(con, span_since_ns=since_ns, span_until_ns=until_ns, after_ns=after_ns, without_unfit_ports=True)
        _detect_within(con, definition, since_ns, until_ns, held_ns)
        with readable(con):
            run(con, partition_sql("cells"))
            [(switch_ports, unfit_ports)] = con.execute(partition_sql("switch_ports")).fetchall()
            tables, ports = _divided(con) if switch_ports else _of_hosts(con)
            unsettled = con.execute(partition_sql("unsettled")).fetchall()
            if take is not None:
                _take_near(con, take, with_ports=switch_ports > 0)
            return DetectedPartition(tables, ports, tuple(writer for (writer,) in unsettled), switch_ports, unfit_ports)


def _of_hosts(con: duckdb.DuckDBPyConnection) -> tuple[PartitionTables, PortTables]:
    """Returns all tables, if there are no switch ports."""
    answers = (parsed(con, partition_sql(name)) for name in PartitionTables._fields)
    tables = PartitionTables(*(con.sql(answer).to_arrow_table() for [answer] in answers))
    return tables, PortTables(*(_no_port(getattr(tables, name.removeprefix("port_"))) for name in PortTables._fields))


def _no_port(rows: pa.Table) -> pa.Table:
    """Returns what of_ports.sql returns for no ROWS."""
    import pyarrow as pa

    none = rows.slice(0, 0)
    for column in ATTACHED:
        none = none.append_column(column, pa.array([], pa.string()))
    return none


def _divided(con: duckdb.DuckDBPyConnection) -> tuple[PartitionTables, PortTables]:
    """Returns all tables. Those of recordings come from one query each, divided into hosts and switch ports."""
    tables: dict[str, pa.Table] = {}
    for name in PartitionTables._fields:
        [answer] = parsed(con, partition_sql(name))
        if f"port_{name}" not in PortTables._fields:
            tables[name] = con.sql(answer).to_arrow_table()
            continue
        con.sql(answer).to_table("answered")
        for table, side in ((name, "of_hosts"), (f"port_{name}", "of_ports")):
            [part] = parsed(con, partition_sql(side))
            tables[table] = con.sql(part).to_arrow_table()
        con.execute("DROP TABLE answered")
    ports = PortTables(*(tables.pop(name) for name in PortTables._fields))
    return PartitionTables(**tables), ports


def _take_near(con: duckdb.DuckDBPyConnection, take: TakeRows, with_ports: bool) -> None:
    """Pass the rows near bursts of hosts to TAKE, and if WITH_PORTS those of switch ports, which have no senders."""
    for of_ports in (False, True) if with_ports else (False,):
        set_variables(con, of_ports=of_ports)
        run(con, partition_sql("near_seconds"))
        for table in NEAR[:1] if of_ports else NEAR:
            [answer] = parsed(con, partition_sql(f"near_{table}"))
            rows = con.sql(answer).to_arrow_reader(_BATCH_ROWS)
            take(f"port_{table}" if of_ports else table, rows)


def _check_not_thinned(paths: Iterable[Path]) -> None:
    """Raises MburstError if a file, by its name, has only a part of a day's bins: the sums over hours would be too
    small."""
    for path in paths:
        name = SealedName.parse(Path(path).name)
        if name and name.segment.compacted >= Detail.BURSTS:
            raise MburstError(
                f"{path}: was compacted: not every bin of its day is kept", "name the files that the recorder wrote"
            )


def check_whole(con: duckdb.DuckDBPyConnection) -> None:
    """Raises MburstError with the name of a damaged file: without the file, bursts would be missing from a result that
    looks complete."""
    if damaged := damaged_files(con):
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise MburstError(f"{damaged[0]}{more}", HINT)


def _detect_within(
    con: duckdb.DuckDBPyConnection,
    definition: BurstDefinition | None,
    since_ns: int,
    until_ns: int,
    held_ns: int | None,
) -> None:
    """Leaves the tables of detect_bursts in CON, over a margin that contains all of the bursts that begin in the span.
    Raises BurstBeyond."""
    margins = [margin for margin in MARGINS_NS if held_ns is None or margin < held_ns] + [held_ns]
    before, after = iter(margins), iter(margins)
    early, late = next(before), next(after)
    try:
        while True:
            detect_bursts(
                con,
                definition,
                since_ns=None if early is None else since_ns - early,
                until_ns=None if late is None else until_ns + late,
            )
            with readable(con):
                [reaching] = parsed(con, partition_sql("reaching"))
                [(goes_before, goes_on)] = con.execute(reaching).fetchall()
            if not goes_before and not goes_on:
                return
            early = next(before) if goes_before else early
            late = next(after) if goes_on else late
    except StopIteration:
        beyond = format_duration(held_ns or 0)
        raise BurstBeyond(f"a burst goes on for more than {beyond} before or behind the time in question") from None
