"""The switch agent with clients of other projects: gnmic's own library (tests/go/client) and pygnmi."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from gnmilib import agent
from golib import go_program
from livelab import Lab
from places import ROOT
from profiles import times

pytest.importorskip("pygnmi")
PYGNMI = ROOT / "tests" / "lib" / "pygnmi_client.py"
SECONDS, INTERVAL_MS = 20 * times(), 200
PATIENCE_S = 60  # for messages that must come
LONGEST_SILENCE_S = 10.0  # caused by a busy machine; a stream that has stalled is silent to its end
# A path for each way of writing one, with a leaf that only this path selects.
PATHS = {
    "max-queue-len": "/qos/interfaces/interface[interface-id=veth-a]/output/queues/queue[name=*]/state/max-queue-len",
    "transmit-octets": "/qos/interfaces/interface/output/queues/queue/state/transmit-octets",
    "dropped-pkts": "/qos/.../dropped-pkts",
    "in-octets": "/interfaces/interface[name=veth-a]/state/counters/in-octets",
    "out-octets": "/interfaces/interface[name=*]/state/counters/out-octets",
    "in-pkts": "openconfig-interfaces:interfaces/interface/state/counters/in-pkts",
    "in-errors": "/interfaces/.../in-errors",
    "oper-status": "/interfaces/*/state/oper-status",
    "port-speed": "/interfaces/interface[name=veth-a]/openconfig-if-ethernet:ethernet",
    "boot-time": "/system/state/boot-time",
}


@dataclass
class Heard:
    """The output of a client: lines of JSON, the last of which is the status."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> str:
        return str(self.lines[-1]["status"])

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [line["update"] for line in self.lines if "update" in line]


def times_of(name: str, heard: Heard) -> list[int]:
    """Returns the times at which the samples of a leaf were taken, in the output of either client. One notification may
    have several updates."""

    def has(update: dict[str, Any]) -> bool:
        return any(leaf(one["path"]) == name for one in update.get("update", ()))

    return [int(update["timestamp"]) for update in heard.updates if has(update)]


def leaf(path: Any) -> str:
    """Returns the last name of a path, in protobuf's JSON or pygnmi's text."""
    if isinstance(path, dict):
        return str(path["elem"][-1]["name"])
    return str(re.sub(r"\[.*?\]", "", path).rpartition("/")[2])


def value_of(update: dict[str, Any]) -> Any:
    """Returns the value of an update in protobuf's JSON; JSON documents are decoded."""
    [(kind, value)] = update["val"].items()
    return json.loads(base64.b64decode(value)) if kind.startswith("json") else value


