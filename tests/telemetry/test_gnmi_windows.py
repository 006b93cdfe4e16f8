"""Windows of gNMI values have what was counted in them, once: with several subscriptions and steps of clocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from gnmilib import T0, Fed, S, notification, read, value
from storelib import rows

from mburst.sql import views
from mburst.telemetry.gnmi.decode import UpdateStream
from mburst.telemetry.tables import QUALITY_GUESSED, QUALITY_RESET

Q = "/qos/interfaces/interface[interface-id=Ethernet1]/output/queues/queue[name=3]/state/"
WITH_MODULE = "/openconfig-qos:" + Q[1:]
JUNIPER = "/cos/interfaces/interface[name=et-0/0/1]/queues/queue[queue=3]/"
TAIL, RED = JUNIPER + "tailDropPkts", JUNIPER + "redDropPkts"
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


# --- several counters of one column -----------------------------------------------------------------------------------


def sums(fed: Fed) -> tuple[int, list[dict[str, Any]]]:
    """Returns all drops, and the rows with them, after a check that their windows follow each other: then the macro
    leaves none of them out."""
    found = [row for row in fed.take()["queues"] if row["dropped_packets"] is not None]
    assert all(a["ts_ns"] <= b["window_start_ns"] for a, b in pairwise(found))
    return sum(row["dropped_packets"] for row in found), found


@pytest.mark.parametrize("apart", [0, 0.3])
@pytest.mark.parametrize("every", [1, 3, 7, 10, 100])
def test_a_sum_of_two_counters_has_what_both_counted(apart: float, every: int) -> None:
    """Tail drops come each second, drops of RED every EVERY seconds or on change, at the same time or after them. The
    wide window of the one lay over the narrow ones of the other, and was left out."""
    fed = Fed("juniper")
    for k in range(301):
        fed.feed(notification(T0 + k * S, {TAIL: 10 * k}))
        if k % every == 0:
            fed.feed(notification(T0 + k * S + round(apart * S), {RED: k}))
    total, found = sums(fed)
    assert total == 10 * 300 + 300 // every * every
    assert any(row["quality"] & QUALITY_GUESSED for row in found) is bool(every > 1 or apart)
    if not apart:
        assert [row["dropped_packets"] for row in found] == [10 + (k % every == 0) * every for k in range(1, 301)]


@pytest.mark.parametrize("late", [0, 0.5, 3.5, 40])
@pytest.mark.parametrize("every", [1, 3])
def test_what_one_of_two_counters_reports_late_is_in_the_next_window(late: float, every: int) -> None:
    fed = Fed("juniper")
    for k in range(200):
        fed.feed(notification(T0 + k * S, {TAIL: k}))
        if k > late and k % every == 0:
            fed.feed(notification(T0 + round((k - late) * S), {RED: 5 * k}), late_ns=round(late * S) + 1000)
    fed.feed(notification(T0 + 200 * S, {TAIL: 200}))
    begin, end = (min(k for k in range(200) if k > late and k % every == 0), 199 // every * every)
    assert sums(fed)[0] == 200 + 5 * (end - begin)


def test_what_is_late_before_a_long_pause_has_the_time_of_the_window_that_it_is_late_for() -> None:
    """Counters that are sent on change come a millisecond apart, and hours later again."""
    fed = Fed("juniper")
    fed.feed(notification(T0, {TAIL: 0, RED: 0}))
    fed.feed(notification(T0 + 3600 * S + 2_000_000, {TAIL: 100}))
    fed.feed(notification(T0 + 3600 * S + 1_000_000, {RED: 5000}))
    fed.feed(notification(T0 + 4 * 3600 * S, {TAIL: 101}))
    found = [(row["window_start_ns"], row["ts_ns"], row["dropped_packets"]) for row in sums(fed)[1]]
    end = T0 + 3600 * S + 2_000_000
    assert found == [(T0, end, 100), (end, end, 5000), (end, T0 + 4 * 3600 * S, 1)]


@pytest.mark.parametrize("end", ["flush", "close", "deleted", "resumed"])
def test_what_is_late_when_a_stream_ends_is_in_a_row(end: str) -> None:
    fed = Fed("juniper")
    fed.feed(notification(T0, {TAIL: 0, RED: 0}))
    fed.feed(notification(T0 + S, {TAIL: 10}))
    fed.feed(notification(T0 + S - 1_000_000, {RED: 5000}))
    if end == "close":
        fed.stream.close()
        fed.device.streams.append(fed.stream)  # it was not replaced
    elif end == "deleted":
        fed.feed(notification(T0 + 2 * S, {}, deletes=[TAIL, RED]))
        fed.feed(notification(T0 + 9000 * S, {TAIL: 7, RED: 7}))
    elif end == "resumed":
        fed.stream.resume(T0 + 2 * S)
    found = sums(fed)[1]
    assert [(row["ts_ns"] - T0, row["dropped_packets"]) for row in found] == [(S, 10), (S, 5000)]
    assert found[1]["quality"] & QUALITY_GUESSED


def test_a_late_counter_of_a_sum_keeps_its_quality() -> None:
    fed = Fed("juniper")
    for k, red in enumerate([100, 110, 120, 5, 10, 15]):
        fed.feed(notification(T0 + k * S, {TAIL: k}))
        fed.feed(notification(T0 + k * S - S // 2, {RED: red}), late_ns=S)
    found = sums(fed)[1]
    assert [row["ts_ns"] - T0 for row in found if row["quality"] & QUALITY_RESET] == [4 * S]


def test_a_sum_goes_on_while_one_of_its_counters_is_gone() -> None:
    fed = Fed("juniper")
    for k in range(20):
        red = {RED: 5 * k} if k < 10 or k > 14 else {}
        fed.feed(notification(T0 + k * S, {TAIL: k, **red}, deletes=[RED] if k == 10 else []))
    assert sums(fed)[0] == 19 + 9 * 5 + 4 * 5


def test_a_sum_of_two_counters_counts_once_by_two_subscriptions() -> None:
    """They are half a second apart, and drops of RED come each third time."""
    fed = Fed("juniper")
    streams = [fed.stream, UpdateStream(fed.device, "t", S)]
    for k in range(601):
        red = {RED: 5 * k} if k // 2 % 3 == 0 else {}
        streams[k % 2].feed(read(notification(T0 + k * S // 2, {TAIL: k, **red})), T0 + k * S // 2)
    streams[1].flush()
    assert counted(fed.take()["queues"], "dropped_packets") == 600 + 5 * 600


@pytest.mark.parametrize("back", [75.3, 600.3])
def test_a_sum_goes_on_after_the_clock_of_a_device_was_set_back(back: float) -> None:
    """What each counter counted from its last value before the step to the first one after it is not known."""
    step = round(back) // 3 * 3 + 12
    fed = Fed("juniper")
    for k in range(2 * step):
        at, red = k - back * (k >= step), {RED: 5 * k} if k % 3 == 0 else {}
        fed.stream.feed(read(notification(T0 + round(at * S), {TAIL: k, **red})), T0 + k * S)
    assert counted(fed.take()["queues"], "dropped_packets") == 2 * step - 2 + 5 * (2 * step - 3 - 3)


def test_a_sum_goes_on_after_one_time_in_the_future() -> None:
    fed = Fed("juniper")
    for k in range(10):
        at = 10**8 if k == 4 else k
        fed.stream.feed(read(notification(T0 + at * S, {TAIL: k})), T0 + k * S)
        fed.stream.feed(read(notification(T0 + k * S + S // 2, {RED: 5 * k})), T0 + k * S + S // 2)
    found = fed.take()["queues"]
    assert sum(row["dropped_packets"] or 0 for row in found) == 9 - 1 + 5 * 9


# --- several paths to one counter -------------------------------------------------------------------------------------


def test_two_paths_to_one_counter_count_once() -> None:
    """A device may write the names of modules in one path and not in the other, in one message or in two."""
    fed, other = Fed(), WITH_MODULE + "openconfig-qos:"
    for k in range(10):
        fed.feed(notification(T0 + k * S, {Q + "dropped-pkts": 5 * k, other + "dropped-pkts": 5 * k}))
        paths = (other, Q) if k % 2 else (Q, other)
        fed.feed(*(notification(T0 + k * S, {path + "max-queue-len": k}) for path in paths))
    found = fed.take()["queues"]
    assert counted(found, "dropped_packets") == 45
    assert [row["max_bytes"] for row in found if row["max_bytes"] is not None] == list(range(10))
    fed.feed(notification(T0 + 20 * S, {}, deletes=[other + "dropped-pkts"]))  # it counts from the start
    fed.feed(notification(T0 + 21 * S, {Q + "dropped-pkts": 100}), notification(T0 + 22 * S, {Q + "dropped-pkts": 101}))
    assert counted(fed.take()["queues"], "dropped_packets") == 1


@pytest.mark.parametrize(("lag", "every", "every_late"), [(70, 10, 1), (30, 10, 1), (90, 5, 2), (70, 1, 10)])
def test_a_path_that_is_late_counts_nothing_again(lag: int, every: int, every_late: int) -> None:
    """Two older values in a row are those of a device whose clock was set back, but not if another path goes on."""
    fed = Fed()
    values = [(k, k, Q) for k in range(0, 301, every)] + [(k + lag, k, WITH_MODULE) for k in range(0, 301, every_late)]
    for at, k, path in sorted(values):
        fed.stream.feed(read(notification(T0 + k * S, {path + "dropped-pkts": 10 * k})), T0 + at * S)
    found = fed.take()["queues"]
    assert counted(found, "dropped_packets") == sum(row["dropped_packets"] or 0 for row in found) == 3000


@pytest.mark.parametrize("paths", [(Q, WITH_MODULE), (WITH_MODULE, Q)])
@pytest.mark.parametrize("both", [False, True])
def test_an_atomic_message_by_one_path_keeps_what_came_by_the_other(paths: tuple[str, str], both: bool) -> None:
    fed = Fed().feed(notification(T0, {paths[0] + "dropped-pkts": 100}))
    for k in range(1, 11):
        for path in paths if both else paths[1:]:
            fed.feed(notification(T0 + k * S, {"dropped-pkts": 100 + 10 * k}, prefix=path[:-1], atomic=True))
    assert counted(fed.take()["queues"], "dropped_packets") == 100


def test_leaves_that_differ_in_a_key_without_a_place_are_two() -> None:
    fed = Fed()
    for k in range(10):
        slots = (Q.replace("name=3]", f"name=3][slot={slot}]") for slot in (0, 1))
        fed.feed(notification(T0 + k * S, {path + "dropped-pkts": 10 * k for path in slots}))
    found = fed.take()
    assert counted(found["queues"], "dropped_packets") == 180 and not found.get("gnmi_events")


def test_paths_that_were_forgotten_come_again() -> None:
    fed = Fed()
    both = (Q + "dropped-pkts", WITH_MODULE + "dropped-pkts")
    for again in range(3):
        start = T0 + 100 * again * S
        for k in range(5):
            fed.feed(*(notification(start + k * S, {path: 7 * k}) for path in both))
        fed.feed(notification(start + 9 * S, {}, deletes=[both[again % 2]]))
        assert fed.device.paths == 2
        fed.stream._sweep()
        assert (fed.device.paths, fed.stream._columns) == (0, {})
    assert counted(fed.take()["queues"], "dropped_packets") == 3 * 28
