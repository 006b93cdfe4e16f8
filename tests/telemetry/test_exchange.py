"""exchange.c under ASan and UBSan, on real sockets, with peers that echo, split, stop reading, or do not exist."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from building import linked
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.telemetry.probe import _exchange as c
from mburst.telemetry.probe import stamp, timestamping
from mburst.telemetry.probe.pacer import _NOTE

LOCAL = "127.0.0.1"
GAP_NS = 500_000
CLOCKS_NS = 20_000_000  # the longest time between two clock readings in Python


class Note(NamedTuple):
    """struct mb_note."""

    now: int
    stamp: int
    apart: int
    number: int
    path: int
    value: int
    what: int
    hardware: int
    data: bytes


@pytest.fixture(scope="module", autouse=True)
def stamped() -> Iterator[None]:
    """Keeps kernel timestamps of arrivals enabled: they begin a while after the first socket requests them, and end
    with the last such socket."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        asks.bind((LOCAL, 0))
        timestamping.enable(asks)

        def stamps() -> bool:
            sender.sendto(b"x", asks.getsockname())
            _, control, _, _ = asks.recvmsg(16, 512)
            return bool(timestamping.arrival(control)[0])

        assert any(stamps() or time.sleep(0.01) for _ in range(1000))
        yield


@pytest.fixture(scope="module")
def driver() -> Path:
    return linked(("tests/c/exchange_driver.c", "telemetry/probe/exchange.c"))