class Clients:
    """Clients in the namespace of an agent."""

    def __init__(self, program: Path, lab: Lab, address: str) -> None:
        self.program, self.address = program, address
        self.inside = ["ip", "netns", "exec", lab.near]

    def begin(self, kind: str, *arguments: str) -> subprocess.Popen[str]:
        program = [str(self.program)] if kind == "go" else [sys.executable, str(PYGNMI)]
        return subprocess.Popen([*self.inside, *program, *arguments], stdout=subprocess.PIPE, text=True)

    def go(self, call: str, *paths: str, **flags: Any) -> Heard:
        return heard(self.begin("go", *self.flags(call, *paths, **flags)))

    def flags(self, call: str, *paths: str, **flags: Any) -> list[str]:
        given = [f"-{name.replace('_', '-')}={value}" for name, value in flags.items()]
        return [call, f"-address={self.address}", *given, *(f"-path={path}" for path in paths)]

    @contextlib.contextmanager
    def watching(self, *paths: str, **flags: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """Yields the lines that a subscription of gnmic's library prints."""
        process = self.begin("go", *self.flags("subscribe", *paths, **flags))
        assert process.stdout
        try:
            yield (json.loads(line) for line in process.stdout)
        finally:
            process.kill()
            process.communicate()

    def pygnmi(self, call: str, seconds: float = 0, **given: Any) -> Heard:
        return heard(self.begin("python", self.asked(call, seconds, **given)))

    def asked(self, call: str, seconds: float, **given: Any) -> str:
        return json.dumps({"address": self.address, "call": call, "seconds": seconds, "with": given})


def heard(process: subprocess.Popen[str]) -> Heard:
    text, _ = process.communicate(timeout=SECONDS + 60)
    return Heard([json.loads(line) for line in text.splitlines() if line.startswith("{")])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_program(tmp_path_factory.mktemp("go") / "client", ROOT / "tests" / "go" / "client")


@pytest.fixture
def clients(lab: Lab, program: Path, tmp_path: Path) -> Iterator[Clients]:
    """Clients of an agent that serves veth-a, a port of a bridge that passes 100 Mb/s."""
    for line in ("ip link add br0 type bridge", f"ip link set {lab.a} master br0", "ip link set br0 up",
                 "ip link set lo up",
                 f"tc qdisc add dev {lab.a} root tbf rate 100mbit burst 32k limit 1m"):  # fmt: skip
        lab.call(lab.near, line)
    with agent("--link=100M", namespace=lab.near, errors=tmp_path / "errors") as (address, process):
        yield Clients(program, lab, address)
        assert process.poll() is None
    assert (tmp_path / "errors").read_text() == ""


def goes_on(found: Heard, name: str) -> None:
    """Asserts that samples of a leaf came at about the interval, to the end. On a busy machine some are left out, and
    none is ever sent more often than requested."""
    times = times_of(name, found)
    most = SECONDS * 1000 / INTERVAL_MS
    assert most / 4 < len(times) <= most + 2, (name, len(times))
    ends = [max(int(update["timestamp"]) for update in found.updates)]
    assert max(after - before for before, after in pairwise(times + ends)) < LONGEST_SILENCE_S * 1e9, name


@contextlib.contextmanager
def aside(work: Any, results: dict[str, Heard], name: str) -> Iterator[None]:
    """Does WORK in a thread while the block runs."""
    thread = threading.Thread(target=lambda: results.update({name: work()}))
    thread.start()
    yield
    thread.join()


def test_ten_paths_stream_to_two_clients_while_others_are_killed(clients):
    """gnmic's library and pygnmi each have ten paths in one stream; other clients connect and are killed."""
    parts = [{"path": path, "mode": "sample", "sample_interval": INTERVAL_MS * 10**6} for path in PATHS.values()]
    subscribe = {"encoding": "proto", "subscription": parts}
    results: dict[str, Heard] = {}
    sample = {"interval": f"{INTERVAL_MS}ms", "encoding": "proto", "target": "leaf-1", "for": f"{SECONDS}s"}
    flags = clients.flags("subscribe", *PATHS.values(), **sample)
    with (
        aside(lambda: clients.go("subscribe", *PATHS.values(), **sample), results, "go"),
        aside(lambda: clients.pygnmi("subscribe", SECONDS, target="leaf-1", subscribe=subscribe), results, "pygnmi"),
    ):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            other = clients.begin("go", *flags)
            assert other.stdout and other.stdout.readline()
            other.send_signal(number)
            other.communicate()
    for found in results.values():
        assert found.status == "OK"
        for name in PATHS:
            goes_on(found, name)
    assert all(update["prefix"] == {"target": "leaf-1"} for update in results["go"].updates)
    names: dict[str, set[str]] = defaultdict(set)
    for update in results["go"].updates:
        for one in update["update"]:
            names[leaf(one["path"])].add(one["path"]["elem"][0]["name"])
    assert set(names) == set(PATHS)


@pytest.mark.parametrize("encoding", ["json", "json_ietf", "proto"])
def test_get_returns_the_same_in_every_encoding(clients, encoding):
    """The counters that both clients get are those of the kernel."""
    path = "/interfaces/interface[name=veth-a]/state"
    [found, end] = clients.go("get", path, encoding=encoding, target="leaf-1").lines
    assert end["status"] == "OK"
    [made] = found["notification"]
    assert made["prefix"] == {"target": "leaf-1"}
    if encoding == "proto":
        values = {leaf(update["path"]): value_of(update) for update in made["update"]}
    else:
        [update] = made["update"]
        assert [elem["name"] for elem in update["path"]["elem"]] == ["interfaces", "interface", "state"]
        tree = {name.removeprefix("openconfig-interfaces:"): value for name, value in value_of(update).items()}
        assert all(name.startswith("openconfig-interfaces:") for name in value_of(update)) is (encoding == "json_ietf")
        assert isinstance(tree["counters"]["out-octets"], str if encoding == "json_ietf" else int)
        assert isinstance(tree["mtu"], int)
        values = tree | tree.pop("counters")
    assert values["oper-status"] == "UP" and int(values["mtu"]) == 1500 and int(values["carrier-transitions"]) >= 1
    assert int(values["out-octets"]) >= int(values["out-pkts"]) * 14 > 0
    [other, end] = clients.pygnmi("get", path=[path], encoding=encoding).lines
    assert end["status"] == "OK" and other["notification"][0]["update"]


@pytest.mark.parametrize(
    ("kind", "has", "has_not"),
    [("all", {"name", "in-octets"}, set()), ("state", {"name", "in-octets"}, set()),
     ("operational", {"oper-status", "in-octets"}, {"name", "mtu"}), ("config", set(), {"name", "in-octets"})],
)  # fmt: skip
def test_get_of_a_type(clients, kind, has, has_not):
    [found, end] = clients.go("get", "/interfaces/interface[name=veth-a]", encoding="proto", type=kind).lines
    assert end["status"] == "OK"
    names = {leaf(update["path"]) for made in found["notification"] for update in made.get("update", ())}
    assert has <= names and not has_not & names


def test_refusals_have_the_status_that_gnmi_specifies(clients):
    go = clients.go
    for found, status, word in (
        (go("get", "/interfaces", encoding="ascii"), "Unimplemented", "ASCII"),
        (go("get", "/interfaces", encoding="bytes"), "Unimplemented", "BYTES"),
        (go("get", "/nothing"), "InvalidArgument", "/nothing"),
        (go("get", "/interfaces/interface[name=p*]"), "InvalidArgument", "name=p*"),
        (go("get", "/interfaces/interface[name=nosuch]"), "NotFound", "nosuch"),
        (go("get", "/interfaces", model="openconfig-bgp"), "InvalidArgument", "openconfig-bgp"),
        (go("set", "/system/config/hostname"), "Unimplemented", "Set"),
        (go("subscribe", "/interfaces", interval="1ms"), "InvalidArgument", "10 ms"),
        (go("subscribe", "/interfaces", stream_mode="on-change", heartbeat="1ms"), "InvalidArgument", "100 ms"),
        (go("subscribe", "openconfig-qos:interfaces"), "InvalidArgument", "openconfig-qos:interfaces"),
        (go("subscribe", "/interfaces", encoding="ascii"), "Unimplemented", "ASCII"),
        (go("subscribe", "/interfaces", polls=1), "InvalidArgument", "no further request"),
    ):
        assert found.status == status and word in found.lines[-1]["message"], found.lines
    assert clients.pygnmi("get", path=["/nothing"], encoding="proto").status == "INVALID_ARGUMENT"


def test_a_path_that_does_not_exist_yet_may_be_subscribed_to(clients, lab):
    found = clients.go("subscribe", "/interfaces/interface[name=nosuch]", stream_mode="on-change", **{"for": "1s"})
    assert found.status == "OK" and found.updates == []


@pytest.mark.parametrize("stream_mode", ["on-change", "sample", "target-defined"])
def test_updates_only_sends_no_state(clients, lab, stream_mode):
    """The sync comes first; values that rarely change are sent only when they change."""
    flags = {"updates_only": "true", "stream_mode": stream_mode, "interval": "1h", "encoding": "json"}
    flags["for"] = "2s" if stream_mode == "sample" else f"{PATIENCE_S}s"
    paths = ("/interfaces/interface/state/admin-status", "/qos/.../max-queue-len")
    with clients.watching(*paths, **flags) as lines:
        found = [next(lines)]
        lab.call(lab.near, f"ip link set {lab.a} down")
        for line in lines:
            found.append(line)
            if times_of("admin-status", Heard([line])):
                break
    assert found[0] == {"syncResponse": True}
    updated = [value_of(one) for update in Heard(found).updates for one in update["update"]
            if leaf(one["path"]) == "admin-status"]  # fmt: skip
    assert updated == ([] if stream_mode == "sample" else ["DOWN"])
    if stream_mode == "on-change":
        assert times_of("max-queue-len", Heard(found)) == []


@pytest.mark.parametrize("mode", ["once", "poll"])
def test_once_and_poll_end_with_a_sync_each(clients, mode):
    found = clients.go("subscribe", "/interfaces", mode=mode, encoding="proto", polls=2 if mode == "poll" else 0)
    assert found.status == "OK"
    assert [("sync" if "syncResponse" in line else "update") for line in found.lines[:-1]] == (
        ["update", "sync"] * (3 if mode == "poll" else 1)
    )
    quiet = clients.go("subscribe", "/interfaces", mode=mode, updates_only="true")
    assert [line for line in quiet.lines if "update" in line] == []


def test_prefix_wildcards_and_models(clients):
    found = clients.go("subscribe", "interface[name=*]/state/mtu", mode="once", prefix="/interfaces", encoding="proto")
    assert [leaf(one["path"]) for update in found.updates for one in update["update"]] == ["mtu"]
    found = clients.go("subscribe", "/interfaces/...", mode="once", model="openconfig-if-ethernet", encoding="proto")
    [update] = found.updates
    assert [leaf(one["path"]) for one in update["update"]] == ["port-speed"]
    assert value_of(update["update"][0]) == "SPEED_100MB" and "prefix" not in update


def test_an_interface_that_vanishes_is_deleted_and_not_reported_again(clients, lab):
    awaited = {"oper-status", "in-octets", "max-queue-len", "transmit-octets"}
    with clients.watching("/interfaces", "/qos", stream_mode="on-change", **{"for": f"{PATIENCE_S}s"}) as lines:
        next(lines)
        lab.call(lab.near, f"ip link del {lab.a}")
        while awaited:
            line = next(lines)
            awaited -= {leaf(path) for path in line.get("update", {}).get("delete", ())}
    assert clients.go("get", "/qos/.../max-queue-len").lines[0]["notification"][0].get("update") is None


def test_tls_with_a_client_certificate_and_a_password(program, tmp_path):
    authority, errors = Authority(tmp_path), tmp_path / "errors"
    certificate, key = authority.issue("agent", ["127.0.0.1"])
    mine, my_key = authority.issue("client", [])
    arguments = [f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={authority.ca}", "--username=me"]
    with agent("lo", *arguments, env={"MBURST_AGENT_PASSWORD": "right"}, errors=errors) as (address, _):

        def asked(**more: Any) -> Heard:
            flags = {"address": address, "ca": authority.ca, "cert": mine, "key": my_key, "username": "me",
                     "password": "right", "interval": "20ms", "encoding": "proto", "for": "3s", **more}  # fmt: skip
            given = [f"-{name}={value}" for name, value in flags.items() if value]
            process = subprocess.Popen([program, "subscribe", *given, "-path=/interfaces", "-path=/system"],
                                       stdout=subprocess.PIPE, text=True)  # fmt: skip
            return heard(process)

        found = asked()
        assert found.status == "OK" and min(len(times_of(name, found)) for name in ("in-octets", "hostname")) > 20
        assert errors.read_text() == ""
        assert asked(password="wrong").status == "Unauthenticated"
        assert asked(cert="", key="").status == "Unavailable"
        assert asked().status == "OK"


def test_capabilities(clients):
    [found, end] = clients.go("capabilities").lines
    assert end["status"] == "OK" and found["supportedEncodings"] == ["PROTO", "JSON_IETF", "JSON"]
    assert {model["name"] for model in found["supportedModels"]} >= {"openconfig-interfaces", "openconfig-qos"}
