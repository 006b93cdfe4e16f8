"""A device may send anything, and harms only itself. test_gnmi_limits.py tests what this costs."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from gnmilib import SYNC, T0, Fed, S, Target, collect, config, heard, notification, query, read, updated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_gnmi_messages import field, varint

from mburst.__main__ import main
from mburst.sql.writer import conform
from mburst.telemetry.gnmi import limits, messages, values
from mburst.telemetry.gnmi.deletes import Branches
from mburst.telemetry.gnmi.entities import parse_speed
from mburst.telemetry.gnmi.path import as_message, covers, parse

DEPTH = "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=0]/state/max-queue-len"
LANZ = "/LANZ/congestion/congestionRecord"
NEIGHBOUR = "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id={}]/state/system-name"
SECRET = "s3cret-value"


# --- raw notifications ----------------------------------------------------------------------------------------------


def path_bytes(text: str) -> bytes:
    return bytes(as_message(parse(text)).SerializeToString())


def update_bytes(path: bytes, val: bytes = field(3, 7), value: bytes = b"") -> bytes:
    """Returns a ReadUpdate from the bytes of a path, of a TypedValue and of an old Value."""
    return field(1, path) + (field(2, value) if value else b"") + (field(3, val) if val else b"")


def note_bytes(*updates: bytes, ts_ns: int = T0, prefix: bytes = b"", deletes: tuple[bytes, ...] = ()) -> bytes:
    made = field(1, ts_ns % 2**64) + (field(2, prefix) if prefix else b"")
    return made + b"".join(field(4, one) for one in updates) + b"".join(field(5, one) for one in deletes)


def decimal(precision: int, digits: int = 1) -> bytes:
    return field(7, field(1, digits % 2**64) + field(2, precision))


def known(count: int) -> list[bytes]:
    return [path_bytes(f"/x[k={number}]/y") for number in range(count)]


def js(value: Any) -> bytes:
    return field(11, (value if isinstance(value, str) else json.dumps(value)).encode())


GOOD = update_bytes(path_bytes(DEPTH), field(3, 4711))
NINES = "9" * 300
SPEED = path_bytes("/interfaces/interface[name=e1]/ethernet/state/port-speed")
OCTETS = path_bytes("/interfaces/interface[name=e1]/state/counters/out-octets")
SHAPES = {
    "a path that is none": update_bytes(b"\xff\xff\xff"),
    "a path cut short": update_bytes(path_bytes(DEPTH)[:-3]),
    "an old element that cannot be read": update_bytes(field(1, b"a[b")),
    "an old element of keys alone": update_bytes(field(1, b"[a=b]")),
    "a path of 100 kB": update_bytes(path_bytes("/" + "x" * 100_000)),
    "a path of many steps": update_bytes(path_bytes("/a" * 600)),
    "an old value of an unknown type": update_bytes(path_bytes("/a"), b"", field(1, b"1") + field(2, 77)),
    "an old value of a negative type": update_bytes(path_bytes("/a"), b"", field(1, b"1") + field(2, 2**64 - 3)),
    "a decimal of impossible precision": update_bytes(path_bytes("/a"), decimal(2**32 - 1)),
    "such a decimal in a list": update_bytes(path_bytes("/a"), field(8, field(1, decimal(2**32 - 1)))),
    "a speed of 300 digits": update_bytes(SPEED, field(1, f"SPEED_{NINES}TB".encode())),
    "a speed beyond 64 bits": update_bytes(SPEED, js(10**300)),
    "a negative speed": update_bytes(SPEED, js(-5)),
    "LANZ with a time of 300 digits": update_bytes(
        path_bytes(LANZ), js({"intfName": "e1", "trafficClass": "1", "timestamp": NINES, "queueSize": "1"})),
    "LANZ with a depth of 300 digits": update_bytes(
        path_bytes(LANZ), js({"intfName": "e1", "trafficClass": "1", "timestamp": 1, "queueSize": int(NINES)})),
    "LANZ whose names are trees": update_bytes(
        path_bytes(LANZ), js({"intfName": [[1]], "trafficClass": 2.5, "timestamp": "1", "queueSize": True})),
    "a counter beyond 64 bits": update_bytes(OCTETS, js(2**70)),
    "a counter that is negative": update_bytes(OCTETS, js(-(2**70))),
    "a counter that is NaN": update_bytes(OCTETS, js("NaN")),
    "a depth that is infinite": update_bytes(path_bytes(DEPTH.replace("e1", "e2")), js("Infinity")),
    "a float that is infinite": update_bytes(OCTETS, varint(6 << 3 | 5) + struct.pack("<f", float("inf"))),
    "a double that is NaN": update_bytes(OCTETS, varint(14 << 3 | 1) + struct.pack("<d", float("nan"))),
    "a boot time of 300 digits": update_bytes(path_bytes("/system/state/boot-time"), js(NINES)),
    "a boot time in the year 9999": update_bytes(path_bytes("/system/state/boot-time"), js("9999-12-31T00:00:00Z")),
    "an alias that is a tree": update_bytes(
        path_bytes("/qos/interfaces/interface[interface-id=e1]/interface-ref/state/interface"), js(["x" * 5000])),
    "half a character, escaped": update_bytes(path_bytes("/a"), js('"\\ud800"')),
    "half a character, raw": update_bytes(path_bytes("/a"), field(11, b'"\xed\xa0\x80"')),
    "JSON of 5000 levels": update_bytes(path_bytes("/a"), js("[" * 5000 + "]" * 5000)),
    "objects of 900 levels": update_bytes(path_bytes("/a"), js('{"a":' * 900 + "1" + "}" * 900)),
    "lists of 900 levels": update_bytes(path_bytes("/a"), js("[" * 900 + "]" * 900)),
    "a key of 1 MB": update_bytes(path_bytes("/a"), js({"x" * 10**6: 1})),
    "a number of 5000 digits": update_bytes(path_bytes("/a"), js("9" * 5000)),
    "a text of 1 MB": update_bytes(path_bytes("/a"), field(1, b"x" * 10**6)),
    "a list of 20,000": update_bytes(path_bytes("/a"), field(8, field(1, field(3, 1)) * 20_000)),
    "JSON of a million parts": update_bytes(path_bytes("/a"), js("[" + "1," * 10**6 + "1]")),
}  # fmt: skip


def stored(fed: Fed) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows by table, in the form in which the store takes them."""
    fed.stream.flush()
    fed.device.report(T0)
    found = {}
    for table, rows in fed.rows.take():
        taken = conform(rows, table, None)
        taken.validate(full=True)
        found[table] = taken.to_pylist()
    assert not fed.rows.refused()  # such rows would be refused only after an unforeseen failure
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_an_invalid_update_affects_only_itself(shape):
    """The other updates of the message, and the next message, are stored."""
    fed = Fed("arista")
    for ts_ns in (T0, T0 + S):
        fed.stream.feed(messages.ReadNotification.FromString(note_bytes(SHAPES[shape], GOOD, ts_ns=ts_ns)), T0 + S)
    taken = stored(fed)
    assert [row["max_bytes"] for row in taken["queues"] if row["port"] == "e1" and row["queue"] == "0"] == [4711] * 2
    details = [row["detail"] for row in taken.get("gnmi_events", ())]
    assert not any("999" in line or "x" * 20 in line for line in details), details  # without the values


