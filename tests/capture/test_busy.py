"""Senders are kept only near busy bins: the rule of capture/measure/busy.h, and the same bursts as with all senders."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from capture_rows import read_rows
from frames import START_NS, Frame, write_pcap
from hypothesis import event, given, settings
from hypothesis import strategies as st
from places import ROOT

from mburst.analysis.bursts.find import BurstDefinition, detect_bursts, listed
from mburst.analysis.cause.trigger import FEWEST, trigger
from mburst.analysis.model.kept import REACH
from mburst.analysis.read.sources import sent_span
from mburst.capture import Capture
from mburst.sql import in_memory
from mburst.sql.tables import arrow_schema

PPB = 10**9
SPEEDS = st.sampled_from([10**7, 10**8, 10**9, 10**10])
SHARES = st.sampled_from([0.05, 0.1, 0.3, 1.0])
WINDOWS = st.sampled_from([0, 100_000, 2_000_000, 30_000_000])
ADDED = ("bytes", "packets", "flows", "members", "cnp_packets")


class Sent(Frame):
    """A frame of this host, which has three addresses."""

    def data(self) -> bytes:
        data = bytearray(super().data())
        if self.outgoing:
            data[29] = 1 + self.sender % 3
        return bytes(data)


@st.composite
def captures(draw: st.DrawFn) -> list[Frame]:
    """Quiet stretches and bursts in both directions, out of order, with late packets and steps of the clock."""
    frames, now = [], START_NS + draw(st.integers(0, 10**9))
    for _ in range(draw(st.integers(1, 8))):
        now += draw(st.one_of(st.integers(0, 30_000_000), st.integers(-200_000_000, 10_000_000)))
        random = np.random.default_rng(draw(st.integers(0, 2**32)))
        length, count = draw(st.sampled_from([(100_000, 60), (3_000_000, 60), (30_000_000, 90)]))
        jitter = draw(st.sampled_from([0, 5_000, 500_000, 4_000_000]))
        senders = draw(st.sampled_from([1, 3, 12]))
        stamps = now + np.sort(random.integers(0, length, count)) + random.integers(0, jitter + 1, count)
        for ts in stamps:
            size, flow = int(random.integers(42, 1515)), int(random.integers(0, 5))
            sender = int(random.integers(0, senders))
            frames.append(Sent(int(ts), sender, size, flow, outgoing=bool(random.random() < 0.3)))
        now = int(stamps.max())
    return frames


def recorded(frames: list[Frame], **options: Any) -> tuple[list[dict], list[dict], list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_pcap(Path(folder, "test.pcap"), frames)
        capture = Capture([str(path)], local=["02:00:00:00:ff:ff"], mtu=0, **options)
        bins, senders = read_rows(capture)
        return bins, senders, capture.lanes


def by_bin(senders: list[dict]) -> dict[tuple[int, int, int], list[dict]]:
    found = defaultdict(list)
    for row in senders:
        found[row["lane"], row["clock_epoch"], row["ts_ns"]].append(row)
    return found


def summed(rows: list[dict], outgoing: bool, width_ns: int) -> list[dict]:
    """Returns the rows of a bin of senders, WIDTH_NS wide, that is not near a busy bin."""
    fewer = [row for row in rows if row["source"] == "other" or not (outgoing and row["flows"] >= FEWEST)]
    if sum(row["members"] for row in fewer) <= 1:
        return rows
    other = {
        **fewer[0],
        "source": "other",
        **{name: sum(row[name] for row in fewer) for name in ADDED},
        "first_ns": fewer[0]["ts_ns"],
        "last_ns": fewer[0]["ts_ns"] + width_ns - 1,
        "source_port": 0,
        "destination_port": 0,
    }
    return [row for row in rows if row not in fewer] + [other]


def test_the_engine_and_analysis_have_the_same_reach_and_fan_out():
    header = (ROOT / "capture" / "measure" / "busy.h").read_text("utf-8")
    assert re.findall(r"#define MB_FAN_OUT_FLOWS (\d+)", header) == [str(FEWEST)]
    assert re.findall(r"#define MB_BUSY_REACH (\d+)", header) == [str(REACH)]


@settings(max_examples=200, deadline=None)
@given(
    captures(),
    st.sampled_from([(100_000, 1_000_000), (10_000, 30_000), (1_000_000, 1_000_000), (7_000_000, 300_000)]),
    WINDOWS,
    SPEEDS,
    SHARES,
    st.sampled_from([2, 4096]),
)
def test_senders_are_kept_within_reach_of_a_busy_bin_and_summed_elsewhere(
    frames, widths, window_ns, link_bps, share, max_sources
):
    bin_ns, source_bin_ns = widths
    options = {
        "bin_ns": bin_ns, "source_bin_ns": source_bin_ns, "window_ns": window_ns, "max_sources": max_sources,
    }  # fmt: skip
    bins, everybody, _ = recorded(frames, **options)
    same_bins, kept, lanes = recorded(frames, **options, sources_above_ppb=round(share * PPB), link_bps=link_bps)
    assert same_bins == bins and all(lane["busy"] for lane in lanes)
    busy = defaultdict(list)
    for row in bins:
        if row["wire_bytes"] * 8e9 >= share * bin_ns * link_bps:
            busy[row["lane"], row["clock_epoch"]].append(row["ts_ns"])
    reach = REACH * max(bin_ns, source_bin_ns)
    expected = []
    for (lane, epoch, ts_ns), rows in by_bin(everybody).items():
        near = any(at < ts_ns + source_bin_ns + reach and at + bin_ns > ts_ns - reach for at in busy[lane, epoch])
        expected += rows if near else summed(rows, lanes[lane]["direction"] == "out", source_bin_ns)

    def order(rows):
        return sorted(rows, key=lambda row: (row["lane"], row["clock_epoch"], row["ts_ns"], row["source"]))

    assert order(kept) == order(expected)
    for lane in range(len(lanes)):
        times = [(row["clock_epoch"], row["ts_ns"]) for row in kept if row["lane"] == lane]
        assert times == sorted(times)


@cache
def database():
    """One database for all examples, because creating it takes longer than a query."""
    return in_memory(1)


def tables(bins: list[dict], senders: list[dict], lanes: list[Any], bin_ns: int, source_bin_ns: int, link_bps: int):
    """Returns the database with these rows, in one recording for each port direction."""
    of_lane = [
        {
            "recording_id": str(number),
            "host": "h",
            "rack": "r",
            "interface": "i",
            "direction": lane["direction"],
            "backend": "file",
        }
        for number, lane in enumerate(lanes)
    ]
    con = database()
    for table, rows in (("bins", bins), ("sources", senders)):
        schema = arrow_schema(table)
        full = [{**dict.fromkeys(schema.names), **of_lane[row["lane"]], **row} for row in rows]
        con.register(table, pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in full], schema))
    settings_of = {
        "bin_ns": bin_ns,
        "source_bin_ns": source_bin_ns,
        "link_bps": link_bps,
        "start_ns": 0,
        "end_ns": 2**62,
    }
    con.register("recordings", pa.Table.from_pylist([{**one, **settings_of} for one in of_lane]))
    return con


def answers(con, definition: BurstDefinition) -> tuple[Any, ...]:
    """Returns bursts, their senders, their triggers, and the time with which triggers are compared."""
    detect_bursts(con, definition)
    bursts = list(listed(con))
    senders = con.execute(
        "SELECT burst, source, members, round(bytes, 3), onset_ns, known, counted, began FROM burst_sources "
        "ORDER BY ALL"
    ).fetchall()
    rows = con.sql("FROM bursts ORDER BY burst").to_arrow_table().to_pylist()
    for burst in bursts:
        burst["effective_sources"] = round(burst["effective_sources"] or 0, 6)
        for sender in burst["top_sources"]:
            sender["share"] = round(sender["share"], 9)
    return bursts, senders, trigger(con, rows), sent_span(con, "h", "i")


@pytest.mark.costly
@settings(max_examples=30, deadline=None)
@given(captures(), WINDOWS, SPEEDS, SHARES, st.data())
def test_bursts_fan_in_and_trigger_are_as_with_all_senders(frames, window_ns, link_bps, share, data):
    widths = {"bin_ns": 100_000, "source_bin_ns": 1_000_000}
    release = data.draw(st.floats(share, 1.2), "release")
    width = data.draw(st.sampled_from([None, 500_000, 1_000_000]), "width")
    definition = BurstDefinition(
        bin_ns=width,
        threshold=max(release, data.draw(st.floats(share, 1.5), "threshold")),
        release=release,
        join_ns=data.draw(st.sampled_from([None, 0, 5_000_000]), "join"),
    )
    found = []
    for kept in ({}, {"sources_above_ppb": round(share * PPB), "link_bps": link_bps}):
        rows = recorded(frames, window_ns=window_ns, **widths, **kept)
        found.append(answers(tables(*rows, **widths, link_bps=link_bps), definition))
    event(f"trigger: {found[0][2] is not None}")
    event(f"bursts: {bool(found[0][0])}")
    assert found[0] == found[1]


def test_all_senders_are_kept_if_the_link_speed_is_unknown():
    frames = [Frame(START_NS + i * 10_000, i % 7, 100) for i in range(1000)]
    _, everybody, [lane] = recorded(frames)
    _, kept, [unknown] = recorded(frames, sources_above_ppb=PPB // 2)
    assert kept == everybody and not lane["busy"] and not unknown["busy"]
    _, kept, [known] = recorded(frames, sources_above_ppb=PPB // 2, link_bps=10**10)
    assert known["busy"] and {row["source"] for row in kept} == {"other"}
    assert {row["members"] for row in kept} == {7} and sum(row["packets"] for row in kept) == 1000


@pytest.mark.parametrize("share", [-1, PPB + 1, 1 << 64])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match="sources_above_ppb"):
        recorded([Frame(START_NS, 1, 60)], sources_above_ppb=share)


def flood(path: Path, count: int, step_ns: int) -> Path:
    """Writes frames STEP_NS apart, each of another sender."""
    data = bytearray(Frame(START_NS, 1, 60).data())
    records = np.zeros((count, 16 + len(data)), np.uint8)
    records[:, 16:] = np.frombuffer(bytes(data), np.uint8)
    header = records[:, :16].view("<u4")
    seconds, rest = np.divmod(np.arange(count) * step_ns, 10**9)
    header[:, 0], header[:, 1], header[:, 2:] = START_NS // 10**9 + seconds, rest, [len(data), 60]
    records[:, 16 + 26 : 16 + 30].view(">u4")[:, 0] = np.arange(count) + (11 << 24)
    path.write_bytes(np.array([0xA1B23C4D, 0x00040002, 0, 0, 96, 1], "<u4").tobytes() + records.tobytes())
    return path


def members_of(path: Path, **options: Any) -> np.ndarray:
    """Returns the members of each row of senders; checks that each has as many packets as members."""
    capture = Capture([str(path)], sources_above_ppb=PPB, link_bps=10**10, **options)
    found = []
    while (read := capture.read()) is not None:
        found.append(pa.table(read[1]).select(["members", "packets"]))
    members = np.concatenate([batch["members"].to_numpy() for batch in found])
    assert sum(batch["packets"].to_numpy().sum() for batch in found) == members.sum()
    return members


def test_senders_beyond_the_limit_of_undecided_ones_are_kept(tmp_path):
    """Memory is bounded: undecided senders beyond the limit are kept, not summed."""
    members = members_of(flood(tmp_path / "a.pcap", 300_000, 1000), bin_ns=100_000_000, source_bin_ns=10_000)
    assert members.sum() == 300_000 and members[0] == 1 and members[-1] == 10
    assert 0 < (members == 10).sum() <= 262_144 // 11


def test_decided_senders_do_not_count_towards_the_limit(tmp_path):
    """Even if more came before than may be undecided at once."""
    members = members_of(flood(tmp_path / "a.pcap", 300_000, 10_000))
    assert members.sum() == 300_000 and (members == 100).all()
