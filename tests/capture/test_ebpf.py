"""Bins counted in the kernel, held to packet sockets and to tcpdump on the same frames."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import frame_builder as fb
import livelab
import pytest
from capture_rows import read_rows

from mburst.capture import Capture, sources
from mburst.errors import MburstError

MS = 1_000_000
DROPS, GRO = 32, 64
SUMS = ("packets", "bytes", "wire_bytes", "ce_packets", "cnp_packets")
TCX_INGRESS, TCX_EGRESS = 46, 47


def why_not():
    """Why nothing can be counted in the kernel here, or nothing."""
    [state] = [state for state in sources(None) if state["name"] == "ebpf"]
    return state["reason"]


@pytest.fixture(scope="module")
def pair():
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


@contextmanager
def tcpdump(lab, path):
    command = ["ip", "netns", "exec", lab.far, "tcpdump", "-i", lab.b, "-s", "200", "-U", "--nano", "-w", str(path)]
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


def raw_socket(lab, namespace, name):
    with lab.inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    made.bind((name, 0))
    return made


def odd_frames():
    """Every header that comes before a port, each frame with an address of its own."""
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


def test_every_kind_of_frame_counts_as_with_a_packet_socket(pair, tmp_path):
    """And as in tcpdump's file: packets, bytes, wire bytes, marks, and each sender's, in both directions."""
    frames = list(odd_frames())
    sent_in, sent_out = raw_socket(pair, pair.near, pair.a), raw_socket(pair, pair.far, pair.b)
    path = tmp_path / "seen.pcap"
    with sent_in, sent_out, tcpdump(pair, path), both(pair, mtu=0) as (ebpf, afpacket):
        for sender in (sent_in, sent_out):
            for frame in frames * 3:
                sender.send(frame)
    with sent_in, sent_out:
        pass
    for direction in ("in", "out"):
        assert ebpf.by_sender(direction) == afpacket.by_sender(direction), direction
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.sums(direction)["packets"] == 3 * len(frames)
        assert ebpf.sums(direction)["cnp_packets"] > 0 < ebpf.sums(direction)["ce_packets"]
    file = Capture([str(path)], mtu=0)
    _, rows = read_rows(file)
    totals = Counter()
    for row in rows:
        totals[row["source"]] += row["bytes"]
    mine = Counter()
    for row in ebpf.senders:
        mine[row["source"]] += row["bytes"]
    assert mine == totals
    assert sum(lane["wire_bytes"] for lane in file.lanes) == sum(lane["wire_bytes"] for lane in ebpf.lanes.values())


def flows_of(rows):
    return sorted((row["source"], row["flows"], row["source_port"], row["destination_port"]) for row in rows)


def test_flows_and_ports_of_a_sender(pair):
    def frame(source, port):
        return fb.ethernet(fb.ipv4(fb.udp(b"x" * 60, (port, 9)), fb.UDP, source, 0x0A090002), 0x0800, sender=77)

    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        both(pair, source_bin_ns=4_000 * MS, bin_ns=MS) as (ebpf, afpacket),
    ):
        while time.time() % 4 > 3:  # all in one bin of senders
            time.sleep(0.05)
        for source in range(0x0A010001, 0x0A010020):
            for port in range(1, source & 0xFF):
                sender.send(frame(source, port))
                sender.send(frame(source, 1))
    assert flows_of(ebpf.senders) == flows_of(afpacket.senders)


@pytest.mark.parametrize("offloads", ["on", "off"])
def test_merged_frames_have_their_wire_bytes(pair, offloads):
    """TCP both ways through veth, whose frames are merged where offloads let them."""
    pair.offloads(offloads)
    with both(pair, mtu=0) as (ebpf, afpacket):
        livelab.transfer(pair, 30_000_000)
    pair.offloads("on")
    for direction in ("in", "out"):
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.lanes[direction]["merged"] == afpacket.lanes[direction]["merged"]
    quality = {row["quality"] & GRO for row in ebpf.bins if row["bytes"] > 20_000}
    assert (GRO in quality) == (offloads == "on") == bool(ebpf.lanes["in"]["merged"])


def packets_by_time(reading, direction):
    """Sums of packets up to each bin."""
    rows = [row for row in reading.bins if row["lane"] == reading.numbers[direction]]
    total, sums = 0, {}
    for row in rows:
        total += row["packets"]
        sums[row["ts_ns"]] = total
    assert list(sums) == sorted(sums)
    return sums


def latest_difference(these, those):
    """How much later than in THOSE the n-th packet is in THESE, at most."""
    order, late, at = list(those.items()), 0, 0
    for ts_ns, total in these.items():
        while order[at][1] < total:
            at += 1
        late = max(late, ts_ns - order[at][0])
    return late


def test_packets_are_in_the_bins_of_their_time(pair):
    """Both backends stamp a frame within microseconds, but where the machine pauses in between."""
    draw = random.Random(3)
    with raw_socket(pair, pair.near, pair.a) as sender, both(pair, bin_ns=10_000) as (ebpf, afpacket):
        frame = fb.ethernet(fb.ipv4(fb.udp(b"x" * 60, (1, 9)), fb.UDP, 0x0A010001, 0x0A090002), 0x0800, sender=77)
        for _ in range(200):
            for _ in range(draw.randrange(40)):
                sender.send(frame)
            time.sleep(draw.random() * 0.003)
    mine, others = packets_by_time(ebpf, "in"), packets_by_time(afpacket, "in")
    assert latest_difference(mine, others) < 5 * MS > latest_difference(others, mine)
    alike = sum(mine.get(ts_ns) == total for ts_ns, total in others.items())
    assert alike > 0.5 * len(others)
    assert not ebpf.losses and ebpf.facts["dropped"] == 0


def many_senders(lab, count):
    with raw_socket(lab, lab.near, lab.a) as sender:
        udp = fb.udp(b"x" * 60, (1, 9))
        frame = bytearray(fb.ethernet(fb.ipv4(udp, fb.UDP, 0, 0x0A090002), 0x0800, sender=77))
        for number in range(count):
            struct.pack_into(">I", frame, 26, 0x0B000000 + number)
            sender.send(frame)


def test_ten_thousand_senders(pair):
    with both(pair, source_bin_ns=1000 * MS, bin_ns=MS, max_sources=20_000) as (ebpf, afpacket):
        many_senders(pair, 10_000)
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
    assert len(ebpf.by_sender("in")) == 20_000  # bytes and packets of each


def test_where_senders_have_no_room_they_are_others(pair):
    """Nobody reads meanwhile, and one processor has no more than 65,536 entries."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    reading = Reading(pair, "ebpf", source_bin_ns=MS, bin_ns=MS, max_sources=100_000)
    try:
        many_senders(pair, 80_000)
    finally:
        os.sched_setaffinity(0, processors)
    reading.start()
    time.sleep(0.3)
    reading.stop()
    dropped = sum(loss[2] for loss in reading.losses)
    assert reading.lanes["in"]["packets"] + dropped == 80_000
    others = [row for row in reading.senders if row["source"] == "other"]
    assert others and reading.facts["folded_bins"]
    assert all(0 < row["packets"] <= row["members"] for row in others)
    by_bin, by_sender = Counter(), Counter()
    for rows, sums in ((reading.bins, by_bin), (reading.senders, by_sender)):
        for row in rows:
            sums[row["ts_ns"]] += row["packets"]
    if not dropped:
        assert by_bin == by_sender


