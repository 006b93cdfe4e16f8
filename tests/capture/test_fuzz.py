"""The fuzzer's harness over odd and hostile captures, and over inputs that the fuzzer found."""

from __future__ import annotations

from pathlib import Path

import capture_builder as build
from building import program
from capture_builder import Interface
from dump_tool import run


def replay(*paths: Path) -> str:
    """Runs every frame through the decoder, mapped and piped, which must agree. Returns the last line of output."""
    code, output = run(program("tests/fuzz/replay.c", "tests/fuzz/fuzz_files.c"), *paths)
    assert code == 0
    return output.splitlines()[-1]


def test_odd_captures(odd_captures: list[Path]) -> None:
    assert replay(*odd_captures) == f"{len(odd_captures)} files, 0 of them too long"


def test_found_by_fuzzing(tmp_path: Path) -> None:
    """Inputs that a reader once read in two different ways, or failed on."""
    found = {
        # A record that looks less plausible as plain pcap than as Nokia's: a pipe must not guess.
        "guess": build.pcap_header(magic=build.MAGIC_US, snaplen=5, linktype=0x30000084)
        + bytes.fromhex("303830303f420f0005000000ffffffbb4d47433030"),
        "only magic": build.section()[:4],
        "two sections, the second cut": build.section() + Interface().block() + build.section(">")[:20],
    }
    for name, data in found.items():
        (tmp_path / name).write_bytes(data)
    assert replay(*tmp_path.iterdir()) == f"{len(found)} files, 0 of them too long"
