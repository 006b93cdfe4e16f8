"""Bins counted in the kernel beside those of packet sockets, in a lab."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import frame_builder as fb
import livelab
import pytest
from capture_rows import read_rows

from mburst.capture import Capture, sources
from mburst.errors import MburstError

MS = 1_000_000
SUMS = ("packets", "bytes", "wire_bytes", "ce_packets", "cnp_packets")


def why_not():
    """Why nothing can be counted in the kernel here, or nothing."""
    [state] = [state for state in sources(None) if state["name"] == "ebpf"]
    return state["reason"]


@pytest.fixture(scope="module")
def pair() -> Iterator[livelab.Lab]:
    """A lab with jumbo frames, for all tests of a file."""
    if os.geteuid() != 0:
        pytest.skip("counting in the kernel is tested in network namespaces of its own, which only root can make")
    if reason := why_not():
        pytest.skip(f"this machine cannot count in the kernel: {reason}")
    with livelab.make_lab() as made:
        for namespace, name in ((made.near, made.a), (made.far, made.b)):
            livelab.sh(f"ip -n {namespace} link set {name} mtu 9000")
        yield made


class Reading:
    """What one backend makes of interface `b`, until it is stopped."""

    def __init__(self, lab, backend, **options):
        self.lab = lab
        with lab.inside(lab.far):
            self.capture = Capture([lab.b], backend=backend, **options)
        self.bins, self.senders, self.losses = [], [], []
        self.error = ""
        self.thread = threading.Thread(target=self.read)

    def start(self):
        self.thread.start()
        return self

    def read(self):
        try:
            with self.lab.inside(self.lab.far):
                self.bins, self.senders = read_rows(self.capture)
        except MburstError as error:
            self.error = str(error)
        self.losses = self.capture.losses()

    def stop(self):
        self.capture.stop()
        if self.thread.ident is None:
            self.thread.start()
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.lanes = {lane["direction"]: lane for lane in self.capture.lanes}
        self.numbers = {lane["direction"]: number for number, lane in enumerate(self.capture.lanes)}
        self.facts = self.capture.facts
        self.capture.close()

    def sums(self, direction):
        return {name: self.lanes[direction][name] for name in SUMS} if direction in self.lanes else {}

    def by_sender(self, direction):
        found = Counter()
        for row in self.senders:
            if row["lane"] == self.numbers[direction]:
                found[row["source"], "bytes"] += row["bytes"]
                found[row["source"], "packets"] += row["packets"]
        return found


@contextmanager
def both(lab, **options):
    """Both backends on the same frames."""
    readings = [Reading(lab, backend, **options).start() for backend in ("ebpf", "afpacket")]
    try:
        yield readings
        time.sleep(0.1)
    finally:
        for reading in readings:
            reading.stop()


def raw_socket(lab, namespace, name):
    with lab.inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    made.bind((name, 0))
    return made


def many_senders(lab, count):
    with raw_socket(lab, lab.near, lab.a) as sender:
        udp = fb.udp(b"x" * 60, (1, 9))
        frame = bytearray(fb.ethernet(fb.ipv4(udp, fb.UDP, 0, 0x0A090002), 0x0800, sender=77))
        for number in range(count):
            struct.pack_into(">I", frame, 26, 0x0B000000 + number)
            sender.send(frame)
