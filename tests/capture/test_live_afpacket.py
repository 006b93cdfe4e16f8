"""The packet socket backend on veth pairs: no loss without a report, no altered frame, and every setting undone."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path

import livelab
import pytest
from building import library
from calm import Attempts
from livecapture import INCOMING, OUTGOING, capture, inject, numbered, sending


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
@pytest.mark.parametrize("size", [60, 64, 1514])
def test_every_frame_arrives_once(lab, live_driver, sender, backend, size):
    got = capture(lab, live_driver, f"backend={backend}", action=sending(lab, sender, 20_000, size=size))
    assert got.ready["ready"] == backend and got.ready["linktype"] == 1
    assert got.total["distinct"] == got.total["frames"] == 20_000
    assert got.total["bytes"] == 20_000 * size
    assert got.total["captured"] == 20_000 * min(size, 128)
    assert got.total["sw"] == 20_000
    assert got.total["dropped"] == 0 and not got.losses


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_a_million_a_second_without_loss(lab, fast_driver, sender, flood, arguments, record_property):
    """That rate is offered if the machine can generate it; the rate that was reached is reported."""
    count, aim, sent = 3_000_000, 1_000_000, {}

    def send(_process):
        words = [lab.a, str(count), str(aim * 11 // 10), "64"]
        done = subprocess.run(["ip", "netns", "exec", lab.near, str(flood), *words], capture_output=True, text=True)
        sent.update(json.loads(done.stdout or lab.call(lab.near, " ".join([str(sender), *words]))))

    def flooded():
        got = capture(lab, fast_driver, *arguments, "idle_ms=3000", action=send)
        rate = count / sent["seconds"]
        record_property("rate", rate)
        summary = f"{' '.join(arguments)}: {rate:,.0f} frames/s offered at a load of {os.getloadavg()[0]:.1f}"
        print(summary)
        if rate < aim:
            warnings.warn(summary, stacklevel=1)
        assert got.total["distinct"] == got.total["frames"]
        assert got.total["frames"] + got.total["dropped"] == count
        return got

    def nothing_is_lost(got):
        assert got.total["dropped"] == 0
        assert got.total["lowest"] == 0 and got.total["highest"] == count - 1

    lab.call(lab.far, f"ethtool -L {lab.b} rx {os.cpu_count()}")
    lab.call(lab.far, f"ethtool -K {lab.b} gro on")
    Attempts(flooded, flooded).held(nothing_is_lost)


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_drops_are_reported_exactly(lab, live_driver, sender, arguments):
    count = 50_000
    got = capture(
        lab, live_driver, *arguments, "ring_bytes=131072", "pause_ms=2000", action=sending(lab, sender, count)
    )
    total = got.total
    assert 0 < total["frames"] < count
    assert total["distinct"] == total["frames"]
    assert total["frames"] + total["dropped"] == count
    assert sum(loss["packets"] for loss in got.losses) == total["dropped"]
    for loss in got.losses:
        assert loss["first_ns"] <= loss["last_ns"]


def test_a_loss_begins_when_the_ring_became_full(lab, live_driver, sender):
    got = capture(lab, live_driver, "ring_bytes=131072", "pause_ms=2000", action=sending(lab, sender, 50_000))
    # All frames in the ring were stamped before the first drop.
    assert got.losses[0]["first_ns"] >= got.total["first_ns"]
    assert got.losses[0]["first_ns"] == got.total["last_ns"]


def test_all_backends_and_tcpdump_capture_the_same_frames(lab, live_driver, sender, tmp_path):
    """Three captures run at once; their stamps agree, since all are taken on receipt."""
    pcapng = tmp_path / "tcpdump.pcap"
    dumper = subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            lab.far,
            "tcpdump",
            "-i",
            lab.b,
            "--time-stamp-precision=nano",
            "-Z",
            "root",
            "-Q",
            "in",
            "-w",
            str(pcapng),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert dumper.stderr
    try:
        while "listening on" not in dumper.stderr.readline():
            assert dumper.poll() is None
        captured = {}

        def inner(_process):
            frames = [numbered(i) for i in range(300)]
            frames += [numbered(300 + i, tag=struct.pack("!HH", 0x8100, 0x2000 | 5)) for i in range(50)]
            captured["libpcap"] = capture(
                lab,
                live_driver,
                "backend=libpcap",
                "mode=dump",
                "direction=in",
                action=lambda _: inject(lab, lab.near, lab.a, frames),
            )

        captured["afpacket"] = capture(
            lab, live_driver, "backend=afpacket", "mode=dump", "direction=in", "seconds=3", action=inner
        )
        time.sleep(1.5)  # tcpdump reads once a second
    finally:
        dumper.send_signal(signal.SIGINT)
        dumper.wait()
    afpacket, libpcap = (
        [(frame["len"], frame["data"]) for frame in captured[name].frames] for name in ("afpacket", "libpcap")
    )
    written = read_pcap(pcapng)
    assert len(afpacket) == 350
    assert afpacket == libpcap == [(length, data[:128].hex()) for _, length, data in written]
    assert [frame["ts_ns"] for frame in captured["afpacket"].frames] == [
        frame["ts_ns"] for frame in captured["libpcap"].frames
    ]


def read_pcap(path: Path) -> list[tuple[int, int, bytes]]:
    """Returns stamp, length and bytes of the packets of a nanosecond pcap file in this machine's byte order."""
    data = path.read_bytes()
    assert data[:4] == struct.pack("=I", 0xA1B23C4D)
    packets, at = [], 24
    while at < len(data):
        seconds, ns, captured, length = struct.unpack_from("=IIII", data, at)
        packets.append((seconds * 10**9 + ns, length, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return packets


def test_a_vlan_tag_is_restored(lab, live_driver):
    frames = [
        numbered(i, tag=struct.pack("!HH", kind, tci))
        for i, (kind, tci) in enumerate([(0x8100, 0x6000 | 100), (0x88A8, 7), (0x8100, 0)])
    ]
    got = capture(lab, live_driver, "mode=dump", action=lambda _: inject(lab, lab.near, lab.a, frames))
    assert [bytes.fromhex(frame["data"]) for frame in got.frames] == frames
    assert [frame["len"] for frame in got.frames] == [len(frame) for frame in frames]


def test_a_vlan_tag_at_the_edge_of_the_snap_length(lab, live_driver):
    frame = numbered(0, tag=struct.pack("!HH", 0x8100, 5))
    for snaplen in (4, 12, 14, 64):
        got = capture(
            lab, live_driver, "mode=dump", f"snaplen={snaplen}", action=lambda _: inject(lab, lab.near, lab.a, [frame])
        )
        [seen] = got.frames
        data = bytes.fromhex(seen["data"])
        assert seen["len"] == len(frame)
        assert frame.startswith(data) and len(data) in (snaplen, snaplen + 4)


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
@pytest.mark.parametrize(
    ("direction", "seen"), [("in", {INCOMING: 30}), ("out", {OUTGOING: 20}), ("both", {INCOMING: 30, OUTGOING: 20})]
)
def test_directions(lab, live_driver, direction, seen, arguments):
    """The kernel reports the direction of a frame, whatever its source address: all of these have the same."""

    def both_ways(_process):
        inject(lab, lab.near, lab.a, [numbered(i) for i in range(30)])
        inject(lab, lab.far, lab.b, [numbered(100 + i) for i in range(20)])

    got = capture(lab, live_driver, "mode=dump", f"direction={direction}", *arguments, action=both_ways)
    counted = {side: sum(frame["direction"] == side for frame in got.frames) for side in (INCOMING, OUTGOING)}
    assert {side: n for side, n in counted.items() if n} == seen
    assert len(got.frames) == sum(seen.values())


def test_both_directions_of_libpcap_are_in_the_order_of_their_stamps(lab, live_driver):
    """Each direction has a handle of its own, and the kernel holds back the frames of each for a different time."""
    rounds, count = 150, 40
    frames = [numbered(i) for i in range(count)]

    def both_ways(_process):
        for _ in range(rounds):
            inject(lab, lab.near, lab.a, frames)
            time.sleep(0.003)
            inject(lab, lab.far, lab.b, frames)
            time.sleep(0.001)

    got = capture(lab, live_driver, "backend=libpcap", action=both_ways)
    assert (got.total["in"], got.total["out"], got.total["dropped"]) == (rounds * count, rounds * count, 0)
    assert got.total["backwards_ns"] < 1_000_000  # half of the reorder window


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_a_filter_selects_frames(lab, live_driver, arguments):
    frames = [numbered(i, ethertype=b"\x88\xb5" if i % 3 else b"\x88\xb6") for i in range(90)]
    got = capture(
        lab,
        live_driver,
        *arguments,
        "filter=ether proto 0x88b6",
        "snaplen=40",
        action=lambda _: inject(lab, lab.near, lab.a, frames),
    )
    assert got.total["frames"] == 30
    assert got.total["captured"] == 30 * 40 and got.total["bytes"] == 30 * 60


@pytest.mark.parametrize("arguments", [[], ["direction=in"], ["direction=in", "threads=2"]])
def test_a_filter_on_a_vlan_tag_that_the_kernel_removed(lab, live_driver, arguments):
    frames = [numbered(i, tag=struct.pack("!HH", 0x8100, 5) if i % 4 == 0 else b"") for i in range(40)]
    got = capture(lab, live_driver, "filter=vlan 5", *arguments, action=lambda _: inject(lab, lab.near, lab.a, frames))
    assert got.total["frames"] == 10


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_an_invalid_filter_is_one_line(lab, live_driver, backend):
    got = capture(lab, live_driver, f"backend={backend}", "filter=tcp prot 80")
    assert got.total["status"] < 0
    assert got.total["error"].startswith("filter 'tcp prot 80': ")


def test_a_filter_too_long_for_the_kernel(lab, live_driver):
    hosts = " or ".join(f"ether host 02:00:00:00:{i // 256:02x}:{i % 256:02x}" for i in range(1500))
    got = capture(lab, live_driver, f"filter={hosts}")
    assert got.total["status"] < 0 and "shorten it" in got.total["error"]


HOG = """
import os, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
until = time.monotonic() + 0.5
while time.monotonic() < until:
    pass
"""


def test_a_thread_that_does_not_run_for_half_a_second_is_waited_for(lab, live_driver):
    """The ring of that thread has every other frame."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor: there is none that a thread alone can be kept from")

    sent = 0

    def send(_process):
        nonlocal sent
        with lab.inside(lab.near), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
            to.sendto(b"x", ("10.9.0.2", 9))  # the address of the receiver is known from here on
            hog = subprocess.Popen([sys.executable, "-c", HOG])
            sent = 1
            while hog.poll() is None:  # some 500 times; on a busy machine less often
                to.sendto(b"x" * 100, ("10.9.0.2", 9))
                sent += 1
                time.sleep(0.001)
            assert hog.returncode == 0

    got = capture(lab, live_driver, "threads=2", "filter=udp port 9", "direction=in", action=send, idle_ms=1500)
    assert got.total["frames"] == sent > 10 and got.total["dropped"] == 0
    assert got.total["backwards_ns"] < 2_000_000


@pytest.mark.parametrize("ring", [0, 1])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_ring_that_fails_ends_the_capture(lab, fast_driver, sender, tmp_path, ring, is_stopped):
    """What came until then is complete: no frame of the failed ring is missing among those of the other."""
    flag = tmp_path / "now"
    preload = [f"LD_PRELOAD={library('tests/c/no_buffers.c')}", f"NO_BUFFERS={flag}", f"NO_BUFFERS_RING={ring}"]

    def send(process):
        words = ["ip", "netns", "exec", lab.near, str(sender), lab.a, "4000", "2000", "64"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL):
            time.sleep(0.5)
            flag.touch()
            if is_stopped:
                time.sleep(0.15)
                process.send_signal(signal.SIGINT)

    arguments = [*preload, str(fast_driver), "backend=afpacket", "threads=2", "direction=in"]
    total = capture(lab, "env", *arguments, action=send, idle_ms=3000).total
    assert "No buffer space available" in total["error"] and total["status"] < 0
    assert total["dropped"] == 0 and 0 < total["distinct"] == total["highest"] + 1 < 3500


def test_threads_share_the_frames_and_keep_their_order(lab, live_driver):
    """Frames arrive in all rings, and are read in the order of their stamps."""

    def send(_process):
        with lab.inside(lab.near):
            sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(32)]
        for i in range(6400):
            sockets[i % 32].sendto(b"x" * 100, ("10.9.0.2", 9))
            if i % 320 == 0:
                time.sleep(0.001)  # a busy machine's backlog holds 1,000
        for each in sockets:
            each.close()

    got = capture(lab, live_driver, "threads=4", "filter=udp port 9", "direction=in", action=send)
    assert got.total["frames"] == 6400
    assert got.total["backwards_ns"] < 2_000_000


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
@pytest.mark.parametrize(("end", "reason"), [("link del", "has vanished"), ("link set down", "was set down")])
def test_the_interface_goes_away(lab, live_driver, arguments, end, reason):
    """Frames that had arrived are kept; then the reason is reported."""

    def send_and_end(_process):
        inject(lab, lab.near, lab.a, [numbered(i) for i in range(100)])
        livelab.sh(f"ip -n {lab.far} {end} {lab.b}" if end == "link del" else f"ip -n {lab.far} link set {lab.b} down")

    got = capture(lab, live_driver, *arguments, "idle_ms=0", "seconds=20", "direction=in", action=send_and_end)
    assert got.total["frames"] == 100
    assert got.total["status"] < 0
    assert reason in got.total["error"] and lab.b in got.total["error"]


def test_an_interface_that_is_deleted_with_others_has_vanished(lab, live_driver, tmp_path):
    """The kernel sets all of them down before it deletes the first: with many, a capture ends in between, as it does on
    a busy machine with one."""

    def send_and_end(_process):
        inject(lab, lab.near, lab.a, [numbered(i) for i in range(100)])
        more = [f"link add d{number} group 7 type veth peer p{number}\nlink set d{number} up" for number in range(2500)]
        (tmp_path / "batch").write_text("\n".join([*more, f"link set {lab.b} group 7", "link del group 7"]))
        livelab.sh(f"ip -n {lab.far} -batch {tmp_path}/batch")

    got = capture(lab, live_driver, "backend=afpacket", "idle_ms=0", "seconds=20", "direction=in", action=send_and_end)
    assert got.total["frames"] == 100 and got.total["status"] < 0
    assert "has vanished" in got.total["error"] and lab.b in got.total["error"]


def test_the_carrier_goes_away_and_returns(lab, live_driver):
    def unplug(_process):
        inject(lab, lab.near, lab.a, [numbered(0)])
        livelab.sh(f"ip -n {lab.near} link set {lab.a} down")
        livelab.sh(f"ip -n {lab.near} link set {lab.a} up")
        time.sleep(0.2)
        inject(lab, lab.near, lab.a, [numbered(1)])

    got = capture(lab, live_driver, "filter=ether proto 0x88b5", "idle_ms=0", "frames=2", action=unplug)
    assert got.total["frames"] == 2 and got.total["status"] == 0
    assert "the link went away during the capture (1 ×)" in got.total["notice"]


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_stop(lab, live_driver, arguments):
    got = capture(lab, live_driver, *arguments, "idle_ms=0", action=lambda process: livelab.sh(f"kill {process.pid}"))
    assert got.total["status"] == 0


@pytest.mark.parametrize(
    "arguments",
    [["backend=afpacket"], ["backend=afpacket", "threads=2"], ["backend=libpcap"]],
    ids=["afpacket", "fanout", "libpcap"],
)
def test_frames_in_the_ring_at_a_stop_are_read(lab, live_driver, sender, arguments):
    """Frames arrive while nothing is read. The capture is stopped before the first read, and returns them all."""

    def send_and_stop(process):
        sending(lab, sender, 30_000)(process)
        livelab.sh(f"kill {process.pid}")

    got = capture(lab, live_driver, *arguments, "direction=in", "idle_ms=0", "pause_ms=20000", action=send_and_stop)
    assert got.total["distinct"] == got.total["frames"] == 30_000
    assert got.total["dropped"] == 0 and got.total["status"] == 0


def test_a_stop_reports_the_last_drops(lab, live_driver, sender):
    def send_and_stop(process):
        sending(lab, sender, 30_000)(process)
        livelab.sh(f"kill {process.pid}")

    got = capture(
        lab, live_driver, "direction=in", "idle_ms=0", "pause_ms=20000", "ring_bytes=131072", action=send_and_stop
    )
    assert 0 < got.total["frames"] < 30_000
    assert got.total["frames"] + got.total["dropped"] == 30_000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["target=nosuch0"], "nosuch0: no such file or interface"),
        (["snaplen=300000"], "at most 262144"),
        (["threads=65"], "at most 64"),
        (["backend=libpcap", "threads=2"], "--threads is for afpacket"),
        (["stamps=hw"], "has no hardware stamps"),
        (["stamps=hw", "backend=libpcap"], "has no hardware stamps"),
        (["backend=quantum"], "no such backend"),
    ],
)
def test_invalid_options_are_refused(lab, live_driver, arguments, reason):
    command = ["ip", "netns", "exec", lab.far, str(live_driver), *arguments, f"target={lab.b}"]
    assert reason in livelab.run_driver(command).total["error"]


@pytest.mark.parametrize("backend", ["auto", "afpacket", "libpcap"])
def test_an_interface_that_is_down(lab, live_driver, backend):
    livelab.sh(f"ip -n {lab.far} link set {lab.b} down")
    error = capture(lab, live_driver, f"backend={backend}").total["error"]
    assert error == f"{lab.b}: the interface is down: ip link set {lab.b} up"


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_an_interface_that_does_not_exist(lab, live_driver, backend):
    error = capture(lab, live_driver, f"backend={backend}", "target=nosuch0").total["error"]
    assert error == "nosuch0: no such interface: `ip link` lists them"
    livelab.sh(f"ip -n {lab.far} link property add dev {lab.b} altname longeralternative")  # ip link lists it
    error = capture(lab, live_driver, f"backend={backend}", "target=longeralternative").total["error"]
    assert error.startswith("longeralternative: no such interface by a name of at most 15 bytes: ")


def test_a_name_that_is_too_long_for_an_interface(lab, live_driver):
    """`ip link` lists it. A name with a dot, slash or colon is that of a file."""
    livelab.sh(f"ip -n {lab.far} link property add dev {lab.b} altname longeralternative")
    error = capture(lab, live_driver, "target=longeralternative").total["error"]
    assert error == (
        "longeralternative: no such file, and no interface by a name of at most 15 bytes: alternative names may be "
        "longer, give a short one"
    )
    error = capture(lab, live_driver, "target=longalternative.pcap").total["error"]
    assert error == "longalternative.pcap: no such file or interface: `ip link` lists the interfaces"
