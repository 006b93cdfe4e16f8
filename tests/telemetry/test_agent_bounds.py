"""The cost of clients of the switch agent is bounded, and the agent ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from gnmilib import agent, messages
from places import ROOT
from test_agent_access import code_of, lines_of, request, subscribe

from mburst.errors import MburstError
from mburst.gnmi_target import server, streams, writer
from mburst.gnmi_target.tree import Tree
from mburst.gnmi_target.watermarks import Watermarks
from mburst.listening import door
from mburst.listening.addresses import Address
from mburst.telemetry.gnmi.path import as_message
from mburst.telemetry.gnmi.path import parse as parse_path


def open_files(process: subprocess.Popen[str]) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def test_clients_that_read_nothing_do_not_block_others():
    with agent("lo") as (address, _), grpc.insecure_channel(address) as channel:
        silent = [subscribe(channel, request(**fast())) for _ in range(8)]
        with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as other:
            reading = subscribe(other, request(**fast()), timeout=60)
            assert len([next(reading) for _ in range(200)]) == 200
            reading.cancel()
        for call in silent:
            call.cancel()


@contextlib.asynccontextmanager
async def serving(lines: list[str]) -> AsyncIterator[tuple[str, server.TargetServer]]:
    """Runs an agent in this process; yields (address, agent)."""
    watermarks = Watermarks(["lo"])
    made = server.TargetServer(
        Tree(["lo"], watermarks, {}, None), server.Endpoint(Address("127.0.0.1", 0)), lines.append
    )
    address = await made.start()
    watermarks.start()
    task = asyncio.create_task(made.serve())
    try:
        yield str(address), made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        watermarks.close()


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch):
    """While a message waits for the client, no more are made; after a while its connection is closed."""
    monkeypatch.setattr(writer, "PATIENCE_S", 1.0)
    waiting = 0
    most = 0

    class Counted(writer.MessageWriter):
        async def send(self, message: Any) -> None:
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            try:
                await super().send(message)
            finally:
                waiting -= 1

    monkeypatch.setattr(server, "MessageWriter", Counted)
    lines: list[str] = []
    asked = request(**fast())
    for _ in range(99):
        asked.subscribe.subscription.add().CopyFrom(asked.subscribe.subscription[0])

    async def work() -> None:
        async with serving(lines) as (address, made), grpc.aio.insecure_channel(address) as channel:
            call = channel.stream_stream(messages.SUBSCRIBE, lambda asked: asked.SerializeToString())()
            await call.write(asked)
            while not lines:
                await asyncio.sleep(0.05)
            while made.door.clients:
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(work(), 60))
    assert "disconnected: it does not read messages" in lines[0]
    assert 1 < most <= 101 and waiting == 0


def fast() -> dict[str, int]:
    return {"mode": messages.STREAM_MODES.index("SAMPLE"), "sample_interval": 10_000_000}


def test_killed_clients_leave_nothing():
    """Their connections, subscriptions and watches are removed."""
    program = (
        "import sys, grpc; sys.path[:0] = sys.argv[2:]; import test_agent_bounds as t\n"
        "channel = grpc.insecure_channel(sys.argv[1])\n"
        "calls = [t.subscribe(channel, t.request(**t.fast())) for _ in range(5)]\n"
        "[next(call) for call in calls]; print('streams', flush=True)\n"
        "for _ in calls[0]: pass\n"
    )
    places = [str(Path(__file__).parent), str(ROOT / "tests" / "lib")]
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
            assert all(next(call) for call in calls)  # the places of the killed clients are free
            with pytest.raises(grpc.RpcError) as caught:
                next(subscribe(channel, request()))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_connections_are_bounded_and_half_requests_do_not_block_others(tmp_path):
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
        assert len(lines_of(errors, 20)) == 20  # and no more, however often clients connect
        for one in held:
            one.close()
        deadline, code = time.monotonic() + 30, ""
        while code != "OK" and time.monotonic() < deadline:
            with grpc.insecure_channel(address) as channel:
                code = code_of(subscribe(channel, request("ONCE"), timeout=20))
        assert code == "OK"


def test_invalid_requests_end_only_their_call():
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
def test_a_signal_ends_an_agent_with_reading_and_silent_clients(number):
    with agent("lo") as (address, process), grpc.insecure_channel(address) as channel:
        calls = [subscribe(channel, request(**fast())) for _ in range(4)]
        assert all(next(call) for call in calls)
        process.send_signal(number)
        assert process.wait(20) == (130 if number == signal.SIGINT else 0)
        assert code_of(calls[0]) in ("UNAVAILABLE", "CANCELLED")


def test_the_leaves_of_all_subscriptions_are_bounded(monkeypatch):
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


def test_clients_that_disconnect_are_not_reported(tmp_path):
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


def test_unreadable_queues_end_the_agent(monkeypatch):
    """Otherwise it would serve outdated depths."""

    async def work() -> None:
        watermarks = Watermarks(["lo"])
        made = server.TargetServer(Tree(["lo"], watermarks, {}, None), server.Endpoint(Address("127.0.0.1", 0)), print)
        watermarks.failed = made.fail
        monkeypatch.setattr(watermarks, "_read_on", lambda: 1 / 0)
        await made.start()
        watermarks.start()
        await asyncio.wait_for(made.serve(), 20)

    with pytest.raises(MburstError, match="queues cannot be read any more: division"):
        asyncio.run(work())


def test_an_agent_whose_service_or_relay_ends_reports_it(monkeypatch):
    """It does not continue as if it served."""

    async def work(break_it: Any) -> None:
        watermarks = Watermarks(["lo"])
        made = server.TargetServer(Tree(["lo"], watermarks, {}, None), server.Endpoint(Address("127.0.0.1", 0)), print)
        await made.start()
        watermarks.start()
        try:
            asyncio.get_running_loop().call_later(0.2, break_it, made)
            await asyncio.wait_for(made.serve(), 20)
        finally:
            watermarks.close()

    def end_service(made: server.TargetServer) -> None:
        made.ending = asyncio.ensure_future(made._server.stop(None))  # type: ignore[attr-defined]

    with pytest.raises(MburstError, match="has stopped serving"):
        asyncio.run(work(end_service))

    async def broken(self: door.ConnectionRelay) -> None:
        raise RuntimeError("no more")

    monkeypatch.setattr(door.ConnectionRelay, "serve", broken)
    with pytest.raises(RuntimeError, match="no more"):
        asyncio.run(work(lambda made: None))


INTERRUPTED = """
import asyncio, contextlib, gc, os, signal, sys
from mburst.process import privileges
from mburst.__main__ import command
from mburst.cli import collect_show, switch_agent
from mburst.otlp_receiver.service import OtlpService

