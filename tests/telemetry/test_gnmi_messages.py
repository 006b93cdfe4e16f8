"""Paths, values and counters in messages, compared with the wire format and with slow oracles."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from gnmilib import T0, Fed, S, notification
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.errors import UsageError
from mburst.telemetry.counters import Step, increase
from mburst.telemetry.gnmi import messages, values
from mburst.telemetry.gnmi.path import PathName, as_message, as_text, covers, parse, steps_of

NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable() and text == text.strip())
KEYS = st.dictionaries(NAMES, st.text(max_size=8).filter(lambda text: text == text.strip("'\"")), max_size=3)
STEPS = st.lists(st.tuples(NAMES, KEYS), max_size=5).map(
    lambda steps: tuple((name, tuple(sorted(keys.items()))) for name, keys in steps)
)


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, payload: bytes | int) -> bytes:
    """Returns a protobuf field, encoded by hand."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def test_the_wire_format_is_that_of_gnmi():
    """The test compares field numbers and types of gnmi.proto 0.10, byte by byte."""
    elem = field(3, field(1, b"queue") + field(2, field(1, b"name") + field(2, b"7")))
    path = field(2, b"openconfig") + elem + field(4, b"tor")
    update = field(1, path) + field(3, field(3, 42)) + field(4, 5)
    prefix = field(3, field(1, b"qos"))
    wire = field(1, field(1, T0) + field(2, prefix) + field(4, update) + field(5, path) + field(6, 1))
    made = messages.SubscribeResponse.FromString(wire)
    assert made.WhichOneof("response") == "update" and made.SerializeToString(deterministic=True) == wire
    note = made.update
    assert (note.timestamp, note.atomic, len(note.delete)) == (T0, True, 1)
    assert as_text(steps_of(note.update[0].path)) == "/queue[name=7]" and note.update[0].path.target == "tor"
    assert values.read(note.update[0]) == ("uint", 42) and note.update[0].duplicates == 5
    lean = messages.ReadResponse.FromString(wire)
    assert lean.update.update[0].path == path and lean.update.delete[0] == path
    assert messages.SubscribeResponse.FromString(field(3, 1)).sync_response


def test_a_request_on_the_wire():
    subscription = field(1, field(3, field(1, b"qos"))) + field(2, 2) + field(3, S) + field(4, 1) + field(5, 2 * S)
    wire = field(1, field(2, subscription) + field(5, 1) + field(7, field(1, b"m")) + field(8, 4) + field(9, 1))
    wanted = messages.SubscribeRequest.FromString(wire).subscribe
    [part] = wanted.subscription
    assert (part.mode, part.sample_interval, part.suppress_redundant, part.heartbeat_interval) == (2, S, True, 2 * S)
    assert messages.LIST_MODES[wanted.mode] == "ONCE" and messages.ENCODINGS[wanted.encoding] == "JSON_IETF"
    assert wanted.updates_only and wanted.use_models[0].name == "m" and not wanted.HasField("qos")


KINDS = [
    (field(1, b"SPEED_10GB"), ("string", "SPEED_10GB")),
    (field(2, 2**64 - 5), ("int", -5)),
    (field(3, 2**64 - 1), ("uint", 2**64 - 1)),
    (field(4, 1), ("bool", True)),
    (field(5, b"\x00\xff"), ("bytes", b"\x00\xff")),
    (varint(6 << 3 | 5) + struct.pack("<f", 1.5), ("float", 1.5)),
    (field(7, field(1, 12345) + field(2, 2)), ("decimal", Decimal("123.45"))),
    (field(8, field(1, field(3, 1)) + field(1, field(1, b"x"))), ("list", [1, "x"])),
    (field(9, field(1, b"type") + field(2, b"abc")), ("any", b"abc")),
    (field(10, b'"12"'), ("string", "12")),
    (field(11, b'{"a": [1]}'), ("json", {"a": [1]})),
    (field(12, b"show version"), ("ascii", "show version")),
    (field(13, b"\x01"), ("proto_bytes", b"\x01")),
    (varint(14 << 3 | 1) + struct.pack("<d", 0.1), ("double", 0.1)),
]


@pytest.mark.parametrize(("wire", "expected"), KINDS, ids=[kind for _, (kind, _) in KINDS])
def test_every_kind_of_value(wire, expected):
    update = messages.Update.FromString(field(3, wire))
    assert values.read(update) == expected
    rows = (
        Fed()
        .feed(
            messages.Notification(
                timestamp=T0, update=[messages.Update(path=as_message(parse("/unknown/leaf")), val=update.val)]
            )
        )
        .take()
    )
    assert rows["gnmi_values"]  # every value is stored


def test_the_value_field_of_old_targets():
    update = messages.Update.FromString(field(1, field(1, b"a")) + field(2, field(1, b'"9"') + field(2, 0)))
    assert values.read(update) == ("string", "9") and steps_of(update.path) == (("a", ()),)


def test_old_elements_with_keys():
    path = messages.Path(element=["interfaces", "interface[name=Ethernet1/1]", "state"])
    assert as_text(steps_of(path)) == "/interfaces/interface[name=Ethernet1/1]/state"


