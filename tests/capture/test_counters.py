"""A counter of bins is a line in capture/measure/bins.h and a column, with its meaning, in sql/schema/bins.sql.
Everything else follows from these two, except the code that counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from capture_rows import read_rows
from frames import START_NS, Frame, write_pcap
from places import ROOT

from mburst.capture import Capture
from mburst.sql.described import about
from mburst.sql.tables import columns

KEYS = {"recording_id", "host", "rack", "interface", "direction", "clock_epoch", "ts_ns"}


def listed() -> list[str]:
    """The counters that bins.h lists."""
    text = (ROOT / "capture" / "measure" / "bins.h").read_text()
    return re.findall(r"^\tX\((\w+), \w+, (?:SUM|BITS)\)", text, re.MULTILINE)


def test_bins_totals_and_the_store_have_the_listed_counters(tmp_path: Path) -> None:
    capture = Capture([str(write_pcap(tmp_path / "eth0.pcap", [Frame(START_NS, 1, 60)]))])
    [row], _ = read_rows(capture)
    [lane] = capture.lanes
    assert list(row) == ["lane", "clock_epoch", "ts_ns", *listed()]
    assert {name: lane[name] for name in listed()} == {name: row[name] for name in listed()}  # type: ignore[literal-required]
    assert [column.name for column in columns("bins") if column.name not in KEYS] == listed()
    assert set(listed()) - {"packets"} <= set(about("bins"))


@pytest.mark.parametrize("counter", ["resume_frames", "pause_quanta", "pause_classes"])
def test_a_counter_is_named_in_two_places_and_where_it_is_counted(counter: str) -> None:
    rooms = ("capture", "sql", "mburst")  # from the frame to `mburst sql`; code that uses a counter names it again
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for room in rooms
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".c", ".h", ".sql", ".py", ".pyi")
    }
    of_bins = re.compile(
        rf"\bX\({counter},|\bbin->{counter}\b|^ +{counter} +[A-Z]+,? |[\"']{counter}[\"']", re.MULTILINE
    )
    places = {name: found for name, text in texts.items() if (found := len(of_bins.findall(text)))}
    places.pop("sql/schema/steps.sql", None)  # which counters are summed for older days is a separate choice
    assert places == {"capture/measure/bins.h": 1, "capture/measure/bins.c": 1, "sql/schema/bins.sql": 1}
