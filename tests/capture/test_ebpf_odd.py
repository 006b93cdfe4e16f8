"""Frames with changed and missing bytes, counted in the kernel as with a packet socket that copies as many bytes."""

from __future__ import annotations

import ipaddress
import random

import frame_builder as fb
import pytest
from kernel_bins import (
    both,
    flows_of,
    in_one_bin_of_senders,
    odd_frames,
    one_processor,
    pair,
    raw_socket,
    tunnelled_frames,
)

__all__ = ["pair"]
READABLE = 192  # bytes that the program reads
NOTABLE = (0x00, 0x04, 0x06, 0x11, 0x29, 0x2C, 0x33, 0x45, 0x46, 0x60, 0xFF)  # protocols, first bytes of IP headers
MPLS, GRE = (b"\x88\x47", b"\x88\x48"), (b"\x40\x2f", b"\x2f\x40")  # a type; protocol and hop limit


def known(frame):
    """Whether it has none of the headers of which the program decodes fewer, or fewer kinds (docs/capture.md)."""
    return not any(header in frame for header in (*MPLS, *GRE))


def changed(frame, random_from):
    """Returns a frame with up to four changes: a byte, some bytes more, the rest missing."""
    found = bytearray(frame)
    for _ in range(random_from.randrange(5)):
        at = random_from.randrange(14, min(len(found), READABLE))
        kind = random_from.random()
        if kind < 0.4:
            found[at] = random_from.choice(NOTABLE)
        elif kind < 0.7:
            found[at] ^= 1 << random_from.randrange(8)
        elif kind < 0.8:
            found[at:at] = b"\xff" * random_from.choice((4, 8, 40))
        else:
            del found[at + 1 :]
    return bytes(found[:1500])


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_changed_frames_count_as_with_a_packet_socket(pair, inner, seed):
    """Lengths that contradict the frame, headers that are cut off, trailers that look like packets."""
    random_from = random.Random(seed)
    whole = [frame for frame in [*odd_frames(), *tunnelled_frames()] if known(frame)]
    frames = [frame for _ in range(4_000) if known(frame := changed(random_from.choice(whole), random_from))]
    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        both(pair, inner=inner, mtu=0, snaplen=READABLE, source_bin_ns=4 * 10**9, bin_ns=10**6) as (ebpf, afpacket),
        one_processor(),
    ):
        in_one_bin_of_senders()
        for frame in frames:
            sender.send(frame)
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
    assert flows_of(ebpf.senders) == flows_of(afpacket.senders)
    assert ebpf.sums("in") == afpacket.sums("in")
    assert ebpf.sums("in")["packets"] > 3_900  # the kernel refuses to send some that end with the Ethernet header


def test_a_header_behind_the_readable_bytes_is_not_sought_elsewhere(pair):
    """Each frame has a packet behind its first 192 bytes and, 256 bytes before it, something that looks like one. With
    --inner-ip, the outer sender counts, as with a packet socket that copies 192 bytes."""
    false = fb.ipv4(fb.udp(b"x" * 40, (5, 6)), fb.UDP, 0x0A0B0C0D, 0x0A090002)
    packet = fb.ipv4(fb.udp(b"x" * 40, (7, 8)), fb.UDP, 0x0A0E0E0E, 0x0A090002)
    authenticated = bytes([4]) + fb.authentication(256)[:11] + false.ljust(256, b"\0") + packet
    geneve = bytearray(fb.udp(fb.geneve(fb.ethernet(packet, 0x0800), 0x6558, options=63), (3, 6081)))
    geneve[24 : 26 + len(false)] = b"\x08\0" + false
    outer = [(authenticated, 51), (bytes(geneve), fb.UDP)]
    frames = [fb.ethernet(fb.ipv4(payload, kind, 0x0A030000 + kind, 0x0A090002), 0x0800) for payload, kind in outer]
    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        both(pair, inner=True, mtu=0, snaplen=READABLE) as (ebpf, afpacket),
    ):
        for frame in frames:
            assert frame.index(packet) - frame.index(false) == 256
            sender.send(frame)
    expected = {str(ipaddress.ip_address(0x0A030000 + kind)) for _, kind in outer}
    assert {source for source, _ in ebpf.by_sender("in")} == expected
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
