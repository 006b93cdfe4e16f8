"""The prober with the reflector, and with reflectors that lose, double, delay, reorder, restart or lie."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from bounded import next_line
from ports import free_port
from waiting import beside

from mburst.errors import MburstError
from mburst.telemetry.probe import delays, stamp
from mburst.telemetry.probe.exchanges import ProbeCounts
from mburst.telemetry.probe.pacer import Pacer
from mburst.telemetry.probe.path import SendOptions
from mburst.telemetry.probe.path_tcp import TcpPath
from mburst.telemetry.probe.prober import ProbePlan, Prober, kind_of
from mburst.telemetry.probe.reflector import Reflector
from mburst.telemetry.probe.targets import resolve
from mburst.telemetry.tables import PROBES

MS = 1_000_000
LOCAL = "127.0.0.1"


@contextlib.contextmanager
def reflector(delay: str | None = None, address: str = LOCAL) -> Iterator[int]:
    """Runs the reflector in a thread; yields its port."""
    port = free_port()
    made = Reflector([(address, port)], delays.parse(delay, 1) if delay else None)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield port
    finally:
        made.stop()
        thread.join()
        made.close()


@contextlib.contextmanager
def reflecting(delay: str) -> Iterator[int]:
    """Runs `mburst reflect` in a process; yields its port."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "mburst",
        "reflect",
        "--listen",
        f"{LOCAL}:{port}",
        "--delay",
        delay,
        "--seed",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert "reflecting" in next_line(process)
            yield port
        finally:
            process.terminate()


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket, bytes, tuple[str, int]], None]) -> Iterator[int]:
    """Runs a reflector of the test, in which `answer` gets each datagram; yields its port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOCAL, 0))
    sock.settimeout(0.05)

    def serve(ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError, ConnectionError):
                answer(sock, *sock.recvfrom(2048))

    with sock, beside(serve):
        yield sock.getsockname()[1]


def reply_to(data: bytes, number: int | None = None) -> bytearray:
    """Returns the answer of a stateless reflector, with the sender's own number."""
    packet = stamp.reply(data, int.from_bytes(data[:4], "big") if number is None else number, time.time_ns(), 64, 1)
    stamp.stamp_reply(packet, time.time_ns())
    return packet


def probed(port: int, host: str = LOCAL, **plan: object) -> tuple[pa.Table, ProbeCounts, list[str]]:
    """Returns (rows, counts, lines reported) of probing one port."""
    lines: list[str] = []
    wanted = ProbePlan(**{"rate": 500.0, "count": 100, "timeout_ns": 300 * MS, "seed": 1, **plan})  # type: ignore[arg-type]
    target = resolve(f"{host}:{port}", 1, kind_of(wanted.protocol), socket.AF_UNSPEC)
    prober = Prober([target], wanted, host="here", batch="b", report=lines.append)
    batches: list[pa.RecordBatch] = []
    try:
        prober.run(lambda settled, names: batches.append(settled.rows(names)))
        counts = [path.exchanges.counts for path in prober.paths[0]]
    finally:
        prober.close()
    table = pa.Table.from_batches(batches).cast(PROBES).sort_by("seq")
    assert table.num_rows == sum(count.sent for count in counts)
    return table, counts[0], lines


def ns(rows: pa.Table, name: str) -> np.ndarray:
    return rows[f"{name}_ns"].to_numpy(zero_copy_only=False)


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_each_probe_has_its_stamps_in_order(protocol):
    with reflector() as port:
        rows, counts, lines = probed(port, protocol=protocol)
    assert (counts.sent, counts.answered, counts.lost, lines) == (100, 100, 0, [])
    assert rows["seq"].to_pylist() == list(range(100)) and set(rows["stamp_kind"].to_pylist()) == {"sw"}
    names = (
        ["app_send", "tx", "remote_rx", "remote_tx", "rx", "app_recv"]
        if protocol == "udp"
        else ["app_send", "tx", "rx", "app_recv"]
    )
    for before, after in pairwise(names):
        assert (ns(rows, after) - ns(rows, before) >= 0).all(), (before, after)
    if protocol == "tcp":
        assert rows["remote_rx_ns"].null_count == rows["remote_tx_ns"].null_count == 100


def test_ipv6():
    with contextlib.ExitStack() as stack:
        try:
            port = stack.enter_context(reflector(address="::1"))
        except MburstError as error:
            pytest.skip(f"no IPv6 here: {error}")
        rows, counts, _ = probed(port, "[::1]", count=50)
    assert counts.answered == 50 and rows["remote_rx_ns"].null_count == 0


