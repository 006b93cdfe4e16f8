"""Files of gnmic's users: each is read as gnmic reads it, or reported in one line that says what mburst cannot do.

The files follow gnmic's user guide: targets, subscriptions, configuration file, environment, target discovery, outputs.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mburst.__main__ import main
from mburst.errors import MburstError, UsageError
from mburst.telemetry.gnmi import gnmic_words
from mburst.telemetry.gnmi.gnmic_file import load

SUBSCRIPTIONS = "subscriptions: {s: {paths: [/interfaces]}}\n"

# name → (file, output of --check, its warnings)
FILES: dict[str, tuple[str, list[str], list[str]]] = {
    "one address, credentials at the top": (
        """
address: "10.0.0.1:57400"
username: admin
password: NokiaSrl1!
insecure: true
log-file: /tmp/gnmic.log
subscriptions:
  ports:
    paths: ["/interface[name=*]/statistics"]
    stream-mode: sample
    sample-interval: 5s
    encoding: json_ietf
""",
        ["10.0.0.1:57400: 10.0.0.1:57400, without TLS, user admin", "SAMPLE every 5 s"],
        ["not used by mburst: log-file", "in the clear"],
    ),
    "a list of addresses": (
        """
address:
  - router1.example
  - router2.example:50051
port: 6030
skip-verify: true
"""
        + SUBSCRIPTIONS,
        ["router1.example: router1.example:6030, TLS, trust", "router2.example:50051: router2.example:50051, T"],
        [],
    ),
    "addresses in one text": (
        "address: 192.0.2.1:57400,192.0.2.2\n" + SUBSCRIPTIONS,
        ["192.0.2.1:57400: 192.0.2.1:57400", "192.0.2.2: 192.0.2.2:57400"],
        [],
    ),
    "a device with two addresses": (
        """
targets:
  leaf1:
    address: 192.0.2.1,192.0.2.2:57400
"""
        + SUBSCRIPTIONS,
        ["leaf1: 192.0.2.1:57400 or 192.0.2.2:57400, TLS"],
        [],
    ),
    "every key of a target": (
        """
targets:
  leaf1:
    name: leaf1
    address: leaf1.example:57400
    username: admin
    password: secret
    token: abc
    auth-scheme: Basic
    timeout: 10s
    insecure: false
    tls-ca: /etc/ca.pem
    tls-cert:
    tls-key:
    tls-min-version: "1.2"
    tls-max-version: "1.3"
    tls-version: "1.3"
    log-tls-secret: false
    skip-verify: false
    tls-server-name: leaf1
    subscriptions: [s]
    encoding: proto
    outputs: [prom]
    buffer-size: 1000
    retry: 10s
    retry-timer: 20s
    tags: [dc1]
    event-tags: {site: dc1}
    proto-files: [a.proto]
    proto-dirs: [/p]
    gzip: true
    proxy: socks5://192.0.2.9:1080
    cipher-suites: [TLS_AES_128_GCM_SHA256]
    tcp-keepalive: 0s
    tunnel-target-type: GNMI_GNOI
    metadata: {x-tenant: a}
    grpc-keepalive: {time: 30s, timeout: 10s, permit-without-stream: true}
    grpc-read-buffer-size: 32768
    grpc-write-buffer-size: 32768
    grpc-conn-window-size: 65536
    grpc-window-size: 65536
    grpc-static-conn-window-size: 65536
    grpc-static-stream-window-size: 65536
"""
        + SUBSCRIPTIONS,
        ["leaf1: leaf1.example:57400, TLS, CA /etc/ca.pem, user admin"],
        [
            "targets: not used by mburst: tls-min-version",
            "proxy (mburst connects directly)",
            "grpc-window-size",
            "tunnel-target-type (targets that dial out through a tunnel are not collected)",
            "cipher-suites",
            "event-tags",
        ],
    ),
    "every key of a subscription": (
        """
