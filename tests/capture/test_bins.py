"""Bins and senders of the engine, against a slow oracle that is written from the definitions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import frame_builder as fb
import numpy as np
import pyarrow as pa
import pytest
from capture_builder import Interface, enhanced, pcap_header, pcap_record, section
from capture_rows import read_rows
from frames import START_NS, Frame, write_pcap
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.capture import Capture
from mburst.errors import MburstError

STEP_PACKETS = 32  # this many late packets in a row are a step of the clock
SET_NS = 946_684_800 * 10**9  # 2000-01-01: a clock with an earlier time was never set


def record(frames: list[Frame], snaplen: int = 96, **options: Any) -> tuple[list, list, dict[str, Any], Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_pcap(Path(folder, "test.pcap"), frames, snaplen)
        capture = Capture([str(path)], **options)
        bins, senders = read_rows(capture)
        lanes, facts = capture.lanes, capture.facts
    return bins, senders, lanes, facts


@dataclass
class Oracle:
    """Bins of one direction, counted frame by frame from the definitions in capture/measure/bins.h."""

    bin_ns: int
    source_bin_ns: int
    window_ns: int
    bins: dict = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))
    senders: dict = field(default_factory=lambda: defaultdict(list))
    late: list[Frame] = field(default_factory=list)
    epoch: int = 0
    newest: int | None = None
    pending: list[Frame] = field(default_factory=list)

    def add(self, frame: Frame) -> None:
        if self.newest is not None and frame.ts_ns < self.newest - self.window_ns:
            if self.pending and frame.ts_ns < self.pending[-1].ts_ns - self.window_ns:
                self.give_up_pending()
            self.pending.append(frame)
            if len(self.pending) == STEP_PACKETS:
                again, self.pending = self.pending, []
                self.epoch += 1
                self.newest = None
                for earlier in again:
                    self.add(earlier)
            return
        if self.newest is None or frame.ts_ns >= self.newest:
            self.give_up_pending()
            if self.newest is not None and self.newest < SET_NS <= frame.ts_ns:
                self.epoch += 1
            self.newest = frame.ts_ns
        row = self.bins[self.epoch, frame.ts_ns // self.bin_ns * self.bin_ns]
        row[0] += frame.size
        row[1] += max(frame.size, 60) + 24
        row[2] += 1
        row[3] += frame.ce
        self.senders[self.epoch, frame.ts_ns // self.source_bin_ns * self.source_bin_ns, frame.source].append(frame)

    def give_up_pending(self) -> None:
        self.late += self.pending
        self.pending = []

    def run(self, frames: list[Frame]) -> Oracle:
        for frame in frames:
            self.add(frame)
        self.give_up_pending()
        return self


WIDTHS = st.sampled_from([10_000, 30_000, 100_000, 1_000_000, 7_000_000, 1_000_000_000])
STEPS = st.one_of(
    st.integers(0, 20_000),
    st.integers(-150_000, 400_000),
    st.integers(-5_000_000, 10_000_000),
    st.integers(-10_000_000_000, 10_000_000_000),
)


@st.composite
def captures(draw: st.DrawFn) -> list[Frame]:
    """Runs of frames with a clock that mostly goes on, sometimes goes back and now and then jumps. It may not have been
    set."""
    begun_ns = draw(st.sampled_from([START_NS, START_NS, 0, SET_NS - 10**9]))
    frames, now = [], begun_ns + draw(st.one_of(st.just(0), st.integers(0, 10**9)))
    for _ in range(draw(st.integers(1, 6))):
        now = max(now + draw(STEPS), 0)
        jitter = draw(st.sampled_from([0, 5_000, 500_000, 4_000_000]))
        seed = draw(st.integers(0, 2**32))
        count = draw(st.integers(1, 120))
        random = np.random.default_rng(seed)
        stamps = now + np.sort(random.integers(0, 3_000_000, count)) + random.integers(0, jitter + 1, count)
        stay = draw(st.sampled_from([0.0, 0.9]))
        for ts in stamps:
            if not frames or random.random() >= stay:
                sender, flow, ce = int(random.integers(0, 12)), int(random.integers(0, 4)), bool(random.integers(0, 2))
            frames.append(Frame(int(ts), sender, int(random.integers(42, 1515)), flow, ce))
        now = int(stamps.max())
    return frames


@settings(max_examples=300, deadline=None)
@given(captures(), WIDTHS, WIDTHS, st.sampled_from([0, 100_000, 2_000_000]))
def test_bins_and_senders_agree_with_the_oracle(frames, bin_ns, source_bin_ns, window_ns):
    bins, senders, lanes, facts = record(
        frames, bin_ns=bin_ns, source_bin_ns=source_bin_ns, window_ns=window_ns, local=["192.0.2.1"], mtu=0
    )
    oracle = Oracle(bin_ns, source_bin_ns, window_ns).run(frames)
    assert {
        (row["clock_epoch"], row["ts_ns"]): [row["bytes"], row["wire_bytes"], row["packets"], row["ce_packets"]]
        for row in bins
    } == dict(oracle.bins)
    assert len(bins) == len(oracle.bins)
    expected = {
        key: (
            sum(f.size for f in group),
            len(group),
            len({f.flow for f in group}),
            1,
            min(f.ts_ns for f in group),
            max(f.ts_ns for f in group),
        )
        for key, group in oracle.senders.items()
    }
    assert {
        (row["clock_epoch"], row["ts_ns"], row["source"]): tuple(
            row[name] for name in ("bytes", "packets", "flows", "members", "first_ns", "last_ns")
        )
        for row in senders
    } == expected
    assert len(senders) == len(expected)
    for row in senders:
        ports = [
            1000 + flow for flow in {f.flow for f in oracle.senders[row["clock_epoch"], row["ts_ns"], row["source"]]}
        ]
        assert row["destination_port"] == 11211 and row["source_port"] == (ports[0] if len(ports) == 1 else 0)
    [lane] = lanes
    assert (lane["late"], lane["late_bytes"]) == (len(oracle.late), sum(f.size for f in oracle.late))
    assert lane["clock_epochs"] == oracle.epoch + 1
    counted = [f for group in oracle.senders.values() for f in group]
    assert (lane["start_ns"], lane["end_ns"]) == (min(f.ts_ns for f in counted), max(f.ts_ns for f in counted))
    assert lane["bytes"] + lane["late_bytes"] == sum(f.size for f in frames) == facts["bytes"]


@pytest.mark.parametrize("flows", [1, 3])
def test_a_clock_may_be_set_within_a_bin(flows: int) -> None:
    """The bin holds the end of 1999; the frames form trains, or are single."""
    frames = [Frame(SET_NS - 50_500 + i * 1000, 1, 100, i % flows) for i in range(100)]
    bins, senders, [lane], _ = record(frames, bin_ns=7_000_000, source_bin_ns=7_000_000, local=["192.0.2.1"])
    oracle = Oracle(7_000_000, 7_000_000, 2_000_000).run(frames)
    assert len(oracle.bins) == 2
    found = {(row["clock_epoch"], row["ts_ns"]): row["packets"] for row in bins}
    assert found == {bin_: row[2] for bin_, row in oracle.bins.items()}
    assert [row["packets"] for row in senders] == [51, 49] and lane["clock_epochs"] == 2


@settings(max_examples=100, deadline=None)
@given(captures(), st.integers(1, 8))
def test_few_rows_for_many_senders_lose_no_byte(frames, max_sources):
    bins, senders, [lane], _ = record(frames, max_sources=max_sources, local=["192.0.2.1"], mtu=0)
    oracle = Oracle(100_000, 1_000_000, 2_000_000).run(frames)
    by_bin = defaultdict(dict)
    for (epoch, ts_ns, source), group in oracle.senders.items():
        by_bin[epoch, ts_ns][source] = (sum(f.size for f in group), len(group))
    rows = defaultdict(dict)
    for row in senders:
        rows[row["clock_epoch"], row["ts_ns"]][row["source"]] = row
    assert rows.keys() == by_bin.keys()
    for key, expected in by_bin.items():
        named = {source: row for source, row in rows[key].items() if source != "other"}
        assert len(named) == min(max_sources, len(expected))
        assert {s: (r["bytes"], r["packets"]) for s, r in named.items()} == {s: expected[s] for s in named}
        folded = {source: value for source, value in expected.items() if source not in named}
        if not folded:
            assert "other" not in rows[key]
            continue
        other = rows[key]["other"]
        assert other["members"] == len(folded)
        assert (other["bytes"], other["packets"]) == tuple(map(sum, zip(*folded.values(), strict=True)))
        assert max(value[0] for value in folded.values()) <= min(row["bytes"] for row in named.values())
    assert sum(row["bytes"] for row in senders) + lane["unattributed_bytes"] == sum(row["bytes"] for row in bins)


BACK = [1, 7, 146, 1460, 3000]  # octets; some of them as many as segments have


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 20_000, 3_000_000]))
def test_trains_count_like_single_frames(seed, jitter):
    random = np.random.default_rng(seed)
    frames, sequence = [], 0
    stamps = START_NS + np.cumsum(random.integers(0, 9000, 600)) + random.integers(0, jitter + 1, 600)
    for ts in stamps:
        if not frames or random.random() < 0.15:
            fixed = {
                "sender": int(random.integers(0, 3)),
                "flow": int(random.integers(0, 2)),
                "outgoing": bool(random.integers(0, 2)),
            }
            is_tcp = bool(random.integers(0, 2))
        size = int(random.choice([54, 60, 61, 200, 1514, 4000]))
        sequence = sequence + size - 54 if random.random() < 0.8 else max(0, sequence - int(random.choice(BACK)))
        frames.append(
            Frame(int(ts), size=size, sequence=sequence if is_tcp else None, ce=bool(random.random() < 0.1), **fixed)
        )
    trains, singles = record(frames), record(frames, inner=True)  # which reads every frame on its own
    for part in range(4):
        assert trains[part] == singles[part]


def test_a_flood_of_senders_stays_bounded_and_exact_in_sum():
    count = 600_000
    data = bytearray(Frame(START_NS, 1, 60).data())
    record_bytes = np.zeros((count, 16 + len(data)), np.uint8)
    record_bytes[:, 16:] = np.frombuffer(bytes(data), np.uint8)
    record_bytes[:, 0:16].view("<u4")[:] = [START_NS // 10**9, 0, len(data), 60]
    record_bytes[:, 4:8].view("<u4")[:, 0] = np.arange(count) * 1000 % 10**9
    record_bytes[:, 16 + 26 : 16 + 30].view(">u4")[:, 0] = np.arange(count) + (11 << 24)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "flood.pcap")
        path.write_bytes(np.array([0xA1B23C4D, 0x00040002, 0, 0, 96, 1], "<u4").tobytes() + record_bytes.tobytes())
        capture = Capture([str(path)], source_bin_ns=1_000_000_000, max_sources=4096)
        bins, senders = read_rows(capture)
        facts = capture.facts
    assert len(senders) == 4097
    other = senders[-1]
    assert other["source"] == "other" and other["members"] == count - 4096
    assert sum(row["bytes"] for row in senders) == sum(row["bytes"] for row in bins) == 60 * count
    assert facts["folded_bins"] == 1


@pytest.mark.parametrize("snaplen", [14, 20, 34, 42, 64, 96])
def test_bytes_are_exact_at_any_snap_length(snaplen):
    frames = [Frame(START_NS + i * 50_000, i % 5, 60 + i, i % 3) for i in range(500)]
    bins, senders, [lane], _ = record(frames, snaplen)
    assert sum(row["bytes"] for row in bins) == sum(f.size for f in frames) == sum(row["bytes"] for row in senders)
    names = {row["source"] for row in senders}
    if snaplen < 34:
        assert names == {f"02:00:00:00:00:{i:02x}" for i in range(5)}
        assert lane["quality"] & 128
    else:
        assert names == {f"10.0.0.{i}" for i in range(5)}


def test_retransmits_are_sequence_numbers_that_go_back():
    sizes = 14 + 20 + 20 + 100
    sequences = [100, 200, 300, 200, 400, 300, 500, 0xFFFFFFC0]
    frames = [Frame(START_NS + i * 1000, 1, sizes, sequence=s) for i, s in enumerate(sequences)]
    wrapping = [
        Frame(START_NS + 100_000 + i * 1000, 2, sizes, sequence=s)
        for i, s in enumerate([0xFFFFFF00, 0xFFFFFF64, 0xFFFFFFC8, 0x2C, 0xFFFFFFC8])
    ]
    bins, _, [lane], _ = record(frames + wrapping, bin_ns=100_000)
    assert [row["retransmits"] for row in bins] == [3, 1]
    assert lane["retransmits"] == 4


@pytest.mark.parametrize("run", [1, 7])
def test_segments_that_pass_two_interfaces_are_no_retransmits(tmp_path, run):
    """A router's segments arrive at one interface and leave at the other, here in runs."""
    frames = [Frame(START_NS + i * 1000, 1, 154, sequence=100 * i).data() for i in range(210)]
    blocks = [section(), *[Interface(name=name, resolution=9).block() for name in ("eth0", "eth1")]]
    now = START_NS
    for i in range(0, len(frames), run):
        for interface, flags in ((0, 1), (1, 2)):
            for frame in frames[i : i + run]:
                now += 1000
                blocks.append(enhanced(interface, now, frame, flags=flags))
    path = tmp_path / "router.pcapng"
    path.write_bytes(b"".join(blocks))
    capture = Capture([str(path)])
    read_rows(capture)
    assert [lane["packets"] for lane in capture.lanes] == [210, 210]
    assert [lane["retransmits"] for lane in capture.lanes] == [0, 0]