@pytest.mark.parametrize("size", [44, 64, 1400])
def test_sizes(size):
    seen: list[int] = []

    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        seen.append(len(data))
        sock.sendto(reply_to(data), peer)

    with answering(answer) as port:
        assert probed(port, size=size, count=10)[1].answered == 10
    assert set(seen) == {size}


def test_losses_are_rows_and_stateless_reflectors_give_no_direction():
    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        if int.from_bytes(data[:4], "big") % 4:
            sock.sendto(reply_to(data), peer)

    with answering(answer) as port:
        rows, counts, _ = probed(port)
    assert rows["lost"].to_pylist() == [seq % 4 == 0 for seq in range(100)]
    assert (counts.lost, counts.lost_back) == (25, None)
    assert rows["app_recv_ns"].null_count == rows["rx_ns"].null_count == rows["remote_rx_ns"].null_count == 25
    assert rows["app_send_ns"].null_count == rows["tx_ns"].null_count == 0


def test_the_reflectors_count_gives_the_losses_on_the_way_back():
    """A relay in front of a real reflector loses every fourth request and every fifth answer."""
    with reflector() as behind, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inner:
        inner.connect((LOCAL, behind))
        inner.settimeout(1)
        answered = 0

        def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
            nonlocal answered
            number = int.from_bytes(data[:4], "big")
            if number % 4 == 0 and number != 96:
                return
            inner.send(data)
            got = inner.recv(2048)
            answered += 1
            if answered % 5 or number > 90:
                sock.sendto(got, peer)

        with answering(answer) as port:
            _, counts, _ = probed(port)
    assert (counts.sent, counts.answered) == (100, 100 - counts.lost)
    assert counts.lost_back == answered - counts.answered and 10 <= counts.lost_back <= 15


def test_doubled_reordered_late_and_invalid_answers_are_counted():
    held: list[bytes] = []

    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        number = int.from_bytes(data[:4], "big")
        if number == 10:
            sock.sendto(reply_to(data), peer)
        if number == 20:
            held.append(data)
            return
        if number == 30:
            held.append(data)
            return
        if number == 40:
            sock.sendto(b"what is this", peer)
            sock.sendto(reply_to(data[:4] + bytes(8) + data[12:]), peer)
            sock.sendto(reply_to((10**6).to_bytes(4, "big") + data[4:]), peer)
        sock.sendto(reply_to(data), peer)
        if number == 25:
            sock.sendto(reply_to(held[0]), peer)
        if number == 90:
            sock.sendto(reply_to(held[1]), peer)

    with answering(answer) as port:
        rows, counts, lines = probed(port, rate=50.0, timeout_ns=1000 * MS)  # the answer of 30 comes with that of 90
    assert (counts.duplicates, counts.reordered, counts.late, counts.stray) == (1, 1, 1, 3)
    assert [line.partition("invalid answers: ")[2] for line in lines] == [
        "shorter than the 38 bytes of a reply of STAMP or TWAMP Light (this one has 12 bytes)",
        "its sender timestamp does not match the probe (this one has 64 bytes)",
        "to a probe that was not sent (this one has 64 bytes)",
    ]
    assert [seq for seq, lost in enumerate(rows["lost"].to_pylist()) if lost] == [30]


