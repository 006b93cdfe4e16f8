"""What the report of a rack has of a period in which some of its hosts recorded nothing."""

from __future__ import annotations

import pytest
from racklib import DAY, FULL, HOUR, MS, START, fill, report
from storelib import sealed_files, write

import mburst
from mburst.dashboards.rack import words
from mburst.dashboards.rack.tables import latency
from mburst.dashboards.report.words import statements
from mburst.sql import StoreFolder


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


@pytest.mark.parametrize("run", [{}, {"clock_epochs": 2}, {"ended": "killed"}], ids=str)
def test_a_recording_that_has_no_bins_of_a_period_has_no_lane_in_it(store, run):
    """It is under way, and all of its bins so far are before the period; or the period is between two clock epochs; or
    its last bin ends where the period begins. What it dropped is not of this time."""
    of = {"recording_id": "r", "host": "a"}
    epochs = run.get("clock_epochs", 1)
    times = {"start_ns": START, "end_ns": START + (HOUR if epochs == 1 else 3 * HOUR), "dropped": 7}
    row = {**of, **times, "packets": 2, "complete": False, "ended": "", "backend": "afpacket", **run}
    write(store, "recordings", {**row, "written_ns": START + 4 * HOUR})
    write(store, "bins", {**of, "ts_ns": START, "wire_bytes": FULL})
    write(store, "bins", {**of, "ts_ns": times["end_ns"] - MS, "wire_bytes": FULL, "clock_epoch": epochs - 1})
    for beyond in (0, 1):
        since, until = START + HOUR + beyond * HOUR // 2, START + 2 * HOUR
        [lane] = mburst.open(store.path).report(since=since, until=until).lanes
        assert lane.is_elsewhere and lane.recorded_ns == 0
        assert ("has not ended" in statements(lane)[0].text) == (row["ended"] == "")
        assert report(store, start=since, length=until - since).lanes == []


@pytest.mark.filterwarnings("ignore::mburst.DamagedFileWarning")
def test_a_lane_whose_bins_of_a_period_are_missing_is_listed(store):
    """It was recorded, and what it dropped belongs to its lane, though nothing else of it is known."""
    of = {"recording_id": "r", "host": "a", "packets": 9, "start_ns": START, "dropped": 7, "backend": "afpacket"}
    write(store, "recordings", {**of, "end_ns": START + 3000 * MS - 1, "written_ns": START + HOUR})
    for first in (0, 1000, 2000):
        before = {*sealed_files(store, "bins")}
        bins = ({"recording_id": "r", "host": "a", "ts_ns": START + ms * MS} for ms in range(first, first + 1000))
        write(store, "bins", *bins, writer_id="0123456789ab")
        if first == 1000:
            [damaged] = {*sealed_files(store, "bins")} - before
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    page = report(store, start=START + 1100 * MS, length=800 * MS)
    assert [(lane.name, lane.recorded_ns, lane.loss.dropped) for lane in page.lanes] == [(("a", "eth0", "in"), 0, 7)]


@pytest.mark.parametrize("there", [True, False], ids=["with a path", "without"])
def test_probes_to_a_host_without_a_recording_of_the_period_are_counted(store, there):
    """No burst of its time is known, so that they could only seem to have met none."""
    fill(store, {"a": []}, length=HOUR, start=START - 2 * HOUR)
    if there:
        fill(store, {"b": []}, length=HOUR)
    for dst in ("a", "b"):
        write(store, "probes", *({"seq": i, "src": "x", "dst": dst, "tx_ns": START + i * MS} for i in range(6)))
    page = report(store, length=HOUR)
    assert [(path.dst, path.clear.sent) for path in page.paths] == ([("b", 6)] if there else [])
    n = 6 if there else 12
    assert page.unplaced_probes == n
    text = f"{n} probes of this time name no host of this rack that was recorded then."
    assert [part.text for part in latency(page) if hasattr(part, "text")][-1].endswith(text)


@pytest.mark.parametrize(("short", "is_comparable"), [(HOUR // 2, True), (HOUR // 2 - MS, False)])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_period_that_was_recorded_for_less_than_half_as_long_is_compared_with_care(
    store, earlier, short, is_comparable
):
    fill(store, {"a": []}, start=START - DAY, length=short if earlier else HOUR)
    fill(store, {"a": []}, length=HOUR if earlier else short)
    heads = [of.head for of in words.statements(report(store))]
    assert ("Compare with the period before with care" not in heads) == is_comparable