@pytest.mark.parametrize("wrong", [{"prefix": b"\xff\xff"}, {"prefix": field(1, b"a[b")}, {"deletes": (b"\xff",)},
                                   {"ts_ns": -1}, {"ts_ns": 2**63 - 1}, {"ts_ns": 0}])  # fmt: skip
def test_an_invalid_notification_affects_only_itself(wrong):
    fed = Fed()
    for raw in (note_bytes(GOOD, **wrong), note_bytes(GOOD, ts_ns=T0 + S)):
        fed.stream.feed(messages.ReadNotification.FromString(raw), T0 + S)
    taken = stored(fed)
    assert taken["queues"][-1]["max_bytes"] == 4711
    assert sum(row["amount"] for row in taken["gnmi_events"] if row["event"] == "not-understood") == 1


def wire(depth: int = 3) -> Any:
    """Returns bytes that look more or less like protobuf."""
    leaf = st.one_of(
        st.integers(0, 2**64 - 1),
        st.binary(max_size=12),
        st.sampled_from(
            [
                path_bytes(DEPTH),
                OCTETS,
                SPEED,
                path_bytes(LANZ),
                b"a[b",
                b"[",
                NINES.encode(),
                json.dumps({"timestamp": NINES, "intfName": "e"}).encode(),
            ]
        ),
    )
    inner = leaf if not depth else st.one_of(leaf, wire(depth - 1))
    return st.lists(st.tuples(st.integers(1, 14), inner), max_size=4).map(
        lambda fields: b"".join(field(number, value) for number, value in fields)
    )