@settings(deadline=None, max_examples=200)
@given(STEPS)
def test_text_and_message_say_the_same(steps):
    assert parse(as_text(steps)) == PathName("", steps)
    assert steps_of(as_message(PathName("", steps))) == steps
    assert covers(steps, steps) and covers((), steps)


@pytest.mark.parametrize(("text", "origin", "shown"), [
    ("openconfig:/a/b", "openconfig", "/a/b"), ("a/b[k=v][j=w]/", "", "/a/b[j=w][k=v]"),
    ("/a[k=x/y]/c", "", "/a[k=x/y]/c"), (r"/a[k=x\]y]", "", r"/a[k=x\]y]"), ("/a:b/c", "", "/a:b/c"),
    ("/interface[name='xe-0/0/0']", "", "/interface[name=xe-0/0/0]"),
    ("COUNTERS/Ethernet*/Queues", "", "/COUNTERS/Ethernet*/Queues"),
])  # fmt: skip
def test_common_spellings_of_paths(text, origin, shown):
    found = parse(text)
    assert found.origin == origin and as_text(found.steps) == shown


@pytest.mark.parametrize("text", ["/a[k=v", "/a[k]", "/[k=v]/b", "/a[k=v]x"])
def test_an_invalid_path(text):
    with pytest.raises(UsageError, match="path"):
        parse(text)


def test_which_paths_cover_others():
    def under(above: str, below: str) -> bool:
        return covers(parse(above).steps, parse(below).steps)

    assert under("/a/b[k=1]", "/a/b[k=1]/c") and under("/a/b", "/a/b[k=1]/c") and under("/a/*/c", "/a/b/c")
    assert under("/a/b[k=*]", "/a/b[k=2]") and under("/a", "/m:a/b")
    assert not under("/a/b[k=1]", "/a/b[k=2]") and not under("/a/b/c", "/a/b") and not under("/a/b", "/a/bc")


def test_json_trees_become_leaves():
    keys = {"queue": (("name",),), "interface": (("interface-id",), ("name",))}
    tree = {"openconfig-qos:queues": {"queue": [{"name": "3", "state": {"m:len": "12", "set": [1, 2]}}]}}
    found = {as_text(steps): value for steps, value in values.leaves(tree, parse("/qos").steps, keys)}
    assert found == {"/qos/queues/queue[name=3]/state/len": "12", "/qos/queues/queue[name=3]/state/set": [1, 2]}
    found = {as_text(steps): value for steps, value in values.leaves([{"x": 1}], parse("/a/unknown").steps, keys)}
    assert found == {"/a/unknown": {"x": 1}}  # a list with unknown keys is stored whole
    found = {as_text(steps) for steps, _ in values.leaves({"Ethernet0:3": {"A": "1"}}, (), keys)}
    assert found == {"/Ethernet0:3/A"}


def test_invalid_json_is_reported():
    rows = Fed().feed(notification(T0, {"/a/b": messages.TypedValue(json_ietf_val=b"{")})).take()
    assert "gnmi_values" not in rows and "invalid JSON" in rows["gnmi_events"][0]["detail"]


# --- counters -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(width=st.sampled_from([32, 64]), start=st.integers(0, 2**64 - 1), counted=st.integers(0, 10**9))
def test_wraps_are_undone(width, start, counted):
    """A counter that is really counted, of a width; the limit is what the link can carry."""
    before = start % 2**width
    now = (before + counted) % 2**width
    if width == 64 and before < 2**32:
        return  # a wide counter that is still small, and a narrow one, look the same
    found, step = increase(before, now, 10**9 + 1, False)
    assert found == counted and step in (Step.PLAIN, Step.WRAP)


@settings(deadline=None, max_examples=300)
@given(before=st.integers(1, 2**64 - 1), since=st.integers(0, 10**6), limit=st.none() | st.just(10**6))
def test_resets_are_lower_bounds_never_wraps(before, since, limit):
    """A counter that restarts far from its end counts what came since."""
    width = 2**32 if before < 2**32 else 2**64
    if since >= before or before > width * 3 // 4 - 1 or width - before <= 10**6:
        return
    assert increase(before, since, limit, False) == (since, Step.RESET)


def test_a_reset_reported_by_the_device_counts():
    assert increase(10, 500, None, True) == (500, Step.RESET)
    assert increase(2**32 - 10, 5, None, False) == (15, Step.WRAP)
    assert increase(2**32 - 10, 5, 14, False) == (5, Step.RESET)


@pytest.mark.parametrize("width", [2**32, 2**64])
def test_a_wrap_without_a_known_speed_is_from_the_last_quarter_into_the_first(width):
    assert increase(width // 4 * 3, width // 4, None, False) == (width // 2, Step.WRAP)
    assert increase(width // 4 * 3 - 1, width // 4, None, False) == (width // 4, Step.RESET)
    assert increase(width // 4 * 3, width // 4 + 1, None, False) == (width // 4 + 1, Step.RESET)


def test_a_wrap_is_at_most_what_the_link_can_carry():
    assert increase(2**32 - 10, 5, 15, False) == (15, Step.WRAP)
    assert increase(2**32 - 10, 5, 14, False) == (5, Step.RESET)
