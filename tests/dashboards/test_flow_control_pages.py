"""Pause frames and congestion notifications made by scapy: from a capture to the pages and JSON of reports."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from flow_control_frames import BIN_NS, START_NS, by_class, notification, pause, plain, record
from storelib import write

from mburst.__main__ import main
from mburst.analysis.model.flow_control import FlowControl, class_words, classes_of, summed
from mburst.dashboards.common.flow_control_words import about_words, head_words
from mburst.sql import StoreFolder

FRAMES = [
    *((at, plain()) for at in range(0, 100, 10)),
    (3, pause(100)),
    (3, by_class({3: 65535})),
    (4, by_class({3: 0})),
    (40, notification()),
    (41, notification()),
]


def page_text(path: Path) -> str:
    shown = re.sub(r"<(script|style)\b.*?</\1>", " ", path.read_text(), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown)))


def reported(store: Path, folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Returns the text of the page and its JSON."""
    assert main(["report", str(store), "-o", str(folder), *options]) == 0
    [facts] = [path for path in folder.glob("*.json")]
    return page_text(facts.with_suffix(".html")), json.loads(facts.read_text())


def test_a_line_of_an_outgoing_direction_states_its_requests(tmp_path: Path) -> None:
    text, facts = reported(record(tmp_path, FRAMES, "out"), tmp_path / "r")
    assert "2 pause frames, 1 resume frame, 2 congestion notifications (CNP)" in text
    asked = (65535 + 100) * 51.2
    assert "This host asked the switch to stop sending to it: all classes, asked for up to 3.36 ms in all." in text
    assert "asked its senders to send slower" in text and "was stopped for" not in text
    [lane] = facts["lanes"]
    assert lane["flow_control"] == {
        "cnp_packets": 2,
        "pause_frames": 2,
        "resume_frames": 1,
        "pause_quanta": 65635,
        "pause_classes": list(range(8)),
        "asked_ns": round(asked),
        "uncounted": 0,
    }


def test_a_line_of_an_incoming_direction_states_requests_to_this_host(tmp_path: Path) -> None:
    text, facts = reported(record(tmp_path, [*FRAMES[:10], (5, by_class({3: 7, 4: 9})), FRAMES[-1]]), tmp_path / "r")
    assert "1 pause frame, 1 congestion notification (CNP)" in text
    assert "The switch asked this host to stop sending: classes 3 and 4, asked for up to 461 ns in all." in text
    assert "asked this host to send slower" in text
    assert facts["lanes"][0]["flow_control"]["pause_classes"] == [3, 4]


def test_the_paused_time_depends_on_the_stated_link_speed(tmp_path: Path) -> None:
    """Without a link speed, the quanta are stated and no time."""
    store = record(tmp_path, FRAMES, link=None)
    text, facts = reported(store, tmp_path / "r")
    assert "asked for up to 65,635 quanta of 512 bit times (the link's speed is not known)" in text
    assert facts["lanes"][0]["flow_control"]["asked_ns"] is None
    text, facts = reported(store, tmp_path / "faster", "--link", "100G")
    assert "asked for up to 336 µs in all" in text
    assert facts["lanes"][0]["flow_control"]["asked_ns"] == round(65635 * 5.12)


def test_a_direction_without_such_frames_has_no_line(tmp_path: Path) -> None:
    text, facts = reported(record(tmp_path, FRAMES[:10]), tmp_path / "r")
    assert "pause frame" not in text and "congestion notification" not in text
    assert facts["lanes"][0]["flow_control"]["pause_frames"] == 0


def test_only_the_selected_time_counts(tmp_path: Path) -> None:
    store = record(tmp_path, [*FRAMES, (30_000, plain())])
    _, facts = reported(store, tmp_path / "r", "--since", "2s")
    assert facts["lanes"][0]["flow_control"]["pause_frames"] == 0


COUNTS = {"cnp_packets": 1, "pause_frames": 2, "resume_frames": 0, "pause_quanta": 10, "pause_classes": 8}
ROW = {**COUNTS, "asked_ns": 512.0}
OLD = dict.fromkeys(ROW)


