"""capture/decode/decode.c on other people's odd and hostile frames, against tshark if it can read them. The frames of
all files are merged into one file for each link type, because tshark takes a second to start. Permitted differences are
stated beside each rule."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from decode_tool import Decoded, Frame, driver
from decode_words import CE, IPV4, IPV6, MAC, NOBODY, TCP, TRUNCATED, UNPARSED, Address
from wild_frames import WildFrame, wild_frames, write_pcap

LINKTYPES = [0, 1, 9, 50, 101, 104, 113, 228, 229]  # that occur in these files and that the decoder parses
FIELDS = [
    "frame.len", "frame.protocols", "eth.src", "sll.src.eth", "ip.src", "ip.dst", "ip.dsfield.ecn", "ip.flags.mf",
    "ip.frag_offset", "ipv6.src", "ipv6.dst", "ipv6.tclass.ecn", "ipv6.fraghdr.more", "ipv6.fraghdr.offset",
    "tcp.seq_raw", "tcp.len", "tcp.flags",
]  # fmt: skip
# Each frame by itself.
PREFERENCES = ["ip.defragment", "ipv6.defragment", "tcp.desegment_tcp_streams"]

# Headers through which tshark finds IP and the decoder does not: Arista's time stamp header, MACsec without
# encryption, the network service header. The source is then the sender's MAC.
NOT_FOLLOWED = {"avsp", "macsec", "nsh"}
# Headers below, between and after IP headers that the decoder skips, by tshark's names.
BELOW = {"eth", "ethertype", "vlan", "ieee8021ad", "mpls", "llc", "sll", "null", "raw", "ppp", "pppoes", "chdlc"}
EXTENSIONS = {"ipv6.hopopts", "ipv6.routing", "ipv6.dstopts", "ipv6.fraghdr", "ah"}
TUNNELS = {"gre", "erspan", "vxlan", "geneve"}


class Header(NamedTuple):
    source: Address
    destination: Address
    ce: bool


class Seen(NamedTuple):
    """The values of a frame by tshark."""

    length: int
    protocols: list[str]
    mac: Address
    headers: list[Header]  # IP headers, from the outermost to the first protocol that is no tunnel
    fragment: bool
    carries: str  # that protocol
    tcp: tuple[int, int] | None  # sequence number and space


def seen(line: str) -> Seen:
    values = {field: text.split("|") if text else [] for field, text in zip(FIELDS, line.split("\t"), strict=True)}
    protocols = "".join(values["frame.protocols"]).split(":")  # none if its dissector gave up at once
    mac = (values["eth.src"] or values["sll.src.eth"] or [""])[0]
    headers, fragment, carries = stack(protocols, values)
    tcp = None
    if carries == "tcp" and values["tcp.seq_raw"] and values["tcp.len"]:
        flags = int(values["tcp.flags"][0], 16)
        tcp = (int(values["tcp.seq_raw"][0]), int(values["tcp.len"][0]) + (flags & 1) + (flags >> 1 & 1))
    sender = Address(MAC, int(mac.replace(":", ""), 16)) if mac else NOBODY
    return Seen(int(values["frame.len"][0]), protocols, sender, headers, fragment, carries, tcp)


def stack(protocols: list[str], values: dict[str, list[str]]) -> tuple[list[Header], bool, str]:
    headers: list[Header] = []
    fragment = False
    for at, protocol in enumerate(protocols):
        following = protocols[at + 1] if at + 1 < len(protocols) else ""
        if protocol in ("ip", "ipv6"):
            index = sum(header.source.family == (IPV4 if protocol == "ip" else IPV6) for header in headers)
            if index >= len(values[protocol + ".dst"]):  # its last field
                return headers, fragment, "malformed"
            headers.append(header(protocol, index, values))
            more, offset = (
                ("ip.flags.mf", "ip.frag_offset") if protocol == "ip" else ("ipv6.fraghdr.more", "ipv6.fraghdr.offset")
            )
            fragment = any(number(text) for text in values[more] + values[offset])
        elif headers and protocol == "udp" and following not in TUNNELS:
            return headers, fragment, protocol
        elif protocol not in BELOW | EXTENSIONS | TUNNELS | {"udp"}:
            return headers, fragment, protocol if headers else ""
    return headers, fragment, ""


def number(text: str) -> int:
    return {"True": 1, "False": 0}.get(text) if text in ("True", "False") else int(text, 0)


def header(protocol: str, index: int, values: dict[str, list[str]]) -> Header:
    family, ecn = (IPV4, "ip.dsfield.ecn") if protocol == "ip" else (IPV6, "ipv6.tclass.ecn")
    source, destination = (
        Address(family, int(ipaddress.ip_address(values[f"{protocol}.{end}"][index]))) for end in ("src", "dst")
    )
    return Header(source, destination, number(values[ecn][index]) == 3)


def tshark(path: Path) -> list[Seen]:
    command = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=a"]
    command += ["-d", "udp.port==8472,vxlan", "-E", "aggregator=|"]
    for preference in PREFERENCES:
        command += ["-o", f"{preference}:FALSE"]
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [seen(line) for line in lines]


@pytest.fixture(scope="module")
def wild(odd_captures: list[Path]) -> dict[int, list[WildFrame]]:
    by_linktype: dict[int, list[WildFrame]] = defaultdict(list)
    for path in odd_captures:
        for frame in wild_frames(path):
            by_linktype[frame.linktype].append(frame)
    assert len(by_linktype) > 20
    return by_linktype


def decoded(frames: list[WildFrame], linktype: int, *, inner: bool = False) -> list[Decoded]:
    return driver().decode([Frame(frame.data, frame.length) for frame in frames], linktype, inner=inner)


def test_every_wild_frame_has_its_exact_bytes(wild: dict[int, list[WildFrame]]):
    for linktype, frames in wild.items():
        for frame, packet in zip(frames, decoded(frames, linktype), strict=True):
            assert packet.bytes == frame.length
            assert bool(packet.marks & UNPARSED) or linktype in LINKTYPES, frame


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed: apt install tshark")
@pytest.mark.parametrize("linktype", LINKTYPES)
def test_wild_frames_as_tshark_reads_them(wild: dict[int, list[WildFrame]], linktype: int, tmp_path: Path):
    frames = wild[linktype]
    write_pcap(tmp_path / "frames.pcap", linktype, frames)
    dissected = tshark(tmp_path / "frames.pcap")
    assert len(dissected) == len(frames)
    compared: Counter[str] = Counter()
    for frame, want, outer, inner in zip(
        frames, dissected, decoded(frames, linktype), decoded(frames, linktype, inner=True), strict=True
    ):
        where = f"{frame.file}, frame {frame.number}, {':'.join(want.protocols)}"
        compared += Counter(compare(where, want, outer, inner))
    assert compared["source"] >= 0.75 * len(frames), "most of the frames were compared"


def compare(where: str, want: Seen, outer: Decoded, inner: Decoded) -> list[str]:
    """Compares a frame and returns the names of the compared values."""
    assert outer.bytes == inner.bytes == want.length, where
    # tshark continues in headers that contradict themselves, or gives up before the addresses.
    if outer.marks & UNPARSED:
        return ["bytes"]
    if not want.headers or NOT_FOLLOWED & set(below(want.protocols)):
        assert outer.source == want.mac and outer.flow == 0, where
        return ["bytes", "source"]
    # tshark shows fields of a fixed header that is cut off in the middle.
    if outer.source.family not in (IPV4, IPV6):
        assert outer.marks & TRUNCATED, where
        return ["bytes"]
    done = ["bytes", "source"]
    compare_header(where, want.headers[0], outer)
    # tshark 4.0 stops where a length is 0 because it does not fit (BIG TCP).
    if want.length > 65535 + 14:
        return done
    if len(want.headers) == 1:
        done += compare_tcp(where, want, outer)
    # tshark decodes the first fragment of a datagram that is a tunnel. It may also read a UDP
    # payload as another protocol than that of the port; that is no tunnel here.
    if not inner.marks & (UNPARSED | TRUNCATED) and not want.fragment:
        compare_header(where, want.headers[-1], inner)
        done += ["inner", *compare_tcp(where, want, inner)]
    return done


def below(protocols: list[str]) -> list[str]:
    """Returns the protocols below the outermost IP header."""
    return protocols[: next(at for at, protocol in enumerate(protocols) if protocol in ("ip", "ipv6"))]


def compare_header(where: str, want: Header, packet: Decoded) -> None:
    assert (packet.source, packet.destination) == (want.source, want.destination), where
    assert bool(packet.marks & CE) == want.ce, where


def compare_tcp(where: str, want: Seen, packet: Decoded) -> list[str]:
    # A fragment has the number of a part: no sequence is tracked through it.
    if want.fragment or want.carries != "tcp":
        assert not packet.marks & TCP, where
        return []
    if not want.tcp:  # the header is cut off
        assert packet.marks & TRUNCATED, where
        return []
    assert packet.marks & (TCP | TRUNCATED), where
    if packet.marks & TCP:
        assert (packet.tcp_seq, packet.tcp_len) == want.tcp, where
    return ["tcp"]
