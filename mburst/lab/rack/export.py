"""The switch's exporter: sends the readings of its sampler (sample.py) by OTLP, in the form of SONiC's countersyncd.

Each counter is a metric, named by SAI's numbers. Each metric, including running totals, is a gauge with one point; the
object is an attribute. A message that the collector cannot take yet is sent again, as exporters do.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc

from . import role
from .namespaces import enter
from .sample import READING, Sampled

READINGS = 50  # in one message
PATIENCE_S = 10.0
AGAIN_S = 0.1
IN_OCTETS, OUT_OCTETS, OCCUPANCY = (1, 0), (1, 9), (21, 24)  # SAI's object types and the numbers of their counters


def message(device: str, port: str, readings: list[tuple[int, ...]]) -> Any:
    """Returns the request for some readings."""
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key="host.name").value.string_value = device
    metrics = resource.scope_metrics.add().metrics
    for carried_ns, octets_in, octets_out, waiting_ns, waiting in readings:
        for (kind, counter), of, at_ns, value in (
            (IN_OCTETS, port, carried_ns, octets_in),
            (OUT_OCTETS, port, carried_ns, octets_out),
            (OCCUPANCY, f"{port}|0", waiting_ns, waiting),
        ):
            metric = metrics.add(name=f"sai_counter_type_{kind}_stat_{counter}", description="SAI counter statistic")
            point = metric.gauge.data_points.add(time_unix_nano=at_ns, as_int=value)
            for key, text in (("object_name", of), ("sai_type_id", str(kind)), ("sai_stat_id", str(counter))):
                point.attributes.add(key=key).value.string_value = text
    return request


def send(service: Any, request: Any) -> None:
    """Send a request until it is accepted. Raises grpc.RpcError."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = service.Export(request, timeout=PATIENCE_S, wait_for_ready=True)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > give_up:
                raise
            time.sleep(AGAIN_S)
            continue
        if answer.partial_success.rejected_data_points:
            raise SystemExit(f"the collector refused points: {answer.partial_success.error_message}")
        return


def readings_of(sampler: subprocess.Popen[bytes]) -> Iterator[list[tuple[int, ...]]]:
    """Yields READINGS readings at a time, and the remaining ones when the owner asks for the end."""
    assert sampler.stdout
    waiting = b""
    while not (role.stop_requested() or sampler.poll()):
        if not select.select([sampler.stdout], [], [], 0.05)[0]:
            continue
        waiting += sampler.stdout.read1(READINGS * READING.size - len(waiting))  # type: ignore[attr-defined]
        if len(waiting) == READINGS * READING.size:
            yield list(READING.iter_unpack(waiting))
            waiting = b""
    if sampler.poll() is not None:
        raise SystemExit("the sampler ended")  # the sampler has printed why
    sampler.terminate()
    waiting += sampler.stdout.read()
    if whole := len(waiting) // READING.size * READING.size:
        yield list(READING.iter_unpack(waiting[:whole]))


def main() -> None:
    config = role.begin()
    enter(config["namespace"])
    sampled = Sampled()
    command = role.python_command("sample", config["port"], str(config["limit_s"]))
    with (
        grpc.insecure_channel(config["address"]) as channel,
        subprocess.Popen(command, env=role.python_environment(), stdout=subprocess.PIPE, stderr=sys.stderr) as sampler,
    ):
        service: Any = metrics_service_pb2_grpc.MetricsServiceStub(channel)  # type: ignore[no-untyped-call]
        try:
            for readings in readings_of(sampler):
                send(service, message(config["device"], config["port"], readings))
                if not sampled.readings:
                    role.ready()
                sampled.add([reading[0] for reading in readings])
        finally:
            sampler.terminate()
    role.report([sampled.readings, sampled.late, sampled.missed, sampled.longest_ns])


if __name__ == "__main__":
    main()
