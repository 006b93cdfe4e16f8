"""`mburst collect` and `mburst switch-agent` as commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from calm import beside_slow_disk
from gnmilib import agent
from places import ROOT
from ports import free_port

from mburst.__main__ import main

SUBSCRIPTIONS = "subscriptions: {c: {paths: [/interfaces, /foo], stream-mode: sample, sample-interval: 50ms}}\n"


def run(*arguments: str | Path, timeout: float = 90, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mburst", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )  # type: ignore[call-overload, no-any-return]


def written(folder: Path, address: str, paths: str = "[/interfaces]") -> Path:
    path = folder / "gnmi.yaml"
    path.write_text(
        f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
        f"subscriptions: {{c: {{paths: {paths}, stream-mode: sample, sample-interval: 50ms}}}}\n"
    )
    return path


def test_check_states_what_each_path_becomes(capsys, monkeypatch):
    monkeypatch.setenv("GNMI_PASSWORD", "top-secret")
    assert main(["collect", str(ROOT / "examples" / "gnmi.yaml"), "--check"]) == 0
    printed = capsys.readouterr().out
    for part in (
        "tor1: 192.0.2.11:6030, TLS, CA",
        "user collector",
        "tor3: 192.0.2.13:57400, TLS, trust on first use",
        "ports: in_bytes, out_bytes, in_discards, out_discards by openconfig",
        "links: host, interface by openconfig",
        "queues: max_bytes, dropped_packets (event) by arista",
        "fact: segmentSize",
        "fact: boot",
        "queues: max_bytes (periodic-max) by sonic",
        "queues: max_bytes, avg_bytes (sliding-max) by srlinux",
        "1 link in the inventory",
    ):
        assert part in printed, part
    assert "top-secret" not in printed and "gnmi_values" not in printed.replace("kept as a leaf", "")


def test_check_reports_an_unknown_path(tmp_path, capsys):
    assert main(["collect", str(written(tmp_path, "x:1", "[/foo/bar]")), "--check"]) == 0
    assert "leaves: names and values only" in capsys.readouterr().out


def test_check_states_which_origin_a_path_lacks(tmp_path, capsys):
    lacking = "queues: max_bytes, dropped_packets (event) by arista", "; subscribe with its origin: eos_native:/…"
    for path, expected in ("/LANZ", True), ("eos_native:/LANZ", False), ("other:/LANZ", True):
        assert main(["collect", str(written(tmp_path, "x:1", f'["{path}"]')), "--check"]) == 0
        [line] = [line for line in capsys.readouterr().out.splitlines() if lacking[0] in line]
        assert line.endswith(lacking[1]) == expected, path


def test_once_prints_and_stores_nothing(tmp_path):
    with agent("lo") as (address, _):
        config = written(tmp_path, address)
        table = run("collect", config, "--once")
        rows = json.loads(run("collect", config, "--once", "--json").stdout)
    assert table.returncode == 0 and table.stdout.splitlines()[0].split() == ["device", "path", "value", "means"]
    by_path = {row["path"]: row for row in rows}
    octets = by_path["/interfaces/interface[name=lo]/state/counters/in-octets"]
    assert octets["device"] == "a" and octets["value"].isdigit() and octets["means"] == "ports.in_bytes"
    assert not (tmp_path / "store").exists()


def test_once_reports_the_error_and_fails(tmp_path):
    port = free_port()
    done = run("collect", written(tmp_path, f"127.0.0.1:{port}"), "--once")
    assert done.returncode == 1 and done.stderr == f"mburst: a: 127.0.0.1:{port}: Connection refused\n"
    with agent("lo") as (address, _):
        done = run("collect", written(tmp_path, address, "[/interfaces, /foo]"), "--once")
    assert done.returncode == 1 and done.stderr == (
        "mburst: a: c: the path /foo is not supported: this agent serves /interfaces, /qos, /lldp, /system\n"
    )


def test_a_collection_ends_after_its_duration_or_by_a_signal(tmp_path):
    with agent("lo") as (address, _):
        config = written(tmp_path, address)
        done = run("collect", config, "-o", tmp_path / "store", "--duration", "1s")
        assert (done.returncode, beside_slow_disk(done.stderr)) == (0, "") and "rows collected into" in done.stdout
        process = subprocess.Popen(
            [sys.executable, "-m", "mburst", "collect", config, "-o", tmp_path / "store"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not list((tmp_path / "store" / "hot").glob("ports/*.log")) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "values in" in out and err == ""
    links = run("sql", tmp_path / "store", "gnmi_events", "--json")
    assert {row["event"] for row in json.loads(links.stdout)} >= {"connect", "sync", "disconnect"}


def test_a_collection_that_reaches_nobody_fails(tmp_path):
    port, silent = free_port(), free_port()
    config = tmp_path / "gnmi.yaml"
    targets = f'a: {{address: "127.0.0.1:{port},127.0.0.1:{silent}"}}, b: {{address: "127.0.0.1:{port}"}}'
    config.write_text(f"insecure: true\ntargets: {{{targets}}}\n{SUBSCRIPTIONS}")
    done = run("collect", config, "-o", tmp_path / "store", "--duration", "2s")
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert f"mburst: b: no value received: 127.0.0.1:{port}: Connection refused" in lines
    assert (
        f"mburst: a: no value received: 127.0.0.1:{port}: Connection refused; 127.0.0.1:{silent}: Connection refused"
    ) in lines
    assert run("collect", config, "--once").returncode == 1


def test_the_address_that_answers_is_used(tmp_path):
    with agent("lo") as (address, _):
        config = written(tmp_path, f"127.0.0.1:{free_port()},{address}")
        once = run("collect", config, "--once", "--json")
        done = run("collect", config, "-o", tmp_path / "store", "--duration", "3s")
    assert once.returncode == 0 and json.loads(once.stdout) and once.stderr == ""
    assert done.returncode == 0 and "values in" in done.stdout and "nothing came" not in done.stderr


def test_a_subscription_without_a_value_and_a_port_that_is_not_there_are_named(tmp_path):
    with agent("lo") as (address, _):
        config, sampled = tmp_path / "gnmi.yaml", "stream-mode: sample, sample-interval: 50ms"
        config.write_text(
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
            f"subscriptions: {{c: {{paths: [/interfaces], {sampled}}}, queues: {{paths: [/qos], {sampled}}}}}\n"
            "mburst: {links: [{device: a, port: lo, host: h}, {device: a, port: lo7, host: g}]}\n"
        )
        done = run("collect", config, "-o", tmp_path / "store", "--duration", "3s")
    assert done.returncode == 0 and "values in" in done.stdout
    assert done.stderr.splitlines() == [
        "mburst: a: queues: no value received (`mburst collect FILE --check` lists its paths)",
        "mburst: a: the inventory has a link of port lo7, of which no value came",
    ]


def test_the_inventory_fills_links(tmp_path):
    with agent("lo") as (address, _):
        config = written(tmp_path, address)
        config.write_text(
            config.read_text() + "mburst: {racks: {a: r9}, links: [{device: a, port: p1, host: h, link: 1G},"
            " {device: a, port: p2, host: g, rack: r8}]}\n"
        )
        assert run("collect", config, "-o", tmp_path / "store", "--duration", "2s").returncode == 0
    rows = json.loads(run("sql", tmp_path / "store", "links", "--json").stdout)
    assert [(row["port"], row["host"], row["rack"], row["link_bps"]) for row in rows] == [
        ("p1", "h", "r9", 10**9),
        ("p2", "g", "r8", None),
    ]


@pytest.mark.parametrize(("arguments", "line"), [
    (["collect", "{}"], "use -o STORE"),
    (["collect", "{}", "-o", "s", "--json"], "--json and --csv go with --once"),
    (["switch-agent", "nosuch0"], "nosuch0: no such interface"),
    (["switch-agent", "lo", "--tls-cert", "x"], "--tls-cert and --tls-key go together"),
    (["switch-agent", "lo", "--username", "me"], "set MBURST_AGENT_PASSWORD"),
    (["switch-agent", "lo", "--tls-cert", "/x", "--tls-key", "/y"], "/x: cannot read"),
    (["switch-agent", "lo", "--ethers", "{}"], "not a MAC address and a name"),
    (["switch-agent", "lo", "--listen", "192.0.2.1:1"], "other hosts can connect"),
])  # fmt: skip
def test_errors_of_the_call_are_one_line(tmp_path, arguments, line):
    config = str(written(tmp_path, "x:1"))
    environment = {name: value for name, value in os.environ.items() if name != "MBURST_AGENT_PASSWORD"}
    done = run(*(argument.format(config) for argument in arguments), env=environment)
    assert done.returncode in (1, 2) and line in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_the_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "grpc" else object())
    assert main(["collect", str(written(tmp_path, "x:1")), "--check"]) == 1
    assert "pip install 'mburst[gnmi]'" in capsys.readouterr().err
