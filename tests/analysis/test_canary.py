"""Canary bursts: intervals and clocks against slow oracles, and the detection of the bursts in a recording."""

from __future__ import annotations

import itertools
import json
import random
from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from canarylib import FRAME, MS, SECOND, SENDER, START, US, record, run_of, sent_at
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from storelib import write

import mburst
from mburst.__main__ import main
from mburst.analysis.answers.host import gather
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.analysis.canary import sensitivity
from mburst.analysis.canary.clock import FASTEST_DRIFT, VOTING, WINDOW_NS, compare
from mburst.analysis.canary.sensitivity import CurvePoint, DetectionCurve, DetectionError
from mburst.analysis.model import binomial
from mburst.analysis.rack import report
from mburst.analysis.rack.period import Period
from mburst.dashboards.common.sensitivity_words import UNMEASURED, clock_words, limit_words, seen_words
from mburst.dashboards.rack import words as rack_words
from mburst.dashboards.report import page
from mburst.errors import MburstError
from mburst.services import canary
from mburst.sql import StoreFolder
from mburst.units import NS_PER_DAY

BIG, SMALL = 40 * FRAME, 2 * FRAME  # detected in bins of 100 µs at 1 Gb/s; never so


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from([0.025, 0.05, 0.005]))
def test_intervals_are_where_the_tails_are(a: int, b: int, tail: float) -> None:
    """Against tails in whole numbers: at the bound, K or more (or fewer) are as rare as TAIL."""
    k, n = min(a, b), max(a, b)

    def chance(p: float, counts: range) -> Fraction:
        exact = Fraction(p)
        return sum((comb(n, i) * exact**i * (1 - exact) ** (n - i) for i in counts), Fraction(0))

    low, high = binomial.lower(k, n, tail), binomial.upper(k, n, tail)
    assert 0 <= low <= high <= 1
    assert low == 0 if k == 0 else float(chance(low, range(k, n + 1))) == pytest.approx(tail, rel=1e-6)
    assert high == 1 if k == n else float(chance(high, range(k + 1))) == pytest.approx(tail, rel=1e-6)


def test_95_percent_need_59_of_59() -> None:
    assert binomial.lower(59, 59, 0.05) >= 0.95 > binomial.lower(58, 58, 0.05)
    assert binomial.lower(92, 93, 0.05) >= 0.95 > binomial.lower(91, 92, 0.05)


