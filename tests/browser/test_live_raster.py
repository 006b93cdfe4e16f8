"""Dense lines of the live view, pixel by pixel, against the values of their points."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WIDTH, HEIGHT, ZERO = 24, 16, 13
LINE, FILL, NOTHING = "line", "fill", ""
DRAW = """({ x, y, steps, filled, width, height, zero }) => {
    const raster = new Raster(), pen = new OffscreenCanvas(width, height).getContext('2d');
    const trace = { line: { shape: steps ? 'hv' : 'linear', width: 1, color: '#ff0000' }, fillcolor: '#0000ff' };
    const points = { x: Float64Array.from(x), y: Float64Array.from(y, (value) => value ?? NaN) };
    const panel = { left: 0, top: 0, width, height, pixel: (value) => value || zero };
    raster.draw(pen, 1, { ...trace, fill: filled && 'tozeroy' }, points, (seconds) => seconds, panel);
    const { data } = pen.getImageData(0, 0, width, height), found = [];
    for (let i = 0; i < data.length; i += 4) found.push(data[i] ? 'line' : data[i + 2] ? 'fill' : '');
    return found; }"""
# Binary fractions, so that sums of them are exact; no position and no end of a slope is on the edge of a row.
STEP = st.integers(1, 5).map(lambda n: Fraction(n, 2))
PLACE = st.integers(0, HEIGHT - 1).map(lambda row: row + Fraction(3, 7))


@pytest.fixture(scope="module")
def page(page_with):
    return page_with("live/raster.js")


def pieces(x, y, steps):
    """Returns the straight pieces of a line: (ax, ay, bx, by), from left to right."""
    for (ax, ay), (bx, by) in zip(zip(x, y, strict=True), zip(x[1:], y[1:], strict=True), strict=False):
        if ay is None or by is None:
            continue
        yield from [(ax, ay, bx, ay), (bx, ay, bx, by)] if steps else [(ax, ay, bx, by)]


def reached(column, ax, ay, bx, by):
    """Returns the first and last row of a piece in a column of pixels, or None if it is not in that column."""
    if not math.floor(ax) <= column <= math.floor(bx):
        return None
    if ax == bx:
        return sorted((ay, by))
    return sorted(ay + (by - ay) * (min(max(edge, ax), bx) - ax) / (bx - ax) for edge in (column, column + 1))


def expected(x, y, steps, filled):
    """Returns (row, column, content of that pixel) for the whole panel."""
    for column in range(WIDTH):
        spans = [span for piece in pieces(x, y, steps) if (span := reached(column, *piece))]
        high, low = min((a for a, _ in spans), default=HEIGHT), max((b for _, b in spans), default=-1)
        for row in range(HEIGHT):
            below = FILL if filled and row < ZERO and spans else NOTHING
            yield row, column, NOTHING if row < math.floor(high) else LINE if row <= math.floor(low) else below


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(STEP, st.none() | PLACE), min_size=2, max_size=30), st.booleans(), st.booleans())
def test_every_pixel_is_what_the_points_say(page, points, steps, filled):
    x, y = list(accumulate((step for step, _ in points), initial=Fraction(-2)))[1:], [place for _, place in points]
    found = page.evaluate(
        DRAW,
        {
            "x": [*map(float, x)],
            "y": [None if at is None else float(at) for at in y],
            "steps": steps,
            "filled": filled,
            "width": WIDTH,
            "height": HEIGHT,
            "zero": ZERO,
        },
    )
    wrong = [
        (row, column, found[row * WIDTH + column], wanted)
        for row, column, wanted in expected(x, y, steps, filled)
        if found[row * WIDTH + column] != wanted
    ]
    assert not wrong, (x, y, wrong[:5])
