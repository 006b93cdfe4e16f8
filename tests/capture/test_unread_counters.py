"""The counters of an interface when the kernel does not answer for them: they are unknown, not 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from building import library

from mburst.services.record.interface_counters import InterfaceCounters, read

COUNTERS = ("missed", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes")
ASK = """
import json, sys
from mburst.capture import Capture, device
name, backend = sys.argv[1:3]
capture = Capture([name], backend=backend)
begun = capture.facts["begun"]
for _ in range(30):  # those who ask later are answered
    device(name)
print(json.dumps([begun, capture.facts["notice"] or ""]))
"""


def preload(unread: int) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library("tests/c/unread_counters.c")), "UNREAD": str(unread)}


def test_counters_of_a_device_that_were_not_read() -> None:
    script = "import json; from mburst.capture import device; print(json.dumps([device('lo'), device('lo')]))"
    done = subprocess.run([sys.executable, "-c", script], env=preload(1), capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    assert [first[name] for name in COUNTERS] == [None] * 5 and first["index"]
    assert second["missed"] == 1000 and all(isinstance(second[name], int) for name in COUNTERS)


@pytest.mark.parametrize("backend", ["afpacket", "ebpf"])
@pytest.mark.parametrize("unread", [0, 20])
def test_a_capture_whose_first_counters_were_not_read(lab, backend: str, unread: int) -> None:
    """Frames that the interface lost before the capture are not stated as lost during the capture."""
    command = ["ip", "netns", "exec", lab.far, sys.executable, "-c", ASK, lab.b, backend]
    done = subprocess.run(command, env=preload(unread), capture_output=True, text=True, check=True)
    begun, notice = json.loads(done.stdout)
    assert "lost" not in notice
    assert (begun is None) == (unread > 0)


def test_a_recording_does_not_know_counters_that_were_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    unread = {"index": 1, "driver": "veth", **dict.fromkeys(COUNTERS)}
    monkeypatch.setattr("mburst.capture.device", lambda _name: unread)
    found = read("eth7")
    assert (found.packets, found.bytes) == (None, None) and found.of("in") == (None, None)
    assert isinstance(found, InterfaceCounters) and (found.interface or "").endswith("/1")
