"""Access to the OTLP receiver: addresses, certificates, tokens; the checks before it listens, and the rights that it
keeps when it works as another user."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from authority import Authority
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from otlplib import DEPTH, EXPORT, MS, PROTOBUF, T0, collected, exported, message, post, stored
from ports import free_port
from privilegelib import STRANGER, for_all
from waiting import wait_for

from mburst import open as open_store
from mburst.__main__ import main

POINTS = [(DEPTH, "Ethernet0|1", T0 + k * MS, k) for k in range(10)]
VENDOR_TABLE = """
about = "a switch that speaks gNMI"
[[rows]]
table = "queues"
path = "/acme/port[name={port}]/class[id={queue}]"
semantics = "max-since-last"
gauges = { peak = "max_bytes" }
"""
OWN_TABLE = """
[[rows]]
table = "queues"
from = { place = "{port}/{queue}" }
semantics = "gauge"
gauges = { "own.depth" = "max_bytes" }
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


# --- what is refused before anything listens ------------------------------------------------------------------------


def checked(capsys: pytest.CaptureFixture[str], folder: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    """Returns the result of `collect` with a configuration: (code, output, errors)."""
    path = folder / "otlp.yaml"
    path.write_text(text)
    code = main(["collect", str(path), *(arguments or ["--check"])])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("listen: 127.0.0.1", "otlp.listen: invalid address and port '127.0.0.1'"),
        ("listen: 127.0.0.1:99999", "otlp.listen: invalid port 99999"),
        ("http: '[::1]'", "otlp.http: invalid address and port"),
        ("listen: 'unix:'", "otlp.listen: missing socket path"),
        ("listen: 127.0.0.1:4317, http: 127.0.0.1:4317", "listen and http are the same address"),
        ("listen: 127.0.0.1:4317, http: 0.0.0.0:4317, insecure: true", "listen and http are the same address"),
        ("listen: unix:/x/s, http: unix:/x/s", "listen and http are the same address"),
        ("listen: 127.0.0.1:1, tls-cert: CERT, tls-key: OTHER", "does not belong to the certificate"),
        ("listen: 127.0.0.1:1, tls-cert: /nowhere, tls-key: OTHER", "/nowhere: cannot read"),
        ("listen: 127.0.0.1:1, tls-cert: CERT, tls-key: KEY, tls-client-ca: KEY", "not a certificate in PEM"),
        ("listen: 127.0.0.1:1, tables: [nowhere.toml]", "nowhere.toml: cannot read"),
        ("listen: 127.0.0.1:1, token: ''", "otlp.token: is empty"),
        ("listen: 127.0.0.1:1, token: ", "otlp.token: is empty"),
        ("listen: 127.0.0.1:1, token: $EMPTY", "otlp.token: is empty"),
        ("listen: 127.0.0.1:1, token: $UNSET_VARIABLE", "no variable UNSET_VARIABLE"),
        ("listen: 127.0.0.1:1, token: 'two words'", "otlp.token: no sender can send it"),
        ("listen: 127.0.0.1:1, tls-cert: CERT, tls-key: KEY, tls-client-ca: ''", "otlp.tls-client-ca: is empty"),
        ("listen: 127.0.0.1:1, tls-cert: '', tls-key: ''", "otlp.tls-cert: is empty"),
        ("listen: '', http: 127.0.0.1:1", "otlp.listen: is empty"),
        ("listen: 0.0.0.0:1", "other hosts can connect, and no encryption and no authentication"),
        ("http: '[::]:1', token: s3cret", "other hosts can connect, and the token is sent in clear text"),
        ("listen: 192.0.2.1:1, tls-cert: CERT, tls-key: KEY", "other hosts can connect, and no authentication"),
    ],
)
def test_configurations_that_fail_or_are_open_to_all_are_refused(tmp_path, capsys, monkeypatch, authority, keys, words):
    """They are refused by --check, and before a collection listens, in one line each that does not show the token."""
    monkeypatch.setenv("EMPTY", "")
    certificate, key = authority.issue("server", ["127.0.0.1"])
    for name, path in (("CERT", certificate), ("KEY", key), ("OTHER", authority.issue("other", [])[1])):
        keys = keys.replace(f": {name}", f": {path}")
    for arguments in (["--check"], ["--show"], ["-o", str(tmp_path / "store")]):
        code, out, err = checked(capsys, tmp_path, f"otlp: {{{keys}}}", *arguments)
        assert code in (1, 2) and not out and words in err and len(err.splitlines()) == 1, err
        assert "s3cret" not in err and "two words" not in err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("listen: 127.0.0.1:1, http: '[::1]:1'", "gRPC on 127.0.0.1:1 and HTTP on [::1]:1, without TLS"),
        ("listen: 127.0.0.1:0, http: 127.0.0.1:0", "gRPC on 127.0.0.1:0"),
        ("listen: 0.0.0.0:1, insecure: true", "gRPC on 0.0.0.0:1, without TLS"),
        ("listen: 0.0.0.0:1, tls-cert: CERT, tls-key: KEY, token: s3cret", "TLS, with a bearer token"),
        ("listen: 0.0.0.0:1, tls-cert: CERT, tls-key: KEY, tls-client-ca: CA", "TLS, clients with a certificate"),
    ],
)
def test_check_reports_who_has_access(tmp_path, capsys, authority, keys, words):
    certificate, key = authority.issue("server", ["127.0.0.1"])
    for name, path in (("CERT", certificate), ("KEY", key), ("CA", authority.ca)):
        keys = keys.replace(f": {name}", f": {path}")
    code, out, err = checked(capsys, tmp_path, f"otlp: {{{keys}}}")
    assert (code, err) == (0, "") and words in out and "s3cret" not in out


