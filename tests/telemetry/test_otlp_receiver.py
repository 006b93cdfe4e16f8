"""The receiver against exporters that are not ours (OpenTelemetry's for Python, by gRPC and by HTTP), and against
senders that mean no good."""

from __future__ import annotations

import gzip
import http.client
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import grpc
import pytest
from gnmilib import Authority, query
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from otlplib import DEPTH, MS, OUT_BYTES, T0, collected, message
from ports import free_port
from waiting import wait_for

from mburst.analysis.model.endings import gaps_behind
from mburst.errors import MburstError
from mburst.services import otlp_collection
from mburst.sql import StoreFolder
from mburst.telemetry.otlp import limits

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
POINTS = [(DEPTH, "Ethernet0|1", T0 + k * MS, k) for k in range(10)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def exported(exporter: Any, rounds: int = 3) -> None:
    """Depths and drops of a queue and the bytes of a port, by OpenTelemetry's SDK."""
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


def call(port: int, sent: bytes, metadata: tuple[tuple[str, str], ...] = (), **options: Any) -> Any:
    """One call of Export, as bytes; a gRPC error as its code."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_send_message_length", -1)]) as channel:
        export = channel.unary_unary(EXPORT, None, ExportMetricsServiceResponse.FromString)
        try:
            return export(sent, timeout=20, metadata=metadata, wait_for_ready=True, **options)
        except grpc.RpcError as error:
            return error.code().name


def post(port: int, body: bytes, headers: dict[str, str] = PROTOBUF, path: str = "/v1/metrics") -> tuple[int, bytes]:
    """One request by HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for _ in range(200):
        with suppress(ConnectionRefusedError):
            connection.connect()
            break
        time.sleep(0.05)
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


QUEUE_ROWS = [("tor1", "Ethernet0", "3", 4096, 4, "gauge")]  # the first total counts nothing


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_exporter_by_grpc(tmp_path, compression):
    port = free_port()

    def send() -> None:
        exported(GrpcExporter(f"127.0.0.1:{port}", insecure=True, compression=compression, timeout=20))

    lines = collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{port}'}}", send, 9)
    assert lines == [f"OTLP by gRPC on 127.0.0.1:{port}"]
    assert stored(tmp_path) == QUEUE_ROWS


@pytest.mark.parametrize("compression", list(Compression))
def test_exporter_by_http(tmp_path, compression):
    port = free_port()

    def send() -> None:
        post(port, b"")  # until it listens
        exported(HttpExporter(f"http://127.0.0.1:{port}/v1/metrics", compression=compression, timeout=20))

    collected(tmp_path, f"otlp: {{http: '127.0.0.1:{port}'}}", send, 9)
    assert stored(tmp_path) == QUEUE_ROWS


def test_certificates_and_token(tmp_path, authority, monkeypatch):
    """Both ways in, with TLS, a client certificate and a bearer token; without one of them, nothing comes in."""
    for name in (
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    ):  # which the exporter would take before the file that it is given
        monkeypatch.delenv(name, raising=False)
    ports = free_port(), free_port()
    certificate, key = authority.issue("server", ["localhost", "127.0.0.1"])
    own, own_key = authority.issue("client", ["client"])
    text = (
        f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}', tls-cert: {certificate}, "
        f"tls-key: {key}, tls-client-ca: {authority.ca}, token: s3cret}}"
    )
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes(), own_key.read_bytes(), own.read_bytes())
    headers = {"authorization": "Bearer s3cret"}

    def send() -> None:
        exported(GrpcExporter(f"localhost:{ports[0]}", credentials=credentials, headers=headers, timeout=20))
        exported(
            HttpExporter(
                f"https://localhost:{ports[1]}/v1/metrics", str(authority.ca), str(own_key), str(own), headers, 20
            )
        )
        without = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        for attempt, metadata in ((credentials, ()), (without, tuple(headers.items()))):
            with grpc.secure_channel(f"localhost:{ports[0]}", attempt) as channel, pytest.raises(grpc.RpcError):
                channel.unary_unary(EXPORT)(message(POINTS), timeout=10, metadata=metadata)

    lines = collected(tmp_path, text, send, 18)
    assert len(stored(tmp_path)) == 1
    said = " ".join(lines)
    assert "the token is wrong or missing" in said and "it presents no client certificate" in said
    assert "s3cret" not in said


