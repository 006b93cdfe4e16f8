"""pcap filter expressions on files, against tcpdump, which uses the same language."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import capture_builder as build
import pytest
from capture_builder import Interface
from dump_tool import dump

ETHERNET = bytes(12) + b"\x08\x00"


def ipv4(protocol: int, port: int, size: int = 60) -> bytes:
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, protocol, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return (header + struct.pack(">HHHH", 1234, port, 8, 0)).ljust(size, b"\0")


UDP, TCP = ipv4(17, 53), ipv4(6, 80)


@pytest.mark.parametrize("expression", ["tcp", "udp port 53", "host 10.0.0.1 and not tcp", "greater 70", "ip6"])
def test_filters_select_the_same_packets_as_tcpdump(expression: str, tmp_path: Path) -> None:
    if not shutil.which("tcpdump"):
        pytest.skip("no tcpdump: apt install tcpdump")
    path = tmp_path / "x.pcap"
    records = (build.pcap_record(n, 0, ETHERNET + (UDP, TCP, ipv4(17, n, 100))[n % 3]) for n in range(2000))
    path.write_bytes(build.pcap_header() + b"".join(records))
    made = dump("-f", expression, path)
    output = subprocess.run(
        ["tcpdump", "-tt", "-n", "-r", path, expression], capture_output=True, text=True, check=True
    ).stdout
    assert [frame.ts_ns // 10**9 for frame in made.frames] == [int(line.split(".")[0]) for line in output.splitlines()]
    assert made.filtered == 2000 - len(made.frames)


@pytest.mark.parametrize("order", ["<", ">"])
def test_each_link_type_has_its_own_program(order: str, tmp_path: Path) -> None:
    """Ethernet, raw IP, cooked, and loopback with its header in the byte order of the file."""
    heads = {1: ETHERNET, 101: b"", 113: bytes(14) + b"\x08\x00", 0: struct.pack(order + "I", 2)}
    data = build.section(order)
    for linktype in heads:
        data += Interface(linktype).block(order)
    for number, head in enumerate(heads.values()):
        data += build.enhanced(number, 1, head + UDP, order=order) + build.enhanced(number, 2, head + TCP, order=order)
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    made = dump("-f", "tcp", path)
    assert [(frame.interface, frame.ts_ns) for frame in made.frames] == [(n, 2000) for n in range(4)]
    assert (made.count, made.filtered) == (4, 4)


def test_an_invalid_expression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(build.pcap_header() + build.pcap_record(1, 2, ETHERNET + TCP))
    made = dump("-f", "tcp prt 80", path)
    assert made.error.startswith("filter 'tcp prt 80' cannot be compiled for Ethernet: ")
    assert made.frames == []
    assert dump("-f", "", path).count == 1


def test_an_interface_for_which_the_filter_is_invalid(tmp_path: Path) -> None:
    """The frames before it are read, then the error is raised, and stays."""
    data = build.section() + Interface().block() + build.enhanced(0, 1, ETHERNET + TCP)
    data += Interface(147).block() + build.enhanced(1, 2, b"abc") + build.enhanced(0, 3, ETHERNET + TCP)
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    made = dump("-f", "tcp", path)
    assert [frame.ts_ns for frame in made.frames] == [1000]
    assert "filter 'tcp' cannot be compiled for link type 147: " in made.error
