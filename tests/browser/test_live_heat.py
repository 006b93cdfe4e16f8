"""The cells of the live view's heatmap are in the column of their second, whether or not their width divides a
second."""

from __future__ import annotations

import pytest
from places import ROOT

from mburst.analysis.live.snapshot import BURSTS
from mburst.dashboards.common.words import PATTERN_NAMES
from mburst.dashboards.live.view import HEAT_NS

SECOND = 10**9
COLUMNS = """message => {
    const heat = new Heat(null, document.createElement('canvas'), null);
    heat.take(message, message.coverage.end.at(-1));
    const wire = (value) => Number.isNaN(value) ? null : Math.round(value * message.bin / 8e9);
    return Array.from(heat.seconds, ([second, column]) => [second, Array.from(column, wire)]); }"""


@pytest.fixture(scope="module")
def page(page_with):
    return page_with("live/heat.js")


@pytest.mark.parametrize("width", [10_000_000, 9_900_000, 9_600_000, 7_000_000, 300_000_000, 400_000_000, SECOND])
def test_every_cell_is_in_its_second(page, width):
    first, count = 5 * SECOND // width, 7 * SECOND // width
    columns = dict(
        page.evaluate(
            COLUMNS,
            {
                "width": width,
                "bin": width,
                "from": first * width,
                "start": first * width,
                "cells": list(range(count)),
                "largest": list(range(1, count + 1)),
                "coverage": {"start": [first * width], "end": [(first + count) * width]},
            },
        )
    )
    begin = {number: (first + number - 1) * width for number in range(1, count + 1)}
    for second in range(6, 11):
        assert set(columns[second]) == {number for number, at in begin.items() if at // SECOND == second}
        for number in set(columns[second]):
            assert columns[second].index(number) == (begin[number] - second * SECOND) // width


def test_the_page_has_the_words_and_limits_of_the_server(page):
    page.add_script_tag(path=ROOT / "dashboards" / "static" / "live" / "bursts.js")
    assert page.evaluate("PATTERN_WORDS") == PATTERN_NAMES
    assert page.evaluate("HEAT_SECONDS") * SECOND == HEAT_NS
    page_script = (ROOT / "dashboards" / "static" / "live" / "page.js").read_text()
    assert f"const MOST_BURSTS = {BURSTS};" in page_script


@pytest.mark.parametrize(
    ("link", "names", "rows", "top", "said"),
    [
        (10**9, None, [[3.0, 0.0], [None, 8.0]], 100, "line rate"),
        (None, None, [[3.0, 0.0], [None, 8.0]], 8.0, "8 Mb/s, the fullest"),
        (None, None, [[0.0]], 0, "0 Mb/s, the fullest"),
        (None, ["a"], [[50.0]], 100, "line rate"),
    ],
)
def test_the_scale_states_what_it_ends_at(page, link, names, rows, top, said):
    page.add_script_tag(path=ROOT / "dashboards" / "static" / "common" / "format.js")
    found = page.evaluate(
        """async ([link, names, rows]) => {
            let said;
            const heat = new Heat({clientWidth: 900}, document.createElement('canvas'), null, (top) => { said = top; });
            const layout = {margin: {l: 1}, yaxis: {tickfont: {size: 11}}, font: {family: 'sans-serif'}};
            Object.assign(heat, {lane: {link, suffix: ' Mb/s'}, figure: {layout}});
            heat.paint = heat.showChosen = () => {};
            heat.matrix = () => ({first: 0, seconds: 2, names, rows: rows.map((row) => row.map((one) => one ?? NaN))});
            globalThis.Plotly = {relayout() {}};
            await heat.refresh();
            return [heat.topOf(heat.shown.rows, names), said];
        }""",
        [link, names, rows],
    )
    assert found == [top, said]
