"""The simulated case: the port against a slow model of it, frames against scapy, and the truth against the capture."""

from __future__ import annotations

import csv
import itertools
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import SMALL, VARIANTS, G

from mburst.errors import MburstError, UsageError
from mburst.lab.simulate import FrameKind, Scenario, SimulatedCase, simulate
from mburst.lab.simulate.frames import FrameBuilder
from mburst.lab.simulate.port import DROPPED, DropTailPort, Passage, carry, watermarks
from mburst.lab.simulate.scenario import API, CACHE, FIRST_SENDER, wire_bytes, wire_ps

BYTE_PS = 1000  # of the line in the slow model: 8 Gb/s

arrivals = st.lists(st.tuples(st.integers(0, 120), st.integers(14, 300)), min_size=1, max_size=30)


def in_order(gaps: list[tuple[int, int]], unit_ps: int = 1) -> tuple[Any, Any]:
    """Returns arrival times and lengths for pairs of (gap, length)."""
    times = list(itertools.accumulate(gap * unit_ps for gap, _ in gaps))
    return np.array(times, np.int64), np.array([length for _, length in gaps], np.int64)


def byte_by_byte(frames: list[tuple[int, int]], buffer_bytes: int) -> tuple[list[int | None], list[int]]:
    """A model of a port that moves one byte a tick. Returns the tick in which the transmission of each frame ends, and
    the bytes held in each tick."""
    ends: list[int | None] = [None] * len(frames)
    queue: list[list[int]] = []  # [frame, bytes still to send on the line]
    levels = []
    coming = list(enumerate(frames))
    tick = 0
    while coming or queue:
        if queue and queue[0][1] == 0:
            ends[queue.pop(0)[0]] = tick
        while coming and coming[0][1][0] == tick:
            number, (_, length) = coming.pop(0)
            if sum(frames[held][1] for held, _ in queue) + length <= buffer_bytes:
                queue.append([number, max(length, 60) + 24])
        levels.append(sum(frames[held][1] for held, _ in queue))
        if queue:
            queue[0][1] -= 1
        tick += 1
    return ends, levels