def test_any_exchange_keeps_the_promises_of_exchange_h(tmp_path: Path):
    """Runs the fuzzer's harness with random layouts and peers."""
    program = linked(("tests/fuzz/replay.c", "tests/fuzz/fuzz_exchange.c", "telemetry/probe/exchange.c"))
    rng = random.Random(1)
    for number in range(400):
        head = bytes([rng.randrange(16), 0, rng.choice([0, 96, 200]), *rng.randbytes(4), rng.choice([0, 3, 5, 64])])
        steps = b"".join(
            bytes([kind])
            + (length := rng.choice([0, 1, 96, 200])).to_bytes(2, "big")
            + (rng.randbytes(length) if kind == 0 else b"")
            for kind in rng.choices(range(5), [3, 6, 2, 1, 4], k=24)
        )
        (tmp_path / f"{number}").write_bytes(head + steps)
    inputs = [str(tmp_path / f"{number}") for number in range(400)]
    done = subprocess.run([program, *inputs], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "400 files, 0 of them too long"


def exchanged(
    driver: Path,
    sock: socket.socket,
    flags: int,
    size: int,
    *,
    number: tuple[int, int] = (0, 8),
    short_at: int = 0,
    time_at: int = 8,
    count: int = 40,
    room: int = 64,
) -> list[Note]:
    """Returns the notes of `count` probes through a connected socket."""
    timestamping.enable(sock)
    sock.setblocking(False)
    done = subprocess.run(
        [driver, *map(str, (sock.fileno(), flags, size, *number, short_at, time_at, count, GAP_NS, room))],
        pass_fds=[sock.fileno()],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [Note(*fields) for fields in _NOTE.iter_unpack(done.stdout)]


@contextmanager
def datagrams() -> Iterator[socket.socket]:
    """A socket whose datagrams are echoed."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
    ):
        peer.bind((LOCAL, 0))
        sock.connect(peer.getsockname())
        stop = threading.Event()

        def echo() -> None:
            while not stop.is_set():
                data, sender = peer.recvfrom(1 << 16)
                peer.sendto(data, sender)

        thread = threading.Thread(target=echo)
        thread.start()
        try:
            yield sock
        finally:
            stop.set()
            peer.sendto(b"", peer.getsockname())
            thread.join()


@contextmanager
def connection(serve: Callable[[socket.socket], None]) -> Iterator[socket.socket]:
    """A connection to a peer that runs the given function."""
    with socket.create_server((LOCAL, 0)) as listener, socket.create_connection(listener.getsockname()) as sock:
        peer, _ = listener.accept()
        thread = threading.Thread(target=serve, args=(peer,))
        thread.start()
        try:
            yield sock
        finally:
            with suppress(OSError):  # the peer has ended it
                sock.shutdown(socket.SHUT_RDWR)
            thread.join()
            peer.close()


def of(notes: list[Note], what: int) -> list[Note]:
    return [note for note in notes if note.what == what]


def check_probes(notes: list[Note], count: int, size: int, message: Callable[[Note], bytes]) -> None:
    """Asserts that each probe was sent at its due time or a little later, left, and came back unchanged."""
    sent, answers = of(notes, c.SENT), of(notes, c.ANSWER)
    assert [note.number for note in sent] == list(range(count))
    assert all(note.stamp <= note.now for note in sent)
    apart = time.time_ns() - time.monotonic_ns()
    assert all(abs(note.apart - apart) < CLOCKS_NS for note in [*sent, *answers])
    gaps = [after.stamp - before.stamp for before, after in pairwise(sent)]
    assert sorted(gaps)[count // 2] == pytest.approx(GAP_NS, abs=GAP_NS / 20)
    assert [note.data[:size] for note in answers] == [message(note)[: c.HEAD_BYTES] for note in sent]
    assert {note.value for note in answers} == {size}
    for before, after in zip(sent, answers, strict=True):
        assert before.now <= after.stamp <= after.now and not after.hardware


layouts = st.sampled_from([(0, 4, 0, 4), (8, 8, 6, 16), (0, 8, 0, 8), (20, 2, 24, 30)])


@settings(deadline=None, max_examples=12)
@given(layout=layouts, size=st.integers(38, 3000), ntp=st.booleans(), room=st.integers(4, 100))
def test_datagrams(driver, layout, size, ntp, room):
    number_at, width, short_at, time_at = layout

    def message(note: Note) -> bytes:
        made = bytearray(size)
        made[number_at : number_at + width] = (note.number % 256**width).to_bytes(width, "big")
        if short_at:
            made[short_at : short_at + 2] = (note.number % 65536).to_bytes(2, "big")
        made[time_at : time_at + 8] = (stamp.to_ntp(note.now) if ntp else note.now).to_bytes(8, "big")
        return bytes(made)

    with datagrams() as sock:
        notes = exchanged(
            driver,
            sock,
            c.TAKES | c.SENDS | (c.NTP if ntp else 0),
            size,
            number=(number_at, width),
            short_at=short_at,
            time_at=time_at,
            room=room,
        )
    check_probes(notes, 40, size, message)
    sent, left = of(notes, c.SENT), of(notes, c.LEFT)
    assert [note.number for note in left] == list(range(40))
    assert all(before.now <= after.stamp for before, after in zip(sent, left, strict=True))


@pytest.mark.parametrize("size, chunk", [(16, 5), (64, 64), (1000, 333), (9000, 4096)])
def test_messages_of_a_stream_are_reassembled(driver, size, chunk):
    def serve(peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := peer.recv(chunk):
            peer.sendall(data)

    with connection(serve) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notes = exchanged(driver, sock, c.TAKES | c.SENDS | c.STREAM, size)
    check_probes(
        notes, 40, size, lambda note: (note.number.to_bytes(8, "big") + note.now.to_bytes(8, "big")).ljust(size, b"\0")
    )
    left = {note.number // size for note in of(notes, c.LEFT)}
    assert left <= set(range(40)) and max(left) >= 38  # messages in one segment share a stamp, on a busy machine


def test_a_full_window_stops_the_pacer_at_the_byte(driver):
    got = bytearray()
    sent_all = threading.Event()

    def serve(peer: socket.socket) -> None:
        sent_all.wait()
        while data := peer.recv(1 << 20):
            got.extend(data)

    with connection(serve) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        try:
            notes = exchanged(driver, sock, c.TAKES | c.SENDS | c.STREAM, 60_000, count=400)
        finally:
            sent_all.set()
        [partly] = of(notes, c.PARTLY)
        sock.shutdown(socket.SHUT_WR)
    sent, due = of(notes, c.SENT), of(notes, c.DUE)
    assert [note.number for note in [*sent, partly, *due]] == list(range(400)) and due
    assert 0 <= partly.value < 60_000


def test_the_end_of_a_connection_is_reported_once(driver):
    with connection(lambda peer: (peer.recv(16), peer.close())) as sock:
        notes = exchanged(driver, sock, c.TAKES | c.SENDS | c.STREAM, 16)
        assert [note.value for note in of(notes, c.TROUBLE)] in ([errno.ECONNRESET], [errno.EPIPE])
        assert len(of(notes, c.SENT)) + len(of(notes, c.DUE)) + len(of(notes, c.FAILED)) == 40


def test_refusals_of_the_network_are_reported(driver):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
            gone.bind((LOCAL, 0))
            sock.connect(gone.getsockname())
        notes = exchanged(driver, sock, c.TAKES | c.SENDS, 64)
    assert len(of(notes, c.SENT)) == 40
    assert {note.value for note in of(notes, c.TROUBLE)} == {errno.ECONNREFUSED}
    with datagrams() as sock:
        notes = exchanged(driver, sock, c.TAKES | c.SENDS, 65_530, count=3)
    assert [(note.value, note.number) for note in of(notes, c.FAILED)] == [(errno.EMSGSIZE, n) for n in range(3)]
    assert not of(notes, c.SENT)


def test_a_path_that_neither_takes_nor_sends_is_reported_as_ready(driver):
    with connection(lambda peer: peer.sendall(b"x")) as sock:
        notes = exchanged(driver, sock, 0, 16, count=2)
    assert [note.what for note in notes].count(c.READY) == 1 and len(of(notes, c.DUE)) == 2


@pytest.mark.parametrize("room", [0, 1, 2])
def test_without_room_nothing_is_done(room):
    timer = c.timer()
    try:
        assert c.exchange(timer, timer, bytearray(), b"", b"", bytearray(room * c.NOTE_BYTES), 2**62) == (0, 0)
        with pytest.raises(IndexError, match="no path 7"):
            c.exchange(
                timer,
                timer,
                bytearray(7 * c.PATH_BYTES),
                b"",
                bytes(8) + (7).to_bytes(8, "little"),
                bytearray(99 * c.NOTE_BYTES),
                0,
            )
        with pytest.raises(OSError):
            c.exchange(timer, timer, bytearray(), b"", b"", bytearray(99 * c.NOTE_BYTES), 2**62)
    finally:
        os.close(timer)
