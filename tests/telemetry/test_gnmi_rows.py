"""Notifications become rows: windows, counters, gaps, deletes, and impossible values."""

from __future__ import annotations

import pytest
from gnmilib import T0, Fed, S, notification, value
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.sql.tables import arrow_schema
from mburst.telemetry import tables
from mburst.telemetry.gnmi import messages
from mburst.telemetry.tables import (
    QUALITY_GAP,
    QUALITY_GNMI_DUPLICATES,
    QUALITY_GUESSED,
    QUALITY_IMPOSSIBLE,
    QUALITY_RESET,
)

Q = "/qos/interfaces/interface[interface-id=Ethernet1]/output/queues/queue[name=3]/state/"
C = "/interfaces/interface[name=Ethernet1]/state/counters/"
N = "/lldp/interfaces/interface[name=Ethernet1]/neighbors/neighbor[id=1]"


@pytest.mark.parametrize(
    "table", ["queues", "ports", "buffers", "links", "gnmi_values", "gnmi_events", "device_clocks"]
)
def test_tables_equal_those_of_the_store(table):
    mine, stored = getattr(tables, table.upper()), arrow_schema(table)
    assert [(field.name, field.type) for field in mine] == [(field.name, field.type) for field in stored]


def test_leaves_of_one_time_are_one_row_in_any_number_of_messages():
    leaves = {Q + "max-queue-len": 5000, Q + "avg-queue-len": 100, Q + "dropped-pkts": 7}
    together = Fed().feed(notification(T0, leaves), notification(T0 + S, {**leaves, Q + "dropped-pkts": 9}))
    apart = Fed()
    for ts_ns, dropped in ((T0, 7), (T0 + S, 9)):
        for path, given_ in {**leaves, Q + "dropped-pkts": dropped}.items():
            apart.feed(notification(ts_ns, {path: given_}))
    rows = together.take()["queues"]
    assert rows == apart.take()["queues"]
    first, second = rows
    assert (first["max_bytes"], first["avg_bytes"], first["dropped_packets"]) == (5000, 100, None)
    assert (second["window_start_ns"], second["ts_ns"], second["receive_ns"]) == (T0, T0 + S, T0 + S + 1000)
    assert second["dropped_packets"] == 2 and second["semantics"] == "gauge" and second["quality"] == 0
    assert (second["device"], second["port"], second["queue"]) == ("tor", "Ethernet1", "3")


def test_gauges_typed_as_counters_are_never_deltas():
    rows = (
        Fed()
        .feed(
            *(notification(T0 + i * S, {Q + "max-queue-len": depth}) for i, depth in enumerate([9000, 100, 2**32 + 1]))
        )
        .take()["queues"]
    )
    assert [row["max_bytes"] for row in rows] == [9000, 100, 2**32 + 1]


def test_json_ietf_is_read_like_protobuf():
    tree = {"openconfig-qos:queue": [{"name": "3", "state": {"max-queue-len": "5000", "dropped-pkts": "7"}}]}
    path = "/qos/interfaces/interface[interface-id=Ethernet1]/output/queues"
    found = Fed().feed(notification(T0, {path: tree})).take()["queues"]
    scalar = messages.TypedValue(json_ietf_val=b'"5000"')
    by_leaf = Fed().feed(notification(T0, {Q + "max-queue-len": scalar})).take()["queues"]
    assert found[0]["max_bytes"] == by_leaf[0]["max_bytes"] == 5000 and found[0]["queue"] == "3"


def test_the_prefix_and_the_module_names_make_no_difference():
    prefix = "openconfig:/openconfig-qos:qos/interfaces/interface[interface-id=Ethernet1]/output"
    made = notification(T0, {"/queues/queue[name=3]/state/max-queue-len": 5000}, prefix=prefix, target="x")
    assert Fed().feed(made).take()["queues"][0]["max_bytes"] == 5000


def test_the_port_of_an_interface_id_may_be_sent_later():
    reference = "/qos/interfaces/interface[interface-id=Ethernet1]/interface-ref/state/interface"
    rows = (
        Fed()
        .feed(
            notification(T0, {Q + "max-queue-len": 1}),
            notification(T0 + 1, {reference: "Ethernet1/1"}),
            notification(T0 + S, {Q + "max-queue-len": 2}),
        )
        .take()["queues"]
    )
    assert {row["port"] for row in rows} == {"Ethernet1/1"}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 2**34), min_size=2, max_size=30), st.integers(0, 2**64 - 1))
