"""Known bursts through a virtual cable, and what the capture received of them: the self-test of `mburst doctor`.

`run()` starts this module as a separate process in a new network namespace, which disappears with it in any case.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from typing import Any

from ..errors import MburstError
from ..ethernet import FULL_FRAME_BYTES
from ..process.python import command

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
BURSTS, FRAMES = 5, 1000
PAUSE_S = 0.1
BIN_NS = 1_000_000
TIMEOUT_S = 60


def run() -> dict[str, Any]:
    """Send bursts and capture them. Returns {sent, seen, bytes_sent, bytes_seen, bursts_sent, bursts_seen, dropped,
    clock}.

    Raises MburstError if this host permits no network namespace, or if the test is interrupted."""
    if not shutil.which("ip"):
        raise MburstError("no self-test: it needs the command ip", "apt install iproute2")
    try:
        done = subprocess.run(
            command("mburst.lab.selftest"), capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise MburstError(f"the self-test did not end within {TIMEOUT_S} s") from None
    if done.returncode:
        raise MburstError(f"no self-test: {(done.stderr.strip().splitlines() or ['it broke off'])[-1]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _enter_namespace() -> None:
    """Enter a new network namespace. A user who may not do that becomes root of a new user namespace."""
    libc, user = ctypes.CDLL(None, use_errno=True), os.geteuid()
    if not libc.unshare(CLONE_NEWNET):
        return
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        sys.exit(f"only root may create a network namespace on this host ({os.strerror(ctypes.get_errno())})")
    try:
        with open("/proc/self/uid_map", "w", encoding="ascii") as file:
            file.write(f"0 {user} 1\n")
    except OSError as error:
        sys.exit(f"only root may create a network namespace on this host ({error.strerror})")


def _lay_cable() -> None:
    for line in (
        "ip link add mburst-a type veth peer name mburst-b",
        "ip link set mburst-a addrgenmode none",
        "ip link set mburst-b addrgenmode none",
        "ip link set mburst-a up",
        "ip link set mburst-b up",
    ):
        done = subprocess.run(line.split(), capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{line}: {done.stderr.strip()}")


def _send(stamps: list[int]) -> None:
    """Send the bursts, and note when each frame was handed over, because this process may be delayed, too."""
    frame = bytes.fromhex("ffffffffffff02000000000188b5").ljust(FULL_FRAME_BYTES, b"\0")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind(("mburst-a", 0))
        for _ in range(BURSTS):
            time.sleep(PAUSE_S)
            for _ in range(FRAMES):
                stamps.append(time.monotonic_ns())
                out.send(frame)
        time.sleep(PAUSE_S)


def _bursts(stamps: list[int]) -> int:
    """Returns the number of bursts, separated by at least half of the intended pause."""
    return 1 + sum(later - earlier > PAUSE_S * 1e9 / 2 for earlier, later in pairwise(stamps))


def _capture() -> dict[str, Any]:
    import pyarrow as pa

    from ..capture import Capture
    from ..services.record.rows import stamped_by

    capture = Capture(["mburst-b"], bin_ns=BIN_NS, filter="ether proto 0x88b5", directions="in")
    sent: list[int] = []
    starts: list[int] = []
    sender = threading.Thread(target=_send, args=[sent])
    sender.start()
    while (rows := capture.read()) is not None:
        starts += pa.table(rows[0]).column("ts_ns").to_pylist()
        if not sender.is_alive():
            capture.stop()
    sender.join()
    [lane] = capture.lanes
    return {
        "sent": len(sent),
        "seen": lane["packets"],
        "bytes_sent": len(sent) * FULL_FRAME_BYTES,
        "bytes_seen": lane["bytes"],
        "bursts_sent": _bursts(sent),
        "bursts_seen": _bursts(starts),
        "dropped": capture.facts["dropped"],
        "clock": stamped_by(lane["quality"], live=True),
    }


if __name__ == "__main__":
    _enter_namespace()
    _lay_cable()
    try:
        print(json.dumps(_capture()))
    except MburstError as error:
        sys.exit(str(error))
