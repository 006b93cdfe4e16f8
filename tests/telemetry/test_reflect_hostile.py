"""The reflector and senders that try to make it answer too much, answer too often, or keep too much state; and senders
that restart."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bounded import next_line
from hypothesis import given, settings
from hypothesis import strategies as st
from ports import free_port
from waiting import wait_for

from mburst.telemetry.probe import delays, stamp
from mburst.telemetry.probe import reflector as reflector_module
from mburst.telemetry.probe.admission import Admission, Bucket
from mburst.telemetry.probe.reflector import Reflector

LOCAL = "127.0.0.1"
S = 10**9
NOW = 1_795_228_440_123_456_789


def asked(number: int = 0, size: int = 44, session: int = 1, at: int | None = None) -> bytes:
    packet = stamp.request(size, session, 1)
    stamp.stamp_request(packet, number, time.time_ns() if at is None else at)
    return bytes(packet)


@contextlib.contextmanager
def reflecting(**how: object) -> Iterator[tuple[Reflector, tuple[str, int]]]:
    """Runs a reflector in a thread; yields it and its address."""
    port = free_port()
    made = Reflector([(LOCAL, port)], **how)  # type: ignore[arg-type]
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made, (LOCAL, port)
    finally:
        made.stop()
        thread.join()
        made.close()


@contextlib.contextmanager
def asking(address: str = LOCAL, port: int = 0) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, port))
        sock.settimeout(5)
        yield sock


# --- no loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [asked(), asked(size=64), asked()[:14], asked()[:14] + bytes(100),
                                   struct.pack("!IIIH", 1, 1_795_228_440, 5, 0x4001) + bytes(30), b"\x55" * 60],
                         ids=["stamp", "with follow-up", "twamp", "padded", "ptp", "anything"])  # fmt: skip
def test_one_datagram_between_two_reflectors_causes_one_answer(first):
    """The datagram comes from the port of the other reflector, as a forged one would. It is answered once, and nothing
    follows."""
    with reflecting() as (one, address), reflecting() as (other, _):
        other._ports[0]._sock.sendto(first, address)
        wait_for(lambda: other.ignored, "the answer")
        time.sleep(0.3)
        assert (one.answered, other.answered, one.ignored, other.ignored) == (1, 0, 0, 1)


def test_an_echo_on_any_port_ends_after_one_answer():
    with reflecting() as (reflector, address), asking() as echo:
        echo.sendto(asked(), address)
        for _ in range(2):
            echo.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                data, peer = echo.recvfrom(2048)
                echo.sendto(data, peer)
        wait_for(lambda: (reflector.answered, reflector.ignored) == (1, 1), "the count")


@pytest.mark.parametrize("port", [7, 19, 53, 123, 862, 1023])
def test_ports_of_services_are_not_answered(port):
    try:
        with asking(port=port) as service, reflecting() as (reflector, address):
            service.sendto(asked(), address)
            wait_for(lambda: reflector.ignored, "it")
            assert reflector.answered == 0
    except PermissionError:
        pytest.skip("only root may send from that port")


times = st.integers(946_684_800 * S, 4_102_444_800 * S)


@settings(deadline=None, max_examples=200)
@given(times, times, st.sampled_from([44, 48, 64, 200]), st.booleans())
def test_an_answer_to_what_was_sent_now_looks_like_one_whatever_the_other_clock_says(now, theirs, size, ptp):
    """So that of two reflectors at least one knows, with clocks as far apart as they like."""
    question = bytearray(asked(size=size, at=now))
    if ptp:
        struct.pack_into("!II", question, 4, now // S % 2**32, now % S)
    answer = stamp.reply(bytes(question), 5, theirs, 64, 1)
    stamp.stamp_reply(answer, theirs)
    assert stamp.looks_like_reply(answer, now + S)
    assert stamp.looks_like_reply(stamp.reply(asked()[:14], 5, theirs, 64, 1), theirs - 1800 * S)


@settings(deadline=None, max_examples=200)
@given(times, times, st.sampled_from([44, 48, 64, 1400]))
def test_no_question_looks_like_an_answer(now, at, size):
    assert not stamp.looks_like_reply(asked(size=size, at=at), now)
    assert not stamp.looks_like_reply(asked(at=at)[:14] + bytes(30), now)


def test_no_question_looks_like_an_answer_when_the_ntp_era_changes():
    for now in (2_085_978_496 * S, 0):
        assert not stamp.looks_like_reply(asked(at=now), now)


# --- no amplifier ---------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(st.binary(min_size=stamp.LEAST_SENDER_BYTES, max_size=400))
def test_an_answer_is_as_long_as_the_question_or_has_44_bytes(data):
    assert len(stamp.reply(data, 1, NOW, 64, 1)) == max(len(data), stamp.BASE_BYTES)


def test_short_questions_can_be_ignored():
    with reflecting(least_bytes=stamp.BASE_BYTES) as (reflector, address), asking() as sock:
        for size in (14, 43, 44):
            sock.sendto(asked()[:size], address)
        assert len(sock.recv(100)) == 44
        wait_for(lambda: (reflector.answered, reflector.ignored) == (1, 2), "the count")


@settings(deadline=None, max_examples=200)
@given(st.floats(1, 1000), st.lists(st.integers(0, 3 * S), max_size=300))
def test_a_bucket_gives_a_second_at_once_and_then_its_rate(rate, gaps):
    now, given_, bucket = 0, [], Bucket(rate, 0)
    for gap in gaps:
        now += gap
        if bucket.take(now):
            given_.append(now)
    for first, begin in enumerate(given_):
        for last in range(first, len(given_), 7):
            assert last - first + 1 <= rate + rate * (given_[last] - begin) / S + 1.001
    fast = Bucket(rate, 0)
    assert sum(fast.take(0) for _ in range(3000)) == int(max(1, rate))


def answered_of(sent: int, how: dict[str, object], addresses: list[str]) -> tuple[int, int, float]:
    """Returns (answered, refused, seconds) for so many requests from each address."""
    with reflecting(**how) as (reflector, address), contextlib.ExitStack() as stack:
        socks = [stack.enter_context(asking(one)) for one in addresses]
        begun = time.monotonic()
        for number in range(sent):
            for sock in socks:
                sock.sendto(asked(number), address)
            wanted = (number + 1) * len(socks)
            wait_for(lambda wanted=wanted: reflector.answered + reflector.limited >= wanted, "it")
        return reflector.answered, reflector.limited, time.monotonic() - begun


def test_answers_to_one_peer_and_to_all_are_limited():
    answered, limited, took = answered_of(200, {"admission": Admission(peer_rate=20)}, [LOCAL])
    assert answered + limited == 200 and 20 <= answered <= 21 + 20 * took
    answered, limited, took = answered_of(
        40, {"admission": Admission(peer_rate=20, rate=30)}, ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    )
    assert answered + limited == 120 and 30 <= answered <= 31 + 30 * took


def test_one_ipv6_network_is_one_peer():
    admission = Admission(peer_rate=5)
    assert sum(bool(admission.take(f"2001:db8::{number:x}", 1)) for number in range(100)) == 5
    assert admission.take("2001:db8:0:1::1", 1) and admission.take("fe80::1%eth0", 1)


def test_the_table_of_peers_is_bounded(monkeypatch):
    monkeypatch.setattr("mburst.telemetry.probe.admission._MOST_PEERS", 100)
    admission = Admission(peer_rate=5, rate=300)
    taken = sum(bool(admission.take(f"10.{number >> 8}.{number & 255}.1", 1)) for number in range(1000))
    assert taken == 300 and len(admission._peers) <= 100 and len(admission._blocks) <= 100


def test_only_allowed_networks_are_answered():
    from ipaddress import ip_network

    networks = [ip_network("127.0.0.2/32"), ip_network("2001:db8::/32")]
    with reflecting(admission=Admission(networks)) as (reflector, address):
        with asking() as other, asking("127.0.0.2") as one:
            other.sendto(asked(), address)
            one.sendto(asked(), address)
            assert len(one.recv(100)) == 44
        wait_for(lambda: (reflector.answered, reflector.ignored) == (1, 1), "the count")
        with socket.create_connection(address, 5) as other:
            assert other.recv(10) == b""  # closed at once
        with socket.create_connection(address, 5, source_address=("127.0.0.2", 0)) as one:
            one.sendall(b"hello")
            assert one.recv(10) == b"hello"


def test_any_datagrams_are_answered_or_counted():
    rng = random.Random(1)
    with reflecting() as (reflector, address), asking() as sock:
        sock.settimeout(0.001)
        for number in range(1500):
            made = rng.randbytes(rng.choice([0, 1, 13, 14, 15, 38, 44, 48, 64, 100, 1400]))
            if number % 3 == 0:
                made = asked()[: rng.randrange(44)] + made
            sock.sendto(made, address)
            if number % 50 == 0:
                wait_for(lambda sent=number + 1: reflector.answered + reflector.ignored >= sent, "all")
                with contextlib.suppress(TimeoutError):
                    while True:
                        sock.recv(2048)
        wait_for(lambda: reflector.answered + reflector.ignored == 1500, "all")
        assert reflector.answered > 500 and reflector.ignored > 100


# --- sessions -------------------------------------------------------------------------------------------------------


def numbers_of(packets: list[bytes], pause: dict[int, float] | None = None) -> list[int]:
    """Returns the reflector's number in the answer to each packet."""
    found = []
    with reflecting() as (_, address), asking() as sock:
        for index, packet in enumerate(packets):
            time.sleep((pause or {}).get(index, 0))
            sock.sendto(packet, address)
            found.append(int.from_bytes(sock.recv(2048)[:4], "big"))
    return found


