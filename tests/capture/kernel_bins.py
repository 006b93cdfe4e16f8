"""Bins that are counted in the kernel, beside those of packet sockets, in a lab."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import frame_builder as fb
import livelab
import pytest
from capture_rows import read_rows
from livelab import raw_socket

from mburst.capture import Capture, backends
from mburst.errors import MburstError

MS = 1_000_000
TCX_INGRESS, TCX_EGRESS = 46, 47
SUMS = ("packets", "bytes", "wire_bytes", "ce_packets", "cnp_packets", "retransmits")


@functools.cache
def why_not():
    """Returns why the kernel of this machine cannot count, or nothing."""
    [state] = [state for state in backends(None) if state["name"] == "ebpf"]
    return state["reason"]


@pytest.fixture(scope="module")
def pair() -> Iterator[livelab.Lab]:
    """A lab with jumbo frames, shared by all tests of a file."""
    if os.geteuid() != 0:
        pytest.skip("counting in the kernel is tested in network namespaces of its own, which only root can make")
    if reason := why_not():
        pytest.skip(f"this machine cannot count in the kernel: {reason}")
    with livelab.make_lab() as made:
        for namespace, name in ((made.near, made.a), (made.far, made.b)):
            livelab.sh(f"ip -n {namespace} link set {name} mtu 9000")
        yield made


class Reading:
    """Reads interface `b` by one backend until it is stopped."""

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


def flows_of(rows):
    return sorted((row["source"], row["flows"], row["source_port"], row["destination_port"]) for row in rows)


def in_one_bin_of_senders():
    """Waits until the next second is within one bin of 4 s."""
    while time.time() % 4 > 3:
        time.sleep(0.05)


@contextmanager
def one_processor():
    """Sends from one processor. A frame arrives on the processor that sends it, and each has bins of its own: the order
    of all frames is known to the program only if they arrive on one, and the port that a sender's flows share is
    elected in their order."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


@contextmanager
def both(lab, **options):
    """Reads the same frames by both backends."""
    readings = [Reading(lab, backend, **options).start() for backend in ("ebpf", "afpacket")]
    try:
        yield readings
        time.sleep(0.1)
    finally:
        for reading in readings:
            reading.stop()


