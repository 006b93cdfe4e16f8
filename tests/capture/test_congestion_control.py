"""Pause frames (802.3x, PFC) and congestion notifications (RoCEv2), made by scapy, are counted in their bins, from the
decoder to SQL."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from capture_builder import pcap_header, pcap_record
from capture_rows import read_rows
from decode_tool import Frame, driver
from decode_words import CE, CNP, PAUSE, TRUNCATED
from flow_control_frames import CONTROL, by_class
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.mac_control import MACControlPause
from scapy.contrib.roce import BTH, cnp
from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from mburst.__main__ import main
from mburst.capture import Capture
from mburst.sql import StoreFolder

START_NS = 1_700_000_000 * 10**9
BIN_NS = 100_000
ETHER = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
ADDRESSES = {"src": "10.0.0.2", "dst": "10.0.0.1"}
NOTIFICATION = cnp(dqpn=7)
DATA = BTH(opcode="RC_RDMA_WRITE_MIDDLE", dqpn=7) / Raw(bytes(1024))
Times = dict[int, int]  # pause times by class


def roce(inside: Packet, ip: Packet | None = None) -> Packet:
    return ETHER / (ip or IP(**ADDRESSES)) / UDP(sport=49152, dport=4791) / inside


def marks(packet: Packet, linktype: int = 1, **options: Any) -> int:
    data = bytes(packet)
    return driver().decode([Frame(data, len(data))], linktype, **options)[0].marks & ~TRUNCATED


def record(tmp_path: Path, packets: Iterable[tuple[int, Packet]]) -> Path:
    """Writes a capture of packets, each this number of bins after START_NS."""
    path = tmp_path / "port.pcap"
    records = (pcap_record(*divmod(START_NS + at * BIN_NS, 10**9), bytes(one)) for at, one in packets)
    path.write_bytes(pcap_header() + b"".join(records))
    return path


@pytest.mark.parametrize(
    "packet",
    [
        roce(NOTIFICATION),
        roce(NOTIFICATION, IPv6(src="fd00::2", dst="fd00::1")),
        roce(NOTIFICATION, IP(**ADDRESSES, options=[IPOption_NOP()] * 8)),
        ETHER / Dot1Q(vlan=5) / roce(NOTIFICATION)[IP],
    ],
)
def test_congestion_notifications_are_marked(packet: Packet) -> None:
    assert marks(packet) == CNP


def test_other_rdma_packets_are_not_marked_as_notifications() -> None:
    assert marks(roce(DATA)) == 0
    assert marks(roce(DATA, IP(**ADDRESSES, tos=3))) == CE
    assert marks(ETHER / IP(**ADDRESSES) / UDP(sport=4791, dport=9) / NOTIFICATION) == 0  # from that port, not to it
    assert marks(ETHER / IP(**ADDRESSES) / UDP(sport=9, dport=4791) / Raw(b"\x81")) == 0  # too short for RoCE


def test_notifications_in_a_tunnel_count_with_inner_addresses() -> None:
    packet = ETHER / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4789) / VXLAN(vni=7) / roce(NOTIFICATION)
    assert marks(packet) == 0 and marks(packet, inner=True) == CNP


@pytest.mark.parametrize(
    "prefix", [CONTROL, Ether(dst="02:00:00:00:00:01", type=0x8808), CookedLinux(proto=0x8808, lladdrlen=6)]
)
def test_a_pause_of_the_link_stops_all_classes(prefix: Packet) -> None:
    data = bytes(prefix / MACControlPause(pause_time=300))
    [packet] = driver().decode([Frame(data, len(data))], 1 if isinstance(prefix, Ether) else 113)
    assert (packet.marks, packet.tcp_seq, packet.tcp_len) == (PAUSE, 300, 0xFF)


@settings(deadline=None, max_examples=50)
@given(times=st.dictionaries(st.integers(0, 7), st.integers(0, 65535)))
def test_a_pause_by_class_names_those_that_are_to_pause(times: Times) -> None:
    data = bytes(by_class(times))
    [packet] = driver().decode([Frame(data, len(data))], 1)
    assert packet.marks == PAUSE
    assert packet.tcp_seq == max(times.values(), default=0)
    assert packet.tcp_len == sum(1 << i for i, time in times.items() if time)


def test_truncated_pause_frames_are_reported_and_not_guessed() -> None:
    whole = bytes(by_class({3: 7}))
    for size in range(14, 34):
        [packet] = driver().decode([Frame(whole[:size], len(whole))], 1)
        assert packet.marks == TRUNCATED
    [packet] = driver().decode([Frame(whole[:34], len(whole))], 1)
    assert packet.marks == PAUSE


def test_pauses_and_notifications_are_counted_in_their_bin_and_as_bytes(tmp_path: Path) -> None:
    packets = [
        (0, CONTROL / MACControlPause(pause_time=100)),
        (0, CONTROL / MACControlPause(pause_time=50)),
        (1, by_class({3: 65535})),
        (1, by_class({4: 10, 3: 20})),
        (2, by_class({3: 0})),
        (2, CONTROL / MACControlPause(pause_time=0)),
        (3, roce(NOTIFICATION)),
        (3, roce(DATA)),
        (3, roce(NOTIFICATION)),
        (3, roce(NOTIFICATION)),
        (4, CONTROL / Raw(b"\0\2" + bytes(44))),  # another MAC control frame
    ]
    path = record(tmp_path, packets)
    capture = Capture([str(path)], bin_ns=BIN_NS)
    bins, senders = read_rows(capture)
    names = ("cnp_packets", "pause_frames", "resume_frames", "pause_quanta", "pause_classes")
    assert [tuple(row[name] for name in names) for row in bins] == [
        (0, 2, 0, 150, 0xFF),
        (0, 2, 0, 65555, 0b11000),
        (0, 0, 2, 0, 0),
        (3, 0, 0, 0, 0),
        (0, 0, 0, 0, 0),
    ]
    assert sum(row["bytes"] for row in bins) == sum(len(bytes(packet)) for _, packet in packets)
    assert {"02:00:00:00:00:02", "10.0.0.2"} == {row["source"] for row in senders}
    [lane] = capture.lanes
    assert (lane["cnp_packets"], lane["pause_frames"]) == (3, 4)


def test_a_notification_is_no_part_of_a_train_of_data(tmp_path: Path) -> None:
    order = [DATA, DATA, NOTIFICATION, DATA, NOTIFICATION, NOTIFICATION, DATA, DATA, DATA]
    path = record(tmp_path, [(0, roce(inside)) for inside in order])
    bins, _ = read_rows(Capture([str(path)], bin_ns=BIN_NS))
    assert [(row["packets"], row["cnp_packets"]) for row in bins] == [(9, 3)]
    frames = [Frame(bytes(roce(inside)), len(bytes(roce(inside))), ts_ns=i) for i, inside in enumerate(order)]
    assert [train.count for train in driver().trains(frames, 1)] == [2, 1, 1, 1, 1, 3]


def test_pauses_and_notifications_are_in_sql_and_reported_by_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path, [(0, by_class({3: 65535})), (5, roce(NOTIFICATION)), (5, roce(NOTIFICATION))])
    assert main(["record", str(path), "-o", str(tmp_path / "s"), "--link", "10G"]) == 0
    said = capsys.readouterr().out
    assert "in: 1 pause frame to stop the other end of the link" in said
    assert "in: 2 congestion notifications of RoCEv2" in said
    answer = (
        StoreFolder.open(tmp_path / "s")
        .connect()
        .execute(
            "SELECT CAST(sum(cnp_packets) AS INT), CAST(sum(pause_frames) AS INT), bit_or(pause_classes), "
            "sum(pause_ns(pause_quanta, link_bps)) FROM bins JOIN recordings USING (recording_id)"
        )
        .fetchone()
    )
    assert answer == (2, 1, 8, 65535 * 51.2)


def test_the_sender_of_notifications_is_named_and_rdma_senders_have_addresses(tmp_path: Path) -> None:
    """The source of a notification is the congested receiver. A data packet has only the number of the receiver's queue
    pair, so senders are addresses, and each of their UDP source ports is a flow."""
    asking = IP(src="10.0.0.3", dst="10.0.0.1")
    packets: list[tuple[int, Packet]] = [(at, roce(DATA)) for at in range(4)]
    packets += [(at, ETHER / IP(**ADDRESSES) / UDP(sport=50_000 + at, dport=4791) / DATA) for at in range(4)]
    packets += [(5, roce(NOTIFICATION, asking)), (6, roce(NOTIFICATION, asking)), (7, roce(DATA, asking))]
    packets += [(8, CONTROL / MACControlPause(pause_time=1))]
    path = record(tmp_path, packets)
    assert main(["record", str(path), "-o", str(tmp_path / "s"), "--link", "10G", "--max-sources", "9"]) == 0
    query = """SELECT source, CAST(sum(packets) AS INT), CAST(sum(cnp_packets) AS INT), max(flows),
                      max(destination_port) FROM sources GROUP BY source ORDER BY source"""
    assert StoreFolder.open(tmp_path / "s").connect().execute(query).fetchall() == [
        ("02:00:00:00:00:02", 1, 0, 1, 0),
        ("10.0.0.2", 8, 0, 5, 4791),
        ("10.0.0.3", 3, 2, 1, 4791),
    ]


def test_notifications_of_folded_senders_count_for_other(tmp_path: Path) -> None:
    packets = [(0, roce(NOTIFICATION, IP(src=f"10.0.1.{k}", dst="10.0.0.1"))) for k in range(1, 40)]
    _, senders = read_rows(Capture([str(record(tmp_path, packets))], bin_ns=BIN_NS, max_sources=3))
    assert sum(row["cnp_packets"] for row in senders) == 39
    assert {row["source"]: row["cnp_packets"] for row in senders}["other"] == 36
