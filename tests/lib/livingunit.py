"""The unit on a machine with a live systemd: starting it, and checking whether all of it works."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from machine import BareMachine
from privilegelib import status

UNIT = "mburst.service"
STORE = "/var/lib/mburst/store"
CONFIGURATION = f"""
store = "{STORE}"
host = "h"
rack = "r1"
[record]
inputs = ["wire"]
link = "1G"
[metrics]
listen = "127.0.0.1:9620"
[live]
listen = "127.0.0.1:8470"
open = true
[reflect]
listen = "127.0.0.1:8620"
[probe]
targets = ["127.0.0.1:8620"]
rate = "50/s"
"""
PARTS = {"record", "metrics", "live", "reflect", "probe"}
SEND = """
import socket
far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
far.bind(("far", 0))
for number in range(200):
    far.send(bytes.fromhex("020000000001020000000002080045") + bytes(200))
"""


def processes(machine: BareMachine) -> dict[str, int]:
    """Returns the processes of the unit by role: "run", or the verb of a part."""
    group = machine.at(f"/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs")
    found = {}
    with suppress(FileNotFoundError):
        for pid in map(int, group.read_text().split()):
            with suppress(FileNotFoundError, ProcessLookupError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if "mburst.agent.child" in words:
                    found[words[words.index("mburst.agent.child") + 2]] = pid
                elif "run" in words:
                    found["run"] = pid
    return found


def works(machine: BareMachine) -> bool:
    """Returns whether all parts run with the rights that they keep, and packets and probes are being stored."""
    found = processes(machine)
    if set(found) != PARTS | {"run"}:
        return False
    machine.check("/opt/mburst/bin/python3", "-c", SEND)
    try:
        kept = {status(found[part])["CapEff"].strip("0") for part in PARTS}
    except FileNotFoundError:  # a part has ended since
        return False
    return kept == {""} and all(
        any(path.stat().st_size > 4000 for path in machine.at(f"{STORE}/hot/{table}").glob("*.log"))
        for table in ("bins", "probes")
    )
