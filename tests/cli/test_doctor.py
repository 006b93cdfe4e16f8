"""`mburst doctor` reports the state of the system, and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import livelab
import pytest
from calm import Attempts

from mburst.cli import doctor


def run(lab, *arguments, before=()):
    command = ["ip", "netns", "exec", lab.far, *before, sys.executable, "-m", "mburst", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def nic(**changed):
    return {
        "name": "eth0",
        "driver": "mlx5_core",
        "mac": "02:00:00:00:00:01",
        "mtu": 1500,
        "arphrd": 1,
        "up": True,
        "carrier": True,
        "loopback": False,
        "link_bps": 25 * 10**9,
        "rx_ring": 1024,
        "rx_ring_max": 1024,
        "rx_queues": 8,
        "rx_usecs": 0,
        "rx_adaptive": False,
        "offloads": [],
        "missed": 0,
        "hardware_stamps": True,
        "ptp_stamps": False,
        "phc_index": 0,
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({"offloads": [("gro", True), ("lro", True)]}, "ethtool -K eth0 gro off lro off"),
        ({"offloads": [("tso", False), ("gso", False)]}, "ethtool -K eth0 tso off gso off"),
        ({"rx_adaptive": True}, "ethtool -C eth0 adaptive-rx off rx-usecs 0"),
        ({"rx_usecs": 50}, "up to 50 µs"),
        ({"rx_ring": 512, "rx_ring_max": 8192}, "ethtool -G eth0 rx 8192"),
        ({"missed": 12}, "lost 12 frames"),
        ({"link_bps": 0}, "--link"),
    ],
)
def test_advice(changed, command):
    [advice] = doctor.advice(nic(**changed))
    assert command in advice


def test_no_advice_without_a_problem():
    assert doctor.advice(nic()) == []


def findings_of(done) -> dict:
    """Returns the findings; checks that the self-test captured all packets and bursts that were sent."""
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)
    test = findings["self_test"]
    assert test["seen"] == test["sent"] == 5000 and test["bytes_seen"] == test["bytes_sent"]
    assert test["bursts_seen"] == test["bursts_sent"] == 5 and test["dropped"] == 0
    return findings


def test_the_self_test_captures_what_was_sent(lab):
    findings = findings_of(Attempts(*2 * [lambda: run(lab, lab.b, "--json")]).held(findings_of))
    ready = {backend["name"] for backend in findings["backends"] if not backend["reason"]}
    assert {"afpacket", "libpcap"} <= ready
    assert "\nbackends\n  ebpf " in doctor.describe(findings)
    assert findings["privileges"] == {"net_raw": True, "net_admin": True}
    assert findings["interface"]["driver"] == "veth" and findings["interface"]["link_bps"] == 10**10


def test_offloads_agree_with_ethtool(lab):
    for state in ("on", "off"):
        lab.offloads(state)
        device = json.loads(run(lab, lab.b, "--json", "--no-self-test").stdout)["interface"]
        words = {word for word, _ in device["offloads"]}
        findings = livelab.sh(f"ip netns exec {lab.far} ethtool -k {lab.b}")
        assert ("gro" in words) == ("generic-receive-offload: on" in findings)
        assert ("tso" in words) == ("tcp-segmentation-offload: on" in findings)
    assert run(lab, lab.b, "--no-self-test").returncode == 0


def test_without_privilege(lab):
    done = run(lab, lab.b, "--no-self-test", before=("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"))
    assert done.returncode == 1
    assert "setcap cap_net_raw+ep" in done.stdout


def test_missing_pfring_is_reported(lab):
    findings = json.loads(run(lab, "--json", "--no-self-test").stdout)
    [pfring] = [backend for backend in findings["backends"] if backend["name"] == "pfring"]
    assert "MBURST_PFRING_LIB" in pfring["reason"]


def test_the_existing_interfaces_are_named(lab):
    done = run(lab, "--no-self-test")
    assert done.returncode == 0 and f"interfaces\n  lo, {lab.b} (`mburst doctor NAME` examines one)" in done.stdout
    assert json.loads(run(lab, "--no-self-test", "--json").stdout)["interfaces"] == ["lo", lab.b]


def test_hardware_stamps_are_described_only_if_the_interface_has_them():
    held = {"net_raw": True, "net_admin": False}
    assert len(doctor._describe_privileges(held, nic())) == 2
    assert "hwstamp_ctl -i eth0" in doctor._describe_privileges(held, nic())[1]
    assert len(doctor._describe_privileges(held, nic(hardware_stamps=False))) == 1


def test_a_missing_interface_is_reported(lab):
    done = run(lab, "nosuch0")
    assert done.returncode == 1 and "nosuch0: no such interface (`ip link` lists them)" in done.stderr
    livelab.sh(f"ip -n {lab.far} link property add dev {lab.b} altname longeralternative")
    done = run(lab, "longeralternative")
    assert done.returncode == 1 and "longeralternative: no such interface by a name of at most 15 bytes" in done.stderr


def test_an_interface_that_is_down_is_reported(lab):
    livelab.sh(f"ip -n {lab.far} link set {lab.b} down")
    done = run(lab, lab.b, "--no-self-test")
    assert f"ip link set {lab.b} up" in done.stdout
