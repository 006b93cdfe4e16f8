"""The invariant of trains (capture/measure/trains.h): counting frame by frame gives the same tables. With
MBURST_TRAINS=off every frame is counted alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from capture_builder import pcap_header, pcap_record
from capture_rows import read_rows
from frames import START_NS, Frame, pcap
from train_builder import random_frames

from mburst.capture import Capture


def tables(path: Path, **options: Any) -> tuple[Any, ...]:
    capture = Capture([str(path)], bin_ns=10_000, source_bin_ns=70_000, **options)
    bins, senders = read_rows(capture)
    return bins, sorted(map(str, senders)), capture.lanes


def check(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, ...]:
    monkeypatch.delenv("MBURST_TRAINS", raising=False)
    with_trains = tables(path, **options)
    monkeypatch.setenv("MBURST_TRAINS", "off")
    assert with_trains == tables(path, **options)
    return with_trains


@pytest.mark.parametrize("seed", range(12))
def test_random_flows_give_the_same_tables(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    frames = random_frames(draw, 3000, draw.choice([0.0, 0.02, 0.2]), START_NS)
    path = tmp_path / "flows.pcap"
    records = (
        pcap_record(*divmod(made.ts_ns, 10**9), made.data, made.length)
        for made in frames
        if made.data and made.length < 65_536
    )
    path.write_bytes(pcap_header() + b"".join(records))
    bins, _, _ = check(path, monkeypatch, local=["02:00:00:00:00:02"], mtu=draw.choice([0, 600, 1500]))
    assert sum(row["packets"] for row in bins) > 1000


def test_tcp_segments_that_go_back_give_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    frames, sequence = [], 0
    for i in range(4000):
        size = draw.choice([600, 1514, 1514])
        sequence = max(sequence + size - 54 - draw.choice([0] * 19 + [5000]), 0)
        frames.append(Frame(START_NS + i * 700, draw.choice([1, 1, 1, 2]), size, sequence=sequence))
    path = tmp_path / "tcp.pcap"
    path.write_bytes(pcap(frames))
    bins, _, _ = check(path, monkeypatch)
    assert sum(row["retransmits"] for row in bins) > 100


def test_odd_captures_give_the_same_tables(odd_captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for path in odd_captures[::20]:
        try:
            check(path, monkeypatch, local=["02:00:00:00:00:01"])
        except Exception as error:
            if type(error).__name__ != "MburstError":
                raise


@pytest.mark.parametrize("trailer", [0, 4, 12])
def test_trailers_behind_full_packets_give_the_same_tables(
    trailer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full packet is one frame, whatever follows it; larger ones are merged. A trailer is on the wire."""
    draw = random.Random(trailer)
    sizes = [draw.choice([1514] * 20 + [600, 2974]) for _ in range(4000)]
    records, sequence = [], 0
    for i, size in enumerate(sizes):
        data = Frame(START_NS, 1, size, sequence=sequence).data() + bytes(trailer)
        records.append(pcap_record(START_NS // 10**9, i * 700, data))
        sequence += size - 54
    path = tmp_path / "trailers.pcap"
    path.write_bytes(pcap_header() + b"".join(records))
    _, _, [lane] = check(path, monkeypatch, mtu=1500)
    assert lane["merged"] == sizes.count(2974)
    singles = [size + trailer + 24 for size in sizes if size != 2974]
    assert lane["wire_bytes"] == sum(singles) + lane["merged"] * (2 * 1538 + trailer)
