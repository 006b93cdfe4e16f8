"""A rack's network, measured from outside by kernel stamps: the bounds that hold on a busy machine.

Measurements that load can spoil are repeated at 100 Mb/s (see calm.py). Values that must be exact are exact in the
first measurement without loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from calm import Attempts, Taken, hold
from rackdata import (
    BY_OTLP,
    Frames,
    Probes,
    address,
    bursts,
    columns_of,
    depths_of,
    one_way,
    probes_of,
    read_pcap,
    stored,
    utilization,
)

from mburst.lab.rack import Rack, RecordedExperiment, Round
from mburst.lab.rack.plan import API_IP

MS = 1_000_000
SENDERS = 40
HEADERS = 14 + 20 + 8
FCS = 4


@dataclass(frozen=True)
class Measurement:
    link_bps: int
    rounds: tuple[Round, ...]
    frames: Frames
    bursts: list[tuple[int, int]]
    probes: Probes
    recording: RecordedExperiment

    @property
    def queue_bytes(self) -> int:
        return self.link_bps // 250  # 4 MB at 1 Gb/s

    def of_senders(self) -> np.ndarray:
        return (self.frames.source >> 8) == address("198.18.1.0") >> 8


@cache
def measured_from(recording: RecordedExperiment) -> Measurement:
    frames = read_pcap(recording.capture)
    found = bursts(frames, recording.link_bps)
    return Measurement(recording.link_bps, recording.rounds, frames, found, probes_of(recording), recording)


def delay_p99_ns(probes: pa.Table) -> float:
    return float(np.percentile(one_way(probes)[1], 99))


def rounds_are_found(m: Measurement) -> None:
    middles = [(done.t_first_ns + done.t_last_ns) // 2 for done in m.rounds]
    found = sum(any(start <= middle < end for start, end in m.bursts) for middle in middles)
    assert len(m.rounds) >= 10 and found >= len(m.rounds) - 1 and len(m.bursts) <= len(m.rounds)


def bursts_begin_and_end_with_their_rounds(m: Measurement) -> None:
    for start, end in m.bursts:
        done = min(m.rounds, key=lambda done: abs(done.t_first_ns - start))
        assert abs(start - done.t_first_ns) <= 3 * MS and abs(end - done.t_last_ns) <= 3 * MS


def bursts_last_as_long_as_the_queue_drains(m: Measurement) -> None:
    lengths = [(end - start) / MS for start, end in m.bursts]
    assert all(33 <= length <= 38 for length in lengths), lengths


def no_bin_is_over_line_rate(m: Measurement) -> None:
    """A bin is as wide as the frames of 1 ms at 1 Gb/s take, so that no bin is finer than a frame."""
    largest = utilization(m.frames, 10**15 // m.link_bps, m.link_bps)[1].max()
    assert 0.9 <= largest <= 1.06


def the_queue_fills(m: Measurement) -> None:
    _, ts_ns, depth = depths_of(m.recording.store)
    within = [(ts_ns >= done.t_req_ns) & (ts_ns <= done.t_last_ns) for done in m.rounds]
    peaks = [depth[chosen].max(initial=0) / m.queue_bytes for chosen in within]
    assert np.median(peaks) > 2.5 / 4 and min(peaks) > 1.5 / 4 and max(peaks) <= 1, peaks


def probes_wait_behind_bursts_only(m: Measurement) -> None:
    busy, quiet, second = map(delay_p99_ns, (m.probes.busy, m.probes.quiet, m.probes.second))
    assert 15 * MS <= busy <= 33 * MS and quiet < 0.2 * MS and second <= busy / 100, (busy, quiet, second)


def delay_follows_the_burst_not_the_average(m: Measurement) -> None:
    tx_ns, delay = one_way(m.probes.busy)
    for bin_ns, holds in ((MS, lambda r: r > 0.7), (1000 * MS, lambda r: r < 0.3)):
        start, share = utilization(m.frames, bin_ns, m.link_bps)
        place = (tx_ns - start) // bin_ns
        inside = (place >= 0) & (place < len(share))
        correlation = np.corrcoef(delay[inside], share[place[inside]])[0, 1]
        assert holds(correlation), (bin_ns, correlation)


def delay_follows_the_watermark(m: Measurement) -> None:
    tx_ns, delay = one_way(m.probes.busy)
    _, end_ns, depth = depths_of(m.recording.store)
    place = np.minimum(np.searchsorted(end_ns, tx_ns), len(end_ns) - 1)
    assert np.corrcoef(delay, depth[place])[0, 1] > 0.9


SPOILED_BY_LOAD = [
    rounds_are_found,
    bursts_begin_and_end_with_their_rounds,
    bursts_last_as_long_as_the_queue_drains,
    no_bin_is_over_line_rate,
    the_queue_fills,
    probes_wait_behind_bursts_only,
    delay_follows_the_burst_not_the_average,
    delay_follows_the_watermark,
]


def all_bounds(recording: RecordedExperiment) -> None:
    for check in SPOILED_BY_LOAD:
        check(measured_from(recording))


@pytest.fixture(scope="module")
def bounded(recorded_rack: Attempts[RecordedExperiment]) -> Taken[RecordedExperiment]:
    """The measurement to compare with the bounds."""
    return recorded_rack.that_holds(all_bounds)


def every_answer_came(recording: RecordedExperiment) -> None:
    """Asserts that all answers arrived: a round just fits the port's queue, unless the machine pauses meanwhile."""
    assert all(done.complete and done.senders_seen == SENDERS for done in recording.rounds)


