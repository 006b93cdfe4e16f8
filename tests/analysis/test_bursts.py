"""Bursts in SQL against a plain-Python reading of the same definition, and cases with a known answer."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import rows, write

from mburst.__main__ import main
from mburst.analysis.bursts.find import COLUMNS, BurstDefinition, find_bursts, overlapping_runs
from mburst.errors import MburstError, UsageError
from mburst.sql import Store, text

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s


# --- the oracle ----------------------------------------------------------------------------------------------------


def oracle(runs: list[dict[str, Any]], bins: list[dict[str, Any]], definition: BurstDefinition) -> list[dict[str, Any]]:
    """Walks bin after bin, empty ones too, as the definition is told."""
    found = []
    for run in runs:
        for epoch in sorted({row["clock_epoch"] for row in bins if row["recording_id"] == run["recording_id"]}):
            stored = [row for row in bins if row["recording_id"] == run["recording_id"] and row["clock_epoch"] == epoch]
            found += [{"recording_id": run["recording_id"], "clock_epoch": epoch, **burst}
                      for burst in walk(run, stored, definition)]
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


@settings(deadline=None, max_examples=60)
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
            runs.append({"recording_id": name, "bin_ns": width, "link_bps": 10**6,
                         "direction": "in" if index else "out"})
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
    store = Store.create(tmp_path_factory.mktemp("store"))
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


def full_bins(*starts: int, **more: Any) -> list[dict[str, Any]]:
    """Full bins of 1 ms at 1 Gb/s."""
    return [{"ts_ns": T0 + at * MS, "wire_bytes": FULL, "bytes": FULL - 1000, "packets": 80, **more} for at in starts]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def starts(bursts: list[dict[str, Any]]) -> list[int]:
    return [(burst["start_ns"] - T0) // MS for burst in bursts]


def test_bins_of_exactly_the_threshold_are_hot(store: Store) -> None:
    """0.1 of line rate is no binary fraction: it must not be lost to rounding."""
    write(store, "recordings", {})
    write(store, "bins", *({**row, "wire_bytes": 12_500 - at % 2} for at, row in enumerate(full_bins(0, 20, 40, 61))))
    assert starts(find_bursts(store.connect(), BurstDefinition(threshold=0.1))) == [0, 40]


def test_rates_and_widths_at_the_ends_of_the_scale(store: Store) -> None:
    """1 s bins at 800 Gb/s and 10 µs bins at 1 Mb/s, whose products leave 64 bits or hold a byte."""
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
    assert [(burst["recording_id"], burst["peak_utilization"]) for burst in found] == [("a", 1.0),
                                                                                       ("b", pytest.approx(0.8))]


def test_filters(store: Store) -> None:
    lanes = [
        ("a", "r1", "eth0", "in"),
        ("b", "r1", "eth0", "in"),
        ("b", "r2", "eth0", "out"),
        ("c", "r2", "eth1", "in"),
    ]
    for at, (host, rack, interface, direction) in enumerate(lanes):
        named = {"recording_id": f"run-{at}", "host": host, "rack": rack, "interface": interface,
                 "direction": direction}
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


def test_settings_of_an_earlier_search_do_not_stay(store: Store) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 50))
    connection = store.connect()
    assert len(find_bursts(connection, BurstDefinition(join_ns=100 * MS), since_ns=T0 + MS)) == 1
    assert len(find_bursts(connection)) == 2
    assert connection.execute("SELECT count(*) FROM bursts").fetchall() == [(2,)]


def test_hot_rows_and_sealed_rows_are_one(store: Store) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 1, 2))
    with store.writer("bins", host="cache-1", rack="r1") as writer:
        writer.append(rows("bins", *full_bins(3, 4)))
        (burst,) = find_bursts(store.connect())
    assert burst["duration_ns"] == 5 * MS and burst["packets"] == 400


def test_a_link_of_unknown_speed_is_asked_for(store: Store) -> None:
    write(store, "recordings", {"link_bps": None})
    write(store, "bins", *full_bins(0))
    with pytest.raises(MburstError, match=r"recording run-1 \(cache-1 eth0 in\): the link speed is not known.*--link"):
        find_bursts(store.connect())
    assert len(find_bursts(store.connect(), BurstDefinition(link_bps=10**9))) == 1


@pytest.mark.parametrize("bin_ns", [MS // 2, 1_500_000, MS + 1])
def test_a_width_that_is_no_multiple_is_refused(store: Store, bin_ns: int) -> None:
    write(store, "recordings", {})
    message = f"a bin of {bin_ns} ns is not a multiple of the 1000000 ns that recording run-1"
    with pytest.raises(UsageError, match=message):
        find_bursts(store.connect(), BurstDefinition(bin_ns=bin_ns))


@pytest.mark.parametrize(
    "wrong", [{"bin_ns": 0}, {"threshold": 0.0}, {"threshold": 11.0}, {"release": 0.6}, {"release": 0.0}]
)
def test_a_definition_that_contradicts_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        BurstDefinition(**wrong)


def test_an_empty_store_has_no_bursts(store: Store) -> None:
    connection = store.connect()
    assert find_bursts(connection) == [] and overlapping_runs(connection) == []


def test_runs_that_overlap_are_told(store: Store) -> None:
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
    assert overlapping_runs(connection) == [("a", "b"), ("b", "c")]


def test_the_named_query_answers_with_the_defaults(store: Store) -> None:
    write(store, "recordings", {})
    write(store, "bins", *full_bins(0, 1))
    result = store.connect().execute(text("bursts"))
    assert tuple(column[0] for column in result.description) == COLUMNS
    assert len(result.fetchall()) == 1


# --- mburst bursts ----------------------------------------------------------------------------------------------------

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(store: Store, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["bursts", str(store.path), *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def recorded(store: Store) -> Store:
    """Two bursts in a recording of 100 ms."""
    write(store, "recordings", {"start_ns": T0, "end_ns": T0 + 100 * MS, "quality": 32, "dropped": 4, "late": 1})
    write(store, "bins", *full_bins(10, 11, 12), *full_bins(50, quality=32))
    write(
        store,
        "sources",
        *(
            {
                "ts_ns": T0 + at * MS,
                "source": source,
                "bytes": count,
                "first_ns": T0 + at * MS,
                "last_ns": T0 + at * MS + 9,
            }
            for at, source, count in ((10, "10.0.0.1", 300_000), (11, "10.0.0.2", 100_000), (50, "a", 9))
        ),
    )
    return store


def test_the_table_says_what_a_count_means_nothing_without(ask: Ask, recorded: Store) -> None:
    code, out, err = ask("--threshold", "80%", "--join", "5ms", "--release", "0.6")
    head, names, first, second, foot = out.splitlines()
    assert (code, err) == (0, "")
    assert head == (
        "cache-1 eth0 in: 1 Gb/s, bins of 1 ms, stamps: file, 1 ns; a burst is 80 % of line rate or more, goes on at"
        " 60 % or more, joined over gaps up to 5 ms, 1 ms or longer"
    )
    assert re.split(r"  +", names) == [
        "start (UTC)",
        "duration",
        "mean",
        "peak",
        "bytes",
        "fan-in",
        "pattern",
        "top senders",
        "quality",
    ]
    assert re.split(r"  +", first) == [
        "2023-11-14 22:13:20.010000",
        "3 ms",
        "100 %",
        "100 %",
        "372 kB",
        "2",
        "many-sources",
        "10.0.0.1 75 %, 10.0.0.2 25 %",
    ]
    assert re.split(r"  +", second)[6:] == ["single-source", "a 100 %", "drops"]
    assert foot == (
        "2 bursts in 101 ms, 3.96 % of the time; 4 packets were dropped: counts are lower bounds;"
        " 1 packet outside the reorder window: in no bin"
    )
    later = ask("--since", "2023-11-14T22:13:20.05")[1].splitlines()[-1]
    assert later.startswith("1 burst in 51 ms, 1.96 % of the time")


def test_a_recording_that_was_killed_is_summed_from_its_bins(ask: Ask, store: Store) -> None:
    write(store, "recordings", {"complete": False})
    write(store, "bins", *full_bins(0, 10), {"ts_ns": T0 + 40 * MS, "wire_bytes": 9})
    assert ask()[1].splitlines()[-1] == (
        "2 bursts in 41 ms, 4.88 % of the time; the recording has not ended, or was killed: what was lost is not known"
        " yet"
    )


@pytest.mark.parametrize(("gap", "expected"), [
    (None, "the recording broke off (killed): what came after that is not known"),
    ({"end_ns": None}, "the recording broke off (power): what came after that is not known until the interface is "
                       "recorded again"),
    ({"packets": 1234}, "the recording broke off (power): 1,234 packets were missed in the 2 s after that"),
    ({"packets": 0}, "the recording broke off (power): 0 packets were missed in the 2 s after that"),
    ({}, "the recording broke off (power): packets were missed in the 2 s after that, not known how many packets: x"),
])
def test_what_a_recording_that_broke_off_has_missed_is_what_its_gap_says(
    ask: Ask, store: Store, gap: dict[str, Any] | None, expected: str
) -> None:
    end_ns = T0 + 50 * MS
    write(store, "recordings", {"complete": False, "ended": "killed", "start_ns": T0, "end_ns": end_ns})
    write(store, "bins", *full_bins(0, 10))
    lost = {"start_ns": T0, "end_ns": T0 + MS, "reason": "dropped", "detail": "", "packets": 9}
    write(store, "gaps", lost)
    if gap is not None:
        write(store, "gaps", {"start_ns": end_ns, "end_ns": end_ns + 2000 * MS, "reason": "power",
                              "detail": "not known how many packets: x", **gap})
    assert ask()[1].splitlines()[-1].split("; ")[1] == expected


def test_json_and_csv_hold_the_same(ask: Ask, recorded: Store) -> None:
    found = json.loads(ask("--json")[1])
    assert found == find_bursts(recorded.connect()) and len(found) == 2 and tuple(found[0]) == COLUMNS
    table = list(csv.DictReader(io.StringIO(ask("--csv")[1])))
    assert [json.loads(row["top_sources"]) for row in table] == [burst["top_sources"] for burst in found]
    assert [int(row["start_ns"]) for row in table] == [burst["start_ns"] for burst in found]


def test_none_found_says_so(ask: Ask, recorded: Store) -> None:
    code, out, _ = ask("--min-duration", "1s")
    assert code == 0 and "no burst in 101 ms, 0 % of the time" in out
    assert json.loads(ask("--min-duration", "1s", "--json")[1]) == []
    assert ask("--min-duration", "1s", "--csv")[1] == ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_a_filter_that_no_recording_matches_fails(ask: Ask, recorded: Store, form: list[str]) -> None:
    code, out, err = ask("--host", "nobody", "--interface", "eth9", *form)
    assert (code, out) == (1, "") and "no recording of host nobody and interface eth9 (" in err


def test_since_counts_back_from_the_newest_data(ask: Ask, recorded: Store) -> None:
    assert starts(json.loads(ask("--since", "1ms", "--json")[1])) == [50]
    assert starts(json.loads(ask("--until", "2023-11-14T22:13:20.02", "--json")[1])) == [10]
    assert starts(json.loads(ask("--since", "2023-11-14", "--until", "2023-11-15", "--json")[1])) == [10, 50]


def test_overlap_is_told_on_stderr(ask: Ask, recorded: Store) -> None:
    write(recorded, "recordings", {"recording_id": "run-2", "start_ns": T0, "end_ns": T0 + MS})
    code, out, err = ask("--json")
    assert code == 0 and len(json.loads(out)) == 2
    assert re.fullmatch(r"mburst: recordings run-1 and run-2 recorded the same interface and time: .*--recording.*\n",
                        err)
    assert ask("--json", "--recording", "run-1")[2] == ""


@pytest.mark.parametrize(
    ("words", "code", "error_text"),
    [
        (["--bin", "1.5ms"], 2, "is not a multiple"),
        (["--bin", "0ms"], 2, "longer than 0"),
        (["--bin", "10"], 2, "invalid duration"),
        (["--threshold", "0"], 2, "invalid share"),
        (["--release", "0.9"], 2, "at most the threshold"),
        (["--link", "fast"], 2, "invalid link"),
        (["--since", "never"], 2, "invalid time"),
        (["--since", "1h", "--until", "2h"], 2, "not before"),
        (["--direction", "up"], 2, "invalid choice"),
        (["--json", "--csv"], 2, "not allowed with"),
        (["--colour"], 2, "unrecognized"),
    ],
)
def test_wrong_calls_end_in_a_line(ask: Ask, recorded: Store, words: list[str], code: int, error_text: str) -> None:
    got, out, err = ask(*words)
    [line] = err.splitlines()
    assert (got, out) == (code, "") and error_text in line