@pytest.mark.parametrize("size", [14, 41, 44, 64])
def test_a_sender_that_restarts_on_the_same_port_begins_a_new_session(size):
    """Nokia's twampy does this, and its own responder then counts from 0."""
    run = [asked(number, 64)[:size] for number in range(4)]
    again = [asked(number, 64, at=time.time_ns() + S)[:size] for number in range(4)]
    assert numbers_of([*run, *again]) == [0, 1, 2, 3] * 2


def test_a_doubled_or_late_first_packet_begins_no_new_session():
    first, *rest = (asked(number) for number in range(4))
    assert numbers_of([first, *rest[:2], first, rest[2]]) == [0, 1, 2, 3, 4]
    assert numbers_of([*rest, first]) == [0, 1, 2, 3]


def test_after_a_silence_a_session_restarts_unless_it_continues(monkeypatch):
    monkeypatch.setattr(reflector_module, "_SILENCE_NS", 50_000_000)
    assert numbers_of([asked(7), asked(8), asked(3)], {2: 0.2}) == [0, 1, 0]
    assert numbers_of([asked(7), asked(8), asked(9)], {2: 0.2}) == [0, 1, 2]


def test_a_flood_of_sessions_forgets_those_of_one_answer(monkeypatch):
    monkeypatch.setattr(reflector_module, "_MOST_SESSIONS", 64)
    with reflecting() as (reflector, address), asking() as sock, asking() as flood:
        for number in range(20):
            sock.sendto(asked(number), address)
            sock.recv(100)
            for _ in range(20):
                flood.sendto(asked(5, session=random.randrange(1, 65536)), address)
                flood.recv(100)
        sock.sendto(asked(20), address)
        assert int.from_bytes(sock.recv(100)[:4], "big") == 20 and reflector.sessions <= 64


