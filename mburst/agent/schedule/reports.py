"""Reports of racks over periods: the racks, the period, and writing all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import MburstError
from ...units import NS_PER_DAY, NS_PER_HOUR

if TYPE_CHECKING:
    from ...analysis.bursts.find import BurstDefinition
    from ...analysis.rack.period import Period
    from ...sql import StoreFolder

EVERY = ("hour", "day", "week")
LENGTH_NS = {"hour": NS_PER_HOUR, "day": NS_PER_DAY, "week": 7 * NS_PER_DAY}
FORGOTTEN_NS = 7 * NS_PER_DAY
_RECORDED = """
SELECT min(start_ns), max(end_ns) FROM (
    SELECT rack, start_ns, end_ns FROM recorded
    UNION ALL SELECT rack, first_ns, last_ns + 1 FROM damaged_files
    WHERE table_name IN ('bins', 'steps') AND first_ns IS NOT NULL AND last_ns IS NOT NULL)
WHERE coalesce(rack = $1, true)
"""


# The row of a recording from an interface is written again while it runs, also without packets.
_EXPECTED = """
SELECT DISTINCT rack FROM recordings
WHERE coalesce(start_ns, begun_ns, written_ns) < $1
    AND greatest(coalesce(end_ns, start_ns, begun_ns), CASE WHEN interface_id IS NOT NULL THEN written_ns END) >= $2
ORDER BY rack
"""


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written: its files, and its summary for an index."""

    rack: str
    page: Path
    facts: Path
    summary: dict[str, Any]

    @property
    def recorded(self) -> bool:
        return bool(self.summary["recorded"])

    @property
    def name(self) -> str:
        """The name of the report: its rack and period."""
        return self.page.stem


def known_racks(store: StoreFolder) -> list[str]:
    """Returns the racks with recordings in the store, sorted."""
    with store.connect(since_ns=0, until_ns=0) as con:  # only rows about recordings
        return [row[0] for row in con.execute("SELECT DISTINCT rack FROM recordings ORDER BY rack").fetchall()]


def expected_racks(store: StoreFolder, period: Period) -> list[str]:
    """Returns the racks of a report of all racks, sorted: those with recordings from before the end of the period, and
    not only from more than FORGOTTEN_NS (or the length of the period, if that is longer) before its begin: a rack that
    has recorded nothing for so long was removed or renamed."""
    since_ns = period.since_ns - max(FORGOTTEN_NS, period.span_ns)
    with store.connect(since_ns=0, until_ns=0) as con:  # only rows about recordings
        return [row[0] for row in con.execute(_EXPECTED, [period.until_ns, since_ns]).fetchall()]


def last_period(every: str, now_ns: int | None = None) -> Period:
    """Returns the last complete hour, day or week (from Monday) of UTC."""
    from ...analysis.rack.period import Period

    now = time.time_ns() if now_ns is None else now_ns
    if every == "week":
        today = datetime.fromtimestamp(now // 10**9, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        until = int((today - timedelta(days=today.weekday())).timestamp()) * 10**9
    else:
        until = now // LENGTH_NS[every] * LENGTH_NS[every]
    return Period(until - LENGTH_NS[every], until)


def period_of(store: StoreFolder, since_ns: int | None, until_ns: int | None, rack: str | None) -> Period:
    """Returns the period, with open ends replaced by the times at which the rack, or any rack, was recorded, even if
    the bins are missing. Raises MburstError if there is no recording."""
    from ...analysis.rack.period import Period

    with store.connect(rack, since_ns, until_ns) as con:
        [(oldest, newest)] = con.execute(_RECORDED, [rack]).fetchall()
    if oldest is None and (since_ns is None or until_ns is None):
        raise MburstError(
            f"{store.path}: no recording" + (f" of rack {rack}" if rack else ""),
            "give both --since and --until, or --last, for a report that says so",
        )
    since = oldest if since_ns is None else since_ns
    until = newest if until_ns is None else until_ns
    if since >= until:
        raise MburstError("the period ends before it begins", "the newest data is older than --since")
    return Period(since, until)


def write_racks(
    store: StoreFolder, racks: Sequence[str], period: Period, definition: BurstDefinition, folder: Path
) -> Iterator[WrittenReport]:
    """Write a report for each rack, yield each, and write the index after the last. Raises MburstError."""
    from ...analysis.rack.report import gather
    from ...dashboards.rack import page
    from ...dashboards.rack.words import summary

    for rack in racks:
        report = gather(store, rack, period, definition)
        yield WrittenReport(rack, *page.write(report, folder), summary(report))
    page.write_index(folder)
