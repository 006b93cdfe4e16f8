"""Senders of a burst: SQL against a plain Python implementation of the definition, and cases with a known answer."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from storelib import write

from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.sql import StoreFolder

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s
BIN = MS // 4  # the bins of the random cases; their source bins are 1 ms


# --- random cases against the definition ------------------------------------------------------------------------------


def part(amount: int, first: int, last: int, start: int, end: int) -> Fraction:
    """Of AMOUNT sent evenly over [first, last], returns the share that falls in [start, end)."""
    return amount * Fraction(
        sum(start <= tick < end for tick in (first, last))
        if first == last
        else max(0, min(last + 1, end) - max(first, start)),
        2 if first == last else last + 1 - first,
    )


def describe(rows: list[dict[str, Any]], burst: dict[str, Any]) -> dict[str, Any]:
    """Describes a burst by the definition, from all rows of its clock epoch. The example is rejected if a decision
    depends on the last digit of a division."""
    start, end = burst["start_ns"], burst["end_ns"]
    before = (start - BIN - MS, start - BIN)
    senders: dict[str, dict[str, Any]] = {}
    for row in rows:
        within = part(row["bytes"], row["first_ns"], row["last_ns"], start, end)
        sender = senders.setdefault(row["source"], {"bytes": 0, "earlier": 0, "members": 0, "onset": None})
        sender["bytes"] += within
        sender["earlier"] += part(row["bytes"], row["first_ns"], row["last_ns"], *before)
        if row["first_ns"] < end and row["last_ns"] >= start:
            onset = max(row["first_ns"], start)
            sender["onset"] = onset if sender["onset"] is None else min(sender["onset"], onset)
            sender["members"] = max(sender["members"], row["members"])
    senders = {name: sender for name, sender in senders.items() if sender["onset"] is not None}
    known = {name: sender for name, sender in senders.items() if name != "other"} or senders
    if not known:
        return {
            "sources": 0,
            "fan_in": 0,
            "effective_sources": None,
            "onset_spread_ns": None,
            "pattern": "unknown",
            "top": [],
        }
    total = sum(sender["bytes"] for sender in known.values())
    least = total / len(known) / 2
    assume(all(sender["bytes"] == total or abs(sender["bytes"] - least) > 1e-6 for sender in known.values()))
    fan = [sender for sender in known.values() if sender["bytes"] >= least]
    rates = [(sender["earlier"] / MS, sender["bytes"] / 2 / (end - start)) for sender in fan]
    assume(all(abs(earlier - half) > 1e-12 for earlier, half in rates))
    began = [sender["onset"] for sender, (earlier, half) in zip(fan, rates, strict=True) if earlier < half]
    fan_in = sum(sender["members"] for sender in fan)
    together = burst["mean_utilization"] >= 0.9 or (began and max(began) - min(began) <= max((end - start) // 2, MS))
    lone_rest = list(known) == ["other"]
    return {
        "sources": sum(sender["members"] for sender in senders.values()),
        "fan_in": fan_in,
        "effective_sources": float(fan_in if lone_rest else total**2 / sum(s["bytes"] ** 2 for s in known.values())),
        "onset_spread_ns": max(sender["onset"] for sender in fan) - min(sender["onset"] for sender in fan),
        "pattern": "single-source"
        if fan_in == 1
        else "incast"
        if len(began) >= 3 and 2 * len(began) >= fan_in and together
        else "many-sources",
        "top": sorted((float(-sender["bytes"]), name) for name, sender in senders.items())[:10],
    }


SENDERS = st.lists(
    st.tuples(
        st.integers(0, 9),  # source bin
        st.sampled_from(["a", "b", "c", "d", "e", "f", "other"]),
        st.integers(1, 40) | st.sampled_from([1000, 5000]),  # bytes
        st.integers(0, MS - 1),
        st.integers(0, MS - 1),  # first and last, in any order
        st.integers(0, 1),  # epoch
    ),
    max_size=50,
    unique_by=lambda row: (row[0], row[1], row[5]),
)
BINS = st.lists(
    st.tuples(st.integers(0, 39), st.sampled_from([40, 62, 100, 125]), st.integers(0, 1)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: (row[0], row[2]),
)


@pytest.mark.costly
@settings(deadline=None, max_examples=30)
@given(BINS, SENDERS, st.sampled_from([0, 1, 5, 30]))
def test_agrees_with_the_oracle(tmp_path_factory: pytest.TempPathFactory, bins: Any, sent: Any, join: int) -> None:
    rows = []
    for at, source, count, one, two, epoch in sent:
        first, last = sorted((one, two))
        members = 7 + at if source == "other" else 1
        rows.append(
            {
                "ts_ns": T0 + at * MS,
                "source": source,
                "bytes": count,
                "first_ns": T0 + at * MS + first,
                "last_ns": T0 + at * MS + last,
                "members": members,
                "clock_epoch": epoch,
            }
        )
    store = StoreFolder.create(tmp_path_factory.mktemp("store"))
    write(store, "recordings", {"bin_ns": BIN, "link_bps": 4_000_000, "source_bin_ns": MS})
    write(
        store, "bins", *({"ts_ns": T0 + at * BIN, "wire_bytes": fill, "clock_epoch": epoch} for at, fill, epoch in bins)
    )
    if rows:
        write(store, "sources", *rows)
    for burst in find_bursts(store.connect(), BurstDefinition(join_ns=join * BIN)):
        want = describe([row for row in rows if row["clock_epoch"] == burst["clock_epoch"]], burst)
        top = want.pop("top")
        for key, value in want.items():
            assert burst[key] == (pytest.approx(value) if isinstance(value, float) else value), key
        assert [-top_bytes for top_bytes, _ in top] == pytest.approx(
            [burst_sender["share"] * sum(-b for b, _ in top) for burst_sender in burst["top_sources"]], abs=1e-6
        )
        assert sum(sender["share"] for sender in burst["top_sources"]) == pytest.approx(1 if top else 0)


# --- cases with a known answer ----------------------------------------------------------------------------------------


def full_bins(first: int, count: int, **more: Any) -> list[dict[str, Any]]:
    """COUNT full bins of 1 ms, beginning with bin FIRST."""
    return [
        {"ts_ns": T0 + at * MS, "wire_bytes": FULL, "bytes": FULL - 1000, **more} for at in range(first, first + count)
    ]


def sends(source: str, at: int, count: int, first: int = 0, last: int = MS - 1, **more: Any) -> dict[str, Any]:
    """A row of COUNT bytes in source bin AT, from FIRST to LAST ns of it."""
    start = T0 + at * MS
    return {
        "source": source,
        "ts_ns": start,
        "bytes": count,
        "first_ns": start + first,
        "last_ns": start + last,
        **more,
    }


def only_burst(folder: Path, bins: list[dict[str, Any]], sent: list[dict[str, Any]], **run: Any) -> dict[str, Any]:
    store = StoreFolder.create(folder / "store")
    write(store, "recordings", run)
    write(store, "bins", *bins)
    write(store, "sources", *sent)
    (burst,) = find_bursts(store.connect())
    return burst


def test_forty_senders_that_answer_at_once_are_an_incast_beside_other_flows(tmp_path: Path) -> None:
    answers = [
        sends(f"10.0.0.{i}", at, 3000, first=i * 2000 if at == 10 else 0) for i in range(40) for at in range(10, 43)
    ]
    beside = [sends("probe", at, 64) for at in range(60)] + [sends("backup", at, 500) for at in range(60)]
    burst = only_burst(tmp_path, full_bins(10, 33), answers + beside)
    assert (burst["fan_in"], burst["sources"], burst["pattern"]) == (40, 42, "incast")
    assert burst["onset_spread_ns"] == 39 * 2000
    assert burst["effective_sources"] == pytest.approx(40, rel=0.02)
    assert len(burst["top_sources"]) == 10 and burst["top_sources"][0]["bytes"] == 99_000


def test_flows_that_ran_before_are_no_incast(tmp_path: Path) -> None:
    steady = [sends(f"10.0.0.{i}", at, 3000) for i in range(40) for at in range(0, 20)]
    burst = only_burst(tmp_path, full_bins(10, 5), steady)
    assert (burst["fan_in"], burst["pattern"], burst["onset_spread_ns"]) == (40, "many-sources", 0)


def test_senders_that_begin_one_after_the_other_are_no_incast(tmp_path: Path) -> None:
    bins = [{**row, "wire_bytes": FULL * 6 // 10} for row in full_bins(0, 40)]
    sent = [sends(f"10.0.0.{i}", at, 3000) for i in range(8) for at in range(5 * i, 5 * i + 5)]
    assert only_burst(tmp_path, bins, sent)["pattern"] == "many-sources"


def test_two_senders_at_once_are_no_incast(tmp_path: Path) -> None:
    burst = only_burst(tmp_path, full_bins(5, 4), [sends(name, at, 60_000) for name in "ab" for at in range(5, 9)])
    assert (burst["fan_in"], burst["pattern"]) == (2, "many-sources")


def test_one_sender_beside_many_small_ones_is_a_single_source(tmp_path: Path) -> None:
    sent = [sends("10.0.0.1", at, 110_000) for at in range(5, 9)]
    sent += [sends(f"10.0.1.{i}", at, 200) for i in range(50) for at in range(5, 9)]
    burst = only_burst(tmp_path, full_bins(5, 4), sent)
    assert (burst["fan_in"], burst["sources"], burst["pattern"]) == (1, 51, "single-source")
    nameless = {"name": None, "service": None, "rack": None}
    sent_most = {"source": "10.0.0.1", "bytes": 440_000, "share": pytest.approx(440 / 480)}
    assert burst["top_sources"][0] == {**sent_most, **nameless}


def test_only_the_part_of_a_source_bin_that_lies_in_the_burst_counts(tmp_path: Path) -> None:
    """A burst of 50 µs in a source bin of 1 ms: its senders are those that sent in it, not those that sent most around
    it."""
    bins = [{"ts_ns": T0 + at * MS // 100, "wire_bytes": 1250} for at in range(40, 45)]
    burst = only_burst(
        tmp_path,
        bins,
        [
            sends("background", 0, 20_000),
            sends("burst", 0, 5_000, first=400_000, last=449_999),
            sends("just before", 0, 5_000, first=300_000, last=399_999),
        ],
        bin_ns=MS // 100,
    )
    assert [sender["source"] for sender in burst["top_sources"]] == ["burst", "background"]
    assert [sender["bytes"] for sender in burst["top_sources"]] == [5000, 1000]
    assert (burst["sources"], burst["fan_in"], burst["pattern"]) == (2, 1, "single-source")


def test_senders_beyond_max_sources_are_counted_but_are_no_single_sender(tmp_path: Path) -> None:
    sent = [sends("10.0.0.1", 5, 20_000), sends("10.0.0.2", 5, 20_000), sends("other", 5, 80_000, members=900)]
    burst = only_burst(tmp_path, full_bins(5, 1), sent)
    assert (burst["sources"], burst["fan_in"], burst["effective_sources"]) == (902, 2, 2.0)
    assert burst["top_sources"][0]["source"] == "other" and burst["top_sources"][0]["share"] == pytest.approx(2 / 3)
    assert burst["pattern"] == "many-sources"


def test_if_only_summed_senders_are_known_all_members_count(tmp_path: Path) -> None:
    burst = only_burst(tmp_path, full_bins(5, 1), [sends("other", 5, 80_000, members=900)])
    assert (burst["sources"], burst["fan_in"], burst["pattern"]) == (900, 900, "many-sources")


def test_senders_of_another_recording_epoch_or_time_are_ignored(tmp_path: Path) -> None:
    sent = [
        sends("mine", 5, 100_000),
        sends("run", 5, 9, recording_id="run-2"),
        sends("clock_epoch", 5, 9, clock_epoch=1),
        sends("early", 3, 9),
        sends("late", 6, 9),
    ]
    assert [sender["source"] for sender in only_burst(tmp_path, full_bins(5, 1), sent)["top_sources"]] == ["mine"]


def test_a_burst_of_frames_without_a_sender_is_unknown(tmp_path: Path) -> None:
    burst = only_burst(tmp_path, full_bins(5, 3), [sends("somebody", 50, 1000)])
    assert (burst["sources"], burst["fan_in"], burst["effective_sources"], burst["onset_spread_ns"]) == (
        0,
        0,
        None,
        None,
    )
    assert (burst["pattern"], burst["top_sources"]) == ("unknown", [])