# --- connections and memory -----------------------------------------------------------------------------------------


def echoes(sock: socket.socket) -> bool:
    sock.settimeout(0.3)
    try:
        sock.sendall(b"x")
        return sock.recv(1) == b"x"
    except TimeoutError:
        return False


def test_the_number_of_connections_is_limited():
    with reflecting(connections=5) as (_, address), contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(8)]
        wait_for(lambda: echoes(socks[4]), "the fifth")
        assert not echoes(socks[5])
        for sock in socks[:3]:
            sock.close()
        wait_for(lambda: echoes(socks[7]), "the last")


def test_idle_connections_make_room_when_it_is_needed(monkeypatch):
    monkeypatch.setattr("mburst.telemetry.probe.echo._IDLE_WHEN_FULL_NS", 100_000_000)
    monkeypatch.setattr(reflector_module, "_CLOCK_EVERY_NS", 50_000_000)
    with reflecting(connections=3) as (_, address), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(3)]
        late = stack.enter_context(socket.create_connection(address, 5))
        wait_for(lambda: echoes(late), "room")
        assert b"" in [sock.recv(1) for sock in idle]
    with reflecting(connections=4) as (_, address), contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(3)]
        time.sleep(0.5)
        assert all(echoes(sock) for sock in idle)  # their places are not needed


