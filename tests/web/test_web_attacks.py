"""Slow, silent, many and hostile clients of `mburst live` and `mburst metrics` harm only themselves."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from authority import Authority
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from livestore import filled
from webattack import Verb, closed, frame, held, lane_of, serving, until, websocket, wish

pytest.importorskip("uvicorn")
if not shutil.which("prlimit"):
    pytest.skip("bounds descriptors with prlimit, which is not installed", allow_module_level=True)

VERBS = ("live", "metrics")
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODILESS = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n"
REQUESTS = 300  # more than may wait
SLACK = 50  # descriptors other than connections


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("web") / "store").path


@pytest.fixture(scope="module")
def servers(store) -> Iterator[dict[str, Verb]]:
    """A server of each verb, which survives the tests of this file: the last test ends it."""
    with ExitStack() as stack:
        yield {verb: stack.enter_context(serving(verb, store, "--open")) for verb in VERBS}


@pytest.fixture(params=VERBS)
def server(request, servers):
    return servers[request.param]


@pytest.fixture
def shared(servers):
    return servers["live"]


@pytest.fixture
def live(store):
    """A server that the test ends."""
    with serving("live", store, "--open") as made:
        yield made


@pytest.fixture(scope="module")
def fuzzed(servers):
    made = servers["live"]
    made.lane = lane_of(made)
    return made


@pytest.fixture(scope="module")
def ends(servers) -> Iterator[dict[tuple[str, str], Future[None]]]:
    """The checks that wait for a timeout of the servers, by name and verb; they run at the same time."""
    with ThreadPoolExecutor() as pool:
        yield {
            (what.__name__, verb): pool.submit(what, made) for what in (half, trickle) for verb, made in servers.items()
        }


def ends_quietly(server):
    code, error = server.stop()
    assert code == 0 and "Traceback" not in error and error in ("", "Ctrl-C ends it.\n"), error


FIRSTS = (b"", b"G", HALF, BODILESS)


@pytest.mark.parametrize("first", FIRSTS)
def test_half_requests_are_bounded_and_others_are_answered(server, first):
    before = server.descriptors()
    with held(server, REQUESTS, first):
        assert server.ask()[0] == 200
        assert server.descriptors() < before + 256 + SLACK


@pytest.mark.parametrize("verb", VERBS)
def test_a_signal_ends_a_server_with_half_requests(store, verb):
    with serving(verb, store, "--open") as server, ExitStack() as stack:
        for first in FIRSTS:
            stack.enter_context(held(server, REQUESTS // len(FIRSTS), first))
        assert server.ask()[0] == 200
        ends_quietly(server)


def half(server: Verb) -> None:
    with held(server, 20, HALF) as connections:
        for connection in connections:
            connection.settimeout(60)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""


def trickle(server: Verb) -> None:
    begun = time.monotonic()
    with server.open() as connection, pytest.raises(OSError):
        while time.monotonic() - begun < 60:
            connection.sendall(b"X")
            time.sleep(0.2)
    assert time.monotonic() - begun < 59


@pytest.mark.parametrize("verb", VERBS)
def test_half_requests_end_by_a_timeout(ends, verb):
    ends["half", verb].result()


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_that_trickles_in_ends_by_a_timeout(ends, verb):
    ends["trickle", verb].result()


def test_a_server_with_few_descriptors_answers(store):
    for verb in VERBS:
        with serving(verb, store, "--open", descriptors=100) as server, held(server, 200, HALF):
            assert server.ask()[0] == 200
            ends_quietly(server)


def test_unfinished_tls_handshakes_do_not_block_others(store, tmp_path):
    certificate, key = Authority(tmp_path).issue("server", ["127.0.0.1"])
    with serving(
        "metrics", store, "--open", "--tls-cert", str(certificate), "--tls-key", str(key), descriptors=200
    ) as server:
        for first in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"):
            with held(server, REQUESTS, first):
                done = subprocess.run(
                    ["curl", "-sk", "--max-time", "30", f"https://127.0.0.1:{server.port}/"], capture_output=True
                )
                assert b"/metrics" in done.stdout, done
        ends_quietly(server)


def test_clients_that_do_not_read_cost_little(live):
    """Each client requests plotly's script, of some 1.4 MB, and reads none of it."""
    before = live.resident()
    ask = b"GET /plotly.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with held(live, 200, ask * 3):
        assert until(lambda: live.ask("/lanes")[0] == 200)
        assert live.resident() - before < 600 << 20
        ends_quietly(live)


def test_only_the_newest_wish_of_a_client_is_kept(shared):
    lane = lane_of(shared)
    with websocket(shared) as flooding:
        before = shared.resident()
        with suppress(OSError):
            for i in range(2000):
                flooding.sendall(frame(wish(lane, span=10**9 + i)))
        assert shared.ask("/lanes")[0] == 200
        assert shared.resident() - before < 150 << 20


