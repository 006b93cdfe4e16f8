"""pcap files of every variant, against the data that was put in and against capinfos."""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import capture_builder as build
import pytest
from dump_tool import Frame, dump, fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st

FILE_US = 8
FRACTION_NS = {
    build.MAGIC_US: 1000,
    build.MAGIC_NS: 1,
    build.MAGIC_MODIFIED: 1000,
    build.MAGIC_IXIA_HW: 1,
    build.MAGIC_IXIA_SW: 1000,
}
# Interface index 2, protocol IP, packet type 0: the fields of Kuznetzov's records after the lengths.
MODIFIED = {"<": b"\2\0\0\0\0\x08\0\0", ">": b"\0\0\0\2\x08\0\0\0"}
NOKIA = bytes.fromhex("01b6bf9f")


@dataclass
class File:
    data: bytes
    frames: list[Frame]
    starts: list[int]


@st.composite
def files(draw: st.DrawFn) -> File:
    order = draw(st.sampled_from("<>"))
    magic = draw(st.sampled_from(sorted(FRACTION_NS)))
    extra = MODIFIED[order] if magic == build.MAGIC_MODIFIED else b""
    unit = FRACTION_NS[magic]
    data = build.pcap_header(order, magic, draw(st.sampled_from([1, 113, 101, 0x4000001 | 2 << 28])), 0)
    frames, starts = [], []
    for _ in range(draw(st.integers(0, 15))):
        seconds = draw(st.integers(0, 2**32 - 1))
        fraction = draw(st.integers(0, 10**9 // unit - 1))
        payload = draw(st.binary(max_size=100))
        length = len(payload) + draw(st.sampled_from([0, 1, 65000]))
        starts.append(len(data))
        data += build.pcap_record(seconds, fraction, payload, length, order, extra)
        frames.append(Frame(seconds * 10**9 + fraction * unit, 0, len(payload), length, 0, 0, fingerprint(payload)))
    return File(data, frames, starts)


@settings(max_examples=100, deadline=None)
@given(files(), st.booleans())
def test_everything_comes_back(tmp_path_factory: pytest.TempPathFactory, file: File, piped: bool) -> None:
    path = tmp_path_factory.mktemp("pcap") / "x.pcap"
    path.write_bytes(file.data)
    made = dump("-", stdin=file.data) if piped else dump(path)
    assert not made.error and not made.notice
    assert made.frames == file.frames


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, file: File, data: st.DataObject) -> None:
    start = file.starts[0] if file.starts else len(file.data)
    cut = data.draw(st.integers(start, len(file.data)))
    path = tmp_path_factory.mktemp("pcap") / "x.pcap"
    path.write_bytes(file.data[:cut])
    made = dump(path)
    bounds = [*file.starts, len(file.data)]
    assert not made.error
    assert made.frames == file.frames[: sum(end <= cut for end in bounds[1:])]
    if cut in bounds:
        assert not made.notice
    else:
        assert f"cut off in the record at byte {max(start for start in bounds if start < cut)}: " in made.notice


def test_header_fields() -> None:
    made = dump("-", stdin=build.pcap_header(linktype=0x24000001, snaplen=1234))
    assert made.interfaces == [(1, 1234, 0, 4, 0, "stdin")]
    # Without bit 26 the top nibble has no meaning.
    made = dump("-", stdin=build.pcap_header(">", build.MAGIC_US, linktype=0x30000071))
    assert made.interfaces == [(113, 65535, 0, 0, FILE_US, "stdin")]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("cache.pcap", "cache"),
        ("eth0.100.pcap", "eth0.100"),
        ("trace.pcap17", "trace"),
        ("ring.cap.gz", "ring"),
        ("plain", "plain"),
        (".pcap", ".pcap"),
        ("2024.01.02", "2024.01.02"),
    ],
)
def test_interface_is_named_after_the_file(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_bytes(build.pcap_header())
    assert dump(path).interfaces[0].name == name


def record(
    seconds: int,
    fraction: int,
    data: bytes = b"x" * 40,
    length: int | None = None,
    order: str = "<",
    extra: bytes = b"",
) -> bytes:
    return build.pcap_record(seconds, fraction, data, length, order, extra)


def old_record(seconds: int, fraction: int, order: str = "<") -> bytes:
    """A record of 1000 bytes, of which 40 were captured, with the lengths in the order of pcap 2.2."""
    return build.pcap_record(seconds, fraction, b"x" * 40, 1000, order, swap_lengths=True)


def variants() -> dict[str, bytes]:
    """Files that only Wireshark's heuristics or old version numbers distinguish."""
    return {
        "red hat 6.1": build.pcap_header(magic=build.MAGIC_US)
        + b"".join(record(9, n, extra=MODIFIED["<"]) for n in range(5)),
        "suse 6.3": build.pcap_header(magic=build.MAGIC_MODIFIED)
        + b"".join(record(9, n, extra=MODIFIED["<"] + bytes(4)) for n in range(5)),
        "nokia": build.pcap_header(magic=build.MAGIC_US) + b"".join(record(9, n, extra=NOKIA) for n in range(5)),
        "version 2.2": build.pcap_header(magic=build.MAGIC_US, version=(2, 2)) + old_record(9, 1),
        "version 2.3": build.pcap_header(magic=build.MAGIC_US, version=(2, 3))
        + old_record(9, 1)
        + record(9, 2, length=1000),
        "dg/ux": build.pcap_header(">", build.MAGIC_US, version=(543, 0)) + old_record(9, 1, ">"),
        "aix ethernet": build.pcap_header(">", build.MAGIC_US, 6, version=(2, 2)) + old_record(9, 999_999_999, ">"),
        "aix fddi": build.pcap_header(">", build.MAGIC_US, 15, version=(2, 2)) + old_record(9, 5, ">"),
        "ixia hardware": build.pcap_header(magic=build.MAGIC_IXIA_HW) + record(9, 999_999_999),
    }


EXPECTED = {
    "red hat 6.1": (5, 40, 40, 1),
    "suse 6.3": (5, 40, 40, 1),
    "nokia": (5, 40, 40, 1),
    "version 2.2": (1, 40, 1000, 1),
    "version 2.3": (2, 40, 1000, 1),
    "dg/ux": (1, 40, 1000, 1),
    "aix ethernet": (1, 40, 1000, 1),
    "aix fddi": (1, 37, 997, 10),
    "ixia hardware": (1, 40, 40, 1),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_variants(name: str, tmp_path: Path) -> None:
    path = tmp_path / "old.pcap"
    path.write_bytes(variants()[name])
    made = dump(path)
    count, caplen, length, linktype = EXPECTED[name]
    assert not made.error and not made.notice
    assert [(frame.caplen, frame.len) for frame in made.frames] == [(caplen, length)] * count
    assert made.interfaces[0].linktype == linktype
    assert made.frames[0].fingerprint == fingerprint(b"x" * caplen)
    if shutil.which("capinfos"):
        output = subprocess.run(
            ["capinfos", "-M", "-T", "-r", "-c", "-d", path], capture_output=True, text=True, check=True
        )
        assert output.stdout.split("\t")[1:] == [str(count), f"{count * length}\n"]


def test_nanoseconds_of_aix(tmp_path: Path) -> None:
    path = tmp_path / "aix.pcap"
    path.write_bytes(variants()["aix ethernet"])
    made = dump(path)
    assert (made.frames[0].ts_ns, made.interfaces[0].quality) == (9_999_999_999, 0)


@pytest.mark.parametrize(
    ("magic", "fault", "words"),
    [
        (build.MAGIC_NS, record(1, 10**9), "damaged record: 1000000000 ns in a second"),
        (build.MAGIC_US, record(1, 10**6), "damaged record: 1000000 us in a second"),
        (build.MAGIC_NS, struct.pack("<IIII", 1, 1, 262145, 60), "262145 captured bytes, more than the 262144 that"),
        (build.MAGIC_NS, struct.pack("<IIII", 1, 1, 2**32 - 1, 60), "4294967295 captured bytes, more than"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_faults_name_the_record(magic: int, fault: bytes, words: str, piped: bool, tmp_path: Path) -> None:
    good = build.pcap_header(magic=magic) + record(5, 6) * 700
    path = tmp_path / "bad.pcap"
    path.write_bytes(good + fault + record(7, 8) * 3)
    made = dump("-", stdin=path.read_bytes()) if piped else dump(path)
    assert len(made.frames) == 700
    assert made.error.startswith(f"{'standard input' if piped else path}: byte {len(good)}: ") and words in made.error


def test_longer_than_the_snap_length_is_read() -> None:
    made = dump("-", stdin=build.pcap_header(snaplen=16) + record(1, 2))
    assert [frame.caplen for frame in made.frames] == [40]


def test_long_frames_of_link_types_that_have_them() -> None:
    data = b"y" * 300_000
    made = dump("-", stdin=build.pcap_header(linktype=231) + record(1, 2, data=data) * 3)
    assert [frame.fingerprint for frame in made.frames] == [fingerprint(data)] * 3


def test_empty_records(tmp_path: Path) -> None:
    path = tmp_path / "empty-records.pcap"
    path.write_bytes(build.pcap_header() + record(1, 2, data=b"", length=60) * 600 + record(3, 4))
    made = dump(path)
    assert not made.error and [frame.caplen for frame in made.frames] == [0] * 600 + [40]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("packed", [False, True])
def test_pcap_files_that_were_concatenated(order: str, packed: bool, tmp_path: Path) -> None:
    """The header of the second one is no packet of the year 2055."""
    first, path = build.pcap_header() + record(1, 2) * 700, tmp_path / "both.pcap"
    both = first, build.pcap_header(order, build.MAGIC_US) + record(3, 4)
    path.write_bytes(b"".join(gzip.compress(part) if packed else part for part in both))
    made = dump(path)
    assert len(made.frames) == 700
    place = " of the decompressed data" if packed else ""
    assert made.error.startswith(f"{path}: byte {len(first)}{place}: another pcap file begins here: ")


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("magics", [(build.MAGIC_US, build.MAGIC_NS), (build.MAGIC_NS, build.MAGIC_US)])
@pytest.mark.parametrize(("orders", "zone"), [("<>", 0), ("><", 0), ("<>", 3600), ("<<", -3600), ("<<", 3600)])
def test_concatenated_pcap_files_that_differ(
    magics: tuple[int, int], orders: str, zone: int, piped: bool, tmp_path: Path
) -> None:
    """The header of the second one is no record, damaged or not; ZONE is its time zone."""
    path = tmp_path / "both.pcap"
    first = build.pcap_header(orders[0], magics[0]) + record(1, 2, order=orders[0]) * 700
    second = build.pcap_header(orders[1], magics[1])
    second = second[:8] + struct.pack(orders[1] + "i", zone) + second[12:]
    path.write_bytes(first + second + record(3, 4, order=orders[1]) * 700)
    made = dump("-", stdin=path.read_bytes()) if piped else dump(path)
    assert len(made.frames) == 700
    assert f": byte {len(first)}: another pcap file begins here: " in made.error
    assert f"`tail -c +{len(first) + 1}`" in made.error


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [(2, 1), (2, 3), (2, 4), (543, 0)])
def test_pcapng_behind_pcap_of_any_version(order: str, version: tuple[int, int]) -> None:
    """With lengths in the other order, a section would be a record of some bytes. A record of that second is one."""
    section = int.from_bytes(b"\n\r\r\n", "big")
    first = build.pcap_header(order, build.MAGIC_US, version=version) + record(section, 2, order=order) * 3
    made = dump("-", stdin=first + build.section(order) + bytes(5000))
    assert len(made.frames) == 3
    assert f": byte {len(first)}: another pcapng file begins here: " in made.error


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_empty_record_of_january_2011_is_no_header(order: str) -> None:
    """Its seconds are the magic of a file with nanoseconds in the other byte order."""
    [seconds] = struct.unpack("<I", struct.pack(">I", build.MAGIC_NS))
    data = build.pcap_header(order) + record(seconds, 5, data=b"", order=order) + record(seconds, 6, order=order)
    made = dump("-", stdin=data)
    assert not made.error and [frame.caplen for frame in made.frames] == [0, 40]


@pytest.mark.parametrize("version", [(1, 0), (2, 5), (3, 0), (543, 1)])
def test_unknown_versions(version: tuple[int, int]) -> None:
    made = dump("-", stdin=build.pcap_header(version=version))
    assert f"byte 4: pcap version {version[0]}.{version[1]}, but only 2.0 to 2.4 and 543.0 are known" in made.error


@pytest.mark.parametrize("length", [4, 23])
def test_cut_file_header(length: int, tmp_path: Path) -> None:
    path = tmp_path / "short.pcap"
    path.write_bytes(build.pcap_header()[:length])
    assert dump(path).error == f"{path}: byte 0: cut off in the file header: {length} of 24 bytes"
