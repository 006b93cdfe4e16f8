"""The newest time of a lane in the browser: what is too old to be shown is forgotten."""

from __future__ import annotations

import pytest
from places import ROOT

S = 10**9
RUN = """([seconds, span]) => {
    const cells = (start) => ({width: 1e8, bin: 1e8, first: 0, start, cells: [], largest: [], total: []});
    const message = (at) => ({base: cells(at), seconds: cells(at), latency: [], queues: [], bursts: [],
        bin: 1e8, start: at, edge: at + 1e9, coverage: {start: [at], end: [at + 5e8]},
        losing: {start: [at], end: [at + 1e8]}});
    const tape = new Tape(message(0), span);
    for (let i = 1; i < seconds; i++) tape.apply(message(i * 1e9));
    return [tape.edge, tape.losing, tape.coverage]; }"""


@pytest.fixture(scope="module")
def page(page_with):
    page = page_with("common/envelope.js")
    page.add_script_tag(path=ROOT / "dashboards" / "static" / "live" / "tape.js")
    return page


def test_losses_and_coverage_are_forgotten(page):
    edge, losing, coverage = page.evaluate(RUN, [200, 10 * S])
    for spans in (losing, coverage):
        assert len(spans["start"]) == len(spans["end"]) <= 31
        assert spans["start"][0] >= edge - 31 * S
    assert losing["end"][-1] == edge - S + S // 10


def test_losses_and_coverage_in_view_are_kept(page):
    edge, losing, coverage = page.evaluate(RUN, [200, 10 * S])
    for spans in (losing, coverage):
        assert spans["start"][-20:] == [edge - (20 - i) * S for i in range(20)]


def test_losses_that_go_on_across_messages_are_kept(page):
    losing = page.evaluate(RUN.replace("at + 1e8]}});", "at + 1e9]}});"), [20, 10 * S])[1]
    assert losing == {"start": [0], "end": [20 * S]}