class Twampy:
    """A TWAMP Light responder that answers with the bytes of Nokia's twampy (1.x): 38 of them, without the sender's
    TTL, and `padding` more. Its numbers restart with the sender's, and after 30 s."""

    def __init__(self, padding: int = 0) -> None:
        self.padding, self.number = padding, 0

    def __call__(self, sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        if data[:4] == bytes(4):
            self.number = 0
        stamps = [stamp.to_ntp(time.time_ns()) for _ in range(2)]
        head = struct.pack("!IQHHQ", self.number, stamps[1], 1, 0, stamps[0])
        sock.sendto(head + data[:14] + bytes(self.padding), peer)
        self.number += 1


@pytest.mark.parametrize("padding", [0, 3, 8, 40])
def test_twamp_light_of_nokias_twampy(padding):
    with answering(Twampy(padding)) as port:
        rows, counts, lines = probed(port)
    assert (counts.answered, counts.stray, counts.lost, counts.restarts, lines) == (100, 0, 0, 0, [])
    for before, after in pairwise(["tx", "remote_rx", "remote_tx", "rx"]):
        assert (ns(rows, after) - ns(rows, before) >= -1).all(), (before, after)


def scapys(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
    """A STAMP reflector with scapy's layer, which keeps timestamps as floats."""
    from scapy.contrib import stamp as layer

    came = time.time() + stamp.NTP_UNIX_S
    asked = layer.STAMPSessionSenderTestUnauthenticated(data)
    answer = layer.STAMPSessionReflectorTestUnauthenticated(
        seq=asked.seq,
        ts=time.time() + stamp.NTP_UNIX_S,
        err_estimate=asked.err_estimate,
        ssid=asked.ssid,
        ts_rx=came,
        seq_sender=asked.seq,
        ts_sender=asked.ts,
        err_estimate_sender=asked.err_estimate,
        ttl_sender=64,
    )
    sock.sendto(bytes(answer), peer)


def test_stamp_of_scapy():
    with answering(scapys) as port:
        rows, counts, lines = probed(port, rate=100.0, timeout_ns=2000 * MS)
    assert (counts.answered, counts.stray, counts.lost) == (100, 0, 0)
    assert lines == [f"127.0.0.1:{port}: the reflector rounds timestamps: its resolution is 1 µs at best"]
    assert (ns(rows, "rx") >= ns(rows, "tx")).all() and rows["remote_rx_ns"].null_count == 0


def test_a_closed_port_gives_one_line_and_rows():
    rows, counts, lines = probed(free_port(), count=20)
    assert counts.lost == 20 and rows["lost"].to_pylist() == [True] * 20
    assert len(lines) == 1 and "port closed" in lines[0]


def test_a_silent_target_gives_rows():
    with answering(lambda sock, data, peer: None) as port:
        rows, counts, lines = probed(port, count=20)
    assert (counts.lost, lines, rows["rx_ns"].null_count) == (20, [], 20)


def test_waiting_for_answers_gives_signs_of_life(monkeypatch):
    """A timeout may be longer than the silence after which `mburst run` kills a part that hangs."""
    signs: list[bool] = []
    ended: list[bool] = []
    probe = Prober._probe
    monkeypatch.setattr(Prober, "_probe", lambda self, take: (probe(self, take), ended.append(True)))
    monkeypatch.setattr("mburst.telemetry.probe.prober.alive.beat", lambda: signs.append(bool(ended)))
    with answering(lambda sock, data, peer: None) as port:
        probed(port, count=1)
    assert signs[0] is False and signs[-1] is True


def test_a_restarted_reflector_is_counted():
    """A stateful reflector that loses its state at probe 50 counts from 0 again."""
    first = 0

    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        nonlocal first
        number = int.from_bytes(data[:4], "big")
        if number >= 50:
            first = 50
        sock.sendto(reply_to(data, number - first), peer)

    with answering(answer) as port:
        _, counts, _ = probed(port)
    assert (counts.answered, counts.restarts, counts.lost) == (100, 1, 0)


def test_messages_in_one_segment_have_its_stamp():
    """TCP joins messages that it may not send yet, and the kernel stamps a segment once, at its last byte."""
    with socket.create_server((LOCAL, 0)) as listener:
        target = resolve(f"{LOCAL}:{listener.getsockname()[1]}", 1, socket.SOCK_STREAM, socket.AF_UNSPEC)
        pacer = Pacer()
        path = TcpPath(target, pacer, print, SendOptions(64, source=("", 0), dscp=0, hardware=False))
        try:
            while path.opening:
                pacer.run(array("q"), time.monotonic_ns() + MS)
            for number in range(5):
                path.sent(number, number)
            path.left(63, 100, 0)
            path.left(4 * 64 - 1, 200, 0)
            path.left(4 * 64 - 1, 190, 1)
            assert list(path.exchanges.tx[:5]) == [100, 200, 200, 190, 0]
        finally:
            path.close()
            pacer.close()


def test_a_broken_connection_is_made_again():
    served = threading.Event()

    def serve(listener: socket.socket) -> None:
        for limit in (20, None):
            connection, _ = listener.accept()
            count = 0
            with connection:
                while (limit is None or count < limit) and (data := connection.recv(64)):
                    connection.sendall(data)
                    count += 1
        served.set()

    with socket.create_server((LOCAL, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        rows, counts, lines = probed(listener.getsockname()[1], protocol="tcp", rate=50.0, count=100)
        thread.join(5)
    assert served.is_set() and counts.restarts == 1
    assert counts.sent == 100 and 0 < counts.lost < 50 and rows["lost"].to_pylist()[-1] is False
    assert len(lines) == 1 and "connecting again" in lines[0]


def test_answers_that_are_no_echo_are_reported():
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(64)
            connection.sendall(bytes(range(64)))
            while connection.recv(4096):
                pass

    with socket.create_server((LOCAL, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        _, counts, lines = probed(listener.getsockname()[1], protocol="tcp", count=10)
        thread.join(5)
    assert counts.stray == 1 and any("is an echo service" in line for line in lines)
