"""The counts of a Meter over HTTP, for Prometheus and OpenMetrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ... import __version__, extras
from ...errors import MburstError
from ...messages import print_message
from ...names import shown
from .conditions import Conditions
from .counts import Histogram, LaneName
from .meter import QUANTILES, Meter

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client.metrics_core import Metric
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ...web.address import ListenAddress

LANE = LaneName._fields
FOLLOW_S = 10.0  # how often the store is read if no scraper asks
PAGE = "mburst metrics: /metrics\n"
WAITING = 8  # scrapes that may wait for the running one; more are refused with 503
LONGEST_AGENT = 100  # most characters of a scraper's name
HINT = "send the one of --token-file as `Authorization: Bearer TOKEN`"


def require() -> None:
    """Raise MburstError if the library for metrics is not installed."""
    import importlib.util

    for name in ("prometheus_client", "starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise extras.lacking("metrics need", name, "metrics")


class Exporter:
    """A collector of prometheus_client. At each scrape it reads the meter, and the condition of the store and of all
    that the mburst.toml at CONFIG runs."""

    def __init__(self, meter: Meter, config: Path | None = None) -> None:
        self.meter = meter
        self.conditions = Conditions(meter.store, config)
        self._asked = 0.0

    def keep_up(self) -> None:
        """Count new rows if nobody has asked recently, so that little remains for the next scrape."""
        if time.monotonic() - self._asked < FOLLOW_S:
            return
        with suppress(MburstError):  # the next scrape reports it
            self.meter.take()

    def collect(self, scraper: str = "") -> Iterator[Metric]:
        """Yields the metrics for the client SCRAPER. Raises MburstError."""
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        self._asked = time.monotonic()
        peaks = self.meter.advance(scraper)
        yield InfoMetricFamily("mburst_build", "The version of mburst.", {"version": __version__})
        yield GaugeMetricFamily(
            "mburst_counting_since_timestamp_seconds",
            "From when on rows count, if they were not reset at the start: where it changes, counters were reset.",
            self.meter.since_ns / 1e9,
        )
        yield from self._peaks(peaks)
        yield from self._stamped()
        yield from self._counts()
        yield from self._newest()
        yield from self._bursts()
        yield from self._paths()
        yield from self._queues()
        yield from self._targets()
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily(
            "mburst_damaged_files",
            "Damaged files that were found and are still in the store.",
            self.meter.damaged_files(),
        )
        waiting = GaugeMetricFamily(
            "mburst_oldest_hot_log_age_seconds",
            "For how long the oldest log of a table that is not sealed has been there.",
            labels=["table"],
        )
        for table, age in self.meter.unsealed_s().items():
            waiting.add_metric([table], age)
        yield waiting
        yield from self.conditions.metrics()

    def _peaks(self, peaks: dict[LaneName, dict[str, float]]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        peak = GaugeMetricFamily(
            "mburst_peak_utilization_ratio",
            "Utilization of the fullest window of this width since this scraper's last scrape.",
            labels=[*LANE, "width"],
        )
        for name, of in peaks.items():
            for width, share in of.items():
                peak.add_metric([*name, width], share)
        yield peak

    def _stamped(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        stamped = CounterMetricFamily(
            "mburst_stamped_bins",
            "Bins by what stamped their packets: the interface (hw), the kernel on receipt (sw) "
            "or when copied (ring); file_us: stamps of 1 µs or coarser.",
            labels=[*LANE, "kind"],
        )
        for name, lane in self.meter.lanes.items():
            for kind, count in lane.stamped.items():
                stamped.add_metric([*name, kind], count)
        yield stamped

    def _counts(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        lanes = self.meter.lanes
        for metric, about, values in (
            (
                "wire_bytes",
                "Bytes on the wire, with FCS, preamble and gap.",
                {name: lane.wire_bytes for name, lane in lanes.items()},
            ),
            ("packets", "Packets.", {name: lane.packets for name, lane in lanes.items()}),
            (
                "bins_with_drops",
                "Bins in which packets were dropped while recording, or samples of a switch are missing: lower bounds.",
                {name: lane.bins_with_drops for name, lane in lanes.items()},
            ),
            (
                "late_packets",
                "Packets outside the reorder window, or the years 1970 to 2100, as recordings report them, some ten "
                "seconds later.",
                self.meter.late,
            ),
        ):
            counter = CounterMetricFamily(f"mburst_{metric}", about, labels=LANE)
            for name, value in values.items():
                counter.add_metric(name, value)
            yield counter
        dropped = CounterMetricFamily(
            "mburst_dropped_packets",
            "Packets dropped before they were captured, as recordings report them, some ten seconds later; of both "
            "directions together. Each interface of one capture file has those of all of them: do not add these up.",
            labels=LANE[:-1],
        )
        for interface, value in self.meter.dropped.items():
            dropped.add_metric(interface, value)
        yield dropped

    def _newest(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        newest = GaugeMetricFamily("mburst_newest_bin_timestamp_seconds", "Start of the newest bin.", labels=LANE)
        speed = GaugeMetricFamily(
            "mburst_link_speed_bytes", "Line rate of one direction in bytes per second.", labels=LANE
        )
        for name, lane in self.meter.lanes.items():
            if lane.newest_ns:
                newest.add_metric(name, lane.newest_ns / 1e9)
            if lane.link_bps:
                speed.add_metric(name, lane.link_bps / 8)
        yield from (newest, speed)

    def _bursts(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        bursts = CounterMetricFamily("mburst_bursts", "Bursts that have ended.", labels=[*LANE, "pattern"])
        seconds = CounterMetricFamily("mburst_burst_seconds", "Time in bursts that have ended.", labels=LANE)
        durations = HistogramMetricFamily("mburst_burst_duration_seconds", "Durations of bursts.", labels=LANE)
        fan_ins = HistogramMetricFamily(
            "mburst_burst_fan_in", "Senders with at least half an equal share of a burst.", labels=LANE
        )
        for name, lane in self.meter.lanes.items():
            if not lane.is_examined:
                continue
            for pattern, count in lane.bursts.items():
                bursts.add_metric([*name, pattern], count)
            seconds.add_metric(name, lane.burst_ns / 1e9)
            durations.add_metric(name, _buckets(lane.durations), lane.durations.total)
            fan_ins.add_metric(name, _buckets(lane.fan_ins), lane.fan_ins.total)
        yield from (bursts, seconds, durations, fan_ins)

    def _paths(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ("src", "dst", "protocol")
        sent = CounterMetricFamily("mburst_probes", "Probes sent.", labels=labels)
        lost = CounterMetricFamily("mburst_probes_lost", "Probes without an answer.", labels=labels)
        latency = GaugeMetricFamily(
            "mburst_probe_latency_seconds",
            "Quantiles of the probes since the last scrape.",
            labels=[*labels, "measure", "level"],
        )
        for path, counts in self.meter.paths.items():
            sent.add_metric(path, counts.sent)
            lost.add_metric(path, counts.lost)
            for level, value in zip(QUANTILES, counts.quantiles, strict=False):
                if value is not None:
                    latency.add_metric([*path, counts.measure, str(level)], value)
        yield from (sent, lost, latency)

    def _queues(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ("device", "port", "queue")
        dropped = CounterMetricFamily(
            "mburst_queue_dropped_packets", "Packets that a switch queue dropped.", labels=labels
        )
        fullest = GaugeMetricFamily(
            "mburst_queue_max_bytes", "Largest depth in the newest windows of a switch queue.", labels=labels
        )
        impossible = CounterMetricFamily(
            "mburst_queue_impossible_windows",
            "Windows of a switch queue with impossible values, left out.",
            labels=labels,
        )
        for queue, counts in self.meter.queues.items():
            if counts.dropped is not None:
                dropped.add_metric(queue, counts.dropped)
            if counts.max_bytes is not None:
                fullest.add_metric(queue, counts.max_bytes)
            impossible.add_metric(queue, counts.impossible)
        yield from (dropped, fullest, impossible)

    def _targets(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        up = GaugeMetricFamily(
            "mburst_gnmi_target_up", "Whether the gNMI subscription to a switch is established.", labels=["device"]
        )
        for device, is_up in self.meter.targets.items():
            up.add_metric([device], float(is_up))
        yield up


def _buckets(of: Histogram) -> Sequence[tuple[str, float]]:
    """Returns cumulative counts by upper bound, as the exposition formats require."""
    bounds = [*(repr(float(bound)) for bound in of.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(of.counts)), strict=True))


class ScrapeCollector(NamedTuple):
    """A collector of prometheus_client for one scrape."""

    exporter: Exporter
    scraper: str

    def collect(self) -> Iterator[Metric]:
        return self.exporter.collect(self.scraper)


class Scrapes:
    """Answers scrapes one at a time, outside of the event loop. END is called once rows were read that do not count."""

    def __init__(self, meter: Meter, config: Path | None, end: Callable[[], None]) -> None:
        from ...process.workers import Workers

        self.meter = meter
        self.failure: MburstError | None = None  # why END was called
        self._end = end
        self.exporter = Exporter(meter, config)
        self.workers = Workers("mburst-metrics", 1, WAITING)

    def _made(self, accept: str, scraper: str) -> tuple[bytes, str]:
        """Returns the content for a scrape, and its type. Raises MburstError."""
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(accept)
        return encode(ScrapeCollector(self.exporter, scraper)), kind

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        from starlette.responses import PlainTextResponse, Response

        from ...process.workers import Busy

        agent = request.headers.get("user-agent", "")[:LONGEST_AGENT]
        scraper = f"{request.client.host if request.client else ''} {agent}"
        try:
            body, kind = await self.workers.run(self._made, request.headers.get("accept", ""), scraper)
        except Busy as error:
            return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "5"})
        except MburstError as error:
            print_message(str(error))
            return PlainTextResponse(f"{shown(str(error))}\n", 500)
        return Response(body, headers={"Content-Type": kind})

    async def page(self, request: Request) -> Response:
        """GET /."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(PAGE)

    @asynccontextmanager
    async def following(self, _app: Starlette) -> AsyncIterator[None]:
        """Run a task that reads the store regularly while the application runs."""
        task = asyncio.create_task(self._follow())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_S)
            with suppress(MburstError):  # Busy: scrapes are running
                await self.workers.run(self.exporter.keep_up)
            if self.meter.failure and not self.failure:
                self.failure = self.meter.failure
                self._end()

    def close(self) -> None:
        """Make the running scrape end soon."""
        self.workers.close(self.meter.interrupt)


class MetricsService:
    """The web server of a meter and of the condition of what the mburst.toml at CONFIG runs. Raises MburstError if it
    cannot listen."""

    def __init__(self, meter: Meter, where: ListenAddress, config: Path | None = None) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Route

        from ...web.address import listening
        from ...web.gate import Gate
        from ...web.server import WebServer

        self.scrapes = Scrapes(meter, config, self.stop)
        routes = [Route("/", self.scrapes.page), Route("/metrics", self.scrapes.metrics)]
        socket = listening(where)
        try:
            application = Starlette(routes=routes, lifespan=self.scrapes.following)
            self._server = WebServer(Gate(application, where, HINT), socket, where)
        except BaseException:
            socket.close()
            raise
        self.url = where.url(socket.getsockname()[1], "/metrics")

    def run(self) -> None:
        """Serve until `stop` is called. Raises MburstError if rows were read that do not count: a restart counts from
        the store again."""
        try:
            self._server.run()
        finally:
            self.scrapes.close()
        if self.scrapes.failure:
            raise self.scrapes.failure

    def stop(self) -> None:
        """Make `run` return soon."""
        self._server.should_exit = True
