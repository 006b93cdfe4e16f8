#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many OTLP points per second does `mburst collect` take from a switch into a store, on one core?

A sender on another core has messages of 64 ports with 8 queues prepared, as SONiC's countersyncd makes them (a metric
and three attributes for each point) or packed (all points of a counter in one metric, with one attribute), and sends
them by gRPC as fast as they are accepted. The rate is measured from the first message until the last is answered, and
until the process has ended and all rows are sealed. The comparison, in the same run, is a receiver that only decodes:
grpc and opentelemetry-proto; each message is dropped.

--paced: 512 depths per millisecond for SECONDS, from a sender that buffers only a second of messages, as exporters do;
prints what happened to each point, and the memory of the collector.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import machine, spread

CORES = sorted(os.sched_getaffinity(0))
MBURST = Path(sys.executable).parent / "mburst"
MS = 10**6
PORTS, QUEUES = 64, 8
BEHIND_S = 1
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
    """Returns the command that pins another one to a core, if there are several cores."""
    return ["taskset", "-c", str(CORES[core % len(CORES)])]


def message(milliseconds: int, packed: bool) -> Any:
    """Returns a request with the depths of all queues over some milliseconds."""
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
    """A message that is made once, and sent for many times."""

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
        """Returns the message for a time."""
        for number, point in enumerate(self._points):
            point.time_unix_nano = begin_ns + number // (PORTS * QUEUES) * MS
        return self._request.SerializeToString()


def sent(address: str, messages: list[bytes]) -> tuple[float, int]:
    """Returns (seconds until all are answered, number of refused ones) for messages that are sent one after the
    other."""
    import grpc

    refused = 0
    with grpc.insecure_channel(address) as channel:
        export = channel.unary_unary(EXPORT)
        grpc.channel_ready_future(channel).result(30)
        begin = time.monotonic()
        for one in messages:
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
    """Returns the points per second of a receiver that only decodes."""
    address = free_address()
    process = subprocess.Popen([*pinned(1), sys.executable, "-c", DECODE, address])
    try:
        seconds, _ = sent(address, messages)
        return points / seconds
    finally:
        process.kill()
        process.wait()


def collected(messages: list[bytes], points: int) -> tuple[float, float, float, int, str]:
    """Returns (points per second until all are answered, until all is sealed, CPU seconds, rows stored, output)."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-otlp-") as name:
        folder, address = Path(name), free_address()
        config = folder / "otlp.yaml"
        config.write_text(f"otlp: {{listen: '{address}'}}\nmburst: {{buffer: 1GiB}}\n")
        process = subprocess.Popen(
            [*pinned(1), MBURST, "collect", config, "-o", folder / "store"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        seconds, refused = sent(address, messages)
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
    """Prints both shapes, each compared with a receiver that only decodes."""
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


class PacedSender:
    """Sends a message of 20 ms every 20 ms. Messages that are more than a second late are not sent: `late` counts their
    points. `taken` counts the points that the collector acknowledged; it asked `again` times for a message to be sent
    again."""

    def __init__(self, address: str) -> None:
        self.made, self.address = Messages(20, packed=True), address
        self.offered = self.taken = self.refused = self.late = self.again = 0

    def run(self, seconds: int, look: Callable[[], None]) -> None:
        """Sends for the given time; calls LOOK every ten seconds."""
        import grpc

        with grpc.insecure_channel(self.address) as channel:
            self._export = channel.unary_unary(EXPORT)
            grpc.channel_ready_future(channel).result(30)
            begin, begin_ns = time.monotonic(), time.time_ns() // MS * MS
            for number in range(seconds * 50):
                due = begin + number * 0.02
                time.sleep(max(0.0, due - time.monotonic()))
                self.offered += self.made.points
                if time.monotonic() > due + BEHIND_S or not self._sent(begin_ns + number * 20 * MS, due + BEHIND_S):
                    self.late += self.made.points
                if number % 500 == 0:
                    look()

    def _sent(self, at_ns: int, until: float) -> bool:
        """Returns whether the collector answered in time."""
        import grpc
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

        one = self.made.at(at_ns)
        while True:
            try:
                answer = metrics_service_pb2.ExportMetricsServiceResponse.FromString(self._export(one, timeout=60))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                self.again += 1
                if time.monotonic() > until:
                    return False
                time.sleep(0.1)
                continue
            rejected = answer.partial_success.rejected_data_points
            self.refused += rejected
            self.taken += self.made.points - rejected
            return True


def pace(seconds: int) -> None:
    """Prints what happens to 512 depths per millisecond: each point is stored, refused, or counted as lost."""
    with tempfile.TemporaryDirectory(prefix="mburst-bench-otlp-") as name:
        folder, sender, memory = Path(name), PacedSender(free_address()), []
        config, store = folder / "otlp.yaml", folder / "store"
        config.write_text(f"otlp: {{listen: '{sender.address}'}}\nmburst: {{buffer: 64MiB}}\n")  # soon full
        process = subprocess.Popen(
            [*pinned(1), MBURST, "collect", config, "-o", store], stdout=subprocess.PIPE, text=True
        )
        status = Path(f"/proc/{process.pid}/statm")
        sender.run(
            seconds, lambda: memory.append(int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20)
        )
        process.send_signal(2)
        _, _, usage = os.wait4(process.pid, 0)
        assert process.stdout
        stored, lost = rows(store), dropped(store)
        print(process.stdout.read(), end="")
    third = max(1, len(memory) // 3)
    thirds = [memory[:third], memory[third:-third] or memory, memory[-third:]]
    print(
        f"| {sender.offered:,} points in {seconds} s | {stored:,} stored | {sender.refused:,} refused "
        f"| {lost:,} lost by the collector, and counted | {sender.late:,} not sent, {BEHIND_S} s late; "
        f"{sender.again:,} messages to be sent again | {usage.ru_utime + usage.ru_stime:.0f} s of CPU "
        f"| memory in MiB, median (most), by thirds: {', '.join(map(middle, thirds))}; {usage.ru_maxrss >> 10} ever |"
    )
    missing = sender.offered - stored - sender.refused - lost - sender.late
    print("every point is stored or counted" if not missing else f"NOT COUNTED: {missing:,} points")


def middle(found: list[int]) -> str:
    return f"{statistics.median(found):.0f} ({max(found)})"


def dropped(store: Path) -> int:
    """Returns the points that were lost after their receipt, as `gnmi_events` counts them."""
    from mburst.sql import StoreFolder

    [(found,)] = StoreFolder.open(store).connect().execute(
        "SELECT coalesce(sum(amount), 0) FROM gnmi_events WHERE event IN ('dropped', 'not-understood', 'not-mapped')"
    ).fetchall()  # fmt: skip
    return int(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=150, help="of 20 ms, 10,240 points each")
    parser.add_argument("--paced", type=int, metavar="SECONDS", help="512,000 points a second instead")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {CORES[0]})  # the collector has a core to itself
    print(f"otlp: {machine()}; median (least) of {arguments.rounds} rounds")
    if arguments.paced:
        pace(arguments.paced)
    else:
        compare(arguments.rounds, arguments.messages)


if __name__ == "__main__":
    main()
