"""The condition of a store and of the parts and reports around it, for Prometheus: the facts of `mburst status`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...messages import print_message
from .counts import LaneName

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from ...sql import StoreFolder
    from ...status.parts import PartsStatus
    from ...status.reports import ReportStatus
    from ...status.store import StoreStatus
    from ...status.whole import Status

LOOK_S = 60.0


class Look(NamedTuple):
    """A status, and the time at which it was read (monotonic seconds). `own` is the status of the store that the
    metrics are about; `whole` includes it."""

    looked_s: float
    whole: Status
    own: StoreStatus


class Conditions:
    """The condition of STORE and, if CONFIG is given, of all that this mburst.toml runs. It is read at most once in
    LOOK_S, because the cost grows with the number of files in the stores. A persistent error is reported once, on
    standard error."""

    def __init__(self, store: StoreFolder, config: Path | None = None) -> None:
        self._store = store
        self._config = config
        self._seen: Look | None = None
        self._said: list[str] = []

    def now(self) -> Look:
        """Returns a status that is at most LOOK_S old. Raises MburstError if the store cannot be read."""
        if self._seen is None or time.monotonic() - self._seen.looked_s > LOOK_S:
            self._seen = self._look()
        return self._seen

    def _look(self) -> Look:
        from ...status import store

        now, whole = time.monotonic(), self._whole()
        for error in whole.errors:
            if error not in self._said:
                print_message(error)
        self._said = whole.errors
        own = whole.store(self._store.path)
        if own is None:
            own = store.read(self._store)
            whole.stores.append(own)
        return Look(now, whole, own)

    def _whole(self) -> Status:
        from ...status.whole import Status, of_config

        found = Status()
        with found.looking():
            return of_config(self._config) if self._config else found
        return found

    def metrics(self) -> Iterator[Metric]:
        """Yields the metrics of the present status. Raises MburstError."""
        from prometheus_client.core import GaugeMetricFamily

        _, whole, own = self.now()
        yield GaugeMetricFamily(
            "mburst_unwell", "How many things are not well: `mburst status` names them.", len(whole.unwell())
        )
        yield GaugeMetricFamily(
            "mburst_status_errors",
            "How many of these could not be looked at, so that their metrics are missing: standard error has why.",
            len(whole.errors),
        )
        yield from _of_disk(own)
        yield from _of_gaps(own)
        if whole.parts:
            yield _of_parts(whole.parts)
        if whole.reports:
            yield from _of_reports(whole.reports)


def _of_disk(store: StoreStatus) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    disk = store.disk
    for name, about, value in (
        ("store_bytes", "Bytes of the files of the store, without the last packets.", disk.store_bytes),
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
    """Yields metrics of the gaps. If the packets missed in some gaps are not known, the number of missed packets is a
    lower bound; if they are known in none, it is absent."""
    from prometheus_client.core import GaugeMetricFamily

    for name, about, values in (
        ("gaps", "Gaps of the last 24 hours.", [one.gaps for one in store.interfaces]),
        (
            "gaps_unknown",
            "Of these, gaps in which it is not known how many packets were missed.",
            [one.unknown_gaps for one in store.interfaces],
        ),
        (
            "missed_packets",
            "Packets that were missed in the other gaps of the last 24 hours.",
            [one.missed_packets for one in store.interfaces],
        ),
    ):
        metric = GaugeMetricFamily(f"mburst_day_{name}", about, labels=LaneName._fields)
        for one, value in zip(store.interfaces, values, strict=True):
            if value is not None:
                metric.add_metric(one[:4], value)
        yield metric


def _of_parts(parts: PartsStatus) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    running = GaugeMetricFamily("mburst_part_running", "Whether a part of mburst.toml has a process.", labels=["part"])
    for part in parts.parts:
        running.add_metric([part.name], float(part.process is not None))
    return running


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
