"""The switch agent's paths, values and changes, compared with slow and simple answers to the same questions."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.gnmi_target import changes, requests, schema
from mburst.gnmi_target.changes import DepthChanges
from mburst.gnmi_target.encoding import subtree, typed
from mburst.gnmi_target.log import LINES, Log
from mburst.gnmi_target.schema import COUNTER, RequestRefused, checked_path, matched
from mburst.gnmi_target.tree import ServedLeaf
from mburst.telemetry.gnmi import messages
from mburst.telemetry.gnmi.path import PathName, Steps, as_message, parse
from mburst.telemetry.gnmi.values import leaves

LEAVES = [(*base, (name, ())) for base, names in schema.SCHEMA.items() for name in names]


def named(*names: str) -> Steps:
    return tuple((name, ()) for name in names)


def checked(text: str, prefix: str = "/", origin: str = "") -> Steps:
    path = as_message(parse(text))
    path.origin = origin or path.origin
    return checked_path(as_message(parse(prefix)), path)


@given(st.lists(st.sampled_from(["a", "b", "*", "..."]), max_size=7), st.lists(st.sampled_from("abc"), max_size=8))
@settings(max_examples=300)
def test_matching_is_that_of_a_regular_expression(asked, steps):
    """A letter for a step, so that * is any letter and ... any number of them; the fewest letters that match."""
    pattern = re.compile("".join({"*": ".", "...": ".*"}.get(name, name) for name in asked))
    lengths = [length for length in range(len(steps) + 1) if pattern.fullmatch("".join(steps[:length]))]
    assert matched(named(*asked), named(*steps)) == (lengths[0] if lengths else None)


@given(
    st.sampled_from(LEAVES).flatmap(
        lambda leaf: st.tuples(
            st.just(leaf), st.lists(st.sampled_from("=*.m-"), min_size=len(leaf), max_size=len(leaf))
        )
    )
)
@settings(max_examples=200)
def test_every_way_to_write_a_leaf_is_understood(case):
    """As it is, with * for the step or its keys, with its module, or without keys; `...` before it changes nothing."""
    leaf, ways = case
    written = []
    for (name, keys), way, module in zip(leaf, ways, schema.modules(leaf), strict=True):
        if way == ".":
            written.append(("...", ()))
        if way == "*":
            written.append(("*", ()))
        else:
            kept = tuple((key, "*" if way == "m" else "x") for key, _ in keys) if way in "=m" else ()
            written.append((f"{module}:{name}" if way == "m" else name, kept))
    steps = checked_path(messages.Path(), as_message(PathName("", tuple(written))))
    real = tuple((name, tuple((key, "x") for key, _ in keys)) for name, keys in leaf)
    assert matched(steps, real) is not None


@pytest.mark.parametrize(
    ("text", "origin"),
    [("/interfaces", ""), ("/interfaces", "openconfig"), ("openconfig:/interfaces", ""), ("/", ""), ("/...", ""),
     ("interfaces", "openconfig-interfaces"), ("/openconfig-interfaces:interfaces/interface", ""), ("/*", ""),
     ("/interfaces/interface/openconfig-if-ethernet:ethernet/state", "")],
)  # fmt: skip
def test_origins_and_modules(text, origin):
    checked(text, origin=origin)


@pytest.mark.parametrize(
    ("text", "word"),
    [("/a", "/a is not supported"), ("/interfaces/interface[name=p*]", "name=p*"), ("cli:/interfaces", "'cli'"),
     ("/interfaces/interface[nam=x]", "nam=x"), ("/interfaces[name=x]", "not supported"),
     ("/openconfig-qos:interfaces", "not supported"), ("/ietf-interfaces:interfaces", "not supported"),
     ("/interfaces/interface/openconfig-interfaces:ethernet", "not supported"), ("/...[name=x]", "no keys"),
     ("/interfaces/interface/state/counters/in-octets/x", "not supported"), ("/in*", "not supported"),
     ("/interfaces/interface/state/counters/in-*", "not supported"), ("openconfig-lldp:/interfaces", "not supported"),
     ("/" + "/".join(["*"] * 40), "steps"), ("/".join(["...", "*"] * 16), "not supported")],
)  # fmt: skip
def test_unserved_paths_are_refused_by_name(text, word):
    with pytest.raises(RequestRefused, match=re.escape(word)) as caught:
        checked(text)
    assert caught.value.code == "INVALID_ARGUMENT"


def test_prefix_and_path_are_joined_and_have_one_origin():
    assert checked("interface[name=x]", "/interfaces") == checked("/interfaces/interface[name=x]")
    with pytest.raises(RequestRefused, match="different origins"):
        checked("openconfig:/interface", "cli:/interfaces")


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_any_request_is_refused_or_understood(data):
    """Any bytes that protobuf reads: never another failure, and never without a bound."""
    for kind, read in ((messages.SubscriptionList, requests.subscription), (messages.GetRequest, requests.snapshot)):
        try:
            request = kind.FromString(data)
        except Exception:
            continue
        try:
            read(request)
        except RequestRefused as refusal:
            assert str(refusal) and refusal.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED")


@pytest.mark.parametrize("field", ["mode", "encoding"])
def test_unknown_numbers_of_gnmi_are_refused(field):
    asked = messages.SubscriptionList(**{"encoding": 2, field: 77})
    asked.subscription.add()
    with pytest.raises(RequestRefused, match="77"):
        requests.subscription(asked)


# --- JSON -----------------------------------------------------------------------------------------------------------

real = st.sampled_from(LEAVES).flatmap(
    lambda leaf: st.tuples(*(st.tuples(st.just(name), st.tuples(*(
        st.tuples(st.just(key), st.text("ab/]\\ \"é", min_size=1, max_size=3)) for key, _ in keys)))
        for name, keys in leaf)))  # fmt: skip


@given(
    st.dictionaries(real, st.one_of(st.integers(0, 2**64 - 1), st.text(max_size=5)), min_size=1, max_size=12),
    st.integers(0, 7),
    st.sampled_from(["JSON", "JSON_IETF"]),
)
@settings(max_examples=200)
def test_a_tree_of_json_has_all_its_leaves_again(values, depth, encoding):
    """Read by what reads other targets' JSON. In JSON_IETF numbers of 64 bits are text, and names have their module at
    the top and where it changes."""
    top = next(iter(values))[:depth]
    below = {steps: value for steps, value in values.items() if steps[: len(top)] == top}
    if next(iter(values)) == top:
        below = {top: below[top]}
    made = subtree(top, [(ServedLeaf(steps, COUNTER, lambda: None), value) for steps, value in below.items()], encoding)
    document = json.loads(made.json_val if encoding == "JSON" else made.json_ietf_val)
    if top in below:
        assert document == (below[top] if encoding == "JSON" else str(below[top]))
        return
    keys: dict[str, Any] = {"interface": (("name",), ("interface-id",)), "queue": (("name",),), "neighbor": (("id",),)}
    inserted = {(*steps[: at + 1], (key, ())) for steps in below for at in range(len(top) - 1, len(steps))
                for key, _ in (steps[at][1] if at >= 0 else ())}  # fmt: skip
    found = {steps: value for steps, value in leaves(document, top, keys) if steps not in inserted or steps in below}
    assert found == {steps: value if encoding == "JSON" else str(value) for steps, value in below.items()}
    if encoding == "JSON_IETF":
        assert all(":" in name for name in document)


def test_narrow_numbers_stay_numbers_in_json_ietf():
    kinds = schema.SCHEMA[schema.STATE]
    assert typed(1500, kinds["mtu"], "JSON_IETF").json_ietf_val == b"1500"
    assert typed(3, kinds["ifindex"], "JSON_IETF").json_ietf_val == b"3"
    assert typed(3, COUNTER, "JSON_IETF").json_ietf_val == b'"3"' and typed(3, COUNTER, "JSON").json_val == b"3"


# --- depths that change ---------------------------------------------------------------------------------------------

QUEUES = [("p1", "0"), ("p2", "0")]


async def taken(readings: list[tuple[int, int]], **options: Any) -> list[changes.Depth]:
    """Returns the changes that result from readings (queue, depth), one a nanosecond."""
    made = DepthChanges(QUEUES, asyncio.get_running_loop(), **options)
    for ts_ns, (queue, depth) in enumerate(readings, 1):
        made.add(QUEUES[queue], ts_ns, depth)
    made._ready.set()
    return await made.take()


readings = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=60)


@given(readings, st.booleans())
def test_depths_are_told_when_they_change_and_how_long_they_held(given_readings, updates_only):
    """Held to what the depth is at each time, as somebody makes of it who gets the changes alone."""
    sent = asyncio.run(taken(given_readings, updates_only=updates_only))
    assert all(left_out == 0 for *_, left_out in sent)
    for number, queue in enumerate(QUEUES):
        here = [(ts_ns, depth) for ts_ns, (one, depth) in enumerate(given_readings, 1) if one == number]
        mine = [(ts_ns, depth) for one, ts_ns, depth, _ in sent if one == queue]
        assert mine == sorted(mine) and set(mine) <= set(here)
        first = here[0][1] if here else None
        kept = [depth for at, (_, depth) in enumerate(here) if at == 0 or here[at - 1][1] != depth]
        run = [depth for at, (_, depth) in enumerate(mine) if at == 0 or mine[at - 1][1] != depth]
        assert run == (kept[1:] if updates_only else kept), first


@given(readings, st.integers(4, 20))
def test_a_backlog_is_bounded_and_keeps_the_largest(given_readings, bound):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "BACKLOG", bound)
        sent = asyncio.run(taken(given_readings, updates_only=False))
    full = asyncio.run(taken(given_readings, updates_only=False))
    assert len(sent) <= bound
    assert sum(1 + left_out for *_, left_out in sent) == len(full)
    for queue in QUEUES:
        assert max((depth for one, _, depth, _ in sent if one == queue), default=None) == max(
            (depth for one, _, depth, _ in full if one == queue), default=None
        )


def test_lines_are_bounded_and_counted():
    lines: list[str] = []
    log = Log(lines.append)
    for number in range(LINES + 7):
        log.say(f"line {number}\x1b[2J")
    log.flush()
    assert len(lines) == LINES + 1 and lines[-1] == "7 more such lines were left out" and "\x1b" not in "".join(lines)
