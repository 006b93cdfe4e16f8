"""Figures by their values: they are pure functions of the data that analysis gathered."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import reportlib
from places import ROOT
from reportlib import BIN, FULL, LONG, PROBE, SHORT, START
from storelib import write

from mburst.dashboards.common import figures
from mburst.dashboards.common.palette import DARK, LIGHT
from mburst.sql import StoreFolder


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    store = StoreFolder.create(tmp_path_factory.mktemp("figures") / "store")
    reportlib.fill(store)
    return reportlib.gathered(store)[0]


def traces(figure):
    return {trace.meta: trace for trace in figure.data}


def test_the_whole_time_shows_every_burst(report):
    drawn = traces(figures.timeline(report, 0.5))
    zero = figures.origin(report)
    for first, last in ((SHORT, SHORT + 2), (LONG, LONG + 300)):
        begin, end = ((START - zero + i * BIN) / 1e9 for i in (first, last))
        steps = list(zip(drawn["largest"].x, [*drawn["largest"].x[1:], end], drawn["largest"].y, strict=True))
        assert max(y for a, b, y in steps if a < end and b > begin and y is not None) == 100.0
    assert max(y for y in drawn["second"].y if y is not None) < 10
    assert max(y for y in drawn["mean"].y if y is not None) <= 100.0
    assert len(drawn["marks"].x) == 2 * 3


@pytest.mark.parametrize("between_s", [1, 20, 600, 7 * 86_400, 56 * 365 * 86_400])
def test_the_figure_opens_where_data_is_visible(between_s, tmp_path):
    """It opens with the whole time if the recorded part is wide enough to see, otherwise with the recording of the
    largest burst."""
    store = StoreFolder.create(tmp_path / "store")
    first, last = reportlib.fill_apart(store, between_s * 10**9)
    [report] = reportlib.gathered(store)
    begin, end = figures.opening(report)
    assert (begin == first) == (between_s <= 20) and end == report.end_ns == last + 10**9
    assert begin in (first, last) and figures.opening(replace(report, bursts=[]))[0] == first


def test_latency_loss_and_queue_share_the_axis(report):
    figure = figures.timeline(report, 0.5)
    drawn, zero = traces(figure), figures.origin(report)
    slow = list(drawn["latency"].y).index(max(drawn["latency"].y))
    assert drawn["latency"].y[slow] == pytest.approx((10**7 + 20_000 + 500 % 7 - 3) / 1e6)
    assert drawn["latency"].x[slow] == (START + 500 * PROBE + 3 - zero) / 1e9
    assert list(drawn["lost"].x) == [(START + 1000 * PROBE + 3 - zero) / 1e9]
    full = [x for x, y in zip(drawn["queue"].x, drawn["queue"].y, strict=True) if y == 3.0]
    begin = (START + 500 * 10**7 - zero) / 1e9
    assert min(full) <= begin and max(full) >= begin + 0.01  # a window, not an instant
    assert figure.layout.yaxis2.type == "log"
    assert {trace.xaxis for trace in figure.data} <= {None, "x"}


def test_lines_are_svg_and_the_template_is_that_of_mburst(report):
    figure = figures.timeline(report, 0.5)
    assert {trace.type for trace in figure.data} == {"scatter"}
    assert not figure.layout.template.layout.to_plotly_json()


def test_without_a_link_speed_rates_are_shown(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    reportlib.fill(store, link_bps=None)
    (report,) = reportlib.gathered(store)
    assert not report.bursts
    axis = figures.rate_axis(report)
    assert axis.title == "Rate on the wire, Gb/s"
    drawn = traces(figures.timeline(report, 0.5))
    assert max(y for y in drawn["largest"].y if y is not None) == pytest.approx(FULL * 8e9 / BIN / 1e9)
    assert not figures.timeline(report, 0.5).layout.shapes


def test_a_lane_without_probes_or_queues_has_one_panel(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9})
    write(store, "bins", {"ts_ns": START + 10**6, "wire_bytes": 100, "bytes": 76})
    figure = figures.timeline(reportlib.gathered(store)[0], 0.5)
    assert {trace.yaxis for trace in figure.data} <= {None, "y4"}
    assert "yaxis2" not in figure.layout and "yaxis3" not in figure.layout


def test_negative_latencies_have_an_axis(tmp_path):
    """A reflector reported that it held answers for longer than they took."""
    store = StoreFolder.create(tmp_path / "store")
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9})
    write(store, "bins", {"ts_ns": START + 10**6, "wire_bytes": 100, "bytes": 76})
    sent = [START + i * 10**7 for i in range(3)]
    write(
        store,
        "probes",
        *(
            {"seq": i, "tx_ns": tx, "remote_rx_ns": tx, "remote_tx_ns": tx + 6000, "rx_ns": tx + 1000}
            for i, tx in enumerate(sent)
        ),
    )
    [report] = reportlib.gathered(store)
    [path] = report.latency
    assert path.max_ns == -5000
    low, high = figures.timeline(report, 0.5).layout.yaxis2.range
    assert low < high


def test_a_distribution_ends_at_100_percent_and_marks_its_median():
    values = [33e6, 34e6, 34e6, 35e6]
    figure = figures.distribution(values, "Duration", "burst", figures.duration_ticks(values), True)
    drawn = traces(figure)
    assert list(drawn["ecdf"].x) == [33e6, 33e6, 34e6, 34e6, 35e6]
    assert list(drawn["ecdf"].y) == [0, 0.25, 0.5, 0.75, 1]
    assert list(drawn["median"].x) == [34e6, 34e6]


@pytest.mark.parametrize("values", [[100_000], [33e6, 35e6], [1e4, 1e6], [1e4, 1e10]])
def test_distributions_have_two_ticks_or_more_inside_their_axis(values):
    ticks = figures.duration_ticks(values)
    assert 2 <= len(ticks) <= 12 and len({text for _, text in ticks}) == len(ticks)
    assert all(min(values) / 1.5 <= value <= max(values) * 1.5 for value, _ in ticks)
    shares = [value / 1e8 for value in values]
    assert len({text for _, text in figures.share_ticks(shares)}) >= 2


def test_ticks_of_shares_have_no_exponent():
    assert [text for _, text in figures.share_ticks([90.0, 410.0])][:2] == ["10,000 %", "20,000 %"]


def test_each_colour_has_one_meaning_so_that_the_page_can_replace_it():
    assert LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)


def contrast(palette, name) -> float:
    """Returns the contrast of a colour with the paper."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(palette[name]), luminance(palette["paper"])), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("name", ["ink", "muted", "mean", "loss", "good"])
