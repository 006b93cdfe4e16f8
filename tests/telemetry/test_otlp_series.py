"""A series has one identity: it counts once, however many senders, names and orders of attributes it has. Points
without a value, without a time, or out of range are refused and counted."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from otlplib import CUMULATIVE, DELTA, DEPTH, DROPS, MS, OUT_BYTES, T0, FedIntake, Point, message, reordered

from mburst.quality import Quality
from mburst.telemetry.otlp import limits

N = 60
DAY = 24 * 3600 * 10**9
NAMED = "port.if_out_octets"  # OUT_BYTES by name instead of number
AGAIN = "also sent as"


def totals(first: int, last: int, name: str = OUT_BYTES, shift_ns: int = 0, start: int = 10**12) -> list[Point]:
    """Returns a port's running total, 1,000 bytes a millisecond."""
    return [(name, "Ethernet0", T0 + k * MS + shift_ns, start + k * 1000) for k in range(first, last)]


def carried(fed: FedIntake) -> int:
    """Returns the bytes of bins and of gaps."""
    return sum(amount for amount, _ in fed.bins.values()) + sum(missed.bytes or 0 for missed in fed.missed)


def refused(fed: FedIntake, *words: str) -> int:
    """Returns the number of points dropped for a reason with one of these words."""
    counted = fed.intake.counted()
    return sum(
        number
        for (_, event, detail), number in counted.items()
        if event == "dropped" and any(word in detail for word in words)
    )


@pytest.mark.parametrize("shift_ns", [0, 300_000])
@pytest.mark.parametrize("other", ["sender", "instance", "name", "delta"])
def test_a_port_that_is_sent_twice_counts_once(other, shift_ns):
    """The second copy comes from another sender, with another resource, with another name of the metric, or as counts:
    at the same times or between them."""
    fed = FedIntake()
    for first in range(0, N, 20):
        fed.feed(message(totals(first, first + 20)), take=False)
        sender = "192.0.2.2" if other == "sender" else "192.0.2.1"
        again = totals(first, first + 20, NAMED if other == "name" else OUT_BYTES, shift_ns, 7)
        options: dict[str, Any] = {"temporality": DELTA} if other == "delta" else {}
        fed.feed(message(again, instance="2" if other == "instance" else "", **options), sender=sender)
    fed.end()
    assert carried(fed) == (N - 1) * 1000 and not fed.missed and not fed.rows["ports"]
    assert all(quality == 0 for _, quality in fed.bins.values())
    assert refused(fed, AGAIN) == N


def test_the_order_of_attributes_makes_no_other_series():
    fed = FedIntake()
    for first in range(0, N, 20):
        fed.feed(reordered(message(totals(first, first + 20), instance="1"), first))
    fed.end()
    assert carried(fed) == (N - 1) * 1000 and not fed.intake.counted()
    assert len(fed.intake.index.feeds) == 1


@pytest.mark.parametrize(("name", "column", "expected"), [(DEPTH, "max_bytes", 5), (DROPS, "dropped_packets", 5)])
def test_a_queue_of_two_senders_has_the_values_of_one(name, column, expected):
    fed = FedIntake()
    for sender, factor in (("192.0.2.1", 5), ("192.0.2.2", 9)):
        points = [(name, "Ethernet0|1", T0 + k * MS, factor * (k if name == DROPS else 1)) for k in range(10)]
        fed.feed(message(points), take=False, sender=sender)
    rows = fed.end().rows["queues"]
    assert {row[column] for row in rows} == {expected}
    [reason] = [detail for _, event, detail in fed.intake.counted() if event == "dropped"]
    assert reason == f"{name} from 192.0.2.2: also sent as {name} from 192.0.2.1, which is taken"