@contextmanager
def tcpdump(lab, path):
    options = ["-s", "200", "-U", "--immediate-mode", "--nano"]
    command = ["ip", "netns", "exec", lab.far, "tcpdump", "-i", lab.b, *options, "-w", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    while "listening" not in process.stderr.readline():
        assert process.poll() is None
    try:
        yield
        time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def attached(lab, place):
    """Returns how many programs are attached at that place of `b`, by BPF_PROG_QUERY."""
    attributes = ctypes.create_string_buffer(128)
    with lab.inside(lab.far):
        struct.pack_into("=II", attributes, 0, socket.if_nametoindex(lab.b), place)
        assert not ctypes.CDLL(None, use_errno=True).syscall(321, 16, attributes, 64), os.strerror(ctypes.get_errno())
    return struct.unpack_from("=I", attributes, 24)[0]


def capabilities(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return {line.split()[0]: int(line.split()[1], 16) for line in status.splitlines() if line.startswith("Cap")}


def many_senders(lab, count):
    with raw_socket(lab, lab.near, lab.a) as sender:
        udp = fb.udp(b"x" * 60, (1, 9))
        frame = bytearray(fb.ethernet(fb.ipv4(udp, fb.UDP, 0, 0x0A090002), 0x0800, sender=77))
        for number in range(count):
            struct.pack_into(">I", frame, 26, 0x0B000000 + number)
            sender.send(frame)


def odd_frames():
    """Frames with every header that can come before a port, each with an address of its own."""
    numbers = iter(range(1, 1 << 20))

    def v4(payload, protocol=fb.UDP, **options):
        return fb.ipv4(payload, protocol, 0x0A010000 + next(numbers), 0x0A090002, **options)

    def v6(payload, protocol=fb.UDP, **options):
        return fb.ipv6(payload, protocol, (0xFD << 120) + next(numbers), (0xFD << 120) + 2, **options)

    def mac():
        return 0x020000000000 + next(numbers)

    def frame(payload, kind, **options):
        return fb.ethernet(payload, kind, sender=mac(), receiver=0x02FFFFFFFFFF, **options)

    datagram, segment = fb.udp(b"x" * 40, (5, 6)), fb.tcp(b"y" * 100, (7, 8), 1)
    notification = fb.udp(bytes([0x81]) + bytes(27), (9, 4791))
    for size in (0, 18, 46, 500, 1472, 8900):
        yield frame(v4(fb.udp(b"s" * size, (1, 2))), 0x0800)
        yield frame(v6(fb.udp(b"s" * max(0, size - 20), (1, 2))), 0x86DD)
    for tags in ((0x8100,), (0x88A8, 0x8100), (0x9100, 0x8100), (0x8100, 0x8100, 0x8100)):
        yield frame(v4(datagram, tos=3), 0x0800, tags=tags)
        yield frame(v6(segment, fb.TCP, traffic_class=3), 0x86DD, tags=tags)
    for labels in (1, 3):
        yield frame(fb.mpls(v4(datagram), labels), 0x8847)
        yield frame(fb.mpls(v6(datagram), labels), 0x8848)
    yield frame(fb.mpls(b"\0" * 60), 0x8847)
    yield frame(fb.snap(v4(datagram), 0x0800), None)
    yield frame(fb.snap(v6(datagram), 0x86DD, b"\0\0\xf8"), None)
    yield frame(fb.snap(v4(datagram), 0x0800, b"\1\2\3"), None)
    yield frame(b"\x42\x42\x03" + bytes(50), None)
    yield frame(fb.pppoe(v4(datagram), 0x21), 0x8864)
    yield frame(fb.pppoe(v6(datagram), 0x57), 0x8864)
    yield frame(fb.pppoe(bytes(40), 0xC021), 0x8864)
    yield frame(v4(segment, fb.TCP, options=bytes([1] * 8)), 0x0800)
    yield frame(v4(datagram, more=True), 0x0800)
    yield frame(v4(b"f" * 300, offset=20), 0x0800)
    yield frame(v4(b"z" * 20, 89), 0x0800)
    yield frame(v4(notification), 0x0800)
    yield frame(v6(notification), 0x86DD)
    yield frame(v4(fb.udp(b"", (9, 4791))), 0x0800)
    for chain in (
        ((0, fb.extension(1)),),
        ((0, fb.extension(2)), (60, fb.extension(1)), (43, fb.extension(3))),
        ((44, fb.fragment(0, True)),),
        ((44, fb.fragment(8, False)),),
        ((51, fb.authentication()),),
    ):
        yield frame(v6(datagram, extensions=chain), 0x86DD)
        yield frame(v6(segment, fb.TCP, extensions=chain), 0x86DD)
    yield frame(v4(fb.udp(fb.vxlan(fb.ethernet(v4(datagram), 0x0800)), (3, 4789))), 0x0800)
    yield frame(v4(v4(datagram), 4), 0x0800)
    yield frame(v4(datagram, total=5000), 0x0800)
    yield frame(bytes(46), 0x0806)
    yield frame(bytes(46), 0x88B5)
    yield frame(b"\x45" + bytes(10), 0x0800)
    yield frame(b"\x65" + bytes(50), 0x0800)
    yield frame(b"\x45" + bytes(50), 0x86DD)


def tunnelled_frames():
    """Frames with every header that leads from an IP packet to one that it carries, and with headers that end the
    search. Each packet has addresses of its own."""
    numbers = iter(range(1, 1 << 20))

    def v4(payload, protocol=fb.UDP, **options):
        return fb.ipv4(payload, protocol, 0x0A020000 + next(numbers), 0x0A090002, **options)

    def v6(payload, protocol=fb.UDP, **options):
        return fb.ipv6(payload, protocol, (0xFD << 120) + next(numbers), (0xFD << 120) + 2, **options)

    def bridged(packet, kind=0x0800, **options):
        return fb.ethernet(packet, kind, sender=0x020000000000 + next(numbers), **options)

    datagram, segment = fb.udp(b"x" * 40, (5, 6)), fb.tcp(b"y" * 100, (7, 8), 1)
    notification = fb.udp(bytes([0x81]) + bytes(27), (9, 4791))
    inside = [
        (bridged(v4(datagram)), 0x6558),
        (bridged(v6(segment, fb.TCP, traffic_class=3), 0x86DD), 0x6558),
        (bridged(v4(notification, tos=3), tags=(0x8100,)), 0x6558),
        (bridged(fb.mpls(v4(datagram), 2), 0x8847), 0x6558),
        (bridged(bytes(46), 0x0806), 0x6558),
        (v4(segment, fb.TCP, options=bytes([1] * 8)), 0x0800),
        (v4(datagram, more=True), 0x0800),
        (v6(datagram, extensions=((0, fb.extension(1)), (60, fb.extension(1)))), 0x86DD),
        (v6(segment, fb.TCP, extensions=((44, fb.fragment(0, True)),)), 0x86DD),
        (fb.mpls(v6(datagram), 1), 0x8847),
        (bytes(50), 0x88B5),
        (b"\x45" + bytes(8), 0x0800),
    ]
    carried = []
    for payload, kind in inside:
        carried.append((fb.gre(payload, kind), 47))
        carried.append((fb.gre(payload, kind, checksum=True, key=True, sequence=True), 47))
        carried.append((fb.udp(fb.geneve(payload, kind, options=2), (3, 6081)), fb.UDP))
        if kind == 0x6558:
            carried.append((fb.udp(fb.vxlan(payload), (3, 4789)), fb.UDP))
            carried.append((fb.udp(fb.vxlan(payload), (3, 8472)), fb.UDP))
            carried.append((fb.udp(bytes(8) + payload, (3, 4789)), fb.UDP))
            carried.append((fb.gre(payload, 0x88BE), 47))
            carried.append((fb.gre(fb.erspan2(payload), 0x88BE, sequence=True), 47))
            carried.append((fb.gre(fb.erspan3(payload, platform=True), 0x22EB, sequence=True), 47))
            carried.append((payload, 143))
        elif kind in (0x0800, 0x86DD):
            carried.append((payload, 4 if kind == 0x0800 else 41))
            carried.append((fb.gre(fb.erspan3(payload, 2), 0x22EB, sequence=True), 47))
        elif kind == 0x8847:
            carried.append((payload, 137))
    for payload, protocol in carried:
        yield bridged(v4(payload, protocol, tos=1))
        yield bridged(v6(payload, protocol), 0x86DD, tags=(0x8100,))
    yield bridged(v4(v6(v4(segment, fb.TCP), 4), 41))
    yield bridged(v4(fb.gre(bridged(v4(fb.gre(v4(datagram), 0x0800), 47)), 0x6558), 47))
    yield bridged(v4(v4(datagram), 4, more=True))
    yield bridged(v4(v4(datagram), 4, offset=9))
    yield bridged(bridged(v4(datagram)), 0x6558)


class MergedSender:
    """Sends TCP frames that the kernel takes for merged frames of MSS-byte segments."""

    def __init__(self, lab, namespace, interface, mss=1448):
        self.socket, self.mss = raw_socket(lab, namespace, interface), mss
        self.socket.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR
        self.sequence = 1

    def send(self, payload):
        """Returns bytes and wire bytes of the frame that it sent."""
        segment = fb.tcp(b"m" * payload, (7, 8), self.sequence)
        frame = fb.ethernet(fb.ipv4(segment, fb.TCP, 0x0A010001, 0x0A090002), 0x0800, sender=77)
        merged = payload > self.mss
        # VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4; start and position of TCP's checksum
        self.socket.send(struct.pack("=BBHHHH", 1, merged, 54, self.mss * merged, 34, 16) + frame)
        self.sequence = (self.sequence + payload) % 2**32
        whole, rest = divmod(payload, self.mss)
        sizes = [self.mss] * whole + [rest] * bool(rest)
        return len(frame), sum(max(60, 54 + size) + 24 for size in sizes)
