"""Bins counted in the kernel, compared with packet sockets and with tcpdump on the same frames."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import frame_builder as fb
import livelab
import pytest
from capture_rows import read_rows
from kernel_bins import (
    MS,
    MergedSender,
    Reading,
    both,
    flows_of,
    in_one_bin_of_senders,
    many_senders,
    odd_frames,
    one_processor,
    pair,
    raw_socket,
    tcpdump,
    tunnelled_frames,
)

from mburst.capture import Capture

__all__ = ["pair"]
DROPS, GRO = 32, 64


def test_every_kind_of_frame_counts_as_with_a_packet_socket(pair, tmp_path):
    """Packets, bytes, wire bytes and marks, also of each sender and in both directions, equal those in tcpdump's
    file."""
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


def test_counters_that_the_program_lacks_are_null(pair):
    """They are not 0: packet sockets count them."""
    names = ("pause_frames", "resume_frames", "pause_quanta", "pause_classes")
    with both(pair) as (ebpf, afpacket):
        many_senders(pair, 100)
    for reading, counted in ((ebpf, False), (afpacket, True)):
        assert reading.bins and reading.sums("in")["packets"] == 100
        for name in names:
            assert {row[name] for row in reading.bins} == ({0} if counted else {None}), name
            assert reading.lanes["in"][name] == (0 if counted else None)
        assert reading.lanes["in"]["unparsed"] == (0 if counted else None)
        assert all(row["ce_packets"] == 0 for row in reading.bins)


def segments(draw, flows):
    """Segments of many flows around the wrap of sequence numbers, and how many of them repeat data of their flow."""
    sent, repeats = dict.fromkeys(range(flows), 2**32 - 3000), 0
    for _ in range(20 * flows):
        flow = draw.randrange(flows)
        length = draw.choice((0, 1, 100, 1000))
        flags = draw.choice((fb.ACK, fb.ACK, fb.ACK | fb.FIN, fb.SYN))
        takes = length + (flags != fb.ACK)
        first = sent[flow] + draw.choice((0, 0, 0, 700, -1, -100, -1000, -2000))
        if takes > 1 or (takes == 1 and first + 1 != sent[flow]):
            repeats += first < sent[flow]
            sent[flow] = max(sent[flow], first + takes)
        yield flow, first % 2**32, length, flags
    yield repeats


@pytest.mark.parametrize("seed", [1, 2])
def test_retransmitted_segments_are_counted(pair, seed):
    flows = 50  # of 200, three share a bucket for two (of 32,768) in one run of 800, and repeats are missed
    *sent, repeats = segments(random.Random(seed), flows)
    with raw_socket(pair, pair.near, pair.a) as sender, both(pair) as (ebpf, afpacket):
        for flow in range(flows):  # flows are known from here on
            sent.insert(flow, (flow, 2**32 - 3001, 0, fb.SYN))
        for flow, first, length, flags in sent:
            segment = fb.tcp(b"y" * length, (7, 8), first, flags)
            if flow % 2:
                packet, kind = fb.ipv4(segment, fb.TCP, 0x0A010000 + flow, 0x0A090002), 0x0800
            else:
                packet, kind = fb.ipv6(segment, fb.TCP, (0xFD << 120) + flow, (0xFD << 120) + 2), 0x86DD
            sender.send(fb.ethernet(packet, kind, sender=77))
    assert ebpf.sums("in") == afpacket.sums("in")
    assert ebpf.sums("in")["retransmits"] == repeats > 0


def test_segments_that_come_back_out_are_no_retransmits(pair):
    """As at the only interface of a router."""
    frames = []
    for i in range(50):
        segment = fb.tcp(b"y" * 100, (7, 8), 100 * i)
        frames.append(fb.ethernet(fb.ipv4(segment, fb.TCP, 0x0A010001, 0x0A090002), 0x0800, sender=77))
    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        raw_socket(pair, pair.far, pair.b) as router,
        both(pair) as readings,
    ):
        for frame in frames:
            sender.send(frame)
            router.send(frame)
    for reading in readings:
        assert [reading.sums(side)["packets"] for side in ("in", "out")] == [50, 50]
        assert [reading.sums(side)["retransmits"] for side in ("in", "out")] == [0, 0]


def test_retransmits_of_segments_that_come_back_out_are_counted(pair):
    """The two sides of a flow do not take the room of each other: few of many flows are lost."""
    flows = 8000
    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        raw_socket(pair, pair.far, pair.b) as router,
        both(pair) as (ebpf, _),
    ):
        for flow in [*range(flows)] * 2:
            packet = fb.ipv4(fb.tcp(b"y" * 100, (7, 8), 0), fb.TCP, 0x0A010000 + flow, 0x0A090002)
            frame = fb.ethernet(packet, 0x0800, sender=77)
            sender.send(frame)
            router.send(frame)
    for side in ("in", "out"):
        assert ebpf.sums(side)["packets"] == 2 * flows
        assert 0.95 * flows < ebpf.sums(side)["retransmits"] <= flows


def test_flows_and_ports_of_a_sender_are_counted(pair):
    def frame(source, port):
        return fb.ethernet(fb.ipv4(fb.udp(b"x" * 60, (port, 9)), fb.UDP, source, 0x0A090002), 0x0800, sender=77)

    with (
        raw_socket(pair, pair.near, pair.a) as sender,
        both(pair, source_bin_ns=4_000 * MS, bin_ns=MS) as (ebpf, afpacket),
        one_processor(),
    ):
        in_one_bin_of_senders()
        for source in range(0x0A010001, 0x0A010020):
            for port in range(1, source & 0xFF):
                sender.send(frame(source, port))
                sender.send(frame(source, 1))
    assert flows_of(ebpf.senders) == flows_of(afpacket.senders)


@pytest.mark.parametrize("offloads", ["on", "off"])
def test_merged_frames_have_their_wire_bytes(pair, offloads):
    """TCP in both directions through veth; with offloads, frames are merged."""
    pair.offloads(offloads)
    with both(pair, mtu=0) as (ebpf, afpacket):
        livelab.transfer(pair, 30_000_000)
    pair.offloads("on")
    for direction in ("in", "out"):
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.lanes[direction]["merged"] == afpacket.lanes[direction]["merged"]
    quality = {row["quality"] & GRO for row in ebpf.bins if row["bytes"] > 20_000}
    assert (GRO in quality) == (offloads == "on") == bool(ebpf.lanes["in"]["merged"])


@pytest.fixture
def overlay(pair):
    """VXLAN over the lab, with the addresses 10.19.0.1 and 10.19.0.2."""
    for number, (namespace, name) in enumerate(((pair.near, pair.a), (pair.far, pair.b)), 1):
        livelab.sh(
            f"ip -n {namespace} link add overlay type vxlan id 7 dstport 4789 dev {name} remote 10.9.0.{3 - number}"
        )
        livelab.sh(f"ip -n {namespace} address add 10.19.0.{number}/24 dev overlay")
        livelab.sh(f"ip -n {namespace} link set overlay mtu 1450 up")
    yield
    for namespace in (pair.near, pair.far):
        livelab.sh(f"ip -n {namespace} link delete overlay")


def test_merged_frames_in_a_tunnel_have_their_wire_bytes(pair, overlay):
    """Each of their segments has the headers of the tunnel and the inner headers."""
    with both(pair, mtu=0) as (ebpf, afpacket):
        segments = livelab.transfer(pair, 10_000_000, "10.19.0.2")
    for direction in ("in", "out"):
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.lanes[direction]["merged"] == afpacket.lanes[direction]["merged"]
    lane = ebpf.lanes["in"]
    assert lane["merged"] and lane["packets"] < segments
    assert lane["wire_bytes"] > 10_000_000 + (segments - 20) * (50 + 66 + 24)


@pytest.mark.parametrize("inner", [False, True])
def test_tunnelled_packets_count_as_with_a_packet_socket(pair, inner):
    """They count for the outer sender, or with --inner-ip for the innermost one."""
    frames = list(tunnelled_frames())
    sent_in, sent_out = raw_socket(pair, pair.near, pair.a), raw_socket(pair, pair.far, pair.b)
    options = {"mtu": 0, "snaplen": 256, "source_bin_ns": 4_000 * MS, "bin_ns": MS}
    with sent_in, sent_out, both(pair, inner=inner, **options) as (ebpf, afpacket), one_processor():
        in_one_bin_of_senders()
        for sender in (sent_in, sent_out):
            for frame in frames * 2:
                sender.send(frame)
    for direction in ("in", "out"):
        assert ebpf.by_sender(direction) == afpacket.by_sender(direction), direction
        assert ebpf.sums(direction) == afpacket.sums(direction)
        assert ebpf.sums(direction)["packets"] == 2 * len(frames)
    assert flows_of(ebpf.senders) == flows_of(afpacket.senders)
    assert bool(ebpf.sums("in")["ce_packets"]) == inner == bool(ebpf.sums("in")["cnp_packets"])


def test_the_verifier_has_little_to_read(pair):
    """Otherwise each start takes longer by tenths of a second: 92,000 instructions took 0.1 s, for each program."""
    read = []
    with both(pair):
        for descriptor in Path("/proc/self/fdinfo").iterdir():
            with suppress(FileNotFoundError):  # closed since
                read += map(int, re.findall(r"^verified_insns:\t(\d+)$", descriptor.read_text(), re.M))
    if not read:
        pytest.skip("this kernel does not state what the verifier read (Linux 5.16)")
    assert len(read) == 2
    assert max(read) < 40_000


def frames_by_time(reading, direction):
    """Returns the bins with wire bytes of each frame; frames are ms apart."""
    found, last = [], 0
    for row in reading.bins:
        if row["lane"] == reading.numbers[direction]:
            if row["ts_ns"] - last > 100_000:
                found.append([])
            found[-1].append((row["wire_bytes"], row["bytes"], row["packets"]))
            last = row["ts_ns"]
    return found


@pytest.mark.parametrize(("seed", "full"), [(1, 1250), (2, 1250), (3, 125)])
def test_merged_frames_are_split_over_the_time_that_they_took(pair, seed, full):
    """At 1 Gb/s with bins of 10 µs, each bin has 1,250 bytes, except the first and the last; the last has the stamp. At
    100 Mb/s, frames take up to 5 ms, longer than the reorder window."""
    draw = random.Random(seed)
    sizes = [draw.randrange(1, 60_000) for _ in range(60)]
    with both(pair, mtu=0, bin_ns=10_000, spread_bps=full * 800_000) as readings:
        merged_in, merged_out = MergedSender(pair, pair.near, pair.a), MergedSender(pair, pair.far, pair.b)
        sent = []
        for size in sizes:
            time.sleep(5 / full)
            sent.append(merged_in.send(size))
            merged_out.send(size)
        merged_in.socket.close()
        merged_out.socket.close()
    for reading in readings:
        for direction in ("in", "out"):
            seen = frames_by_time(reading, direction)
            assert len(seen) == len(sent)
            for (length, wire), bins in zip(sent, seen, strict=True):
                assert sum(total for total, _, _ in bins) == wire
                assert sum(total for _, total, _ in bins) == length
                assert [packets for _, _, packets in bins] == [0] * (len(bins) - 1) + [1]
                if wire > 2 * 1538:
                    assert all(abs(total - full) <= 1 for total, _, _ in bins[1:-1])
                    assert all(0 <= total <= full + 1 for total in (bins[0][0], bins[-1][0]))
                    assert abs(len(bins) - wire / full) <= 2
                else:
                    assert len(bins) <= 2 * 1538 // full + 2
            assert reading.lanes[direction]["merged"] == sum(size > 1448 for size in sizes)


@pytest.mark.parametrize("count, split", [(3_000, True), (40_000, False)])
def test_merged_frames_beyond_the_room_of_a_late_reader_are_not_split(pair, count, split):
    """A processor notes 32,768 merged frames. Frames of overwritten bins are forgotten with them: no bytes are taken
    from bins that have none."""
    reading = Reading(pair, "ebpf", mtu=0, bin_ns=10_000, spread_bps=10**10)
    with one_processor():
        sender, sent = MergedSender(pair, pair.near, pair.a), []
        sent += [sender.send(3000) for _ in range(count)]
        time.sleep(0 if split else 1)
        sent += [sender.send(3000) for _ in range(count)]
        sender.socket.close()
    reading.start()
    time.sleep(0.3)
    reading.stop()
    lost = sum(loss[2] for loss in reading.losses)
    lane = reading.lanes["in"]
    assert lane["packets"] + lost == len(sent)
    assert lane["wire_bytes"] == lane["packets"] * sent[0][1] and lane["bytes"] == lane["packets"] * sent[0][0]
    assert all(row["bytes"] >= 0 <= row["wire_bytes"] for row in reading.bins)
    assert ("found no room to be split" in reading.facts["notice"]) == (not split)
    assert bool(lost) == (not split)


def packets_by_time(reading, direction):
    """Returns the cumulative packets up to each bin."""
    rows = [row for row in reading.bins if row["lane"] == reading.numbers[direction]]
    total, sums = 0, {}
    for row in rows:
        total += row["packets"]
        sums[row["ts_ns"]] = total
    assert list(sums) == sorted(sums)
    return sums


def latest_difference(these, those):
    """Returns by how much the n-th packet is later in THESE than in THOSE, at most."""
    order, late, at = list(those.items()), 0, 0
    for ts_ns, total in these.items():
        while order[at][1] < total:
            at += 1
        late = max(late, ts_ns - order[at][0])
    return late


def test_packets_are_in_the_bins_of_their_time(pair):
    """Both backends stamp a frame within microseconds, except while the machine pauses in between."""
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


def test_ten_thousand_senders(pair):
    with both(pair, source_bin_ns=1000 * MS, bin_ns=MS, max_sources=20_000) as (ebpf, afpacket):
        many_senders(pair, 10_000)
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
    assert len(ebpf.by_sender("in")) == 20_000  # bytes and packets of each


def test_counts_of_two_processors_are_one_bin_and_one_flow(pair):
    """Both send the same flows at once; veth counts a frame on the processor that sent it."""
    processors = sorted(os.sched_getaffinity(0))[:2]

    def send(processor):
        os.sched_setaffinity(0, {processor})  # of this thread
        many_senders(pair, 3000)

    with both(pair, source_bin_ns=4_000 * MS, bin_ns=MS) as (ebpf, afpacket):
        in_one_bin_of_senders()
        threads = [threading.Thread(target=send, args=(processor,)) for processor in processors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ebpf.by_sender("in") == afpacket.by_sender("in")
    assert len({row["ts_ns"] for row in ebpf.bins}) == len(ebpf.bins)
    assert {(row["flows"], row["packets"]) for row in ebpf.senders} == {(1, len(processors))}


def by_source_bin(reading, rows):
    """Returns rows of direction in by their ms."""
    found = {}
    for row in rows:
        if row["lane"] == reading.numbers["in"]:
            found.setdefault(row["ts_ns"] // MS, []).append(row)
    return found


@pytest.mark.parametrize("backend", ["ebpf", "afpacket"])
def test_senders_are_kept_near_busy_bins(pair, backend):
    least, reach = 1250, 4  # bytes of a busy bin of 100 µs at 1 Gb/s; ms
    reading = Reading(pair, backend, sources_above_ppb=100_000_000, link_bps=10**9).start()
    for _ in range(3):
        for _ in range(10):
            many_senders(pair, 3)
            time.sleep(0.002)
        many_senders(pair, 200)
    reading.stop()
    bins, senders = by_source_bin(reading, reading.bins), by_source_bin(reading, reading.senders)
    assert bins.keys() == senders.keys()
    busy = {row["ts_ns"] // 100_000 for rows in bins.values() for row in rows if row["wire_bytes"] >= least}
    summed = 0
    for ms, rows in senders.items():
        for name in ("bytes", "packets"):
            assert sum(row[name] for row in rows) == sum(row[name] for row in bins[ms])
        near = any(at < (ms + 1 + reach) * 10 and at + 1 > (ms - reach) * 10 for at in busy)
        members = sum(row["members"] for row in rows)
        assert len(rows) == (members if near else 1)
        assert (rows[-1]["source"] == "other") == (not near and members > 1)
        summed += rows[-1]["source"] == "other"
    assert len(busy) >= 3 and summed >= 3


def by_ms(rows):
    """Packets and bytes of each ms, in each direction."""
    sums = Counter()
    for row in rows:
        for name in ("packets", "bytes"):
            sums[row["lane"], row["ts_ns"] // MS, name] += row[name]
    return +sums


def test_senders_beyond_the_room_of_the_kernel_count_as_other(pair):
    """The bins are not read meanwhile, and one processor has at most 65,536 entries."""
    reading = Reading(pair, "ebpf", source_bin_ns=MS, bin_ns=MS, max_sources=100_000)
    with one_processor():
        many_senders(pair, 80_000)
    reading.start()
    time.sleep(0.3)
    reading.stop()
    dropped = sum(loss[2] for loss in reading.losses)
    assert reading.lanes["in"]["packets"] + dropped == 80_000
    others = [row for row in reading.senders if row["source"] == "other"]
    assert others and reading.facts["folded_bins"]
    assert all(0 < row["packets"] <= row["members"] for row in others)
    assert by_ms(reading.bins) == by_ms(reading.senders)


@pytest.mark.parametrize("pause", [0.1, 3.0])
def test_bins_that_a_late_reader_misses_are_a_counted_loss(pair, pause):
    """Bins of 10 µs are kept for a second; the packets of overwritten bins are in losses, exactly. Only senders of
    packets in bins are stored, even if the program still had others."""
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
    assert bool(lost) == (pause > 1)
    marked = [row for row in reading.bins if row["quality"] & DROPS]
    assert bool(marked) == bool(lost)
    assert by_ms(reading.bins) == by_ms(reading.senders)
    for first_ns, last_ns, *_ in reading.losses:
        within = [row for row in reading.bins if first_ns <= row["ts_ns"] < last_ns - 10_000]
        assert not sum(row["packets"] for row in within if not row["quality"] & DROPS)
