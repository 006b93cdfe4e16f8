"""Evidence from the counters of a switch about lost and late probes, against plain counting and in labelled cases."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import latency_cases as cases
import latency_counts as counts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import MS, Case, Setting
from latency_store import ORIGIN, store_case
from storelib import write

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.evidence.switch import CountedWindows
from mburst.analysis.cause.evidence.switch_counts import marks_met, not_dropped
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.read import Question, read_queues
from mburst.analysis.cause.read_counters import counted_packets
from mburst.analysis.cause.scene import Evidence
from mburst.analysis.cause.verdict import Verdict, decide

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.integers(0, 3)), min_size=1, max_size=6)
SPANS = st.lists(st.tuples(st.integers(-5, 130), st.integers(0, 30)), max_size=7)


def windows_of(rows: list[tuple[int, int, int]]) -> CountedWindows:
    """Returns windows from (gap before it, length, packets) of each."""
    begin, found = 0, []
    for gap, length, packets in rows:
        found.append((begin + gap, begin + gap + length, packets))
        begin = found[-1][1]
    return CountedWindows("c", *(np.array(side, dtype=float) for side in zip(*found, strict=True)))


def placed(choices: list[list[int]], left: list[int]) -> int:
    """Returns how many can be given one of their choices; every order of assignment is tried."""
    if not choices:
        return 0
    most = placed(choices[1:], left)
    for choice in choices[0]:
        if left[choice]:
            most = max(most, 1 + placed(choices[1:], [n - (k == choice) for k, n in enumerate(left)]))
    return most


@given(ROWS, SPANS)
@settings(deadline=None)
def test_a_port_loses_no_more_than_its_switch_counts_in_any_window(
    rows: list[tuple[int, int, int]], spans: list[tuple[int, int]]
) -> None:
    drops = windows_of(rows)
    begin, end = (np.array([row[0] + k * row[1] for row in spans], dtype=float) for k in (0, 1))
    choices = []
    for a, b in zip(begin, end, strict=True):
        here = [k for k in range(len(rows)) if drops.start[k] <= b and drops.end[k] >= a]
        whole = all(drops.start[j] - drops.end[i] <= 1 for i, j in pairwise(here))
        if here and drops.start[here[0]] <= a and drops.end[here[-1]] >= b and whole:
            choices.append(here)
    given_one = placed(choices, [int(n) for n in drops.packets])
    assert not_dropped(drops, begin, end) == len(choices) - given_one


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30), st.integers(0, 9)), max_size=8))
def test_windows_that_overlap_are_taken_together(rows: list[tuple[int, int, int]]) -> None:
    start, length, packets = (np.array([row[k] for row in rows], dtype=float) for k in range(3))
    joined = CountedWindows("c", start, start + length, packets).joined()
    assert joined.packets.sum() == packets.sum()
    assert (joined.start[1:] >= joined.end[:-1]).all()
    for tick in range(140):
        inside = any(a <= tick < a + n for a, n, _ in rows)
        assert inside == bool(((joined.start <= tick) & (tick < joined.end)).any())


def answered(case: Case) -> tuple[Evidence, Verdict]:
    evidence = gather(case.scene, np.random.default_rng(1))
    return evidence, decide(evidence)


@pytest.mark.parametrize("kind", [*counts.BURSTS, *counts.NEGATIVE])
def test_the_counters_of_the_switch(kind: str) -> None:
    case = cases.build(kind, 0, Setting(seconds=12))
    evidence, verdict = answered(case)
    assert case.accepts(verdict.cause), (verdict, evidence.switch_marks)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unmarked", "marks packets in shorter queues (ECN), but did in only 0 %"),
        ("marked-before", "were marked (ECN CE) by a queue before this port"),
    ],
)
def test_marks_alone_lower_a_verdict(kind: str, said: str) -> None:
    case = cases.build(kind, 0, Setting(seconds=12))
    assert answered(replace(case, scene=replace(case.scene, counted=[])))[1].cause == "bursts"
    _, verdict = answered(case)
    assert verdict.cause == "undetermined" and said in " ".join(verdict.reasons)


def test_marks_of_a_hop_that_is_often_full_count_too() -> None:
    """Half of all stretches at random times have some marks, but a smaller share of their bins has."""
    case = cases.drawn("marked-before", 2026112900)
    evidence, verdict = answered(case)
    assert evidence.marked is not None and evidence.marked.chance > 0.5 and evidence.marked.denser > 3
    assert case.accepts(verdict.cause), verdict


def test_drops_at_other_times_are_not_attributed_to_probes() -> None:
    case = cases.build("dropped-apart", 0, Setting(seconds=12))
    [counted] = case.scene.counted
    assert counted is not None and counted.drops is not None
    evidence, _ = answered(case)
    assert counted.drops.packets.sum() >= evidence.tail.lost == evidence.lost_elsewhere > 0


def test_marks_at_the_times_of_the_waits_do_not_contradict() -> None:
    """Whatever the width of the windows, and even if the switch marked all the time."""
    case = cases.build("incast", 1, Setting(seconds=12))
    evidence, _ = answered(case)
    assert evidence.met is not None
    late = np.flatnonzero(evidence.tail.spikes)
    waited = evidence.delays.total[late]
    for width in (1, 10, 1000):
        edges = np.arange(0, 12e9 + 1, width * MS)
        every = CountedWindows("c", edges[:-1], edges[1:], np.ones(len(edges) - 1))
        port = case.scene.crossings[0].port
        found = marks_met(every, port, evidence.met[late], waited, 1e5)
        assert found is not None and found.stretches is not None and found.stretches.value == found.usual == 1
        assert found.longer is None or found.longer.value == 1


COLUMNS = {"batch": "g", "device": "tor", "port": "p1"}


@pytest.mark.parametrize(("table", "column"), [("ports", "out_discards"), ("queues", "dropped_packets")])
def test_drops_in_two_collections_count_once(table: str, column: str, tmp_path: Path) -> None:
    """Drops of a port and of its queues, in windows that begin at different moments in each collection."""
    case = cases.build("drops", 3, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    for batch, first in (("g", 0), ("h", 40)):
        windows = [{**COLUMNS, "batch": batch, "window_start_ns": ORIGIN + (first + 100 * k) * 10**6,
                    "ts_ns": ORIGIN + (first + 100 * (k + 1)) * 10**6, column: 3} for k in range(80)]  # fmt: skip
        write(store, table, *windows)
    with store.connect() as con:
        counts = counted_packets(con, case.scene.crossings[0].port, ("tor", "p1"), None, ORIGIN)
    assert counts is not None and counts.drops is not None and counts.drops.packets.sum() == 3 * 80


@pytest.mark.parametrize(
    ("queues", "counted"),
    [
        (("0", "1"), 2),
        (("0", "1:10", "1:20"), 1),  # the switch agent: `0` is all that waits, and its classes are queues, too
        (("1:10", "1:20"), 2),
        (("p/all", "p/all/fast", "p/other"), 2),  # IOS XR: a class, and a class of its child policy
        (("0", "in:0", "voq:p9:0"), 1),  # queues at the input
    ],
)
def test_packets_of_a_port_are_those_of_its_output_once(queues: tuple[str, ...], counted: int, tmp_path: Path) -> None:
    case = cases.build("drops", 3, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    for queue in queues:
        windows = [{**COLUMNS, "queue": queue, "window_start_ns": ORIGIN + k * 10**8,
                    "ts_ns": ORIGIN + (k + 1) * 10**8, "dropped_packets": 3, "max_bytes": 10 if queue == "0" else 99}
                   for k in range(80)]  # fmt: skip
        write(store, "queues", *windows)
    port = case.scene.crossings[0].port
    with store.connect() as con:
        counts = counted_packets(con, port, ("tor", "p1"), None, ORIGIN)
        found = read_queues(con, Question(BurstDefinition()), [port], {id(port): ("tor", "p1")}, ORIGIN, [])
    assert counts is not None and counts.drops is not None and counts.drops.packets.sum() == 3 * 80 * counted
    assert "in:" not in found[id(port)].name and "voq:" not in found[id(port)].name


@pytest.mark.parametrize("quality", [0, 1024])
def test_classes_of_a_port_count_in_windows_that_the_whole_queue_does_not_have(quality: int, tmp_path: Path) -> None:
    """Windows of the whole queue that are impossible are none."""
    case = cases.build("drops", 3, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    for queue, windows, packets in (("0", 20, 3), ("1:10", 80, 2), ("1:20", 80, 1)):
        of_queue = {**COLUMNS, "queue": queue, "dropped_packets": packets, "quality": quality if queue == "0" else 0}
        spans = [(ORIGIN + k * 10**8, ORIGIN + (k + 1) * 10**8) for k in range(windows)]
        write(store, "queues", *({**of_queue, "window_start_ns": start, "ts_ns": end} for start, end in spans))
    with store.connect() as con:
        counts = counted_packets(con, case.scene.crossings[0].port, ("tor", "p1"), None, ORIGIN)
    assert counts is not None and counts.drops is not None and counts.drops.packets.sum() == 3 * 80


def test_windows_of_a_coarser_subscription_fill_the_time_that_the_finest_does_not_cover(tmp_path: Path) -> None:
    """A subscription of 20 ms in the first second, and one of 200 ms in all eight."""
    case = cases.build("drops", 3, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    for batch, width, until in (("fine", 2 * 10**7, 10**9), ("coarse", 2 * 10**8, 8 * 10**9)):
        of_batch = {**COLUMNS, "batch": batch, "queue": "0", "max_bytes": 9}
        write(store, "queues", *({**of_batch, "window_start_ns": ORIGIN + at, "ts_ns": ORIGIN + at + width}
                                 for at in range(0, until, width)))  # fmt: skip
    port = case.scene.crossings[0].port
    with store.connect() as con:
        found = read_queues(con, Question(BurstDefinition()), [port], {id(port): ("tor", "p1")}, ORIGIN, [])[id(port)]
    edges = np.concatenate([np.arange(50) * 2e7, 1e9 + np.arange(36) * 2e8])
    assert found.start.tolist() == edges[:-1].tolist() and found.end.tolist() == edges[1:].tolist()


@pytest.mark.parametrize("table", ["ports", "queues"])
def test_counters_of_a_store(table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A port that dropped nothing, by its own counter or by those of its queues, did not drop the probes. Its marks are
    in the answer."""
    case = cases.build("drops", 3, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    for k in range(80):
        window = {**COLUMNS, "window_start_ns": ORIGIN + k * 10**8, "ts_ns": ORIGIN + (k + 1) * 10**8}
        write(store, "queues", {**window, "queue": "0", "semantics": "gauge", "ecn_marked_packets": 5,
                                "dropped_packets": 0 if table == "queues" else None})  # fmt: skip
        if table == "ports":
            write(store, "ports", {**window, "out_discards": 0})
    write(store, "links", {"batch": "g", "ts_ns": ORIGIN, "host": "h", "interface": "eth0", "device": "tor",
                           "port": "p1", "origin": "lldp", "present": True})  # fmt: skip
    assert main(["investigate", str(tmp_path / "s"), "--json"]) == 0
    evidence = json.loads(capsys.readouterr().out)["evidence"]
    assert evidence["lost_elsewhere"] == int(case.scene.probes.lost.sum()) > 0
    assert evidence["switch_marked"]["packets"] == 400 and evidence["switch_marked"]["windows"] == 1