@pytest.fixture
def older(tmp_path: Path) -> StoreFolder:
    """A recording by an mburst that did not count these frames."""
    store = StoreFolder.create(tmp_path / "older")
    write(store, "recordings", {"start_ns": START_NS, "end_ns": START_NS + 10**9, "packets": 1})
    write(store, "bins", {"ts_ns": START_NS, "wire_bytes": 100})
    return store


def test_frames_that_were_not_counted_are_not_reported_as_none(older: StoreFolder, tmp_path: Path) -> None:
    text, facts = reported(older.path, tmp_path / "r")
    assert "Pause frames were not counted." in text and text.lower().replace("pauses", "").count("pause") == 1
    [page] = (tmp_path / "r").glob("*.html")
    assert "<code>mburst record --backend afpacket</code> counts them." in page.read_text()
    assert facts["lanes"][0]["flow_control"] == {**OLD, "uncounted": 1}
    assert older.connect().execute("SELECT pause_frames, asked_ns FROM flow_control").fetchall() == [(None, None)]


def test_counts_beside_older_recordings_are_lower_bounds(older: StoreFolder, tmp_path: Path) -> None:
    again = {"recording_id": "run-2"}
    write(older, "recordings", {**again, "start_ns": START_NS + 10**9, "end_ns": START_NS + 2 * 10**9, "packets": 1})
    write(older, "bins", {**again, "ts_ns": START_NS + 10**9, "wire_bytes": 100, **COUNTS})
    text, facts = reported(older.path, tmp_path / "r")
    assert (
        "2 pause frames" in text and "Not all counted in 1 recording (by an older mburst, or in the kernel): " in text
    )
    assert facts["lanes"][0]["flow_control"]["uncounted"] == 1


def test_sums_of_recordings() -> None:
    assert summed([]) == FlowControl() and not summed([OLD]).seen and summed([OLD, OLD]).uncounted == 2
    both = summed([ROW, OLD, {**ROW, "pause_classes": 1, "cnp_packets": 0}])
    assert both == FlowControl(1, 4, 0, 20, (0, 3), 1024, 1)
    assert summed([ROW, {**ROW, "asked_ns": None}]).asked_ns is None
    assert summed([{**ROW, "pause_quanta": 0, "asked_ns": None}]).asked_ns == 0
    in_kernel = {**OLD, "cnp_packets": 5}
    assert summed([in_kernel]) == FlowControl(cnp_packets=5, uncounted=1)
    both = summed([ROW, in_kernel])
    assert (both.cnp_packets, both.pause_frames, both.uncounted) == (ROW["cnp_packets"] + 5, ROW["pause_frames"], 1)


def test_the_report_of_a_rack_states_the_same(tmp_path: Path) -> None:
    store = record(tmp_path, FRAMES, "out")
    period = ("--since", "2023-11-14T22:00", "--until", "2023-11-15T00:00")
    text, facts = reported(store, tmp_path / "r", "--rack", "r1", *period)
    assert "On cache eth0 outbound, 2 pause frames, 1 resume frame, 2 congestion notifications (CNP)" in text
    assert "asked for up to 3.36 ms in all" in text
    [lane] = facts["lanes"]
    assert (lane["flow_control"]["pause_frames"], lane["flow_control"]["cnp_packets"]) == (2, 2)
    text, _ = reported(record(tmp_path / "quiet", FRAMES[:10]), tmp_path / "q", "--rack", "r1", *period)
    assert "pause frame" not in text


def test_words() -> None:
    assert [class_words(classes_of(bits)) for bits in (8, 0b11000, 0b1011, 0xFF)] == [
        "class 3",
        "classes 3 and 4",
        "classes 0, 1 and 3",
        "all classes",
    ]
    assert head_words(FlowControl(0, 0, 1, 0, (), 0)) == "1 resume frame"
    assert about_words(FlowControl(0, 0, 1, 0, (), 0), "in") == ""
    assert "One end of the link asked the other" in about_words(summed([ROW]), "mirror")
    assert BIN_NS == 100_000
