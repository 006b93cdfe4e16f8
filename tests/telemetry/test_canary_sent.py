"""The bursts that `mburst canary` sends: their share of the link in any second, their packets, and their times."""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.errors import UsageError
from mburst.telemetry.canary import plan as canary_plan
from mburst.telemetry.canary import sender as canary_sender
from mburst.telemetry.canary.plan import BurstShape, CanaryPlan, Frames, Pace, planned
from mburst.telemetry.probe.targets import resolve
from mburst.units import NS_PER_S

FRAMES = Frames.of(1500, 4)
RUN = bytes(range(8))


def plan_of(cells: list[BurstShape], count: int = 1, link_bps: int = 10**9, **changed: object) -> CanaryPlan:
    return CanaryPlan(
        **{
            "cells": tuple(cells),
            "count": count,
            "link_bps": link_bps,
            "share": 0.05,
            "gap_ns": 10**6,
            "frames": FRAMES,
            **changed,
        }
    )  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(100, 400_000), min_size=1, max_size=60),
    st.floats(0.01, 0.25),
    st.integers(0, 10**7),
    st.integers(0, 2**32),
)
def test_no_second_has_more_than_the_share(sizes: list[int], share: float, took: int, seed: int) -> None:
    """Against a sum over every second that begins or ends with a burst."""
    plan = plan_of([BurstShape(100, 0)], share=share)
    sizes = [size for size in sizes if FRAMES.wire_bytes(size) <= plan.budget] or [100]
    pace, now, sent = Pace(plan, random.Random(seed)), 10**12, []
    for size in sizes:
        wire = FRAMES.wire_bytes(size)
        start = max(now, pace.next_ns(wire))
        now = start + took
        sent.append((start, now, wire))
        pace.sent(now, wire)
    for begin, _, _ in sent:
        within = sum(wire for start, end, wire in sent if end > begin and start < begin + NS_PER_S)
        late = sum(wire for start, end, wire in sent if start < begin + NS_PER_S <= end)
        assert within - late <= plan.budget
    assert all(b[0] - a[1] >= plan.gap_ns for a, b in itertools.pairwise(sent))


