"""gnmic's YAML as its users write it; each mistake is one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.errors import MburstError, UsageError
from mburst.telemetry.gnmi.durations import parse_go_duration
from mburst.telemetry.gnmi.gnmic_file import load

FULL = """
username: ${USER_NAME}
password: $SECRET
port: 6030
tls-ca: certs/ca.pem
encoding: json_ietf
timeout: 7s
log: true
outputs: {prom: {type: prometheus}}
targets:
  10.0.0.1:
    name: tor1
    subscriptions: [depth]
  "[2001:db8::1]:9339":
    username: other
    insecure: true
    outputs: [prom]
  tor3:
    address: tor3.example:57400
    skip-verify: true
    metadata: {X-Key: v}
subscriptions:
  depth:
    paths:
      - /qos/interfaces/interface[interface-id=Ethernet1/1]/output
      - openconfig:/interfaces
    stream-mode: sample
    sample-interval: 1m30s
  near:
    path: /lldp
    stream-mode: on_change
    heartbeat-interval: 500ms
    encoding: proto
  mixed:
    target: COUNTERS_DB
    stream-subscriptions:
      - {paths: [/a], stream-mode: sample, sample-interval: 10s}
      - {paths: [/b], stream-mode: on-change, suppress-redundant: true}
mburst:
  racks: {tor1: r7}
  vendors: {tor3: sonic}
  buffer: 64MiB
  message: 32MiB
  paths: 1234
  links:
    - {device: tor1, port: Ethernet1, host: cache-1, interface: eth0, link: 25G}
