"""The content of a report on a fleet, and on each of its racks, over some whole days. All of it is queried from a
database over results (sql/resulting.py); only its tables are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...sql import questions, resulting
from ...sql.named import set_variables
from ...units import NS_PER_DAY, NS_PER_HOUR
from ..bursts.find import BurstDefinition
from .answers import HOURS, BurstAnswers, Row, WorstRows, answers, asked, worst

if TYPE_CHECKING:
    import duckdb

RACKS, HOSTS, LACKING, VERDICTS = 30, 60, 30, 40  # most rows of figures, of missing hosts and parts, and of verdicts
# Beyond the first, slots of the second; else of an hour.
SLOTS = ((62 * NS_PER_DAY, 7 * NS_PER_DAY), (8 * NS_PER_DAY, NS_PER_DAY))


@dataclass(frozen=True)
class LackingPart:
    """A partition of a rack without a result, in words."""

    rack: str
    text: str


@dataclass(frozen=True)
class FleetPeriod:
    """Whole days (UTC) in Unix ns, and the DEFINITION of all bursts. Missing data: DATES without any result, partitions
    that were not detected (UNDETECTED), and those with damaged files (DAMAGED), also of the earlier days that are
    compared; and recordings of switch ports that were left out (UNFIT)."""

    since_ns: int
    until_ns: int
    definition: BurstDefinition
    dates: list[str] = field(default_factory=list)
    undetected: list[LackingPart] = field(default_factory=list)
    damaged: list[LackingPart] = field(default_factory=list)
    unfit: list[LackingPart] = field(default_factory=list)

    @property
    def slot_ns(self) -> int:
        """The length of a slot of its figures."""
        length = self.until_ns - self.since_ns
        return next((slot for beyond, slot in SLOTS if length > beyond), NS_PER_HOUR)

    @property
    def slots(self) -> int:
        """The number of slots; the last one may end later."""
        return -((self.since_ns - self.until_ns) // self.slot_ns)

    def of_rack(self, rack: str) -> FleetPeriod:
        """Returns the period with only the missing data of RACK."""
        undetected, damaged, unfit = (
            [part for part in parts if part.rack == rack] for parts in (self.undetected, self.damaged, self.unfit)
        )
        return replace(self, undetected=undetected, damaged=damaged, unfit=unfit)


@dataclass(frozen=True)
class SlotLine:
    """For each slot: the bursts that a host, a rack or all of them receive, the recorded time, and the time in
    bursts."""

    name: str
    bursts: list[int]
    recorded_ns: list[int]
    burst_ns: list[int]


@dataclass(frozen=True)
class RackSums:
    """A rack: question 1 over all days (hosts are counted for each day; `losing_share` and `behind_ns` are the
    largest), the bursts that its hosts received, and the time (ns) for each number of its hosts in a burst at once
    (question 8)."""

    rack: str
    hosts_expected: int = 0
    hosts_recorded: int = 0
    expected_ns: int = 0
    recorded_share: float = 0.0
    losing_share: float | None = None
    behind_ns: int = 0
    missing: int = 0
    hosts: int = 0
    bursting_hosts: int = 0
    bursts: int = 0
    burst_ns: int = 0
    recorded_ns: int = 0
    retransmits: int | None = 0  # and wire_bytes: if they were counted
    wire_bytes: int | None = 0
    known_ns: int = 0
    shared_ns: int = 0
    most_at_once: int | None = None

    @property
    def burst_share(self) -> float:
        """The share of recorded time in bursts."""
        return self.burst_ns / self.recorded_ns if self.recorded_ns else 0.0

    @property
    def retransmits_per_gb(self) -> float | None:
        """Retransmissions per 10^9 bytes on the wire; None if they were not counted."""
        return self.retransmits * 1e9 / self.wire_bytes if self.retransmits is not None and self.wire_bytes else None

    @property
    def is_complete(self) -> bool:
        """Whether no data of the rack is missing."""
        return not self.behind_ns and not self.missing and self.hosts_recorded == self.hosts_expected


@dataclass(frozen=True)
class FleetFigures:
    """A fleet. racks: all, the worst first; lines: of all of them together and of the worst, by slots."""

    period: FleetPeriod
    racks: list[RackSums]
    lines: list[SlotLine]
    answers: BurstAnswers


@dataclass(frozen=True)
class FleetRackFigures:
    """A rack of a fleet. lines: its worst hosts by slots, out of `hosts` that were recorded; hours: question 10, the
    hours with most bursts, in order of time; lacking: missing data, by host or with a reason; verdicts: rows of that
    table, those with most lateness first."""

    period: FleetPeriod
    sums: RackSums
    lines: list[SlotLine]
    hosts: int
    hours: WorstRows
    lacking: WorstRows
    verdicts: WorstRows
    answers: BurstAnswers


def gather_fleet(con: duckdb.DuckDBPyConnection, period: FleetPeriod, racks_of_results: Iterable[str]) -> FleetFigures:
    """Returns the figures of the whole fleet, with all RACKS_OF_RESULTS whether they recorded anything or not. Raises
    the errors of DuckDB."""
    racks = _racks(con, racks_of_results)
    chosen = [rack.rack for rack in racks[:RACKS] if rack.recorded_ns]
    slots = _slots(con, period)
    sums = "slot_ns, sum(bursts) AS bursts, sum(burst_ns) AS burst_ns, sum(recorded_ns) AS recorded_ns"
    total = f"SELECT '' AS name, {sums} FROM ({slots}) GROUP BY ALL"
    each = f"SELECT rack AS name, {sums} FROM ({slots}) WHERE list_contains($1, rack) GROUP BY ALL"
    lines = [*_lines(asked(con, total), [""], period), *_lines(asked(con, each, chosen), chosen, period)]
    return FleetFigures(period, racks, lines, answers(con))


def gather_rack(con: duckdb.DuckDBPyConnection, period: FleetPeriod, sums: RackSums) -> FleetRackFigures:
    """Returns the figures of one rack that has results. Raises the errors of DuckDB."""
    with resulting.of_rack(con, sums.rack):
        found = answers(con)
        slots = _slots(con, period)
        names = [
            row["host"]
            for row in asked(con, f"SELECT host, sum(bursts) AS n FROM ({slots}) GROUP BY host ORDER BY n DESC, host")
        ]
        rows = asked(
            con,
            f"SELECT host AS name, slot_ns, bursts, burst_ns, recorded_ns FROM ({slots}) WHERE list_contains($1, host)",
            names[:HOSTS],
        )
        hours = worst(con, f"({questions.text('hours_of_day')})", "bursts_per_h DESC, hour_ns", HOURS)
        hours.rows.sort(key=lambda row: int(row["hour_ns"]))
        lacking = (
            "(SELECT day_ns, host, behind_ns, reason FROM incomplete CROSS JOIN asked "
            "WHERE day_ns >= since_ns AND day_ns < until_ns)"
        )
        missing = worst(con, lacking, "host IS NULL, behind_ns DESC NULLS FIRST, host, day_ns, reason", LACKING)
        verdicts = (
            "(SELECT host, start_ns, end_ns, cause, excess_share, summary, has_tail, excess_ns, lateness_place "
            f"FROM ({questions.part('switch_drops', 'by_lateness')}) "
            "CROSS JOIN asked WHERE start_ns >= since_ns AND start_ns < until_ns)"
        )
        return FleetRackFigures(
            period.of_rack(sums.rack),
            sums,
            list(_lines(rows, names[:HOSTS], period)),
            len(names),
            hours,
            missing,
            worst(con, verdicts, "lateness_place", VERDICTS),
            found,
        )


def _racks(con: duckdb.DuckDBPyConnection, racks_of_results: Iterable[str]) -> list[RackSums]:
    """Returns all racks, those with most time in bursts first."""
    covered = asked(
        con,
        f"""SELECT rack, CAST(sum(hosts_expected) AS BIGINT) AS hosts_expected,
                CAST(sum(hosts_recorded) AS BIGINT) AS hosts_recorded,
                CAST(sum(expected_ns) AS BIGINT) AS expected_ns,
                coalesce(sum(recorded_share * expected_ns) / nullif(sum(expected_ns), 0), 0e0) AS recorded_share,
                max(losing_share) AS losing_share, max(behind_ns) AS behind_ns, CAST(sum(missing) AS BIGINT) AS missing
            FROM ({questions.text("coverage")}) GROUP BY rack""",
    )
    shared = asked(
        con,
        f"""SELECT rack, CAST(sum(ns) AS BIGINT) AS known_ns,
                CAST(coalesce(sum(ns) FILTER (hosts_at_once >= 2), 0) AS BIGINT) AS shared_ns,
                max(hosts_at_once) AS most_at_once
            FROM ({questions.text("contention")}) GROUP BY rack""",
    )
    found: dict[str, Row] = {rack: {"rack": rack} for rack in racks_of_results}
    for row in [*covered, *asked(con, questions.for_report("racks")), *shared]:
        found.setdefault(row["rack"], {}).update(row)
    racks = [RackSums(**row) for row in found.values()]
    return sorted(racks, key=lambda rack: (-rack.burst_share, -rack.bursts, not rack.recorded_ns, rack.rack))


def _slots(con: duckdb.DuckDBPyConnection, period: FleetPeriod) -> str:
    """Returns the query for slots of the period's length."""
    set_variables(con, slot_ns=period.slot_ns)
    return questions.for_report("slots")


def _lines(rows: Iterable[Row], names: Iterable[str], period: FleetPeriod) -> Iterator[SlotLine]:
    """Yields a line for each of NAMES, from the rows of that name."""
    lines = {name: SlotLine(name, *([0] * period.slots for _ in range(3))) for name in names}
    for row in rows:
        slot = (row["slot_ns"] - period.since_ns) // period.slot_ns
        lines[row["name"]].bursts[slot] += int(row["bursts"])
        lines[row["name"]].recorded_ns[slot] += int(row["recorded_ns"])
        lines[row["name"]].burst_ns[slot] += int(row["burst_ns"])
    yield from lines.values()
