"""A port with several queues: the switch agent serves each queue, and their sum."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bounded import next_line
from livelab import Lab

from mburst.__main__ import main
from mburst.gnmi_target.netlink import attributes

HELD, FRAME = 20, 1000
SLOW, FAST = 0x10010, 0x10020  # classes 1:10 and 1:20
LEAVES = "/qos/interfaces/interface[interface-id=veth-a]/output/queues/queue[name={}]/state/{}"


@pytest.fixture
def port(lab: Lab) -> Lab:
    """veth-a with one class that is nearly blocked and holds HELD frames, and one that is empty."""
    for line in ("qdisc add dev veth-a root handle 1: htb default 20",
                 "class add dev veth-a parent 1: classid 1:1 htb rate 10mbit",
                 "class add dev veth-a parent 1:1 classid 1:10 htb rate 8bit ceil 8bit burst 1500 cburst 1500",
                 "class add dev veth-a parent 1:1 classid 1:20 htb rate 8mbit"):  # fmt: skip
        lab.call(lab.near, f"tc {line}")
    with lab.inside(lab.near), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((lab.a, 0))
        for class_id, frames in ((SLOW, HELD), (FAST, 3)):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_id)  # htb takes it as the class
            for _ in range(frames):
                sock.send(b"\2" * 12 + b"\x88\xb5" + bytes(FRAME - 14))
    return lab


def asked(
    lab: Lab, folder: Path, capsys: pytest.CaptureFixture[str], path: str = "/qos/interfaces"
) -> tuple[str, dict[str, str]]:
    """Returns the first output of the agent, and {path: value} at PATH."""
    address = f"unix:{folder}/agent.sock"
    agent = subprocess.Popen(
        ["ip", "netns", "exec", lab.near, sys.executable, "-m", "mburst", "switch-agent", lab.a, "--listen", address],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "GRPC_VERBOSITY": "NONE"},
    )  # fmt: skip
    try:
        output = next_line(agent)
        config = folder / "gnmi.yaml"
        config.write_text(
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\nsubscriptions: {{q: {{paths: [{path}]}}}}\n'
        )
        assert main(["collect", str(config), "--once", "--json"]) == 0
        return output, {row["path"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    finally:
        agent.kill()
        agent.wait()
        if agent.stdout:
            agent.stdout.close()


def test_each_class_is_a_queue_in_addition_to_the_sum(port, tmp_path, capsys):
    output, found = asked(port, tmp_path, capsys)
    assert output.startswith("serving 1 port, 1 with a queue")
    [reference] = [path for path in found if path.endswith("/interface-ref/state/interface")]
    assert found[reference] == "veth-a"
    names = {value for path, value in found.items() if path.endswith("/state/name")}
    assert names == {"0", "1:10", "1:20"}  # 1:1 only divides its rate among its children

    def seen(queue: str, leaf: str) -> int:
        return int(found[LEAVES.format(queue, leaf)])

    waiting = seen("1:10", "max-queue-len")
    assert waiting in range((HELD - 3) * FRAME, HELD * FRAME + 1, FRAME)  # the first frames used the burst
    assert seen("1:20", "max-queue-len") == 0 and seen("0", "max-queue-len") == waiting
    assert seen("1:10", "transmit-octets") == HELD * FRAME - waiting
    assert seen("1:20", "transmit-octets") >= 3 * FRAME and seen("1:20", "transmit-pkts") >= 3
    assert {seen(queue, "dropped-pkts") for queue in names} == {0}


def test_one_class_is_the_port_itself(lab, tmp_path, capsys):
    """A shaper has one class, which is the same queue as the port's."""
    lab.call(lab.near, "tc qdisc add dev veth-a root handle 1: tbf rate 10mbit burst 2000 limit 100000")
    _, found = asked(lab, tmp_path, capsys)
    assert {value for path, value in found.items() if path.endswith("/state/name")} == {"0"}


def test_flows_are_not_queues(lab, tmp_path, capsys):
    """fq_codel lists waiting flows as classes."""
    command = f"ip netns exec {lab.near} tc qdisc add dev veth-a root fq_codel"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this kernel has no fq_codel: {done.stderr.strip()}")
    _, found = asked(lab, tmp_path, capsys)
    assert {value for path, value in found.items() if path.endswith("/state/name")} == {"0"}


