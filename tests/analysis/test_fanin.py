"""Groups of senders, the requests that trigger them, and contention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from storelib import write

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.cause import fanin
from mburst.analysis.cause.trigger import FanOuts, before, fan_outs
from mburst.analysis.whatif.tail_at_scale import slow_requests
from mburst.dashboards.investigation.phrases import who_words
from mburst.dashboards.investigation.words import group_sentences, trigger_words
from mburst.sql import StoreFolder

MS = 10**6
T0 = 1_800_000_000 * 10**9
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s


def gather_rounds(
    store: StoreFolder, rounds: int, asked: int, acknowledged: bool = False, host: str = "cache-1", port: int = 9000
) -> None:
    """Every 100 ms this host asks `asked` others on port 9000. Twelve answer 2 ms later for 10 ms, and the host may
    acknowledge that. One backup stream follows at the end."""
    incoming, outgoing = ({"recording_id": f"{host} {way}", "host": host, "direction": way} for way in ("in", "out"))
    write(store, "recordings", incoming, outgoing)
    bins, sources = [], []
    for k in range(rounds):
        start = T0 + k * 100 * MS
        for at in [start] + [start + ms * MS for ms in range(2, 12)] * acknowledged:
            sources.append({**outgoing, "source": "10.0.9.9", "ts_ns": at,
                            "flows": asked,
                            "bytes": 100 * asked, "first_ns": at + 1000, "last_ns": at + 90_000,
                            "source_port": 0, "destination_port": port})  # fmt: skip
        senders = [f"10.0.1.{n}" for n in range(16, 28)] if k < rounds - 1 else ["10.0.7.7"]
        for ms in range(2, 12):
            at = start + ms * MS
            bins.append({**incoming, "ts_ns": at, "wire_bytes": FULL, "bytes": FULL - 2000})
            sources += [{**incoming, "source": name, "ts_ns": at, "bytes": 120_000 // len(senders),
                         "first_ns": at + 500, "last_ns": at + MS - 1, "source_port": port}
                        for name in senders]  # fmt: skip
    write(store, "bins", *bins)
    write(store, "sources", *sources)


def found(store: StoreFolder) -> list[fanin.Group]:
    con = store.connect()
    bursts = find_bursts(con, BurstDefinition(), direction="in")
    return fanin.groups(con, [{"burst": k, **burst} for k, burst in enumerate(bursts, 1)])


def test_a_scatter_gather_is_named_with_its_requests(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 20, asked=12)
    answers, backup = found(store)
    assert answers.name == "10.0.1.16/28 (12 senders)" and len(answers.bursts) == 19 and answers.fan_in == 12
    assert answers.members[0] == "10.0.1.16" and answers.member_share == pytest.approx(1, abs=0.05)
    assert answers.trigger is not None and answers.trigger.flows == 12 and answers.trigger.share == 1
    assert answers.trigger.lead_ns == 2 * MS - 500 and answers.trigger.bursts == 19
    assert answers.port == answers.trigger.port == 9000
    assert backup.name == "10.0.7.7" and backup.fan_in == 1
    assert answers.share_of_bytes == pytest.approx(0.95, abs=0.01)


def test_triggers_are_sought_on_the_interface_of_the_bursts(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 4, asked=1, host="cache-0", port=80)
    gather_rounds(store, 20, asked=12)
    answers, backup = found(store)
    assert len(answers.bursts) == 3 + 19 and answers.port == 9000
    assert answers.trigger is not None and (answers.trigger.bursts, answers.trigger.share) == (19, 1)
    assert len(backup.bursts) == 2 and backup.port == 9000


def test_acknowledgements_are_not_taken_for_requests(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 20, asked=12, acknowledged=True)
    answers = found(store)[0].trigger
    assert answers is not None and answers.share == 1 and answers.lead_ns == 2 * MS - 500
    assert answers.usual == pytest.approx(0.1, abs=0.02)  # 10 ms of each 100, not all of the time


def asked_at(times_ms: np.ndarray, span_ms: int = 10_000) -> FanOuts:
    at = (np.sort(times_ms) * MS).astype(np.int64)
    begins = np.diff(at, prepend=at[:1] - 100 * MS) > 2 * MS
    return FanOuts(at, np.full(len(at), 12), np.full(len(at), 9000), begins, (0, span_ms * MS))


def often_sure(bursts: int, a_second: float, within_ms: float = 10_000) -> float:
    """Returns how often unrelated fan-outs are called the trigger, all of both within a part of the recorded time."""
    rng, sure = np.random.default_rng(bursts), 0
    for _ in range(1000):
        sent = asked_at(rng.uniform(0, within_ms, rng.poisson(a_second * within_ms / 1000) + 1), 10_000)
        onsets = (np.sort(rng.uniform(0, within_ms, bursts)) * MS).astype(np.int64)
        found = before(sent, onsets)
        sure += found is not None and found.is_sure
    return sure / 1000


@pytest.mark.parametrize("bursts", [1, 2, 5, 20])
@pytest.mark.parametrize("a_second", [5, 24, 45])
def test_unrelated_requests_are_hardly_ever_the_trigger(bursts: int, a_second: float) -> None:
    assert often_sure(bursts, a_second) <= 0.005
    assert often_sure(bursts, a_second, 1000) <= 0.005


def test_five_bursts_after_requests_show_their_trigger_and_one_does_not() -> None:
    onsets = np.array([110, 480, 1020, 1310, 1900]) * MS
    sent = asked_at(onsets / MS - 2)
    found, alone = before(sent, onsets), before(sent, onsets[:1])
    assert found is not None and found.is_sure and found.p_value == pytest.approx(0.025**5, rel=2)
    assert alone is not None and alone.is_frequent and not alone.is_sure
    many = before(sent, onsets[:2], tested=10)
    assert (
        many is not None and not many.is_sure and many.p_value == pytest.approx(10 * before(sent, onsets[:2]).p_value)
    )


def test_the_smallest_p_is_a_bound_and_not_zero() -> None:
    onsets = np.arange(1, 401) * 1000 * MS
    found = before(asked_at(onsets / MS - 2, 401_000), onsets)
    assert found is not None and found.is_sure and found.p_value == 1e-300
    assert "(p < 1e-300)" in trigger_words(found) and "(p = 0.012)" in trigger_words(found._replace(p_value=0.0123))


def test_bursts_after_one_request_are_one_observation() -> None:
    onsets = np.arange(500, 509) * MS
    found = before(asked_at(np.array([499.0])), onsets)
    assert found is not None and found.share == 1 and not found.is_sure


def test_a_trigger_that_may_be_chance_is_not_named(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 2, asked=12)
    answers = found(store)[0]
    assert answers.trigger is not None and answers.trigger.is_frequent and not answers.trigger.is_sure
    assert "after this host asked" not in who_words([answers])
    assert "Perhaps scatter and gather, but this may be chance: 100 % of 1 burst comes " in " ".join(
        group_sentences(answers)
    )


def test_requests_in_two_bins_take_the_port_of_the_fuller_one(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    rows = [(T0, 5, 7), (T0 + MS, 30, 9000), (T0 + 50 * MS, 4, 80)]
    write(store, "recordings", {"recording_id": "out", "direction": "out"})
    write(store, "sources",
          *({"recording_id": "out", "direction": "out", "source": "10.0.9.9", "ts_ns": at, "flows": flows,
                               "first_ns": at, "last_ns": at + 10, "destination_port": port}
                              for at, flows, port in rows))  # fmt: skip
    sent = fan_outs(store.connect(), "cache-1", "eth0", 3)
    assert sent is not None and sent.begins.tolist() == [True, False, True]
    assert sent.flows.tolist() == [30, 30, 4] and sent.port.tolist() == [9000, 9000, 80]
    assert fan_outs(store.connect(), "other", "eth0", 3) is None


def test_a_host_without_requests_has_no_trigger(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    gather_rounds(store, 6, asked=1)
    assert found(store)[0].trigger is None


def test_names_of_groups() -> None:
    assert fanin.common_name(["10.0.0.1"]) == "10.0.0.1"
    assert fanin.common_name(["10.0.0.4", "10.0.0.5", "10.0.0.7"]) == "10.0.0.4/30 (3 senders)"
    assert fanin.common_name(["2001:db8::1", "2001:db8::2"]) == "2001:db8::/126 (2 senders)"
    assert fanin.common_name(["02:00:00:00:00:01", "10.0.0.1"]) == "02:00:00:00:00:01 and 1 more"


def test_fan_out_multiplies_the_tail() -> None:
    assert {slow.width: slow.share for slow in slow_requests(0.01)}[10] == pytest.approx(0.0956, abs=1e-4)
    assert slow_requests(1.0)[0].share == 1 and slow_requests(0.0)[-1].share == 0


def bursts_from(store: StoreFolder, senders: list[list[int]]) -> None:
    """A burst of 1 ms each 100 ms, from these senders in equal parts."""
    write(store, "recordings", {"start_ns": T0, "end_ns": T0 + len(senders) * 100 * MS})
    times = [T0 + k * 100 * MS for k in range(len(senders))]
    write(store, "bins", *({"ts_ns": at, "wire_bytes": FULL, "bytes": FULL - 2000} for at in times))
    write(
        store,
        "sources",
        *(
            {"ts_ns": at, "source": f"10.0.0.{n}", "bytes": 120_000 // len(of), "first_ns": at, "last_ns": at + 9}
            for at, of in zip(times, senders, strict=True)
            for n in of
        ),
    )


@pytest.mark.parametrize(("fresh", "groups"), [(40, [3]), (41, [2, 1])])
def test_bursts_with_at_least_half_of_their_senders_in_common_are_one_group(
    tmp_path: Path, fresh: int, groups: list[int]
) -> None:
    """Of 60 senders and 40 or 41 others, 50 of 100 or 101 are in both."""
    store = StoreFolder.create(tmp_path / "s")
    bursts_from(store, [[*range(60)], [*range(60)], [*range(10, 60), *range(100, 100 + fresh)]])
    assert sorted(len(group.bursts) for group in found(store)) == sorted(groups)


def test_members_send_in_at_least_80_percent_of_the_bursts(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    bursts_from(store, [[1, 2, 3, 4, *([5] * (k < 40)), *([6] * (k >= 11))] for k in range(50)])
    [group] = found(store)
    assert group.members == [f"10.0.0.{n}" for n in (1, 2, 3, 4, 5)]
