"""Who gets in to the switch agent, what is said of who does not, and what a client can cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from gnmilib import Authority, agent, messages

from mburst.__main__ import main
from mburst.errors import MburstError
from mburst.switch_agent import door, server, streams, writer
from mburst.switch_agent.listening import Address, parse
from mburst.switch_agent.tree import Tree
from mburst.switch_agent.watermarks import Watermarks
from mburst.telemetry.gnmi.path import as_message
from mburst.telemetry.gnmi.path import parse as parse_path

HIGH = 65_536


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the verb says when it does not begin."""
    assert main(["switch-agent", "lo", *arguments]) in (1, 2)
    said = capsys.readouterr()
    assert said.out == "" and "Traceback" not in said.err
    return said.err


def request(list_mode: str = "STREAM", path: str = "/interfaces", **options: Any) -> Any:
    numbers = {"mode": messages.LIST_MODES.index(list_mode), "encoding": messages.ENCODINGS.index("PROTO")}
    wanted = messages.SubscriptionList(**numbers)
    wanted.subscription.add(path=as_message(parse_path(path)), **options)
    return messages.SubscribeRequest(subscribe=wanted)


def subscribe(channel: Any, asked: Any, **more: Any) -> Any:
    begin = channel.stream_stream(
        messages.SUBSCRIBE, messages.SubscribeRequest.SerializeToString, messages.SubscribeResponse.FromString
    )
    return begin(iter([asked]) if not isinstance(asked, Iterator) else asked, **more)


def code_of(call: Any) -> str:
    """The status that a call ends with."""
    try:
        list(call)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["99999", "65536", str(HIGH * 2 + 80), "-1", "", "http", "９339", "1e3", "0x10"])
def test_a_port_that_is_none_is_refused(capsys, port):
    assert f"{port}" in refused(capsys, "--listen", f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    "text", ["9339", "127.0.0.1", "::1:9339", ":9339", "[::1]", "[::1:9339", "unix:", "", "ipv4:1"]
)
def test_what_is_no_address_is_refused(capsys, text):
    refused(capsys, "--listen", text)


@pytest.mark.parametrize(
    ("text", "local"),
    [("127.0.0.1:1", True), ("127.255.0.9:1", True), ("[::1]:1", True), ("localhost:1", True), ("unix:/x", True),
     ("127.1:1", True), ("[::ffff:127.0.0.1]:1", True), ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False),
     ("[::ffff:10.0.0.1]:1", False), ("[fe80::1]:1", False), ("128.0.0.1:1", False)],
)  # fmt: skip
def test_local_is_by_address(text, local):
    assert parse(text).is_local is local


def test_a_name_that_begins_like_loopback_is_not_local(monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.5", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: found)
    assert not parse("127.0.0.1.example.net:80").is_local
    assert not parse("localhost.example.net:80").is_local


@pytest.mark.parametrize(
    ("more", "word"),
    [([], "nothing is encrypted"), (["--username", "me"], "in the clear"), (["TLS"], "anybody may read"),
     (["TLS", "--username", "me"], ""), (["TLS", "CA"], "")],
)  # fmt: skip
@pytest.mark.parametrize("where", ["0.0.0.0", "[::]"])
def test_other_hosts_get_in_with_tls_and_a_secret_only(authority, capsys, monkeypatch, where, more, word):
    monkeypatch.setenv("MBURST_AGENT_PASSWORD", "secret")
    certificate, key = authority.issue("agent", ["127.0.0.1"])
    options = {"TLS": ["--tls-cert", str(certificate), "--tls-key", str(key)], "CA": ["--tls-ca", str(authority.ca)]}
    arguments = [part for one in more for part in options.get(one, [one])]
    if word:
        said = refused(capsys, f"--listen={where}:0", *arguments)
        assert word in said and "--insecure" in said
        arguments.append("--insecure")
    with agent("lo", f"--listen={where}:0", *arguments) as (address, _):
        assert address.startswith(where)


def test_insecure_says_what_it_means(tmp_path):
    errors = tmp_path / "errors"
    with agent("lo", "--listen=0.0.0.0:0", "--insecure", errors=errors):
        assert "other hosts can connect, and nothing is encrypted" in errors.read_text()


@pytest.mark.parametrize("other", ["agent", "socket", "reuseport"])
def test_a_port_that_another_process_holds_is_refused(capsys, other):
    with contextlib.ExitStack() as stack:
        if other == "agent":
            address, _ = stack.enter_context(agent("lo"))
        else:
            held = stack.enter_context(socket.socket())
            if other == "reuseport":
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("127.0.0.1", 0))
            held.listen()
            address = f"127.0.0.1:{held.getsockname()[1]}"
        assert "another process listens there" in refused(capsys, "--listen", address)