@pytest.mark.parametrize("pause", [0.1, 1.0])
def test_what_a_late_reader_misses_is_a_counted_loss(pair, pause):
    """Bins of 10 µs are kept for 300 ms; those that were written over are in losses, to the packet."""
    reading = Reading(pair, "ebpf", bin_ns=10_000)
    frame = fb.ethernet(fb.ipv4(fb.udp(b"x" * 60, (1, 9)), fb.UDP, 0x0A010001, 0x0A090002), 0x0800, sender=77)
    sent, end = 0, time.monotonic() + pause
    with raw_socket(pair, pair.near, pair.a) as sender:
        while time.monotonic() < end:
            for _ in range(20):
                sender.send(frame)
            sent += 20
        reading.start()
        time.sleep(0.2)
        for _ in range(1000):
            sender.send(frame)
        time.sleep(0.2)
    reading.stop()
    lost = sum(loss[2] for loss in reading.losses)
    assert reading.lanes["in"]["packets"] + lost == sent + 1000
    assert reading.facts["dropped"] == lost
    assert bool(lost) == (pause > 0.3)
    marked = [row for row in reading.bins if row["quality"] & DROPS]
    assert bool(marked) == bool(lost)
    for first_ns, last_ns, _ in reading.losses:
        within = [row for row in reading.bins if first_ns <= row["ts_ns"] < last_ns - 10_000]
        assert not sum(row["packets"] for row in within if not row["quality"] & DROPS)