@pytest.mark.parametrize("other", ["sender", "instance"])
def test_a_restart_of_the_sender_is_a_gap(other):
    """The sender returns with another address or another resource. Its later bins are where they were sampled, and the
    bytes carried meanwhile are in a gap."""
    fed = FedIntake().feed(message(totals(0, 50)))
    after = message(totals(3050, 3150), instance="2" if other == "instance" else "")
    fed.feed(after, sender="192.0.2.2" if other == "sender" else "192.0.2.1").end()
    with_bytes = [(start - T0) // MS for (_, _, start), (amount, _) in fed.bins.items() if amount]
    assert with_bytes == [*range(49), *range(3050, 3149)]
    [missed] = fed.missed
    assert (missed.start_ns - T0, missed.end_ns - T0, missed.bytes) == (49 * MS, 3050 * MS, 3001 * 1000)


def test_another_sender_replaces_a_silent_one():
    """It does so after three intervals if these are long: two senders of an infrequent total do not alternate."""
    fed, step = FedIntake(), 10_000 * MS
    for k in range(12):
        fed.feed(message([(DROPS, "Ethernet0|1", T0 + k * step, 10 * k)]))
        fed.feed(message([(DROPS, "Ethernet0|1", T0 + k * step + step // 2, 10**6 + 7 * k)]), sender="192.0.2.2")
    rows = fed.end().rows["queues"]
    assert [row["dropped_packets"] for row in rows if not row["quality"] & Quality.GAP] == [7] * 11
    assert len(rows) == 12 and refused(fed, AGAIN) == 11


def test_senders_of_infrequent_messages_do_not_alternate(monkeypatch):
    """Two senders each send all of five seconds at once, one after the other: the messages of the first are awaited."""
    now = T0
    monkeypatch.setattr("mburst.telemetry.otlp.intake.time.time_ns", lambda: now)
    fed, step = FedIntake(), 2500
    for k in range(2, 20):
        now = T0 + k * step * MS
        sender = f"192.0.2.{k % 2}"
        points = [(OUT_BYTES, "Ethernet0", T0 + ms * MS, ms) for ms in range((k - 2) * step, k * step, 100)]
        fed.feed(message(points), sender=sender).take(False)
    fed.end()
    gaps = [(missed.start_ns - T0) // MS for missed in fed.missed]
    assert all(start < 4 * step for start in gaps) and len(gaps) <= 2


def test_a_new_sender_with_other_totals_adds_nothing():
    """The total may be of another counter, so the difference is not an increase."""
    fed = FedIntake().feed(message(totals(0, 50)))
    fed.feed(message(totals(3050, 3150, start=5)), sender="192.0.2.2").end()
    assert carried(fed) == 49_000 + 99_000
    assert [(missed.bytes, missed.reason) for missed in fed.missed] == [(None, "counter reset")]


def test_totals_that_return_after_counts_count_nothing_twice():
    """The bytes carried meanwhile are in the rows of the counts: the total starts again, as another recording."""
    fed = FedIntake().feed(message(totals(0, 500)))
    for first in range(2000, 6000, 500):
        counts = [(*one[:3], 1000) for one in totals(first, first + 500)]
        fed.feed(message(counts, temporality=DELTA), sender="192.0.2.2")
    fed.feed(message(totals(7500, 8000)))
    counts = [(*one[:3], 1000) for one in totals(9500, 9600)]
    fed.feed(message(counts, temporality=DELTA, start_ns=T0 + 9499 * MS), sender="192.0.2.2").end()
    assert carried(fed) == (499 + 499) * 1000 and not fed.missed
    assert sum(row["out_bytes"] for row in fed.rows["ports"]) == 4100 * 1000
    assert [name.run for name in fed.intake.ports.lanes] == [0, 1]
    assert max(row["ts_ns"] - row["window_start_ns"] for row in fed.rows["ports"]) == MS
    assert refused(fed, "restart after counts") == 1


@pytest.mark.parametrize("flag", [False, True])
def test_a_point_without_a_value_is_refused(flag):
    """It is not taken for 0, which would be a reset. A flag may mark a value as missing."""
    points = [(*one[:3], None if k == 30 and not flag else one[3]) for k, one in enumerate(totals(0, N))]
    request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(message(points))
    if flag:
        request.resource_metrics[0].scope_metrics[0].metrics[30].gauge.data_points[0].flags = 1
    fed = FedIntake()
    reading = fed.intake.read(request.SerializeToString(), "192.0.2.1")
    fed.end()
    assert reading.refused == {"no recorded value" if flag else "no value": 1}
    assert carried(fed) == (N - 1) * 1000 and len(fed.missed) == 1
    events = fed.intake.counted()
    assert [(event, number) for (_, event, _), number in events.items()] == [("not-understood", 1)]


def test_zero_is_a_value():
    points = [(DEPTH, "Ethernet0|1", T0 + k * MS, 0.0 if k % 2 else 0) for k in range(10)]
    fed = FedIntake()
    assert not fed.intake.read(message(points), "a").refused
    assert [row["max_bytes"] for row in fed.end().rows["queues"]] == [0] * 10


def test_a_counter_that_decreased_is_a_reset_at_any_value():
    """The width of counters is not guessed: near 2^32, too, a smaller value is a reset."""
    values = [2**32 - 50_000 + 1000 * k if k < 30 else 5 + 1000 * (k - 30) for k in range(N)]
    fed = FedIntake().feed(message([(OUT_BYTES, "Ethernet0", T0 + k * MS, values[k]) for k in range(N)])).end()
    assert max(amount for amount, _ in fed.bins.values()) == 1000
    assert fed.bins["Ethernet0", "out", T0 + 29 * MS] == (5, Quality.RESET)


@pytest.mark.parametrize("name", [OUT_BYTES, DROPS])
def test_a_total_of_unknown_start_is_no_increase(name):
    """A sender that was restarted does not know when the counter began: its first point begins at its own time, and the
    next ones begin there (OpenTelemetry, metrics data model, cumulative streams with unknown start time)."""
    fed, begin = FedIntake(), T0
    for k in range(40):
        begin = T0 + k * MS if k == 20 else begin
        sent = [(name, "Ethernet0|3" if name == DROPS else "Ethernet0", T0 + k * MS, 10**9 + 10 * k)]
        fed.feed(message(sent, temporality=CUMULATIVE, start_ns=begin), take=k % 5 == 0)
    fed.end()
    found = fed.rows["queues"] or [{"dropped_packets": amount, "quality": bits} for amount, bits in fed.bins.values()]
    assert sum(row["dropped_packets"] for row in found) == 390 and not any(row["quality"] for row in found)


@pytest.mark.parametrize("after", [0, 700])
def test_a_reset_keeps_its_bin(after):
    """The bin is kept even if nothing was counted since. The bytes before the reset are not known, which a gap
    states."""
    values = [10**12 + 1000 * k if k < 40 else after + 1000 * (k - 40) for k in range(N)]
    fed = FedIntake().feed(message([(OUT_BYTES, "Ethernet0", T0 + k * MS, values[k]) for k in range(N)])).end()
    assert fed.bins["Ethernet0", "out", T0 + 39 * MS] == (after, Quality.RESET)
    [missed] = fed.missed
    assert (missed.start_ns - T0, missed.end_ns - T0) == (39 * MS, 40 * MS)
    assert (missed.bytes, missed.reason) == (None, "counter reset")
    assert fed.intake.counted()["tor1", "reset", "counter reset"] == 1


@pytest.mark.parametrize("name", [OUT_BYTES, "queue.bytes"])
def test_a_total_that_was_briefly_0_is_not_a_burst(name):
    """An increase beyond any link is impossible even if the speed of the link is not known."""
    target = "Ethernet0" if name == OUT_BYTES else "Ethernet0|1"
    fed = FedIntake().feed(message([(name, target, at, 0 if k == 40 else value)
                                    for k, (_, _, at, value) in enumerate(totals(0, N))])).end()  # fmt: skip
    assert carried(fed) == (58_000 - 1000 if name == OUT_BYTES else 0)
    assert not any(
        row["transmit_bytes"] > 1000 for row in fed.rows["queues"] if not row["quality"] & Quality.IMPOSSIBLE
    )


def test_a_point_ahead_of_the_clock_does_not_silence_a_port(monkeypatch):
    """A point that is hours or years ahead would make all following ones too late."""
    monkeypatch.setattr("mburst.telemetry.otlp.intake.time.time_ns", lambda: T0 + 100 * MS)
    fed = FedIntake().feed(message(totals(0, 30)))
    ahead = [(OUT_BYTES, "Ethernet0", T0 + 60_100 * MS + by, 1) for by in (1, DAY // 2, 3 * 365 * DAY)]
    reading = fed.intake.read(message(ahead), "192.0.2.1")
    assert reading.refused == {"more than a minute ahead of the collector's clock": 3}
    fed.feed(message(totals(30, N))).end()
    assert carried(fed) == (N - 1) * 1000


def test_points_of_a_clock_that_was_set_back_are_counted():
    """Times that have bins get no second ones: until the clock is where it was, points are counted by their fault, and
    the bytes carried in the rest of the time are in a gap."""
    fed = FedIntake().feed(message(totals(0, 500)))
    fed.take(False)
    for first in range(500, 100_500, 20_000):  # the clock is 90 s behind from here on
        back = [(*one[:2], one[2] - 90_000 * MS, one[3]) for one in totals(first, first + 20_000, start=10**12)]
        fed.feed(message(back[::100]))
    fed.end()
    assert carried(fed) == 499_000 + (100_400 - 499) * 1000
    counted = {detail[:20]: number for (_, _, detail), number in fed.intake.counted().items()}
    assert counted == {"points more than a m": 300, "points that came too": 600}


@pytest.mark.parametrize("number", [1, 40])
def test_points_of_a_clock_that_was_years_behind_are_a_separate_recording(number):
    """A switch started without the time: there is neither a gap nor a recording of years."""
    old = [(OUT_BYTES, "Ethernet0", T0 - 900 * DAY + k * MS, k * 1000) for k in range(number)]
    fed = FedIntake().feed(message(old)).feed(message(totals(0, N))).end()
    assert carried(fed) == (N - 1 + number - 1) * 1000 and not fed.missed
    assert refused(fed, "more than a day after") == 1
    assert [name.run for name in fed.intake.ports.lanes] == ([0, 1] if number > 1 else [0])


def test_inexact_doubles_are_refused_as_totals():
    """A double of 2^53 or more has lost bytes; as a depth it is accepted."""
    sent = [(OUT_BYTES, "Ethernet0", T0 + k * MS, float(2**60 + k * 1000)) for k in range(20)]
    fed = FedIntake()
    reading = fed.intake.read(message([*sent, (DEPTH, "Ethernet0|1", T0, float(2**60))]), "a")
    assert reading.refused == {"a running total of 2^53 or more as a double, which is not exact": 20}
    fed.end()
    assert not fed.bins and [row["max_bytes"] for row in fed.rows["queues"]] == [2**60]


def test_values_out_of_range_of_their_column_are_refused():
    """These are negative values, and values that are too large in the unit of the column. They are reported to the
    sender."""
    depths = [-5, -0.5, float("-inf"), float("inf"), 2.0**63, 7]
    sent = [(DEPTH, "Ethernet0|1", T0 + k * MS, value) for k, value in enumerate(depths)]
    sent += [(OUT_BYTES, "Ethernet0", T0, -5)]
    fed = FedIntake()
    assert fed.intake.read(message(sent), "a").refused == {
        "a negative value": 4, "a value out of range of its column": 2,
    }  # fmt: skip
    assert [row["max_bytes"] for row in fed.end().rows["queues"]] == [7]
    assert {event for _, event, _ in fed.intake.counted()} == {"not-understood"}


def test_the_width_is_that_of_the_first_intervals():
    """This does not depend on the number of points in the first message."""
    times = [T0 + k * MS for k in range(17)]
    times += [times[-1] + (k + 1) * MS // 2 for k in range(200)]
    fed = FedIntake().feed(message([(OUT_BYTES, "E", at, k * 1000) for k, at in enumerate(times)])).end()
    assert {lane.bin_ns for lane in fed.intake.ports.lanes.values()} == {MS}
    assert carried(fed) == 216_000


@pytest.mark.parametrize("first", [1, 3])
def test_one_interval_does_not_decide_what_a_total_becomes(first):
    """One short interval before long ones makes no bins of 10 s; one long interval before short ones makes no rows."""
    seldom = [T0, T0 + 100 * MS, *(T0 + k * 10_000 * MS for k in range(1, 60))]
    fed = FedIntake()
    for part in (seldom[:first], seldom[first:]):
        fed.feed(message([(OUT_BYTES, "E", at, at // MS) for at in part]))
    fed.end()
    assert not fed.bins and sum(row["out_bytes"] for row in fed.rows["ports"]) == 590_000
    quick = [T0, *(T0 + 2000 * MS + k * MS for k in range(N))]
    fed = FedIntake()
    for part in (quick[: first + 1], quick[first + 1 :]):
        fed.feed(message([(OUT_BYTES, "E", at, at // MS) for at in part]))
    fed.end()
    assert not fed.rows["ports"] and {lane.bin_ns for lane in fed.intake.ports.lanes.values()} == {MS}
    assert carried(fed) == 2000 + N - 1


def test_another_width_is_another_recording():
    """A switch is set to sample less often: after 64 intervals that are too long, bins of the new width begin."""
    times = [T0 + k * MS for k in range(50)]
    times += [times[-1] + 300_000 + (k + 1) * 10 * MS for k in range(200)]
    fed = FedIntake()
    for first in range(0, len(times), 40):
        fed.feed(message([(OUT_BYTES, "E", at, 1000 * (first + k)) for k, at in enumerate(times[first : first + 40])]))
    fed.end()
    assert [(name.run, lane.bin_ns) for name, lane in fed.intake.ports.lanes.items()] == [(0, MS), (1, 10 * MS)]
    assert carried(fed) == 249_000 and sum(missed.bytes for missed in fed.missed) <= 80_000


def test_resources_do_not_fill_the_memory():
    """This holds for any number and size of resources: those that are too large are not kept, and the number is
    limited."""
    fed = FedIntake()
    large = [message([(OUT_BYTES, "E", T0, 1)], device=f"{k}" + "x" * 200_000) for k in range(40)]
    tracemalloc.start()
    for sent in large:
        assert fed.intake.read(sent, "192.0.2.1").refused == {"attributes of more than 2,048 bytes": 1}
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_an_unused_resource_makes_room(monkeypatch):
    """A sender that restarts often has a new resource each time, and takes no more places than it uses."""
    monkeypatch.setattr(limits, "SERIES", 100)
    monkeypatch.setattr(limits, "RESOURCES", 10)
    now = T0
    monkeypatch.setattr("mburst.telemetry.otlp.intake.time.time_ns", lambda: now)
    fed = FedIntake()
    for instance in range(40):
        points = [
            (OUT_BYTES, f"Ethernet{port}", T0 + (instance * 2000 + k) * MS, k) for port in range(5) for k in (0, 1)
        ]
        assert not fed.intake.read(message(points, instance=f"{instance}"), "192.0.2.1").refused
        now += 2 * limits.UNUSED_NS // 3
    for instance in range(40, 60):
        reading = fed.intake.read(message([(OUT_BYTES, "Ethernet0", T0, 1)], instance=f"{instance}"), "192.0.2.1")
    assert reading.refused == {"more than 10 resources": 1}


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([OUT_BYTES, DROPS]))
def test_what_a_total_counted_is_somewhere(seed, name):
    """Senders that come and go, restarts, resets, points that are lost, late, out of order or sent twice: what the
    points that count say was carried is in bins and gaps, at its time, or in rows of queues, and each point that does
    not count is counted. (That no bin overlaps another of its port, FedIntake asserts.)"""
    noise = random.Random(seed)
    fed, oracle = FedIntake(), SlowOracle()
    for sent in deliveries(noise, name):
        for sender, instance, points in sent:
            fed.feed(reordered(message(points, instance=instance), seed), take=False, sender=sender)
            oracle.waiting += [((sender, instance), at, value) for _, _, at, value in points]
        fed.take(False)
        oracle.take(False)
    fed.end()
    oracle.take(True)
    counted = fed.intake.counted()
    assert sum(n for (_, event, _), n in counted.items() if event == "dropped") == oracle.refused
    assert counted["tor1", "reset", "counter reset"] == oracle.resets
    if name == DROPS:
        found = [(row["ts_ns"], row["dropped_packets"]) for row in fed.rows["queues"]]
        assert sorted(found) == [(end, amount) for _, end, amount in oracle.steps]
        return
    assert carried(fed) == sum(amount for _, _, amount in oracle.steps)
    near = 4 * max((lane.bin_ns for lane in fed.intake.ports.lanes.values()), default=0)
    for _, at, _ in oracle.steps:
        before = sum(amount for _, end, amount in oracle.steps if end <= at)
        least = sum(amount for (_, _, start), (amount, _) in fed.bins.items() if start < at - near)
        most = sum(amount for (_, _, start), (amount, _) in fed.bins.items() if start < at + near)
        least += sum(missed.bytes or 0 for missed in fed.missed if missed.end_ns < at - near)
        most += sum(missed.bytes or 0 for missed in fed.missed if missed.start_ns < at + near)
        assert least <= before <= most


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 10, 500, 2000, 60_000]), st.integers(1, 90), st.booleans(), st.booleans()),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_totals_of_any_rate_and_days_are_somewhere(parts):
    """Samples that become more or less often, also too seldom for bins, and come back after more than a day: what was
    carried between samples less than a day apart is in bins, gaps or rows of `ports`."""
    fed, at, total, expected, days = FedIntake(), T0, 10**9, 0, 0
    for k, (interval_ms, samples, after_days, together) in enumerate(parts):
        at += after_days * 25 * 3_600_000 * MS
        points = []
        for j in range(samples):
            at, total = at + interval_ms * MS, total + 1000 * (k + j)
            points.append((OUT_BYTES, "Ethernet0", at, total))
            is_first = (k == 0 or after_days) and j == 0
            expected += 0 if is_first else 1000 * (k + j)
            days += is_first and k > 0
        fed.feed(message(points), take=not together)
    fed.end()
    assert carried(fed) + sum(row["out_bytes"] for row in fed.rows["ports"]) == expected
    assert fed.intake.counted()["tor1", "dropped", "points more than a day after those before"] == days


class SlowOracle:
    """The rules of docs/otlp.md for the points of one running total, applied point by point."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, int, int]] = []  # (feed, ns, value)
        self.steps: list[tuple[int, int, int]] = []  # (begin, end, amount)
        self.refused = self.resets = 0
        self._newest = self._usual = 0
        self._feed: Any = None
        self._last: tuple[int, int] | None = None

    def take(self, everything: bool) -> None:
        due = [one for one in self.waiting if everything or one[1] <= self._newest]
        self.waiting = [one for one in self.waiting if one not in due] if not everything else []
        self._newest = max([self._newest, *(at for _, at, _ in self.waiting), *(at for _, at, _ in due)])
        for feed, at, value in sorted(due, key=lambda one: one[1]):
            self._point(feed, at, value)

    def _point(self, feed: Any, at: int, value: int) -> None:
        follows = self._feed not in (None, feed)
        if (follows and at - self._last[0] <= 10**9) or (self._last and at <= self._last[0]):
            self.refused += 1
            return
        self._feed = feed
        if self._last:
            amount = value - self._last[1]
            if amount < 0:
                self.resets += 1
                amount = 0 if follows else value
            self.steps.append((self._last[0], at, amount))
        self._last = at, value


def deliveries(noise: random.Random, name: str) -> list[list[tuple[str, str, list[Point]]]]:
    """Returns the messages of one total between two takes, of a sender that restarts again and again and of a second
    one. Some points are lost; some messages are late or repeated."""
    sent: list[list[tuple[str, str, list[Point]]]] = []
    at, total, instance = T0 + noise.randrange(MS), noise.randrange(10**12), 0
    for _ in range(noise.randrange(2, 25)):
        points = []
        for _ in range(noise.randrange(1, 40)):
            at += MS + noise.choice([0, 0, 0, noise.randrange(-300_000, 300_000)])
            total += noise.choice([0, 1, 1000, noise.randrange(10**6)])
            if noise.random() > 0.05:
                points.append((name, "Ethernet0" if name == OUT_BYTES else "Ethernet0|1", at, total))
        if noise.random() < 0.1:
            at += noise.choice([5, 100, 1500, 20_000]) * MS
            instance += noise.random() < 0.7
        if noise.random() < 0.1:
            total = noise.choice([0, 17])
        noise.shuffle(points)
        messages = [("192.0.2.1", str(instance), points)] * noise.choice([1, 1, 1, 2])
        if noise.random() < 0.2:
            shift = noise.choice([0, 77_000])
            messages.append(("192.0.2.2", "", [(*one[:2], one[2] + shift, one[3] // 2) for one in points]))
        sent.append(messages)
    for _ in range(noise.randrange(3)):
        first = noise.randrange(len(sent))
        sent.insert(min(first + noise.randrange(4), len(sent) - 1), sent.pop(first))
    return sent


def test_each_value_of_a_queue_has_the_window_since_its_own_last_one():
    """A depth each millisecond beside drops each 50: no depth has a window of 50 ms, and no sample is missing."""
    fed = FedIntake()
    for k in range(201):
        seldom = [(DROPS, "Ethernet0|3", T0 + k * MS, k)] if k % 50 == 0 else []
        fed.feed(message([(DEPTH, "Ethernet0|3", T0 + k * MS, 7), *seldom]), take=k % 9 == 0)
    found = fed.end().rows["queues"]
    spans = {
        name: [
            ((row["window_start_ns"] - T0) // MS, (row["ts_ns"] - T0) // MS) for row in found if row[name] is not None
        ]
        for name in ("max_bytes", "dropped_packets")
    }
    assert spans["dropped_packets"] == [(k, k + 50) for k in range(0, 200, 50)]
    assert spans["max_bytes"][1:] == [(k, k + 1) for k in range(200)]
    assert not any(row["quality"] for row in found)


@pytest.mark.parametrize("take_each", [1, 7, 1000])
@pytest.mark.parametrize("late", [0, 1])
def test_missing_depths_have_a_gap_also_where_a_seldom_counter_comes(late: int, take_each: int) -> None:
    """Depths are missing from 30 ms until the drops of 50 ms come, or one longer."""
    fed = FedIntake()
    for k in range(101):
        sent = [] if 30 <= k < 50 + late else [(DEPTH, "Ethernet0|3", T0 + k * MS, 7)]
        sent += [(DROPS, "Ethernet0|3", T0 + k * MS, k)] if k % 50 == 0 else []
        if sent:
            fed.feed(message(sent), take=k % take_each == 0)
    found = fed.end().rows["queues"]
    gaps = [((row["window_start_ns"] - T0) // MS, (row["ts_ns"] - T0) // MS) for row in found if row["quality"]]
    assert gaps == [(29, 50 + late)] and {row["quality"] for row in found} == {0, Quality.GAP}