@pytest.mark.parametrize(
    ("linktype", "header"),
    [(1, bytes(12) + b"\x08\0"), (101, b""), (228, b""), (9, b"\xff\x03\0\x21"), (104, b"\x0f\0\x08\0"),
     (113, bytes(14) + b"\x08\0"), (276, b"\x08\0" + bytes(18))],
)  # fmt: skip
def test_jumbo_frames_of_any_link_are_not_taken_for_merged_ones(tmp_path, linktype, header):
    packet = Frame(START_NS, 1, 9014, sequence=0).data()[14:]
    records = [pcap_record(START_NS // 10**9, i * 1000, header + packet, len(header + packet)) for i in range(40)]
    path = tmp_path / "jumbo.pcap"
    path.write_bytes(pcap_header(linktype=linktype) + b"".join(records))
    capture = Capture([str(path)])
    read_rows(capture)
    assert [lane["merged"] for lane in capture.lanes] == [0]
    assert [lane["wire_bytes"] for lane in capture.lanes] == [40 * (9014 + 24)]


def test_the_local_address_separates_the_directions():
    frames = [Frame(START_NS + i * 1000, i % 7, 100, outgoing=i % 3 == 0) for i in range(300)]
    _, senders, lanes, facts = record(frames)
    assert "assuming 02:00:00:00:ff:ff is this host" in facts["inferred"]
    assert {lane["direction"]: lane["packets"] for lane in lanes} == {"out": 100, "in": 200}
    out = next(i for i, lane in enumerate(lanes) if lane["direction"] == "out")
    assert {row["source"] for row in senders if row["lane"] == out} == {"192.0.2.1"}
    _, _, [only], facts = record(frames, directions="in")
    assert (only["direction"], only["packets"], facts["excluded_packets"]) == ("in", 200, 100)


def test_frames_that_do_not_concern_this_host_are_counted_for_their_interface(tmp_path):
    """Nearly all frames are those of eth0, and so is the inferred address."""
    blocks = [section(), *[Interface(name=name, resolution=9).block() for name in ("eth0", "eth1")]]
    for i in range(1000):
        frame = Frame(START_NS + i * 1000, i % 7, 200, outgoing=i % 2 == 0).data()
        blocks.append(enhanced(0, START_NS + i * 1000, frame))
        if i % 50 < 2:
            ends = [bytes([2, 0, 0, 0, 1, number]) for number in (i % 50, 1 - i % 50)]
            blocks.append(enhanced(1, START_NS + i * 1000, b"".join(ends) + frame[12:]))
    path = tmp_path / "two.pcapng"
    path.write_bytes(b"".join(blocks))
    capture = Capture([str(path)])
    read_rows(capture)
    assert "assuming 02:00:00:00:ff:ff is this host" in capture.facts["inferred"]
    counted = {(lane["interface"], lane["direction"]): lane["foreign_packets"] for lane in capture.lanes}
    assert counted == {("eth0", "out"): 0, ("eth0", "in"): 0, ("eth1", "in"): 40}
    assert capture.facts["foreign_packets"] == 40


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("tags", [(), (0x8100,), (0x88A8, 0x8100)])
def test_frames_to_an_address_of_this_host_concern_it(tmp_path, tags, inner):
    ours, theirs, tunnel = 0xC0000201, 0xC0000202, 0x0A000001
    six, other_six = (0xFD << 120) + 1, (0xFD << 120) + 2
    data = fb.udp(bytes(80), (1, 2))
    packets = [
        (fb.ipv4(data, fb.UDP, 0x0A000002, ours), 0x0800, 0),
        (fb.ipv4(data, fb.UDP, 0x0A000002, ours, options=bytes(4)), 0x0800, 0),
        (fb.ipv4(data, fb.UDP, 0x0A000002, theirs), 0x0800, 1),
        (fb.ipv6(data, fb.UDP, 9, six), 0x86DD, 0),
        (fb.ipv6(data, fb.UDP, 9, other_six), 0x86DD, 1),
        (fb.ipv4(fb.ipv4(data, fb.UDP, 0x0A000002, ours), 4, 9, tunnel), 0x0800, not inner),
        (fb.ipv4(fb.ipv4(data, fb.UDP, 0x0A000002, theirs), 4, 9, ours), 0x0800, inner),
        (bytes(60), 0x0806, 0),
    ]
    path = tmp_path / "eth0.pcap"
    frames = [fb.ethernet(packet, kind, sender=2, receiver=4 << 40, tags=tags) for packet, kind, _ in packets]
    records = [pcap_record(START_NS // 10**9, i, frame) for i, frame in enumerate(frames)]
    path.write_bytes(pcap_header() + b"".join(records))
    capture = Capture([str(path)], local=["192.0.2.1", "fd00::1"], inner=inner)
    read_rows(capture)
    assert capture.facts["foreign_packets"] == sum(foreign for _, _, foreign in packets)


@pytest.mark.parametrize("local", [["192.0.2.1"], ["02:00:00:00:ff:ff"]])
def test_a_given_local_address_takes_precedence(local):
    frames = [Frame(START_NS + i * 1000, 1, 100, outgoing=i % 4 == 0) for i in range(200)]
    _, _, lanes, facts = record(frames, local=local)
    assert {lane["direction"]: lane["packets"] for lane in lanes} == {"out": 50, "in": 150}
    assert facts["inferred"] == ""


def test_two_hosts_alone_are_separated_and_the_doubt_is_stated():
    frames = [Frame(START_NS + i * 1000, 1, 60 if i % 2 else 1000, outgoing=bool(i % 2)) for i in range(100)]
    _, _, lanes, facts = record(frames)
    assert {lane["direction"] for lane in lanes} == {"in", "out"}
    assert facts["inferred"].startswith("both 02:00:00:00:ff:ff and 02:00:00:00:00:01 are in nearly all")


def test_the_choice_between_two_equal_hosts_is_deterministic():
    frames = [Frame(START_NS + i * 1000, 1, 100, outgoing=bool(i % 2)) for i in range(100)]
    assert {record(frames)[3]["inferred"][:52] for _ in range(20)} == {
        "both 02:00:00:00:00:01 and 02:00:00:00:ff:ff are in "
    }


def test_a_mirror_port_is_one_direction_and_reported():
    frames = []
    for i in range(300):
        frame = Frame(START_NS + i * 1000, i % 30, 100)
        data = bytearray(frame.data())
        data[0:6] = bytes([2, 0, 0, 1, 0, i % 29])
        frames.append((frame, bytes(data)))

    class Mirrored(Frame):
        def data(self) -> bytes:
            return next(d for f, d in frames if f.ts_ns == self.ts_ns)

    _, _, [lane], facts = record([Mirrored(f.ts_ns, f.sender, f.size) for f, _ in frames])
    assert lane["direction"] == "mirror"
    assert "mirror port" in facts["inferred"]


def test_merged_frames_are_detected_and_split_on_demand():
    big = 14 + 20 + 20 + 20 * 1460
    frames = [Frame(START_NS + i * 1_000_000, 1, big, sequence=1 + i * 20 * 1460) for i in range(20)]
    wire = 20 * (14 + 20 + 20 + 1460 + 24)
    bins, _, [lane], _ = record(frames, bin_ns=10_000)
    assert lane["merged"] == 20 and lane["bytes"] == 20 * big
    assert {row["wire_bytes"] for row in bins} == {wire}
    assert all(row["quality"] & 64 for row in bins)
    spread, _, [lane], _ = record(frames, bin_ns=10_000, spread_bps=10**9)
    assert lane["bytes"] == sum(row["bytes"] for row in spread) == 20 * big
    assert sum(row["wire_bytes"] for row in spread) == 20 * wire
    assert max(row["wire_bytes"] for row in spread) <= 10_000 / 8 + 1
    assert sum(row["packets"] for row in spread) == 20


@pytest.mark.parametrize(("size", "link_bps", "bin_ns"), [(64_000, 10**8, 100_000), (15_000, 10**7, 10_000)])
def test_split_frames_that_take_longer_than_the_reorder_window(size, link_bps, bin_ns):
    """The link is full: each frame took 5.4 or 12 ms, and bins are otherwise open for 2 ms."""
    segments = size // 1460
    wire = segments * (14 + 20 + 20 + 1460 + 24)
    took_ns = wire * 8 * 10**9 // link_bps
    frames = [
        Frame(START_NS + (i + 1) * took_ns, 1, 14 + 40 + segments * 1460, sequence=1 + i * segments * 1460)
        for i in range(20)
    ]
    rows, _, [lane], facts = record(frames, bin_ns=bin_ns, spread_bps=link_bps, mtu=1500)
    assert lane["wire_bytes"] == sum(row["wire_bytes"] for row in rows) == 20 * wire
    assert max(row["wire_bytes"] for row in rows) <= link_bps * bin_ns // (8 * 10**9) + 1
    assert facts["notice"] is None


def test_a_frame_that_cannot_be_split_is_stated():
    """64 KB take 130 ms at 4 Mb/s: more than 8,192 bins of 10 µs, over which a frame is spread at most."""
    frames = [Frame(START_NS, 1, 14 + 40 + 64_000 // 1460 * 1460)]
    rows, _, [lane], facts = record(frames, bin_ns=10_000, spread_bps=4_000_000, mtu=1500)
    assert lane["bytes"] == sum(row["bytes"] for row in rows)
    assert "1 merged frame took longer than bins stay open (--split-merged)" in facts["notice"].splitlines()[-1]


def test_no_byte_of_a_split_frame_is_lost_if_a_bin_has_only_wire_bytes():
    """A part of 8 ns at 1 Gb/s is one wire byte, and none of the frame's own bytes, of which there are fewer."""
    big, wire, gap_ns = 14 + 20 + 20 + 20 * 1460, 20 * (14 + 20 + 20 + 1460 + 24), 20_000_000
    shifts = range(40)  # how much of the frame is in the bin before
    begins = [START_NS + (i + 1) * gap_ns for i in shifts]
    frames = [
        Frame(begin + wire * 8 - shift, 1, big, sequence=1 + shift * 20 * 1460)
        for shift, begin in zip(shifts, begins, strict=True)
    ]
    spread, _, [lane], _ = record(frames, bin_ns=10_000, spread_bps=10**9)
    assert any(row["wire_bytes"] and not row["bytes"] for row in spread)
    for begin in begins:
        mine = [row for row in spread if begin - gap_ns // 2 <= row["ts_ns"] < begin + gap_ns // 2]
        assert sum(row["wire_bytes"] for row in mine) == wire and sum(row["bytes"] for row in mine) == big
    assert lane["wire_bytes"] == len(frames) * wire


def test_a_closed_capture_raises_a_clear_error():
    with tempfile.TemporaryDirectory() as folder:
        path = write_pcap(Path(folder, "a.pcap"), [Frame(START_NS, 1, 60)])
        capture = Capture([str(path)])
        capture.close()
        with pytest.raises(ValueError, match="closed"):
            capture.read()


def test_a_file_that_cannot_be_opened_is_one_line():
    with pytest.raises(MburstError, match="/nonexistent/x"):
        Capture(["/nonexistent/x"])


@pytest.mark.parametrize(
    ("option", "value"), [("bin_ns", 0), ("max_sources", 0), ("window_ns", -1), ("local", ["nowhere"])]
)
def test_options_out_of_range_are_refused(tmp_path, option, value):
    path = write_pcap(tmp_path / "a.pcap", [Frame(START_NS, 1, 60)])
    with pytest.raises(ValueError):
        Capture([str(path)], **{option: value})


def test_rows_can_be_read_again_and_outlive_the_capture(tmp_path):
    path = write_pcap(tmp_path / "a.pcap", [Frame(START_NS + i * 10**6, i % 3, 60) for i in range(50)])
    capture = Capture([str(path)])
    bins, senders = capture.read()
    first = pa.table(senders)
    assert first.equals(pa.table(senders)) and first.column("source").type == pa.dictionary(pa.int32(), pa.string())
    source = pa.RecordBatchReader.from_stream(senders).read_next_batch().column("source")
    capture.close()
    del capture, bins, senders
    assert source.to_pylist()[:3] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
