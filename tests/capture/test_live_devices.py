"""Packet sockets and libpcap on devices other than a veth: loopback, tunnels, `any`; and merged frames."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

import livelab
import pytest
from livecapture import INCOMING, capture, inject, numbered


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_frames_of_the_loopback_are_counted_once(lab, live_driver, backend):
    def send(_process):
        with lab.inside(lab.far), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            for _ in range(25):
                udp.sendto(b"x", ("127.0.0.1", 9))

    got = capture(lab, live_driver, "target=lo", f"backend={backend}", "filter=udp", action=send)
    assert got.total["frames"] == got.total["in"] == 25
    assert "loopback" in got.total["notice"]


@pytest.mark.parametrize("backend", ["afpacket", "libpcap"])
def test_raw_ip_of_a_tunnel(lab, live_driver, backend):
    TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001
    with lab.inside(lab.far):
        tunnel = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", b"tun7", IFF_TUN_NO_PI))
    livelab.sh(f"ip -n {lab.far} link set tun7 up")
    packet = bytes.fromhex("4500001c000000004011 0000 0a4d0002 0a4d0001 0009 0009 0008 0000".replace(" ", ""))
    try:
        got = capture(
            lab,
            live_driver,
            "target=tun7",
            f"backend={backend}",
            "filter=udp port 9",
            "mode=dump",
            action=lambda _: [os.write(tunnel, packet) for _ in range(5)],
        )
    finally:
        os.close(tunnel)
    assert got.ready["ready"] == backend and got.ready["linktype"] == 101
    assert [frame["data"] for frame in got.frames] == [packet.hex()] * 5
    assert {frame["direction"] for frame in got.frames} == {INCOMING}


def test_the_pseudo_device_any(lab, live_driver):
    got = capture(
        lab,
        live_driver,
        "target=any",
        "filter=ether proto 0x88b5",
        "mode=dump",
        action=lambda _: inject(lab, lab.near, lab.a, [numbered(i) for i in range(10)]),
    )
    assert got.ready["ready"] == "libpcap" and got.ready["linktype"] == 276
    assert len(got.frames) == 10


def segments_and_bytes(frame):
    """Returns the Ethernet frames of a merged TCP/IPv4 frame, and their wire bytes."""
    data = bytes.fromhex(frame["data"])
    headers = 14 + (data[14] & 15) * 4 + (data[14 + (data[14] & 15) * 4 + 12] >> 4) * 4
    payload = frame["len"] - headers
    size = frame["gso_size"] or payload
    segments = max(1, -(-payload // size) if size else 1)
    if segments == 1:
        return 1, max(frame["len"], 60) + 24
    return segments, payload + segments * (headers + 24)


@pytest.mark.parametrize("state", ["on", "off"])
def test_merged_frames_have_the_bytes_of_the_wire(lab, live_driver, state):
    lab.offloads(state)
    count, truth = 20_000_000, {}
    got = capture(
        lab,
        live_driver,
        "mode=dump",
        "direction=in",
        "filter=tcp dst port 5201",
        action=lambda _: truth.update(segments=livelab.transfer(lab, count)),
    )
    counted = [segments_and_bytes(frame) for frame in got.frames]
    segments, wire = (sum(column) for column in zip(*counted, strict=True))
    expected = count + truth["segments"] * (14 + 20 + 32 + 24)
    assert (len(got.frames) < segments / 2) == (state == "on")
    assert any(frame["gso_size"] for frame in got.frames) == (state == "on")
    assert wire == pytest.approx(expected, rel=0.005)
    assert segments == pytest.approx(truth["segments"], rel=0.02)