def attached(lab, place):
    """How many programs are at that place of `b`, as the kernel says (BPF_PROG_QUERY)."""
    attributes = ctypes.create_string_buffer(128)
    with lab.inside(lab.far):
        struct.pack_into("=II", attributes, 0, socket.if_nametoindex(lab.b), place)
        assert not ctypes.CDLL(None, use_errno=True).syscall(321, 16, attributes, 64), os.strerror(ctypes.get_errno())
    return struct.unpack_from("=I", attributes, 24)[0]


def test_several_count_at_once_and_leave_nothing_behind(pair):
    first = Reading(pair, "ebpf").start()
    second = Reading(pair, "ebpf", directions="in").start()
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (2, 1)
    many_senders(pair, 500)
    first.stop()
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (1, 0)
    many_senders(pair, 500)
    second.stop()
    assert first.lanes["in"]["packets"] == 500 and second.lanes["in"]["packets"] == 1000
    assert (attached(pair, TCX_INGRESS), attached(pair, TCX_EGRESS)) == (0, 0)


RECORD = [sys.executable, "-m", "mburst", "record", "--backend", "ebpf", "--json"]


def begin(lab, *arguments, wrapper=()):
    command = ["ip", "netns", "exec", lab.far, *wrapper, *RECORD, "-i", lab.b, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if attached(lab, TCX_INGRESS) and attached(lab, TCX_EGRESS):
            return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("it does not attach")


def capabilities(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return {line.split()[0]: int(line.split()[1], 16) for line in status.splitlines() if line.startswith("Cap")}


def test_recorded_without_privileges_and_killed(pair, tmp_path):
    """What it may do ends once it is attached, and what is attached ends with it."""
    process = begin(pair, "-o", str(tmp_path / "store"), "--duration", "60s")
    for _ in range(200):
        if not capabilities(process)["CapPrm:"]:
            break
        time.sleep(0.02)
    assert not capabilities(process)["CapPrm:"]
    process.kill()
    process.communicate()
    for _ in range(100):
        if not attached(pair, TCX_INGRESS) + attached(pair, TCX_EGRESS):
            return
        time.sleep(0.02)
    raise AssertionError("programs are left on the interface")


def test_three_capabilities_are_enough(pair, tmp_path):
    needed = "+bpf,+perfmon,+net_admin"
    wrapper = ["setpriv", f"--bounding-set=-all,{needed}", f"--inh-caps=-all,{needed}"]
    process = begin(pair, "-o", str(tmp_path), "--no-promiscuous", "--user", "root", wrapper=wrapper)
    many_senders(pair, 300)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    [recorded] = [row for row in map(json.loads, out.splitlines()) if row["direction"] == "in"]
    assert recorded["packets"] == 300


def test_what_it_cannot_do_is_refused(pair):
    for options, words in (
        ({"filter": "udp"}, "no --filter"),
        ({"inner": True}, "no --inner-ip"),
        ({"spread_bps": 10**9}, "no --split-merged"),
        ({"stamps": "hw"}, "no hardware stamps"),
        ({"bin_ns": 100}, "1 µs to 4 s"),
        ({"bin_ns": 300_000}, "multiple"),
    ):
        with pytest.raises(MburstError, match=words):
            Reading(pair, "ebpf", **options)


def test_an_interface_that_goes_down_ends_it():
    if os.geteuid() != 0 or why_not():
        pytest.skip("needs root, and a kernel that counts")
    with livelab.make_lab() as lab:
        reading = Reading(lab, "ebpf").start()
        many_senders(lab, 100)
        livelab.sh(f"ip -n {lab.far} link set {lab.b} down")
        reading.thread.join(10)
        assert "down" in reading.error
        reading.stop()
        assert reading.lanes["in"]["packets"] == 100
