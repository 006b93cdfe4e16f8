"""The kernel's control messages, encoded as Linux lays them out, and one real socket."""

from __future__ import annotations

import select
import socket
import struct
import time

from mburst.telemetry.probe import timestamping
from mburst.telemetry.probe.loop import deepen, dropped

NOW = 1_795_228_440_123_456_789


def stamps(software: int, hardware: int) -> bytes:
    """Returns a struct scm_timestamping: three timespecs, the second of which is unused."""
    return struct.pack("@qqqqqq", *divmod(software, 10**9), 0, 0, *divmod(hardware, 10**9))


def test_hardware_stamps_have_precedence_over_software_stamps():
    assert timestamping.stamp_of(stamps(NOW, 0)) == (NOW, "sw")
    assert timestamping.stamp_of(stamps(0, NOW)) == (NOW, "hw")
    assert timestamping.stamp_of(stamps(NOW, NOW + 5)) == (NOW + 5, "hw")
    assert timestamping.stamp_of(stamps(0, 0)) == (0, "")


def test_an_arrival_is_found_among_other_messages():
    control = [
        (socket.SOL_IP, socket.IP_TTL, b"\x40\0\0\0"),
        (socket.SOL_SOCKET, timestamping.SO_TIMESTAMPING, stamps(NOW, 0)),
    ]
    assert timestamping.arrival(control) == (NOW, "sw")
    assert timestamping.arrival(control[:1]) == (0, "")


def test_departures_are_numbered_since_enabling_and_errors_are_returned_in_between():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        sock.connect(other.getsockname())
        for _ in range(2):
            timestamping.enable(sock)
            for number in range(3):
                before = time.time_ns()
                sock.send(b"x")
                select.select([sock], [], [], 1)
                departure = timestamping.event(sock)
                assert isinstance(departure, timestamping.SendStamp) and (departure.number, departure.kind) == (
                    number,
                    "sw",
                )
                assert before <= departure.ns <= time.time_ns()
        assert timestamping.event(sock) is None
        other.close()
        sock.send(b"x")
        assert isinstance(timestamping.event(sock), timestamping.SendStamp)
        select.select([sock], [], [], 1)
        assert timestamping.event(sock) == timestamping.SendError(111)


def test_drops_of_a_full_buffer_are_counted():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(100):
            sock.sendto(bytes(1000), other.getsockname())
        other.setblocking(False)
        received = 0
        while select.select([other], [], [], 0)[0]:
            other.recv(2000)
            received += 1
        assert 0 < received < 100 and dropped(other) == 100 - received
        before = other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        deepen(other)
        assert other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > before
