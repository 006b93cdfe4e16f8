"""Events that a collector must survive, with targets that send what a test wants, and with the switch agent."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from gnmilib import SYNC, Target, agent, collect, config, heard, lines_so_far, messages, notification, query, updated
from ports import free_port

from mburst.telemetry.gnmi import limits

DEPTH = "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=0]/state/max-queue-len"


def depths(first: int, number: int) -> list[Any]:
    return [updated(notification(time.time_ns(), {DEPTH: first + i})) for i in range(number)]


async def forever(request: Any, context: Any) -> AsyncIterator[Any]:
    """Sends a sync, then a value every 10 ms."""
    yield SYNC
    for number in range(10**6):
        for made in depths(number, 1):
            yield made
        await asyncio.sleep(0.01)


def plain(port: int) -> str:
    return f'{{address: "127.0.0.1:{port}", insecure: true}}'


def test_an_outage_of_a_target_is_one_gap_between_rows(tmp_path):
    """The target is killed at some time and comes back on the same port."""
    port = free_port()
    first, second = Target(forever, port), Target(forever, port)
    state: dict[str, Any] = {}

    def until(collector: Any) -> bool:
        if "down" not in state and heard(collector, "a") >= 20:
            first.stop()
            state["down"] = time.time_ns()
        if "down" in state and "up" not in state and time.time_ns() - state["down"] > 0.3e9:
            second.__enter__()
            state["up"] = heard(collector, "a")
        return "up" in state and heard(collector, "a") > state["up"] + 20

    with first:
        printed = collect(tmp_path, config(a=plain(port)), until)
    second.stop()
    [(gap, ends)] = query(tmp_path, "SELECT ts_ns, until_ns FROM gnmi_events WHERE event = 'gap'")
    before, inside, after = query(
        tmp_path,
        f"""SELECT count(*) FILTER (receive_ns <= {gap}), count(*) FILTER (receive_ns > {gap} AND receive_ns < {ends}),
        count(*) FILTER (receive_ns >= {ends}) FROM queues""",
    )[0]
    assert before >= 20 and inside == 0 and after >= 20 and gap <= state["down"] + 10**9 <= ends + 10**9
    flagged = query(tmp_path, "SELECT count(*) FROM queues WHERE quality & 2048 <> 0 AND max_bytes IS NOT NULL")
    assert flagged == [(1,)]
    events = [event for (event,) in query(tmp_path, "SELECT event FROM gnmi_events ORDER BY ts_ns")]
    assert events[:2] == ["connect", "sync"] and "disconnect" in events
    assert any("Connection refused" in line or "closed" in line.lower() for line in printed), printed
    assert len(printed) <= 6, printed


def test_a_killed_agent_that_comes_back_is_a_gap_without_a_reset(tmp_path):
    port = free_port()
    state: dict[str, Any] = {}

    def until(collector: Any) -> bool:
        if "killed" not in state and heard(collector, "a") > 50:
            state["process"].send_signal(signal.SIGKILL)
            state["process"].wait()
            state["killed"] = heard(collector, "a")
            state["second"] = agent("lo", f"--listen=127.0.0.1:{port}")
            state["second"].__enter__()
        return "killed" in state and heard(collector, "a") > state["killed"] + 50

    with agent("lo", f"--listen=127.0.0.1:{port}") as (address, process):
        state["process"] = process
        text = (
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
            "subscriptions: {c: {paths: [/interfaces], stream-mode: sample, sample-interval: 20ms}}\n"
        )
        collect(tmp_path, text, until)
    state["second"].__exit__(None, None, None)
    [(gaps,)] = query(tmp_path, "SELECT count(*) FROM gnmi_events WHERE event = 'gap'")
    [(flagged, resets)] = query(
        tmp_path,
        "SELECT count(*) FILTER (quality & 2048 <> 0), count(*) FILTER (quality & 512 <> 0)"
        " FROM ports WHERE out_bytes IS NOT NULL",
    )
    assert gaps == 1 and flagged >= 1 and resets == 0  # the kernel continued to count


def test_a_stream_that_the_target_closes_is_begun_again(tmp_path):
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        for made in [SYNC, *depths(0, 3), SYNC]:  # the sync may come first, and again
            yield made

    with Target(script) as target:
        printed = collect(tmp_path, config(a=plain(target.port)), lambda collector: heard(collector, "a") >= 9)
    assert len(printed) >= 3 and printed == ["a: q: the target closed the stream", "a: q: receives again"] * (
        len(printed) // 2
    ) + ["a: q: the target closed the stream"] * (len(printed) % 2)
    assert query(tmp_path, "SELECT count(*) >= 6 FROM queues") == [(True,)]
    assert query(tmp_path, "SELECT count(*) >= 2 FROM gnmi_events WHERE event = 'gap'") == [(True,)]


@pytest.mark.parametrize("set_by_s", [0, -3600])
def test_a_stream_that_falls_silent_is_begun_again(tmp_path, monkeypatch, set_by_s):
    """The clock may be set meanwhile."""
    monkeypatch.setattr("mburst.telemetry.gnmi.session.LEAST_WATCH_S", 0.3)
    real, begun = time.time_ns, threading.Event()
    monkeypatch.setattr(time, "time_ns", lambda: real() + begun.is_set() * set_by_s * 10**9)

    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        for made in depths(0, 2):
            yield made
        begun.set()
        await asyncio.sleep(60)

    with Target(script) as target:
        printed = collect(tmp_path, config(a=plain(target.port)), lambda collector: len(target.requests) >= 2)
    assert printed[0] == "a: q: nothing came for three sample intervals"


def test_the_request_stays_open_while_it_is_answered(tmp_path):
    """Some targets take the end of the requests for the end of the subscription."""
    ended: list[int] = []

    def until(collector: Any) -> bool:
        if heard(collector, "a") < 20:
            return False
        ended.append(target.requests_ended)
        return True

    with Target(forever) as target:
        printed = collect(tmp_path, config(a=plain(target.port)), until)
    assert ended == [0] and not printed


class Garbage:
    """A message that is not of gNMI."""

    def SerializeToString(self) -> bytes:
        return b"\xff" * 20


def test_an_invalid_message_is_counted_and_does_not_end_the_stream(tmp_path):
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        yield depths(0, 1)[0]
        yield Garbage()
        async for made in forever(request, context):
            yield made

    with Target(script) as target:
        printed = collect(tmp_path, config(a=plain(target.port)), lambda collector: heard(collector, "a") >= 5)
    event_rows = query(tmp_path, "SELECT amount, detail FROM gnmi_events WHERE event = 'not-understood'")
    assert event_rows == [(1, "a message that is no SubscribeResponse")] and not printed


def test_many_targets_are_read_at_once(tmp_path):
    """There are more targets than a thread pool has threads; each has its rows."""
    names = [f"t{number}" for number in range(40)]
    with Target(forever) as target:
        collect(
            tmp_path,
            config(**{name: plain(target.port) for name in names}),
            lambda collector: all(heard(collector, name) >= 3 for name in names),
        )
    found = query(tmp_path, "SELECT count(DISTINCT device), count(*) FROM queues WHERE max_bytes IS NOT NULL")
    assert found[0][0] == 40 and found[0][1] >= 120


def test_pauses_grow_and_are_jittered(monkeypatch):
    """Pauses grow up to `retry`, each randomly shortened by up to a half, so that collectors do not reconnect in
    step."""
    from mburst.telemetry.gnmi import session as module
    from mburst.telemetry.gnmi.config import GnmiTarget as Configured

    jittered = module._jittered
    shown = {jittered(4.0) for _ in range(50)}
    assert len(shown) > 10 and all(2.0 <= pause <= 4.0 for pause in shown)
    pauses: list[float] = []

    class Enough(Exception):
        pass

    def note(pause_s: float) -> float:
        pauses.append(pause_s)
        if len(pauses) == 6:
            raise Enough
        return 0.0

    async def lost(self: Any) -> Any:
        return module.StreamEnd("lost")

    monkeypatch.setattr(module, "_jittered", note)
    monkeypatch.setattr(module.DeviceSession, "_connection", lost)
    wanted = Configured("a", "127.0.0.1:1", (), insecure=True, retry_s=5.0)
    with pytest.raises(Enough):
        asyncio.run(module.DeviceSession(wanted, None, (), print).run())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(("text", "expected"), [("", None), (", grpc-keepalive: {time: 30s}", 30_000)])
def test_keepalive_is_off_unless_it_is_configured(tmp_path, monkeypatch, text, expected):
    """Servers in Go end a connection that pings more often than every five minutes, unless they are configured
    otherwise."""
    import grpc

    opened: list[dict[str, Any]] = []
    plainly = grpc.insecure_channel

    def noted(address: str, options: Any = None, **more: Any) -> Any:
        opened.append(dict(options))
        return plainly(address, options=options, **more)

    monkeypatch.setattr(grpc, "insecure_channel", noted)
    with Target(forever) as target:
        wanted = plain(target.port)[:-1] + text + "}"
        collect(tmp_path, config(a=wanted), lambda collector: heard(collector, "a") >= 1)
    assert opened[0].get("grpc.keepalive_time_ms") == expected
    assert opened[0]["grpc.max_receive_message_length"] == limits.MESSAGE_BYTES


def refuse(code: str, words: str) -> Any:
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        import grpc

        await context.abort(getattr(grpc.StatusCode, code), words)
        yield SYNC

    return script


@pytest.mark.parametrize(("code", "words", "line"), [
    ("INVALID_ARGUMENT", "sample interval 100ms is below 1s", "sample interval 100ms is below 1s"),
    ("NOT_FOUND", "no path /qos", "no path /qos"),
    ("UNAUTHENTICATED", "who are you", "user or password is refused: who are you"),
    ("PERMISSION_DENIED", "", "not permitted"),
    ("UNIMPLEMENTED", "STREAM", "not implemented by the target: STREAM"),
])  # fmt: skip
def test_a_refusal_is_one_line_and_other_targets_continue(tmp_path, code, words, line):
    with Target(refuse(code, words)) as bad, Target(forever) as good:
        printed = collect(
            tmp_path,
            config(bad=plain(bad.port), good=plain(good.port)),
            lambda collector: heard(collector, "good") >= 100,
        )
    assert printed == [f"bad: q: {line}"] and len(bad.requests) == 1
    assert query(tmp_path, "SELECT device, detail FROM gnmi_events WHERE event = 'refused'") == [("bad", line)]


@pytest.mark.parametrize(("has", "refused", "asked"), [
    (None, (), ["PROTO"]), (None, ("PROTO",), ["PROTO", "JSON_IETF"]), (["JSON_IETF", "JSON"], (), ["JSON_IETF"]),
    (["JSON"], (), ["JSON"]),
])  # fmt: skip
def test_the_encoding_is_one_that_the_target_supports(tmp_path, has, refused, asked):
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        import grpc

        name = messages.ENCODINGS[request.subscribe.encoding]
        if name in refused:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"encoding {name} not supported")
        async for made in forever(request, context):
            yield made

    with Target(script, encodings=has) as target:
        printed = collect(tmp_path, config(a=plain(target.port)), lambda collector: heard(collector, "a") >= 3)
    assert [messages.ENCODINGS[request.subscribe.encoding] for request in target.requests] == asked and not printed
    assert not any(request.subscribe.HasField("qos") for request in target.requests)


def test_the_vendor_is_recognized_by_its_models(tmp_path):
    with Target(forever, encodings=["PROTO"], models=["openconfig-qos", "urn:srl_nokia/qos:srl_nokia-qos"]) as target:
        collect(tmp_path, config(a=plain(target.port)), lambda collector: heard(collector, "a") >= 3)
    assert query(tmp_path, "SELECT count(*) FROM queues") == [(0,)]  # max-queue-len is the configured size there
    assert query(tmp_path, "SELECT count(*) >= 3 FROM gnmi_values") == [(True,)]


def test_large_messages_and_many_subscriptions(tmp_path):
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        blob = messages.TypedValue(bytes_val=bytes(128 << 10))
        yield updated(notification(time.time_ns(), {f"/blob{number}": blob for number in range(100)}))  # 13 MB
        yield updated(notification(time.time_ns(), {"/blob": messages.TypedValue(bytes_val=bytes(8 << 20))}))
        async for made in forever(request, context):
            yield made

    text = (
        "subscriptions:\n  b: {paths: [/a, /b], stream-mode: on-change, heartbeat-interval: 30s, updates-only: true}\n"
        "  c: {paths: ['openconfig:/c[k=v]'], prefix: /top, set-target: true, qos: 10}\n"
    )
    with Target(script) as target:
        collect(
            tmp_path, f"targets: {{a: {plain(target.port)}}}\n{text}", lambda collector: heard(collector, "a") >= 206
        )
    b, c = sorted(
        (request.subscribe for request in target.requests), key=lambda one: len(one.subscription), reverse=True
    )
    assert [part.mode for part in b.subscription] == [1, 1] and b.updates_only and not b.HasField("prefix")
    assert (c.prefix.target, c.prefix.elem[0].name, c.qos.marking) == ("a", "top", 10)
    assert (c.subscription[0].path.origin, dict(c.subscription[0].path.elem[0].key)) == ("openconfig", {"k": "v"})
    assert query(tmp_path, "SELECT length(value), count(*) % 100 FROM gnmi_values GROUP BY ALL") == [(256 << 10, 0)]
    event_rows = query(tmp_path, "SELECT DISTINCT detail FROM gnmi_events WHERE event = 'dropped'")
    assert event_rows == [("a value of more than 256 kB",)]


def test_a_message_beyond_the_limit_is_reported_with_the_remedy(tmp_path):
    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        yield updated(notification(time.time_ns(), {"/blob": messages.TypedValue(bytes_val=bytes(200_000))}))
        await asyncio.sleep(60)

    with Target(script) as bad, Target(forever) as good:
        text = config(bad=plain(bad.port), good=plain(good.port)) + "mburst: {message: 128k}\n"
        printed = collect(tmp_path, text, lambda collector: heard(collector, "good") >= 50 and lines_so_far(collector))
    assert len(printed) == 1 and "a message beyond `mburst: message:`" in printed[0], printed


def test_a_stalled_store_drops_and_counts_rows_within_its_bound(tmp_path, monkeypatch):
    """The disk stalls for a while: the stream is read on, rows that do not fit are counted, and storing continues
    afterwards."""
    from mburst.sql.writer import TableWriter

    append, stalled = TableWriter.append, {"until": 0.0}

    def slow(self: Any, batch: Any) -> None:
        if self._table == "gnmi_values":
            time.sleep(max(0.0, stalled["until"] - time.monotonic()))
        append(self, batch)

    monkeypatch.setattr(TableWriter, "append", slow)

    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        yield SYNC
        while True:
            yield updated(notification(time.time_ns(), {f"/x{i}": "y" * 900 for i in range(50)}))
            await asyncio.sleep(0.001)

    started = time.monotonic()
    stalled["until"] = started + 2.5
    state: dict[str, Any] = {}

    def until(collector: Any) -> bool:
        writing = collector.writing
        state["waiting"] = max(state.get("waiting", 0), writing.waiting_bytes)
        state["collector"] = collector
        return time.monotonic() > started + 4

    with Target(script) as target:
        text = config(a=plain(target.port)) + "mburst: {buffer: 1M}\n"
        collect(tmp_path, text, until)
    [(kept,)] = query(tmp_path, "SELECT count(*) FROM gnmi_values")
    [(event_rows,)] = query(tmp_path, "SELECT sum(amount)::BIGINT FROM gnmi_events WHERE event = 'dropped'")
    collector = state["collector"]
    assert collector.writing.dropped.total() == event_rows > 0 and state["waiting"] <= 32 << 20
    assert kept > 0 and kept + event_rows == heard(collector, "a")  # every row is either stored or counted


def test_a_store_that_cannot_be_written_ends_the_collection_in_one_line(tmp_path, monkeypatch):
    from mburst.errors import MburstError
    from mburst.sql.writer import TableWriter

    def full(self: Any, batch: Any) -> None:
        raise MburstError("store/hot: cannot write: No space left on device")

    monkeypatch.setattr(TableWriter, "append", full)
    with Target(forever) as target, pytest.raises(MburstError, match="No space left"):
        collect(tmp_path, config(a=plain(target.port)), lambda collector: False)
