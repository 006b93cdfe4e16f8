"""OTLP metrics become queue windows, and bins of switch ports that are compared with a slow oracle."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from otlplib import CUMULATIVE, DELTA, DEPTH, DROPS, MS, OUT_BYTES, T0, FedIntake, message

from mburst.quality import Quality
from mburst.telemetry.otlp import messages
from mburst.telemetry.otlp.reading import InvalidMessage
from mburst.telemetry.otlp.speeds import Speeds

N = 40
PORT_DROPS = "sai_counter_type_1_stat_12"


def totals(amounts: list[int], first: int = 10**15) -> list[int]:
    """Returns running totals, beginning with FIRST."""
    found = [first]
    for amount in amounts:
        found.append(found[-1] + amount)
    return found


def samples(values: list[int], times: list[int] | None = None, name: str = OUT_BYTES, target: str = "Ethernet0"):
    times = times or [T0 + k * MS for k in range(len(values))]
    return [(name, target, at, value) for at, value in zip(times, values, strict=True)]


@settings(max_examples=40)
@given(
    amounts=st.lists(st.integers(0, 10**9), min_size=N, max_size=N),
    jitter=st.lists(st.integers(-200_000, 200_000), min_size=N + 1, max_size=N + 1),
    lost=st.sets(st.integers(1, N - 1), max_size=6),
    phase=st.integers(0, MS - 1),
    cuts=st.sets(st.integers(1, N - 1), max_size=5),
    seed=st.integers(0, 1000),
)
def test_bins_hold_what_was_carried_between_samples(amounts, jitter, lost, phase, cuts, seed):
    """Each pair of neighbouring samples is a bin of its bytes; what was carried over a missing sample is in none, and
    is counted. However the points come: in messages of any size, in any order within one hold."""
    values = totals(amounts)
    times = [T0 + k * MS + phase + jitter[k] // 2 for k in range(N + 1)]
    kept = [k for k in range(N + 1) if k not in lost]
    points = samples([values[k] for k in kept], [times[k] for k in kept])
    parts = [points[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), N + 1], strict=True) if points[a:b]]
    shuffled = [random.Random(seed).sample(part, len(part)) for part in parts]
    random.Random(seed).shuffle(shuffled)
    fed = FedIntake().feed(*(message(part) for part in shuffled), take=False).end()

    expected = {}
    for before, after in itertools.pairwise(kept):
        if after == before + 1:
            expected[before] = values[after] - values[before]
    found = [amount for amount, quality in fed.bins.values() if not quality & Quality.GAP]
    assert sorted(found) == sorted(amount for amount in expected.values() if amount)
    assert sum(found) + sum(missed.bytes for missed in fed.missed) == values[-1] - values[0]
    unknown = [start for (_, _, start), (_, quality) in fed.bins.items() if quality & Quality.GAP]
    assert len(unknown) == N - len(expected), "each bin of which nothing is known says so"
    first = min(start for _, _, start in fed.bins) if fed.bins else 0
    assert all((start - first) % MS == 0 and start % MS == 0 for _, _, start in fed.bins)


def test_a_bin_begins_at_the_time_of_its_sample():
    """The bin that begins at the time of a sample holds the bytes carried until the next sample."""
    amounts = [k * 1000 for k in range(1, N + 1)]
    fed = FedIntake().feed(message(samples(totals(amounts)))).end()
    assert fed.bins == {("Ethernet0", "out", T0 + k * MS): (amounts[k], 0) for k in range(N)}


def test_jitter_is_flagged():
    """A bin is flagged if its interval is more than 5 % off its width."""
    times = [T0 + k * MS + (300_000 if k == 20 else 0) for k in range(N + 1)]
    fed = FedIntake().feed(message(samples(totals([1000] * N), times))).end()
    assert [k for k in range(N) if fed.bins["Ethernet0", "out", T0 + k * MS][1] == Quality.JITTER] == [19, 20]


@pytest.mark.parametrize("interval", [990_000, 999_000, 1_001_000, 1_010_000])
def test_another_clock_makes_no_bin_of_two_widths(interval):
    """The clock of the samples is fast or slow: each bin has the bytes of one interval, and each extra interval is a
    gap."""
    n = 2000
    points = samples([k * 1000 for k in range(n)], [T0 + k * interval for k in range(n)])
    fed = FedIntake().feed(*(message(points[first : first + 90]) for first in range(0, n, 90))).end()
    assert sum(amount for amount, _ in fed.bins.values()) + sum(missed.bytes for missed in fed.missed) == 1000 * (n - 1)
    assert {amount for amount, _ in fed.bins.values()} <= {0, 1000}
    assert {(missed.bytes, missed.reason) for missed in fed.missed} <= {(1000, "sample without a bin")}
    marked = {start for (_, _, start), (_, quality) in fed.bins.items() if quality == Quality.JITTER | Quality.GAP}
    assert {missed.start_ns for missed in fed.missed} == (marked if interval < MS else set())
    assert len(marked) == len(fed.bins) - sum(not quality for _, quality in fed.bins.values())
    assert abs(len(marked) - n * abs(interval - MS) / MS) <= 1


def test_more_than_the_link_can_carry_is_not_a_bin():
    amounts = [1000] * N
    amounts[30] = 10**9
    fed = FedIntake(Speeds(others=10**9)).feed(message(samples(totals(amounts)))).end()
    amount, quality = fed.bins["Ethernet0", "out", T0 + 30 * MS]
    assert amount == 0 and quality & Quality.DROPS
    assert [(missed.bytes, missed.reason) for missed in fed.missed] == [(None, "more than line rate")]


@pytest.mark.parametrize(("width", "off", "link_bps"), [(MS, 50_000, 10**11), (100_000, 5000, 4 * 10**11)])
def test_inexact_stamps_lose_nothing_at_line_rate(width, off, link_bps):
    """The bytes were counted at multiples of the width, at line rate, and stamped a little earlier or later."""
    noise = random.Random(2)
    times = [T0 + k * width + noise.randrange(-off, off) for k in range(500)]
    carried = [round(k * width * link_bps / 8e9) for k in range(500)]
    fed = FedIntake(Speeds(others=link_bps)).feed(message(samples(carried, times))).end()
    assert sum(amount for amount, _ in fed.bins.values()) == carried[-1] and not fed.missed


@pytest.mark.parametrize("start_ns", [0, T0 + 20 * MS + 1])
def test_a_reset_is_flagged(start_ns):
    """A total that decreased, or whose counter restarted, counts from its beginning and is flagged."""
    values = totals([1000] * 20, 50_000)
    fed = FedIntake().feed(message(samples(values), temporality=CUMULATIVE, start_ns=T0 - 1))
    again = totals([1000] * 19, 700 if not start_ns else 80_000)
    times = [T0 + k * MS for k in range(21, 41)]
    fed.feed(message(samples(again, times), temporality=CUMULATIVE, start_ns=start_ns or T0 - 1)).end()
    assert fed.bins["Ethernet0", "out", T0 + 20 * MS] == (again[0], Quality.RESET)
    assert fed.bins["Ethernet0", "out", T0 + 21 * MS] == (1000, 0)
    assert fed.intake.counted()["tor1", "reset", "counter reset"] == 1


def test_late_and_repeated_points_are_counted():
    values = totals([1000] * N)
    sent = message(samples(values))
    fed = FedIntake().feed(sent).feed(sent, sent).feed(message(samples([5], [T0 + 3 * MS + 1]))).end()
    assert sum(amount for amount, _ in fed.bins.values()) == 1000 * N
    counted = fed.intake.counted()
    assert counted["tor1", "dropped", "points that came too late"] >= 1
    assert counted["tor1", "dropped", "repeated points"] + counted["tor1", "dropped", "points that came too late"] == (
        2 * (N + 1) + 1
    )


def test_values_of_a_queue_and_a_time_are_one_row():
    """The values are a depth and the drops since the last, in two messages."""
    depths = [(DEPTH, "Ethernet4|3", T0 + k * MS, 1000 * k) for k in range(3)]
    drops = [(DROPS, "Ethernet4|3", T0 + k * MS, 70 + 2 * k) for k in range(3)]
    fed = FedIntake().feed(message(depths), message(drops), take=False).end()
    rows = fed.rows["queues"]
    assert [(row["window_start_ns"] - T0, row["ts_ns"] - T0) for row in rows] == [(0, 0), (0, MS), (MS, 2 * MS)]
    assert [(row["max_bytes"], row["dropped_packets"]) for row in rows] == [(0, None), (1000, 2), (2000, 2)]
    assert {(row["device"], row["port"], row["queue"], row["semantics"]) for row in rows} == {
        ("tor1", "Ethernet4", "3", "gauge")
    }


def test_a_missing_sample_of_a_queue_is_flagged():
    points = [(DEPTH, "Ethernet4|3", T0 + k * MS, 5) for k in (0, 1, 2, 3, 9, 10)]
    rows = FedIntake().feed(message(points)).end().rows["queues"]
    assert [row["quality"] & Quality.GAP != 0 for row in rows] == [False] * 4 + [True, False]


def test_deltas_are_counts():
    points = [(DROPS, "Ethernet4|3", T0 + k * MS, k) for k in range(4)]
    rows = FedIntake().feed(message(points, temporality=DELTA, start_ns=T0 - MS)).end().rows["queues"]
    assert [row["dropped_packets"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["window_start_ns"] == T0 - MS


@pytest.mark.parametrize("late_ns", [-MS // 2, 0, 1000])
def test_a_lost_count_is_flagged(late_ns):
    """The next count begins later than the one before the lost one ended: it has its own window, and is flagged."""
    fed = FedIntake()
    for k in range(1, 40):
        if k % 10:
            points = [*samples([1000], [T0 + k * MS]), (DEPTH, "Ethernet0|1", T0 + k * MS, 5)]
            fed.feed(message(points, temporality=DELTA, start_ns=T0 + (k - 1) * MS + late_ns))
    rows = fed.end().rows["ports"]
    begin = {k: (k - 1) * MS + (late_ns if k % 10 == 1 else 0) for k in range(1, 40) if k % 10}
    assert [(row["window_start_ns"] - T0, row["ts_ns"] - T0) for row in rows] == [
        (start, k * MS) for k, start in begin.items()
    ]
    assert [row["ts_ns"] - T0 for row in rows if row["quality"]] == [k * MS for k in (11, 21, 31)]
    assert not any(row["quality"] for row in fed.rows["queues"]), "a gauge is of its moment"


def test_infrequent_totals_are_rows_of_ports():
    """Bins are only for totals that are sampled once a second or more often."""
    times = [T0 + k * 10_000 * MS for k in range(N + 1)]
    fed = FedIntake().feed(message(samples(totals([1000] * N), times)[:25])).feed(
        message(samples(totals([1000] * N), times)[25:])
    ).end()  # fmt: skip
    assert not fed.bins and [row["out_bytes"] for row in fed.rows["ports"]] == [1000] * N


@pytest.mark.parametrize("off", range(0, 10, 3))
def test_bins_of_another_width_are_at_the_nearest_multiple(off):
    """If samples become less frequent, bins are at most half a width from their samples, at once and to the end."""
    times = [T0 + k * MS for k in range(200 + off)]
    times += [times[-1] + k * 10 * MS for k in range(1, 200)]
    amounts = [1000 + k for k in range(len(times) - 1)]
    points = samples(totals(amounts), times)
    fed = FedIntake().feed(*(message(points[first : first + 50]) for first in range(0, len(points), 50))).end()
    assert [lane.bin_ns for lane in fed.intake.ports.lanes.values()] == [MS, 10 * MS]
    found = {amount: start for (_, _, start), (amount, _) in fed.bins.items()}
    assert all(abs(found[1000 + k] - times[k]) <= 10 * MS / 2 for k in range(300, len(amounts)))
    gaps = sum(missed.bytes for missed in fed.missed)
    assert sum(amount for amount, _ in fed.bins.values()) + gaps == sum(amounts)


@pytest.mark.parametrize("slow", [10, 100, 1000])
def test_more_frequent_samples_become_bins_of_their_own_width(slow):
    """The bins begin after 64 such samples, none of which is counted twice or lost."""
    times = [T0 + k * slow * MS for k in range(20)]
    times += [times[-1] + k * MS for k in range(1, 2000)]
    amounts = [1000 + k for k in range(len(times) - 1)]
    points = samples(totals(amounts), times)
    fed = FedIntake().feed(*(message(points[first : first + 50]) for first in range(0, len(points), 50))).end()
    assert [lane.bin_ns for lane in fed.intake.ports.lanes.values()] == [slow * MS, MS]
    found = {amount: start for (_, _, start), (amount, quality) in fed.bins.items() if not quality}
    assert all(found[1000 + k] == times[k] for k in range(1000, len(amounts)))
    gaps = sum(missed.bytes for missed in fed.missed)
    assert sum(amount for amount, _ in fed.bins.values()) + gaps == sum(amounts)


def test_totals_that_were_too_infrequent_for_bins_become_bins():
    """This happens after 64 frequent samples. The bytes carried until then are in rows of `ports`, in one row with
    other counters."""
    times = [T0 + k * 10_000 * MS for k in range(30)]
    times += [times[-1] + k * MS for k in range(1, 500)]
    points = samples(totals([1000] * (len(times) - 1)), times)
    dropped = [(PORT_DROPS, "Ethernet0", at, 7) for at in times]
    both = [point for pair in zip(points, dropped, strict=True) for point in pair]
    fed = FedIntake().feed(*(message(both[first : first + 20]) for first in range(0, len(both), 20))).end()
    assert [lane.bin_ns for lane in fed.intake.ports.lanes.values()] == [MS]
    rows = [row for row in fed.rows["ports"] if row["out_bytes"] is not None]
    ended = max(row["ts_ns"] for row in rows)
    assert sum(row["out_bytes"] for row in rows) == 1000 * times.index(ended)
    assert fed.bins == {("Ethernet0", "out", at): (1000, 0) for at in times[times.index(ended) : -1]}
    assert sum(row["out_discards"] is None for row in rows) <= 16, "only of those that were held"
    assert 64 <= times.index(ended) - 29 < 84


def test_totals_that_are_frequent_only_at_times_stay_rows():
    """Bins need 64 frequent samples in a row."""
    times = [T0 + k * 10_000 * MS for k in range(25)]
    for _ in range(4):
        times.append(times[-1] + 10_000 * MS)
        times += [times[-1] + k * MS for k in range(1, 41)]
    points = samples(totals([1000] * (len(times) - 1)), times)
    fed = FedIntake().feed(message(points[:25]), *(message([point]) for point in points[25:])).end()
    assert not fed.bins and sum(row["out_bytes"] for row in fed.rows["ports"]) == 1000 * (len(times) - 1)


def test_refused_points_are_reported():
    fed = FedIntake()
    points = [(DEPTH, "Ethernet0|1", 5, 1), (DEPTH, "Ethernet0|1", T0, float("nan"))]
    reading = fed.intake.read(message([*points, (DEPTH, "Ethernet0|1", T0, 2.4), ("unknown", "x", T0, 1)]), "a")
    assert reading.refused == {"invalid timestamp": 1, "not a number": 1}
    assert reading.unmapped == {("tor1", "unknown"): 1}
    fed.end()
    assert [row["max_bytes"] for row in fed.rows["queues"]] == [2]


@pytest.mark.parametrize(
    ("part", "around"), [(0x0A, ()), (0x12, (0x0A,)), (0x12, (0x12, 0x0A)), (0x0A, (0x2A, 0x12, 0x12, 0x0A))]
)
def test_messages_of_empty_parts_are_refused(part, around):
    """Resources, scopes, metrics or points of two bytes each would cost more time than a message of their size may."""
    sent = bytes([part, 0]) * 100_000
    for tag in around:
        sent = bytes([tag, len(sent) & 127 | 128, len(sent) >> 7 & 127 | 128, len(sent) >> 14]) + sent
    with pytest.raises(InvalidMessage, match="a part for each 8 bytes"):
        FedIntake().intake.read(sent, "a")


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(sent):
    fed = FedIntake()
    with suppress(InvalidMessage):
        fed.intake.read(sent, "a")
    fed.end()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 40))
def test_mangled_messages_end_nothing(seed, changes):
    """Bytes that were a message, with some of them changed."""
    noise = random.Random(seed)
    sent = bytearray(message([(DEPTH, "Ethernet0|1", T0 + k, k) for k in range(4)] + samples([1, 2, 3])))
    for _ in range(changes):
        sent[noise.randrange(len(sent))] = noise.randrange(256)
    fed = FedIntake()
    with suppress(InvalidMessage):
        fed.intake.read(bytes(sent), "a")
    fed.feed(message(samples([1, 2, 3], [T0 + k * MS for k in range(100, 103)]))).end()


def test_the_library_of_opentelemetry_reads_the_answers():
    """The answers of mburst are decoded by OpenTelemetry's library."""
    answer = messages.Response()
    answer.partial_success.rejected_data_points, answer.partial_success.error_message = 7, "why"
    read = metrics_service_pb2.ExportMetricsServiceResponse.FromString(answer.SerializeToString())
    assert (read.partial_success.rejected_data_points, read.partial_success.error_message) == (7, "why")
