"""OTLP in tests: metrics as SONiC sends them, made by opentelemetry-proto, and the results of receiving them."""

from __future__ import annotations

import http.client
import itertools
import random
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from gnmilib import collect, query
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from waiting import wait_for

from mburst.telemetry.otlp.intake import Intake
from mburst.telemetry.otlp.meanings import meanings
from mburst.telemetry.otlp.speeds import Speeds

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
T0 = 1_790_000_000_000_000_000  # a multiple of every width, in the past
MS = 10**6
OUT_BYTES, DEPTH, DROPS = "sai_counter_type_1_stat_9", "sai_counter_type_21_stat_24", "sai_counter_type_21_stat_2"
DELTA, CUMULATIVE = metrics_pb2.AGGREGATION_TEMPORALITY_DELTA, metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
Point = tuple[str, str, int, Any]  # metric, object, ns, value


def message(
    points: Iterable[Point], device: str = "tor1", temporality: int = 0, start_ns: int = 0, instance: str = ""
) -> bytes:
    """Returns a message of points, each a separate metric as in countersyncd: gauges, or sums with a TEMPORALITY; a
    value of None is left out. INSTANCE: the attribute of the resource that differs after each start of a sender."""
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    _add(resource.resource.attributes, "host.name", device)
    if instance:
        _add(resource.resource.attributes, "process.pid", instance)
    scope = resource.scope_metrics.add()
    for name, target, ts_ns, value in points:
        metric = scope.metrics.add(name=name, unit="1")
        if temporality:
            metric.sum.aggregation_temporality = temporality
        point = (metric.sum if temporality else metric.gauge).data_points.add(
            time_unix_nano=ts_ns, start_time_unix_nano=start_ns
        )
        if isinstance(value, float):
            point.as_double = value
        elif value is not None:
            point.as_int = value
        _add(point.attributes, "object_name", target)
        _add(point.attributes, "sai_type_id", name.split("_")[3] if name.startswith("sai") else "")
    return request.SerializeToString()


def reordered(sent: bytes, seed: int) -> bytes:
    """Returns the message with the attributes of its resources and points in other orders, as Go's maps have them."""
    request, noise = metrics_service_pb2.ExportMetricsServiceRequest.FromString(sent), random.Random(seed)
    for resource in request.resource_metrics:
        lists = [resource.resource.attributes]
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                lists += [point.attributes for point in (*metric.gauge.data_points, *metric.sum.data_points)]
        for listed in lists:
            shuffled = noise.sample(list(listed), len(listed))
            del listed[:]
            listed.extend(shuffled)
    return request.SerializeToString()


def _add(attributes: Any, key: str, value: str) -> None:
    attribute = attributes.add(key=key)
    attribute.value.string_value = value


class FedIntake:
    """An intake that is fed messages, and the results."""

    def __init__(self, speeds: Speeds | None = None) -> None:
        self.intake = Intake(meanings(), "b", speeds or Speeds())
        self.rows: dict[str, list[dict[str, Any]]] = {"queues": [], "ports": []}
        self.bins: dict[tuple[str, str, int], tuple[int, int]] = {}  # (port, direction, start ns) → bytes, quality
        self.missed: list[Any] = []
        self._spans: list[tuple[str, str, int, int]] = []

    def feed(self, *sent: bytes, take: bool = True, sender: str = "192.0.2.1") -> FedIntake:
        for one in sent:
            self.intake.read(one, sender)
            if take:
                self.take(False)
        return self

    def end(self) -> FedIntake:
        self.take(True)
        for (*before, end_ns), (*after, _) in itertools.pairwise(sorted(self._spans)):
            assert before[:2] != after[:2] or end_ns <= after[2], "bins of a port and direction do not overlap"
        return self

    def take(self, everything: bool) -> None:
        taken = self.intake.take(everything)
        for table, rows in taken.rows:
            self.rows[table] += rows.to_pylist()
        for name, bins in taken.bins:
            width = self.intake.ports.lanes[name].bin_ns
            for number, amount, quality in zip(bins.number, bins.bytes, bins.quality, strict=True):
                key = (name.port, name.direction, int(number) * width)
                assert key not in self.bins, "a bin has one row"
                self._spans.append((*key, key[2] + width))
                self.bins[key] = int(amount), int(quality)
        self.missed += [missed for _, missed in taken.missed]


def exported(exporter: Any, rounds: int = 3) -> None:
    """Sends depths and drops of a queue and the bytes of a port, by OpenTelemetry's SDK."""
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=60_000)
    provider = MeterProvider([reader], Resource({"host.name": "tor1"}))
    meter = provider.get_meter("test")
    queue, port = {"object_name": "Ethernet0|3"}, {"object_name": "Ethernet0"}

    def depth(options: CallbackOptions) -> list[Observation]:
        return [Observation(4096, queue)]

    meter.create_observable_gauge("queue.curr_occupancy_bytes", [depth], "By")
    drops = meter.create_counter("queue.dropped_packets")
    bytes_ = meter.create_counter("port.if_out_octets", "By")
    for _ in range(rounds):
        drops.add(2, queue)
        bytes_.add(1500, port)
        assert reader.force_flush()
    provider.shutdown()


def call(
    port: int, sent: bytes, metadata: tuple[tuple[str, str], ...] = (), method: str = EXPORT, **options: Any
) -> Any:
    """Returns the response to one call of Export, or of another METHOD, as bytes; a gRPC error as its code."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_send_message_length", -1)]) as channel:
        export = channel.unary_unary(method, None, metrics_service_pb2.ExportMetricsServiceResponse.FromString)
        try:
            return export(sent, timeout=20, metadata=metadata, wait_for_ready=True, **options)
        except grpc.RpcError as error:
            return error.code().name


def post(
    port: int,
    body: bytes,
    headers: dict[str, str] = PROTOBUF,
    path: str = "/v1/metrics",
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Sends one request by HTTP, with TLS if there is a context, as soon as the port is open."""
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
        if context
        else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    )

    def connected() -> bool:
        with suppress(ConnectionRefusedError):
            connection.connect()
            return True
        return False

    wait_for(connected, "a listener")
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def stored(folder: Path) -> list[tuple[Any, ...]]:
    return query(
        folder,
        "SELECT device, port, queue, max(max_bytes), sum(dropped_packets), max(semantics) FROM queues GROUP BY ALL",
    )


def collected(folder: Path, text: str, send: Callable[[], object], points: int) -> list[str]:
    """Collects with a configuration while SEND sends, until this many points came and SEND has returned. Returns the
    output lines."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            send()
        except BaseException as error:
            failures.append(error)

    sender = threading.Thread(target=work)
    started = False

    def until(collector: Any) -> bool:
        nonlocal started
        if not started:
            started = True
            sender.start()
        return not sender.is_alive() and (bool(failures) or collector.otlp.intake.points >= points)

    lines = collect(folder, text, until)
    sender.join()
    if failures:
        raise failures[0]
    return lines
