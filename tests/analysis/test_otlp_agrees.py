"""A switch sends data by OTLP about the port of the recorded example: the investigation uses the depth of the queue as
evidence, and compares the bins of the switch with the host's."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from otlplib import DEPTH, MS, OUT_BYTES, collected, message
from places import ROOT
from ports import free_port

import mburst
from mburst.__main__ import main

EXAMPLE = ROOT / "examples" / "cache-server"
EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
FCS = 4
EACH = 37  # in one of the cases, one of this number of samples is missing
HEADLINES = {
    "agree": "Bursts into cache (1 Gb/s) cause the latency tail",
    "disagree": "What causes the latency of api → cache (udp) cannot be determined: the sources of cache cache in",
}


def totals(store: Path, factor: float) -> list[tuple[str, str, int, Any]]:
    """The running total of the port in each millisecond, as its host received it."""
    found = mburst.open(store).sql(
        f"SELECT ts_ns // {MS} AS ms, sum(bytes + {FCS} * packets) AS bytes FROM bins "
        "WHERE direction = 'in' GROUP BY ms"
    )
    by_ms = dict(zip(found["ms"].to_pylist(), map(int, found["bytes"].to_pylist()), strict=True))
    points, total = [], 10**12
    for ms in range(min(by_ms) - 20, max(by_ms) + 20):
        points.append((OUT_BYTES, "Ethernet0", ms * MS, total))
        total += round(factor * by_ms.get(ms, 0))
    return points


def depths() -> list[tuple[str, str, int, Any]]:
    with gzip.open(EXAMPLE / "queues-1ms.csv.gz", "rt") as file:
        return [(DEPTH, "Ethernet0|3", int(row["ts_ns"]), int(row["max_bytes"])) for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("factor", "missing", "state"), [(1.0, 0, "agree"), (1.0, EACH, "agree"), (0.9, 0, "disagree")]
)
def test_sources_agree(tmp_path, factor, missing, state, capsys):
    """The bins of the switch, the bins of the host and the depth of the queue agree pairwise. Missing samples do not
    matter, because a gap has their bytes. A switch that counts less disagrees."""
    store, port = tmp_path / "store", free_port()
    assert main(["record", str(EXAMPLE / "cache.pcap.zst"), "-o", str(store), "--link", "1G", "--host", "cache"]) == 0
    assert main(["import", "probes", str(EXAMPLE / "probes.csv.gz"), "-o", str(store), "--protocol", "udp"]) == 0
    counted = totals(store, factor)
    if missing:
        counted = [point for k, point in enumerate(counted) if k % missing]
    points = [*counted, *depths()]
    text = (
        f"otlp: {{listen: '127.0.0.1:{port}'}}\n"
        "mburst: {links: [{device: tor1, port: Ethernet0, host: cache, interface: cache, link: 1G}]}"
    )

    def send() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            export = channel.unary_unary(EXPORT)
            for first in range(0, len(points), 4000):
                export(message(points[first : first + 4000]), timeout=30, wait_for_ready=True)

    collected(tmp_path, text, send, len(points))
    capsys.readouterr()
    assert main(["investigate", str(store)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(HEADLINES[state])
    assert "tor1 Ethernet0 queue 3, before cache cache in: up to 3.61 MB" in printed
    [line] = [line for line in printed.splitlines() if "port tor1 Ethernet0, with cache cache in" in line]
    assert f" {state}" in line, line
    windows = int(re.search(r"of (\d+) ", line)[1])
    assert windows > (35 if missing else 45)  # of 50; both windows are left out if a gap cuts them
    for port in ("cache cache in", "tor1 Ethernet0 out"):
        [line] = [
            line for line in printed.splitlines() if f"depth of the queue tor1 Ethernet0 queue 3, with {port}" in line
        ]
        assert " agree. " in line, line
