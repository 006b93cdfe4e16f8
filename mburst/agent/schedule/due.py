"""Reports that are due: each is written once and delivered once, and failed deliveries are retried."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import MburstError
from ...messages import print_message
from ...units import NS_PER_HOUR
from ..config import RunConfig, ScheduledReport
from ..delivery import DeliveryKey, DeliveryLedger, Digest, deliver
from .reports import LENGTH_NS, expected_racks, last_period, write_racks
from .retention import LEAST_NS

if TYPE_CHECKING:
    from ...analysis.rack.period import Period

LOOK_S = 30.0  # how often the loop checks whether a report is due


def due_period(report: ScheduledReport, now_ns: int) -> Period:
    """Returns the last period that ended at least the report's delay ago."""
    return last_period(report.every, now_ns - report.delay_ns)


def make(report: ScheduledReport, period: Period, show: Callable[[str], None]) -> bool:
    """Write the missing pages of a report for a period. Returns whether any were missing."""
    from ...dashboards.common.summaries import FLEET, summaries
    from ...sql import StoreFolder

    found = summaries(report.output, (period.since_ns, period.until_ns), own=True)
    have = {summary["rack"] for _, summary in found}
    if report.source.store is None:
        if FLEET not in have:
            _make_fleet(report, period, show)
        return FLEET not in have
    store = StoreFolder.open(report.source.store)
    racks = expected_racks(store, period) if report.racks is None else report.racks
    missing = [rack for rack in racks if rack not in have]
    for written in write_racks(store, missing, period, report.definition, report.output):
        show(f"report: {written.page}")
    return bool(missing)


def _make_fleet(report: ScheduledReport, period: Period, show: Callable[[str], None]) -> None:
    """Write the pages of a fleet and of its racks. Raises MburstError, for example if no bursts of the period are
    detected yet."""
    from ...fleet.asking import AskedDays, opened
    from ...fleet.inventory import read_inventory
    from ...fleet.reporting import write_report
    from ...fleet.target import open_target

    days, results = AskedDays(period.since_ns, period.until_ns), open_target(report.source.results)
    inventory = read_inventory(report.source.inventory)
    report.output.mkdir(mode=0o750, parents=True, exist_ok=True)
    with opened(results, days, inventory, str(report.output)) as found:
        written = write_report(results, days, found, report.output, lambda done, total: None)
        for line in [*map(str, found.damaged), *written.lacks]:
            print_message(line)
    show(f"report: {written.page}")


def carry_out(
    config: RunConfig,
    report: ScheduledReport,
    now_ns: int,
    show: Callable[[str], None],
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Write the report that is due, deliver it and the earlier ones that failed, and remove those that are not kept.
    Returns the number of failed deliveries. If PAUSE(seconds), which waits, returns a true value, this process shall
    end: the delivery in flight is finished, no other begins, and those that are left count as failed; the next process
    makes up for them, also after the period."""
    from ...dashboards.rack import page

    period = due_period(report, now_ns)
    make(report, period, show)
    failed = 0
    with DeliveryLedger(report.output / DeliveryLedger.NAME, config.secrets) as ledger:
        for name in report.deliver:
            ledger.plan(DeliveryKey(report.name, period.since_ns, period.until_ns, name))
        for name in report.deliver:
            ledger.give_up(report.name, name, period.until_ns - LEAST_NS)
            to = config.deliveries[name]
            troubles = ledger.troubles(name)
            for since, until in _periods(report, period, ledger, name):
                if pause(0):
                    failed += 1
                    break
                digest = Digest.read(report.name, report.output, since, until, troubles, report.kept, report.racks)
                failed += not deliver(digest, to, ledger, show, pause)
        removed = report.kept.remove_older(report.output) if report.kept else 0
        if report.deliver or removed:
            page.write_index(report.output, ledger.open_failures())
    return failed


def _periods(report: ScheduledReport, newest: Period, ledger: DeliveryLedger, to: str) -> Sequence[tuple[int, int]]:
    """Returns the periods to deliver: failed ones and those not begun that are not too old, then the newest."""
    old = [
        (since, until)
        for since, until in ledger.failed(report.name, to)
        if until > newest.until_ns - LEAST_NS and since != newest.since_ns
    ]
    return [*sorted(old), (newest.since_ns, newest.until_ns)]


@dataclass
class _Turn:
    """When a report was carried out last: of the period until `until_ns`; where that failed, at `failed_ns`."""

    until_ns: int | None = None
    failed_ns: int | None = None

    def waits(self, until_ns: int, again_ns: int, now_ns: int) -> bool:
        """Whether nothing is due at NOW_NS, of the period until UNTIL_NS. The clock may have been set since."""
        if self.until_ns != until_ns:
            return False
        return self.failed_ns is None or self.failed_ns <= now_ns < self.failed_ns + again_ns


def loop(
    config: RunConfig,
    stopped: Callable[[float], bool],
    show: Callable[[str], None],
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Carry out every report when it is due, and what failed again after a quarter of its period (an hour at most),
    until STOPPED(seconds), which waits, says so. PAUSE is as for `carry_out`."""
    turns = {report.name: _Turn() for report in config.reports}
    while True:
        wake_s = LOOK_S
        for report in config.reports:
            now, length_ns = time.time_ns(), LENGTH_NS[report.every]
            until_ns, again_ns = due_period(report, now).until_ns, min(length_ns // 4, NS_PER_HOUR)
            if not turns[report.name].waits(until_ns, again_ns, now):
                try:
                    failed = carry_out(config, report, now, show, pause)
                except MburstError as error:
                    print_message(config.secrets.hide(f"report {report.name}: {error}"))
                    failed = 1
                turns[report.name] = _Turn(until_ns, now if failed else None)
            begins_ns = until_ns + length_ns + report.delay_ns
            wake_s = min(wake_s, (begins_ns - time.time_ns()) / 1e9)
        if stopped(max(0.2, wake_s)):
            return 0
