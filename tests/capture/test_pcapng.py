"""pcapng files built from random sections, against the data that was put in."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import capture_builder as build
import pytest
from capture_builder import Interface
from dump_tool import Dump, Frame, dump, fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st

FILE_US, UNSYNCED = 8, 16
INT64 = range(-(2**63), 2**63)


# --- what a reader must return: slow, exact, and written from the specification ---


@dataclass
class Loss:
    counted: int = 0
    reported: int = 0


@dataclass
class Known:
    """An interface of the current section."""

    described: Interface
    index: int
    by_fcs: dict[int, int]
    loss: Loss = field(default_factory=Loss)


class Oracle:
    """Builds a file and, at the same time, the expected result of reading it."""

    def __init__(self) -> None:
        self.data = b""
        self.frames: list[Frame] = []
        self.ends: list[int] = []  # of each frame's block
        self.starts: list[int] = []  # of every block
        self.interfaces: list[tuple[int, int, int, str]] = []  # link type, FCS, quality, name
        self.known: list[Known] = []
        self.seen: Counter[tuple[int, int, int, str]] = Counter()  # in the section, by what they are
        self.last_ns = 0
        self.dropped = 0
        self.order = "<"

    def add(self, block: bytes) -> None:
        self.starts.append(len(self.data))
        self.data += block

    def section(self, order: str, minor: int, length: int) -> None:
        self.order = order
        self.dropped += sum(max(one.loss.counted, one.loss.reported) for one in self.known)
        self.known = []
        self.seen = Counter()
        self.add(build.section(order, length, minor))

    def interface(self, described: Interface) -> None:
        self.add(described.block(self.order))
        fcs = described.fcslen or 0
        fcs = fcs if fcs <= 8 else fcs // 8
        index = self.listed(described, fcs)
        self.known.append(Known(described, index, {fcs: index}))

    def listed(self, described: Interface, fcs: int) -> int:
        quality = FILE_US if resolution(described) >= Fraction(1, 10**6) else 0
        entry = (described.linktype, fcs, quality, described.name or "")
        same = [index for index, known in enumerate(self.interfaces) if known == entry and described.name]
        self.seen[entry] += 1
        if self.seen[entry] <= len(same):
            return same[self.seen[entry] - 1]
        self.interfaces.append(entry)
        return len(self.interfaces) - 1

    def packet(self, which: int, raw: int, data: bytes, longer: int, flags: int | None, drops: int | None) -> None:
        one = self.known[which]
        ts_ns = raw * 10**9 * resolution(one.described) // 1 + (one.described.offset_s or 0) * 10**9
        if int(ts_ns) not in INT64:
            return
        self.add(
            build.enhanced(which, raw, data, len(data) + longer, self.order, flags, drops, "why" if longer else None)
        )
        fcs = (flags or 0) >> 5 & 0xF
        index = one.index
        if fcs:
            if fcs not in one.by_fcs:
                one.by_fcs[fcs] = self.listed(one.described, fcs)
            index = one.by_fcs[fcs]
        one.loss.counted += drops or 0
        direction = {1: 1, 2: 2}.get((flags or 0) & 3, 0)
        self.frame(int(ts_ns), index, data, len(data) + longer, direction, 0)

    def frame(self, ts_ns: int, index: int, data: bytes, length: int, direction: int, quality: int) -> None:
        self.last_ns = ts_ns
        self.frames.append(Frame(ts_ns, index, len(data), length, direction, quality, fingerprint(data)))
        self.ends.append(len(self.data))

    def obsolete(self, which: int, raw: int, data: bytes, drops: int) -> None:
        before = len(self.data)
        self.packet(which, raw, data, 0, None, None if drops == 0xFFFF else drops)
        if len(self.data) > before:
            self.data = self.data[:before] + build.obsolete(which, raw, data, None, self.order, drops)
            self.ends[-1] = len(self.data)

    def simple(self, data: bytes) -> None:
        snaplen = self.known[0].described.snaplen
        kept = data[:snaplen] if snaplen else data
        self.add(build.simple(kept, len(data), self.order))
        self.frame(self.last_ns, self.known[0].index, kept, len(data), 0, UNSYNCED)

    def statistics(self, which: int, ifdrop: int, osdrop: int) -> None:
        """Counters only grow within a section, since they count from its start."""
        loss = self.known[which].loss
        loss.reported += ifdrop + osdrop
        half = loss.reported // 2
        self.add(build.statistics(which, 7, [(4, 99), (5, half), (7, loss.reported - half)], self.order))

    def total_dropped(self) -> int:
        return self.dropped + sum(max(one.loss.counted, one.loss.reported) for one in self.known)


def resolution(described: Interface) -> Fraction:
    """Returns the length of a unit in seconds."""
    value = 6 if described.resolution is None else described.resolution
    return Fraction(1, 2 ** (value & 127)) if value & 128 else Fraction(1, 10**value)


# --- random files ---

payloads = st.binary(max_size=90)
raws = st.one_of(st.integers(0, 2**64 - 1), st.integers(1_600_000_000 * 10**6, 1_700_000_000 * 10**6))
described = st.builds(
    Interface,
    linktype=st.sampled_from([1, 113, 276, 101, 0, 147]),
    snaplen=st.sampled_from([0, 16, 65535]),
    name=st.one_of(st.none(), st.sampled_from(["eth0", "eth1", "ÿ ü", ""])),
    resolution=st.one_of(st.none(), st.sampled_from([6, 9]), st.integers(0, 255)),
    offset_s=st.one_of(st.none(), st.just(0), st.integers(-(2**40), 2**40), st.integers(-(2**63), 2**63 - 1)),
    fcslen=st.sampled_from([None, 0, 4, 32]),
    speed=st.sampled_from([None, 10**10]),
)
flags = st.one_of(st.none(), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 1 | 4 << 5]))
foreign = st.sampled_from([build.NRB, build.DSB, build.CUSTOM, 0x40000BAD, 0x80000001, 77])


@st.composite
def files(draw: st.DrawFn) -> Oracle:
    oracle = Oracle()
    for _ in range(draw(st.integers(1, 3))):
        oracle.section(draw(st.sampled_from("<>")), draw(st.sampled_from([0, 2])), draw(st.sampled_from([-1, 0, 4096])))
        for one in draw(st.lists(described, min_size=1, max_size=3)):
            oracle.interface(one)
        for kind in draw(st.lists(st.sampled_from("eeeeposif"), max_size=12)):
            which = draw(st.integers(0, len(oracle.known) - 1))
            if kind == "e":
                drops = draw(st.one_of(st.none(), st.integers(0, 1000)))
                oracle.packet(which, draw(raws), draw(payloads), draw(st.sampled_from([0, 1400])), draw(flags), drops)
            elif kind == "p":
                oracle.packet(which, draw(raws), draw(payloads), 0, None, None)
            elif kind == "o":
                oracle.obsolete(which, draw(raws), draw(payloads), draw(st.sampled_from([0, 3, 0xFFFF])))
            elif kind == "s":
                oracle.simple(draw(payloads))
            elif kind == "i":
                oracle.interface(draw(described))
            elif kind == "f":
                oracle.add(build.block(draw(foreign), bytes(4 * draw(st.integers(0, 40))), oracle.order))
        for which in range(len(oracle.known)):
            if draw(st.booleans()):
                oracle.statistics(which, draw(st.integers(0, 500)), draw(st.integers(0, 500)))
    return oracle


def check(made: Dump, oracle: Oracle) -> None:
    assert not made.error
    assert made.frames == oracle.frames
    assert [(i.linktype, i.fcs_len, i.quality, i.name) for i in made.interfaces] == oracle.interfaces
    assert (made.count, made.bytes) == (len(oracle.frames), sum(frame.len for frame in oracle.frames))
    assert made.dropped == oracle.total_dropped()


@settings(max_examples=120, deadline=None)
@given(files(), st.booleans())
def test_everything_comes_back(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle, piped: bool) -> None:
    if piped:
        check(dump("-", stdin=oracle.data), oracle)
    else:
        path = tmp_path_factory.mktemp("ng") / "x.pcapng"
        path.write_bytes(oracle.data)
        check(dump(path), oracle)


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_cut_anywhere(oracle: Oracle, data: st.DataObject) -> None:
    """All packets before the cut, then a notice that names the block it fell in."""
    cut = data.draw(st.integers(4, len(oracle.data)))
    made = dump("-", stdin=oracle.data[:cut])
    whole = sum(end <= cut for end in oracle.ends)
    assert not made.error and made.frames == oracle.frames[:whole]
    if cut in oracle.starts or cut == len(oracle.data):
        assert "cut off" not in made.notice
    else:
        start = max(start for start in oracle.starts if start < cut)
        assert f"cut off in the block at byte {start}" in made.notice


# --- single cases ---


def one_packet(described: Interface, raw: int) -> bytes:
    return build.section() + described.block() + build.enhanced(0, raw, b"x" * 20)


@pytest.mark.parametrize(
    ("resolution", "raw", "ts_ns"),
    [
        (0, 1_700_000_000, 1_700_000_000 * 10**9),
        (9, 2**63 - 1, 2**63 - 1),
        (12, 2**64 - 1, (2**64 - 1) // 1000),
        (19, 2**64 - 1, (2**64 - 1) // 10**10),
        (28, 2**64 - 1, 1),  # 1.8 ns
        (29, 2**64 - 1, 0),
        (127, 2**64 - 1, 0),
        (128, 1_700_000_000, 1_700_000_000 * 10**9),
        (128 + 30, 3 << 29, 1_500_000_000),
        (128 + 63, 2**64 - 1, 1_999_999_999),
        (255, 2**64 - 1, 0),
    ],
)
def test_resolutions(resolution: int, raw: int, ts_ns: int) -> None:
    made = dump("-", stdin=one_packet(Interface(resolution=resolution), raw))
    assert [frame.ts_ns for frame in made.frames] == [ts_ns]


@pytest.mark.parametrize(
    ("described", "raw"),
    [
        (Interface(resolution=9), 2**63),
        (Interface(resolution=0), 2**34),
        (Interface(offset_s=2**62), 0),
        (Interface(offset_s=-(2**63)), 2**64 - 1),
        (Interface(resolution=128), 2**64 - 1),
    ],
)
def test_stamp_outside_int64(described: Interface, raw: int) -> None:
    data = one_packet(described, raw)
    made = dump("-", stdin=data)
    offset = len(data) - len(build.enhanced(0, 0, b"x" * 20))
    assert made.frames == [] and made.error == (
        f"standard input: byte {offset}: time stamp {raw} is outside the years 1677 to 2262 of 64-bit nanoseconds"
    )


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize(("order", "other"), ["<<", "<>", "><", ">>"])
def test_captures_of_both_formats_that_were_concatenated(order: str, other: str, piped: bool, tmp_path: Path) -> None:
    """In the other byte order, the header of pcap could be that of an unknown block of some MB, which is skipped."""
    oracle = Oracle()
    oracle.section(order, 0, -1)
    oracle.interface(Interface())
    for raw in range(700):
        oracle.packet(0, raw, b"x" * 60, 0, None, None)
    pcap = build.pcap_header(other) + struct.pack(other + "IIII", 1, 2, 40, 40) + bytes(40)
    for first, second, kind in ((oracle.data, pcap, "pcap"), (pcap, oracle.data, "pcapng")):
        path = tmp_path / f"before-{kind}"
        path.write_bytes(first + second)
        made = dump("-", stdin=path.read_bytes()) if piped else dump(path)
        assert len(made.frames) == (700 if kind == "pcap" else 1)
        assert f": byte {len(first)}: another {kind} file begins here: " in made.error


@pytest.mark.parametrize("present", [12, 16])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_file_that_was_appended_where_a_window_ends(order: str, present: int) -> None:
    """The first PRESENT bytes of its header are decompressed before the others."""
    first, size = build.section() + Interface().block(), len(build.enhanced(0, 0, b"x" * 60))
    room = 262_144 - present - len(first)
    first += b"".join(build.enhanced(0, 0, b"x" * 60) for _ in range(room // size - 1))
    first += build.enhanced(0, 0, b"x" * (60 + room % size))
    assert len(first) == 262_144 - present
    pcap = build.pcap_header(order) + struct.pack(order + "IIII", 1, 2, 40, 40) + bytes(40)
    made = dump("-", stdin=gzip.compress(first + pcap))
    assert f"byte {len(first)} of the decompressed data: another pcap file begins here: " in made.error
    made = dump("-", stdin=first + pcap[:present])
    assert "another pcap" in made.error if present == 16 else "cut off in the block" in made.notice


def test_losses_are_not_counted_twice() -> None:
    """Packets report 3 + 4 lost, and statistics 5 of the same: 7, in the span between the stamps of the packets."""
    data = build.section() + Interface(resolution=9).block()
    data += build.enhanced(0, 1000, b"a") + build.enhanced(0, 5000, b"b", drops=3) + build.enhanced(0, 9000, b"c")
    data += build.enhanced(0, 9500, b"d", drops=4) + build.statistics(0, 20000, [(2, 100), (3, 15000), (5, 5)])
    made = dump("-", stdin=data)
    assert (made.dropped, made.drop_span) == (7, (1000, 9500))


def test_losses_of_statistics() -> None:
    """The later counter counts, and its increase is attributed to the time between the two blocks."""
    data = build.section() + Interface(resolution=9).block() + build.enhanced(0, 1000, b"a")
    data += build.statistics(0, 20_000, [(5, 0), (7, 0)])
    data += build.statistics(0, 50_000, [(3, 40_000), (5, 6), (7, 2)])
    made = dump("-", stdin=data)
    assert (made.dropped, made.drop_span) == (8, (20_000, 40_000))


def test_losses_at_an_unknown_time() -> None:
    data = build.section() + Interface(resolution=9).block() + build.statistics(0, 20_000, [(5, 6)])
    data += build.section() + Interface(resolution=9).block() + build.enhanced(0, 1, b"a")
    data += build.enhanced(0, 9, b"a", drops=2)
    made = dump("-", stdin=data)
    assert (made.dropped, made.drop_span) == (8, (0, 0))


def test_unstamped_packets_are_reported() -> None:
    data = build.section() + Interface(resolution=9).block() + build.enhanced(0, 77, b"a") + build.simple(b"abc")
    made = dump("-", stdin=data)
    assert [(frame.ts_ns, frame.quality) for frame in made.frames] == [(77, 0), (77, UNSYNCED)]
    assert "packets without a time stamp, which were given that of the packet before: 1" in made.notice


GOOD = build.section() + Interface().block() + build.enhanced(0, 5, b"good")
PACKET = build.enhanced(0, 6, b"x" * 30)
OPTIONLESS = PACKET[8:28] + bytes(32)

# A faulty block, and its error message.
FAULTS = {
    "short length": (b"\6\0\0\0\x08\0\0\0" + bytes(20), "block of type 6 claims 8 bytes"),
    "odd length": (b"\6\0\0\0\x21\0\0\0" + bytes(60), "block of type 6 claims 33 bytes"),
    "huge length": (b"\6\0\0\0\xf0\xff\xff\xff" + bytes(20), "block of type 6 claims 4294967280 bytes"),
    "long options": (b"\6\0\0\0\0\0\x20\0" + bytes(20), "block of type 6 claims 2097152 bytes"),
    "other length behind": (PACKET[:-4] + b"\x20\0\0\0", "block of 64 bytes ends with a length of 32"),
    "skipped block": (build.block(77, bytes(8))[:-4] + bytes(4), "block of 20 bytes ends with a length of 0"),
    "interface": (build.enhanced(1, 6, b"x"), "packet of interface 1, but the section has described 1 so far"),
    "captured": (PACKET[:20] + b"\x29\0\0\0" + PACKET[24:], "41 captured bytes in a block of 64"),
    "captured much": (PACKET[:20] + b"\1\0\4\0" + PACKET[24:], "262145 captured bytes, more than the 262144 that"),
    "tiny packet": (build.block(build.EPB, bytes(8)), "packet block of 20 bytes"),
    "tiny interface": (build.block(build.IDB, bytes(4)), "interface description of 16 bytes"),
    "tiny statistics": (build.block(build.ISB, bytes(4)), "interface statistics of 16 bytes"),
    "packet option": (
        build.block(build.EPB, OPTIONLESS + b"\2\0\x09\0" + bytes(4)),
        "an option of the packet runs over the block's end",
    ),
    "interface option": (
        build.block(build.IDB, b"\1\0\0\0\0\0\0\0" + b"\2\0\x09\0" + bytes(4)),
        "an option of the interface description runs over its end",
    ),
    "flags": (
        build.block(build.EPB, OPTIONLESS + b"\2\0\2\0" + bytes(4)),
        "option 2 of the packet has 2 bytes instead of 4",
    ),
    "byte order": (build.block(build.SHB, bytes(16)), "section header without a byte-order magic (00000000)"),
    "version": (
        build.block(build.SHB, b"\x4d\x3c\x2b\x1a\2\0\0\0" + b"\xff" * 8),
        "pcapng version 2.0, but only 1.0 and 1.2 are known",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_name_the_block(kind: str, tmp_path: Path) -> None:
    fault, words = FAULTS[kind]
    path = tmp_path / "broken.pcapng"
    path.write_bytes(GOOD + fault + PACKET)
    made = dump("-", stdin=path.read_bytes())
    assert [frame.fingerprint for frame in made.frames] == [fingerprint(b"good")]
    assert made.error.startswith(f"standard input: byte {len(GOOD)}: {words}")
    assert dump(path).error == made.error.replace("standard input", str(path))


def test_file_without_a_good_block_is_refused_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "broken.pcapng"
    path.write_bytes(build.section() + build.block(build.IDB, bytes(4)))
    made = dump(path)
    assert made.error == f"{path}: byte 28: interface description of 16 bytes" and not made.interfaces


@pytest.mark.parametrize(
    ("speeds", "link_bps"), [({}, 0), ({8: 10}, 10), ({16: 3}, 3), ({16: 3, 17: 5}, 5), ({16: 3, 17: 5, 8: 7}, 7)]
)
def test_link_speed(speeds: dict[int, int], link_bps: int) -> None:
    """if_speed, else if_rxspeed, else if_txspeed."""
    items = build.options([(code, speed.to_bytes(8, "big")) for code, speed in speeds.items()], ">")
    data = build.section(">") + build.block(build.IDB, b"\0\1\0\0\0\0\0\x40" + items, ">")
    made = dump("-", stdin=data)
    assert made.interfaces == [(1, 64, link_bps, 0, FILE_US, "")]


def test_packet_before_any_interface() -> None:
    made = dump("-", stdin=build.section() + build.simple(b"abc"))
    assert "packet of interface 0, but the section has described 0 so far" in made.error


def test_more_interfaces_than_can_be_numbered() -> None:
    made = dump("-q", "-", stdin=build.section() + Interface().block() * 65537)
    assert "more than 65,536 interfaces" in made.error and len(made.interfaces) == 65536


def test_long_names_and_bad_utf8() -> None:
    names = ["é" * 40, "x" * 70]
    data = build.section() + b"".join(Interface(name=name).block() for name in names)
    bad = build.options([(2, b"a\xff\xc0\xaf\x1b\xed\xa0\x80z")])
    data += build.block(build.IDB, b"\1\0\0\0\0\0\0\0" + bad)
    assert [one.name for one in dump("-", stdin=data).interfaces] == ["é" * 31, "x" * 63, "a???????z"[:9]]


def test_many_batches_of_blocks_with_options() -> None:
    """The frames of one batch are in one window of the pipe, however many there are."""
    blocks = [build.enhanced(0, number, number.to_bytes(4, "big") * 50, flags=1) for number in range(5000)]
    made = dump("-", stdin=build.section() + Interface(resolution=9).block() + b"".join(blocks))
    assert [frame.ts_ns for frame in made.frames] == list(range(5000))
    assert made.frames[4321].fingerprint == fingerprint((4321).to_bytes(4, "big") * 50)