@settings(deadline=None)
@given(st.integers(1, 10**7), st.integers(1280, 9216), st.sampled_from([4, 6]))
def test_packets_are_full_but_the_last(size: int, mtu: int, version: int) -> None:
    frames = Frames.of(mtu, version)
    lengths = frames.split(size)
    assert all(length == mtu + 14 for length in lengths[:-1])
    assert frames.headers + canary_sender.MARK.size <= lengths[-1] <= mtu + 14
    assert 0 <= sum(lengths) - size < frames.headers + canary_sender.MARK.size
    assert canary_sender.MARK.size == canary_plan.MARK_BYTES


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sizes": [10_000_000]}, "a burst of 10 MB alone is more than 5 % of a second of 1 Gb/s (6.25 MB)"),
        ({"share": 0.3}, "at most 25 % of the link"),
        ({"count": 40_000}, "80,000 bursts are more than the 50,000 of a run"),
        ({"count": 0}, "nothing to send"),
        ({"sizes": [1_000_000], "lengths": [10**6]}, "no burst of 1 MB fits into 1 ms at 1 Gb/s"),
    ],
)
def test_invalid_plans_are_refused(wrong: dict[str, object], message: str) -> None:
    asked = {
        "sizes": [10_000, 20_000],
        "lengths": [0],
        "count": 10,
        "link_bps": 10**9,
        "share": 0.05,
        "gap_ns": 10**7,
        "frames": FRAMES,
        **wrong,
    }
    with pytest.raises(UsageError) as refused:
        planned(**asked)  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_bursts_that_the_link_cannot_carry_are_left_out() -> None:
    plan, left_out = planned([50_000, 500_000], [0, 10**6], 3, 10**9, 0.1, 10**7, FRAMES)
    assert plan.cells == (BurstShape(50_000, 0), BurstShape(500_000, 0), BurstShape(50_000, 10**6)) and plan.bursts == 9
    assert left_out == [BurstShape(500_000, 10**6)]
    assert canary_plan.default_sizes(10**9) == (6200, 12_000, 25_000, 62_000, 120_000, 250_000)


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def receiver(request: pytest.FixtureRequest):
    """A socket on loopback, and a sender to it. The MTU of loopback is assumed to be 1500."""
    host = "127.0.0.1" if request.param == socket.AF_INET else "::1"
    with socket.socket(request.param, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((host, 0))
        except OSError:
            pytest.skip("no IPv6 here")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        sock.settimeout(5)
        port = sock.getsockname()[1]
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sender = canary_sender.Sender(resolve(name, 9, socket.SOCK_DGRAM, request.param), RUN)
        try:
            yield sock, sender
        finally:
            sender.close()


@pytest.mark.parametrize("link_bps", [10**9, 10**11], ids=["one by one", "segments"])
def test_a_burst_matches_its_marks(receiver, link_bps: int) -> None:
    sock, sender = receiver
    frames = Frames.of(sender.mtu, 4 if sock.family == socket.AF_INET else 6)
    plan = plan_of(
        [BurstShape(20_000, 0), BurstShape(100, 0), BurstShape(5_000, 2 * 10**6)], 2, link_bps, frames=frames
    )
    before = time.time_ns()
    sent = list(canary_sender.bursts(sender, plan, random.Random(1), threading.Event()))
    after = time.time_ns()
    got: dict[int, list[tuple[int, int, int]]] = {}
    for _ in range(sum(burst.packets for burst in sent)):
        data = sock.recv(65_536)
        magic, run, number, place, packets = canary_sender.MARK.unpack_from(data)
        assert (magic, run) == (canary_sender.MAGIC, RUN)
        got.setdefault(number, []).append((place, packets, len(data)))
    assert sum(not burst.held_up for burst in sent) <= 6 <= len(sent) <= 12
    for burst in sent:
        rows = got[burst.number]
        assert sorted(place for place, _, _ in rows) == list(range(burst.packets))
        assert {packets for _, packets, _ in rows} == {burst.packets}
        assert burst.bytes == sum(length + frames.headers for _, _, length in rows)
        assert abs(burst.bytes - burst.size_bytes) <= frames.headers + canary_sender.MARK.size
        assert before - 10**6 <= burst.start_ns <= burst.end_ns <= after + 10**6
        assert burst.stamps in ("sw", "app") and burst.error_ns >= 0
        if burst.length_ns and burst.packets > 1 and not burst.held_up:  # spread: not sooner than requested
            assert burst.end_ns - burst.start_ns > burst.length_ns * (burst.packets - 1) // burst.packets - 500_000
    assert all(a.end_ns + plan.gap_ns - 10**6 <= b.start_ns for a, b in itertools.pairwise(sent))


@pytest.mark.parametrize("held", [None, 0, 1])
def test_a_spread_burst_that_catches_up_is_marked_as_held_up(receiver, monkeypatch, held: int | None) -> None:
    """A packet that waits for the previous one leaves closer to it than requested, while the whole burst takes no
    longer. The machine may delay many bursts; the first burst whose packets were all sent on time must not be
    marked."""
    _, sender = receiver
    shape, send, each_ns = BurstShape(5_000, 40 * 10**6), sender._send, 10 * 10**6
    plan = plan_of([shape], frames=Frames.of(1500, 4))

    def burst() -> tuple[bool, float]:
        """Returns whether it was marked as held up, and the largest deviation (ns) of the begin or end of a call from
        its time."""
        times: list[int] = []

        def late(*args: object) -> None:
            if held is not None and len(times) == 2 * held:
                time.sleep(0.02)
            times.append(time.monotonic_ns())
            send(*args)
            times.append(time.monotonic_ns())

        monkeypatch.setattr(sender, "_send", late)
        sent = sender.send(1, shape, plan, threading.Event())
        assert sent.packets == 4 and len(times) == 8
        return sent.held_up, max(abs(at - times[0] - i // 2 * each_ns) for i, at in enumerate(times))

    if held is not None:
        assert burst()[0]
        return
    bursts = (burst() for _ in range(500))
    assert not next(held_up for held_up, off_ns in bursts if off_ns < 500_000)


def test_a_stop_ends_sending_within_the_burst(receiver) -> None:
    _, sender = receiver
    stop = threading.Event()
    sending = canary_sender.bursts(sender, plan_of([BurstShape(2_000, 0)], 1000), random.Random(1), stop)
    assert next(sending).packets == 2
    stop.set()
    assert list(sending) == []
    cut = sender.send(7, BurstShape(2_000, 0), plan_of([BurstShape(2_000, 0)]), stop)
    assert (cut.packets, cut.held_up) == (0, True)
