"""Windows of gNMI values have what was counted in them, once: with several subscriptions and steps of clocks."""

from __future__ import annotations

from typing import Any

import pytest
from gnmilib import T0, Fed, S, notification, read, value
from storelib import rows

from mburst.sql import views
from mburst.telemetry.gnmi.decode import UpdateStream
from mburst.telemetry.tables import QUALITY_RESET

Q = "/qos/interfaces/interface[interface-id=Ethernet1]/output/queues/queue[name=3]/state/"
ALWAYS = "-9223372036854775808, 9223372036854775807"


def counted(found: list[dict[str, Any]], column: str) -> int:
    """Returns the sum of a column of rows of `queues`, as the store's macro has it."""
    with views.in_memory() as con:
        con.register("given", rows("queues", *found))
        [(total,)] = con.sql(f"SELECT total({column}) FROM believable_windows('given', {ALWAYS})").fetchall()
    return int(total)


@pytest.mark.parametrize("periods", [(10, 10), (10, 20), (10, 30), (20, 50), (10, 100), (10, 0)])
def test_drops_of_two_subscriptions_count_once(periods: tuple[int, int]) -> None:
    """The second subscription is of the same or another interval, or on change (0)."""
    fed = Fed()
    streams = [fed.stream, UpdateStream(fed.device, "t")]
    for k in range(601):
        dropped = k // 7 * 5
        for stream, period, first in zip(streams, periods, (0, 3 if periods[1] else 0), strict=True):
            if k % (period or 7) == first:
                stream.feed(read(notification(T0 + k * S // 10, {Q + "dropped-pkts": dropped})), T0 + k * S // 10)
    streams[1].flush()
    assert counted(fed.take()["queues"], "dropped_packets") == 600 // 7 * 5


def drops(fed: Fed, *times: tuple[float, float]) -> Fed:
    """Feeds a counter of drops, 10 a second, at (time of the device, time of receipt) in seconds."""
    for at, came in times:
        dropped = value(round(came * 10) + 10**6)
        fed.stream.feed(read(notification(T0 + round(at * S), {Q + "dropped-pkts": dropped})), T0 + round(came * S))
    return fed


def windows(fed: Fed) -> list[tuple[float, float, int]]:
    """Returns begin and end in seconds, and the drops of each row."""
    return [
        ((row["window_start_ns"] - T0) / S, (row["ts_ns"] - T0) / S, row["dropped_packets"])
        for row in fed.take()["queues"]
    ]


@pytest.mark.parametrize("back", [63.3, 600.3, 3600.3])
def test_counters_go_on_after_the_clock_of_a_device_was_set_back(back: float) -> None:
    """What was counted between the step and the first value after it is not known. The values of the hour were ignored,
    and then all of them were counted in one second. The new windows lie among those from before the step."""
    step = round(back) + 10
    fed = drops(Fed(), *((k, k) for k in range(step)), *((k - back, k) for k in range(step, 2 * step)))
    found = fed.take()["queues"]
    lengths = {(row["ts_ns"] - row["window_start_ns"], row["dropped_packets"]) for row in found}
    assert lengths == {(S, 10)} and len(found) == 2 * (step - 1)
    assert counted(found, "dropped_packets") == 20 * (step - 1)


@pytest.mark.parametrize("back", [0.5, 2, 5, 59])
def test_nothing_is_lost_if_the_clock_of_a_device_is_set_back_by_less_than_a_minute(back: float) -> None:
    fed = drops(Fed(), *((k, k) for k in range(100)), *((k - back, k) for k in range(100, 200)))
    assert counted(fed.take()["queues"], "dropped_packets") == 1990


@pytest.mark.parametrize("ahead", [1.5, 2.5, 5, 20])
def test_nothing_is_lost_if_one_time_is_ahead(ahead: float) -> None:
    fed = drops(Fed(), *((k + ahead * (k == 10), k) for k in range(41)))
    assert counted(fed.take()["queues"], "dropped_packets") == 400


@pytest.mark.parametrize("late", [0.5, 1.5, 5, 15])
def test_one_counter_with_two_delays_counts_once(late: float) -> None:
    """It comes each second as of LATE seconds before, and each ten seconds as of now."""
    sent = [(k - late, k) for k in range(60)] + [(k + 0.1, k + 0.1) for k in range(0, 60, 10)]
    fed = Fed()
    for at, came in sorted(sent, key=lambda times: times[1]):
        dropped = {Q + "dropped-pkts": 10**6 + round(at * 10)}
        fed.stream.feed(read(notification(T0 + round(at * S), dropped)), T0 + round(came * S))
    last = max(at for at, _ in sent)
    assert counted(fed.take()["queues"], "dropped_packets") == round(10 * last) + round(10 * late)


def test_one_time_in_the_future_does_not_stop_a_counter() -> None:
    found = windows(drops(Fed(), (0, 0), (1, 1), (10**8, 2), (3, 3), (4, 4), (5, 5)))
    assert found == [(0, 1, 10), (1, 10**8, 10), (3, 4, 10), (4, 5, 10)]


def test_values_that_were_overtaken_count_once() -> None:
    fed = drops(Fed(), (0, 0), (4, 4))
    for late in (1, 2, 3):  # they come at once
        fed.stream.feed(read(notification(T0 + late * S, {Q + "dropped-pkts": 10**6 + late * 10})), T0 + 4 * S + late)
    rows_of = drops(fed, (5, 5)).take()
    assert [row["dropped_packets"] for row in rows_of["queues"]] == [40, 10]
    [event] = rows_of["gnmi_events"]
    assert (event["event"], event["amount"]) == ("dropped", 3) and "older than those before them" in event["detail"]


def test_each_value_is_in_the_window_since_the_value_before_it() -> None:
    """With suppress_redundant, a device sends a counter that is the same again not at all."""
    fed = Fed("mburst")
    for k in range(61):
        dropped = {Q + "dropped-pkts": k} if k in (0, 50, 60) else {}
        fed.feed(notification(T0 + k * S, {Q + "transmit-octets": 1000 * k, Q + "max-queue-len": k, **dropped}))
    found = fed.take()["queues"]
    spans = {
        name: [((row["window_start_ns"] - T0) // S, (row["ts_ns"] - T0) // S) for row in found if row[name] is not None]
        for name in ("dropped_packets", "transmit_bytes", "max_bytes")
    }
    assert spans["dropped_packets"] == [(0, 50), (50, 60)]
    assert spans["transmit_bytes"] == spans["max_bytes"][1:] == [(k, k + 1) for k in range(60)]


def test_cleared_counters_of_an_interface_are_not_those_of_its_queues() -> None:
    """last-clear is of the interface's counters. A queue's counter that has grown was not cleared; one that is smaller
    was, and did not wrap."""
    of_port = "/interfaces/interface[name=Ethernet1]/state/counters/"
    for before, after, expected in ((10**6, 10**6 + 3, (3, 0)), (2**32 - 10, 5, (5, QUALITY_RESET))):
        fed = Fed().feed(
            notification(T0, {Q + "dropped-pkts": before, of_port + "out-octets": 10**12}),
            notification(T0 + S // 2, {of_port + "last-clear": T0 + S // 4}),
            notification(T0 + S, {Q + "dropped-pkts": after, of_port + "out-octets": 10**12 + 1}),
        )
        taken = fed.take()
        assert [(row["dropped_packets"], row["quality"]) for row in taken["queues"]] == [expected]
        assert [(row["out_bytes"], row["quality"]) for row in taken["ports"]] == [(10**12 + 1, QUALITY_RESET)]
