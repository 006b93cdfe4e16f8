"""One store, one answer: every verb that says when, how often, how long, how full or how late says the same.

A cell of the table is a fact and who is asked for it (onecells*.py). What is true comes from plain arithmetic in
onestore.py. onematrix.py has the table of facts and answers, with a reason for each cell that is empty.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import onecells_api  # noqa: F401 - registers cells
import onecells_peaks  # noqa: F401 - registers cells
import onestore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oneasked import WHOLE, Asked, Lane, printed
from onecells import CELLS, ONCE, spans
from onecells_beside import SHARES, fact
from onematrix import ANSWERS, EMPTY, FACTS, filled, printed_matrix
from onestore import ASKED_CLASSES, ASKING, FULL, LANES, MS, PATHS, PROBES, QUEUES, START, nearest_rank

from mburst.analysis.bursts.find import THRESHOLD
from mburst.analysis.cause.evidence.exposure import in_bursts
from mburst.analysis.live.store import LiveStore
from mburst.cli.what_if import wanted
from mburst.sql import in_memory, text
from mburst.units import parse_size


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("one")
    asked = Asked(onestore.rich(folder / "store"), folder)
    yield asked
    for name in ("live", "meter"):
        if name in vars(asked):
            vars(asked)[name].close()


TRUTH: dict[str, Callable[[], Any]] = {
    "recorded": lambda: {
        lane: onestore.merged([span for one in onestore.of_lane(lane) for span in one.spans]) for lane in LANES
    },
    "recorded_ns": lambda: {
        lane: sum(
            end - start
            for start, end in onestore.merged([span for one in onestore.of_lane(lane) for span in one.spans])
        )
        for lane in LANES
    },
    "recorded_once": lambda: {
        lane: sum(end - start for start, end in onestore.of_lane(lane)[0].spans) for lane in ONCE
    },
    "bursts": lambda: {lane: sum(len(one.bursts) for one in onestore.of_lane(lane)) for lane in LANES},
    "burst_ns": lambda: {
        lane: sum(
            end - start
            for start, end in onestore.merged([span for one in onestore.of_lane(lane) for span in one.burst_spans])
        )
        for lane in LANES
    },
    "bursts_of_all": lambda: sum(len(one.bursts) for one in onestore.RECORDINGS if one.name != "r1-a0-again"),
    "each_burst": lambda: {
        lane: sorted(
            (start, end - start, (end - start) // MS * (FULL - 24), 2, 2, 1.0, 1.0)
            for one in onestore.of_lane(lane)
            for start, end in one.burst_spans
        )
        for lane in LANES
    },
    "fan_in": lambda: {lane: 2 if any(one.bursts for one in onestore.of_lane(lane)) else None for lane in LANES},
    "durations": lambda: {lane: durations_of(lane) for lane in LANES},
    "recordings": lambda: {lane: len(onestore.of_lane(lane)) for lane in LANES},
    "dropped": lambda: {lane: sum(one.row.get("dropped", 0) for one in onestore.of_lane(lane)) for lane in LANES},
    "losing": lambda: {lane: sum(len(one.losing) for one in onestore.of_lane(lane)) for lane in LANES},
    "wire_bytes": lambda: {lane: sum(one.wire_bytes for one in onestore.of_lane(lane)) for lane in LANES},
    "busiest_second": lambda: {lane: max(one.wire_bytes for one in onestore.of_lane(lane)) for lane in LANES},
    "busiest_whole_second": lambda: {
        lane: max((one.wire_bytes for one in onestore.of_lane(lane)), default=0)
        if max(one.last for one in onestore.of_lane(lane)) == 999
        else 0
        for lane in LANES
    },
    "busiest_bin": lambda: {lane: FULL if any(one.bursts for one in onestore.of_lane(lane)) else 100 for lane in LANES},
    "utilization": lambda: {
        lane: round(
            8
            * onestore.of_lane(lane)[0].wire_bytes
            / sum(end - start for start, end in onestore.of_lane(lane)[0].spans),
            12,
        )
        for lane in ONCE
    },
    "marks": lambda: len(onestore.RECORDINGS[0].marked),
    "gap": lambda: {(12, 50)},
    "marked": lambda: {"swp1": 4, "swp2": None},
    "latency": lambda: {src: latency_of(src) for src in PATHS},
    "deciding": lambda: ("api-1", *latency_of("api-1")[3:]),
    "queues": lambda: QUEUES,
    "impossible": lambda: {"swp1": 1, "swp2": 0},
    "flow_control": lambda: {lane: asked_of(lane) for lane in LANES},
    "contention": lambda: {
        "r1": ({"hosts": 2, "bursts": 3, "most": 2, "contended_ns": 5 * MS}, round(2 / 3, 9)),
        "r2": ({"hosts": 2, "bursts": 4, "most": 1, "contended_ns": 0}, 0.0),
    },
    "contention_of_all": lambda: ({"hosts": 4, "bursts": 7, "most": 2, "contended_ns": 5 * MS}, round(2 / 7, 9)),
    "newest": lambda: max(START + 1000 * MS, START + (PROBES - 1) * MS // 2 + 1000),
}


def asked_of(lane: Lane) -> tuple[Any, ...]:
    """The requests in the bins of a port direction: the sums, the classes, the time at 1 Gb/s, and the number of
    recordings without these counters."""
    of = onestore.of_lane(lane)
    times = sum(len(one.asking or ()) for one in of)
    sums = {name: times * value for name, value in ASKING.items()}
    sums["pause_classes"] = ASKED_CLASSES if times else []
    return *sums.values(), sums["pause_quanta"] * 512, sum(one.asking is None for one in of)


def durations_of(lane: Lane) -> tuple[int | None, ...]:
    """Returns only the median: p90 of three bursts cannot be separated from the longest."""
    of = sorted(end - start for one in onestore.of_lane(lane) for start, end in one.burst_spans)
    return nearest_rank(of, 500) if of else None, None, None


def latency_of(src: str) -> tuple[Any, ...]:
    took = onestore.latencies(src)
    return fact(PATHS[src][1], PROBES // 100, len(took), *(nearest_rank(took, round(1000 * share)) for share in SHARES))


@pytest.mark.parametrize(("fact", "answer"), CELLS)
def test_every_answer_is_the_same(asked: Asked, fact: str, answer: Callable[[Asked], Any]) -> None:
    assert answer(asked) == TRUTH[fact]()


def test_a_cell_without_an_answer_has_a_reason() -> None:
    print(printed_matrix())  # pytest -rP shows it
    cells = filled()
    assert [fact for fact in FACTS if cells[fact] | EMPTY[fact].keys() != {*ANSWERS}] == []
    assert not any(cells[fact] & EMPTY[fact].keys() for fact in FACTS)


def test_the_defaults_of_a_burst_are_those_of_the_query(asked: Asked) -> None:
    with asked.store.connect() as con:
        con.execute(text("bursts"))
        lanes = con.execute(
            "SELECT stored_ns, join_ns, hot_bytes, least_bytes($1, bin_ns, link_bps) FROM lanes", [THRESHOLD]
        ).fetchall()
    assert lanes
    assert all(join_ns == asked.definition.joined_ns(stored_ns) for stored_ns, join_ns, _, _ in lanes)
    assert all(hot == least for _, _, hot, least in lanes)


def test_a_report_up_to_the_newest_data_has_the_last_bins(asked: Asked, tmp_path: Path) -> None:
    printed("report", asked.path, "--rack", "r1", "--since", WHOLE["since"], "-o", tmp_path)
    [facts] = tmp_path.glob("rack-*.json")
    stated = {row["host"] + row["interface"]: spans(row["coverage"]) for row in json.loads(facts.read_text())["lanes"]}
    assert stated == {lane[1] + lane[2]: spans for lane, spans in TRUTH["recorded"]().items() if lane[0] == "r1"}


@pytest.fixture(scope="module")
def macros() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database without rows, for its macros."""
    with in_memory() as con:
        yield con


