"""telemetrygen, OpenTelemetry's generator of load, sends what a switch would: each point is stored or counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from gnmilib import query
from golib import go_installed
from otlplib import collected
from ports import free_port

PACKAGE = "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen"
COUNT = 1500
QUEUES = "SELECT device, port, queue, count(*), min(max_bytes), max(max_bytes) FROM queues GROUP BY ALL"
KINDS = {  # its points of one series are 0, 1, 2, …
    "depth": ("Gauge", "queue.curr_occupancy_bytes", "Ethernet0|3"),
    "octets": ("Sum", "port.if_out_octets", "Ethernet0"),
    "histogram": ("Histogram", "queue.curr_occupancy_bytes", "Ethernet0|4"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_installed(tmp_path_factory.mktemp("go"), PACKAGE, "v0.161.0")


@pytest.mark.parametrize("way", ["listen", "http"])
def test_each_point_is_stored_or_counted(tmp_path: Path, program: Path, way: str) -> None:
    port = free_port()
    given = [program, "metrics", "--otlp-endpoint", f"127.0.0.1:{port}", "--otlp-insecure", "--metrics", str(COUNT)]
    given += ["--otlp-http"] if way == "http" else []

    def send() -> None:
        for kind, name, place in KINDS.values():
            words = ["--metric-type", kind, "--aggregation-temporality", "cumulative", "--otlp-metric-name", name]
            words += ["--telemetry-attributes", f'object_name="{place}"', "--otlp-attributes", 'host.name="tor1"']
            subprocess.run(
                [*given, *words, "--rate", "500", "--allow-export-failures"],
                check=True,
                capture_output=True,
                timeout=60,
            )

    collected(tmp_path, f"otlp: {{{way}: '127.0.0.1:{port}'}}", send, 2 * COUNT)
    assert query(tmp_path, QUEUES) == [("tor1", "Ethernet0", "3", COUNT, 0, COUNT - 1)]
    [(refused,)] = query(tmp_path, "SELECT sum(amount) FROM gnmi_events WHERE event = 'not-understood'")
    assert refused == COUNT
    [(stored,)] = query(tmp_path, "SELECT sum(bytes) FROM bins WHERE host = 'tor1' AND direction = 'out'")
    assert 0 < stored <= COUNT - 1