"""
ENVIRONMENT = {"USER_NAME": "me", "SECRET": "pa$$word"}


def read(folder: Path, text: str, environment: dict[str, str] | None = None):
    path = folder / "gnmi.yaml"
    path.write_text(text)
    return load(str(path), ENVIRONMENT if environment is None else environment)


def test_a_complete_file(tmp_path):
    found = read(tmp_path, FULL)
    one, two, three = found.targets
    assert (one.name, one.address, one.username, one.password) == ("tor1", "10.0.0.1:6030", "me", "pa$$word")
    assert (one.tls_ca, one.encoding, one.timeout_s, one.rack) == (str(tmp_path / "certs/ca.pem"), "JSON_IETF", 7, "r7")
    assert (two.address, two.username, two.insecure) == ("[2001:db8::1]:9339", "other", True)
    assert (three.address, three.skip_verify, three.vendor) == ("tor3.example:57400", True, "sonic")
    assert three.metadata == (("x-key", "v"),)
    assert [wanted.name for wanted in one.subscriptions] == ["depth"]
    depth, near, mixed = two.subscriptions  # a target without a list gets all subscriptions
    assert [(item.stream_mode, item.sample_ns) for item in depth.items] == [("SAMPLE", 90 * 10**9)] * 2
    assert depth.items[1].path.origin == "openconfig" and depth.interval_ns == 90 * 10**9
    assert (near.items[0].stream_mode, near.items[0].heartbeat_ns, near.encoding) == ("ON_CHANGE", 5 * 10**8, "PROTO")
    assert [(item.stream_mode, item.suppress_redundant) for item in mixed.items] == [
        ("SAMPLE", False),
        ("ON_CHANGE", True),
    ]
    assert mixed.target == "COUNTERS_DB" and mixed.mode == "STREAM"
    [link] = found.links
    assert (link.device, link.host, link.rack, link.link_bps) == ("tor1", "cache-1", "r7", 25 * 10**9)
    assert found.buffer_bytes == 64 << 20
    assert {(target.message_bytes, target.most_paths) for target in found.targets} == {(32 << 20, 1234)}
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "not used by mburst: log, outputs",
        "targets: not used by mburst: outputs",
        "targets.[2001:db8::1]:9339: user and password go over the network in the clear",
    ]


def test_a_path_without_stream_mode_is_target_defined(tmp_path):
    found = read(tmp_path, "targets: {a: }\nsubscriptions: {s: {paths: [/a]}}\n")
    assert found.targets[0].subscriptions[0].items[0].stream_mode == "TARGET_DEFINED"
    assert found.targets[0].address == "a:57400"


@pytest.mark.parametrize(("text", "size", "warned"), [
    ("max-msg-size: 33554432", 32 << 20, False), ("max-msg-size: 536870912", 512 << 20, False),
    ("max-msg-size: 33554432\nmburst: {message: 1MiB}", 1 << 20, False), ("max-msg-size: 4096", 64 << 10, True),
    ("max-msg-size: 99999999999", 512 << 20, True), ("", 16 << 20, False),
])  # fmt: skip
def test_gnmics_limit_of_messages_is_adopted(tmp_path, text, size, warned):
    found = read(tmp_path, S + T + text)
    assert found.targets[0].message_bytes == size and bool(found.warnings) is warned


def test_globals_may_be_in_the_environment(tmp_path):
    text = "targets: {a: }\nsubscriptions: {s: {paths: [/a]}}\n"
    [target] = read(tmp_path, text, {"GNMIC_USERNAME": "me", "GNMIC_SKIP_VERIFY": "true"}).targets
    assert target.username == "me" and target.skip_verify


def test_a_password_is_not_in_the_text_of_the_configuration(tmp_path):
    assert "pa$$word" not in repr(read(tmp_path, FULL))


S, T = "subscriptions: {s: {paths: [/a]}}\n", "targets: {a: }\n"
BAD = {
    "invalid YAML": "targets: [",
    "no configuration": "- 1",
    "subscriptions: there are none": T,
    "targets: there are none": S,
    "targets.a: unknown key 'adress'; did you mean 'address'?": S + "targets: {a: {adress: x}}",
    "subscriptions.s: unknown key 'sample_interval'": T + "subscriptions: {s: {paths: [/a], sample_interval: 1s}}",
    "subscriptions.s: there are no paths": T + "subscriptions: {s: {mode: stream}}",
    "subscriptions.s.sample-interval: missing unit in '10'; write 10s or 10ms": T
    + "subscriptions: {s: {paths: [/a], sample-interval: 10}}",
    "subscriptions.s.stream-mode: invalid value 'often'": T + "subscriptions: {s: {paths: [/a], stream-mode: often}}",
    "max-msg-size: 'much' is not a number of bytes": S + T + "max-msg-size: much",
    "subscriptions.s.encoding: unsupported encoding 'xml'": T + "subscriptions: {s: {paths: [/a], encoding: xml}}",
    "subscriptions.s.paths: path '/a[b': missing ] after [": T + "subscriptions: {s: {paths: ['/a[b']}}",
    "subscriptions.s: invalid qos '99': not a DSCP": T + "subscriptions: {s: {paths: [/a], qos: 99}}",
    "unknown subscription 'x'": S + "targets: {a: {subscriptions: [x]}}",
    "tls-cert and tls-key go together": S + "targets: {a: {tls-cert: x}}",
    "targets.a: invalid address 'a b'": S + "targets: {a: {address: a b}}",
    "targets.a.insecure: invalid value 'maybe'": S + "targets: {a: {insecure: maybe}}",
    "targets: duplicate name x": S + "targets: {a: {name: x}, b: {name: x}}",
    "targets.a.password: the environment has no variable NOBODY": S + "targets: {a: {password: '${NOBODY}'}}",
    "mburst: unknown key 'rack'": S + T + "mburst: {rack: r1}",
    "mburst.racks: unknown target b": S + T + "mburst: {racks: {b: r1}}",
    "mburst.links[0]: host is missing": S + T + "mburst: {links: [{device: a, port: p}]}",
    "mburst.links[0]: invalid link speed 'fast'": S
    + T
    + "mburst: {links: [{device: a, port: p, host: h, link: fast}]}",
    "subscriptions.s.sample-interval: invalid duration '99": T
    + f"subscriptions: {{s: {{paths: [/a], sample-interval: {5000 * '9'}}}}}",
    "subscriptions.s.heartbeat-interval: invalid duration '99": T
    + f"subscriptions: {{s: {{paths: [/a], heartbeat-interval: {30 * '9'}h}}}}",
    "mburst.buffer: invalid size 'much'": S + T + "mburst: {buffer: much}",
    "mburst.message: 1G is not between 64KiB and 512MiB": S + T + "mburst: {message: 1G}",
    "mburst.paths: '0' is not a whole number": S + T + "mburst: {paths: 0}",
    "mburst.paths: 'many' is not a whole number": S + T + "mburst: {paths: many}",
    "targets must be a mapping": S + "targets: [a]",
}


@pytest.mark.parametrize(("fault", "text"), BAD.items(), ids=BAD)
def test_a_mistake_is_one_line_with_its_place(tmp_path, fault, text):
    with pytest.raises(UsageError) as failure:
        read(tmp_path, text, {})
    message = f"{failure.value}; {failure.value.hint}"
    assert fault in message.replace(": must", " must") and str(tmp_path) in message and "\n" not in message


def test_a_missing_file():
    with pytest.raises(MburstError, match="cannot read: No such file"):
        load("/nowhere/gnmi.yaml")


def test_the_example_is_valid(monkeypatch):
    from places import ROOT

    found = load(str(ROOT / "examples" / "gnmi.yaml"), {**os.environ, "GNMI_PASSWORD": "x"})
    assert len(found.targets) >= 3 and not found.warnings


UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 10**4), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4))
def test_durations_as_go_adds_them_up(parts):
    assert parse_go_duration("".join(f"{count}{unit}" for count, unit in parts)) == sum(
        count * UNITS[unit] for count, unit in parts
    )


@pytest.mark.parametrize("text", ["", "1", "s", "1s ", "-1s", "1d", "1s2"])
def test_an_invalid_duration_of_go(text):
    with pytest.raises(UsageError):
        parse_go_duration(text)