def test_text_has_enough_contrast(palette, name):
    """WCAG 2.1, 1.4.3: a contrast of 4.5 or more."""
    assert contrast(palette, name) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_lines_and_bars_have_enough_contrast(palette):
    """WCAG 2.1, 1.4.11: a contrast of 3 or more."""
    drawn = [name for name in palette if name not in ("paper", "rule", "wash") and not name.endswith("-fill")]
    assert {name: contrast(palette, name) for name in drawn if contrast(palette, name) < 3} == {}


def test_every_region_that_scrolls_has_a_name():
    for path in (ROOT / "dashboards" / "templates").rglob("*.html"):
        for tag in re.findall(r'<div class="scroll"[^>]*>', path.read_text()):
            assert 'role="region"' in tag and re.search(r'aria-label(ledby)?="', tag), (path, tag)


def test_the_line_of_latency_ends_where_probing_pauses(report):
    second = 10**9
    at = np.concatenate([np.arange(0, second, second // 50), np.arange(6 * second, 7 * second, second // 50)]) + START
    ones = np.ones(len(at), np.int64)
    path = replace(report.latency[0], at_ns=at, largest=20_000 * ones, median=20_000 * ones, n=ones, lost=0 * ones)
    drawn = traces(figures.timeline(replace(report, latency=[path]), 0.5))
    for trace in (drawn["latency"], drawn["latency-median"]):
        gaps = [x for x, y in zip(trace.x, trace.y, strict=True) if y is None or np.isnan(y)]
        assert len(gaps) == 1 and 1 < gaps[0] - (START - figures.origin(report)) / 1e9 < 6
        assert len(trace.x) == len(at) + 1


def test_no_point_of_the_line_of_latency_is_alone(report):
    """A line does not show a point without a neighbour: here each group of probes becomes one point."""
    at = np.array([group * 10**9 + i * 10**6 for group in range(3000) for i in range(3)]) + START
    ones = np.ones(len(at), np.int64)
    path = replace(report.latency[0], at_ns=at, largest=20_000 * ones, median=20_000 * ones, n=ones, lost=0 * ones)
    whole = replace(report, end_ns=START + 3000 * 10**9, latency=[path])
    trace = traces(figures.timeline(whole, 0.5))["latency"]
    runs = "".join("|" if y is None or np.isnan(y) else "." for y in trace.y).split("|")
    assert min(map(len, runs)) >= 2 and len(trace.y) < 2000
