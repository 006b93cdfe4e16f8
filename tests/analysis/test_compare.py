"""Comparisons: percentiles and ratios by plain counting, and intervals that contain the truth as often as stated."""

from __future__ import annotations

import json
import math
from pathlib import Path

import duckdb
import numpy as np
import pytest
from storelib import write

from mburst.__main__ import main
from mburst.analysis.answers.compare import (
    BurstSummary,
    Comparison,
    SituationLatency,
    compare,
    read_bursts,
    read_latency,
    resampled,
)
from mburst.analysis.answers.paths import LEVELS, ProbeSelection
from mburst.analysis.bursts.find import BurstDefinition, overlapping_recordings
from mburst.analysis.model.stats import Estimate
from mburst.sql import StoreFolder
from mburst.units import format_time

START = 1_795_228_440_000_000_000
MS, S = 10**6, 10**9


def latency(scale: float, n: int = 6000, seed: int = 1, lost: int = 0, blocks: int = 60) -> SituationLatency:
    values = np.random.default_rng(seed).lognormal(math.log(scale), 0.6, n)
    return SituationLatency(values, np.arange(n) * blocks // n, n + lost, lost)


def compared(a: SituationLatency, b: SituationLatency, slow: float | None = None) -> Comparison:
    return compare(a, b, slow, None, None)


def test_percentiles_and_ratios_are_those_of_the_values():
    a, b = latency(1e5), latency(2e5, 3000, seed=2)
    found = compared(a, b)
    for level in found.levels:
        for side, value in ((a, level.a), (b, level.b)):
            rank = math.ceil(level.share * side.n - 1e-9)
            enough = side.n * (1 - level.share) >= 1 - 1e-9
            assert value == (np.sort(side.values)[rank - 1] if enough else None)
        if level.ratio:
            assert level.ratio.value == level.b / level.a and level.ratio.low <= level.ratio.value <= level.ratio.high
    assert [level.ratio is None for level in found.levels] == [share == 0.9999 for share in LEVELS]


def test_twice_as_slow_is_worse_and_half_as_slow_is_better():
    a, b = latency(1e5), latency(2e5, seed=2)
    assert (compared(a, b).verdict, compared(b, a).verdict) == ("worse", "better")
    assert compared(a, b).decided_by == "p99"


def test_the_same_distribution_is_alike():
    assert compared(latency(1e5), latency(1e5, seed=3)).verdict == "alike"


def test_a_negligible_difference_is_alike():
    a = latency(1e5, 100_000)
    assert compared(a, SituationLatency(a.values * 1.02, a.blocks, a.n, 0)).verdict == "alike"


def test_a_tail_may_decide_though_the_median_is_the_same():
    a = latency(1e5)
    values = a.values.copy()
    values[::40] *= 50
    found = compared(a, SituationLatency(values, a.blocks, a.n, 0))
    assert found.verdict == "worse" and found.decided_by == "p99"


def test_faster_but_lossy_is_undetermined():
    assert compared(latency(1e5), latency(5e4, seed=2, lost=900)).verdict == "undetermined"
    found = compared(latency(1e5), latency(1e5, seed=2, lost=900))
    assert (found.verdict, found.decided_by) == ("worse", "loss")


def test_too_short_a_time_is_undetermined():
    assert compared(latency(1e5, blocks=3), latency(9e5, blocks=3)).verdict == "undetermined"


def test_fan_out_assumes_independent_answers():
    a, b = latency(1e5), latency(2e5, seed=2, lost=60)
    found = compared(a, b, 3e5)
    for fan in found.fans:
        for side, share in ((a, fan.a), (b, fan.b)):
            p = ((side.values > 3e5).sum() + side.lost) / (side.n + side.lost)
            assert share == pytest.approx(1 - (1 - p) ** fan.width, abs=1e-12)
    assert [fan.width for fan in found.fans] == [1, 10, 100, 500, 1000]
    tail = compared(a, b).threshold_ns
    assert tail == np.sort(a.values)[5939]


def test_intervals_contain_the_truth_about_as_often_as_they_state():
    """Delays within a block share a level. The true ratio of medians is 1; intervals from single probes would be far
    too narrow."""
    held = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sides = []
        for _ in range(2):
            level = rng.lognormal(0, 0.5, 60).repeat(10)
            sides.append(SituationLatency(level * rng.lognormal(10, 0.1, 600), np.arange(600) // 10, 600, 0))
        ratio = compared(*sides).levels[0].ratio
        assert ratio is not None
        held += ratio.low <= 1 <= ratio.high
    assert held >= 33  # of 40 at 95 %: fewer have a chance of 0.1 %


def test_resampling_draws_whole_blocks():
    values = np.concatenate([np.full(100, 10.0 * block) for block in range(1, 21)])
    found = resampled(SituationLatency(values, np.arange(2000) // 100, 2000, 0), [0.5], np.random.default_rng(1))
    assert found is not None and set(np.unique(found)) <= {10.0 * block for block in range(1, 21)} and found.std() > 10


def store_of(folder: Path, bursts: int, probe_ns: int) -> StoreFolder:
    """20 s of a 1 Gb/s link with bursts of 10 ms, and 2,000 probes."""
    store = StoreFolder.create(folder)
    write(store, "recordings", {"start_ns": START, "end_ns": START + 20 * S - 1})
    gap = 20 * S // bursts
    write(
        store,
        "bins",
        *(
            {"ts_ns": START + number * gap + ms * MS, "wire_bytes": 125_000}
            for number in range(bursts)
            for ms in range(10)
        ),
        {"ts_ns": START + 20 * S - MS},
    )
    write(
        store,
        "probes",
        *(
            {"seq": i, "tx_ns": START + i * 10 * MS, "rx_ns": START + i * 10 * MS + probe_ns + i % 7}
            for i in range(2000)
        ),
    )
    return store


def bursts_of(store: StoreFolder | duckdb.DuckDBPyConnection, **where: int) -> BurstSummary | None:
    con = store.connect() if isinstance(store, StoreFolder) else store
    wanted = {"hosts": None, "rack": None, "interface": None, "direction": None, "since_ns": None, "until_ns": None}
    return read_bursts(con, BurstDefinition(), **{**wanted, **where})  # type: ignore[arg-type]


def test_bursts_are_counted_over_what_was_recorded(tmp_path):
    found = bursts_of(store_of(tmp_path / "s", 40, 1000))
    assert found is not None and (found.count, found.recorded_ns) == (40, 20 * S)
    assert found.per_minute.value == pytest.approx(120) and found.share_of_time == pytest.approx(0.02)
    assert found.per_minute.low < 120 < found.per_minute.high
    half = bursts_of(StoreFolder.open(tmp_path / "s"), since_ns=START + 10 * S)
    assert half is not None and half.count == 20 and half.recorded_ns == 10 * S


def test_a_second_without_bursts_leaves_a_wide_interval(tmp_path):
    """If none was detected, the rate may still be three or four bursts in the recorded time."""
    store = store_of(tmp_path / "s", 10, 1000)  # each 2 s
    quiet, all_ = bursts_of(store, since_ns=START + S, until_ns=START + 2 * S), bursts_of(store)
    assert quiet is not None and all_ is not None and (quiet.count, all_.count) == (0, 10)
    assert quiet.per_minute.low == 0 and 200 < quiet.per_minute.high < 240
    assert quiet.per_minute.high > all_.per_minute.low  # so the verdict is not "better"


def test_two_recordings_of_the_same_time_count_once(tmp_path):
    """With bins of 1 and of 2 ms, so that their bursts end at different times."""
    store = store_of(tmp_path / "s", 40, 1000)
    again = {"recording_id": "again", "bin_ns": 2 * MS}
    write(store, "recordings", {**again, "start_ns": START, "end_ns": START + 20 * S - 1})
    starts = range(START, START + 20 * S, 500 * MS)
    write(
        store,
        "bins",
        *({**again, "ts_ns": ns + k * MS, "wire_bytes": 250_000} for ns in starts for k in range(0, 12, 2)),
    )
    found = bursts_of(store)
    assert found is not None and (found.recorded_ns, found.count) == (20 * S, 80)
    assert found.per_minute.value == 120 and found.share_of_time == pytest.approx(40 * 12 / 20_000)


def test_a_host_name_in_two_racks_is_two_hosts(tmp_path):
    store = store_of(tmp_path / "s", 40, 1000)
    other = {"recording_id": "other", "rack": "r2"}
    write(store, "recordings", {**other, "start_ns": START, "end_ns": START + 20 * S - 1})
    write(store, "bins", *({**other, "ts_ns": START + k * S, "wire_bytes": 125_000} for k in range(20)))
    con = store.connect()
    found = bursts_of(con)
    assert found is not None and (found.recorded_ns, found.count, found.per_minute.value) == (40 * S, 60, 90)
    assert overlapping_recordings(con) == []


def test_bursts_of_the_incoming_direction_are_compared(tmp_path, capsys):
    """This also holds if one side recorded both directions, unless a direction is selected."""
    a, b = (store_of(tmp_path / name, 40, 1000) for name in "ab")
    out = {"recording_id": "out", "direction": "out"}
    write(b, "recordings", {**out, "start_ns": START, "end_ns": START + 20 * S - 1})
    write(b, "bins", {**out, "ts_ns": START, "wire_bytes": 125_000})
    assert main(["compare", str(a.path), str(b.path), "--json"]) == 0
    sides = json.loads(capsys.readouterr().out)
    assert [sides[side]["bursts"]["per_minute"]["value"] for side in "ab"] == [120, 120]
    assert [sides[side]["bursts"]["directions"] for side in "ab"] == [["in"], ["in"]]
    assert main(["compare", str(a.path), str(b.path), "--b", "direction=out"]) == 0
    assert "bursts of A are of direction in, of B of out: choose one that both have" in capsys.readouterr().err
    later = {"recording_id": "later", "direction": "out"}
    write(b, "recordings", {**later, "start_ns": START + 60 * S, "end_ns": START + 80 * S - 1})
    write(b, "bins", {**later, "ts_ns": START + 79 * S, "wire_bytes": 125_000})
    assert main(["compare", str(a.path), str(b.path), "--b", "since=15s", "--json"]) == 0  # no packet came in then
    assert json.loads(capsys.readouterr().out)["b"]["bursts"]["directions"] == ["out"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["src=nobody"], "no probe with src=nobody (`mburst sql"),
        (["host=nobody"], "no recording with host=nobody (`mburst sql"),
        (["rack=r1", "interface=eth9"], "interface=eth9"),
        (["dst=nobody", "since=2026-01-01"], "no probe with dst=nobody in this time"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_selection_of_nothing_has_no_verdict(chosen, message, tmp_path, capsys):
    """A misspelt name: "B is like A" was about the bursts, or the probes, alone."""
    path = str(store_of(tmp_path / "s", 40, 1000).path)
    for side in ("--a", "--b", "--both"):
        assert main(["compare", path, path, *(word for one in chosen for word in (side, one))]) == 1
        printed = capsys.readouterr()
        assert not printed.out and message in printed.err and printed.err.count("\n") == 1


def many_ports(path: Path, seed: int, ports: int) -> SituationLatency:
    """Probes that meet 24 queues in 20 s, sent from this number of ports in turn."""
    rng = np.random.default_rng(seed)
    queues = zip(np.sort(rng.uniform(0, 20 * S, 24)), rng.uniform(MS, 12 * MS, 24), strict=True)
    tx = np.arange(16_000) * 1_250_000
    took = np.full(len(tx), 50_000)
    for begin, wait in queues:
        took[(tx >= begin) & (tx < begin + 20 * MS)] += int(wait)
    store = StoreFolder.create(path)
    names = [f"p:{40_000 + i}" if ports > 1 else "p" for i in range(ports)]
    write(
        store,
        "probes",
        *(
            {"seq": i, "src": names[i % ports], "tx_ns": START + int(at), "rx_ns": START + int(at + after)}
            for i, (at, after) in enumerate(zip(tx, took, strict=True))
        ),
    )
    return read_latency(store.connect(), ProbeSelection())


def test_intervals_do_not_depend_on_how_many_ports_probe(tmp_path):
    """Waits in one queue are one event, however many paths they are on."""
    of_ports = [
        compared(*(many_ports(tmp_path / f"{ports}-{seed}", seed, ports) for seed in (2007, 2008))) for ports in (1, 16)
    ]
    assert [found.verdict for found in of_ports] == ["alike", "alike"]
    one, many = ([level.ratio for level in found.levels] for found in of_ports)
    assert [ratio.high for ratio in many] == pytest.approx([ratio.high for ratio in one], rel=0.05)


def test_loss_counts_only_paths_that_have_the_measure(tmp_path):
    store = StoreFolder.create(tmp_path / "s")
    sent = [{"seq": i, "tx_ns": START + i * MS, "rx_ns": START + i * MS + 50_000} for i in range(3000)]
    for i, row in enumerate(sent):
        if i % 100 == 99:
            row |= {"lost": True, "rx_ns": None}
        elif i % 10 == 0:
            row |= {"app_send_ns": row["tx_ns"] - 1000, "app_recv_ns": row["rx_ns"] + 2000}
    bare = ({"src": "z", "seq": i, "tx_ns": START + i * MS, "rx_ns": START + i * MS + 9} for i in range(500))
    write(
        store, "probes", *sent, *bare, *({"src": "dead", "seq": i, "tx_ns": START + i, "lost": True} for i in range(7))
    )
    found = read_latency(store.connect(), ProbeSelection(), "application")
    assert (found.n, found.sent, found.lost) == (300, 3007, 37)
    slow = compared(found, found, 40_000.0)  # all known latencies are above that
    assert slow.fans[0].a == 1.0


def test_a_store_without_recordings_has_no_bursts_to_compare(tmp_path):
    assert bursts_of(StoreFolder.create(tmp_path / "s")) is None


def test_bursts_decide_without_probes():
    few, many = (BurstSummary(n, 60 * S, n * MS, Estimate(n, n * 0.8, n * 1.2, n)) for n in (10, 100))
    nothing = SituationLatency(np.zeros(0), np.zeros(0, np.int64), 0, 0)
    assert compare(nothing, nothing, None, few, many).verdict == "worse"
    assert compare(nothing, nothing, None, many, few).verdict == "better"
    assert compare(nothing, nothing, None, few, few).verdict == "alike"
    assert compare(nothing, nothing, None, few, None).verdict == "undetermined"


def test_probes_are_read_by_selection(tmp_path):
    con = store_of(tmp_path / "s", 4, 5000).connect()
    found = read_latency(con, ProbeSelection(until_ns=START + 10 * S))
    assert (found.n, found.lost) == (1000, 0) and set(found.values) == {5000.0 + i for i in range(7)}
    assert len(np.unique(found.blocks)) >= 50
    assert read_latency(con, ProbeSelection(dst="nobody")).n == 0


def test_both_sides_state_when_they_were_probed_and_by_which_measure(tmp_path, capsys):
    a, b = store_of(tmp_path / "a", 40, 1000), StoreFolder.create(tmp_path / "b")
    stamped = ({"seq": i, "tx_ns": START + i * MS, "rtt_ns": 900 + i % 7, "rx_ns": None} for i in range(2000))
    write(b, "probes", *({**row, "app_send_ns": None, "app_recv_ns": None} for row in stamped))
    assert main(["compare", str(a.path), str(a.path), "--json"]) == 0
    printed = capsys.readouterr()
    side = json.loads(printed.out)["a"]
    assert (side["start_ns"], side["end_ns"]) == (START, START + 19_990 * MS) and len(side["measures"]) == 1
    assert "measured by" not in printed.err
    ends = side["end_ns"], START + 1999 * MS
    assert main(["compare", str(a.path), str(b.path)]) == 0
    printed = capsys.readouterr()
    assert "A is measured by round trip, B by reported round trip: choose a measure" in printed.err
    rows = {line[:16].strip(): line[16:].split("  ") for line in printed.out.splitlines()}
    assert [cell.strip() for cell in rows["latency"] if cell] == ["round trip", "reported round trip"]
    assert [cell.strip() for cell in rows["last probe"] if cell] == [format_time(n)[:19] for n in (ends[0], ends[1])]


@pytest.mark.parametrize(("blocks", "verdict"), [(7, "undetermined"), (8, "worse")])
def test_an_interval_needs_eight_blocks(blocks, verdict):
    found = compared(latency(1e5, blocks=blocks), latency(9e5, blocks=blocks, seed=2))
    assert found.verdict == verdict
    assert all((level.ratio is None) == (blocks == 7) for level in found.levels if level.share <= 0.99)