@contextlib.contextmanager
def process(*arguments: str, files: int = 0) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """`mburst reflect` with a limit of open files."""
    port = free_port()
    limited = ["prlimit", f"--nofile={files}"] if files else []
    command = [*limited, sys.executable, "-m", "mburst", "reflect", "--listen", f"{LOCAL}:{port}", *arguments]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "reflecting" in next_line(made)
        yield made, (LOCAL, port)
    finally:
        made.kill()
        made.communicate()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> int:
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) >> 10


def ended(made: subprocess.Popen[str]) -> str:
    made.send_signal(signal.SIGTERM)
    out, _ = made.communicate(timeout=20)
    assert made.returncode == 0
    return out


def test_without_descriptors_the_reflector_waits_and_continues_to_answer():
    with process(files=32) as (made, address), contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(60)]
        time.sleep(0.5)
        before = cpu_s(made.pid)
        time.sleep(2)
        assert cpu_s(made.pid) - before < 0.5  # the reflector does not spin
        with asking() as sock:
            sock.sendto(asked(), address)
            assert len(sock.recv(100)) == 44
        for sock in socks[:50]:
            sock.close()
        wait_for(lambda: echoes(socks[-1]), "the last")
        ended(made)


@pytest.mark.parametrize("delay", [[], ["--delay", "constant:60s"]], ids=["at once", "held"])
def test_clients_that_never_read_are_not_read_further(delay):
    with process(*delay) as (made, address), contextlib.ExitStack() as stack:
        before = peak_mb(made.pid)
        socks = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(120)]
        chunk = bytes(1 << 16)
        for sock in socks:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(60):
            for sock in socks:
                with contextlib.suppress(BlockingIOError):
                    sock.send(chunk)
        time.sleep(0.5)
        assert peak_mb(made.pid) - before < 150
        with asking() as sock:
            sock.sendto(asked(), address)
            assert delay or len(sock.recv(100)) == 44
        ended(made)


def test_delayed_answers_beyond_the_limit_are_dropped_and_counted(monkeypatch):
    for limit, most in (("_MOST_HELD", 50), ("_MOST_HELD_BYTES", 50 * 100)):
        monkeypatch.setattr(reflector_module, limit, most)
        with reflecting(delay=delays.parse("constant:60s")) as (reflector, address), asking() as sock:
            for number in range(120):
                sock.sendto(asked(number, size=100), address)
                wait_for(lambda sent=number + 1: len(reflector._held._waiting) + reflector.overfull == sent, "it")
            assert (len(reflector._held._waiting), reflector.overfull, reflector.answered) == (50, 70, 0)
        monkeypatch.undo()


def test_a_flood_of_delayed_answers_is_bounded_and_a_signal_ends_it():
    with process("--delay", "constant:60s", "--peer-limit", "1000000", "--limit", "1000000") as (made, address):
        before = peak_mb(made.pid)
        question = asked(size=1400)
        with asking() as sock:
            for number in range(90_000):
                sock.sendto(question, address)
                if number % 100 == 0:
                    time.sleep(0.002)
        grown = peak_mb(made.pid) - before
        assert grown < 250, grown
        assert "answered 0 probes" in ended(made)
