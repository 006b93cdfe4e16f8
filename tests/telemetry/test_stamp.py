"""STAMP packets compared with scapy and Wireshark, with the RFCs' figures byte by byte, and with random input."""

from __future__ import annotations

import logging
import shutil
import struct
import subprocess
from array import array
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib import stamp as scapy_stamp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from mburst.telemetry.probe import stamp

logging.getLogger("scapy").setLevel(logging.ERROR)
NOW = 1_795_228_440_123_456_789
times = st.integers(0, 4_102_444_800 * 10**9)


def asked(size: int = 64, number: int = 7, session: int = 0x1234, error: int = 0x8A05, at: int = NOW) -> bytes:
    packet = stamp.request(size, session, error)
    stamp.stamp_request(packet, number, at)
    return bytes(packet)


@settings(deadline=None, max_examples=200)
@given(times, st.integers(-(2**30), 2**30))
def test_an_ntp_stamp_keeps_every_nanosecond_in_every_era(ns, seconds_away):
    packed = stamp.to_ntp(ns)
    assert 0 <= packed < 2**64
    exact = Fraction(packed & 0xFFFFFFFF, 2**32) * 10**9
    assert 0 <= exact - ns % 10**9 < Fraction(10**9, 2**32)
    assert packed >> 32 == (ns // 10**9 + 2_208_988_800) % 2**32
    assert stamp.from_ntp(packed, ns + seconds_away * 10**9) == ns


@settings(deadline=None, max_examples=100)
@given(times, st.integers(-(2**30), 2**30))
def test_a_truncated_ptp_stamp_is_read_in_every_era(ns, seconds_away):
    assert stamp.from_ptp((ns // 10**9 % 2**32) << 32 | ns % 10**9, ns + seconds_away * 10**9) == ns


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**15), st.booleans())
def test_an_error_estimate_is_the_least_that_is_not_too_small(error, synchronized):
    estimate = stamp.error_estimate(error, synchronized)
    scale, multiplier = estimate >> 8 & 0x3F, estimate & 0xFF
    assert bool(estimate >> 15) == synchronized and not estimate & 0x4000 and 1 <= multiplier <= 255
    parsed = Fraction(multiplier * 2**scale, 2**32) * 10**9
    assert parsed >= error
    assert (multiplier == 1 and scale == 0) or Fraction((multiplier - 1) * 2**scale, 2**32) * 10**9 < error
    assert stamp.error_ns(estimate) == (-(-parsed.numerator // parsed.denominator) if synchronized else None)


@pytest.mark.parametrize("multiplier", [1, 2, 255])
def test_an_error_of_any_scale_fits_a_row(multiplier):
    """A clock may report an error of millennia."""
    parsed = [stamp.error_ns(0x8000 | scale << 8 | multiplier) for scale in range(64)]
    assert parsed == sorted(parsed) and parsed[-1] <= 2**63 - 1 and array("q", parsed)


def test_an_invalid_estimate_gives_no_error():
    assert stamp.error_ns(0x8A00) is None  # RFC 4656: a multiplier of 0 must not be


def test_the_senders_packet_by_the_figure_of_the_rfc():
    # RFC 8762 figure 2 with RFC 8972 figure 1: sequence, timestamp, error estimate, SSID, 28 zeros; then RFC 8972
    # figure 9, follow-up telemetry: flags with U set by the sender, type 7, length 16, zeros
    at = 946_684_800 * 10**9 + 500_000_000  # 2000-01-01 00:00:00.5, 3,155,673,600 s after 1900
    assert asked(64, 0xDEADBEEF, 0xCAFE, 0x8A05, at) == (
        bytes.fromhex("deadbeef")
        + struct.pack("!II", 3_155_673_600, 0x80000000)
        + bytes.fromhex("8a05cafe")
        + bytes(28)
        + bytes.fromhex("80070010")
        + bytes(16)
    )


@pytest.mark.parametrize("size", [44, 48, 50, 63, 64, 65, 67, 68, 69, 1000])
def test_packets_have_the_requested_size(size):
    packet = asked(size)
    assert len(packet) == size
    at, kinds = 44, []
    while at < size:
        flags, kind, length = struct.unpack_from("!BBH", packet, at)
        assert flags == 0x80
        kinds.append(kind)
        at += 4 + length
    assert at == size and kinds in ([], [1], [7], [7, 1]) and (7 in kinds) == (size == 64 or size >= 68)


@pytest.mark.parametrize("size", [0, 43, 45, 46, 47, 65_001])
def test_sizes_that_the_format_does_not_have_are_refused(size):
    with pytest.raises(ValueError):
        stamp.request(size, 1, 1)


@settings(deadline=None, max_examples=60)
@given(
    number=st.integers(0, 2**32 - 1),
    session=st.integers(0, 2**16 - 1),
    at=times,
    error=st.integers(0, 2**16 - 1).filter(lambda error: ~error & 0x4000),
    later=st.integers(0, 10**9),
    more=st.integers(0, 10**9),
    ttl=st.integers(0, 255),
)
def test_scapy_reads_both_packets_as_they_were_meant(number, session, at, error, later, more, ttl):
    request = asked(64, number, session, error, at)
    read = scapy_stamp.STAMPSessionSenderTestUnauthenticated(request)
    assert (read.seq, read.ssid, read.mbz) == (number, session, 0)
    assert bytes(read.err_estimate)[:2] == struct.pack("!H", error)
    assert [(tlv.type, tlv.len) for tlv in read.tlv_objects] == [(7, 16)]
    answer = stamp.reply(request, number + 5, at + later, ttl, 0x0A07)
    stamp.stamp_reply(answer, at + later + more)
    back = scapy_stamp.STAMPSessionReflectorTestUnauthenticated(bytes(answer))
    assert (back.seq, back.ssid, back.seq_sender, back.ttl_sender) == ((number + 5) % 2**32, session, number, ttl)
    assert bytes(back.err_estimate_sender)[:2] == struct.pack("!H", error)
    assert (bytes(back)[4:12], bytes(back)[16:24], bytes(back)[28:36]) == tuple(
        struct.pack("!Q", stamp.to_ntp(ns)) for ns in (at + later + more, at + later, at)
    )
    mine = stamp.parse_reply(answer, at)
    assert mine is not None and mine.follow_up is None
    assert (mine.sequence, mine.session, mine.sender_sequence) == ((number + 5) % 2**32, session, number)
    assert (mine.rx_ns, mine.tx_ns, mine.sender_stamp) == (at + later, at + later + more, stamp.to_ntp(at))


def test_wireshark_reads_the_packets_as_twamp(tmp_path: Path):
    """STAMP's packets equal TWAMP Light's, field by field (RFC 8762, section 4.6), and Wireshark knows TWAMP."""
    if not shutil.which("tshark"):
        pytest.skip("tshark is not installed")
    request = asked(64, 9)
    answer = stamp.reply(request, 4, NOW + 10**6, 61, 0x0A07)
    stamp.stamp_reply(answer, NOW + 2 * 10**6)
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    wrpcap(str(tmp_path / "stamp.pcap"), [head / UDP(sport=862, dport=862) / bytes(answer)])
    fields = [
        "seq_number",
        "error_estimate",
        "receive_timestamp",
        "timestamp",
        "sender_seq_number",
        "sender_timestamp",
        "sender_ttl",
    ]
    wanted = [word for name in fields for word in ("-e", f"twamp.test.{name}")]
    parsed = subprocess.run(
        ["tshark", "-r", tmp_path / "stamp.pcap", "-d", "udp.port==862,twamp.test", "-T", "fields", *wanted],
        capture_output=True,
        text=True,
        check=True,
        env={"TZ": "UTC", "PATH": "/usr/bin"},
    )
    number, error, rx, tx, sender, sent, ttl = parsed.stdout.rstrip("\n").split("\t")
    assert (int(number), int(error, 0), int(sender), int(ttl)) == (4, 0x0A07, 9, 61)
    for field, wanted in ((rx, "02:34:00.124456"), (tx, "02:34:00.125456"), (sent, "02:34:00.123456")):
        assert wanted in field


def test_the_follow_up_has_the_time_at_which_an_earlier_answer_left():
    answer = stamp.reply(asked(), 4, NOW, 64, 1)
    stamp.add_follow_up(answer, 3, NOW - 12345)
    assert bytes(answer[44:48]) == bytes.fromhex("00070010")  # U cleared: the reflector knows the TLV
    parsed = stamp.parse_reply(answer, NOW)
    assert parsed is not None and parsed.follow_up == (3, NOW - 12345)


def test_a_tlv_unknown_to_the_reflector_is_not_taken_for_an_answer():
    """A reflector without RFC 8972 returns the TLV unchanged, with U set."""
    answer = stamp.reply(asked(), 4, NOW, 64, 1)
    stamp.add_follow_up(answer, 3, NOW)
    answer[44] |= 0x80
    parsed = stamp.parse_reply(answer, NOW)
    assert parsed is not None and parsed.follow_up is None


def test_unknown_tlvs_come_back_flagged():
    location = struct.pack("!BBH", 0x80, 2, 4) + b"abcd"
    answer = stamp.reply(asked(64) + location, 1, NOW, 64, 1)
    assert (answer[44], answer[64], bytes(answer[65:])) == (0, 0x80, location[1:])
    unset = stamp.reply(asked(44) + bytes([0]) + location[1:], 1, NOW, 64, 1)
    assert unset[44] == 0x80


@pytest.mark.parametrize("size", [14, 20, 41, 43])
def test_a_twamp_light_sender_is_answered(size):
    request = asked(44)[:14].ljust(size, b"\x55")
    answer = stamp.reply(request, 8, NOW, 64, 1)
    assert len(answer) == 44
    for length in (41, 38):  # the length of that protocol's own reflectors: with or without the sender's TTL
        parsed = stamp.parse_reply(bytes(answer[:length]), NOW)
        assert parsed is not None and (parsed.sequence, parsed.sender_sequence, parsed.rx_ns) == (8, 7, NOW)
        assert parsed.sender_stamp == stamp.to_ntp(NOW)


def test_the_padding_of_twamp_light_is_left_alone():
    padded = asked(44)[:14] + bytes(86)
    assert bytes(stamp.reply(padded, 8, NOW, 64, 1)[44:]) == bytes(56)


@settings(deadline=None, max_examples=300)
@given(st.integers(10**18, 4_102_444_800 * 10**9))
def test_scapys_rounding_is_the_same_stamp(ns):
    sent = scapy_stamp.STAMPSessionSenderTestUnauthenticated(asked(44, at=ns))
    back = bytes(scapy_stamp.STAMPSessionReflectorTestUnauthenticated(ts_sender=sent.ts))
    assert stamp.same_stamp(stamp.to_ntp(ns), int.from_bytes(back[28:36], "big"))
    assert not stamp.same_stamp(stamp.to_ntp(ns), stamp.to_ntp(ns + 1000))


@settings(deadline=None, max_examples=200)
@given(st.binary(min_size=0, max_size=120))
def test_no_bytes_can_break_either_end(data):
    parsed = stamp.parse_reply(data, NOW)
    assert (parsed is None) == (len(data) < 38)
    assert isinstance(stamp.looks_like_reply(data, NOW), bool)
    if len(data) >= stamp.LEAST_SENDER_BYTES:
        answer = stamp.reply(data, 1, NOW, 64, 1)
        assert len(answer) == max(44, len(data))
        stamp.wants_follow_up(data)
