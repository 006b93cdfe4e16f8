"""The sentence and the figures with which a host's report opens."""

from __future__ import annotations

import pytest
import reportlib
from reportlib import BIN, FULL, START
from storelib import write

from mburst.analysis.bursts.find import BurstDefinition
from mburst.dashboards.common.words import clock
from mburst.dashboards.report import answer, page
from mburst.dashboards.report.words import statements
from mburst.quality import Quality
from mburst.sql import StoreFolder
from mburst.units import NS_PER_DAY


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


def report_of(store, wire: dict[int, int], packets: int = 10, quality: int = 0, **run):
    """Returns the report of the only port direction, one second with these bins of PACKETS each."""
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9 - 1, "bin_ns": BIN, **run})
    rows = (
        {"ts_ns": START + at * BIN, "wire_bytes": sent, "bytes": sent, "packets": packets, "quality": quality}
        for at, sent in wire.items()
    )
    write(store, "bins", *rows)
    return reportlib.gathered(store)[0]


def test_bursts_are_contrasted_with_the_busiest_second_and_the_probes(store):
    reportlib.fill(store)
    [report] = reportlib.gathered(store)
    text = answer.answer(report, BurstDefinition())
    assert text.startswith("In 20 s, 2 bursts of up to 30 ms took the link to 100 % of 1 Gb/s (busiest 1 ms), while ")
    assert "the busiest second reads 3.03 %" in text and text.endswith(
        "; the slowest probe took 10 ms, the median one 20 µs."
    )
    (second, *_), (window, full, _) = answer.contrast(report, report.end_ns - report.start_ns)
    assert (second, window, full) == ("Busiest second, as monitoring shows it", "Busiest 1 ms", "100 %")
    assert [figure[:2] for figure in answer.headline(report)] == [("Bursts", "2")]
    assert dict(answer.in_bursts(report))["Time in bursts"] == "0.151 %: 30.2 ms of 20 s"


def test_a_bin_above_line_rate_is_not_in_the_headline_and_is_explained(store):
    report = report_of(store, {at: 2 * FULL * (at % 2) for at in range(0, 40)} | {60: 27_125})
    assert "took the link to 100 % of 1 Gb/s" in answer.answer(report, BurstDefinition())
    assert answer.finer(report, 0).startswith("Single bins read up to 217 % (at 02:34:00.006), which no link carries: ")
    assert "217 %" not in str(
        [
            answer.answer(report, BurstDefinition()),
            answer.contrast(report, report.end_ns - report.start_ns),
            answer.headline(report),
        ]
    )
    assert "217 %" in page.render([report], BurstDefinition())


def above(report) -> list[str]:
    """Returns the notes of the page about bins above line rate."""
    found = [one for one in statements(report) if one.head.startswith(("Single bins", "The bins are shorter"))]
    return [f"{one.head}: {one.text}" for one in found]


def test_a_bin_may_exceed_line_rate_by_one_frame(store):
    """Ten frames of 2,125 bytes in a bin: the bin may contain one such frame (17 %) more than line rate."""
    assert above(report_of(store, {3: 21_250, 4: 14_600})) == [
        "Single bins read up to 170 % of line rate: A frame counts whole in the bin of its stamp: that explains up to "
        "117 %, with frames of 2,125 bytes on the wire. Beyond that, frames were larger, were stamped closer together "
        "than they arrived, or the link is faster than 1 Gb/s. Edges and peaks are less sure than the bins of 100 µs "
        "suggest."
    ]


def test_large_frames_explain_bins_above_line_rate(store):
    """A frame of 9,038 bytes takes 72 of 100 µs, and was alone in its bin. Fuller bins also have the end of a frame
    that began before them."""
    write(store, "bins", {"ts_ns": START + 90 * BIN, "wire_bytes": 9038, "bytes": 9014, "packets": 1})
    report = report_of(store, {3: 21_100, 4: 9_100})
    assert report.largest_frame == 9038 and above(report) == [] and "169 %" in answer.finer(report, 0)


def test_merged_frames_are_not_taken_for_frames_on_the_wire(store):
    report = report_of(store, {3: 21_100}, packets=1, quality=Quality.GRO)
    assert report.largest_frame is None and above(report)[0].startswith("Single bins read up to 169 % of line rate")


def test_a_large_frame_may_be_longer_than_a_narrow_bin(store):
    [said] = above(report_of(store, {3: 13_000}, packets=1))
    assert said.startswith(
        "The bins are shorter than a frame: A frame of 13,000 bytes on the wire takes 104 µs at 1 Gb/s"
    )


def test_bursts_shorter_than_a_window_are_not_reported_to_fill_it(store):
    report = report_of(store, {70: FULL, 71: FULL})
    said = "In 1 s, 1 burst of 200 µs filled 50 % or more of 1 Gb/s, while the busiest 1 ms reads 20 % and "
    assert answer.answer(report, BurstDefinition()).startswith(said) and answer.finer(report, 0) == ""


def test_no_burst_no_speed_and_no_packet(store):
    quiet = answer.answer(report_of(store, {3: 84}), BurstDefinition())
    assert quiet.startswith("No burst in 1 s, by 50 % of line rate: the busiest 1 ms reads 0.0672 % of 1 Gb/s, the ")


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (
            {3: FULL},
            "The link's speed is not known, so no burst can be detected: its busiest 1 ms in 1 s carried 100 Mb/s",
        ),
        ({}, "No packet was recorded in this time."),
    ],
)
def test_without_the_speed_of_the_link(store, wire, said):
    report = report_of(store, wire, link_bps=None)
    assert answer.answer(report, BurstDefinition()).startswith(said)
    assert (
        len(answer.contrast(report, report.end_ns - report.start_ns)) == 2 * bool(wire)
        and answer.headline(report) == []
    )


@pytest.mark.parametrize(("between_s", "day"), [(3600, ""), (7 * 86_400, "2026-11-28 ")])
def test_times_of_several_days_have_their_date(between_s, day, tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    _, begin = reportlib.fill_apart(store, between_s * 10**9)
    [report] = reportlib.gathered(store)
    at = f"{day}{clock(begin, 0)}"
    assert [note for *_, note in answer.contrast(report, report.end_ns - report.start_ns)] == [
        f"at {at}",
        f"at {day}{clock(begin + 10**8, 3)}",
    ]
    html = page.render([report], BurstDefinition())
    assert (
        html.count(f">{day}{clock(begin + 10**8, 6)}<") == 1 == html.count(f">{day and '2026-11-21 '}02:34:00.100000<")
    )


def test_times_are_dated_by_the_period_of_the_page(tmp_path):
    """A port direction that was recorded on one day of several."""
    store = StoreFolder.create(tmp_path / "store")
    reportlib.fill_apart(store, 10**10)
    name = {"recording_id": "later", "host": "b"}
    write(store, "recordings", {**name, "start_ns": START + 3 * NS_PER_DAY, "end_ns": START + 3 * NS_PER_DAY + 10**9})
    write(store, "bins", {**name, "ts_ns": START + 3 * NS_PER_DAY, "wire_bytes": 900})
    html = page.render(reportlib.gathered(store), BurstDefinition())
    assert ">2026-11-21 02:34:00.100000<" in html and ">02:34:00.100000<" not in html