targets: {leaf1: }
subscriptions:
  s:
    name: s
    prefix: /interfaces
    target: leaf
    set-target: true
    paths: [interface/state]
    models: [openconfig-interfaces]
    mode: STREAM
    stream-mode: ON_CHANGE
    encoding: JSON
    qos: 20
    sample-interval: 1m30s
    heartbeat-interval: 1h
    suppress-redundant: false
    updates-only: true
    outputs: [prom]
    history: {snapshot: "", start: , end: }
    depth: 2
""",
        ["/interface/state  ON_CHANGE\n", "s: STREAM, JSON, target leaf"],
        ["subscriptions: not used by mburst: outputs, depth (the answer is as deep as the target makes it)"],
    ),
    "several stream modes in one stream": (
        """
targets: {leaf1: }
subscriptions:
  sub1:
    stream-subscriptions:
      - paths: [/configure/system/name]
        stream-mode: on-change
      - paths: [/state/port/statistics]
        stream-mode: sample
        sample-interval: 10s
    encoding: bytes
""",
        ["/configure/system/name  ON_CHANGE", "/state/port/statistics  SAMPLE every 10 s"],
        [],
    ),
    "a pipeline with all around it": (
        """
username: admin
password: NokiaSrl1!
skip-verify: true
encoding: json_ietf
log: true
debug: false
api-server: {address: ":7890", enable-metrics: true}
clustering:
  cluster-name: c1
  targets-watch-timer: 30s
  locker: {type: consul, address: consul:8500}
gnmi-server: {address: ":57400"}
targets:
  srl1: {subscriptions: [s], outputs: [prom]}
subscriptions: {s: {path: /interface, stream-mode: sample, sample-interval: 10s, outputs: [prom]}}
outputs:
  prom: {type: prometheus, listen: ":9804", event-processors: [trim]}
  kafka: {type: kafka, address: "${KAFKA}:9092"}
inputs: {nats: {type: nats, address: "localhost:4222"}}
processors: {trim: {event-strings: {value-names: [".*"]}}}
actions: {a: {type: http, url: "http://x"}}
tunnel-server: {address: ":57401"}
""",
        ["srl1: srl1:57400, TLS, trust on first use, user admin", "SAMPLE every 10 s"],
        ["api-server, clustering, gnmi-server, outputs, inputs, processors, actions, tunnel-server (targets that dial"],
    ),
    "gnmic subscribe's options": (
        """
address: [leaf1]
insecure: true
subscribe-path: [/qos, /lldp]
subscribe-mode: stream
subscribe-stream-mode: sample
subscribe-sample-interval: 1s
subscribe-quiet: true
get-path: /configure/system/name
""",
        ["default: STREAM", "/qos  SAMPLE every 1 s", "/lldp  SAMPLE every 1 s"],
        ["not used by mburst: subscribe-quiet, get-path"],
    ),
    "two of the subscriptions": (
        """
address: leaf1
subscribe-name: [a, c]
subscriptions: {a: {paths: [/a]}, b: {paths: [/b]}, c: {paths: [/c]}}
""",
        ["  a: STREAM", "  c: STREAM"],
        [],
    ),
    "modes without a stream": (
        """
targets: {leaf1: }
max-msg-size: 536870912
subscriptions:
  asked: {paths: [/lldp], mode: poll}
  often: {paths: [/interfaces], mode: poll, stream-mode: sample, sample-interval: 2s}
  first: {paths: [/system], mode: once, sample-interval: 2s}
""",
        ["  asked: POLL every 10 s, PROTO", "  often: POLL every 2 s, PROTO", "  first: ONCE, PROTO", "/system\n"],
        ["subscriptions.asked.mode: poll: asked every 10 s", "subscriptions.often.mode: poll: asked every 2 s"],
    ),
    "gnmic subscribe's options, polling": (
        """
address: leaf1
subscribe-path: /lldp
subscribe-mode: poll
""",
        ["default: POLL every 10 s"],
        ["poll: asked every 10 s (sample-interval), since there is no prompt here"],
    ),
    "words in other cases": (
        """