@settings(deadline=None, max_examples=150)
@given(arrivals, st.integers(300, 2000))
def test_port_agrees_with_a_model_that_moves_single_bytes(gaps: list[tuple[int, int]], buffer_bytes: int) -> None:
    at, length = in_order(gaps, BYTE_PS)
    passage = carry(DropTailPort(8 * 10**9, buffer_bytes), at, length)
    ends, levels = byte_by_byte(list(zip((at // BYTE_PS).tolist(), length.tolist(), strict=True)), buffer_bytes)
    assert passage.end_ps.tolist() == [DROPPED if end is None else end * BYTE_PS for end in ends]

    edges = np.arange(0, len(levels) + 50, 50)
    peaks, dropped = watermarks(passage, length, edges * BYTE_PS)
    assert peaks.tolist() == [max(levels[a:b], default=0) for a, b in itertools.pairwise(edges.tolist())]
    assert dropped.sum() == sum(end is None for end in ends)


@settings(deadline=None, max_examples=100)
@given(arrivals, st.integers(300, 3000), st.integers(10**6, 4 * 10**11), st.integers(0, 10**6))
def test_port_at_any_rate(gaps: list[tuple[int, int]], buffer_bytes: int, link_bps: int, when: int) -> None:
    at, length = in_order(gaps, 10_000)
    passage = carry(DropTailPort(link_bps, buffer_bytes), at, length)
    through = passage.begin_ps != DROPPED
    begin, end, came = passage.begin_ps[through], passage.end_ps[through], at[through]

    # Line rate, overhead included: every frame takes its time on the wire, and no two overlap.
    wire = np.array([wire_bytes(size) for size in length[through].tolist()])
    assert np.all((end - begin) * link_bps >= wire * 8 * 10**12)
    assert np.all(begin[1:] >= end[:-1])
    # First in, first out, no idling: the delay is what was ahead at line rate.
    for number, (now, first_bit) in enumerate(zip(came.tolist(), begin.tolist(), strict=True)):
        ahead = sum(min(e, max(e - now, 0), e - b) for b, e in zip(begin[:number], end[:number], strict=True))
        assert first_bit == now + ahead
    # Conservation at any moment: what came is out, dropped, or in the buffer; which is never overfull.
    assert passage.level.max() <= buffer_bytes
    now = when * 1000
    held = length[through][(came <= now) & (end > now)].sum()
    out = length[through][end <= now].sum()
    assert length[at <= now].sum() == out + length[~through & (at <= now)].sum() + held


def test_a_frame_is_dropped_whole_when_too_little_room_is_left_and_room_comes_back() -> None:
    port = DropTailPort(10**9, 3000)
    assert port.offer(0, 1514) == 0
    assert port.offer(0, 1487) == DROPPED
    assert port.offer(0, 1486) == 1538 * 8000
    assert port.offer(1538 * 8000 - 1, 60) == DROPPED
    assert port.offer(1538 * 8000, 60) == (1538 + 1510) * 8000


def test_dropped_frames_are_sent_again_after_doubling_timeouts() -> None:
    at, length = np.zeros(3, np.int64), np.full(3, 1000)
    passage = carry(DropTailPort(10**9, 1000), at, length, again=lambda frame: frame == 2, rto_ps=100)
    assert passage.frame.tolist()[:5] == [0, 1, 2, 2, 2]
    assert passage.arrival_ps.tolist()[:5] == [0, 0, 0, 100, 300]
    assert passage.begin_ps[-1] >= wire_ps(1000, 10**9)  # it got through in the end
    assert np.count_nonzero(passage.begin_ps != DROPPED) == 2  # and frame 1 never did


def test_watermarks_of_nothing() -> None:
    nothing = Passage(*(np.empty(0, np.int64) for _ in range(5)))
    peaks, dropped = watermarks(nothing, np.empty(0, np.int64), np.arange(4))
    assert peaks.tolist() == dropped.tolist() == [0, 0, 0]


# --- the case -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=VARIANTS)
def case(request: pytest.FixtureRequest) -> SimulatedCase:
    return simulate(Scenario(**SMALL | VARIANTS[request.param]))


@pytest.fixture(scope="module")
def written(case: SimulatedCase, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return case.write(tmp_path_factory.mktemp("case"))


def read_pcap(path: Path) -> tuple[int, list[tuple[int, int, bytes]]]:
    """Returns the snap length, and (stamp in ns, length, captured bytes) of every record."""
    data = path.read_bytes()
    magic, _, _, _, _, snaplen, linktype = struct.unpack_from("<IHHiIII", data)
    assert (magic, linktype) == (0xA1B23C4D, 1)
    at, records = 24, []
    while at < len(data):
        seconds, nanos, captured, length = struct.unpack_from("<IIII", data, at)
        assert nanos < G
        records.append((seconds * G + nanos, length, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return snaplen, records


def test_the_file_holds_the_frames_of_the_case(case: SimulatedCase, written: dict[str, Path]) -> None:
    snaplen, records = read_pcap(written["cache"])
    assert snaplen == (case.scenario.snaplen or 262_144)
    lines = list(zip(case.frames["ts_ns"].tolist(), case.frames["length"].tolist(), strict=True))
    assert [(stamp, length) for stamp, length, _ in records] == lines
    assert all(len(data) == min(length, snaplen) for _, length, data in records)


def test_scapy_builds_the_same_frames_from_their_fields(case: SimulatedCase) -> None:
    """Frames that scapy parses and builds again, after their checksums were deleted, are the same to the byte."""
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether

    builder, scenario = FrameBuilder(case.scenario), case.scenario
    hosts = scenario.hosts()
    for kind, payload in sorted({(int(f["kind"]), int(f["payload"])) for f in case.frames}):
        same = case.frames[(case.frames["kind"] == kind) & (case.frames["payload"] == payload)]
        some = same[:: max(len(same) // 8, 1)]
        length = int(some["length"][0])
        for frame, row in zip(some, builder.build(some, length), strict=True):
            packet = Ether(row.tobytes())
            transport = (
                TCP
                if scenario.protocol == "tcp" and kind in (FrameKind.ANSWER, FrameKind.SCATTER, FrameKind.ACK)
                else UDP
            )
            network = packet[IP if scenario.ip_version == 4 else IPv6]
            assert (network.src, network.dst) == (hosts[frame["src"]].address, hosts[frame["dst"]].address)
            assert len(packet[transport].payload) == payload
            assert packet.haslayer(Dot1Q) == bool(scenario.vlan)
            ends = [hosts[side].mac for side in (frame["src"], frame["dst"])]
            if scenario.routed:
                ends[0 if frame["dst"] == CACHE else 1] = "02:00:00:00:00:fe"
            assert [packet.src, packet.dst] == ends
            if scenario.ip_version == 4:
                del network.chksum
            del packet[transport].chksum
            assert bytes(packet) == row.tobytes()


def test_marks_are_on_the_frames_that_found_the_queue_long() -> None:
    from scapy.layers.inet import IP
    from scapy.layers.l2 import Ether

    case = simulate(Scenario(**SMALL | VARIANTS["marks"]))
    answers = case.frames[(case.frames["kind"] == FrameKind.ANSWER) & (case.frames["payload"] == 1472)]
    assert 0 < np.count_nonzero(answers["ce"]) < len(answers)
    rows = FrameBuilder(case.scenario).build(answers, 64)
    codepoints = [Ether(row.tobytes())[IP].tos & 3 for row in rows]
    assert codepoints == np.where(answers["ce"], 3, 2).tolist()
    assert not simulate(Scenario(**SMALL)).frames["ce"].any()


def test_line_rate_is_never_exceeded_in_either_direction(case: SimulatedCase) -> None:
    for outgoing in (False, True):
        frames = case.frames[(case.frames["src"] == CACHE) == outgoing]
        took = np.array([wire_ps(size, case.scenario.link_bps) for size in frames["length"].tolist()], np.int64) / 1000
        busy = took[:-1] if outgoing else took[1:]  # stamped as it begins to leave, or when the last bit is in
        assert np.all(np.diff(frames["ts_ns"]) >= busy - 1 - case.scenario.stamp_jitter_ns)


def test_truth_matches_the_capture(case: SimulatedCase, written: dict[str, Path]) -> None:
    scenario = case.scenario
    rows = list(csv.DictReader(written["truth"].open()))
    assert len(rows) == scenario.rounds
    for number, row in enumerate(rows):
        answers = case.frames[(case.frames["kind"] == FrameKind.ANSWER) & (case.frames["round"] == number)]
        assert int(row["round"]) == number + 1
        assert int(row["t_first_ns"]) == answers["ts_ns"].min()
        assert int(row["t_last_ns"]) == answers["ts_ns"].max()
        assert int(row["bytes_rx"]) == answers["payload"].sum()
        assert int(row["frame_bytes_rx"]) == answers["length"].sum()
        assert int(row["senders_seen"]) == len(np.unique(answers["src"]))
        assert int(row["bytes_expected"]) == scenario.senders * scenario.bytes_per_sender
        assert int(row["t_req_ns"]) < int(row["t_first_ns"])
        if scenario.protocol == "tcp" or row["dropped"] == "0":
            assert (row["bytes_rx"], row["senders_complete"]) == (row["bytes_expected"], row["n_senders"])
        if scenario.protocol == "udp":
            assert int(row["dgrams_rx"]) + int(row["dropped"]) == int(row["dgrams_expected"])


def test_stamps_of_probes_have_the_delay_of_the_queue(case: SimulatedCase, written: dict[str, Path]) -> None:
    rows = list(csv.DictReader(written["probes"].open()))
    stamps = ("app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns")
    heard = {int(f["index"]): int(f["ts_ns"]) for f in case.frames if f["kind"] == FrameKind.PROBE}
    replied = {int(f["index"]): int(f["ts_ns"]) for f in case.frames if f["kind"] == FrameKind.REPLY}
    assert [int(row["seq"]) for row in rows] == list(range(len(rows)))
    assert any(rows)
    for row in rows:
        seq = int(row["seq"])
        assert (row["lost"] == "1") == (seq not in heard) == (row["remote_rx_ns"] == "") == (row["app_recv_ns"] == "")
        if row["lost"] == "1":
            continue
        taken = [int(row[name]) for name in stamps]
        assert taken == sorted(taken)
        if not case.scenario.stamp_jitter_ns:
            assert int(row["remote_rx_ns"]) == heard[seq]
            if case.scenario.both_directions:
                assert int(row["remote_tx_ns"]) == replied[seq]


def test_probe_delay_is_queue_ahead_over_line_rate() -> None:
    """The delay of a probe is bounded by the watermark of the window in which it came, and the largest delay is near
    the largest watermark."""
    case = simulate(Scenario(**SMALL | {"background": 0.0, "probe_rate": 20_000.0}))
    probes, queue = case.probes, case.queues["1ms"]
    delay = probes["remote_rx_ns"] - probes["tx_ns"]
    still = delay.min()  # flight and hops of a probe that met no other frame
    window = np.searchsorted(queue["window_start_ns"], probes["tx_ns"] + 3000, side="right") - 1
    drain_ns = queue["max_bytes"][window] * 8 * (130 / 106)  # at 1 Gb/s, with the overhead of the smallest frames
    assert np.all(delay - still <= drain_ns + 1000)
    assert delay.max() - still > 0.5 * queue["max_bytes"].max() * 8


def test_queue_windows_cover_the_case_and_agree(case: SimulatedCase, written: dict[str, Path]) -> None:
    fine, coarse = case.queues["1ms"], case.queues["1s"]
    for name, rows in case.queues.items():
        assert rows["window_start_ns"][0] == case.scenario.start_ns
        assert np.array_equal(rows["window_start_ns"][1:], rows["ts_ns"][:-1])
        assert rows["dropped_packets"].sum() == case.dropped
        assert rows["max_bytes"].max() <= case.scenario.buffer_bytes
        assert len(list(csv.reader(written[f"queues-{name}"].open()))) == len(rows) + 1
    assert fine["max_bytes"].max() == coarse["max_bytes"].max() > 0
    assert case.incoming()["ts_ns"].max() - case.scenario.stamp_jitter_ns <= fine["ts_ns"][-1] + 1000


def test_tcp_delivers_the_whole_stream_and_acknowledges_it() -> None:
    case = simulate(Scenario(**SMALL | VARIANTS["tcp over ipv6 with drops"]))
    assert case.dropped > 0
    for sender in range(FIRST_SENDER, FIRST_SENDER + 6):
        segments = case.frames[(case.frames["src"] == sender)]
        stream = sorted(zip(segments["seq"].tolist(), segments["payload"].tolist(), strict=True))
        assert [seq for seq, _ in stream] == [0, *itertools.accumulate(size for _, size in stream[:-1])]
        assert sum(size for _, size in stream) == 3 * 20_000
        acks = case.frames[case.frames["dst"] == sender]
        assert np.all(np.diff(acks["ack"]) >= 0)
        assert acks["ack"].max() == 3 * 20_000
        for ack in acks:
            before = segments[segments["ts_ns"] <= ack["ts_ns"]]
            missing = set(segments["seq"].tolist()) - set(before["seq"].tolist())
            assert ack["ack"] <= min(missing, default=3 * 20_000)


def test_stamps_run_backwards_only_when_asked_and_within_bounds() -> None:
    stamps = simulate(Scenario(**SMALL | VARIANTS["out of order"])).frames["ts_ns"]
    straight = simulate(Scenario(**SMALL)).frames["ts_ns"]
    assert np.any(np.diff(stamps) < 0)
    assert np.all((stamps - straight >= 0) & (stamps - straight <= 500_000))
    assert np.all(np.diff(straight) >= 0)


def test_the_default_case_matches_the_reference() -> None:
    case = simulate(Scenario())
    assert case.dropped == 0
    assert np.all(case.rounds["senders_complete"] == 40)
    assert 50_000 < len(case.frames) < 500_000
    assert case.queues["1s"]["max_bytes"].min() > 2_500_000
    delay = np.sort(case.probes["remote_rx_ns"] - case.probes["tx_ns"])
    assert delay[len(delay) // 2] < 10_000
    assert 15_000_000 < delay[len(delay) * 99 // 100] < 33_000_000


def test_a_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    def bytes_of(seed: int) -> list[bytes]:
        paths = simulate(Scenario(**SMALL, seed=seed)).write(tmp_path / str(seed))
        return [path.read_bytes() for _, path in sorted(paths.items())]

    assert bytes_of(5) == bytes_of(5)
    assert all(a != b for a, b in zip(bytes_of(5), bytes_of(6), strict=True))
    quieter = simulate(Scenario(**SMALL, seed=5, probe_rate=10))
    assert np.array_equal(quieter.rounds["t_req_ns"], simulate(Scenario(**SMALL, seed=5)).rounds["t_req_ns"])


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("variant", ["vlan, routed, whole frames", "tcp", "marks", "tiny answers"])
def test_tshark_finds_nothing_wrong(variant: str, tmp_path: Path) -> None:
    case = simulate(Scenario(**SMALL | VARIANTS[variant]))
    path = case.write(tmp_path)["cache"]
    check = [word for name in ("ip", "udp", "tcp") for word in ("-o", f"{name}.check_checksum:TRUE")]
    fields = ["-T", "fields", "-e", "ip.checksum.status", "-e", "udp.checksum.status", "-e", "tcp.checksum.status"]
    command = ["tshark", "-r", str(path), *check, *fields, "-e", "_ws.malformed"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(case.frames)
    assert {line.rstrip("\t") for line in lines} <= {"1\t1", "1\t\t1"}  # 1 is good, 0 would be bad


@pytest.mark.parametrize(
    "wrong",
    [
        {"senders": 0}, {"ip_version": 5}, {"protocol": "sctp"}, {"snaplen": 13}, {"buffer_bytes": 1000},
        {"background": 1.0}, {"vlan": 4095}, {"duration_ns": 1}, {"link_bps": 0}, {"start_ns": -1},
        {"rounds": 10**6, "senders": 1000}, {"mtu": 100},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Scenario(**wrong)


def test_without_scapy_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scapy.layers.inet", "scapy.layers.inet6", "scapy.layers.l2", "scapy.packet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MburstError) as caught:
        simulate(Scenario(**SMALL)).write(tmp_path / "case")
    assert "scapy" in str(caught.value)
    assert "pip install" in caught.value.hint
    assert not (tmp_path / "case").exists()


def test_api_is_named_in_the_hosts() -> None:
    hosts = Scenario(senders=300).hosts()
    assert [hosts[n].name for n in (CACHE, API, FIRST_SENDER)] == ["cache", "api", "db-1"]
    assert len({host.address for host in hosts}) == len({host.mac for host in hosts}) == len(hosts)