def test_nobody_can_join_the_port(capsys):
    with agent("lo") as (address, _), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", int(address.rpartition(":")[2])))


def test_what_a_client_sends_at_once_is_relayed(tmp_path):
    """Python 3.11.2 reads on although it was told to pause as the connection was made."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()

    async def answers() -> list[bytes]:
        inner = await asyncio.start_unix_server(echo, tmp_path / "inner")
        way_in = door.Door(server.listen(Address("127.0.0.1", 0)), None, print)
        way_in.inner = str(tmp_path / "inner")
        serving = asyncio.create_task(way_in.serve())
        came = []
        for number in range(50):
            reader, writer = await asyncio.open_connection(*way_in.sock.getsockname())
            writer.write(b"%5d" % number)
            came.append(await asyncio.wait_for(reader.read(), 20))
            writer.close()
        serving.cancel()
        await way_in.close()
        inner.close()
        return came

    assert asyncio.run(answers()) == [b"%5d" % number for number in range(50)]


def test_a_unix_socket_is_taken_over_from_the_dead_alone(tmp_path, capsys):
    path = tmp_path / "agent.sock"
    with agent("lo", f"--listen=unix:{path}"):
        assert "another process listens there" in refused(capsys, f"--listen=unix:{path}")
    assert path.exists()  # it was killed
    with agent("lo", f"--listen=unix:{path}") as (address, process):
        with grpc.insecure_channel(address) as channel:
            assert code_of(subscribe(channel, request("ONCE"), timeout=20)) == "OK"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not path.exists()
    path.write_text("precious")
    assert "cannot listen" in refused(capsys, f"--listen=unix:{path}")
    assert path.read_text() == "precious"


# --- certificates and passwords -------------------------------------------------------------------------------------


def test_wrong_files_are_named(authority, tmp_path, capsys):
    certificate, key = authority.issue("one", ["127.0.0.1"])
    _, other = authority.issue("two", ["127.0.0.1"])
    text = tmp_path / "text"
    text.write_text("hello")

    def said(cert: Path, its_key: Path, ca: Path | None = None) -> str:
        more = ["--tls-ca", str(ca)] if ca else []
        return refused(capsys, "--tls-cert", str(cert), "--tls-key", str(its_key), *more)

    assert f"the key {other} does not belong to the certificate {certificate}" in said(certificate, other)
    assert f"{text}: no certificate in PEM" in said(text, key)
    assert f"{text}: no private key in PEM" in said(certificate, text)
    assert f"{certificate}: no private key in PEM" in said(key, certificate) + said(certificate, certificate)
    assert f"{text}: no certificate in PEM" in said(certificate, key, text)
    assert "cannot read" in said(certificate, tmp_path / "none")
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert str(broken) in said(broken, key)
    assert str(broken) in said(certificate, key, broken)


def test_an_encrypted_key_is_refused_and_not_asked_for(authority, tmp_path, capsys):
    from cryptography.hazmat.primitives import serialization as form

    certificate, key = authority.issue("locked", ["127.0.0.1"])
    plain = form.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        plain.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"x"))
    )
    assert "the key is encrypted" in refused(capsys, "--tls-cert", str(certificate), "--tls-key", str(locked))


def lines_of(path: Path, count: int) -> list[str]:
    """The lines in a file, once there are so many."""
    deadline = time.monotonic() + 30
    while len(lines := path.read_text().splitlines()) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return lines


def test_who_is_refused_by_tls_is_one_line_each(authority, tmp_path):
    certificate, key = authority.issue("agent", ["127.0.0.1"])
    foreign = Authority(tmp_path, "foreign")
    mine, my_key = authority.issue("client", [])
    strange, strange_key = foreign.issue("client", [])
    errors = tmp_path / "errors"

    def call(root: Path, shown: tuple[Path, Path] | None) -> str:
        chain = (shown[1].read_bytes(), shown[0].read_bytes()) if shown else (None, None)
        credentials = grpc.ssl_channel_credentials(root.read_bytes(), *chain)
        with grpc.secure_channel(address, credentials) as channel:
            return code_of(subscribe(channel, request("ONCE"), timeout=20))

    arguments = ["--tls-cert", str(certificate), "--tls-key", str(key), "--tls-ca", str(authority.ca)]
    with agent("lo", *arguments, errors=errors) as (address, _):
        assert call(authority.ca, (mine, my_key)) == "OK" and lines_of(errors, 0) == []
        assert call(authority.ca, (strange, strange_key)) == "UNAVAILABLE"
        assert "its client certificate is not accepted: unable to get local issuer" in lines_of(errors, 1)[0]
        assert lines_of(errors, 1)[0].startswith("mburst: 127.0.0.1:")
        seen = len(lines_of(errors, 1))
        assert call(authority.ca, None) == "UNAVAILABLE"
        assert "it shows no client certificate" in lines_of(errors, seen + 1)[seen]
        seen = len(lines_of(errors, 1))
        assert call(foreign.ca, (mine, my_key)) == "UNAVAILABLE"
        assert "not accept the certificate of this agent" in lines_of(errors, seen + 1)[seen]
        seen = len(lines_of(errors, 1))
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert "it does not speak TLS" in lines_of(errors, seen + 1)[seen]
        assert call(authority.ca, (mine, my_key)) == "OK"


def test_a_wrong_password_is_refused_and_told_and_not_shown(tmp_path):
    errors = tmp_path / "errors"
    with agent("lo", "--username=me", env={"MBURST_AGENT_PASSWORD": "right-one"}, errors=errors) as (address, _):
        with grpc.insecure_channel(address) as channel:
            for name, password, code in (
                ("me", "right-one", "OK"), ("me", "wrong-one", "UNAUTHENTICATED"), ("me", "", "UNAUTHENTICATED"),
                ("you", "right-one", "UNAUTHENTICATED"),
            ):  # fmt: skip
                given = [("username", name), ("password", password)]
                assert code_of(subscribe(channel, request("ONCE"), timeout=20, metadata=given)) == code
            for method in ("Get", "Set", "Capabilities"):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(f"/gnmi.gNMI/{method}")(b"", timeout=20)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        said = lines_of(errors, 6)
        assert len(said) == 6 and all("user or password is wrong" in line for line in said)
        assert not any(word in line for line in said for word in ("wrong-one", "right-one"))


# --- bounds ---------------------------------------------------------------------------------------------------------


def open_files(process: subprocess.Popen[str]) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def test_clients_that_read_nothing_hold_up_nobody():
    with agent("lo") as (address, _), grpc.insecure_channel(address) as channel:
        silent = [subscribe(channel, request(**fast())) for _ in range(8)]
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as other:
            reading = subscribe(other, request(**fast()), timeout=60)
            assert len([next(reading) for _ in range(200)]) == 200
            reading.cancel()
        for call in silent:
            call.cancel()


@contextlib.asynccontextmanager
async def serving(said: list[str]) -> AsyncIterator[tuple[str, server.Agent]]:
    """An agent in this process: (address, agent)."""
    watermarks = Watermarks(["lo"])
    made = server.Agent(Tree(["lo"], watermarks, {}, None), server.Entry(Address("127.0.0.1", 0)), said.append)
    address = await made.start()
    watermarks.start()
    task = asyncio.create_task(made.serve())
    try:
        yield str(address), made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        watermarks.close()


def test_a_client_that_takes_nothing_is_given_up(monkeypatch):
    """A message waits for it, and no more is made meanwhile; after a while its connection is closed."""
    monkeypatch.setattr(writer, "PATIENCE_S", 1.0)
    waiting = 0
    most = 0

    class Counted(writer.Writer):
        async def send(self, message: Any) -> None:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            try:
                await super().send(message)
            finally:
                waiting -= 1

    monkeypatch.setattr(server, "Writer", Counted)
    said: list[str] = []
    asked = request(**fast())
    for _ in range(99):
        asked.subscribe.subscription.add().CopyFrom(asked.subscribe.subscription[0])

    async def work() -> None:
        async with serving(said) as (address, made), grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream(messages.SUBSCRIBE, lambda asked: asked.SerializeToString())()
            await call.write(asked)
            while not said:
                await asyncio.sleep(0.05)
            while made.door.clients:
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(work(), 60))
    assert "disconnected: it takes no messages" in said[0]
    assert 1 < most <= 101 and waiting == 0


def fast() -> dict[str, int]:
    return {"mode": messages.STREAM_MODES.index("SAMPLE"), "sample_interval": 10_000_000}


def test_clients_that_are_killed_leave_nothing():
    """Their connections, subscriptions and watches go."""
    program = (
        "import sys, grpc; sys.path[:0] = sys.argv[2:]; import test_agent_access as t\n"
        "channel = grpc.insecure_channel(sys.argv[1])\n"
        "calls = [t.subscribe(channel, t.request(**t.fast())) for _ in range(5)]\n"
        "[next(call) for call in calls]; print('streams', flush=True)\n"
        "for _ in calls[0]: pass\n"
    )
    places = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    with agent("lo") as (address, process):
        with grpc.insecure_channel(address) as channel:
            assert code_of(subscribe(channel, request("ONCE"), timeout=20)) == "OK"
        before = open_files(process)
        for _ in range(3):
            client = subprocess.Popen(
                [sys.executable, "-c", program, address, *places], stdout=subprocess.PIPE, text=True
            )
            assert client.stdout and client.stdout.readline() == "streams\n"
            client.kill()
            client.communicate()
        deadline = time.monotonic() + 30
        while open_files(process) > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert open_files(process) <= before
        with grpc.insecure_channel(address) as channel:
            calls = [subscribe(channel, request(**fast())) for _ in range(server.MOST_CALLS)]
            assert all(next(call) for call in calls)  # the places of those that were killed are free
            with pytest.raises(grpc.RpcError) as caught:
                next(subscribe(channel, request()))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_connections_are_bounded_and_half_requests_hold_up_nobody(tmp_path):
    errors = tmp_path / "errors"
    with agent("lo", errors=errors) as (address, _), contextlib.ExitStack() as stack:
        where = ("127.0.0.1", int(address.rpartition(":")[2]))
        held = [stack.enter_context(socket.create_connection(where)) for _ in range(door.MOST_CLIENTS // 2)]
        more = [stack.enter_context(socket.create_connection(where)) for _ in range(30)]
        for one in more:
            one.settimeout(20)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        assert "clients of this host are connected" in lines_of(errors, 1)[0]
        assert len(lines_of(errors, 20)) == 20  # and no more, however often somebody comes
        for one in held:
            one.close()
        deadline, code = time.monotonic() + 30, ""
        while code != "OK" and time.monotonic() < deadline:
            with grpc.insecure_channel(address) as channel:
                code = code_of(subscribe(channel, request("ONCE"), timeout=20))
        assert code == "OK"


def test_requests_that_make_no_sense_end_their_call_alone():
    asked = messages.SubscriptionList(encoding=2)
    for _ in range(129):
        asked.subscription.add(path=as_message(parse_path("/system")))
    poll = messages.SubscribeRequest(poll={})
    with agent("lo") as (address, _), grpc.insecure_channel(address) as channel:
        assert code_of(subscribe(channel, iter(()), timeout=20)) == "OK"
        assert code_of(subscribe(channel, poll, timeout=20)) == "INVALID_ARGUMENT"
        assert code_of(subscribe(channel, messages.SubscribeRequest(subscribe=asked), timeout=20)) == (
            "RESOURCE_EXHAUSTED"
        )
        assert code_of(channel_raw(channel, b"\xff\xff\xff")) == "INVALID_ARGUMENT"
        assert code_of(channel_raw(channel, bytes(2 << 20))) == "RESOURCE_EXHAUSTED"
        assert code_of(subscribe(channel, request(path="/" + "é" * 100_000), timeout=20)) == "INVALID_ARGUMENT"
        assert code_of(subscribe(channel, request("ONCE"), timeout=20)) == "OK"


def channel_raw(channel: Any, message: bytes) -> Any:
    return channel.stream_stream(messages.SUBSCRIBE)(iter([message]), timeout=20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_heard_with_clients_that_read_and_such_as_do_not(number):
    with agent("lo") as (address, process), grpc.insecure_channel(address) as channel:
        calls = [subscribe(channel, request(**fast())) for _ in range(4)]
        assert all(next(call) for call in calls)
        process.send_signal(number)
        assert process.wait(20) == (130 if number == signal.SIGINT else 0)
        assert code_of(calls[0]) in ("UNAVAILABLE", "CANCELLED")


def test_what_all_subscriptions_follow_is_bounded(monkeypatch):
    monkeypatch.setattr(streams, "MOST_LEAVES", 30)  # lo has 17

    async def work() -> None:
        async with serving([]) as (address, made), grpc.aio.insecure_channel(address) as channel:
            begin = channel.stream_stream(messages.SUBSCRIBE, lambda asked: asked.SerializeToString())
            first, second = begin(), begin()
            await first.write(request(**fast()))
            assert await first.read()
            await second.write(request(**fast()))
            with pytest.raises(grpc.RpcError) as caught:
                await second.read()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            first.cancel()
            while made.tree.followed:
                await asyncio.sleep(0.05)
            third = begin()
            await third.write(request(**fast()))
            assert await third.read()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_clients_that_go_are_no_failures(tmp_path):
    errors = tmp_path / "errors"
    asked = request(**fast())
    for _ in range(20):
        asked.subscribe.subscription.add().CopyFrom(asked.subscribe.subscription[0])
    with agent("lo", errors=errors) as (address, process):
        for _ in range(15):
            with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                call = subscribe(channel, asked)
                assert all(next(call) for _ in range(60))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert errors.read_text() == ""


def test_queues_that_cannot_be_read_end_the_agent(monkeypatch):
    """Rather than that old depths are served."""

    async def work() -> None:
        watermarks = Watermarks(["lo"])
        made = server.Agent(Tree(["lo"], watermarks, {}, None), server.Entry(Address("127.0.0.1", 0)), print)
        watermarks.failed = made.fail
        monkeypatch.setattr(watermarks, "_read_on", lambda: 1 / 0)
        await made.start()
        watermarks.start()
        await asyncio.wait_for(made.serve(), 20)

    with pytest.raises(MburstError, match="queues cannot be read any more: division"):
        asyncio.run(work())


def test_an_agent_whose_service_or_door_ends_says_so(monkeypatch):
    """It does not go on as if it served."""

    async def work(break_it: Any) -> None:
        watermarks = Watermarks(["lo"])
        made = server.Agent(Tree(["lo"], watermarks, {}, None), server.Entry(Address("127.0.0.1", 0)), print)
        await made.start()
        watermarks.start()
        try:
            asyncio.get_running_loop().call_later(0.2, break_it, made)
            await asyncio.wait_for(made.serve(), 20)
        finally:
            watermarks.close()

    def end_service(made: server.Agent) -> None:
        made.ending = asyncio.ensure_future(made._server.stop(None))  # type: ignore[attr-defined]

    with pytest.raises(MburstError, match="does not serve any more"):
        asyncio.run(work(end_service))

    async def broken(self: door.Door) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(door.Door, "serve", broken)
    with pytest.raises(RuntimeError, match="no more"):
        asyncio.run(work(lambda made: None))


def test_a_failure_inside_ends_the_call_with_a_status(monkeypatch):
    """Whatever fails in one of a stream's parts: no silence, one line, and the other calls go on."""
    said: list[str] = []

    async def work() -> None:
        async with serving(said) as (address, made), grpc.aio.insecure_channel(address) as channel:
            begin = channel.stream_stream(
                messages.SUBSCRIBE, lambda asked: asked.SerializeToString(), messages.SubscribeResponse.FromString
            )
            calls = [begin(), begin()]
            await calls[0].write(request(**fast()))
            await calls[1].write(request(path="/system", **fast()))
            assert all([await call.read() for call in calls])
            monkeypatch.setattr(made.tree, "interface", lambda port: 1 / 0)
            with pytest.raises(grpc.RpcError) as caught:
                while await calls[0].read() is not grpc.aio.EOF:
                    pass
            assert caught.value.code() is grpc.StatusCode.INTERNAL and "ZeroDivisionError" in caught.value.details()
            assert all([await calls[1].read() for _ in range(20)])

    asyncio.run(asyncio.wait_for(work(), 60))
    [line] = said
    assert "ZeroDivisionError" in line and "127.0.0.1:" in line
