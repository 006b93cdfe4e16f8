"""The data that a report gathers from a store."""

from __future__ import annotations

import pytest
from storelib import write

from mburst.analysis.answers.host import Limits, gather
from mburst.analysis.answers.lane_report import worst_first
from mburst.analysis.answers.lanes import detect, lanes
from mburst.analysis.bursts.find import BurstDefinition
from mburst.dashboards.common.words import senders_shown
from mburst.dashboards.report.parts import senders_caption
from mburst.dashboards.report.words import statements
from mburst.sql import StoreFolder

MS = 1_000_000
START = 1_795_228_463_000 * MS
FULL = 125_000  # wire bytes of 1 ms at 1 Gb/s


def bins(run: str, values: dict[float, int], **more):
    return [
        {"recording_id": run, "ts_ns": at, "wire_bytes": wire, "bytes": wire - 24, "packets": 2, **more}
        for at, wire in ((START + int(ms * MS), wire) for ms, wire in values.items())
    ]


def run_row(run: str, first: int, last: int, **more):
    return {"recording_id": run, "start_ns": START + first * MS, "end_ns": START + last * MS - 1, **more}


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


def reports_of(store, definition=None, since=None, until=None, limits=None, **which):
    con = store.connect()
    chosen = lanes(con, **which)
    return gather(con, chosen, detect(con, chosen, definition or BurstDefinition(), since, until), since, until, limits)


