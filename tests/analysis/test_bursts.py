"""Bursts by SQL against a plain Python implementation of the same definition, and cases with a known answer."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from burstlib import MS, T0, full_bins, starts
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import rows, write

from mburst.analysis.bursts.find import COLUMNS, PATTERNS, BurstDefinition, find_bursts, overlapping_recordings
from mburst.analysis.model.utilization import bins_of
from mburst.dashboards.common.words import PATTERN_NAMES
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder, text

# --- the oracle ----------------------------------------------------------------------------------------------------


def oracle(runs: list[dict[str, Any]], bins: list[dict[str, Any]], definition: BurstDefinition) -> list[dict[str, Any]]:
    """Walks from bin to bin, including empty bins, as the definition is written."""
    found = []
    for run in runs:
        for epoch in sorted({row["clock_epoch"] for row in bins if row["recording_id"] == run["recording_id"]}):
            stored = [row for row in bins if row["recording_id"] == run["recording_id"] and row["clock_epoch"] == epoch]
            found += [
                {"recording_id": run["recording_id"], "clock_epoch": epoch, **burst}
                for burst in walk(run, stored, definition)
            ]
    return sorted(found, key=lambda burst: (burst["start_ns"], burst["recording_id"], burst["clock_epoch"]))


def walk(run: dict[str, Any], stored: list[dict[str, Any]], definition: BurstDefinition) -> list[dict[str, Any]]:
    width = definition.bin_ns or run["bin_ns"]
    link = definition.link_bps or run["link_bps"]
    threshold = Fraction(str(definition.threshold))
    release = threshold if definition.release is None else Fraction(str(definition.release))
    join = 5 * width if definition.join_ns is None else definition.join_ns
    least = width if definition.min_duration_ns is None else definition.min_duration_ns

    fill: dict[int, int] = {}
    for row in stored:
        start = math.floor(Fraction(row["ts_ns"], width)) * width
        fill[start] = fill.get(start, 0) + row["wire_bytes"]

    def share(start: int) -> Fraction:
        return Fraction(fill.get(start, 0) * 8 * 10**9, width * link)

    bursts: list[list[int]] = []  # [start, end]
    inside = False
    for start in range(min(fill), max(fill) + 2 * width, width):
        if inside and share(start) >= release:
            bursts[-1][1] = start + width
        elif share(start) >= threshold:
            inside = True
            if bursts and start - bursts[-1][1] <= join:
                bursts[-1][1] = start + width
            else:
                bursts.append([start, start + width])
        else:
            inside = False

    result = []
    for start, end in bursts:
        if end - start < least:
            continue
        within = [row for row in stored if start <= row["ts_ns"] < end]
        wire = sum(row["wire_bytes"] for row in within)
        quality = 0
        for row in within:
            quality |= row["quality"]
        result.append(
            {
                "start_ns": start,
                "end_ns": end,
                "bytes": sum(row["bytes"] for row in within),
                "packets": sum(row["packets"] for row in within),
                "quality": quality,
                "mean_utilization": wire * 8e9 / (end - start) / link,
                "peak_utilization": float(max(share(at) for at in range(start, end, width))),
            }
        )
    return result


RUN_BINS = st.lists(
    st.tuples(
        st.integers(0, 60), st.sampled_from([0, 1, 61, 62, 63, 99, 100, 124, 125, 150]), st.sampled_from([1, 2, 32])
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[0],
)

DEFINITIONS = st.builds(
    lambda factor, threshold, release, join, least: dict(
        factor=factor, threshold=threshold, release=release, join=join, least=least
    ),
    st.sampled_from([None, 1, 2, 3, 10]),
    st.sampled_from([0.1, 0.5, 0.496, 0.8, 1.0]),
    st.sampled_from([None, 0.1, 0.3, 0.5]),
    st.sampled_from([None, 0, 1, 2, 7, 40]),
    st.sampled_from([None, 0, 1, 3, 9]),
)


@pytest.mark.costly
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(RUN_BINS, st.sampled_from([0, 0, 1])), min_size=1, max_size=4),
    DEFINITIONS,
    st.sampled_from([T0, T0 + 7 * MS, -25 * MS]),
    st.sampled_from([1, 1, 2, 3]),
)
def test_agrees_with_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, lanes: list[Any], chosen: dict[str, Any], t0: int, widest: int
) -> None:
    """Of two runs the second has bins of WIDEST ms: detected in these, one is as stored and one is summed."""
    runs, bins = [], []
    t0 = t0 // (widest * MS) * widest * MS
    for index, (found, epoch) in enumerate(lanes):
        name = f"run-{index // 2}"
        if index % 2 == 0:
            width = widest * MS if index else MS
            runs.append(
                {"recording_id": name, "bin_ns": width, "link_bps": 10**6, "direction": "in" if index else "out"}
            )
            epoch = 0
        else:
            epoch = 1
        bins += [
            {
                "recording_id": name,
                "clock_epoch": epoch,
                "ts_ns": t0 + at * width,
                "wire_bytes": fill,
                "bytes": fill // 2,
                "packets": fill,
                "quality": quality,
            }
            for at, fill, quality in found
        ]
    release = chosen["release"]
    definition = BurstDefinition(
        bin_ns=chosen["factor"] and chosen["factor"] * widest * MS,
        threshold=chosen["threshold"],
        release=release if release is None or release <= chosen["threshold"] else None,
        join_ns=None if chosen["join"] is None else chosen["join"] * MS,
        min_duration_ns=None if chosen["least"] is None else chosen["least"] * MS,
    )
    store = StoreFolder.create(tmp_path_factory.mktemp("store"))
    write(store, "recordings", *runs)
    write(store, "bins", *bins)
    connection = store.connect()
    found = find_bursts(connection, definition)
    wanted = oracle(runs, bins, definition)
    quality = connection.execute("SELECT bit, name FROM quality ORDER BY bit").fetchall()
    assert len(found) == len(wanted)
    for burst, want in zip(found, wanted, strict=True):
        assert tuple(burst) == COLUMNS
        want["quality"] = [name for bit, name in quality if bit & want["quality"]]
        for key, value in want.items():
            assert burst[key] == (pytest.approx(value) if isinstance(value, float) else value), key
        assert burst["duration_ns"] == burst["end_ns"] - burst["start_ns"]
        assert (burst["sources"], burst["pattern"]) == (0, "unknown")


# --- which bins ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    return StoreFolder.create(tmp_path / "store")


def test_bins_of_exactly_the_threshold_are_hot(store: StoreFolder) -> None:
    """0.1 of line rate is no binary fraction, and rounding must not lose it."""
    write(store, "recordings", {})
    write(store, "bins", *({**row, "wire_bytes": 12_500 - at % 2} for at, row in enumerate(full_bins(0, 20, 40, 61))))
    assert starts(find_bursts(store.connect(), BurstDefinition(threshold=0.1))) == [0, 40]


def test_rates_and_widths_at_the_ends_of_the_scale(store: StoreFolder) -> None:
    """1 s bins at 800 Gb/s, with products beyond 64 bits, and 10 µs bins at 1 Mb/s, which hold a byte."""
    write(
        store,
        "recordings",
        {"recording_id": "a", "bin_ns": 10**9, "link_bps": 8 * 10**11},
        {"recording_id": "b", "bin_ns": 10_000, "link_bps": 10**6},
    )
    write(
        store,
        "bins",
        {"recording_id": "a", "ts_ns": T0, "wire_bytes": 10**11},
        {"recording_id": "a", "ts_ns": T0 + 10**10, "wire_bytes": 10**10},
        {"recording_id": "b", "ts_ns": T0, "wire_bytes": 1},
        {"recording_id": "b", "ts_ns": T0 + 10**6, "wire_bytes": 0},
    )
    found = find_bursts(store.connect())
    assert [(burst["recording_id"], burst["peak_utilization"]) for burst in found] == [
        ("a", 1.0),
        ("b", pytest.approx(0.8)),
    ]


def test_filters(store: StoreFolder) -> None:
    lanes = [
        ("a", "r1", "eth0", "in"),
        ("b", "r1", "eth0", "in"),
        ("b", "r2", "eth0", "out"),
        ("c", "r2", "eth1", "in"),
    ]
    for at, (host, rack, interface, direction) in enumerate(lanes):
        named = {
            "recording_id": f"run-{at}",
            "host": host,
            "rack": rack,
            "interface": interface,
            "direction": direction,
        }
        write(store, "recordings", named)
        write(store, "bins", *full_bins(at * 10, **named))

    def found(**where: Any) -> list[int]:
        return [int(burst["recording_id"][-1]) for burst in find_bursts(store.connect(), **where)]

    assert found() == [0, 1, 2, 3]
    assert found(hosts="b") == [1, 2]
    assert found(hosts=["a", "c"]) == [0, 3]
    assert found(hosts=[]) == []
    assert found(rack="r2") == [2, 3]
    assert found(interface="eth0", direction="out") == [2]
    assert found(recording="run-3") == [3]
    assert found(since_ns=T0 + 10 * MS) == [1, 2, 3]
    assert found(since_ns=T0 + 1, until_ns=T0 + 20 * MS) == [1]


def test_settings_of_an_earlier_search_do_not_persist(store: StoreFolder) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 50))
    connection = store.connect()
    assert len(find_bursts(connection, BurstDefinition(join_ns=100 * MS), since_ns=T0 + MS)) == 1
    assert len(find_bursts(connection)) == 2
    assert connection.execute("SELECT count(*) FROM bursts").fetchall() == [(2,)]


def test_a_burst_joins_hot_and_sealed_rows(store: StoreFolder) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 1, 2))
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", *full_bins(3, 4)))
        (burst,) = find_bursts(store.connect())
    assert burst["duration_ns"] == 5 * MS and burst["packets"] == 400


def test_the_speed_of_a_link_is_required(store: StoreFolder) -> None:
    write(store, "recordings", {"link_bps": None})
    write(store, "bins", *full_bins(0))
    with pytest.raises(MburstError, match=r"recording run-1 \(cache-1 eth0 in\): the link speed is not known.*--link"):
        find_bursts(store.connect())
    assert len(find_bursts(store.connect(), BurstDefinition(link_bps=10**9))) == 1


@pytest.mark.parametrize(("bin_ns", "text"), [(MS // 2, "500 µs"), (1_500_000, "1500 µs"), (MS + 1, "1000001 ns")])
def test_a_bin_width_that_is_no_multiple_is_refused(store: StoreFolder, bin_ns: int, text: str) -> None:
    """One line names the widths, the recording and its interface, and what to choose, also for utilization."""
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0))
    message = (
        f"a bin of {text} is not a multiple of the 1 ms in which recording run-1 (cache-1 eth0 in) was recorded "
        "(choose a multiple of 1 ms, or another host or interface)"
    )
    where = dict.fromkeys(("hosts", "rack", "interface", "direction", "recording", "since_ns", "until_ns"))
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        find_bursts(store.connect(), BurstDefinition(bin_ns=bin_ns))
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        bins_of(store.connect(), bin_ns, None, where)


@pytest.mark.parametrize(
    "wrong", [{"bin_ns": 0}, {"threshold": 0.0}, {"threshold": 11.0}, {"release": 0.6}, {"release": 0.0}]
)
def test_a_contradictory_definition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        BurstDefinition(**wrong)


def test_an_empty_store_has_no_bursts(store: StoreFolder) -> None:
    connection = store.connect()
    assert find_bursts(connection) == [] and overlapping_recordings(connection) == []


def test_overlapping_recordings_are_reported(store: StoreFolder) -> None:
    spans = {"a": (0, 10), "b": (5, 15), "c": (15, 20), "d": (30, 40)}
    write(
        store,
        "recordings",
        *({"recording_id": run, "start_ns": T0 + one, "end_ns": T0 + two} for run, (one, two) in spans.items()),
        {"recording_id": "e", "start_ns": T0, "end_ns": T0 + 40, "interface": "eth1"},
        {"recording_id": "f", "complete": False},
    )
    connection = store.connect()
    find_bursts(connection)
    assert overlapping_recordings(connection) == [("a", "b"), ("b", "c")]


def test_the_named_query_answers_with_the_defaults(store: StoreFolder) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 1))
    result = store.connect().execute(text("bursts"))
    assert tuple(column[0] for column in result.description) == COLUMNS
    assert len(result.fetchall()) == 1


def test_the_patterns_of_the_query_are_all_that_are_listed() -> None:
    case = text("bursts").partition("CASE WHEN burst IN (FROM canaries)")[2].partition("END AS pattern")[0]
    assert set(re.findall(r"(?:THEN|ELSE) '(\S+)'", case)) == set(PATTERNS) == set(PATTERN_NAMES)