def forget(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the name of a host have no address, as while no name server answers."""
    known = socket.getaddrinfo

    def unknown(host: str, *more: object, **others: object) -> object:
        if host == name:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        return known(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


@pytest.mark.parametrize("arguments", [["--check"], ["--show"]])
def test_check_takes_a_name_that_has_no_address_now_as_valid(tmp_path, capsys, monkeypatch, arguments):
    """The receiver reports it; `mburst run` starts it again until the name has an address."""

    forget(monkeypatch, "collector.example")
    text = "otlp: {listen: 'collector.example:4317', http: '127.0.0.1:1', token: s3cret}"
    code, out, err = checked(capsys, tmp_path, text, *arguments)
    is_check = arguments == ["--check"]
    assert err == "mburst: otlp.listen: collector.example: no such address: Temporary failure in name resolution\n"
    places = "otlp: gRPC on collector.example:4317 and HTTP on 127.0.0.1:1"
    assert code == (0 if is_check else 1) and out.startswith(places) == is_check


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("http: 0.0.0.0:4318", "otlp.http: 0.0.0.0:4318: other hosts can connect, and no encryption"),
        ("http: 127.0.0.1:99999", "otlp.http: invalid port 99999"),
        ("http: 'unix:'", "otlp.http: missing socket path"),
        ("http: 'name.example:4317'", "listen and http are the same address, name.example:4317"),
        ("http: 127.0.0.1:1, tls-cert: /nowhere, tls-key: /nowhere", "/nowhere: cannot read"),
    ],
)
def test_a_name_without_an_address_hides_no_other_error(tmp_path, capsys, monkeypatch, keys, words):
    forget(monkeypatch, "name.example")
    code, out, err = checked(capsys, tmp_path, f"otlp: {{listen: 'name.example:4317', {keys}}}")
    assert code in (1, 2) and not out and words in err and len(err.splitlines()) == 1, err


@pytest.mark.parametrize("host", ["a..b", "[]", "1.2.3.444", "[::g]", f"{'x' * 64}.example", "a b", "a/b"])
def test_what_cannot_be_the_name_of_a_host_is_invalid(tmp_path, capsys, host):
    """It has no address later either, so that a receiver that works is not ended for it."""
    code, out, err = checked(capsys, tmp_path, f"otlp: {{listen: '{host}:4317'}}")
    assert (code, out) == (2, "") and err.startswith("mburst: otlp.listen: invalid ") and len(err.splitlines()) == 1


def test_once_is_only_for_targets(tmp_path, capsys):
    code, out, err = checked(capsys, tmp_path, "otlp: {listen: 127.0.0.1:1}", "--once")
    assert (code, out) == (2, "") and "--once reads gNMI targets, and there are none (--show is of OTLP)" in err


def test_insecure_reports_its_consequences_and_a_failed_start_leaves_no_socket(tmp_path, capsys):
    """The second address is in use, so the socket of the first is removed again."""
    path = tmp_path / "s"
    with socket.socket() as held:
        held.bind(("0.0.0.0", 0))
        held.listen()
        text = f"otlp: {{listen: 'unix:{path}', http: '0.0.0.0:{held.getsockname()[1]}', insecure: true}}"
        code, out, err = checked(capsys, tmp_path, text, "-o", str(tmp_path / "store"))
    assert code == 1 and not out and not path.exists()
    note, failure = err.splitlines()
    assert "note: 0.0.0.0:" in note and "no encryption and no authentication" in note
    assert "cannot listen on 0.0.0.0:" in failure and "another process is listening there" in failure


@pytest.mark.parametrize("word", ["listen", "http"])
def test_an_address_of_another_machine_is_reported(word, tmp_path, capsys):
    text = f"otlp: {{{word}: '192.0.2.1:4317', insecure: true}}"
    code, out, err = checked(capsys, tmp_path, text, "-o", str(tmp_path / "store"))
    assert code == 1 and not out and "(no interface of this machine has that address: " in err


# --- exporters of others, in each way -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["TLS", "client certificate", "token", "unix"])
def test_exporters_are_accepted(tmp_path, authority, monkeypatch, way):
    """The exporters are OpenTelemetry's, by gRPC and by HTTP (which has no Unix sockets)."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which take precedence over its own certificates
        monkeypatch.delenv(name, raising=False)
    ports = free_port(), free_port()
    addresses = [f"unix:{tmp_path / 's'}", *(f"127.0.0.1:{port}" for port in ports)]
    (certificate, key), (own, own_key) = authority.issue("server", ["localhost"]), authority.issue("client", [])
    tls = way in ("TLS", "client certificate")
    text = f"listen: '{addresses[0] if way == 'unix' else addresses[1]}', http: '{addresses[2]}'"
    text += f", tls-cert: {certificate}, tls-key: {key}" if tls else ""
    text += f", tls-client-ca: {authority.ca}" if way == "client certificate" else ""
    text += ", token: s3cret" if way == "token" else ""
    shown = (own_key, own) if way == "client certificate" else (None, None)
    headers = {"authorization": "bearer s3cret"} if way == "token" else {}

    def send() -> None:
        credentials = grpc.ssl_channel_credentials(
            authority.ca.read_bytes(), *(path and path.read_bytes() for path in shown)
        )
        secure = {"credentials": credentials} if tls else {"insecure": True}
        where = addresses[0] if way == "unix" else f"localhost:{ports[0]}"
        exported(GrpcExporter(where, headers=headers, timeout=20, **secure))
        scheme, trusted = ("https", str(authority.ca)) if tls else ("http", None)
        url = f"{scheme}://localhost:{ports[1]}/v1/metrics"
        exported(HttpExporter(url, trusted, *(path and str(path) for path in shown), headers, 20))

    lines = collected(tmp_path, f"otlp: {{{text}}}", send, 18)
    assert len(lines) == 2 and [row[:4] for row in stored(tmp_path)] == [("tor1", "Ethernet0", "3", 4096)]


# --- as a command, with the rights that it keeps --------------------------------------------------------------------


@contextmanager
def place(authority: Authority) -> Iterator[Path]:
    """A folder of another user if root runs the tests, with a configuration, a table of its own, and a certificate that
    only root can read."""
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        folder = Path(name)
        (folder / "own.toml").write_text(OWN_TABLE)
        (folder / "vendor.toml").write_text(VENDOR_TABLE)
        for table in ("own.toml", "vendor.toml"):
            (folder / table).chmod(0o600)
        certify(folder, authority, 0)
        if os.geteuid() == 0:
            os.chown(folder, STRANGER, STRANGER)
        yield folder


def certify(folder: Path, authority: Authority, user: int) -> None:
    """Replaces the certificate by a new one that only USER can read."""
    for path, end in zip(authority.issue("server", ["localhost", "127.0.0.1"]), ("pem", "key"), strict=True):
        made = folder / f"made.{end}"
        made.write_bytes(path.read_bytes())
        made.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(made, user, user)
        made.replace(folder / f"server.{end}")


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`mburst collect` as a process, which is killed at the end."""
    words = [sys.executable, "-m", "mburst", "collect", str(folder / "otlp.yaml"), *arguments]
    process = subprocess.Popen(
        for_all(words) if os.geteuid() == 0 else words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def serial(port: int, context: ssl.SSLContext) -> int:
    """Returns the serial number of the certificate that the server presents."""
    with (
        socket.create_connection(("localhost", port), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        return int(sock.getpeercert()["serialNumber"], 16)


def table_message() -> bytes:
    """Returns a message in the terms of the table of these tests."""
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="own.depth")
    point = metric.gauge.data_points.add(time_unix_nano=T0, as_int=7)
    point.attributes.add(key="place").value.string_value = "swp7/3"
    return request.SerializeToString()


def test_a_collection_with_certificates_tables_and_a_unix_socket(authority):
    """Certificates, tables and a Unix socket are opened before rights are given up. The socket that a killed collection
    left is replaced. A certificate is renewed while it is in use. The summary counts refused points. The socket is
    removed at the end."""
    with place(authority) as folder:
        port, path, store = free_port(), folder / "s", folder / "store"
        (folder / "otlp.yaml").write_text(
            f"otlp: {{listen: 'unix:{path}', http: '127.0.0.1:{port}', tls-cert: server.pem, tls-key: server.key, "
            "token: s3cret, tables: [own.toml]}\nmburst: {tables: [vendor.toml]}\n"
        )
        context = ssl.create_default_context(cafile=str(authority.ca))
        headers = {"authorization": "Bearer s3cret"}
        credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        with command(folder, "-o", str(store)):
            wait_for(path.exists)
        assert path.exists()
        with command(folder, "-o", str(store)) as process:
            assert post(port, b"x", context=context)[0] == 401
            options = [("grpc.ssl_target_name_override", "localhost")]
            with grpc.secure_channel(f"unix:{path}", credentials, options) as channel:
                answered = channel.unary_unary(EXPORT)(message(POINTS), timeout=60, metadata=tuple(headers.items()))
            assert answered == b""
            assert post(port, table_message(), {**PROTOBUF, **headers}, context=context)[0] == 200
            assert post(port, b"{}", {"Content-Type": "application/json", **headers}, context=context)[0] == 415
            before = serial(port, context)
            certify(folder, authority, STRANGER)
            assert serial(port, context) != before
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert not path.exists() and "Traceback" not in err and "still used" not in err
        rows = open_store(store).sql("FROM queues").to_pylist()
    assert {(row["port"], row["queue"]) for row in rows} == {("Ethernet0", "1"), ("swp7", "3")}
    assert "OTLP: 11 points in 2 messages" in out
    [line] = [line for line in out.splitlines() if "refused" in line]
    assert line.startswith("OTLP: 2 messages or connections refused: ")
    assert "1 the bearer token is wrong or missing" in line and "1 only application/x-protobuf is understood" in line


def test_show_reports_refused_points(tmp_path):
    """If no point was usable, it does not say that none was received."""
    port = free_port()
    (tmp_path / "otlp.yaml").write_text(f"otlp: {{http: '127.0.0.1:{port}'}}")
    histogram = metrics_service_pb2.ExportMetricsServiceRequest()
    metric = histogram.resource_metrics.add().scope_metrics.add().metrics.add(name="h")
    metric.histogram.data_points.add(time_unix_nano=T0, count=3)
    words = [sys.executable, "-m", "mburst", "collect", str(tmp_path / "otlp.yaml"), "--show", "--duration", "1h"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert post(port, histogram.SerializeToString())[0] == 200
        assert post(port, b"\xff")[0] == 400
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1 and "no point received" not in err
    assert err.splitlines()[1:] == [
        "mburst: OTLP: 1 point refused: 1 no meaning for a histogram",
        "mburst: OTLP: 1 message or connection refused: 1 not an ExportMetricsServiceRequest",
    ]
