"""The generated capture of the benchmarks matches its description."""

from __future__ import annotations

from pathlib import Path

from bench_capture import make_capture
from dump_tool import dump


def test_capture_for_benchmarks(tmp_path: Path) -> None:
    path = make_capture(tmp_path / "a.pcap", "--packets", "20k", "--rate", "10G")
    made = dump(path)
    stamps = [frame.ts_ns for frame in made.frames]
    assert not made.error and not made.notice and len(stamps) == 20_000
    assert stamps == sorted(stamps)
    assert all(frame.caplen == min(frame.len, 96) for frame in made.frames)
    wire_bits = sum((max(frame.len, 60) + 24) * 8 for frame in made.frames)
    assert 5e9 < wire_bits * 1e9 / (stamps[-1] - stamps[0]) < 20e9
    count = {what: dump("-q", "-f", what, path).count for what in ("ip", "ip6", "tcp", "udp")}
    assert count["ip"] > 10 * count["ip6"] > 0 and count["tcp"] > 0 and count["udp"] > 0
    assert count["ip"] + count["ip6"] == count["tcp"] + count["udp"] == 20_000


def test_seeded(tmp_path: Path) -> None:
    one = make_capture(tmp_path / "a.pcap", "--packets", "3000", "--snaplen", "64").read_bytes()
    assert one == make_capture(tmp_path / "b.pcap", "--packets", "3000", "--snaplen", "64").read_bytes()
    assert one != make_capture(tmp_path / "c.pcap", "--packets", "3000", "--snaplen", "64", "--seed", "2").read_bytes()
