"""Recordings of the far end of a lab, as users start them, and packets that the near end sends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import livelab
import pytest

from mburst.sql import StoreFolder


def begin_recording(
    lab: livelab.Lab, store: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Starts `mburst record` into STORE in the far namespace."""
    return subprocess.Popen(
        ["ip", "netns", "exec", lab.far, sys.executable, "-m", "mburst", "record", *arguments, "-o", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


class Recording:
    """A recording that runs in the far namespace."""

    def __init__(self, lab, store, *arguments, environment=None):
        self.store = store
        self.process = begin_recording(lab, store, *arguments, "--json", environment=environment)
        self.code: int | None = None
        self.error = ""

    def begun(self, lab, others=0):
        """Waits until it captures beside `others`: the promiscuous mode that it requests is then visible."""
        for _ in range(600):
            if f"promiscuity {others + 1} " in livelab.sh(f"ip -n {lab.far} -d link show {lab.b}"):
                time.sleep(0.3)  # libpcap has more to do after that
                return self
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        raise AssertionError("it never began")

    def end(self, number=None):
        if number:
            self.process.send_signal(number)
        out, self.error = self.process.communicate(timeout=60)
        self.code = self.process.returncode
        return [json.loads(line) for line in out.splitlines()]

    def query(self, sql):
        return StoreFolder.open(self.store).connect().execute(sql).fetchall()


def send(lab, sender, count, rate=0, size=500):
    lab.call(lab.near, f"{sender} {lab.a} {count} {rate} {size}")


def send_flows(lab, flows, rounds):
    """Sends datagrams of many flows in turn; threads that divide the load by flow each get some of them."""
    with lab.inside(lab.near):
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(flows)]
    for _ in range(rounds):
        for each in sockets:
            each.sendto(b"x" * 400, ("10.9.0.2", 9))
        time.sleep(0.002)
    for each in sockets:
        each.close()


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"
