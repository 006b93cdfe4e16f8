"""Several captures in one call: one order, one numbering of interfaces."""

from __future__ import annotations

import gzip
import heapq
import os
from pathlib import Path

import capture_builder as build
import pytest
from capture_builder import Interface
from dump_tool import Frame, dump, fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st


def pcap(stamps: list[int], tag: int, magic: int = build.MAGIC_NS, linktype: int = 1) -> bytes:
    records = (build.pcap_record(0, ns, bytes([tag])) for ns in stamps)
    return build.pcap_header(magic=magic, linktype=linktype) + b"".join(records)


def pcapng(stamps: list[int], tag: int, *interfaces: Interface) -> bytes:
    blocks = (build.enhanced(n % len(interfaces), ns, bytes([tag])) for n, ns in enumerate(stamps))
    return build.section() + b"".join(one.block() for one in interfaces) + b"".join(blocks)


stamps = st.lists(st.integers(0, 999_999_999), max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(stamps, min_size=2, max_size=6), st.booleans(), st.booleans())
def test_order(tmp_path_factory: pytest.TempPathFactory, lists: list[list[int]], in_order: bool, piped: bool) -> None:
    """As sorted(), stable in the order of the files; of files out of order, as heapq.merge()."""
    folder = tmp_path_factory.mktemp("merge")
    if in_order:
        lists = [sorted(one) for one in lists]
    for tag, one in enumerate(lists):
        folder.joinpath(f"{tag}.pcap").write_bytes(pcap(one, tag))
    names = [str(folder / f"{tag}.pcap") for tag in range(len(lists))]
    stdin = folder.joinpath("0.pcap").read_bytes() if piped else None
    made = dump(*(["-", *names[1:]] if piped else names), stdin=stdin)
    tagged = [[(ns, fingerprint(bytes([tag]))) for ns in one] for tag, one in enumerate(lists)]
    expected = list(heapq.merge(*tagged, key=lambda pair: pair[0]))
    if in_order:
        flat = [pair for one in tagged for pair in one]
        assert expected == sorted(flat, key=lambda pair: pair[0])
    assert [(frame.ts_ns, frame.fingerprint) for frame in made.frames] == expected
    assert made.count == made.bytes == len(expected)


@pytest.mark.parametrize("packed", [False, True])
def test_long_files(packed: bool, tmp_path: Path) -> None:
    """Many batches of each, from files that are mapped and from streams that are not."""
    names, expected = [], []
    for tag in range(5):
        data = [ns * (tag + 1) for ns in range(3000)]
        expected += [(ns, tag) for ns in data]
        names.append(tmp_path / f"{tag}.pcap")
        whole = pcap(data, tag)
        names[-1].write_bytes(gzip.compress(whole) if packed else whole)
    made = dump(*names)
    prints = {fingerprint(bytes([tag])): tag for tag in range(5)}
    assert [(frame.ts_ns, prints[frame.fingerprint]) for frame in made.frames] == sorted(expected)


def test_rotated_pcap_files_are_one_interface(tmp_path: Path) -> None:
    parts = [pcap([1, 5], 0), pcap([3], 1), pcap([2], 2, magic=build.MAGIC_US), pcap([4], 3, linktype=113)]
    names = [tmp_path / f"part{number}.pcap" for number in range(4)]
    for name, part in zip(names, parts, strict=True):
        name.write_bytes(part)
    made = dump(*names)
    assert [one.name for one in made.interfaces] == ["part0", "part2", "part3"]
    assert [(frame.ts_ns, frame.interface) for frame in made.frames] == [(1, 0), (3, 0), (4, 2), (5, 0), (2000, 1)]


def test_pcapng_interfaces_by_name(tmp_path: Path) -> None:
    eth0, eth1 = Interface(name="eth0", resolution=9), Interface(name="eth1", resolution=9)
    cooked = Interface(113, name="eth0", resolution=9)
    unnamed = Interface(resolution=9)
    files = [
        pcapng([1, 2], 0, eth0, eth1),
        pcapng([3, 4, 5], 1, eth1, eth0, cooked),
        pcapng([6, 7], 2, unnamed, eth0),
        pcapng([8], 3, unnamed),
        pcapng([9, 10], 4, eth0, eth0),
    ]
    names = [tmp_path / f"{number}.pcapng" for number in range(len(files))]
    for name, data in zip(names, files, strict=True):
        name.write_bytes(data)
    made = dump(*names)
    assert [(one.name, one.linktype) for one in made.interfaces] == [
        *(("eth0", 1), ("eth1", 1), ("eth0", 113), ("", 1), ("", 1), ("eth0", 1))
    ]
    assert [frame.interface for frame in made.frames] == [0, 1, 1, 0, 2, 3, 0, 4, 0, 5]


def test_faults_and_notices_name_their_file(tmp_path: Path) -> None:
    whole, cut, bad = (tmp_path / name for name in ("whole.pcap", "cut.pcap", "bad.pcap"))
    whole.write_bytes(pcap([1, 10], 0))
    cut.write_bytes(pcap([2, 3], 1)[:-1])
    bad.write_bytes(pcap([4], 2) + build.pcap_record(0, 10**9, b"x"))
    made = dump(whole, cut)
    assert made.count == 3 and made.notice.startswith(f"{cut}: cut off in the record at byte 41")
    made = dump(whole, bad)
    assert made.error.startswith(f"{bad}: byte 41: damaged record") and [f.ts_ns for f in made.frames] == [1, 4]
    assert dump(whole, tmp_path / "none.pcap").error.startswith(f"{tmp_path}/none.pcap: cannot be opened")
    assert dump("-", "-", stdin=b"").error == "-: standard input can be named only once"


def test_drops_add_up(tmp_path: Path) -> None:
    names = [tmp_path / f"{number}.pcapng" for number in range(2)]
    for number, name in enumerate(names):
        body = build.section() + Interface(resolution=9).block() + build.enhanced(0, 100 + number, b"a")
        name.write_bytes(body + build.enhanced(0, 200 + number, b"b", drops=5))
    made = dump(*names)
    assert (made.dropped, made.drop_span) == (10, (100, 201))


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    names = [tmp_path / f"{number:04}.pcap" for number in range(1500)]
    for number, name in enumerate(names):
        name.write_bytes(pcap([number], 0))
    made = dump(*names)
    assert [frame.ts_ns for frame in made.frames] == list(range(1500)) and len(made.interfaces) == 1


def test_stop(tmp_path: Path) -> None:
    path, pipe = tmp_path / "x.pcap", tmp_path / "pipe"
    path.write_bytes(pcap([1], 0))
    os.mkfifo(pipe)
    made = dump("-s", "150", path, pipe)
    assert not made.error and made.frames == []
    assert dump("-t", "5", "-s", "150", path, pipe).late > 0


def test_frame_type() -> None:
    """The tuple of the helper matches the output of the driver."""
    assert dump("-", stdin=pcap([7], 9)).frames == [Frame(7, 0, 1, 1, 0, 0, fingerprint(b"\x09"))]
