"""A file that yields no frame for a long time still lets its reader stop: read() returns when its time is over. With a
time-out of 0, it returns after its smallest unit of work, so skipped data is counted in reads and not in seconds."""

from __future__ import annotations

import gzip
from pathlib import Path

import capture_builder as build
import pytest
from building import decompressors
from capture_builder import Interface
from dump_tool import Dump, dump

FRAME = build.enhanced(0, 5, b"a frame")  # opening a file reads up to the first one


def passed_over(path: Path, data: bytes, *arguments: str) -> Dump:
    """Reads all of DATA with a time-out of 0, which must take more than one read."""
    path.write_bytes(data)
    made = dump(*arguments, "-t", "0", path)
    assert not made.error and made.late > 1
    return made


def pcapng(*blocks: bytes) -> bytes:
    return build.section() + Interface(resolution=9).block() + FRAME + b"".join(blocks) + FRAME


@pytest.mark.parametrize("filler", [
    build.block(build.CUSTOM, bytes(4)),
    build.block(build.NRB, bytes(4)),
    Interface(name="eth0", resolution=9).block(),
    build.statistics(0, 7, [(4, 99)]),
    build.section() + Interface(resolution=9).block(),
], ids=["custom", "names", "interfaces", "statistics", "sections"])  # fmt: skip
def test_reads_return_within_blocks_without_packets(tmp_path: Path, filler: bytes) -> None:
    made = passed_over(tmp_path / "blocks.pcapng", pcapng(2000 * filler))
    assert [frame.ts_ns for frame in made.frames] == [5, 5]


def test_reads_return_within_filtered_packets(tmp_path: Path) -> None:
    records = b"".join(build.pcap_record(1, i, bytes(60)) for i in range(5000))
    made = passed_over(tmp_path / "none.pcap", build.pcap_header() + records, "-f", "ip6")
    assert not made.frames and made.filtered == 5000


@pytest.mark.skipif("zlib.h" not in decompressors(), reason="built without zlib")
def test_reads_return_within_empty_gzip_members(tmp_path: Path) -> None:
    data = gzip.compress(pcapng()) + 1000 * gzip.compress(b"") + gzip.compress(FRAME)
    made = passed_over(tmp_path / "empty.pcapng.gz", data)
    assert [frame.ts_ns for frame in made.frames] == [5, 5, 5]


@pytest.mark.skipif("zlib.h" not in decompressors(), reason="built without zlib")
def test_reads_return_within_a_skipped_block_of_a_stream(tmp_path: Path) -> None:
    data = pcapng(build.block(build.CUSTOM, bytes(40 << 20)))
    made = passed_over(tmp_path / "long.pcapng.gz", gzip.compress(data, 1))
    assert [frame.ts_ns for frame in made.frames] == [5, 5]