@pytest.mark.costly
@settings(max_examples=30, deadline=None)
@given(
    bursts=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=6),
    probes=st.lists(st.tuples(st.integers(-20, 300), st.integers(0, 40)), min_size=1, max_size=20),
)
def test_a_probe_meets_a_burst_by_one_rule(
    macros: duckdb.DuckDBPyConnection, bursts: list[tuple[int, int]], probes: list[tuple[int, int]]
) -> None:
    """Those of the investigation, met within a slack of a time, and of a rack's report, under way for a time."""
    edges = np.cumsum([length for pair in bursts for length in pair])
    starts, ends = edges[::2], edges[1::2]
    slow = [
        any(start <= at + 2 * slack and at < end for start, end in zip(starts, ends, strict=True))
        for at, slack in probes
    ]
    assert [
        bool(in_bursts(np.array([at + slack], float), (starts.astype(float), ends.astype(float)), slack)[0])
        for at, slack in probes
    ] == slow
    found = [
        macros.execute(
            "SELECT coalesce(bool_or(met_burst($first, $last, s, e)), false) FROM "
            "(SELECT unnest($s::BIGINT[]) AS s, unnest($e::BIGINT[]) AS e)",
            {"s": starts.tolist(), "e": ends.tolist(), "first": at, "last": at + 2 * slack},
        ).fetchall()
        for at, slack in probes
    ]
    assert found == [[(met,)] for met in slow]


# --- a store without bins ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp("unrecorded")
    return Asked(onestore.without_bins(folder / "store"), folder)


def test_a_duration_counts_from_the_newest_data_of_any_kind(unrecorded: Asked, tmp_path: Path) -> None:
    printed("report", unrecorded.path, "-o", tmp_path, "--since", "10m")
    [page] = tmp_path.glob("*.json")
    assert [path["sent"] for path in json.loads(page.read_text())["paths"]] == [200]
    found = json.loads(printed("investigate", unrecorded.path, "--json", "--since", "10m"))
    assert [path["tail"]["n"] for path in found["paths"]] == [200]
    both = json.loads(printed("compare", unrecorded.path, unrecorded.path, "--both", "since=10m", "--json"))
    assert both["a"]["n"] == both["b"]["n"] == 200
    live = LiveStore(unrecorded.store)
    assert [len(series.times) for series in live.probes.series.values()] == [200]
    live.close()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GB", 10**9), ("4MB", 4 * 10**6), ("500kB", 500_000), ("64MiB", 2**26), ("1GiB", 2**30), ("65536B", 65536)],
)
def test_a_size_is_the_same_for_every_option(text: str, size: int) -> None:
    assert parse_size(text) == size
    [change] = wanted(Namespace(link=None, priority=False, stagger=None, fan_in=None, buffer=text))
    assert change.buffer_bytes == size
