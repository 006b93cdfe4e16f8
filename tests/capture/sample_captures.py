"""Sample captures of every format and link type, made of simulated frames; some end too early. They stand in for other
people's captures (tests/lib/captures.py), which are not part of the repository."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import capture_builder as build
import frame_builder as header
from capture_builder import Interface
from simulated import SMALL, VARIANTS
from wild_frames import wild_frames

from mburst.lab.simulate import Scenario, simulate

Packet = tuple[bytes, int]  # the captured bytes of a frame, and its length

FEW = SMALL | {"rounds": 2, "senders": 4, "bytes_per_sender": 12_000}  # the harness takes files up to 512 kB
SECOND = 1_790_000_000
IP_KINDS = {4: 0x0800, 6: 0x86DD}
PPP_KINDS = {4: 0x0021, 6: 0x0057}
FOREIGN = (105, 119, 127, 147, 163, 189, 192, 195, 203, 220, 235, 250)  # link types that the decoder does not parse
IMPOSSIBLE = "impossible_stamp.pcap"
IMPOSSIBLE_AT = 24 + 3 * (16 + 60)  # byte


def write_samples(folder: Path) -> list[Path]:
    """Writes all samples. Returns their paths."""
    folder.mkdir()
    for name, content in [*_formats(_simulated(folder)), *_links(folder), *_broken()]:
        (folder / f"{name}").write_bytes(content)
    return sorted(folder.iterdir())


def _simulated(folder: Path) -> list[Packet]:
    """Writes a file for each variant of the simulator. Returns the frames of the plain variant."""
    for name, changes in VARIANTS.items():
        made = simulate(Scenario(**FEW | changes)).write(folder / "case")
        made.pop("cache").rename(folder / f"simulated_{name.replace(', ', '_').replace(' ', '_')}.pcap")
        for path in made.values():
            path.unlink()
    (folder / "case").rmdir()
    return _packets(folder / "simulated_plain.pcap")


def _packets(path: Path) -> list[Packet]:
    return [(frame.data, frame.length) for frame in wild_frames(path)]


def _formats(packets: list[Packet]) -> Iterator[tuple[str, bytes]]:
    """The same frames in each file format, and files that end in the middle."""
    for order, ending in (("<", "little"), (">", "big")):
        for magic, unit in ((build.MAGIC_US, "us"), (build.MAGIC_NS, "ns")):
            yield f"{ending}_{unit}.pcap", pcap(packets, order=order, magic=magic)
        yield f"{ending}.pcapng", pcapng(packets, order)
    whole, blocks = pcap(packets), pcapng(packets, "<")
    for cut in (24, 31, 40, 90, len(whole) - 1):
        yield f"cut_{cut}.pcap", whole[:cut]
    for cut in (28, 150, len(blocks) - 5):
        yield f"cut_{cut}.pcapng", blocks[:cut]


def pcap(packets: Iterable[Packet], linktype: int = 1, order: str = "<", magic: int = build.MAGIC_NS) -> bytes:
    """A pcap file, with a frame each microsecond."""
    step = 1000 if magic == build.MAGIC_NS else 1
    records = (
        build.pcap_record(SECOND, number * step, data, length, order) for number, (data, length) in enumerate(packets)
    )
    return build.pcap_header(order, magic, linktype) + b"".join(records)


def pcapng(packets: Iterable[Packet], order: str) -> bytes:
    """A pcapng file with two interfaces, the second in nanoseconds."""
    interfaces = [Interface(), Interface(name="eth1", resolution=9, speed=10**9)]
    blocks = [build.section(order), *(interface.block(order) for interface in interfaces)]
    for number, (data, length) in enumerate(packets):
        blocks.append(build.enhanced(0, SECOND * 10**6 + number, data, length, order, flags=1))
        blocks.append(build.enhanced(1, SECOND * 10**9 + number * 1000, data, length, order, comment="x"))
    return b"".join(blocks)


def _links(folder: Path) -> Iterator[tuple[str, bytes]]:
    """IP packets of the simulated cases behind the header of each link type."""
    packets = {
        version: [(data[14:], length - 14) for data, length in _packets(folder / f"simulated_{name}.pcap")]
        for version, name in ((4, "marks"), (6, "marks_on_ipv6"))
    }
    both = [(version, *packet) for version, some in packets.items() for packet in some]
    heads = {
        0: {version: struct.pack("<I", family) for version, family in ((4, 2), (6, 30))},
        9: {version: header.ppp(b"", kind, framed=True) for version, kind in PPP_KINDS.items()},
        50: {version: header.ppp(b"", kind, framed=True) for version, kind in PPP_KINDS.items()},
        101: {4: b"", 6: b""},
        104: {version: b"\x0f\x00" + header.be16(kind) for version, kind in IP_KINDS.items()},
        113: {version: header.sll(b"", kind) for version, kind in IP_KINDS.items()},
        228: {4: b""},
        229: {6: b""},
    }
    for linktype, head in heads.items():
        framed = [(head[v] + data, len(head[v]) + length) for v, data, length in both if v in head]
        yield f"link_{linktype}.pcap", pcap(framed, linktype)
    for linktype in FOREIGN:
        yield f"link_{linktype}.pcap", pcap([(bytes(range(64)), 64)] * 3, linktype)


def _broken() -> Iterator[tuple[str, bytes]]:
    """A file whose fourth record has a fraction of a second of more than a second."""
    good = [build.pcap_record(SECOND, number, bytes(60)) for number in range(3)]
    yield IMPOSSIBLE, build.pcap_header() + b"".join(good) + build.pcap_record(SECOND, 2 * 10**9, bytes(60))
