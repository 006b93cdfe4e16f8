"""Pages about a switch port, which is recorded by samples and has no packets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import racklib
import reportlib
from livestore import Growing
from reportlib import BIN, FULL, START
from storelib import write

from mburst.analysis.answers.lane_report import LaneReport
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.live.bursts import LiveBursts
from mburst.analysis.live.look import LiveLook
from mburst.analysis.live.store import LiveStore
from mburst.dashboards.live.view import LiveView
from mburst.dashboards.rack import words as rack_words
from mburst.dashboards.report import answer, page, parts
from mburst.dashboards.report import words as report_words
from mburst.dashboards.top.app import TopApp
from mburst.quality import Quality
from mburst.sql import StoreFolder

PORT = {"host": "tor1", "rack": "r1", "interface": "E0", "direction": "out"}
MISSING = Quality.DROPS | Quality.GAP
OF_PACKETS = re.compile(r"packets? (was|were)|stamp|frame|recorder saw|record again", re.IGNORECASE)


def port_report(folder: Path, quality: int) -> LaneReport:
    """The report of a port with one bin of QUALITY, and with one burst of 20 bins."""
    store = StoreFolder.create(folder)
    write(store, "recordings", {**PORT, "backend": "otlp", "start_ns": START, "end_ns": START + 10**9, "bin_ns": BIN})
    sent = [(FULL if number < 20 else 900) for number in range(100)]
    sent[9] = FULL * 3 // 2  # bit for a sample that came late
    write(
        store,
        "bins",
        *(
            {
                **PORT,
                "ts_ns": START + number * BIN,
                "bytes": amount,
                "wire_bytes": amount,
                "packets": 0,
                "quality": quality if number == 50 else 0,
            }
            for number, amount in enumerate(sent)
        ),
    )
    [report] = reportlib.gathered(store)
    return report


@pytest.mark.parametrize(
    ("quality", "head"),
    [
        (MISSING, "Samples of the switch are missing"),
        (Quality.JITTER | Quality.GAP, "Not every bin has a sample of its own"),
        (Quality.RESET, "Not every bin has a sample of its own"),
        (0, "No sample is missing"),
    ],
)
def test_a_report_states_samples_in_place_of_packets(quality: int, head: str, tmp_path: Path) -> None:
    report = port_report(tmp_path / "store", quality)
    said = report_words.statements(report)
    assert head in {statement.head for statement in said}
    assert ("No sample is missing" in {statement.head for statement in said}) == (not quality)
    assert not [one for one in said if OF_PACKETS.search(f"{one.head} {one.text}")]
    html = page.render([report], BurstDefinition())
    assert ("samples missing" in html) == (quality == MISSING) and "lost while recording" not in html
    assert "Single bins read up to 150 %" in html and not OF_PACKETS.search(answer.finer(report, 0))
    assert report.packets is None and "packet" not in dict(parts.facts(report))["Recorded"]
    [burst] = report.bursts
    cells = dict(zip((column.head for column in parts.COLUMNS), parts.burst_row(burst, 10**9), strict=True))
    assert cells["Packets"][1] == "–"


def test_a_rack_report_names_the_ports_that_lack_samples(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    racklib.fill_ports(store, {"E0": [(50, 10)]})
    racklib.fill_ports(store, {"E1": []}, quality=MISSING)
    racklib.fill(store, {"a": [(50, 10)]})
    heads = [statement.head for statement in rack_words.statements(racklib.report(store))]
    assert "Samples are missing of tor1 E1 outbound" in heads
    assert not any("lost" in head for head in heads)


def test_live_views_state_samples_in_place_of_packets(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "store", START, "tor1", backend="otlp")
    live = LiveStore(growing.store)
    bursts = LiveBursts(live, BurstDefinition())
    app = TopApp(LiveLook(live, bursts), "store")
    try:
        for missing, said in (
            (0, "no sample of the switch is missing"),
            (10, "samples of the switch are missing in 1 ms: counts are lower bounds"),
        ):
            growing.append([84] * 1000)
            growing.append([84] * missing, quality=MISSING)
            live.poll()
            assert said in [line.plain for line in app._lines(120, 30)]
        [lane] = live.lanes.values()
        assert LiveView(live, bursts)._status(lane, lane.edge_ns)["isPort"]
    finally:
        live.close()
        growing.close()