def test_refused_points_are_told_to_the_sender(tmp_path):
    port, answers = free_port(), []

    def send() -> None:
        answers.append(call(port, message([*POINTS, (DEPTH, "Ethernet0|1", 7, 1)])))

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{port}'}}", send, 11)
    told = answers[0].partial_success
    assert (told.rejected_data_points, told.error_message) == (1, "1 points: invalid timestamp")
    [(events,)] = query(tmp_path, "SELECT list(event || ' ' || detail) FROM gnmi_events")
    assert events == ["not-understood invalid timestamp"]


def test_a_full_store_asks_senders_to_send_again(tmp_path, monkeypatch):
    """gRPC's UNAVAILABLE and HTTP's 503 are what exporters try again after."""
    ports, answers = (free_port(), free_port()), []
    monkeypatch.setattr(limits, "POINTS", 0)

    def send() -> None:
        answers.append(call(ports[0], message(POINTS)))
        answers.append(post(ports[1], message(POINTS))[0])

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}'}}", send, 0)
    assert answers == ["UNAVAILABLE", 503]
    [(refused,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE event = 'deferred'")
    assert refused == 2


def test_hostile_messages(tmp_path, monkeypatch):
    """Bombs, garbage, other methods, half requests: each is answered or cut off, and what others send is stored."""
    monkeypatch.setattr(limits, "SERIES", 500)
    ports, answers = (free_port(), free_port()), {}
    text = f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}', message: 64KiB}}"
    zipped = {**PROTOBUF, "Content-Encoding": "gzip"}

    def send() -> None:
        bomb = bytes(50 << 20)
        answers["grpc garbage"] = call(ports[0], b"\xff" * 100)
        answers["grpc large"] = call(ports[0], bytes(100_000))
        answers["grpc bomb"] = call(ports[0], bomb, compression=grpc.Compression.Gzip)
        answers["http garbage"] = post(ports[1], b"\xff" * 100)[0]
        answers["http large"] = post(ports[1], bytes(100_000))[0]
        answers["http bomb"] = post(ports[1], gzip.compress(bomb), zipped)[0]
        answers["http cut off"] = post(ports[1], gzip.compress(message(POINTS))[:-9], zipped)[0]
        answers["http no gzip"] = post(ports[1], b"no", zipped)[0]
        answers["http json"] = post(ports[1], b"{}", {"Content-Type": "application/json"})[0]
        answers["http elsewhere"] = post(ports[1], b"", path="/")[0]
        for noise in (
            b"\x00" * 99,
            b"GET / HTTP/1.1\r\n",
            b"POST /v1/metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        ):
            for port in ports:
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.sendall(noise)
        many = [(f"m{k}", "x", T0, k) for k in range(600)]
        answers["series"] = call(ports[0], message(many)[:60_000]) if len(message(many)) < 60_000 else None
        for part in range(0, 600, 300):
            answers["series"] = call(ports[0], message(many[part : part + 300]))

    def all_sent() -> None:
        answers["good"] = call(ports[0], message(POINTS))
        send()

    collected(tmp_path, text, all_sent, 10)
    told = answers.pop("series").partial_success
    assert told.error_message == "101 points: more than 500 series"
    assert not answers.pop("good").HasField("partial_success")
    assert answers == {
        "grpc garbage": "INVALID_ARGUMENT", "grpc large": "RESOURCE_EXHAUSTED", "grpc bomb": "RESOURCE_EXHAUSTED",
        "http garbage": 400, "http large": 413, "http bomb": 413, "http cut off": 400, "http no gzip": 400,
        "http json": 415, "http elsewhere": 404,
    }  # fmt: skip
    assert query(tmp_path, "SELECT count(*), max(max_bytes) FROM queues") == [(10, 9)]


def test_ports_are_interfaces(tmp_path):
    """Running totals become a recording with bins, and bursts by the one definition."""
    from mburst import open as open_store

    port, values, total = free_port(), [], 0
    for k in range(300):
        values.append((OUT_BYTES, "Ethernet0", T0 + k * MS, total))
        total += 120_000 if 100 <= k < 120 else 1000
    text = (
        f"otlp: {{listen: '127.0.0.1:{port}', racks: {{tor1: r1}}, link: 100G}}\n"
        "mburst: {links: [{device: tor1, port: Ethernet0, host: h, interface: eth0, link: 1G}]}"
    )
    collected(tmp_path, text, lambda: call(port, message(values)), 300)
    rows = query(
        tmp_path,
        "SELECT host, rack, interface, direction, link_bps, bin_ns, backend, ended, complete, bytes FROM recordings "
        "QUALIFY row_number() OVER (PARTITION BY recording_id ORDER BY written_ns DESC) = 1",
    )
    assert rows == [("tor1", "r1", "Ethernet0", "out", 10**9, MS, "otlp", "stopped", True, values[-1][3])]
    [burst] = open_store(tmp_path / "store").bursts(bin="1ms", threshold=0.8).to_pylist()
    assert (burst["host"], burst["interface"], burst["start_ns"]) == ("tor1", "Ethernet0", T0 + 100 * MS)
    assert burst["end_ns"] - burst["start_ns"] == 20 * MS


def test_gaps_and_recordings_of_a_port(tmp_path, monkeypatch):
    """Days without samples are between two recordings; each gap has a row, also of more than are stored at a time."""
    monkeypatch.setattr(otlp_collection, "MOST_GAPS", 3)
    port, day = free_port(), 24 * 3600 * 10**9
    values = [(OUT_BYTES, "Ethernet0", T0 - 2 * day + k * MS, 5000 + 1000 * k) for k in range(30)]
    values += [(OUT_BYTES, "Ethernet0", T0 + k * MS, 10**9 + 1000 * k) for k in range(100) if k % 10 != 5]
    values += [(OUT_BYTES, "Ethernet0", T0 + (100 + k) * MS, 700 + 1000 * k) for k in range(100)]

    def send() -> None:
        for _ in range(2):  # what came twice is not stored twice
            call(port, message(values))

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{port}'}}", send, 2 * len(values))
    rows = query(
        tmp_path,
        "SELECT start_ns, end_ns, bytes FROM recordings "
        "QUALIFY row_number() OVER (PARTITION BY recording_id ORDER BY written_ns DESC) = 1 ORDER BY start_ns",
    )
    before = T0 - 2 * day
    assert rows == [(before, before + 29 * MS - 1, 29_000), (T0, T0 + 199 * MS - 1, 79_000 + 99_700)]
    gaps = query(tmp_path, "SELECT start_ns, end_ns, bytes, reason FROM gaps ORDER BY start_ns")
    assert gaps[:-1] == [(T0 + k * MS, T0 + (k + 2) * MS, 2000, "not sampled") for k in range(4, 100, 10)] and gaps[
        -1
    ] == (T0 + 99 * MS, T0 + 100 * MS, None, "counter reset")
    with StoreFolder.open(tmp_path / "store").connect() as con:
        assert not gaps_behind(con), "none of them ended a recording"
    [(far,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE detail LIKE '%more than a day%'")
    assert far == 1


def test_what_a_killed_collector_left_is_ended(tmp_path):
    """kill -9: its bins stay, and the next collector gives its recordings an end with the totals of their bins."""
    config, port = tmp_path / "otlp.yaml", free_port()
    text = f"otlp: {{listen: '127.0.0.1:{port}'}}"
    config.write_text(text)
    values = [(OUT_BYTES, "Ethernet0", T0 + k * MS, 1000 * k) for k in range(301)]

    def has_bins() -> bool:
        with suppress(MburstError, duckdb.Error):
            return query(tmp_path, "SELECT sum(bytes) FROM bins") == [(299_000,)]
        return False

    command = [sys.executable, "-m", "mburst", "collect", str(config), "-o", str(tmp_path / "store")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        call(port, message(values))
        wait_for(has_bins)
    finally:
        process.kill()
        process.wait()
    collected(tmp_path, text, lambda: call(port, message([(OUT_BYTES, "Ethernet1", *one[2:]) for one in values])), 301)
    rows = query(tmp_path, "SELECT interface, ended, bytes FROM recordings WHERE ended <> '' ORDER BY interface")
    assert rows == [("Ethernet0", "killed", 299_000), ("Ethernet1", "stopped", 300_000)]
