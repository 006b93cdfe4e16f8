"""A port with several queues: the switch agent serves each, and all of them together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from livelab import Lab

from mburst.__main__ import main

HELD, FRAME = 20, 1000
SLOW, FAST = 0x10010, 0x10020  # classes 1:10 and 1:20
LEAVES = "/qos/interfaces/interface[interface-id=veth-a]/output/queues/queue[name={}]/state/{}"


@pytest.fixture
def port(lab: Lab) -> Lab:
    """veth-a with a class that lets hardly anything out, in which HELD frames were put, and one that is empty."""
    for line in ("qdisc add dev veth-a root handle 1: htb default 20",
                 "class add dev veth-a parent 1: classid 1:1 htb rate 10mbit",
                 "class add dev veth-a parent 1:1 classid 1:10 htb rate 8bit ceil 8bit burst 1500 cburst 1500",
                 "class add dev veth-a parent 1:1 classid 1:20 htb rate 8mbit"):  # fmt: skip
        lab.tell(lab.near, f"tc {line}")
    with lab.inside(lab.near), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((lab.a, 0))
        for class_id, frames in ((SLOW, HELD), (FAST, 3)):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_id)  # htb takes it as the class
            for _ in range(frames):
                sock.send(b"\2" * 12 + b"\x88\xb5" + bytes(FRAME - 14))
    return lab


def asked(lab: Lab, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, str]]:
    """What the agent says when it begins, and {path: value} of its queues."""
    address = f"unix:{folder}/agent.sock"
    agent = subprocess.Popen(
        ["ip", "netns", "exec", lab.near, sys.executable, "-m", "mburst", "switch-agent", lab.a, "--listen", address],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )  # fmt: skip
    try:
        assert agent.stdout
        said = agent.stdout.readline()
        config = folder / "gnmi.yaml"
        config.write_text(
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
            "subscriptions: {q: {paths: [/qos/interfaces]}}\n"
        )
        assert main(["collect", str(config), "--once", "--json"]) == 0
        return said, {row["path"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    finally:
        agent.kill()
        agent.wait()
        if agent.stdout:
            agent.stdout.close()


def test_each_class_is_a_queue_beside_the_whole(port, tmp_path, capsys):
    said, found = asked(port, tmp_path, capsys)
    assert said.startswith("serving 1 ports, 1 with a queue")
    [reference] = [path for path in found if path.endswith("/interface-ref/state/interface")]
    assert found[reference] == "veth-a"
    names = {value for path, value in found.items() if path.endswith("/state/name")}
    assert names == {"0", "1:10", "1:20"}  # 1:1 only shares out what it has

    def told(queue: str, leaf: str) -> int:
        return int(found[LEAVES.format(queue, leaf)])

    waiting = told("1:10", "max-queue-len")
    assert waiting in range((HELD - 3) * FRAME, HELD * FRAME + 1, FRAME)  # its first ones went on the burst
    assert told("1:20", "max-queue-len") == 0 and told("0", "max-queue-len") == waiting
    assert told("1:10", "transmit-octets") == HELD * FRAME - waiting
    assert told("1:20", "transmit-octets") >= 3 * FRAME and told("1:20", "transmit-pkts") >= 3
    assert {told(queue, "dropped-pkts") for queue in names} == {0}


def test_one_class_is_the_port_itself(lab, tmp_path, capsys):
    """A shaper has a class, which is not another queue than the port's."""
    lab.tell(lab.near, "tc qdisc add dev veth-a root handle 1: tbf rate 10mbit burst 2000 limit 100000")
    _, found = asked(lab, tmp_path, capsys)
    assert {value for path, value in found.items() if path.endswith("/state/name")} == {"0"}


def test_flows_are_no_queues(lab, tmp_path, capsys):
    """fq_codel lists the flows that wait as classes."""
    command = f"ip netns exec {lab.near} tc qdisc add dev veth-a root fq_codel"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this kernel has no fq_codel: {done.stderr.strip()}")
    _, found = asked(lab, tmp_path, capsys)
    assert {value for path, value in found.items() if path.endswith("/state/name")} == {"0"}