@pytest.fixture(scope="module")
def first(recorded_rack: Attempts[RecordedExperiment]) -> Measurement:
    """The first recording without loss."""
    return measured_from(recorded_rack.held(every_answer_came))


@pytest.mark.parametrize("check", SPOILED_BY_LOAD, ids=lambda check: check.__name__)
def test_bound(bounded, check):
    hold(lambda recording: check(measured_from(recording)), bounded)


def test_every_round_is_in_the_capture_to_the_byte(first):
    for done in first.rounds:
        # The capture's stamp of a frame can be some µs later than the socket's; the next round is 0.1 s away.
        ts_ns = first.frames.ts_ns
        inside = first.of_senders() & (ts_ns > done.t_first_ns - MS) & (ts_ns < done.t_last_ns + MS)
        assert len(np.unique(first.frames.source[inside])) == SENDERS
        assert inside.sum() == done.dgrams_rx == done.dgrams_expected
        assert first.frames.length[inside].sum() == done.bytes_rx + HEADERS * done.dgrams_rx
    assert first.of_senders().sum() == sum(done.dgrams_rx for done in first.rounds)


def test_every_probe_is_answered_and_stamped(first):
    for probes in (first.probes.busy, first.probes.quiet, first.probes.second):
        columns = columns_of(
            probes, "seq", "app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns", "lost"
        )
        assert len(columns[0]) > 300 and (np.sort(columns[0]) == columns[0].min() + np.arange(len(columns[0]))).all()
        assert not columns[7].any()
        for earlier, later in pairwise(columns[1:7]):
            assert (earlier <= later).all()


def test_stamps_of_arriving_probes_agree_with_the_capture(first):
    """tcpdump's stamps of the frames from the API host are compared with those that the reflector reported in its
    answers."""
    arrived = np.sort(columns_of(first.probes.busy, "remote_rx_ns")[0])
    captured = first.frames.ts_ns[first.frames.source == address(API_IP)]
    captured = captured[(captured >= arrived[0] - 10_000) & (captured <= arrived[-1] + 10_000)]
    assert len(captured) == len(arrived) and np.abs(captured - arrived).max() < MS


