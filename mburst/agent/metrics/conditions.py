"""How a store, and what runs around it, is, for Prometheus: the facts of `mburst status`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import MburstError
from .counts import LaneName

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from ...sql import StoreFolder
    from ...status.parts import PartsStatus
    from ...status.reports import ReportStatus
    from ...status.store import StoreStatus

LOOK_S = 60.0


@dataclass(frozen=True)
class Condition:
    """What was looked at, and when (monotonic seconds). `errors`: what could not be."""

    looked_s: float
    store: StoreStatus
    parts: PartsStatus | None = None
    reports: list[ReportStatus] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def unwell(self) -> list[str]:
        """What is not well, in sentences."""
        of_parts = self.parts.unwell() if self.parts else []
        of_reports = [sentence for report in self.reports for sentence in report.unwell()]
        return [*self.errors, *of_parts, *self.store.unwell(), *of_reports]


class Conditions:
    """Of STORE, and of all that the mburst.toml at CONFIG runs, where it is given. Looked at once in LOOK_S: to look
    costs as much as the store has files."""

    def __init__(self, store: StoreFolder, config: Path | None = None) -> None:
        self._store = store
        self._config = config
        self._condition: Condition | None = None

    def now(self) -> Condition:
        """At most LOOK_S old. Raises MburstError where the store cannot be read."""
        if self._condition is None or time.monotonic() - self._condition.looked_s > LOOK_S:
            self._condition = self._look()
        return self._condition

    def _look(self) -> Condition:
        from ...status import parts, reports, store

        now = time.monotonic()
        if self._config is None:
            return Condition(now, store.read(self._store))
        try:
            from ..config import load

            config = load(self._config, fill=False)
            of_run, of_reports = parts.read(config), reports.read(config)
            sizes = {Path(name).resolve(): size for name, size in config.store_sizes.items()}
        except MburstError as error:
            return Condition(now, store.read(self._store), errors=[str(error)])
        found = store.read(self._store, size_limit=sizes.get(self._store.path.resolve()))
        return Condition(now, found, of_run, of_reports)

    def metrics(self) -> Iterator[Metric]:
        """Raises MburstError."""
        from prometheus_client.core import GaugeMetricFamily

        found = self.now()
        yield GaugeMetricFamily(
            "mburst_unwell", "How many things are not well: `mburst status` names them.", len(found.unwell())
        )
        yield from _of_disk(found.store)
        yield from _of_gaps(found.store)
        if found.parts:
            running = GaugeMetricFamily(
                "mburst_part_running", "Whether a part of mburst.toml has a process.", labels=["part"]
            )
            for part in found.parts.parts:
                running.add_metric([part.name], float(part.process is not None))
            yield running
        if found.reports:
            yield from _of_reports(found.reports)


def _of_disk(store: StoreStatus) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    disk = store.disk
    for name, about, value in (
        ("store_bytes", "Bytes of the files of the store.", disk.store_bytes),
        ("store_files", "Files of the store.", disk.files),
        ("store_day_bytes", "Bytes that came to the store in the last day and are still there.", disk.day_bytes),
        ("disk_free_bytes", "Bytes that may still be written to the file system of the store.", disk.free_bytes),
        ("disk_size_bytes", "Bytes of the file system of the store.", disk.disk_bytes),
        ("store_limit_bytes", "Bytes that the store may take: `size` of [keep].", store.size_limit),
        (
            "newest_sealed_file_timestamp_seconds",
            "When the newest sealed file was written.",
            disk.sealed_ns and disk.sealed_ns / 1e9,
        ),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"mburst_{name}", about, value)


def _of_gaps(store: StoreStatus) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    gaps = GaugeMetricFamily("mburst_day_gaps", "Gaps of the last 24 hours.", labels=LaneName._fields)
    missed = GaugeMetricFamily(
        "mburst_day_missed_packets", "Packets that were missed in the last 24 hours.", labels=LaneName._fields
    )
    for one in store.interfaces:
        gaps.add_metric(one[:4], one.gaps)
        missed.add_metric(one[:4], one.missed_packets)
    yield from (gaps, missed)


def _of_reports(reports: list[ReportStatus]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    late = GaugeMetricFamily(
        "mburst_report_late", "Whether a report is missing an hour after it was due.", labels=["report"]
    )
    failures = GaugeMetricFamily(
        "mburst_delivery_failures", "Deliveries of a report that failed, or may not have arrived.", labels=["report"]
    )
    for report in reports:
        late.add_metric([report.name], float(report.is_late))
        failures.add_metric([report.name], len(report.troubles))
    yield from (late, failures)
