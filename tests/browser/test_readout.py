"""What the figure over time states of a moment: nothing of time that was not recorded, no probe from elsewhere, and
means of recorded time."""

from __future__ import annotations

import pytest
from places import ROOT

from mburst.analysis.model import context

S = 10**9
BIN = S // 1000
READ = """([lane, range, ns, wanted]) => {
    document.body.innerHTML = '<div class="timeline" style="width:1000px"></div><p class="readout"></p>';
    const line = Object.create(Timeline.prototype), section = document.body;
    const place = document.querySelector('.timeline');
    Object.assign(line, {lane, range, section, place, top: 109, roles: [], chosen: null});
    line.place.layout = {margin: {l: 0, r: 0}, yaxis2: {range: [0, 1]}};
    line.path = lane.latency[0];
    const found = line.traces(wanted);
    line.readOut(ns);
    return [document.querySelector('.readout').textContent.split('  ·  '), found.mean, found.latency ?? null]; }"""


@pytest.fixture(scope="module")
def page(page_with):
    page = page_with("common/format.js")
    for name in ("envelope.js", "points.js", "timeline.js"):
        page.add_script_tag(path=ROOT / "dashboards" / "static" / "common" / name)
    return page


def cells(width: int, filled: dict[int, int], bin_ns: int = BIN) -> dict:
    """An envelope of cells of WIDTH: the total wire bytes of each, by its number."""
    return {"width": width, "bin": bin_ns, "first": 0, "start": 0, "cells": [*filled], "total": [*filled.values()],
            "largest": [*filled.values()]}  # fmt: skip


def lane_of(coverage, base, seconds=None, probes=(), lost=()) -> dict:
    """A lane of a link of 1 Gb/s whose origin is 2026-01-01; rates in percent."""
    path = {"at": [*probes], "largest": [20_000] * len(probes), "median": [20_000] * len(probes)}
    path |= {"n": [int(at not in lost) for at in probes], "lost": [int(at in lost) for at in probes]}
    return {"coverage": {"start": [a for a, _ in coverage], "end": [b for _, b in coverage]}, "base": base,
            "seconds": seconds or cells(S, {}, S), "detail": None, "detailCells": [], "factor": 1e-7, "suffix": " %",
            "originS": 1_767_225_600, "marks": {"start": [], "end": []}, "losing": {"start": [], "end": []},
            "latency": [path] if probes else [], "queues": [], "bursts": [], "start": 0, "end": 100 * S}  # fmt: skip


def read(page, lane, ns, span=(0, 10 * S), wanted=1000):
    """Returns the parts of the read-out at NS, the line of means and that of latency."""
    return page.evaluate(READ, [lane, span, ns, wanted])


def test_a_pause_reads_not_recorded(page):
    lane = lane_of([(2 * S, 4 * S), (6 * S, 8 * S)], cells(BIN, {2500: 12_500, 6500: 12_500}))
    for at in (S, 5 * S, 9 * S):
        assert read(page, lane, at)[0][1:] == ["not recorded"]
    assert read(page, lane, 2500 * BIN)[0][1:] == ["largest 10 %", "mean 1 %", "1 s average 0 %"]
    assert read(page, lane, 3 * S)[0][1:] == ["largest 0 %", "mean 0 %", "1 s average 0 %"], "recorded silence"


def test_latency_and_queue_of_a_pause_are_read(page):
    lane = lane_of([(2 * S, 4 * S)], cells(BIN, {2500: 12_500}), probes=[i * S // 10 for i in range(100)])
    assert read(page, lane, 5 * S)[0][1:] == ["not recorded", "latency 20 µs"]


def test_a_probe_that_is_far_away_is_not_read(page):
    lane = lane_of([(0, 10 * S)], cells(BIN, {2500: 12_500}), probes=[i * S // 100 for i in range(100)])
    assert "latency 20 µs" in read(page, lane, S // 2 + 4_000_000)[0]
    assert "latency 20 µs" in read(page, lane, 10**9 + 15_000_000)[0], "two pixels beyond the last one"
    assert not any(part.startswith("latency") for part in read(page, lane, 5 * S)[0])


def test_the_line_of_latency_ends_where_probing_pauses(page):
    lane = lane_of([(0, 10 * S)], cells(BIN, {}), probes=[*range(0, S, S // 50), *range(6 * S, 7 * S, S // 50)])
    for wanted in (1000, 30):
        line = read(page, lane, 0, wanted=wanted)[2]
        gaps = [x for x, y in zip(line["x"], line["y"], strict=True) if y is None]
        assert len(gaps) == 1 and 1 <= gaps[0] <= 6
        assert min(y for y in line["y"] if y is not None) > 0


def test_lost_probes_do_not_end_the_line_of_latency(page):
    probes = [*range(0, 2 * S, S // 50)]
    line = read(page, lane_of([(0, 10 * S)], cells(BIN, {}), probes=probes, lost=probes[20:80]), 0)[2]
    assert None not in line["y"]


def test_the_mean_of_a_step_is_of_its_recorded_time(page):
    """10 % throughout, in steps of 2 s, recorded from 1 s to 4.5 s."""
    base = cells(BIN, {number: 12_500 for number in range(1000, 4500)})
    lane = lane_of([(S, 4500 * BIN)], base)
    line = read(page, lane, 0, wanted=5)[1]
    drawn = [y for y in line["y"] if y]
    assert drawn == pytest.approx([10.0] * len(drawn)) and drawn
    assert read(page, lane, 4200 * BIN, wanted=5)[0][2] == "mean 10 %"


def test_the_mean_of_a_step_with_a_pause_is_of_its_recorded_time(page):
    base = cells(BIN, {number: 12_500 for number in [*range(0, 500), *range(1500, 2000)]})
    lane = lane_of([(0, S // 2), (3 * S // 2, 2 * S)], base)
    assert read(page, lane, S // 4, wanted=5)[0][2] == "mean 10 %"
    assert read(page, lane, S, wanted=5)[0][1:] == ["not recorded"]


def test_pauses_of_probing_are_those_of_the_server(page):
    assert page.evaluate("PAUSE") == context.PAUSE


@pytest.mark.parametrize("wanted", [1000, 30])
@pytest.mark.parametrize(
    "probes",
    [
        [group * S + i * S // 1000 for group in range(10) for i in range(10)],
        [*range(0, S, S // 200), *range(S, 10 * S, S // 4)],
        [i * S // 20 + pair for i in range(150) for pair in (0, 100_000)],
    ],
    ids=["in groups", "at two rates", "in pairs"],
)
def test_no_point_of_the_line_of_latency_is_alone(page, probes, wanted):
    """A line does not show a point without a neighbour."""
    line = read(page, lane_of([(0, 10 * S)], cells(BIN, {}), probes=probes), 0, wanted=wanted)[2]
    runs = "".join("." if y is not None else "|" for y in line["y"]).split("|")
    assert min(map(len, runs)) >= 2