@pytest.mark.parametrize(
    "flood",
    [frame(b"x" * 125, 9), frame(b"", 0, False), frame(b"y" * 5000), frame(b"", 2)],
    ids=["pings", "empty fragments", "large", "empty binary"],
)
def test_floods_of_frames_end_the_client(shared, flood):
    with websocket(shared) as connection:
        before = shared.resident()
        connection.sendall(frame(b"{", 1, False))
        connection.settimeout(60)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while True:  # the kernel takes many before the server has read one
                connection.sendall(flood)
        assert shared.resident() - before < 50 << 20
    assert shared.ask("/lanes")[0] == 200


BOMB = zlib.compressobj(9, wbits=-15)
DEFLATED = BOMB.compress(b" " * (64 << 20)) + BOMB.flush(zlib.Z_SYNC_FLUSH)
WRONG = {  # forbidden by RFC 6455, or not negotiated
    "no UTF-8": frame(b"\xff\xfe{"),
    "half a letter at the end": frame(b"{\xe2\x82"),
    "not masked": frame(b"{}", masked=False),
    "compressed without having asked": frame(DEFLATED[:3000], reserved=4),
    "a bomb that is compressed": frame(DEFLATED, reserved=4),
    "other reserved bits": frame(b"{}", reserved=2),
    "an unknown opcode": frame(b"", 3),
    "an unknown control opcode": frame(b"", 11),
    "a long ping": frame(b"x" * 126, 9),
    "a ping in pieces": frame(b"x", 9, False),
    "a continuation of nothing": frame(b"x", 0),
    "a message inside of another": frame(b"{", 1, False) + frame(b"{}"),
    "a message that is too long": frame(b"x" * 5000),
    "a message that is too long in pieces": frame(b"x" * 3000, 1, False) + frame(b"x" * 3000, 0),
    "a length of 2 to the 63": b"\x81\xff\x80" + bytes(7) + bytes(4),
    "a length of 2 to the 62": b"\x81\xff\x40" + bytes(7) + bytes(4),
    "a close of one byte": frame(b"\x03", 8),
    "a close of an unknown code": frame(b"\x00\x01", 8),
    "a close without UTF-8": frame(b"\x03\xe8\xff", 8),
}


