"""The report of a fleet: a page for each rack that has results, and one for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..analysis.fleet.answers import BurstAnswers, name_senders
from ..analysis.fleet.report import FleetPeriod, LackingPart, gather_fleet, gather_rack
from ..dashboards.fleet import page
from ..sql.damage import readable
from ..units import format_count
from .asking import AskedDays, FleetDatabase
from .results import definition_of
from .target import FleetTarget

if TYPE_CHECKING:
    import duckdb


class WrittenFleet(NamedTuple):
    """The report that was written: the page of the fleet, its facts, and the number of racks with a page. `lacks` has a
    line for each part without a result."""

    page: Path
    facts: Path
    racks: int
    lacks: list[str]


def write_report(
    results: FleetTarget,
    days: AskedDays,
    found: FleetDatabase,
    folder: Path,
    progress: Callable[[int, int], None],
    names: duckdb.DuckDBPyConnection | None = None,
) -> WrittenFleet:
    """Write all pages into FOLDER, the fleet's page last. PROGRESS is called with the number of finished racks and of
    all racks. NAMES is a database with names; senders get the names that they had at the end of the time. Raises
    MburstError, and UsageError if RESULTS has no results."""

    def name(answers: BurstAnswers) -> None:
        if names is not None:
            name_senders(answers, names, days.until_ns - 1)

    period = _period(results, days, found)
    dates = {*days.dates}
    with_results = {record.rack for record in found.records if record.date in dates}
    with readable(found.con, changed=found.changed):
        figures = gather_fleet(found.con, period, with_results)
    name(figures.answers)
    racks = [sums for sums in figures.racks if sums.rack in with_results]
    for number, sums in enumerate(racks, 1):
        with readable(found.con, changed=found.changed):
            rack = gather_rack(found.con, period, sums)
        name(rack.answers)
        page.write_rack(rack, folder)
        progress(number, len(racks))
    written = page.write_fleet(figures, folder, [sums.rack for sums in racks])
    return WrittenFleet(*written, len(racks), found.lacks)


def _period(results: FleetTarget, days: AskedDays, found: FleetDatabase) -> FleetPeriod:
    return FleetPeriod(
        days.since_ns,
        days.until_ns,
        definition_of(results),
        found.dates,
        [LackingPart(name.rack, f"{name}: not detected") for name in found.undetected],
        [LackingPart(partition.name.rack, partition.reason) for partition in found.damaged],
        [
            LackingPart(record.rack, f"{record.name}: {format_count(record.unfit_ports, 'recording')}")
            for record in found.records
            if record.unfit_ports and record.date in {*days.dates}
        ],
    )
