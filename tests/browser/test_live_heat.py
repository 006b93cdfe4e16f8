"""The cells of the live view's heatmap are in the column of their second, whether or not their width divides a
second."""

from __future__ import annotations

import pytest

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