def test_invalid_frames_end_only_their_socket(shared):
    """The compression that a client offers is not negotiated."""
    lane = lane_of(shared)
    with websocket(shared) as honest:
        honest.sendall(frame(wish(lane)))
        before = shared.resident()
        for case, wrong in WRONG.items():
            with websocket(shared, **{"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}) as one:
                with suppress(ConnectionError):
                    one.sendall(wrong)
                assert closed(one), case
        assert shared.resident() - before < 50 << 20
        assert honest.recv(2)


def test_a_fragment_that_never_ends_is_bounded(shared):
    """The pieces have one byte each, with a ping between them: neither counts as a new message."""
    with websocket(shared) as connection, suppress(ConnectionError):
        before = shared.resident()
        connection.sendall(frame(b"{", 1, False))
        for _ in range(20_000):
            connection.sendall(frame(b" ", 0, False) + frame(b"", 9))
    assert shared.resident() - before < 50 << 20 and shared.ask("/lanes")[0] == 200


def test_followers_that_do_not_read_cost_little(live):
    lane, connections = lane_of(live), []
    before = live.resident()
    try:
        for number in range(40):
            connections.append(websocket(live))
            connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(20):
                connections[-1].sendall(frame(wish(lane, span=60 * 10**9 + number, steps=20_000)))
        assert live.ask("/lanes")[0] == 200
        assert live.resident() - before < 400 << 20
        ends_quietly(live)
    finally:
        for connection in connections:
            connection.close()


def test_the_number_of_followers_is_bounded(live):
    lane = lane_of(live)
    connections = []
    try:
        for i in range(160):
            with suppress(OSError, AssertionError):
                connections.append(websocket(live))
                connections[-1].sendall(frame(wish(lane, span=10**9 + i, steps=20_000)))
        assert 100 <= len(connections) <= 128
        assert live.ask("/")[0] == 503
        ends_quietly(live)
    finally:
        for connection in connections:
            connection.close()
    # the answers for closed connections are not computed any more


def test_slow_queries_do_not_block_other_requests(live):
    """Many clients send slow queries to the store. Meanwhile the page is served, and a signal ends the server."""
    lane = lane_of(live).replace("/", "%2F")
    ask = f"GET /moment?lane={lane}&from=0&to={2**62 - 1}&buckets=20000&origin=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with held(live, 100, ask.encode()):
        assert live.ask("/live.css")[0] == 200
        ends_quietly(live)


def test_clients_that_disconnect_at_once_leave_no_descriptor(server):
    for _ in range(300):
        with server.open() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(HALF + b"\r\n")
    assert server.ask()[0] == 200
    assert until(lambda: server.descriptors() < SLACK)


BODY = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
AMBIGUOUS = {  # each is followed by a request that only some servers see (RFC 9112, 11.2)
    "two lengths": BODY + b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n",
    "one length twice": BODY + b"Content-Length: 36\r\nContent-Length: 36\r\n\r\n",
    "a list of lengths": BODY + b"Content-Length: 0, 36\r\n\r\n",
    "a length with a sign": BODY + b"Content-Length: +0\r\n\r\n",
    "a length and chunks": BODY + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": BODY + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "another encoding": BODY + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks of a GET": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length of a GET": HEAD + b"Content-Length: 36\r\n\r\n",
    "a chunk of a negative size": BODY + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a line that ends in LF": b"GET / HTTP/1.1\nHost: 127.0.0.1\r\n\r\n",
    "a head that ends in LF": HEAD + b"X: a\n\n",
    "a CR inside of a line": HEAD + b"X: a\rHost: evil\r\n\r\n",
    "two names": HEAD + b"Host: evil\r\n\r\n",
}


def test_an_ambiguous_request_ends_its_connection(server):
    """Nothing behind it is answered, whether it comes in one piece or byte by byte."""
    for case, asked in AMBIGUOUS.items():
        for pieces in ([asked + HEAD + b"\r\n"], [asked[:-1], asked[-1:], HEAD + b"\r\n"]):
            with server.open() as connection, suppress(ConnectionError):
                content = b""
                for piece in pieces:
                    connection.sendall(piece)
                while more := connection.recv(65536):
                    content += more
                assert content.count(b"HTTP/1.1 ") <= 1 and b"HTTP/1.1 200" not in content, (case, content[:200])
    assert server.ask()[0] == 200


LINES = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda method, path, version, headers: (
            b" ".join([method, path, version])
            + b"\r\n"
            + b"".join(name + b": " + value + b"\r\n" for name, value in headers)
            + b"\r\n"
        ),
        st.sampled_from([b"GET", b"HEAD", b"POST", b"TRACE", b"OPTIONS", b"PRI", b"get", b""]),
        st.one_of(
            st.sampled_from(
                [
                    b"/",
                    b"/lanes",
                    b"/metrics",
                    b"*",
                    b"//",
                    b"/../../etc/passwd",
                    b"/%2e%2e/",
                    b"/%00",
                    b"http://evil/",
                    b"/lane?lane=%ff%fe",
                    b"/moment?from=9" * 50,
                ]
            ),
            st.binary(max_size=60),
        ),
        st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b""]),
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        b"Host",
                        b"Origin",
                        b"Cookie",
                        b"Authorization",
                        b"Connection",
                        b"Upgrade",
                        b"Content-Length",
                        b"Transfer-Encoding",
                        b"Expect",
                        b"Sec-Fetch-Site",
                    ]
                ),
                st.one_of(
                    st.sampled_from(
                        [
                            b"127.0.0.1",
                            b"[::1",
                            b"chunked",
                            b"websocket",
                            b"-1",
                            b"1e9",
                            b"Upgrade",
                            b"100-continue",
                            b"http://[",
                            b"\xff",
                        ]
                    ),
                    st.binary(max_size=40),
                ),
            ),
            max_size=6,
        ),
    ),
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES)
def test_any_request_gets_an_answer_or_none_and_no_traceback(fuzzed, request_):
    with fuzzed.open() as connection, suppress(OSError):
        connection.sendall(request_ + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        head = connection.recv(65536)
        assert head == b"" or int(head.split(b" ", 2)[1]) < 500, head
        assert b"Traceback" not in head
    assert fuzzed.process.poll() is None


NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.none(),
    st.booleans(),
    st.sampled_from([10**26, -1, 2**62, 2**63, "Infinity", "9" * 5000, "1_0", "٣", float("inf")]),
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=500),
        st.text(max_size=200).map(str.encode),
        st.just(b"[" * 4000),
        st.builds(wish, st.sampled_from(["LANE", "none", "", "x" * 5000]), NUMBERS, NUMBERS, NUMBERS),
    ),
    st.sampled_from([1, 2]),
)
def test_any_message_is_answered_or_ends_its_socket_alone(fuzzed, message, opcode):
    with websocket(fuzzed) as connection:
        connection.sendall(frame(message.replace(b'"LANE"', b'"%s"' % fuzzed.lane.encode()), opcode))
        with suppress(ConnectionResetError):
            assert connection.recv(2)
    assert fuzzed.process.poll() is None


def test_servers_end_quietly_after_these_tests(server):
    assert server.ask()[0] == 200
    os.kill(server.process.pid, 0)
    ends_quietly(server)
