"""The status of the reports of a mburst.toml: whether they are written and delivered."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import MburstError
from ..units import NS_PER_HOUR, format_time

if TYPE_CHECKING:
    from ..agent.config import RunConfig, ScheduledReport
    from ..analysis.rack.period import Period

LATE_NS = NS_PER_HOUR  # after a report was due, it is there
_NAMED = 5  # racks that a sentence names


@dataclass(frozen=True)
class ReportStatus:
    """The status of a report for the period that is due: [since_ns, until_ns)."""

    name: str
    since_ns: int
    until_ns: int
    written: list[str]  # racks
    is_late: bool  # a page was due more than LATE_NS ago and is not written
    missing: list[str]  # racks without a page
    troubles: list[str]  # deliveries that failed, or that may not have arrived

    def unwell(self) -> list[str]:
        """Returns the problems, one sentence each."""
        until = format_time(self.until_ns)[:19]
        racks = ", ".join(rack or "(unnamed)" for rack in self.missing[:_NAMED])
        more = f" and {len(self.missing) - _NAMED} more" if len(self.missing) > _NAMED else ""
        late = f"report {self.name}: no page of {racks}{more} is written for the period until {until} UTC"
        return [*([late] if self.is_late else []), *self.troubles]


def read(config: RunConfig, report: ScheduledReport) -> ReportStatus:
    """Read the folder of a report. Raises MburstError if the folder or the store cannot be read."""
    from ..agent.delivery import DeliveryLedger
    from ..agent.schedule.due import due_period
    from ..dashboards.common.summaries import summaries

    now = time.time_ns()
    period = due_period(report, now)
    found = summaries(report.output, (period.since_ns, period.until_ns))
    written = sorted(summary["rack"] for _, summary in found)
    missing = sorted(_expected(report, period).difference(written))
    is_late = bool(missing) and now > period.until_ns + report.delay_ns + LATE_NS
    try:
        troubles = DeliveryLedger.seen(report.output / DeliveryLedger.NAME, config.secrets).open_failures()
    except MburstError as error:
        troubles = [str(error)]
    return ReportStatus(report.name, period.since_ns, period.until_ns, written, is_late, missing, troubles)


def _expected(report: ScheduledReport, period: Period) -> set[str]:
    """Returns the racks of a report: those that it names, or those that are expected. For a fleet's report it is the
    name of the fleet. Raises MburstError."""
    from ..agent.schedule.reports import expected_racks
    from ..dashboards.common.summaries import FLEET
    from ..sql import StoreFolder

    if report.source.store is None:
        return {FLEET}
    if report.racks is not None:
        return set(report.racks)
    return set(expected_racks(StoreFolder.open(report.source.store), period))