Targets: {Leaf1: {Address: leaf1, Insecure: true, Subscriptions: [Counters]}}
Subscriptions: {Counters: {Paths: [/interfaces], Mode: Stream, Stream-Mode: Sample, Sample-Interval: 1s}}
""",
        ["Leaf1: leaf1:57400, without TLS", "SAMPLE every 1 s"],
        [],
    ),
    "targets in one text": (
        "targets: leaf1 leaf2:6030\n" + SUBSCRIPTIONS,
        ["leaf1: leaf1:57400", "leaf2:6030: leaf2:6030"],
        [],
    ),
    "anchors": (
        """
x-defaults: &defaults {insecure: true, timeout: 5s}
targets:
  leaf1: {<<: *defaults}
  leaf2: {<<: *defaults, timeout: 1s}
"""
        + SUBSCRIPTIONS,
        ["leaf1: leaf1:57400, without TLS", "leaf2: leaf2:57400, without TLS"],
        ["not used by mburst: x-defaults (unknown key)"],
    ),
    "addresses of version 6": (
        'targets: {"2001:db8::1": , "[2001:db8::2]:6030": }\n' + SUBSCRIPTIONS,
        ["2001:db8::1: [2001:db8::1]:57400", "[2001:db8::2]:6030: [2001:db8::2]:6030"],
        [],
    ),
    "a target that consul finds, beside one in the file": (
        """
