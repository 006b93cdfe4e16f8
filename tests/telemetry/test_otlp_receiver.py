"""The receiver with exporters of others (OpenTelemetry's for Python, by gRPC and by HTTP), and with hostile senders."""

from __future__ import annotations

import gzip
import itertools
import random
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import duckdb
import grpc
import pytest
from authority import Authority
from gnmilib import query
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from otlplib import DEPTH, EXPORT, MS, OUT_BYTES, PROTOBUF, T0, call, collected, exported, message, post, stored
from ports import free_port
from waiting import wait_for

from mburst.__main__ import main
from mburst.analysis.model.endings import gaps_behind
from mburst.errors import MburstError
from mburst.listening import door
from mburst.otlp_receiver import reception
from mburst.services import otlp_collection
from mburst.sql import StoreFolder
from mburst.telemetry.otlp import limits

NOISE = {  # → the answer of HTTP to it
    b"\x00" * 99: b"HTTP/1.1 400",
    b"GET / HTTP/1.1\r\n": b"HTTP/1.1 400",
    b"POST /v1/metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n": b"HTTP/1.1 400",
    b"HEAD /v1/metrics HTTP/1.1\r\nHost: a\r\n\r\n": b"HTTP/1.1 405",
}
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
POINTS = [(DEPTH, "Ethernet0|1", T0 + k * MS, k) for k in range(10)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


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
    """Both gRPC and HTTP need TLS, a client certificate and a bearer token; without one of these nothing is
    accepted."""
    for name in (
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
    ):  # which take precedence over the file that the exporter is given
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
        with pytest.raises(OSError):
            post(ports[1], message(POINTS), context=ssl.create_default_context(cafile=str(authority.ca)))

    lines = collected(tmp_path, text, send, 18)
    assert len(stored(tmp_path)) == 1
    said = " ".join(lines)
    assert "the token is wrong or missing" in said and "it presents no client certificate" in said
    assert "s3cret" not in said
    refused = dict(query(tmp_path, "SELECT detail, sum(amount) FROM gnmi_events WHERE event = 'refused' GROUP BY ALL"))
    assert refused["the bearer token is wrong or missing"] == 1
    assert refused["it presents no client certificate"] >= 2, "by gRPC, which may try again, and by HTTP"


def test_refused_points_are_reported_to_the_sender(tmp_path):
    port, answers = free_port(), []

    def send() -> None:
        answers.append(call(port, message([*POINTS, (DEPTH, "Ethernet0|1", 7, 1)])))

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{port}'}}", send, 11)
    told = answers[0].partial_success
    assert (told.rejected_data_points, told.error_message) == (1, "1 point: invalid timestamp")
    [(events,)] = query(tmp_path, "SELECT list(event || ' ' || detail) FROM gnmi_events")
    assert events == ["not-understood invalid timestamp"]


def test_a_full_store_asks_senders_to_send_again(tmp_path, monkeypatch):
    """Exporters send again after gRPC's UNAVAILABLE and HTTP's 503."""
    ports, answers = (free_port(), free_port()), []
    monkeypatch.setattr(limits, "POINTS", 0)

    def send() -> None:
        answers.append(call(ports[0], message(POINTS)))
        answers.append(post(ports[1], message(POINTS))[0])

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}'}}", send, 0)
    assert answers == ["UNAVAILABLE", 503]
    [(refused,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE event = 'deferred'")
    assert refused == 2


def test_hostile_messages_are_refused_and_others_are_stored(tmp_path, monkeypatch):
    """Bombs, garbage, other methods and half requests are each answered or cut off; the messages of other senders are
    stored."""
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
        answers["http two gzips"] = post(ports[1], 2 * gzip.compress(message(POINTS)), zipped)[0]
        answers["grpc traces"] = call(ports[0], b"", method=TRACES)
        answers["http no gzip"] = post(ports[1], b"no", zipped)[0]
        answers["http json"] = post(ports[1], b"{}", {"Content-Type": "application/json"})[0]
        answers["http elsewhere"] = post(ports[1], b"", path="/")[0]
        answers["http type and encoding in capitals"] = post(
            ports[1], gzip.compress(message([])), {"CONTENT-TYPE": "Application/X-Protobuf", "Content-Encoding": "GZIP"}
        )[0]
        for noise in NOISE:
            for port in ports:
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.sendall(noise)
                    if port == ports[1]:
                        sock.shutdown(socket.SHUT_WR)
                        answers[noise] = sock.makefile("rb").read()[:12]
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
        "grpc traces": "UNIMPLEMENTED", "http two gzips": 400,
        "http garbage": 400, "http large": 413, "http bomb": 413, "http cut off": 400, "http no gzip": 400,
        "http json": 415, "http elsewhere": 404, "http type and encoding in capitals": 200,
        **NOISE,
    }  # fmt: skip
    assert query(tmp_path, "SELECT count(*), max(max_bytes) FROM queues") == [(10, 9)]
    refused = "FROM gnmi_events WHERE event IN ('refused', 'not-understood') AND detail NOT LIKE '%series'"
    assert dict(query(tmp_path, f"SELECT detail, sum(amount) {refused} GROUP BY detail")) == {
        "more than 65,536 bytes, or ended before it was there": 2, "more than 65,536 bytes": 2,
        "not an ExportMetricsServiceRequest": 2, "the body is cut off": 1, "the body is no gzip": 1,
        "only application/x-protobuf is understood": 1, "metrics are at /v1/metrics": 1,
        "the compressed body has more than one part": 1, "only MetricsService/Export is served": 1,
        "not a valid request of HTTP/1.1": 2, "the request is cut off": 1, "only POST is answered": 1,
    }  # fmt: skip
    assert query(tmp_path, f"SELECT DISTINCT device, subscription {refused}") == [("127.0.0.1", "otlp")]


def test_a_sender_receives_the_reason_of_a_refusal(tmp_path):
    """It does although it sends the whole message, which is more than the kernel buffers, before it reads the answer: a
    reset would destroy the answer."""
    port, body, answers = free_port(), bytes(8 << 20), []

    def send() -> None:
        for headers, path in (
            (PROTOBUF, "/v1/metrics"),
            ({"Content-Type": "text/plain"}, "/v1/metrics"),
            (PROTOBUF, "/"),
        ):
            answers.append(post(port, body, {**headers, "Authorization": "bearer s3cret"}, path)[0])
        answers.append(post(port, body)[0])

    collected(tmp_path, f"otlp: {{http: '127.0.0.1:{port}', token: s3cret}}", send, 0)
    assert answers == [413, 415, 404, 401]


class ExpectingSender:
    """A sender by HTTP that waits for permission to send its message."""

    HEAD = b"POST /v1/metrics HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\nExpect: 100-continue\r\n"

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 60)
        self.sock.sendall(self.HEAD + b"Content-Length: 9\r\n\r\n")

    def is_asked(self) -> bool:
        """Returns whether it has a place, so that it is asked for the message."""
        self.sock.settimeout(0)
        with suppress(BlockingIOError):
            return bool(self.sock.recv(100, socket.MSG_PEEK))
        return False

    def status(self) -> bytes:
        """Returns the status of the answer."""
        self.sock.settimeout(60)
        return self.sock.makefile("rb").read(1000).replace(b"HTTP/1.1 100 \r\n\r\n", b"")[9:12]