def test_increases_add_up(steps, start):
    """Whatever a counter of 64 bits counts, by the link's speed: the rows add up to it, over a wrap too."""
    total, made = start % 2**64, []
    for i, step in enumerate([0, *steps]):
        total = (total + step) % 2**64
        made.append(notification(T0 + i * S, {C + "out-octets": total}))
    rows = Fed(speeds={"Ethernet1": 400 * 10**9}).feed(*made).take()["ports"]
    assert sum(row["out_bytes"] for row in rows) == sum(steps) and not any(row["quality"] for row in rows)


def test_a_reset_is_detected_by_boot_time_last_clear_and_value():
    def rows(*extra: object) -> list[dict]:
        fed = Fed().feed(notification(T0, {C + "out-octets": 1000}), *extra)
        return fed.feed(notification(T0 + S, {C + "out-octets": 1500})).take()["ports"]

    assert [(row["out_bytes"], row["quality"]) for row in rows()] == [(500, 0)]
    boot = notification(T0 + S // 2, {"/system/state/boot-time": T0 + S // 4})
    clear = notification(T0 + S // 2, {C + "last-clear": T0 + S // 4})
    for reason in (boot, clear):
        assert [(row["out_bytes"], row["quality"]) for row in rows(reason)] == [(1500, QUALITY_RESET)]
    by_size = Fed().feed(notification(T0, {C + "out-octets": 10**12}), notification(T0 + S, {C + "out-octets": 70}))
    taken = by_size.take()
    assert [(row["out_bytes"], row["quality"]) for row in taken["ports"]] == [(70, QUALITY_RESET)]
    assert [(row["event"], row["amount"]) for row in taken["gnmi_events"]] == [("reset", 1)]


def test_impossible_values_of_a_port_are_stored_and_flagged():
    """SONiC builds have been seen to report 458 Gb/s for a port of 100 Gb/s."""
    speed = "/interfaces/interface[name=Ethernet1]/ethernet/state/port-speed"
    second = 100 * 10**9 // 8
    fed = Fed().feed(
        notification(T0, {speed: "openconfig-if-ethernet:SPEED_100GB", C + "out-octets": 0}),
        notification(T0 + S, {C + "out-octets": second}),
        notification(T0 + 2 * S, {C + "out-octets": second + 458 * second // 100}),
        notification(T0 + 2 * S, {Q + "transmit-octets": 5, Q + "max-queue-len": 2**64 - 1}),
        notification(
            T0 + 3 * S, {Q + "transmit-octets": 5 + 2 * second, Q + "avg-queue-len": 8, Q + "max-queue-len": 4}
        ),
    )
    taken = fed.take()
    assert [(row["out_bytes"], row["link_bps"], row["quality"]) for row in taken["ports"]] == [
        (None, 10**11, 0),
        (second, None, 0),
        (458 * second // 100, None, QUALITY_IMPOSSIBLE),
    ]
    assert [(row["max_bytes"], row["quality"]) for row in taken["queues"]] == [
        (None, QUALITY_IMPOSSIBLE),
        (4, QUALITY_IMPOSSIBLE),
    ]


def test_a_gap_is_flagged_in_the_next_window():
    fed = Fed().feed(notification(T0, {Q + "max-queue-len": 1}))
    fed.stream.resume(T0 + 59 * S)
    rows = fed.feed(*(notification(T0 + i * S, {Q + "max-queue-len": i}) for i in (60, 61))).take()["queues"]
    assert [(row["window_start_ns"] - T0, row["quality"]) for row in rows[1:]] == [(0, QUALITY_GAP), (60 * S, 0)]


def test_a_gap_is_flagged_in_every_window_that_contains_it():
    """This includes windows of leaves that come in rows of their own."""
    fed = Fed().feed(notification(T0, {Q + "max-queue-len": 1}), notification(T0 + 1, {Q + "dropped-pkts": 1}))
    fed.stream.resume(T0 + 59 * S)
    later = T0 + 60 * S
    fed.feed(notification(later, {Q + "max-queue-len": 1}), notification(later + 1, {Q + "dropped-pkts": 3}))
    assert [row["quality"] for row in fed.take()["queues"]] == [0, QUALITY_GAP, QUALITY_GAP]


def test_duplicates_are_counted_and_flagged():
    made = notification(T0, {Q + "max-queue-len": 1}, duplicates=3)
    taken = Fed().feed(made, notification(T0, {"/x/y": 1}, duplicates=4)).take()
    assert taken["queues"][0]["quality"] == QUALITY_GNMI_DUPLICATES and taken["gnmi_values"][0]["duplicates"] == 4
    assert [(row["event"], row["amount"]) for row in taken["gnmi_events"]] == [("duplicates", 7)]


def test_unknown_paths_are_stored_by_name_and_value():
    rows = (
        Fed().feed(notification(T0, {"/x/y[k=a/b]/z": "hello", "/x/w": {"a": [1, 2], "b": None}})).take()["gnmi_values"]
    )
    found = {row["path"]: (row["value"], row["kind"]) for row in rows}
    assert found == {"/x/y[k=a/b]/z": ("hello", "string"), "/x/w/a": ("[1, 2]", "list"), "/x/w/b": ("", "none")}


def test_deletes_can_be_whole_branches():
    fed = Fed().feed(
        notification(T0, {"/x/a": 1, "/x/b": 2, "/y": 3, Q + "dropped-pkts": 10}),
        notification(T0 + 1, {}, deletes=["/x", Q]),
        notification(T0 + 2, {}, deletes=["/x"]),
        notification(T0 + S, {Q + "dropped-pkts": 4, Q + "max-queue-len": 1}),
    )
    taken = fed.take()
    assert [row["path"] for row in taken["gnmi_values"] if row["deleted"]] == ["/x/a", "/x/b"]
    assert taken["queues"][-1]["dropped_packets"] is None  # a queue that was created again counts from its start


def test_atomic_replaces_all_under_its_prefix():
    fed = Fed().feed(
        notification(T0, {"/a": 1, "/b": 2}, prefix="/top"),
        notification(T0, {"/other": 1}),
        notification(T0 + 1, {"/b": 3, "/c": {"d": 4}}, prefix="/top", atomic=True),
        notification(T0 + 2, {"/b": 3}, prefix="/top", atomic=True),
    )
    gone = [(row["path"], row["ts_ns"]) for row in fed.take()["gnmi_values"] if row["deleted"]]
    assert gone == [("/top/a", T0 + 1), ("/top/c/d", T0 + 2)]


def test_neighbours_are_links_that_come_and_go():
    fed = Fed(speeds={"Ethernet1": 25 * 10**9})
    fed.feed(notification(T0, {N + "/state/system-name": "cache-1", N + "/state/port-id": "eth0"}))
    fed.feed(notification(T0 + 1, {N + "/state/system-name": "cache-1", N + "/state/port-id": "eth0"}))
    fed.feed(notification(T0 + 2, {N + "/state/port-id": "eth1"}), notification(T0 + 3, {}, deletes=[N]))
    rows = [
        (row["host"], row["interface"], row["port"], row["present"], row["rack"], row["link_bps"])
        for row in fed.take()["links"]
    ]
    at = ("Ethernet1",)
    assert rows == [
        ("cache-1", "eth0", *at, True, "r1", 25 * 10**9),
        ("cache-1", "eth0", *at, False, "r1", 25 * 10**9),
        ("cache-1", "eth1", *at, True, "r1", 25 * 10**9),
        ("cache-1", "eth1", *at, False, "r1", 25 * 10**9),
    ]


def test_neighbours_that_left_during_a_gap_are_gone():
    second = N.replace("id=1", "id=2") + "/state/system-name"
    fed = Fed().feed(notification(T0, {N + "/state/system-name": "cache-1", second: "cache-2"}))
    fed.stream.resume(T0 + 60 * S)
    fed.feed(notification(T0 + 61 * S, {second: "cache-2"}))
    fed.stream.sync()
    fed.stream.sync()  # a second sync adds no row
    assert [(row["host"], row["present"]) for row in fed.take()["links"]] == [
        ("cache-1", True), ("cache-2", True), ("cache-1", False)]  # fmt: skip


def test_invalid_times_are_reported():
    taken = Fed().feed(notification(1_795_000_000, {Q + "max-queue-len": 1}), late_ns=T0).take()
    assert taken["queues"][0]["ts_ns"] == T0 + 1_795_000_000
    assert "invalid timestamp" in taken["gnmi_events"][0]["detail"]


def test_an_older_value_that_comes_late_does_not_count():
    rows = Fed().feed(
        notification(T0, {C + "out-octets": 10}),
        notification(T0 + 2 * S, {C + "out-octets": 30}),
        notification(T0 + S, {C + "out-octets": 20}),
        notification(T0 + 3 * S, {C + "out-octets": 40}),
    )
    assert [(row["ts_ns"] - T0, row["out_bytes"]) for row in rows.take()["ports"]] == [(2 * S, 20), (3 * S, 10)]


def test_text_in_place_of_a_number_is_reported():
    taken = Fed().feed(notification(T0, {Q + "max-queue-len": value("n/a"), Q + "avg-queue-len": 4})).take()
    assert taken["queues"][0]["avg_bytes"] == 4 and taken["queues"][0]["max_bytes"] is None
    [only_event] = taken["gnmi_events"]
    assert only_event["event"] == "not-understood" and only_event["detail"].endswith("/max-queue-len: not a number")


def test_the_clock_offset_is_estimated_and_never_applied():
    fed = Fed()
    fed.device.rtt_ns = 400
    for i, late in enumerate((-5_000_000, -4_999_000, -4_000_000)):  # the device is 5 ms ahead
        fed.feed(notification(T0 + i * S, {Q + "max-queue-len": i}), late_ns=late)
    fed.device.estimate_clock(T0)
    taken = fed.take()
    [clock] = taken["device_clocks"]
    assert (clock["messages"], clock["least_lag_ns"], clock["largest_lag_ns"]) == (3, -5_000_000, 0)
    assert (clock["offset_ns"], clock["uncertainty_ns"]) == (5_000_200, 200)
    assert [row["ts_ns"] for row in taken["queues"]] == [T0, T0 + S, T0 + 2 * S]


def test_chip_buffers():
    memory = "/components/component[name=chip]/integrated-circuit/pipeline-counters/packet/queueing-block/state/"
    [row] = (
        Fed().feed(notification(T0, {memory + "queue-memory-used": 90, memory + "queue-memory": 80})).take()["buffers"]
    )
    assert (row["component"], row["resource"]) == ("chip", "queue-memory")
    assert (row["used_bytes"], row["limit_bytes"]) == (90, 80)
    assert row["semantics"] == "gauge" and row["quality"] == QUALITY_IMPOSSIBLE


def test_a_boot_time_in_seconds_shows_a_reset_too():
    """openconfig-system had seconds up to 2018, and so have devices that follow it."""
    fed = Fed()
    for boot in ((T0 + S) // 10**9, T0 + S):
        fed.feed(notification(T0, {"/system/state/boot-time": boot}))
        assert abs(fed.device.boot_ns - (T0 + S)) < S and fed.device.reset_since("any", T0 - S)


def test_entries_of_a_resource_are_not_bytes():
    used = "/components/component[name=chip]/integrated-circuit/utilization/resources/resource[name=acl]/state/"
    taken = Fed().feed(notification(T0, {used + "used": 10, used + "high-watermark": 90})).take()
    assert not taken.get("buffers")
    assert {row["path"].rpartition("/")[2]: row["value"] for row in taken["gnmi_values"]} == {
        "used": "10", "high-watermark": "90"}  # fmt: skip


def test_the_window_of_the_first_maximum_is_guessed():
    rows = Fed("mburst", interval_ns=10**7).feed(notification(T0, {Q + "max-queue-len": 7})).take()["queues"]
    assert (rows[0]["semantics"], rows[0]["window_start_ns"], rows[0]["quality"]) == (
        "max-since-last",
        T0 - 10**7,
        QUALITY_GUESSED,
    )
