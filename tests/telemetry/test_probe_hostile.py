"""The prober with answers of any bytes: each is an answer, late, or invalid, and none ends the prober."""

from __future__ import annotations

import socket
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_probe import LOCAL, MS, answering, probed, reflector, reply_to

from mburst.errors import MburstError
from mburst.telemetry.probe import stamp
from mburst.telemetry.probe.pacer import Pacer
from mburst.telemetry.probe.path import IcmpPath, SendOptions, UdpPath
from mburst.telemetry.probe.path_tcp import TcpPath
from mburst.telemetry.probe.targets import resolve

NOW = 1_795_228_440_123_456_789
HEAD = 80


def path_of(protocol: str, report: Any) -> Any:
    target = resolve(f"{LOCAL}:9", 9, socket.SOCK_DGRAM, socket.AF_INET)
    size = 64 if protocol == "udp" else 56
    options = SendOptions(size, source=("", 0), dscp=0, hardware=False)
    if protocol == "udp":
        made: Any = UdpPath(target, Pacer(), report, options, error=1)
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # ping sockets are not open to every user
        with mock.patch("mburst.telemetry.probe.path.open_socket", return_value=sock):
            made = IcmpPath(target, Pacer(), report, options)
    made.clock_error_ns = 2**62
    return made


def true_answer(protocol: str, number: int, sent_ns: int) -> bytes:
    if protocol == "icmp":
        return bytes(8) + number.to_bytes(8, "big") + sent_ns.to_bytes(8, "big") + bytes(40)
    question = stamp.request(64, 1, 1)
    stamp.stamp_request(question, number, sent_ns)
    return bytes(stamp.reply(bytes(question), number, sent_ns + 1000, 64, 0x8A05))


changes = st.lists(st.tuples(st.integers(0, HEAD - 1), st.integers(0, 255)), max_size=12)
answers = st.lists(st.tuples(st.booleans(), st.binary(max_size=HEAD), changes, st.integers(0, 70_000)), max_size=10)


@pytest.mark.parametrize("protocol", ["udp", "icmp"])
@settings(deadline=None, max_examples=200)
@given(answers=answers)
def test_no_bytes_are_too_strange(protocol, answers):
    lines: list[str] = []
    path = path_of(protocol, lines.append)
    try:
        for index, (ours, data, changed, size) in enumerate(answers):
            now = NOW + index * MS
            path.sent(now, now)
            whole = bytearray((true_answer(protocol, index, now) if ours else data).ljust(HEAD, b"\0")[:HEAD])
            for place, byte in changed:
                whole[place] = byte
            path.answered(bytes(whole), size, now + 500, 0, now + 1000)
        counts = path.exchanges.counts
        counted = counts.answered + counts.duplicates + counts.late + counts.stray
        assert counted == len(answers)
        settled = path.exchanges.settle(2**63 - 1)
        if settled:
            rows = settled.rows({"batch": "b", "src": "s", "dst": "d", "protocol": protocol})
            rows.validate(full=True)
            assert rows.num_rows == len(answers)
        assert len(lines) == len(set(lines)) <= 4
    finally:
        path.close()
        path.pacer.close()


def test_a_clock_error_of_millennia_fits_a_row():
    path = path_of("udp", print)
    try:
        path.sent(NOW, NOW)
        answer = bytearray(true_answer("udp", 0, NOW))
        answer[12:14] = (0xFFFF & ~stamp.PTP_FORMAT).to_bytes(2, "big")
        path.answered(bytes(answer).ljust(HEAD, b"\0"), 64, NOW + 5, 0, NOW + 9)
        settled = path.exchanges.settle(2**63 - 1)
        assert settled.rows(dict.fromkeys(("batch", "src", "dst", "protocol"), "x"))["clock_error_ns"][0].as_py() == (
            2**63 - 1
        )
    finally:
        path.close()
        path.pacer.close()


def test_an_answer_that_causes_an_internal_error_is_invalid_and_others_count(monkeypatch):
    answered = UdpPath.answered

    def broken(self: Any, data: bytes, *rest: Any) -> None:
        if data[27] % 2:  # the lowest byte of the sender's number
            raise ZeroDivisionError("of what was in it")
        answered(self, data, *rest)

    monkeypatch.setattr(UdpPath, "answered", broken)
    with reflector() as port:
        rows, counts, lines = probed(port)
    assert (counts.answered, counts.stray, counts.lost) == (50, 50, 50)
    assert rows["lost"].to_pylist() == [False, True] * 50
    assert lines == [f"{LOCAL}:{port}: invalid answers: internal error: ZeroDivisionError (this one has 64 bytes)"]


def test_each_kind_of_invalid_answer_is_reported_once():
    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        for made in (b"short", b"\xff" * 64, reply_to(data[:4] + bytes(8) + data[12:])):
            sock.sendto(made, peer)

    with answering(answer) as port:
        _, counts, lines = probed(port)
    assert counts.stray == 300 and len(lines) == 3
    assert [int(line.rpartition("has ")[2].split()[0]) for line in lines] == [5, 64, 64]


def test_a_connection_that_gets_no_socket_is_tried_again(monkeypatch):
    """The lack of a socket for one target does not affect the others."""
    begin, tries = TcpPath._begin, []

    def refused(self: TcpPath) -> None:
        tries.append(1)
        if len(tries) == 2:
            raise MburstError("cannot send from any address: Too many open files")
        begin(self)

    monkeypatch.setattr(TcpPath, "_begin", refused)
    monkeypatch.setattr("mburst.telemetry.probe.path_tcp._AGAIN_NS", 20 * MS)
    with socket.create_server((LOCAL, 0)) as listener:
        port = listener.getsockname()[1]
    with reflector() as other:  # nothing listens on the port above
        del other
        _, counts, lines = probed(port, protocol="tcp", rate=100.0, count=30)
    assert counts.sent == counts.lost == 30 and len(tries) > 2
    assert any("Too many open files" in line for line in lines)


def test_a_peer_that_reads_nothing_is_reconnected(monkeypatch):
    """Otherwise the unsent bytes would grow for as long as it is probed."""
    monkeypatch.setattr("mburst.telemetry.probe.path_tcp._MOST_OWED", 200_000)
    monkeypatch.setattr("mburst.telemetry.probe.path_tcp._AGAIN_NS", 20 * MS)
    with socket.create_server((LOCAL, 0)) as listener:  # no accept: the kernel buffers a part
        port = listener.getsockname()[1]
        _, counts, lines = probed(port, protocol="tcp", size=60_000, rate=500.0, count=400)
    assert counts.sent == counts.lost == 400
    assert lines == [f"{LOCAL}:{port}: the other end does not read; reconnecting"]