def matched_by_chance(sent: list[int], own: dict[int, int], others: list[int]) -> int:
    """Returns the most pairs of a burst that votes and an arrival other than its own (OWN, by burst) that one offset
    has."""
    arrivals = [*own.items(), *((-1, at) for at in others)]
    apart = sorted(at - ns for burst, ns in enumerate(sent[:VOTING]) for number, at in arrivals if number != burst)
    window = WINDOW_NS + int(FASTEST_DRIFT * (sent[:VOTING][-1] - sent[0]))
    return max((bisect_right(apart, first + window) - k for k, first in enumerate(apart)), default=0)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.integers(-3000 * SECOND, 3000 * SECOND),
    st.floats(-100, 100),
    st.floats(0, 0.5),
    st.integers(0, 200),
    st.integers(20, 400),
)
@example(57, 0, 0.0, 0.0, 20, 20)  # 11 pairs by chance
def test_a_clock_is_known_from_the_bursts(
    seed: int, offset: int, ppm: float, missing: float, strangers: int, count: int
) -> None:
    """However far the clocks are apart and drift, some bursts are missing, and others came."""
    rng = np.random.default_rng(seed)
    sent = START + np.cumsum(rng.integers(10 * MS, 20 * MS, count))
    delay = rng.exponential(20 * US, count) + 50 * US
    delay[rng.random(count) < 0.05] += 800 * US  # held up on the way
    true = sent + offset + np.rint(ppm * 1e-6 * (sent - START) + delay).astype(np.int64)
    numbers = np.flatnonzero(rng.random(count) >= missing)
    came = true[numbers]
    others = true[0] + rng.integers(0, int(true[-1] - true[0]) + 1, strangers)
    clock = compare(sent, np.sort(np.concatenate([came, others])))
    if len(came) < 12 or strangers > len(came):
        return  # it may be known or not
    if clock is None:  # only if another offset may have half as many matches
        own = dict(zip(numbers.tolist(), came.tolist(), strict=True))
        assert 2 * matched_by_chance(sent.tolist(), own, others.tolist()) > (numbers < VOTING).sum()
        return
    off = clock.arrival(sent) - (sent + offset + ppm * 1e-6 * (sent - START) + 64 * US)  # the median of the delay
    assert (np.abs(off) < 60 * US + 3 * clock.error_ns(sent)).all()  # of few bursts, it is wide
    assert (clock.matched >= 0).sum() >= len(came) * 0.95


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(20, 200))
def test_what_did_not_come_from_there_gives_no_clock(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    sent, other = (START + np.cumsum(rng.integers(10 * MS, 20 * MS, count)) for _ in range(2))
    clock = compare(sent, other)
    assert clock is None or (clock.matched >= 0).sum() < count
    assert compare(sent[:5], sent[:5]) is None


def spread(count: int, seed: int = 1) -> list[int]:
    rng, at, found = random.Random(seed), START, []
    for _ in range(count):
        at += rng.randrange(12 * MS, 24 * MS)
        found.append(at)
    return found


def alternating(count: int, seed: int = 1, **more: object) -> list:
    return sent_at(spread(count, seed), [BIG if i % 2 else SMALL for i in range(count)], **more)  # type: ignore[arg-type]


def test_large_canary_bursts_are_detected_and_small_ones_are_not(tmp_path: Path) -> None:
    """The recorder's clock is 20 minutes ahead and 40 ppm faster, which mburst does not know."""
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(160)
    record(store, sent, lambda ns: ns + 1200 * SECOND + (ns - START) * 40 // 10**6 + 30 * US)
    [lane] = canary.read(store, run_of(sent), BurstDefinition())
    assert {(row["size_bytes"], row["detected"], row["excluded"]) for row in lane.rows} == {
        (BIG, True, ""),
        (SMALL, False, ""),
    }
    clock = lane.clocks[0]
    middle = 1200 * SECOND + (clock.middle_ns - START) * 40 // 10**6 + 30 * US
    assert abs(clock.offset_ns - middle) < 3 * US and abs(clock.drift * 1e6 - 40) < 0.01
    found = mburst.open(tmp_path / "s").sensitivity()
    [large] = [point for point in found.curves[0].points if point.size_bytes == BIG]
    assert (large.n, large.detected, large.holds) == (80, 80, True)
    assert 0 <= large.start_ns.p95 <= 100 * US and 0 <= large.end_ns.p95 <= 113 * US and abs(large.bytes.median) < 0.1
    assert found.summary == (
        "cache-1 eth0 in: Bursts of 60.6 kB or more back to back are detected with 95 % or more "
        "(80 of 80 canary bursts, 2026-11-20, kernel stamps, bins of 100 µs)."
    )
    assert found.table().num_rows == 2 and found.to_dict()[0]["points"][1]["holds"]


def excluded(store: StoreFolder, sent: list, **options: object) -> dict[int, str]:
    [lane] = canary.read(store, run_of(sent), BurstDefinition(**options))  # type: ignore[arg-type]
    return {row["number"]: row["excluded"] for row in lane.rows if row["excluded"]}


def test_bursts_that_are_no_evidence_about_the_recorder_do_not_count(tmp_path: Path) -> None:
    """Bursts that were lost on the way, hidden in another burst, held up by the sender, or sent after the recording
    ended."""
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(80, held_up=[11])
    other = [{"at": sent[21].start_ns + i * 2 * US, "bytes": FRAME, "source": "10.0.0.5"} for i in range(300)]
    record(
        store,
        sent,
        lambda ns: ns,
        lost=lambda number, place: number in (4, 5) and place % 2 == 0,
        others=other,
        until=sent[69].end_ns + MS,
    )
    assert excluded(store, sent) == {
        4: "lost",
        5: "lost",
        11: "held up",
        22: "hidden",
        **dict.fromkeys(range(71, 81), "not recorded"),
    }
    [curve] = sensitivity.curves(store.connect())
    assert curve.excluded == {"lost": 2, "held up": 1, "hidden": 1, "not recorded": 10}
    assert sum(point.n for point in curve.points) == 80 - 14


def test_a_burst_with_a_sender_summed_with_others_is_not_lost(tmp_path: Path) -> None:
    """`--sources busy` sums the senders of small bursts. Such canary bursts count as not detected."""
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(80)
    small = {at // MS * MS for one in sent if one.size_bytes == SMALL for at in (one.start_ns, one.end_ns)}
    others = [{"at": at + 1, "bytes": 100, "source": "10.0.0.5"} for at in small]
    record(store, sent, lambda ns: ns, others=others, summed=small.__contains__)
    assert excluded(store, sent) == {}
    [curve] = sensitivity.curves(store.connect())
    assert [(point.size_bytes, point.detected, point.n) for point in curve.points] == [(SMALL, 0, 40), (BIG, 40, 40)]


def test_late_packets_may_have_been_summed_with_others(tmp_path: Path) -> None:
    """They are neither lost nor missing: it is not known how many packets of the sender arrived."""
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(80)
    late = {one.number: one.end_ns + 2 * MS for one in sent[7::16]}
    others = [{"at": at, "bytes": FRAME, "source": SENDER} for at in late.values()]
    summed = {at // MS * MS for at in late.values()}
    record(
        store,
        sent,
        lambda ns: ns,
        lost=lambda number, place: number in late and place == 1,
        others=others,
        summed=summed.__contains__,
    )
    assert excluded(store, sent) == {}
    rows = store.connect().execute("SELECT number, seen_packets, packets FROM canary").fetchall()
    assert {number for number, seen, _ in rows if seen is None} == set(late)
    assert all(seen == packets for number, seen, packets in rows if number not in late)


def test_bursts_that_the_definition_joins_do_not_count(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(40)
    record(store, sent, lambda ns: ns)
    near = {
        one.number for a, b in itertools.pairwise(sent) for one in (a, b) if b.start_ns - a.end_ns <= 18 * MS + 200 * US
    }
    assert 0 < len(near) < 40
    assert {number for number, why in excluded(store, sent, join_ns=18 * MS).items() if why == "joined"} == near


def test_the_recorders_clock_steps_during_the_measurement(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(120)
    step = sent[60].start_ns - 5 * MS
    record(store, sent, lambda ns: ns + (0 if ns < step else -700 * MS), epoch_of=lambda number: int(number > 60))
    [lane] = canary.read(store, run_of(sent), BurstDefinition())
    assert [row["clock_epoch"] for row in lane.rows] == [0] * 60 + [1] * 60
    assert {row["offset_ns"] // MS for row in lane.rows} == {0, -700}
    assert all(row["detected"] == (row["size_bytes"] == BIG) and not row["excluded"] for row in lane.rows)


def test_two_canaries_at_once_are_separated_by_sender(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    first, second = alternating(80), alternating(80, seed=9)
    frames = [
        {"at": one.start_ns + i * 12_304, "bytes": FRAME, "source": "10.0.0.8"}
        for one in second
        for i in range(one.packets)
    ]
    record(store, first, lambda ns: ns, others=frames)
    [one] = canary.read(store, run_of(first), BurstDefinition())
    [two] = canary.read(store, run_of(second, "canary-fedcba9876543210", "10.0.0.8"), BurstDefinition())
    for lane, sent, beside in ((one, first, second), (two, second, first)):
        for row, burst in zip(lane.rows, sent, strict=True):
            alone = all(burst.start_ns > b.end_ns + 2 * MS or burst.end_ns < b.start_ns - 2 * MS for b in beside)
            assert not alone or (row["excluded"], row["detected"]) == ("", burst.size_bytes == BIG)
    assert sensitivity.curves(store.connect())[0].source in {SENDER, "10.0.0.8"}


def test_canary_bursts_that_were_not_recorded_are_reported(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(40)
    with pytest.raises(MburstError, match=r"no packet of 10\.0\.0\.9 was recorded within an hour"):
        canary.read(store, run_of(sent), BurstDefinition())
    record(store, alternating(40, seed=5), lambda ns: ns)
    with pytest.raises(MburstError, match="not when the 40 canary bursts were sent"):
        canary.read(store, run_of(sent), BurstDefinition())
    with pytest.raises(MburstError, match="at web-7"):
        canary.read(store, run_of(sent), BurstDefinition(), host="web-7")
    assert store.connect().execute("SELECT count(*) FROM canary").fetchall() == [(0,)]


def test_the_newest_reading_and_the_newest_run_count(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(80)
    record(store, sent, lambda ns: ns)
    for _ in range(2):
        canary.read(store, run_of(sent), BurstDefinition())
    assert store.connect().execute("SELECT count(*) FROM canary").fetchall() == [(80,)]
    later = [
        replace(one, start_ns=one.start_ns + 600 * SECOND, end_ns=one.end_ns + 600 * SECOND)
        for one in alternating(60, seed=3)
    ]
    record(store, later, lambda ns: ns, name="run-2")
    canary.read(store, run_of(later, "canary-fedcba9876543210"), BurstDefinition())
    [curve] = sensitivity.curves(store.connect())
    assert curve.batch == "canary-fedcba9876543210" and sum(point.n for point in curve.points) == 60
    since = START + 7200 * SECOND  # they stay valid for any time that is queried
    assert store.connect(since_ns=since).execute("SELECT count(*) FROM canary").fetchall() == [(140,)]


def test_a_report_and_a_list_name_canaries_and_state_the_detection_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(120)
    other = [{"at": sent[-1].end_ns + 40 * MS + i * 12_304, "bytes": FRAME, "source": "10.0.0.5"} for i in range(90)]
    record(store, sent, lambda ns: ns, others=other)
    con = store.connect()
    [before] = gather(con, lanes(con), detect(con, lanes(con), BurstDefinition()))
    assert before.canaries == [] and len(before.bursts) == 61
    canary.read(store, run_of(sent), BurstDefinition())
    con = store.connect()
    [after] = gather(con, lanes(con), detect(con, lanes(con), BurstDefinition()))
    assert len(after.canaries) == 60 and after.bursts[-1]["pattern"] == "single-source"
    assert main(["bursts", str(tmp_path / "s")]) == 0
    listed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["bursts", str(tmp_path / "s"), "--json"]) == 0
    patterns = [burst["pattern"] for burst in json.loads(capsys.readouterr().out)]
    assert patterns == ["canary"] * 60 + ["single-source"]
    assert main(["sql", str(tmp_path / "s"), "bursts", "--csv"]) == 0
    assert capsys.readouterr().out.count(",canary,") == 60
    assert sum("canary" in words for words in listed) == 60 and sum("single-source" in words for words in listed) == 1
    html = page.render([after], BurstDefinition())
    assert "60 of 61 bursts are canary bursts" in html and "60 of them canary bursts" in html
    assert "Bursts of 60.6 kB or more back to back are detected with 95 % or more (60 of 60 canary bursts" in html
    facts_of_it = page.facts_json([after], BurstDefinition())["lanes"][0]
    assert facts_of_it["sensitivity"].startswith("Bursts of 60.6 kB or more")
    strict = BurstDefinition(threshold=0.9)
    quiet = page.facts_json([after], strict)["lanes"][0]["sensitivity"]
    assert quiet.startswith("How small a burst is detected was measured on 2026-11-20, but not by this definition")


@pytest.mark.costly
@settings(deadline=None, max_examples=6)
@given(st.data())
def test_the_pattern_says_which_bursts_were_sent_by_mburst(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Against all pairs: the largest sender, by half of the bytes, had a canary burst in the time of the burst or a bin
    beside it. Everywhere the same."""
    store, count = StoreFolder.create(tmp_path_factory.mktemp("marks") / "s"), data.draw(st.integers(8, 30))
    gaps = data.draw(st.lists(st.integers(8, 60), min_size=2 * count, max_size=2 * count))
    starts = [START + SECOND + sum(gaps[:i]) * MS for i in range(2 * count)]
    everything = sent_at(starts, [60_560] * len(starts))
    whose = data.draw(st.lists(st.sampled_from(["sent", "own", "other"]), min_size=2 * count, max_size=2 * count))
    assume(whose.count("sent") >= 5)
    sent = [one for one, who in zip(everything, whose, strict=True) if who == "sent"]
    others = [
        {"at": one.start_ns + i * 12_304, "bytes": FRAME, "source": SENDER if who == "own" else "10.0.0.5"}
        for one, who in zip(everything, whose, strict=True)
        if who != "sent"
        for i in range(one.packets)
    ]
    record(store, sent, lambda ns: ns, others=others)
    try:
        canary.read(store, run_of(sent), BurstDefinition())
    except MburstError:
        assume(False)  # too little was alike to align the clocks
    con = store.connect()
    rows = con.execute("SELECT source, start_ns, end_ns FROM canary").fetchall()
    expected = [
        any(
            burst["top_sources"][0]["source"] == source
            and burst["top_sources"][0]["share"] >= 0.5
            and start < burst["end_ns"] + burst["bin_ns"]
            and end > burst["start_ns"] - burst["bin_ns"]
            for source, start, end in rows
        )
        for burst in find_bursts(con)
    ]
    assert [burst["pattern"] == "canary" for burst in find_bursts(con)] == expected
    assert sum(expected) >= len(sent) and (sum(expected) < len(everything) or len(sent) == len(everything))


def test_without_bursts_and_canaries_the_limit_is_stated_as_not_measured(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "s")
    record(store, sent_at(spread(20), [SMALL] * 20), lambda ns: ns)
    con = store.connect()
    [report] = gather(con, lanes(con), detect(con, lanes(con), BurstDefinition()))
    assert f"None by this definition. {UNMEASURED}" in page.render([report], BurstDefinition())
    assert str(mburst.open(tmp_path / "s").sensitivity()) == UNMEASURED


def test_an_investigation_states_the_detection_limit(tmp_path: Path) -> None:
    """Probes without a tail, beside canary bursts: at first no limit was measured; then the answer states the smallest
    size, and who sent the bursts."""
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(120)
    record(store, sent, lambda ns: ns)
    times = range(sent[0].start_ns, sent[-1].end_ns, MS)
    write(
        store,
        "probes",
        *(
            {"seq": i, "src": "10.0.0.3", "dst": "cache-1", "tx_ns": at, "rx_ns": at + 50_000 + i % 7}
            for i, at in enumerate(times)
        ),
    )
    before = mburst.open(tmp_path / "s").investigate()
    assert before.cause == "none" and before.summary.endswith(UNMEASURED)
    canary.read(store, run_of(sent), BurstDefinition())
    after = mburst.open(tmp_path / "s").investigate()
    facts_of_it = after.to_dict()
    assert facts_of_it["bursts"]["canaries"] == 60
    assert facts_of_it["smallest_burst"].startswith("Bursts of 60.6 kB or more back to back")
    assert "All of them, 60 bursts, are canary bursts: `mburst canary` sent them from 10.0.0.9." in after.summary
    assert after.cause == "none" and facts_of_it["smallest_burst"] in after.summary
    assert "canary bursts" in after.markdown()
    assert "2026-11-20, kernel stamps" in after.summary


def test_an_investigation_states_the_age_of_the_detection_limit(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(120)
    record(store, sent, lambda ns: ns)
    canary.read(store, run_of(sent), BurstDefinition())
    later = [replace(one, start_ns=one.start_ns + 3 * NS_PER_DAY, end_ns=one.end_ns + 3 * NS_PER_DAY) for one in sent]
    record(store, later, lambda ns: ns, name="run-2")
    times = range(later[0].start_ns, later[-1].end_ns, MS)
    rows = [
        {"seq": i, "src": "10.0.0.3", "dst": "cache-1", "tx_ns": at, "rx_ns": at + 50_000} for i, at in enumerate(times)
    ]
    write(store, "probes", *rows)
    answer = mburst.open(tmp_path / "s").investigate(since=later[0].start_ns - SECOND)
    assert "2026-11-20, 3 days before, kernel stamps" in answer.to_dict()["smallest_burst"]
    assert answer.to_dict()["smallest_burst"] in answer.summary


def test_a_racks_report_names_canaries_and_states_what_no_burst_means(tmp_path: Path) -> None:
    store, sent = StoreFolder.create(tmp_path / "s"), alternating(120)
    record(store, sent, lambda ns: ns)
    canary.read(store, run_of(sent), BurstDefinition())
    whole = Period(START, START + 10 * SECOND)
    heads = {one.head: one.text for one in rack_words.statements(report.gather(store, "r1", whole, BurstDefinition()))}
    assert heads["60 bursts here are canary bursts"].startswith("mburst canary sent them from 10.0.0.9")
    quiet = report.gather(store, "r1", whole, BurstDefinition(threshold=5))
    heads = {one.head: one.text for one in rack_words.statements(quiet)}
    assert "but not by this definition of a burst" in heads["What no burst means"]


def point(size: int, length: int, k: int, n: int) -> CurvePoint:
    none = DetectionError(None, None)
    return CurvePoint(size, length, n, n, k, 0.0, 1.0, none, none, none)


SETTING = {
    "rack": "r1",
    "host": "h",
    "interface": "e",
    "direction": "in",
    "stamps": "sw",
    "bin_ns": 100_000,
    "link_bps": 10**9,
    "threshold_ppb": 5 * 10**8,
    "release_ppb": 5 * 10**8,
    "join_ns": 1,
    "min_duration_ns": 1,
}


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.sampled_from([0, 2 * MS]), st.integers(50, 80), st.integers(0, 3)),
        unique_by=lambda one: one[:2],
        max_size=12,
    )
)
def test_the_limit_is_the_smallest_size_down_to_which_all_hold(given_points: list) -> None:
    points = [point(size, length, n - missed, n) for size, length, n, missed in given_points]
    curve = DetectionCurve(SETTING, "b", "s", 0, START, points, {}, 0, 0, 0, 0)
    holds = {(p.size_bytes, p.length_ns): binomial.lower(p.detected, p.n, 0.05) >= 0.95 for p in points}
    wanted = []
    for length in (0, 2 * MS):
        sizes = [
            size
            for size, of in holds
            if of == length and all(good for (other, same), good in holds.items() if same == length and other >= size)
        ]
        wanted += [(min(sizes), length)] if sizes else []
    assert [(p.size_bytes, p.length_ns) for p in curve.limits()] == wanted
    assert ("are detected with 95 % or more" in limit_words(curve)) == bool(wanted)


def test_partial_detection_of_bursts_is_stated() -> None:
    points = [replace(point(9000, 0, 60, 60), bytes=DetectionError(-0.89, 0.95)), point(9000, MS, 60, 60)]
    assert limit_words(DetectionCurve(SETTING, "b", "s", 0, START, points, {}, 0, 0, 0, 0)).startswith(
        "Bursts of 9 kB or more back to back (of which the bursts that are found have 11 % of the bytes), and of "
        "9 kB or more within 1 ms, are detected"
    )


@pytest.mark.parametrize(("ppb", "text"), [(0, "+0 ppm"), (12_340, "+12.3 ppm"), (-999_500, "-1,000 ppm")])
def test_the_drift_of_the_clocks_has_no_exponent(ppb: int, text: str) -> None:
    assert f"drift {text}" in clock_words(DetectionCurve(SETTING, "b", "s", 0, START, [], {}, 0, 0, ppb, 0))


def test_the_age_of_a_measurement_is_stated() -> None:
    curve = DetectionCurve(SETTING, "b", "s", 0, START, [point(9000, 0, 60, 60)], {}, 0, 0, 0, 0)
    asked = sensitivity.CurveSetting(
        {name: str(SETTING[name]) for name in ("rack", "host", "interface", "direction")},
        {name: SETTING[name] for name in list(SETTING)[5:]},
        frozenset({"sw"}),
    )
    assert "2026-11-20, 12 days before" in seen_words([curve], [asked], START + 12 * 86_400 * SECOND)
    assert "not by this definition of a burst and these stamps" in seen_words(
        [curve], [asked._replace(stamps=frozenset({"hw"}))]
    )
    assert seen_words([curve], [asked._replace(where={**asked.where, "host": "other"})]) == UNMEASURED