def interrupt(*given):
    os.kill(os.getpid(), signal.SIGINT)

async def begun(self, start=OtlpService.start):
    interrupt()
    await start(self)

@contextlib.contextmanager
def stopping(stop, real=switch_agent.stopping):
    with real(stop) as ended_by:
        interrupt()
        yield ended_by

class Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        interrupt()

place = sys.argv.pop(1)
if place == "making":
    asyncio.DefaultEventLoopPolicy._loop_factory = Loop
elif place == "between":
    privileges.settle_listening = interrupt
elif place == "serving":
    switch_agent.stopping = stopping
else:
    OtlpService.start = begun
code = command()
gc.collect()
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("making", ["switch-agent", "lo", "--listen", "127.0.0.1:0", "--insecure"]),
        ("making", ["collect", "otlp.yaml", "--show", "--duration", "5s"]),
        ("between", ["switch-agent", "lo", "--listen", "127.0.0.1:0", "--insecure"]),
        ("serving", ["switch-agent", "lo", "--listen", "127.0.0.1:0", "--insecure"]),
        ("otlp", ["collect", "otlp.yaml", "--show", "--duration", "5s"]),
    ],
)
def test_an_interrupt_while_it_starts_to_serve_prints_no_traceback(tmp_path, place, words):
    """Objects that were not closed or only half made gave a traceback when Python freed them."""
    (tmp_path / "otlp.yaml").write_text("otlp:\n  listen: 127.0.0.1:0\n")
    command = [sys.executable, "-P", "-c", INTERRUPTED, place, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 130 and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr


def test_sigterm_prints_nothing_about_half_made_objects(tmp_path):
    script = """
import gc, os, signal
from mburst.process import interrupting

class Half:
    def __init__(self):
        os.kill(os.getpid(), signal.SIGTERM)
    def __del__(self):
        self.what_is_not_there

interrupting.own_process()
try:
    Half()
except KeyboardInterrupt:
    print("ended")
gc.collect()
"""
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_an_internal_failure_ends_the_call_with_a_status(monkeypatch):
    """A failure in any part of a stream gives a status and one line, and other calls continue."""
    lines: list[str] = []

    async def work() -> None:
        async with serving(lines) as (address, made), grpc.aio.insecure_channel(address) as channel:
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
    [line] = lines
    assert "ZeroDivisionError" in line and "127.0.0.1:" in line


def test_data_that_a_client_sends_at_once_is_relayed(tmp_path):
    """Python 3.11.2 continues to read although it was asked to pause when the connection was made."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()

    async def answers() -> list[bytes]:
        inner = await asyncio.start_unix_server(echo, tmp_path / "inner")
        listener = server.listen(Address("127.0.0.1", 0))
        way_in = door.ConnectionRelay(listener.sock, None, print)
        way_in.inner = str(tmp_path / "inner")
        assert listener.sock.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY by it: else answers wait for 40 ms"
        serving = asyncio.create_task(way_in.serve())
        came = []
        for number in range(50):
            reader, writer = await asyncio.open_connection(listener.address.host, listener.address.port)
            writer.write(b"%5d" % number)
            came.append(await asyncio.wait_for(reader.read(), 20))
            writer.close()
        serving.cancel()
        await way_in.close()
        listener.close()
        inner.close()
        return came

    assert asyncio.run(answers()) == [b"%5d" % number for number in range(50)]