def sent_by_port(store):
    """Returns, from the samples that the switch exported of its port, the beginning and end of each bin and gap (Unix
    ns), and the bytes that the port sent in it; -1 if they are not known."""
    parts = []
    for table, names in (("bins", ("ts_ns", "bytes")), ("gaps", ("start_ns", "end_ns", "bytes"))):
        if (store / table).exists():
            rows = stored(store, table)
            start, *end, amount = columns_of(
                rows.filter(pc.equal(pc.cast(rows["direction"], pa.string()), "out")), *names
            )
            parts.append((start, *(end or [start + MS]), amount))
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def test_exported_samples_of_the_switch_agree_with_the_kernels_counters(first):
    """The running totals (as bins and gaps) and the depths of the queue are compared with `tc -s` and the depths by
    gNMI. A gap in which the port would have sent more than line rate has no bytes, so less is known of the rounds in
    it."""
    store, port = first.recording.store, first.recording.port
    start_ns, end_ns, amount = sent_by_port(store)
    out = amount[amount >= 0].sum()
    of_rounds = [done.bytes_rx + (HEADERS + FCS) * done.dgrams_rx for done in first.rounds]
    assert out < port.bytes + FCS * port.packets + 200_000 < 1.05 * sum(of_rounds) + 1_000_000
    known = 0
    for done, least in zip(first.rounds, of_rounds, strict=True):
        found = amount[(start_ns < done.t_last_ns + 2 * MS) & (end_ns > done.t_first_ns - 2 * MS)]
        if (found >= 0).all():
            known += 1
            assert least <= found.sum()
    assert known >= len(of_rounds) / 2 and (known < len(of_rounds) or sum(of_rounds) < out)
    start_ns, end_ns, depth = depths_of(store, semantics=BY_OTLP)
    assert (start_ns[1:] == end_ns[:-1]).all() and len(depth) > 4000
    assert 0.5 * depths_of(store)[2].max() < depth.max() <= first.queue_bytes


def test_counters_of_the_switch_agent_agree_with_the_kernels(first):
    """`tc -s` of the port to the cache server is compared with the agent's counters, while probes pass."""
    rows = stored(first.recording.store, "queues")
    sent, dropped = (column[column >= 0].sum() for column in columns_of(rows, "transmit_bytes", "dropped_packets"))
    port = first.recording.port
    assert dropped == port.dropped == 0 and abs(int(sent) - port.bytes) < 200_000
    sent = first.recording.sent_bytes
    assert sent == sum(done.bytes_rx for done in first.rounds)
    assert sent < port.bytes < 1.05 * sent + 1_000_000  # headers, and probes since before the rounds
    start_ns, end_ns, depth = depths_of(first.recording.store)
    assert (start_ns[1:] == end_ns[:-1]).all() and (np.diff(end_ns) > 0).all() and depth.max() > 0


@pytest.mark.parametrize("offloads", [False, True])
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_bytes_are_conserved(can_build, tmp_path, protocol, offloads):
    """The bytes that senders handed to their kernels, that the port sent, and that were captured are equal."""
    with Rack(12, offloads=offloads) as rack, rack.record_pcap(tmp_path / "cache.pcap"):
        before = rack.port_counters()["p-cache"][1]
        rounds = rack.run_rounds(4, protocol=protocol, bytes_per_sender=60_000)
        port_bytes = rack.port_counters()["p-cache"][1] - before
        addresses = {name: address(rack.plan.address(name)) for name in rack.plan.sender_names}
    frames = read_pcap(tmp_path / "cache.pcap")
    assert len(rounds) == 4 and all(done.complete for done in rounds)
    for done in rounds:
        in_round = (frames.ts_ns >= done.t_req_ns) & (frames.ts_ns < done.t_last_ns + MS)
        inside = frames.ts_ns[in_round & (frames.payload > 0)]
        assert abs(inside.min() - done.t_first_ns) < MS and abs(inside.max() - done.t_last_ns) < MS
    for name, (_, payload) in rack.sent.items():
        of_sender = frames.source == addresses[name]
        if protocol == "udp":
            received = frames.payload[of_sender].sum()
        else:  # from SYN to the last byte, whatever was retransmitted
            seq = frames.seq[of_sender]
            received = (seq + frames.payload[of_sender]).max() - seq.min() - 1
        assert received == payload == 4 * 60_000
    if not offloads:
        assert frames.length.sum() == port_bytes and frames.length.max() == 1514
    elif protocol == "tcp":
        assert frames.length.max() > 1514  # merged by GRO