def test_numbers_of_a_lane(store):
    write(store, "recordings", run_row("run-1", 0, 3000, packets=12, bytes=1))
    write(store, "bins", *bins("run-1", {10: FULL, 11: FULL // 2, 500: 1000, 1500: FULL, 1600: 700}, quality=2))
    write(
        store,
        "sources",
        {
            "ts_ns": START + 10 * MS,
            "source": "10.0.0.9",
            "bytes": 90_000,
            "packets": 3,
            "first_ns": START + 10 * MS,
            "last_ns": START + 10 * MS + 900_000,
        },
        {
            "ts_ns": START + 500 * MS,
            "source": "10.0.0.8",
            "bytes": 91_000,
            "packets": 3,
            "first_ns": START + 500 * MS,
            "last_ns": START + 500 * MS + 900_000,
        },
    )
    (report,) = reports_of(store)
    assert [(b["start_ns"] - START, b["duration_ns"]) for b in report.bursts] == [(10 * MS, 2 * MS), (1500 * MS, MS)]
    assert report.busiest_bin.wire_bytes == FULL and report.busiest_bin.ts_ns == START + 10 * MS
    assert (report.window_ns, report.busiest_window) == (MS, report.busiest_bin)
    assert (report.busiest_second.ts_ns, report.busiest_second.wire_bytes) == (START, FULL + FULL // 2 + 1000)
    assert (report.recorded_ns, report.burst_ns, report.packets) == (3000 * MS, 3 * MS, 10)
    assert report.distributions["gap"] == [1488 * MS]
    assert [(s.source, s.bytes, s.burst_bytes) for s in report.sources] == [
        ("10.0.0.9", 90_000, 90_000),
        ("10.0.0.8", 91_000, 0),
    ]
    assert [(q.name, q.bins, q.packets) for q in report.qualities] == [("sw", 5, 10)]
    assert worst_first(report.bursts)[0]["start_ns"] == START + 10 * MS


def test_a_killed_recording_ends_with_its_last_bin(store):
    write(store, "recordings", {"recording_id": "run-1", "complete": False})
    write(store, "bins", *bins("run-1", {5: 1000, 90: 1000}))
    (report,) = reports_of(store)
    assert report.coverage == [(START + 5 * MS, START + 91 * MS)]
    assert (report.start_ns, report.end_ns) == report.coverage[0]


def test_pauses_and_overlaps_of_recordings(store):
    write(store, "recordings", run_row("run-1", 0, 100), run_row("run-2", 200, 300), run_row("run-3", 250, 300))
    write(store, "bins", *bins("run-1", {5: 1000}), *bins("run-2", {250: 1000}), *bins("run-3", {250: 1000}))
    (report,) = reports_of(store)
    assert report.coverage == [(START, START + 100 * MS), (START + 200 * MS, START + 300 * MS)]
    assert (report.recorded_ns, report.repeated_ns) == (200 * MS, 50 * MS)


def test_lanes_differ_by_bin_width_and_speed_and_may_have_no_speed(store):
    write(
        store,
        "recordings",
        run_row("run-1", 0, 10),
        run_row("run-2", 0, 10, link_bps=None, host="cache-2"),
        run_row("run-3", 20, 30, bin_ns=10 * MS),
        run_row("run-4", 0, 10, rack="r2", host="cache-3"),
    )
    write(store, "bins", *bins("run-1", {5: FULL}), *bins("run-2", {5: FULL}, host="cache-2"))
    reports = reports_of(store)
    assert [(r.lane.host, r.lane.bin_ns, len(r.bursts)) for r in reports] == [
        ("cache-1", MS, 1),
        ("cache-1", 10 * MS, 0),
        ("cache-2", MS, 0),
        ("cache-3", MS, 0),
    ]
    assert reports[2].lane.link_bps is None
    assert [r.lane.host for r in reports_of(store, rack="r2")] == ["cache-3"]
    (given,) = reports_of(store, BurstDefinition(link_bps=10**9), host="cache-2", link_bps=10**9)
    assert given.lane.link_bps == 10**9
    assert given.bins == 1 and not reports[1].bins and reports[1].busiest_bin is None


def test_only_the_selected_time_is_read(store):
    write(store, "recordings", run_row("run-1", 0, 3000))
    write(store, "bins", *bins("run-1", {10: FULL, 1500: FULL, 2500: FULL}))
    (report,) = reports_of(store, since=START + 1000 * MS, until=START + 2000 * MS)
    assert [b["start_ns"] for b in report.bursts] == [START + 1500 * MS]
    assert (report.start_ns, report.end_ns, report.packets) == (START + 1000 * MS, START + 2000 * MS, 2)


def test_a_period_has_the_losses_of_its_own_recordings_and_says_what_is_of_whole_ones(store):
    runs = [run_row("run-1", 0, 1000, dropped=5), run_row("run-2", 1000, 2000, dropped=2), run_row("run-3", 2000, 3000)]
    write(store, "recordings", *({**run, "packets": 8, "backend": "afpacket"} for run in runs))
    write(store, "bins", *(row for i, run in enumerate(runs) for row in bins(run["recording_id"], {i * 1000: FULL})))
    said = {}
    for since, until in ((None, None), (START + 1000 * MS, None), (START + 1500 * MS, START + 1600 * MS)):
        (report,) = reports_of(store, since=since, until=until)
        [loss] = (of for of in statements(report) if "dropped" in of.head)
        said[since] = loss.head.split()[0], "whole recordings" in loss.text
    assert [*said.values()] == [("7", False), ("2", False), ("2", True)]
    (report,) = reports_of(store, since=START + 2500 * MS)
    assert "No packet was dropped" in [of.head for of in statements(report)]


def test_senders_count_from_the_first_packet_on(store):
    """Their bins are wider here: the first one begins before the first bin."""
    narrow = {"bin_ns": MS // 10, "source_bin_ns": MS}
    write(store, "recordings", {**run_row("run-1", 0, 2), "start_ns": START + MS // 2, **narrow})
    write(store, "bins", *bins("run-1", {0.5: FULL // 10, 1: 100}))
    sent = {"recording_id": "run-1", "first_ns": START + MS // 2, "last_ns": START + MS // 2 + 50_000}
    write(store, "sources", {**sent, "ts_ns": START, "bytes": FULL // 10 - 24})
    (report,) = reports_of(store)
    [sender] = report.sources
    assert (sender.bytes, sender.burst_bytes, report.source_bytes) == (FULL // 10 - 24,) * 3


def test_a_period_that_begins_within_a_bin_of_senders_has_them(store):
    """Their bins are wider here: those that end before the period do not count."""
    narrow = {"bin_ns": MS // 10, "source_bin_ns": MS}
    write(store, "recordings", {**run_row("run-1", 0, 10), **narrow})
    write(store, "bins", *bins("run-1", {0: 100, 0.5: FULL // 10, 1: 100}))
    for source, first, last in (("10.0.0.9", 0.5, 0.6), ("10.0.0.8", 0.1, 0.4)):
        sent = {"first_ns": START + int(first * MS), "last_ns": START + int(last * MS) - 1}
        write(store, "sources", {"recording_id": "run-1", "ts_ns": START, "source": source, "bytes": 12_476, **sent})
    (report,) = reports_of(store, since=START + MS // 2)
    assert [burst["sources"] for burst in report.bursts] == [1]
    assert [(sender.source, sender.bytes, sender.burst_bytes) for sender in report.sources] == [
        ("10.0.0.9", 12_476, 12_476)
    ]


def test_a_period_has_its_part_of_a_bin_of_senders(store):
    """Their bins are wider here: one reaches beyond both ends of the period, which ends within a bin."""
    narrow = {"bin_ns": MS // 10, "source_bin_ns": 10 * MS}
    write(store, "recordings", {**run_row("run-1", 0, 10), **narrow})
    write(store, "bins", *bins("run-1", {2: 1000}))
    sent = {"ts_ns": START, "first_ns": START, "last_ns": START + 10 * MS - 1, "bytes": 100_000, "packets": 100}
    write(store, "sources", {"recording_id": "run-1", **sent})
    (report,) = reports_of(store, since=START + 2 * MS, until=START + 5 * MS - MS // 20)
    [sender] = report.sources
    assert (sender.bytes, sender.packets, report.source_bytes) == (30_000, 30, 30_000)


def test_a_period_within_a_bin_has_no_senders(store):
    """No bin begins in it, though a wider bin of senders reaches over it."""
    widths = {"bin_ns": 100 * MS, "source_bin_ns": 1000 * MS}
    first = -(START % (1000 * MS)) // MS
    write(store, "recordings", run_row("run-1", first, first + 2000, **widths))
    write(store, "bins", *bins("run-1", dict.fromkeys(range(first, first + 2000, 100), FULL)))
    times = {"ts_ns": START + first * MS, "first_ns": START + first * MS, "last_ns": START + (first + 999) * MS}
    for sender in ("10.0.0.1", "10.0.0.2"):
        write(store, "sources", {"recording_id": "run-1", "source": sender, "bytes": 10**6, "packets": 9, **times})
    (report,) = reports_of(store, since=START + (first + 510) * MS, until=START + (first + 550) * MS)
    assert (report.sources, report.source_count, report.source_bytes) == ([], 0, 0)


def test_senders_that_are_recorded_together_are_no_sender(store):
    write(store, "recordings", run_row("run-1", 0, 10))
    write(store, "bins", *bins("run-1", {5: FULL}))
    senders = {"10.0.0.9": 1, "10.0.0.8": 1, "other": 40}
    times = {"ts_ns": START + 5 * MS, "first_ns": START + 5 * MS, "last_ns": START + 6 * MS - 1, "bytes": 1000}
    write(store, "sources", *({"source": name, "members": of, **times} for name, of in senders.items()))
    (report,) = reports_of(store)
    assert (report.source_count, report.others, len(report.sources)) == (2, 40, 3)
    assert senders_caption(report) == "2 senders, and up to 40 others at once, by bytes in bursts"
    (report,) = reports_of(store, limits=Limits(sources=1))
    assert senders_caption(report) == "1 of 2 senders, and up to 40 others at once, by bytes in bursts"
    assert senders_shown(["other"], 1, 3) == "0 of 1 sender, and up to 3 others at once"
    assert senders_shown(["other"], 0, 3) == "up to 3 senders at once"


def test_wide_bins_of_senders_on_fast_links(store):
    """A second at 100 Gb/s: bytes times nanoseconds are more than 64 bits hold."""
    second = 1000 * MS
    fast = {"bin_ns": second, "source_bin_ns": second, "link_bps": 10**11}
    write(store, "recordings", {**run_row("run-1", 0, 1000), **fast})
    write(store, "bins", {"recording_id": "run-1", "ts_ns": START, "bytes": 12 * 10**9, "wire_bytes": 12 * 10**9})
    sent = {"ts_ns": START, "first_ns": START, "last_ns": START + second - 1, "bytes": 12 * 10**9}
    write(store, "sources", {"recording_id": "run-1", **sent})
    (report,) = reports_of(store)
    assert [(of.bytes, of.burst_bytes) for of in report.sources] == [(12 * 10**9, 12 * 10**9)]


def test_more_bins_than_fit_keep_every_bin_of_the_worst_burst(store):
    write(store, "recordings", run_row("run-1", 0, 9000))
    write(store, "bins", *bins("run-1", {i: FULL if 4000 <= i < 4030 else 100 for i in range(9000)}))
    (report,) = reports_of(store, limits=Limits(whole_bins=100, cells=100, detail_bins=200))
    assert report.base.width_ns == 10 * MS and len(report.base) <= 1000
    assert report.base.largest.max() == FULL
    held = {int(cell) * MS for cell in report.detail.cells}
    assert held >= set(range(START + 3970 * MS, START + 4060 * MS, MS))


def test_times_of_loss_and_of_clock_steps(store):
    write(store, "recordings", run_row("run-1", 0, 100))
    write(store, "bins", *bins("run-1", {5: 1000, 6: 1000, 9: 900}, quality=32), *bins("run-1", {20: 900}, quality=256))
    (report,) = reports_of(store)
    assert report.losing == [(START + 5 * MS, START + 7 * MS), (START + 9 * MS, START + 10 * MS)]
    assert report.stepped == [(START + 20 * MS, START + 21 * MS)]


def test_a_period_in_which_nothing_was_recorded_has_no_losses(store):
    runs = [run_row("run-1", 0, 100, dropped=7), run_row("run-2", 5000, 5100, dropped=5, late=3, clock_epochs=2)]
    write(store, "recordings", *({**run, "packets": 8, "backend": "afpacket", "complete": False} for run in runs))
    write(store, "bins", *bins("run-1", {5: FULL}), *bins("run-2", {5005: FULL}))
    (report,) = reports_of(store, since=START + 1000 * MS, until=START + 2000 * MS)
    assert [of.head for of in statements(report)] == ["No recording of this time"]


def test_a_period_between_two_clock_epochs_has_no_losses(store):
    """The row has the start of the first epoch and the end of the last: no times of one clock."""
    losses = {"dropped": 7, "late": 3, "packets": 8, "backend": "afpacket", "clock_epochs": 2}
    write(store, "recordings", run_row("run-1", 0, 5100, **losses))
    write(store, "bins", *bins("run-1", {5: FULL}), *bins("run-1", {5005: FULL}, clock_epoch=1))
    (report,) = reports_of(store, since=START + 1000 * MS, until=START + 2000 * MS)
    assert [of.head for of in statements(report)] == ["No recording of this time"]


@pytest.mark.parametrize(
    ("since", "until", "is_part"), [(0, 700, False), (0, 900, False), (1, 700, True), (0, 699, True), (-1, 701, False)]
)
def test_a_recording_of_two_clock_epochs_reaches_beyond_a_period_only_if_it_begins_before_or_ends_after(
    store, since, until, is_part
):
    write(store, "recordings", run_row("run-1", 0, 700, clock_epochs=2, packets=400))
    write(store, "bins", *bins("run-1", dict.fromkeys(range(100), 900)))
    write(store, "bins", *bins("run-1", dict.fromkeys(range(600, 700), 900), clock_epoch=1))
    (report,) = reports_of(store, since=START + since * MS, until=START + until * MS)
    assert report.is_part == is_part


def test_a_clock_that_was_set_back_reaches_beyond_the_start_of_its_recording(store):
    write(store, "recordings", run_row("run-1", 0, 50, clock_epochs=2, packets=400))
    write(store, "bins", *bins("run-1", dict.fromkeys(range(100), 900)))
    write(store, "bins", *bins("run-1", dict.fromkeys(range(-50, 50), 900), clock_epoch=1))
    for since, until, is_part in ((0, 100, True), (-50, 50, True), (-51, 101, False)):
        (report,) = reports_of(store, since=START + since * MS, until=START + until * MS)
        assert report.is_part == is_part


def test_a_period_has_the_recordings_of_its_bursts(store):
    """A burst of a wide bin that begins in the period, and its recording after it, which is under way."""
    wide = BurstDefinition(bin_ns=1000 * MS, threshold=0.2)
    under_way = {"complete": False, "ended": "", "end_ns": None}
    first = START // (1000 * MS) * 1000 * MS - START
    write(store, "recordings", {**run_row("run-2", first // MS + 500, first // MS + 900), **under_way})
    write(store, "bins", *bins("run-2", {first // MS + ms: FULL for ms in range(500, 900)}))
    span = {"definition": wide, "since": START + first, "until": START + first + 100 * MS}
    for before in ((), ({"recording_id": "run-1"},), ({"recording_id": "run-3", "dropped": 4},)):
        write(store, "recordings", *({**run_row("", first // MS, first // MS + 50), **run} for run in before))
        (report,) = reports_of(store, **span)
        assert [burst["recording_id"] for burst in report.bursts] == ["run-2"]
        assert not report.is_elsewhere and "No recording of this time" not in [of.head for of in statements(report)]
        assert report.is_part


def test_a_recording_under_way_reaches_beyond_a_period_that_ends_in_it(store):
    under_way = {"complete": False, "ended": "", "end_ns": None, "dropped": 7, "packets": 8, "backend": "afpacket"}
    write(store, "recordings", {**run_row("run-1", 0, 2000), **under_way})
    write(store, "bins", *bins("run-1", dict.fromkeys(range(2000), 100)))
    for since, until, is_part in ((0, 200, True), (100, 5000, True), (0, 5000, False), (None, None, False)):
        times = [None if ms is None else START + ms * MS for ms in (since, until)]
        (report,) = reports_of(store, since=times[0], until=times[1])
        [loss] = (of for of in statements(report) if "dropped" in of.head)
        assert (report.is_part, "whole recordings" in loss.text) == (is_part, is_part)
