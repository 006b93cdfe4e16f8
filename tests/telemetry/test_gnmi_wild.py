"""Anything that a device sends is accepted: no notification makes the decoder fail, and every value is stored or
counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gnmilib import T0, Fed, S, notification
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mburst.sql.writer import conform
from mburst.telemetry.gnmi import messages
from mburst.telemetry.gnmi.path import as_message, parse

KNOWN = [
    "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=0]/state/max-queue-len",
    "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=0]/state/transmit-octets",
    "/qos/interfaces/interface[interface-id=e1]/interface-ref/state/interface",
    "/interfaces/interface[name=e1]/state/counters/out-octets",
    "/interfaces/interface[name=e1]/state/counters/last-clear",
    "/interfaces/interface[name=e1]/ethernet/state/port-speed",
    "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id=1]/state/system-name",
    "/system/state/boot-time",
    "/LANZ/congestion/congestionRecord",
    "/LANZ/config/configRecord",
    "/COUNTERS/Ethernet0",
    "/COUNTERS/Ethernet*/Queues",
    "/qos",
    "/",
    "/x",
]
NAMES = st.sampled_from(
    ["intfName", "trafficClass", "queueSize", "timestamp", "entryType", "segmentSize", "SAI_PORT_STAT_IF_IN_OCTETS",
     "Ethernet0:1", "queue", "name", "state", "m:x", "", "\ud800"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5) | st.just("12"),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), below, max_size=4),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = st.one_of(
    st.builds(lambda number: messages.TypedValue(uint_val=number), st.integers(0, 2**64 - 1)),
    st.builds(lambda number: messages.TypedValue(int_val=number), st.integers(-(2**63), 2**63 - 1)),
    st.builds(lambda number: messages.TypedValue(double_val=number), st.floats()),
    st.builds(lambda text: messages.TypedValue(string_val=text), TEXT),
    st.builds(lambda data: messages.TypedValue(bytes_val=data), st.binary(max_size=6)),
    st.builds(lambda data: messages.TypedValue(json_ietf_val=data), st.binary(max_size=6)),
    st.builds(lambda tree: messages.TypedValue(json_val=json.dumps(tree).encode()), JSON),
    st.just(messages.TypedValue()),
)  # fmt: skip
TIMES = st.sampled_from([0, -5, 1_795_000_000, T0, T0 + 1, T0 + S, T0 + 2 * S, 2**63 - 1])


@st.composite
def notifications(draw: Any) -> Any:
    updates = {draw(st.sampled_from(KNOWN)): draw(VALUES) for _ in range(draw(st.integers(0, 4)))}
    deletes = draw(st.lists(st.sampled_from(KNOWN), max_size=2))
    prefix = draw(st.sampled_from(["", "/", "/qos", "openconfig:/x"]))
    return notification(draw(TIMES), updates, deletes=deletes, prefix=prefix, atomic=draw(st.booleans()),
                        duplicates=draw(st.sampled_from([0, 0, 3])))  # fmt: skip


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(notifications(), max_size=6), st.sampled_from(["", "arista", "sonic", "srlinux", "juniper"]))
def test_nothing_makes_it_fail(made, vendor):
    fed = Fed(vendor)
    for one in made:
        fed.stream.feed(messages.ReadNotification.FromString(one.SerializeToString()), T0 + S)
    fed.stream.resume(T0)
    fed.stream.sync()
    fed.device.report(T0)
    fed.device.estimate_clock(T0)
    for table, rows in fed.rows.take():
        stored = conform(rows, table, None)
        stored.validate(full=True)
        if "ts_ns" in stored.column_names and "window_start_ns" in stored.column_names:
            for start, end in zip(stored["window_start_ns"].to_pylist(), stored["ts_ns"].to_pylist(), strict=True):
                assert start <= end


def test_json_that_is_nested_too_deeply_is_reported():
    deep = messages.TypedValue(json_val=b"[" * 100_000 + b"]" * 100_000)
    rows = Fed().feed(notification(T0, {"/a": deep, "/b": 1})).take()
    assert [row["path"] for row in rows["gnmi_values"]] == ["/b"] and "nested" in rows["gnmi_events"][0]["detail"]


@pytest.mark.parametrize(
    "path", ["/a", "/qos/interfaces/interface[interface-id=e]/output/queues/queue[name=1]/state/x"]
)
def test_a_path_without_a_value_is_stored(path):
    bare = messages.Notification(timestamp=T0, update=[messages.Update(path=as_message(parse(path)))])
    assert Fed().feed(bare).take()["gnmi_values"][0]["kind"] == "none"