def test_messages_wait_for_a_place_before_they_are_read(tmp_path, monkeypatch):
    """One sender gets half of the places, by whichever protocol; a sender without a place sends nothing of its message
    yet. Many calls of one connection may wait."""
    monkeypatch.setattr(reception, "WAIT_S", 600.0)
    ports, answers = (free_port(), free_port()), []

    def send() -> None:
        post(ports[1], b"")
        senders = [ExpectingSender(ports[1]) for _ in range(6)]
        wait_for(lambda: sum(sender.is_asked() for sender in senders) == 4)
        with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:
            calls = [channel.unary_unary(EXPORT).future(message(POINTS), timeout=60) for _ in range(50)]
            time.sleep(0.2)  # more senders would be asked by now if there were places
            assert sum(sender.is_asked() for sender in senders) == 4 and not any(one.done() for one in calls)
            while senders:
                wait_for(lambda: any(sender.is_asked() for sender in senders))
                sender = next(sender for sender in senders if sender.is_asked())
                senders.remove(sender)
                sender.sock.sendall(b"\xff" * 9)
                answers.append(sender.status())
            assert {one.result() for one in calls} == {b""}

    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{ports[0]}', http: '127.0.0.1:{ports[1]}'}}", send, 500)
    assert answers == 6 * [b"400"]