RAW = st.one_of(
    st.binary(max_size=40),
    wire(),
    st.tuples(
        wire(1),
        st.lists(st.one_of(st.sampled_from([*SHAPES.values()][:24]), wire(2)), max_size=3),
        st.sampled_from([T0, T0 + S, 0]),
    ).map(lambda parts: note_bytes(*parts[1], ts_ns=parts[2], prefix=parts[0])),
)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(RAW, max_size=5), st.sampled_from(["", "arista", "sonic", "srlinux", "juniper"]))
def test_no_bytes_make_it_fail(raw, vendor):
    from google.protobuf.message import DecodeError

    fed = Fed(vendor)
    for one in raw:
        try:
            made = messages.ReadNotification.FromString(one)
        except DecodeError:
            continue
        fed.stream.feed(made, T0 + S)
    fed.stream.resume(T0)
    fed.stream.sync()
    fed.stream.feed(read(notification(T0 + 9 * S, {"/after/all": 1})), T0 + 9 * S)
    taken = stored(fed)
    assert (taken["gnmi_values"][-1]["path"], taken["gnmi_values"][-1]["ts_ns"]) == ("/after/all", T0 + 9 * S)
    assert all(row["window_start_ns"] <= row["ts_ns"] for row in taken.get("queues", ()))


def test_no_changed_bytes_make_parsing_fail():
    """Some bytes of valid notifications are flipped, cut or joined, in some thousand tries."""
    from google.protobuf.message import DecodeError

    rng = random.Random(1)
    seeds = [note_bytes(shape, GOOD) for shape in SHAPES.values() if len(shape) < 5000]
    fed, parsed = Fed("arista"), 0
    for _ in range(4000):
        made = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 6)):
            made[rng.randrange(len(made))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        if rng.random() < 0.3:
            made = made[: rng.randrange(len(made))] + rng.choice(seeds)[rng.randrange(20) :]
        try:
            notification_ = messages.ReadNotification.FromString(bytes(made))
        except DecodeError:
            continue
        parsed += 1
        fed.stream.feed(notification_, T0 + parsed)
    fed.stream.sync()
    taken = stored(fed)
    assert parsed > 500 and len(taken["queues"]) > 100


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.text(max_size=80),
        st.integers(),
        st.floats(),
        st.none(),
        st.booleans(),
        st.decimals(allow_nan=False),
        st.text("0123456789.kKMGTB_SPED", max_size=80),
    )
)
def test_a_number_is_one_that_a_row_can_hold_or_none(value):
    number, speed = values.as_integer(value), parse_speed(value)
    assert number is None or (type(number) is int and -(2**63) <= number < 2**64)
    assert speed is None or (type(speed) is int and 0 <= speed < 2**63)


def test_a_long_run_of_digits_costs_little():
    """There is no search that begins again at each digit, and no conversion of all digits."""
    begun = time.process_time()
    assert parse_speed("9" * 200_000) is None and values.as_integer("9" * 200_000) is None
    assert time.process_time() - begun < 5


STEP = st.tuples(
    st.sampled_from(["a", "b", "m:a", "*"]),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from("12*"), max_size=2).map(
        lambda keys: tuple(sorted(keys.items()))
    ),
)
STEPS = st.lists(STEP, max_size=4).map(tuple)


@settings(deadline=None, max_examples=500)
@given(st.lists(STEPS, max_size=6), STEPS)
def test_deletes_are_looked_up_as_if_each_were_compared(deletes, steps):
    steps = tuple(
        (name.replace("*", "c"), tuple((key, value.replace("*", "3")) for key, value in keys)) for name, keys in steps
    )
    assert Branches(deletes).cover(steps) == any(covers(path, steps) for path in deletes)


def test_deletes_of_too_many_shapes_are_counted():
    names = [f"k{number}" for number in range(200)]
    fed = Fed().feed(notification(T0, {"/a": 1}), notification(T0 + 1, {}, deletes=[f"/a[{name}=1]" for name in names]))
    [event] = fed.take()["gnmi_events"]
    assert event["event"] == "dropped" and event["amount"] == 200 - limits.DELETE_SHAPES


