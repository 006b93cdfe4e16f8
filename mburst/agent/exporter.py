"""What a Meter counts, for Prometheus and OpenMetrics, over HTTP."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import MburstError
from .meter import QUANTILES, Histogram, LaneName, Meter

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

LANE = LaneName._fields
FOLLOW_S = 10.0  # how often the store is looked at where nobody asks
PAGE = b"mburst metrics: /metrics\n"


def require() -> None:
    """Raises MburstError where the library for this is missing."""
    import importlib.util

    if importlib.util.find_spec("prometheus_client") is None:
        raise MburstError("metrics need the extra `metrics`: there is no prometheus_client",
                          "pip install 'mburst[metrics]'")


class Exporter:
    """A collector of prometheus_client: asks the meter at each scrape. `scraper` names who asks."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.scraper = ""
        self._asked = 0.0

    def keep_up(self) -> None:
        """Count what came where nobody asked of late, so that little is left to do for the next scrape."""
        if time.monotonic() - self._asked < FOLLOW_S:
            return
        with suppress(MburstError):  # which the next scrape says
            self.meter.take()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import InfoMetricFamily

        self._asked = time.monotonic()
        peaks = self.meter.advance(self.scraper)
        yield InfoMetricFamily("mburst_build", "The version of mburst.", {"version": __version__})
        yield from self._lanes(peaks)
        yield from self._bursts()
        yield from self._beside()
        yield from self._store()

    def _store(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily("mburst_damaged_files", "Damaged files that were met in the store and are still there.",
                                self.meter.damaged_files())
        waiting = GaugeMetricFamily("mburst_oldest_hot_log_age_seconds", "For how long the oldest log of a table that "
                                    "is not sealed has been there.", labels=["table"])
        for table, age in self.meter.unsealed_s().items():
            waiting.add_metric([table], age)
        yield waiting

    def _lanes(self, peaks: dict[LaneName, dict[str, float]]) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        lanes = self.meter.lanes
        peak = GaugeMetricFamily(
            "mburst_peak_utilization_ratio",
            "Utilization of the fullest window of this width since this scraper's last scrape.",
            labels=[*LANE, "width"])
        for name, of in peaks.items():
            for width, share in of.items():
                peak.add_metric([*name, width], share)
        yield peak
        stamped = CounterMetricFamily(
            "mburst_stamped_bins", "Bins by what stamped their packets: the interface (hw), the kernel on receipt (sw) "
            "or when copied (ring); file_us: stamps of 1 µs or coarser.", labels=[*LANE, "kind"])
        for name, lane in lanes.items():
            for kind, count in lane.stamped.items():
                stamped.add_metric([*name, kind], count)
        yield stamped
        for metric, about, values in (
            ("wire_bytes", "Bytes on the wire, with FCS, preamble and gap.",
             {name: lane.wire_bytes for name, lane in lanes.items()}),
            ("packets", "Packets.", {name: lane.packets for name, lane in lanes.items()}),
            ("losing_bins", "Bins in which packets were lost while recording: counts are lower bounds there.",
             {name: lane.losing_bins for name, lane in lanes.items()}),
            ("dropped_packets", "Packets lost before they were seen, as recordings told when they ended.",
             {name: lost for name, (lost, _) in self.meter.lost.items()}),
            ("late_packets", "Packets too far out of order for any bin, as recordings told when they ended.",
             {name: late for name, (_, late) in self.meter.lost.items()}),
        ):
            counter = CounterMetricFamily(f"mburst_{metric}", about, labels=LANE)
            for name, value in values.items():
                counter.add_metric(name, value)
            yield counter
        newest = GaugeMetricFamily("mburst_newest_bin_timestamp_seconds", "When the newest bin began.", labels=LANE)
        speed = GaugeMetricFamily("mburst_link_speed_bytes", "Line rate of one direction, bytes a second.", labels=LANE)
        for name, lane in lanes.items():
            if lane.newest_ns:
                newest.add_metric(name, lane.newest_ns / 1e9)
            if lane.link_bps:
                speed.add_metric(name, lane.link_bps / 8)
        yield newest
        yield speed

    def _bursts(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        bursts = CounterMetricFamily("mburst_bursts", "Bursts that have ended.", labels=[*LANE, "pattern"])
        seconds = CounterMetricFamily("mburst_burst_seconds", "Time in bursts that have ended.", labels=LANE)
        durations = HistogramMetricFamily("mburst_burst_duration_seconds", "Durations of bursts.", labels=LANE)
        fan_ins = HistogramMetricFamily("mburst_burst_fan_in", "Senders of at least half an equal share of a burst.",
                                        labels=LANE)
        for name, lane in self.meter.lanes.items():
            if not lane.link_bps:
                continue
            for pattern in ("single-source", "incast", "many-sources", "unknown"):
                bursts.add_metric([*name, pattern], lane.bursts.get(pattern, 0))
            seconds.add_metric(name, lane.burst_ns / 1e9)
            durations.add_metric(name, _buckets(lane.durations), lane.durations.total)
            fan_ins.add_metric(name, _buckets(lane.fan_ins), lane.fan_ins.total)
        yield from (bursts, seconds, durations, fan_ins)

    def _beside(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        path = ("src", "dst", "protocol")
        sent = CounterMetricFamily("mburst_probes", "Probes that were sent.", labels=path)
        lost = CounterMetricFamily("mburst_probes_lost", "Probes without an answer.", labels=path)
        latency = GaugeMetricFamily("mburst_probe_latency_seconds", "Quantiles of the probes since the last scrape.",
                                    labels=[*path, "level"])
        for name, counts in self.meter.paths.items():
            sent.add_metric(name, counts.sent)
            lost.add_metric(name, counts.lost)
            for level, value in zip(QUANTILES, counts.quantiles, strict=False):
                latency.add_metric([*name, str(level)], value)
        queue = ("device", "port", "queue")
        dropped = CounterMetricFamily("mburst_queue_dropped_packets", "Packets that a switch queue dropped.",
                                      labels=queue)
        fullest = GaugeMetricFamily("mburst_queue_max_bytes", "The fullest of the newest windows of a switch queue.",
                                    labels=queue)
        for name, of in self.meter.queues.items():
            dropped.add_metric(name, of.dropped)
            if of.max_bytes is not None:
                fullest.add_metric(name, of.max_bytes)
        up = GaugeMetricFamily("mburst_gnmi_target_up", "Whether a switch's subscription stands.", labels=["device"])
        for device, stands in self.meter.targets.items():
            up.add_metric([device], float(stands))
        yield from (sent, lost, latency, dropped, fullest, up)


def _buckets(of: Histogram) -> Sequence[tuple[str, float]]:
    """Cumulative counts by upper bound, as the exposition formats have them."""
    bounds = [*(repr(float(bound)) for bound in of.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(of.counts)), strict=True))


def server(meter: Meter, address: tuple[str, int]) -> ThreadingHTTPServer:
    """An HTTP server that answers /metrics; serve_forever() runs it. Raises MburstError where it cannot listen."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    exporter = Exporter(meter)
    one_at_a_time, ending = threading.Lock(), threading.Event()

    def keep_up() -> None:
        while not ending.wait(FOLLOW_S):
            with one_at_a_time:
                exporter.keep_up()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # every answer has its length

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if self.path.split("?")[0] != "/metrics":
                self._answer(200 if self.path == "/" else 404, "text/plain", PAGE)
                return
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            with one_at_a_time:
                exporter.scraper = f"{self.client_address[0]} {self.headers.get('User-Agent', '')}"
                try:
                    body, code = encode(registry), 200
                except MburstError as error:
                    print(f"mburst: {error}", file=sys.stderr, flush=True)
                    body, code, kind = f"{error}\n".encode(), 500, "text/plain"
            self._answer(code, kind, body)

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Scrapes are not worth a line each."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = _family(address[0])

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):  # of who did not wait
                super().handle_error(request, client_address)

        def server_close(self) -> None:
            ending.set()
            super().server_close()

    try:
        made = Server(address, Handler)
    except OSError as error:
        raise MburstError(f"cannot listen on {address[0]} port {address[1]}: {error.strerror}",
                          "name another address with --listen") from error
    registry.register(exporter)
    threading.Thread(target=keep_up, name="mburst-follow", daemon=True).start()
    return made


def _family(host: str) -> Any:
    import socket

    return socket.AF_INET6 if ":" in host else socket.AF_INET
