"""Stamps that are no dates make no bins, and all of their packets are counted."""

from __future__ import annotations

from pathlib import Path

import capture_builder as build
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from capture_builder import Interface
from frames import START_NS, Frame
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.capture import Capture

BIN_NS = 100_000
YEAR_2000_NS, YEAR_2100_NS = 946_684_800 * 10**9, 4_102_444_800 * 10**9
UNSYNCED, STEPPED = 16, 256
stamps = st.one_of(
    st.integers(-(2**63) + 10**10, 2**63 - 10**10),
    st.integers(0, YEAR_2100_NS - 1),
    *(st.integers(edge - 2, edge + 2) for edge in (0, YEAR_2000_NS, YEAR_2100_NS)),
)


def pcapng(path: Path, at_ns: list[int]) -> Path:
    """Stamps are signed 64 bits of nanoseconds from 1970, by an offset."""
    offset_s = -(2**63) // 10**9
    data = (Frame(ns, i % 3, 100 + i % 2).data() for i, ns in enumerate(at_ns))
    blocks = [build.enhanced(0, ns - offset_s * 10**9, one) for ns, one in zip(at_ns, data, strict=True)]
    path.write_bytes(build.section() + Interface(resolution=9, offset_s=offset_s).block() + b"".join(blocks))
    return path


def read(path: Path) -> tuple[Capture, pa.Table]:
    capture = Capture([str(path)], bin_ns=BIN_NS, window_ns=0)
    bins = []
    while rows := capture.read():
        bins.append(pa.table(rows[0]))
    return capture, pa.concat_tables(bins) if bins else pa.table({"ts_ns": [], "packets": [], "quality": []})


@settings(max_examples=200, deadline=None)
@given(st.lists(stamps, min_size=1, max_size=60), st.booleans())
def test_every_stamp_is_in_a_bin_or_counted(tmp_path_factory: pytest.TempPathFactory, at_ns: list[int], in_order: bool):
    at_ns = [START_NS, *(sorted(at_ns) if in_order else at_ns)]
    capture, bins = read(pcapng(tmp_path_factory.mktemp("dates") / "any.pcapng", at_ns))
    wrong = [i for i, ns in enumerate(at_ns) if not 0 <= ns < YEAR_2100_NS]
    facts, lanes = capture.facts, capture.lanes
    assert facts["misdated"] == len(wrong)
    assert (pc.sum(bins["packets"]).as_py() or 0) + sum(lane["late"] for lane in lanes) == len(at_ns)
    assert all(0 <= ns < YEAR_2100_NS for ns in bins["ts_ns"].to_pylist())
    for ns, quality in zip(bins["ts_ns"].to_pylist(), bins["quality"].to_pylist(), strict=True):
        assert bool(quality & UNSYNCED) == (ns < YEAR_2000_NS)
    if wrong:
        assert f"the first is packet {wrong[0] + 1}, at {at_ns[wrong[0]]} ns" in facts["notice"]
    assert ("before the year 2000" in (facts["notice"] or "")) == any(0 <= ns < YEAR_2000_NS for ns in at_ns)


def test_a_train_that_passes_the_last_valid_date_is_cut_there(tmp_path):
    """Consecutive frames of one flow are counted together; here the last ones are no longer dates."""
    at_ns = [YEAR_2100_NS + (i - 60) * 1000 for i in range(100)]
    data = Frame(0, 1, 100).data()
    path = tmp_path / "train.pcap"
    path.write_bytes(build.pcap_header() + b"".join(build.pcap_record(ns // 10**9, ns % 10**9, data) for ns in at_ns))
    capture, bins = read(path)
    assert pc.sum(bins["packets"]).as_py() == 60 and capture.facts["misdated"] == 40
    assert capture.lanes[0]["late_bytes"] == 4000 and "packet 61" in capture.facts["notice"]


def test_a_capture_from_before_the_clock_was_set_is_read_and_reported(tmp_path):
    at_ns = [5 * 10**9 + i * 10**6 for i in range(20)]
    capture, bins = read(pcapng(tmp_path / "booted.pcapng", at_ns))
    assert pc.sum(bins["packets"]).as_py() == 20 and capture.facts["misdated"] == 0
    assert capture.facts["notice"] == (
        "20 packets with a stamp before the year 2000, as of a clock that was not set: the bins are marked unsynced"
    )


def test_a_clock_that_is_set_begins_an_epoch(tmp_path):
    """The time from 1970 until the clock was set was not recorded, so no bins cover it."""
    at_ns = [5 * 10**9 + i * 10**6 for i in range(20)] + [START_NS + i * 10**6 for i in range(20)]
    capture, bins = read(pcapng(tmp_path / "set.pcapng", at_ns))
    assert capture.lanes[0]["clock_epochs"] == 2
    [*of_epochs] = zip(bins["clock_epoch"].to_pylist(), bins["quality"].to_pylist(), strict=True)
    assert [epoch for epoch, _ in of_epochs] == [0] * 20 + [1] * 20
    assert [i for i, (_, quality) in enumerate(of_epochs) if quality & STEPPED] == [19, 20]