class Raw:
    """A message that consists of given bytes."""

    def __init__(self, notification: bytes) -> None:
        self._bytes = field(1, notification)

    def SerializeToString(self) -> bytes:
        return self._bytes


def plain(port: int) -> str:
    return f'{{address: "127.0.0.1:{port}", insecure: true}}'


async def steady(request: Any, context: Any) -> AsyncIterator[Any]:
    """Sends a sync, then a value every 10 ms."""
    yield SYNC
    for number in itertools.count():
        yield updated(notification(time.time_ns(), {DEPTH: number}))
        await asyncio.sleep(0.01)


def test_a_device_with_invalid_messages_does_not_end_others(tmp_path):
    """Its own subscription continues, too."""

    async def script(request: Any, context: Any) -> AsyncIterator[Any]:
        for shape in itertools.cycle(SHAPES.values()):
            yield Raw(note_bytes(shape, GOOD, ts_ns=time.time_ns()))
            await asyncio.sleep(0.005)

    state: dict[str, int] = {}

    def until(collector: Any) -> bool:
        if heard(collector, "bad") > 4 * len(SHAPES):
            state.setdefault("good", heard(collector, "good"))
        return "good" in state and heard(collector, "good") > state["good"] + 50

    with Target(script) as bad, Target(steady) as good:
        printed = collect(tmp_path, config(bad=plain(bad.port), good=plain(good.port)), until)
    assert printed == [] and len(bad.requests) == len(good.requests) == 1
    kept = dict(query(tmp_path, "SELECT device, count(*) FROM queues WHERE max_bytes = 4711 GROUP BY device"))
    assert kept["bad"] >= 2 * len(SHAPES)


def test_with_once_a_failing_target_affects_only_itself(tmp_path, capsys):
    async def bad(request: Any, context: Any) -> AsyncIterator[Any]:
        for shape in SHAPES.values():
            yield Raw(note_bytes(shape, GOOD))
        yield Raw(note_bytes(*(update_bytes(path) for path in known(60_000))))

    async def good(request: Any, context: Any) -> AsyncIterator[Any]:
        yield updated(notification(T0, {DEPTH: 4242}))
        yield SYNC

    with Target(bad) as one, Target(good) as other:
        path = tmp_path / "gnmi.yaml"
        patient = plain(one.port)[:-1] + ", timeout: 120s}"
        path.write_text(config(bad=patient, good=plain(other.port)))
        assert main(["collect", str(path), "--once"]) == 1
    out, err = capsys.readouterr()
    assert "4242" in out and "(a path that is no Path message)" in out
    assert err == "mburst: bad: q: more than 50,000 paths\n"


def test_an_internal_error_in_one_session_does_not_end_others(tmp_path, monkeypatch):
    """An unforeseen failure caused by a target is reported, and the session is tried again."""
    from mburst.telemetry.gnmi.session import DeviceSession

    capabilities = DeviceSession.capabilities

    async def broken(self: Any, channel: Any) -> None:
        if self.target.name == "bad":
            raise ZeroDivisionError("of what the target said")
        await capabilities(self, channel)

    monkeypatch.setattr(DeviceSession, "capabilities", broken)
    with Target(steady) as target:
        texts = config(bad=plain(target.port), good=plain(target.port))
        printed = collect(tmp_path, texts, lambda collector: heard(collector, "good") > 100)
    assert printed == ["bad: internal error: ZeroDivisionError"]


@pytest.mark.parametrize(
    "answer",
    [
        field(1, b"") * 500_000,
        field(2, b"\x01" * 3_000_000),
        varint(2 << 3) + varint(2**64 - 5),
        field(1, field(1, b"x" * 10**6)) * 5,
        b"",
    ],
)
def test_invalid_capabilities_do_not_end_a_session(tmp_path, answer):
    with Target(steady, encodings=["PROTO"]) as bad, Target(steady) as good:

        async def capable(request: Any, context: Any) -> Any:
            return type("Answer", (), {"SerializeToString": lambda self: answer})()

        bad._capabilities = capable  # type: ignore[method-assign]
        texts = config(bad=plain(bad.port), good=plain(good.port))
        collect(tmp_path, texts, lambda collector: min(heard(collector, name) for name in ("bad", "good")) > 20)
