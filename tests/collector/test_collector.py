"""An OpenTelemetry Collector between the switch and `mburst collect`: what is stored is what a switch that sends by
itself leaves. tests/go/collector is built first, which takes more than a minute: `make test-collector`, and no other
run."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from authority import Authority
from gnmilib import query
from golib import go_program
from otlplib import DEPTH, DROPS, MS, OUT_BYTES, T0, call, collected, message
from places import ROOT
from ports import free_port
from waiting import wait_for

from mburst.errors import MburstError
from mburst.telemetry.otlp import limits

SAMPLES, EACH = 300, 10  # and how many milliseconds of them are a message
STORED = (
    "SELECT host, interface, direction, ts_ns, bytes, quality FROM bins ORDER BY ALL",
    "SELECT device, port, queue, window_start_ns, ts_ns, max_bytes, dropped_packets, quality FROM queues ORDER BY ALL",
    "SELECT event, detail, amount FROM gnmi_events ORDER BY ALL",
)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(tmp_path_factory.mktemp("go") / "collector", ROOT / "tests" / "go" / "collector")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@contextmanager
def running(program: Path, folder: Path, exporter: dict[str, Any], kind: str) -> Iterator[int]:
    """A collector that sends to an exporter; the port on which it receives by gRPC."""
    port = free_port()
    exporter = {**exporter, "retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"}}
    pipeline = {"receivers": ["otlp"], "processors": ["batch"], "exporters": [kind]}
    content = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}},
        "processors": {"batch": {"timeout": "20ms"}},
        "exporters": {kind: exporter},
        "service": {"pipelines": {"metrics": pipeline}},
    }
    path = folder / "collector.yaml"
    path.write_text(json.dumps(content))
    with (folder / "collector.log").open("w") as log:
        process = subprocess.Popen([program, "--config", path], stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        assert process.wait(60) == 0, (folder / "collector.log").read_text()


def sent(port: int) -> None:
    """The bytes of a port, the depth and the drops of a queue, one message after the other."""
    total = list(itertools.accumulate((7919 * k % 100_000 for k in range(SAMPLES)), initial=10**12))
    for first in range(0, SAMPLES, EACH):
        points = []
        for k in range(first, first + EACH):
            at = T0 + k * MS
            points += [
                (OUT_BYTES, "Ethernet0", at, total[k]),
                (DEPTH, "Ethernet0|3", at, k),
                (DROPS, "Ethernet0|3", at, 2 * k),
            ]
        assert call(port, message(points)).partial_success.rejected_data_points == 0


def directly(folder: Path) -> list[list[tuple[Any, ...]]]:
    """What is stored without a collector."""
    folder.mkdir()
    port = free_port()
    collected(folder, f"otlp: {{listen: '127.0.0.1:{port}'}}", lambda: sent(port), 3 * SAMPLES)
    return [query(folder, text) for text in STORED]


@pytest.mark.parametrize("kind", ["otlp_grpc", "otlp_http"])
@pytest.mark.parametrize("is_secure", [False, True])
def test_a_collector_in_between_changes_nothing(tmp_path, program, authority, kind, is_secure):
    """By gRPC and by HTTP, with gzip; plain, and with TLS, client certificates and a token."""
    port = free_port()
    (certificate, key), (own, own_key) = authority.issue("server", ["localhost"]), authority.issue("client", [])
    text = f"{'listen' if kind == 'otlp_grpc' else 'http'}: '127.0.0.1:{port}'"
    tls: dict[str, Any] = {"insecure": True}
    if is_secure:
        text += f", tls-cert: {certificate}, tls-key: {key}, tls-client-ca: {authority.ca}, token: s3cret"
        tls = {"ca_file": str(authority.ca), "cert_file": str(own), "key_file": str(own_key)}
    scheme = "" if kind == "otlp_grpc" else "https://" if is_secure else "http://"
    exporter = {"endpoint": f"{scheme}localhost:{port}", "tls": tls, "headers": {"authorization": "Bearer s3cret"}}

    def send() -> None:
        with running(program, tmp_path, exporter, kind) as between:
            sent(between)

    collected(tmp_path, f"otlp: {{{text}}}", send, 3 * SAMPLES)
    found = [query(tmp_path, text) for text in STORED]
    assert len(found[0]) > 200 and found == directly(tmp_path / "directly")


@pytest.mark.parametrize("kind", ["otlp_grpc", "otlp_http"])
def test_a_collector_sends_again_what_was_deferred(tmp_path, program, monkeypatch, kind):
    """While the store is behind; nothing is lost where it sends one message after the other. Where it sends ten at a
    time, what it sends again is behind what was newer, and too late."""
    port, most = free_port(), limits.POINTS
    monkeypatch.setattr(limits, "POINTS", 0)
    word, scheme = ("listen", "") if kind == "otlp_grpc" else ("http", "http://")
    one = {"num_consumers": 1}
    exporter = {"endpoint": f"{scheme}localhost:{port}", "tls": {"insecure": True}, "sending_queue": one}

    def has_most() -> bool:
        with suppress(MburstError, duckdb.Error):
            return query(tmp_path, "SELECT count(*) FROM queues")[0][0] >= SAMPLES - EACH
        return False

    def send() -> None:
        with running(program, tmp_path, exporter, kind) as between:
            sent(between)
            monkeypatch.setattr(limits, "POINTS", most)
            wait_for(has_most)  # a collector that ends drops what it would send again

    collected(tmp_path, f"otlp: {{{word}: '127.0.0.1:{port}'}}", send, 3 * SAMPLES)
    events = dict(query(tmp_path, "SELECT event, sum(amount) FROM gnmi_events GROUP BY event"))
    assert set(events) == {"deferred"}
    assert [query(tmp_path, text) for text in STORED[:2]] == directly(tmp_path / "directly")[:2]
