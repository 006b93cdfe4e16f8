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
from waiting import wait_for

from mburst.sql import StoreFolder


def begin_recording(
    lab: livelab.Lab,
    store: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    errors: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Starts `mburst record` into STORE in the far namespace. ERRORS is its standard error."""
    return subprocess.Popen(
        ["ip", "netns", "exec", lab.far, sys.executable, "-m", "mburst", "record", *arguments, "-o", str(store)],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def clock_logs(store: Path) -> set[Path]:
    """Returns the logs of the table `clock`. A recorder begins one for each capture with its first read: from then on
    it misses no frame, and handles signals."""
    return set(store.rglob("clock/**/*.log"))


class Recording:
    """A recording that runs in the far namespace."""

    def __init__(self, lab, store, *arguments, environment=None):
        self.store = store
        self._errors = os.memfd_create("errors")
        self.process = begin_recording(lab, store, *arguments, "--json", environment=environment, errors=self._errors)
        self.code: int | None = None
        self.error = ""

    def printed(self):
        """Returns its standard error until now."""
        return os.pread(self._errors, 1 << 20, 0).decode()

    def says(self, text):
        """Waits until it has printed TEXT on its standard error."""
        wait_for(lambda: text in self.printed() or self.process.poll() is not None, text)
        assert text in self.printed(), self.printed()

    def begun(self):
        """Waits until it captures."""
        wait_for(lambda: clock_logs(self.store) or self.process.poll() is not None, "its start")
        assert self.process.poll() is None, self.printed()
        return self

    def looks(self):
        """Waits until it looks at its interface and the clock, which it does at the start and then once a second."""
        before = self.query("SELECT count(*) FROM clock")
        wait_for(lambda: self.query("SELECT count(*) FROM clock") > before, "a look")

    def stored(self, packets):
        """Waits until it has stored bins with that many packets."""
        wait_for(lambda: self.query("SELECT coalesce(sum(packets), 0) FROM bins")[0][0] >= packets, "bins")

    def end(self, number=None):
        if number:
            self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        self.error = self.printed()
        os.close(self._errors)
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