FIELDS = ("bytes", "packets", "drops", "backlog")


def tc_counts(lab: Lab) -> dict[str, dict[str, int]]:
    """Returns {queue: its statistics} as tc(8) reads and prints them, by code of others."""
    output = lab.call(lab.near, "tc -s qdisc show dev veth-a root") + lab.call(lab.near, "tc -s class show dev veth-a")
    queues = {}
    for kind, handle, text in re.findall(r"^(qdisc|class) \S+ (\S+)(.*?)(?=^qdisc|^class|\Z)", output, re.M | re.S):
        sent = re.search(r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+),", text)
        waiting = re.search(r"backlog (\d+)(K?)b", text)
        assert sent and waiting, text
        numbers = [*map(int, sent.groups()), int(waiting[1]) * (1024 if waiting[2] else 1)]
        queues["0" if kind == "qdisc" else handle] = dict(zip(FIELDS, numbers, strict=True))
    return queues


def ip_counts(lab: Lab) -> dict[str, int | str]:
    """Returns the counters of the port that ip(8) reads and prints, by OpenConfig's names."""
    [link] = json.loads(lab.call(lab.near, "ip -s -s -j link show dev veth-a"))
    rx, tx = link["stats64"]["rx"], link["stats64"]["tx"]
    return {
        "mtu": link["mtu"], "ifindex": link["ifindex"], "oper-status": link["operstate"],
        "admin-status": "UP" if "UP" in link["flags"] else "DOWN", "in-octets": rx["bytes"], "in-pkts": rx["packets"],
        "in-errors": rx["errors"], "in-discards": rx["dropped"] + rx["missed_errors"],
        "in-fcs-errors": rx["crc_errors"], "out-octets": tx["bytes"], "out-pkts": tx["packets"],
        "out-errors": tx["errors"], "out-discards": tx["dropped"], "carrier-transitions": tx["carrier_changes"],
    }  # fmt: skip


@pytest.mark.parametrize("frames", [1, 7, 60])
def test_every_number_equals_that_of_tc(port, tmp_path, capsys, frames):
    """Frames wait in a class that is nearly blocked, and some are dropped by its limit of 30."""
    port.call(port.near, "tc qdisc add dev veth-a parent 1:10 handle 10: pfifo limit 30")
    with port.inside(port.near), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((port.a, 0))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, SLOW)
        for number in range(frames):
            with contextlib.suppress(OSError):  # ENOBUFS: the frame was dropped
                sock.send(b"\2" * 12 + b"\x88\xb5" + bytes(50 + 13 * number))
    _, found = asked(port, tmp_path, capsys)
    for name, output in tc_counts(port).items():
        if LEAVES.format(name, "name") not in found:
            continue
        for leaf, field in (("max-queue-len", "backlog"), ("transmit-octets", "bytes"), ("transmit-pkts", "packets"),
                            ("dropped-pkts", "drops")):  # fmt: skip
            depth = int(found[LEAVES.format(name, leaf)])
            assert abs(depth - output[field]) <= (16 if output[field] % 1024 == 0 else 0), (name, leaf)  # Kb
    assert int(found[LEAVES.format("1:10", "max-queue-len")]) > 0
    assert (int(found[LEAVES.format("1:10", "dropped-pkts")]) > 0) is (frames > 30)


def test_every_counter_equals_that_of_ip(port, tmp_path, capsys):
    with port.inside(port.far), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((port.b, 0))
        for number in range(41):
            sock.send(b"\xff" * 6 + b"\2" * 6 + b"\x88\xb5" + bytes(100 + number))
    before = ip_counts(port)
    _, found = asked(port, tmp_path, capsys, "/interfaces")
    after = ip_counts(port)
    seen = {path.rpartition("/")[2]: value for path, value in found.items()}
    assert set(before) <= set(seen)
    for name, value in before.items():
        if isinstance(value, int):
            assert value <= int(seen[name]) <= int(after[name]), (name, value, seen[name])
        else:
            assert seen[name] == value, name
    assert int(seen["in-pkts"]) >= 41 and int(seen["in-octets"]) >= 41 * 114


def test_netlink_attributes():
    data = b"\x05\x00\x01\x00a\0\0\0" + b"\x08\x00\x07\x80wxyz"  # padded to four; a nested flag that is no type
    assert attributes(data) == {1: b"a", 7: b"wxyz"}