def test_announced_messages_that_do_not_come_keep_no_place(tmp_path, monkeypatch):
    """An announced message that does not come is refused, and one that gets no place must be sent again; both are
    counted."""
    monkeypatch.setattr(reception, "ARRIVAL_S", 1.0)
    monkeypatch.setattr(reception, "WAIT_S", 0.1)
    port, answers = free_port(), []

    def send() -> None:
        post(port, b"")
        senders = [ExpectingSender(port) for _ in range(5)]
        answers.extend(sorted(sender.status() for sender in senders))
        answers.append(post(port, message(POINTS))[0])

    collected(tmp_path, f"otlp: {{http: '127.0.0.1:{port}'}}", send, 10)
    assert answers[:4] == 4 * [b"408"] and answers[4:] == [b"503", 200]
    assert dict(query(tmp_path, "SELECT event, sum(amount) FROM gnmi_events GROUP BY event")) == {
        "refused": 4, "deferred": 1,
    }  # fmt: skip


@pytest.mark.parametrize("way", ["listen", "http"])
def test_connections_beyond_the_limit_are_counted(tmp_path, way):
    """One host gets half of the connections; beyond that there is one line, and a count."""
    port, most = free_port(), door.MOST_CLIENTS // 2

    def send() -> None:
        with ExitStack() as held:
            for _ in range(most):  # they wait in the kernel until they are accepted
                held.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port), 60) as refused, suppress(ConnectionResetError):
                    assert refused.recv(1) == b""

    lines = collected(tmp_path, f"otlp: {{{way}: '127.0.0.1:{port}'}}", send, 0)
    assert lines[1:] == [f"127.0.0.1: refused: {most} clients of this host are connected, which is the most"]
    [(amount,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE event = 'refused'")
    assert amount == 3


def test_ports_become_interfaces_with_recordings(tmp_path):
    """Running totals become a recording with bins, and bursts by the common definition."""
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


def test_an_idle_port_is_recorded_for_as_long_as_it_is_sampled(tmp_path, capsys):
    port = free_port()
    values = [(OUT_BYTES, "Ethernet0", T0 + k * MS, 12_000_000 * (k > 100)) for k in range(301)]
    values += [(OUT_BYTES, "Ethernet1", T0 + k * MS + 300, 7) for k in range(301)]
    collected(tmp_path, f"otlp: {{listen: '127.0.0.1:{port}', link: 100G}}", lambda: call(port, message(values)), 602)
    rows = query(
        tmp_path,
        "SELECT interface, start_ns, end_ns, bytes, complete FROM recordings WHERE ended <> '' ORDER BY interface",
    )
    span = (T0, T0 + 300 * MS - 1)
    assert rows == [("Ethernet0", *span, 12_000_000, True), ("Ethernet1", *span, 0, True)]
    capsys.readouterr()
    assert main(["bursts", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    assert "1 burst in 300 ms, 0.333 % of the time; " in printed and "no burst in 300 ms, 0 % of the time; " in printed


def test_a_width_that_is_not_sure_is_noted(tmp_path):
    """The recording of a port that is sampled at random times says that its width of bins is only the most likely one;
    that of evenly sampled ports does not."""
    port, noise = free_port(), random.Random(2)
    at = list(itertools.accumulate((1 + int(noise.expovariate(1 / MS)) for _ in range(300)), initial=T0))
    values = [(OUT_BYTES, "Ethernet0", T0 + k * MS, 1000 * k) for k in range(301)]
    values += [(OUT_BYTES, "Ethernet1", ts_ns, 1000 * k) for k, ts_ns in enumerate(at)]
    text = f"otlp: {{listen: '127.0.0.1:{port}'}}"
    collected(tmp_path, text, lambda: call(port, message(values)), len(values))
    found = query(tmp_path, "SELECT interface, notes FROM recordings WHERE ended <> '' ORDER BY interface")
    assert [(interface, "too uneven to be sure" in notes) for interface, notes in found] == [
        ("Ethernet0", False), ("Ethernet1", True)
    ]  # fmt: skip


def test_gaps_and_recordings_of_a_port(tmp_path, monkeypatch, capsys):
    """Days without samples separate two recordings. Each gap has a row, even if there are more than are stored at a
    time."""
    monkeypatch.setattr(otlp_collection, "MOST_GAPS", 3)
    port, day = free_port(), 24 * 3600 * 10**9
    values = [(OUT_BYTES, "Ethernet0", T0 - 2 * day + k * MS, 5000 + 1000 * k) for k in range(30)]
    values += [(OUT_BYTES, "Ethernet0", T0 + k * MS, 10**9 + 1000 * k) for k in range(100) if k % 10 != 5]
    values += [(OUT_BYTES, "Ethernet0", T0 + (100 + k) * MS, 700 + 1000 * k) for k in range(100)]

    def send() -> None:
        for _ in range(2):  # repeated points are not stored twice
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
    capsys.readouterr()
    assert main(["bursts", str(tmp_path / "store"), "--link", "1G"]) == 0
    printed = capsys.readouterr().out
    assert "; no sample is missing\n" in printed and "; 11 gaps, 20 kB and what 1 gap had in no bin\n" in printed
    assert main(["bursts", str(tmp_path / "store"), "--link", "1G", "--since", "2026-09-21T14:13:20.051"]) == 0
    assert "; 6 gaps, 10 kB and what 1 gap had in no bin\n" in capsys.readouterr().out
    [(far,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE detail LIKE '%more than a day%'")
    assert far == 1


def test_recordings_of_a_killed_collector_are_ended(tmp_path):
    """After kill -9 its bins stay, and the next collector ends its recordings with the totals of their bins."""
    config, port = tmp_path / "otlp.yaml", free_port()
    text = f"otlp: {{listen: '127.0.0.1:{port}'}}"
    config.write_text(text)
    values = [(OUT_BYTES, "Ethernet0", T0 + k * MS, 1000 * k) for k in range(301)]

    def has_bins() -> bool:
        with suppress(MburstError, duckdb.Error):
            return query(tmp_path, "SELECT sum(bytes) FROM bins") == [(2 * 299_000,)]
        return False

    command = [sys.executable, "-m", "mburst", "collect", str(config), "-o", str(tmp_path / "store")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for device in ("tor1", "tor2"):
            call(port, message(values, device))
        wait_for(has_bins)
    finally:
        process.kill()
        process.wait()
    collected(tmp_path, text, lambda: call(port, message([(OUT_BYTES, "Ethernet1", *one[2:]) for one in values])), 301)
    rows = query(tmp_path, "SELECT host, interface, ended, bytes FROM recordings WHERE ended <> '' ORDER BY ALL")
    killed = [(device, "Ethernet0", "killed", 299_000) for device in ("tor1", "tor2")]
    assert rows == [killed[0], ("tor1", "Ethernet1", "stopped", 300_000), killed[1]]
    behind = "SELECT host, interface, start_ns, end_ns, bytes FROM gaps WHERE reason = 'killed' ORDER BY ALL"
    assert query(tmp_path, behind) == [(*name, T0 + 299 * MS, None, None) for *name, _, _ in killed]
    later = [(*one[:2], one[2] + 1000 * MS, one[3]) for one in values]
    collected(tmp_path, text, lambda: call(port, message(later)), 301)
    with StoreFolder.open(tmp_path / "store").connect() as con:
        gap, still_open = sorted(gaps_behind(con).values(), key=lambda gap: gap["end_ns"] or T0 * 2)
        assert still_open["end_ns"] is None, "tor2 is not recorded again"
    assert (gap["start_ns"], gap["end_ns"], gap["packets"]) == (T0 + 299 * MS, T0 + 1000 * MS, None)
    assert gap["detail"].startswith("not known how many bytes")
