#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many OTLP points a second does `mburst collect` take from a switch into a store, on one core?

A sender on another core has messages of 64 ports with 8 queues ready, as SONiC's countersyncd makes them (a metric and
three attributes a point) or packed (all points of a counter in one metric, with one attribute), and sends them by gRPC
as fast as they are taken. Counted from the first message until the last is answered, and until the process has ended
and all rows are sealed. Beside it, in the same run, a receiver that only decodes: grpc and opentelemetry-proto, and
each message is dropped.

--paced: 512 depths a millisecond for SECONDS, and what was lost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from side_by_side import machine, spread

CORES = sorted(os.sched_getaffinity(0))
MBURST = Path(sys.executable).parent / "mburst"
MS = 10**6
PORTS, QUEUES = 64, 8
DEPTH = "sai_counter_type_21_stat_24"
EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
DECODE = """
import sys, time, grpc
from concurrent import futures
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service, metrics_service_pb2_grpc as stubs
class Decoding(stubs.MetricsServiceServicer):
    def Export(self, request, context):
        return service.ExportMetricsServiceResponse()
server = grpc.server(futures.ThreadPoolExecutor(2))
stubs.add_MetricsServiceServicer_to_server(Decoding(), server)
server.add_insecure_port(sys.argv[1])
server.start()
server.wait_for_termination()
"""


def pinned(core: int) -> list[str]:
    """The command that keeps another on one core, where there are several."""
    return ["taskset", "-c", str(CORES[core % len(CORES)])]


def message(milliseconds: int, packed: bool) -> Any:
    """A request with the depths of all queues over some milliseconds."""
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    request = metrics_service_pb2.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key="host.name").value.string_value = "tor1"
    metrics = resource.scope_metrics.add().metrics
    metric = metrics.add(name=DEPTH) if packed else None
    for k in range(milliseconds):
        for port in range(PORTS):
            for queue in range(QUEUES):
                of = metric or metrics.add(name=DEPTH, unit="1")
                point = of.gauge.data_points.add(time_unix_nano=k * MS, as_int=k % 1000 * port)
                point.attributes.add(key="object_name").value.string_value = f"Ethernet{port}|{queue}"
                if not packed:
                    point.attributes.add(key="sai_type_id").value.string_value = "21"
                    point.attributes.add(key="sai_stat_id").value.string_value = "24"
    return request


class Messages:
    """A message that is made once, and sent as of many times."""

    def __init__(self, milliseconds: int, packed: bool) -> None:
        self.milliseconds = milliseconds
        self.points = milliseconds * PORTS * QUEUES
        self._request = message(milliseconds, packed)
        self._points = [
            point
            for metric in self._request.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.gauge.data_points
        ]

    def at(self, begin_ns: int) -> bytes:
        """The message as of a time."""
        for number, point in enumerate(self._points):
            point.time_unix_nano = begin_ns + number // (PORTS * QUEUES) * MS
        return self._request.SerializeToString()


def sent(address: str, messages: list[bytes], pace_s: float = 0.0) -> tuple[float, int]:
    """(seconds until all are answered, how many were refused) of messages that are sent one after the other."""
    import grpc

    refused = 0
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary(EXPORT)
        grpc.channel_ready_future(channel).result(30)
        begin = time.monotonic()
        for number, one in enumerate(messages):
            if (early := begin + number * pace_s - time.monotonic()) > 0:
                time.sleep(early)
            while True:
                try:
                    export(one, timeout=60)
                    break
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    refused += 1
                    time.sleep(0.2)
        return time.monotonic() - begin, refused


def free_address() -> str:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def decoded(messages: list[bytes], points: int) -> float:
    """Points a second of a receiver that only decodes."""
    address = free_address()
    process = subprocess.Popen([*pinned(1), sys.executable, "-c", DECODE, address])
    try:
        seconds, _ = sent(address, messages)
        return points / seconds
    finally:
        process.kill()
        process.wait()


def collected(messages: list[bytes], points: int, pace_s: float = 0.0) -> tuple[float, float, float, int, str]:
    """(points a second until all are answered, until all is sealed, seconds of CPU, rows stored, what it printed)."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-otlp-") as name:
        folder, address = Path(name), free_address()
        config = folder / "otlp.yaml"
        config.write_text(f"otlp: {{listen: '{address}'}}\nmburst: {{buffer: 1GiB}}\n")
        process = subprocess.Popen(
            [*pinned(1), MBURST, "collect", config, "-o", folder / "store"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        seconds, refused = sent(address, messages, pace_s)
        begun = time.monotonic() - seconds
        process.send_signal(2)
        _, _, usage = os.wait4(process.pid, 0)
        whole = time.monotonic() - begun
        assert process.stdout
        printed = process.stdout.read().replace("\n", "; ") + f"{refused} messages sent again"
        return points / seconds, points / whole, usage.ru_utime + usage.ru_stime, rows(folder / "store"), printed


def rows(store: Path) -> int:
    from mburst.sql import StoreFolder

    [(found,)] = StoreFolder.open(store).connect().execute("SELECT count(*) FROM queues").fetchall()
    return int(found)


def compare(rounds: int, number: int) -> None:
    """Print both shapes, with a receiver that only decodes beside each."""
    for shape, packed in (("SONiC's shape", False), ("packed", True)):
        made = Messages(20, packed)
        now = time.time_ns() // MS * MS
        messages = [made.at(now + k * 20 * MS) for k in range(number)]
        points = made.points * number
        found = []
        for _ in range(rounds):
            found.append((decoded(messages, points), *collected(messages, points)))
            assert found[-1][4] == points, found[-1]
        decode, live, sealed, cpu = ([one[k] for one in found] for k in range(4))
        print(
            f"| {shape} | {spread(decode)}/s only decoded | {spread(live)}/s received | {spread(sealed)}/s sealed | "
            f"{spread([seconds / points * 1e6 for seconds in cpu])} µs of CPU a point, with start-up and sealing |",
            flush=True,
        )


def pace(seconds: int, packed: bool) -> None:
    """Print what becomes of 512 depths a millisecond."""
    made = Messages(20, packed)
    now = time.time_ns() // MS * MS
    ring = [made.at(now + k * 20 * MS) for k in range(seconds * 50)]
    points = made.points * len(ring)
    live, _, cpu, stored, printed = collected(ring, points, 0.02)
    print(f"| {points:,} points over {seconds} s, {live:,.0f}/s | {cpu:.1f} s of CPU | {stored:,} rows | {printed} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=150, help="of 20 ms, 10,240 points each")
    parser.add_argument("--paced", type=int, metavar="SECONDS", help="512,000 points a second instead")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {CORES[0]})  # the collector's core is its own
    print(f"otlp: {machine()}; median (least) of {arguments.rounds} rounds")
    if arguments.paced:
        pace(arguments.paced, True)
    else:
        compare(arguments.rounds, arguments.messages)


if __name__ == "__main__":
    main()
