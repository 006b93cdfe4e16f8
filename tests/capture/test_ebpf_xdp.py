"""Frames counted in the driver (XDP), compared with packet sockets on the same frames."""

from __future__ import annotations

import livelab
import pytest
from kernel_bins import MS, Reading, both, many_senders, odd_frames, pair, raw_socket, tunnelled_frames

from mburst.api.recording import recording_of
from mburst.capture import Capture
from mburst.errors import MburstError, UsageError

__all__ = ["pair"]


def shown(lab: livelab.Lab, name: str) -> str:
    """Returns the output of `ip link` for an interface of the far namespace."""
    return livelab.sh(f"ip -n {lab.far} link show {name}")


def test_every_kind_of_frame_counts_as_with_a_packet_socket(pair):
    """Outgoing frames are counted at tcx."""
    frames = list(odd_frames())
    sent_in, sent_out = raw_socket(pair, pair.near, pair.a), raw_socket(pair, pair.far, pair.b)
    with sent_in, sent_out, both(pair, mtu=0, hook="xdp") as (ebpf, afpacket):
        assert "xdp" in shown(pair, pair.b)
        for sender in (sent_in, sent_out):
            for frame in frames * 3:
                sender.send(frame)
    for direction in ("in", "out"):
        assert ebpf.by_sender(direction) == afpacket.by_sender(direction), direction
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.sums(direction)["packets"] == 3 * len(frames)
    assert "xdp" not in shown(pair, pair.b)


def test_the_innermost_sender_of_a_tunnel(pair):
    frames = list(tunnelled_frames())
    options = {"mtu": 0, "inner": True, "snaplen": 256}
    with raw_socket(pair, pair.near, pair.a) as sender, both(pair, hook="xdp", **options) as (ebpf, afpacket):
        for frame in frames:
            sender.send(frame)
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
    assert ebpf.sums("in") == afpacket.sums("in") and ebpf.sums("in")["packets"] == len(frames)


def test_ten_thousand_senders(pair):
    with both(pair, source_bin_ns=1000 * MS, bin_ns=MS, max_sources=20_000, hook="xdp") as (ebpf, afpacket):
        many_senders(pair, 10_000)
    assert ebpf.sums("in") == afpacket.sums("in") and ebpf.sums("in")["packets"] == 10_000
    assert ebpf.by_sender("in") == afpacket.by_sender("in") and len(ebpf.by_sender("in")) == 20_000


def test_a_second_recorder_is_refused_and_the_first_goes_on(pair):
    first = Reading(pair, "ebpf", hook="xdp-generic")
    assert "generic" not in first.capture.facts["notice"]  # its driver has XDP
    first.start()
    with pytest.raises(MburstError, match="another program is at XDP, which takes one: use --hook tc"):
        Reading(pair, "ebpf", hook="xdp")
    beside = Reading(pair, "ebpf").start()
    many_senders(pair, 500)
    first.stop()
    beside.stop()
    assert first.sums("in")["packets"] == beside.sums("in")["packets"] == 500


def test_a_driver_without_xdp_is_refused_unless_forced(pair):
    livelab.sh(f"ip -n {pair.far} link add plain0 type bridge")
    try:
        livelab.sh(f"ip -n {pair.far} link set plain0 up")
        with pair.inside(pair.far):
            with pytest.raises(MburstError, match="its driver has no XDP: use --hook tc, or --force"):
                Capture(["plain0"], backend="ebpf", hook="xdp")
            capture = Capture(["plain0"], backend="ebpf", hook="xdp-generic")
            assert "xdpgeneric" in shown(pair, "plain0")
            assert "(generic XDP): a merged frame counts as one" in capture.facts["notice"]
            capture.close()
        assert "xdp" not in shown(pair, "plain0")
    finally:
        livelab.sh(f"ip -n {pair.far} link del plain0")


def test_other_backends_have_no_hook():
    with pytest.raises(UsageError, match="--hook is for --backend ebpf"):
        recording_of(["lo"], hook="xdp")
    assert recording_of(["lo"], hook="xdp", backend="ebpf").live.hook == "xdp"
