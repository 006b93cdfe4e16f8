"""mburst with the reference implementations in Go: the fake server, which replays exact responses, and a target built
on the cache and subscribe packages (tests/go/target). The tests are skipped, with the reason, if Go or its modules are
not available."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from gnmilib import SYNC, collect, heard, lines_so_far, messages, notification, query, updated
from golib import go_program
from google.protobuf import text_format
from places import ROOT
from ports import free_port

SOURCES = ROOT / "tests" / "go" / "target"
FAKE = "github.com/openconfig/gnmi/testing/fake/gnmi/cmd/fake_server"
Q = "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=0]/state/"
N = "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id=1]"
SUBSCRIPTION = "subscriptions: {q: {paths: [/qos, /lldp], target: dev}}\n"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two servers."""
    folder = tmp_path_factory.mktemp("go")
    return {name: go_program(folder / name, SOURCES, package) for name, package in (("target", "."), ("fake", FAKE))}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


class Driven:
    """The reference target, and the lines that it is sent."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address

    def say(self, *lines: Any) -> None:
        assert self.process.stdin
        for line in lines:
            text = line if isinstance(line, str) else text_format.MessageToString(line, as_one_line=True)
            self.process.stdin.write(text + "\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def target(program: Path, *flags: str) -> Iterator[Driven]:
    own = {**os.environ, "TMPDIR": str(program.parent)}  # where it logs
    process = subprocess.Popen([program, *flags], env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield Driven(process, process.stdout.readline().split()[1])
    finally:
        process.kill()
        process.communicate()


def note(updates: dict[str, Any], **more: Any) -> Any:
    return notification(time.time_ns(), updates, target="dev", **more)


def stamped(line: Any) -> Any:
    """Returns a line with the current time: the cache accepts no value that is older than the one it has."""
    if not isinstance(line, str):
        line.timestamp = time.time_ns()
    return line


def configured(address: str, more: str = "insecure: true") -> str:
    return f'targets: {{a: {{address: "{address}", {more}}}}}\n{SUBSCRIPTION}'


def test_the_reference_target_streams_updates_deletes_and_atomics(tmp_path, built):
    lines: list[tuple[int, list[Any]]] = [  # (values that must have come before, messages that the target is sent then)
        (0, [note({Q + "max-queue-len": 5000, Q + "dropped-pkts": 3}),
             note({N + "/state/system-name": "cache-1", N + "/state/port-id": "eth0"}), "sync"]),
        (4, [note({Q + "max-queue-len": 7000, Q + "dropped-pkts": 10})]),
        (6, [note({Q + "odd-leaf": "x"})]),
        (7, [note({}, deletes=[N]), note({}, deletes=[Q + "odd-leaf"]), note({"/end": 1})]),
    ]  # fmt: skip
    with target(built["target"]) as driven:

        def until(collector: Any) -> bool:
            values = collector.sessions[0].device.values
            while lines and values >= lines[0][0]:
                driven.say(*(stamped(line) for line in lines.pop(0)[1]))
            return bool(values >= 8)

        text = configured(driven.address).replace("[/qos, /lldp]", "[/qos, /lldp, /end]")
        collect(tmp_path, text, until)
    assert query(tmp_path, "SELECT max_bytes, dropped_packets FROM queues ORDER BY ts_ns")[-1] in [(7000, 7), (None, 7)]
    assert query(tmp_path, "SELECT max(max_bytes), sum(dropped_packets) FROM queues") == [(7000, 7)]
    # The target sends each leaf separately: on a slow machine a neighbour has its name for a while before its port.
    links = query(tmp_path, "SELECT host, interface, present FROM links WHERE interface <> '' ORDER BY ts_ns")
    assert links == [("cache-1", "eth0", True), ("cache-1", "eth0", False)]
    assert query(tmp_path, "SELECT value, deleted FROM gnmi_values WHERE path <> '/end' ORDER BY receive_ns") == [
        ("x", False),
        ("", True),
    ]


def test_the_reference_target_with_certificates_and_password(tmp_path, built, authority):
    certificate, key = authority.issue("go-server", ["127.0.0.1"])
    mine, my_key = authority.issue("go-client", [])
    flags = [f"--cert={certificate}", f"--key={key}", f"--ca={authority.ca}", "--username=me", "--password=right"]
    trust = f"tls-ca: {authority.ca}, tls-cert: {mine}, tls-key: {my_key}, username: me"
    with target(built["target"], *flags) as driven:
        driven.say(note({Q + "max-queue-len": 5000}), "sync")
        text = configured(driven.address, f"{trust}, password: right").replace("a: {", "a: {", 1)
        text = text.replace("targets: {", f'targets: {{b: {{address: "{driven.address}", {trust}, password: wrong}}, ')
        printed = collect(
            tmp_path, text, lambda collector: heard(collector, "a") >= 1 and lines_so_far(collector) != []
        )
    assert printed == ["b: user or password is refused: wrong password"]
    assert query(tmp_path, "SELECT device, max_bytes FROM queues") == [("a", 5000)]


def script(responses: list[Any], *, hold: bool) -> str:
    """Writes a configuration of the fake server."""
    config = ['target: "dev"', "client_type: GRPC_GNMI", f"disable_eof: {str(hold).lower()}", "disable_sync: true"]
    texts = [f"responses: <{text_format.MessageToString(response, as_one_line=True)}>" for response in responses]
    return "\n".join([*config, "fixed: <", *texts, ">"]) + "\n"


@contextlib.contextmanager
def fake(program: Path, folder: Path, authority: Authority, responses: list[Any], *, hold: bool) -> Iterator[int]:
    """Runs the fake server with a script; yields its port."""
    certificate, key = authority.issue("fake", ["127.0.0.1"])
    path, port = folder / "fake.txt", free_port()
    path.write_text(script(responses, hold=hold))
    process = subprocess.Popen(
        [
            program,
            "--config",
            path,
            "--text",
            "--port",
            str(port),
            "--server_crt",
            certificate,
            "--server_key",
            key,
            "--allow_no_client_auth",
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # its log
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def test_the_fake_server_replays_everything_exactly(tmp_path, built, authority):
    """The responses have a sync first and again, JSON_IETF, duplicates, atomic updates, deletes, a prefix with an
    origin, and leaves of every kind."""
    now_ns = time.time_ns()
    atomic = notification(now_ns + 2, {"/b": 3}, prefix="/top", atomic=True)
    in_json = messages.TypedValue(json_ietf_val=b'"5000"')
    kinds = {"/d": messages.TypedValue(double_val=0.5), "/n": messages.TypedValue(int_val=-4)}
    responses = [
        SYNC,
        updated(notification(now_ns, {Q + "max-queue-len": in_json}, duplicates=2)),
        updated(notification(now_ns, {"/a": 1, "/b": 2}, prefix="openconfig:/top")),
        updated(atomic), SYNC,
        updated(notification(now_ns + 3, kinds)),
        updated(notification(now_ns + 4, {}, deletes=["/top"])),
    ]  # fmt: skip
    with fake(built["fake"], tmp_path, authority, responses, hold=True) as port:
        text = configured(f"127.0.0.1:{port}", f"tls-ca: {authority.ca}, retry: 1s")
        collect(tmp_path, text, lambda collector: collector.sessions[0].device.messages >= 5)
    assert query(tmp_path, "SELECT max_bytes, quality FROM queues") == [(5000, 8192)]
    leaves = query(tmp_path, "SELECT path, value, deleted FROM gnmi_values ORDER BY ts_ns, path, deleted")
    assert leaves == [
        ("/top/a", "1", False),
        ("/top/b", "2", False),
        ("/top/a", "", True),
        ("/top/b", "3", False),
        ("/d", "0.5", False),
        ("/n", "-4", False),
        ("/top/b", "", True),
    ]
    events = [event for (event,) in query(tmp_path, "SELECT event FROM gnmi_events ORDER BY ts_ns, event")]
    assert events.count("sync") == 2 and "duplicates" in events


def test_a_fake_server_that_ends_is_subscribed_to_again(tmp_path, built, authority):
    responses = [updated(notification(time.time_ns() + i, {Q + "max-queue-len": i})) for i in range(3)] + [SYNC]
    with fake(built["fake"], tmp_path, authority, responses, hold=False) as port:
        text = configured(f"127.0.0.1:{port}", f"tls-ca: {authority.ca}, retry: 1s")
        printed = collect(tmp_path, text, lambda collector: collector.sessions[0].device.messages >= 6)
    assert "a: q: the target closed the stream" in printed
    assert query(tmp_path, "SELECT count(*) >= 1 FROM gnmi_events WHERE event = 'gap'") == [(True,)]
