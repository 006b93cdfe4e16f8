"""The gNMI features that the switch agent promises: modes, encodings, times of samples, and refusals."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gnmilib import agent, collect, heard, lines_so_far, messages, query

from mburst.gnmi_target.requests import LEAST_HEARTBEAT_NS


def test_unsupported_paths_intervals_and_encodings_are_one_line_each(tmp_path):
    with agent("lo") as (address, _):
        text = f"""
targets: {{a: {{address: "{address}", insecure: true}}}}
subscriptions:
  good: {{paths: [/interfaces], stream-mode: sample, sample-interval: 50ms}}
  path: {{paths: [/network-instances]}}
  interval: {{paths: [/qos/interfaces], stream-mode: sample, sample-interval: 1ms}}
  encoding: {{paths: [/qos/interfaces], encoding: bytes}}
"""
        printed = collect(
            tmp_path, text, lambda collector: len(lines_so_far(collector)) >= 3 and heard(collector, "a") > 50
        )
    assert sorted(printed) == [
        "a: encoding: not implemented by the target: the encoding BYTES is not supported: use PROTO, JSON_IETF, JSON",
        "a: interval: a sample interval of 1 ms is not supported: 10 ms is the shortest",
        "a: path: the path /network-instances is not supported: this agent serves /interfaces, /qos, /lldp, /system",
    ]


def test_too_frequent_heartbeats_are_refused():
    import grpc

    change = messages.STREAM_MODES.index("ON_CHANGE")
    with agent("lo") as (address, _):
        for interval in (1, 10**6, LEAST_HEARTBEAT_NS - 1):
            with pytest.raises(grpc.RpcError) as refused:
                ask(address, "STREAM", mode=change, heartbeat_interval=interval)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "heartbeat interval" in refused.value.details()


def ask(address: str, list_mode: str, encoding: str = "PROTO", polls: int = 0, **options: Any) -> list[Any]:
    """Returns the responses to one subscription to the counters of lo."""
    import grpc

    from mburst.telemetry.gnmi.path import as_message, parse

    wanted = messages.SubscriptionList(
        mode=messages.LIST_MODES.index(list_mode), encoding=messages.ENCODINGS.index(encoding)
    )
    wanted.subscription.add(path=as_message(parse("/interfaces/interface[name=lo]/state/counters")), **options)

    def requests() -> Any:
        yield messages.SubscribeRequest(subscribe=wanted)
        for _ in range(polls):
            yield messages.SubscribeRequest(poll={})

    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString, messages.SubscribeResponse.FromString
        )
        return list(call(requests(), timeout=10))


def test_once_poll_and_encodings():
    with agent("lo") as (address, _):
        once = ask(address, "ONCE")
        assert [response.WhichOneof("response") for response in once] == ["update", "sync_response"]
        names = [update.path.elem[-1].name for update in once[0].update.update]
        assert {"in-octets", "out-octets", "in-pkts", "out-discards", "carrier-transitions"} <= set(names)
        assert once[0].update.update[0].val.WhichOneof("value") == "uint_val"
        in_json = ask(address, "ONCE", "JSON_IETF")[0].update.update[0].val.json_ietf_val
        assert in_json.startswith(b'"') and in_json.strip(b'"').isdigit()
        polled = ask(address, "POLL", polls=2)
        assert [response.WhichOneof("response") for response in polled] == ["update", "sync_response"] * 3


def streamed(address: str, seconds: float, **options: Any) -> list[Any]:
    """Returns the kinds of responses of a stream of the host's name in a time."""
    import grpc

    from mburst.telemetry.gnmi.path import as_message, parse

    wanted = messages.SubscriptionList(encoding=messages.ENCODINGS.index("PROTO"))
    wanted.subscription.add(path=as_message(parse("/system/state/hostname")), **options)
    found = []
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString, messages.SubscribeResponse.FromString
        )
        try:
            for response in call(iter([messages.SubscribeRequest(subscribe=wanted)]), timeout=seconds):
                found.append(response.WhichOneof("response"))
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED, error
    return found


def test_unchanged_values_are_sent_as_requested():
    sample, change = messages.STREAM_MODES.index("SAMPLE"), messages.STREAM_MODES.index("ON_CHANGE")
    with agent("lo") as (address, _):
        beaten = streamed(address, 1.5, mode=sample, sample_interval=10**7, suppress_redundant=True)
        assert beaten == ["update", "sync_response"]
        beaten = streamed(address, 2, mode=sample, sample_interval=10**7, suppress_redundant=True,
                          heartbeat_interval=4 * 10**8)  # fmt: skip
        assert 3 <= len(beaten) <= 2 + 2 / 0.4
        assert streamed(address, 1.5, mode=change) == ["update", "sync_response"]
        assert 3 <= len(streamed(address, 2, mode=change, heartbeat_interval=4 * 10**8)) <= 2 + 2 / 0.4


def test_samples_come_at_multiples_of_the_interval(tmp_path: Path):
    """The timer is exact: over two seconds the mean interval is the requested one, and windows are contiguous."""
    with agent("lo") as (address, _):
        text = (
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
            "subscriptions: {c: {paths: [/qos/interfaces], stream-mode: sample, sample-interval: 10ms}}\n"
        ).replace("/qos", "")
        begun = time.monotonic()
        collect(tmp_path, text, lambda collector: time.monotonic() - begun > 2)
    rows = query(tmp_path, "SELECT window_start_ns, ts_ns FROM ports WHERE out_bytes IS NOT NULL ORDER BY ts_ns")
    assert all(start == end for (_, end), (start, _) in pairwise(rows))
    assert 20 < len(rows) - 1 <= (rows[-1][1] - rows[0][1]) / 10**7 + 2  # never more often; less, on a busy machine