loader: {type: consul, address: "consul:8500", services: [{name: gnmi}], actions: []}
targets: {leaf1: }
"""
        + SUBSCRIPTIONS,
        ["leaf1: leaf1:57400"],
        ["loader: not used by mburst: targets that type consul finds are not"],
    ),
}


def written(folder: Path, text: str, name: str = "gnmic.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_gnmic_is_understood(name, tmp_path, capsys):
    text, prints, warns = FILES[name]
    assert main(["collect", written(tmp_path, text), "--check"]) == 0
    printed = capsys.readouterr()
    for part in prints:
        assert part in printed.out, part
    for part in warns:
        assert part in printed.err, part
    assert bool(printed.err) == bool(warns) and "  b: STREAM" not in printed.out
    assert "secret" not in printed.out + printed.err.replace("log-tls-secret", "")
    assert "NokiaSrl1!" not in printed.out + printed.err


def test_json_and_toml_give_the_same_configuration(tmp_path):
    content = {
        "targets": {"leaf1": {"insecure": True, "timeout": 5_000_000_000}},
        "port": 6030,
        "subscriptions": {"s": {"paths": ["/a"], "qos": 7}},
    }
    toml = 'port = 6030\n[targets.leaf1]\ninsecure = true\ntimeout = "5s"\n[subscriptions.s]\npaths = ["/a"]\nqos = 7\n'
    one = load(written(tmp_path, json.dumps(content, indent="\t"), "g.json"), {})
    two = load(written(tmp_path, toml, "g.toml"), {})
    assert one.targets == two.targets and one.targets[0].timeout_s == 5 and one.targets[0].address == "leaf1:6030"
    for name in ("g.json", "g.toml"):
        with pytest.raises(UsageError, match=r"invalid (JSON|TOML)"):
            load(written(tmp_path, "{[", name), {})


def test_numbers_keep_their_spelling(tmp_path):
    content = {
        "g.json": '{"targets": {"a:1": {"insecure": true, "password": 1.10}}, "subscriptions": {"s":{"paths":["a"]}}}',
        "g.toml": '[targets."a:1"]\ninsecure = true\npassword = 1.10\n[subscriptions.s]\npaths = ["/a"]\n',
        "g.yaml": 'targets: {"a:1": {insecure: true, password: 1.10}}\nsubscriptions: {s: {paths: ["/a"]}}\n',
    }
    for name, text in content.items():
        [target] = load(written(tmp_path, text, name), {}).targets
        assert target.password == "1.10", name


def one_target(folder: Path, entry: str, environment: dict[str, str] | None = None, top: str = "") -> Any:
    [target] = load(written(folder, f"{top}\ntargets: {{a: {{{entry}}}}}\n{SUBSCRIPTIONS}"), environment or {}).targets
    return target


def test_variables_are_expanded_as_by_gnmic(tmp_path):
    environment = {"HOST": "leaf9", "PASS": "p$HOST", "A": "1", "GNMIC_USERNAME": "from-environment"}
    target = one_target(tmp_path, "address: $HOST:6030, password: $PASS, tls-server-name: '${HOST}.$A'", environment)
    assert (target.address, target.password, target.tls_server_name) == ("leaf9:6030", "p$HOST", "leaf9.1")
    assert target.username == "from-environment"
    target = one_target(tmp_path, "password: 'pa$HOST${A}', token: t$A", environment, top="username: from-file")
    assert (target.password, target.token) == ("pa$HOST${A}", "t$A")  # gnmic expands only values that begin with $
    assert target.username == "from-environment"  # the environment has precedence over the file
    with pytest.raises(UsageError, match="the environment has no variable NOBODY"):
        one_target(tmp_path, "address: $NOBODY")


@pytest.mark.parametrize("text", ["0123", "yes", "1e3", "2024-01-01", "12:30:00", "null1", "0x10", "on"])
def test_a_password_keeps_its_spelling(tmp_path, text):
    assert one_target(tmp_path, f"password: {text}").password == text


def test_retry_timer_and_defaults_of_the_top_level(tmp_path):
    assert one_target(tmp_path, "retry-timer: 5s").retry_s == 5
    assert one_target(tmp_path, "retry: 7s", top="retry: 5s").retry_s == 7
    target = one_target(tmp_path, "username: '', timeout: ", top="username: admin\ntimeout: 3s\nmetadata: {X-A: b}")
    assert (target.username, target.timeout_s, target.metadata) == ("", 3, (("x-a", "b"),))
    target = one_target(tmp_path, "auth-scheme: Basic, username: me, password: it")
    assert target.metadata == (("authorization", "Basic " + base64.b64encode(b"me:it").decode()),)


def test_targets_of_a_file(tmp_path, capsys):
    (tmp_path / "targets.yaml").write_text("10.0.0.1: {insecure: true}\n10.0.0.2:\n")
    (tmp_path / "targets.json").write_text('{"10.0.0.1": {"insecure": true}, "10.0.0.2": {}}')
    for name in ("yaml", "json"):
        text = f"loader: {{type: file, path: ./targets.{name}, interval: 30s, enable-metrics: false, on-add: [x]}}\n"
        found = load(written(tmp_path, text + SUBSCRIPTIONS), {})
        assert [(target.address, target.insecure) for target in found.targets] == [
            ("10.0.0.1:57400", True),
            ("10.0.0.2:57400", False),
        ]
        assert any("on-add" in line for line in found.warnings)
    found = load(written(tmp_path, "targets-file: targets.yaml\ntargets: {b: }\n" + SUBSCRIPTIONS), {})
    assert [target.name for target in found.targets] == ["b", "10.0.0.1", "10.0.0.2"]


NOT_SO = {
    "loader: {type: consul}": "targets: there are none; mburst reads a loader of type: file",
    "loader: {type: file}": "loader: path is missing",
    "loader: {type: file, path: nowhere.yaml}": "nowhere.yaml: cannot read: No such file",
    "targets-file: sftp://h/t.yaml": "targets: there are none",
    "address: a b": "invalid address 'a b'",
    "address: 'a:99999'": "invalid address 'a:99999'",
    "targets: {a: {address: ','}}": "invalid address ','",
    "targets: {a: {username: [x]}}": "targets.a.username: must be one value",
    "targets: {a: {password: {x: y}}}": "targets.a.password: must be one value",
    "targets: {a: , a: }": "the key 'a' is given twice",
    "targets: {a: }\nport: 0": "port: invalid port '0'",
    "targets: {a: }\nadress: b": "adress: unknown key; did you mean 'address'?",
    "targets: {a: {subscriptions: [t]}}": "targets.a: unknown subscription 't'; there are s",
    "targets: {a: {encoding: 17}}": "targets.a.encoding: unsupported encoding '17'",
    "targets: {a: }\nsubscribe-history-snapshot: 2024-01-01T00:00:00Z": "mburst reads current values only",
}


@pytest.mark.parametrize(("text", "line"), NOT_SO.items(), ids=NOT_SO)
def test_unsupported_settings_are_one_line(text, line, tmp_path, capsys):
    assert main(["collect", written(tmp_path, f"{text}\n{SUBSCRIPTIONS}"), "--check"]) in (1, 2)
    printed = capsys.readouterr().err.splitlines()
    assert line in printed[-1].replace(" (", "; ") and all(one.startswith("mburst: ") for one in printed), printed


def test_subscriptions_to_history_are_refused(tmp_path):
    text = "targets: {a: }\nsubscriptions: {s: {paths: [/a], history: {start: 2024-01-01T00:00:00Z}}}"
    with pytest.raises(UsageError, match="current values only"):
        load(written(tmp_path, text), {})


KEYS = st.sampled_from(
    sorted(
        {
            *gnmic_words.TOP,
            *gnmic_words.TARGET,
            *gnmic_words.SUBSCRIPTION,
            *gnmic_words.SUBSCRIBE,
            *gnmic_words.TOP_UNUSED,
            *gnmic_words.TARGET_UNUSED,
            *gnmic_words.LOADER,
            "racks",
            "links",
            "vendors",
            "buffer",
            "tables",
            "device",
            "port",
            "host",
        }
    )
) | st.text(max_size=6)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["s", "a", "/a[b=c]", "1s", "$X", "stream", "file", "10.0.0.1:1", "[::1]:1", "once"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)
WHOLE = st.fixed_dictionaries(
    {
        "targets": st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=2) | VALUES,
        "subscriptions": st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=2) | VALUES,
    },
    optional={"address": VALUES, "loader": VALUES, "mburst": VALUES},
).flatmap(lambda base: st.dictionaries(KEYS, VALUES, max_size=3).map(lambda more: {**more, **base}))


@settings(deadline=None, max_examples=300)
@given(WHOLE, st.sampled_from(["yaml", "json"]))
def test_whatever_is_in_it_the_answer_is_a_configuration_or_a_line(tmp_path_factory, content, kind):
    text = yaml.safe_dump(content) if kind == "yaml" else json.dumps(content, default=str)
    path = tmp_path_factory.mktemp("any") / f"any.{kind}"
    path.write_text(text)
    try:
        found = load(str(path), {"X": "x"})
    except MburstError as error:
        assert "\n" not in f"{error}{error.hint}"
    else:
        assert found.targets and all(target.subscriptions for target in found.targets)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.text(alphabet="{}[]:,-&*!|>'\"%@` \n\tabc0<", max_size=60).map(str.encode))
def test_any_bytes_are_a_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "any.yaml"
    path.write_bytes(content)
    with pytest.raises(MburstError) as failure:
        load(str(path), {})
    assert "\n" not in f"{failure.value}{failure.value.hint}"


@settings(deadline=None, max_examples=100)
@given(
    st.text(min_size=1, max_size=12),
    st.sampled_from(
        [
            "targets: {a: {%s: 1}}\nsubscriptions: {s: {paths: [/a]}}",
            "targets: {a: }\nsubscriptions: {s: {paths: [/a], %s: 1}}",
            "targets: {a: }\nsubscriptions: {s: {paths: [/a]}}\n%s: 1",
        ]
    ),
)
def test_an_unknown_key_is_a_line_or_a_warning(tmp_path_factory, key, frame):
    path = tmp_path_factory.mktemp("key") / "key.yaml"
    path.write_text(frame % json.dumps(key))
    try:
        found = load(str(path), {})
    except MburstError as error:
        assert "\n" not in f"{error}{error.hint}"
    else:
        assert not frame.endswith("%s: 1") or found.warnings or key.lower() in gnmic_words.TOP
